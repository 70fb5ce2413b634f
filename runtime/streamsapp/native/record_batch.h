/* Record batches in Kafka's format, version 2 (KIP-98): records are written into them one after the other, and a header
 * goes in front when they are sent. */

enum { SIZE_AT = 8, CRC_AT = 17, ATTRIBUTES_AT = 21, PRODUCER_AT = 43, HEADER_SIZE = 61, FIRST_ROOM = 1 << 10, MOST_FIRST_ROOM = 1 << 16 };

typedef struct Batch {
    struct Batch *next;
    char *data; /* the header's room, then records */
    size_t used, room;
    int32_t count;
    int64_t first_time, latest_time; /* of records */
    double since; /* when the first record came, by the monotonic clock */
} Batch;

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* NULL if there is no memory. */
static Batch *new_batch(size_t room) {
    Batch *batch = PyMem_RawCalloc(1, sizeof(*batch));
    if (batch && !(batch->data = PyMem_RawMalloc(room))) {
        PyMem_RawFree(batch);
        batch = NULL;
    }
    if (!batch) return NULL;
    batch->used = HEADER_SIZE;
    batch->room = room;
    batch->since = monotonic();
    return batch;
}

static void free_batch(Batch *batch) {
    PyMem_RawFree(batch->data);
    PyMem_RawFree(batch);
}

static uint64_t zigzag(int64_t number) { return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63); }

static size_t varint_size(int64_t number) { return (size_t)(70 - __builtin_clzll(zigzag(number) | 1)) / 7; }

static char *put_varint(char *at, int64_t number) {
    uint64_t left = zigzag(number);
    for (; left >= 0x80; left >>= 7) *at++ = (char)(left | 0x80);
    *at++ = (char)left;
    return at;
}

/* A length and so many bytes; NULL is told from none at all. */
static size_t field_size(const void *field, size_t size) { return varint_size(field ? (int64_t)size : -1) + size; }

static char *put_field(char *at, const void *field, size_t size) {
    at = put_varint(at, field ? (int64_t)size : -1);
    if (size) memcpy(at, field, size);
    return at + size;
}

/* The bytes of headers that were found to be such. */
static char *put_headers(char *at, PyObject *headers) {
    Py_ssize_t count = headers ? PyList_GET_SIZE(headers) : 0;
    at = put_varint(at, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GET_ITEM(headers, i);
        const void *value;
        size_t size, name_size;
        const char *name = text_of(PyTuple_GET_ITEM(pair, 0), &name_size);
        point_at(PyTuple_GET_ITEM(pair, 1), &value, &size);
        at = put_field(at, name, name_size);
        at = put_field(at, value, size);
    }
    return at;
}

/* How many bytes they take; 0 if they are not a list of pairs, a name and bytes or None. */
static size_t headers_size(PyObject *headers) {
    if (!headers) return 1;
    if (!PyList_CheckExact(headers)) return 0;
    size_t sum = varint_size(PyList_GET_SIZE(headers));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(headers); i++) {
        PyObject *pair = PyList_GET_ITEM(headers, i);
        int is_pair = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2;
        const void *value;
        size_t size, name_size;
        const char *name = is_pair ? text_of(PyTuple_GET_ITEM(pair, 0), &name_size) : NULL;
        if (!name || !is_bytes_or_none(PyTuple_GET_ITEM(pair, 1))) return 0;
        point_at(PyTuple_GET_ITEM(pair, 1), &value, &size);
        sum += field_size(name, name_size) + field_size(value, size);
    }
    return sum;
}

/* 0 if there is room for so many bytes more, else there is no memory. */
static int widen(Batch *batch, size_t size) {
    if (batch->room - batch->used >= size) return 0;
    size_t room = batch->room;
    while (room - batch->used < size) room *= 2;
    char *data = PyMem_RawRealloc(batch->data, room);
    if (!data) return -1;
    batch->data = data;
    batch->room = room;
    return 0;
}

typedef struct {
    const void *key, *value; /* NULL for none */
    size_t key_size, value_size, headers_size;
    PyObject *headers; /* NULL for none */
    int64_t time;
} Content;

/* The bytes of a record after its length. */
static size_t body_size(const Content *content, int64_t time_delta, int32_t number) {
    return 1 + varint_size(time_delta) + varint_size(number) + field_size(content->key, content->key_size) +
           field_size(content->value, content->value_size) + content->headers_size;
}

/* 0, or there is no memory. */
static int put_record(Batch *batch, const Content *content) {
    int64_t delta = batch->count ? content->time - batch->first_time : 0;
    size_t body = body_size(content, delta, batch->count);
    if (widen(batch, body + varint_size((int64_t)body))) return -1;
    char *at = put_varint(batch->data + batch->used, (int64_t)body);
    *at++ = 0; /* attributes */
    at = put_varint(at, delta);
    at = put_varint(at, batch->count);
    at = put_field(at, content->key, content->key_size);
    at = put_field(at, content->value, content->value_size);
    batch->used = (size_t)(put_headers(at, content->headers) - batch->data);
    if (!batch->count++) batch->first_time = batch->latest_time = content->time;
    else if (content->time > batch->latest_time) batch->latest_time = content->time;
    return 0;
}

static uint32_t crc_table[8][256];

/* Castagnoli's polynomial, eight bytes at a time. */
static void make_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

#if defined(__x86_64__) && !defined(PLAIN_CRC) /* as other processors do it, for tests */
/* By the processor's own instruction. */
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_processor(const char *data, size_t size) {
    uint64_t crc = ~0u, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; size--, data++) crc = __builtin_ia32_crc32qi((uint32_t)crc, (unsigned char)*data);
    return ~(uint32_t)crc;
}
#endif

static uint32_t crc32c(const char *data, size_t size) {
#if defined(__x86_64__) && !defined(PLAIN_CRC)
    if (__builtin_cpu_supports("sse4.2")) return crc32c_by_processor(data, size);
#endif
    uint32_t crc = ~0u;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word = le64toh(word) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= crc_table[7 - k][word >> 8 * k & 0xff];
    }
    for (; size; size--, data++) crc = crc >> 8 ^ crc_table[0][(crc ^ (unsigned char)*data) & 0xff];
    return ~crc;
}

static char *put_number(char *at, uint64_t number, int size) {
    for (int i = size - 1; i >= 0; i--) *at++ = (char)(number >> 8 * i);
    return at;
}

/* Writes into the header whose records these are, from which sequence on, the size and the checksum. */
static void put_producer(char *data, size_t size, int64_t producer, int16_t epoch, int32_t sequence, int attributes) {
    put_number(data + SIZE_AT, size - SIZE_AT - 4, 4);
    put_number(data + ATTRIBUTES_AT, (uint16_t)attributes, 2);
    char *at = put_number(data + PRODUCER_AT, (uint64_t)producer, 8);
    at = put_number(at, (uint16_t)epoch, 2);
    put_number(at, (uint32_t)sequence, 4);
    put_number(data + CRC_AT, crc32c(data + ATTRIBUTES_AT, size - ATTRIBUTES_AT), 4);
}

/* Writes the header of a batch, but for its producer. */
static void put_header(char *data, const Batch *batch) {
    memset(data, 0, HEADER_SIZE); /* the broker gives offsets */
    char *at = put_number(data + SIZE_AT, batch->used - SIZE_AT - 4, 4);
    at = put_number(at, UINT32_MAX, 4); /* no leader's epoch */
    *at = 2;
    at = put_number(data + ATTRIBUTES_AT + 2, (uint64_t)(batch->count - 1), 4);
    at = put_number(at, (uint64_t)batch->first_time, 8);
    put_number(at, (uint64_t)batch->latest_time, 8);
    put_number(data + HEADER_SIZE - 4, (uint32_t)batch->count, 4);
}
