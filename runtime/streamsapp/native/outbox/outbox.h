/* Outbox: what waits to be sent to each partition, as record batches. One thread adds to it, another takes from it;
 * both have the interpreter's lock all the time. */
#ifndef SA_OUTBOX_OUTBOX_H
#define SA_OUTBOX_OUTBOX_H

#include "base/fields.h"

/* A batch that was taken, as it is sent: the producer's, from this sequence on. */
PyObject *sa_stamped(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *names);

/* The type of taken batches, TakenBatch, made once when the module is loaded; 0, or -1 with an exception. */
int sa_make_taken_batch_type(void);

extern PyTypeObject *sa_taken_batch_type;

extern MadeType sa_outbox_type;

#endif
