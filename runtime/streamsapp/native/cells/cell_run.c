#include "cells/cell_run.h"

#include "base/byte_order.h"
#include "base/fields.h"
#include "base/objects.h"

PyObject *sa_new_run(CellLog *log, Py_ssize_t begin, Py_ssize_t size, Py_ssize_t hidden) {
    CellRun *self = PyObject_New(CellRun, &sa_cell_run_type);
    if (!self) return NULL;
    self->log = (CellLog *)Py_NewRef(log);
    self->begin = begin;
    self->size = size;
    self->hidden = hidden;
    return (PyObject *)self;
}

static void run_dealloc(CellRun *self) {
    Py_DECREF(self->log);
    PyObject_Free(self);
}

static Py_ssize_t run_length(CellRun *self) { return self->size; }

static PyObject *run_item(CellRun *self, Py_ssize_t at) {
    const Write *write = write_at(self->log, self->begin, self->size, at);
    return write ? sa_item_written(*write, self->hidden) : NULL;
}

static PyObject *run_part(CellRun *self, PyObject *slice) {
    Py_ssize_t begin, end, step;
    if (PySlice_Unpack(slice, &begin, &end, &step)) return NULL;
    if (step != 1) return PyErr_Format(PyExc_ValueError, "a part of a log is without gaps");
    Py_ssize_t size = PySlice_AdjustIndices(self->size, &begin, &end, 1);
    return sa_new_run(self->log, self->begin + begin, size, self->hidden);
}

static PyObject *run_subscript(CellRun *self, PyObject *given) {
    if (PySlice_Check(given)) return run_part(self, given);
    Py_ssize_t at = PyNumber_AsSsize_t(given, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred()) return NULL;
    return run_item(self, at < 0 ? at + self->size : at);
}

/* Gives a write to RocksDB, which has for it the timestamp and the count, of 8 bytes each; 0, or -1 with an
 * exception. */
static int stage_write(const Write write, const WriteBatch *batch) {
    uint64_t numbers[2] = {htobe64((uint64_t)write.timestamp), htobe64(write.count)};
    PyObject *value = write.is_there ? PyBytes_FromStringAndSize((char *)numbers, sizeof(numbers)) : NULL;
    if (write.is_there && !value) return -1;
    int failed = sa_put_or_delete(batch, write.cell->physical, value);
    Py_XDECREF(value);
    return failed;
}

static const Field batch_fields[] = {
    FIELD(WriteBatch, put, FUNCTION), FIELD(WriteBatch, delete, FUNCTION), FIELD(WriteBatch, family, OBJECT), {0}};

static PyObject *run_stage(CellRun *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    WriteBatch batch;
    if (sa_take_fields("stage", batch_fields, given, count, names, &batch)) return NULL;
    for (Py_ssize_t i = 0; i < self->size; i++) {
        look_ahead(self->log, self->begin + i);
        if (stage_write(*write_in(self, i), &batch)) return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef run_methods[] = {{"stage", (PyCFunction)(void (*)(void))run_stage, METH_FASTCALL | METH_KEYWORDS,
                                     "stage(*, put, delete, family): keys and values of RocksDB"},
                                    {0}};

static PySequenceMethods run_sequence = {.sq_length = (lenfunc)run_length, .sq_item = (ssizeargfunc)run_item};

static PyMappingMethods run_mapping = {.mp_length = (lenfunc)run_length, .mp_subscript = (binaryfunc)run_subscript};

PyTypeObject sa_cell_run_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.CellRun",
    .tp_basicsize = sizeof(CellRun),
    .tp_dealloc = (destructor)run_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = run_methods,
    .tp_as_sequence = &run_sequence,
    .tp_as_mapping = &run_mapping,
};
