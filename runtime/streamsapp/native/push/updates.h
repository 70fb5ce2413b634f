/* Takes the updates of a table with a store: they are sent downstream at once, or held for the commit. Called
 * for each update by the thread that processes it; with the interpreter's lock. */
#ifndef SA_PUSH_UPDATES_H
#define SA_PUSH_UPDATES_H

#include "base/fields.h"

extern MadeType sa_forward_update_type; /* ForwardUpdate(*, forward, sends), described in compiled.pyi */
extern MadeType sa_hold_update_type;    /* HoldUpdate(*, entries, record) */

/* The arguments of a call: an update. */
enum { UPDATED_KEY, UPDATED_IDENTITY, UPDATED_NEW, UPDATED_OLD, UPDATED_TIMESTAMP, UPDATED_HEADERS, UPDATED };

#endif
