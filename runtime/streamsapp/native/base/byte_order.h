/* Numbers in a given order of their bytes: <endian.h> where there is one, and macOS's own calls. */
#ifndef SA_BASE_BYTE_ORDER_H
#define SA_BASE_BYTE_ORDER_H

#ifdef __APPLE__
#include <libkern/OSByteOrder.h>

#define htobe32(number) OSSwapHostToBigInt32(number)
#define htobe64(number) OSSwapHostToBigInt64(number)
#define be64toh(number) OSSwapBigToHostInt64(number)
#define le32toh(number) OSSwapLittleToHostInt32(number)
#define le64toh(number) OSSwapLittleToHostInt64(number)
#else
#include <endian.h>
#endif

#endif
