/* Writes what brokers read, as reader.h reads it. Called for each field of each record; needs no lock. */
#ifndef SA_FORMAT_WRITER_H
#define SA_FORMAT_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t zigzag(int64_t number) { return (uint64_t)number << 1 ^ -(uint64_t)(number < 0); }

static inline size_t varint_size(int64_t number) { return (size_t)(70 - __builtin_clzll(zigzag(number) | 1)) / 7; }

static inline char *put_varint(char *at, int64_t number) {
    uint64_t left = zigzag(number);
    for (; left >= 0x80; left >>= 7) *at++ = (char)(left | 0x80);
    *at++ = (char)left;
    return at;
}

/* A length and so many bytes; NULL differs from no bytes at all. */
static inline size_t field_size(const void *field, size_t size) {
    return varint_size(field ? (int64_t)size : -1) + size;
}

static inline char *put_field(char *at, const void *field, size_t size) {
    at = put_varint(at, field ? (int64_t)size : -1);
    if (size) memcpy(at, field, size);
    return at + size;
}

static inline char *put_number(char *at, uint64_t number, int size) {
    for (int i = size - 1; i >= 0; i--) *at++ = (char)(number >> 8 * i);
    return at;
}

#endif
