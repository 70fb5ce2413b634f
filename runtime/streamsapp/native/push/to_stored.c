#include "push/to_stored.h"

#include "base/objects.h"
#include "push/push.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *stored, *stored_again, *refused;
    int64_t lowest, highest; /* ints between them are stored as they are; no number is if the first is the higher one */
} ToStored;

enum { OF_KEY, OF_VALUE, UNLESS_CHANGED, MOST_GIVEN };

/* Raises the error that refused makes of the one that is raised. */
static PyObject *refuse(const ToStored *self, PyObject *const *given) {
    if (!sa_handled(self->refused, given, 2)) PyErr_SetString(PyExc_SystemError, "refused is to raise an error");
    return NULL;
}

static PyObject *call_stored(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const ToStored *self = (ToStored *)called;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count <= OF_VALUE || count > MOST_GIVEN || names)
        return PyErr_Format(PyExc_TypeError, "ToStored takes a key, a value, and what is stored unless it was changed");
    int64_t whole;
    if (number(given[OF_VALUE], self->lowest, self->highest, &whole)) return Py_NewRef(given[OF_VALUE]);
    int is_again = count > UNLESS_CHANGED && given[UNLESS_CHANGED] != Py_None;
    PyObject *made = is_again ? PyObject_Vectorcall(self->stored_again, given + OF_VALUE, 2, NULL)
                              : PyObject_CallOneArg(self->stored, given[OF_VALUE]);
    return made ? made : refuse(self, given);
}

static int complete_to_stored(PyObject *made) {
    ((ToStored *)made)->call = call_stored;
    return 0;
}

static const Field to_stored_fields[] = {FIELD(ToStored, stored, FUNCTION),
                                         FIELD(ToStored, stored_again, FUNCTION),
                                         FIELD(ToStored, refused, FUNCTION),
                                         FIELD(ToStored, lowest, LONG, .may_be_left_out = 1),
                                         FIELD(ToStored, highest, LONG, .may_be_left_out = 1, .otherwise = -1),
                                         {0}};

MadeType sa_to_stored_type = {
    .type = {CALLED(ToStored)},
    .fields = to_stored_fields,
    .complete = complete_to_stored,
};
