/* The part of librdkafka's public interface that is used, found in the library that confluent-kafka has loaded. */
#ifndef SA_FETCH_LIBRARY_H
#define SA_FETCH_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct Client Client;

typedef struct Queue Queue;

typedef struct Event Event;

typedef struct Topic Topic;

typedef struct Headers Headers;

typedef struct {
    int err;
    Topic *topic;
    int32_t partition;
    void *value;
    size_t value_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *opaque;
} Message;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    /* more follows that is not read */
} Partition;

enum { EVENT_FETCH = 2, EVENT_LOG = 4, EVENT_ERROR = 8 };

#define FUNCTIONS(X)                                                                          \
    X(const char *, name, (const Client *))                                                   \
    X(Queue *, queue_get_consumer, (Client *))                                                \
    X(void, queue_destroy, (Queue *))                                                         \
    X(Event *, queue_poll, (Queue *, int))                                                    \
    X(int, event_type, (const Event *))                                                       \
    X(const Message *, event_message_next, (Event *))                                         \
    X(int, event_error, (Event *))                                                            \
    X(const char *, event_error_string, (Event *))                                            \
    X(int, event_error_is_fatal, (Event *))                                                   \
    X(Partition *, event_topic_partition, (Event *))                                          \
    X(void, topic_partition_destroy, (Partition *))                                           \
    X(int, event_log, (Event *, const char **, const char **, int *))                         \
    X(void, event_destroy, (Event *))                                                         \
    X(int64_t, message_timestamp, (const Message *, int *))                                   \
    X(int, message_headers, (const Message *, Headers **))                                    \
    X(int, header_get_all, (const Headers *, size_t, const char **, const void **, size_t *)) \
    X(const char *, topic_name, (const Topic *))

#define DECLARE(result, function, parameters) extern result(*rd_kafka_##function) parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

/* Looks them up in what confluent_kafka.cimpl was linked with; -1 with an exception. */
int sa_find_functions(void);

#endif
