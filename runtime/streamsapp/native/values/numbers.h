/* Serializers and deserializers of whole numbers. They leave all else, errors too, to the function in Python that they
 * hold. Called for each number that is written or read; with the interpreter's lock. */
#ifndef SA_VALUES_NUMBERS_H
#define SA_VALUES_NUMBERS_H

#include "base/fields.h"

/* NumberWriter(*, size, otherwise) and NumberReader(*, size, otherwise), described in compiled.pyi. */
extern MadeType sa_number_writer_type, sa_number_reader_type;

#endif
