#include "fetch/library.h"

#include <Python.h>
#include <dlfcn.h>

#define DEFINE(result, function, parameters) result(*rd_kafka_##function) parameters;
FUNCTIONS(DEFINE)

int sa_find_functions(void) {
    PyObject *module = PyImport_ImportModule("confluent_kafka.cimpl");
    PyObject *file = module ? PyObject_GetAttrString(module, "__file__") : NULL;
    const char *path = file ? PyUnicode_AsUTF8(file) : NULL;
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL; /* never closed: it is used from now on */
    if (path && !library) PyErr_Format(PyExc_ImportError, "%s is not loaded", path);
    Py_XDECREF(file);
    Py_XDECREF(module);
    if (!library) return -1;
#define FIND(result, function, parameters)                                           \
    *(void **)&rd_kafka_##function = dlsym(library, "rd_kafka_" #function);          \
    if (!rd_kafka_##function) {                                                      \
        PyErr_SetString(PyExc_ImportError, "librdkafka has no rd_kafka_" #function); \
        return -1;                                                                   \
    }
    FUNCTIONS(FIND)
    return 0;
}
