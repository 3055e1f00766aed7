/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BYTES_H
#define LLADD_BYTES_H
/**
 * @file
 * @brief Little-endian fields at any address, for reading and writing stored bytes.
 * @ingroup util
 */
#include <lladd/types.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LLADD_LE16(v) __builtin_bswap16(v)
#define LLADD_LE32(v) __builtin_bswap32(v)
#define LLADD_LE64(v) __builtin_bswap64(v)
#else
#define LLADD_LE16(v) (v)
#define LLADD_LE32(v) (v)
#define LLADD_LE64(v) (v)
#endif

/** Reads a little-endian u16 at any address. */
static inline uint16_t lladd_get16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE16(v);
}
/** Reads a little-endian u32 at any address. */
static inline uint32_t lladd_get32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE32(v);
}
/** Reads a little-endian u64 at any address. */
static inline uint64_t lladd_get64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE64(v);
}
/** Reads a little-endian integer of 6 bytes at any address. */
static inline uint64_t lladd_get48(const void *p)
{
    return (uint64_t)lladd_get32(p) | ((uint64_t)lladd_get16((const unsigned char *)p + 4) << 32);
}
/** Writes a little-endian u16 at any address. */
static inline void lladd_put16(void *p, uint16_t v)
{
    v = LLADD_LE16(v);
    memcpy(p, &v, sizeof v);
}
/** Writes a little-endian u32 at any address. */
static inline void lladd_put32(void *p, uint32_t v)
{
    v = LLADD_LE32(v);
    memcpy(p, &v, sizeof v);
}
/** Writes a little-endian u64 at any address. */
static inline void lladd_put64(void *p, uint64_t v)
{
    v = LLADD_LE64(v);
    memcpy(p, &v, sizeof v);
}
/** Writes the low 48 bits of v, little-endian, in 6 bytes at any address. */
static inline void lladd_put48(void *p, uint64_t v)
{
    lladd_put32(p, (uint32_t)v);
    lladd_put16((unsigned char *)p + 4, (uint16_t)(v >> 32));
}

/** Returns the n bytes (1 to 7) at `bytes` as a little-endian integer; reads no other byte. */
static inline uint64_t lladd_get_few(const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (n >= 4)
        return lladd_get32(p) | (uint64_t)lladd_get32(p + n - 4) << (8 * (n - 4));
    return p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

/** memcpy for lengths that are mostly small: up to 32 bytes without a call. */
static inline void lladd_copy(void *to, const void *from, size_t n)
{
    unsigned char *t = (unsigned char *)to;
    const unsigned char *f = (const unsigned char *)from;
    if (n > 32) {
        memcpy(t, f, n);
    } else if (n > 16) {
        uint64_t a = lladd_get64(f), b = lladd_get64(f + 8);
        uint64_t c = lladd_get64(f + n - 16), d = lladd_get64(f + n - 8);
        lladd_put64(t, a);
        lladd_put64(t + 8, b);
        lladd_put64(t + n - 16, c);
        lladd_put64(t + n - 8, d);
    } else if (n >= 8) { /* one word from each end; the two may overlap */
        uint64_t a = lladd_get64(f), b = lladd_get64(f + n - 8);
        lladd_put64(t, a);
        lladd_put64(t + n - 8, b);
    } else if (n >= 4) {
        uint32_t a = lladd_get32(f), b = lladd_get32(f + n - 4);
        lladd_put32(t, a);
        lladd_put32(t + n - 4, b);
    } else if (n > 0) {
        unsigned char a = f[0], b = f[n / 2], c = f[n - 1];
        t[0] = a;
        t[n / 2] = b;
        t[n - 1] = c;
    }
}

/** Returns the CRC-32C of n bytes, continued from `seed`: 0, or the checksum of the bytes that
 *  precede these. */
LLADD_API uint32_t lladd_crc32c(uint32_t seed, const void *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
