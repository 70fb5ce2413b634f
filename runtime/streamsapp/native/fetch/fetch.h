/* A consumer's records, errors and messages of its log, a batch at a time, from librdkafka. Called by the thread that
 * the client belongs to; it waits without the interpreter's lock. */
#ifndef SA_FETCH_FETCH_H
#define SA_FETCH_FETCH_H

#include <Python.h>

PyObject *sa_fetch(PyObject *module, PyObject *args);

#endif
