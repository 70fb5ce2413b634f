#include "push/rows.h"

#include "base/objects.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *key_bytes, *read;
    PyObject *from_stored; /* None: values are stored as they are */
} StoredRows;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *rows, *compute;
} ComputedRows;

/* Takes over the row, and borrows its time; NULL with an exception, as if either is NULL. */
static PyObject *row_and_time(PyObject *row, PyObject *time) {
    PyObject *made = row && time ? PyTuple_Pack(2, row, time) : NULL;
    Py_XDECREF(row);
    return made;
}

static PyObject *stored_row(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const StoredRows *self = (StoredRows *)called;
    if (PyVectorcall_NARGS(flags) != 1 || names) return PyErr_Format(PyExc_TypeError, "StoredRows takes a key");
    PyObject *key = PyObject_CallOneArg(self->key_bytes, given[0]);
    PyObject *entry = key ? PyObject_CallOneArg(self->read, key) : NULL;
    Py_XDECREF(key);
    if (!entry || self->from_stored == Py_None) return entry;
    PyObject *stored = part_of(entry, 0), *time = part_of(entry, 1);
    PyObject *found = row_and_time(stored && time ? PyObject_CallOneArg(self->from_stored, stored) : NULL, time);
    Py_XDECREF(time);
    Py_XDECREF(stored);
    Py_DECREF(entry);
    return found;
}

/* The row that is computed from one, which has the time of that one; (None, -1) if it is none. */
static PyObject *computed_from(const ComputedRows *self, PyObject *key, PyObject *row, PyObject *time) {
    PyObject *of[] = {key, row}, *computed = PyObject_Vectorcall(self->compute, of, 2, NULL);
    if (computed != Py_None) return row_and_time(computed, time);
    PyObject *never = PyLong_FromLong(-1), *absent = row_and_time(computed, never);
    Py_XDECREF(never);
    return absent;
}

static PyObject *computed_row(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const ComputedRows *self = (ComputedRows *)called;
    if (PyVectorcall_NARGS(flags) != 1 || names) return PyErr_Format(PyExc_TypeError, "ComputedRows takes a key");
    PyObject *entry = PyObject_CallOneArg(self->rows, given[0]);
    PyObject *row = entry ? part_of(entry, 0) : NULL, *time = row ? part_of(entry, 1) : NULL;
    PyObject *found = time ? computed_from(self, given[0], row, time) : NULL;
    Py_XDECREF(time);
    Py_XDECREF(row);
    Py_XDECREF(entry);
    return found;
}

static int complete_stored(PyObject *made) {
    ((StoredRows *)made)->call = stored_row;
    return 0;
}

static int complete_computed(PyObject *made) {
    ((ComputedRows *)made)->call = computed_row;
    return 0;
}

static const Field stored_fields[] = {FIELD(StoredRows, key_bytes, FUNCTION),
                                      FIELD(StoredRows, read, FUNCTION),
                                      FIELD(StoredRows, from_stored, FUNCTION, .may_be_none = 1),
                                      {0}};

static const Field computed_fields[] = {
    FIELD(ComputedRows, rows, FUNCTION), FIELD(ComputedRows, compute, FUNCTION), {0}};

MadeType sa_stored_rows_type = {
    .type = {CALLED(StoredRows)},
    .fields = stored_fields,
    .complete = complete_stored,
};

MadeType sa_computed_rows_type = {
    .type = {CALLED(ComputedRows)},
    .fields = computed_fields,
    .complete = complete_computed,
};
