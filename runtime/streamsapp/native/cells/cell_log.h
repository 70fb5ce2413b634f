/* The writes of an epoch to a store whose entries are cells, in their order: what each cell had when the epoch was
 * closed. A key comes twice where its cell was forgotten in between, and then the later one counts. Written by one
 * thread at a time, read by any, always with the interpreter's lock. */
#ifndef SA_CELLS_CELL_LOG_H
#define SA_CELLS_CELL_LOG_H

#include <Python.h>
#include <stdint.h>

#include "cells/cell.h"

typedef struct {
    Cell *cell;
    uint64_t count;
    int64_t timestamp;
    char is_there;
} Write;

typedef struct {
    PyObject_HEAD
    Write *writes;
    Py_ssize_t size, room;
    long long number; /* that no other log has */
} CellLog;

enum { AHEAD = 8 }; /* writes */

/* NULL with an exception. */
CellLog *sa_new_log(Py_ssize_t room);

/* Has the memory fetch the cells that come next, and their keys: they lie here and there. It is inline, as a compiler
 * removes calls of a function that does nothing else. */
static inline __attribute__((always_inline)) void look_ahead(const CellLog *self, Py_ssize_t at) {
    if (at + 2 * AHEAD < self->size) __builtin_prefetch(self->writes[at + 2 * AHEAD].cell);
    if (at + AHEAD < self->size) __builtin_prefetch(self->writes[at + AHEAD].cell->physical);
}

/* The same for a caller that changes the cells and does not look at their keys. */
static inline __attribute__((always_inline)) void look_ahead_to_change(const CellLog *self, Py_ssize_t at, int all) {
    if (at + 2 * AHEAD >= self->size) return;
    const Cell *cell = self->writes[at + 2 * AHEAD].cell;
    __builtin_prefetch(cell, 1);
    if (all) __builtin_prefetch(&cell->places[PLACES - 1], 1);
}

/* Makes room where there is too little for so many more writes; 0, or -1 with an exception. */
int sa_widen_log(CellLog *self, Py_ssize_t more);

/* The same; there mostly is room. */
static inline int reserve(CellLog *self, Py_ssize_t more) {
    return self->room - self->size >= more ? 0 : sa_widen_log(self, more);
}

static inline void add_write(CellLog *self, const Write *write) {
    self->writes[self->size] = *write;
    Py_INCREF(write->cell);
    self->size++;
}

/* The write of a cell, which is the last one for which there is room if it has none; that is then to be set. */
static inline Write *write_of(CellLog *self, Cell *cell, int place) {
    Place *known = &cell->places[place];
    if (known->log != self->number) {
        if (place == IN_EPOCH) cell->places[IN_EPOCH_BEFORE] = *known;
        *known = (Place){self->number, self->size};
        add_write(self, &(Write){.cell = cell});
        if (place == IN_EPOCH) cell->held = 0;
    }
    return &self->writes[known->at];
}

/* Says in the log what the cell has now. */
static inline void write_down(CellLog *self, Cell *cell) {
    Write *write = write_of(self, cell, IN_EPOCH);
    write->count = cell->count;
    write->timestamp = cell->timestamp;
    write->is_there = cell->is_there;
}

static inline PyObject *count_written(const Write *write) {
    return write->is_there ? PyLong_FromLongLong((int64_t)write->count) : Py_NewRef(Py_None);
}

/* Where the key of a write begins that is shown without its first, hidden bytes; NULL with an exception if it has
 * fewer. */
static inline const char *shown_key(const Write *write, Py_ssize_t hidden, size_t *size) {
    Py_ssize_t all = PyBytes_GET_SIZE(write->cell->physical);
    if (all < hidden) {
        PyErr_Format(PyExc_ValueError, "a key of %zd bytes has none behind %zd", all, hidden);
        return NULL;
    }
    *size = (size_t)(all - hidden);
    return PyBytes_AS_STRING(write->cell->physical) + hidden;
}

/* (key, entry) */
PyObject *sa_item_written(const Write write, Py_ssize_t hidden);

/* The write with a number below the size, from begin on; NULL with an exception. */
static inline const Write *write_at(const CellLog *self, Py_ssize_t begin, Py_ssize_t size, Py_ssize_t at) {
    if (at >= 0 && at < size) return &self->writes[begin + at];
    PyErr_SetString(PyExc_IndexError, "the log has no such write");
    return NULL;
}

extern PyTypeObject sa_cell_log_type;

#endif
