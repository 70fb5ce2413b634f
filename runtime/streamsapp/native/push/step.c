#include "push/step.h"

typedef struct {
    Push push;
    int kind;
    PyObject *function, *adapt, *forward, *on_error;
} Step;

/* How a step uses its function. Kinds that end in KEYED give it key and value, others the value. */
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

static int run_step(PyObject *pushed, PyObject *const *given) {
    const Step *self = (Step *)pushed;
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

static int complete_step(PyObject *made) {
    const Step *self = (Step *)made;
    const char *needed = self->function == Py_None && self->kind != DROP_NULL_KEYS ? "a function"
                         : self->adapt == Py_None && adapts(self->kind) ? "adapt for what their function gives"
                                                                        : NULL;
    if (needed) PyErr_Format(PyExc_TypeError, "Step: steps of kind %d need %s", self->kind, needed);
    return needed ? -1 : 0;
}

PushType sa_step_type = {
    .made = {.type = {PUSH(Step)}, .fields = step_fields, .complete = complete_step},
    .run = run_step,
};
