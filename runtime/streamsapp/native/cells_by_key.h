/* The cells of a store by key: what streamsapp.state.read_cache is in Python, and the writes of the store's layers. Used
 * by one thread at a time, with the interpreter. */

enum { NO_TIMESTAMP = -1 }; /* of what is not there */

typedef struct {
    PyObject_HEAD
    PyObject *load; /* is asked for entries that are not here */
    CellLog *running; /* the writes of the running epoch; NULL before the first one begins */
    Generation young, old;
} Cells;

/* Where the loop that runs on this thread keeps the cells that were used last; NULL outside of one. */
static _Thread_local PyObject **cells_used;

/* A cell with the count and the timestamp of an entry (stored, timestamp), or with those of a key that has none. */
static Cell *cell_after(PyObject *entry, PyObject *key) {
    PyObject *stored = PySequence_GetItem(entry, 0), *changed_at = stored ? PySequence_GetItem(entry, 1) : NULL;
    Cell *cell = changed_at ? new_cell(Py_NewRef(key), 0, NO_TIMESTAMP) : NULL;
    if (cell && (cell_set(cell, 0, stored) || (stored != Py_None && cell_set(cell, 1, changed_at)))) Py_CLEAR(cell);
    Py_XDECREF(stored);
    Py_XDECREF(changed_at);
    return cell;
}

/* The cell of a key if it is here, borrowed; NULL if it is not, and with an exception. */
static Cell *cell_at_hand(Cells *self, Py_hash_t hash, PyObject *key) {
    Cell *cell = find_cell(&self->young, hash, key);
    if (cell) return cell;
    cell = find_cell(&self->old, hash, key);
    return cell && put_cell(&self->young, hash, cell) ? NULL : cell;
}

/* The cell of a key; NULL with an exception. */
static Cell *cell_of(Cells *self, PyObject *key) {
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    Cell *cell = cell_at_hand(self, hash, key);
    if (cell || PyErr_Occurred()) return (Cell *)Py_XNewRef(cell);
    PyObject *entry = PyObject_CallOneArg(self->load, key);
    cell = entry ? cell_after(entry, key) : NULL;
    Py_XDECREF(entry);
    if (cell && put_cell(&self->young, hash, cell)) Py_CLEAR(cell);
    return cell;
}

/* True if one more write can be noted. */
static int may_write(const Cells *self) {
    if (self->running) return !reserve(self->running, 1);
    PyErr_SetString(PyExc_RuntimeError, "no epoch has begun");
    return 0;
}

/* Counts one more for a key's bytes: its cell, or NULL with an exception. */
static Cell *count_key(Cells *self, PyObject *key, int64_t timestamp) {
    if (cells_used && *cells_used != (PyObject *)self) Py_XSETREF(*cells_used, Py_NewRef(self));
    Cell *cell = cell_of(self, key);
    if (!cell || !may_write(self) || count_up(cell, timestamp)) {
        Py_CLEAR(cell);
        return NULL;
    }
    cell->is_there = 1;
    write_down(self->running, cell);
    return cell;
}

static int is_key(PyObject *given) {
    if (PyBytes_Check(given)) return 1;
    PyErr_SetString(PyExc_TypeError, "a store's key is its bytes");
    return 0;
}

/* Gives a cell what somebody wrote, and notes it. A deletion has its time in the log alone: what is not there has none,
 * and its next count is the first one. */
static int write_cell(Cells *self, Cell *cell, PyObject *stored, int64_t timestamp) {
    if (!may_write(self) || cell_set(cell, 0, stored)) return -1;
    cell->timestamp = timestamp;
    write_down(self->running, cell);
    if (!cell->is_there) {
        cell->count = 0;
        cell->timestamp = NO_TIMESTAMP;
    }
    return 0;
}

/* write(key's bytes, count or None, timestamp): as WriteBack.write. */
static PyObject *cells_write(Cells *self, PyObject *const *given, Py_ssize_t count) {
    int64_t timestamp;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "write takes a key's bytes, a count or None, and a timestamp");
    if (!is_key(given[0]) || !are_integers(given + 2, 1, &timestamp)) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(given[0]);
    Cell *known = cell_at_hand(self, hash, given[0]);
    if (!known && PyErr_Occurred()) return NULL;
    Cell *cell = known ? (Cell *)Py_NewRef(known) : new_cell(Py_NewRef(given[0]), 0, timestamp);
    int failed = !cell || write_cell(self, cell, given[1], timestamp) || (!known && put_cell(&self->young, hash, cell));
    Py_XDECREF(cell);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Has the memory fetch what counting a key will read: its slot, then its cell, then that one's key and its last write,
 * in three calls. */
static inline __attribute__((always_inline)) void look_up_soon(const Cells *self, PyObject *key, int step) {
    if (!self->young.slots) return;
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    if (step == 0) {
        __builtin_prefetch(&self->young.slots[(size_t)hash & self->young.mask]);
        return;
    }
    const Cell *cell = likely_slot(&self->young, hash)->cell;
    if (!cell) return;
    if (step == 1) {
        __builtin_prefetch(cell, 1);
        __builtin_prefetch(&cell->places[PLACES - 1], 1); /* which may be in the next line */
        return;
    }
    __builtin_prefetch(cell->physical);
    const Place *last = &cell->places[IN_EPOCH];
    if (self->running && last->log == self->running->number) __builtin_prefetch(&self->running->writes[last->at], 1);
}

/* Looks at the keys that come next, some steps ahead. */
static void look_at_keys(const Cells *self, PyObject *keys, Py_ssize_t at) {
    for (int step = 0; step < 3; step++) {
        Py_ssize_t next = at + (3 - step) * AHEAD;
        PyObject *key = next < PyList_GET_SIZE(keys) ? PyList_GET_ITEM(keys, next) : NULL;
        if (key && PyBytes_Check(key)) look_up_soon(self, key, step);
    }
}

/* results(keys' bytes, topic): the records that tell a topic of the counts, a tombstone for a key that has none; their
 * cells are no longer held. */
static PyObject *cells_results(Cells *self, PyObject *args) {
    PyObject *keys, *topic;
    if (!PyArg_ParseTuple(args, "O!U", &PyList_Type, &keys, &topic)) return NULL;
    PyObject *made = PyList_New(0);
    for (Py_ssize_t at = 0; made && at < PyList_GET_SIZE(keys); at++) {
        look_at_keys(self, keys, at);
        PyObject *key = Py_NewRef(PyList_GET_ITEM(keys, at));
        Cell *cell = is_key(key) ? cell_of(self, key) : NULL;
        PyObject *record = cell ? told_by(cell, topic, Py_NewRef(key)) : NULL;
        if (cell) cell->held = 0;
        if (!record || PyList_Append(made, record)) Py_CLEAR(made);
        Py_XDECREF(record);
        Py_XDECREF(cell);
        Py_DECREF(key);
    }
    return made;
}

/* ---- as a cache ---- */

/* read(key's bytes): its cell, which is asked for if it is not here. */
static PyObject *cells_read(Cells *self, PyObject *key) { return is_key(key) ? (PyObject *)cell_of(self, key) : NULL; }

/* at_hand(key's bytes): its cell, or None. Any thread may ask. */
static PyObject *cells_at_hand(Cells *self, PyObject *key) {
    if (!is_key(key)) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(key);
    Cell *cell = find_cell(&self->young, hash, key);
    if (!cell) cell = find_cell(&self->old, hash, key);
    return Py_NewRef(cell ? (PyObject *)cell : Py_None);
}

/* put(key's bytes, entry): remembers what was read. A cell that is there stays: it knows its places in logs. */
static PyObject *cells_put(Cells *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "put takes a key's bytes and an entry");
    if (!is_key(given[0])) return NULL;
    Py_hash_t hash = PyBytes_Type.tp_hash(given[0]);
    if (cell_at_hand(self, hash, given[0])) Py_RETURN_NONE;
    Cell *cell = PyErr_Occurred() ? NULL : cell_after(given[1], given[0]);
    int failed = !cell || put_cell(&self->young, hash, cell);
    Py_XDECREF(cell);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* grow_old(): the cells are the older ones now, and others are forgotten. */
static PyObject *cells_grow_old(Cells *self, PyObject *none) {
    Generation gone = self->old;
    self->old = self->young;
    self->young = (Generation){NULL, 0, 0};
    drop_cells(&gone);
    Py_RETURN_NONE;
}

static PyObject *cells_clear(Cells *self, PyObject *none) {
    drop_cells(&self->young);
    drop_cells(&self->old);
    Py_RETURN_NONE;
}

static Py_ssize_t cells_length(Cells *self) { return self->young.count; }

static int cells_contain(Cells *self, PyObject *key) {
    return is_key(key) ? find_cell(&self->young, PyBytes_Type.tp_hash(key), key) != NULL : -1;
}

/* begin(): an epoch begins; the log to which its writes go. */
static PyObject *cells_begin(Cells *self, PyObject *none) {
    CellLog *log = new_log(0);
    if (!log) return NULL;
    Py_XSETREF(self->running, (CellLog *)Py_NewRef(log));
    return (PyObject *)log;
}

static PyObject *cells_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *load;
    if (!PyArg_ParseTuple(args, "O", &load)) return NULL;
    Cells *self = (Cells *)type->tp_alloc(type, 0); /* zeros */
    if (self) self->load = Py_NewRef(load);
    return (PyObject *)self;
}

static int cells_traverse(Cells *self, visitproc visit, void *arg) {
    Py_VISIT(self->load);
    return 0;
}

static int cells_clear_references(Cells *self) {
    Py_CLEAR(self->load);
    return 0;
}

static void cells_dealloc(Cells *self) {
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->load);
    Py_XDECREF(self->running);
    drop_cells(&self->young);
    drop_cells(&self->old);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef cells_members[] = {
    {"older", T_PYSSIZET, offsetof(Cells, old) + offsetof(Generation, count), READONLY, NULL}, {NULL}};
static PyMethodDef cells_methods[] = {
    {"write", (PyCFunction)(void (*)(void))cells_write, METH_FASTCALL, "write(key's bytes, count, timestamp)"},
    {"results", (PyCFunction)cells_results, METH_VARARGS, "results(keys' bytes, topic): records"},
    {"read", (PyCFunction)cells_read, METH_O, "read(key's bytes): cell"},
    {"at_hand", (PyCFunction)cells_at_hand, METH_O, "at_hand(key's bytes): cell or None"},
    {"put", (PyCFunction)(void (*)(void))cells_put, METH_FASTCALL, "put(key's bytes, entry)"},
    {"grow_old", (PyCFunction)cells_grow_old, METH_NOARGS, "grow_old(): forgets the older ones"},
    {"clear", (PyCFunction)cells_clear, METH_NOARGS, "clear(): forgets all"},
    {"begin", (PyCFunction)cells_begin, METH_NOARGS, "begin(): the log of an epoch that begins"},
    {NULL}};
static PySequenceMethods cells_sequence = {.sq_length = (lenfunc)cells_length, .sq_contains = (objobjproc)cells_contain};
static PyTypeObject CellsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Cells",
    .tp_basicsize = sizeof(Cells),
    .tp_new = cells_new,
    .tp_dealloc = (destructor)cells_dealloc,
    .tp_traverse = (traverseproc)cells_traverse,
    .tp_clear = (inquiry)cells_clear_references,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_members = cells_members,
    .tp_methods = cells_methods,
    .tp_as_sequence = &cells_sequence,
};
