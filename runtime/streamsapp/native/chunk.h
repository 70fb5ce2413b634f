/* The records of one partition that a broker has sent together, as whole record batches (KIP-98). */

enum { EPOCH_AT = 12, MAGIC_AT = 16, CODEC = 7, LOG_APPEND_TIME = 8, TRANSACTIONAL = 16, CONTROL = 32, COUNT_AT = 57 };

#define UNREADABLE "has a record that cannot be read"

typedef struct {
    int64_t producer, first;
} Aborted;

typedef struct {
    int64_t base, last, producer; /* offsets of the first and the last record, which may be gone */
    int64_t first_time, latest_time;
    int32_t epoch, count;
    int attributes;
    const char *start;
    size_t size;
} FetchedBatch;

typedef struct {
    PyObject_HEAD
    PyObject *topic;
    PyObject *decompress; /* (number of the codec, bytes) -> bytes */
    PyObject *plain;      /* the records of the batch that is read if it came compressed */
    Py_buffer data;
    const char *next, *end; /* the batch after the one that is read; all */
    FetchedBatch batch;
    Reader records;
    int unchecked; /* checksums are not to be looked at */
    int32_t left; /* records of it that are still to be read */
    int32_t partition;
    int32_t epoch;                  /* of the leader that wrote the last batch */
    int64_t last;                   /* the offset of the record before, of the same batch */
    int64_t position, end_position; /* the next offset after those that were taken, and after all */
    Aborted *aborted; /* by the first offset */
    Py_ssize_t aborted_count, seen;
    int64_t *producers; /* those whose transaction is an aborted one here */
    Py_ssize_t producer_count;
} Chunk;

/* -1, as there is an exception. */
static int broken_batch(int64_t offset, const char *why) {
    PyErr_Format(PyExc_ValueError, "the record batch at offset %lld %s", (long long)offset, why);
    return -1;
}

/* 1 if there is a whole batch, 0 if the rest was cut off, -1 with an exception. */
static int look_at_batch(const char *at, const char *end, int64_t after, FetchedBatch *found) {
    size_t left = (size_t)(end - at);
    if (left <= MAGIC_AT) return 0;
    if (at[MAGIC_AT] != 2) {
        PyErr_Format(PyExc_NotImplementedError, "records are in version %d of Kafka's format", at[MAGIC_AT]);
        return -1;
    }
    Reader reader = {(const unsigned char *)at, (const unsigned char *)end, 0};
    int64_t base = read_int64(&reader), length = read_int32(&reader);
    if (length < HEADER_SIZE - EPOCH_AT) return broken_batch(base, "has no header");
    if ((size_t)length > left - EPOCH_AT) return 0;
    *found = (FetchedBatch){.base = base, .start = at, .size = (size_t)length + EPOCH_AT, .epoch = read_int32(&reader)};
    reader.at = (const unsigned char *)at + ATTRIBUTES_AT;
    found->attributes = (uint16_t)read_int16(&reader);
    int64_t last_delta = read_int32(&reader);
    found->first_time = read_int64(&reader);
    found->latest_time = read_int64(&reader);
    found->producer = read_int64(&reader);
    reader.at = (const unsigned char *)at + COUNT_AT;
    found->count = read_int32(&reader);
    if (base <= after || last_delta < 0 || base > INT64_MAX - 1 - last_delta)
        return broken_batch(base, "has wrong offsets");
    if (found->count < 0 || found->count > last_delta + 1) return broken_batch(base, "has a wrong number of records");
    found->last = base + last_delta;
    return 1;
}

/* Finds where the whole batches end, and with which offset. One that is broken is told when it comes next. */
static int chunk_measure(Chunk *self) {
    FetchedBatch batch = {.last = -1};
    const char *at = self->next;
    int found;
    while ((found = look_at_batch(at, self->end, batch.last, &batch)) > 0) {
        at += batch.size;
        self->epoch = batch.epoch;
        self->end_position = batch.last + 1;
    }
    if (at == self->next) return found ? -1 : broken_batch(self->position, "is not whole");
    if (self->end_position < self->position) self->end_position = self->position;
    if (found) PyErr_Clear();
    else self->end = at;
    return 0;
}

static int chunk_is_aborted(Chunk *self) {
    const FetchedBatch *batch = &self->batch;
    for (; self->seen < self->aborted_count && self->aborted[self->seen].first <= batch->last; self->seen++)
        self->producers[self->producer_count++] = self->aborted[self->seen].producer;
    for (Py_ssize_t i = 0; i < self->producer_count && batch->attributes & TRANSACTIONAL; i++)
        if (self->producers[i] == batch->producer) return 1;
    return 0;
}

/* A marker of an aborted transaction ends it. Its key is a version and a type, of which 0 is this one. */
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

/* Points at the records of the batch. */
static int chunk_unpack(Chunk *self) {
    const FetchedBatch *batch = &self->batch;
    const char *start = batch->start + HEADER_SIZE;
    Py_ssize_t size = (Py_ssize_t)batch->size - HEADER_SIZE;
    Py_CLEAR(self->plain);
    if (batch->attributes & CODEC && batch->count) {
        self->plain = PyObject_CallFunction(self->decompress, "iy#", batch->attributes & CODEC, start, size);
        if (!self->plain) return -1;
        if (!PyBytes_CheckExact(self->plain)) return broken_batch(batch->base, "was not decompressed to bytes");
        start = PyBytes_AS_STRING(self->plain);
        size = PyBytes_GET_SIZE(self->plain);
    }
    self->records = (Reader){(const unsigned char *)start, (const unsigned char *)start + size, 0};
    self->left = batch->count;
    return 0;
}

/* 1 if the next batch is open, 0 if there is none, -1 with an exception. */
static int chunk_open(Chunk *self) {
    FetchedBatch next, *batch = &self->batch;
    if (left_in(&self->records)) return broken_batch(batch->base, "has more records than it says");
    int found = look_at_batch(self->next, self->end, batch->start ? batch->last : -1, &next);
    if (found <= 0) return found;
    uint64_t sum = number_at((const unsigned char *)next.start + CRC_AT, 4);
    if (!self->unchecked && crc32c(next.start + ATTRIBUTES_AT, next.size - ATTRIBUTES_AT) != sum)
        return broken_batch(next.base, "was changed on its way: its checksum is wrong");
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

/* Points at the bytes of a field; NULL, with a size of -1, if there is none. */
static const unsigned char *point_at_field(Reader *reader, int64_t *size) {
    *size = read_varint(reader);
    const unsigned char *at = *size < 0 ? NULL : read_bytes(reader, (uint64_t)*size);
    if (!at) *size = -1;
    return at;
}

static PyObject *read_field(Reader *reader) {
    int64_t size;
    const unsigned char *at = point_at_field(reader, &size);
    return bytes_or_none(at, at ? (size_t)size : 0);
}

/* (name, value), or the exception that the name raises; NULL with another one. */
static PyObject *read_header(Reader *reader) {
    int64_t size = read_varint(reader);
    const unsigned char *at = size < 0 ? NULL : read_bytes(reader, (uint64_t)size);
    if (!at) break_reader(reader);
    PyObject *value = read_field(reader);
    PyObject *name = value ? PyUnicode_DecodeUTF8((const char *)at, at ? (Py_ssize_t)size : 0, NULL) : NULL;
    PyObject *pair = name ? PyTuple_Pack(2, name, value) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return pair || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) ? pair : caught();
}

/* A list of pairs, None if there are no headers, or the exception that a name raises. */
static PyObject *read_headers(Reader *reader) {
    int64_t count = read_varint(reader);
    if (count < 0 || (uint64_t)count > left_in(reader) / 2) break_reader(reader);
    if (!count || reader->broken) return Py_NewRef(Py_None);
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result && i < count && !reader->broken; i++) {
        PyObject *header = read_header(reader);
        if (header && PyTuple_Check(header)) {
            if (PyList_CheckExact(result) && PyList_Append(result, header)) Py_CLEAR(result);
            Py_DECREF(header);
        } else if (!header || PyList_CheckExact(result)) Py_XSETREF(result, header); /* of several names the first */
        else Py_DECREF(header);
    }
    return result;
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
    if (fields->broken || found->offset <= self->last) return broken_batch(batch->base, UNREADABLE);
    int appended = batch->attributes & LOG_APPEND_TIME;
    found->time = appended ? batch->latest_time : (int64_t)((uint64_t)batch->first_time + (uint64_t)time);
    return found->offset >= self->position;
}

/* Adds a record to a list; -1 with an exception. */
static int chunk_list(Chunk *self, RawRecord *raw, PyObject *list) {
    Reader *fields = &raw->fields;
    PyObject *key = read_field(fields), *value = key ? read_field(fields) : NULL;
    PyObject *headers = value ? read_headers(fields) : NULL;
    int broken = headers && (fields->broken || left_in(fields));
    if (broken) Py_CLEAR(headers);
    Record *record = new_record(Py_NewRef(self->topic), key, value, headers);
    if (!record) return broken ? broken_batch(self->batch.base, UNREADABLE) : -1;
    record->partition = self->partition;
    record->offset = raw->offset;
    record->timestamp_type = self->batch.attributes & LOG_APPEND_TIME ? 2 : 1;
    record->timestamp = raw->time;
    return append(list, (PyObject *)record);
}

static void skip_headers(Reader *reader) {
    int64_t count = read_varint(reader), size;
    if (count < 0 || (uint64_t)count > left_in(reader) / 2) break_reader(reader);
    for (; count > 0 && !reader->broken; count--) {
        if (!point_at_field(reader, &size)) break_reader(reader); /* each has a name */
        point_at_field(reader, &size);
    }
}

/* Packs a record; -1 with an exception. */
static int chunk_pack(Chunk *self, RawRecord *raw, Packed *packed) {
    PackedRecord record = {.offset = raw->offset, .time = raw->time};
    const unsigned char *key = point_at_field(&raw->fields, &record.key_size);
    const unsigned char *value = point_at_field(&raw->fields, &record.value_size);
    skip_headers(&raw->fields);
    if (raw->fields.broken || left_in(&raw->fields)) return broken_batch(self->batch.base, UNREADABLE);
    return pack(packed, key, value, &record);
}

/* Takes a record, if the batch that is read has one; -1 with an exception. */
static int chunk_step(Chunk *self, PyObject *taken) {
    const unsigned char *before = self->records.at;
    RawRecord raw;
    int found = chunk_next(self, &raw);
    int failed = found > 0 ? PyList_CheckExact(taken) ? chunk_list(self, &raw, taken)
                                                      : chunk_pack(self, &raw, (Packed *)taken)
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

/* Takes up to so many records into what was made for them; NULL with an exception. */
static PyObject *chunk_fill(Chunk *self, Py_ssize_t limit, PyObject *taken) {
    int found = taken ? 1 : -1;
    while (found > 0 && count_of_taken(taken) < limit) {
        if (self->left) found = chunk_step(self, taken) ? -1 : 1;
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
 * read, once what comes before it is taken. */
static PyObject *chunk_take(Chunk *self, PyObject *given) {
    Py_ssize_t limit = PyLong_AsSsize_t(given);
    return limit < 0 && PyErr_Occurred() ? NULL : chunk_fill(self, limit, PyList_New(0));
}

/* take_packed(limit): the same as PackedRecords. */
static PyObject *chunk_take_packed(Chunk *self, PyObject *given) {
    Py_ssize_t limit = PyLong_AsSsize_t(given);
    if (limit < 0 && PyErr_Occurred()) return NULL;
    return chunk_fill(self, limit, PyObject_CallNoArgs((PyObject *)&PackedType));
}

static int begins_before(const void *one, const void *other) {
    int64_t first = ((const Aborted *)one)->first, second = ((const Aborted *)other)->first;
    return (first > second) - (first < second);
}

/* Brokers tell them in the order in which they ended. */
static int chunk_take_aborted(Chunk *self, PyObject *aborted) {
    Py_ssize_t count = PyList_GET_SIZE(aborted);
    self->aborted = PyMem_New(Aborted, count + 1);
    self->producers = PyMem_New(int64_t, count + 1);
    if (!self->aborted || !self->producers) return PyErr_NoMemory() ? 0 : -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        long long producer, first;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(aborted, i), "LL", &producer, &first)) return -1;
        self->aborted[i] = (Aborted){producer, first};
    }
    self->aborted_count = count;
    qsort(self->aborted, (size_t)count, sizeof(Aborted), begins_before);
    return 0;
}

static void chunk_dealloc(Chunk *self) {
    if (self->data.obj) PyBuffer_Release(&self->data);
    PyMem_Free(self->aborted);
    PyMem_Free(self->producers);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->decompress);
    Py_XDECREF(self->plain);
    PyObject_Free(self);
}

/* Chunk(topic, partition, data, position, aborted, decompress, unchecked=False) */
static PyObject *chunk_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *topic, *data, *aborted, *decompress;
    int partition, unchecked = 0;
    long long position;
    if (!PyArg_ParseTuple(args, "UiOLO!O|p", &topic, &partition, &data, &position, &PyList_Type, &aborted, &decompress,
                          &unchecked))
        return NULL;
    Chunk *self = PyObject_New(Chunk, type);
    if (!self) return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
    self->topic = Py_NewRef(topic);
    self->decompress = Py_NewRef(decompress);
    self->partition = partition;
    self->position = position;
    self->unchecked = unchecked;
    self->epoch = -1;
    int failed = PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE) || chunk_take_aborted(self, aborted);
    if (!failed) {
        self->next = self->data.buf;
        self->end = self->next + self->data.len;
        failed = chunk_measure(self);
    }
    if (failed) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef chunk_methods[] = {{"take", (PyCFunction)chunk_take, METH_O, NULL},
                                      {"take_packed", (PyCFunction)chunk_take_packed, METH_O, NULL},
                                      {NULL}};
static PyMemberDef chunk_members[] = {{"position", T_LONGLONG, offsetof(Chunk, position), READONLY, NULL},
                                      {"end_position", T_LONGLONG, offsetof(Chunk, end_position), READONLY, NULL},
                                      {"epoch", T_INT, offsetof(Chunk, epoch), READONLY, NULL},
                                      {NULL}};
static PyTypeObject ChunkType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Chunk",
    .tp_basicsize = sizeof(Chunk),
    .tp_dealloc = (destructor)chunk_dealloc,
    .tp_new = chunk_new,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = chunk_methods,
    .tp_members = chunk_members,
};
