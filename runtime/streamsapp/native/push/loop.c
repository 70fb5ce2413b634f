#include "push/loop.h"

#include <string.h>
#include <structmember.h>

#include "base/objects.h"
#include "cells/cells.h"
#include "fetch/record.h"
#include "push/push.h"

typedef struct {
    PyObject_HEAD
    PyObject *buffer, *take, *context, *punctuate;
    PyObject *deserialize_key, *deserialize_value; /* None: bytes stay what they are */
    PyObject *done;                                /* the last record that was processed, or None */
    PyObject *cells;                               /* in which records were counted last; may be NULL */
    long long partition_time, late, most;
} Loop;

enum { SOON = 5 }; /* records that are looked at before it is their turn */

/* The state of one call. */
typedef struct {
    PyObject *control, *to, *stream_time_due;
    int64_t stream_time;
    PyObject *soon[SOON]; /* the records that come next; NULL where that is not known */
    PyObject *later;      /* a time that was found to be later than stream_time; NULL if none was */
} Turn;

enum { GO_ON, LEAVE, RAISED };

/* Names of attributes, made once for the process. */
static PyObject *named_stop, *named_message, *named_stream_time, *named_next_due;

int sa_make_names(void) {
    named_stop = PyUnicode_InternFromString("stop");
    named_message = PyUnicode_InternFromString("message");
    named_stream_time = PyUnicode_InternFromString("stream_time");
    named_next_due = PyUnicode_InternFromString("next_due");
    return named_stop && named_message && named_stream_time && named_next_due ? 0 : -1;
}

static int is_true(PyObject *of, PyObject *name) {
    PyObject *found = PyObject_GetAttr(of, name);
    int truth = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return truth;
}

static PyObject *deserialized(PyObject *by, PyObject *given) {
    return given == Py_None || by == Py_None ? Py_NewRef(given) : PyObject_CallOneArg(by, given);
}

/* Gives up an error that Python will meet again, and handle. */
static int left_to_python(void) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return RAISED;
    PyErr_Clear();
    return LEAVE;
}

/* Takes the record from the buffer and says how it stands in time; 0, or -1 with an exception. */
static int take_record(Loop *self, Record *record, Turn *turn) {
    if (notify(self->take) || PyObject_SetAttr(self->context, named_message, (PyObject *)record)) return -1;
    int64_t timestamp = record->timestamp;
    if (timestamp > self->partition_time) self->partition_time = timestamp;
    if (timestamp < turn->stream_time) {
        long long behind = turn->stream_time - timestamp;
        self->late += behind;
        if (behind > self->most) self->most = behind;
    }
    if (timestamp <= turn->stream_time) return 0;
    turn->stream_time = timestamp;
    Py_CLEAR(turn->later);
    PyObject *time = PyLong_FromLongLong(timestamp);
    int failed = !time || PyObject_SetAttr(self->context, named_stream_time, time);
    Py_XDECREF(time);
    return failed ? -1 : 0;
}

/* Punctuates where it is time to. */
static int look_at_time(const Loop *self, Turn *turn) {
    PyObject *due = PyObject_GetAttr(turn->stream_time_due, named_next_due);
    if (due && due == turn->later) {
        Py_DECREF(due);
        return GO_ON;
    }
    PyObject *time = due ? PyLong_FromLongLong(turn->stream_time) : NULL;
    int is_due = time ? PyObject_RichCompareBool(time, due, Py_GE) : -1;
    Py_XDECREF(time);
    Py_XSETREF(turn->later, due);
    if (is_due) Py_CLEAR(turn->later);
    return is_due < 0 || (is_due && notify(self->punctuate)) ? RAISED : GO_ON;
}

static int run_record(Loop *self, Record *record, Turn *turn) {
    if (record->timestamp < 0 || PyExceptionInstance_Check(record->headers)) return LEAVE;
    PyObject *given[PUSHED] = {NULL};
    given[KEY] = deserialized(self->deserialize_key, record->key);
    given[VALUE] = given[KEY] ? deserialized(self->deserialize_value, record->value) : NULL;
    int how = given[VALUE] ? GO_ON : left_to_python();
    given[TIMESTAMP] = how == GO_ON ? PyLong_FromLongLong(record->timestamp) : NULL;
    given[HEADERS] = record->headers;
    if (how == GO_ON) {
        if (!given[TIMESTAMP] || take_record(self, record, turn) || sa_push(turn->to, given)) how = RAISED;
        else {
            Py_XSETREF(self->done, Py_NewRef(record));
            how = look_at_time(self, turn);
        }
    }
    Py_XDECREF(given[KEY]);
    Py_XDECREF(given[VALUE]);
    Py_XDECREF(given[TIMESTAMP]);
    return how;
}

/* Has the memory fetch what the next records need, one thing of each: they, and the cells of their keys, lie here and
 * there. It is there when their turn comes. */
static void look_at_next(const Loop *self, Turn *turn, Py_ssize_t waiting) {
    Py_XDECREF(turn->soon[0]);
    memmove(turn->soon, turn->soon + 1, (SOON - 1) * sizeof(*turn->soon));
    turn->soon[SOON - 1] = waiting > SOON ? PySequence_GetItem(self->buffer, SOON) : NULL;
    if (!turn->soon[SOON - 1]) PyErr_Clear();
    for (int i = 0; i < SOON; i++) {
        const Record *record = (Record *)turn->soon[i];
        if (!record || !Py_IS_TYPE(record, &sa_record_type.type)) continue;
        if (i == SOON - 2) {
            __builtin_prefetch(record->key);
            __builtin_prefetch(record->value);
        } else if (i < SOON - 2 && self->cells && PyBytes_Check(record->key))
            look_up_soon((Cells *)self->cells, record->key, SOON - 3 - i);
    }
}

static int run_next(Loop *self, Turn *turn) {
    int stop = is_true(turn->control, named_stop);
    if (stop) return stop < 0 ? RAISED : LEAVE;
    Py_ssize_t size = PyObject_Size(self->buffer);
    if (size <= 0) return size < 0 ? RAISED : LEAVE;
    PyObject *record = PySequence_GetItem(self->buffer, 0);
    if (!record) return RAISED;
    look_at_next(self, turn, size);
    int how = Py_IS_TYPE(record, &sa_record_type.type) ? run_record(self, (Record *)record, turn) : LEAVE;
    Py_DECREF(record);
    return how;
}

/* The arguments of run(). */
typedef struct {
    PyObject *control, *push, *due;
    Py_ssize_t limit;
    int64_t partition_time;
} Run;

static const Field run_fields[] = {FIELD(Run, control, OBJECT),      FIELD(Run, push, FUNCTION),
                                   FIELD(Run, due, OBJECT),          FIELD(Run, limit, SIZE, .most = PY_SSIZE_T_MAX),
                                   FIELD(Run, partition_time, LONG), {0}};

/* How many records were processed, as partition_time, done, late and most tell, also after an exception. */
static PyObject *loop_run(Loop *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Run run;
    if (sa_take_fields("run", run_fields, given, count, names, &run)) return NULL;
    PyObject *known = PyObject_GetAttr(self->context, named_stream_time);
    Turn turn = {run.control, run.push, run.due, known ? PyLong_AsLongLong(known) : -1, {NULL}, NULL};
    Py_XDECREF(known);
    if (turn.stream_time == -1 && PyErr_Occurred()) return NULL;
    self->partition_time = run.partition_time;
    self->late = self->most = 0;
    Py_XSETREF(self->done, Py_NewRef(Py_None));
    int how = GO_ON;
    Py_ssize_t taken = 0;
    sa_keep_cells_used(&self->cells);
    while (how == GO_ON && taken < run.limit) {
        how = run_next(self, &turn);
        taken += how == GO_ON;
    }
    sa_keep_cells_used(NULL);
    for (int i = 0; i < SOON; i++) Py_XDECREF(turn.soon[i]);
    Py_XDECREF(turn.later);
    return how == RAISED ? NULL : PyLong_FromSsize_t(taken);
}

static const Field loop_fields[] = {FIELD(Loop, buffer, OBJECT),
                                    FIELD(Loop, deserialize_key, FUNCTION, .may_be_none = 1),
                                    FIELD(Loop, deserialize_value, FUNCTION, .may_be_none = 1),
                                    FIELD(Loop, context, OBJECT),
                                    FIELD(Loop, punctuate, FUNCTION),
                                    FIELD(Loop, take, OWN),
                                    FIELD(Loop, done, OWN),
                                    FIELD(Loop, cells, OWN),
                                    {0}};

static int complete_loop(PyObject *made) {
    Loop *self = (Loop *)made;
    self->done = Py_NewRef(Py_None);
    self->take = PyObject_GetAttrString(self->buffer, "popleft");
    return self->take ? 0 : -1;
}

static PyMemberDef loop_members[] = {{"done", T_OBJECT, offsetof(Loop, done), READONLY, NULL},
                                     {"partition_time", T_LONGLONG, offsetof(Loop, partition_time), READONLY, NULL},
                                     {"late", T_LONGLONG, offsetof(Loop, late), READONLY, NULL},
                                     {"most", T_LONGLONG, offsetof(Loop, most), READONLY, NULL},
                                     {0}};

static PyMethodDef loop_methods[] = {{"run", (PyCFunction)(void (*)(void))loop_run, METH_FASTCALL | METH_KEYWORDS,
                                      "run(*, control, push, due, limit, partition_time): records taken"},
                                     {0}};

MadeType sa_loop_type = {
    .type = {COLLECTED(Loop), .tp_dealloc = sa_free, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
             .tp_members = loop_members, .tp_methods = loop_methods},
    .fields = loop_fields,
    .complete = complete_loop,
};
