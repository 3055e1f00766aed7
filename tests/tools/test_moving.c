/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader reads the log of a database in use. It reads all of the log, or knows which part was
 * truncated before it could read this part. It does not report bytes that are being written as
 * damage.
 */
#include "bench.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <lladd/device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- log that is recycled under the reader -------------------------------------------------- */

struct chase {
    struct lladd_db *db;
    lladd_pageno page;
    lladd_lsn pin[2];      /* release number n + 1 releases the log before pin[n] */
    unsigned jumps, pins;  /* number of releases so far; number of pins */
    lladd_lsn last, began; /* end of the last record seen; LSN of the first one */
    uint64_t missing;
    unsigned n;
    bool hasty;     /* the next part is released as soon as the reader has asked which log is
                     * left */
    uint64_t floor; /* everything before this LSN was released */
    char probed[32];
    bool listed;
};

/* Releases all log before the next pin; after the last pin, all log. */
static void give_up(struct chase *c)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = c->jumps < c->pins ? lladd_pin_set(c->db, "reader", c->pin[c->jumps], &err)
                                : lladd_pin_clear(c->db, "reader", &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    c->floor = c->jumps < c->pins ? c->pin[c->jumps].v : lladd_durable_lsn(c->db).v;
    for (int i = 0; i < 3; i++) {
        bench_commits(c->db, c->page, 100);
        ck_assert_int_eq(lladd_checkpoint(c->db, &err), 0);
    }
    c->jumps++;
}

/* Checks that each record comes once, in order, and that missing records were released. Releases
 * the next part right after the first record of the log that is left. */
static int chase(void *ctx, const struct lladd_inspect_record *r)
{
    struct chase *c = ctx;
    lladd_lsn lsn = r->entry.lsn;
    ck_assert_uint_ge(lsn.v, c->last.v);
    bool jumped = c->n == 0 || lsn.v > c->last.v;
    if (c->n)
        c->missing += lsn.v - c->last.v;
    c->last = lladd_lsn_of(lsn.v + r->size);
    c->n++;
    if (jumped && c->jumps <= c->pins && (!c->hasty || c->jumps == 0))
        give_up(c);
    return 0;
}

static struct chase *chased;
static const struct lladd_device_ops *memory_ops;

static void *give_up_elsewhere(void *c)
{
    give_up(c);
    return NULL;
}

static int note_listing(struct lladd_device *dev, const char *dir, lladd_list_fn *fn, void *ctx)
{
    chased->probed[0] = 0;
    chased->listed = true;
    return memory_ops->list(dev, dir, fn, ctx);
}

/* To find out which log is left, the reader lists the files and opens each, in order. When it opens
 * a file for the second time, it is about to read. If `hasty`, the next part of the log is released
 * at that moment. Another thread does this, because the reader holds a mutex. In this test a
 * released file can no longer be opened. */
static int open_what_is_left(struct lladd_device *dev, const char *name, unsigned flags,
                             struct lladd_file **out)
{
    struct chase *c = chased;
    if (!(flags & LLADD_OPEN_READ_ONLY) || strncmp(name, "log/", 4) != 0)
        return memory_ops->open(dev, name, flags, out);
    if (c->hasty && c->listed && strcmp(name, c->probed) <= 0 && c->jumps <= c->pins) {
        pthread_t other;
        c->listed = false;
        ck_assert_int_eq(pthread_create(&other, NULL, give_up_elsewhere, c), 0);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
    }
    snprintf(c->probed, sizeof c->probed, "%s", name);
    if (strtoull(name + 4, NULL, 16) + MADE_SEGMENT <= c->floor)
        return -ENOENT;
    return memory_ops->open(dev, name, flags, out);
}

/* If checkpoints overtake the reader, the reader continues at the oldest record that is left, up to
 * three times, repeats no record, and reports how much it has missed. This also holds if the rest
 * of the log is released before the reader reads it. */
START_TEST(recycled)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct chase c = {.pins = _i == 3 ? 1 : (unsigned)_i, .hasty = _i == 3};
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CLEAN, &m, &c.db, &err), 0);
    c.page = m.bytes;
    ck_assert_int_eq(lladd_pin_set(c.db, "reader", lladd_lsn_of(8), &err), 0);
    for (unsigned i = 0; i < 2; i++) {
        bench_commits(c.db, c.page, 160);
        c.pin[i] = lladd_durable_lsn(c.db);
    }
    bench_commits(c.db, c.page, 160);
    struct lladd_inspect *v = bench_look(dev, false);
    lladd_lsn end = bench_info(v).log_end;
    struct lladd_device_ops ops = *dev->ops;
    memory_ops = dev->ops;
    ops.list = note_listing;
    dev->ops = &ops;
    ops.open = open_what_is_left;
    chased = &c;
    int rc = lladd_inspect_log(v, lladd_lsn_of(0), chase, &c, &err);
    dev->ops = memory_ops;
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_uint_eq(c.jumps, c.pins + 1);
    struct lladd_inspect_info i = bench_info(v);
    ck_assert_uint_gt(i.recycled_bytes, 0);
    ck_assert_uint_eq(i.recycled_to.v, end.v); /* the last release has released everything */
    ck_assert_uint_eq(i.recycled_bytes, c.missing + (end.v - c.last.v));
    ck_assert_int_eq(err.code, 0); /* a successful call leaves the struct unchanged */
    lladd_inspect_close(v);
    v = bench_look(dev, false); /* a new view is complete */
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), bench_ignore, NULL, &err), 0);
    ck_assert_uint_eq(bench_info(v).recycled_bytes, 0);
    lladd_inspect_close(v);
    lladd_db_kill(c.db);
    lladd_device_close(dev);
}
END_TEST

static int count_in(void *ctx, const struct lladd_inspect_record *r)
{
    struct chase *c = ctx;
    c->began = c->n++ == 0 ? r->entry.lsn : c->began;
    return 0;
}

struct growing {
    struct lladd_db *db;
    lladd_pageno page;
    unsigned looks, until; /* looks: how often the log was listed; the log grows in each listing
                            * until `looks` exceeds `until` */
    unsigned wait, reads;  /* `reads`: how often bytes of the log were read; the log grows after
                            * `wait` reads */
};

static struct growing *growing;

static int count_look(struct lladd_device *dev, const char *dir, lladd_list_fn *fn, void *ctx)
{
    growing->looks += strcmp(dir, "log") == 0;
    return memory_ops->list(dev, dir, fn, ctx);
}

static void *grow(void *g)
{
    bench_commits(((struct growing *)g)->db, ((struct growing *)g)->page, 3);
    return NULL;
}

/* After the read, writes the log that the read has just missed, and more log with seal records. */
static int64_t read_and_grow(struct lladd_device *dev, struct lladd_file *file, void *buf,
                             size_t len, uint64_t offset)
{
    int64_t n = memory_ops->pread(dev, file, buf, len, offset);
    pthread_t other;
    if (len >= 4096 && growing->reads++ >= growing->wait && growing->looks &&
        growing->looks <= growing->until) {
        ck_assert_int_eq(pthread_create(&other, NULL, grow, growing), 0);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
    }
    return n;
}

/* The log grows while a reader looks for its end. Each time, the reader seems to find a hole before
 * a seal record, at another place. Neither the search for the end nor a reader that reads up to the
 * known end may report this as damage. */
START_TEST(log_grows_while_it_is_read)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct growing g = {.until = 12};
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CLEAN, &m, &g.db, &err), 0);
    g.page = m.bytes;
    struct lladd_device_ops ops = *dev->ops;
    memory_ops = dev->ops;
    growing = &g;
    ops.list = count_look;
    ops.pread = read_and_grow;
    dev->ops = &ops;
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert_uint_gt(g.looks, g.until);
    for (unsigned k = 1; k < 6; k++) { /* the log grows after all but the last k reads */
        ck_assert_msg(bench_info(v).log_end_kind == LLADD_LOG_END_OPEN, "%s",
                      lladd_inspect_log_end(v));
        for (int grows = 0; grows < 2; grows++) {
            g.until = grows ? UINT_MAX : 0;
            g.wait = grows && g.reads > k ? g.reads - k : 0;
            g.reads = 0;
            int rc = lladd_inspect_log(v, lladd_lsn_of(0), bench_ignore, NULL, &err);
            ck_assert_msg(rc == 0, "%s", err.message);
        }
        g.until = 0;
        lladd_inspect_close(v);
        v = bench_look(dev, false);
    }
    dev->ops = memory_ops;
    lladd_inspect_close(v);
    lladd_db_kill(g.db);
    lladd_device_close(dev);
}
END_TEST

/* A walk begins in the middle of the view's log, at a record that was truncated since the view was
 * opened. The missing log is counted from that record on. _i 0: some log is left; 1: no log is
 * left; 2: the record was not truncated, so nothing is missing. */
START_TEST(recycled_before_the_walk)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct chase c = {.pins = _i == 1 ? 0 : 1};
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CLEAN, &m, &c.db, &err), 0);
    c.page = m.bytes;
    ck_assert_int_eq(lladd_pin_set(c.db, "reader", lladd_lsn_of(8), &err), 0);
    bench_commits(c.db, c.page, 160);
    lladd_lsn middle = lladd_durable_lsn(c.db);
    bench_commits(c.db, c.page, 160);
    c.pin[0] = lladd_durable_lsn(c.db);
    bench_commits(c.db, c.page, 160);
    struct lladd_inspect *v = bench_look(dev, false);
    uint64_t end = bench_info(v).log_end.v;
    struct lladd_device_ops ops = *dev->ops;
    memory_ops = dev->ops;
    ops.list = note_listing;
    ops.open = open_what_is_left;
    chased = &c;
    if (_i < 2)
        give_up(&c);
    dev->ops = &ops;
    int rc = lladd_inspect_log(v, middle, count_in, &c, &err);
    dev->ops = memory_ops;
    ck_assert_msg(rc == 0, "%s", err.message);
    uint64_t to = c.n ? c.began.v : end;
    ck_assert_int_eq(c.n == 0, _i == 1);
    ck_assert_int_eq(to == middle.v, _i == 2);
    ck_assert_uint_eq(bench_info(v).recycled_bytes, to - middle.v);
    ck_assert_uint_eq(bench_info(v).recycled_to.v, _i == 2 ? 0 : to);
    lladd_inspect_close(v);
    lladd_db_kill(c.db);
    lladd_device_close(dev);
}
END_TEST

static void *change(void *g)
{
    struct growing *c = g;
    struct lladd_error err = LLADD_ERROR_INIT;
    bench_commits(c->db, c->page, 3);
    ck_assert_int_eq(lladd_checkpoint(c->db, &err), 0);
    return NULL;
}

/* Before the read, changes the page once more and writes it. The log was read before that. */
static int64_t change_and_read(struct lladd_device *dev, struct lladd_file *file, void *buf,
                               size_t len, uint64_t offset)
{
    pthread_t other;
    if (len == lladd_page_size(growing->db) && offset == growing->page.v * len) {
        growing->reads++;
        ck_assert_int_eq(pthread_create(&other, NULL, change, growing), 0);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
    }
    return memory_ops->pread(dev, file, buf, len, offset);
}

static int say_no_damage(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    ck_assert_msg(f->kind != LLADD_FINDING_DAMAGE, "%s", f->message);
    return 0;
}

/* While the database is in use, a page may be newer than the log that was read so far. This is no
 * damage, even if each check finds the page newer again. */
START_TEST(page_newer_than_the_log_that_was_read)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_verified out = {.struct_size = sizeof out};
    struct growing g = {.until = 0};
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CLEAN, &m, &g.db, &err), 0);
    g.page = m.bytes;
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_device_ops ops = *dev->ops;
    memory_ops = dev->ops;
    growing = &g;
    ops.pread = change_and_read;
    dev->ops = &ops;
    int rc = lladd_inspect_verify(v, say_no_damage, NULL, &out, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_uint_gt(g.reads, 0);
    ck_assert_uint_eq(out.damage, 0);
    struct lladd_inspect_page p;
    ck_assert_int_eq(lladd_inspect_page_read(v, g.page, &p, &err), 0);
    ck_assert_int_eq(p.code, 0);
    dev->ops = memory_ops;
    lladd_inspect_close(v);
    lladd_db_kill(g.db);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("inspect: in use");
    TCase *t = tcase_create("log");
    tcase_add_loop_test(t, recycled, 0, 4);
    tcase_add_loop_test(t, recycled_before_the_walk, 0, 3);
    tcase_add_test(t, log_grows_while_it_is_read);
    tcase_add_test(t, page_newer_than_the_log_that_was_read);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
