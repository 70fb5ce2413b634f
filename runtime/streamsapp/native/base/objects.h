/* Python's objects: their values in C, and calls of Python. Called by all others, for each record by most; with the
 * interpreter's lock. */
#ifndef SA_BASE_OBJECTS_H
#define SA_BASE_OBJECTS_H

#include <Python.h>
#include <stdint.h>

/* The bytes of the string; some may be zero. NULL without an exception if it is none, or has no such bytes. */
static inline const char *text_of(PyObject *given, size_t *size) {
    Py_ssize_t count = 0;
    const char *found = PyUnicode_CheckExact(given) ? PyUnicode_AsUTF8AndSize(given, &count) : NULL;
    *size = (size_t)count;
    if (!found) PyErr_Clear();
    return found;
}

static inline int is_bytes_or_none(PyObject *given) { return given == Py_None || PyBytes_CheckExact(given); }

/* Points at what the record has of bytes or None. */
static inline void point_at(PyObject *given, const void **start, size_t *size) {
    *start = given == Py_None ? NULL : PyBytes_AS_STRING(given);
    *size = given == Py_None ? 0 : (size_t)PyBytes_GET_SIZE(given);
}

/* True if the number lies within the bounds; anything else than an int does not. */
static inline int number(PyObject *given, int64_t least, int64_t most, int64_t *found) {
    int overflow = 0;
    if (!PyLong_CheckExact(given)) return 0;
    *found = PyLong_AsLongLongAndOverflow(given, &overflow);
    return !overflow && *found >= least && *found <= most;
}

static inline PyObject *bytes_or_none(const void *at, size_t size) {
    return at ? PyBytes_FromStringAndSize(at, (Py_ssize_t)size) : Py_NewRef(Py_None);
}

static inline int are_integers(PyObject *const *given, Py_ssize_t count, int64_t *found) {
    for (Py_ssize_t i = 0; i < count; i++) {
        found[i] = PyLong_AsLongLong(given[i]);
        if (found[i] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

static inline int by_bytes(PyObject *a, PyObject *b) {
    Py_ssize_t size = Py_SIZE(a) < Py_SIZE(b) ? Py_SIZE(a) : Py_SIZE(b);
    int found = memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), (size_t)size);
    return found ? found : (Py_SIZE(a) > Py_SIZE(b)) - (Py_SIZE(a) < Py_SIZE(b));
}

static inline int is_key(PyObject *given) {
    if (PyBytes_Check(given)) return 1;
    PyErr_SetString(PyExc_TypeError, "a store's key is its bytes");
    return 0;
}

static inline int append(PyObject *list, PyObject *item) {
    int failed = !item || PyList_Append(list, item);
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

/* A part of a pair: of a tuple, or of a cell of a store. A new reference; NULL with an exception. */
static inline PyObject *part_of(PyObject *pair, Py_ssize_t at) {
    if (PyTuple_CheckExact(pair) && at < PyTuple_GET_SIZE(pair)) return Py_NewRef(PyTuple_GET_ITEM(pair, at));
    return PySequence_GetItem(pair, at);
}

/* The exception that is raised, which is not any more. */
PyObject *sa_caught(void);

/* ---- calls of Python ---- */

/* Calls a function without arguments, whatever it gives; 0, or -1 with an exception. */
static inline int notify(PyObject *function) {
    PyObject *done = PyObject_CallNoArgs(function);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The bytes that a serializer gives: None of None, and of bytes themselves if it is known to keep them. NULL with an
 * exception. */
static inline PyObject *serialized(PyObject *by, int keeps_bytes, PyObject *given) {
    int stays = given == Py_None || (keeps_bytes && PyBytes_CheckExact(given));
    return stays ? Py_NewRef(given) : PyObject_CallOneArg(by, given);
}

/* A write batch of RocksDB, by its calls. */
typedef struct {
    PyObject *put, *delete, *family;
} WriteBatch;

/* Calls put(key, value, family), or delete(key, family) where there is no value; 0, or -1 with an exception. */
int sa_put_or_delete(const WriteBatch *batch, PyObject *key, PyObject *value);

#endif
