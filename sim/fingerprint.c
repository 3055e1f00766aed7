/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fingerprint: hashes of states, used to find equal states.
 *
 * A set keeps 63 bits of each hash. Among 10^8 states, the probability is about 1 in 2000 that two
 * different states have the same hash. One of the two is then skipped.
 *
 * The hash of a file is a sum over its words. A write therefore needs only the words that it
 * changes to update the sum. Zeros add nothing, whether they were written or not.
 */
#include "sim/sim_private.h"

#include <stdlib.h>

#define K0 UINT64_C(0xa0761d6478bd642f)
#define K1 UINT64_C(0xe7037ed1a0b428db)
#define K2 UINT64_C(0x8ebc6af09c88c6e3)

/* Reads up to 8 bytes as a word. */
static uint64_t word_of(const unsigned char *p, size_t len)
{
    uint64_t w = 0;
    memcpy(&w, p, len < sizeof w ? len : sizeof w);
    return w;
}

/* Long inputs are hashed in stripes of eight words. Each of the eight columns has its own sum, so
 * that the compiler can vectorize. 32-bit multiplications are sufficient, because every sum is
 * folded at the end. */
enum { LANES = 8, STRIPE = LANES * 8 };

static uint64_t hash_stripes(const unsigned char *p, size_t n)
{
    uint64_t sum[LANES] = {K0, K1, K2, ~K0, ~K1, ~K2, K0 ^ K1, K1 ^ K2};
    uint64_t key = K2;
    for (; n > 0; n--, p += STRIPE, key += K0) {
        uint64_t word[LANES];
        memcpy(word, p, sizeof word);
        if (!(word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7]))
            continue; /* A stripe of zeros adds nothing; much of the input is zeros. */
        for (int i = 0; i < LANES; i++) {
            uint64_t v = word[i] ^ (key + (uint64_t)i * K1);
            sum[i] += (uint64_t)(uint32_t)v * (v >> 32) + (word[i] << 32 | word[i] >> 32);
        }
    }
    uint64_t h = K1;
    for (int i = 0; i < LANES; i++)
        h = ll_sim_mix(h, sum[i]);
    return h;
}

uint64_t ll_sim_hash(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t a = K0 ^ len, b = K1;
    if (len >= 2 * STRIPE) {
        b ^= hash_stripes(p, len / STRIPE);
        p += len / STRIPE * STRIPE;
        len %= STRIPE;
    }
    for (; len >= 16; p += 16, len -= 16) {
        a = ll_sim_fold(a ^ word_of(p, 8), K2) + b;
        b = ll_sim_fold(b ^ word_of(p + 8, 8), K1) ^ a;
    }
    if (len > 8) {
        a = ll_sim_fold(a ^ word_of(p, 8), K2) + b;
        p += 8;
        len -= 8;
    }
    if (len > 0)
        b = ll_sim_fold(b ^ word_of(p, len), K1) ^ a;
    return ll_sim_fold(a ^ K2, b ^ K0);
}

uint64_t ll_sim_hash_at(const unsigned char *bytes, size_t len, uint64_t off)
{
    uint64_t sum = 0;
    for (uint64_t place = off / 8 + 1; len >= 8; bytes += 8, len -= 8, place++)
        sum += ll_sim_fold(word_of(bytes, 8), place * K0 | 1);
    return sum;
}

/* ---- sets -------------------------------------------------------------------------------- */

static int set_enlarge(struct ll_sim_set *s)
{
    size_t size = s->size ? 2 * s->size : 1 << 12;
    uint64_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return LLADD_NO_MEMORY;
    for (size_t i = 0; i < s->size; i++) {
        size_t at = (s->slots[i] >> 8) & (size - 1);
        while (s->slots[i] && slots[at])
            at = (at + 1) & (size - 1);
        if (s->slots[i])
            slots[at] = s->slots[i];
    }
    free(s->slots);
    s->slots = slots;
    s->size = size;
    return 0;
}

int ll_sim_set_put(struct ll_sim_set *s, uint64_t hash)
{
    if (2 * s->count >= s->size) {
        int rc = set_enlarge(s);
        if (rc)
            return rc;
    }
    hash = ll_sim_fold(hash ^ K1, K2) | 1; /* 0 marks an empty slot */
    size_t at = (hash >> 8) & (s->size - 1);
    while (s->slots[at] && s->slots[at] != hash)
        at = (at + 1) & (s->size - 1);
    if (s->slots[at])
        return 1;
    s->slots[at] = hash;
    s->count++;
    return 0;
}

void ll_sim_set_free(struct ll_sim_set *s)
{
    free(s->slots);
    memset(s, 0, sizeof *s);
}
