#include "fetch/packed_records.h"

#include <string.h>

#include "base/fields.h"
#include "base/objects.h"
#include "format/writer.h"

enum { FIRST_PACKED = 256 };

/* The order of a record: bytes of its key, the first one the highest. */
typedef struct {
    uint64_t head;
    uint32_t record;
} Sorted;

static void packed_dealloc(Packed *self) {
    PyMem_RawFree(self->block);
    PyMem_RawFree(self->records);
    PyMem_RawFree(self->order);
    PyObject_Free(self);
}

static PyObject *packed_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    if (PyTuple_GET_SIZE(args)) return PyErr_Format(PyExc_TypeError, "records are packed by a chunk");
    Packed *self = PyObject_New(Packed, type);
    if (self) memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    return (PyObject *)self;
}

/* Has room for so much more; -1 with an exception. */
static int packed_widen(Packed *self, size_t size, size_t count) {
    if (count > UINT32_MAX - self->count || size > PY_SSIZE_T_MAX - self->used) return PyErr_NoMemory() ? 0 : -1;
    if (!self->block || self->room - self->used < size) {
        size_t room = self->room ? self->room : 1 << 16;
        while (room - self->used < size) room *= 2;
        char *block = PyMem_RawRealloc(self->block, room);
        if (!block) return PyErr_NoMemory() ? 0 : -1;
        self->block = block;
        self->room = room;
    }
    if (self->records_room - self->count < count) {
        size_t room = self->records_room ? self->records_room : FIRST_PACKED;
        while (room - self->count < count) room *= 2;
        PackedRecord *records = PyMem_RawRealloc(self->records, room * sizeof(*records));
        if (!records) return PyErr_NoMemory() ? 0 : -1;
        self->records = records;
        self->records_room = room;
    }
    return 0;
}

int sa_pack(Packed *self, const unsigned char *key, const unsigned char *value, const PackedRecord *like) {
    size_t key_size = key ? (size_t)like->key_size : 0, value_size = value ? (size_t)like->value_size : 0;
    if (packed_widen(self, key_size + value_size, 1)) return -1;
    PackedRecord *record = &self->records[self->count++];
    *record = *like;
    record->at = self->used;
    if (key_size) memcpy(self->block + self->used, key, key_size);
    if (value_size) memcpy(self->block + self->used + key_size, value, value_size);
    self->used += key_size + value_size;
    return 0;
}

/* True with an exception if records may not be added or left out any more. */
static int is_in_order(const Packed *self) {
    if (!self->order && !self->is_being_sorted) return 0;
    PyErr_SetString(PyExc_RuntimeError, "these records are in order already");
    return 1;
}

/* extend(other): adds the records of another one. */
static PyObject *packed_extend(Packed *self, PyObject *given) {
    const Packed *other = (Packed *)given;
    if (!Py_IS_TYPE(given, &sa_packed_type)) return PyErr_Format(PyExc_TypeError, "not packed records");
    if (given == (PyObject *)self || is_in_order(self) || packed_widen(self, other->used, other->count))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "these are the same records");
    if (other->used) memcpy(self->block + self->used, other->block, other->used);
    for (uint32_t i = 0; i < other->count; i++) {
        PackedRecord *record = &self->records[self->count++];
        *record = other->records[i];
        record->at += self->used;
    }
    self->used += other->used;
    Py_RETURN_NONE;
}

/* keep_before(offset): leaves out the records from an offset on. */
static PyObject *packed_keep_before(Packed *self, PyObject *given) {
    long long offset = PyLong_AsLongLong(given);
    if ((offset == -1 && PyErr_Occurred()) || is_in_order(self)) return NULL;
    while (self->count && self->records[self->count - 1].offset >= offset) self->used = self->records[--self->count].at;
    Py_RETURN_NONE;
}

static const char *key_at(const Packed *self, uint32_t record) { return self->block + self->records[record].at; }

/* Below 0 if the key of one comes before the other's. */
static int64_t compare_keys(const Packed *self, uint32_t one, uint32_t other) {
    int64_t size = self->records[one].key_size, other_size = self->records[other].key_size;
    int found = memcmp(key_at(self, one), key_at(self, other), (size_t)(size < other_size ? size : other_size));
    return found ? found : size - other_size;
}

/* The number of bytes that all of these keys begin with: the heads are the bytes after them. */
static size_t common_prefix(const Packed *self, const Sorted *all, uint32_t count) {
    if (!count) return 0;
    const char *first = key_at(self, all[0].record);
    size_t common = (size_t)self->records[all[0].record].key_size;
    for (uint32_t i = 1; i < count && common; i++) {
        const char *key = key_at(self, all[i].record);
        size_t size = (size_t)self->records[all[i].record].key_size, same = 0;
        if (size >= common && !memcmp(first, key, common)) continue;
        while (same < common && same < size && first[same] == key[same]) same++;
        common = same;
    }
    return common;
}

static void find_heads(const Packed *self, Sorted *all, uint32_t count) {
    size_t common = common_prefix(self, all, count);
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *key = (const unsigned char *)key_at(self, all[i].record);
        size_t size = (size_t)self->records[all[i].record].key_size;
        all[i].head = 0;
        for (size_t k = common; k < common + 8; k++) all[i].head = all[i].head << 8 | (k < size ? key[k] : 0);
    }
}

/* True if the second is to come before the first, which came earlier. */
static inline int is_out_of_order(const Packed *self, const Sorted *first, const Sorted *second) {
    if (first->head != second->head) return second->head < first->head;
    return compare_keys(self, second->record, first->record) < 0;
}

/* Merges neighbouring runs into runs of twice the width; records of one key stay in their order. */
static void merge_runs(const Packed *self, const Sorted *from, Sorted *to, size_t count, size_t width) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
        size_t middle = begin + width < count ? begin + width : count;
        size_t end = begin + 2 * width < count ? begin + 2 * width : count;
        size_t left = begin, right = middle;
        for (size_t at = begin; at < end; at++) {
            int takes_right = left == middle || (right < end && is_out_of_order(self, &from[left], &from[right]));
            to[at] = from[takes_right ? right++ : left++];
        }
    }
}

/* Keeps, of the records with a key, the last one of each key, in order; returns their number. */
static uint32_t put_in_order(const Packed *self, Sorted *all, Sorted *other, uint32_t *order) {
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < self->count; i++)
        if (self->records[i].key_size >= 0) all[count++].record = i;
    find_heads(self, all, count);
    for (size_t width = 1; width < count; width *= 2) {
        merge_runs(self, all, other, count, width);
        Sorted *merged = other;
        other = all;
        all = merged;
    }
    for (uint32_t i = 0; i < count; i++) {
        int is_last =
            i + 1 == count || all[i].head != all[i + 1].head || compare_keys(self, all[i].record, all[i + 1].record);
        if (is_last) order[kept++] = all[i].record;
    }
    return kept;
}

/* sort(): puts the last record of each key in order by key; records without a key are left out. */
static PyObject *packed_sort(Packed *self, PyObject *none) {
    if (is_in_order(self)) return NULL;
    size_t room = (size_t)self->count + 1;
    Sorted *all = PyMem_RawMalloc(2 * room * sizeof(*all));
    uint32_t *order = PyMem_RawMalloc(room * sizeof(*order));
    if (!all || !order) {
        PyMem_RawFree(all);
        PyMem_RawFree(order);
        return PyErr_NoMemory();
    }
    self->is_being_sorted = 1; /* no other code changes it meanwhile */
    Py_BEGIN_ALLOW_THREADS
    self->key_count = put_in_order(self, all, all + room, order);
    Py_END_ALLOW_THREADS
    self->order = order;
    PyMem_RawFree(all);
    Py_RETURN_NONE;
}

/* The arguments of stage(). */
typedef struct {
    PyObject *put, *delete, *family;
    Py_ssize_t limit;
    char timestamped;
} Staging;

/* The value as RocksDB has it: behind its timestamp, in a store that keeps these. */
static PyObject *physical_value(const Packed *self, const PackedRecord *record, int timestamped) {
    Py_ssize_t before = timestamped ? 8 : 0;
    PyObject *value = PyBytes_FromStringAndSize(NULL, before + (Py_ssize_t)record->value_size);
    if (!value) return NULL;
    if (timestamped) put_number(PyBytes_AS_STRING(value), (uint64_t)record->time, 8);
    const char *at = self->block + record->at + record->key_size;
    memcpy(PyBytes_AS_STRING(value) + before, at, (size_t)record->value_size);
    return value;
}

static int stage_record(const Packed *self, const PackedRecord *record, const Staging *staging) {
    PyObject *key = PyBytes_FromStringAndSize(self->block + record->at, (Py_ssize_t)record->key_size);
    int is_deleted = record->value_size < 0;
    PyObject *value = key && !is_deleted ? physical_value(self, record, staging->timestamped) : NULL;
    const WriteBatch batch = {staging->put, staging->delete, staging->family};
    int failed = key && (value || is_deleted) ? sa_put_or_delete(&batch, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed;
}

static const Field staging_fields[] = {
    FIELD(Staging, put, FUNCTION),      FIELD(Staging, delete, FUNCTION),
    FIELD(Staging, family, OBJECT),     FIELD(Staging, limit, SIZE, .most = PY_SSIZE_T_MAX),
    FIELD(Staging, timestamped, TRUTH), {0}};

/* Gives the next entries to a write batch; returns whether any are left. */
static PyObject *packed_stage(Packed *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Staging staging;
    if (sa_take_fields("stage", staging_fields, given, count, names, &staging)) return NULL;
    if (!self->order) return PyErr_Format(PyExc_RuntimeError, "these records are not in order yet");
    enum { AHEAD = 8 };
    for (Py_ssize_t left = staging.limit; left && self->staged < self->key_count; left--, self->staged++) {
        if (self->staged + AHEAD < self->key_count) __builtin_prefetch(key_at(self, self->order[self->staged + AHEAD]));
        if (stage_record(self, &self->records[self->order[self->staged]], &staging)) return NULL;
    }
    return PyBool_FromLong(self->staged < self->key_count);
}

static Py_ssize_t packed_length(Packed *self) { return (Py_ssize_t)self->count; }

static PyObject *packed_size(Packed *self, void *none) {
    return PyLong_FromSize_t(self->used + self->count * sizeof(PackedRecord));
}

static PyObject *packed_last_offset(Packed *self, void *none) {
    return PyLong_FromLongLong(self->count ? self->records[self->count - 1].offset : -1);
}

static PyGetSetDef packed_values[] = {{"size", (getter)packed_size, NULL, NULL, NULL},
                                      {"last_offset", (getter)packed_last_offset, NULL, NULL, NULL},
                                      {0}};

static PyMethodDef packed_methods[] = {
    {"extend", (PyCFunction)packed_extend, METH_O, NULL},
    {"keep_before", (PyCFunction)packed_keep_before, METH_O, NULL},
    {"sort", (PyCFunction)packed_sort, METH_NOARGS, NULL},
    {"stage", (PyCFunction)(void (*)(void))packed_stage, METH_FASTCALL | METH_KEYWORDS, NULL},
    {0}};

static PySequenceMethods packed_sequence = {.sq_length = (lenfunc)packed_length};

PyTypeObject sa_packed_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.PackedRecords",
    .tp_basicsize = sizeof(Packed),
    .tp_dealloc = (destructor)packed_dealloc,
    .tp_new = packed_new,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = packed_methods,
    .tp_getset = packed_values,
    .tp_as_sequence = &packed_sequence,
};
