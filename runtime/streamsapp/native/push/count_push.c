#include "push/count_push.h"

#include <structmember.h>

#include "base/objects.h"
#include "cells/cells.h"
#include "cells/held_cells.h"
#include "push/push.h"

enum { CELLS, SERIALIZE_KEY, ON_ERROR, DROPPED, TOPIC, EMIT, NOTED, NOTED_HEADERS, COUNT_PARTS };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *part[COUNT_PARTS];
    PyObject *forward;      /* None: nothing is forwarded at once */
    const void *instead_of; /* the function in whose place records go to the topic; NULL if there is none */
    char old_values;        /* says whether a change has the count before */
    char keeps_bytes;       /* says whether keys that are bytes are written as they are */
} CountPush;

/* Notes a count that is sent at the commit, as (cell, key). */
static int hold(CountPush *self, Cell *cell, PyObject *const *given) {
    PyObject *tuple = cell->held ? NULL : PyTuple_Pack(2, cell, given[KEY]);
    return sa_hold_cell(cell, tuple, self->part[NOTED], self->part[NOTED_HEADERS], given[HEADERS]);
}

static int emit_count(const CountPush *self, const Cell *cell, PyObject *key_bytes) {
    return emit_record(self->part[EMIT], sa_told_by(cell, self->part[TOPIC], Py_NewRef(key_bytes), cell->timestamp));
}

/* Pushes the change (count, the one before or None). */
static int forward_count(const CountPush *self, const Cell *cell, PyObject *const *given) {
    PyObject *count = PyLong_FromLongLong((int64_t)cell->count);
    PyObject *before = self->old_values ? PyLong_FromLongLong((int64_t)(cell->count - 1)) : Py_NewRef(Py_None);
    PyObject *change = count && before ? PyTuple_Pack(2, count, before) : NULL;
    PyObject *timestamp = change ? PyLong_FromLongLong(cell->timestamp) : NULL;
    PyObject *pushed[PUSHED] = {given[KEY], change, timestamp, given[HEADERS]};
    PyObject *to = Py_NewRef(self->forward); /* a probe may take its place meanwhile */
    int failed = !timestamp || sa_push(to, pushed);
    Py_DECREF(to);
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
    *key_bytes = serialized(self->part[SERIALIZE_KEY], self->keeps_bytes, given[KEY]);
    if (*key_bytes && is_key(*key_bytes) && are_integers(given + TIMESTAMP, 1, &timestamp))
        *cell = sa_count_key((Cells *)self->part[CELLS], *key_bytes, timestamp);
    return *cell ? 0 : -1;
}

int sa_run_count(PyObject *pushed, PyObject *const *given) {
    CountPush *self = (CountPush *)pushed;
    if (given[KEY] == Py_None || given[VALUE] == Py_None) return notify(self->part[DROPPED]);
    PyObject *key_bytes;
    Cell *cell;
    int failed = counted(self, given, &key_bytes, &cell) ? sa_handled(self->part[ON_ERROR], given, PUSHED)
                 : self->part[NOTED] != Py_None          ? hold(self, cell, given)
                 : self->forward == Py_None              ? 0
                 : given[HEADERS] == Py_None && self->forward == self->instead_of ? emit_count(self, cell, key_bytes)
                                                                                  : forward_count(self, cell, given);
    Py_XDECREF(cell);
    Py_XDECREF(key_bytes);
    return failed;
}

static PyObject *count_push_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *part[COUNT_PARTS], *instead_of, *noted, *forward;
    if (!PyArg_ParseTuple(args, "O!OOO(OOO)OO", &sa_cells_type, &part[CELLS], &part[SERIALIZE_KEY], &part[ON_ERROR],
                          &part[DROPPED], &instead_of, &part[TOPIC], &part[EMIT], &noted, &forward))
        return NULL;
    if (!sa_where_noted(noted, &part[NOTED], &part[NOTED_HEADERS])) return NULL;
    const void *place = PyLong_AsVoidPtr(instead_of);
    CountPush *self = PyErr_Occurred() ? NULL : (CountPush *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = sa_call_push;
    for (int i = 0; i < COUNT_PARTS; i++) self->part[i] = Py_NewRef(part[i]);
    self->forward = Py_NewRef(forward);
    self->instead_of = place;
    return (PyObject *)self;
}

static int count_push_traverse(CountPush *self, visitproc visit, void *arg) {
    for (int i = 0; i < COUNT_PARTS; i++) Py_VISIT(self->part[i]);
    Py_VISIT(self->forward);
    return 0;
}

static int count_push_clear(CountPush *self) {
    for (int i = 0; i < COUNT_PARTS; i++) Py_CLEAR(self->part[i]);
    Py_CLEAR(self->forward);
    return 0;
}

static void count_push_dealloc(CountPush *self) {
    PyObject_GC_UnTrack(self);
    count_push_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef count_push_members[] = {{"forward", T_OBJECT_EX, offsetof(CountPush, forward), 0, NULL},
                                           {"old_values", T_BOOL, offsetof(CountPush, old_values), 0, NULL},
                                           {"keeps_bytes", T_BOOL, offsetof(CountPush, keeps_bytes), 0, NULL},
                                           {0}};

PyTypeObject sa_count_push_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.CountPush",
    .tp_basicsize = sizeof(CountPush),
    .tp_new = count_push_new,
    .tp_dealloc = (destructor)count_push_dealloc,
    .tp_traverse = (traverseproc)count_push_traverse,
    .tp_clear = (inquiry)count_push_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CountPush, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = count_push_members,
};
