#include "push/input.h"

#include <string.h>
#include <structmember.h>

#include "base/objects.h"
#include "cells/cells.h"
#include "fetch/record.h"
#include "push/push.h"

/* ---- the next records ---- */

/* Has the memory fetch what the next records need, one thing of each: they, and the cells of their keys, lie here and
 * there. It is there when their turn comes. */
static void look_at_next(Input *self, Py_ssize_t waiting, PyObject *cells) {
    Py_XDECREF(self->soon[0]);
    memmove(self->soon, self->soon + 1, (SOON - 1) * sizeof(*self->soon));
    self->soon[SOON - 1] = waiting > SOON ? PySequence_GetItem(self->buffer, SOON) : NULL;
    if (!self->soon[SOON - 1]) PyErr_Clear();
    for (int i = 0; i < SOON; i++) {
        const Record *record = (Record *)self->soon[i];
        if (!record || !Py_IS_TYPE(record, &sa_record_type.type)) continue;
        if (i == SOON - 2) {
            __builtin_prefetch(record->key);
            __builtin_prefetch(record->value);
        } else if (i < SOON - 2 && cells && PyBytes_Check(record->key))
            look_up_soon((Cells *)cells, record->key, SOON - 3 - i);
    }
}

void sa_look_away(Input *self) {
    for (int i = 0; i < SOON; i++) Py_CLEAR(self->soon[i]);
}

/* ---- reading ---- */

static PyObject *deserialized(PyObject *by, int by_headers, PyObject *given, Record *record) {
    if (given == Py_None || by == Py_None) return Py_NewRef(given);
    if (!by_headers) return PyObject_CallOneArg(by, given);
    PyObject *headers = sa_headers_of(record);
    PyObject *found = headers ? PyObject_CallFunctionObjArgs(by, given, headers, NULL) : NULL;
    Py_XDECREF(headers);
    return found;
}

/* Key and value, and the headers as far as they can be read; 0, or -1 with an exception. */
static int deserialize(const Input *self, Record *record, PyObject **key, PyObject **value) {
    *key = deserialized(self->deserialize_key, self->key_by_headers, record->key, record);
    *value = *key ? deserialized(self->deserialize_value, self->value_by_headers, record->value, record) : NULL;
    PyObject *headers = *value ? sa_headers_of(record) : NULL;
    Py_XDECREF(headers);
    return headers ? 0 : -1;
}

/* The time of the record, or a negative one for it to be dropped; 0, or -1 with an exception. */
static int find_time(const Input *self, const Record *record, PyObject *key, PyObject *value, int64_t *time) {
    *time = record->timestamp;
    if (*time >= 0 && self->trusts_time) return 0;
    PyObject *partition_time = PyLong_FromLongLong(self->partition_time);
    PyObject *found = partition_time ? PyObject_CallFunctionObjArgs(self->extract, (PyObject *)record, key, value,
                                                                    partition_time, NULL)
                                     : NULL;
    if (found) *time = PyLong_AsLongLong(found);
    Py_XDECREF(partition_time);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* Makes a marker that was taken out the head. */
static int read_marker(Input *self, TimeMarker *marker) {
    if (self->apply == Py_None) {
        PyErr_SetString(PyExc_RuntimeError, "Input: a TimeMarker, and no apply");
        return FAILED;
    }
    self->record = Py_NewRef((PyObject *)marker);
    self->key = Py_NewRef(Py_None);
    self->value = Py_NewRef(Py_None);
    self->time = marker->timestamp;
    return READ;
}

/* Makes a record that was taken out the head. */
static int read_record(Input *self, Record *record) {
    PyObject *key, *value, *given = (PyObject *)record;
    int how = DROPPED;
    if (deserialize(self, record, &key, &value)) how = sa_handled(self->on_error, &given, 1) ? FAILED : DROPPED;
    else if (find_time(self, record, key, value, &self->time)) how = FAILED;
    else if (self->time >= 0) how = READ;
    if (how == DROPPED) self->position = record->offset + 1;
    if (how == READ) {
        self->record = Py_NewRef(record);
        self->key = key;
        self->value = value;
    } else {
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return how;
}

int sa_read_head(Input *self, PyObject *cells) {
    Py_ssize_t waiting = PyObject_Size(self->buffer);
    if (waiting <= 0) return waiting < 0 ? FAILED : NONE_LEFT;
    look_at_next(self, waiting, cells);
    PyObject *message = PyObject_CallNoArgs(self->take);
    if (message && Py_IS_TYPE(message, &sa_time_marker_type.type)) {
        int how = read_marker(self, (TimeMarker *)message);
        Py_DECREF(message);
        return how;
    }
    Record *record = message ? sa_as_record(message) : NULL;
    int how = record ? read_record(self, record) : FAILED;
    Py_XDECREF(record);
    Py_XDECREF(message);
    return how;
}

int sa_find_head(Input *self) {
    int how = self->record ? READ : DROPPED;
    while (how == DROPPED) how = sa_read_head(self, NULL);
    sa_look_away(self);
    return how;
}

/* ---- calls of Python ---- */

static PyObject *input_find_head(Input *self, PyObject *none) {
    int how = sa_find_head(self);
    return how == FAILED ? NULL : how == READ ? PyLong_FromLongLong(self->time) : Py_NewRef(Py_None);
}

static PyObject *input_drop_head(Input *self, PyObject *none) {
    Py_CLEAR(self->record);
    Py_CLEAR(self->key);
    Py_CLEAR(self->value);
    Py_RETURN_NONE;
}

static PyObject *input_has_head(Input *self, void *none) { return PyBool_FromLong(self->record != NULL); }

static PyObject *input_push(Input *self, void *none) { return Py_NewRef(self->push); }

static int set_push(Input *self, PyObject *push, void *none) {
    if (!push || !PyCallable_Check(push)) {
        PyErr_SetString(PyExc_TypeError, "Input: push is to be callable");
        return -1;
    }
    Py_SETREF(self->push, Py_NewRef(push));
    return 0;
}

static const Field input_fields[] = {FIELD(Input, buffer, OBJECT),
                                     FIELD(Input, push, FUNCTION),
                                     FIELD(Input, deserialize_key, FUNCTION, .may_be_none = 1),
                                     FIELD(Input, deserialize_value, FUNCTION, .may_be_none = 1),
                                     FIELD(Input, key_by_headers, TRUTH, .may_be_left_out = 1),
                                     FIELD(Input, value_by_headers, TRUTH, .may_be_left_out = 1),
                                     FIELD(Input, trusts_time, TRUTH, .may_be_left_out = 1, .otherwise = 1),
                                     FIELD(Input, extract, FUNCTION),
                                     FIELD(Input, on_error, FUNCTION),
                                     FIELD(Input, apply, FUNCTION, .may_be_none = 1),
                                     FIELD(Input, take, OWN),
                                     FIELD(Input, record, OWN),
                                     FIELD(Input, key, OWN),
                                     FIELD(Input, value, OWN),
                                     {0}};

static int complete_input(PyObject *made) {
    Input *self = (Input *)made;
    self->partition_time = self->position = -1;
    self->take = PyObject_GetAttrString(self->buffer, "popleft");
    return self->take ? 0 : -1;
}

static void input_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    sa_look_away((Input *)object);
    sa_free(object);
}

static PyMemberDef input_members[] = {{"partition_time", T_LONGLONG, offsetof(Input, partition_time), 0, NULL},
                                      {"position", T_LONGLONG, offsetof(Input, position), 0, NULL},
                                      {0}};

static PyGetSetDef input_properties[] = {{"push", (getter)input_push, (setter)set_push, NULL, NULL},
                                         {"has_head", (getter)input_has_head, NULL, NULL, NULL},
                                         {0}};

static PyMethodDef input_methods[] = {
    {"find_head", (PyCFunction)input_find_head, METH_NOARGS, "find_head(): its timestamp, or None"},
    {"drop_head", (PyCFunction)input_drop_head, METH_NOARGS, "drop_head(): it is not known any more"},
    {0}};

static const Field marker_fields[] = {FIELD(TimeMarker, timestamp, LONG), FIELD(TimeMarker, data, OBJECT), {0}};

static PyMemberDef marker_members[] = {{"timestamp", T_LONGLONG, offsetof(TimeMarker, timestamp), READONLY, NULL},
                                       {"data", T_OBJECT_EX, offsetof(TimeMarker, data), READONLY, NULL},
                                       {0}};

MadeType sa_time_marker_type = {
    .type = {COLLECTED(TimeMarker), .tp_dealloc = sa_free, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
             .tp_members = marker_members},
    .fields = marker_fields,
};

MadeType sa_input_type = {
    .type = {COLLECTED(Input), .tp_dealloc = input_free, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
             .tp_members = input_members, .tp_getset = input_properties, .tp_methods = input_methods},
    .fields = input_fields,
    .complete = complete_input,
};
