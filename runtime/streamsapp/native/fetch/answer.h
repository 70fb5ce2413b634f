/* The answer of a broker to a Fetch request, version 13, without its length; offsets of what was fetched point into it.
 * Called by the thread that fetches, with the interpreter's lock. */
#ifndef SA_FETCH_ANSWER_H
#define SA_FETCH_ANSWER_H

#include <Python.h>

/* answer(bytes): (milliseconds to wait, error, session, partitions) */
PyObject *sa_answer(PyObject *module, PyObject *given);

#endif
