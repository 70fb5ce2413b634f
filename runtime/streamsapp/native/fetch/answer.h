/* The answer of a broker to a Fetch request, version 13, without its length; offsets of what was fetched point into it.
 * Called by the thread that fetches, with the interpreter's lock. */
#ifndef SA_FETCH_ANSWER_H
#define SA_FETCH_ANSWER_H

#include <Python.h>

/* The types of an answer, FetchAnswer, and of its parts, FetchedPart, made once when the module is loaded; 0, or -1
 * with an exception. */
int sa_make_answer_types(void);

extern PyTypeObject *sa_fetch_answer_type, *sa_fetched_part_type;

/* answer(bytes): a FetchAnswer */
PyObject *sa_answer(PyObject *module, PyObject *given);

#endif
