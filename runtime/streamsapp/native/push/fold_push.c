#include "push/fold_push.h"

#include "base/objects.h"
#include "base/output_record.h"
#include "push/updates.h"

typedef struct {
    Push push;
    PyObject *initializer; /* None: the first value of a key is its first aggregate */
    PyObject *fold;        /* takes key, value and aggregate; without an initializer aggregate and value */
    PyObject *deleting;    /* is called for an aggregate of None; None: nothing is */
    PyObject *key_bytes, *read, *write, *to_stored;
    PyObject *from_stored, *raw; /* None: values are what is stored, and stored ones are bytes */
    PyObject *old_is_known;      /* says of a key and its bytes that its old value may be anything; None: of none */
    PyObject *topic, *emit;      /* where records without headers go in place of an update; both None: nowhere */
    PyObject *update, *on_error, *dropped;
    char rereads;   /* says whether the old value is read once more, as the function may have changed it in place */
    char true_old;  /* says whether the old value of a key that was not there is None */
    char at_commit; /* says whether a deletion is sent with its record's time */
} FoldPush;

/* A key before and after a record: new references, or NULL. */
typedef struct {
    PyObject *key, *stored, *stored_at, *old, *result, *result_stored;
} Fold;

static int is_reduce(const FoldPush *self) { return self->initializer == Py_None; }

static void let_go(Fold *of) {
    Py_XDECREF(of->result_stored);
    Py_XDECREF(of->result);
    Py_XDECREF(of->old);
    Py_XDECREF(of->stored_at);
    Py_XDECREF(of->stored);
    Py_XDECREF(of->key);
}

/* ---- user code, whose errors are handled ---- */

static int read_entry(const FoldPush *self, PyObject *key, Fold *of) {
    of->key = PyObject_CallOneArg(self->key_bytes, key);
    PyObject *entry = of->key ? PyObject_CallOneArg(self->read, of->key) : NULL;
    if (entry) of->stored = part_of(entry, 0);
    if (of->stored) of->stored_at = part_of(entry, 1);
    Py_XDECREF(entry);
    return of->stored_at ? 0 : -1;
}

/* The aggregate before the record: None where there was none, and nothing makes one. NULL with an exception. */
static PyObject *aggregate_of(const FoldPush *self, PyObject *stored) {
    if (stored == Py_None) return is_reduce(self) ? Py_NewRef(stored) : PyObject_CallNoArgs(self->initializer);
    return self->from_stored == Py_None ? Py_NewRef(stored) : PyObject_CallOneArg(self->from_stored, stored);
}

static PyObject *folded(const FoldPush *self, PyObject *const *given, PyObject *old) {
    PyObject *with[] = {given[KEY], given[VALUE], old, given[VALUE]};
    if (!is_reduce(self)) return PyObject_Vectorcall(self->fold, with, 3, NULL);
    return old == Py_None ? Py_NewRef(given[VALUE]) : PyObject_Vectorcall(self->fold, with + 2, 2, NULL);
}

/* The stored form of the result; the bytes of the old value where the function returned just that. */
static PyObject *stored_of(const FoldPush *self, PyObject *key, const Fold *of) {
    if (of->result == Py_None) return self->deleting != Py_None && notify(self->deleting) ? NULL : Py_NewRef(Py_None);
    PyObject *with[] = {key, of->result, of->result == of->old ? of->stored : Py_None};
    return PyObject_Vectorcall(self->to_stored, with, 3, NULL);
}

/* 1, 0, or -1 with an exception. */
static int needs_old_again(const FoldPush *self, PyObject *key, const Fold *of) {
    if (!self->rereads || (is_reduce(self) && of->old == Py_None)) return 0;
    if (self->old_is_known == Py_None) return 1;
    PyObject *of_key[] = {key, of->key}, *known = PyObject_Vectorcall(self->old_is_known, of_key, 2, NULL);
    int is_known = known ? PyObject_IsTrue(known) : -1;
    Py_XDECREF(known);
    return is_known < 0 ? -1 : !is_known;
}

static int read_old_again(const FoldPush *self, PyObject *key, Fold *of) {
    int needs = needs_old_again(self, key, of);
    if (needs > 0) Py_XSETREF(of->old, aggregate_of(self, of->stored));
    return needs < 0 || !of->old ? -1 : 0;
}

/* 0, or -1 with an exception. */
static int fold(const FoldPush *self, PyObject *const *given, Fold *of) {
    if (read_entry(self, given[KEY], of) || !(of->old = aggregate_of(self, of->stored)) ||
        !(of->result = folded(self, given, of->old)) || !(of->result_stored = stored_of(self, given[KEY], of)))
        return -1;
    return read_old_again(self, given[KEY], of);
}

/* ---- what becomes of it ---- */

/* Borrows the later one of two times; NULL with an exception. */
static PyObject *later(PyObject *one, PyObject *other) {
    PyObject *both[] = {one, other};
    int64_t times[2];
    return !are_integers(both, 2, times) ? NULL : times[1] > times[0] ? other : one;
}

static int write_result(const FoldPush *self, const Fold *of, PyObject *time) {
    PyObject *with[] = {of->key, of->result_stored, time};
    PyObject *done = PyObject_Vectorcall(self->write, with, 3, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int emit_result(const FoldPush *self, const Fold *of, PyObject *time) {
    int is_raw = of->result == Py_None || self->raw == Py_None;
    PyObject *value = is_raw ? Py_NewRef(of->result_stored) : PyObject_CallOneArg(self->raw, of->result_stored);
    PyObject *record = value ? output_record(self->topic, of->key, value, time, Py_None) : NULL;
    Py_XDECREF(value);
    return emit_record(self->emit, record);
}

static int tell_update(const FoldPush *self, PyObject *const *given, const Fold *of, PyObject *time) {
    PyObject *old = self->true_old && of->stored == Py_None ? Py_None : of->old;
    PyObject *told[UPDATED] = {given[KEY], of->key, of->result, old, time, given[HEADERS]};
    PyObject *done = PyObject_Vectorcall(self->update, told, UPDATED, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int keep_and_tell(const FoldPush *self, PyObject *const *given, const Fold *of) {
    int is_deleted = of->result == Py_None;
    PyObject *changed_at = later(given[TIMESTAMP], of->stored_at);
    if (!changed_at || write_result(self, of, is_deleted ? given[TIMESTAMP] : changed_at)) return -1;
    if (is_deleted && self->at_commit) changed_at = given[TIMESTAMP];
    if (self->emit != Py_None && given[HEADERS] == Py_None) return emit_result(self, of, changed_at);
    return tell_update(self, given, of, changed_at);
}

static int run_fold(PyObject *pushed, PyObject *const *given) {
    const FoldPush *self = (FoldPush *)pushed;
    if (given[KEY] == Py_None || given[VALUE] == Py_None) return notify(self->dropped);
    Fold of = {NULL};
    int failed = fold(self, given, &of) ? sa_handled(self->on_error, given, PUSHED) : keep_and_tell(self, given, &of);
    let_go(&of);
    return failed;
}

static const Field fold_fields[] = {FIELD(FoldPush, initializer, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, fold, FUNCTION),
                                    FIELD(FoldPush, deleting, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, key_bytes, FUNCTION),
                                    FIELD(FoldPush, read, FUNCTION),
                                    FIELD(FoldPush, write, FUNCTION),
                                    FIELD(FoldPush, to_stored, FUNCTION),
                                    FIELD(FoldPush, from_stored, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, raw, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, old_is_known, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, topic, OBJECT, .type = &PyUnicode_Type, .may_be_none = 1),
                                    FIELD(FoldPush, emit, FUNCTION, .may_be_none = 1),
                                    FIELD(FoldPush, update, FUNCTION),
                                    FIELD(FoldPush, on_error, FUNCTION),
                                    FIELD(FoldPush, dropped, FUNCTION),
                                    FIELD(FoldPush, rereads, TRUTH),
                                    FIELD(FoldPush, true_old, TRUTH),
                                    FIELD(FoldPush, at_commit, TRUTH),
                                    {0}};

static int complete_fold(PyObject *made) {
    const FoldPush *self = (FoldPush *)made;
    if ((self->topic == Py_None) == (self->emit == Py_None)) return 0;
    PyErr_SetString(PyExc_TypeError, "FoldPush: topic and emit are None together, or neither is");
    return -1;
}

PushType sa_fold_push_type = {
    .made = {.type = {PUSH(FoldPush)}, .fields = fold_fields, .complete = complete_fold},
    .run = run_fold,
};
