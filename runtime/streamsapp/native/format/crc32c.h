/* The checksum of record batches, with Castagnoli's polynomial. Called for each batch that comes or goes; needs no lock
 * once the module is loaded, which makes the table. */
#ifndef SA_FORMAT_CRC32C_H
#define SA_FORMAT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Castagnoli's polynomial, eight bytes at a time. */
void sa_make_crc_table(void);

uint32_t sa_crc32c(const char *data, size_t size);

#endif
