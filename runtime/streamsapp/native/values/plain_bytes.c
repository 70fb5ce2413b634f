#include "values/plain_bytes.h"

/* Raises the error that Python's part of the serdes makes. */
static PyObject *refused(PyObject *value) {
    PyObject *suggestions = PyImport_ImportModule("streamsapp.serdes.suggestion");
    PyObject *error = suggestions ? PyObject_CallMethod(suggestions, "wrong_type", "Os", value, "bytes") : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(suggestions);
    return NULL;
}

PyObject *sa_require_bytes(PyObject *module, PyObject *value) {
    return PyBytes_Check(value) ? Py_NewRef(value) : refused(value);
}
