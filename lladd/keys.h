/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_KEYS_H
#define LLADD_KEYS_H
/**
 * @file
 * @brief Keys with bytes that compare like the values they encode.
 *
 * Ordered structures (lladd/btree.h) compare keys byte by byte. These functions encode numbers,
 * strings and tuples of them such that the bytes have the order of the values:
 *
 *     unsigned char bytes[64];
 *     struct lladd_key k = lladd_key_into(bytes, sizeof bytes);
 *     lladd_key_u32(&k, year);
 *     lladd_key_string(&k, name, name_len);
 *     size_t at = k.len;
 *     lladd_key_double(&k, price);
 *     lladd_key_descend(&k, at);              from `at` on: the highest price first
 *     if (!lladd_key_fits(&k)) ...            the buffer was too short
 *     lladd_btree_put(txn, tree, bytes, k.len, value, value_len);
 *
 * A tuple is its components one after the other. Two tuples have the order of the first components
 * in which they differ. All tuples of a structure must have components of the same kinds in the
 * same order; a tuple with fewer components is a prefix, and comes before all tuples that begin
 * with it.
 *
 * The readers decode in the same order. They return false if the bytes are too short or are not a
 * component of that kind; then the reader has not moved.
 *
 * All functions are in this header, and need no library. The bytes do not depend on the machine.
 * @ingroup operations
 */
#include <lladd/types.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A key that is being built. */
struct lladd_key {
    unsigned char *bytes;
    size_t size; /**< size of the buffer */
    size_t len;  /**< length of the key so far; more than `size` if the buffer is too short */
};

/** A key that is being read. */
struct lladd_key_reader {
    const unsigned char *bytes;
    size_t len;
    size_t at; /**< where the next component begins */
    /** @cond */
    unsigned char flip_; /* 0xff while a descending component is read */
    /** @endcond */
};

/** Returns an empty key in this buffer. */
static inline struct lladd_key lladd_key_into(void *buf, size_t size)
{
    struct lladd_key k = {(unsigned char *)buf, size, 0};
    return k;
}
/** Returns true if the buffer was long enough for all components. */
static inline bool lladd_key_fits(const struct lladd_key *k)
{
    return k->len <= k->size;
}

/** Appends bytes as they are. They compare byte by byte. Use it only for a component of fixed
 *  length, or for the last component of a key that is not made descending. */
static inline void lladd_key_bytes(struct lladd_key *k, const void *bytes, size_t len)
{
    if (k->len <= k->size && len <= k->size - k->len && len > 0)
        memcpy(k->bytes + k->len, bytes, len);
    k->len = len <= SIZE_MAX - k->len ? k->len + len : SIZE_MAX;
}

/** @cond */
static inline void lladd_key_number_(struct lladd_key *k, uint64_t v, unsigned len)
{
    unsigned char b[8];
    for (unsigned i = 0; i < len; i++)
        b[i] = (unsigned char)(v >> (8 * (len - 1 - i)));
    lladd_key_bytes(k, b, len);
}
/** @endcond */

/** Appends an unsigned number of 1 byte. */
static inline void lladd_key_u8(struct lladd_key *k, uint8_t v)
{
    lladd_key_number_(k, v, 1);
}
/** Appends an unsigned number of 2 bytes. */
static inline void lladd_key_u16(struct lladd_key *k, uint16_t v)
{
    lladd_key_number_(k, v, 2);
}
/** Appends an unsigned number of 4 bytes. */
static inline void lladd_key_u32(struct lladd_key *k, uint32_t v)
{
    lladd_key_number_(k, v, 4);
}
/** Appends an unsigned number of 8 bytes. */
static inline void lladd_key_u64(struct lladd_key *k, uint64_t v)
{
    lladd_key_number_(k, v, 8);
}
/** Appends a signed number of 4 bytes, with its sign bit inverted. */
static inline void lladd_key_i32(struct lladd_key *k, int32_t v)
{
    lladd_key_number_(k, (uint32_t)v ^ UINT32_C(1) << 31, 4);
}
/** Appends a signed number of 8 bytes, with its sign bit inverted. */
static inline void lladd_key_i64(struct lladd_key *k, int64_t v)
{
    lladd_key_number_(k, (uint64_t)v ^ UINT64_C(1) << 63, 8);
}
/** Appends a number in 8 bytes. -0.0 has the bytes of 0.0; every NaN has the same bytes, and comes
 *  after all numbers. */
static inline void lladd_key_double(struct lladd_key *k, double v)
{
    uint64_t bits;
    if (v != v)
        bits = UINT64_C(0x7ff8000000000000);
    else if (v == 0)
        bits = 0;
    else
        memcpy(&bits, &v, sizeof bits);
    bits ^= bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63;
    lladd_key_number_(k, bits, 8);
}
/** Appends a string of any bytes and any length, with an end mark, so that other components may
 *  follow: 0 is written as 0, 255; the end as 0, 1. */
static inline void lladd_key_string(struct lladd_key *k, const void *bytes, size_t len)
{
    static const unsigned char zero[2] = {0, 255}, end[2] = {0, 1};
    const unsigned char *p = (const unsigned char *)bytes;
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i])
            continue;
        lladd_key_bytes(k, p + from, i - from);
        lladd_key_bytes(k, zero, sizeof zero);
        from = i + 1;
    }
    if (from < len)
        lladd_key_bytes(k, p + from, len - from);
    lladd_key_bytes(k, end, sizeof end);
}
/** Makes the components from byte `at` on descending, by inverting their bytes: larger values come
 *  first. Do not use it for components of lladd_key_bytes with different lengths. */
static inline void lladd_key_descend(struct lladd_key *k, size_t at)
{
    for (size_t i = at; i < k->len && i < k->size; i++)
        k->bytes[i] ^= 0xff;
}

/** Returns a reader of these bytes. */
static inline struct lladd_key_reader lladd_key_from(const void *bytes, size_t len)
{
    struct lladd_key_reader r = {(const unsigned char *)bytes, len, 0, 0};
    return r;
}
/** States whether the next components to be read are descending ones (lladd_key_descend). */
static inline void lladd_key_read_descending(struct lladd_key_reader *r, bool descending)
{
    r->flip_ = descending ? 0xff : 0;
}

/** @cond */
static inline bool lladd_key_read_(struct lladd_key_reader *r, unsigned len, uint64_t *out)
{
    uint64_t v = 0;
    if (r->at > r->len || r->len - r->at < len)
        return false;
    for (unsigned i = 0; i < len; i++)
        v = v << 8 | (unsigned)(r->bytes[r->at + i] ^ r->flip_);
    r->at += len;
    *out = v;
    return true;
}
/** @endcond */

/** Reads an unsigned number of 1 byte. */
static inline bool lladd_key_read_u8(struct lladd_key_reader *r, uint8_t *out)
{
    uint64_t v;
    bool fine = lladd_key_read_(r, 1, &v);
    *out = fine ? (uint8_t)v : 0;
    return fine;
}
/** Reads an unsigned number of 2 bytes. */
static inline bool lladd_key_read_u16(struct lladd_key_reader *r, uint16_t *out)
{
    uint64_t v;
    bool fine = lladd_key_read_(r, 2, &v);
    *out = fine ? (uint16_t)v : 0;
    return fine;
}
/** Reads an unsigned number of 4 bytes. */
static inline bool lladd_key_read_u32(struct lladd_key_reader *r, uint32_t *out)
{
    uint64_t v;
    bool fine = lladd_key_read_(r, 4, &v);
    *out = fine ? (uint32_t)v : 0;
    return fine;
}
/** Reads an unsigned number of 8 bytes. */
static inline bool lladd_key_read_u64(struct lladd_key_reader *r, uint64_t *out)
{
    uint64_t v;
    bool fine = lladd_key_read_(r, 8, &v);
    *out = fine ? v : 0;
    return fine;
}
/** Reads a signed number of 4 bytes. */
static inline bool lladd_key_read_i32(struct lladd_key_reader *r, int32_t *out)
{
    uint32_t v;
    bool fine = lladd_key_read_u32(r, &v);
    v ^= UINT32_C(1) << 31;
    *out = v >> 31 ? -(int32_t)~v - 1 : (int32_t)v;
    return fine;
}
/** Reads a signed number of 8 bytes. */
static inline bool lladd_key_read_i64(struct lladd_key_reader *r, int64_t *out)
{
    uint64_t v;
    bool fine = lladd_key_read_u64(r, &v);
    v ^= UINT64_C(1) << 63;
    *out = v >> 63 ? -(int64_t)~v - 1 : (int64_t)v;
    return fine;
}
/** Reads a number that lladd_key_double has written. */
static inline bool lladd_key_read_double(struct lladd_key_reader *r, double *out)
{
    uint64_t bits;
    bool fine = lladd_key_read_u64(r, &bits);
    bits ^= bits >> 63 ? UINT64_C(1) << 63 : UINT64_MAX;
    memcpy(out, &bits, sizeof *out);
    return fine;
}
/** Reads a string. *len gets its length, `buf` as much of it as `size` allows. */
static inline bool lladd_key_read_string(struct lladd_key_reader *r, void *buf, size_t size,
                                         size_t *len)
{
    unsigned char *to = (unsigned char *)buf;
    size_t n = 0;
    for (size_t i = r->at; i < r->len; i++) {
        unsigned char c = r->bytes[i] ^ r->flip_;
        if (c == 0) {
            if (++i == r->len)
                return false;
            unsigned char mark = r->bytes[i] ^ r->flip_;
            if (mark == 1) {
                r->at = i + 1;
                *len = n;
                return true;
            }
            if (mark != 255)
                return false;
        }
        if (n < size)
            to[n] = c;
        n++;
    }
    return false;
}

#ifdef __cplusplus
}
#endif
#endif
