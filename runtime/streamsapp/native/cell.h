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
    uint32_t generation; /* the younger one that has it */
    char is_there, held;
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
    self->is_there = (char)is_there;
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

static PyMemberDef cell_members[] = {{"held", T_BOOL, offsetof(Cell, held), 0, NULL}, {NULL}};
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
static PyObject *told_at(const Cell *cell, PyObject *topic, PyObject *key, int64_t at) {
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

static PyObject *told_by(const Cell *cell, PyObject *topic, PyObject *key) {
    return told_at(cell, topic, key, cell->timestamp);
}
