#include "base/slots.h"

#include <structmember.h>

PyObject **sa_slot(PyObject *of, const char *name) {
    PyObject *found = PyObject_GetAttrString((PyObject *)Py_TYPE(of), name);
    if (!found) return NULL;
    PyObject **place = NULL;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        const PyMemberDescrObject *slot = (PyMemberDescrObject *)found;
        if (slot->d_member->type == T_OBJECT_EX && PyObject_TypeCheck(of, slot->d_common.d_type))
            place = (PyObject **)((char *)of + slot->d_member->offset);
    }
    Py_DECREF(found);
    if (!place || !*place) {
        PyErr_Format(PyExc_TypeError, "%s keeps no %s in a slot", Py_TYPE(of)->tp_name, name);
        return NULL;
    }
    return place;
}
