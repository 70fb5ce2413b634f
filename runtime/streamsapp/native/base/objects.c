#include "base/objects.h"

PyObject *sa_caught(void) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

int sa_put_or_delete(PyObject *key, PyObject *value, PyObject *const *put_delete_family) {
    PyObject *family = put_delete_family[2], *with[] = {key, value ? value : family, family};
    PyObject *done = PyObject_Vectorcall(put_delete_family[!value], with, value ? 3 : 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
