/* Reads what brokers sent: numbers are big-endian, or of variable length. A reader breaks where more is to be read than
 * is left, and gives zeros from then on. Called for each field of each record; needs no lock. */
#ifndef SA_FORMAT_READER_H
#define SA_FORMAT_READER_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const unsigned char *at, *end;
    int broken;
} Reader;

static inline size_t left_in(const Reader *reader) { return (size_t)(reader->end - reader->at); }

static inline void break_reader(Reader *reader) {
    reader->broken = 1;
    reader->at = reader->end;
}

/* Points at the next bytes, and goes on behind them; NULL if there are not so many. */
static inline const unsigned char *read_bytes(Reader *reader, uint64_t size) {
    const unsigned char *found = reader->at;
    if (size > left_in(reader)) {
        break_reader(reader);
        return NULL;
    }
    reader->at += size;
    return found;
}

static inline uint64_t number_at(const unsigned char *at, int size) {
    uint64_t found = 0;
    for (int i = 0; i < size; i++) found = found << 8 | at[i];
    return found;
}

static inline int64_t read_int64(Reader *reader) {
    const unsigned char *at = read_bytes(reader, 8);
    return at ? (int64_t)number_at(at, 8) : 0;
}

static inline int32_t read_int32(Reader *reader) {
    const unsigned char *at = read_bytes(reader, 4);
    return at ? (int32_t)(uint32_t)number_at(at, 4) : 0;
}

static inline int16_t read_int16(Reader *reader) {
    const unsigned char *at = read_bytes(reader, 2);
    return at ? (int16_t)(uint16_t)number_at(at, 2) : 0;
}

/* Without a sign; not of more than ten bytes. */
static inline uint64_t read_unsigned(Reader *reader) {
    uint64_t found = 0;
    for (int shift = 0; shift < 70 && reader->at < reader->end; shift += 7) {
        unsigned char next = *reader->at++;
        found |= (uint64_t)(next & 0x7f) << (shift & 63);
        if (next < 0x80) return found;
    }
    break_reader(reader);
    return 0;
}

/* With a sign, as records have them. */
static inline int64_t read_varint(Reader *reader) {
    uint64_t found = read_unsigned(reader);
    return (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
}

/* Of an array whose items take so many bytes at least, the number of items; a missing array is not an empty one. */
static inline int64_t read_count(Reader *reader, size_t least) {
    uint64_t count = read_unsigned(reader);
    if (count && (count - 1) > left_in(reader) / least) break_reader(reader);
    return reader->broken ? -1 : (int64_t)count - 1;
}

/* Passes over the fields that later versions add (KIP-482). */
static inline void skip_tagged(Reader *reader) {
    for (uint64_t left = read_unsigned(reader); left && !reader->broken; left--) {
        read_unsigned(reader);
        read_bytes(reader, read_unsigned(reader));
    }
}

#endif
