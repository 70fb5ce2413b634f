/* Sinks: they serialise records and emit them for a topic. Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_SINK_H
#define SA_PUSH_SINK_H

#include <Python.h>

/* Pushes a record; 0, or -1 with an exception. */
int sa_run_sink(PyObject *pushed, PyObject *const *given);

extern PyTypeObject sa_sink_type;

#endif
