/* The fields of a record, in Python's objects: they have to be what is read here; and what others are called with. */

/* The string's bytes, of which some may be zero; NULL without an exception if it is none, or has no such bytes. */
static const char *text_of(PyObject *given, size_t *size) {
    Py_ssize_t count = 0;
    const char *found = PyUnicode_CheckExact(given) ? PyUnicode_AsUTF8AndSize(given, &count) : NULL;
    *size = (size_t)count;
    if (!found) PyErr_Clear();
    return found;
}

static int is_bytes_or_none(PyObject *given) { return given == Py_None || PyBytes_CheckExact(given); }

/* Points at what the record has of bytes or None. */
static void point_at(PyObject *given, const void **start, size_t *size) {
    *start = given == Py_None ? NULL : PyBytes_AS_STRING(given);
    *size = given == Py_None ? 0 : (size_t)PyBytes_GET_SIZE(given);
}

/* True if the number lies within the bounds; anything else than an int does not. */
static int number(PyObject *given, int64_t least, int64_t most, int64_t *found) {
    int overflow = 0;
    if (!PyLong_CheckExact(given)) return 0;
    *found = PyLong_AsLongLongAndOverflow(given, &overflow);
    return !overflow && *found >= least && *found <= most;
}

/* ---- calls of Python ---- */

/* Calls a function without arguments, whatever it gives; 0, or -1 with an exception. */
static int notify(PyObject *function) {
    PyObject *done = PyObject_CallNoArgs(function);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* What a serializer makes of it: None of None, and of bytes themselves if it is known to keep them. NULL with an
 * exception. */
static PyObject *serialized(PyObject *by, int keeps_bytes, PyObject *given) {
    int stays = given == Py_None || (keeps_bytes && PyBytes_CheckExact(given));
    return stays ? Py_NewRef(given) : PyObject_CallOneArg(by, given);
}

/* Calls put(key, value, family), or delete(key, family) where there is no value; 0, or -1 with an exception. */
static int put_or_delete(PyObject *key, PyObject *value, PyObject *const *put_delete_family) {
    PyObject *family = put_delete_family[2], *with[] = {key, value ? value : family, family};
    PyObject *done = PyObject_Vectorcall(put_delete_family[!value], with, value ? 3 : 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
