#include "fetch/answer.h"

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

/* (topic id, partition, error, high watermark, last stable offset, first offset, diverging, aborted, begin, end) */
static PyObject *partition_of(Reader *reader, const char *start, PyObject *topic) {
    int partition = read_int32(reader), error = read_int16(reader);
    long long high = read_int64(reader), stable = read_int64(reader), first = read_int64(reader);
    PyObject *aborted = aborted_of(reader);
    if (!aborted) return NULL;
    read_int32(reader); /* the replica to read from, for those who tell where they are */
    uint64_t size = read_unsigned(reader);
    const unsigned char *records = size ? read_bytes(reader, size - 1) : reader->at;
    Py_ssize_t begin = records ? (const char *)records - start : 0, end = (const char *)reader->at - start;
    int diverging = read_diverging(reader);
    return Py_BuildValue("(OiiLLLONnn)", topic, partition, error, high, stable, first, diverging ? Py_True : Py_False,
                         aborted, begin, end);
}

static int read_topic(Reader *reader, const char *start, PyObject *partitions) {
    const unsigned char *id = read_bytes(reader, TOPIC_ID);
    PyObject *topic = id ? PyBytes_FromStringAndSize((const char *)id, TOPIC_ID) : NULL;
    int failed = id && !topic;
    int64_t count = read_count(reader, LEAST_PARTITION);
    for (int64_t i = 0; i < count && !failed && !reader->broken; i++)
        failed = append(partitions, partition_of(reader, start, topic));
    skip_tagged(reader);
    Py_XDECREF(topic);
    return failed ? -1 : 0;
}

PyObject *sa_answer(PyObject *module, PyObject *given) {
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)) return NULL;
    const char *start = view.buf;
    Reader reader = {(const unsigned char *)start, (const unsigned char *)start + view.len, 0};
    read_int32(&reader); /* the number of the request, which was looked at when the answer came */
    skip_tagged(&reader);
    int throttle = read_int32(&reader), error = read_int16(&reader), session = read_int32(&reader);
    PyObject *partitions = PyList_New(0);
    int failed = !partitions;
    int64_t count = read_count(&reader, LEAST_TOPIC);
    for (int64_t i = 0; i < count && !failed && !reader.broken; i++) failed = read_topic(&reader, start, partitions);
    skip_tagged(&reader);
    if (!failed && (reader.broken || left_in(&reader))) {
        PyErr_SetString(PyExc_ValueError, "the answer to a Fetch request breaks off, or is none");
        failed = 1;
    }
    PyObject *result = failed ? NULL : Py_BuildValue("(iiiO)", throttle, error, session, partitions);
    Py_XDECREF(partitions);
    PyBuffer_Release(&view);
    return result;
}
