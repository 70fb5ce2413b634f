#include "outbox/changes.h"

#include "base/objects.h"
#include "format/writer.h"

/* True if it is a whole number that is written here, its first byte the highest. */
static int written_here(const Values *values, PyObject *stored, Change *out) {
    int size = values->number_size;
    int64_t most = size ? INT64_MAX >> (64 - 8 * size) : 0, found;
    if (!size || !number(stored, -most - 1, most, &found)) return 0;
    for (int i = 0; i < size; i++) out->number[i] = (char)((uint64_t)found >> 8 * (size - 1 - i));
    out->content.value = out->number;
    out->content.value_size = (size_t)size;
    return 1;
}

/* True if the record has its value. With an exception if the value cannot be written. */
static int prepare_value(const Values *values, PyObject *stored, Change *out) {
    out->kept[1] = NULL;
    if (written_here(values, stored, out)) return 1;
    int as_it_is = stored == Py_None || values->raw == Py_None;
    PyObject *value = as_it_is ? Py_NewRef(stored) : PyObject_CallOneArg(values->raw, stored);
    if (!value || !is_bytes_or_none(value)) {
        Py_XDECREF(value);
        return 0;
    }
    point_at(value, &out->content.value, &out->content.value_size);
    out->kept[1] = value;
    return 1;
}

/* As prepare_change, of a cell or of what a log says of it. */
static int prepare_count(const Values *values, PyObject *key, PyObject *stored, int64_t timestamp, Change *out) {
    out->content.time = timestamp;
    int known = stored && prepare_value(values, stored, out);
    Py_XDECREF(stored);
    if (!known) return 0;
    out->kept[0] = Py_NewRef(key);
    point_at(key, &out->content.key, &out->content.key_size);
    return 1;
}

int sa_prepare_write(const Values *values, const CellRun *run, Py_ssize_t at, Change *out) {
    const Write *write = write_in(run, at);
    PyObject *key = write->cell->physical;
    if (values->number_size != COUNT_SIZE || !write->is_there) {
        if (!prepare_count(values, key, count_written(write), write->timestamp, out)) return 0;
    } else {
        put_number(out->number, write->count, COUNT_SIZE);
        out->content.value = out->number;
        out->content.value_size = COUNT_SIZE;
        out->content.time = write->timestamp;
        out->kept[0] = Py_NewRef(key);
        out->kept[1] = NULL;
    }
    out->content.key = shown_key(write, run->hidden, &out->content.key_size);
    if (out->content.key) return 1;
    Py_DECREF(out->kept[0]);
    Py_XDECREF(out->kept[1]);
    return 0;
}

int sa_prepare_change(const Values *values, PyObject *pair, Change *out) {
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 0)))
        return 0;
    PyObject *key = PyTuple_GET_ITEM(pair, 0), *entry = PyTuple_GET_ITEM(pair, 1);
    const Cell *cell = Py_IS_TYPE(entry, &sa_cell_type) ? (Cell *)entry : NULL;
    if (cell) return prepare_count(values, key, count_of(cell), cell->timestamp, out);
    if (!(PyTuple_Check(entry) || PyList_Check(entry)) || PySequence_Fast_GET_SIZE(entry) != 2 ||
        !number(PySequence_Fast_GET_ITEM(entry, 1), INT64_MIN, INT64_MAX, &out->content.time))
        return 0;
    PyObject *stored = Py_NewRef(PySequence_Fast_GET_ITEM(entry, 0));
    out->kept[0] = Py_NewRef(key); /* before code of others runs */
    point_at(key, &out->content.key, &out->content.key_size);
    int known = prepare_value(values, stored, out);
    Py_DECREF(stored);
    if (!known) Py_DECREF(key);
    return known;
}
