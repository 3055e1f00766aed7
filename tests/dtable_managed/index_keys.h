/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_MANAGED_INDEX_KEYS_H
#define TESTS_DTABLE_MANAGED_INDEX_KEYS_H
/*
 * Keys for the tests of the index of a memtable. The keys of each family begin alike in another
 * way.
 */
#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>
#include <string.h>

enum family {
    WEATHER,  /* longitude, latitude and time of stations: twelve bytes */
    TEXT,     /* a long word, then decimal digits */
    LETTERS,  /* up to twelve letters of two: many keys are the beginning of others */
    LONG,     /* 300 equal bytes, then a number */
    STRANGERS, /* as TEXT, but some begin otherwise, and each of these shares less */
    FAMILIES
};

enum { KEY_MOST = 320 };

struct test_key {
    size_t len;
    unsigned char bytes[KEY_MOST];
};

static inline uint32_t scattered_bits(uint32_t i)
{
    i = (i ^ i >> 16) * 0x45d9f3bu;
    i = (i ^ i >> 16) * 0x45d9f3bu;
    return i ^ i >> 16;
}

static inline void put_digits(struct test_key *k, const char *word, uint32_t number)
{
    k->len = strlen(word);
    memcpy(k->bytes, word, k->len);
    for (uint32_t by = 1000000000; by; by /= 10)
        k->bytes[k->len++] = (unsigned char)('0' + number / by % 10);
}

static inline void put_number(struct test_key *k, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        k->bytes[k->len++] = (unsigned char)(number >> shift);
}

/* Makes key number i. In the family LETTERS different numbers may give equal keys. */
static inline struct lladd_dtable_key make_key(enum family family, uint32_t i, struct test_key *k)
{
    static const char word[] = "customers/europe/";
    uint32_t bits = scattered_bits(i);
    k->len = 0;
    if (family == WEATHER) {
        put_number(k, 71 * (i / 100));
        put_number(k, scattered_bits(i / 100) % 18000);
        put_number(k, 1178000000u + i % 100 * 3600);
    } else if (family == LETTERS) {
        for (uint32_t n = bits >> 12; k->len < bits % 13; n /= 2)
            k->bytes[k->len++] = n % 2 ? 'a' : 0;
    } else if (family == LONG) {
        memset(k->bytes, 'x', 300);
        k->len = 300;
        put_number(k, bits);
    } else if (family == STRANGERS && i % 61 == 60) {
        uint32_t left = i / 61 % sizeof word;
        put_digits(k, word, i);
        k->len = sizeof word - left; /* at least one byte */
        k->bytes[k->len - 1] = i / 61 % 2 ? 0xff : 1;
    } else {
        put_digits(k, word, i);
    }
    return lladd_dtable_bytes(k->bytes, k->len);
}

#endif
