/* A record batch as a broker has sent it, up to its records (KIP-98). Called for each batch by chunks, with the
 * interpreter's lock. */
#ifndef SA_FETCH_FETCHED_BATCH_H
#define SA_FETCH_FETCHED_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "format/reader.h"

#define UNREADABLE "has a record that cannot be read"

typedef struct {
    int64_t base, last, producer; /* offsets of the first and the last record, which may be gone */
    int64_t first_time, latest_time;
    int32_t epoch, count;
    int attributes;
    const char *start;
    size_t size;
} FetchedBatch;

/* -1, as there is an exception. */
int sa_broken_batch(int64_t offset, const char *why);

/* 1 if there is a whole batch, 0 if the rest was cut off, -1 with an exception. */
int sa_look_at_batch(const char *at, const char *end, int64_t after, FetchedBatch *found);

/* True if these are so many records, and nothing else. Their sizes are all that is looked at: those of one byte or two
 * at once, as nearly all are such. */
int sa_are_records(Reader records, int32_t count);

#endif
