#include "fetch/record.h"

static void record_dealloc(Record *self) {
    Py_XDECREF(self->topic);
    Py_XDECREF(self->key);
    Py_XDECREF(self->value);
    Py_XDECREF(self->headers);
    PyObject_Free(self);
}

PyObject *sa_headers_of(const Record *self) {
    if (!PyExceptionInstance_Check(self->headers)) return Py_NewRef(self->headers);
    /* Another exception each time: once raised, it keeps the frames that have the record, and the record keeps it. */
    PyObject *arguments = PyObject_GetAttrString(self->headers, "args");
    if (arguments) PyErr_SetObject((PyObject *)Py_TYPE(self->headers), arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static PyObject *record_headers(Record *self, PyObject *none) { return sa_headers_of(self); }

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
    Record *record = topic && key && value && headers ? PyObject_New(Record, &sa_record_type.type) : NULL;
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
static int complete_record(PyObject *made) {
    ((Record *)made)->timestamp_type = 1;
    return 0;
}

#define METHOD(name) {#name, (PyCFunction)record_##name, METH_NOARGS, NULL}

static PyMethodDef record_methods[] = {METHOD(topic), METHOD(partition), METHOD(offset),  METHOD(key),
                                       METHOD(value), METHOD(timestamp), METHOD(headers), {0}};

static PySequenceMethods record_sequence = {.sq_length = (lenfunc)record_length};

MadeType sa_record_type = {
    .type = {MADE(Record), .tp_dealloc = (destructor)record_dealloc, .tp_flags = Py_TPFLAGS_DEFAULT,
             .tp_methods = record_methods, .tp_as_sequence = &record_sequence},
    .fields = record_fields,
    .complete = complete_record,
};

/* ---- records of another type ---- */

/* Its headers, or the exception that asking for them raises; NULL with one that no handler is asked about. */
static PyObject *headers_or_error(PyObject *given) {
    PyObject *headers = PyObject_CallMethod(given, "headers", NULL);
    return headers || !PyErr_ExceptionMatches(PyExc_Exception) ? headers : sa_caught();
}

/* The result of one of its calls, if that is bytes or None; NULL with an exception. */
static PyObject *bytes_by(PyObject *given, const char *call) {
    PyObject *found = PyObject_CallMethod(given, call, NULL);
    if (found && !is_bytes_or_none(found)) {
        PyErr_Format(PyExc_TypeError, "the %s of a record is bytes or None, not %.100s", call, Py_TYPE(found)->tp_name);
        Py_CLEAR(found);
    }
    return found;
}

/* Place and time; 0, or -1 with an exception. */
static int put_place(Record *record, PyObject *given) {
    PyObject *partition = PyObject_CallMethod(given, "partition", NULL);
    PyObject *offset = partition ? PyObject_CallMethod(given, "offset", NULL) : NULL;
    PyObject *time = offset ? PyObject_CallMethod(given, "timestamp", NULL) : NULL;
    long long at = -1;
    int done = time && PyArg_Parse(partition, "i", &record->partition) && PyArg_Parse(offset, "L", &at);
    record->offset = at;
    done = done && PyArg_Parse(time, "(iL)", &record->timestamp_type, &at);
    record->timestamp = at;
    Py_XDECREF(partition);
    Py_XDECREF(offset);
    Py_XDECREF(time);
    return done ? 0 : -1;
}

Record *sa_as_record(PyObject *given) {
    if (Py_IS_TYPE(given, &sa_record_type.type)) return (Record *)Py_NewRef(given);
    PyObject *topic = PyObject_CallMethod(given, "topic", NULL);
    PyObject *key = topic ? bytes_by(given, "key") : NULL, *value = key ? bytes_by(given, "value") : NULL;
    Record *record = sa_new_record(topic, key, value, value ? headers_or_error(given) : NULL);
    if (record && put_place(record, given)) Py_CLEAR(record);
    return record;
}

/* ---- headers ---- */

/* (name, value), or the exception that the name raises; NULL with another one. */
static PyObject *read_header(Reader *reader) {
    int64_t size = read_varint(reader);
    const unsigned char *at = size < 0 ? NULL : read_bytes(reader, (uint64_t)size);
    if (!at) break_reader(reader);
    PyObject *value = read_field(reader);
    PyObject *name = value ? PyUnicode_DecodeUTF8((const char *)at, at ? (Py_ssize_t)size : 0, NULL) : NULL;
    PyObject *pair = name ? PyTuple_Pack(2, name, value) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return pair || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) ? pair : sa_caught();
}

PyObject *sa_read_headers(Reader *reader) {
    int64_t count = read_varint(reader);
    if (count < 0 || (uint64_t)count > left_in(reader) / 2) break_reader(reader);
    if (!count || reader->broken) return Py_NewRef(Py_None);
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result && i < count && !reader->broken; i++) {
        PyObject *header = read_header(reader);
        if (header && PyTuple_Check(header)) {
            if (PyList_CheckExact(result) && PyList_Append(result, header)) Py_CLEAR(result);
            Py_DECREF(header);
        } else if (!header || PyList_CheckExact(result)) Py_XSETREF(result, header); /* of several names the first */
        else Py_DECREF(header);
    }
    return result;
}
