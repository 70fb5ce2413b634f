/* The cells of a store by key: its read cache, and the writes of its layers. They are in two generations: when the
 * younger one is full it takes the place of the older one. That one is forgotten, except for cells that were asked for
 * meanwhile. Used by the thread that processes the store's records, with the interpreter's lock; at_hand by any. */
#ifndef SA_CELLS_CELLS_H
#define SA_CELLS_CELLS_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/fields.h"
#include "cells/cell.h"
#include "cells/cell_log.h"

typedef struct {
    Py_hash_t hash;
    Cell *cell; /* NULL: nothing is here */
} CellSlot;

typedef struct {
    CellSlot *slots; /* a power of two, twice as many as cells or more; NULL if there are none */
    size_t mask;
    Py_ssize_t count;
    uint32_t number;
} Generation;

/* The slot of the key, or the empty slot where it belongs. */
static inline CellSlot *cell_slot(const Generation *self, Py_hash_t hash, PyObject *key) {
    for (size_t at = (size_t)hash;; at++) {
        CellSlot *slot = &self->slots[at & self->mask];
        if (!slot->cell) return slot;
        PyObject *known = slot->hash == hash ? slot->cell->physical : NULL;
        if (known && PyBytes_GET_SIZE(known) == PyBytes_GET_SIZE(key) &&
            !memcmp(PyBytes_AS_STRING(known), PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key)))
            return slot;
    }
}

/* The cell of a key, borrowed; NULL if it is not there. */
static inline Cell *find_cell(const Generation *self, Py_hash_t hash, PyObject *key) {
    return self->slots ? cell_slot(self, hash, key)->cell : NULL;
}

/* The slot that has a cell with this hash, or the slot where the search for it ends. Unlike cell_slot, it reads no
 * cell. */
static inline __attribute__((always_inline)) const CellSlot *likely_slot(const Generation *self, Py_hash_t hash) {
    size_t at = (size_t)hash;
    while (self->slots[at & self->mask].cell && self->slots[at & self->mask].hash != hash) at++;
    return &self->slots[at & self->mask];
}

typedef struct {
    PyObject_HEAD
    PyObject *load;   /* is asked for entries that are not here */
    CellLog *running; /* the writes of the running epoch; NULL before the first one begins */
    long long before; /* the number of the log of the epoch before */
    Generation young, old;
    Py_ssize_t start_at; /* before a key's end; 0: keys have no window */
} Cells;

/* The cell of a key; NULL with an exception. A key that is_new has no cell elsewhere. */
Cell *sa_cell_of(Cells *self, PyObject *key, int is_new);

/* Counts one more; the cell, or NULL with an exception, as for NULL. */
Cell *sa_count_cell(Cells *self, Cell *cell, int64_t timestamp);

/* Counts one more for a key's bytes: its cell, or NULL with an exception. */
Cell *sa_count_key(Cells *self, PyObject *key, int64_t timestamp);

/* Where the loop that runs on this thread keeps the cells that were used last; NULL: no loop runs. */
void sa_keep_cells_used(PyObject **where);

/* Has the memory fetch what counting a key will read: its slot, then its cell, then that one's key and its last write,
 * in three calls. */
static inline __attribute__((always_inline)) void look_up_soon(const Cells *self, PyObject *key, int step) {
    if (!self->young.slots) return;
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    if (step == 0) {
        __builtin_prefetch(&self->young.slots[(size_t)hash & self->young.mask]);
        return;
    }
    const Cell *cell = likely_slot(&self->young, hash)->cell;
    if (!cell) return;
    if (step == 1) {
        __builtin_prefetch(cell, 1);
        __builtin_prefetch(&cell->places[PLACES - 1], 1); /* which may be in the next line */
        return;
    }
    __builtin_prefetch(cell->physical);
    const Place *last = &cell->places[IN_EPOCH];
    if (self->running && last->log == self->running->number) __builtin_prefetch(&self->running->writes[last->at], 1);
}

extern MadeType sa_cells_type;

#endif
