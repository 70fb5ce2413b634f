/* Attributes that a class of Python keeps in __slots__, read and written where they are, without looking them up. Found
 * once for many records, by the thread that processes them; with the interpreter's lock. */
#ifndef SA_BASE_SLOTS_H
#define SA_BASE_SLOTS_H

#include <Python.h>

/* The place of an attribute, which is good as long as the object; NULL with an exception if it has no such slot, or
 * nothing in it. */
PyObject **sa_slot(PyObject *of, const char *name);

#endif
