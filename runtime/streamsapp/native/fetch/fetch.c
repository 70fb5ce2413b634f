#include "fetch/fetch.h"

#include <string.h>

#include "base/objects.h"
#include "fetch/library.h"
#include "fetch/record.h"

static PyObject *header_list(const Headers *headers) {
    PyObject *list = PyList_New(0);
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; list && !rd_kafka_header_get_all(headers, i, &name, &value, &size); i++) {
        PyObject *pair = Py_BuildValue("(sN)", name, bytes_or_none(value, size));
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* A new reference, or NULL with an exception. */
static PyObject *headers_of(const Message *message) {
    Headers *headers;
    if (rd_kafka_message_headers(message, &headers)) return Py_NewRef(Py_None);
    PyObject *list = header_list(headers);
    return list || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) ? list : sa_caught();
}

static Record *record_of(const Message *message, PyObject *topic) {
    PyObject *key = bytes_or_none(message->key, message->key_size);
    PyObject *value = key ? bytes_or_none(message->value, message->value_size) : NULL;
    Record *record = sa_new_record(Py_NewRef(topic), key, value, value ? headers_of(message) : NULL);
    if (!record) return NULL;
    record->partition = message->partition;
    record->offset = message->offset;
    record->timestamp = rd_kafka_message_timestamp(message, &record->timestamp_type);
    return record;
}

#define MOST_RECORDS 1000000

#define LONGEST_WAIT 3600.0 /* seconds */

#define EVENTS_AHEAD 4

typedef struct {
    Event *event;
    const Message *message; /* of events that are records */
} Fetched;

static PyObject *text(const char *given) {
    return given ? PyUnicode_DecodeUTF8(given, (Py_ssize_t)strlen(given), "replace") : PyUnicode_FromString("");
}

/* (code, text, fatal, topic or None, partition, offset) */
static PyObject *error_of(Event *event) {
    Partition *at = rd_kafka_event_topic_partition(event);
    PyObject *result =
        Py_BuildValue("(iNNNiL)", rd_kafka_event_error(event), text(rd_kafka_event_error_string(event)),
                      PyBool_FromLong(rd_kafka_event_error_is_fatal(event)), at ? text(at->topic) : Py_NewRef(Py_None),
                      at ? (int)at->partition : -1, at ? (long long)at->offset : -1);
    if (at) rd_kafka_topic_partition_destroy(at);
    return result;
}

/* (syslog's level, facility, client, text) */
static PyObject *log_of(Event *event, const Client *client) {
    const char *facility, *message;
    int level;
    if (rd_kafka_event_log(event, &facility, &message, &level)) return Py_NewRef(Py_None);
    return Py_BuildValue("(iNNN)", level, text(facility), text(rd_kafka_name(client)), text(message));
}

/* Waits for one event and takes what is there beside it; without the interpreter. */
static Py_ssize_t take(Client *client, Fetched *fetched, Py_ssize_t limit, int timeout_ms) {
    Queue *queue = rd_kafka_queue_get_consumer(client);
    if (!queue) return -1;
    Py_ssize_t count = 0;
    Event *event;
    while (count < limit && (event = rd_kafka_queue_poll(queue, count ? 0 : timeout_ms))) {
        int is_record = rd_kafka_event_type(event) == EVENT_FETCH;
        fetched[count++] = (Fetched){event, is_record ? rd_kafka_event_message_next(event) : NULL};
    }
    rd_kafka_queue_destroy(queue);
    return count;
}

/* Has the memory fetch what comes next: threads of the library's made it, on another processor. */
static inline __attribute__((always_inline)) void look_at_events(const Fetched *fetched, Py_ssize_t at,
                                                                 Py_ssize_t count) {
    if (at + 2 * EVENTS_AHEAD < count && fetched[at + 2 * EVENTS_AHEAD].message)
        __builtin_prefetch(fetched[at + 2 * EVENTS_AHEAD].message);
    const Message *next = at + EVENTS_AHEAD < count ? fetched[at + EVENTS_AHEAD].message : NULL;
    if (!next) return;
    if (next->key) __builtin_prefetch(next->key);
    if (next->value) __builtin_prefetch(next->value);
}

/* Sorts events into runs of one partition's records, whose offsets grow, errors, and messages of the log. */
static int sort(const Client *client, const Fetched *fetched, Py_ssize_t count, PyObject *runs, PyObject *errors,
                PyObject *logs) {
    const Message *last = NULL;
    PyObject *topic = NULL, *run = NULL; /* of the last record; run is borrowed from runs */
    int64_t before = -1;                 /* its offset */
    int failed = 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        look_at_events(fetched, i, count);
        const Message *message = fetched[i].message;
        if (!message) {
            int type = rd_kafka_event_type(fetched[i].event);
            if (type == EVENT_ERROR) failed = append(errors, error_of(fetched[i].event));
            else if (type == EVENT_LOG) failed = append(logs, log_of(fetched[i].event, client));
            continue;
        }
        if (!last || message->topic != last->topic || message->partition != last->partition ||
            message->offset <= before) {
            if (!last || message->topic != last->topic) Py_XSETREF(topic, text(rd_kafka_topic_name(message->topic)));
            run = topic ? PyList_New(0) : NULL;
            failed = !run || append(runs, Py_BuildValue("(OiN)", topic, (int)message->partition, run));
            last = message;
        }
        before = message->offset;
        if (!failed) failed = append(run, (PyObject *)record_of(message, topic));
    }
    Py_XDECREF(topic);
    return failed ? -1 : 0;
}

PyObject *sa_fetch(PyObject *module, PyObject *args) {
    unsigned long long handle;
    Py_ssize_t limit;
    double timeout;
    if (!PyArg_ParseTuple(args, "Knd", &handle, &limit, &timeout)) return NULL;
    if (!handle || limit < 1 || limit > MOST_RECORDS || !(timeout >= 0 && timeout <= LONGEST_WAIT))
        return PyErr_Format(PyExc_ValueError, "fetch takes a handle, up to %d records, and up to %d seconds",
                            MOST_RECORDS, (int)LONGEST_WAIT);
    Client *client = (Client *)(uintptr_t)handle;
    Fetched *fetched = PyMem_RawMalloc((size_t)limit * sizeof(*fetched));
    if (!fetched) return PyErr_NoMemory();
    Py_ssize_t count;
    Py_BEGIN_ALLOW_THREADS
    count = take(client, fetched, limit, (int)(timeout * 1000 + 0.999));
    Py_END_ALLOW_THREADS
    PyObject *runs = PyList_New(0), *errors = PyList_New(0), *logs = PyList_New(0), *result = NULL;
    if (count < 0) PyErr_SetString(PyExc_ValueError, "the client is no consumer");
    else if (runs && errors && logs && !sort(client, fetched, count, runs, errors, logs))
        result = PyTuple_Pack(3, runs, errors, logs);
    Py_XDECREF(runs);
    Py_XDECREF(errors);
    Py_XDECREF(logs);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) rd_kafka_event_destroy(fetched[i].event);
    PyMem_RawFree(fetched);
    Py_END_ALLOW_THREADS
    return result;
}
