/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packed rows. Every column of a packed row is found again. When wrong bytes are unpacked, no byte
 * outside of them is read.
 */
#include "op_fixture.h"

#include <lladd/bytes.h>
#include <lladd/dtable_row.h>

static const struct lladd_dtable_value none = {.state = LLADD_DTABLE_ABSENT};

static struct lladd_dtable_value text(const char *s)
{
    return lladd_dtable_value_of(s, strlen(s));
}

/* Packs into memory of exactly the row's size. */
static struct lladd_span pack(const struct lladd_dtable_value *v, size_t n)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    size_t size = 0, columns = 99;
    ck_assert_int_eq(lladd_dtable_row_size(v, n, &size, &err), 0);
    unsigned char *p = malloc(size);
    ck_assert_ptr_nonnull(p);
    lladd_dtable_row_pack(v, n, p);
    struct lladd_span s = lladd_span_of(p, size);
    ck_assert(lladd_dtable_row_check(s, &columns));
    ck_assert_uint_le(columns, n);
    return s;
}

static void drop(struct lladd_span s)
{
    free((void *)(uintptr_t)s.data);
}

static void same(const struct lladd_dtable_value *a, const struct lladd_dtable_value *b)
{
    ck_assert_int_eq(a->state, b->state);
    if (a->state != LLADD_DTABLE_FOUND)
        return;
    ck_assert_uint_eq(a->bytes.len, b->bytes.len);
    ck_assert(a->bytes.len == 0 || !memcmp(a->bytes.data, b->bytes.data, a->bytes.len));
}

static void there_and_back(const struct lladd_dtable_value *v, size_t n)
{
    struct lladd_span s = pack(v, n);
    for (uint32_t i = 0; i < n + 3; i++) {
        struct lladd_dtable_value got;
        ck_assert(lladd_dtable_row_column(s, i, &got));
        same(&got, i < n ? &v[i] : &none);
    }
    drop(s);
}

/* A row has the bytes that docs/disk-format.md states. */
START_TEST(a_row_has_the_bytes_of_the_format)
{
    static const unsigned char want[] = {1, 3, 0, 5, 2, 2, 4, 'a', 'b', 'c', 'd'};
    const struct lladd_dtable_value v[] = {text("ab"), none, text("cd"), none};
    struct lladd_span s = pack(v, 4);
    ck_assert_uint_eq(s.len, sizeof want);
    ck_assert_int_eq(memcmp(s.data, want, sizeof want), 0);
    drop(s);
}
END_TEST

/* An absent value, an empty value and a value of some bytes differ. The end offsets have each
 * possible width. */
START_TEST(all_kinds_of_values)
{
    char *big = calloc(1, 70000);
    const struct lladd_dtable_value some[] = {none, text(""), text("x"),
                                              none, text(""), text("yz")};
    memset(big, 'b', 70000);
    there_and_back(NULL, 0);
    for (size_t n = 1; n <= 6; n++)
        there_and_back(some, n);
    for (size_t len = 253; len < 70000; len = len * 2 + len % 3) {
        const struct lladd_dtable_value v[] = {text("1"), lladd_dtable_value_of(big, len), none,
                                               text("2")};
        there_and_back(v, 4);
    }
    struct lladd_dtable_value *most =
        calloc(LLADD_DTABLE_COLUMNS_MAX, sizeof *most); /* all of them absent */
    there_and_back(most, LLADD_DTABLE_COLUMNS_MAX);
    most[LLADD_DTABLE_COLUMNS_MAX - 1] = text("last");
    there_and_back(most, LLADD_DTABLE_COLUMNS_MAX);
    free(most);
    free(big);
}
END_TEST

START_TEST(refused)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_value *many = calloc(LLADD_DTABLE_COLUMNS_MAX + 1, sizeof *many);
    struct lladd_dtable_value v = lladd_dtable_tombstone();
    size_t size;
    ck_assert_int_eq(lladd_dtable_row_size(many, LLADD_DTABLE_COLUMNS_MAX + 1, &size, &err),
                     LLADD_TOO_LARGE);
    ck_assert_int_eq(lladd_dtable_row_size(&v, 1, &size, &err), LLADD_BAD_ARGUMENT);
    v = lladd_dtable_value_of(many, LLADD_DTABLE_VALUE_MAX);
    ck_assert_int_eq(lladd_dtable_row_size(&v, 1, &size, &err), LLADD_TOO_LARGE);
    free(many);
}
END_TEST

/* Reads every column that the row may have. */
static bool look(const unsigned char *bytes, size_t len)
{
    unsigned char *copy = exact(bytes, len);
    struct lladd_span s = lladd_span_of(copy, len);
    size_t n = 0;
    unsigned sum = 0;
    bool good = lladd_dtable_row_check(s, &n);
    for (uint32_t i = 0; i < 40; i++) {
        struct lladd_dtable_value v;
        bool here = lladd_dtable_row_column(s, i, &v);
        ck_assert(here || !good);
        for (size_t k = 0; here && v.state == LLADD_DTABLE_FOUND && k < v.bytes.len; k++)
            sum += ((const unsigned char *)v.bytes.data)[k];
    }
    free(copy);
    return good && sum < UINT32_MAX;
}

/* Reads rows that are cut to each length, rows with one byte changed, and random bytes. A sanitizer
 * notices reads outside of these rows. */
START_TEST(wrong_bytes)
{
    const struct lladd_dtable_value v[] = {text("ab"), none, text(""), text("cde"), none,
                                           none,       none, none,     none,        text("f")};
    struct lladd_span s = pack(v, 10);
    unsigned char *p = exact(s.data, s.len);
    unsigned wrong = 0;
    for (size_t len = 0; len < s.len; len++)
        ck_assert(!look(p, len));
    for (size_t at = 0; at < s.len; at++)
        for (unsigned with = 0; with < 256; with++) {
            unsigned char was = p[at];
            p[at] = (unsigned char)with;
            wrong += !look(p, s.len);
            p[at] = was;
        }
    ck_assert_uint_gt(wrong, 1000);
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        unsigned char any[24];
        for (size_t i = 0; i < sizeof any; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            any[i] = (unsigned char)(seed >> 56 & (round % 2 ? 255 : 7));
        }
        any[0] = (unsigned char)(1 | round % 4 << 4);
        look(any, (size_t)round % sizeof any);
    }
    free(p);
    drop(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("packed rows");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_row_has_the_bytes_of_the_format);
    tcase_add_test(tc, all_kinds_of_values);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, wrong_bytes);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
