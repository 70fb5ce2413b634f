#include "cells/cell.h"

#include <string.h>
#include <structmember.h>

#include "base/byte_order.h"
#include "base/fields.h"
#include "base/output_record.h"

Cell *sa_new_cell(PyObject *physical, uint64_t count, int64_t timestamp) {
    Cell *cell = physical ? PyObject_New(Cell, &sa_cell_type) : NULL;
    if (!cell) {
        Py_XDECREF(physical);
        return NULL;
    }
    cell->physical = physical;
    cell->timestamp = timestamp;
    cell->count = count;
    for (int i = 0; i < PLACES; i++) cell->places[i].log = 0; /* which no log is */
    cell->generation = 0;
    cell->is_there = 1;
    cell->held = 0;
    return cell;
}

static void cell_dealloc(Cell *self) {
    Py_DECREF(self->physical);
    PyObject_Free(self);
}

static Py_ssize_t cell_length(Cell *self) { return 2; }

static PyObject *cell_item(Cell *self, Py_ssize_t at) {
    if (at == 0) return count_of(self);
    if (at == 1) return PyLong_FromLongLong(self->timestamp);
    PyErr_SetString(PyExc_IndexError, "a cell has a count and a timestamp");
    return NULL;
}

int sa_set_cell(Cell *self, Py_ssize_t at, PyObject *given) {
    if (at < 0 || at > 1 || !given) {
        PyErr_SetString(PyExc_IndexError, "a cell has a count and a timestamp");
        return -1;
    }
    int is_there = at || given != Py_None;
    int64_t found = is_there ? PyLong_AsLongLong(given) : 0;
    if (found == -1 && PyErr_Occurred()) return -1;
    if (at) {
        self->timestamp = found;
        return 0;
    }
    self->count = (uint64_t)found;
    self->is_there = is_there ? 1 : 0;
    return 0;
}

/* The fields of a cell that Python makes. */
typedef struct {
    PyObject *key, *stored;
    int64_t timestamp;
} Entry;

static const Field entry_fields[] = {
    FIELD(Entry, key, OBJECT, .type = &PyBytes_Type), FIELD(Entry, stored, OBJECT), FIELD(Entry, timestamp, LONG), {0}};

static PyObject *cell_new(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    Entry entry;
    if (sa_take_fields("Cell", entry_fields, given, PyVectorcall_NARGS(flags), names, &entry)) return NULL;
    Cell *cell = sa_new_cell(Py_NewRef(entry.key), 0, entry.timestamp);
    if (cell && sa_set_cell(cell, 0, entry.stored)) Py_CLEAR(cell);
    return (PyObject *)cell;
}

static PyMemberDef cell_members[] = {{"held", T_UINT, offsetof(Cell, held), 0, NULL}, {0}};

static PySequenceMethods cell_sequence = {
    .sq_length = (lenfunc)cell_length, .sq_item = (ssizeargfunc)cell_item, .sq_ass_item = (ssizeobjargproc)sa_set_cell};

PyTypeObject sa_cell_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Cell",
    .tp_basicsize = sizeof(Cell),
    .tp_vectorcall = cell_new,
    .tp_dealloc = (destructor)cell_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = cell_members,
    .tp_as_sequence = &cell_sequence,
};

PyObject *sa_told_by(const Cell *cell, PyObject *topic, PyObject *key, int64_t at) {
    char number[COUNT_SIZE];
    uint64_t count = htobe64(cell->count);
    memcpy(number, &count, sizeof(number));
    PyObject *value = !key ? NULL : cell->is_there ? PyBytes_FromStringAndSize(number, COUNT_SIZE) : Py_NewRef(Py_None);
    PyObject *timestamp = value ? PyLong_FromLongLong(at) : NULL;
    PyObject *made = timestamp ? output_record(topic, key, value, timestamp, Py_None) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(key);
    Py_XDECREF(timestamp);
    return made;
}

PyObject *sa_key_told(const Cell *cell, Hidden hidden) {
    Py_ssize_t size = PyBytes_GET_SIZE(cell->physical) - hidden.before - hidden.behind;
    if (!hidden.before && !hidden.behind) return Py_NewRef(cell->physical);
    if (size < 0) return PyErr_Format(PyExc_ValueError, "a key lacks %zd bytes of those that are hidden", -size);
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(cell->physical) + hidden.before, size);
}
