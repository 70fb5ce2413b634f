#include "push/count_push.h"

#include "base/fields.h"
#include "base/objects.h"
#include "cells/cells.h"
#include "cells/held_cells.h"
#include "push/push.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *cells, *serialize_key, *on_error, *dropped;
    PyObject *topic, *emit;          /* where records go in place of a function; both None: to forward */
    PyObject *noted, *noted_headers; /* for the commit; both None: nothing is */
    PyObject *forward;               /* None: nothing is forwarded at once */
    char old_values;                 /* says whether a change has the count before */
    char keeps_bytes;                /* says whether keys that are bytes are written as they are */
} CountPush;

/* Notes a count that is sent at the commit, as (cell, key). */
static int hold(CountPush *self, Cell *cell, PyObject *const *given) {
    PyObject *tuple = cell->held ? NULL : PyTuple_Pack(2, cell, given[KEY]);
    return sa_hold_cell(cell, tuple, self->noted, self->noted_headers, given[HEADERS]);
}

static int emit_count(const CountPush *self, const Cell *cell, PyObject *key_bytes) {
    return emit_record(self->emit, sa_told_by(cell, self->topic, Py_NewRef(key_bytes), cell->timestamp));
}

/* Pushes the change (count, the one before or None). */
static int forward_count(const CountPush *self, const Cell *cell, PyObject *const *given) {
    PyObject *count = PyLong_FromLongLong((int64_t)cell->count);
    PyObject *before = self->old_values ? PyLong_FromLongLong((int64_t)(cell->count - 1)) : Py_NewRef(Py_None);
    PyObject *change = count && before ? PyTuple_Pack(2, count, before) : NULL;
    PyObject *timestamp = change ? PyLong_FromLongLong(cell->timestamp) : NULL;
    PyObject *pushed[PUSHED] = {given[KEY], change, timestamp, given[HEADERS]};
    int failed = !timestamp || sa_push(self->forward, pushed);
    Py_XDECREF(timestamp);
    Py_XDECREF(change);
    Py_XDECREF(before);
    Py_XDECREF(count);
    return failed ? -1 : 0;
}

/* The bytes of the key, and its cell with one more; 0, or -1 with an exception. */
static int counted(const CountPush *self, PyObject *const *given, PyObject **key_bytes, Cell **cell) {
    int64_t timestamp;
    *cell = NULL;
    *key_bytes = serialized(self->serialize_key, self->keeps_bytes, given[KEY]);
    if (*key_bytes && is_key(*key_bytes) && are_integers(given + TIMESTAMP, 1, &timestamp))
        *cell = sa_count_key((Cells *)self->cells, *key_bytes, timestamp);
    return *cell ? 0 : -1;
}

int sa_run_count(PyObject *pushed, PyObject *const *given) {
    CountPush *self = (CountPush *)pushed;
    if (given[KEY] == Py_None || given[VALUE] == Py_None) return notify(self->dropped);
    PyObject *key_bytes;
    Cell *cell;
    int failed = counted(self, given, &key_bytes, &cell)               ? sa_handled(self->on_error, given, PUSHED)
                 : self->noted != Py_None                              ? hold(self, cell, given)
                 : self->forward == Py_None                            ? 0
                 : given[HEADERS] == Py_None && self->topic != Py_None ? emit_count(self, cell, key_bytes)
                                                                       : forward_count(self, cell, given);
    Py_XDECREF(cell);
    Py_XDECREF(key_bytes);
    return failed;
}

static const Field count_push_fields[] = {
    FIELD(CountPush, cells, OBJECT, .type = &sa_cells_type),
    FIELD(CountPush, serialize_key, FUNCTION),
    FIELD(CountPush, keeps_bytes, TRUTH, .may_be_left_out = 1),
    FIELD(CountPush, on_error, FUNCTION),
    FIELD(CountPush, dropped, FUNCTION),
    FIELD(CountPush, topic, OBJECT, .type = &PyUnicode_Type, .may_be_none = 1),
    FIELD(CountPush, emit, FUNCTION, .may_be_none = 1),
    FIELD(CountPush, noted, OBJECT, .type = &PyList_Type, .may_be_none = 1),
    FIELD(CountPush, noted_headers, OBJECT, .type = &PyDict_Type, .may_be_none = 1),
    FIELD(CountPush, forward, FUNCTION, .may_be_none = 1),
    FIELD(CountPush, old_values, TRUTH, .may_be_left_out = 1),
    {0}};

static PyObject *count_push_new(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    CountPush *self = (CountPush *)sa_make(type, count_push_fields, given, flags, names);
    if (!self) return NULL;
    self->call = sa_call_push;
    if (!sa_have_topic_to_emit("CountPush", self->topic, self->emit) ||
        !sa_are_noted_with_headers("CountPush", self->noted, self->noted_headers))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int count_push_traverse(PyObject *self, visitproc visit, void *arg) {
    return sa_visit_fields(count_push_fields, self, visit, arg);
}

static int count_push_clear(PyObject *self) { return sa_clear_fields(count_push_fields, self); }

static void count_push_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    count_push_clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject sa_count_push_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.CountPush",
    .tp_basicsize = sizeof(CountPush),
    .tp_vectorcall = count_push_new,
    .tp_dealloc = count_push_dealloc,
    .tp_traverse = count_push_traverse,
    .tp_clear = count_push_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CountPush, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
};
