#include "base/shapes.h"

#include <math.h>

/* Each answers 1, 0, or -1 with an exception. */
static int fits(PyObject *value, PyObject *shape);

static int is_finite(PyObject *value) { return !PyFloat_CheckExact(value) || isfinite(PyFloat_AS_DOUBLE(value)); }

static int is_scalar(PyObject *value) {
    return value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) || PyLong_CheckExact(value) ||
           (PyFloat_CheckExact(value) && is_finite(value));
}

/* True for what a reader of any JSON makes. Runs no code of Python. */
static int is_plain(PyObject *value) {
    if (is_scalar(value)) return 1;
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyDict_CheckExact(value)) return 0;
    if (Py_EnterRecursiveCall(" in a value")) return -1;
    PyObject *key, *part;
    Py_ssize_t at = 0;
    int found = 1;
    if (is_list)
        while (found == 1 && at < PyList_GET_SIZE(value)) found = is_plain(PyList_GET_ITEM(value, at++));
    else
        while (found == 1 && PyDict_Next(value, &at, &key, &part))
            found = PyUnicode_CheckExact(key) ? is_plain(part) : 0;
    Py_LeaveRecursiveCall();
    return found;
}

/* The parts may be those of a class of the user's, so its code may run in between. */
static int all_fit(PyObject *list, PyObject *shape) {
    int found = PyList_CheckExact(list);
    for (Py_ssize_t at = 0; found == 1 && at < PyList_GET_SIZE(list); at++) {
        PyObject *part = Py_NewRef(PyList_GET_ITEM(list, at));
        found = fits(part, shape);
        Py_DECREF(part);
    }
    return found;
}

static int parts_fit(PyObject *value, PyObject *names, PyObject *shapes) {
    int found =
        PyTuple_CheckExact(names) && PyTuple_CheckExact(shapes) && PyTuple_GET_SIZE(names) == PyTuple_GET_SIZE(shapes);
    for (Py_ssize_t at = 0; found == 1 && at < PyTuple_GET_SIZE(names); at++) {
        PyObject *part = PyObject_GetAttr(value, PyTuple_GET_ITEM(names, at));
        found = part ? fits(part, PyTuple_GET_ITEM(shapes, at)) : -1;
        Py_XDECREF(part);
    }
    return found;
}

static int nested_fits(PyObject *value, PyObject *shape) {
    if (Py_EnterRecursiveCall(" in a value")) return -1;
    int found = 0;
    if (PyTuple_GET_SIZE(shape) == 1) found = all_fit(value, PyTuple_GET_ITEM(shape, 0));
    else if (PyTuple_GET_SIZE(shape) == 3 && (PyObject *)Py_TYPE(value) == PyTuple_GET_ITEM(shape, 0))
        found = parts_fit(value, PyTuple_GET_ITEM(shape, 1), PyTuple_GET_ITEM(shape, 2));
    Py_LeaveRecursiveCall();
    return found;
}

static int fits(PyObject *value, PyObject *shape) {
    if (shape == Py_None) return is_plain(value);
    if (PyType_Check(shape)) return (PyObject *)Py_TYPE(value) == shape && is_finite(value);
    if (PyTuple_CheckExact(shape)) return nested_fits(value, shape);
    if (!PyFrozenSet_CheckExact(shape)) return 0;
    int found = PySet_Contains(shape, (PyObject *)Py_TYPE(value));
    return found == 1 ? is_finite(value) : found;
}

int sa_fits_shape(PyObject *value, PyObject *shape) {
    int found = fits(value, shape);
    if (found >= 0 || !PyErr_ExceptionMatches(PyExc_Exception)) return found;
    PyErr_Clear(); /* an attribute is missing, or the value is too deep */
    return 0;
}

PyObject *sa_fits(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "fits: takes a value and a shape, not %zd arguments", count);
    int found = sa_fits_shape(given[0], given[1]);
    return found < 0 ? NULL : PyBool_FromLong(found);
}
