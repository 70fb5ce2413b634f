/* The entries of a store as records of its changelog: none of them becomes an object of Python's. */

/* How values become bytes: whole numbers of number_size bytes (0: none) here, others by a call of raw, or not at all
 * where that is None. */
typedef struct {
    PyObject *raw;
    int number_size;
} Values;

/* True if it is a whole number that is written here, its first byte the highest. */
static int written_here(const Values *values, PyObject *stored, Outgoing *out) {
    int size = values->number_size;
    int64_t most = size ? INT64_MAX >> (64 - 8 * size) : 0, found;
    if (!size || !number(stored, -most - 1, most, &found)) return 0;
    for (int i = 0; i < size; i++) out->number[i] = (char)((uint64_t)found >> 8 * (size - 1 - i));
    out->value = out->number;
    out->value_size = (size_t)size;
    return 1;
}

/* True if the record has its value. With an exception if the value cannot be written. */
static int prepare_value(const Values *values, PyObject *stored, Outgoing *out) {
    out->kept[1] = NULL;
    if (written_here(values, stored, out)) return 1;
    int as_it_is = stored == Py_None || values->raw == Py_None;
    PyObject *value = as_it_is ? Py_NewRef(stored) : PyObject_CallOneArg(values->raw, stored);
    if (!value || !is_bytes_or_none(value)) {
        Py_XDECREF(value);
        return 0;
    }
    point_at(value, &out->value, &out->value_size);
    out->kept[1] = value;
    return 1;
}

/* True if a window's count has a time after zero. */
static int prepare_cell(const Values *values, PyObject *key, const Cell *cell, Outgoing *out) {
    PyObject *stored = cell->timestamp > 0 ? count_of(cell) : NULL;
    out->timestamp = cell->timestamp;
    int known = stored && prepare_value(values, stored, out);
    Py_XDECREF(stored);
    if (!known) return 0;
    out->kept[0] = Py_NewRef(key);
    point_at(key, &out->key, &out->key_size);
    return 1;
}

/* True if it is (key, entry) as far as it is known here: the key bytes, the entry (stored, timestamp), as a tuple or a
 * list, with a time after zero. */
static int prepare_change(const Values *values, PyObject *pair, Outgoing *out) {
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 0)))
        return 0;
    PyObject *key = PyTuple_GET_ITEM(pair, 0), *entry = PyTuple_GET_ITEM(pair, 1);
    if (Py_IS_TYPE(entry, &CellType)) return prepare_cell(values, key, (Cell *)entry, out);
    if (!(PyTuple_Check(entry) || PyList_Check(entry)) || PySequence_Fast_GET_SIZE(entry) != 2 ||
        !number(PySequence_Fast_GET_ITEM(entry, 1), 1, INT64_MAX, &out->timestamp)) return 0;
    PyObject *stored = Py_NewRef(PySequence_Fast_GET_ITEM(entry, 0));
    out->kept[0] = Py_NewRef(key); /* before code of others runs */
    point_at(key, &out->key, &out->key_size);
    int known = prepare_value(values, stored, out);
    Py_DECREF(stored);
    if (!known) Py_DECREF(key);
    return known;
}

/* The entries from one on, for one partition of a topic. */
static Py_ssize_t send_from(Client *client, Topic *topic, int32_t partition, const Values *values, PyObject *changes,
                            Py_ssize_t at) {
    Outgoing *outgoing = PyMem_RawMalloc(AT_A_TIME * sizeof(*outgoing));
    Py_ssize_t count = 0, taken = 0;
    if (!outgoing) PyErr_NoMemory();
    while (!PyErr_Occurred() && taken == count && at < PyList_GET_SIZE(changes)) {
        for (count = 0; count < AT_A_TIME && at + count < PyList_GET_SIZE(changes); count++) {
            Outgoing *out = &outgoing[count];
            out->topic = topic;
            out->headers = NULL;
            out->partition = partition;
            PyObject *pair = Py_NewRef(PyList_GET_ITEM(changes, at + count));
            int known = prepare_change(values, pair, out);
            Py_DECREF(pair);
            if (!known) break;
        }
        taken = hand_over(client, outgoing, count);
        at += taken;
        if (!taken) break;
    }
    PyMem_RawFree(outgoing);
    return at;
}

static PyObject *send_changes(PyObject *module, PyObject *args) {
    unsigned long long handle;
    const char *name;
    int partition;
    PyObject *changes;
    Py_ssize_t at;
    Values values;
    if (!PyArg_ParseTuple(args, "KsiO!nOi", &handle, &name, &partition, &PyList_Type, &changes, &at, &values.raw,
                          &values.number_size)) return NULL;
    if (!handle || partition < 0 || at < 0 || values.number_size < 0 || values.number_size > 8)
        return PyErr_Format(PyExc_ValueError, "send_changes takes a handle, a topic and a partition, entries, where to "
                                              "begin, and how values are written");
    Client *client = (Client *)(uintptr_t)handle;
    Topic *topic = rd_kafka_topic_new(client, name, NULL);
    if (topic) {
        at = send_from(client, topic, partition, &values, changes, at);
        rd_kafka_topic_destroy(topic);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(at);
}
