/* Counts of windows: what streamsapp.state.counted_windows does for each window of a record, in one call for all of
 * them. What is rare, as a look into the store, is left to Python. Used by one thread at a time, with the interpreter. */

enum { SEGMENT_SIZE = 8, NUMBER_SIZE = 4 }; /* of the store's keys: segment, key, start, number */

/* The windows that start at one time: what their keys have before and after that of a record, and which counts may
 * be known beside those at hand. */
typedef struct {
    PyObject_HEAD
    PyObject *before, *after, *older;
    char whole, observed;
} Window;

static PyTypeObject WindowType;

enum { LAYERS, SEGMENTS, LATE, NOTE, HELD_HEADERS, FORWARD, PARTS };

typedef struct {
    PyObject_HEAD
    PyObject *part[PARTS];
} Counter;

/* A record that is counted: borrowed references, but for running, which the layers tell when they are asked. */
typedef struct {
    PyObject *key, *key_bytes, *headers, *topic, *emit, *running;
    int64_t timestamp, closed_until;
    long long epoch;
} Counted;

/* ---- windows of one start ---- */

static PyObject *window_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *before, *after;
    int whole;
    if (!PyArg_ParseTuple(args, "SSp", &before, &after, &whole)) return NULL;
    PyObject *older = PyDict_New();
    Window *self = older ? PyObject_New(Window, type) : NULL;
    if (!self) {
        Py_XDECREF(older);
        return NULL;
    }
    self->before = Py_NewRef(before);
    self->after = Py_NewRef(after);
    self->older = older;
    self->whole = (char)whole;
    self->observed = 0;
    return (PyObject *)self;
}

static void window_dealloc(Window *self) {
    Py_DECREF(self->before);
    Py_DECREF(self->after);
    Py_DECREF(self->older);
    PyObject_Free(self);
}

static PyObject *window_older(Window *self, void *unused) { return Py_NewRef(self->older); }

static int window_set_older(Window *self, PyObject *given, void *unused) {
    if (!given || !PyDict_CheckExact(given)) {
        PyErr_SetString(PyExc_TypeError, "older counts are a dictionary");
        return -1;
    }
    PyObject *before = self->older;
    self->older = Py_NewRef(given);
    Py_DECREF(before);
    return 0;
}

static PyMemberDef window_members[] = {{"before", T_OBJECT_EX, offsetof(Window, before), READONLY, NULL},
                                       {"after", T_OBJECT_EX, offsetof(Window, after), READONLY, NULL},
                                       {"whole", T_BOOL, offsetof(Window, whole), 0, NULL},
                                       {NULL}};
static PyGetSetDef window_getters[] = {{"older", (getter)window_older, (setter)window_set_older, NULL, NULL}, {NULL}};
static PyTypeObject WindowType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Window",
    .tp_basicsize = sizeof(Window),
    .tp_new = window_new,
    .tp_dealloc = (destructor)window_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = window_members,
    .tp_getset = window_getters,
};

/* ---- results ---- */

/* The key as time_windowed writes it is the store's without segment and number. */
static PyObject *result_of(const Cell *cell, PyObject *topic) {
    Py_ssize_t size = PyBytes_GET_SIZE(cell->physical) - SEGMENT_SIZE - NUMBER_SIZE;
    return told_by(cell, topic, PyBytes_FromStringAndSize(PyBytes_AS_STRING(cell->physical) + SEGMENT_SIZE, size));
}

/* results(held, topic): the records of windows that are held as (cell, key, start, end), which are no more. */
static PyObject *results(PyObject *module, PyObject *args) {
    PyObject *held, *topic;
    if (!PyArg_ParseTuple(args, "O!U", &PyList_Type, &held, &topic)) return NULL;
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(held); i++) {
        PyObject *each = PyList_GET_ITEM(held, i);
        int known = PyTuple_Check(each) && PyTuple_GET_SIZE(each) && Py_IS_TYPE(PyTuple_GET_ITEM(each, 0), &CellType);
        Cell *cell = known ? (Cell *)Py_NewRef(PyTuple_GET_ITEM(each, 0)) : NULL;
        PyObject *record = cell ? result_of(cell, topic) : PyErr_Format(PyExc_TypeError, "held windows have cells");
        if (!record || PyList_Append(made, record)) Py_CLEAR(made);
        else cell->held = 0;
        Py_XDECREF(record);
        Py_XDECREF(cell);
    }
    return made;
}

/* ---- counting ---- */

static PyObject *key_in_store(const Window *window, PyObject *key) {
    size_t before = (size_t)PyBytes_GET_SIZE(window->before), size = (size_t)PyBytes_GET_SIZE(key);
    size_t after = (size_t)PyBytes_GET_SIZE(window->after);
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + size + after));
    if (!made) return NULL;
    char *at = PyBytes_AS_STRING(made);
    memcpy(at, PyBytes_AS_STRING(window->before), before);
    memcpy(at + before, PyBytes_AS_STRING(key), size);
    memcpy(at + before + size, PyBytes_AS_STRING(window->after), after);
    return made;
}

/* The store's stream time is not before a window's start once that has a count. */
static int observe(const Counter *self, Window *window, PyObject *start) {
    if (window->observed) return 0;
    PyObject *stream_time = PyObject_GetAttrString(self->part[SEGMENTS], "stream_time");
    int later = stream_time ? PyObject_RichCompareBool(start, stream_time, Py_GT) : -1;
    Py_XDECREF(stream_time);
    PyObject *seen = later > 0 ? PyObject_CallMethod(self->part[SEGMENTS], "observe", "O", start) : NULL;
    Py_XDECREF(seen);
    if (later < 0 || (later && !seen)) return -1;
    window->observed = 1;
    return 0;
}

/* Gives the store a cell that begins in the running epoch, as WriteBack.keep_cell does. */
static int keep(const Counter *self, Counted *of, Cell *cell) {
    if (!of->running) of->running = PyObject_CallMethod(self->part[LAYERS], "running", NULL);
    if (!of->running) return -1;
    if (!PyTuple_Check(of->running) || PyTuple_GET_SIZE(of->running) != 2) {
        PyErr_SetString(PyExc_TypeError, "running gives the epoch, and the cache or None");
        return -1;
    }
    PyObject *cache = PyTuple_GET_ITEM(of->running, 1);
    cell->epoch = of->epoch;
    if (PyDict_SetItem(PyTuple_GET_ITEM(of->running, 0), cell->physical, (PyObject *)cell)) return -1;
    return cache == Py_None ? 0 : PyDict_SetItem(cache, cell->physical, (PyObject *)cell);
}

/* Leaves it to Python; a new reference, or NULL with an exception. */
static Cell *counted_in_python(PyObject *cells, const Counted *of, PyObject *cell) {
    PyObject *made = PyObject_CallMethod(cells, "count_anew", "OOL", of->key_bytes, cell ? cell : Py_None,
                                         (long long)of->timestamp);
    if (made && !Py_IS_TYPE(made, &CellType)) {
        PyErr_SetString(PyExc_TypeError, "count_anew gives a cell");
        Py_CLEAR(made);
    }
    return (Cell *)made;
}

/* Counts in a window whose cell, if one is at hand, is not of the running epoch; a new reference, or NULL with an
 * exception. */
static Cell *count_anew(const Counter *self, Counted *of, PyObject *start, PyObject *cells, Window *window,
                        PyObject *at_hand) {
    PyObject *known = at_hand;
    if (!known && PyDict_GET_SIZE(window->older)) {
        known = PyDict_GetItemWithError(window->older, of->key_bytes);
        if (!known && PyErr_Occurred()) return NULL;
    }
    const Cell *before = known && Py_IS_TYPE(known, &CellType) ? (Cell *)known : NULL;
    if (known ? !before || before->epoch < 0 || !before->is_there : !window->whole)
        return counted_in_python(cells, of, at_hand);
    Cell *cell;
    if (before && before->epoch == of->epoch) cell = (Cell *)Py_NewRef(known);
    else {
        PyObject *physical = before ? Py_NewRef(before->physical) : key_in_store(window, of->key_bytes);
        cell = new_cell(physical, before ? before->count : 0, before ? before->timestamp : of->timestamp);
    }
    if (!cell) return NULL;
    if (count_up(cell, of->timestamp) || (cell->epoch != of->epoch && keep(self, of, cell)) ||
        PyDict_SetItem(cells, of->key_bytes, (PyObject *)cell) || observe(self, window, start)) Py_CLEAR(cell);
    return cell;
}

/* Notes the window to be sent at the commit, with the headers of the record that came last. */
static int note(const Counter *self, const Counted *of, Cell *cell, PyObject *start, PyObject *end) {
    if (!cell->held) {
        PyObject *held = PyTuple_Pack(4, cell, of->key, start, end);
        int failed = !held || PyList_Append(self->part[NOTE], held);
        Py_XDECREF(held);
        if (failed) return -1;
        cell->held = 1;
    }
    PyObject *all = self->part[HELD_HEADERS];
    if (of->headers == Py_None && !PyDict_GET_SIZE(all)) return 0;
    PyObject *id = PyLong_FromVoidPtr(cell);
    int failed = !id || (of->headers != Py_None ? PyDict_SetItem(all, id, of->headers)
                                                : PyDict_Contains(all, id) && PyDict_DelItem(all, id));
    Py_XDECREF(id);
    return failed ? -1 : 0;
}

/* Sends the count: to the topic where it goes there as it is, else to whatever comes next. */
static int forward(const Counter *self, Counted *of, const Cell *cell, PyObject *start, PyObject *end) {
    PyObject *done, *made;
    if (of->topic) {
        made = result_of(cell, of->topic);
        done = made ? PyObject_CallOneArg(of->emit, made) : NULL;
    } else {
        Py_CLEAR(of->running); /* others may use the store meanwhile */
        made = Py_BuildValue("(OOOLLO)", of->key, start, end, (long long)cell->count, (long long)cell->timestamp,
                             of->headers);
        done = made ? PyObject_CallObject(self->part[FORWARD], made) : NULL;
    }
    Py_XDECREF(made);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int count_in(const Counter *self, Counted *of, PyObject *found) {
    PyObject **part = PyTuple_Check(found) && PyTuple_GET_SIZE(found) == 4 ? &PyTuple_GET_ITEM(found, 0) : NULL;
    if (!part || !PyDict_Check(part[2]) || !Py_IS_TYPE(part[3], &WindowType)) {
        PyErr_SetString(PyExc_TypeError, "windows are (start, end, cells, Window)");
        return -1;
    }
    PyObject *start = part[0], *end = part[1], *cells = part[2];
    int64_t end_ms = PyLong_AsLongLong(end);
    if (end_ms == -1 && PyErr_Occurred()) return -1;
    if (end_ms <= of->closed_until) {
        PyObject *told = PyObject_CallNoArgs(self->part[LATE]);
        Py_XDECREF(told);
        return told ? 0 : -1;
    }
    PyObject *at_hand = PyDict_GetItemWithError(cells, of->key_bytes);
    if (!at_hand && PyErr_Occurred()) return -1;
    Cell *cell;
    if (at_hand && Py_IS_TYPE(at_hand, &CellType) && ((Cell *)at_hand)->epoch == of->epoch) {
        cell = (Cell *)Py_NewRef(at_hand);
        if (count_up(cell, of->timestamp)) Py_CLEAR(cell);
    } else cell = count_anew(self, of, start, cells, (Window *)part[3], at_hand);
    if (!cell) return -1;
    int failed = self->part[FORWARD] != Py_None ? forward(self, of, cell, start, end)
                 : self->part[NOTE] != Py_None  ? note(self, of, cell, start, end)
                                                : 0;
    Py_DECREF(cell);
    return failed;
}

/* count(windows, key, key's bytes, timestamp, closed until, epoch, headers, sink): counts a record in each of the
 * windows, which are (start, end, cells, Window). A sink is (topic, emit, ...), or None. */
static PyObject *counter_count(Counter *self, PyObject *const *given, Py_ssize_t count) {
    int64_t of[3]; /* timestamp, closed until, epoch */
    if (count != 8 || !PyTuple_Check(given[0]) || !PyBytes_CheckExact(given[2]) ||
        (given[7] != Py_None && (!PyTuple_Check(given[7]) || PyTuple_GET_SIZE(given[7]) < 2)))
        return PyErr_Format(PyExc_TypeError, "count takes windows, a key, its bytes, three numbers, headers, a sink");
    if (!are_integers(given + 3, 3, of)) return NULL;
    PyObject *topic = given[7] == Py_None ? NULL : PyTuple_GET_ITEM(given[7], 0);
    Counted counted = {.key = given[1], .key_bytes = given[2], .headers = given[6], .topic = topic,
                       .emit = topic ? PyTuple_GET_ITEM(given[7], 1) : NULL,
                       .timestamp = of[0], .closed_until = of[1], .epoch = of[2]};
    Py_ssize_t at = 0;
    while (at < PyTuple_GET_SIZE(given[0]) && !count_in(self, &counted, PyTuple_GET_ITEM(given[0], at))) at++;
    Py_XDECREF(counted.running);
    return at < PyTuple_GET_SIZE(given[0]) ? NULL : Py_NewRef(Py_None);
}

static PyObject *counter_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *part[PARTS];
    if (!PyArg_ParseTuple(args, "OOOOOO", &part[LAYERS], &part[SEGMENTS], &part[LATE], &part[NOTE],
                          &part[HELD_HEADERS], &part[FORWARD])) return NULL;
    if (part[NOTE] != Py_None && (!PyList_CheckExact(part[NOTE]) || !PyDict_CheckExact(part[HELD_HEADERS])))
        return PyErr_Format(PyExc_TypeError, "windows are noted in a list, and their headers in a dictionary");
    Counter *self = (Counter *)type->tp_alloc(type, 0);
    for (int i = 0; self && i < PARTS; i++) self->part[i] = Py_NewRef(part[i]);
    return (PyObject *)self;
}

static int counter_traverse(Counter *self, visitproc visit, void *arg) {
    for (int i = 0; i < PARTS; i++) Py_VISIT(self->part[i]);
    return 0;
}

static int counter_clear(Counter *self) {
    for (int i = 0; i < PARTS; i++) Py_CLEAR(self->part[i]);
    return 0;
}

static void counter_dealloc(Counter *self) {
    PyObject_GC_UnTrack(self);
    counter_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef counter_methods[] = {
    {"count", (PyCFunction)(void (*)(void))counter_count, METH_FASTCALL,
     "count(windows, key, key's bytes, timestamp, closed until, epoch, headers, sink)"},
    {NULL}};
static PyTypeObject CounterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.WindowCounter",
    .tp_basicsize = sizeof(Counter),
    .tp_new = counter_new,
    .tp_dealloc = (destructor)counter_dealloc,
    .tp_traverse = (traverseproc)counter_traverse,
    .tp_clear = (inquiry)counter_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_methods = counter_methods,
};
