/* Steps without state: what streamsapp.dsl.operators.stateless does for each record. Called by push.h, with the
 * interpreter's lock. */
#ifndef SA_PUSH_STEP_H
#define SA_PUSH_STEP_H

#include <Python.h>

/* Pushes a record; 0, or -1 with an exception. */
int sa_run_step(PyObject *pushed, PyObject *const *given);

extern PyTypeObject sa_step_type;

#endif
