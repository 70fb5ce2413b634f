/* Cells whose counts are sent at the commit. Noted by the thread that processes records, read by the thread that
 * commits them; with the interpreter's lock. */
#ifndef SA_CELLS_HELD_CELLS_H
#define SA_CELLS_HELD_CELLS_H

#include <Python.h>

#include "cells/cell.h"

/* Notes a cell whose count is sent at the commit, as (cell, ...) in a list, with the headers of the record that came
 * last, in a dictionary by the cell's address. Takes over the tuple, which is NULL if the cell is held already. 0, or
 * -1 with an exception. */
int sa_hold_cell(Cell *cell, PyObject *tuple, PyObject *list, PyObject *headers, PyObject *given);

/* results(*, held, topic, deleted_at, before, behind): the records of cells that are held as (cell, key, ...), and a
 * tombstone for a cell that was deleted at deleted_at(key, ...). */
PyObject *sa_results(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names);

/* by_last_update(held): (cell, key, ...) in the order of the last updates of the cells, in a list of its own. */
PyObject *sa_by_last_update(PyObject *module, PyObject *held);

#endif
