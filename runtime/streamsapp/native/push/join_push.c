#include "push/join_push.h"

#include "base/objects.h"

typedef struct {
    Push push;
    PyObject *rows;     /* finds a row by its key */
    PyObject *selector; /* gives the row's key; None: it is the record's */
    PyObject *joiner, *forward, *on_error, *dropped;
    int keys;   /* the joiner is given none, the record's key, or that and the row's */
    char left;  /* says whether a record without a row is joined, too */
    char as_of; /* says whether rows are found by key and time */
} JoinPush;

enum { JOINED, WITHOUT_ROW, DROPPED, FAILED };

/* None if there is no such row; NULL with an exception. */
static PyObject *find_row(const JoinPush *self, PyObject *row_key, PyObject *timestamp) {
    if (row_key == Py_None) return Py_NewRef(row_key);
    PyObject *of[] = {row_key, timestamp}, *found = PyObject_Vectorcall(self->rows, of, self->as_of ? 2 : 1, NULL);
    PyObject *row = found ? part_of(found, 0) : NULL;
    Py_XDECREF(found);
    return row;
}

static PyObject *call_joiner(const JoinPush *self, PyObject *const *given, PyObject *row_key, PyObject *row) {
    PyObject *with[] = {given[KEY], row_key, given[VALUE], row};
    if (self->keys == 2) return PyObject_Vectorcall(self->joiner, with, 4, NULL);
    with[1] = given[KEY];
    return PyObject_Vectorcall(self->joiner, with + 2 - self->keys, (size_t)(2 + self->keys), NULL);
}

static int join_with(const JoinPush *self, PyObject *const *given, PyObject *row_key, PyObject **result) {
    if (given[VALUE] == Py_None || (row_key == Py_None && !self->left)) return DROPPED;
    PyObject *row = find_row(self, row_key, given[TIMESTAMP]);
    if (!row) return FAILED;
    int has_result = row != Py_None || self->left;
    *result = has_result ? call_joiner(self, given, row_key, row) : NULL;
    Py_DECREF(row);
    return !has_result ? WITHOUT_ROW : *result ? JOINED : FAILED;
}

static int join(const JoinPush *self, PyObject *const *given, PyObject **result) {
    PyObject *row_key =
        self->selector == Py_None ? Py_NewRef(given[KEY]) : PyObject_Vectorcall(self->selector, given, 2, NULL);
    int how = row_key ? join_with(self, given, row_key, result) : FAILED;
    Py_XDECREF(row_key);
    return how;
}

static int run_join(PyObject *pushed, PyObject *const *given) {
    const JoinPush *self = (JoinPush *)pushed;
    PyObject *result = NULL;
    switch (join(self, given, &result)) {
    case FAILED: return sa_handled(self->on_error, given, PUSHED);
    case DROPPED: return notify(self->dropped);
    case WITHOUT_ROW: return 0;
    }
    PyObject *joined[PUSHED] = {given[KEY], result, given[TIMESTAMP], given[HEADERS]};
    int failed = sa_push(self->forward, joined);
    Py_DECREF(result);
    return failed;
}

static const Field join_fields[] = {FIELD(JoinPush, rows, FUNCTION),
                                    FIELD(JoinPush, as_of, TRUTH, .may_be_left_out = 1),
                                    FIELD(JoinPush, selector, FUNCTION, .may_be_none = 1),
                                    FIELD(JoinPush, joiner, FUNCTION),
                                    FIELD(JoinPush, keys, INT, .most = 2),
                                    FIELD(JoinPush, left, TRUTH),
                                    FIELD(JoinPush, forward, FUNCTION),
                                    FIELD(JoinPush, on_error, FUNCTION),
                                    FIELD(JoinPush, dropped, FUNCTION),
                                    {0}};

PushType sa_join_push_type = {
    .made = {.type = {PUSH(JoinPush)}, .fields = join_fields},
    .run = run_join,
};
