/* Look-ups of the rows of a table, for joins: in its store, or computed from the rows of another table. Called for each
 * record by the thread that processes it; with the interpreter's lock. */
#ifndef SA_PUSH_ROWS_H
#define SA_PUSH_ROWS_H

#include "base/fields.h"

extern MadeType sa_stored_rows_type;   /* StoredRows(*, key_bytes, read, from_stored), described in compiled.pyi */
extern MadeType sa_computed_rows_type; /* ComputedRows(*, rows, compute) */

#endif
