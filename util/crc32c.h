/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_CRC32C_H
#define LL_UTIL_CRC32C_H
/* CRC-32C (Castagnoli), the checksum of records, pages and control blocks. */
#include <stddef.h>
#include <stdint.h>

/* The checksum of n bytes, continued from `seed`. `seed` is 0 or the checksum of the preceding
 * bytes: crc(crc(0, a), b) is the checksum of a followed by b. "123456789" gives 0xe3069283. */
uint32_t ll_crc32c(uint32_t seed, const void *p, size_t n);

/* As ll_crc32c, without special instructions: for processors that have none, and the reference for
 * tests. */
uint32_t ll_crc32c_portable(uint32_t seed, const void *p, size_t n);

/* The checksum of 12 bytes, the little-endian `word` and `next`, followed by the n bytes at p; n is
 * a multiple of 8. For a log record in which the LSN is not stored yet. */
uint32_t ll_crc32c_split(uint32_t seed, uint32_t word, uint64_t next, const void *p, size_t n);

/* Does ll_crc32c use special instructions on this machine? For reports and tests. */
int ll_crc32c_is_hardware(void);

#endif
