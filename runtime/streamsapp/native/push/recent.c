#include "push/recent.h"

#include <stdint.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/large_pages.h"
#include "base/objects.h"

enum { LEAST_LIMIT = 1000 }; /* records, from which on it is looked at how many there is room for */

enum { FIRST_SLOTS = 64 };

enum { BEGUN, STREAM_TIME, EXPIRED_BEFORE, NAMES };

typedef struct {
    int64_t time, number;
    PyObject *stored;
} Kept;

typedef struct {
    Py_ssize_t key_size, count, room;
    Kept kept[]; /* by time and number; the key's bytes come after all that there is room for */
} Group;

typedef struct {
    Py_hash_t hash;
    Group *group; /* NULL: nothing is here */
} Slot;

typedef struct {
    PyObject_HEAD
    PyObject *segments, *room;
    PyObject *names[NAMES]; /* of what is asked of the segments */
    Slot *slots;            /* a power of two, more than there are groups; NULL before the first record */
    Py_ssize_t mask, groups, count, limit;
    int64_t complete_from, begun;
    int is_read; /* nothing may change meanwhile */
} Recent;

static char *key_in(const Group *group) { return (char *)&group->kept[group->room]; }

/* The slot of a key, or the empty one where it belongs. */
static Slot *slot_of(const Recent *self, Py_hash_t hash, const char *key, Py_ssize_t size) {
    for (size_t at = (size_t)hash;; at++) {
        Slot *slot = &self->slots[at & (size_t)self->mask];
        if (!slot->group ||
            (slot->hash == hash && slot->group->key_size == size && !memcmp(key_in(slot->group), key, (size_t)size)))
            return slot;
    }
}

/* The first of a group's records that is not before this one. */
static Py_ssize_t position(const Group *group, int64_t time, int64_t number) {
    Py_ssize_t low = 0, high = group->count;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        const Kept *kept = &group->kept[middle];
        if (kept->time < time || (kept->time == time && kept->number < number)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Forgets the records before a time, and gives the others a table of twice the slots they need. */
static int keep_from(Recent *self, int64_t time) {
    Py_ssize_t groups = 0, slots = FIRST_SLOTS, gone = 0;
    for (Py_ssize_t i = 0; self->slots && i <= self->mask; i++) {
        const Group *group = self->slots[i].group;
        groups += group && group->kept[group->count - 1].time >= time;
    }
    while (slots < 4 * groups) slots *= 2;
    Slot *table = PyMem_Calloc((size_t)slots, sizeof(*table));
    PyObject **values = PyMem_Malloc((size_t)(self->count + 1) * sizeof(*values));
    if (!table || !values) {
        PyMem_Free(table);
        PyMem_Free(values);
        PyErr_NoMemory();
        return -1;
    }
    sa_wish_large_pages(table, (size_t)slots * sizeof(*table));
    for (Py_ssize_t i = 0; self->slots && i <= self->mask; i++) {
        Slot slot = self->slots[i];
        if (!slot.group) continue;
        Group *group = slot.group;
        Py_ssize_t first = 0;
        while (first < group->count && group->kept[first].time < time) values[gone++] = group->kept[first++].stored;
        group->count -= first;
        if (!group->count) {
            PyMem_Free(group);
            continue;
        }
        if (first) memmove(group->kept, group->kept + first, (size_t)group->count * sizeof(Kept));
        size_t at = (size_t)slot.hash;
        while (table[at & (size_t)(slots - 1)].group) at++;
        table[at & (size_t)(slots - 1)] = slot;
    }
    PyMem_Free(self->slots);
    self->slots = table;
    self->mask = slots - 1;
    self->groups = groups;
    self->count -= gone;
    for (Py_ssize_t i = 0; i < gone; i++) Py_DECREF(values[i]); /* last: they may be anything */
    PyMem_Free(values);
    return 0;
}

/* If nothing is later it is the same time, from which on nothing is said to be complete. */
static int64_t following(int64_t time) { return time < INT64_MAX ? time + 1 : time; }

static int integer(const Recent *self, int name, int64_t *found) {
    PyObject *given = PyObject_GetAttr(self->segments, self->names[name]);
    *found = given ? PyLong_AsLongLong(given) : -1;
    Py_XDECREF(given);
    return PyErr_Occurred() ? -1 : 0;
}

/* The store began anew: it has only committed entries, all of it at or before its stream time. */
static int begin_if_anew(Recent *self) {
    int64_t begun, stream_time;
    if (self->is_read) {
        PyErr_SetString(PyExc_RuntimeError, "recent records are used while they are read");
        return -1;
    }
    if (integer(self, BEGUN, &begun)) return -1;
    if (begun == self->begun) return 0;
    if (integer(self, STREAM_TIME, &stream_time) || keep_from(self, INT64_MAX)) return -1;
    self->begun = begun;
    self->limit = 0;
    self->complete_from = following(stream_time);
    return 0;
}

static int make_room(Recent *self) {
    int64_t expired_before, stream_time;
    PyObject *given = PyObject_CallNoArgs(self->room);
    Py_ssize_t room = given ? PyLong_AsSsize_t(given) : -1;
    Py_XDECREF(given);
    if (PyErr_Occurred() || integer(self, EXPIRED_BEFORE, &expired_before) ||
        integer(self, STREAM_TIME, &stream_time) || keep_from(self, expired_before))
        return -1;
    while (self->count > room && self->complete_from <= stream_time && self->complete_from < INT64_MAX) {
        int64_t earliest = self->complete_from > expired_before ? self->complete_from : expired_before;
        self->complete_from = following(earliest + (stream_time - earliest) / 2);
        if (keep_from(self, self->complete_from)) return -1;
    }
    self->limit = 2 * self->count > LEAST_LIMIT ? 2 * self->count : LEAST_LIMIT;
    if (self->limit > room) self->limit = room;
    return 0;
}

/* Adds room for one record to a key's group, or makes it; NULL with an exception. */
static Group *group_for(Recent *self, Slot *slot, Py_hash_t hash, const char *key, Py_ssize_t size) {
    Group *group = slot->group;
    if (group && group->count < group->room) return group;
    Py_ssize_t room = group ? 2 * group->room : 1;
    Group *larger = PyMem_Malloc(sizeof(*larger) + (size_t)room * sizeof(Kept) + (size_t)size);
    if (!larger) return (Group *)PyErr_NoMemory();
    *larger = (Group){.key_size = size, .count = group ? group->count : 0, .room = room};
    if (group) memcpy(larger->kept, group->kept, (size_t)group->count * sizeof(Kept));
    memcpy(key_in(larger), key, (size_t)size);
    self->groups += !group;
    PyMem_Free(group);
    *slot = (Slot){hash, larger};
    return larger;
}

static int put(Recent *self, PyObject *key, int64_t time, int64_t number, PyObject *stored) {
    if (begin_if_anew(self)) return -1;
    if (time < self->complete_from) return 0;
    if ((!self->slots || 2 * self->groups > self->mask) && keep_from(self, INT64_MIN)) return -1;
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    Slot *slot = slot_of(self, hash, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key));
    Group *group = group_for(self, slot, hash, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key));
    if (!group) return -1;
    Py_ssize_t at = position(group, time, number);
    Kept *kept = &group->kept[at];
    if (at < group->count && kept->time == time && kept->number == number) {
        PyObject *before = kept->stored;
        kept->stored = Py_NewRef(stored);
        Py_DECREF(before);
        return 0;
    }
    memmove(kept + 1, kept, (size_t)(group->count - at) * sizeof(Kept));
    *kept = (Kept){time, number, Py_NewRef(stored)};
    group->count++;
    return ++self->count > self->limit ? make_room(self) : 0;
}

/* A key as bytes: serdes may give anything that is like them. A new reference, or NULL with an exception. */
static PyObject *as_bytes(PyObject *given) {
    if (PyBytes_Check(given)) return Py_NewRef(given);
    if (PyObject_CheckBuffer(given)) return PyBytes_FromObject(given);
    return PyErr_Format(PyExc_TypeError, "keys are bytes, not %.100s", Py_TYPE(given)->tp_name);
}

/* prefix, key, time (8 bytes), number (4 bytes, without its sign) */
static PyObject *physical_key(PyObject *prefix, PyObject *key, int64_t time, int64_t number) {
    size_t before = (size_t)PyBytes_GET_SIZE(prefix), size = (size_t)PyBytes_GET_SIZE(key);
    uint64_t last_8 = htobe64((uint64_t)time);
    uint32_t last_4 = htobe32((uint32_t)number & INT32_MAX);
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + size + sizeof(last_8) + sizeof(last_4)));
    if (!made) return NULL;
    char *at = PyBytes_AS_STRING(made);
    memcpy(at, PyBytes_AS_STRING(prefix), before);
    memcpy(at += before, PyBytes_AS_STRING(key), size);
    memcpy(at += size, &last_8, sizeof(last_8));
    memcpy(at + sizeof(last_8), &last_4, sizeof(last_4));
    return made;
}

/* append(prefix, key, time, number, stored): puts the record, if it has a value, and returns its physical key. */
static PyObject *recent_append(Recent *self, PyObject *const *given, Py_ssize_t count) {
    int64_t of[2]; /* time and number */
    if (count != 5 || !PyBytes_Check(given[0]))
        return PyErr_Format(PyExc_TypeError, "append takes a prefix, a key, a time, a number and a value");
    PyObject *key = are_integers(given + 2, 2, of) ? as_bytes(given[1]) : NULL;
    PyObject *physical = key ? physical_key(given[0], key, of[0], of[1]) : NULL;
    if (physical && given[4] != Py_None && put(self, key, of[0], of[1], given[4])) Py_CLEAR(physical);
    Py_XDECREF(key);
    return physical;
}

/* A time that may lie beyond all that records can have. */
static int bound(PyObject *given, int64_t *found) {
    int beyond;
    *found = PyLong_AsLongLongAndOverflow(given, &beyond);
    if (beyond) *found = beyond > 0 ? INT64_MAX : INT64_MIN;
    return beyond || *found != -1 || !PyErr_Occurred();
}

/* between(key, from, to), both inclusive: (time, number, stored) in order, or None if some may not be here. */
static PyObject *recent_between(Recent *self, PyObject *const *given, Py_ssize_t count) {
    int64_t bounds[2];
    if (count != 3) return PyErr_Format(PyExc_TypeError, "between takes a key and two times");
    if (!bound(given[1], &bounds[0]) || !bound(given[2], &bounds[1]) || begin_if_anew(self)) return NULL;
    if (bounds[0] < self->complete_from || self->complete_from == INT64_MAX) return Py_NewRef(Py_None);
    PyObject *key = as_bytes(given[0]);
    if (!key) return NULL;
    const Group *group =
        self->slots ? slot_of(self, PyBytes_Type.tp_hash(key), PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))->group
                    : NULL;
    Py_DECREF(key);
    Py_ssize_t first = group ? position(group, bounds[0], INT64_MIN) : 0, end = first;
    while (group && end < group->count && group->kept[end].time <= bounds[1]) end++;
    self->is_read = 1; /* a new object may wake the collector of cycles, and with it any code */
    PyObject *found = PyTuple_New(end - first);
    for (Py_ssize_t i = first; found && i < end; i++) {
        const Kept *kept = &group->kept[i];
        PyObject *item = Py_BuildValue("(LLO)", (long long)kept->time, (long long)kept->number, kept->stored);
        if (item) PyTuple_SET_ITEM(found, i - first, item);
        else Py_CLEAR(found);
    }
    self->is_read = 0;
    return found;
}

static Py_ssize_t recent_length(Recent *self) { return self->count; }

static const Field recent_fields[] = {FIELD(Recent, segments, OBJECT),           FIELD(Recent, room, FUNCTION),
                                      FIELD(Recent, names[BEGUN], OWN),          FIELD(Recent, names[STREAM_TIME], OWN),
                                      FIELD(Recent, names[EXPIRED_BEFORE], OWN), {0}};

static int complete_recent(PyObject *made) {
    static const char *const names[NAMES] = {"begun", "stream_time", "expired_before"};
    Recent *self = (Recent *)made;
    self->begun = -1;
    for (int i = 0; i < NAMES; i++)
        if (!(self->names[i] = PyUnicode_InternFromString(names[i]))) return -1;
    return 0;
}

static void recent_free(PyObject *object) {
    Recent *self = (Recent *)object;
    for (Py_ssize_t i = 0; self->slots && i <= self->mask; i++) {
        Group *group = self->slots[i].group;
        for (Py_ssize_t each = 0; group && each < group->count; each++) Py_DECREF(group->kept[each].stored);
        PyMem_Free(group);
    }
    PyMem_Free(self->slots);
    sa_free(object);
}

static PyMethodDef recent_methods[] = {
    {"append", (PyCFunction)(void (*)(void))recent_append, METH_FASTCALL, "append(prefix, key, time, number, stored)"},
    {"between", (PyCFunction)(void (*)(void))recent_between, METH_FASTCALL, "between(key, from, to)"},
    {0}};

static PySequenceMethods recent_sequence = {.sq_length = (lenfunc)recent_length};

MadeType sa_recent_type = {
    .type = {MADE(Recent), .tp_dealloc = recent_free, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = recent_methods,
             .tp_as_sequence = &recent_sequence},
    .fields = recent_fields,
    .complete = complete_recent,
};
