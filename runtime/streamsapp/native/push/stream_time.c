#include "push/stream_time.h"

#include <structmember.h>

#include "cells/cell.h"

static PyObject *stream_time_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    if (!PyArg_ParseTuple(args, "")) return NULL;
    StreamTime *self = PyObject_New(StreamTime, type);
    if (self) self->latest = NO_TIMESTAMP;
    return (PyObject *)self;
}

static PyMemberDef members[] = {{"latest", T_LONGLONG, offsetof(StreamTime, latest), 0, NULL}, {0}};

PyTypeObject sa_stream_time_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.StreamTime",
    .tp_basicsize = sizeof(StreamTime),
    .tp_new = stream_time_new,
    .tp_dealloc = (destructor)PyObject_Free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = members,
};
