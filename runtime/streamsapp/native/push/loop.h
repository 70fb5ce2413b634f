/* The loop that runs the records of one partition through the topology, for records that were fetched in C. Any other
 * record ends it, and is left to Python as it is. Called by the thread that processes records, with the interpreter's
 * lock. */
#ifndef SA_PUSH_LOOP_H
#define SA_PUSH_LOOP_H

#include "base/fields.h"

extern MadeType sa_loop_type;

#endif
