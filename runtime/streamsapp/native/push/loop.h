/* The loop that runs the records of a task's inputs through the topology, in the order of their times. Called by the
 * thread that processes records, with the interpreter's lock. */
#ifndef SA_PUSH_LOOP_H
#define SA_PUSH_LOOP_H

#include "base/fields.h"

extern MadeType sa_loop_type;

#endif
