#include "cells/cell_table.h"

#include "base/large_pages.h"

enum { FEWEST_SLOTS = 64 };

/* Twice the slots; 0, or -1 with an exception. */
static int grow(Generation *self) {
    size_t slots = self->slots ? 2 * (self->mask + 1) : FEWEST_SLOTS;
    CellSlot *table = PyMem_Calloc(slots, sizeof(*table));
    if (!table) {
        PyErr_NoMemory();
        return -1;
    }
    sa_wish_large_pages(table, slots * sizeof(*table));
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

int sa_put_cell(Generation *self, Py_hash_t hash, Cell *cell) {
    if ((!self->slots || 2 * (size_t)self->count > self->mask) && grow(self)) return -1;
    CellSlot *slot = cell_slot(self, hash, cell->physical);
    Cell *before = slot->cell;
    self->count += !before;
    *slot = (CellSlot){hash, (Cell *)Py_NewRef(cell)};
    cell->generation = self->number & MOST_GENERATIONS;
    Py_XDECREF(before);
    return 0;
}

void sa_drop_cells(Generation *self) {
    Generation gone = *self;
    *self = (Generation){.number = gone.number};
    for (size_t i = 0; gone.slots && i <= gone.mask; i++) Py_XDECREF(gone.slots[i].cell);
    PyMem_Free(gone.slots);
}
