/* The writes of an epoch to a store whose entries are cells, in their order: what each cell had when the epoch was
 * closed. A key comes twice where its cell was forgotten in between, and then the later one counts. Written by one
 * thread at a time, read by any, always with the interpreter. */

typedef struct {
    Cell *cell;
    uint64_t count;
    int64_t timestamp;
    char is_there;
} Write;

typedef struct {
    PyObject_HEAD
    Write *writes;
    Py_ssize_t size, room;
    long long number; /* that no other log has */
} CellLog;

static PyTypeObject CellLogType;

enum { AHEAD = 8 }; /* writes */

/* NULL with an exception. */
static CellLog *new_log(Py_ssize_t room) {
    static long long numbers = 0;
    CellLog *self = PyObject_New(CellLog, &CellLogType);
    if (!self) return NULL;
    self->writes = room ? PyMem_Malloc((size_t)room * sizeof(Write)) : NULL;
    self->room = self->writes ? room : 0;
    self->size = 0;
    self->number = ++numbers;
    if (room && !self->writes) {
        Py_DECREF(self);
        return (CellLog *)PyErr_NoMemory();
    }
    return self;
}

/* Has the memory fetch the cells that come next, and their keys: they lie here and there. It is inline, as a compiler
 * takes a function that does nothing else for one that does nothing. */
static inline __attribute__((always_inline)) void look_ahead(const CellLog *self, Py_ssize_t at) {
    if (at + 2 * AHEAD < self->size) __builtin_prefetch(self->writes[at + 2 * AHEAD].cell);
    if (at + AHEAD < self->size) __builtin_prefetch(self->writes[at + AHEAD].cell->physical);
}

/* The same for who changes the cells and does not look at their keys. */
static inline __attribute__((always_inline)) void look_ahead_to_change(const CellLog *self, Py_ssize_t at, int all) {
    if (at + 2 * AHEAD >= self->size) return;
    const Cell *cell = self->writes[at + 2 * AHEAD].cell;
    __builtin_prefetch(cell, 1);
    if (all) __builtin_prefetch(&cell->places[PLACES - 1], 1);
}

static void log_dealloc(CellLog *self) {
    for (Py_ssize_t i = 0; i < self->size; i++) {
        look_ahead_to_change(self, i, 0);
        Py_DECREF(self->writes[i].cell);
    }
    PyMem_Free(self->writes);
    PyObject_Free(self);
}

/* Makes room for so many more writes; 0, or -1 with an exception. */
static int reserve(CellLog *self, Py_ssize_t more) {
    if (self->room - self->size >= more) return 0;
    Py_ssize_t room = 2 * self->room > self->size + more ? 2 * self->room : self->size + more;
    Write *writes = PyMem_Realloc(self->writes, (size_t)room * sizeof(Write));
    if (!writes) {
        PyErr_NoMemory();
        return -1;
    }
    wish_large_pages(writes, (size_t)room * sizeof(Write));
    self->writes = writes;
    self->room = room;
    return 0;
}

static void add_write(CellLog *self, const Write *write) {
    self->writes[self->size] = *write;
    Py_INCREF(write->cell);
    self->size++;
}

/* The write of a cell, which is the last one for which there is room if it has none; that is then to be set. */
static Write *write_of(CellLog *self, Cell *cell, int place) {
    Place *known = &cell->places[place];
    if (known->log != self->number) {
        if (place == IN_EPOCH) cell->places[IN_EPOCH_BEFORE] = *known;
        *known = (Place){self->number, self->size};
        add_write(self, &(Write){.cell = cell});
        if (place == IN_EPOCH) cell->held = 0;
    }
    return &self->writes[known->at];
}

/* Says in the log what the cell has now. */
static void write_down(CellLog *self, Cell *cell) {
    Write *write = write_of(self, cell, IN_EPOCH);
    write->count = cell->count;
    write->timestamp = cell->timestamp;
    write->is_there = cell->is_there;
}

/* ---- as Python sees it ---- */

static Py_ssize_t log_length(CellLog *self) { return self->size; }

static PyObject *count_written(const Write *write) {
    return write->is_there ? PyLong_FromLongLong((int64_t)write->count) : Py_NewRef(Py_None);
}

/* (count or None, timestamp) */
static PyObject *entry_written(const Write write) {
    PyObject *count = count_written(&write);
    return count ? Py_BuildValue("(NL)", count, (long long)write.timestamp) : NULL;
}

/* (key, entry) */
static PyObject *log_item(CellLog *self, Py_ssize_t at) {
    if (at < 0 || at >= self->size) {
        PyErr_SetString(PyExc_IndexError, "the log has no such write");
        return NULL;
    }
    PyObject *key = self->writes[at].cell->physical, *entry = entry_written(self->writes[at]);
    return entry ? Py_BuildValue("(ON)", key, entry) : NULL;
}

/* entry(cell): what was written last of it; None if nothing was, or for anything else than a cell. Of two epochs in
 * a row, or of all that wait, as a cell does not know its places in earlier ones. */
static PyObject *log_entry(CellLog *self, PyObject *given) {
    const Cell *cell = Py_IS_TYPE(given, &CellType) ? (Cell *)given : NULL;
    for (int i = 0; cell && i < PLACES; i++)
        if (cell->places[i].log == self->number) return entry_written(self->writes[cell->places[i].at]);
    Py_RETURN_NONE;
}

/* physical(): each key and what RocksDB has for it: the timestamp and the count, of 8 bytes each, or None. */
static PyObject *log_physical(CellLog *self, PyObject *none) {
    PyObject *made = PyList_New(self->size);
    for (Py_ssize_t i = 0; made && i < self->size; i++) {
        look_ahead(self, i);
        const Write *write = &self->writes[i];
        uint64_t numbers[2] = {htobe64((uint64_t)write->timestamp), htobe64(write->count)};
        PyObject *value = write->is_there ? PyBytes_FromStringAndSize((char *)numbers, sizeof(numbers))
                                          : Py_NewRef(Py_None);
        PyObject *pair = value ? PyTuple_Pack(2, write->cell->physical, value) : NULL;
        Py_XDECREF(value);
        if (pair) PyList_SET_ITEM(made, i, pair);
        else Py_CLEAR(made);
    }
    return made;
}

/* keys_from(begin): those of all writes from there on. */
static PyObject *log_keys_from(CellLog *self, PyObject *given) {
    Py_ssize_t begin = PyLong_AsSsize_t(given);
    if (begin == -1 && PyErr_Occurred()) return NULL;
    if (begin < 0 || begin > self->size) begin = self->size;
    Py_ssize_t size = self->size - begin;
    PyObject *keys = PyList_New(size);
    for (Py_ssize_t i = 0; keys && i < size; i++)
        PyList_SET_ITEM(keys, i, Py_NewRef(self->writes[begin + i].cell->physical));
    return keys;
}

static PyObject *log_part(const CellLog *self, PyObject *slice) {
    Py_ssize_t begin, end, step;
    if (PySlice_Unpack(slice, &begin, &end, &step)) return NULL;
    if (step != 1) return PyErr_Format(PyExc_ValueError, "a part of a log is without gaps");
    Py_ssize_t size = PySlice_AdjustIndices(self->size, &begin, &end, 1);
    CellLog *part = new_log(size);
    for (Py_ssize_t i = 0; part && i < size; i++) add_write(part, &self->writes[begin + i]);
    return (PyObject *)part;
}

static PyObject *log_subscript(CellLog *self, PyObject *given) {
    if (PySlice_Check(given)) return log_part(self, given);
    Py_ssize_t at = PyNumber_AsSsize_t(given, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred()) return NULL;
    return log_item(self, at < 0 ? at + self->size : at);
}

/* absorb(newer): takes the writes of another log, one for each cell. */
static PyObject *log_absorb(CellLog *self, PyObject *given) {
    if (!Py_IS_TYPE(given, &CellLogType)) return PyErr_Format(PyExc_TypeError, "a log absorbs another one");
    const CellLog *newer = (CellLog *)given;
    if (reserve(self, newer->size)) return NULL;
    for (Py_ssize_t i = 0; i < newer->size; i++) {
        look_ahead_to_change(newer, i, 1);
        Write *write = write_of(self, newer->writes[i].cell, IN_BACKLOG);
        *write = newer->writes[i];
    }
    Py_RETURN_NONE;
}

/* ---- in order ---- */

typedef struct {
    uint64_t next; /* bytes after those that all keys begin with */
    PyObject *key;
    Py_ssize_t at;
} Ranked;

static int by_bytes(PyObject *a, PyObject *b) {
    Py_ssize_t size = Py_SIZE(a) < Py_SIZE(b) ? Py_SIZE(a) : Py_SIZE(b);
    int found = memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), (size_t)size);
    return found ? found : (Py_SIZE(a) > Py_SIZE(b)) - (Py_SIZE(a) < Py_SIZE(b));
}

static int by_key(const void *a, const void *b) {
    const Ranked *one = a, *other = b;
    if (one->next != other->next) return one->next < other->next ? -1 : 1;
    int found = by_bytes(one->key, other->key);
    return found ? found : one->at < other->at ? -1 : 1;
}

/* How many bytes all keys begin with. */
static size_t shared_bytes(const CellLog *self) {
    PyObject *first = self->writes[0].cell->physical;
    size_t shared = (size_t)PyBytes_GET_SIZE(first);
    for (Py_ssize_t i = 1; i < self->size && shared; i++) {
        look_ahead(self, i);
        PyObject *key = self->writes[i].cell->physical;
        size_t size = (size_t)PyBytes_GET_SIZE(key), same = 0;
        while (same < shared && same < size && PyBytes_AS_STRING(key)[same] == PyBytes_AS_STRING(first)[same]) same++;
        shared = same;
    }
    return shared;
}

static Ranked *ranked(const CellLog *self) {
    Ranked *all = PyMem_Malloc((size_t)(self->size + 1) * sizeof(*all));
    size_t shared = all && self->size ? shared_bytes(self) : 0;
    for (Py_ssize_t i = 0; all && i < self->size; i++) {
        look_ahead(self, i);
        PyObject *key = self->writes[i].cell->physical;
        size_t size = (size_t)PyBytes_GET_SIZE(key) - shared;
        uint64_t next = 0;
        memcpy(&next, PyBytes_AS_STRING(key) + shared, size < sizeof(next) ? size : sizeof(next));
        all[i] = (Ranked){be64toh(next), key, i};
    }
    return all ? all : (Ranked *)PyErr_NoMemory();
}

/* in_order(): a log of the last write of each key, by key. */
static PyObject *log_in_order(CellLog *self, PyObject *none) {
    Py_ssize_t size = self->size;
    Ranked *all = ranked(self);
    CellLog *sorted = all ? new_log(size) : NULL;
    if (sorted) {
        Py_BEGIN_ALLOW_THREADS /* a log only grows, so it keeps the keys */
        qsort(all, (size_t)size, sizeof(*all), by_key);
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; sorted && i < size; i++) {
        if (i + 2 * AHEAD < size) __builtin_prefetch(&self->writes[all[i + 2 * AHEAD].at]);
        if (i + AHEAD < size) __builtin_prefetch(self->writes[all[i + AHEAD].at].cell);
        if (i + 1 == size || all[i].next != all[i + 1].next || by_bytes(all[i].key, all[i + 1].key))
            add_write(sorted, &self->writes[all[i].at]);
    }
    PyMem_Free(all);
    return (PyObject *)sorted;
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    return PyArg_ParseTuple(args, "") ? (PyObject *)new_log(0) : NULL;
}

static PyMethodDef log_methods[] = {
    {"keys_from", (PyCFunction)log_keys_from, METH_O, "keys_from(begin)"},
    {"physical", (PyCFunction)log_physical, METH_NOARGS, "physical(): keys and values of RocksDB"},
    {"entry", (PyCFunction)log_entry, METH_O, "entry(cell): what was written of it"},
    {"absorb", (PyCFunction)log_absorb, METH_O, "absorb(newer log)"},
    {"in_order", (PyCFunction)log_in_order, METH_NOARGS, "in_order(): a log by key"},
    {NULL}};
static PySequenceMethods log_sequence = {.sq_length = (lenfunc)log_length, .sq_item = (ssizeargfunc)log_item};
static PyMappingMethods log_mapping = {.mp_length = (lenfunc)log_length, .mp_subscript = (binaryfunc)log_subscript};
static PyTypeObject CellLogType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.CellLog",
    .tp_basicsize = sizeof(CellLog),
    .tp_new = log_new,
    .tp_dealloc = (destructor)log_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = log_methods,
    .tp_as_sequence = &log_sequence,
    .tp_as_mapping = &log_mapping,
};
