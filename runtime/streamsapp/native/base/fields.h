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
    int64_t otherwise;   /* what a number or a truth is that is left out */
} Field;

/* A field with the name of a member. What else holds for it follows: .type = &PyList_Type, .may_be_none = 1 */
#define FIELD(structure, member, is, ...) {.name = #member, .kind = is, .at = offsetof(structure, member), __VA_ARGS__}

enum { MOST_FIELDS = 32 }; /* of a table, which ends with {0} */

/* A new object, for the tp_vectorcall of its type: it keeps its objects, and the rest of it is zeros. NULL with an
 * exception; the type's tp_dealloc may then have met an object in which any field is NULL. */
PyObject *sa_make(PyObject *type, const Field *fields, PyObject *const *given, size_t flags, PyObject *names);

/* Takes what a METH_FASTCALL | METH_KEYWORDS function is called with into a structure, which borrows the objects; 0, or
 * -1 with an exception. */
int sa_take_fields(const char *call, const Field *fields, PyObject *const *given, Py_ssize_t count, PyObject *names,
                   void *into);

/* For the tp_traverse, tp_clear and tp_dealloc of an object that sa_make has made. */
int sa_visit_fields(const Field *fields, void *object, visitproc visit, void *arg);
int sa_clear_fields(const Field *fields, void *object);

/* The type of an answer: a tuple whose items have names as well. NULL with an exception. */
PyTypeObject *sa_make_answer_type(const char *name, const Field *fields);

/* An answer of that type. Takes over the structure's objects, in any case; NULL with an exception, as if one is NULL.
 */
PyObject *sa_tell(PyTypeObject *type, const Field *fields, const void *from);

#endif
