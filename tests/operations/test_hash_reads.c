/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys and values in blobs are read without locks. A writer may do anything between two steps of a
 * reader. The reader must still get one whole value, and a walk must return every element that
 * exists during the whole walk exactly once.
 *
 * In the case `stops`, the reader reads the pages of a value from the device. In the n-th run the
 * reader is stopped before its n-th read, and meanwhile a writer changes the value. (Pages that the
 * writer needs are cached, because the writer would wait for a page that the reader is loading.) In
 * the case `threads`, which runs under TSan, no thread is stopped.
 */
#include "op_fixture.h"

#include <lladd/hash.h>


enum { KEYS = 3, KEY_MAX = 2000, VALUE_MAX = 150000 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;

/* Makes key i; key 2 is long, so that it is in a blob. */
static size_t key_of(unsigned i, unsigned char out[KEY_MAX])
{
    size_t len = i == 2 ? KEY_MAX : 8;
    memset(out, 'k', len);
    out[0] = (unsigned char)i;
    return len;
}

static int put(struct lladd_txn *txn, unsigned i, unsigned char letter, size_t len)
{
    unsigned char key[KEY_MAX];
    unsigned char *value = malloc(len);
    sure(value != NULL, "no memory");
    memset(value, letter, len);
    size_t n = key_of(i, key);
    int rc = lladd_hash_put(txn, hash, key, n, value, len);
    free(value);
    return rc;
}

static int take(struct lladd_txn *txn, unsigned i)
{
    unsigned char key[KEY_MAX];
    size_t n = key_of(i, key);
    return lladd_hash_delete(txn, hash, key, n);
}

/* ---- the writer ------------------------------------------------------------------------------ */

enum action { REPLACE, LENGTHEN, SHORTEN, TAKE_AND_PUT, ROLL_BACK, LEAVE_OPEN, ACTIONS };

/* The writer changes a value that is so long that an index page lists some of its pages. To find
 * these pages, the reader reads the root page again. */
enum { LONG = 140000, OTHER = 20000 };

/* The length that the writer's value has in each action. */
static const size_t after[ACTIONS] = {
    [REPLACE] = LONG,      [LENGTHEN] = LONG + 10000, [SHORTEN] = 10,
    [TAKE_AND_PUT] = LONG, [ROLL_BACK] = 5000,        [LEAVE_OPEN] = 5000};

static struct lladd_txn *open_one; /* the transaction that LEAVE_OPEN leaves open */

static void act(enum action action, unsigned i)
{
    struct lladd_txn *txn;
    sure(lladd_begin(b.db, NULL, &txn, NULL) == 0, "begin");
    if (action == TAKE_AND_PUT)
        sure(take(txn, i) == 0, "remove");
    sure(put(txn, i, 'b', after[action]) == 0, lladd_txn_error(txn)->message);
    if (action == LEAVE_OPEN)
        open_one = txn;
    else if (action == ROLL_BACK)
        sure(lladd_abort(txn) == 0, "abort");
    else
        sure(lladd_commit(txn) == 0, "commit");
}

/* ---- stopping the reader --------------------------------------------------------------------- */

static _Thread_local bool reading;

static struct {
    struct lladd_thread thread;
    enum action action;
    unsigned key;
    uint64_t at, read; /* the writer acts before the reader makes read number `at` */
    bool acted;
} stop;

static void *writer(void *arg)
{
    (void)arg;
    act(stop.action, stop.key);
    return NULL;
}

static void before_call(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    (void)ctx;
    (void)number;
    if (!reading || kind != FAULT_PREAD || strcmp(name, "pages") != 0 || stop.read++ != stop.at)
        return;
    stop.acted = true;
    sure(lladd_thread_start(&stop.thread, writer, NULL) == 0, "thread");
    lladd_thread_join(&stop.thread);
}

/* ---- the reader ------------------------------------------------------------------------------ */

static bool one_letter(const unsigned char *p, size_t len, unsigned char letter)
{
    while (len && p[len - 1] == letter)
        len--;
    return len == 0;
}

static bool is_value(unsigned i, const unsigned char *p, size_t len)
{
    if (i != stop.key)
        return len == OTHER && one_letter(p, len, 'a');
    return (len == LONG && one_letter(p, len, 'a')) ||
           (len == after[stop.action] && one_letter(p, len, 'b'));
}

enum reader { GET, GET_MANY, LOOK, IF_ABSENT, WALK, READERS };

static void get(unsigned i)
{
    unsigned char key[KEY_MAX];
    static unsigned char got[VALUE_MAX];
    size_t len = 0, n = key_of(i, key);
    ok_db(&b, lladd_hash_get(hash, key, n, got, sizeof got, &len, &b.err));
    ck_assert(is_value(i, got, len));
}

static void get_many(unsigned i)
{
    static unsigned char keys[KEYS][KEY_MAX], got[KEYS][VALUE_MAX];
    struct lladd_hash_query q[KEYS];
    for (unsigned k = 0; k < KEYS; k++)
        q[k] = (struct lladd_hash_query){.key = keys[k],
                                         .key_len = key_of((i + k) % KEYS, keys[k]),
                                         .buf = got[k],
                                         .size = VALUE_MAX};
    ok_db(&b, lladd_hash_get_many(hash, q, KEYS, &b.err));
    for (unsigned k = 0; k < KEYS; k++)
        ck_assert(q[k].rc == 0 && is_value((i + k) % KEYS, got[k], q[k].len));
}

struct seen {
    unsigned key, calls;
    bool fine;
};

static int note(void *ctx, struct lladd_span value)
{
    struct seen *s = ctx;
    s->calls++;
    s->fine = is_value(s->key, value.data, value.len);
    return 0;
}

static void look(unsigned i)
{
    unsigned char key[KEY_MAX];
    struct seen s = {.key = i};
    size_t n = key_of(i, key);
    ok_db(&b, lladd_hash_get_in_place(hash, key, n, note, &s, &b.err));
    ck_assert(s.calls == 1 && s.fine);
}

static void if_absent(unsigned i)
{
    unsigned char key[KEY_MAX];
    static unsigned char got[VALUE_MAX];
    size_t len = 0, n = key_of(i, key);
    bool inserted = true;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn,
       lladd_hash_insert_if_absent(txn, hash, key, n, "x", 1, &inserted, got, sizeof got, &len));
    ck_assert(!inserted && is_value(i, got, len));
    abort_txn(txn);
}

static void walk(unsigned i)
{
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    unsigned met[KEYS] = {0};
    int rc;
    (void)i;
    while ((rc = lladd_hash_cursor_next(hash, &w, &key, &value, &b.err)) == 0) {
        unsigned char want[KEY_MAX];
        unsigned k = *(const unsigned char *)key.data;
        ck_assert_uint_lt(k, KEYS);
        ck_assert_uint_eq(key.len, key_of(k, want));
        ck_assert_mem_eq(key.data, want, key.len);
        ck_assert(is_value(k, value.data, value.len));
        met[k]++;
    }
    ck_assert_msg(rc == LLADD_END, "%s", b.err.message);
    lladd_hash_cursor_close(hash, &w);
    for (unsigned k = 0; k < KEYS; k++)
        ck_assert_uint_eq(met[k], 1);
}

static void (*const readers[READERS])(unsigned) = {
    [GET] = get, [GET_MANY] = get_many, [LOOK] = look, [IF_ABSENT] = if_absent, [WALK] = walk};

/* ---- stops ----------------------------------------------------------------------------------- */

static void make_table(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, NULL, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    make_table();
}

static void setup_threads(void)
{
    fixture_init_threads(&b);
    fixture_open(&b);
    make_table();
}

static void teardown(void)
{
    ok_db(&b, lladd_hash_check(hash, &b.err));
    lladd_hash_close(hash);
    fixture_free(&b);
}

/* Restores the contents, and leaves only the table's pages and the root pages of blobs in the
 * cache. */
static void begin_anew(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < KEYS; i++)
        ok(txn, put(txn, i, 'a', i == stop.key ? LONG : OTHER));
    commit(txn);
    lladd_hash_close(hash);
    fixture_close(&b);
    fixture_open(&b);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
    uint64_t pages = 0;
    ok_db(&b, lladd_hash_pages(hash, fixture_count_page, &pages, &b.err));
}

START_TEST(stopped_before_each_page)
{
    uint64_t stops = 0;
    stop.key = (unsigned)_i / READERS % 2 ? 2 : 0;
    stop.action = (enum action)((unsigned)_i / READERS / 2);
    do {
        stop.at = stops++;
        stop.read = 0;
        stop.acted = false;
        open_one = NULL;
        begin_anew();
        fault_device_hook(b.fd, before_call, NULL);
        reading = true;
        readers[_i % READERS](stop.key);
        reading = false;
        fault_device_hook(b.fd, NULL, NULL);
        if (open_one)
            abort_txn(open_one);
    } while (stop.acted);
    ck_assert_uint_gt(stops, 30); /* the long value has more than 30 pages */
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { WRITES = 400, READING = 3, TAKEN = 1 /* this key is removed and put again */ };

static uint32_t writing;
static size_t lengths; /* 0: all values have one length, so that an element can get the same
                        * reference to a blob again */

/* Returns true if this is a whole value: all its bytes are the same letter, and its length is the
 * one for this letter. */
static bool is_any_value(const unsigned char *p, size_t len)
{
    return one_letter(p, len, p[0]) && len == 6000 + (lengths ? (size_t)p[0] * lengths : 0);
}

static void *write_values(void *arg)
{
    uint64_t seed = 5;
    (void)arg;
    for (unsigned n = 0; n < WRITES; n++) {
        struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
        struct lladd_txn *txn;
        uint64_t r = seeded_next(&seed);
        unsigned char letter = (unsigned char)(1 + n % 50);
        unsigned key = (unsigned)(r % KEYS);
        size_t len = 6000 + letter * lengths;
        o.durability = r >> 8 & 1 ? LLADD_DURABLE_LATER : LLADD_DURABLE;
        sure(lladd_begin(b.db, &o, &txn, NULL) == 0, "begin");
        if (key == TAKEN)
            sure(take(txn, TAKEN) == 0, lladd_txn_error(txn)->message);
        sure(put(txn, key, letter, len) == 0, lladd_txn_error(txn)->message);
        sure((r >> 24 & 3 ? lladd_commit(txn) : lladd_abort(txn)) == 0, "end");
    }
    lladd_atomic_store32(&writing, 0);
    return NULL;
}

static void read_one(unsigned i, unsigned char *got)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char key[KEY_MAX];
    size_t len = 0, n = key_of(i, key);
    int rc = lladd_hash_get(hash, key, n, got, VALUE_MAX, &len, &err);
    sure(rc == 0 || (rc == LLADD_NOT_FOUND && i == TAKEN), err.message);
    sure(rc || is_any_value(got, len), "half a value");
}

static void walk_through(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    unsigned met[KEYS] = {0};
    int rc;
    while ((rc = lladd_hash_cursor_next(hash, &w, &key, &value, &err)) == 0) {
        met[*(const unsigned char *)key.data]++;
        sure(is_any_value(value.data, value.len), "half a value in a walk");
    }
    sure(rc == LLADD_END, err.message);
    lladd_hash_cursor_close(hash, &w);
    for (unsigned k = 0; k < KEYS; k++)
        sure(met[k] == 1 || (met[k] == 0 && k == TAKEN), "an element was not met exactly once");
}

static void *read_values(void *arg)
{
    unsigned char *got = malloc(VALUE_MAX);
    (void)arg;
    sure(got != NULL, "no memory");
    for (unsigned i = 0; lladd_atomic_load32(&writing); i++) {
        read_one(i % KEYS, got);
        if (i % 4 == 0)
            walk_through();
    }
    free(got);
    return NULL;
}

START_TEST(readers_run_while_a_writer_runs)
{
    struct lladd_thread threads[READING + 1];
    struct lladd_txn *txn = fixture_begin(&b);
    lengths = _i ? 300 : 0;
    for (unsigned i = 0; i < KEYS; i++)
        ok(txn, put(txn, i, 1, 6000 + lengths));
    commit(txn);
    lladd_atomic_store32(&writing, 1);
    for (unsigned i = 0; i <= READING; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], i ? read_values : write_values, NULL), 0);
    for (unsigned i = 0; i <= READING; i++)
        lladd_thread_join(&threads[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("readers of hash tables");
    TCase *t = tcase_create("stops");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, stopped_before_each_page, 0, ACTIONS * READERS * 2);
    suite_add_tcase(s, t);
    t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup_threads, teardown);
    tcase_add_loop_test(t, readers_run_while_a_writer_runs, 0, 2);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
