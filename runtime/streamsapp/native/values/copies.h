/* Copies of values that have a shape. They share what cannot be changed in place, and nothing else. A value is packed
 * once, and copies are unpacked of that. Called by KeptValues; with the interpreter's lock. */
#ifndef SA_VALUES_COPIES_H
#define SA_VALUES_COPIES_H

#include <Python.h>

/* The parts of a value that has the shape, with a tuple for each instance; NULL with an exception. */
PyObject *sa_pack_value(PyObject *value, PyObject *shape);

/* A value with these parts; NULL with an exception. */
PyObject *sa_unpack_value(PyObject *packed, PyObject *shape);

/* True if a value that was unpacked still consists of the same parts in the same order, so that it has the same bytes;
 * -1 with an exception that is no Exception. */
int sa_is_unchanged(PyObject *value, PyObject *packed, PyObject *shape);

#endif
