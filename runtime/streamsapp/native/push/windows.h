/* The push function of a count of windows, for stores whose entries are cells. Called by push.h, with the interpreter's
 * lock. */
#ifndef SA_PUSH_WINDOWS_H
#define SA_PUSH_WINDOWS_H

#include <Python.h>

extern PyTypeObject sa_window_type;

/* Pushes a record; 0, or -1 with an exception. */
int sa_run_window_count(PyObject *pushed, PyObject *const *given);

extern PyTypeObject sa_window_push_type;

#endif
