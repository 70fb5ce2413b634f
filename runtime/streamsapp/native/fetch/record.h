/* A record, as far as tasks read confluent_kafka.Message, and its fields as a batch has them. Made by a chunk for each
 * record that is fetched, on the thread that fetches. Read by the thread that processes it, with the interpreter's
 * lock. */
#ifndef SA_FETCH_RECORD_H
#define SA_FETCH_RECORD_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "base/objects.h"
#include "format/reader.h"

typedef struct {
    PyObject_HEAD
    PyObject *topic, *key, *value;
    PyObject *headers; /* or the exception that their names raise, for a caller that asks for them */
    int64_t offset, timestamp;
    int32_t partition;
    int timestamp_type;
} Record;

extern MadeType sa_record_type;

/* Takes over the references, and any may be NULL: then there is an exception. */
Record *sa_new_record(PyObject *topic, PyObject *key, PyObject *value, PyObject *headers);

/* Anything that has the calls of a record, as one: itself, or its copy. A new reference, or NULL with an exception. */
Record *sa_as_record(PyObject *given);

/* Its headers, a list or None; NULL with the exception that their names raise. */
PyObject *sa_headers_of(const Record *record);

/* ---- the fields of a record that was fetched ---- */

/* Points at the bytes of a field; NULL, with a size of -1, if there is none. */
static inline const unsigned char *point_at_field(Reader *reader, int64_t *size) {
    *size = read_varint(reader);
    const unsigned char *at = *size < 0 ? NULL : read_bytes(reader, (uint64_t)*size);
    if (!at) *size = -1;
    return at;
}

static inline PyObject *read_field(Reader *reader) {
    int64_t size;
    const unsigned char *at = point_at_field(reader, &size);
    return bytes_or_none(at, at ? (size_t)size : 0);
}

/* A list of pairs, None if there are no headers, or the exception that a name raises. */
PyObject *sa_read_headers(Reader *reader);

static inline void skip_headers(Reader *reader) {
    int64_t count = read_varint(reader), size;
    if (count < 0 || (uint64_t)count > left_in(reader) / 2) break_reader(reader);
    for (; count > 0 && !reader->broken; count--) {
        if (!point_at_field(reader, &size)) break_reader(reader); /* each has a name */
        point_at_field(reader, &size);
    }
}

#endif
