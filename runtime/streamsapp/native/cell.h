/* Counts that are changed in place, and the records that tell a topic of them. Used by one thread at a time, with the
 * interpreter. */

enum { COUNT_SIZE = 8 };

/* Which write of which log is that of a cell. */
typedef struct {
    long long log;
    Py_ssize_t at;
} Place;

/* That of its last epoch, of the one in which it was written before, and of those that wait for RocksDB. */
enum { IN_EPOCH, IN_EPOCH_BEFORE, IN_BACKLOG, PLACES };

/* An entry [count, timestamp] that is changed in place: streamsapp.state.entries.Cell in C. */
typedef struct {
    PyObject_HEAD
    PyObject *physical; /* the key that the store has for it */
    int64_t timestamp;
    uint64_t count;
    Place places[PLACES];
    uint32_t generation : 31; /* the younger one that has it */
    uint32_t is_there : 1;
    uint32_t held; /* which update was the last of it since it is held for the commit; 0: it is not */
} Cell;

static PyTypeObject CellType;

/* Takes over the key, which may be NULL. */
static Cell *new_cell(PyObject *physical, uint64_t count, int64_t timestamp) {
    Cell *cell = physical ? PyObject_New(Cell, &CellType) : NULL;
    if (!cell) {
        Py_XDECREF(physical);
        return NULL;
    }
    cell->physical = physical;
    cell->timestamp = timestamp;
    cell->count = count;
    for (int i = 0; i < PLACES; i++) cell->places[i].log = 0; /* which no log is */
    cell->generation = 0;
    cell->is_there = 1;
    cell->held = 0;
    return cell;
}

static void cell_dealloc(Cell *self) {
    Py_DECREF(self->physical);
    PyObject_Free(self);
}

static Py_ssize_t cell_length(Cell *self) { return 2; }

static PyObject *count_of(const Cell *self) {
    return self->is_there ? PyLong_FromLongLong((int64_t)self->count) : Py_NewRef(Py_None);
}

static PyObject *cell_item(Cell *self, Py_ssize_t at) {
    if (at == 0) return count_of(self);
    if (at == 1) return PyLong_FromLongLong(self->timestamp);
    PyErr_SetString(PyExc_IndexError, "a cell has a count and a timestamp");
    return NULL;
}

static int cell_set(Cell *self, Py_ssize_t at, PyObject *given) {
    if (at < 0 || at > 1 || !given) {
        PyErr_SetString(PyExc_IndexError, "a cell has a count and a timestamp");
        return -1;
    }
    int is_there = at || given != Py_None;
    int64_t found = is_there ? PyLong_AsLongLong(given) : 0;
    if (found == -1 && PyErr_Occurred()) return -1;
    if (at) {
        self->timestamp = found;
        return 0;
    }
    self->count = (uint64_t)found;
    self->is_there = is_there ? 1 : 0;
    return 0;
}

static PyObject *cell_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *physical, *stored;
    long long timestamp;
    if (!PyArg_ParseTuple(args, "SOL", &physical, &stored, &timestamp)) return NULL;
    Cell *cell = new_cell(Py_NewRef(physical), 0, timestamp);
    if (cell && cell_set(cell, 0, stored)) Py_CLEAR(cell);
    return (PyObject *)cell;
}

static PyMemberDef cell_members[] = {{"held", T_UINT, offsetof(Cell, held), 0, NULL}, {NULL}};
static PySequenceMethods cell_sequence = {
    .sq_length = (lenfunc)cell_length, .sq_item = (ssizeargfunc)cell_item, .sq_ass_item = (ssizeobjargproc)cell_set};
static PyTypeObject CellType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Cell",
    .tp_basicsize = sizeof(Cell),
    .tp_new = cell_new,
    .tp_dealloc = (destructor)cell_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = cell_members,
    .tp_as_sequence = &cell_sequence,
};

static int count_up(Cell *cell, int64_t timestamp) {
    if (cell->count == INT64_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a count does not fit a long any more");
        return -1;
    }
    cell->count++;
    if (timestamp > cell->timestamp) cell->timestamp = timestamp;
    return 0;
}

/* (topic, value, key, -1, None, None, timestamp, None), as streamsapp.tasks.output has records. Takes over the key,
 * which may be NULL. */
static PyObject *told_by(const Cell *cell, PyObject *topic, PyObject *key, int64_t at) {
    char number[COUNT_SIZE];
    uint64_t count = htobe64(cell->count);
    memcpy(number, &count, sizeof(number));
    PyObject *value = !key ? NULL : cell->is_there ? PyBytes_FromStringAndSize(number, COUNT_SIZE) : Py_NewRef(Py_None);
    PyObject *partition = value ? PyLong_FromLong(-1) : NULL;
    PyObject *timestamp = partition ? PyLong_FromLongLong(at) : NULL;
    PyObject *made = timestamp ? PyTuple_Pack(8, topic, value, key, partition, Py_None, Py_None, timestamp, Py_None)
                               : NULL;
    Py_XDECREF(value);
    Py_XDECREF(key);
    Py_XDECREF(partition);
    Py_XDECREF(timestamp);
    return made;
}

/* ---- held for the commit ---- */

/* The number of the last update of any cell that is held. It may run over: no commit waits for as many. */
static uint32_t last_update;

static uint32_t next_update(void) {
    if (!++last_update) last_update = 1;
    return last_update;
}

/* Notes a cell whose count is sent at the commit, as (cell, ...) in a list, with the headers of the record that came
 * last, in a dictionary by the cell's address. Takes over the tuple, which is NULL if the cell is held already. 0, or
 * -1 with an exception. */
static int hold_cell(Cell *cell, PyObject *tuple, PyObject *list, PyObject *headers, PyObject *given) {
    if (!cell->held) {
        int failed = !tuple || PyList_Append(list, tuple);
        Py_XDECREF(tuple);
        if (failed) return -1;
    }
    cell->held = next_update();
    if (given == Py_None && !PyDict_GET_SIZE(headers)) return 0;
    PyObject *id = PyLong_FromVoidPtr(cell);
    int failed = !id || (given != Py_None ? PyDict_SetItem(headers, id, given)
                                          : PyDict_Contains(headers, id) && PyDict_DelItem(headers, id));
    Py_XDECREF(id);
    return failed ? -1 : 0;
}

/* Where cells are noted: (list, headers) or None, both None then. False with an exception. */
static int where_noted(PyObject *given, PyObject **list, PyObject **headers) {
    *list = *headers = Py_None;
    if (given == Py_None) return 1;
    if (PyTuple_Check(given)) return PyArg_ParseTuple(given, "O!O!", &PyList_Type, list, &PyDict_Type, headers);
    PyErr_SetString(PyExc_TypeError, "cells are noted in a list, and their headers in a dictionary");
    return 0;
}

/* The bytes of a store's key that the topic's key has not, before and behind it. */
typedef struct {
    Py_ssize_t before, behind;
} Hidden;

/* The key that a topic has for a cell; NULL with an exception. */
static PyObject *key_told(const Cell *cell, Hidden hidden) {
    Py_ssize_t size = PyBytes_GET_SIZE(cell->physical) - hidden.before - hidden.behind;
    if (!hidden.before && !hidden.behind) return Py_NewRef(cell->physical);
    if (size < 0) return PyErr_Format(PyExc_ValueError, "a key lacks %zd bytes of those that are hidden", -size);
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(cell->physical) + hidden.before, size);
}

/* A cell that is held as (cell, key, ...); NULL with an exception for anything else. */
static Cell *cell_held(PyObject *held) {
    if (PyTuple_Check(held) && PyTuple_GET_SIZE(held) >= 2 && Py_IS_TYPE(PyTuple_GET_ITEM(held, 0), &CellType))
        return (Cell *)PyTuple_GET_ITEM(held, 0);
    PyErr_SetString(PyExc_TypeError, "what is held is (cell, key, ...)");
    return NULL;
}

/* The record of one that is held, and is no more; NULL with an exception. */
static PyObject *held_result(PyObject *held, PyObject *topic, PyObject *deleted_at, Hidden hidden) {
    Cell *cell = cell_held(held);
    if (!cell) return NULL;
    int64_t at = cell->timestamp;
    if (!cell->is_there) {
        PyObject *told = PyObject_Vectorcall(deleted_at, &PyTuple_GET_ITEM(held, 1),
                                             (size_t)PyTuple_GET_SIZE(held) - 1, NULL);
        int known = told && are_integers(&told, 1, &at);
        Py_XDECREF(told);
        if (!known) return NULL;
    }
    cell->held = 0;
    return told_by(cell, topic, key_told(cell, hidden), at);
}

/* Has the memory fetch the cells that come next, and their keys. It is inline, as a compiler takes a function that does
 * nothing else for one that does nothing. */
static inline __attribute__((always_inline)) void look_at_held(PyObject *held, Py_ssize_t at) {
    enum { AHEAD = 8 };
    for (int step = 0; step < 3; step++) {
        Py_ssize_t next = at + (3 - step) * AHEAD;
        PyObject *each = next < PyList_GET_SIZE(held) ? PyList_GET_ITEM(held, next) : NULL;
        if (!each) continue;
        if (step == 0) __builtin_prefetch(&PyTuple_GET_ITEM(each, 0));
        else if (!PyTuple_Check(each) || !PyTuple_GET_SIZE(each)) continue;
        else if (step == 1) __builtin_prefetch(PyTuple_GET_ITEM(each, 0), 1);
        else if (Py_IS_TYPE(PyTuple_GET_ITEM(each, 0), &CellType))
            __builtin_prefetch(((Cell *)PyTuple_GET_ITEM(each, 0))->physical, 1);
    }
}

/* results(held, topic, deleted_at, before, behind): the records of cells that are held as (cell, key, ...), and a
 * tombstone for one that was deleted at deleted_at(key, ...). */
static PyObject *results(PyObject *module, PyObject *args) {
    PyObject *held, *topic, *deleted_at;
    Hidden hidden;
    if (!PyArg_ParseTuple(args, "O!UOnn", &PyList_Type, &held, &topic, &deleted_at, &hidden.before, &hidden.behind))
        return NULL;
    if (hidden.before < 0 || hidden.behind < 0) return PyErr_Format(PyExc_ValueError, "bytes are hidden, or none");
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(held); i++) {
        look_at_held(held, i);
        PyObject *each = Py_NewRef(PyList_GET_ITEM(held, i)), *record = held_result(each, topic, deleted_at, hidden);
        if (!record || PyList_Append(made, record)) Py_CLEAR(made);
        Py_XDECREF(record);
        Py_DECREF(each);
    }
    return made;
}

/* What is held, with how many updates come between its last one and that of the earliest of all. */
typedef struct {
    uint32_t after;
    PyObject *held;
} HeldAfter;

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* Puts everything in the order of one digit, and of what it was sorted by before. */
static void sort_digit(const HeldAfter *from, HeldAfter *to, Py_ssize_t size, int shift) {
    Py_ssize_t at[DIGITS + 1] = {0};
    for (Py_ssize_t i = 0; i < size; i++) at[(from[i].after >> shift) % DIGITS + 1]++;
    for (int digit = 0; digit < DIGITS; digit++) at[digit + 1] += at[digit];
    for (Py_ssize_t i = 0; i < size; i++) to[at[(from[i].after >> shift) % DIGITS]++] = from[i];
}

/* Sorts a list of (cell, key, ...) by the last updates of the cells, in twice the room for all; 0, or -1 with an
 * exception. */
static int sort_held(PyObject *held, HeldAfter *all, Py_ssize_t size) {
    int32_t after, earliest = 0, latest = 0, before = INT32_MIN;
    uint32_t first = 0;
    int in_order = 1;
    for (Py_ssize_t i = 0; i < size; i++, before = after) {
        look_at_held(held, i);
        Cell *cell = cell_held(PyList_GET_ITEM(held, i));
        if (!cell) return -1;
        if (!i) first = cell->held;
        after = (int32_t)(cell->held - first); /* negative if it comes before the first of the list */
        if (after < earliest) earliest = after;
        if (after > latest) latest = after;
        in_order = in_order && before <= after;
        all[i] = (HeldAfter){(uint32_t)after, PyList_GET_ITEM(held, i)};
    }
    if (in_order) return 0;
    HeldAfter *from = all, *to = all + size;
    for (Py_ssize_t i = 0; i < size; i++) all[i].after -= (uint32_t)earliest;
    for (int shift = 0; shift < 32 && ((uint32_t)latest - (uint32_t)earliest) >> shift; shift += DIGIT) {
        sort_digit(from, to, size, shift);
        HeldAfter *sorted = to;
        to = from;
        from = sorted;
    }
    for (Py_ssize_t i = 0; i < size; i++) PyList_SET_ITEM(held, i, from[i].held);
    return 0;
}

/* by_last_update(held): (cell, key, ...) in the order of the last updates of the cells, in a list of its own. */
static PyObject *by_last_update(PyObject *module, PyObject *held) {
    PyObject *sorted = PyList_Check(held) ? PyList_GetSlice(held, 0, PyList_GET_SIZE(held))
                                          : PyErr_Format(PyExc_TypeError, "cells are held in a list");
    if (!sorted) return NULL;
    HeldAfter *all = PyMem_New(HeldAfter, 2 * PyList_GET_SIZE(sorted));
    if (!all) PyErr_NoMemory();
    if (!all || sort_held(sorted, all, PyList_GET_SIZE(sorted))) Py_CLEAR(sorted);
    PyMem_Free(all);
    return sorted;
}
