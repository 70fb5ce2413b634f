#include "push/windows.h"

#include <string.h>
#include <structmember.h>

#include "base/objects.h"
#include "cells/cells.h"
#include "cells/held_cells.h"
#include "push/count_push.h"

/* Of the store's keys, segment, key, start and number, the keys of time_windowed have the two in the middle. */
static const Hidden OF_WINDOWS = {8, 4};

enum { AT_ONCE = 8 }; /* windows whose keys are made before their cells are looked up */

/* The windows that start at one time: the bytes of their keys before and after that of a record, and whether all that
 * have a count are at hand. */
typedef struct {
    PyObject_HEAD
    PyObject *before, *after;
    char whole, observed;
} Window;

typedef struct {
    PyObject_HEAD
    int64_t latest; /* the highest timestamp of a record; -1 before the first */
} StreamTime;

typedef struct {
    Counting as;
    PyObject *segments;
    PyObject *windows_of;  /* finds the windows of a step of time */
    PyObject *late;        /* is called for each window that has closed */
    PyObject *tell;        /* pushes a count on; None: nothing is pushed at once */
    PyObject *stream_time; /* a StreamTime, of all push functions of the operator */
    PyObject *windows;     /* of the step of the record before; NULL if they are not known */
    int64_t step, step_ms, grace_ms;
} WindowPush;

/* A record that is counted: borrowed references. */
typedef struct {
    PyObject *key, *key_bytes, *headers;
    int64_t timestamp, closed_until;
    int straight; /* to the topic */
} Counted;

/* One of its windows; the last three parts are borrowed. */
typedef struct {
    PyObject *physical; /* NULL if the window has closed */
    PyObject *start, *end;
    Window *window;
} Due;

/* ---- windows of one start ---- */

static const Field window_fields[] = {FIELD(Window, before, OBJECT, .type = &PyBytes_Type),
                                      FIELD(Window, after, OBJECT, .type = &PyBytes_Type),
                                      FIELD(Window, whole, TRUTH),
                                      {0}};

static PyMemberDef window_members[] = {{"before", T_OBJECT_EX, offsetof(Window, before), READONLY, NULL},
                                       {"after", T_OBJECT_EX, offsetof(Window, after), READONLY, NULL},
                                       {"whole", T_BOOL, offsetof(Window, whole), 0, NULL},
                                       {0}};

MadeType sa_window_type = {
    .type = {MADE(Window), .tp_dealloc = sa_free, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_members = window_members},
    .fields = window_fields,
};

/* ---- stream time ---- */

static PyObject *stream_time_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    if (!PyArg_ParseTuple(args, "")) return NULL;
    StreamTime *self = PyObject_New(StreamTime, type);
    if (self) self->latest = NO_TIMESTAMP;
    return (PyObject *)self;
}

static PyMemberDef stream_time_members[] = {{"latest", T_LONGLONG, offsetof(StreamTime, latest), 0, NULL}, {0}};

PyTypeObject sa_stream_time_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.StreamTime",
    .tp_basicsize = sizeof(StreamTime),
    .tp_new = stream_time_new,
    .tp_dealloc = (destructor)PyObject_Free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = stream_time_members,
};

/* ---- counting ---- */

static PyObject *key_in_store(const Window *window, PyObject *key) {
    size_t before = (size_t)PyBytes_GET_SIZE(window->before), size = (size_t)PyBytes_GET_SIZE(key);
    size_t after = (size_t)PyBytes_GET_SIZE(window->after);
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + size + after));
    if (!made) return NULL;
    char *at = PyBytes_AS_STRING(made);
    memcpy(at, PyBytes_AS_STRING(window->before), before);
    memcpy(at + before, PyBytes_AS_STRING(key), size);
    memcpy(at + before + size, PyBytes_AS_STRING(window->after), after);
    return made;
}

/* The store's stream time is not before a window's start once that has a count. */
static int observe(const WindowPush *self, Window *window, PyObject *start) {
    if (window->observed) return 0;
    PyObject *stream_time = PyObject_GetAttrString(self->segments, "stream_time");
    int later = stream_time ? PyObject_RichCompareBool(start, stream_time, Py_GT) : -1;
    Py_XDECREF(stream_time);
    PyObject *seen = later > 0 ? PyObject_CallMethod(self->segments, "observe", "O", start) : NULL;
    Py_XDECREF(seen);
    if (later < 0 || (later && !seen)) return -1;
    window->observed = 1;
    return 0;
}

/* Sends the count: to the topic where it goes there as it is, else to whatever comes next. */
static int forward_window(const WindowPush *self, const Counted *of, const Cell *cell, PyObject *start, PyObject *end) {
    PyObject *done, *made;
    if (of->straight) {
        made = sa_told_by(cell, self->as.topic, sa_key_told(cell, OF_WINDOWS), cell->timestamp);
        done = made ? PyObject_CallOneArg(self->as.emit, made) : NULL;
    } else {
        made = Py_BuildValue("(OOOLLO)", of->key, start, end, (long long)cell->count, (long long)cell->timestamp,
                             of->headers);
        done = made ? PyObject_CallObject(self->tell, made) : NULL;
    }
    Py_XDECREF(made);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* (cell, key, start, end); NULL if the cell is held, or with an exception. */
static PyObject *note_of(Cell *cell, const Counted *of, const Due *due) {
    return cell->held ? NULL : PyTuple_Pack(4, cell, of->key, due->start, due->end);
}

static int count_in(const WindowPush *self, const Counted *of, const Due *due) {
    if (!due->physical) return notify(self->late);
    Cells *cells = (Cells *)self->as.cells;
    Cell *cell = sa_count_cell(cells, sa_cell_of(cells, due->physical, due->window->whole), of->timestamp);
    if (!cell) return -1;
    int failed = observe(self, due->window, due->start) ? -1
                 : self->tell != Py_None                ? forward_window(self, of, cell, due->start, due->end)
                 : self->as.noted != Py_None
                     ? sa_hold_cell(cell, note_of(cell, of, due), self->as.noted, self->as.noted_headers, of->headers)
                     : 0;
    Py_DECREF(cell);
    return failed;
}

/* Makes the key of a window, (start, end, Window), unless that has closed; 0, or -1 with an exception. */
static int make_due(const Counted *of, PyObject *found, Due *due) {
    PyObject **part = PyTuple_Check(found) && PyTuple_GET_SIZE(found) == 3 ? &PyTuple_GET_ITEM(found, 0) : NULL;
    if (!part || !Py_IS_TYPE(part[2], &sa_window_type.type)) {
        PyErr_SetString(PyExc_TypeError, "windows are (start, end, Window)");
        return -1;
    }
    int64_t end_ms = PyLong_AsLongLong(part[1]);
    if (end_ms == -1 && PyErr_Occurred()) return -1;
    *due = (Due){NULL, part[0], part[1], (Window *)part[2]};
    if (end_ms <= of->closed_until) return 0;
    due->physical = key_in_store(due->window, of->key_bytes);
    return due->physical ? 0 : -1;
}

/* Counts in some windows, whose cells lie here and there; 0, or -1 with an exception. */
static int count_some(const WindowPush *self, const Counted *of, PyObject *windows, Py_ssize_t begin) {
    Due due[AT_ONCE];
    Py_ssize_t size = PyTuple_GET_SIZE(windows) - begin, made = 0, at = 0;
    if (size > AT_ONCE) size = AT_ONCE;
    while (made < size && !make_due(of, PyTuple_GET_ITEM(windows, begin + made), &due[made])) made++;
    int failed = made < size;
    for (int step = 0; step < 3 && !failed && size > 1; step++)
        for (Py_ssize_t i = 0; i < size; i++)
            if (due[i].physical) look_up_soon((Cells *)self->as.cells, due[i].physical, step);
    for (; at < size && !failed; at++) failed = count_in(self, of, &due[at]);
    for (Py_ssize_t i = 0; i < made; i++) Py_XDECREF(due[i].physical);
    return failed ? -1 : 0;
}

/* The windows of a timestamp, which are the windows of its step; NULL with an exception. */
static PyObject *windows_at(WindowPush *self, int64_t timestamp) {
    int64_t step = timestamp / self->step_ms - (timestamp % self->step_ms < 0);
    if (self->windows && self->step == step) return Py_NewRef(self->windows);
    PyObject *number = PyLong_FromLongLong(step);
    PyObject *found = number ? PyObject_CallOneArg(self->windows_of, number) : NULL;
    Py_XDECREF(number);
    if (found && !PyTuple_Check(found)) {
        PyErr_SetString(PyExc_TypeError, "windows are in a tuple");
        Py_CLEAR(found);
    }
    if (!found) return NULL;
    Py_XSETREF(self->windows, Py_NewRef(found));
    self->step = step;
    return found;
}

/* Bytes, of what is like them: a serde may give that. Takes it over; NULL with an exception. */
static PyObject *made_bytes(PyObject *given) {
    if (PyBytes_CheckExact(given)) return given;
    PyObject *none = PyBytes_FromStringAndSize("", 0), *made = none ? PySequence_Concat(none, given) : NULL;
    Py_XDECREF(none);
    Py_DECREF(given);
    return made;
}

static int count_in_windows(WindowPush *self, const Counted *of) {
    PyObject *windows = windows_at(self, of->timestamp); /* which may be forgotten meanwhile */
    int failed = windows ? 0 : -1;
    for (Py_ssize_t at = 0; !failed && at < PyTuple_GET_SIZE(windows); at += AT_ONCE)
        failed = count_some(self, of, windows, at);
    Py_XDECREF(windows);
    return failed;
}

static int run_window_count(PyObject *pushed, PyObject *const *given) {
    WindowPush *self = (WindowPush *)pushed;
    const Counting *as = &self->as;
    if (given[KEY] == Py_None) return notify(as->dropped);
    Counted of = {.key = given[KEY], .headers = given[HEADERS]};
    if (!are_integers(given + TIMESTAMP, 1, &of.timestamp)) return -1;
    StreamTime *time = (StreamTime *)self->stream_time;
    if (of.timestamp > time->latest) time->latest = of.timestamp;
    of.closed_until = time->latest - self->grace_ms;
    of.straight = given[HEADERS] == Py_None && as->topic != Py_None;
    PyObject *key = serialized(as->serialize_key, as->keeps_bytes, given[KEY]);
    if (!key) return sa_handled(as->on_error, given, PUSHED);
    of.key_bytes = made_bytes(key);
    int failed = of.key_bytes ? count_in_windows(self, &of) : -1;
    Py_XDECREF(of.key_bytes);
    return failed;
}

/* forget(): the windows that were found are asked for anew. */
static PyObject *window_push_forget(WindowPush *self, PyObject *none) {
    Py_CLEAR(self->windows);
    Py_RETURN_NONE;
}

static const Field window_push_fields[] = {COUNTING_FIELDS,
                                           FIELD(WindowPush, segments, OBJECT),
                                           FIELD(WindowPush, stream_time, OBJECT, .type = &sa_stream_time_type),
                                           FIELD(WindowPush, windows_of, FUNCTION),
                                           FIELD(WindowPush, step_ms, LONG, .least = 1, .most = INT64_MAX),
                                           FIELD(WindowPush, grace_ms, LONG, .most = INT64_MAX),
                                           FIELD(WindowPush, late, FUNCTION),
                                           FIELD(WindowPush, tell, FUNCTION, .may_be_none = 1),
                                           FIELD(WindowPush, windows, OWN),
                                           {0}};

static PyMethodDef window_push_methods[] = {
    {"forget", (PyCFunction)window_push_forget, METH_NOARGS, "forget(): windows are asked for anew"}, {0}};

PushType sa_window_push_type = {
    .made = {.type = {PUSH(WindowPush), .tp_methods = window_push_methods},
             .fields = window_push_fields,
             .complete = sa_complete_counting},
    .run = run_window_count,
};
