/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store in S3. The test case "contract" needs an S3 server at TEST_S3_ENDPOINT that has the
 * bucket TEST_S3_BUCKET; the credentials are in the environment. The test case "faults" needs the
 * server of s3_server.py, where the name of a bucket says what goes wrong. The test case "places"
 * needs none.
 */
#include "contract.h"

#include "ship/s3/s3_private.h"
#include "support/fixtures.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HTTP "http:\057/"
#define HTTPS "https:\057/"

static struct lladd_error err;
static struct lladd_store *store;
static struct lladd_s3_options options;
static char place[200]; /* URL of the store that was opened last */

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    ck_assert_msg(value != NULL, "%s is not set", name);
    return value;
}

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    options = (struct lladd_s3_options)LLADD_S3_OPTIONS_INIT;
    store = NULL;
}

static void teardown(void)
{
    lladd_store_close(store);
}

static int open_url(const char *url)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    o.s3 = &options;
    return lladd_store_open(url, &o, &store, &err);
}

/* Opens a new place in the bucket. */
static void open_bucket(const char *bucket)
{
    unsigned char random[8];
    ck_assert_int_eq(ll_ship_random(NULL, random, sizeof random, &err), 0);
    (void)snprintf(place, sizeof place, "s3://%s/test/%02x%02x%02x%02x%02x%02x%02x%02x", bucket,
                   random[0], random[1], random[2], random[3], random[4], random[5], random[6],
                   random[7]);
    options.endpoint = environment("TEST_S3_ENDPOINT");
    int rc = open_url(place);
    ck_assert_msg(rc == 0, "%s: %s", place, err.message);
}

static int put(const char *name, const char *text)
{
    return contract_put(store, name, text, &err);
}

static int none(void *ctx, const char *name, uint64_t size)
{
    (void)ctx, (void)name, (void)size;
    return 0;
}

static int list(void)
{
    return store->ops->list(store, "", none, NULL, &err);
}

static int get(const char *name, char *bytes, size_t len)
{
    return store->ops->get(store, name, 0, bytes, len, &err);
}

/* The call has failed with this code, and the message has both texts. */
#define FAILS(call, expected, one, two) \
    do { \
        err = (struct lladd_error)LLADD_ERROR_INIT; \
        int fails_rc = (call); \
        ck_assert_msg(fails_rc == (expected), "%s: %d, %s", #call, fails_rc, err.message); \
        ck_assert_msg(strstr(err.message, one) && strstr(err.message, two), "%s: %s", #call, \
                      err.message); \
    } while (0)

/* ---- the contract --------------------------------------------------------------------------- */

START_TEST(objects_are_put_got_listed_and_deleted)
{
    open_bucket(environment("TEST_S3_BUCKET"));
    contract_objects(store);
}
END_TEST

START_TEST(objects_of_all_sizes)
{
    open_bucket(environment("TEST_S3_BUCKET"));
    contract_sizes(store, 20 << 20);
}
END_TEST

START_TEST(objects_are_read_in_pieces)
{
    open_bucket(environment("TEST_S3_BUCKET"));
    contract_sequence(store);
}
END_TEST

/* More objects than S3 has on a page of a list. */
START_TEST(every_object_is_listed_once)
{
    open_bucket(environment("TEST_S3_BUCKET"));
    contract_list(store, 1100);
}
END_TEST

START_TEST(a_taken_name_is_compared)
{
    open_bucket(environment("TEST_S3_BUCKET"));
    contract_taken_names(store);
}
END_TEST

/* Two stores with different prefixes in one bucket do not see each other. */
START_TEST(prefixes_are_kept_apart)
{
    struct lladd_store *first, *inside;
    char url[210];
    open_bucket(environment("TEST_S3_BUCKET"));
    first = store;
    (void)snprintf(url, sizeof url, "%s/deep", place);
    ck_assert_int_eq(contract_put(first, "deep/object", "one", &err), 0);
    ck_assert_int_eq(contract_put(first, "deeper/object", "two", &err), 0);
    open_bucket(environment("TEST_S3_BUCKET"));
    ck_assert_uint_eq(contract_listed(store, ""), 0);
    ck_assert(!contract_holds(store, "deep/object", "one"));
    lladd_store_close(store);
    ck_assert_int_eq(open_url(url), 0);
    inside = store;
    store = first;
    ck_assert_uint_eq(contract_listed(inside, ""), 1);
    ck_assert(contract_holds(inside, "object", "one"));
    ck_assert_int_eq(contract_put(inside, "more", "three", &err), 0);
    ck_assert_uint_eq(contract_listed(first, "deep/"), 2);
    lladd_store_close(inside);
}
END_TEST

START_TEST(wrong_credentials)
{
    const char *secret = "wJalrXUtnFEMI/K7MDENG";
    options.access_key_id = "AKIDUNKNOWN";
    options.secret_access_key = secret;
    open_bucket(environment("TEST_S3_BUCKET"));
    FAILS(put("archive", "mine"), LLADD_NO_ACCESS, environment("TEST_S3_BUCKET"),
          "HTTP status 403");
    ck_assert(!strstr(err.message, secret));
    lladd_store_close(store);
    options.access_key_id = environment("AWS_ACCESS_KEY_ID");
    open_bucket(environment("TEST_S3_BUCKET"));
    FAILS(list(), LLADD_NO_ACCESS, "HTTP status 403", "SignatureDoesNotMatch");
    ck_assert(!strstr(err.message, secret));
}
END_TEST

START_TEST(a_missing_bucket)
{
    char byte;
    open_bucket("no-such-bucket");
    FAILS(get("archive", &byte, 1), LLADD_STORE_FAILED, "no-such-bucket/test/", "NoSuchBucket");
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "HTTP status 404", "NoSuchBucket");
    FAILS(list(), LLADD_STORE_FAILED, "HTTP status 404", "NoSuchBucket");
    FAILS(store->ops->remove(store, "archive", &err), LLADD_STORE_FAILED, "/archive",
          "NoSuchBucket");
}
END_TEST

/* ---- faults --------------------------------------------------------------------------------- */

/* The server answers the first two of equal requests with 503. */
START_TEST(a_busy_server_is_asked_again)
{
    char bytes[4];
    open_bucket("busy");
    ck_assert_int_eq(put("archive", "mine"), 0);
    ck_assert_int_eq(get("archive", bytes, 4), 0);
    ck_assert_int_eq(memcmp(bytes, "mine", 4), 0);
    ck_assert_uint_eq(contract_listed(store, ""), 1);
    ck_assert_int_eq(store->ops->remove(store, "archive", &err), 0);
    lladd_store_close(store);
    options.attempts = 2;
    open_bucket("busy");
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "PUT \"s3://busy/test/", "SlowDown");
    FAILS(list(), LLADD_STORE_FAILED, "GET \"s3://busy/", "HTTP status 503");
}
END_TEST

/* The server stores the object, and closes the connection instead of answering. */
START_TEST(a_lost_reply_to_a_put)
{
    struct lladd_iovec mine = {"mine", 4}, other = {"your", 4};
    struct ll_ship_mem mem = {NULL};
    open_bucket("lost");
    ck_assert_int_eq(ll_ship_put(store, mem, "archive", &mine, 1, &err), 0);
    ck_assert_int_eq(ll_ship_put(store, mem, "archive", &other, 1, &err), LLADD_EXISTS);
    ck_assert(contract_holds(store, "archive", "mine"));
    lladd_store_close(store);
    options.attempts = 1;
    open_bucket("lost");
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "PUT \"s3://lost/", "put-if-absent");
    ck_assert_uint_eq(contract_listed(store, ""), 0);
    ck_assert_int_ne(put("archive", "mine"), 0); /* libcurl repeats it on a new connection */
    ck_assert(contract_holds(store, "archive", "mine"));
    ck_assert_int_eq(put("archive", "mine"), LLADD_EXISTS);
}
END_TEST

/* The connection ends in the middle of the first answer to each request. */
START_TEST(a_truncated_answer_is_asked_for_again)
{
    char *bytes = malloc(100000), *back = malloc(100000);
    ck_assert(bytes && back);
    seeded_fill(3, bytes, 100000);
    struct lladd_iovec piece = {bytes, 100000};
    open_bucket("cut");
    ck_assert_int_eq(store->ops->put(store, "object", &piece, 1, &err), 0);
    ck_assert_int_eq(get("object", back, 100000), 0);
    ck_assert_int_eq(memcmp(bytes, back, 100000), 0);
    ck_assert_uint_eq(contract_listed(store, ""), 1);
    lladd_store_close(store);
    options.attempts = 1;
    open_bucket("cut");
    ck_assert_int_eq(store->ops->put(store, "object", &piece, 1, &err), 0);
    FAILS(get("object", back, 100000), LLADD_STORE_FAILED, "GET \"s3://cut/", "/object");
    FAILS(list(), LLADD_STORE_FAILED, "GET \"s3://cut/", "");
    free(bytes);
    free(back);
}
END_TEST

START_TEST(a_server_that_does_not_answer)
{
    char byte;
    options.timeout_ns = 1000000000;
    options.attempts = 2;
    open_bucket("silent");
    FAILS(get("archive", &byte, 1), LLADD_STORE_FAILED, "GET \"s3://silent/", "");
}
END_TEST

START_TEST(a_server_that_is_not_there)
{
    char byte;
    options.attempts = 2;
    open_bucket("good");
    lladd_store_close(store);
    options.endpoint = HTTP "127.0.0.1:1";
    ck_assert_int_eq(open_url("s3://good/x"), 0);
    FAILS(get("archive", &byte, 1), LLADD_STORE_FAILED, "GET \"s3://good/x/archive\"", "127.0.0.1");
}
END_TEST

/* The server replaces objects, so nothing is put there. */
START_TEST(a_server_that_ignores_the_condition_is_refused)
{
    open_bucket("careless");
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "careless", "If-None-Match");
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "careless", "If-None-Match");
    ck_assert_uint_eq(contract_listed(store, ""), 0);
    ck_assert(!contract_holds(store, "archive", "mine"));
}
END_TEST

START_TEST(answers_that_are_wrong)
{
    static const struct wrong {
        const char *bucket;
        int list, get, put;
        const char *in_list, *in_get;
    } all[] = {
        {"html", LLADD_STORE_FAILED, LLADD_STORE_FAILED, LLADD_STORE_FAILED, "damaged",
         "HTTP status 404"},
        {"half", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "damaged", ""},
        {"other", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "damaged", ""},
        {"entity", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "damaged", ""},
        {"unsized", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "damaged", ""},
        {"tokenless", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "damaged", ""},
        {"endless", LLADD_STORE_FAILED, LLADD_NOT_FOUND, 0, "no end", ""},
        {"full", 0, LLADD_NOT_FOUND, LLADD_NO_SPACE, "", ""},
        {"moved", LLADD_STORE_FAILED, LLADD_STORE_FAILED, LLADD_STORE_FAILED, "HTTP status 301",
         "PermanentRedirect: two lines"},
    };
    char byte;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        open_bucket(all[i].bucket);
        FAILS(list(), all[i].list, all[i].in_list, "");
        FAILS(get("absent", &byte, 1), all[i].get, all[i].in_get, "");
        FAILS(put("archive", "mine"), all[i].put, "", "");
        lladd_store_close(store);
        store = NULL;
    }
}
END_TEST

/* The object "number-of-gets" of the test's server says how often it was asked for objects. */
static unsigned long requests(void)
{
    char digits[9] = "";
    int rc = get("number-of-gets", digits, 8);
    ck_assert_msg(rc == 0, "%s", err.message);
    return strtoul(digits, NULL, 10);
}

/* 500 pieces, one after the other: two requests for the first two, then 256 KiB, 512 KiB, ... */
START_TEST(pieces_in_their_order_are_read_ahead)
{
    char *bytes = malloc(5000000), *back = malloc(10000);
    ck_assert(bytes && back);
    seeded_fill(5, bytes, 5000000);
    struct lladd_iovec piece = {bytes, 5000000};
    open_bucket("good");
    ck_assert_int_eq(store->ops->put(store, "object", &piece, 1, &err), 0);
    unsigned long before = requests();
    for (size_t at = 0; at < 5000000; at += 10000) {
        ck_assert_int_eq(store->ops->get(store, "object", at, back, 10000, &err), 0);
        ck_assert_int_eq(memcmp(bytes + at, back, 10000), 0);
    }
    unsigned long sequence = requests() - before - 1;
    ck_assert_uint_gt(sequence, 1);
    ck_assert_uint_le(sequence, 10);
    before = requests();
    for (size_t at = 5000000; at > 0; at -= 100000)
        ck_assert_int_eq(store->ops->get(store, "object", at - 100000, back, 10000, &err), 0);
    ck_assert_uint_eq(requests() - before - 1, 50);
    free(bytes);
    free(back);
}
END_TEST

START_TEST(a_server_that_ignores_ranges)
{
    char bytes[4];
    open_bucket("whole");
    ck_assert_int_eq(put("archive", "mine"), 0);
    FAILS(get("archive", bytes, 4), LLADD_STORE_FAILED, "s3://whole/", "range");
}
END_TEST

/* The server demands a token, and that the token is signed. */
START_TEST(a_session_token)
{
    options.access_key_id = environment("AWS_ACCESS_KEY_ID");
    options.secret_access_key = environment("AWS_SECRET_ACCESS_KEY");
    open_bucket("session");
    FAILS(put("archive", "mine"), LLADD_NO_ACCESS, "HTTP status 403", "InvalidToken");
    lladd_store_close(store);
    options.session_token = "the/session+token==";
    open_bucket("session");
    ck_assert_int_eq(put("archive", "mine"), 0);
    ck_assert(contract_holds(store, "archive", "mine"));
    ck_assert_uint_eq(contract_listed(store, ""), 1);
}
END_TEST

/* An endpoint without a scheme is encrypted, and its certificate is checked. */
START_TEST(the_certificate_is_checked)
{
    const char *ca_file = getenv("TEST_S3_CERTIFICATE");
    if (!ca_file) {
        printf("skip: there is no openssl to make a certificate\n");
        return;
    }
    options.endpoint = environment("TEST_S3_TLS"); /* HOST:PORT */
    options.attempts = 2;
    ck_assert_int_eq(open_url("s3://good/tls"), 0);
    FAILS(put("archive", "mine"), LLADD_STORE_FAILED, "PUT \"s3://good/tls/", "certificate");
    lladd_store_close(store);
    options.ca_file = ca_file;
    ck_assert_int_eq(open_url("s3://good/tls"), 0);
    ck_assert_int_eq(put("archive", "mine"), 0);
    ck_assert(contract_holds(store, "archive", "mine"));
}
END_TEST

/* ---- places --------------------------------------------------------------------------------- */

static void forget_environment(void)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID",   "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
        "AWS_REGION",          "AWS_DEFAULT_REGION",    "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE",         "AWS_MAX_ATTEMPTS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_int_eq(unsetenv(names[i]), 0);
}

static void expect_place(const char *where, const char *url, const char *prefix)
{
    struct ll_s3_place p = {.url = NULL};
    int rc = ll_s3_place_find(&p, where, &options, &err);
    ck_assert_msg(rc == 0, "%s: %s", where, err.message);
    ck_assert_str_eq(p.url, url);
    ck_assert_str_eq(p.prefix, prefix);
    ck_assert_str_eq(p.key_id, "AKID");
    ck_assert_str_eq(p.secret, "secret/+=");
    ll_s3_place_free(&p);
}

START_TEST(the_url_of_a_bucket)
{
    forget_environment();
    options.access_key_id = "AKID";
    options.secret_access_key = "secret/+=";
    expect_place("shop", HTTPS "shop.s3.us-east-1.amazonaws.com/", "");
    expect_place("shop/", HTTPS "shop.s3.us-east-1.amazonaws.com/", "");
    expect_place("shop/db/one", HTTPS "shop.s3.us-east-1.amazonaws.com/", "db/one/");
    expect_place("my.shop/db/", HTTPS "s3.us-east-1.amazonaws.com/my.shop/", "db/");
    options.region = "eu-west-1";
    expect_place("shop", HTTPS "shop.s3.eu-west-1.amazonaws.com/", "");
    options.endpoint = "storage.example:9000/";
    expect_place("shop", HTTPS "storage.example:9000/shop/", "");
    options.endpoint = HTTP "[::1]:9000";
    expect_place("shop/x", HTTP "[::1]:9000/shop/", "x/");
    options.endpoint = HTTPS "storage.example";
    options.host_style = true;
    expect_place("shop/x", HTTPS "shop.storage.example/", "x/");
}
END_TEST

START_TEST(the_environment_says_what_the_options_lack)
{
    forget_environment();
    ck_assert_int_eq(setenv("AWS_DEFAULT_REGION", "eu-north-1", 1), 0);
    FAILS(open_url("s3://shop/x"), LLADD_NO_ACCESS, "AWS_ACCESS_KEY_ID", "shop");
    ck_assert_int_eq(setenv("AWS_ACCESS_KEY_ID", "AKID", 1), 0);
    FAILS(open_url("s3://shop/x"), LLADD_NO_ACCESS, "AWS_SECRET_ACCESS_KEY", "shop");
    ck_assert_int_eq(setenv("AWS_SECRET_ACCESS_KEY", "secret/+=", 1), 0);
    expect_place("shop", HTTPS "shop.s3.eu-north-1.amazonaws.com/", "");
    ck_assert_int_eq(setenv("AWS_REGION", "eu-south-1", 1), 0);
    expect_place("shop", HTTPS "shop.s3.eu-south-1.amazonaws.com/", "");
    ck_assert_int_eq(setenv("AWS_ENDPOINT_URL", HTTP "one.example", 1), 0);
    expect_place("shop", HTTP "one.example/shop/", "");
    ck_assert_int_eq(setenv("AWS_ENDPOINT_URL_S3", HTTP "two.example", 1), 0);
    expect_place("shop", HTTP "two.example/shop/", "");
    ck_assert_int_eq(setenv("AWS_MAX_ATTEMPTS", "7", 1), 0);
    ck_assert_int_eq(setenv("AWS_SESSION_TOKEN", "token", 1), 0);
    ck_assert_int_eq(setenv("AWS_CA_BUNDLE", "/ca.pem", 1), 0);
    struct ll_s3_place p = {.url = NULL};
    ck_assert_int_eq(ll_s3_place_find(&p, "shop", &options, &err), 0);
    ck_assert_uint_eq(p.attempts, 7);
    ck_assert_str_eq(p.token, "token");
    ck_assert_str_eq(p.ca_file, "/ca.pem");
    ll_s3_place_free(&p);
    ck_assert_int_eq(setenv("AWS_MAX_ATTEMPTS", "many", 1), 0);
    FAILS(open_url("s3://shop/x"), LLADD_BAD_ARGUMENT, "AWS_MAX_ATTEMPTS", "many");
}
END_TEST

START_TEST(what_is_no_place_is_refused)
{
    static const char *const urls[] = {"s3://",          "s3://ab",      "s3:///x",
                                       "s3://shop/../x", "s3://shop//x", "s3://shop/a b",
                                       "s3://shop/.hid", "s3://sh?op/x", "s3://key:word@shop/x",
                                       "s3://.shop/x",   "s3:shop"};
    static const char *const endpoints[] = {"", HTTP "", "ftp://one.example", HTTP "a?b", "a b"};
    forget_environment();
    options.access_key_id = "AKID";
    options.secret_access_key = "secret";
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        FAILS(open_url(urls[i]), LLADD_BAD_ARGUMENT, "", "");
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        options.endpoint = endpoints[i];
        FAILS(open_url("s3://shop/x"), LLADD_BAD_ARGUMENT, "endpoint", endpoints[i]);
    }
    options.endpoint = HTTP "key:word@one.example";
    FAILS(open_url("s3://shop/x"), LLADD_BAD_ARGUMENT, "no credentials", "AWS_ACCESS_KEY_ID");
    ck_assert(!strstr(err.message, "word"));
    options.endpoint = NULL;
    FAILS(open_url("s3://key:word@shop/x"), LLADD_BAD_ARGUMENT, "no credentials", "");
    ck_assert(!strstr(err.message, "word"));
    options.region = "eu west";
    FAILS(open_url("s3://shop/x"), LLADD_BAD_ARGUMENT, "region", "eu west");
    options.region = NULL;
    options.secret_access_key = "two\nlines";
    FAILS(open_url("s3://shop/x"), LLADD_BAD_ARGUMENT, "credentials", "shop");
    ck_assert(!strstr(err.message, "lines"));
    options.secret_access_key = NULL;
    FAILS(open_url("s3://shop/x"), LLADD_NO_ACCESS, "credentials", "shop");
}
END_TEST

static void add_contract(Suite *s)
{
    TCase *tc = tcase_create("contract");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, objects_are_put_got_listed_and_deleted);
    tcase_add_test(tc, objects_of_all_sizes);
    tcase_add_test(tc, objects_are_read_in_pieces);
    tcase_add_test(tc, every_object_is_listed_once);
    tcase_add_test(tc, a_taken_name_is_compared);
    tcase_add_test(tc, prefixes_are_kept_apart);
    tcase_add_test(tc, wrong_credentials);
    tcase_add_test(tc, a_missing_bucket);
    suite_add_tcase(s, tc);
}

static void add_faults(Suite *s)
{
    TCase *tc = tcase_create("faults");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_busy_server_is_asked_again);
    tcase_add_test(tc, a_lost_reply_to_a_put);
    tcase_add_test(tc, a_truncated_answer_is_asked_for_again);
    tcase_add_test(tc, a_server_that_does_not_answer);
    tcase_add_test(tc, a_server_that_is_not_there);
    tcase_add_test(tc, a_server_that_ignores_the_condition_is_refused);
    tcase_add_test(tc, answers_that_are_wrong);
    tcase_add_test(tc, pieces_in_their_order_are_read_ahead);
    tcase_add_test(tc, a_server_that_ignores_ranges);
    tcase_add_test(tc, a_session_token);
    tcase_add_test(tc, the_certificate_is_checked);
    suite_add_tcase(s, tc);
}

int main(void)
{
    Suite *s = suite_create("s3");
    add_contract(s);
    add_faults(s);
    /* Last, since it changes the environment, and cases may share a process. */
    TCase *places = tcase_create("places");
    tcase_add_checked_fixture(places, setup, teardown);
    tcase_add_test(places, the_url_of_a_bucket);
    tcase_add_test(places, the_environment_says_what_the_options_lack);
    tcase_add_test(places, what_is_no_place_is_refused);
    suite_add_tcase(s, places);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
