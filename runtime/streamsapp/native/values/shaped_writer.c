#include "values/shaped_writer.h"

#include <structmember.h>

#include "base/shapes.h"

PyObject *sa_write_shaped(const ShapedWriter *self, PyObject *value, int *fits) {
    *fits = sa_fits_shape(value, self->shape);
    return *fits < 0 ? NULL : PyObject_CallOneArg(*fits ? self->write : self->otherwise, value);
}

static PyObject *call_writer(PyObject *self, PyObject *const *given, size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) != 1 || names) return PyErr_Format(PyExc_TypeError, "ShapedWriter takes one value");
    int fits;
    return sa_write_shaped((ShapedWriter *)self, given[0], &fits);
}

static PyObject *make_writer(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    PyObject *self = sa_make(type, given, flags, names);
    if (self) ((ShapedWriter *)self)->call = call_writer;
    return self;
}

static const Field writer_fields[] = {FIELD(ShapedWriter, write, FUNCTION),
                                      FIELD(ShapedWriter, shape, OBJECT),
                                      FIELD(ShapedWriter, otherwise, FUNCTION),
                                      FIELD(ShapedWriter, read, FUNCTION),
                                      {0}};

static PyMemberDef writer_members[] = {{"shape", T_OBJECT_EX, offsetof(ShapedWriter, shape), READONLY, NULL},
                                       {"read", T_OBJECT_EX, offsetof(ShapedWriter, read), READONLY, NULL},
                                       {0}};

MadeType sa_shaped_writer_type = {
    .type = {MADE_WITH(ShapedWriter, make_writer), .tp_traverse = sa_visit, .tp_clear = sa_clear, .tp_dealloc = sa_free,
             .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(ShapedWriter, call),
             .tp_members = writer_members,
             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL},
    .fields = writer_fields,
};
