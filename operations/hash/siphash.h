/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HASH_SIPHASH_H
#define LL_OPERATIONS_HASH_SIPHASH_H
/* SipHash (Aumasson, Bernstein 2012): a keyed 64-bit hash. Without the key an adversary cannot
 * choose inputs that collide. docs/decisions/siphash.md says why it is implemented here, and why
 * with 1 and 3 rounds (SipHash-1-3). */
#include <lladd/bytes.h>

struct ll_siphash_key {
    uint64_t k0, k1;
};

static inline struct ll_siphash_key ll_siphash_key_of(const unsigned char seed[16])
{
    struct ll_siphash_key k = {lladd_get64(seed), lladd_get64(seed + 8)};
    return k;
}

/* "somepseudorandomlygeneratedbytes" */
#define LL_SIP_0 UINT64_C(0x736f6d6570736575)
#define LL_SIP_1 UINT64_C(0x646f72616e646f6d)
#define LL_SIP_2 UINT64_C(0x6c7967656e657261)
#define LL_SIP_3 UINT64_C(0x7465646279746573)
#define LL_SIP_ROTATE(x, b) ((x) << (b) | (x) >> (64 - (b)))
#define LL_SIP_ROUND(v) \
    do { \
        (v)[0] += (v)[1]; \
        (v)[2] += (v)[3]; \
        (v)[1] = LL_SIP_ROTATE((v)[1], 13) ^ (v)[0]; \
        (v)[3] = LL_SIP_ROTATE((v)[3], 16) ^ (v)[2]; \
        (v)[0] = LL_SIP_ROTATE((v)[0], 32) + (v)[3]; \
        (v)[2] += (v)[1]; \
        (v)[3] = LL_SIP_ROTATE((v)[3], 21) ^ (v)[0]; \
        (v)[1] = LL_SIP_ROTATE((v)[1], 17) ^ (v)[2]; \
        (v)[2] = LL_SIP_ROTATE((v)[2], 32); \
    } while (0)

/* SipHash-c-d: c rounds for each word, d at the end. */
static inline __attribute__((always_inline)) uint64_t
ll_siphash_rounds(const struct ll_siphash_key *key, const void *bytes, size_t len, int c, int d)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t v[4] = {key->k0 ^ LL_SIP_0, key->k1 ^ LL_SIP_1, key->k0 ^ LL_SIP_2,
                     key->k1 ^ LL_SIP_3};
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t m = lladd_get64(p);
        v[3] ^= m;
        for (int i = 0; i < c; i++)
            LL_SIP_ROUND(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)len << 56 | (left ? lladd_get_few(p, left) : 0);
    v[3] ^= last;
    for (int i = 0; i < c; i++)
        LL_SIP_ROUND(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < d; i++)
        LL_SIP_ROUND(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* SipHash-1-3 for any length, as a call. */
static __attribute__((noinline, unused)) uint64_t ll_siphash_any(const struct ll_siphash_key *key,
                                                                 const void *bytes, size_t len)
{
    return ll_siphash_rounds(key, bytes, len, 1, 3);
}
/* Inlined for keys of 4 and 8 bytes, so that the compiler unrolls the loop. */
static inline __attribute__((always_inline)) uint64_t
ll_siphash(const struct ll_siphash_key *key, const void *bytes, size_t len)
{
    return len == 8   ? ll_siphash_rounds(key, bytes, 8, 1, 3)
           : len == 4 ? ll_siphash_rounds(key, bytes, 4, 1, 3)
                      : ll_siphash_any(key, bytes, len);
}

/* Hashes n <= 64 keys of `len` <= 8 bytes, given as numbers (lladd_get64, lladd_get_few). Bit i of
 * the result is bit `bit` of the hash of key i. May read all 64 words. siphash_bits.c */
uint64_t ll_siphash_bits(const struct ll_siphash_key *, const uint64_t words[64], size_t n,
                         size_t len, unsigned bit);

#endif
