#include "outbox/outbox.h"

#include <string.h>
#include <structmember.h>
#include <time.h>

#include "base/byte_order.h"
#include "base/objects.h"
#include "base/output_record.h"
#include "format/batch_format.h"
#include "format/writer.h"
#include "outbox/changes.h"
#include "outbox/record_batch.h"

typedef struct {
    Batch *first, *last;
    PyObject *name; /* (topic, partition) */
} Waiting;

typedef struct {
    int32_t count; /* of partitions */
    uint32_t turn; /* chooses a partition for records without a key */
    Waiting *partitions;
} TopicBox;

typedef struct {
    PyObject_HEAD
    PyObject *topics;      /* name: capsule of a TopicBox */
    PyObject *ready;       /* names of partitions for which something waits since they were reported last */
    Py_ssize_t batch_size; /* in bytes */
    Py_ssize_t most;       /* bytes of the largest record */
    Py_ssize_t bytes;      /* that wait */
    long long added;       /* records, in all */
    double now;            /* when records are added, in the owner's time */
} Outbox;

/* Why a call did not take a record. */
enum { TAKEN, FULL, UNKNOWN_TOPIC, UNKNOWN_PARTITION, TOO_LARGE, NOT_KNOWN };

static uint32_t murmur2(const unsigned char *data, size_t size) {
    const uint32_t m = 0x5bd1e995;
    uint32_t hash = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, data += 4) {
        uint32_t word;
        memcpy(&word, data, 4);
        word = le32toh(word) * m;
        hash = hash * m ^ (word ^ word >> 24) * m;
    }
    if (size > 2) hash ^= (uint32_t)data[2] << 16;
    if (size > 1) hash ^= (uint32_t)data[1] << 8;
    if (size) hash = (hash ^ data[0]) * m;
    hash = (hash ^ hash >> 13) * m;
    return hash ^ hash >> 15;
}

static void drop_batches(Waiting *waiting) {
    for (Batch *batch = waiting->first, *next; batch; batch = next) {
        next = batch->next;
        sa_free_batch(batch);
    }
    waiting->first = waiting->last = NULL;
}

static void destroy_box(PyObject *capsule) {
    TopicBox *box = PyCapsule_GetPointer(capsule, NULL);
    for (int32_t i = 0; i < box->count; i++) {
        drop_batches(&box->partitions[i]);
        Py_XDECREF(box->partitions[i].name);
    }
    PyMem_RawFree(box->partitions);
    PyMem_RawFree(box);
}

static TopicBox *box_of(Outbox *self, PyObject *topic) {
    PyObject *capsule = PyUnicode_CheckExact(topic) ? PyDict_GetItemWithError(self->topics, topic) : NULL;
    return capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
}

/* A topic without partitions, or NULL with an exception. */
static TopicBox *add_box(Outbox *self, PyObject *topic) {
    TopicBox *box = PyMem_RawCalloc(1, sizeof(*box));
    PyObject *capsule = box ? PyCapsule_New(box, NULL, destroy_box) : PyErr_NoMemory();
    if (!capsule) PyMem_RawFree(box);
    else if (PyDict_SetItem(self->topics, topic, capsule)) box = NULL;
    Py_XDECREF(capsule);
    return capsule ? box : NULL;
}

static PyObject *outbox_add_topic(Outbox *self, PyObject *args) {
    PyObject *topic;
    int count;
    if (!PyArg_ParseTuple(args, "Ui", &topic, &count)) return NULL;
    TopicBox *box = box_of(self, topic);
    if (!box && (PyErr_Occurred() || !(box = add_box(self, topic)))) return NULL;
    if (count <= box->count) Py_RETURN_NONE; /* partitions do not go */
    Waiting *partitions = PyMem_RawRealloc(box->partitions, (size_t)count * sizeof(*partitions));
    if (!partitions) return PyErr_NoMemory();
    box->partitions = partitions;
    for (; box->count < count; box->count++) {
        PyObject *name = Py_BuildValue("(Oi)", topic, box->count);
        if (!name) return NULL;
        partitions[box->count] = (Waiting){.name = name};
    }
    Py_RETURN_NONE;
}

/* The batch that the record fits into, made if need be; NULL with an exception. */
static Batch *batch_for(Outbox *self, Waiting *waiting, size_t size) {
    Batch *last = waiting->last;
    if (last && last->used + size <= (size_t)self->batch_size && last->count < INT32_MAX) return last;
    size_t room = last && last->used < MOST_FIRST_ROOM ? FIRST_ROOM * 2 : FIRST_ROOM;
    Batch *batch = sa_new_batch(room, self->now);
    if (!batch) return (Batch *)PyErr_NoMemory();
    if (last) last->next = batch;
    else {
        if (PyList_Append(self->ready, waiting->name)) {
            sa_free_batch(batch);
            return NULL;
        }
        waiting->first = batch;
    }
    waiting->last = batch;
    return batch;
}

/* Says why the record was not taken, or -1 with an exception. */
static int add_record(Outbox *self, Waiting *waiting, Content *content) {
    if (content->time <= 0) { /* 0 is the client's word for none; and without one it is that of sending */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        content->time = content->time ? (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 : 1;
    }
    size_t size = body_size(content, INT64_MAX, INT32_MAX) + 10;
    if (size + HEADER_SIZE > (size_t)self->most) {
        size = body_size(content, 0, 0); /* as exactly as a batch of its own has it */
        if (size + varint_size((int64_t)size) + HEADER_SIZE > (size_t)self->most) return TOO_LARGE;
    }
    Batch *batch = batch_for(self, waiting, size);
    if (!batch) return -1;
    size_t before = batch->count ? batch->used : 0;
    if (sa_put_record(batch, content)) {
        PyErr_NoMemory(); /* a batch that was made for it stays, empty, and is passed over */
        return -1;
    }
    self->bytes += (Py_ssize_t)(batch->used - before);
    self->added++;
    return TAKEN;
}

/* Takes up a record; says why it was not taken, or -1 with an exception. */
static int add_output(Outbox *self, PyObject *record, PyObject **topic, TopicBox **box) {
    if (!is_output_record(record)) return NOT_KNOWN;
    PyObject **field = &PyTuple_GET_ITEM(record, 0);
    int64_t partition;
    Content content = {.headers = field[OUTPUT_HEADERS] == Py_None ? NULL : field[OUTPUT_HEADERS]};
    if (!PyUnicode_CheckExact(field[OUTPUT_TOPIC]) || !is_bytes_or_none(field[OUTPUT_VALUE]) ||
        !is_bytes_or_none(field[OUTPUT_KEY]) || field[OUTPUT_NONE] != Py_None || field[OUTPUT_NONE_TOO] != Py_None ||
        !number(field[OUTPUT_PARTITION], -1, INT32_MAX, &partition) ||
        !number(field[OUTPUT_TIMESTAMP], INT64_MIN, INT64_MAX, &content.time) ||
        !(content.headers_size = headers_size(content.headers)))
        return NOT_KNOWN;
    if (field[OUTPUT_TOPIC] != *topic) {
        *box = box_of(self, field[OUTPUT_TOPIC]);
        *topic = field[OUTPUT_TOPIC];
    }
    if (!*box) return PyErr_Occurred() ? -1 : UNKNOWN_TOPIC;
    point_at(field[OUTPUT_VALUE], &content.value, &content.value_size);
    point_at(field[OUTPUT_KEY], &content.key, &content.key_size);
    if (partition < 0) {
        uint32_t hash = content.key ? murmur2(content.key, content.key_size) & 0x7fffffff : (*box)->turn;
        partition = (*box)->count ? hash % (uint32_t)(*box)->count : 0;
    }
    if (partition >= (*box)->count) return UNKNOWN_PARTITION;
    return add_record(self, &(*box)->partitions[partition], &content);
}

/* As that of a log: records were made by another thread, on another processor. */
static inline __attribute__((always_inline)) void look_at_records(PyObject *records, Py_ssize_t at) {
    if (at + 2 * AHEAD < PyList_GET_SIZE(records)) __builtin_prefetch(PyList_GET_ITEM(records, at + 2 * AHEAD));
    if (at + AHEAD >= PyList_GET_SIZE(records)) return;
    PyObject *next = PyList_GET_ITEM(records, at + AHEAD);
    if (!is_output_record(next)) return;
    __builtin_prefetch(PyTuple_GET_ITEM(next, OUTPUT_VALUE));
    __builtin_prefetch(PyTuple_GET_ITEM(next, OUTPUT_KEY));
    __builtin_prefetch(PyTuple_GET_ITEM(next, OUTPUT_TIMESTAMP));
}

/* The arguments of add(). */
typedef struct {
    PyObject *records;
    Py_ssize_t begin, room;
} Adding;

static const Field adding_fields[] = {FIELD(Adding, records, OBJECT, .type = &PyList_Type),
                                      FIELD(Adding, begin, SIZE, .most = PY_SSIZE_T_MAX),
                                      FIELD(Adding, room, SIZE),
                                      {0}};

static PyObject *outbox_add(Outbox *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Adding adding;
    if (sa_take_fields("add", adding_fields, given, count, names, &adding)) return NULL;
    PyObject *topic = NULL;
    TopicBox *box = NULL;
    Py_ssize_t at = adding.begin;
    int why = TAKEN;
    for (; why == TAKEN && at < PyList_GET_SIZE(adding.records); at += why == TAKEN) {
        look_at_records(adding.records, at);
        why = self->bytes >= adding.room ? FULL : add_output(self, PyList_GET_ITEM(adding.records, at), &topic, &box);
    }
    if (box) box->turn++;
    return why < 0 ? NULL : Py_BuildValue("(ni)", at, why);
}

static Py_ssize_t size_of(PyObject *changes) {
    return PyList_Check(changes) ? PyList_GET_SIZE(changes) : ((CellRun *)changes)->size;
}

/* An entry of a store, as a record of its changelog. */
static int add_change(Outbox *self, TopicBox *box, int partition, const Values *values, PyObject *changes,
                      Py_ssize_t at) {
    Change change = {.content = {.headers_size = headers_size(NULL)}};
    PyObject *pair = PyList_Check(changes) ? Py_NewRef(PyList_GET_ITEM(changes, at)) : NULL;
    int known = pair ? sa_prepare_change(values, pair, &change) /* code of others may run, and partitions come */
                     : sa_prepare_write(values, (CellRun *)changes, at, &change);
    Py_XDECREF(pair);
    if (!known) return PyErr_Occurred() ? -1 : NOT_KNOWN;
    int why = add_record(self, &box->partitions[partition], &change.content);
    Py_DECREF(change.kept[0]);
    Py_XDECREF(change.kept[1]);
    return why;
}

/* The arguments of add_changes(). */
typedef struct {
    PyObject *topic, *changes; /* a list, or a part of a CellLog */
    int partition;
    Py_ssize_t begin, room;
    PyObject *raw;
    int number_size;
} AddingChanges;

static const Field adding_changes_fields[] = {FIELD(AddingChanges, topic, OBJECT, .type = &PyUnicode_Type),
                                              FIELD(AddingChanges, partition, INT, .most = INT32_MAX),
                                              FIELD(AddingChanges, changes, OBJECT),
                                              FIELD(AddingChanges, begin, SIZE, .most = PY_SSIZE_T_MAX),
                                              FIELD(AddingChanges, room, SIZE),
                                              FIELD(AddingChanges, raw, FUNCTION, .may_be_none = 1),
                                              FIELD(AddingChanges, number_size, INT, .most = 8),
                                              {0}};

static PyObject *outbox_add_changes(Outbox *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    AddingChanges adding;
    if (sa_take_fields("add_changes", adding_changes_fields, given, count, names, &adding)) return NULL;
    PyObject *changes = adding.changes;
    const Values values = {adding.raw, adding.number_size};
    if (!PyList_Check(changes) && !Py_IS_TYPE(changes, &sa_cell_run_type))
        return PyErr_Format(PyExc_TypeError, "add_changes: changes is to be list or CellRun, not %.100s",
                            Py_TYPE(changes)->tp_name);
    TopicBox *box = box_of(self, adding.topic);
    if (!box && PyErr_Occurred()) return NULL;
    int why = !box ? UNKNOWN_TOPIC : adding.partition >= box->count ? UNKNOWN_PARTITION : TAKEN;
    Py_ssize_t at = adding.begin;
    for (; why == TAKEN && at < size_of(changes); at += why == TAKEN) {
        if (!PyList_Check(changes)) look_ahead(((CellRun *)changes)->log, ((CellRun *)changes)->begin + at);
        why = self->bytes >= adding.room ? FULL : add_change(self, box, adding.partition, &values, changes, at);
    }
    return why < 0 ? NULL : Py_BuildValue("(ni)", at, why);
}

static PyObject *outbox_waits(Outbox *self, PyObject *none) { return PyBool_FromLong(PyList_GET_SIZE(self->ready)); }

static PyObject *outbox_take_ready(Outbox *self, PyObject *none) {
    PyObject *empty = PyList_New(0), *ready = self->ready;
    if (!empty) return NULL;
    self->ready = empty;
    return ready;
}

/* A batch that is taken. */
typedef struct {
    PyObject *data;
    int record_count;
    double since; /* when the first one came, in the owner's time */
    char more;    /* says whether there is another batch */
} Taken;

static const Field taken_fields[] = {FIELD(Taken, data, OBJECT),
                                     FIELD(Taken, record_count, INT),
                                     FIELD(Taken, since, REAL),
                                     FIELD(Taken, more, TRUTH),
                                     {0}};

PyTypeObject *sa_taken_batch_type;

int sa_make_taken_batch_type(void) {
    sa_taken_batch_type = sa_make_answer_type("streamsapp.native.TakenBatch", taken_fields);
    return sa_taken_batch_type ? 0 : -1;
}

static PyObject *outbox_take(Outbox *self, PyObject *args) {
    PyObject *topic;
    int partition;
    if (!PyArg_ParseTuple(args, "Ui", &topic, &partition)) return NULL;
    TopicBox *box = box_of(self, topic);
    if (!box || partition < 0 || partition >= box->count) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_KeyError, "there is no such partition");
        return NULL;
    }
    Waiting *waiting = &box->partitions[partition];
    Batch *batch = waiting->first;
    if (!batch) Py_RETURN_NONE;
    /* Off the list first: what allocates objects may let the other thread run. */
    waiting->first = batch->next;
    if (!batch->next) waiting->last = NULL;
    Taken taken = {.record_count = batch->count, .since = batch->since, .more = batch->next != NULL};
    if (batch->count) {
        self->bytes -= (Py_ssize_t)batch->used;
        taken.data = PyBytes_FromStringAndSize(batch->data, (Py_ssize_t)batch->used);
        if (taken.data) sa_put_header(PyBytes_AS_STRING(taken.data), batch);
    } else taken.data = Py_NewRef(Py_None);
    sa_free_batch(batch);
    return sa_tell(sa_taken_batch_type, taken_fields, &taken);
}

/* The arguments of stamped(). */
typedef struct {
    PyObject *batch;
    int64_t producer;
    int epoch, sequence, attributes;
} Stamp;

static const Field stamp_fields[] = {FIELD(Stamp, batch, OBJECT, .type = &PyBytes_Type),
                                     FIELD(Stamp, producer, LONG),
                                     FIELD(Stamp, epoch, INT, .least = INT16_MIN, .most = INT16_MAX),
                                     FIELD(Stamp, sequence, INT),
                                     FIELD(Stamp, attributes, INT, .most = INT16_MAX),
                                     {0}};

PyObject *sa_stamped(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Stamp stamp;
    if (sa_take_fields("stamped", stamp_fields, given, count, names, &stamp)) return NULL;
    Py_ssize_t size = PyBytes_GET_SIZE(stamp.batch);
    if (size < HEADER_SIZE) return PyErr_Format(PyExc_ValueError, "stamped: batch is no batch of records");
    PyObject *result = PyBytes_FromStringAndSize(PyBytes_AS_STRING(stamp.batch), size);
    if (result)
        sa_put_producer(PyBytes_AS_STRING(result), (size_t)size, stamp.producer, (int16_t)stamp.epoch, stamp.sequence,
                        stamp.attributes);
    return result;
}

static PyObject *outbox_clear(Outbox *self, PyObject *none) {
    PyObject *topic, *capsule;
    for (Py_ssize_t at = 0; PyDict_Next(self->topics, &at, &topic, &capsule);) {
        TopicBox *box = PyCapsule_GetPointer(capsule, NULL);
        for (int32_t i = 0; i < box->count; i++) drop_batches(&box->partitions[i]);
    }
    self->bytes = 0;
    if (PyList_SetSlice(self->ready, 0, PyList_GET_SIZE(self->ready), NULL)) return NULL;
    Py_RETURN_NONE;
}

static const Field outbox_fields[] = {FIELD(Outbox, batch_size, SIZE, .most = INT32_MAX),
                                      FIELD(Outbox, most, SIZE, .most = INT32_MAX),
                                      FIELD(Outbox, topics, OWN),
                                      FIELD(Outbox, ready, OWN),
                                      {0}};

static int complete_outbox(PyObject *made) {
    Outbox *self = (Outbox *)made;
    self->topics = PyDict_New();
    self->ready = PyList_New(0);
    return self->topics && self->ready ? 0 : -1;
}

static PyMethodDef outbox_methods[] = {
    {"add_topic", (PyCFunction)outbox_add_topic, METH_VARARGS, NULL},
    {"add", (PyCFunction)(void (*)(void))outbox_add, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"add_changes", (PyCFunction)(void (*)(void))outbox_add_changes, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"waits", (PyCFunction)outbox_waits, METH_NOARGS, NULL},
    {"take_ready", (PyCFunction)outbox_take_ready, METH_NOARGS, NULL},
    {"take", (PyCFunction)outbox_take, METH_VARARGS, NULL},
    {"clear", (PyCFunction)outbox_clear, METH_NOARGS, NULL},
    {0}};

static PyMemberDef outbox_members[] = {{"bytes", T_PYSSIZET, offsetof(Outbox, bytes), READONLY, NULL},
                                       {"added", T_LONGLONG, offsetof(Outbox, added), READONLY, NULL},
                                       {"now", T_DOUBLE, offsetof(Outbox, now), 0, NULL},
                                       {0}};

MadeType sa_outbox_type = {
    .type = {MADE(Outbox), .tp_dealloc = sa_free, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = outbox_methods,
             .tp_members = outbox_members},
    .fields = outbox_fields,
    .complete = complete_outbox,
};
