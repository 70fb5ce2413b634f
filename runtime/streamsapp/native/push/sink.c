#include "push/sink.h"

#include <structmember.h>

#include "base/objects.h"
#include "base/output_record.h"

typedef struct {
    Push push;
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
    PyObject *made = value && (checked || !has_headers)
                         ? output_record(self->topic, key, value, given[TIMESTAMP], given[HEADERS])
                         : NULL;
    Py_XDECREF(checked);
    Py_XDECREF(value);
    Py_XDECREF(key);
    return made;
}

static int run_sink(PyObject *pushed, PyObject *const *given) {
    const Sink *self = (Sink *)pushed;
    PyObject *record = sent(self, given);
    return record ? emit_record(self->emit, record) : sa_handled(self->on_error, given, PUSHED);
}

static const Field sink_fields[] = {FIELD(Sink, topic, OBJECT, .type = &PyUnicode_Type),
                                    FIELD(Sink, serialize_key, FUNCTION),
                                    FIELD(Sink, serialize_value, FUNCTION),
                                    FIELD(Sink, keeps_key, TRUTH, .may_be_left_out = 1),
                                    FIELD(Sink, keeps_value, TRUTH, .may_be_left_out = 1),
                                    FIELD(Sink, check_headers, FUNCTION),
                                    FIELD(Sink, emit, FUNCTION),
                                    FIELD(Sink, on_error, FUNCTION),
                                    FIELD(Sink, plain_sink, OBJECT),
                                    {0}};

static PyMemberDef sink_members[] = {{"plain_sink", T_OBJECT_EX, offsetof(Sink, plain_sink), READONLY, NULL}, {0}};

PushType sa_sink_type = {
    .made = {.type = {PUSH(Sink), .tp_members = sink_members}, .fields = sink_fields},
    .run = run_sink,
};
