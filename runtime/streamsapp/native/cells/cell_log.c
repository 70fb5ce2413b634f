#include "cells/cell_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/large_pages.h"
#include "base/objects.h"
#include "cells/cell_run.h"

CellLog *sa_new_log(Py_ssize_t room) {
    static long long numbers = 0;
    CellLog *self = PyObject_New(CellLog, &sa_cell_log_type);
    if (!self) return NULL;
    self->writes = room ? PyMem_Malloc((size_t)room * sizeof(Write)) : NULL;
    self->room = self->writes ? room : 0;
    self->size = 0;
    self->number = ++numbers;
    if (room && !self->writes) {
        Py_DECREF(self);
        return (CellLog *)PyErr_NoMemory();
    }
    return self;
}

static void log_dealloc(CellLog *self) {
    for (Py_ssize_t i = 0; i < self->size; i++) {
        look_ahead_to_change(self, i, 0);
        Py_DECREF(self->writes[i].cell);
    }
    PyMem_Free(self->writes);
    PyObject_Free(self);
}

int sa_widen_log(CellLog *self, Py_ssize_t more) {
    Py_ssize_t room = 2 * self->room > self->size + more ? 2 * self->room : self->size + more;
    Write *writes = PyMem_Realloc(self->writes, (size_t)room * sizeof(Write));
    if (!writes) {
        PyErr_NoMemory();
        return -1;
    }
    sa_wish_large_pages(writes, (size_t)room * sizeof(Write));
    self->writes = writes;
    self->room = room;
    return 0;
}

/* ---- as Python sees it ---- */

static Py_ssize_t log_length(CellLog *self) { return self->size; }

/* (count or None, timestamp) */
static PyObject *entry_written(const Write write) {
    PyObject *count = count_written(&write);
    return count ? Py_BuildValue("(NL)", count, (long long)write.timestamp) : NULL;
}

PyObject *sa_item_written(const Write write, Py_ssize_t hidden) {
    size_t size;
    const char *shown = shown_key(&write, hidden, &size);
    if (!shown) return NULL;
    PyObject *key = hidden ? PyBytes_FromStringAndSize(shown, (Py_ssize_t)size) : Py_NewRef(write.cell->physical);
    PyObject *entry = key ? entry_written(write) : NULL;
    PyObject *made = entry ? PyTuple_Pack(2, key, entry) : NULL;
    Py_XDECREF(entry);
    Py_XDECREF(key);
    return made;
}

static PyObject *log_item(CellLog *self, Py_ssize_t at) {
    const Write *write = write_at(self, 0, self->size, at);
    return write ? sa_item_written(*write, 0) : NULL;
}

/* entry(cell): its last written entry; None if there is none, or for anything else than a cell. Of two epochs in a row,
 * or of all that wait, as a cell does not know its places in earlier ones. */
static PyObject *log_entry(CellLog *self, PyObject *given) {
    const Cell *cell = Py_IS_TYPE(given, &sa_cell_type) ? (Cell *)given : NULL;
    for (int i = 0; cell && i < PLACES; i++)
        if (cell->places[i].log == self->number) return entry_written(self->writes[cell->places[i].at]);
    Py_RETURN_NONE;
}

/* cell(at) */
static PyObject *log_cell(CellLog *self, PyObject *given) {
    Py_ssize_t at = PyNumber_AsSsize_t(given, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred()) return NULL;
    const Write *write = write_at(self, 0, self->size, at);
    return write ? Py_NewRef(write->cell) : NULL;
}

/* keys_from(begin): the keys of all writes from there on. */
static PyObject *log_keys_from(CellLog *self, PyObject *given) {
    Py_ssize_t begin = PyLong_AsSsize_t(given);
    if (begin == -1 && PyErr_Occurred()) return NULL;
    if (begin < 0 || begin > self->size) begin = self->size;
    Py_ssize_t size = self->size - begin;
    PyObject *keys = PyList_New(size);
    for (Py_ssize_t i = 0; keys && i < size; i++)
        PyList_SET_ITEM(keys, i, Py_NewRef(self->writes[begin + i].cell->physical));
    return keys;
}

/* Some writes in a row. */
static PyObject *log_part(CellLog *self, PyObject *slice) {
    PyObject *all = sa_new_run(self, 0, self->size, 0);
    PyObject *part = all ? PyObject_GetItem(all, slice) : NULL;
    Py_XDECREF(all);
    return part;
}

/* behind(size): all writes, with keys without so many bytes before them. */
static PyObject *log_behind(CellLog *self, PyObject *given) {
    Py_ssize_t hidden = PyLong_AsSsize_t(given);
    if (hidden == -1 && PyErr_Occurred()) return NULL;
    if (hidden < 0) return PyErr_Format(PyExc_ValueError, "keys have not %zd bytes less", hidden);
    return sa_new_run(self, 0, self->size, hidden);
}

static PyObject *log_subscript(CellLog *self, PyObject *given) {
    if (PySlice_Check(given)) return log_part(self, given);
    Py_ssize_t at = PyNumber_AsSsize_t(given, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred()) return NULL;
    return log_item(self, at < 0 ? at + self->size : at);
}

/* absorb(newer): takes the writes of another log, one for each cell. */
static PyObject *log_absorb(CellLog *self, PyObject *given) {
    if (!Py_IS_TYPE(given, &sa_cell_log_type)) return PyErr_Format(PyExc_TypeError, "a log absorbs another one");
    const CellLog *newer = (CellLog *)given;
    if (reserve(self, newer->size)) return NULL;
    for (Py_ssize_t i = 0; i < newer->size; i++) {
        look_ahead_to_change(newer, i, 1);
        Write *write = write_of(self, newer->writes[i].cell, IN_BACKLOG);
        *write = newer->writes[i];
    }
    Py_RETURN_NONE;
}

/* ---- in order ---- */

typedef struct {
    uint64_t next; /* bytes after the bytes that all keys begin with */
    PyObject *key;
    Py_ssize_t at;
} Ranked;

static int by_key(const void *a, const void *b) {
    const Ranked *one = a, *other = b;
    if (one->next != other->next) return one->next < other->next ? -1 : 1;
    int found = by_bytes(one->key, other->key);
    return found ? found : one->at < other->at ? -1 : 1;
}

/* How many bytes all keys begin with. */
static size_t shared_bytes(const CellLog *self) {
    PyObject *first = self->writes[0].cell->physical;
    size_t shared = (size_t)PyBytes_GET_SIZE(first);
    for (Py_ssize_t i = 1; i < self->size && shared; i++) {
        look_ahead(self, i);
        PyObject *key = self->writes[i].cell->physical;
        size_t size = (size_t)PyBytes_GET_SIZE(key), same = 0;
        while (same < shared && same < size && PyBytes_AS_STRING(key)[same] == PyBytes_AS_STRING(first)[same]) same++;
        shared = same;
    }
    return shared;
}

static Ranked *ranked(const CellLog *self) {
    Ranked *all = PyMem_Malloc((size_t)(self->size + 1) * sizeof(*all));
    size_t shared = all && self->size ? shared_bytes(self) : 0;
    for (Py_ssize_t i = 0; all && i < self->size; i++) {
        look_ahead(self, i);
        PyObject *key = self->writes[i].cell->physical;
        size_t size = (size_t)PyBytes_GET_SIZE(key) - shared;
        uint64_t next = 0;
        memcpy(&next, PyBytes_AS_STRING(key) + shared, size < sizeof(next) ? size : sizeof(next));
        all[i] = (Ranked){be64toh(next), key, i};
    }
    return all ? all : (Ranked *)PyErr_NoMemory();
}

/* in_order(): a log of the last write of each key, by key. */
static PyObject *log_in_order(CellLog *self, PyObject *none) {
    Py_ssize_t size = self->size;
    Ranked *all = ranked(self);
    CellLog *sorted = all ? sa_new_log(size) : NULL;
    if (sorted) {
        Py_BEGIN_ALLOW_THREADS /* a log only grows, so it keeps the keys */
        qsort(all, (size_t)size, sizeof(*all), by_key);
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; sorted && i < size; i++) {
        if (i + 2 * AHEAD < size) __builtin_prefetch(&self->writes[all[i + 2 * AHEAD].at]);
        if (i + AHEAD < size) __builtin_prefetch(self->writes[all[i + AHEAD].at].cell);
        if (i + 1 == size || all[i].next != all[i + 1].next || by_bytes(all[i].key, all[i + 1].key))
            add_write(sorted, &self->writes[all[i].at]);
    }
    PyMem_Free(all);
    return (PyObject *)sorted;
}

/* only(keys): a log of the writes of these keys, which are some of its own, in its order. */
static PyObject *log_only(CellLog *self, PyObject *keys) {
    if (!PyList_Check(keys)) return PyErr_Format(PyExc_TypeError, "the keys of a log are in a list");
    CellLog *made = sa_new_log(PyList_GET_SIZE(keys));
    for (Py_ssize_t i = 0; made && i < self->size && made->size < PyList_GET_SIZE(keys); i++) {
        look_ahead_to_change(self, i, 0);
        if (self->writes[i].cell->physical == PyList_GET_ITEM(keys, made->size)) add_write(made, &self->writes[i]);
    }
    if (made && made->size < PyList_GET_SIZE(keys)) {
        PyErr_SetString(PyExc_ValueError, "these keys are not the log's, in its order");
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    return PyArg_ParseTuple(args, "") ? (PyObject *)sa_new_log(0) : NULL;
}

static PyMethodDef log_methods[] = {
    {"keys_from", (PyCFunction)log_keys_from, METH_O, "keys_from(begin)"},
    {"cell", (PyCFunction)log_cell, METH_O, "cell(at): that of a write"},
    {"entry", (PyCFunction)log_entry, METH_O, "entry(cell): what was written of it"},
    {"absorb", (PyCFunction)log_absorb, METH_O, "absorb(newer log)"},
    {"in_order", (PyCFunction)log_in_order, METH_NOARGS, "in_order(): a log by key"},
    {"only", (PyCFunction)log_only, METH_O, "only(keys): a log of their writes"},
    {"behind", (PyCFunction)log_behind, METH_O, "behind(size): its writes, by their keys without so many bytes"},
    {0}};

static PySequenceMethods log_sequence = {.sq_length = (lenfunc)log_length, .sq_item = (ssizeargfunc)log_item};

static PyMappingMethods log_mapping = {.mp_length = (lenfunc)log_length, .mp_subscript = (binaryfunc)log_subscript};

PyTypeObject sa_cell_log_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.CellLog",
    .tp_basicsize = sizeof(CellLog),
    .tp_new = log_new,
    .tp_dealloc = (destructor)log_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = log_methods,
    .tp_as_sequence = &log_sequence,
    .tp_as_mapping = &log_mapping,
};
