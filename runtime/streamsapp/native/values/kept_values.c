#include "values/kept_values.h"

#include <structmember.h>

#include "base/shapes.h"
#include "values/copies.h"
#include "values/shaped_writer.h"

enum { PLACES = 1024, MOST_AHEAD = 64 };

/* Bytes that were read last of all that belong to this place. They are known by their identity: a store gives the same
 * object until the entry is written again. The value, packed, is NULL until they are read for a second time, unless it
 * was kept when they were written. */
typedef struct {
    PyObject *stored, *value;
} Place;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *writer;
    Place *places;         /* made when the first value is read */
    Py_ssize_t room, held; /* bytes of stored values whose objects may be kept, and are */
    int ahead; /* by how much the reads are ahead of the writes, from 0 to MOST_AHEAD: values that are written then are
                  likely to be read, and are kept at once */
} KeptValues;

static const ShapedWriter *writer_of(const KeptValues *self) { return (ShapedWriter *)self->writer; }

static Place *place_of(KeptValues *self, PyObject *stored) {
    if (!self->places) self->places = PyMem_Calloc(PLACES, sizeof(Place));
    if (!self->places) return NULL;
    uint64_t mixed = ((uint64_t)(uintptr_t)stored >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    return self->places + (mixed >> 32) % PLACES;
}

/* Empties a place; what it had lives until the caller has given it back. */
static Place taken_out(KeptValues *self, Place *place) {
    Place old = *place;
    if (old.value) self->held -= PyBytes_GET_SIZE(old.stored);
    place->stored = place->value = NULL;
    return old;
}

static void give_back(Place old) {
    Py_XDECREF(old.value);
    Py_XDECREF(old.stored);
}

/* Keeps a copy of a value that was read, if its parts are such that it can be copied, and if there is room. */
static int keep(KeptValues *self, Place *place, PyObject *value) {
    PyObject *stored = place->stored, *shape = writer_of(self)->shape;
    if (self->held + PyBytes_GET_SIZE(stored) > self->room) return 0;
    int fits = sa_fits_shape(value, shape);
    PyObject *packed = fits > 0 ? sa_pack_value(value, shape) : NULL;
    if (fits < 0 || (fits && !packed)) return -1;
    if (!packed || place->stored != stored || place->value) { /* another thread may have read meanwhile */
        Py_XDECREF(packed);
        return 0;
    }
    place->value = packed;
    self->held += PyBytes_GET_SIZE(stored);
    return 0;
}

static PyObject *read_again(KeptValues *self, Place *place, PyObject *stored) {
    PyObject *read = PyObject_CallOneArg(writer_of(self)->read, stored);
    if (read && place->stored == stored && keep(self, place, read)) Py_CLEAR(read);
    return read;
}

static PyObject *read_first(KeptValues *self, Place *place, PyObject *stored) {
    Place old = taken_out(self, place);
    place->stored = Py_NewRef(stored);
    give_back(old);
    return PyObject_CallOneArg(writer_of(self)->read, stored);
}

static PyObject *value_of(KeptValues *self, PyObject *stored) {
    if (stored == Py_None) return Py_NewRef(stored);
    if (self->ahead < MOST_AHEAD) self->ahead++;
    Place *place = PyBytes_CheckExact(stored) ? place_of(self, stored) : NULL;
    if (!place) return PyObject_CallOneArg(writer_of(self)->read, stored);
    if (place->stored != stored) return read_first(self, place, stored);
    if (!place->value) return read_again(self, place, stored);
    PyObject *kept = Py_NewRef(place->value), *value = sa_unpack_value(kept, writer_of(self)->shape);
    Py_DECREF(kept);
    return value;
}

static PyObject *call_values(PyObject *self, PyObject *const *given, size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) != 1 || names)
        return PyErr_Format(PyExc_TypeError, "KeptValues takes what is stored");
    return value_of((KeptValues *)self, given[0]);
}

/* Keeps a value of that shape beside its bytes, if there is room. */
static int keep_written(KeptValues *self, PyObject *stored, PyObject *value) {
    if (self->held + PyBytes_GET_SIZE(stored) > self->room) return 0;
    Place *place = place_of(self, stored);
    PyObject *packed = place ? sa_pack_value(value, writer_of(self)->shape) : NULL;
    if (!packed) return place ? -1 : 0;
    Place old = taken_out(self, place);
    *place = (Place){Py_NewRef(stored), packed};
    self->held += PyBytes_GET_SIZE(stored);
    give_back(old);
    return 0;
}

/* Lets go of a value that is kept beside these bytes. */
static void forget(KeptValues *self, PyObject *stored) {
    Place *place = place_of(self, stored);
    if (place && place->stored == stored) give_back(taken_out(self, place));
}

/* The bytes in an object of just their size: some serializers leave theirs in a much larger one. Takes them over. */
static PyObject *of_exact_size(PyObject *data) {
    PyObject *exact = PyBytes_CheckExact(data)
                          ? PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
                          : PyErr_Format(PyExc_TypeError, "its serializer gave %s, not bytes", Py_TYPE(data)->tp_name);
    Py_DECREF(data);
    return exact;
}

/* The bytes of a value that takes the place of these, which may be NULL; these themselves if they are equal. */
static PyObject *written(KeptValues *self, PyObject *value, PyObject *before) {
    int fits;
    PyObject *data = sa_write_shaped(writer_of(self), value, &fits);
    PyObject *made = data ? of_exact_size(data) : NULL;
    if (!made) return NULL;
    if (before && PyObject_RichCompareBool(made, before, Py_EQ) > 0) Py_SETREF(made, Py_NewRef(before));
    else if (before) forget(self, before);
    if (!self->ahead) return made;
    self->ahead--;
    if (fits && keep_written(self, made, value)) Py_CLEAR(made);
    return made;
}

static PyObject *values_stored(PyObject *self, PyObject *value) { return written((KeptValues *)self, value, NULL); }

/* True, or false also if that is not known; -1 with an exception. */
static int is_unchanged(KeptValues *self, PyObject *stored, PyObject *value) {
    const Place *place = place_of(self, stored);
    if (!place || place->stored != stored || !place->value) return 0;
    PyObject *kept = Py_NewRef(place->value);
    int unchanged = sa_is_unchanged(value, kept, writer_of(self)->shape);
    Py_DECREF(kept);
    return unchanged;
}

static PyObject *values_stored_again(PyObject *given_self, PyObject *const *given, Py_ssize_t count) {
    KeptValues *self = (KeptValues *)given_self;
    if (count != 2 || !PyBytes_CheckExact(given[1]))
        return PyErr_Format(PyExc_TypeError, "stored_again takes a value, and the bytes that are stored");
    PyObject *value = given[0], *stored = given[1];
    int unchanged = is_unchanged(self, stored, value);
    if (unchanged) return unchanged < 0 ? NULL : Py_NewRef(stored);
    return written(self, value, stored);
}

static int visit_values(PyObject *given, visitproc visit, void *arg) {
    const KeptValues *self = (KeptValues *)given;
    for (int i = 0; self->places && i < PLACES; i++) Py_VISIT(self->places[i].value);
    return sa_visit(given, visit, arg);
}

static int clear_values(PyObject *given) {
    KeptValues *self = (KeptValues *)given;
    for (int i = 0; self->places && i < PLACES; i++) give_back(taken_out(self, self->places + i));
    return sa_clear(given);
}

static void free_values(PyObject *given) {
    KeptValues *self = (KeptValues *)given;
    PyObject_GC_UnTrack(given);
    clear_values(given);
    PyMem_Free(self->places);
    Py_TYPE(given)->tp_free(given);
}

static PyObject *make_values(PyObject *type, PyObject *const *given, size_t flags, PyObject *names) {
    PyObject *self = sa_make(type, given, flags, names);
    if (self) ((KeptValues *)self)->call = call_values;
    return self;
}

static const Field values_fields[] = {FIELD(KeptValues, writer, OBJECT, .type = &sa_shaped_writer_type.type),
                                      FIELD(KeptValues, room, SIZE, .most = PY_SSIZE_T_MAX / 2, .may_be_left_out = 1),
                                      {0}};

static PyMemberDef values_members[] = {{"room", T_PYSSIZET, offsetof(KeptValues, room), 0, NULL},
                                       {"held", T_PYSSIZET, offsetof(KeptValues, held), READONLY, NULL},
                                       {0}};

static PyMethodDef values_methods[] = {
    {"stored", values_stored, METH_O, "stored(value): its bytes"},
    {"stored_again", (PyCFunction)(void (*)(void))values_stored_again, METH_FASTCALL,
     "stored_again(value, stored): the bytes of a value that was read of these; the same object if they are equal"},
    {0}};

MadeType sa_kept_values_type = {
    .type = {MADE_WITH(KeptValues, make_values), .tp_traverse = visit_values, .tp_clear = clear_values,
             .tp_dealloc = free_values, .tp_call = PyVectorcall_Call,
             .tp_vectorcall_offset = offsetof(KeptValues, call), .tp_members = values_members,
             .tp_methods = values_methods,
             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL},
    .fields = values_fields,
};
