/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages as bytes: every message that was written is read with the same contents, and other bytes
 * are refused. */
#include "support/fixtures.h"
#include "wire.h"

#include <check.h>
#include <lladd/bytes.h>
#include <stdlib.h>

static const unsigned types[] = {
#define TYPE(name, number, fields) number,
    MESSAGES_TO_SERVER(TYPE) MESSAGES_TO_COORDINATOR(TYPE)
#undef TYPE
};
enum { TYPES = sizeof types / sizeof *types };

static struct message sample(unsigned type)
{
    struct message m = {.type = (enum message_type)type,
                        .number = 3,
                        .session = UINT64_C(0x1122334455667788),
                        .uuid = "fifteen letters",
                        .incarnation = 5,
                        .instance = UINT64_MAX,
                        .attempt = 6,
                        .txn = {7, 8},
                        .version = WIRE_VERSION,
                        .request = UINT32_MAX,
                        .ops = 9,
                        .timeline = 10,
                        .update = true,
                        .verdict = VERDICT_READ_ONLY,
                        .code = LLADD_TIMEOUT,
                        .delta = -12345,
                        .key = {"key", 3},
                        .value = {"a value", 7},
                        .text = {"a line", 6}};
    return m;
}

/* Returns the encoded message without its length field, in memory that ends with the message. */
static unsigned char *encoded(const struct message *m, size_t *len)
{
    unsigned char *all = malloc(message_size(m)), *frame;
    ck_assert_ptr_nonnull(all);
    message_encode(m, all);
    *len = lladd_get32(all);
    ck_assert_uint_eq(*len + WIRE_LENGTH, message_size(m));
    frame = malloc(*len);
    ck_assert_ptr_nonnull(frame);
    memcpy(frame, all + WIRE_LENGTH, *len);
    free(all);
    return frame;
}

START_TEST(every_message_comes_back_as_it_was)
{
    struct message m = sample(types[_i]), got;
    size_t len, again;
    unsigned char *frame = encoded(&m, &len);
    ck_assert_ptr_nonnull(message_name(types[_i]));
    ck_assert(message_is_for_server(m.type) == (types[_i] < 64));
    ck_assert_int_eq(message_decode(frame, len, &got), 0);
    ck_assert_uint_eq(got.type, m.type);
    ck_assert_uint_eq(got.number, 3);
    ck_assert_uint_eq(got.session, m.session);
    unsigned char *twice = encoded(&got, &again);
    ck_assert_uint_eq(again, len);
    ck_assert_int_eq(memcmp(twice, frame, len), 0);
    free(twice);
    free(frame);
}
END_TEST

START_TEST(a_byte_more_or_less_is_no_message)
{
    struct message m = sample(types[_i]), got;
    size_t len;
    unsigned char *frame = encoded(&m, &len);
    for (size_t i = 0; i < len; i++) {
        unsigned char *shorter = malloc(i ? i : 1); /* a block of its own, so that sanitizers see
                                                     * reads past its end */
        ck_assert_ptr_nonnull(shorter);
        memcpy(shorter, frame, i);
        ck_assert_int_eq(message_decode(shorter, i, &got), LLADD_BAD_ARGUMENT);
        free(shorter);
    }
    unsigned char *longer = calloc(1, len + 1);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, frame, len);
    ck_assert_int_eq(message_decode(longer, len + 1, &got), LLADD_BAD_ARGUMENT);
    free(longer);
    free(frame);
}
END_TEST

static void expect_bad(struct message m, size_t at, unsigned char byte)
{
    struct message got;
    size_t len;
    unsigned char *frame = encoded(&m, &len);
    frame[at] = byte;
    ck_assert_int_eq(message_decode(frame, len, &got), LLADD_BAD_ARGUMENT);
    free(frame);
}

START_TEST(values_out_of_range_are_no_message)
{
    expect_bad(sample(MESSAGE_PING), 0, 0); /* the type */
    expect_bad(sample(MESSAGE_PING), 0, 64);
    expect_bad(sample(MESSAGE_PING), 2, 1);                /* a byte that must be zero */
    expect_bad(sample(MESSAGE_HELLO), WIRE_HEAD, 'X');     /* the magic */
    expect_bad(sample(MESSAGE_VOTE), WIRE_HEAD + 16, 4);   /* the verdict */
    expect_bad(sample(MESSAGE_VOTE), WIRE_HEAD + 17, 99);  /* the code */
    expect_bad(sample(MESSAGE_GET), WIRE_HEAD + 20, 2);    /* the flag `update` */
    expect_bad(sample(MESSAGE_GET), WIRE_HEAD + 21, 0);    /* the first byte of the key's length */
    expect_bad(sample(MESSAGE_GET), WIRE_HEAD + 22, 0xff); /* the other byte of the length */
    struct message m = sample(MESSAGE_GET);
    m.key.len = 0;
    expect_bad(m, 0, MESSAGE_GET);
}
END_TEST

struct frames {
    unsigned n;
    size_t bytes;
    int stop;
};

static int count(void *ctx, const unsigned char *frame, size_t len)
{
    struct frames *f = ctx;
    struct message m;
    ck_assert_int_eq(message_decode(frame, len, &m), 0);
    ck_assert_uint_eq(m.type, types[f->n % TYPES]);
    f->n++;
    f->bytes += len;
    return f->stop;
}

START_TEST(frames_come_out_of_a_stream_however_it_is_cut)
{
    static unsigned char stream[1 << 14];
    size_t len = 0;
    for (unsigned i = 0; i < 3 * TYPES; i++) {
        struct message m = sample(types[i % TYPES]);
        ck_assert_uint_lt(len + message_size(&m), sizeof stream);
        message_encode(&m, stream + len);
        len += message_size(&m);
    }
    for (size_t piece = 1; piece < 300; piece++) {
        struct frame_reader reader = {.bytes = NULL};
        struct frames f = {.n = 0};
        for (size_t at = 0; at < len; at += piece) {
            size_t n = len - at < piece ? len - at : piece;
            ck_assert_int_eq(frame_reader_feed(&reader, stream + at, n, count, &f), 0);
        }
        ck_assert_uint_eq(f.n, 3 * TYPES);
        ck_assert_uint_eq(f.bytes + 3 * TYPES * WIRE_LENGTH, len);
        frame_reader_free(&reader);
    }
}
END_TEST

/* A message that announces a megabyte takes no memory for bytes that have not arrived. */
START_TEST(memory_grows_with_the_bytes_that_arrive)
{
    unsigned char head[WIRE_LENGTH];
    struct frame_reader reader = {.bytes = NULL};
    struct frames f = {.n = 0};
    lladd_put32(head, WIRE_FRAME_MAX);
    ck_assert_int_eq(frame_reader_feed(&reader, head, sizeof head, count, &f), 0);
    ck_assert_uint_le(reader.capacity, 4096);
    frame_reader_free(&reader);
    lladd_put32(head, WIRE_FRAME_MAX + 1);
    ck_assert_int_eq(frame_reader_feed(&reader, head, sizeof head, count, &f), LLADD_TOO_LARGE);
    frame_reader_free(&reader);
    lladd_put32(head, WIRE_HEAD - 1);
    ck_assert_int_eq(frame_reader_feed(&reader, head, sizeof head, count, &f), LLADD_TOO_LARGE);
    frame_reader_free(&reader);
    ck_assert_uint_eq(f.n, 0);
}
END_TEST

START_TEST(a_consumer_that_stops_gets_no_more)
{
    unsigned char stream[512];
    struct frame_reader reader = {.bytes = NULL};
    struct frames f = {.n = 0, .stop = LLADD_END};
    struct message m = sample(types[0]);
    message_encode(&m, stream);
    message_encode(&m, stream + message_size(&m));
    ck_assert_int_eq(frame_reader_feed(&reader, stream, 2 * message_size(&m), count, &f),
                     LLADD_END);
    ck_assert_uint_eq(f.n, 1);
    frame_reader_free(&reader);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tc = tcase_create("bytes");
    tcase_add_loop_test(tc, every_message_comes_back_as_it_was, 0, TYPES);
    tcase_add_loop_test(tc, a_byte_more_or_less_is_no_message, 0, TYPES);
    tcase_add_test(tc, values_out_of_range_are_no_message);
    tcase_add_test(tc, frames_come_out_of_a_stream_however_it_is_cut);
    tcase_add_test(tc, memory_grows_with_the_bytes_that_arrive);
    tcase_add_test(tc, a_consumer_that_stops_gets_no_more);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
