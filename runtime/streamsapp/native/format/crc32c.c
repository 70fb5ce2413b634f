#include "format/crc32c.h"

#include <string.h>

#include "base/byte_order.h"

static uint32_t crc_table[8][256];

void sa_make_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

#if defined(__x86_64__) && !defined(PLAIN_CRC) /* as other processors do it, for tests */
#ifdef __clang__
#define WITH_CRC32 __attribute__((target("sse4.2,crc32")))
#else /* gcc before 11 does not know the second name */
#define WITH_CRC32 __attribute__((target("sse4.2")))
#endif

/* By the processor's own instruction. */
WITH_CRC32 static uint32_t crc32c_by_processor(const char *data, size_t size) {
    uint64_t crc = ~0u, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; size--, data++) crc = __builtin_ia32_crc32qi((uint32_t)crc, (unsigned char)*data);
    return ~(uint32_t)crc;
}
#endif

uint32_t sa_crc32c(const char *data, size_t size) {
#if defined(__x86_64__) && !defined(PLAIN_CRC)
    if (__builtin_cpu_supports("sse4.2")) return crc32c_by_processor(data, size);
#endif
    uint32_t crc = ~0u;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word = le64toh(word) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= crc_table[7 - k][word >> 8 * k & 0xff];
    }
    for (; size; size--, data++) crc = crc >> 8 ^ crc_table[0][(crc ^ (unsigned char)*data) & 0xff];
    return ~crc;
}
