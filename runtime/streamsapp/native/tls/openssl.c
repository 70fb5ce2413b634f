#include "tls/openssl.h"

#include <dlfcn.h>

#define SA_DEFINE_SSL(result, function, parameters) result(*sa_##function) parameters;
SA_OPENSSL(SA_DEFINE_SSL)
#undef SA_DEFINE_SSL

static const char remedy[] = "use a Python whose ssl module is linked with OpenSSL as a shared library, as the"
                             " distributions', python.org's images and conda's are";

/* The module of Python's that OpenSSL came with, or the process itself where that is built in. */
static void *library(void) {
    PyObject *module = PyImport_ImportModule("_ssl");
    if (!module) return NULL;
    PyObject *file = PyObject_GetAttrString(module, "__file__");
    Py_DECREF(module);
    if (!file) PyErr_Clear();
    const char *path = file ? PyUnicode_AsUTF8(file) : NULL;
    void *found =
        file && !path ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD); /* never closed: it is used from now on */
    Py_XDECREF(file);
    return found;
}

static int look_up(void *from) {
#define SA_FIND_SSL(result, function, parameters)                                                              \
    *(void **)&sa_##function = dlsym(from, #function);                                                         \
    if (!sa_##function) {                                                                                      \
        PyErr_Format(PyExc_ImportError, "the OpenSSL of Python's ssl module cannot be used: %s is hidden; %s", \
                     #function, remedy);                                                                       \
        return -1;                                                                                             \
    }
    SA_OPENSSL(SA_FIND_SSL)
#undef SA_FIND_SSL
    return 0;
}

int sa_find_openssl(void) {
    static int found = 0;
    if (found) return 0;
    void *from = library();
    if (!from) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ImportError, "Python's ssl module is not loaded; %s", remedy);
        return -1;
    }
    if (look_up(from)) return -1;
    found = 1;
    return 0;
}
