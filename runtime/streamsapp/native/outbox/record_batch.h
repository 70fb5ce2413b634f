/* Record batches in Kafka's format, version 2 (KIP-98): records are written into them one after the other. A header
 * goes in front when they are sent. Called for each record that is sent, by the owner of an Outbox, with the
 * interpreter's lock. */
#ifndef SA_OUTBOX_RECORD_BATCH_H
#define SA_OUTBOX_RECORD_BATCH_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include "format/writer.h"

enum { FIRST_ROOM = 1 << 10, MOST_FIRST_ROOM = 1 << 16 };

typedef struct Batch {
    struct Batch *next;
    char *data; /* the header's room, then records */
    size_t used, room;
    int32_t count;
    int64_t first_time, latest_time; /* of records */
    double since;                    /* when the first record came, in the owner's time */
} Batch;

/* NULL if there is no memory. */
Batch *sa_new_batch(size_t room, double now);

void sa_free_batch(Batch *batch);

/* How many bytes a list of headers takes; 0 if it is none of pairs, a name and bytes or None. */
size_t sa_size_of_headers(PyObject *headers);

/* The same; NULL stands for none, as most records have. */
static inline size_t headers_size(PyObject *headers) { return headers ? sa_size_of_headers(headers) : 1; }

typedef struct {
    const void *key, *value; /* NULL for none */
    size_t key_size, value_size, headers_size;
    PyObject *headers; /* NULL for none */
    int64_t time;
} Content;

/* The bytes of a record after its length. */
static inline size_t body_size(const Content *content, int64_t time_delta, int32_t number) {
    return 1 + varint_size(time_delta) + varint_size(number) + field_size(content->key, content->key_size) +
           field_size(content->value, content->value_size) + content->headers_size;
}

/* 0, or there is no memory. */
int sa_put_record(Batch *batch, const Content *content);

/* Writes into the header whose records these are, from which sequence on, the size and the checksum. */
void sa_put_producer(char *data, size_t size, int64_t producer, int16_t epoch, int32_t sequence, int attributes);

/* Writes the header of a batch, but for its producer. */
void sa_put_header(char *data, const Batch *batch);

#endif
