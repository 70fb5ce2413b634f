/* The serde of bytes. Called several times for each record; with the interpreter's lock. */
#ifndef SA_VALUES_PLAIN_BYTES_H
#define SA_VALUES_PLAIN_BYTES_H

#include <Python.h>

/* require_bytes(value), described in compiled.pyi. */
PyObject *sa_require_bytes(PyObject *module, PyObject *value);

#endif
