/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys: which are valid, and their order.
 *
 * All numbers are compared as unsigned integers. A double is stored as such an integer: the bits of
 * its binary64 form with the sign bit inverted or, if the sign bit is set, with all bits inverted.
 * The order of these integers is the order of the doubles, from -infinity (0x000fffffffffffff) to
 * +infinity (0xfff0000000000000). Integers outside this range are NaN. */
#include "operations/dtables/core/dtable.h"

#define MINUS_INFINITY UINT64_C(0x000fffffffffffff)
#define PLUS_INFINITY UINT64_C(0xfff0000000000000)
#define SIGN (UINT64_C(1) << 63)

struct lladd_dtable_key lladd_dtable_string(const char *text)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_STRING, 0, {text, strlen(text)}};
    return k;
}

struct lladd_dtable_key lladd_dtable_double(double v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_DOUBLE, 0, {NULL, 0}};
    uint64_t bits;
    if (v == 0)
        v = 0; /* -0.0 becomes 0.0 */
    memcpy(&bits, &v, sizeof bits);
    if (v != v)
        bits = ~SIGN; /* one number for all NaNs, which lladd_dtable_check_key refuses */
    k.number = bits & SIGN ? ~bits : bits | SIGN;
    return k;
}

double lladd_dtable_as_double(const struct lladd_dtable_key *key)
{
    uint64_t bits = key->number & SIGN ? key->number & ~SIGN : ~key->number;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

const char *lladd_dtable_type_name(enum lladd_dtable_type type)
{
    static const char *const names[] = {NULL, "u32", "u64", "double", "string", "bytes"};
    return (size_t)type < sizeof names / sizeof names[0] ? names[type] : NULL;
}

int lladd_dtable_check_key(const struct lladd_dtable_order *order,
                           const struct lladd_dtable_key *key, struct lladd_error *err)
{
    if (key->type != order->type) {
        const char *name = lladd_dtable_type_name(key->type);
        return lladd_error_set(err, LLADD_WRONG_TYPE,
                               "a key of type %s: the table's keys are of type %s",
                               name ? name : "unknown", lladd_dtable_type_name(order->type));
    }
    if (key->type == LLADD_DTABLE_U32 && key->number > UINT32_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a u32 key of %llu",
                               (unsigned long long)key->number);
    if (key->type == LLADD_DTABLE_DOUBLE &&
        (key->number < MINUS_INFINITY || key->number > PLUS_INFINITY))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a key that is not a number (NaN)");
    if (key->type == LLADD_DTABLE_DOUBLE && key->number == SIGN - 1)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "-0.0 is not a key: use lladd_dtable_double");
    if (key->type < LLADD_DTABLE_STRING)
        return 0;
    if (key->bytes.len > LLADD_DTABLE_KEY_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a key of %zu bytes; %u are possible",
                               key->bytes.len, LLADD_DTABLE_KEY_MAX);
    if (key->type == LLADD_DTABLE_STRING && key->bytes.len &&
        memchr(key->bytes.data, 0, key->bytes.len))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a string key with a zero byte");
    return 0;
}

int lladd_dtable_compare_bytes(const struct lladd_dtable_order *order, struct lladd_span a,
                               struct lladd_span b)
{
    if (order->comparator)
        return order->comparator->compare(order->comparator->ctx, a, b);
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

/* Multiplies and folds: every bit of the result depends on all bits of `h`. */
static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xe9846af9b1a615d);
    h ^= h >> 32;
    h *= UINT64_C(0xe9846af9b1a615d);
    return h ^ (h >> 28);
}

static uint64_t hash_bytes(struct lladd_span s)
{
    const unsigned char *p = s.data;
    uint64_t h = s.len * UINT64_C(0x9e3779b97f4a7c15) + 1;
    size_t n = s.len;
    for (; n >= 8; n -= 8, p += 8)
        h = (h ^ mix(lladd_get64(p))) * UINT64_C(0x9e3779b97f4a7c15);
    if (n)
        h = (h ^ mix(lladd_get_few(p, n) + n)) * UINT64_C(0x9e3779b97f4a7c15);
    return mix(h);
}

uint64_t lladd_dtable_hash(const struct lladd_dtable_order *order,
                           const struct lladd_dtable_key *key)
{
    if (order->type < LLADD_DTABLE_STRING)
        return mix(key->number + UINT64_C(0x9e3779b97f4a7c15));
    if (order->comparator && order->comparator->hash)
        return mix(order->comparator->hash(order->comparator->ctx, key->bytes));
    return hash_bytes(key->bytes);
}
