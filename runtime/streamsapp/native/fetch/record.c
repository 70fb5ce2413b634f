#include "fetch/record.h"

#include "base/fields.h"
#include "base/objects.h"

static void record_dealloc(Record *self) {
    Py_XDECREF(self->topic);
    Py_XDECREF(self->key);
    Py_XDECREF(self->value);
    Py_XDECREF(self->headers);
    PyObject_Free(self);
}

static PyObject *record_headers(Record *self, PyObject *none) {
    if (!PyExceptionInstance_Check(self->headers)) return Py_NewRef(self->headers);
    /* Another one each time: one that was raised keeps whoever has the record, which keeps it. */
    PyObject *arguments = PyObject_GetAttrString(self->headers, "args");
    if (arguments) PyErr_SetObject((PyObject *)Py_TYPE(self->headers), arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static PyObject *record_topic(Record *self, PyObject *none) { return Py_NewRef(self->topic); }

static PyObject *record_key(Record *self, PyObject *none) { return Py_NewRef(self->key); }

static PyObject *record_value(Record *self, PyObject *none) { return Py_NewRef(self->value); }

static PyObject *record_offset(Record *self, PyObject *none) { return PyLong_FromLongLong(self->offset); }

static PyObject *record_partition(Record *self, PyObject *none) { return PyLong_FromLong(self->partition); }

static PyObject *record_timestamp(Record *self, PyObject *none) {
    return Py_BuildValue("(iL)", self->timestamp_type, (long long)self->timestamp);
}

static Py_ssize_t record_length(Record *self) { return self->value == Py_None ? 0 : PyBytes_GET_SIZE(self->value); }

Record *sa_new_record(PyObject *topic, PyObject *key, PyObject *value, PyObject *headers) {
    Record *record = topic && key && value && headers ? PyObject_New(Record, &sa_record_type) : NULL;
    if (!record) {
        Py_XDECREF(topic);
        Py_XDECREF(key);
        Py_XDECREF(value);
        Py_XDECREF(headers);
        return NULL;
    }
    record->topic = topic;
    record->key = key;
    record->value = value;
    record->headers = headers;
    record->offset = record->timestamp = -1;
    record->partition = -1;
    record->timestamp_type = 0;
    return record;
}

static const Field record_fields[] = {FIELD(Record, topic, OBJECT, .type = &PyUnicode_Type),
                                      FIELD(Record, partition, INT),
                                      FIELD(Record, offset, LONG),
                                      FIELD(Record, key, OBJECT, .type = &PyBytes_Type, .may_be_none = 1),
                                      FIELD(Record, value, OBJECT, .type = &PyBytes_Type, .may_be_none = 1),
                                      FIELD(Record, timestamp, LONG),
                                      FIELD(Record, headers, OBJECT),
                                      {0}};

/* As if it had been fetched, for records that Python has. */
static PyObject *record_new(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    Record *record = (Record *)sa_make(type, record_fields, given, flags, names);
    if (record) record->timestamp_type = 1;
    return (PyObject *)record;
}

#define METHOD(name) {#name, (PyCFunction)record_##name, METH_NOARGS, NULL}

static PyMethodDef record_methods[] = {METHOD(topic), METHOD(partition), METHOD(offset),  METHOD(key),
                                       METHOD(value), METHOD(timestamp), METHOD(headers), {0}};

static PySequenceMethods record_sequence = {.sq_length = (lenfunc)record_length};

PyTypeObject sa_record_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Record",
    .tp_basicsize = sizeof(Record),
    .tp_dealloc = (destructor)record_dealloc,
    .tp_vectorcall = record_new,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = record_methods,
    .tp_as_sequence = &record_sequence,
};
