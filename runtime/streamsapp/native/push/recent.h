/* The newest records of one side of a join, by key. A key and its records are one piece of memory, which Python's
 * collector of cycles does not walk. A store keeps bytes, or values that its serde calls immutable. Used by the thread
 * that processes records, with the interpreter's lock. */
#ifndef SA_PUSH_RECENT_H
#define SA_PUSH_RECENT_H

#include "base/fields.h"

extern MadeType sa_recent_type;

#endif
