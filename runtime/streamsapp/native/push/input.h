/* An input of a task: the buffer of a partition, and its head, the record that comes next, which was read to learn its
 * time. Records are taken out by the thread that processes them, others may be added meanwhile; with the interpreter's
 * lock. */
#ifndef SA_PUSH_INPUT_H
#define SA_PUSH_INPUT_H

#include <Python.h>
#include <stdint.h>

#include "base/fields.h"

enum { SOON = 5 }; /* records that are looked at before it is their turn */

typedef struct {
    PyObject_HEAD
    PyObject *buffer, *take, *push;
    PyObject *deserialize_key, *deserialize_value; /* None: bytes stay what they are */
    PyObject *extract, *on_error;
    char key_by_headers, value_by_headers; /* say whether a deserializer gets the headers, too */
    char trusts_time;                      /* says that no extractor is asked for a time that can be one */
    char is_offered;                       /* says that it waits for its turn, or that it is its turn */
    PyObject *apply;                       /* is called with a TimeMarker when its turn comes; None: there are none */
    PyObject *record, *key, *value;        /* the head; NULL where it is not known; a TimeMarker has no key or value */
    int64_t time;                          /* of the head */
    long long partition_time, position;    /* -1: nothing was processed */
    PyObject *soon[SOON];                  /* the records that come next; NULL where that is not known */
} Input;

/* Says that time has moved on in a partition, between two of its records. It waits in the buffer among them. */
typedef struct {
    PyObject_HEAD
    int64_t timestamp; /* by which it takes its turn */
    PyObject *data;    /* what Python knows of it */
} TimeMarker;

extern MadeType sa_input_type, sa_time_marker_type;

enum { READ, DROPPED, NONE_LEFT, FAILED };

/* Reads the next record, which becomes the head unless it is dropped; FAILED comes with an exception. Memory that its
 * followers need is asked for; cells are those in which records were counted last, or NULL. */
int sa_read_head(Input *self, PyObject *cells);

/* Reads records until one is the head, if none is: READ, NONE_LEFT or FAILED. */
int sa_find_head(Input *self);

/* Lets go of the records that come next. */
void sa_look_away(Input *self);

#endif
