#include "fetch/fetched_batch.h"

#include <Python.h>

#include "format/batch_format.h"

int sa_broken_batch(int64_t offset, const char *why) {
    PyErr_Format(PyExc_ValueError, "the record batch at offset %lld %s", (long long)offset, why);
    return -1;
}

int sa_look_at_batch(const char *at, const char *end, int64_t after, FetchedBatch *found) {
    size_t left = (size_t)(end - at);
    if (left <= MAGIC_AT) return 0;
    if (at[MAGIC_AT] != 2) {
        PyErr_Format(PyExc_NotImplementedError, "records are in version %d of Kafka's format", at[MAGIC_AT]);
        return -1;
    }
    Reader reader = {(const unsigned char *)at, (const unsigned char *)end, 0};
    int64_t base = read_int64(&reader), length = read_int32(&reader);
    if (length < HEADER_SIZE - EPOCH_AT) return sa_broken_batch(base, "has no header");
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
        return sa_broken_batch(base, "has wrong offsets");
    if (found->count < 0 || found->count > last_delta + 1)
        return sa_broken_batch(base, "has a wrong number of records");
    found->last = base + last_delta;
    return 1;
}

int sa_are_records(Reader records, int32_t count) {
    const unsigned char *at = records.at, *end = records.end;
    for (; count; count--) {
        if (end - at < 2) break;
        uint32_t low = at[0], high = at[1];
        if (!(low & 0x81)) at += 1 + (low >> 1);
        else if ((low & 0x81) == 0x80 && high < 0x80) at += 2 + ((low & 0x7f) >> 1 | high << 6);
        else {
            Reader rest = {at, end, 0};
            read_bytes(&rest, (uint64_t)read_varint(&rest));
            if (rest.broken) return 0;
            at = rest.at;
        }
    }
    return !count && at == end;
}
