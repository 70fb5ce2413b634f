/* Records in batches, between Python and Kafka.
 *
 * The answers of brokers are taken apart here (fetch). The work of tasks with each record is done here (push, cells).
 * Sent records become record batches here, in Outbox, and go to the brokers by kafka/producing. */
#include <Python.h>

#include "base/large_pages.h"
#include "base/shapes.h"
#include "cells/cell.h"
#include "cells/cell_log.h"
#include "cells/cell_run.h"
#include "cells/cells.h"
#include "cells/held_cells.h"
#include "fetch/answer.h"
#include "fetch/chunk.h"
#include "fetch/packed_records.h"
#include "fetch/record.h"
#include "format/crc32c.h"
#include "outbox/outbox.h"
#include "push/count_push.h"
#include "push/fold_push.h"
#include "push/input.h"
#include "push/join_push.h"
#include "push/loop.h"
#include "push/recent.h"
#include "push/rows.h"
#include "push/sink.h"
#include "push/step.h"
#include "push/to_stored.h"
#include "push/updates.h"
#include "push/windows.h"
#include "tls/tls.h"
#include "tls/tls_context.h"
#include "tls/tls_error.h"
#include "values/kept_values.h"
#include "values/numbers.h"
#include "values/plain_bytes.h"
#include "values/shaped_writer.h"

static PyMethodDef functions[] = {
    {"answer", sa_answer, METH_O, "answer(bytes): FetchAnswer"},
    {"by_last_update", sa_by_last_update, METH_O, "by_last_update([(cell, key, ...)]): the same by last update"},
    {"fits", (PyCFunction)(void (*)(void))sa_fits, METH_FASTCALL,
     "fits(value, shape): True if it has just those types"},
    {"require_bytes", sa_require_bytes, METH_O, "require_bytes(value): the same, if it is bytes"},
    {"results", (PyCFunction)(void (*)(void))sa_results, METH_FASTCALL | METH_KEYWORDS,
     "results(*, held, topic, deleted_at, before, behind): records of [(cell, key, ...)]"},
    {"stamped", (PyCFunction)(void (*)(void))sa_stamped, METH_FASTCALL | METH_KEYWORDS,
     "stamped(*, batch, producer, epoch, sequence, attributes): the batch, to be sent"},
    {"take_large_arenas", sa_take_large_arenas, METH_NOARGS, "take_large_arenas(): for the whole process"},
    {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "compiled", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_compiled(void); /* called by the interpreter that imports the module */

PyMODINIT_FUNC PyInit_compiled(void) {
    if (sa_make_tls_error() || sa_make_answer_types() || sa_make_taken_batch_type()) return NULL;
    PyTypeObject *types[] = {&sa_record_type.type,
                             &sa_recent_type.type,
                             &sa_cell_type,
                             &sa_cell_log_type,
                             &sa_cell_run_type,
                             &sa_cells_type.type,
                             &sa_window_type.type,
                             &sa_step_type.made.type,
                             &sa_sink_type.made.type,
                             &sa_count_push_type.made.type,
                             &sa_fold_push_type.made.type,
                             &sa_join_push_type.made.type,
                             &sa_stored_rows_type.type,
                             &sa_computed_rows_type.type,
                             &sa_to_stored_type.type,
                             &sa_forward_update_type.type,
                             &sa_hold_update_type.type,
                             &sa_window_push_type.made.type,
                             &sa_input_type.type,
                             &sa_time_marker_type.type,
                             &sa_loop_type.type,
                             &sa_outbox_type.type,
                             &sa_number_writer_type.type,
                             &sa_number_reader_type.type,
                             &sa_shaped_writer_type.type,
                             &sa_kept_values_type.type,
                             &sa_chunk_type.type,
                             &sa_packed_type,
                             &sa_tls_context_type.type,
                             &sa_tls_type,
                             &sa_stream_time_type,
                             sa_fetch_answer_type,
                             sa_fetched_part_type,
                             sa_taken_batch_type};
    sa_make_crc_table();
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof(types) / sizeof(*types); i++)
        if (PyModule_AddType(module, types[i])) Py_CLEAR(module); /* under its name after the last dot */
    if (module && PyModule_AddObjectRef(module, "TlsError", sa_tls_error)) Py_CLEAR(module);
    return module;
}
