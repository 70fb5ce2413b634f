/* Some writes of a log in a row, which stay in it; perhaps with keys that lack their first, hidden bytes. A log only
 * grows. Used as that is. */
#ifndef SA_CELLS_CELL_RUN_H
#define SA_CELLS_CELL_RUN_H

#include <Python.h>

#include "cells/cell_log.h"

typedef struct {
    PyObject_HEAD
    CellLog *log;
    Py_ssize_t begin, size, hidden;
} CellRun;

/* NULL with an exception. */
PyObject *sa_new_run(CellLog *log, Py_ssize_t begin, Py_ssize_t size, Py_ssize_t hidden);

static inline const Write *write_in(const CellRun *self, Py_ssize_t at) { return &self->log->writes[self->begin + at]; }

extern PyTypeObject sa_cell_run_type;

#endif
