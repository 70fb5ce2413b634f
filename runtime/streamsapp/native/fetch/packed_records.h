/* Records of a changelog on their way to RocksDB. A store that is restored takes each of them once, in the order of
 * their keys. So they lie in one block of memory, and no objects are made of them before. Used by the thread that
 * restores, with the interpreter's lock but for the sorting. */
#ifndef SA_FETCH_PACKED_RECORDS_H
#define SA_FETCH_PACKED_RECORDS_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t at; /* of the key in the block, where the value follows */
    int64_t offset, time;
    int64_t key_size, value_size; /* -1 if there is none */
} PackedRecord;

typedef struct {
    PyObject_HEAD
    char *block;
    PackedRecord *records;
    size_t used, room, records_room;
    uint32_t count;
    int is_being_sorted;
    uint32_t *order; /* the last records of their keys, by key; NULL: not sorted yet */
    uint32_t key_count, staged;
} Packed;

/* Adds a record, whose key and value are NULL if it has none; -1 with an exception. */
int sa_pack(Packed *self, const unsigned char *key, const unsigned char *value, const PackedRecord *like);

extern PyTypeObject sa_packed_type;

#endif
