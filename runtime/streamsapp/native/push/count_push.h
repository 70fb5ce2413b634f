/* The push function of a count, for stores whose entries are cells. Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_COUNT_PUSH_H
#define SA_PUSH_COUNT_PUSH_H

#include <Python.h>

/* Pushes a record; 0, or -1 with an exception. */
int sa_run_count(PyObject *pushed, PyObject *const *given);

extern PyTypeObject sa_count_push_type;

#endif
