/* The stream time of an operator, which its push functions share. Moved on by the thread that processes records. */
#ifndef SA_PUSH_STREAM_TIME_H
#define SA_PUSH_STREAM_TIME_H

#include <Python.h>

typedef struct {
    PyObject_HEAD
    int64_t latest; /* the highest timestamp of a record; -1 before the first */
} StreamTime;

extern PyTypeObject sa_stream_time_type;

#endif
