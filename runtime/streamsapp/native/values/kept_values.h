/* Reads and writes the values of a store. Those that it reads again it keeps as objects, and gives copies of them: a
 * copy takes a tenth of the time in which the bytes are read. Called for each look-up; with the interpreter's lock. */
#ifndef SA_VALUES_KEPT_VALUES_H
#define SA_VALUES_KEPT_VALUES_H

#include "base/fields.h"

extern MadeType sa_kept_values_type; /* KeptValues(*, writer), described in compiled.pyi */

#endif
