#include "push/push.h"

#include <string.h>

int sa_push(PyObject *to, PyObject *const *given) {
    if (Py_TYPE(to)->tp_vectorcall == sa_make_push) return ((PushType *)Py_TYPE(to))->run(to, given);
    PyObject *done = PyObject_Vectorcall(to, given, PUSHED, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The call of a push function by Python. */
static PyObject *call_push(PyObject *self, PyObject *const *given, size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) != PUSHED || names)
        return PyErr_Format(PyExc_TypeError, "%s takes key, value, timestamp, headers", Py_TYPE(self)->tp_name);
    return sa_push(self, given) ? NULL : Py_NewRef(Py_None);
}

PyObject *sa_make_push(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    PyObject *self = sa_make(type, given, flags, names);
    if (self) ((Push *)self)->call = call_push;
    return self;
}

int sa_handled(PyObject *by, PyObject *const *given, size_t count) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyObject *type, *error, *trace, *outer[3], *told[PUSHED + 1];
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    PyErr_GetExcInfo(&outer[0], &outer[1], &outer[2]);
    PyErr_SetExcInfo(Py_XNewRef(type), Py_XNewRef(error), Py_XNewRef(trace)); /* takes them over */
    told[0] = error;
    memcpy(told + 1, given, count * sizeof(*given));
    PyObject *done = PyObject_Vectorcall(by, told, count + 1, NULL);
    PyErr_SetExcInfo(outer[0], outer[1], outer[2]);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
