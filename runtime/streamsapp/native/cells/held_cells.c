#include "cells/held_cells.h"

#include "base/fields.h"
#include "base/objects.h"

/* The number of the last update of any cell that is held. It may run over: no commit waits for as many. */
static uint32_t last_update;

static uint32_t next_update(void) {
    if (!++last_update) last_update = 1;
    return last_update;
}

int sa_hold_cell(Cell *cell, PyObject *tuple, PyObject *list, PyObject *headers, PyObject *given) {
    if (!cell->held) {
        int failed = !tuple || PyList_Append(list, tuple);
        Py_XDECREF(tuple);
        if (failed) return -1;
    }
    cell->held = next_update();
    if (given == Py_None && !PyDict_GET_SIZE(headers)) return 0;
    PyObject *id = PyLong_FromVoidPtr(cell);
    int failed = !id || (given != Py_None ? PyDict_SetItem(headers, id, given)
                                          : PyDict_Contains(headers, id) && PyDict_DelItem(headers, id));
    Py_XDECREF(id);
    return failed ? -1 : 0;
}

/* A cell that is held as (cell, key, ...); NULL with an exception for anything else. */
static Cell *cell_held(PyObject *held) {
    if (PyTuple_Check(held) && PyTuple_GET_SIZE(held) >= 2 && Py_IS_TYPE(PyTuple_GET_ITEM(held, 0), &sa_cell_type))
        return (Cell *)PyTuple_GET_ITEM(held, 0);
    PyErr_SetString(PyExc_TypeError, "what is held is (cell, key, ...)");
    return NULL;
}

/* The arguments of results(). */
typedef struct {
    PyObject *held, *topic, *deleted_at;
    Py_ssize_t before, behind; /* bytes of the physical key that the topic's key has not */
} Results;

/* The record of a cell that was held, and is held no longer; NULL with an exception. */
static PyObject *held_result(PyObject *held, const Results *of) {
    Cell *cell = cell_held(held);
    if (!cell) return NULL;
    int64_t at = cell->timestamp;
    if (!cell->is_there) {
        PyObject *told =
            PyObject_Vectorcall(of->deleted_at, &PyTuple_GET_ITEM(held, 1), (size_t)PyTuple_GET_SIZE(held) - 1, NULL);
        int known = told && are_integers(&told, 1, &at);
        Py_XDECREF(told);
        if (!known) return NULL;
    }
    cell->held = 0;
    return sa_told_by(cell, of->topic, sa_key_told(cell, (Hidden){of->before, of->behind}), at);
}

/* Has the memory fetch the cells that come next, and their keys. It is inline, as a compiler removes calls of a
 * function that does nothing else. */
static inline __attribute__((always_inline)) void look_at_held(PyObject *held, Py_ssize_t at) {
    enum { AHEAD = 8 };
    for (int step = 0; step < 3; step++) {
        Py_ssize_t next = at + (3 - step) * AHEAD;
        PyObject *each = next < PyList_GET_SIZE(held) ? PyList_GET_ITEM(held, next) : NULL;
        if (!each) continue;
        if (step == 0) __builtin_prefetch(&PyTuple_GET_ITEM(each, 0));
        else if (!PyTuple_Check(each) || !PyTuple_GET_SIZE(each)) continue;
        else if (step == 1) __builtin_prefetch(PyTuple_GET_ITEM(each, 0), 1);
        else if (Py_IS_TYPE(PyTuple_GET_ITEM(each, 0), &sa_cell_type))
            __builtin_prefetch(((Cell *)PyTuple_GET_ITEM(each, 0))->physical, 1);
    }
}

static const Field results_fields[] = {FIELD(Results, held, OBJECT, .type = &PyList_Type),
                                       FIELD(Results, topic, OBJECT, .type = &PyUnicode_Type),
                                       FIELD(Results, deleted_at, FUNCTION),
                                       FIELD(Results, before, SIZE, .most = INT32_MAX),
                                       FIELD(Results, behind, SIZE, .most = INT32_MAX),
                                       {0}};

PyObject *sa_results(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names) {
    Results of;
    if (sa_take_fields("results", results_fields, given, count, names, &of)) return NULL;
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(of.held); i++) {
        look_at_held(of.held, i);
        PyObject *each = Py_NewRef(PyList_GET_ITEM(of.held, i)), *record = held_result(each, &of);
        if (!record || PyList_Append(made, record)) Py_CLEAR(made);
        Py_XDECREF(record);
        Py_DECREF(each);
    }
    return made;
}

/* A cell that is held, with how many updates come between its last one and that of the earliest of all. */
typedef struct {
    uint32_t after;
    PyObject *held;
} HeldAfter;

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* Puts everything in the order of one digit, and of what it was sorted by before. */
static void sort_digit(const HeldAfter *from, HeldAfter *to, Py_ssize_t size, int shift) {
    Py_ssize_t at[DIGITS + 1] = {0};
    for (Py_ssize_t i = 0; i < size; i++) at[(from[i].after >> shift) % DIGITS + 1]++;
    for (int digit = 0; digit < DIGITS; digit++) at[digit + 1] += at[digit];
    for (Py_ssize_t i = 0; i < size; i++) to[at[(from[i].after >> shift) % DIGITS]++] = from[i];
}

/* Sorts a list of (cell, key, ...) by the last updates of the cells, in twice the room for all; 0, or -1 with an
 * exception. */
static int sort_held(PyObject *held, HeldAfter *all, Py_ssize_t size) {
    int32_t after, earliest = 0, latest = 0, before = INT32_MIN;
    uint32_t first = 0;
    int in_order = 1;
    for (Py_ssize_t i = 0; i < size; i++, before = after) {
        look_at_held(held, i);
        Cell *cell = cell_held(PyList_GET_ITEM(held, i));
        if (!cell) return -1;
        if (!i) first = cell->held;
        after = (int32_t)(cell->held - first); /* negative if it comes before the first of the list */
        if (after < earliest) earliest = after;
        if (after > latest) latest = after;
        in_order = in_order && before <= after;
        all[i] = (HeldAfter){(uint32_t)after, PyList_GET_ITEM(held, i)};
    }
    if (in_order) return 0;
    HeldAfter *from = all, *to = all + size;
    for (Py_ssize_t i = 0; i < size; i++) all[i].after -= (uint32_t)earliest;
    for (int shift = 0; shift < 32 && ((uint32_t)latest - (uint32_t)earliest) >> shift; shift += DIGIT) {
        sort_digit(from, to, size, shift);
        HeldAfter *sorted = to;
        to = from;
        from = sorted;
    }
    for (Py_ssize_t i = 0; i < size; i++) PyList_SET_ITEM(held, i, from[i].held);
    return 0;
}

PyObject *sa_by_last_update(PyObject *module, PyObject *held) {
    PyObject *sorted = PyList_Check(held) ? PyList_GetSlice(held, 0, PyList_GET_SIZE(held))
                                          : PyErr_Format(PyExc_TypeError, "cells are held in a list");
    if (!sorted) return NULL;
    HeldAfter *all = PyMem_New(HeldAfter, 2 * (size_t)PyList_GET_SIZE(sorted));
    if (!all) PyErr_NoMemory();
    if (!all || sort_held(sorted, all, PyList_GET_SIZE(sorted))) Py_CLEAR(sorted);
    PyMem_Free(all);
    return sorted;
}
