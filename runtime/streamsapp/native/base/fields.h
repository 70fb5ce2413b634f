/* Named fields: of objects, of the arguments of calls and of their answers. A table says of each field its name, what
 * it may be, and where it is in a structure. Python gives fields by name only, in any order, and an error names the
 * field; it reads an answer by the same names. Called where an object is made, and for each batch, by any thread; with
 * the interpreter's lock. */
#ifndef SA_BASE_FIELDS_H
#define SA_BASE_FIELDS_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a field in Python and, after the colon, its type in the structure. */
typedef enum {
    OWN,      /* not given: an object that C puts there, NULL at first: PyObject * */
    OBJECT,   /* an object of exactly the field's type, of any type if that is NULL: PyObject * */
    FUNCTION, /* what can be called: PyObject * */
    TRUTH,    /* True or False: char */
    INT,      /* int: int */
    LONG,     /* int: int64_t */
    SIZE,     /* int: Py_ssize_t */
    REAL,     /* float: double; of answers alone */
} FieldKind;

typedef struct {
    const char *name;
    FieldKind kind;
    size_t at; /* in the structure */
    PyTypeObject *type;
    char may_be_none, may_be_left_out;
    int64_t least, most; /* of a number, both inclusive; both 0: whatever there is room for */
    int64_t otherwise;   /* the value of a number or a truth that is left out */
} Field;

/* A field with the name of a member. Its other attributes follow: .type = &PyList_Type, .may_be_none = 1 */
#define FIELD(structure, member, is, ...) {.name = #member, .kind = is, .at = offsetof(structure, member), __VA_ARGS__}

enum { MOST_FIELDS = 32 }; /* of a table, which ends with {0} */

/* A type whose objects are made of fields. It begins as MADE(Structure) does, or as COLLECTED(Structure) with an object
 * that may be part of a cycle, and has no subclasses. */
typedef struct {
    PyTypeObject type;
    const Field *fields;
    int (*complete)(PyObject *self); /* does the rest for a new object: 0, or -1 with an exception; may be NULL */
} MadeType;

#define MADE_WITH(structure, make)                                                                               \
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "streamsapp.native." #structure, .tp_basicsize = sizeof(structure), \
                                .tp_vectorcall = make
#define MADE(structure) MADE_WITH(structure, sa_make)
#define COLLECTED(structure) MADE(structure), .tp_traverse = sa_visit, .tp_clear = sa_clear

/* The beginning of a type whose objects are called: its structure has a member `call`, which complete sets. */
#define CALLED(structure)                                                                                  \
    COLLECTED(structure), .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(structure, call), \
        .tp_dealloc = sa_free, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL

/* A new object of a MadeType: it keeps its objects, and the rest of it is zeros. NULL with an exception; the type's
 * tp_dealloc may then have met an object in which any field is NULL. */
PyObject *sa_make(PyObject *type, PyObject *const *given, size_t flags, PyObject *names);

/* The tp_traverse, tp_clear and tp_dealloc of a MadeType. Another tp_dealloc ends with this one. */
int sa_visit(PyObject *self, visitproc visit, void *arg);
int sa_clear(PyObject *self);
void sa_free(PyObject *self);

/* The name of a type, without its module. */
const char *sa_name_of(const PyTypeObject *type);

/* Takes the arguments of a METH_FASTCALL | METH_KEYWORDS function into a structure, which borrows the objects; 0, or -1
 * with an exception. */
int sa_take_fields(const char *call, const Field *fields, PyObject *const *given, Py_ssize_t count, PyObject *names,
                   void *into);

/* The type of an answer: a tuple whose items have names as well. NULL with an exception. */
PyTypeObject *sa_make_answer_type(const char *name, const Field *fields);

/* An answer of that type. Takes over the structure's objects, in any case; NULL with an exception, as if one is NULL.
 */
PyObject *sa_tell(PyTypeObject *type, const Field *fields, const void *from);

#endif
