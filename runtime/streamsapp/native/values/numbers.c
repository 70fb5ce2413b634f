#include "values/numbers.h"

#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "base/byte_order.h"

/* The argument of a call that has just one; NULL without an exception. */
static PyObject *only(PyObject *const *given, size_t flags, PyObject *names) {
    return PyVectorcall_NARGS(flags) == 1 && !names ? given[0] : NULL;
}

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *otherwise;
    int size; /* in bytes */
} Number;

/* The bits of a long before those of the number. */
static int unused_bits(const Number *self) { return 64 - 8 * self->size; }

/* Says whether it is an int of so many bytes. */
static int is_in_range(const Number *self, PyObject *value, int64_t *found) {
    int beyond = 0;
    if (!value || !PyLong_CheckExact(value)) return 0;
    *found = PyLong_AsLongLongAndOverflow(value, &beyond);
    int64_t most = INT64_MAX >> unused_bits(self);
    return !beyond && *found <= most && *found >= -most - 1;
}

static PyObject *write_number(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const Number *self = (Number *)called;
    int64_t found;
    if (!is_in_range(self, only(given, flags, names), &found))
        return PyObject_Vectorcall(self->otherwise, given, flags, names);
    uint64_t bytes = htobe64((uint64_t)found << unused_bits(self));
    return PyBytes_FromStringAndSize((const char *)&bytes, self->size);
}

static PyObject *read_number(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const Number *self = (Number *)called;
    PyObject *data = only(given, flags, names);
    if (!data || !PyBytes_CheckExact(data) || PyBytes_GET_SIZE(data) != self->size)
        return PyObject_Vectorcall(self->otherwise, given, flags, names);
    uint64_t bytes = 0;
    memcpy(&bytes, PyBytes_AS_STRING(data), (size_t)self->size);
    return PyLong_FromLongLong((int64_t)be64toh(bytes) >> unused_bits(self));
}

static int complete_writer(PyObject *made) {
    ((Number *)made)->call = write_number;
    return 0;
}

static int complete_reader(PyObject *made) {
    ((Number *)made)->call = read_number;
    return 0;
}

static const Field number_fields[] = {
    FIELD(Number, size, INT, .least = 1, .most = 8), FIELD(Number, otherwise, FUNCTION), {0}};

static PyMemberDef number_members[] = {{"size", T_INT, offsetof(Number, size), READONLY, NULL},
                                       {"otherwise", T_OBJECT_EX, offsetof(Number, otherwise), READONLY, NULL},
                                       {0}};

typedef Number NumberWriter; /* the names of the types */
typedef Number NumberReader;

MadeType sa_number_writer_type = {
    .type = {CALLED(NumberWriter), .tp_members = number_members},
    .fields = number_fields,
    .complete = complete_writer,
};

MadeType sa_number_reader_type = {
    .type = {CALLED(NumberReader), .tp_members = number_members},
    .fields = number_fields,
    .complete = complete_reader,
};
