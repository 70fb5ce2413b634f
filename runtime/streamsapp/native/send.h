/* Many records for a producer at a time. */

#define AT_A_TIME 1024

typedef struct {
    PyObject *kept[2]; /* keep key and value; the second may be NULL */
    const void *key, *value; /* NULL for none */
    size_t key_size, value_size;
    Topic *topic;
    Headers *headers;
    int64_t timestamp;
    int32_t partition;
    char number[8]; /* a value that was made here */
} Outgoing;

static _Thread_local int sending; /* what send refuses, it tells itself */

static void destroy_topic(PyObject *capsule) { rd_kafka_topic_destroy(PyCapsule_GetPointer(capsule, NULL)); }

/* The string's bytes if it can be one of C's, else NULL without an exception. */
static const char *c_string(PyObject *given) {
    Py_ssize_t size;
    const char *found = PyUnicode_CheckExact(given) ? PyUnicode_AsUTF8AndSize(given, &size) : NULL;
    if (found && strlen(found) == (size_t)size) return found;
    PyErr_Clear();
    return NULL;
}

/* NULL: with an exception, or without one if the name cannot be a topic's. topics has the capsule of each. */
static Topic *topic_of(Client *client, PyObject *topics, PyObject *name) {
    const char *text = c_string(name);
    if (!text) return NULL;
    PyObject *capsule = PyDict_GetItemWithError(topics, name);
    if (capsule) return PyCapsule_GetPointer(capsule, NULL);
    Topic *topic = PyErr_Occurred() ? NULL : rd_kafka_topic_new(client, text, NULL);
    if (!topic) return NULL;
    capsule = PyCapsule_New(topic, NULL, destroy_topic);
    if (!capsule) rd_kafka_topic_destroy(topic);
    else if (PyDict_SetItem(topics, name, capsule)) topic = NULL;
    Py_XDECREF(capsule);
    return capsule ? topic : NULL;
}

static int is_bytes_or_none(PyObject *given) { return given == Py_None || PyBytes_CheckExact(given); }

/* Points at what the record has of bytes or None. */
static void point_at(PyObject *given, const void **start, size_t *size) {
    *start = given == Py_None ? NULL : PyBytes_AS_STRING(given);
    *size = given == Py_None ? 0 : (size_t)PyBytes_GET_SIZE(given);
}

/* NULL if they are not a list of pairs as Headers says. */
static Headers *headers_from(PyObject *given) {
    Headers *headers = PyList_CheckExact(given) ? rd_kafka_headers_new(PyList_GET_SIZE(given)) : NULL;
    for (Py_ssize_t i = 0; headers && i < PyList_GET_SIZE(given); i++) {
        PyObject *pair = PyList_GET_ITEM(given, i);
        int is_pair = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2;
        const char *name = is_pair ? c_string(PyTuple_GET_ITEM(pair, 0)) : NULL;
        PyObject *value = is_pair ? PyTuple_GET_ITEM(pair, 1) : NULL;
        if (name && value == Py_None && !rd_kafka_header_add(headers, name, -1, NULL, 0)) continue;
        if (name && PyBytes_CheckExact(value) &&
            !rd_kafka_header_add(headers, name, -1, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))) continue;
        rd_kafka_headers_destroy(headers);
        headers = NULL;
    }
    return headers;
}

/* True if the number lies within the bounds; anything else than an int does not. */
static int number(PyObject *given, int64_t least, int64_t most, int64_t *found) {
    int overflow = 0;
    if (!PyLong_CheckExact(given)) return 0;
    *found = PyLong_AsLongLongAndOverflow(given, &overflow);
    return !overflow && *found >= least && *found <= most;
}

/* True if the record is one of those that send knows: (topic, value, key, partition, None, None, timestamp, headers),
 * as OutputRecord says, with a time after zero. All others, and their errors, are left to confluent-kafka. The one
 * before, if there is one, often has the same topic. */
static int prepare(Client *client, PyObject *topics, PyObject *record, const Outgoing *before, Outgoing *out) {
    if (!PyTuple_CheckExact(record) || PyTuple_GET_SIZE(record) != 8) return 0;
    PyObject **field = &PyTuple_GET_ITEM(record, 0);
    int64_t partition;
    if (!is_bytes_or_none(field[1]) || !is_bytes_or_none(field[2]) || field[4] != Py_None || field[5] != Py_None ||
        !number(field[3], -1, INT32_MAX, &partition) || !number(field[6], 1, INT64_MAX, &out->timestamp)) return 0;
    out->partition = (int32_t)partition;
    int same_topic = before && PyTuple_GET_ITEM(before->kept[0], 0) == field[0];
    out->topic = same_topic ? before->topic : topic_of(client, topics, field[0]);
    if (!out->topic) return 0;
    out->headers = field[7] == Py_None ? NULL : headers_from(field[7]);
    if (!out->headers && field[7] != Py_None) return 0;
    point_at(field[1], &out->value, &out->value_size);
    point_at(field[2], &out->key, &out->key_size);
    out->kept[0] = Py_NewRef(record);
    out->kept[1] = NULL;
    return 1;
}

/* Hands them over until one is refused; returns how many were taken. Without the interpreter. */
static Py_ssize_t produce(Client *client, Outgoing *outgoing, Py_ssize_t count) {
    Py_ssize_t taken = 0;
    sending = 1;
    for (; taken < count; taken++) {
        Outgoing *out = &outgoing[taken];
        if (rd_kafka_producev(client, ARGUMENT_TOPIC, out->topic, ARGUMENT_PARTITION, out->partition,
                              ARGUMENT_VALUE, out->value, out->value_size, ARGUMENT_KEY, out->key, out->key_size,
                              ARGUMENT_FLAGS, FLAG_COPY, ARGUMENT_TIMESTAMP, out->timestamp,
                              ARGUMENT_HEADERS, out->headers, ARGUMENT_END)) break;
        out->headers = NULL; /* the client's now */
    }
    sending = 0;
    return taken;
}

/* Hands over what was prepared, with the interpreter released, and lets it go; returns how many were taken. Those of
 * an exception are let go only. */
static Py_ssize_t hand_over(Client *client, Outgoing *outgoing, Py_ssize_t count) {
    Py_ssize_t taken = 0;
    if (count && !PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        taken = produce(client, outgoing, count);
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (outgoing[i].headers) rd_kafka_headers_destroy(outgoing[i].headers);
        Py_DECREF(outgoing[i].kept[0]);
        Py_XDECREF(outgoing[i].kept[1]);
    }
    return taken;
}

static PyObject *send(PyObject *module, PyObject *args) {
    unsigned long long handle;
    PyObject *records;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(args, "KO!n", &handle, &PyList_Type, &records, &at)) return NULL;
    if (!handle || at < 0) return PyErr_Format(PyExc_ValueError, "send takes a handle, records, and where to begin");
    Client *client = (Client *)(uintptr_t)handle;
    PyObject *topics = PyDict_New();
    Outgoing *outgoing = PyMem_RawMalloc(AT_A_TIME * sizeof(*outgoing));
    Py_ssize_t count = 0, taken = 0;
    if (topics && !outgoing) PyErr_NoMemory();
    while (!PyErr_Occurred() && taken == count && at < PyList_GET_SIZE(records)) {
        for (count = 0; count < AT_A_TIME && at + count < PyList_GET_SIZE(records); count++)
            if (!prepare(client, topics, PyList_GET_ITEM(records, at + count), count ? &outgoing[count - 1] : NULL,
                         &outgoing[count])) break;
        taken = hand_over(client, outgoing, count);
        at += taken;
        if (!taken) break;
    }
    PyMem_RawFree(outgoing);
    Py_XDECREF(topics); /* lets the topics go */
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(at);
}
