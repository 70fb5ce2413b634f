/* Records that were sent and not delivered. */

typedef struct Failure {
    struct Failure *next;
    const Client *client;
    int err, has_key, has_value;
    size_t key_size, value_size, topic_size;
    char data[]; /* key, value, topic */
} Failure;

static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;
static Failure *first_failure, **last_failure = &first_failure;
static int out_of_memory;

static void lock_failures(void) { pthread_mutex_lock(&failures_lock); }
static void unlock_failures(void) { pthread_mutex_unlock(&failures_lock); }

static Failure *copied(const Client *client, const Message *message) {
    const char *topic = message->topic ? rd_kafka_topic_name(message->topic) : "";
    size_t key_size = message->key ? message->key_size : 0, value_size = message->value ? message->value_size : 0;
    size_t topic_size = strlen(topic);
    Failure *failure = malloc(sizeof(*failure) + key_size + value_size + topic_size);
    if (!failure) return NULL;
    *failure = (Failure){.client = client, .err = message->err, .has_key = message->key != NULL,
                         .has_value = message->value != NULL, .key_size = key_size, .value_size = value_size,
                         .topic_size = topic_size};
    if (key_size) memcpy(failure->data, message->key, key_size);
    if (value_size) memcpy(failure->data + key_size, message->value, value_size);
    memcpy(failure->data + key_size + value_size, topic, topic_size);
    return failure;
}

/* What it notes is at most what the client's own queue was allowed to hold. */
static int on_acknowledgement(Client *client, Message *message, void *opaque) {
    int err = message->err;
    if (!err || err == PURGED_IN_QUEUE || err == PURGED_IN_FLIGHT || sending || message->opaque) return OK;
    Failure *failure = copied(client, message);
    lock_failures();
    if (failure) {
        *last_failure = failure;
        last_failure = &failure->next;
    } else out_of_memory = 1;
    unlock_failures();
    return OK;
}

/* The client's, taken off the list. */
static Failure *taken_off(const Client *client) {
    Failure *taken = NULL, **end = &taken;
    lock_failures();
    for (Failure **at = &first_failure; *at;) {
        Failure *failure = *at;
        if (failure->client != client) {
            at = &failure->next;
            continue;
        }
        *at = failure->next;
        failure->next = NULL;
        *end = failure;
        end = &failure->next;
    }
    last_failure = &first_failure;
    while (*last_failure) last_failure = &(*last_failure)->next;
    unlock_failures();
    return taken;
}

static int on_destroy(Client *client, void *opaque) {
    for (Failure *failure = taken_off(client), *next; failure; failure = next) {
        next = failure->next;
        free(failure);
    }
    return OK;
}

static int on_new(Client *client, const Conf *conf, void *opaque, char *text, size_t size) {
    int err = rd_kafka_interceptor_add_on_acknowledgement(client, "streamsapp", on_acknowledgement, NULL);
    return err ? err : rd_kafka_interceptor_add_on_destroy(client, "streamsapp", on_destroy, NULL);
}

/* Where a plugin begins. */
__attribute__((visibility("default"))) int conf_init(Conf *conf, void **opaque, char *text, size_t size);
int conf_init(Conf *conf, void **opaque, char *text, size_t size) {
    if (!rd_kafka_conf_interceptor_add_on_new) return FAILED; /* it was not imported as a module before */
    return rd_kafka_conf_interceptor_add_on_new(conf, "streamsapp", on_new, NULL);
}

static PyObject *record_of_failure(const Failure *failure) {
    const char *value_at = failure->data + failure->key_size, *topic_at = value_at + failure->value_size;
    PyObject *key = bytes_or_none(failure->has_key ? failure->data : NULL, failure->key_size);
    PyObject *value = key ? bytes_or_none(failure->has_value ? value_at : NULL, failure->value_size) : NULL;
    PyObject *topic = value ? PyUnicode_DecodeUTF8(topic_at, (Py_ssize_t)failure->topic_size, "replace") : NULL;
    return (PyObject *)new_record(topic, key, value, Py_NewRef(Py_None));
}

static PyObject *failures(PyObject *module, PyObject *args) {
    unsigned long long handle;
    if (!PyArg_ParseTuple(args, "K", &handle)) return NULL;
    PyObject *result = PyList_New(0);
    for (Failure *failure = taken_off((Client *)(uintptr_t)handle), *next; failure; failure = next) {
        PyObject *record = result ? record_of_failure(failure) : NULL;
        if (!record || append(result, Py_BuildValue("(iN)", failure->err, record))) Py_CLEAR(result);
        next = failure->next;
        free(failure);
    }
    if (result && __atomic_exchange_n(&out_of_memory, 0, __ATOMIC_RELAXED)) {
        Py_CLEAR(result);
        PyErr_NoMemory();
    }
    return result;
}
