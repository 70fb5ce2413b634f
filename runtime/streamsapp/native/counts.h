/* Counts of keys: what streamsapp.state.counted_keys does with the store for each record. Used by one thread at a
 * time, with the interpreter. */

typedef struct {
    PyObject_HEAD
    PyObject *layers, *cache, *running; /* the running epoch, which may be NULL */
    long long epoch;
} KeyCounter;

/* Sees to it that the epoch is the running one. */
static int know_running(KeyCounter *self, long long epoch) {
    if (self->running && self->epoch == epoch) return 0;
    PyObject *both = PyObject_CallMethod(self->layers, "running", NULL);
    if (both && (!PyTuple_Check(both) || !PyTuple_GET_SIZE(both) || !PyDict_Check(PyTuple_GET_ITEM(both, 0)))) {
        PyErr_SetString(PyExc_TypeError, "running gives the epoch first");
        Py_CLEAR(both);
    }
    if (!both) return -1;
    Py_XSETREF(self->running, Py_NewRef(PyTuple_GET_ITEM(both, 0)));
    self->epoch = epoch;
    Py_DECREF(both);
    return 0;
}

/* A cell with the count and the timestamp of an entry (stored, timestamp), or with those of a key that has none. */
static Cell *cell_after(PyObject *entry, PyObject *key, int64_t timestamp) {
    if (Py_IS_TYPE(entry, &CellType) && ((Cell *)entry)->is_there) {
        const Cell *before = (Cell *)entry;
        return new_cell(Py_NewRef(before->physical), before->count, before->timestamp);
    }
    PyObject *stored = PySequence_GetItem(entry, 0), *changed_at = stored ? PySequence_GetItem(entry, 1) : NULL;
    Cell *cell = changed_at ? new_cell(Py_NewRef(key), 0, timestamp) : NULL;
    if (cell && stored != Py_None && (cell_set(cell, 0, stored) || cell_set(cell, 1, changed_at))) Py_CLEAR(cell);
    Py_XDECREF(stored);
    Py_XDECREF(changed_at);
    return cell;
}

/* Counts one more for a key: its cell of the running epoch, or NULL with an exception. */
static Cell *count_key(KeyCounter *self, PyObject *key, int64_t timestamp, long long epoch) {
    PyObject *entry = PyObject_GetItem(self->cache, key);
    if (!entry) return NULL;
    if (Py_IS_TYPE(entry, &CellType) && ((Cell *)entry)->epoch == epoch && ((Cell *)entry)->is_there) {
        if (count_up((Cell *)entry, timestamp)) Py_CLEAR(entry);
        return (Cell *)entry;
    }
    Cell *cell = know_running(self, epoch) ? NULL : cell_after(entry, key, timestamp);
    Py_DECREF(entry);
    if (!cell) return NULL;
    cell->epoch = epoch;
    if (count_up(cell, timestamp) || PyDict_SetItem(self->running, cell->physical, (PyObject *)cell) ||
        PyDict_SetItem(self->cache, cell->physical, (PyObject *)cell)) Py_CLEAR(cell);
    return cell;
}

static Cell *count_as_told(KeyCounter *self, PyObject *const *given) {
    int64_t of[2]; /* timestamp, epoch */
    if (!PyBytes_Check(given[0])) return (Cell *)PyErr_Format(PyExc_TypeError, "a key is counted by its bytes");
    return are_integers(given + 1, 2, of) ? count_key(self, given[0], of[0], of[1]) : NULL;
}

/* count(key's bytes, timestamp, epoch): the cell of a key, with one more. */
static PyObject *key_counter_count(KeyCounter *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "count takes a key's bytes, a timestamp and an epoch");
    return (PyObject *)count_as_told(self, given);
}

/* result(key's bytes, timestamp, epoch, topic): counts one more for a key, and returns the record that tells a topic
 * of it. */
static PyObject *key_counter_result(KeyCounter *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "result takes what count does, and a topic");
    Cell *cell = count_as_told(self, given);
    if (!cell) return NULL;
    PyObject *made = told_by(cell, given[3], Py_NewRef(cell->physical));
    Py_DECREF(cell);
    return made;
}

static PyObject *key_counter_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *layers, *cache;
    if (!PyArg_ParseTuple(args, "OO!", &layers, &PyDict_Type, &cache)) return NULL;
    KeyCounter *self = (KeyCounter *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->layers = Py_NewRef(layers);
    self->cache = Py_NewRef(cache);
    return (PyObject *)self;
}

static int key_counter_traverse(KeyCounter *self, visitproc visit, void *arg) {
    Py_VISIT(self->layers);
    Py_VISIT(self->cache);
    Py_VISIT(self->running);
    return 0;
}

static int key_counter_clear(KeyCounter *self) {
    Py_CLEAR(self->layers);
    Py_CLEAR(self->cache);
    Py_CLEAR(self->running);
    return 0;
}

static void key_counter_dealloc(KeyCounter *self) {
    PyObject_GC_UnTrack(self);
    key_counter_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef key_counter_methods[] = {
    {"count", (PyCFunction)(void (*)(void))key_counter_count, METH_FASTCALL, "count(key's bytes, timestamp, epoch): cell"},
    {"result", (PyCFunction)(void (*)(void))key_counter_result, METH_FASTCALL,
     "result(key's bytes, timestamp, epoch, topic): a record"},
    {NULL}};
static PyTypeObject KeyCounterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.KeyCounter",
    .tp_basicsize = sizeof(KeyCounter),
    .tp_new = key_counter_new,
    .tp_dealloc = (destructor)key_counter_dealloc,
    .tp_traverse = (traverseproc)key_counter_traverse,
    .tp_clear = (inquiry)key_counter_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_methods = key_counter_methods,
};
