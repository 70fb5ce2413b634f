/* The records of one partition that a broker has sent together, as whole record batches (KIP-98). Used by the thread
 * that fetches, with the interpreter's lock. */
#ifndef SA_FETCH_CHUNK_H
#define SA_FETCH_CHUNK_H

#include "base/fields.h"

extern MadeType sa_chunk_type;

#endif
