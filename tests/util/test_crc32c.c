/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32C. Tests the known answers. Compares the portable code with a function that follows the
 * definition bit by bit. Compares the code that uses the processor's instructions with the portable
 * code, for every short length and alignment, and for lengths around every limit of the three-lane
 * method. A checksum over one part of the bytes can be continued with the next part.
 */
#include "support/fixtures.h"
#include "util/crc32c.h"

#include <lladd/bytes.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 600, ALIGNMENTS = 16, LONG = 3 * 4096 + 100 };

typedef uint32_t crc_fn(uint32_t, const void *, size_t);

/* The definition: a shift register with the Castagnoli polynomial. */
static uint32_t by_definition(uint32_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = ~seed;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* The values are those of RFC 3720, appendix B.4, and the usual check value. */
static void check_known_answers(crc_fn *crc)
{
    unsigned char bytes[32];
    ck_assert_uint_eq(crc(0, "123456789", 9), 0xe3069283u);
    memset(bytes, 0, sizeof bytes);
    ck_assert_uint_eq(crc(0, bytes, sizeof bytes), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    ck_assert_uint_eq(crc(0, bytes, sizeof bytes), 0x62a8ab43u);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(crc(0, bytes, sizeof bytes), 0x46dd794eu);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(31 - i);
    ck_assert_uint_eq(crc(0, bytes, sizeof bytes), 0x113fdb5cu);
}

START_TEST(known_answers)
{
    check_known_answers(ll_crc32c);
    check_known_answers(ll_crc32c_portable);
    check_known_answers(by_definition);
}
END_TEST

START_TEST(no_bytes_change_nothing)
{
    ck_assert_uint_eq(ll_crc32c(0, "", 0), 0);
    ck_assert_uint_eq(ll_crc32c(0x12345678, "", 0), 0x12345678);
    ck_assert_uint_eq(ll_crc32c_portable(0x12345678, "", 0), 0x12345678);
}
END_TEST

START_TEST(portable_is_the_definition)
{
    unsigned char data[LENGTHS];
    seeded_fill(1, data, sizeof data);
    for (size_t n = 0; n <= sizeof data; n++)
        ck_assert_uint_eq(ll_crc32c_portable((uint32_t)n, data, n),
                          by_definition((uint32_t)n, data, n));
}
END_TEST

START_TEST(every_length_and_alignment)
{
    unsigned char data[LENGTHS + ALIGNMENTS];
    seeded_fill(2, data, sizeof data);
    for (size_t at = 0; at < ALIGNMENTS; at++) {
        for (size_t n = 0; n <= LENGTHS; n++) {
            uint32_t seed = (uint32_t)(n * 2654435761u);
            ck_assert_msg(ll_crc32c(seed, data + at, n) == ll_crc32c_portable(seed, data + at, n),
                          "length %zu at %zu", n, at);
        }
    }
}
END_TEST

/* The hardware code processes at most about 4 KiB in one round. These lengths need up to three
 * rounds and a rest. */
START_TEST(long_lengths)
{
    unsigned char *data = malloc(LONG);
    ck_assert_ptr_nonnull(data);
    seeded_fill(3, data, LONG);
    for (size_t n = LENGTHS; n <= LONG; n++) {
        if (n > 5000 && n % 4096 > 200 && n % 37 != 0)
            continue;
        ck_assert_msg(ll_crc32c(7, data, n) == ll_crc32c_portable(7, data, n), "length %zu", n);
    }
    free(data);
}
END_TEST

START_TEST(goes_on_from_another)
{
    unsigned char data[5000];
    seeded_fill(4, data, sizeof data);
    uint32_t whole = ll_crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut += 61) {
        uint32_t first = ll_crc32c(0, data, cut);
        ck_assert_uint_eq(ll_crc32c(first, data + cut, sizeof data - cut), whole);
    }
}
END_TEST

/* The checksum covers a word and eight bytes that are stored elsewhere, as if they were stored
 * before the other bytes. */
START_TEST(split_is_the_same)
{
    unsigned char data[12 + 1024];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    uint32_t word = lladd_get32(data);
    uint64_t next = lladd_get64(data + 4);
    for (size_t n = 0; n <= 1024; n += 8)
        ck_assert_uint_eq(ll_crc32c_split(99, word, next, data + 12, n),
                          ll_crc32c_portable(99, data, 12 + n));
}
END_TEST

START_TEST(every_bit_counts)
{
    unsigned char data[256];
    seeded_fill(5, data, sizeof data);
    uint32_t right = ll_crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_uint_ne(ll_crc32c(0, data, sizeof data), right);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

#if defined(__x86_64__)
/* If this processor has the instructions, the library must use them. Otherwise the comparisons
 * above would compare the portable code with itself. */
START_TEST(instructions_are_used)
{
    int have = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    ck_assert_int_eq(ll_crc32c_is_hardware(), have);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("crc32c");
    TCase *tc = tcase_create("crc32c");
    tcase_add_test(tc, known_answers);
    tcase_add_test(tc, no_bytes_change_nothing);
    tcase_add_test(tc, portable_is_the_definition);
    tcase_add_test(tc, every_length_and_alignment);
    tcase_add_test(tc, long_lengths);
    tcase_add_test(tc, goes_on_from_another);
    tcase_add_test(tc, split_is_the_same);
    tcase_add_test(tc, every_bit_counts);
#if defined(__x86_64__)
    tcase_add_test(tc, instructions_are_used);
#endif
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
