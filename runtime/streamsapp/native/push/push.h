/* Push functions, which take a record as (key, value, timestamp, headers). A push function in C calls the next one
 * directly if that is in C as well. Called for each record by the thread that processes it, with the interpreter's
 * lock. */
#ifndef SA_PUSH_PUSH_H
#define SA_PUSH_PUSH_H

#include <Python.h>

#include "base/fields.h"

enum { KEY, VALUE, TIMESTAMP, HEADERS, PUSHED };

/* The beginning of a push function of C. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} Push;

/* The type of some. It begins as PUSH(Structure) does. */
typedef struct {
    MadeType made;
    int (*run)(PyObject *self, PyObject *const *given); /* pushes a record; 0, or -1 with an exception */
} PushType;

#define PUSH(structure)                                                                                       \
    MADE_WITH(structure, sa_make_push), .tp_traverse = sa_visit, .tp_clear = sa_clear, .tp_dealloc = sa_free, \
        .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Push, call),                           \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL

/* A new object of a PushType. */
PyObject *sa_make_push(PyObject *type, PyObject *const *given, size_t flags, PyObject *names);

/* Pushes a record; 0, or -1 with an exception. */
int sa_push(PyObject *to, PyObject *const *given);

/* Lets a handler deal with the exception that is raised; it is called as in an except clause. */
int sa_handled(PyObject *by, PyObject *const *given, size_t count);

/* Takes over the record, which may be NULL; 0, or -1 with an exception. */
static inline int emit_record(PyObject *emit, PyObject *record) {
    PyObject *done = record ? PyObject_CallOneArg(emit, record) : NULL;
    Py_XDECREF(record);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

#endif
