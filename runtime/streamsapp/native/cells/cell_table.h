/* Cells by key, in two generations: when the younger one is full it takes the place of the older one, which is
 * forgotten but for what was asked for meanwhile. Used by one thread at a time, with the interpreter's lock. */
#ifndef SA_CELLS_CELL_TABLE_H
#define SA_CELLS_CELL_TABLE_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cells/cell.h"

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

/* That of the key, or the empty one where it belongs. */
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

/* Adds a cell, or puts it in the place of another one with its key; 0, or -1 with an exception. */
int sa_put_cell(Generation *self, Py_hash_t hash, Cell *cell);

void sa_drop_cells(Generation *self);

/* The slot that has a cell with this hash, or the one where the search for it ends: other than cell_slot, it reads no
 * cell. */
static inline __attribute__((always_inline)) const CellSlot *likely_slot(const Generation *self, Py_hash_t hash) {
    size_t at = (size_t)hash;
    while (self->slots[at & self->mask].cell && self->slots[at & self->mask].hash != hash) at++;
    return &self->slots[at & self->mask];
}

#endif
