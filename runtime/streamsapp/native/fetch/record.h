/* A record, as far as tasks read confluent_kafka.Message. Made by a chunk for each record that is fetched, on the
 * thread that fetches; read by the thread that processes it, with the interpreter's lock. */
#ifndef SA_FETCH_RECORD_H
#define SA_FETCH_RECORD_H

#include <Python.h>
#include <stdint.h>

typedef struct {
    PyObject_HEAD
    PyObject *topic, *key, *value;
    PyObject *headers; /* or the exception that their names raise, for whoever asks for them */
    int64_t offset, timestamp;
    int32_t partition;
    int timestamp_type;
} Record;

extern PyTypeObject sa_record_type;

/* Takes over the references, each of which may be NULL: then there is an exception. */
Record *sa_new_record(PyObject *topic, PyObject *key, PyObject *value, PyObject *headers);

#endif
