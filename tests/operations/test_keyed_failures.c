/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables and B+trees that split, merge and rebuild chains while every n-th memory allocation,
 * read, or device call fails. Each call succeeds, or returns the reason and has changed nothing
 * (API-1). Every rollback succeeds (REC-3). The structure is valid after each failure and after a
 * crash, and has exactly the committed changes. No page is lost.
 */
#include "keyed.h"
#include "op_fixture.h"

#include "operations/btree/tree.h"
#include "operations/hash/table.h"

#include <errno.h>

enum { KEYS = 400, LONGEST = 3000, FULL_LOOKS = 10 };

static struct fixture b;
static lladd_pageno root;
static struct keyed keyed;
static enum keyed_kind kind;
static uint32_t key_size, value_size; /* 0: any length */

struct model {
    uint32_t version[KEYS]; /* 0: the key is absent */
};
static struct model committed, now, before_commit;
static bool unknown; /* a commit has failed: the structure has `committed` or `before_commit` */
static uint32_t next_version;

/* Which calls fail, and how often. */
enum what { NOTHING, MEMORY, READS, DEVICE };
static struct {
    enum what what;
    uint64_t every, failures, looks;
    uint64_t survived; /* calls that have succeeded although something failed meanwhile */
} fault;

static void faults(bool on)
{
    uint64_t n = on ? fault.every : 0;
    switch (fault.what) {
    case MEMORY:
        fault_alloc_fail(&b.mem, n, false);
        break;
    case READS:
        fault_device_fail(b.fd, n, FAULT_PREAD, EIO, false);
        break;
    case DEVICE:
        fault_device_fail(b.fd, n, FAULT_ANY, fault.every % 2 ? EIO : ENOSPC, false);
        break;
    default:
        break;
    }
}

/* ---- the structure and its model ------------------------------------------------------------- */

static size_t key_bytes(uint32_t k, unsigned char *out)
{
    uint32_t longer = kind == KEYED_BTREE ? 500 : 1001; /* a hash table has such keys in blobs */
    size_t len = key_size ? key_size : k % 29 == 7 ? longer + k : 4 + k % 5;
    memset(out, (int)k, len);
    lladd_put32(out, k);
    return len;
}

static size_t value_bytes(uint32_t k, uint32_t version, unsigned char *out)
{
    size_t len = value_size          ? value_size
                 : version % 23 == 5 ? 1001 + version % 1500
                                     : 4 + (k + version) % 200;
    memset(out, (int)(k + version), len);
    lladd_put32(out, version);
    return len;
}

static void compare_key(const struct model *m, uint32_t k)
{
    unsigned char key[LONGEST], value[LONGEST], got[LONGEST];
    size_t len = 0;
    int rc = keyed_get(&keyed, key, key_bytes(k, key), got, sizeof got, &len, &b.err);
    ck_assert_msg(rc == (m->version[k] ? 0 : LLADD_NOT_FOUND), "key %u: %s: %s", k,
                  lladd_code_name(rc), b.err.message);
    if (rc)
        return;
    ck_assert_uint_eq(len, value_bytes(k, m->version[k], value));
    ck_assert_mem_eq(got, value, len);
}

static void compare(const struct model *m)
{
    struct keyed_stats s;
    uint64_t n = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        compare_key(m, k);
        n += m->version[k] != 0;
    }
    ok_db(&b, keyed_check(&keyed, &b.err));
    ok_db(&b, keyed_stats_get(&keyed, &s, &b.err));
    ck_assert_uint_eq(s.rows, n);
}

static void make(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, keyed_create(txn, kind, key_size, value_size, &root));
    commit(txn);
}

static void open_it(void)
{
    ok_db(&b, keyed_open(b.db, kind, root, &keyed, &b.err));
}

/* Is the handle unusable? */
static bool poisoned(void)
{
    return lladd_db_error(b.db, &b.err) != 0;
}

static bool fired(void)
{
    return fault.what == MEMORY    ? fault_alloc_fired(&b.mem) > 0
           : fault.what != NOTHING ? fault_device_fired(b.fd) > 0
                                   : false;
}

/* Asserts that a failed call has changed nothing: the structure is as in the model `now`. */
static void look(uint32_t k)
{
    faults(false);
    compare_key(&now, k);
    if (fault.looks++ < FULL_LOOKS)
        compare(&now);
    faults(true);
}

/* Asserts that a call returned an expected result. Returns false if the handle is poisoned. */
static bool fine(struct lladd_txn *txn, int rc)
{
    if (rc == 0)
        return true;
    const struct lladd_error *err = lladd_txn_error(txn);
    ck_assert_msg(err->code == rc && err->message[0], "%s, but the error is %s",
                  lladd_code_name(rc), lladd_code_name(err->code));
    ck_assert_msg(fault.what != NOTHING && rc != LLADD_EXISTS && rc != LLADD_NOT_FOUND &&
                      rc != LLADD_BUG && rc != LLADD_CORRUPT_PAGE,
                  "every %llu: %s: %s", (unsigned long long)fault.every, lladd_code_name(rc),
                  err->message);
    fault.failures++;
    if (!poisoned())
        return true;
    ck_assert_int_eq(fault.what, DEVICE);
    return false;
}

/* ---- the workload ---------------------------------------------------------------------------- */

/* Puts new values of the keys from `from` to `to` - 1, or removes the keys. Returns false if the
 * handle is poisoned. */
static bool change_all(struct lladd_txn *txn, uint32_t from, uint32_t to, bool put)
{
    unsigned char key[LONGEST], value[LONGEST];
    bool useful = true;
    for (uint32_t k = from; k < to && useful; k++) {
        size_t klen = key_bytes(k, key), vlen = value_bytes(k, ++next_version, value);
        int rc;
        if (!put && !now.version[k])
            continue;
        if (!put)
            rc = keyed_delete(txn, &keyed, key, klen);
        else if (now.version[k] || k % 3)
            rc = keyed_put(txn, &keyed, key, klen, value, vlen);
        else
            rc = keyed_insert(txn, &keyed, key, klen, value, vlen);
        useful = fine(txn, rc);
        if (rc == 0)
            now.version[k] = put ? next_version : 0;
        fault.survived += rc == 0 && fired();
        if (useful && fired())
            look(k);
    }
    return useful;
}

static bool end(struct lladd_txn *txn, bool keep)
{
    unknown = keep;
    before_commit = committed;
    if (keep) {
        committed = now;
        int rc = lladd_commit(txn);
        if (rc == 0) {
            unknown = false;
            return true;
        }
        ck_assert_int_ne(fault.what, NOTHING);
        if (poisoned())
            return false;
        committed = before_commit;
        unknown = false;
    }
    int rc = lladd_abort(txn);
    if (rc != 0) { /* an abort needs no memory, but it may have to read pages and log */
        ck_assert(fault.what == READS || fault.what == DEVICE);
        return false;
    }
    now = committed;
    faults(false);
    compare(&now);
    faults(true);
    return true;
}

/* The transactions. The structure grows, shrinks in several transactions (removed rows take room
 * until their transaction has ended), and grows again. Each transaction puts (`put`) or removes
 * keys `from` to `to` - 1. Then it does the opposite with the keys `again_from` to `again_to` - 1,
 * and undoes this by a rollback to a savepoint. It commits if `keep` is true. */
static const struct {
    uint32_t from, to, again_from, again_to;
    bool put, keep;
} rounds[] = {
    {0, KEYS, 0, KEYS / 4, true, true},
    {0, KEYS / 2, 0, KEYS, false, false},
    {0, KEYS / 2, KEYS / 2, KEYS, false, true},
    {KEYS / 2, KEYS - 80, 0, KEYS / 4, false, true},
    {KEYS - 80, KEYS - 5, KEYS - 30, KEYS, false, true},
    {0, KEYS, KEYS / 3, KEYS, true, false},
    {KEYS / 4, KEYS, 0, KEYS / 2, true, true},
    {KEYS / 4, KEYS, 0, KEYS / 4, false, true},
};

static bool round_of(size_t i)
{
    struct lladd_txn *txn;
    lladd_savepoint_id sp;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    if (rc) {
        ck_assert_int_ne(fault.what, NOTHING);
        return !poisoned();
    }
    bool useful = change_all(txn, rounds[i].from, rounds[i].to, rounds[i].put);
    struct model saved = now;
    if (useful && lladd_savepoint(txn, &sp) == 0) {
        useful = change_all(txn, rounds[i].again_from, rounds[i].again_to, !rounds[i].put);
        if (useful && fault.what != MEMORY) /* the rollback needs no memory */
            faults(false);
        if (useful)
            ok(txn, lladd_rollback_to(txn, sp));
        faults(useful);
        now = saved;
    }
    if (!useful) {
        faults(false);
        (void)lladd_abort(txn); /* fails, because the handle is poisoned */
        return false;
    }
    return end(txn, rounds[i].keep);
}

/* Destroys the structure, and rolls that back. The destruction is tried again with fewer failures
 * until it succeeds. Each failed attempt must have changed nothing. */
static void destroyed_and_back(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    bool gone = false;
    for (int i = 0; i < 30 && !gone; i++) {
        faults(true);
        gone = keyed_destroy(txn, kind, root) == 0;
        faults(false);
        if (!gone)
            compare(&now);
        fault.every += fault.every / 4 + 1;
    }
    abort_txn(txn);
    compare(&now);
}

/* Random numbers are constant, so that every run makes the same structure. */
static int no_chance(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0x3c, len);
    return 0;
}
static const struct lladd_environment world = {.random = no_chance};

/* Runs the whole workload, and returns the statistics. */
static struct keyed_stats run(void)
{
    struct keyed_stats s = {0, 0, 0};
    bool useful = true;
    fixture_init(&b, 4096);
    b.options.cache_bytes = 1u << 16;
    b.options.world = &world;
    fixture_open(&b);
    uint64_t pages = fixture_pages_used(&b);
    memset(&committed, 0, sizeof committed);
    memset(&now, 0, sizeof now);
    next_version = 0;
    unknown = false;
    make();
    open_it();
    faults(true);
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0] && useful; i++)
        useful = round_of(i);
    faults(false);
    if (useful) {
        compare(&now);
        ok_db(&b, keyed_stats_get(&keyed, &s, &b.err));
        if (fault.what == MEMORY || fault.what == READS)
            destroyed_and_back();
    }
    keyed_close(&keyed);
    fixture_crash(&b);
    open_it();
    unsigned char key[LONGEST], got[LONGEST];
    if (unknown) /* find out whether the record of the last commit has reached the device */
        for (uint32_t k = 0; k < KEYS; k++) {
            int rc = keyed_get(&keyed, key, key_bytes(k, key), got, sizeof got, NULL, &b.err);
            if ((rc == 0) != (committed.version[k] != 0) ||
                (rc == 0 && lladd_get32(got) != committed.version[k]))
                committed = before_commit;
        }
    compare(&committed);
    keyed_close(&keyed);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, keyed_destroy(txn, kind, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    fixture_free(&b);
    return s;
}

/* Each kind of structure, with fixed lengths and with any lengths of keys and values. */
enum { SHAPES = 2 * KEYED_KINDS };

static void set_up(int shape)
{
    kind = (enum keyed_kind)(shape / 2);
    key_size = shape % 2 ? 0 : 8;
    value_size = shape % 2 ? 0 : 200;
    fault.what = NOTHING;
    fault.failures = fault.survived = 0;
}

START_TEST(without_failures)
{
    set_up(_i);
    struct keyed_stats s = run();
    ck_assert_uint_gt(s.splits, 15);
    if (kind != KEYED_HASH_PHYSICAL)
        ck_assert_uint_gt(s.merges, 0);
}
END_TEST

/* every_nth tries each n up to EACH_TO, and some larger n. */
#ifdef LL_TEST_SHORT
enum { EACH_TO = 4 };
#else
enum { EACH_TO = 8 };
#endif

static void every_nth(int shape, enum what what)
{
    set_up(shape);
    fault.what = what;
    for (uint64_t n = 1; n < 6000; n += n < EACH_TO ? 1 : n * 4 / EACH_TO) {
        fault.every = n;
        fault.looks = 0;
        (void)run();
    }
    if (what == MEMORY) /* a failed write of the log poisons the handle */
        ck_assert_uint_gt(fault.failures, 100);
    if (what == READS) /* the log has all pages, and rebuilds one that cannot be read */
        ck_assert_uint_gt(fault.survived, 100);
}

START_TEST(allocations_fail)
{
    every_nth(_i, MEMORY);
}
END_TEST

START_TEST(reads_fail)
{
    every_nth(_i, READS);
}
END_TEST

START_TEST(device_calls_fail)
{
    every_nth(_i, DEVICE);
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

/* Makes a structure and commits the even keys, which are in `committed`. Returns an open
 * transaction that has inserted the odd keys, and has removed or replaced the even keys. */
static struct lladd_txn *half_changed(void)
{
    memset(&committed, 0, sizeof committed);
    make();
    open_it();
    unsigned char key[LONGEST], value[LONGEST];
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t k = 0; k < KEYS; k += 2) {
        size_t klen = key_bytes(k, key), vlen = value_bytes(k, committed.version[k] = k + 1, value);
        ok(txn, keyed_insert(txn, &keyed, key, klen, value, vlen));
    }
    commit(txn);
    txn = fixture_begin(&b);
    for (uint32_t k = 0; k < KEYS; k++) {
        size_t klen = key_bytes(k, key), vlen = value_bytes(k, 3, value);
        if (k % 2)
            ok(txn, keyed_insert(txn, &keyed, key, klen, value, vlen));
        else if (k % 4)
            ok(txn, keyed_put(txn, &keyed, key, klen, value, vlen));
        else
            ok(txn, keyed_delete(txn, &keyed, key, klen));
    }
    return txn;
}

static void abort_without_memory(struct lladd_txn *txn)
{
    fault_alloc_fail(&b.mem, 1, true);
    int rc = lladd_abort(txn);
    fault_alloc_fail(&b.mem, 0, false);
    (void)lladd_db_error(b.db, &b.err);
    ck_assert_msg(rc == 0, "%s", b.err.message);
}

/* Returns a shape with logical undo. If bit 0 of i is set, it has keys and values of any length; if
 * bit 4 is set, it is a B+tree. */
static int logical_shape(int i)
{
    return i % 2 + 2 * (i & 16 ? KEYED_BTREE : KEYED_HASH);
}

/* Aborts a transaction that was prepared before the database was closed and opened again, while the
 * structure is not open (REC-3). The bits of _i:
 * - bit 0: keys and values have any length;
 * - bit 1: a power failure takes the place of the close;
 * - bit 2: recovery is instant;
 * - bit 3: the transaction has also destroyed the structure;
 * - bit 4: the structure is a B+tree. */
START_TEST(an_abort_of_what_is_in_doubt_needs_no_memory)
{
    struct lladd_gid gid = fixture_gid("doubt");
    set_up(logical_shape(_i));
    fixture_init(&b, 4096);
    if (_i & 4)
        b.options.recovery = LLADD_RECOVER_INSTANT;
    fixture_open(&b);
    struct lladd_txn *txn = half_changed();
    keyed_close(&keyed);
    if (_i & 8)
        ok(txn, keyed_destroy(txn, kind, root));
    ok(txn, lladd_prepare(txn, &gid));
    if (_i & 2)
        fixture_kill(&b);
    else
        fixture_close(&b);
    fixture_open(&b);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    abort_without_memory(txn);
    open_it();
    compare(&committed);
    keyed_close(&keyed);
    fixture_free(&b);
}
END_TEST

/* A memory allocation of lladd_open fails. Then either the open fails, or the abort still needs no
 * memory. */
START_TEST(an_open_without_memory_fails_or_the_abort_needs_none)
{
    struct lladd_gid gid = fixture_gid("doubt");
    unsigned failed = 0;
    set_up(logical_shape(_i << 4));
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = half_changed();
    for (uint64_t n = 1, fired = 1; fired; n++) {
        keyed_close(&keyed);
        ok(txn, lladd_prepare(txn, &gid));
        fixture_close(&b);
        fault_alloc_fail(&b.mem, n, false);
        int rc = fixture_try_open(&b);
        fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            failed++;
            fixture_open(&b);
        }
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
        abort_without_memory(txn);
        open_it();
        txn = fixture_begin(&b);
        unsigned char key[LONGEST], value[LONGEST];
        size_t klen = key_bytes(1, key), vlen = value_bytes(1, 1, value);
        ok(txn, keyed_insert(txn, &keyed, key, klen, value, vlen));
    }
    abort_txn(txn);
    ck_assert_uint_gt(failed, 10);
    compare(&committed);
    keyed_close(&keyed);
    fixture_free(&b);
}
END_TEST

/* The root page of the structure is damaged. Open succeeds; opening the structure and the rollback
 * report the damage. */
START_TEST(an_open_survives_a_damaged_structure_of_a_transaction_in_doubt)
{
    struct lladd_gid gid = fixture_gid("doubt");
    unsigned char none[8] = {0};
    set_up(logical_shape(_i << 4));
    const uint32_t named = kind == KEYED_BTREE ? BR_TOP : HR_BUCKETS;
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = half_changed();
    fixture_forge(&b, root, named, none, sizeof none); /* the page is dirty */
    keyed_close(&keyed);
    ok(txn, lladd_prepare(txn, &gid));
    fixture_close(&b);
    fixture_open(&b);
    ck_assert_int_eq(keyed_open(b.db, kind, root, &keyed, &b.err), LLADD_CORRUPT_PAGE);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    ck_assert_int_ne(lladd_abort(txn), 0);
    (void)lladd_db_error(b.db, &b.err);
    ck_assert_ptr_nonnull(strstr(b.err.message, kind == KEYED_BTREE
                                                    ? "is not a valid root page"
                                                    : "the root of a hash table without buckets"));
    fixture_kill(&b);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables and B+trees, failures");
    TCase *c = tcase_create("failures");
    tcase_add_loop_test(c, without_failures, 0, SHAPES);
    tcase_add_loop_test(c, allocations_fail, 0, SHAPES);
    tcase_add_loop_test(c, reads_fail, 0, SHAPES);
    tcase_add_loop_test(c, device_calls_fail, 0, SHAPES);
    tcase_add_loop_test(c, an_abort_of_what_is_in_doubt_needs_no_memory, 0, 32);
    tcase_add_loop_test(c, an_open_without_memory_fails_or_the_abort_needs_none, 0, 2);
    tcase_add_loop_test(c, an_open_survives_a_damaged_structure_of_a_transaction_in_doubt, 0, 2);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
