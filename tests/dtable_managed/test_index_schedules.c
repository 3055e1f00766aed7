/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index of a memtable, while one thread adds a key and another one searches. The threads are
 * fibers, and change at every access to a shared word: either the writer is interrupted there, and
 * the reader runs as a whole; or the reader is interrupted, and then the writer, which finishes
 * when the reader has. The keys that are added are those for which blocks are split or replaced.
 */
#include "index_keys.h"

#include "operations/dtables/managed/memtable.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/dst.h>
#include <lladd/sync.h>
#include <stdio.h>

enum { KEYS = 160, MANY_KEYS = 1100, BLOCK = 392, PROBES = 10 };

static struct lladd_device *dev;
static struct lladd_db *db;

/* ---- the schedule ---------------------------------------------------------------------------- */

/* The fiber `first` runs for `steps` accesses, then the other one for `others`, then `first` to its
 * end. */
enum { MAIN, WRITER, READER };
struct policy {
    uint64_t first;
    uint32_t steps, others;
    uint32_t at;
    int phase;
};
static struct policy policy;
static struct lladd_dst_fibers *fibers;

static unsigned index_of(const struct lladd_dst_turn *t, uint64_t fiber)
{
    for (unsigned i = 0; i < t->n; i++)
        if (t->fibers[i] == fiber)
            return i;
    return 0;
}

static unsigned turn(void *ctx, const struct lladd_dst_turn *t)
{
    struct policy *p = ctx;
    if (!t->current)
        return index_of(t, p->first);
    if (t->fibers[0] == MAIN)
        return 0;
    if (p->phase == 2 || ++p->at <= (p->phase ? p->others : p->steps))
        return 0;
    p->phase++;
    p->at = 0;
    return 1;
}

static void open_db(void)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dst_schedule how = {.ctx = &policy, .turn = turn, .points = LLADD_DST_ATOMIC};
    ck_assert_int_eq(lladd_dst_fibers_new(&how, &fibers), 0);
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    o.device = dev;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, &err), 0);
    lladd_options_release(&o);
}

static void close_db(void)
{
    lladd_dst_fibers_free(fibers);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_device_close(dev);
}

/* ---- a memtable ------------------------------------------------------------------------------ */

struct table {
    struct ll_memtable *m;
    struct ll_mem_part *part;
};

/* Scatters up to MANY_KEYS keys. */
static uint32_t number_of(uint32_t i)
{
    return (uint32_t)((uint64_t)i * 2903 % 4800);
}

static struct table with_keys(enum family family, uint32_t n)
{
    static const struct lladd_dtable_order order = {LLADD_DTABLE_BYTES, NULL};
    struct test_key k;
    struct table t;
    ck_assert_int_eq(ll_managed__mem_new(db, &order, &t.m), 0);
    t.part = ll_managed__mem_part(t.m);
    ck_assert_ptr_nonnull(t.part);
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_dtable_key key = make_key(family, number_of(i), &k);
        ck_assert_uint_ne(ll_managed__mem_node(t.part, &key), 0);
    }
    return t;
}

/* ---- two threads ----------------------------------------------------------------------------- */

struct scenario {
    enum family family;
    uint32_t n;        /* keys before */
    enum family other; /* the key that is added */
    uint32_t number;
    struct table t;
    const char *wrong; /* NULL: nothing */
};

static void *add(void *arg)
{
    struct scenario *s = arg;
    struct test_key k;
    struct lladd_dtable_key key = make_key(s->other, s->number, &k);
    if (!ll_managed__mem_node(s->t.part, &key))
        s->wrong = "no memory";
    return NULL;
}

static bool is(const struct table *t, uint32_t node, const struct lladd_dtable_key *key)
{
    return node && ll_managed__mem_compare(t->m, ll_managed__mem_at(t->m, node), key) == 0;
}

/* Also keys near the one that is added, and keys that begin otherwise. */
static void *search(void *arg)
{
    struct scenario *s = arg;
    struct test_key k;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct lladd_dtable_key key =
            make_key(s->family, number_of(i < 7 ? (s->n - 1) * i / 6 : i == 7 ? s->n / 7 : i), &k);
        if (!is(&s->t, ll_managed__mem_not_before(s->t.m, &key), &key))
            s->wrong = "not before";
        if (!is(&s->t, ll_managed__mem_not_after(s->t.m, &key, true), &key))
            s->wrong = "not after";
    }
    for (int i = 0; i < 4; i++) { /* before and after nearly all keys */
        k.len = KEY_MOST;
        memset(k.bytes, i % 2 ? 0xff : 0, k.len);
        k.bytes[0] = (unsigned char)(i < 2 ? 2 : 0xfe);
        struct lladd_dtable_key key = lladd_dtable_bytes(k.bytes, k.len);
        uint32_t next = ll_managed__mem_not_before(s->t.m, &key);
        uint32_t last = ll_managed__mem_not_after(s->t.m, &key, false);
        if (next && ll_managed__mem_compare(s->t.m, ll_managed__mem_at(s->t.m, next), &key) < 0)
            s->wrong = "a key after another one";
        if (last && ll_managed__mem_compare(s->t.m, ll_managed__mem_at(s->t.m, last), &key) >= 0)
            s->wrong = "a key before another one";
        if (!next && !last)
            s->wrong = "no keys";
    }
    return NULL;
}

static void *both(void *arg)
{
    struct scenario *s = arg;
    struct lladd_thread writer, reader;
    memset(&writer, 0, sizeof writer);
    memset(&reader, 0, sizeof reader);
    if (lladd_thread_start(&writer, add, s) || lladd_thread_start(&reader, search, s))
        s->wrong = "no thread";
    lladd_thread_join(&writer);
    lladd_thread_join(&reader);
    return NULL;
}

/* Returns whether the first fiber was interrupted. */
static bool run(struct scenario *s, uint64_t first, uint32_t steps, uint32_t others)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dst dst;
    memset(&dst, 0, sizeof dst);
    policy = (struct policy){first, steps, others, 0, 0};
    s->t = with_keys(s->family, s->n);
    int rc = lladd_dst_run(fibers, &dst, both, s, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_msg(!s->wrong, "family %d, %u keys, thread %u interrupted at %u, for %u: %s",
                  (int)s->family, s->n, (unsigned)first, steps, others, s->wrong);
    ll_managed__mem_drop(s->t.m);
    return policy.phase > 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct scenario next_key(enum family family, uint32_t n)
{
    return (struct scenario){
        .family = family, .n = n, .other = family, .number = number_of(n)};
}

/* Returns how many blocks are made when the key is added. */
static uint32_t blocks_for(const struct scenario *s)
{
    struct test_key k;
    struct table t = with_keys(s->family, s->n);
    struct lladd_dtable_key key = make_key(s->other, s->number, &k);
    uint64_t bytes = t.m->bytes;
    ck_assert_uint_ne(ll_managed__mem_node(t.part, &key), 0);
    bytes = t.m->bytes - bytes;
    ll_managed__mem_drop(t.m);
    return (uint32_t)(bytes / BLOCK);
}

static void interrupt(struct scenario *s, uint32_t stride)
{
    for (uint32_t i = 0; run(s, WRITER, i, UINT32_MAX); i++) {
    }
    for (uint32_t i = 0; run(s, READER, i, UINT32_MAX); i += stride)
        for (uint32_t j = i % stride; run(s, READER, i, j) && j < 400; j += 7 * stride) {
        }
}

/* _i: a family. */
START_TEST(blocks_are_split)
{
    uint32_t splits = 0, most = 0;
    open_db();
    for (uint32_t n = 32; n < KEYS; n++) {
        struct scenario s = next_key((enum family)_i, n);
        uint32_t blocks = blocks_for(&s);
        if (!blocks)
            continue;
        interrupt(&s, 11);
        splits++;
        most = blocks > most ? blocks : most;
    }
    ck_assert_uint_ge(splits, 3);
    ck_assert_uint_ge(most, 2);
    close_db();
}
END_TEST

/* The same in a larger table, for the keys for which most blocks are made. */
START_TEST(levels_are_added)
{
    open_db();
    for (uint32_t n = KEYS; n < MANY_KEYS; n++) {
        struct scenario s = next_key((enum family)_i, n);
        if (blocks_for(&s) >= 4)
            interrupt(&s, 97);
    }
    close_db();
}
END_TEST

/* All keys begin alike, and then one comes that does not. _i: how much it shares, and whether it
 * comes before them or after them. */
START_TEST(a_stranger_comes)
{
    static const uint32_t before[] = {64, 130, 800};
    open_db();
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        struct scenario s = {.family = TEXT, .n = before[i], .other = STRANGERS};
        s.number = 60 + 61 * (uint32_t)_i;
        ck_assert_uint_ge(blocks_for(&s), 2);
        interrupt(&s, before[i] < 800 ? 3 : 31);
    }
    close_db();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("index of a memtable, with schedules");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, blocks_are_split, 0, FAMILIES);
    tcase_add_loop_test(tc, levels_are_added, 0, FAMILIES);
    tcase_add_loop_test(tc, a_stranger_comes, 0, 6);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
