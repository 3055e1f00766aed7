/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32C, with special instructions of the processor if it has them.
 *
 * Portable: eight bytes per step through eight tables ("slicing by 8", Kounavis and Berry 2005).
 *
 * x86-64: the crc32 instruction processes 8 bytes. The instruction takes three cycles, but the
 * processor can start one in each cycle. A single chain, in which each instruction waits for the
 * previous one, would run at a third of the possible speed. The bytes are therefore divided into
 * three lanes of equal length that run in parallel, and the CRCs of the lanes are combined at the
 * end (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel
 * 2011).
 *
 * Combining. If n words follow a lane, the lane's CRC is multiplied by x^(64n) modulo the
 * polynomial and XORed with the CRC of these words. The carry-less product of two reflected 32-bit
 * values is a 64-bit value that stands for their product times x. The crc32 instruction multiplies
 * its operand by x^32 and reduces it. The factor in the table is therefore x^(64n - 33). The
 * reduction needs no additional instruction: the products are XORed into the last word of the third
 * lane. The table has a factor for every number of words up to 2 * CRC32C_LANE_WORDS_MAX, so that
 * short records can use lanes, too.
 *
 * ARMv8: the crc32cx instruction, one chain.
 *
 * The start-up code of the compiler (x86) or of the C library (ARM) determines the features of the
 * processor before any code of this library runs, so this file needs no variable and no
 * initialisation.
 */
#include "util/crc32c.h"

#include "util/crc32c_tables.h"

#include <lladd/bytes.h>

uint32_t ll_crc32c_portable(uint32_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = ~seed;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word = lladd_get64(p) ^ crc;
        crc = crc32c_slices[7][word & 0xff] ^ crc32c_slices[6][word >> 8 & 0xff] ^
              crc32c_slices[5][word >> 16 & 0xff] ^ crc32c_slices[4][word >> 24 & 0xff] ^
              crc32c_slices[3][word >> 32 & 0xff] ^ crc32c_slices[2][word >> 40 & 0xff] ^
              crc32c_slices[1][word >> 48 & 0xff] ^ crc32c_slices[0][word >> 56];
    }
    for (; n > 0; n--, p++)
        crc = crc >> 8 ^ crc32c_slices[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define HARDWARE __attribute__((target("sse4.2,pclmul")))

/* From this number of words on, three lanes save more than combining them costs. */
#define LANES_FROM_WORDS 9u

static inline int have_hardware(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* Returns the product of `crc` and the factor for `words` words, not reduced. */
HARDWARE static inline uint64_t carry(uint64_t crc, size_t words)
{
    __m128i a = _mm_cvtsi64_si128((long long)crc);
    __m128i k = _mm_cvtsi32_si128((int)crc32c_carry[words]);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, k, 0));
}

HARDWARE static uint64_t three_lanes(uint64_t crc, const unsigned char *p, size_t words)
{
    const unsigned char *q = p + 8 * words;
    const unsigned char *r = q + 8 * words;
    uint64_t crc1 = 0, crc2 = 0;
    for (const unsigned char *last = q - 8; p < last; p += 8, q += 8, r += 8) {
        crc = _mm_crc32_u64(crc, lladd_get64(p));
        crc1 = _mm_crc32_u64(crc1, lladd_get64(q));
        crc2 = _mm_crc32_u64(crc2, lladd_get64(r));
    }
    crc = _mm_crc32_u64(crc, lladd_get64(p));
    crc1 = _mm_crc32_u64(crc1, lladd_get64(q));
    uint64_t carried = carry(crc, 2 * words) ^ carry(crc1, words);
    return _mm_crc32_u64(crc2, lladd_get64(r) ^ carried);
}

HARDWARE static uint32_t hardware(uint32_t seed, const unsigned char *p, size_t n)
{
    uint64_t crc = ~seed;
    while (n >= 8 * LANES_FROM_WORDS) {
        size_t words = n / 24;
        if (words > CRC32C_LANE_WORDS_MAX)
            words = CRC32C_LANE_WORDS_MAX;
        crc = three_lanes(crc, p, words);
        p += 24 * words;
        n -= 24 * words;
    }
    for (; n >= 8; n -= 8, p += 8)
        crc = _mm_crc32_u64(crc, lladd_get64(p));
    if (n & 4) {
        crc = _mm_crc32_u32((uint32_t)crc, lladd_get32(p));
        p += 4;
    }
    if (n & 2) {
        crc = _mm_crc32_u16((uint32_t)crc, lladd_get16(p));
        p += 2;
    }
    if (n & 1)
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}

HARDWARE static uint32_t hardware_split(uint32_t seed, uint32_t word, uint64_t next,
                                        const unsigned char *p, size_t n)
{
    uint64_t crc = _mm_crc32_u64(_mm_crc32_u32(~seed, word), next);
    if (n >= 8 * LANES_FROM_WORDS)
        return hardware(~(uint32_t)crc, p, n);
    for (const unsigned char *end = p + n; p < end; p += 8)
        crc = _mm_crc32_u64(crc, lladd_get64(p));
    return ~(uint32_t)crc;
}
#define HAVE_SPLIT 1

#elif defined(__aarch64__)
#include <sys/auxv.h>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

static inline int have_hardware(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

/* Inline assembly: compilers have different names for the intrinsics, and not every compiler allows
 * these instructions for one function only. */
static inline uint32_t crc_word(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t crc_byte(uint32_t crc, uint32_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}

static uint32_t hardware(uint32_t seed, const unsigned char *p, size_t n)
{
    uint32_t crc = ~seed;
    for (; n >= 8; n -= 8, p += 8)
        crc = crc_word(crc, lladd_get64(p));
    for (; n > 0; n--, p++)
        crc = crc_byte(crc, *p);
    return ~crc;
}

#else

static inline int have_hardware(void)
{
    return 0;
}

static uint32_t hardware(uint32_t seed, const unsigned char *p, size_t n)
{
    return ll_crc32c_portable(seed, p, n);
}

#endif

uint32_t ll_crc32c(uint32_t seed, const void *p, size_t n)
{
    return have_hardware() ? hardware(seed, p, n) : ll_crc32c_portable(seed, p, n);
}

uint32_t lladd_crc32c(uint32_t seed, const void *bytes, size_t n)
{
    return ll_crc32c(seed, bytes, n);
}

uint32_t ll_crc32c_split(uint32_t seed, uint32_t word, uint64_t next, const void *p, size_t n)
{
#ifdef HAVE_SPLIT
    if (have_hardware())
        return hardware_split(seed, word, next, p, n);
#endif
    unsigned char head[12];
    lladd_put32(head, word);
    lladd_put64(head + 4, next);
    return ll_crc32c(ll_crc32c(seed, head, sizeof head), p, n);
}

int ll_crc32c_is_hardware(void)
{
    return have_hardware();
}
