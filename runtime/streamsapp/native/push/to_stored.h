/* Makes values those that a store keeps. Called for each value that is written; with the interpreter's lock. */
#ifndef SA_PUSH_TO_STORED_H
#define SA_PUSH_TO_STORED_H

#include "base/fields.h"

extern MadeType sa_to_stored_type; /* ToStored(*, ...), described in compiled.pyi */

#endif
