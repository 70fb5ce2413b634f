#include "push/sink.h"

#include <structmember.h>

#include "base/objects.h"
#include "push/push.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *topic, *serialize_key, *serialize_value, *check_headers, *emit, *on_error;
    PyObject *plain_sink;
    char keeps_key, keeps_value; /* say whether bytes are written as they are */
} Sink;

/* The record that is sent, as streamsapp.outgoing has it; NULL with an exception. */
static PyObject *sent(const Sink *self, PyObject *const *given) {
    PyObject *key = serialized(self->serialize_key, self->keeps_key, given[KEY]);
    PyObject *value = key ? serialized(self->serialize_value, self->keeps_value, given[VALUE]) : NULL;
    int has_headers = value ? PyObject_IsTrue(given[HEADERS]) : 0;
    PyObject *checked = has_headers > 0 ? PyObject_CallOneArg(self->check_headers, given[HEADERS]) : NULL;
    PyObject *partition = value && (checked || !has_headers) ? PyLong_FromLong(-1) : NULL;
    PyObject *made = partition ? PyTuple_Pack(8, self->topic, value, key, partition, Py_None, Py_None, given[TIMESTAMP],
                                              given[HEADERS])
                               : NULL;
    Py_XDECREF(partition);
    Py_XDECREF(checked);
    Py_XDECREF(value);
    Py_XDECREF(key);
    return made;
}

int sa_run_sink(PyObject *pushed, PyObject *const *given) {
    const Sink *self = (Sink *)pushed;
    PyObject *record = sent(self, given);
    return record ? emit_record(self->emit, record) : sa_handled(self->on_error, given + TIMESTAMP, 1);
}

static PyObject *sink_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *topic, *serialize_key, *serialize_value, *check_headers, *emit, *on_error, *plain_sink;
    if (!PyArg_ParseTuple(args, "UOOOOOO", &topic, &serialize_key, &serialize_value, &check_headers, &emit, &on_error,
                          &plain_sink))
        return NULL;
    Sink *self = (Sink *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = sa_call_push;
    self->topic = Py_NewRef(topic);
    self->serialize_key = Py_NewRef(serialize_key);
    self->serialize_value = Py_NewRef(serialize_value);
    self->check_headers = Py_NewRef(check_headers);
    self->emit = Py_NewRef(emit);
    self->on_error = Py_NewRef(on_error);
    self->plain_sink = Py_NewRef(plain_sink);
    return (PyObject *)self;
}

static int sink_traverse(Sink *self, visitproc visit, void *arg) {
    Py_VISIT(self->serialize_key);
    Py_VISIT(self->serialize_value);
    Py_VISIT(self->check_headers);
    Py_VISIT(self->emit);
    Py_VISIT(self->on_error);
    Py_VISIT(self->plain_sink);
    return 0;
}

static int sink_clear(Sink *self) {
    Py_CLEAR(self->topic);
    Py_CLEAR(self->serialize_key);
    Py_CLEAR(self->serialize_value);
    Py_CLEAR(self->check_headers);
    Py_CLEAR(self->emit);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->plain_sink);
    return 0;
}

static void sink_dealloc(Sink *self) {
    PyObject_GC_UnTrack(self);
    sink_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef sink_members[] = {{"plain_sink", T_OBJECT_EX, offsetof(Sink, plain_sink), READONLY, NULL},
                                     {"keeps_key", T_BOOL, offsetof(Sink, keeps_key), 0, NULL},
                                     {"keeps_value", T_BOOL, offsetof(Sink, keeps_value), 0, NULL},
                                     {0}};

PyTypeObject sa_sink_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Sink",
    .tp_basicsize = sizeof(Sink),
    .tp_new = sink_new,
    .tp_dealloc = (destructor)sink_dealloc,
    .tp_traverse = (traverseproc)sink_traverse,
    .tp_clear = (inquiry)sink_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Sink, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = sink_members,
};
