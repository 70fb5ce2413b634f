#include "push/loop.h"

#include <math.h>
#include <structmember.h>

#include "base/objects.h"
#include "base/slots.h"
#include "cells/cells.h"
#include "fetch/record.h"
#include "push/input.h"
#include "push/push.h"
#include "push/turns.h"

typedef struct {
    PyObject_HEAD
    PyObject *inputs, *context, *punctuate;
    PyObject *running; /* the input whose turn it is; NULL between two calls */
    PyObject *put_off; /* the input whose head waits until what is over at its time is gone; NULL if none does */
    PyObject *cells;   /* in which records were counted last; may be NULL */
    Turns turns;       /* of several inputs, the others that have a head */
    long long late, most;
} Loop;

/* The next time at which something is to be done. */
typedef struct {
    PyObject **slot;  /* of Python, which says it */
    PyObject *object; /* what the slot had when it was read last, or NULL */
    int64_t time;     /* what it said */
    int is_never;     /* says whether that is later than any time can be */
} Due;

/* The state of one call. */
typedef struct {
    PyObject **stop, **message, **time; /* slots of the control and the context */
    int64_t stream_time;                /* what *time is */
    Due calls, expiry;                  /* of callbacks, and of entries of stores */
    int64_t until;                      /* no record with a higher time is taken */
    int takes_turns;                    /* says whether there are several inputs */
} Turn;

enum { GO_ON, ENOUGH, LEAVE, PUT_OFF, RAISED };

/* The value of a slot from now on. */
static void put(PyObject **slot, PyObject *value) { Py_SETREF(*slot, Py_NewRef(value)); }

/* ---- one record ---- */

/* Says how the record that is processed now stands in time. */
static void note_time(Loop *self, Input *input, Turn *turn, PyObject *time) {
    if (input->time > input->partition_time) input->partition_time = input->time;
    if (input->time < turn->stream_time) {
        long long behind = turn->stream_time - input->time;
        self->late += behind;
        if (behind > self->most) self->most = behind;
    } else if (input->time > turn->stream_time) {
        turn->stream_time = input->time;
        put(turn->time, time);
    }
}

/* Reads a time, an int or a float that may be infinite; 0, or -1 with an exception. */
static int read_due(Due *of) {
    PyObject *due = *of->slot ? *of->slot : Py_None; /* which is no time either */
    int overflow = 0;
    if (PyLong_Check(due)) of->time = PyLong_AsLongLongAndOverflow(due, &overflow);
    else {
        double time = PyFloat_AsDouble(due);
        if (time == -1 && PyErr_Occurred()) return -1;
        overflow = time >= (double)INT64_MAX ? 1 : time <= (double)INT64_MIN ? -1 : 0;
        if (!overflow) of->time = (int64_t)ceil(time);
    }
    of->is_never = overflow > 0;
    if (overflow < 0) of->time = INT64_MIN;
    Py_XSETREF(of->object, Py_NewRef(due));
    return 0;
}

/* Says whether it is to be done at a time; -1 with an exception. */
static inline int is_due(Due *of, int64_t time) {
    if (*of->slot != of->object && read_due(of)) return -1;
    return time >= of->time && !of->is_never;
}

/* Punctuates where it is time to. The record may have scheduled something that is due at once. */
static int look_at_time(const Loop *self, Turn *turn) {
    int due = is_due(&turn->calls, turn->stream_time);
    return due < 0 || (due && notify(self->punctuate)) ? RAISED : GO_ON;
}

/* Has Python move time on, which reads and sets the context's. The marker is no head any more. It is not put off for
 * entries that are over by then: it cannot be known before where it moves time to. */
static int run_marker(const Loop *self, Input *input, Turn *turn) {
    PyObject *marker = input->record, *apply = Py_NewRef(input->apply);
    input->record = NULL;
    Py_CLEAR(input->key);
    Py_CLEAR(input->value);
    put(turn->message, Py_None);
    PyObject *done = PyObject_CallOneArg(apply, marker);
    Py_DECREF(apply);
    Py_DECREF(marker);
    if (!done) return RAISED;
    Py_DECREF(done);
    turn->stream_time = PyLong_AsLongLong(*turn->time);
    if (turn->stream_time == -1 && PyErr_Occurred()) return RAISED;
    int how = look_at_time(self, turn);
    int over = how == GO_ON ? is_due(&turn->expiry, turn->stream_time) : 0;
    return over ? over < 0 ? RAISED : ENOUGH : how;
}

/* The head moves time to where entries of stores are over. It waits until they are gone, so that neither it nor what
 * it leads to finds any of them. */
static int put_off(Loop *self, Input *input, Turn *turn) {
    PyObject *time = PyLong_FromLongLong(input->time);
    if (!time) return RAISED;
    note_time(self, input, turn, time);
    Py_DECREF(time);
    return PUT_OFF;
}

/* Pushes the head, which is none any more, unless it is put off. */
static int run_head(Loop *self, Input *input, Turn *turn) {
    if (Py_IS_TYPE(input->record, &sa_time_marker_type.type)) return run_marker(self, input, turn);
    int over = is_due(&turn->expiry, input->time);
    if (over) return over < 0 ? RAISED : put_off(self, input, turn);
    Record *record = (Record *)input->record;
    PyObject *push = Py_NewRef(input->push);
    PyObject *given[PUSHED] = {input->key, input->value, PyLong_FromLongLong(input->time), record->headers};
    input->record = input->key = input->value = NULL;
    int how = RAISED;
    if (given[TIMESTAMP]) {
        put(turn->message, (PyObject *)record);
        note_time(self, input, turn, given[TIMESTAMP]);
        if (!sa_push(push, given)) {
            input->position = record->offset + 1;
            how = look_at_time(self, turn);
        }
    }
    Py_DECREF(given[KEY]);
    Py_DECREF(given[VALUE]);
    Py_XDECREF(given[TIMESTAMP]);
    Py_DECREF(push);
    Py_DECREF(record);
    return how;
}

/* ---- whose turn it is ---- */

/* Puts the input back whose turn it was, and takes the one whose turn it is; 0, or -1 with an exception. */
static int change_turns(Loop *self) {
    if (sa_offer(&self->turns, (Input *)self->running)) return -1;
    Py_SETREF(self->running, (PyObject *)sa_poll(&self->turns));
    return 0;
}

/* Runs the head of the input whose turn it is, or of another one if it comes later than theirs, unless it is too late.
 */
static int run_next(Loop *self, Turn *turn) {
    if (*turn->stop != Py_False) return LEAVE;
    Input *input = (Input *)self->running;
    if (!input->record) {
        int how = sa_read_head(input, self->cells);
        if (how != READ) return how == FAILED ? RAISED : how == DROPPED ? GO_ON : LEAVE;
        if (turn->takes_turns && change_turns(self)) return RAISED;
    }
    input = (Input *)self->running;
    return input->time > turn->until ? LEAVE : run_head(self, input, turn);
}

/* Has an input wait for its turn, if it has a record; 0, or -1 with an exception. */
static int offer(Loop *self, Input *input) {
    int how = input->is_offered ? NONE_LEFT : sa_find_head(input);
    if (how == READ) {
        if (sa_offer(&self->turns, input)) return -1;
        input->is_offered = 1;
    }
    return how == FAILED ? -1 : 0;
}

/* The input that a place of the list has, or NULL. */
static Input *input_at(const Loop *self, Py_ssize_t place) {
    PyObject *found = place < PyList_GET_SIZE(self->inputs) ? PyList_GET_ITEM(self->inputs, place) : NULL;
    return found && Py_IS_TYPE(found, &sa_input_type.type) ? (Input *)found : NULL;
}

/* Takes the first input whose turn it is; says whether there is one. */
static int begin(Loop *self, Turn *turn) {
    turn->takes_turns = PyList_GET_SIZE(self->inputs) > 1;
    if (*turn->stop != Py_False) return 0;
    if (self->put_off) {
        self->running = self->put_off;
        self->put_off = NULL;
        /* It was within the bound then, and the stream time is its own already. */
        if (((Input *)self->running)->time > turn->until) turn->until = ((Input *)self->running)->time;
    } else if (!turn->takes_turns) self->running = Py_XNewRef((PyObject *)input_at(self, 0));
    else if (self->turns.count) self->running = (PyObject *)sa_poll(&self->turns);
    return self->running != NULL;
}

/* The input whose turn it was waits for the next one; 0, or -1 with an exception. */
static int end(Loop *self, const Turn *turn, int how) {
    Input *last = (Input *)self->running, *each;
    self->running = NULL;
    last->is_offered = how == PUT_OFF;
    if (how == PUT_OFF) self->put_off = Py_NewRef((PyObject *)last);
    int failed = how == RAISED || (turn->takes_turns && how != PUT_OFF && offer(self, last));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->inputs); i++)
        if ((each = input_at(self, i))) sa_look_away(each);
    Py_DECREF(last);
    return failed ? -1 : 0;
}

/* ---- calls of Python ---- */

/* The arguments of run(). */
typedef struct {
    PyObject *control, *due, *expiry;
    Py_ssize_t limit;
    int64_t until;
} Run;

static const Field run_fields[] = {FIELD(Run, control, OBJECT),
                                   FIELD(Run, due, OBJECT),
                                   FIELD(Run, expiry, OBJECT),
                                   FIELD(Run, limit, SIZE, .most = PY_SSIZE_T_MAX),
                                   FIELD(Run, until, LONG, .may_be_left_out = 1, .otherwise = INT64_MAX),
                                   {0}};

static int find_slots(const Loop *self, const Run *run, Turn *turn) {
    if (!(turn->stop = sa_slot(run->control, "stop")) || !(turn->message = sa_slot(self->context, "message")) ||
        !(turn->time = sa_slot(self->context, "stream_time")) || !(turn->calls.slot = sa_slot(run->due, "next_due")) ||
        !(turn->expiry.slot = sa_slot(run->expiry, "next_due")))
        return -1;
    turn->stream_time = PyLong_AsLongLong(*turn->time);
    return turn->stream_time == -1 && PyErr_Occurred() ? -1 : 0;
}

/* How many records were taken. */
static PyObject *loop_run(Loop *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Run run;
    Turn turn = {NULL};
    self->late = self->most = 0;
    if (sa_take_fields("run", run_fields, given, count, names, &run) || find_slots(self, &run, &turn)) return NULL;
    if (self->running) return PyErr_Format(PyExc_RuntimeError, "a task that processes a record is to process others");
    turn.until = run.until;
    if (!begin(self, &turn)) return PyLong_FromLong(0);
    int how = GO_ON;
    Py_ssize_t taken = 0;
    sa_keep_cells_used(&self->cells);
    while (how == GO_ON && taken < run.limit) {
        how = run_next(self, &turn);
        taken += how == GO_ON || how == ENOUGH;
    }
    sa_keep_cells_used(NULL);
    Py_XDECREF(turn.calls.object);
    Py_XDECREF(turn.expiry.object);
    put(turn.message, Py_None);
    return end(self, &turn, how) ? NULL : PyLong_FromSsize_t(taken);
}

static PyObject *loop_offer(Loop *self, PyObject *input) {
    if (!Py_IS_TYPE(input, &sa_input_type.type)) return PyErr_Format(PyExc_TypeError, "offer takes an Input");
    return offer(self, (Input *)input) ? NULL : Py_NewRef(Py_None);
}

static PyObject *loop_clear(Loop *self, PyObject *none) {
    sa_clear_turns(&self->turns);
    if (self->put_off) ((Input *)self->put_off)->is_offered = 0;
    Py_CLEAR(self->put_off);
    Py_RETURN_NONE;
}

static const Field loop_fields[] = {FIELD(Loop, inputs, OBJECT, .type = &PyList_Type),
                                    FIELD(Loop, context, OBJECT),
                                    FIELD(Loop, punctuate, FUNCTION),
                                    FIELD(Loop, running, OWN),
                                    FIELD(Loop, put_off, OWN),
                                    FIELD(Loop, cells, OWN),
                                    {0}};

static int visit_loop(PyObject *object, visitproc visit, void *arg) {
    const Turns *turns = &((Loop *)object)->turns;
    for (Py_ssize_t i = 0; i < turns->count; i++) Py_VISIT(turns->heap[i]);
    return sa_visit(object, visit, arg);
}

static int clear_loop(PyObject *object) {
    sa_clear_turns(&((Loop *)object)->turns);
    return sa_clear(object);
}

static void loop_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    sa_clear_turns(&((Loop *)object)->turns);
    sa_free(object);
}

static PyMemberDef loop_members[] = {{"late", T_LONGLONG, offsetof(Loop, late), READONLY, NULL},
                                     {"most", T_LONGLONG, offsetof(Loop, most), READONLY, NULL},
                                     {"put_off", T_OBJECT, offsetof(Loop, put_off), READONLY, NULL},
                                     {0}};

static PyMethodDef loop_methods[] = {{"run", (PyCFunction)(void (*)(void))loop_run, METH_FASTCALL | METH_KEYWORDS,
                                      "run(*, control, due, expiry, limit, until=...): records taken"},
                                     {"offer", (PyCFunction)loop_offer, METH_O, "offer(input): it waits for its turn"},
                                     {"clear", (PyCFunction)loop_clear, METH_NOARGS, "clear(): none waits"},
                                     {0}};

MadeType sa_loop_type = {
    .type = {MADE(Loop), .tp_traverse = visit_loop, .tp_clear = clear_loop, .tp_dealloc = loop_free,
             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_members = loop_members,
             .tp_methods = loop_methods},
    .fields = loop_fields,
};
