/* Counts that are changed in place, and the records that write them to a topic. Used by one thread at a time, with the
 * interpreter's lock. */
#ifndef SA_CELLS_CELL_H
#define SA_CELLS_CELL_H

#include <Python.h>
#include <stdint.h>

enum { NO_TIMESTAMP = -1 }; /* of an entry that is not there */

enum { COUNT_SIZE = 8 };

/* The write of a cell: the log, and its number there. */
typedef struct {
    long long log;
    Py_ssize_t at;
} Place;

/* The write in its last epoch, in the epoch in which it was written before, and in the epochs that wait for RocksDB. */
enum { IN_EPOCH, IN_EPOCH_BEFORE, IN_BACKLOG, PLACES };

enum { MOST_GENERATIONS = INT32_MAX }; /* their numbers begin anew then */

/* An entry [count, timestamp] that is changed in place. */
typedef struct {
    PyObject_HEAD
    PyObject *physical; /* the key that the store has for it */
    int64_t timestamp;
    uint64_t count;
    Place places[PLACES];
    uint32_t generation : 31; /* the younger generation that has it */
    uint32_t is_there : 1;
    uint32_t held; /* which update was the last of it since it is held for the commit; 0: it is not */
} Cell;

/* Takes over the key, which may be NULL. */
Cell *sa_new_cell(PyObject *physical, uint64_t count, int64_t timestamp);

static inline PyObject *count_of(const Cell *self) {
    return self->is_there ? PyLong_FromLongLong((int64_t)self->count) : Py_NewRef(Py_None);
}

int sa_set_cell(Cell *self, Py_ssize_t at, PyObject *given);

extern PyTypeObject sa_cell_type;

static inline int count_up(Cell *cell, int64_t timestamp) {
    if (cell->count == INT64_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a count does not fit a long any more");
        return -1;
    }
    cell->count++;
    if (timestamp > cell->timestamp) cell->timestamp = timestamp;
    return 0;
}

/* The record that writes a cell's count to a topic. Takes over the key, which may be NULL. */
PyObject *sa_told_by(const Cell *cell, PyObject *topic, PyObject *key, int64_t at);

/* The bytes of a store's key that the topic's key has not, before and behind it. */
typedef struct {
    Py_ssize_t before, behind;
} Hidden;

/* The key that a topic has for a cell; NULL with an exception. */
PyObject *sa_key_told(const Cell *cell, Hidden hidden);

#endif
