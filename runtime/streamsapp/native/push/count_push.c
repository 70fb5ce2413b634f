#include "push/count_push.h"

#include "base/objects.h"
#include "cells/held_cells.h"

typedef struct {
    Counting as;
    PyObject *forward;  /* None: nothing is forwarded at once */
    char old_values;    /* says whether a change has the count before */
    char none_at_first; /* says whether that is None, not 0, for the first record of a key */
} CountPush;

/* Notes a count that is sent at the commit, as (cell, key). */
static int hold(const Counting *self, Cell *cell, PyObject *const *given) {
    PyObject *tuple = cell->held ? NULL : PyTuple_Pack(2, cell, given[KEY]);
    return sa_hold_cell(cell, tuple, self->noted, self->noted_headers, given[HEADERS]);
}

static int emit_count(const Counting *self, const Cell *cell, PyObject *key_bytes) {
    return emit_record(self->emit, sa_told_by(cell, self->topic, Py_NewRef(key_bytes), cell->timestamp));
}

/* Pushes the change (count, the one before or None). */
static int forward_count(const CountPush *self, const Cell *cell, PyObject *const *given) {
    PyObject *count = PyLong_FromLongLong((int64_t)cell->count);
    int is_known = self->old_values && (cell->count != 1 || !self->none_at_first);
    PyObject *before = is_known ? PyLong_FromLongLong((int64_t)(cell->count - 1)) : Py_NewRef(Py_None);
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
static int counted(const Counting *self, PyObject *const *given, PyObject **key_bytes, Cell **cell) {
    int64_t timestamp;
    *cell = NULL;
    *key_bytes = serialized(self->serialize_key, self->keeps_bytes, given[KEY]);
    if (*key_bytes && is_key(*key_bytes) && are_integers(given + TIMESTAMP, 1, &timestamp))
        *cell = sa_count_key((Cells *)self->cells, *key_bytes, timestamp);
    return *cell ? 0 : -1;
}

static int run_count(PyObject *pushed, PyObject *const *given) {
    const CountPush *self = (CountPush *)pushed;
    const Counting *as = &self->as;
    if (given[KEY] == Py_None || given[VALUE] == Py_None) return notify(as->dropped);
    PyObject *key_bytes;
    Cell *cell;
    int failed = counted(as, given, &key_bytes, &cell)               ? sa_handled(as->on_error, given, PUSHED)
                 : as->noted != Py_None                              ? hold(as, cell, given)
                 : self->forward == Py_None                          ? 0
                 : given[HEADERS] == Py_None && as->topic != Py_None ? emit_count(as, cell, key_bytes)
                                                                     : forward_count(self, cell, given);
    Py_XDECREF(cell);
    Py_XDECREF(key_bytes);
    return failed;
}

int sa_complete_counting(PyObject *counting) {
    const Counting *self = (Counting *)counting;
    const char *fault = (self->topic == Py_None) != (self->emit == Py_None) ? "topic and emit are None together"
                        : (self->noted == Py_None) != (self->noted_headers == Py_None)
                            ? "noted and noted_headers are None together"
                            : NULL;
    if (fault) PyErr_Format(PyExc_TypeError, "%s: %s, or neither is", sa_name_of(Py_TYPE(counting)), fault);
    return fault ? -1 : 0;
}

static const Field count_push_fields[] = {COUNTING_FIELDS,
                                          FIELD(CountPush, forward, FUNCTION, .may_be_none = 1),
                                          FIELD(CountPush, old_values, TRUTH, .may_be_left_out = 1),
                                          FIELD(CountPush, none_at_first, TRUTH, .may_be_left_out = 1),
                                          {0}};

PushType sa_count_push_type = {
    .made = {.type = {PUSH(CountPush)}, .fields = count_push_fields, .complete = sa_complete_counting},
    .run = run_count,
};
