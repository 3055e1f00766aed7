/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BYTES_H
#define LLADD_BYTES_H
/**
 * @file
 * @brief Little-endian fields at any address: how operations read and write stored bytes.
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

static inline uint16_t lladd_get16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE16(v);
}
static inline uint32_t lladd_get32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE32(v);
}
static inline uint64_t lladd_get64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return LLADD_LE64(v);
}
static inline uint64_t lladd_get48(const void *p)
{
    return (uint64_t)lladd_get32(p) | ((uint64_t)lladd_get16((const unsigned char *)p + 4) << 32);
}
static inline void lladd_put16(void *p, uint16_t v)
{
    v = LLADD_LE16(v);
    memcpy(p, &v, sizeof v);
}
static inline void lladd_put32(void *p, uint32_t v)
{
    v = LLADD_LE32(v);
    memcpy(p, &v, sizeof v);
}
static inline void lladd_put64(void *p, uint64_t v)
{
    v = LLADD_LE64(v);
    memcpy(p, &v, sizeof v);
}
static inline void lladd_put48(void *p, uint64_t v)
{
    lladd_put32(p, (uint32_t)v);
    lladd_put16((unsigned char *)p + 4, (uint16_t)(v >> 32));
}

#ifdef __cplusplus
}
#endif
#endif
