/* SPDX-License-Identifier: BSD-2-Clause */
/* Computes one bit of the SipHash-1-3 of each of many keys. A split needs this bit of the keys of a
 * page. With AVX2 the keys are hashed in vector lanes. */
#include "operations/hash/siphash.h"

static uint64_t by_one(const struct ll_siphash_key *key, const uint64_t *words, size_t n,
                       size_t len, unsigned bit)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char bytes[8];
        lladd_put64(bytes, words[i]);
        bits |= (ll_siphash(key, bytes, len) >> bit & 1) << i;
    }
    return bits;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define LANES 4u
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));
typedef double lane_signs __attribute__((vector_size(8 * LANES)));
#define ALL(x) ((lanes){(x), (x), (x), (x)})
#define AVX2 __attribute__((target("avx2")))

/* Two vectors at a time, so that the processor can overlap their instructions. A key of 8 bytes is
 * one word before the tail; a shorter key is part of the tail. */
AVX2 static uint64_t by_eight(const struct ll_siphash_key *key, const uint64_t *words, size_t n,
                              size_t len, unsigned bit)
{
    const lanes start[4] = {ALL(key->k0 ^ LL_SIP_0), ALL(key->k1 ^ LL_SIP_1),
                            ALL(key->k0 ^ LL_SIP_2), ALL(key->k1 ^ LL_SIP_3)};
    const uint64_t tail = (uint64_t)len << 56;
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i += 2 * LANES) {
        lanes v[4] = {start[0], start[1], start[2], start[3]}, m;
        lanes w[4] = {start[0], start[1], start[2], start[3]}, o;
        memcpy(&m, words + i, sizeof m);
        memcpy(&o, words + i + LANES, sizeof o);
        if (len == 8) {
            v[3] ^= m;
            w[3] ^= o;
            LL_SIP_ROUND(v);
            LL_SIP_ROUND(w);
            v[0] ^= m;
            w[0] ^= o;
            m = o = ALL(0);
        }
        m |= ALL(tail);
        o |= ALL(tail);
        v[3] ^= m;
        w[3] ^= o;
        LL_SIP_ROUND(v);
        LL_SIP_ROUND(w);
        v[0] ^= m;
        w[0] ^= o;
        v[2] ^= ALL(0xff);
        w[2] ^= ALL(0xff);
        for (int r = 0; r < 3; r++) {
            LL_SIP_ROUND(v);
            LL_SIP_ROUND(w);
        }
        lanes a = (v[0] ^ v[1] ^ v[2] ^ v[3]) << (63 - bit);
        lanes b = (w[0] ^ w[1] ^ w[2] ^ w[3]) << (63 - bit);
        uint64_t low = (unsigned)__builtin_ia32_movmskpd256((lane_signs)a);
        uint64_t high = (unsigned)__builtin_ia32_movmskpd256((lane_signs)b);
        bits |= (low | high << LANES) << i;
    }
    return n < 64 ? bits & ((UINT64_C(1) << n) - 1) : bits;
}
#endif

uint64_t ll_siphash_bits(const struct ll_siphash_key *key, const uint64_t words[64], size_t n,
                         size_t len, unsigned bit)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2"))
        return by_eight(key, words, n, len, bit);
#endif
    return by_one(key, words, n, len, bit);
}
