/* Counts of windows: what streamsapp.state.counted_windows does for each window of a record, in one call for all of
 * them. Used by one thread at a time, with the interpreter. */

/* Of the store's keys, segment, key, start and number, those of time_windowed have the two in the middle. */
static const Hidden OF_WINDOWS = {8, 4};
enum { AT_ONCE = 8 }; /* windows whose keys are made before their cells are looked up */

/* The windows that start at one time: what their keys have before and after that of a record, and whether all that have
 * a count are at hand. */
typedef struct {
    PyObject_HEAD
    PyObject *before, *after;
    char whole, observed;
} Window;

static PyTypeObject WindowType;

enum { WINDOW_CELLS, SEGMENTS, LATE, NOTE, HELD_HEADERS, FORWARD, PARTS };

typedef struct {
    PyObject_HEAD
    PyObject *part[PARTS];
} Counter;

/* A record that is counted: borrowed references. */
typedef struct {
    PyObject *key, *key_bytes, *headers, *topic, *emit;
    int64_t timestamp, closed_until;
} Counted;

/* One of its windows; the last three parts are borrowed. */
typedef struct {
    PyObject *physical; /* NULL if the window has closed */
    PyObject *start, *end;
    Window *window;
} Due;

/* ---- windows of one start ---- */

static PyObject *window_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *before, *after;
    int whole;
    if (!PyArg_ParseTuple(args, "SSp", &before, &after, &whole)) return NULL;
    Window *self = PyObject_New(Window, type);
    if (!self) return NULL;
    self->before = Py_NewRef(before);
    self->after = Py_NewRef(after);
    self->whole = (char)whole;
    self->observed = 0;
    return (PyObject *)self;
}

static void window_dealloc(Window *self) {
    Py_DECREF(self->before);
    Py_DECREF(self->after);
    PyObject_Free(self);
}

static PyMemberDef window_members[] = {{"before", T_OBJECT_EX, offsetof(Window, before), READONLY, NULL},
                                       {"after", T_OBJECT_EX, offsetof(Window, after), READONLY, NULL},
                                       {"whole", T_BOOL, offsetof(Window, whole), 0, NULL},
                                       {NULL}};
static PyTypeObject WindowType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Window",
    .tp_basicsize = sizeof(Window),
    .tp_new = window_new,
    .tp_dealloc = (destructor)window_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = window_members,
};

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

/* Sends the count: to the topic where it goes there as it is, else to whatever comes next. */
static int forward(const Counter *self, const Counted *of, const Cell *cell, PyObject *start, PyObject *end) {
    PyObject *done, *made;
    if (of->topic) {
        made = told_by(cell, of->topic, key_told(cell, OF_WINDOWS));
        done = made ? PyObject_CallOneArg(of->emit, made) : NULL;
    } else {
        made = Py_BuildValue("(OOOLLO)", of->key, start, end, (long long)cell->count, (long long)cell->timestamp,
                             of->headers);
        done = made ? PyObject_CallObject(self->part[FORWARD], made) : NULL;
    }
    Py_XDECREF(made);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* (cell, key, start, end); NULL if the cell is held, or with an exception. */
static PyObject *note_of(Cell *cell, const Counted *of, const Due *due) {
    return cell->held ? NULL : PyTuple_Pack(4, cell, of->key, due->start, due->end);
}

static int count_in(const Counter *self, const Counted *of, const Due *due) {
    if (!due->physical) {
        PyObject *told = PyObject_CallNoArgs(self->part[LATE]);
        Py_XDECREF(told);
        return told ? 0 : -1;
    }
    Cells *cells = (Cells *)self->part[WINDOW_CELLS];
    Cell *cell = count_cell(cells, cell_of(cells, due->physical, due->window->whole), of->timestamp);
    if (!cell) return -1;
    int failed = observe(self, due->window, due->start)       ? -1
                 : self->part[FORWARD] != Py_None ? forward(self, of, cell, due->start, due->end)
                 : self->part[NOTE] != Py_None    ? hold_cell(cell, note_of(cell, of, due), self->part[NOTE],
                                                              self->part[HELD_HEADERS], of->headers)
                                                  : 0;
    Py_DECREF(cell);
    return failed;
}

/* Makes the key of a window, (start, end, Window), unless that has closed; 0, or -1 with an exception. */
static int make_due(const Counted *of, PyObject *found, Due *due) {
    PyObject **part = PyTuple_Check(found) && PyTuple_GET_SIZE(found) == 3 ? &PyTuple_GET_ITEM(found, 0) : NULL;
    if (!part || !Py_IS_TYPE(part[2], &WindowType)) {
        PyErr_SetString(PyExc_TypeError, "windows are (start, end, Window)");
        return -1;
    }
    int64_t end_ms = PyLong_AsLongLong(part[1]);
    if (end_ms == -1 && PyErr_Occurred()) return -1;
    *due = (Due){NULL, part[0], part[1], (Window *)part[2]};
    if (end_ms <= of->closed_until) return 0;
    due->physical = key_in_store(due->window, of->key_bytes);
    return due->physical ? 0 : -1;
}

/* Counts in some windows, whose cells lie here and there; 0, or -1 with an exception. */
static int count_some(const Counter *self, const Counted *of, PyObject *windows, Py_ssize_t begin) {
    Due due[AT_ONCE];
    Py_ssize_t size = PyTuple_GET_SIZE(windows) - begin, made = 0, at = 0;
    if (size > AT_ONCE) size = AT_ONCE;
    while (made < size && !make_due(of, PyTuple_GET_ITEM(windows, begin + made), &due[made])) made++;
    int failed = made < size;
    for (int step = 0; step < 3 && !failed && size > 1; step++)
        for (Py_ssize_t i = 0; i < size; i++)
            if (due[i].physical) look_up_soon((Cells *)self->part[WINDOW_CELLS], due[i].physical, step);
    for (; at < size && !failed; at++) failed = count_in(self, of, &due[at]);
    for (Py_ssize_t i = 0; i < made; i++) Py_XDECREF(due[i].physical);
    return failed ? -1 : 0;
}

/* count(windows, key, key's bytes, timestamp, closed until, headers, sink): counts a record in each of the windows,
 * which are (start, end, Window). A sink is (topic, emit, ...), or None. */
static PyObject *counter_count(Counter *self, PyObject *const *given, Py_ssize_t count) {
    int64_t of[2]; /* timestamp, closed until */
    if (count != 7 || !PyTuple_Check(given[0]) || !PyBytes_CheckExact(given[2]) ||
        (given[6] != Py_None && (!PyTuple_Check(given[6]) || PyTuple_GET_SIZE(given[6]) < 2)))
        return PyErr_Format(PyExc_TypeError, "count takes windows, a key, its bytes, two numbers, headers, a sink");
    if (!are_integers(given + 3, 2, of)) return NULL;
    PyObject *topic = given[6] == Py_None ? NULL : PyTuple_GET_ITEM(given[6], 0);
    Counted counted = {.key = given[1], .key_bytes = given[2], .headers = given[5], .topic = topic,
                       .emit = topic ? PyTuple_GET_ITEM(given[6], 1) : NULL,
                       .timestamp = of[0], .closed_until = of[1]};
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(given[0]); at += AT_ONCE)
        if (count_some(self, &counted, given[0], at)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *counter_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *part[PARTS];
    if (!PyArg_ParseTuple(args, "O!OOOOO", &CellsType, &part[WINDOW_CELLS], &part[SEGMENTS], &part[LATE], &part[NOTE],
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
     "count(windows, key, key's bytes, timestamp, closed until, headers, sink)"},
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
