#include "push/step.h"

#include <stddef.h>

#include "base/fields.h"
#include "push/push.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    int kind;
    PyObject *function, *adapt, *forward, *on_error;
} Step;

/* How a step uses its function. Those that end in KEYED give it key and value, others the value. */
enum {
    FILTER,
    FILTER_NOT,
    MAP,
    SELECT_KEY,
    MAP_VALUES,
    MAP_VALUES_KEYED,
    FLAT_MAP_VALUES,
    FLAT_MAP_VALUES_KEYED,
    DROP_NULL_KEYS,
    KINDS
};

/* Pushes a record with another key or value, or both. */
static int push_changed(PyObject *to, PyObject *const *given, PyObject *key, PyObject *value) {
    PyObject *changed[PUSHED] = {key, value, given[TIMESTAMP], given[HEADERS]};
    return sa_push(to, changed);
}

static int push_pair(PyObject *to, PyObject *const *given, PyObject *pair) {
    return push_changed(to, given, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
}

static int push_each(PyObject *to, PyObject *const *given, PyObject *values) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); i++) {
        PyObject *value = Py_NewRef(PyList_GET_ITEM(values, i));
        int failed = push_changed(to, given, given[KEY], value);
        Py_DECREF(value);
        if (failed) return -1;
    }
    return 0;
}

static int is_keyed(int kind) { return kind != MAP_VALUES && kind != FLAT_MAP_VALUES; }

static int adapts(int kind) { return kind == MAP || kind == FLAT_MAP_VALUES || kind == FLAT_MAP_VALUES_KEYED; }

/* The result of the function, in the form that is pushed; NULL with an exception. */
static PyObject *result_of_function(const Step *self, PyObject *const *given) {
    PyObject *found = is_keyed(self->kind) ? PyObject_Vectorcall(self->function, given, 2, NULL)
                                           : PyObject_Vectorcall(self->function, given + VALUE, 1, NULL);
    if (!found || self->adapt == Py_None) return found;
    int is_known =
        self->kind == MAP ? PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 2 : PyList_CheckExact(found);
    if (is_known) return found;
    PyObject *adapted = PyObject_CallOneArg(self->adapt, found);
    Py_DECREF(found);
    if (adapted && (self->kind == MAP ? !PyTuple_CheckExact(adapted) || PyTuple_GET_SIZE(adapted) != 2
                                      : !PyList_CheckExact(adapted))) {
        PyErr_SetString(PyExc_TypeError, "adapt gives a pair, or a list");
        Py_CLEAR(adapted);
    }
    return adapted;
}

static int push_result(int kind, PyObject *to, PyObject *const *given, PyObject *found) {
    switch (kind) {
    case MAP: return push_pair(to, given, found);
    case SELECT_KEY: return push_changed(to, given, found, given[VALUE]);
    case MAP_VALUES:
    case MAP_VALUES_KEYED: return push_changed(to, given, given[KEY], found);
    default: return push_each(to, given, found);
    }
}

int sa_run_step(PyObject *pushed, PyObject *const *given) {
    Step *self = (Step *)pushed;
    PyObject *found = NULL;
    int keep = given[KEY] != Py_None;
    if (self->kind != DROP_NULL_KEYS) {
        found = result_of_function(self, given);
        keep = !found ? -1 : self->kind > FILTER_NOT ? 1 : PyObject_IsTrue(found);
        if (keep >= 0 && self->kind == FILTER_NOT) keep = !keep;
    }
    int failed = keep < 0 ? sa_handled(self->on_error, given, PUSHED) : 0;
    if (keep > 0)
        failed = self->kind <= FILTER_NOT || self->kind == DROP_NULL_KEYS
                     ? sa_push(self->forward, given)
                     : push_result(self->kind, self->forward, given, found);
    Py_XDECREF(found);
    return failed;
}

static const Field step_fields[] = {FIELD(Step, kind, INT, .most = KINDS - 1),
                                    FIELD(Step, function, FUNCTION, .may_be_none = 1),
                                    FIELD(Step, adapt, FUNCTION, .may_be_none = 1),
                                    FIELD(Step, forward, FUNCTION),
                                    FIELD(Step, on_error, FUNCTION),
                                    {0}};

static PyObject *step_new(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    Step *self = (Step *)sa_make(type, step_fields, given, flags, names);
    if (!self) return NULL;
    self->call = sa_call_push;
    if (self->function == Py_None && self->kind != DROP_NULL_KEYS) {
        PyErr_Format(PyExc_TypeError, "Step: steps of kind %d need a function", self->kind);
        Py_CLEAR(self);
    } else if (self->adapt == Py_None && adapts(self->kind)) {
        PyErr_Format(PyExc_TypeError, "Step: steps of kind %d need adapt for what their function gives", self->kind);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int step_traverse(PyObject *self, visitproc visit, void *arg) {
    return sa_visit_fields(step_fields, self, visit, arg);
}

static int step_clear(PyObject *self) { return sa_clear_fields(step_fields, self); }

static void step_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    step_clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject sa_step_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Step",
    .tp_basicsize = sizeof(Step),
    .tp_vectorcall = step_new,
    .tp_dealloc = step_dealloc,
    .tp_traverse = step_traverse,
    .tp_clear = step_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Step, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
};
