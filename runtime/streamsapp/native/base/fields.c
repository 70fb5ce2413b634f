#include "base/fields.h"

#include <string.h>

/* A structure that is being filled. */
typedef struct {
    const char *call; /* the function that was called, for errors */
    const Field *fields;
    const Field *next; /* the field that is given next, if they come in the order of the table */
    void *into;
    uint32_t filled; /* a bit for each field */
    char keeps;      /* true if objects are held */
} Filling;

const char *sa_name_of(const PyTypeObject *type) {
    const char *dot = strrchr(type->tp_name, '.');
    return dot ? dot + 1 : type->tp_name;
}

static int is_object(const Field *field) {
    return field->kind == OBJECT || field->kind == FUNCTION || field->kind == OWN;
}

static void *place_of(const Field *field, void *structure) { return (char *)structure + field->at; }

static int wrong_type(const Filling *filling, const Field *field, PyObject *given, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%s: %s is to be %s%s, not %.100s", filling->call, field->name, expected,
                 field->may_be_none ? " or None" : "", Py_TYPE(given)->tp_name);
    return -1;
}

static int put_object(const Filling *filling, const Field *field, PyObject *given) {
    if (!(field->may_be_none && given == Py_None)) {
        if (field->kind == FUNCTION && !PyCallable_Check(given)) return wrong_type(filling, field, given, "callable");
        if (field->type && !Py_IS_TYPE(given, field->type))
            return wrong_type(filling, field, given, sa_name_of(field->type));
    }
    *(PyObject **)place_of(field, filling->into) = filling->keeps ? Py_NewRef(given) : given;
    return 0;
}

static int64_t least_of(const Field *field) {
    return field->least || field->most ? field->least : field->kind == INT ? INT32_MIN : INT64_MIN;
}

static int64_t most_of(const Field *field) {
    return field->least || field->most ? field->most : field->kind == INT ? INT32_MAX : INT64_MAX;
}

static void set_number(const Field *field, void *structure, int64_t found) {
    void *place = place_of(field, structure);
    switch (field->kind) {
    case TRUTH: *(char *)place = (char)found; break;
    case INT: *(int *)place = (int)found; break;
    case SIZE: *(Py_ssize_t *)place = (Py_ssize_t)found; break;
    default: *(int64_t *)place = found; /* LONG: no other kind is given as a number */
    }
}

static int put_number_given(const Filling *filling, const Field *field, PyObject *given) {
    int beyond = 0;
    if (!PyLong_Check(given)) return wrong_type(filling, field, given, "int");
    int64_t found = PyLong_AsLongLongAndOverflow(given, &beyond), least = least_of(field), most = most_of(field);
    if (beyond || found < least || found > most) {
        PyErr_Format(PyExc_ValueError, "%s: %s is to be from %lld to %lld, not %.100R", filling->call, field->name,
                     (long long)least, (long long)most, given);
        return -1;
    }
    set_number(field, filling->into, found);
    return 0;
}

static int put_given(Filling *filling, const Field *field, PyObject *given) {
    filling->filled |= (uint32_t)1 << (field - filling->fields);
    if (is_object(field)) return put_object(filling, field, given);
    if (field->kind != TRUTH) return put_number_given(filling, field, given);
    if (!PyBool_Check(given)) return wrong_type(filling, field, given, "bool");
    set_number(field, filling->into, given == Py_True);
    return 0;
}

static int is_named(const Field *field, PyObject *name) {
    return field->kind != OWN && !PyUnicode_CompareWithASCIIString(name, field->name);
}

static int put_named(Filling *filling, PyObject *name, PyObject *given) {
    const Field *field = filling->next;
    if (!field->name || !is_named(field, name)) {
        field = filling->fields;
        while (field->name && !is_named(field, name)) field++;
    }
    if (!field->name) {
        PyErr_Format(PyExc_TypeError, "%s has no field %U", filling->call, name);
        return -1;
    }
    filling->next = field + 1;
    return put_given(filling, field, given);
}

/* Gives fields that were left out what they are otherwise; -1 with an exception if one may not be. */
static int complete(const Filling *filling) {
    for (const Field *field = filling->fields; field->name; field++) {
        if (filling->filled >> (field - filling->fields) & 1) continue;
        if (!field->may_be_left_out && field->kind != OWN) {
            PyErr_Format(PyExc_TypeError, "%s needs the field %s", filling->call, field->name);
            return -1;
        }
        if (!is_object(field)) set_number(field, filling->into, field->otherwise);
    }
    return 0;
}

static int take(Filling *filling, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    if (count) {
        PyErr_Format(PyExc_TypeError, "%s takes its fields by name", filling->call);
        return -1;
    }
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (put_named(filling, PyTuple_GET_ITEM(names, i), given[i])) return -1;
    return complete(filling);
}

int sa_take_fields(const char *call, const Field *fields, PyObject *const *given, Py_ssize_t count, PyObject *names,
                   void *into) {
    Filling filling = {.call = call, .fields = fields, .next = fields, .into = into};
    return take(&filling, given, count, names);
}

static const MadeType *type_of(PyObject *self) { return (const MadeType *)Py_TYPE(self); }

PyObject *sa_make(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    MadeType *made = (MadeType *)type;
    PyObject *self = made->type.tp_alloc(&made->type, 0);
    if (!self) return NULL;
    const Field *fields = made->fields;
    Filling filling = {.call = sa_name_of(&made->type), .fields = fields, .next = fields, .into = self, .keeps = 1};
    if (take(&filling, given, PyVectorcall_NARGS(flags), names) || (made->complete && made->complete(self)))
        Py_CLEAR(self);
    return self;
}

int sa_visit(PyObject *self, visitproc visit, void *arg) {
    for (const Field *field = type_of(self)->fields; field->name; field++)
        if (is_object(field)) Py_VISIT(*(PyObject **)place_of(field, self));
    return 0;
}

int sa_clear(PyObject *self) {
    for (const Field *field = type_of(self)->fields; field->name; field++)
        if (is_object(field)) Py_CLEAR(*(PyObject **)place_of(field, self));
    return 0;
}

void sa_free(PyObject *self) {
    if (PyType_IS_GC(Py_TYPE(self))) PyObject_GC_UnTrack(self);
    sa_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *told(const Field *field, const void *from) {
    const void *place = (const char *)from + field->at;
    switch (field->kind) {
    case TRUTH: return PyBool_FromLong(*(const char *)place);
    case INT: return PyLong_FromLong(*(const int *)place);
    case LONG: return PyLong_FromLongLong(*(const int64_t *)place);
    case SIZE: return PyLong_FromSsize_t(*(const Py_ssize_t *)place);
    case REAL: return PyFloat_FromDouble(*(const double *)place);
    default: return *(PyObject *const *)place;
    }
}

PyTypeObject *sa_make_answer_type(const char *name, const Field *fields) {
    PyStructSequence_Field named[MOST_FIELDS + 1] = {{NULL, NULL}};
    int count = 0;
    for (; fields[count].name; count++) named[count].name = fields[count].name;
    return PyStructSequence_NewType(&(PyStructSequence_Desc){name, NULL, named, count});
}

PyObject *sa_tell(PyTypeObject *type, const Field *fields, const void *from) {
    PyObject *answer = PyStructSequence_New(type);
    int failed = !answer;
    for (Py_ssize_t i = 0; fields[i].name; i++) {
        PyObject *item = failed && !is_object(&fields[i]) ? NULL : told(&fields[i], from);
        failed = failed || !item;
        if (answer) PyStructSequence_SET_ITEM(answer, i, item);
        else Py_XDECREF(item);
    }
    if (failed) Py_CLEAR(answer);
    return answer;
}
