/* Push functions that count, for stores whose entries are cells: that of keys, and what that of windows has as well.
 * Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_COUNT_PUSH_H
#define SA_PUSH_COUNT_PUSH_H

#include "cells/cells.h"
#include "push/push.h"

typedef struct {
    Push push;
    PyObject *cells, *serialize_key, *on_error, *dropped;
    PyObject *topic, *emit;          /* where records go in place of a function; both None: to forward */
    PyObject *noted, *noted_headers; /* for the commit; both None: nothing is */
    char keeps_bytes;                /* says whether keys that are bytes are written as they are */
} Counting;

#define COUNTING_FIELDS                                                                                                \
    FIELD(Counting, cells, OBJECT, .type = &sa_cells_type.type), FIELD(Counting, serialize_key, FUNCTION),             \
        FIELD(Counting, keeps_bytes, TRUTH, .may_be_left_out = 1), FIELD(Counting, on_error, FUNCTION),                \
        FIELD(Counting, dropped, FUNCTION), FIELD(Counting, topic, OBJECT, .type = &PyUnicode_Type, .may_be_none = 1), \
        FIELD(Counting, emit, FUNCTION, .may_be_none = 1),                                                             \
        FIELD(Counting, noted, OBJECT, .type = &PyList_Type, .may_be_none = 1),                                        \
        FIELD(Counting, noted_headers, OBJECT, .type = &PyDict_Type, .may_be_none = 1)

/* Refuses one with a topic and nothing that emits records for it, or with half of what is noted. */
int sa_complete_counting(PyObject *counting);

extern PushType sa_count_push_type;

#endif
