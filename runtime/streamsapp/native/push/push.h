/* Push functions, which take a record as (key, value, timestamp, headers): those of C call the next one directly if it
 * is of C as well. Called for each record by the thread that processes it, with the interpreter's lock. */
#ifndef SA_PUSH_PUSH_H
#define SA_PUSH_PUSH_H

#include <Python.h>

enum { KEY, VALUE, TIMESTAMP, HEADERS, PUSHED };

/* Pushes a record; 0, or -1 with an exception. */
int sa_push(PyObject *to, PyObject *const *given);

/* The call of a push function by Python. */
PyObject *sa_call_push(PyObject *self, PyObject *const *given, size_t flags, PyObject *names);

/* Lets somebody handle the exception that is raised, who is called as in an except clause. */
int sa_handled(PyObject *by, PyObject *const *given, size_t count);

/* True if there are a topic and a function that emits records for it, or neither; false with an exception. */
int sa_have_topic_to_emit(const char *by, PyObject *topic, PyObject *emit);

/* Takes over the record, which may be NULL; 0, or -1 with an exception. */
static inline int emit_record(PyObject *emit, PyObject *record) {
    PyObject *done = record ? PyObject_CallOneArg(emit, record) : NULL;
    Py_XDECREF(record);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

#endif
