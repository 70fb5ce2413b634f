#include "fetch/answer.h"

#include "base/fields.h"
#include "base/objects.h"
#include "format/reader.h"

enum { LEAST_TOPIC = 18, TOPIC_ID = 16, LEAST_PARTITION = 37, LEAST_ABORTED = 17, DIVERGING_EPOCH = 0 };

/* ((producer, first offset), ...) of transactions that were aborted. */
static PyObject *aborted_of(Reader *reader) {
    int64_t count = read_count(reader, LEAST_ABORTED);
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < count && !reader->broken; i++) {
        long long producer = read_int64(reader), first = read_int64(reader);
        skip_tagged(reader);
        if (append(list, Py_BuildValue("(LL)", producer, first))) Py_CLEAR(list);
    }
    return list;
}

/* True if the fields say that the log has other records where the last one was read (KIP-320). */
static int read_diverging(Reader *reader) {
    int diverging = 0;
    for (uint64_t left = read_unsigned(reader); left && !reader->broken; left--) {
        uint64_t tag = read_unsigned(reader), size = read_unsigned(reader);
        const unsigned char *field = read_bytes(reader, size);
        if (tag == DIVERGING_EPOCH && field && size >= 12) diverging = (int64_t)number_at(field + 4, 8) >= 0;
    }
    return diverging;
}

/* A partition in the answer, and where its record batches begin and end. */
typedef struct {
    PyObject *topic_id;
    int partition, error;
    int64_t high, stable, first;
    char diverging;
    PyObject *aborted;
    Py_ssize_t begin, end;
    int replica;
} Part;

static const Field part_fields[] = {
    FIELD(Part, topic_id, OBJECT), FIELD(Part, partition, INT),  FIELD(Part, error, INT),
    FIELD(Part, high, LONG),       FIELD(Part, stable, LONG),    FIELD(Part, first, LONG),
    FIELD(Part, diverging, TRUTH), FIELD(Part, aborted, OBJECT), FIELD(Part, begin, SIZE),
    FIELD(Part, end, SIZE),        FIELD(Part, replica, INT),    {0}};

PyTypeObject *sa_fetched_part_type;

static PyObject *read_part(Reader *reader, const char *start, PyObject *topic_id) {
    Part part;
    part.partition = read_int32(reader);
    part.error = read_int16(reader);
    part.high = read_int64(reader);
    part.stable = read_int64(reader);
    part.first = read_int64(reader);
    part.aborted = aborted_of(reader);
    if (!part.aborted) return NULL;
    part.replica = read_int32(reader);
    uint64_t size = read_unsigned(reader);
    const unsigned char *records = size ? read_bytes(reader, size - 1) : reader->at;
    part.begin = records ? (const char *)records - start : 0;
    part.end = (const char *)reader->at - start;
    part.diverging = (char)read_diverging(reader);
    part.topic_id = Py_NewRef(topic_id);
    return sa_tell(sa_fetched_part_type, part_fields, &part);
}

static int read_topic(Reader *reader, const char *start, PyObject *partitions) {
    const unsigned char *id = read_bytes(reader, TOPIC_ID);
    PyObject *topic = id ? PyBytes_FromStringAndSize((const char *)id, TOPIC_ID) : NULL;
    int failed = id && !topic;
    int64_t count = read_count(reader, LEAST_PARTITION);
    for (int64_t i = 0; i < count && !failed && !reader->broken; i++)
        failed = append(partitions, read_part(reader, start, topic));
    skip_tagged(reader);
    Py_XDECREF(topic);
    return failed ? -1 : 0;
}

typedef struct {
    int throttle_ms, error, session;
    PyObject *parts;
} Answer;

static const Field answer_fields[] = {FIELD(Answer, throttle_ms, INT),
                                      FIELD(Answer, error, INT),
                                      FIELD(Answer, session, INT),
                                      FIELD(Answer, parts, OBJECT),
                                      {0}};

PyTypeObject *sa_fetch_answer_type;

int sa_make_answer_types(void) {
    sa_fetched_part_type = sa_make_answer_type("streamsapp.native.FetchedPart", part_fields);
    sa_fetch_answer_type = sa_make_answer_type("streamsapp.native.FetchAnswer", answer_fields);
    return sa_fetched_part_type && sa_fetch_answer_type ? 0 : -1;
}

PyObject *sa_answer(PyObject *module, PyObject *given) {
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)) return NULL;
    const char *start = view.buf;
    Reader reader = {(const unsigned char *)start, (const unsigned char *)start + view.len, 0};
    read_int32(&reader); /* the number of the request, which was looked at when the answer came */
    skip_tagged(&reader);
    Answer answer;
    answer.throttle_ms = read_int32(&reader);
    answer.error = read_int16(&reader);
    answer.session = read_int32(&reader);
    answer.parts = PyList_New(0);
    int failed = !answer.parts;
    int64_t count = read_count(&reader, LEAST_TOPIC);
    for (int64_t i = 0; i < count && !failed && !reader.broken; i++) failed = read_topic(&reader, start, answer.parts);
    skip_tagged(&reader);
    if (!failed && (reader.broken || left_in(&reader))) {
        PyErr_SetString(PyExc_ValueError, "the answer to a Fetch request breaks off, or is none");
        failed = 1;
    }
    PyBuffer_Release(&view);
    if (!failed) return sa_tell(sa_fetch_answer_type, answer_fields, &answer);
    Py_XDECREF(answer.parts);
    return NULL;
}
