#include "outbox/record_batch.h"

#include <string.h>

#include "base/objects.h"
#include "format/batch_format.h"
#include "format/crc32c.h"
#include "format/writer.h"

Batch *sa_new_batch(size_t room, double now) {
    Batch *batch = PyMem_RawCalloc(1, sizeof(*batch));
    if (batch && !(batch->data = PyMem_RawMalloc(room))) {
        PyMem_RawFree(batch);
        batch = NULL;
    }
    if (!batch) return NULL;
    batch->used = HEADER_SIZE;
    batch->room = room;
    batch->since = now;
    return batch;
}

void sa_free_batch(Batch *batch) {
    PyMem_RawFree(batch->data);
    PyMem_RawFree(batch);
}

/* The bytes of headers that were found to be such. */
static char *put_headers(char *at, PyObject *headers) {
    Py_ssize_t count = headers ? PyList_GET_SIZE(headers) : 0;
    at = put_varint(at, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GET_ITEM(headers, i);
        const void *value;
        size_t size, name_size;
        const char *name = text_of(PyTuple_GET_ITEM(pair, 0), &name_size);
        point_at(PyTuple_GET_ITEM(pair, 1), &value, &size);
        at = put_field(at, name, name_size);
        at = put_field(at, value, size);
    }
    return at;
}

size_t sa_size_of_headers(PyObject *headers) {
    if (!PyList_CheckExact(headers)) return 0;
    size_t sum = varint_size(PyList_GET_SIZE(headers));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(headers); i++) {
        PyObject *pair = PyList_GET_ITEM(headers, i);
        int is_pair = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2;
        const void *value;
        size_t size, name_size;
        const char *name = is_pair ? text_of(PyTuple_GET_ITEM(pair, 0), &name_size) : NULL;
        if (!name || !is_bytes_or_none(PyTuple_GET_ITEM(pair, 1))) return 0;
        point_at(PyTuple_GET_ITEM(pair, 1), &value, &size);
        sum += field_size(name, name_size) + field_size(value, size);
    }
    return sum;
}

/* 0 if there is room for so many bytes more, else there is no memory. */
static int widen(Batch *batch, size_t size) {
    if (batch->room - batch->used >= size) return 0;
    size_t room = batch->room;
    while (room - batch->used < size) room *= 2;
    char *data = PyMem_RawRealloc(batch->data, room);
    if (!data) return -1;
    batch->data = data;
    batch->room = room;
    return 0;
}

int sa_put_record(Batch *batch, const Content *content) {
    int64_t delta = batch->count ? content->time - batch->first_time : 0;
    size_t body = body_size(content, delta, batch->count);
    if (widen(batch, body + varint_size((int64_t)body))) return -1;
    char *at = put_varint(batch->data + batch->used, (int64_t)body);
    *at++ = 0; /* attributes */
    at = put_varint(at, delta);
    at = put_varint(at, batch->count);
    at = put_field(at, content->key, content->key_size);
    at = put_field(at, content->value, content->value_size);
    batch->used = (size_t)(put_headers(at, content->headers) - batch->data);
    if (!batch->count++) batch->first_time = batch->latest_time = content->time;
    else if (content->time > batch->latest_time) batch->latest_time = content->time;
    return 0;
}

void sa_put_producer(char *data, size_t size, int64_t producer, int16_t epoch, int32_t sequence, int attributes) {
    put_number(data + SIZE_AT, size - SIZE_AT - 4, 4);
    put_number(data + ATTRIBUTES_AT, (uint16_t)attributes, 2);
    char *at = put_number(data + PRODUCER_AT, (uint64_t)producer, 8);
    at = put_number(at, (uint16_t)epoch, 2);
    put_number(at, (uint32_t)sequence, 4);
    put_number(data + CRC_AT, sa_crc32c(data + ATTRIBUTES_AT, size - ATTRIBUTES_AT), 4);
}

void sa_put_header(char *data, const Batch *batch) {
    memset(data, 0, HEADER_SIZE); /* the broker gives offsets */
    char *at = put_number(data + SIZE_AT, batch->used - SIZE_AT - 4, 4);
    at = put_number(at, UINT32_MAX, 4); /* no leader's epoch */
    *at = 2;
    at = put_number(data + ATTRIBUTES_AT + 2, (uint64_t)(batch->count - 1), 4);
    at = put_number(at, (uint64_t)batch->first_time, 8);
    put_number(at, (uint64_t)batch->latest_time, 8);
    put_number(data + HEADER_SIZE - 4, (uint32_t)batch->count, 4);
}
