#include "base/objects.h"

PyObject *sa_caught(void) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

int sa_put_or_delete(const WriteBatch *batch, PyObject *key, PyObject *value) {
    PyObject *with[] = {key, value ? value : batch->family, batch->family};
    PyObject *done = PyObject_Vectorcall(value ? batch->put : batch->delete, with, value ? 3 : 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
