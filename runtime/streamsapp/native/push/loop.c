#include "push/loop.h"

#include <math.h>
#include <string.h>
#include <structmember.h>

#include "base/objects.h"
#include "base/slots.h"
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
    PyObject *to;
    PyObject **stop, **message, **time, **next_due; /* slots of the control, the context and what is due */
    int64_t stream_time;                            /* what *time is */
    PyObject *soon[SOON];                           /* the records that come next; NULL where that is not known */
    PyObject *due_object;                           /* what *next_due was when it was read last, or NULL */
    int64_t due;                                    /* what it said */
} Turn;

enum { GO_ON, LEAVE, RAISED };

/* The value of a slot from now on. */
static void put(PyObject **slot, PyObject *value) { Py_SETREF(*slot, Py_NewRef(value)); }

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
static int take_record(Loop *self, Record *record, Turn *turn, PyObject *time) {
    if (notify(self->take)) return -1;
    put(turn->message, (PyObject *)record);
    int64_t timestamp = record->timestamp;
    if (timestamp > self->partition_time) self->partition_time = timestamp;
    if (timestamp < turn->stream_time) {
        long long behind = turn->stream_time - timestamp;
        self->late += behind;
        if (behind > self->most) self->most = behind;
    } else if (timestamp > turn->stream_time) {
        turn->stream_time = timestamp;
        put(turn->time, time);
    }
    return 0;
}

/* Reads the time at which the next callback is due, an int or a float that may be infinite; 0, or -1 with an exception.
 */
static int read_due(Turn *turn) {
    PyObject *due = *turn->next_due ? *turn->next_due : Py_None; /* which is no time either */
    int overflow = 0;
    if (PyLong_Check(due)) turn->due = PyLong_AsLongLongAndOverflow(due, &overflow);
    else {
        double time = PyFloat_AsDouble(due);
        if (time == -1 && PyErr_Occurred()) return -1;
        overflow = time >= (double)INT64_MAX ? 1 : time <= (double)INT64_MIN ? -1 : 0;
        if (!overflow) turn->due = (int64_t)ceil(time);
    }
    if (overflow) turn->due = overflow > 0 ? INT64_MAX : INT64_MIN;
    Py_XSETREF(turn->due_object, Py_NewRef(due));
    return 0;
}

/* Punctuates where it is time to. The record may have scheduled something that is due at once. */
static int look_at_time(const Loop *self, Turn *turn) {
    if (*turn->next_due != turn->due_object && read_due(turn)) return RAISED;
    return turn->stream_time >= turn->due && notify(self->punctuate) ? RAISED : GO_ON;
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
        if (!given[TIMESTAMP] || take_record(self, record, turn, given[TIMESTAMP]) || sa_push(turn->to, given))
            how = RAISED;
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
    if (*turn->stop != Py_False) return LEAVE;
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

/* How many records were processed, as partition_time, done, late and most say, also after an exception. */
static PyObject *loop_run(Loop *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Run run;
    if (sa_take_fields("run", run_fields, given, count, names, &run)) return NULL;
    Turn turn = {.to = run.push};
    if (!(turn.stop = sa_slot(run.control, "stop")) || !(turn.message = sa_slot(self->context, "message")) ||
        !(turn.time = sa_slot(self->context, "stream_time")) || !(turn.next_due = sa_slot(run.due, "next_due")))
        return NULL;
    turn.stream_time = PyLong_AsLongLong(*turn.time);
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
    Py_XDECREF(turn.due_object);
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
