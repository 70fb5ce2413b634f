/* Values and their shapes: finds out that a value is, to the type of each of its parts, what its reader makes. Called
 * by serdes for each value that they write; with the interpreter's lock. */
#ifndef SA_BASE_SHAPES_H
#define SA_BASE_SHAPES_H

#include <Python.h>

/* True if the value has the shape; -1 with an exception that is no Exception. */
int sa_fits_shape(PyObject *value, PyObject *shape);

/* fits(value, shape), described in compiled.pyi. */
PyObject *sa_fits(PyObject *module, PyObject *const *given, Py_ssize_t count);

#endif
