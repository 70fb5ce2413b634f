/* Batches of records between Python and the librdkafka that confluent-kafka has loaded; nothing else is linked.
 *
 * fetch and send are called by the thread that a client belongs to. They take the client's own handle, reach nothing of
 * confluent-kafka's, and work with the interpreter released. What a consumer's queue has beside records comes as
 * events, so that no callback of confluent-kafka's runs, which would need its state of the thread.
 *
 * The file is a plugin of librdkafka as well (plugin.library.paths): it notes records of send's that could not be
 * delivered, on librdkafka's own threads and without the interpreter. Records that were sent otherwise have an opaque,
 * and are reported by whoever gave it to them.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <endian.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "library.h"
#include "record.h"
#include "fetch.h"
#include "send.h"
#include "recent.h"
#include "cells.h"
#include "counts.h"
#include "windows.h"
#include "steps.h"
#include "loop.h"
#include "changes.h"
#include "failures.h"

static PyMethodDef functions[] = {
    {"fetch", fetch, METH_VARARGS, "fetch(consumer's handle, limit, seconds): (runs, errors, logs)"},
    {"send", send, METH_VARARGS, "send(producer's handle, records, begin): the first record that was not taken"},
    {"send_changes", send_changes, METH_VARARGS,
     "send_changes(producer's handle, topic, partition, [(key, entry)], begin, raw, number's size): as send"},
    {"results", results, METH_VARARGS, "results([(cell, ...)], topic): records"},
    {"failures", failures, METH_VARARGS, "failures(producer's handle): [(code, record)] since the last call"},
    {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "records", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_records(void) {
    PyTypeObject *types[] = {&RecordType, &RecentType, &CellType, &KeyCounterType, &WindowType, &CounterType,
                             &StepType, &SinkType, &LoopType};
    if (find_functions() || make_names()) return NULL;
    pthread_atfork(lock_failures, unlock_failures, unlock_failures); /* a child finds the lock free */
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof(types) / sizeof(*types); i++)
        if (PyModule_AddType(module, types[i])) Py_CLEAR(module); /* under its name after the last dot */
    /* Whoever looks for push functions learns where a step has its own. */
    PyObject *slots = module ? Py_BuildValue("(s)", "forward") : NULL;
    if (module && (!slots || PyDict_SetItemString(StepType.tp_dict, "__slots__", slots))) Py_CLEAR(module);
    Py_XDECREF(slots);
    return module;
}
