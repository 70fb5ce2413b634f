#include "cells/cells.h"

#include <string.h>
#include <structmember.h>

#include "base/byte_order.h"
#include "base/large_pages.h"
#include "base/objects.h"

enum { FEWEST_SLOTS = 64 };

/* Twice the slots; 0, or -1 with an exception. */
static int grow(Generation *self) {
    size_t slots = self->slots ? 2 * (self->mask + 1) : FEWEST_SLOTS;
    CellSlot *table = PyMem_Calloc(slots, sizeof(*table));
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    sa_wish_large_pages(table, slots * sizeof(*table));
    for (size_t i = 0; self->slots && i <= self->mask; i++) {
        size_t at = (size_t)self->slots[i].hash;
        if (!self->slots[i].cell) continue;
        while (table[at & (slots - 1)].cell) at++;
        table[at & (slots - 1)] = self->slots[i];
    }
    PyMem_Free(self->slots);
    self->slots = table;
    self->mask = slots - 1;
    return 0;
}

static int put_cell(Generation *self, Py_hash_t hash, Cell *cell) {
    if ((!self->slots || 2 * (size_t)self->count > self->mask) && grow(self)) return -1;
    CellSlot *slot = cell_slot(self, hash, cell->physical);
    Cell *before = slot->cell;
    self->count += !before;
    *slot = (CellSlot){hash, (Cell *)Py_NewRef(cell)};
    cell->generation = self->number & MOST_GENERATIONS;
    Py_XDECREF(before);
    return 0;
}

static void drop_cells(Generation *self) {
    Generation gone = *self;
    *self = (Generation){.number = gone.number};
    for (size_t i = 0; gone.slots && i <= gone.mask; i++) Py_XDECREF(gone.slots[i].cell);
    PyMem_Free(gone.slots);
}

/* A cell with the count and the timestamp of an entry (stored, timestamp), or with the count and the timestamp of a key
 * that has no entry. */
static Cell *cell_after(PyObject *entry, PyObject *key) {
    PyObject *stored = PySequence_GetItem(entry, 0), *changed_at = stored ? PySequence_GetItem(entry, 1) : NULL;
    Cell *cell = changed_at ? sa_new_cell(Py_NewRef(key), 0, NO_TIMESTAMP) : NULL;
    if (cell && (sa_set_cell(cell, 0, stored) || (stored != Py_None && sa_set_cell(cell, 1, changed_at))))
        Py_CLEAR(cell);
    Py_XDECREF(stored);
    Py_XDECREF(changed_at);
    return cell;
}

/* The cell that an entry is itself, if it was forgotten here, or a cell that is made of it. */
static Cell *cell_again(PyObject *entry, PyObject *key) {
    if (Py_IS_TYPE(entry, &sa_cell_type) && !by_bytes(((Cell *)entry)->physical, key)) return (Cell *)Py_NewRef(entry);
    return cell_after(entry, key);
}

/* The cell of a key if it is here, borrowed; NULL if it is not, and with an exception. */
static Cell *cell_at_hand(Cells *self, Py_hash_t hash, PyObject *key) {
    Cell *cell = find_cell(&self->young, hash, key);
    if (cell) return cell;
    cell = find_cell(&self->old, hash, key);
    return cell && put_cell(&self->young, hash, cell) ? NULL : cell;
}

Cell *sa_cell_of(Cells *self, PyObject *key, int is_new) {
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    Cell *cell = cell_at_hand(self, hash, key);
    if (cell || PyErr_Occurred()) return (Cell *)Py_XNewRef(cell);
    if (is_new) {
        cell = sa_new_cell(Py_NewRef(key), 0, NO_TIMESTAMP);
        if (cell) cell->is_there = 0;
    } else {
        PyObject *entry = PyObject_CallOneArg(self->load, key);
        cell = entry ? cell_again(entry, key) : NULL;
        Py_XDECREF(entry);
    }
    if (cell && put_cell(&self->young, hash, cell)) Py_CLEAR(cell);
    return cell;
}

/* True if one more write can be noted. */
static int may_write(const Cells *self) {
    if (self->running) return !reserve(self->running, 1);
    PyErr_SetString(PyExc_RuntimeError, "no epoch has begun");
    return 0;
}

Cell *sa_count_cell(Cells *self, Cell *cell, int64_t timestamp) {
    if (!cell || !may_write(self) || count_up(cell, timestamp)) {
        Py_XDECREF(cell);
        return NULL;
    }
    cell->is_there = 1;
    write_down(self->running, cell);
    return cell;
}

static _Thread_local PyObject **cells_used;

void sa_keep_cells_used(PyObject **where) { cells_used = where; }

Cell *sa_count_key(Cells *self, PyObject *key, int64_t timestamp) {
    if (cells_used && *cells_used != (PyObject *)self) Py_XSETREF(*cells_used, Py_NewRef(self));
    return sa_count_cell(self, sa_cell_of(self, key, 0), timestamp);
}

/* Gives a cell what was written, and notes it. A deletion has its time in the log alone: a cell that is not there has
 * none, and its next count is the first one. */
static int write_cell(Cells *self, Cell *cell, PyObject *stored, int64_t timestamp) {
    if (!may_write(self) || sa_set_cell(cell, 0, stored)) return -1;
    cell->timestamp = timestamp;
    write_down(self->running, cell);
    if (!cell->is_there) {
        cell->count = 0;
        cell->timestamp = NO_TIMESTAMP;
    }
    return 0;
}

/* write(key's bytes, count or None, timestamp): as WriteBack.write. */
static PyObject *cells_write(Cells *self, PyObject *const *given, Py_ssize_t count) {
    int64_t timestamp;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "write takes a key's bytes, a count or None, and a timestamp");
    if (!is_key(given[0]) || !are_integers(given + 2, 1, &timestamp)) return NULL;
    /* An __index__ of the user's may write, too: it runs before anything is looked up. */
    PyObject *stored = given[1] == Py_None ? Py_NewRef(Py_None) : PyNumber_Index(given[1]);
    if (!stored) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(given[0]);
    Cell *known = cell_at_hand(self, hash, given[0]), *cell = NULL;
    int failed = !known && PyErr_Occurred();
    if (!failed) {
        cell = known ? (Cell *)Py_NewRef(known) : sa_new_cell(Py_NewRef(given[0]), 0, timestamp);
        failed = !cell || write_cell(self, cell, stored, timestamp) || (!known && put_cell(&self->young, hash, cell));
    }
    Py_DECREF(stored);
    Py_XDECREF(cell);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* ---- as a cache ---- */

/* read(key's bytes): its cell, which is asked for if it is not here. */
static PyObject *cells_read(Cells *self, PyObject *key) {
    return is_key(key) ? (PyObject *)sa_cell_of(self, key, 0) : NULL;
}

/* at_hand(key's bytes): its cell, or None. Any thread may ask. */
static PyObject *cells_at_hand(Cells *self, PyObject *key) {
    if (!is_key(key)) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    Cell *cell = find_cell(&self->young, hash, key);
    if (!cell) cell = find_cell(&self->old, hash, key);
    return Py_NewRef(cell ? (PyObject *)cell : Py_None);
}

/* put(key's bytes, entry): remembers an entry that was read. A cell that is there stays: it knows its places in
 * logs. */
static PyObject *cells_put(Cells *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "put takes a key's bytes and an entry");
    if (!is_key(given[0])) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(given[0]);
    if (cell_at_hand(self, hash, given[0])) Py_RETURN_NONE;
    Cell *cell = PyErr_Occurred() ? NULL : cell_again(given[1], given[0]);
    int failed = !cell || put_cell(&self->young, hash, cell);
    Py_XDECREF(cell);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* When the window of a cell begins. */
static int64_t start_of(const Cells *self, const Cell *cell) {
    Py_ssize_t size = PyBytes_GET_SIZE(cell->physical);
    uint64_t start;
    if (self->start_at < (Py_ssize_t)sizeof(start) || size < self->start_at) return INT64_MAX;
    memcpy(&start, PyBytes_AS_STRING(cell->physical) + size - self->start_at, sizeof(start));
    return (int64_t)be64toh(start);
}

/* True if a commit is still to come that writes it. */
static int is_uncommitted(const Cells *self, const Cell *cell) {
    long long log = cell->places[IN_EPOCH].log;
    return log && ((self->running && log == self->running->number) || log == self->before);
}

/* Keeps the uncommitted cells of the old generation, unless the young one has them; 0, or -1 with an exception. Returns
 * the latest start of the others' windows, -1 if there are none. */
static int keep_uncommitted(Cells *self, int64_t *latest) {
    const Generation *old = &self->old;
    *latest = -1;
    for (size_t i = 0; old->slots && i <= old->mask; i++) {
        const Cell *next = i + 2 * AHEAD <= old->mask ? old->slots[i + 2 * AHEAD].cell : NULL;
        if (next) __builtin_prefetch(next);
        next = i + AHEAD <= old->mask ? old->slots[i + AHEAD].cell : NULL;
        if (next) __builtin_prefetch(next->physical);
        Cell *cell = old->slots[i].cell;
        if (!cell || cell->generation != old->number) continue;
        if (is_uncommitted(self, cell)) {
            if (put_cell(&self->young, old->slots[i].hash, cell)) return -1;
        } else {
            int64_t start = start_of(self, cell);
            if (start > *latest) *latest = start;
        }
    }
    return 0;
}

/* grow_old(): the cells are the older ones now, and others are forgotten, unless they are uncommitted; the latest start
 * of the forgotten ones. */
static PyObject *cells_grow_old(Cells *self, PyObject *none) {
    int64_t latest;
    if (keep_uncommitted(self, &latest)) return NULL;
    Generation gone = self->old;
    self->old = self->young;
    self->young = (Generation){.number = (self->old.number + 1) & MOST_GENERATIONS};
    drop_cells(&gone);
    return PyLong_FromLongLong(latest);
}

static PyObject *cells_clear(Cells *self, PyObject *none) {
    drop_cells(&self->young);
    drop_cells(&self->old);
    Py_RETURN_NONE;
}

static Py_ssize_t cells_length(Cells *self) { return self->young.count; }

static int cells_contain(Cells *self, PyObject *key) {
    return is_key(key) ? find_cell(&self->young, PyBytes_Type.tp_hash(key), key) != NULL : -1;
}

/* begin(): an epoch begins; the log to which its writes go. */
static PyObject *cells_begin(Cells *self, PyObject *none) {
    CellLog *log = sa_new_log(0);
    if (!log) return NULL;
    self->before = self->running ? self->running->number : 0;
    Py_XSETREF(self->running, (CellLog *)Py_NewRef(log));
    return (PyObject *)log;
}

static const Field cells_fields[] = {FIELD(Cells, load, FUNCTION),
                                     FIELD(Cells, start_at, SIZE, .most = INT32_MAX, .may_be_left_out = 1),
                                     FIELD(Cells, running, OWN),
                                     {0}};

static void cells_free(PyObject *object) {
    Cells *self = (Cells *)object;
    PyObject_GC_UnTrack(object);
    drop_cells(&self->young);
    drop_cells(&self->old);
    sa_free(object);
}

static PyMemberDef cells_members[] = {
    {"older", T_PYSSIZET, offsetof(Cells, old) + offsetof(Generation, count), READONLY, NULL}, {0}};

static PyMethodDef cells_methods[] = {
    {"write", (PyCFunction)(void (*)(void))cells_write, METH_FASTCALL, "write(key's bytes, count, timestamp)"},
    {"read", (PyCFunction)cells_read, METH_O, "read(key's bytes): cell"},
    {"at_hand", (PyCFunction)cells_at_hand, METH_O, "at_hand(key's bytes): cell or None"},
    {"put", (PyCFunction)(void (*)(void))cells_put, METH_FASTCALL, "put(key's bytes, entry)"},
    {"grow_old", (PyCFunction)cells_grow_old, METH_NOARGS, "grow_old(): forgets the older ones; their latest start"},
    {"clear", (PyCFunction)cells_clear, METH_NOARGS, "clear(): forgets all"},
    {"begin", (PyCFunction)cells_begin, METH_NOARGS, "begin(): the log of an epoch that begins"},
    {0}};

static PySequenceMethods cells_sequence = {.sq_length = (lenfunc)cells_length,
                                           .sq_contains = (objobjproc)cells_contain};

MadeType sa_cells_type = {
    .type = {COLLECTED(Cells), .tp_dealloc = cells_free, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
             .tp_members = cells_members, .tp_methods = cells_methods, .tp_as_sequence = &cells_sequence},
    .fields = cells_fields,
};
