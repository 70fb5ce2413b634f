#include "values/copies.h"

typedef PyObject *(*Copy)(PyObject *part, PyObject *shape);

/* The types of parts that cannot be changed are shapes themselves, and so are sets of them. */
static int is_scalar(PyObject *shape) { return PyType_Check(shape) || PyFrozenSet_CheckExact(shape); }

static int is_container(PyObject *part) { return PyList_CheckExact(part) || PyDict_CheckExact(part); }

static int is_shared(PyObject *part, PyObject *shape) {
    return is_scalar(shape) || (shape == Py_None && !is_container(part));
}

static PyTypeObject *kind_of(PyObject *shape) { return (PyTypeObject *)PyTuple_GET_ITEM(shape, 0); }

/* A class that does not is a structure of msgspec whose parts cannot be changed. */
static int is_made_as_object(PyObject *shape) { return kind_of(shape)->tp_new == PyBaseObject_Type.tp_new; }

/* ---- lists and dictionaries, which are packed as such ---- */

static PyObject *copied_list(PyObject *list, PyObject *shape, Copy copy_part) {
    PyObject *copy = PyList_GetSlice(list, 0, PyList_GET_SIZE(list));
    for (Py_ssize_t at = 0; copy && at < PyList_GET_SIZE(copy); at++) {
        if (is_shared(PyList_GET_ITEM(copy, at), shape)) continue;
        PyObject *part = copy_part(PyList_GET_ITEM(copy, at), shape);
        if (!part || PyList_SetItem(copy, at, part)) Py_CLEAR(copy);
    }
    return copy;
}

static PyObject *copied_dict(PyObject *dict, Copy copy_part) {
    PyObject *copy = PyDict_Copy(dict), *key, *part;
    Py_ssize_t at = 0;
    while (copy && PyDict_Next(dict, &at, &key, &part)) {
        if (!is_container(part)) continue;
        PyObject *copied = copy_part(part, Py_None);
        if (!copied || PyDict_SetItem(copy, key, copied)) Py_CLEAR(copy);
        Py_XDECREF(copied);
    }
    return copy;
}

static PyObject *copied_container(PyObject *container, PyObject *shape, Copy copy_part) {
    if (Py_EnterRecursiveCall(" in a value")) return NULL;
    PyObject *of_parts = shape == Py_None ? shape : PyTuple_GET_ITEM(shape, 0);
    PyObject *copy =
        PyList_CheckExact(container) ? copied_list(container, of_parts, copy_part) : copied_dict(container, copy_part);
    Py_LeaveRecursiveCall();
    return copy;
}

/* ---- instances ---- */

static PyObject *copied_structure(PyObject *value) { return PyObject_CallMethod(value, "__copy__", NULL); }

static PyObject *packed_instance(PyObject *value, PyObject *shape) {
    if (!is_made_as_object(shape)) return copied_structure(value);
    PyObject *names = PyTuple_GET_ITEM(shape, 1), *packed = PyTuple_New(PyTuple_GET_SIZE(names));
    for (Py_ssize_t at = 0; packed && at < PyTuple_GET_SIZE(names); at++) {
        PyObject *part = PyObject_GetAttr(value, PyTuple_GET_ITEM(names, at));
        PyObject *copied = part ? sa_pack_value(part, PyTuple_GET_ITEM(PyTuple_GET_ITEM(shape, 2), at)) : NULL;
        Py_XDECREF(part);
        if (copied) PyTuple_SET_ITEM(packed, at, copied);
        else Py_CLEAR(packed);
    }
    return packed;
}

static PyObject *unpacked_instance(PyObject *packed, PyObject *shape) {
    if (!is_made_as_object(shape)) return copied_structure(packed);
    PyObject *names = PyTuple_GET_ITEM(shape, 1), *shapes = PyTuple_GET_ITEM(shape, 2);
    PyObject *made = kind_of(shape)->tp_alloc(kind_of(shape), 0);
    for (Py_ssize_t at = 0; made && at < PyTuple_GET_SIZE(names); at++) {
        PyObject *part = sa_unpack_value(PyTuple_GET_ITEM(packed, at), PyTuple_GET_ITEM(shapes, at));
        if (!part || PyObject_GenericSetAttr(made, PyTuple_GET_ITEM(names, at), part)) Py_CLEAR(made);
        Py_XDECREF(part);
    }
    return made;
}

/* ---- values ---- */

PyObject *sa_pack_value(PyObject *value, PyObject *shape) {
    if (is_shared(value, shape)) return Py_NewRef(value);
    if (is_container(value)) return copied_container(value, shape, sa_pack_value);
    return packed_instance(value, shape);
}

PyObject *sa_unpack_value(PyObject *packed, PyObject *shape) {
    if (is_shared(packed, shape)) return Py_NewRef(packed);
    if (is_container(packed)) return copied_container(packed, shape, sa_unpack_value);
    return unpacked_instance(packed, shape);
}

static int same_lists(PyObject *list, PyObject *packed, PyObject *shape) {
    int same = PyList_CheckExact(list) && PyList_GET_SIZE(list) == PyList_GET_SIZE(packed);
    for (Py_ssize_t at = 0; same == 1 && at < PyList_GET_SIZE(packed); at++) {
        PyObject *part = at < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, at)) : NULL;
        same = part ? sa_is_unchanged(part, PyList_GET_ITEM(packed, at), shape) : 0;
        Py_XDECREF(part);
    }
    return same;
}

/* Runs no code of Python: the parts are those of JSON. */
static int same_dicts(PyObject *dict, PyObject *packed) {
    int same = PyDict_CheckExact(dict) && PyDict_GET_SIZE(dict) == PyDict_GET_SIZE(packed);
    PyObject *key, *part, *packed_key, *packed_part;
    Py_ssize_t at = 0, packed_at = 0;
    while (same == 1 && PyDict_Next(packed, &packed_at, &packed_key, &packed_part))
        same = PyDict_Next(dict, &at, &key, &part) && key == packed_key && sa_is_unchanged(part, packed_part, Py_None);
    return same;
}

static int same_part(PyObject *value, PyObject *name, PyObject *packed, PyObject *shape) {
    PyObject *part = PyObject_GetAttr(value, name);
    if (!part && !PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    if (!part) PyErr_Clear(); /* it is no more */
    int same = part ? sa_is_unchanged(part, packed, shape) : 0;
    Py_XDECREF(part);
    return same;
}

static int same_instances(PyObject *value, PyObject *packed, PyObject *shape) {
    PyObject *names = PyTuple_GET_ITEM(shape, 1), *shapes = PyTuple_GET_ITEM(shape, 2);
    int same = Py_IS_TYPE(value, kind_of(shape)) && PyTuple_CheckExact(packed); /* a structure may be another one */
    for (Py_ssize_t at = 0; same == 1 && at < PyTuple_GET_SIZE(names); at++)
        same =
            same_part(value, PyTuple_GET_ITEM(names, at), PyTuple_GET_ITEM(packed, at), PyTuple_GET_ITEM(shapes, at));
    return same;
}

int sa_is_unchanged(PyObject *value, PyObject *packed, PyObject *shape) {
    if (is_shared(packed, shape)) return value == packed;
    if (!is_container(packed)) return same_instances(value, packed, shape);
    if (Py_EnterRecursiveCall(" in a value")) return -1;
    int same = PyDict_CheckExact(packed)
                   ? same_dicts(value, packed)
                   : same_lists(value, packed, shape == Py_None ? shape : PyTuple_GET_ITEM(shape, 0));
    Py_LeaveRecursiveCall();
    return same;
}
