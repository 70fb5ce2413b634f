/* Steps without state: what streamsapp.dsl.operators.stateless does for each record, and the sinks of streamsapp.tasks.
 * A step is a push function, (key, value, timestamp, headers), and calls the next one directly if it is one as well.
 * Used by one thread at a time, with the interpreter. */

enum { KEY, VALUE, TIMESTAMP, HEADERS, PUSHED };

/* How a step uses its function. Those that end in KEYED give it key and value, others the value. */
enum { FILTER, FILTER_NOT, MAP, SELECT_KEY, MAP_VALUES, MAP_VALUES_KEYED, FLAT_MAP_VALUES, FLAT_MAP_VALUES_KEYED,
       DROP_NULL_KEYS, KINDS };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    int kind;
    PyObject *function, *adapt, *forward, *on_error;
} Step;

static PyTypeObject StepType;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *topic, *serialize_key, *serialize_value, *check_headers, *emit, *on_error;
    PyObject *plain_sink;
    char keeps_key, keeps_value; /* say whether bytes are written as they are */
} Sink;

static PyTypeObject SinkType;

typedef struct CountPush CountPush;
typedef struct WindowPush WindowPush;
static PyTypeObject CountPushType, WindowPushType;

static int run_step(Step *self, PyObject *const *given);
static int run_sink(Sink *self, PyObject *const *given);
static int run_count(CountPush *self, PyObject *const *given);
static int run_window_count(WindowPush *self, PyObject *const *given);

/* Pushes a record; 0, or -1 with an exception. */
static int push(PyObject *to, PyObject *const *given) {
    if (Py_IS_TYPE(to, &StepType)) return run_step((Step *)to, given);
    if (Py_IS_TYPE(to, &SinkType)) return run_sink((Sink *)to, given);
    if (Py_IS_TYPE(to, &CountPushType)) return run_count((CountPush *)to, given);
    if (Py_IS_TYPE(to, &WindowPushType)) return run_window_count((WindowPush *)to, given);
    PyObject *done = PyObject_Vectorcall(to, given, PUSHED, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The call of a push function by Python. */
static PyObject *call_push(PyObject *self, PyObject *const *given, size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) != PUSHED || names)
        return PyErr_Format(PyExc_TypeError, "%s takes key, value, timestamp, headers", Py_TYPE(self)->tp_name);
    return push(self, given) ? NULL : Py_NewRef(Py_None);
}

/* Lets somebody handle the exception that is raised, who is called as in an except clause. */
static int handled(PyObject *by, PyObject *const *given, size_t count) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyObject *type, *error, *trace, *outer[3], *told[PUSHED + 1];
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    PyErr_GetExcInfo(&outer[0], &outer[1], &outer[2]);
    PyErr_SetExcInfo(Py_XNewRef(type), Py_XNewRef(error), Py_XNewRef(trace)); /* takes them over */
    told[0] = error;
    memcpy(told + 1, given, count * sizeof(*given));
    PyObject *done = PyObject_Vectorcall(by, told, count + 1, NULL);
    PyErr_SetExcInfo(outer[0], outer[1], outer[2]);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* ---- steps ---- */

/* Pushes a record with another key or value, or both. */
static int push_changed(PyObject *to, PyObject *const *given, PyObject *key, PyObject *value) {
    PyObject *changed[PUSHED] = {key, value, given[TIMESTAMP], given[HEADERS]};
    return push(to, changed);
}

static int push_pair(PyObject *to, PyObject *const *given, PyObject *pair) {
    return push_changed(to, given, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
}

static int push_each(PyObject *to, PyObject *const *given, PyObject *values) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); i++) {
        PyObject *value = Py_NewRef(PyList_GET_ITEM(values, i));
        int failed = push_changed(to, given, given[KEY], value);
        Py_DECREF(value);
        if (failed) return -1;
    }
    return 0;
}

static int is_keyed(int kind) { return kind != MAP_VALUES && kind != FLAT_MAP_VALUES; }

/* What the function gives, in the form that is pushed; NULL with an exception. */
static PyObject *result_of_function(const Step *self, PyObject *const *given) {
    PyObject *found = is_keyed(self->kind) ? PyObject_Vectorcall(self->function, given, 2, NULL)
                                           : PyObject_Vectorcall(self->function, given + VALUE, 1, NULL);
    if (!found || self->adapt == Py_None) return found;
    int is_known = self->kind == MAP ? PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 2
                                     : PyList_CheckExact(found);
    if (is_known) return found;
    PyObject *adapted = PyObject_CallOneArg(self->adapt, found);
    Py_DECREF(found);
    if (adapted && (self->kind == MAP ? !PyTuple_CheckExact(adapted) || PyTuple_GET_SIZE(adapted) != 2
                                      : !PyList_CheckExact(adapted))) {
        PyErr_SetString(PyExc_TypeError, "adapt gives a pair, or a list");
        Py_CLEAR(adapted);
    }
    return adapted;
}

static int push_result(int kind, PyObject *to, PyObject *const *given, PyObject *found) {
    switch (kind) {
    case MAP: return push_pair(to, given, found);
    case SELECT_KEY: return push_changed(to, given, found, given[VALUE]);
    case MAP_VALUES: case MAP_VALUES_KEYED: return push_changed(to, given, given[KEY], found);
    default: return push_each(to, given, found);
    }
}

static int run_step(Step *self, PyObject *const *given) {
    PyObject *found = NULL;
    int keep = given[KEY] != Py_None;
    if (self->kind != DROP_NULL_KEYS) {
        found = result_of_function(self, given);
        keep = !found ? -1 : self->kind > FILTER_NOT ? 1 : PyObject_IsTrue(found);
        if (keep >= 0 && self->kind == FILTER_NOT) keep = !keep;
    }
    int failed = keep < 0 ? handled(self->on_error, given, PUSHED) : 0;
    if (keep > 0) {
        PyObject *to = Py_NewRef(self->forward); /* a probe may take its place meanwhile */
        failed = self->kind <= FILTER_NOT || self->kind == DROP_NULL_KEYS ? push(to, given)
                                                                         : push_result(self->kind, to, given, found);
        Py_DECREF(to);
    }
    Py_XDECREF(found);
    return failed;
}

static PyObject *step_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    int kind;
    PyObject *function, *adapt, *forward, *on_error;
    if (!PyArg_ParseTuple(args, "iOOOO", &kind, &function, &adapt, &forward, &on_error)) return NULL;
    if (kind < 0 || kind >= KINDS) return PyErr_Format(PyExc_ValueError, "there is no kind %d of steps", kind);
    if (adapt == Py_None && (kind == MAP || kind == FLAT_MAP_VALUES || kind == FLAT_MAP_VALUES_KEYED))
        return PyErr_Format(PyExc_TypeError, "steps of kind %d adapt what their function gives", kind);
    Step *self = (Step *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = call_push;
    self->kind = kind;
    self->function = Py_NewRef(function);
    self->adapt = Py_NewRef(adapt);
    self->forward = Py_NewRef(forward);
    self->on_error = Py_NewRef(on_error);
    return (PyObject *)self;
}

static int step_traverse(Step *self, visitproc visit, void *arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->adapt);
    Py_VISIT(self->forward);
    Py_VISIT(self->on_error);
    return 0;
}

static int step_clear(Step *self) {
    Py_CLEAR(self->function);
    Py_CLEAR(self->adapt);
    Py_CLEAR(self->forward);
    Py_CLEAR(self->on_error);
    return 0;
}

static void step_dealloc(Step *self) {
    PyObject_GC_UnTrack(self);
    step_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef step_members[] = {{"forward", T_OBJECT_EX, offsetof(Step, forward), 0, NULL}, {NULL}};
static PyTypeObject StepType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Step",
    .tp_basicsize = sizeof(Step),
    .tp_new = step_new,
    .tp_dealloc = (destructor)step_dealloc,
    .tp_traverse = (traverseproc)step_traverse,
    .tp_clear = (inquiry)step_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Step, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = step_members,
};

/* ---- sinks ---- */

/* The record that is sent, as streamsapp.tasks.output has it; NULL with an exception. */
static PyObject *sent(const Sink *self, PyObject *const *given) {
    PyObject *key = serialized(self->serialize_key, self->keeps_key, given[KEY]);
    PyObject *value = key ? serialized(self->serialize_value, self->keeps_value, given[VALUE]) : NULL;
    int has_headers = value ? PyObject_IsTrue(given[HEADERS]) : 0;
    PyObject *checked = has_headers > 0 ? PyObject_CallOneArg(self->check_headers, given[HEADERS]) : NULL;
    PyObject *partition = value && (checked || !has_headers) ? PyLong_FromLong(-1) : NULL;
    PyObject *made = partition ? PyTuple_Pack(8, self->topic, value, key, partition, Py_None, Py_None,
                                              given[TIMESTAMP], given[HEADERS]) : NULL;
    Py_XDECREF(partition);
    Py_XDECREF(checked);
    Py_XDECREF(value);
    Py_XDECREF(key);
    return made;
}

/* Takes over the record, which may be NULL; 0, or -1 with an exception. */
static int emit_record(PyObject *emit, PyObject *record) {
    PyObject *done = record ? PyObject_CallOneArg(emit, record) : NULL;
    Py_XDECREF(record);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int run_sink(Sink *self, PyObject *const *given) {
    PyObject *record = sent(self, given);
    return record ? emit_record(self->emit, record) : handled(self->on_error, given + TIMESTAMP, 1);
}

static PyObject *sink_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *topic, *serialize_key, *serialize_value, *check_headers, *emit, *on_error, *plain_sink;
    if (!PyArg_ParseTuple(args, "UOOOOOO", &topic, &serialize_key, &serialize_value, &check_headers, &emit, &on_error,
                          &plain_sink)) return NULL;
    Sink *self = (Sink *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = call_push;
    self->topic = Py_NewRef(topic);
    self->serialize_key = Py_NewRef(serialize_key);
    self->serialize_value = Py_NewRef(serialize_value);
    self->check_headers = Py_NewRef(check_headers);
    self->emit = Py_NewRef(emit);
    self->on_error = Py_NewRef(on_error);
    self->plain_sink = Py_NewRef(plain_sink);
    return (PyObject *)self;
}

static int sink_traverse(Sink *self, visitproc visit, void *arg) {
    Py_VISIT(self->serialize_key);
    Py_VISIT(self->serialize_value);
    Py_VISIT(self->check_headers);
    Py_VISIT(self->emit);
    Py_VISIT(self->on_error);
    Py_VISIT(self->plain_sink);
    return 0;
}

static int sink_clear(Sink *self) {
    Py_CLEAR(self->topic);
    Py_CLEAR(self->serialize_key);
    Py_CLEAR(self->serialize_value);
    Py_CLEAR(self->check_headers);
    Py_CLEAR(self->emit);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->plain_sink);
    return 0;
}

static void sink_dealloc(Sink *self) {
    PyObject_GC_UnTrack(self);
    sink_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef sink_members[] = {{"plain_sink", T_OBJECT_EX, offsetof(Sink, plain_sink), READONLY, NULL},
                                     {"keeps_key", T_BOOL, offsetof(Sink, keeps_key), 0, NULL},
                                     {"keeps_value", T_BOOL, offsetof(Sink, keeps_value), 0, NULL},
                                     {NULL}};
static PyTypeObject SinkType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native.Sink",
    .tp_basicsize = sizeof(Sink),
    .tp_new = sink_new,
    .tp_dealloc = (destructor)sink_dealloc,
    .tp_traverse = (traverseproc)sink_traverse,
    .tp_clear = (inquiry)sink_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Sink, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = sink_members,
};
