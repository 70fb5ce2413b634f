/* The part of librdkafka's public interface that is used, found in the library that confluent-kafka has loaded. */

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

#define FUNCTIONS(X)                                                                                                   \
    X(const char *, name, (const Client *))                                                                            \
    X(Queue *, queue_get_consumer, (Client *))                                                                         \
    X(void, queue_destroy, (Queue *))                                                                                  \
    X(Event *, queue_poll, (Queue *, int))                                                                             \
    X(int, event_type, (const Event *))                                                                                \
    X(const Message *, event_message_next, (Event *))                                                                  \
    X(int, event_error, (Event *))                                                                                     \
    X(const char *, event_error_string, (Event *))                                                                     \
    X(int, event_error_is_fatal, (Event *))                                                                            \
    X(Partition *, event_topic_partition, (Event *))                                                                   \
    X(void, topic_partition_destroy, (Partition *))                                                                    \
    X(int, event_log, (Event *, const char **, const char **, int *))                                                  \
    X(void, event_destroy, (Event *))                                                                                  \
    X(int64_t, message_timestamp, (const Message *, int *))                                                            \
    X(int, message_headers, (const Message *, Headers **))                                                             \
    X(int, header_get_all, (const Headers *, size_t, const char **, const void **, size_t *))                          \
    X(const char *, topic_name, (const Topic *))                                                                       \

#define DECLARE(result, function, parameters) static result(*rd_kafka_##function) parameters;
FUNCTIONS(DECLARE)

/* Looks them up in what confluent_kafka.cimpl was linked with. */
static int find_functions(void) {
    PyObject *module = PyImport_ImportModule("confluent_kafka.cimpl");
    PyObject *file = module ? PyObject_GetAttrString(module, "__file__") : NULL;
    const char *path = file ? PyUnicode_AsUTF8(file) : NULL;
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL; /* never closed: it is used from now on */
    if (path && !library) PyErr_Format(PyExc_ImportError, "%s is not loaded", path);
    Py_XDECREF(file);
    Py_XDECREF(module);
    if (!library) return -1;
#define FIND(result, function, parameters)                                                                             \
    *(void **)&rd_kafka_##function = dlsym(library, "rd_kafka_" #function);                                            \
    if (!rd_kafka_##function) {                                                                                        \
        PyErr_SetString(PyExc_ImportError, "librdkafka has no rd_kafka_" #function);                                   \
        return -1;                                                                                                     \
    }
    FUNCTIONS(FIND)
    return 0;
}
