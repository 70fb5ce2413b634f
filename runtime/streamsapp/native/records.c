/* Records in batches, between Python and Kafka.
 *
 * What was fetched comes from the librdkafka that confluent-kafka has loaded; nothing else is linked. fetch is called by
 * the thread that a client belongs to. It takes the client's own handle, reaches nothing of confluent-kafka's, and works
 * with the interpreter released. What a consumer's queue has beside records comes as events, so that no callback of
 * confluent-kafka's runs, which would need its state of the thread.
 *
 * What is sent becomes record batches here, in Outbox, and goes to the brokers by kafka/batches.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>
#include <time.h>

#include "large_pages.h"
#include "library.h"
#include "record.h"
#include "fields.h"
#include "fetch.h"
#include "recent.h"
#include "cell.h"
#include "cell_log.h"
#include "cell_run.h"
#include "cell_table.h"
#include "cells_by_key.h"
#include "steps.h"
#include "windows.h"
#include "count_push.h"
#include "loop.h"
#include "record_batch.h"
#include "changes.h"
#include "outbox.h"
#include "reader.h"
#include "answer.h"
#include "packed_records.h"
#include "fetched_batch.h"
#include "chunk.h"

static PyMethodDef functions[] = {
    {"answer", answer, METH_O, "answer(bytes): (milliseconds to wait, error, session, partitions)"},
    {"fetch", fetch, METH_VARARGS, "fetch(consumer's handle, limit, seconds): (runs, errors, logs)"},
    {"by_last_update", by_last_update, METH_O, "by_last_update([(cell, key, ...)]): the same by last update"},
    {"results", results, METH_VARARGS, "results([(cell, key, ...)], topic, deleted_at, before, behind): records"},
    {"stamped", stamped, METH_VARARGS, "stamped(batch, producer, epoch, sequence, attributes): the batch, to be sent"},
    {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "records", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_records(void) {
    PyTypeObject *types[] = {&RecordType, &RecentType, &CellType, &CellLogType, &CellRunType, &CellsType, &WindowType,
                             &StepType, &SinkType, &CountPushType, &WindowPushType, &LoopType, &OutboxType, &ChunkType,
                             &PackedType};
    if (find_functions() || make_names()) return NULL;
    make_crc_table();
    take_large_arenas();
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof(types) / sizeof(*types); i++)
        if (PyModule_AddType(module, types[i])) Py_CLEAR(module); /* under its name after the last dot */
    /* Whoever looks for push functions learns where a step has its own. */
    PyObject *slots = module ? Py_BuildValue("(s)", "forward") : NULL;
    PyTypeObject *pushing[] = {&StepType, &CountPushType, &WindowPushType};
    for (size_t i = 0; module && i < sizeof(pushing) / sizeof(*pushing); i++)
        if (!slots || PyDict_SetItemString(pushing[i]->tp_dict, "__slots__", slots)) Py_CLEAR(module);
    Py_XDECREF(slots);
    return module;
}
