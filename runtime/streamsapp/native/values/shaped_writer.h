/* A serializer of values that have a shape. Called for each value that is written; with the interpreter's lock. */
#ifndef SA_VALUES_SHAPED_WRITER_H
#define SA_VALUES_SHAPED_WRITER_H

#include <Python.h>

#include "base/fields.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *write, *shape, *otherwise, *read;
} ShapedWriter;

extern MadeType sa_shaped_writer_type; /* ShapedWriter(*, write, shape, otherwise, read), described in compiled.pyi */

/* The result of the serializer for a value. Says whether the value has the shape; NULL with an exception. */
PyObject *sa_write_shaped(const ShapedWriter *self, PyObject *value, int *fits);

#endif
