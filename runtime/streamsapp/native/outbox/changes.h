/* The entries of a store as records of its changelog. Called for each entry by an Outbox, with the interpreter's lock.
 */
#ifndef SA_OUTBOX_CHANGES_H
#define SA_OUTBOX_CHANGES_H

#include <Python.h>
#include <stdint.h>

#include "cells/cell_run.h"
#include "outbox/record_batch.h"

typedef struct {
    PyObject *kept[2]; /* keep key and value; the second may be NULL */
    Content content;
    char number[8]; /* a value that was made here */
} Change;

/* How values become bytes: whole numbers of number_size bytes (0: none) here, others by a call of raw, or not at all
 * where that is None. */
typedef struct {
    PyObject *raw;
    int number_size;
} Values;

/* The same of a write in a log. */
int sa_prepare_write(const Values *values, const CellRun *run, Py_ssize_t at, Change *out);

/* True if it is (key, entry) as far as it is known here: the key bytes, the entry (stored, timestamp), as a tuple or a
 * list. */
int sa_prepare_change(const Values *values, PyObject *pair, Change *out);

#endif
