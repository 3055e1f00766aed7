/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests lladd/keys.h. Random values of every kind are encoded, compared as values and as bytes, and
 * read back. Most of them are close to each other or to the limits of their kind.
 */
#include "op_fixture.h"

#include <lladd/keys.h>

#include <math.h>
#include <stdio.h>

enum { ROUNDS = 200000, TEXT = 12 };

static uint64_t state = 1;

static uint64_t next(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A random number that begins with some zero bits or with some one bits, so that pairs of close
 * numbers are frequent. */
static uint64_t number(void)
{
    uint64_t v = next() >> next() % 64;
    return next() % 2 ? v : ~v;
}

static int sign(int v)
{
    return (v > 0) - (v < 0);
}

static int compare(const struct lladd_key *a, const struct lladd_key *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->bytes, b->bytes, n);
    return c ? sign(c) : (a->len > b->len) - (a->len < b->len);
}

struct text {
    unsigned char bytes[TEXT];
    size_t len;
};

static struct text text(void)
{
    static const unsigned char some[] = {0, 0, 1, 2, 'a', 254, 255, 255};
    struct text t = {{0}, next() % (TEXT + 1)};
    for (size_t i = 0; i < t.len; i++)
        t.bytes[i] = some[next() % sizeof some];
    return t;
}

static int compare_texts(const struct text *a, const struct text *b)
{
    int c = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);
    return c ? sign(c) : (a->len > b->len) - (a->len < b->len);
}

static double real(void)
{
    static const double special[] = {0.0,       -0.0,         1.0,     -1.0,   INFINITY,
                                     -INFINITY, 5e-324,       -5e-324, 1e308,  -1e308,
                                     2.5,       2.4999999999, 1e-308,  -1e-308};
    uint64_t bits = number();
    double v;
    memcpy(&v, &bits, sizeof v);
    return next() % 4 == 0 || isnan(v) ? special[next() % (sizeof special / sizeof special[0])] : v;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))
/* Encodes two values of a kind. The order of their bytes must be that of the values. The first one
 * is read back. */
#define KIND(type, kind, a, b) \
    do { \
        unsigned char x[8], y[8]; \
        struct lladd_key kx = lladd_key_into(x, sizeof x), ky = lladd_key_into(y, sizeof y); \
        lladd_key_##kind(&kx, a); \
        lladd_key_##kind(&ky, b); \
        ck_assert(lladd_key_fits(&kx) && kx.len == sizeof(type)); \
        ck_assert_int_eq(compare(&kx, &ky), ORDER(a, b)); \
        struct lladd_key_reader r = lladd_key_from(x, kx.len); \
        type back; \
        ck_assert(lladd_key_read_##kind(&r, &back) && back == (a) && r.at == kx.len); \
        ck_assert(!lladd_key_read_##kind(&r, &back)); \
    } while (0)

START_TEST(numbers)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = number(), b = next() % 2 ? number() : a + next() % 3 - 1;
        KIND(uint64_t, u64, a, b);
        KIND(uint32_t, u32, (uint32_t)a, (uint32_t)b);
        KIND(uint16_t, u16, (uint16_t)a, (uint16_t)b);
        KIND(uint8_t, u8, (uint8_t)a, (uint8_t)b);
        KIND(int64_t, i64, (int64_t)a, (int64_t)b);
        KIND(int32_t, i32, (int32_t)a, (int32_t)b);
        double v = real(), w = real();
        KIND(double, double, v, w);
    }
    KIND(int64_t, i64, INT64_MIN, INT64_MAX);
    KIND(int32_t, i32, INT32_MIN, INT32_MAX);
}
END_TEST

START_TEST(not_a_number)
{
    unsigned char x[8], y[8];
    struct lladd_key kx = lladd_key_into(x, sizeof x), ky = lladd_key_into(y, sizeof y);
    lladd_key_double(&kx, NAN);
    lladd_key_double(&ky, INFINITY);
    ck_assert_int_eq(compare(&kx, &ky), 1);
    ky.len = 0;
    lladd_key_double(&ky, -NAN);
    ck_assert_int_eq(compare(&kx, &ky), 0);
    struct lladd_key_reader r = lladd_key_from(x, sizeof x);
    double back;
    ck_assert(lladd_key_read_double(&r, &back) && isnan(back));
    kx.len = ky.len = 0;
    lladd_key_double(&kx, -0.0);
    lladd_key_double(&ky, 0.0);
    ck_assert_int_eq(compare(&kx, &ky), 0);
}
END_TEST

START_TEST(strings)
{
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char x[64], y[64], back[TEXT];
        struct text a = text(), b = text();
        struct lladd_key kx = lladd_key_into(x, sizeof x), ky = lladd_key_into(y, sizeof y);
        lladd_key_string(&kx, a.bytes, a.len);
        lladd_key_string(&ky, b.bytes, b.len);
        ck_assert_int_eq(compare(&kx, &ky), compare_texts(&a, &b));
        struct lladd_key_reader r = lladd_key_from(x, kx.len);
        size_t len;
        ck_assert(lladd_key_read_string(&r, back, sizeof back, &len));
        ck_assert_uint_eq(len, a.len);
        ck_assert(memcmp(back, a.bytes, len) == 0 && r.at == kx.len);
        r = lladd_key_from(x, kx.len - 1);
        ck_assert(!lladd_key_read_string(&r, back, sizeof back, &len) && r.at == 0);
    }
}
END_TEST

struct row {
    int32_t number;
    struct text text;
    double real;
};

static struct row row(void)
{
    struct row r = {(int32_t)(next() % 3) - 1, text(), (double)(next() % 4) / 2 - 1};
    r.text.len %= 3;
    return r;
}

/* Encodes a row as a key. The bits of `mask` say which components are descending. */
static struct lladd_key encode(const struct row *r, unsigned mask, unsigned char *buf, size_t size)
{
    struct lladd_key k = lladd_key_into(buf, size);
    lladd_key_i32(&k, r->number);
    if (mask & 1)
        lladd_key_descend(&k, 0);
    size_t at = k.len;
    lladd_key_string(&k, r->text.bytes, r->text.len);
    if (mask & 2)
        lladd_key_descend(&k, at);
    at = k.len;
    lladd_key_double(&k, r->real);
    if (mask & 4)
        lladd_key_descend(&k, at);
    return k;
}

static int compare_rows(const struct row *a, const struct row *b, unsigned mask)
{
    int c = ORDER(a->number, b->number);
    if (c)
        return mask & 1 ? -c : c;
    c = compare_texts(&a->text, &b->text);
    if (c)
        return mask & 2 ? -c : c;
    c = ORDER(a->real, b->real);
    return mask & 4 ? -c : c;
}

START_TEST(tuples)
{
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char x[64], y[64];
        struct row a = row(), b = row(), c = row();
        unsigned mask = (unsigned)(next() % 8);
        struct lladd_key kx = encode(&a, mask, x, sizeof x), ky = encode(&b, mask, y, sizeof y);
        ck_assert_int_eq(compare(&kx, &ky), compare_rows(&a, &b, mask));
        struct lladd_key_reader r = lladd_key_from(x, kx.len);
        lladd_key_read_descending(&r, mask & 1);
        ck_assert(lladd_key_read_i32(&r, &c.number));
        lladd_key_read_descending(&r, mask & 2);
        ck_assert(lladd_key_read_string(&r, c.text.bytes, sizeof c.text.bytes, &c.text.len));
        lladd_key_read_descending(&r, mask & 4);
        ck_assert(lladd_key_read_double(&r, &c.real));
        ck_assert_uint_eq(r.at, r.len);
        ck_assert_int_eq(compare_rows(&a, &c, 0), 0);
    }
}
END_TEST

START_TEST(short_buffers)
{
    struct row a = row();
    unsigned char x[64], y[64];
    struct lladd_key whole = encode(&a, 7, x, sizeof x);
    for (size_t size = 0; size < whole.len; size++) {
        memset(y, 0x5a, sizeof y);
        struct lladd_key k = encode(&a, 7, y, size);
        ck_assert(!lladd_key_fits(&k));
        ck_assert_uint_eq(k.len, whole.len);
        for (size_t i = size; i < sizeof y; i++)
            ck_assert_uint_eq(y[i], 0x5a);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keys");
    TCase *tc = tcase_create("keys");
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, not_a_number);
    tcase_add_test(tc, strings);
    tcase_add_test(tc, tuples);
    tcase_add_test(tc, short_buffers);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
