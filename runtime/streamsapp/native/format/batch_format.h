/* Where the fields of a record batch are, and the bits of its attributes: Kafka's format, version 2 (KIP-98). */
#ifndef SA_FORMAT_BATCH_FORMAT_H
#define SA_FORMAT_BATCH_FORMAT_H

enum {
    SIZE_AT = 8,
    EPOCH_AT = 12,
    MAGIC_AT = 16,
    CRC_AT = 17,
    ATTRIBUTES_AT = 21,
    PRODUCER_AT = 43,
    COUNT_AT = 57,
    HEADER_SIZE = 61
};

enum { CODEC = 7, LOG_APPEND_TIME = 8, TRANSACTIONAL = 16, CONTROL = 32 };

#endif
