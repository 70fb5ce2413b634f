#include "fetch/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "fetch/fetched_batch.h"
#include "fetch/packed_records.h"
#include "fetch/record.h"
#include "format/batch_format.h"
#include "format/crc32c.h"

typedef struct {
    int64_t producer, first;
} Aborted;

typedef struct {
    PyObject_HEAD
    PyObject *topic, *data;
    PyObject *aborted;    /* aborted transactions, while they are read */
    PyObject *decompress; /* (number of the codec, bytes) -> bytes, or an exception */
    PyObject *plain;      /* the records of the batch that is read if it came compressed */
    PyObject *refused;    /* or the exception that is the reason for none */
    Py_buffer view;
    const char *next, *end; /* the batch after the current one; all */
    FetchedBatch batch;
    Reader records;
    char unchecked;            /* checksums are not to be looked at */
    int64_t log_end;           /* no batch reaches to it */
    int64_t most;              /* bytes of records that one call opens, about */
    size_t opened, open_bytes; /* that were opened; that are open */
    int32_t left;              /* records of it that are still to be read */
    int partition;
    int32_t epoch;                  /* of the leader that wrote the last batch */
    int64_t last;                   /* the offset of the record before, of the same batch */
    int64_t position, end_position; /* the offset after the records that were taken, and after all */
    Aborted *transactions;          /* that were aborted, by the first offset */
    Py_ssize_t aborted_count, seen;
    int64_t *producers; /* those whose transaction is an aborted one here */
    Py_ssize_t producer_count;
} Chunk;

/* Finds where the whole batches end, and with which offset. No checksum covers the offsets, so all of them have to fit
 * one another, the position and the end of the log. A batch that reaches beyond that is left out with the later ones: a
 * broker may have got it after it had looked up the end of its log. */
static int chunk_measure(Chunk *self) {
    FetchedBatch batch = {.last = -1};
    const char *at = self->next;
    int found;
    while ((found = sa_look_at_batch(at, self->end, batch.last, &batch)) > 0 && batch.last < self->log_end) {
        if (batch.last < self->position) return sa_broken_batch(batch.base, "lies before what was asked for");
        at += batch.size;
        self->epoch = batch.epoch;
        self->end_position = batch.last + 1;
    }
    int is_older = found < 0 && PyErr_ExceptionMatches(PyExc_NotImplementedError);
    if (found < 0 && !(is_older && at != self->next)) return -1;
    if (!found && at == self->next) return sa_broken_batch(self->position, "is not whole");
    if (self->end_position < self->position) self->end_position = self->position;
    if (is_older) PyErr_Clear(); /* it is raised when it comes next */
    else self->end = at;
    return 0;
}

static int chunk_is_aborted(Chunk *self) {
    const FetchedBatch *batch = &self->batch;
    for (; self->seen < self->aborted_count && self->transactions[self->seen].first <= batch->last; self->seen++)
        self->producers[self->producer_count++] = self->transactions[self->seen].producer;
    for (Py_ssize_t i = 0; i < self->producer_count && batch->attributes & TRANSACTIONAL; i++)
        if (self->producers[i] == batch->producer) return 1;
    return 0;
}

/* A marker of an aborted transaction ends it. Its key is a version and a type; type 0 marks an aborted transaction. */
static void chunk_read_marker(Chunk *self) {
    Reader *records = &self->records;
    read_varint(records);
    read_bytes(records, 1);
    read_varint(records);
    read_varint(records);
    int is_marker = read_varint(records) >= 4;
    read_int16(records);
    if (!is_marker || read_int16(records) || records->broken) return;
    for (Py_ssize_t i = self->producer_count - 1; i >= 0; i--)
        if (self->producers[i] == self->batch.producer) self->producers[i] = self->producers[--self->producer_count];
}

/* In place of the records of a batch there is one without key and value, which raises this for a caller that asks for
 * its headers. */
static int chunk_refuse(Chunk *self, PyObject *why) {
    const FetchedBatch *batch = &self->batch;
    if (batch->attributes & CONTROL) return sa_broken_batch(batch->base, "has a marker that cannot be read");
    PyErr_Format((PyObject *)Py_TYPE(why), "the record batch at offsets %lld to %lld %S", (long long)batch->base,
                 (long long)batch->last, why);
    if (!(self->refused = sa_caught())) return -1;
    self->records = (Reader){NULL, NULL, 0};
    self->left = 1;
    return 0;
}

/* Points at the records of the batch. */
static int chunk_unpack(Chunk *self) {
    const FetchedBatch *batch = &self->batch;
    const char *start = batch->start + HEADER_SIZE;
    Py_ssize_t size = (Py_ssize_t)batch->size - HEADER_SIZE;
    Py_CLEAR(self->plain);
    Py_CLEAR(self->refused);
    if (batch->attributes & CODEC && batch->count) {
        self->plain = PyObject_CallFunction(self->decompress, "iy#", batch->attributes & CODEC, start, size);
        if (!self->plain) return -1;
        if (PyExceptionInstance_Check(self->plain)) return chunk_refuse(self, self->plain);
        if (!PyBytes_CheckExact(self->plain)) return sa_broken_batch(batch->base, "was not decompressed to bytes");
        start = PyBytes_AS_STRING(self->plain);
        size = PyBytes_GET_SIZE(self->plain);
    }
    Reader records = {(const unsigned char *)start, (const unsigned char *)start + size, 0};
    if (!(batch->attributes & CONTROL) && !sa_are_records(records, batch->count))
        return sa_broken_batch(batch->base, "has more or fewer records than it says");
    self->records = records;
    self->left = batch->count;
    self->opened += self->open_bytes = (size_t)size;
    return 0;
}

/* 1 if the next batch is open, 0 if there is none, -1 with an exception. */
static int chunk_open(Chunk *self) {
    FetchedBatch next, *batch = &self->batch;
    int found = sa_look_at_batch(self->next, self->end, batch->start ? batch->last : -1, &next);
    if (found <= 0) return found;
    uint64_t sum = number_at((const unsigned char *)next.start + CRC_AT, 4);
    if (!self->unchecked && sa_crc32c(next.start + ATTRIBUTES_AT, next.size - ATTRIBUTES_AT) != sum)
        return sa_broken_batch(next.base, "was changed on its way: its checksum is wrong");
    FetchedBatch before = *batch;
    *batch = next;
    int aborted = chunk_is_aborted(self), control = batch->attributes & CONTROL;
    self->left = 0;
    self->last = batch->base - 1;
    if (batch->last >= self->position && (control || !aborted) && chunk_unpack(self)) {
        *batch = before; /* to be met again */
        return -1;
    }
    if (control && self->left) chunk_read_marker(self);
    if (control) {
        self->left = 0;
        self->records = (Reader){NULL, NULL, 0};
    }
    self->next += batch->size;
    return 1;
}

/* A record of the batch, whose key, value and headers are still to be read. */
typedef struct {
    Reader fields;
    int64_t offset, time;
} RawRecord;

/* 1, 0 if it is before the position, -1 with an exception. */
static int chunk_next(Chunk *self, RawRecord *found) {
    const FetchedBatch *batch = &self->batch;
    Reader *all = &self->records;
    uint64_t size = (uint64_t)read_varint(all);
    const unsigned char *at = read_bytes(all, size);
    Reader *fields = &found->fields;
    *fields = at ? (Reader){at, at + size, 0} : (Reader){NULL, NULL, 1};
    read_bytes(fields, 1);
    int64_t time = read_varint(fields), delta = read_varint(fields);
    found->offset = batch->base + (delta < 0 || delta > batch->last - batch->base ? -1 : delta);
    if (fields->broken || found->offset <= self->last) return sa_broken_batch(batch->base, UNREADABLE);
    int appended = batch->attributes & LOG_APPEND_TIME;
    found->time = appended ? batch->latest_time : (int64_t)((uint64_t)batch->first_time + (uint64_t)time);
    return found->offset >= self->position;
}

/* Adds a record to a list; -1 with an exception. */
static int chunk_list(Chunk *self, RawRecord *raw, PyObject *list) {
    Reader *fields = &raw->fields;
    PyObject *key = read_field(fields), *value = key ? read_field(fields) : NULL;
    PyObject *headers = value ? sa_read_headers(fields) : NULL;
    int broken = headers && (fields->broken || left_in(fields));
    if (broken) Py_CLEAR(headers);
    Record *record = sa_new_record(Py_NewRef(self->topic), key, value, headers);
    if (!record) return broken ? sa_broken_batch(self->batch.base, UNREADABLE) : -1;
    record->partition = self->partition;
    record->offset = raw->offset;
    record->timestamp_type = self->batch.attributes & LOG_APPEND_TIME ? 2 : 1;
    record->timestamp = raw->time;
    return append(list, (PyObject *)record);
}

/* Packs a record; -1 with an exception. */
static int chunk_pack(Chunk *self, RawRecord *raw, Packed *packed) {
    PackedRecord record = {.offset = raw->offset, .time = raw->time};
    const unsigned char *key = point_at_field(&raw->fields, &record.key_size);
    const unsigned char *value = point_at_field(&raw->fields, &record.value_size);
    skip_headers(&raw->fields);
    if (raw->fields.broken || left_in(&raw->fields)) return sa_broken_batch(self->batch.base, UNREADABLE);
    return sa_pack(packed, key, value, &record);
}

/* Takes the record or exception in place of the records of a batch; -1 with an exception. A changelog has to be
 * whole. */
static int chunk_take_refused(Chunk *self, PyObject *taken) {
    const FetchedBatch *batch = &self->batch;
    if (!PyList_CheckExact(taken)) {
        PyErr_SetObject((PyObject *)Py_TYPE(self->refused), self->refused);
        return -1;
    }
    PyObject *none = Py_None;
    Record *record = sa_new_record(Py_NewRef(self->topic), Py_NewRef(none), Py_NewRef(none), Py_NewRef(self->refused));
    if (!record) return -1;
    record->partition = self->partition;
    record->offset = batch->last;
    record->timestamp_type = batch->attributes & LOG_APPEND_TIME ? 2 : 1;
    record->timestamp = batch->latest_time;
    if (append(taken, (PyObject *)record)) return -1;
    Py_CLEAR(self->refused);
    self->left = 0;
    self->last = batch->last;
    self->position = batch->last + 1;
    return 0;
}

/* Takes a record, if the batch that is read has one; -1 with an exception. */
static int chunk_step(Chunk *self, PyObject *taken) {
    if (self->refused) return chunk_take_refused(self, taken);
    const unsigned char *before = self->records.at;
    RawRecord raw;
    int found = chunk_next(self, &raw);
    int failed =
        found > 0 ? PyList_CheckExact(taken) ? chunk_list(self, &raw, taken) : chunk_pack(self, &raw, (Packed *)taken)
                  : found;
    if (failed) {
        self->records = (Reader){before, self->records.end, 0}; /* to be met again */
        return -1;
    }
    self->left--;
    self->last = raw.offset;
    if (found) self->position = raw.offset + 1;
    return 0;
}

static Py_ssize_t count_of_taken(PyObject *taken) {
    return PyList_CheckExact(taken) ? PyList_GET_SIZE(taken) : ((Packed *)taken)->count;
}

/* Takes up to so many records into what was made for them, and no more batches where they become too large; NULL with
 * an exception. */
static PyObject *chunk_fill(Chunk *self, Py_ssize_t limit, PyObject *taken) {
    int found = taken ? 1 : -1;
    size_t before = self->opened;
    while (found > 0 && count_of_taken(taken) < limit) {
        if (self->left) found = chunk_step(self, taken) ? -1 : 1;
        else if ((int64_t)(self->opened - before) >= self->most && count_of_taken(taken)) return taken;
        else found = chunk_open(self);
    }
    if (!found) self->position = self->end_position;
    if (found >= 0) return taken;
    if (!taken || !count_of_taken(taken) || !PyErr_ExceptionMatches(PyExc_Exception)) {
        Py_XDECREF(taken);
        return NULL;
    }
    PyErr_Clear();
    return taken;
}

/* take(limit): the next records, all that are left if they are fewer. Raises ValueError for a batch that cannot be
 * read, once the records before it are taken. */
static PyObject *chunk_take(Chunk *self, PyObject *given) {
    Py_ssize_t limit = PyLong_AsSsize_t(given);
    return limit < 0 && PyErr_Occurred() ? NULL : chunk_fill(self, limit, PyList_New(0));
}

/* take_packed(limit): the same as PackedRecords. */
static PyObject *chunk_take_packed(Chunk *self, PyObject *given) {
    Py_ssize_t limit = PyLong_AsSsize_t(given);
    if (limit < 0 && PyErr_Occurred()) return NULL;
    return chunk_fill(self, limit, PyObject_CallNoArgs((PyObject *)&sa_packed_type));
}

static int begins_before(const void *one, const void *other) {
    int64_t first = ((const Aborted *)one)->first, second = ((const Aborted *)other)->first;
    return (first > second) - (first < second);
}

/* Brokers list them in the order in which they ended. */
static int chunk_take_aborted(Chunk *self) {
    Py_ssize_t count = PyList_GET_SIZE(self->aborted);
    self->transactions = PyMem_New(Aborted, (size_t)count + 1);
    self->producers = PyMem_New(int64_t, (size_t)count + 1);
    if (!self->transactions || !self->producers) return PyErr_NoMemory() ? 0 : -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GET_ITEM(self->aborted, i);
        int64_t of[2]; /* producer and first */
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2)
            return PyErr_Format(PyExc_TypeError, "Chunk: aborted has pairs of a producer and an offset") ? 0 : -1;
        if (!are_integers(&PyTuple_GET_ITEM(pair, 0), 2, of)) return -1;
        self->transactions[i] = (Aborted){of[0], of[1]};
    }
    Py_CLEAR(self->aborted);
    self->aborted_count = count;
    qsort(self->transactions, (size_t)count, sizeof(Aborted), begins_before);
    return 0;
}

static const Field chunk_fields[] = {
    FIELD(Chunk, topic, OBJECT, .type = &PyUnicode_Type),
    FIELD(Chunk, partition, INT),
    FIELD(Chunk, data, OBJECT),
    FIELD(Chunk, position, LONG),
    FIELD(Chunk, aborted, OBJECT, .type = &PyList_Type),
    FIELD(Chunk, decompress, FUNCTION),
    FIELD(Chunk, unchecked, TRUTH, .may_be_left_out = 1),
    FIELD(Chunk, log_end, LONG, .may_be_left_out = 1, .otherwise = INT64_MAX),
    FIELD(Chunk, most, LONG, .most = INT64_MAX, .may_be_left_out = 1, .otherwise = INT64_MAX),
    FIELD(Chunk, plain, OWN),
    FIELD(Chunk, refused, OWN),
    {0}};

static int complete_chunk(PyObject *made) {
    Chunk *self = (Chunk *)made;
    self->epoch = -1;
    if (PyObject_GetBuffer(self->data, &self->view, PyBUF_SIMPLE) || chunk_take_aborted(self)) return -1;
    self->next = self->view.buf;
    self->end = self->next + self->view.len;
    return chunk_measure(self);
}

static void chunk_free(PyObject *object) {
    Chunk *self = (Chunk *)object;
    if (self->view.obj) PyBuffer_Release(&self->view);
    PyMem_Free(self->transactions);
    PyMem_Free(self->producers);
    sa_free(object);
}

static PyMethodDef chunk_methods[] = {{"take", (PyCFunction)chunk_take, METH_O, NULL},
                                      {"take_packed", (PyCFunction)chunk_take_packed, METH_O, NULL},
                                      {0}};

static PyMemberDef chunk_members[] = {{"position", T_LONGLONG, offsetof(Chunk, position), READONLY, NULL},
                                      {"end_position", T_LONGLONG, offsetof(Chunk, end_position), READONLY, NULL},
                                      {"epoch", T_INT, offsetof(Chunk, epoch), READONLY, NULL},
                                      {"opened", T_PYSSIZET, offsetof(Chunk, opened), READONLY, NULL},
                                      {"open_bytes", T_PYSSIZET, offsetof(Chunk, open_bytes), READONLY, NULL},
                                      {"left", T_INT, offsetof(Chunk, left), READONLY, NULL},
                                      {0}};

MadeType sa_chunk_type = {
    .type = {MADE(Chunk), .tp_dealloc = chunk_free, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = chunk_methods,
             .tp_members = chunk_members},
    .fields = chunk_fields,
    .complete = complete_chunk,
};
