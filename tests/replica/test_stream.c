/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events as bytes: every kind comes back as it was written, the bytes are those of
 * docs/replication.md, an event that is cut off says how much it needs, and no damaged byte goes
 * unnoticed. The library writes no event that it would not read.
 */
#include "op_fixture.h"

#include <lladd/op.h>
#include <lladd/replica.h>

struct bytes {
    struct lladd_sink sink;
    unsigned char data[8192];
    size_t len;
};

static int collect(void *ctx, const void *bytes, size_t len)
{
    struct bytes *b = ctx;
    ck_assert_uint_le(len, sizeof b->data - b->len);
    memcpy(b->data + b->len, bytes, len);
    b->len += len;
    return 0;
}

static void encode(struct bytes *b, const struct lladd_replica_event *e)
{
    *b = (struct bytes){.sink = {.ctx = b, .write = collect}};
    ck_assert_int_eq(lladd_replica_encode(e, &b->sink), 0);
}

static bool same_span(struct lladd_span a, struct lladd_span b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_key(const struct lladd_dtable_key *a, const struct lladd_dtable_key *b)
{
    return a->type == b->type && a->number == b->number && same_span(a->bytes, b->bytes);
}

static bool same_value(const struct lladd_dtable_value *a, const struct lladd_dtable_value *b)
{
    return a->state == b->state && same_span(a->bytes, b->bytes);
}

static bool same(const struct lladd_replica_event *a, const struct lladd_replica_event *b)
{
    return a->kind == b->kind && a->position == b->position && a->txn == b->txn &&
           strcmp(a->table ? a->table : "", b->table ? b->table : "") == 0 &&
           same_key(&a->key, &b->key) && same_key(&a->to, &b->to) &&
           same_value(&a->before, &b->before) && same_value(&a->after, &b->after);
}

/* One event of each form. */
static size_t samples(struct lladd_replica_event *out)
{
    const struct lladd_replica_event all[] = {
        {.kind = LLADD_REPLICA_BEGIN, .position = 1, .txn = 7},
        {.kind = LLADD_REPLICA_COMMIT, .position = UINT64_MAX - 1, .txn = UINT64_MAX},
        {.kind = LLADD_REPLICA_ABORT, .position = 3},
        {.kind = LLADD_REPLICA_MARK, .position = 4, .txn = 2},
        {.kind = LLADD_REPLICA_PUT,
         .position = 5,
         .txn = 7,
         .table = "t",
         .key = lladd_dtable_u32(UINT32_MAX),
         .after = lladd_dtable_value_of("value", 5)},
        {.kind = LLADD_REPLICA_PUT,
         .position = 6,
         .txn = 7,
         .table = "other",
         .key = lladd_dtable_bytes("\0\1", 2),
         .before = lladd_dtable_value_of("was", 3),
         .after = lladd_dtable_value_of("", 0)},
        {.kind = LLADD_REPLICA_PUT,
         .position = 6,
         .txn = 7,
         .table = "other",
         .key = lladd_dtable_string("name"),
         .before = lladd_dtable_tombstone(),
         .after = lladd_dtable_value_of("x", 1)},
        {.kind = LLADD_REPLICA_DELETE,
         .position = 7,
         .txn = 7,
         .table = "t",
         .key = lladd_dtable_u64(UINT64_MAX)},
        {.kind = LLADD_REPLICA_DELETE,
         .position = 7,
         .txn = 7,
         .table = "t",
         .key = lladd_dtable_double(-2.5),
         .before = lladd_dtable_value_of("was", 3)},
        {.kind = LLADD_REPLICA_DELETE_RANGE,
         .position = 8,
         .txn = 7,
         .table = "t",
         .key = lladd_dtable_u32(3),
         .to = lladd_dtable_u32(9)},
        {.kind = LLADD_REPLICA_DELETE_RANGE,
         .position = 8,
         .txn = 7,
         .table = "t",
         .to = lladd_dtable_string("z")},
        {.kind = LLADD_REPLICA_DELETE_RANGE, .position = 8, .txn = 7, .table = "t"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        out[i] = all[i];
    return sizeof all / sizeof all[0];
}

START_TEST(every_kind_comes_back)
{
    struct lladd_replica_event all[32], e;
    struct lladd_error err = LLADD_ERROR_INIT;
    size_t n = samples(all), used;
    struct bytes b;
    for (size_t i = 0; i < n; i++) {
        encode(&b, &all[i]);
        unsigned char *copy = exact(b.data, b.len); /* sanitizers see reads outside */
        ck_assert_msg(!lladd_replica_decode(lladd_span_of(copy, b.len), &e, &used, &err), "%s",
                      err.message);
        ck_assert_uint_eq(used, b.len);
        ck_assert_msg(same(&e, &all[i]), "event %zu", i);
        free(copy);
    }
}
END_TEST

/* As docs/replication.md says. */
START_TEST(the_bytes_are_those_of_the_description)
{
    static const unsigned char head[] = {
        0x05, 0, 0, 0, 0, 0, 0, 0,    /* position 5 */
        0x07, 0, 0, 0, 0, 0, 0, 0,    /* transaction 7 */
        1,                            /* version */
        4,                            /* PUT */
        1,                            /* keys of type u32 */
        0x1a,                         /* a row before, a value after, one key */
        2,    0,                      /* bytes of the name, with its zero byte */
        8,    0, 0, 0, 0, 0,          /* bytes of the key; of the second key; zero */
        3,    0, 0, 0, 5, 0, 0, 0,    /* bytes of the row before, and after */
    };
    static const char rest[] = "t\0\11\0\0\0\0\0\0\0wasvalue";
    struct lladd_replica_event e = {.kind = LLADD_REPLICA_PUT,
                                    .position = 5,
                                    .txn = 7,
                                    .table = "t",
                                    .key = lladd_dtable_u32(9),
                                    .before = lladd_dtable_value_of("was", 3),
                                    .after = lladd_dtable_value_of("value", 5)};
    struct bytes b;
    encode(&b, &e);
    ck_assert_uint_eq(b.len, 8 + sizeof head + sizeof rest - 1);
    ck_assert_uint_eq(lladd_get32(b.data), lladd_crc32c(0, b.data + 4, 40));
    ck_assert_uint_eq(lladd_get32(b.data + 4), lladd_crc32c(0, rest, sizeof rest - 1));
    ck_assert_mem_eq(b.data + 8, head, sizeof head);
    ck_assert_mem_eq(b.data + 8 + sizeof head, rest, sizeof rest - 1);
}
END_TEST

START_TEST(a_cut_event_says_how_much_it_needs)
{
    struct lladd_replica_event all[32], e;
    size_t n = samples(all), used;
    struct bytes b;
    for (size_t i = 0; i < n; i++) {
        encode(&b, &all[i]);
        for (size_t len = 0; len < b.len; len++) {
            struct lladd_error err = LLADD_ERROR_INIT;
            unsigned char *cut = exact(b.data, len);
            ck_assert_int_eq(lladd_replica_decode(lladd_span_of(cut, len), &e, &used, &err),
                             LLADD_END);
            ck_assert_uint_eq(used, len < 44 ? 44 : b.len);
            ck_assert_int_eq(err.code, LLADD_END);
            free(cut);
        }
    }
}
END_TEST

START_TEST(no_flipped_bit_goes_unnoticed)
{
    struct lladd_replica_event all[32], e;
    size_t n = samples(all), used;
    struct bytes b;
    for (size_t i = 0; i < n; i++) {
        encode(&b, &all[i]);
        for (size_t bit = 0; bit < 8 * b.len; bit++) {
            b.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            ck_assert_int_eq(lladd_replica_decode(lladd_span_of(b.data, b.len), &e, &used, NULL),
                             LLADD_BAD_RECORD);
            b.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}
END_TEST

/* Corrects both checksums after a change of the bytes. */
static int decode_forged(struct bytes *b, struct lladd_error *err)
{
    struct lladd_replica_event e;
    size_t used;
    lladd_put32(b->data + 4, lladd_crc32c(0, b->data + 44, b->len - 44));
    lladd_put32(b->data, lladd_crc32c(0, b->data + 4, 40));
    return lladd_replica_decode(lladd_span_of(b->data, b->len), &e, &used, err);
}

/* Bytes with right checksums that are no event. */
START_TEST(bytes_that_no_event_has_are_refused)
{
    static const struct {
        size_t at;
        unsigned char value;
        int code;
    } wrong[] = {
        {24, 2, LLADD_NEWER_FORMAT}, {24, 0, LLADD_BAD_RECORD},  {25, 0, LLADD_BAD_RECORD},
        {25, 8, LLADD_BAD_RECORD},   {25, 1, LLADD_BAD_RECORD},  {25, 5, LLADD_BAD_RECORD},
        {25, 6, LLADD_BAD_RECORD},   {26, 0, LLADD_BAD_RECORD},  {26, 6, LLADD_BAD_RECORD},
        {26, 4, LLADD_BAD_RECORD},   {27, 0x5a, LLADD_BAD_RECORD}, {27, 0x1b, LLADD_BAD_RECORD},
        {27, 0x12, LLADD_BAD_RECORD}, {27, 0x3a, LLADD_BAD_RECORD}, {27, 0x0a, LLADD_BAD_RECORD},
        {27, 0x18, LLADD_BAD_RECORD}, {29, 1, LLADD_BAD_RECORD},  {34, 1, LLADD_BAD_RECORD},
        {43, 0x80, LLADD_BAD_RECORD}, {44, 0, LLADD_BAD_RECORD}, {45, 'x', LLADD_BAD_RECORD},
        {50, 1, LLADD_BAD_RECORD},   {8, 0, LLADD_BAD_RECORD}};
    struct lladd_replica_event e = {.kind = LLADD_REPLICA_PUT,
                                    .position = 5,
                                    .txn = 7,
                                    .table = "t",
                                    .key = lladd_dtable_u32(9),
                                    .before = lladd_dtable_value_of("was", 3),
                                    .after = lladd_dtable_value_of("value", 5)};
    struct bytes b;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        encode(&b, &e);
        b.data[wrong[i].at] = wrong[i].value;
        ck_assert_msg(decode_forged(&b, &err) == wrong[i].code, "byte %zu is %u: %s",
                      wrong[i].at, wrong[i].value, err.message);
        ck_assert_str_ne(err.message, "");
    }
    struct lladd_error err = LLADD_ERROR_INIT;
    encode(&b, &e);
    memset(b.data + 8, 0xff, 8); /* a position after which there is none */
    ck_assert_int_eq(decode_forged(&b, &err), LLADD_BAD_RECORD);
}
END_TEST

static int refuse(void *ctx, const void *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    return *(int *)ctx;
}

START_TEST(only_events_are_written)
{
    char name[LLADD_MANAGED_NAME_MAX + 2];
    unsigned char key[LLADD_DTABLE_KEY_MAX + 1] = {0};
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    const struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    const struct lladd_replica_event wrong[] = {
        {.kind = 0, .position = 1},
        {.kind = LLADD_REPLICA_MARK + 1, .position = 1},
        {.kind = LLADD_REPLICA_BEGIN},
        {.kind = LLADD_REPLICA_BEGIN, .position = UINT64_MAX},
        {.kind = LLADD_REPLICA_BEGIN, .position = 1, .table = "t"},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .key = lladd_dtable_u32(1), .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "", .key = lladd_dtable_u32(1),
         .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = name, .key = lladd_dtable_u32(1),
         .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "t", .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "t", .key = lladd_dtable_u32(1)},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "t", .key = lladd_dtable_u32(1),
         .to = lladd_dtable_u32(2), .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "t",
         .key = lladd_dtable_bytes(key, sizeof key), .after = v},
        {.kind = LLADD_REPLICA_PUT, .position = 1, .table = "t", .key = lladd_dtable_u32(1),
         .after = {LLADD_DTABLE_FOUND, {key, LLADD_DTABLE_VALUE_MAX + 1u}}},
        {.kind = LLADD_REPLICA_DELETE, .position = 1, .table = "t", .key = lladd_dtable_u32(1),
         .after = v},
        {.kind = LLADD_REPLICA_DELETE_RANGE, .position = 1, .table = "t",
         .key = lladd_dtable_u32(1), .to = lladd_dtable_u64(2)},
        {.kind = LLADD_REPLICA_DELETE_RANGE, .position = 1, .table = "t", .before = v},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bytes b = {.sink = {.ctx = &b, .write = collect}};
        ck_assert_msg(lladd_replica_encode(&wrong[i], &b.sink) == LLADD_BAD_ARGUMENT, "event %zu",
                      i);
        ck_assert_uint_eq(b.len, 0);
    }
    int full = LLADD_NO_SPACE;
    struct lladd_sink sink = {.ctx = &full, .write = refuse};
    const struct lladd_replica_event e = {.kind = LLADD_REPLICA_BEGIN, .position = 1};
    ck_assert_int_eq(lladd_replica_encode(&e, &sink), LLADD_NO_SPACE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stream");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, every_kind_comes_back);
    tcase_add_test(tc, the_bytes_are_those_of_the_description);
    tcase_add_test(tc, a_cut_event_says_how_much_it_needs);
    tcase_add_test(tc, no_flipped_bit_goes_unnoticed);
    tcase_add_test(tc, bytes_that_no_event_has_are_refused);
    tcase_add_test(tc, only_events_are_written);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
