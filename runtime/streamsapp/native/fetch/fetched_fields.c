#include "fetch/fetched_fields.h"

/* (name, value), or the exception that the name raises; NULL with another one. */
static PyObject *read_header(Reader *reader) {
    int64_t size = read_varint(reader);
    const unsigned char *at = size < 0 ? NULL : read_bytes(reader, (uint64_t)size);
    if (!at) break_reader(reader);
    PyObject *value = read_field(reader);
    PyObject *name = value ? PyUnicode_DecodeUTF8((const char *)at, at ? (Py_ssize_t)size : 0, NULL) : NULL;
    PyObject *pair = name ? PyTuple_Pack(2, name, value) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return pair || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) ? pair : sa_caught();
}

PyObject *sa_read_headers(Reader *reader) {
    int64_t count = read_varint(reader);
    if (count < 0 || (uint64_t)count > left_in(reader) / 2) break_reader(reader);
    if (!count || reader->broken) return Py_NewRef(Py_None);
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result && i < count && !reader->broken; i++) {
        PyObject *header = read_header(reader);
        if (header && PyTuple_Check(header)) {
            if (PyList_CheckExact(result) && PyList_Append(result, header)) Py_CLEAR(result);
            Py_DECREF(header);
        } else if (!header || PyList_CheckExact(result)) Py_XSETREF(result, header); /* of several names the first */
        else Py_DECREF(header);
    }
    return result;
}
