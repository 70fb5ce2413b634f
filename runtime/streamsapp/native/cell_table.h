/* Cells by key, in two generations: when the younger one is full it takes the place of the older one, which is
 * forgotten but for what was asked for meanwhile. Used by one thread at a time, with the interpreter. */

enum { FEWEST_SLOTS = 64 };

typedef struct {
    Py_hash_t hash;
    Cell *cell; /* NULL: nothing is here */
} CellSlot;

typedef struct {
    CellSlot *slots; /* a power of two, twice as many as cells or more; NULL if there are none */
    size_t mask;
    Py_ssize_t count;
    uint32_t number;
} Generation;

/* That of the key, or the empty one where it belongs. */
static CellSlot *cell_slot(const Generation *self, Py_hash_t hash, PyObject *key) {
    for (size_t at = (size_t)hash;; at++) {
        CellSlot *slot = &self->slots[at & self->mask];
        if (!slot->cell) return slot;
        PyObject *known = slot->hash == hash ? slot->cell->physical : NULL;
        if (known && PyBytes_GET_SIZE(known) == PyBytes_GET_SIZE(key) &&
            !memcmp(PyBytes_AS_STRING(known), PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key))) return slot;
    }
}

/* The cell of a key, borrowed; NULL if it is not there. */
static Cell *find_cell(const Generation *self, Py_hash_t hash, PyObject *key) {
    return self->slots ? cell_slot(self, hash, key)->cell : NULL;
}

/* Twice the slots; 0, or -1 with an exception. */
static int grow(Generation *self) {
    size_t slots = self->slots ? 2 * (self->mask + 1) : FEWEST_SLOTS;
    CellSlot *table = PyMem_Calloc(slots, sizeof(*table));
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    wish_large_pages(table, slots * sizeof(*table));
    for (size_t i = 0; self->slots && i <= self->mask; i++) {
        size_t at = (size_t)self->slots[i].hash;
        if (!self->slots[i].cell) continue;
        while (table[at & (slots - 1)].cell) at++;
        table[at & (slots - 1)] = self->slots[i];
    }
    PyMem_Free(self->slots);
    self->slots = table;
    self->mask = slots - 1;
    return 0;
}

/* Adds a cell, or puts it in the place of another one with its key; 0, or -1 with an exception. */
static int put_cell(Generation *self, Py_hash_t hash, Cell *cell) {
    if ((!self->slots || 2 * (size_t)self->count > self->mask) && grow(self)) return -1;
    CellSlot *slot = cell_slot(self, hash, cell->physical);
    Cell *before = slot->cell;
    self->count += !before;
    *slot = (CellSlot){hash, (Cell *)Py_NewRef(cell)};
    cell->generation = self->number;
    Py_XDECREF(before);
    return 0;
}

static void drop_cells(Generation *self) {
    Generation gone = *self;
    *self = (Generation){.number = gone.number};
    for (size_t i = 0; gone.slots && i <= gone.mask; i++) Py_XDECREF(gone.slots[i].cell);
    PyMem_Free(gone.slots);
}

/* The slot that has a cell with this hash, or the one where the search for it ends: other than cell_slot, it reads no
 * cell. */
static inline __attribute__((always_inline)) const CellSlot *likely_slot(const Generation *self, Py_hash_t hash) {
    size_t at = (size_t)hash;
    while (self->slots[at & self->mask].cell && self->slots[at & self->mask].hash != hash) at++;
    return &self->slots[at & self->mask];
}
