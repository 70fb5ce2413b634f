#include "push/updates.h"

#include "base/objects.h"
#include "push/push.h"

/* The parts of an update that are sent, in the order of Sent in forward_updates.py. */
enum { NOTHING, NEW_VALUE, NEW_AND_NONE, NEW_AND_OLD, SENT };

/* The places in a held update, which is (key, new, old, timestamp, headers, record). */
enum { HELD_OLD = 2, HELD_SIZE = 6 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *forward;
    int sends;
} ForwardUpdate;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *entries;
    PyObject *record; /* returns the record in process, without its bytes; None: it is not kept */
} HoldUpdate;

static int is_update(size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) == UPDATED && !names) return 1;
    PyErr_SetString(PyExc_TypeError, "an update is key, identity, new, old, timestamp, headers");
    return 0;
}

/* ---- sent at once ---- */

/* A new reference; NULL with an exception. */
static PyObject *sent_value(const ForwardUpdate *self, PyObject *const *given) {
    if (self->sends == NEW_VALUE) return Py_NewRef(given[UPDATED_NEW]);
    return PyTuple_Pack(2, given[UPDATED_NEW], self->sends == NEW_AND_OLD ? given[UPDATED_OLD] : Py_None);
}

static PyObject *forward_update(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const ForwardUpdate *self = (ForwardUpdate *)called;
    if (!is_update(flags, names)) return NULL;
    if (self->sends == NOTHING) Py_RETURN_NONE;
    PyObject *value = sent_value(self, given);
    PyObject *pushed[PUSHED] = {given[UPDATED_KEY], value, given[UPDATED_TIMESTAMP], given[UPDATED_HEADERS]};
    int failed = !value || sa_push(self->forward, pushed);
    Py_XDECREF(value);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* ---- held for the commit ---- */

/* The entry that an update becomes, which has the old value of the entry before it; NULL with an exception. */
static PyObject *entry_of(const HoldUpdate *self, PyObject *const *given, PyObject *earlier) {
    PyObject *old = earlier ? part_of(earlier, HELD_OLD) : Py_NewRef(given[UPDATED_OLD]);
    PyObject *record = self->record == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(self->record);
    PyObject *entry = old && record ? PyTuple_Pack(HELD_SIZE, given[UPDATED_KEY], given[UPDATED_NEW], old,
                                                   given[UPDATED_TIMESTAMP], given[UPDATED_HEADERS], record)
                                    : NULL;
    Py_XDECREF(record);
    Py_XDECREF(old);
    return entry;
}

/* The entry comes after all others: they are in the order of their last updates. */
static int hold(const HoldUpdate *self, PyObject *identity, PyObject *entry, int is_there) {
    if (is_there && PyDict_DelItem(self->entries, identity)) return -1;
    return PyDict_SetItem(self->entries, identity, entry);
}

static PyObject *hold_update(PyObject *called, PyObject *const *given, size_t flags, PyObject *names) {
    const HoldUpdate *self = (HoldUpdate *)called;
    if (!is_update(flags, names)) return NULL;
    PyObject *earlier = Py_XNewRef(PyDict_GetItemWithError(self->entries, given[UPDATED_IDENTITY]));
    PyObject *entry = earlier || !PyErr_Occurred() ? entry_of(self, given, earlier) : NULL;
    int failed = !entry || hold(self, given[UPDATED_IDENTITY], entry, earlier != NULL);
    Py_XDECREF(entry);
    Py_XDECREF(earlier);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *hold_holds(HoldUpdate *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "holds takes a key and its identity");
    int found = PyDict_Contains(self->entries, given[1]);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

/* ---- their types ---- */

static int complete_forward(PyObject *made) {
    ((ForwardUpdate *)made)->call = forward_update;
    return 0;
}

static int complete_hold(PyObject *made) {
    ((HoldUpdate *)made)->call = hold_update;
    return 0;
}

static const Field forward_fields[] = {
    FIELD(ForwardUpdate, forward, FUNCTION), FIELD(ForwardUpdate, sends, INT, .most = SENT - 1), {0}};

static const Field hold_fields[] = {FIELD(HoldUpdate, entries, OBJECT, .type = &PyDict_Type),
                                    FIELD(HoldUpdate, record, FUNCTION, .may_be_none = 1),
                                    {0}};

static PyMethodDef hold_methods[] = {{"holds", (PyCFunction)(void (*)(void))hold_holds, METH_FASTCALL,
                                      "holds(key, identity): True if an update of it is held"},
                                     {0}};

MadeType sa_forward_update_type = {
    .type = {CALLED(ForwardUpdate)},
    .fields = forward_fields,
    .complete = complete_forward,
};

MadeType sa_hold_update_type = {
    .type = {CALLED(HoldUpdate), .tp_methods = hold_methods},
    .fields = hold_fields,
    .complete = complete_hold,
};
