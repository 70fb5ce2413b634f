/* Records that are sent, as streamsapp.outgoing.OutputRecord has them: tuples, whose items have their places here. Made
 * for each record by what sends it, read by an Outbox; with the interpreter's lock. */
#ifndef SA_BASE_OUTPUT_RECORD_H
#define SA_BASE_OUTPUT_RECORD_H

#include <Python.h>

/* The two in the middle are None. */
enum {
    OUTPUT_TOPIC,
    OUTPUT_VALUE,
    OUTPUT_KEY,
    OUTPUT_PARTITION,
    OUTPUT_NONE,
    OUTPUT_NONE_TOO,
    OUTPUT_TIMESTAMP,
    OUTPUT_HEADERS,
    OUTPUT_SIZE
};

/* A record whose partition is left to the hash of its key; NULL with an exception. */
static inline PyObject *output_record(PyObject *topic, PyObject *key, PyObject *value, PyObject *timestamp,
                                      PyObject *headers) {
    PyObject *partition = PyLong_FromLong(-1);
    PyObject *made = partition
                         ? PyTuple_Pack(OUTPUT_SIZE, topic, value, key, partition, Py_None, Py_None, timestamp, headers)
                         : NULL;
    Py_XDECREF(partition);
    return made;
}

static inline int is_output_record(PyObject *given) {
    return PyTuple_CheckExact(given) && PyTuple_GET_SIZE(given) == OUTPUT_SIZE;
}

#endif
