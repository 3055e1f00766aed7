/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A view reports the state of each database of made.c, whether the application's operations are
 * registered or not, and changes no byte. (test_damage.c tests damage.)
 *
 * All databases are on the memory device.
 */
#include "bench.h"

#include <check.h>
#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text ----------------------------------------------------------------------------------- */

struct text {
    char bytes[8192];
    size_t len;
};

static int put_text(void *ctx, const void *bytes, size_t len)
{
    struct text *t = ctx;
    ck_assert_uint_lt(t->len + len, sizeof t->bytes);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = 0;
    return 0;
}

/* The text of the n-th record of an operation. */
struct wanted {
    struct lladd_inspect *v;
    const char *op, *kind;
    unsigned n;
    struct text text;
    struct lladd_log_entry entry;
    uint32_t flags;
    bool found;
};

static int look_for(void *ctx, const struct lladd_inspect_record *r)
{
    struct wanted *w = ctx;
    bool fits = (!w->op || (r->entry.op && strcmp(r->entry.op, w->op) == 0)) &&
                strcmp(lladd_log_kind_name(r->entry.kind), w->kind) == 0;
    if (!fits || w->n-- != 0)
        return 0;
    struct lladd_sink sink = {.ctx = &w->text, .write = put_text};
    lladd_inspect_describe(w->v, r, &sink);
    w->entry = r->entry;
    w->flags = r->flags;
    w->found = true;
    return 1;
}

static struct wanted find_record(struct lladd_inspect *v, const char *kind, const char *op,
                                 unsigned n)
{
    struct wanted w = {.v = v, .op = op, .kind = kind, .n = n};
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), look_for, &w, &err), 1);
    ck_assert(w.found);
    return w;
}

/* ---- the state of a database ---------------------------------------------------------------- */

/* A database that was closed has nothing to recover, and its log ends where close has left it. */
START_TEST(clean)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info i = bench_info(v);
    ck_assert(i.clean && !i.control_bad[0] && !i.control_bad[1] && !i.atomic_pages);
    ck_assert_uint_eq(i.format, 1);
    ck_assert_uint_eq(i.page_size, 4096);
    ck_assert_uint_eq(i.uuid[3], 0x33);
    ck_assert_int_eq(i.created_us, 1234567890123456);
    ck_assert_int_eq(i.log_end_kind, LLADD_LOG_END_CLEAN);
    ck_assert_uint_eq(i.redo_records + i.losers + i.in_doubt, 0);
    ck_assert_uint_ge(i.pages, 8);
    ck_assert_uint_eq(i.page_file_bytes, i.pages * 4096);
    ck_assert_uint_gt(i.log_end.v, i.checkpoint.v);
    ck_assert_uint_eq(i.log_oldest.v, 8);
    ck_assert_int_eq(i.in_use, 0);
    ck_assert_ptr_nonnull(strstr(lladd_inspect_log_end(v), "closed cleanly"));
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

struct seen_txns {
    struct lladd_inspect_txn at[8];
    unsigned n;
};

static int see_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    struct seen_txns *s = ctx;
    ck_assert_uint_lt(s->n, 8);
    s->at[s->n++] = *t;
    return 0;
}

/* After a crash the view finds what recovery finds: the losers, the transactions in doubt, and the
 * work of redo. */
START_TEST(crashed)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info i = bench_info(v);
    struct seen_txns s = {.n = 0};
    ck_assert(!i.clean);
    ck_assert_int_eq(i.log_end_kind, LLADD_LOG_END_OPEN);
    ck_assert_uint_eq(i.losers, 2);
    ck_assert_uint_eq(i.in_doubt, 1);
    ck_assert_uint_eq(i.commits, 1);
    ck_assert_uint_eq(i.redo_pages, 3); /* these include two images that the checkpoint has
                                         * logged */
    ck_assert_uint_gt(i.redo_bytes, 0);
    ck_assert_uint_gt(i.undo_log_bytes, 0);
    ck_assert_int_eq(lladd_inspect_txns(v, see_txn, &s), 0);
    ck_assert_uint_eq(s.n, 3);
    ck_assert_uint_eq(s.at[0].id.v, m.active.v);
    ck_assert(!s.at[0].prepared && s.at[1].prepared && !s.at[2].prepared);
    ck_assert_uint_eq(s.at[1].id.v, m.prepared.v);
    ck_assert_str_eq(s.at[1].doubt.owner, "the till");
    ck_assert_uint_eq(s.at[1].doubt.gid.gtrid_length, 7);
    ck_assert_mem_eq(s.at[1].doubt.gid.data, "order-1b1", 9);
    ck_assert_int_eq(s.at[1].doubt.prepared_us, 1234567890123456);
    lladd_inspect_close(v);

    /* a recovery of these files must find the same */
    struct lladd_options o = made_options(dev);
    struct lladd_stats stats = {.struct_size = sizeof stats};
    struct lladd_db *db;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    ck_assert_int_eq(lladd_stats_get(db, &stats), 0);
    ck_assert_uint_eq(stats.recovered_undone_txns, i.losers);
    ck_assert_uint_eq(stats.in_doubt, i.in_doubt);
    ck_assert_uint_eq(stats.recovered_records, i.redo_records);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_device_close(dev);
}
END_TEST

/* Prepared transactions survive a close, and a checkpoint later than their prepare records. */
START_TEST(prepared)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_PREPARED, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct seen_txns s = {.n = 0};
    ck_assert(bench_info(v).clean);
    ck_assert_uint_eq(bench_info(v).in_doubt, 2);
    ck_assert_int_eq(lladd_inspect_txns(v, see_txn, &s), 0);
    ck_assert_uint_eq(s.n, 2);
    ck_assert(s.at[0].prepared && s.at[1].prepared);
    ck_assert_uint_lt(s.at[0].prepare.v, bench_info(v).checkpoint.v);
    ck_assert_mem_eq(s.at[0].doubt.gid.data, "order-1b1", 9);
    ck_assert_mem_eq(s.at[1].doubt.gid.data, "order-2b1", 9);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* While a process has the database open, the view names that process and shows the log so far. */
START_TEST(in_use)
{
    struct lladd_device *dev;
    struct made m;
    struct lladd_db *db;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CRASHED, &m, &db, &err), 0);
    struct lladd_inspect *v = bench_look(dev, false);
    struct findings f;
    ck_assert_int_eq(bench_info(v).in_use, 1);
    ck_assert_int_eq(bench_info(v).holder, getpid());
    ck_assert_uint_eq(bench_info(v).losers, 2);
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.count.damage + f.count.repair, 0);
    lladd_inspect_close(v);
    ck_assert_int_eq(lladd_db_error(db, NULL), 0);
    lladd_db_kill(db);
    v = bench_look(dev, false);
    ck_assert_int_eq(bench_info(v).in_use, 0);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* A record that was not written completely is a normal end of the log. */
START_TEST(torn)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CRASHED, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info before = bench_info(v);
    /* The newest commit. No later record proves that this commit was durable. */
    struct wanted last = {.n = 0};
    for (unsigned n = 0; n < 20 && last.entry.lsn.v < before.checkpoint.v; n++)
        last = find_record(v, "commit", NULL, n);
    char name[32];
    uint64_t at;
    ck_assert(lladd_inspect_place(v, last.entry.lsn, name, &at));
    lladd_inspect_close(v);
    bench_flip(dev, name, at + 20, 0xff);
    static const unsigned char zeros[64];
    bench_write(dev, name, at + 40, zeros, sizeof zeros);
    v = bench_look(dev, false);
    struct findings f;
    ck_assert_int_eq(bench_info(v).log_end_kind, LLADD_LOG_END_TORN);
    ck_assert_uint_eq(bench_info(v).log_end.v, last.entry.lsn.v);
    ck_assert_uint_lt(bench_info(v).log_end.v, before.log_end.v);
    ck_assert_uint_eq(bench_info(v).losers, before.losers + 1);
    ck_assert_ptr_nonnull(strstr(lladd_inspect_log_end(v), "torn tail"));
    ck_assert_ptr_nonnull(strstr(lladd_inspect_log_end(v), name));
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.count.damage, 0);
    ck_assert_uint_eq(f.count.notes, 1);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

struct pinners {
    struct lladd_pinner at[8];
    unsigned n;
};

static int see_pinner(void *ctx, const struct lladd_pinner *p)
{
    struct pinners *s = ctx;
    ck_assert_uint_lt(s->n, 8);
    s->at[s->n++] = *p;
    return 0;
}

/* Lists what keeps the log, in order of LSN. The last entry is one with an LSN that only the
 * application knows. In a running database lladd_log_pinner reports the first entry. */
START_TEST(pinned)
{
    struct made m;
    struct pinners p = {.n = 0};
    struct lladd_device *dev = bench_make(MADE_PINNED, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert_int_eq(lladd_inspect_pinners(v, see_pinner, &p), 0);
    ck_assert_uint_eq(p.n, 3);
    ck_assert_str_eq(p.at[0].kind, "pin");
    ck_assert_str_eq(p.at[0].name, "backup");
    ck_assert_uint_eq(p.at[0].lsn.v, m.aborted.v);
    ck_assert_uint_eq(p.at[0].age_bytes, bench_info(v).log_end.v - m.aborted.v);
    ck_assert_str_eq(p.at[1].kind, "checkpoint");
    ck_assert_uint_eq(p.at[1].lsn.v, bench_info(v).redo.v);
    ck_assert_str_eq(p.at[2].kind, "class"); /* only the application knows its LSN */
    ck_assert_str_eq(p.at[2].name, "test.memory");
    ck_assert_uint_eq(p.at[2].lsn.v, 0);
    lladd_inspect_close(v);
    lladd_device_close(dev);

    struct lladd_db *db;
    struct lladd_pinner said;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(made_open(NULL, dev, MADE_CRASHED, &m, &db, NULL), 0);
    ck_assert_int_eq(lladd_log_pinner(db, &said, NULL), 0);
    v = bench_look(dev, false);
    p.n = 0;
    ck_assert_int_eq(lladd_inspect_pinners(v, see_pinner, &p), 0);
    ck_assert_uint_eq(p.n, 5);
    ck_assert_uint_eq(p.at[0].lsn.v, said.lsn.v);
    lladd_inspect_close(v);
    lladd_db_kill(db);
    lladd_device_close(dev);
}
END_TEST

/* ---- records -------------------------------------------------------------------------------- */

/* Names and fields of the operation come from the log, because the operation is not registered. */
START_TEST(fields_from_the_log)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_LONG, &m); /* the log with the first use was
                                                           * truncated */
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert_uint_gt(bench_info(v).log_oldest.v, 8);
    struct wanted w = find_record(v, "update", "test.tally", 0);
    ck_assert_uint_eq(w.entry.op_version, 3);
    ck_assert_uint_eq(w.entry.page, m.bytes.v);
    ck_assert(w.flags & LLADD_RECORD_UNDO_PAGE);
    ck_assert_ptr_nonnull(strstr(w.text.bytes, " why=\"again and again and again and again\""));
    ck_assert_ptr_nonnull(strstr(w.text.bytes, " | undo delta="));
    ck_assert_ptr_null(strstr(w.text.bytes, "tally"));
    lladd_inspect_close(v);
    /* If the application's operation is registered, its own description is shown, too. */
    v = bench_look(dev, true);
    w = find_record(v, "update", "test.tally", 0);
    ck_assert_ptr_nonnull(strstr(w.text.bytes, "(tally +"));
    lladd_inspect_close(v);
    lladd_device_close(dev);
    dev = bench_make(MADE_CLEAN, &m);
    v = bench_look(dev, true);
    w = find_record(v, "object", "test.memory", 0);
    ck_assert_str_eq(w.text.bytes,
                     "object=42 remember \"the answer\" | undo forget \"the answer\"");
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* The text of one record of each kind. */
START_TEST(text_of_each_kind_of_record)
{
    static const struct {
        enum made_kind made;
        const char *kind, *op, *text;
    } cases[] = {
        {MADE_CLEAN, "update", "test.tally", "delta=5 why=\"first\" | undo delta=5"},
        {MADE_CLEAN, "clr", "test.tally", "undo delta=1000"},
        {MADE_CLEAN, "object", "test.memory", "object=42 746865"},
        {MADE_CLEAN, "object-clr", "test.memory", "object=43"},
        {MADE_CLEAN, "action-end", NULL, ""},
        {MADE_CLEAN, "catalogue", "test.tally",
         "= test.tally@3 on lladd.bytes redo: delta, why undo: delta"},
        {MADE_CLEAN, "note", "test.note", "bytes=\"mind the gap\""},
        {MADE_CLEAN, "redo-barrier", NULL, "first="},
        {MADE_CLEAN, "image", NULL, "page of type lladd."},
        {MADE_CLEAN, "seal", NULL, "durable="},
        {MADE_CLEAN, "checkpoint-data", NULL, "a checkpoint begins"},
        {MADE_CLEAN, "checkpoint-end", NULL, "checkpoint="},
        {MADE_CRASHED, "prepare", NULL,
         "gid=7:6f726465722d31:6231 prepared_us=1234567890123456 owner=\"the till\""},
        {MADE_PINNED, "pin", NULL, "name=\"backup\""},
    };
    struct made m;
    struct lladd_device *dev = bench_make(cases[_i].made, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct wanted w = find_record(v, cases[_i].kind, cases[_i].op, 0);
    ck_assert_msg(strstr(w.text.bytes, cases[_i].text) != NULL, "\"%s\" says \"%s\"",
                  cases[_i].kind, w.text.bytes);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

struct chain {
    uint64_t lsn, records, bytes;
};

static int follow(void *ctx, const struct lladd_inspect_record *r)
{
    struct chain *c = ctx;
    ck_assert_uint_ge(r->entry.lsn.v, c->lsn);
    c->lsn = r->entry.lsn.v + r->size;
    c->records++;
    return 0;
}

/* A walk from the beginning gives every record once, in order, up to the end that the view has
 * reported. So does a walk from the checkpoint. */
START_TEST(whole_log)
{
    struct made m;
    struct lladd_device *dev = bench_make((enum made_kind)_i, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct chain all = {0, 0, 0}, some = {0, 0, 0};
    struct lladd_inspect_info i = bench_info(v);
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), follow, &all, NULL), 0);
    ck_assert_uint_eq(all.lsn, i.log_end.v);
    ck_assert_int_eq(lladd_inspect_log(v, i.checkpoint, follow, &some, NULL), 0);
    ck_assert_uint_eq(some.records, i.analysis_records);
    ck_assert_uint_eq(some.lsn, all.lsn);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

struct names {
    unsigned n, unknown;
    bool tally, tag;
};

static int see_name(void *ctx, const struct lladd_inspect_name *n)
{
    struct names *s = ctx;
    ck_assert_uint_eq(n->number, ++s->n); /* consecutive */
    s->unknown += !n->registered && n->kind != LLADD_NAME_TAG;
    if (strcmp(n->name, "test.tally") == 0) {
        s->tally = true;
        ck_assert_int_eq(n->kind, LLADD_NAME_OPERATION);
        ck_assert_uint_eq(n->version, 3);
        ck_assert_str_eq(n->redo_fields[1].name, "why");
        ck_assert_int_eq(n->redo_fields[1].type, LLADD_FIELD_TEXT);
        ck_assert_ptr_null(n->redo_fields[2].name);
        ck_assert_str_eq(n->undo_fields[0].name, "delta");
    }
    s->tag = s->tag || (n->kind == LLADD_NAME_TAG && strcmp(n->name, "test.note") == 0);
    return 0;
}

/* The catalogue has the layouts of records. Names that are not registered are marked. */
START_TEST(catalogue)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_LONG, &m);
    for (int known = 0; known < 2; known++) {
        struct lladd_inspect *v = bench_look(dev, known);
        struct names s = {0};
        ck_assert_int_eq(lladd_inspect_names(v, see_name, &s), 0);
        ck_assert(s.tally && s.tag);
        ck_assert_uint_eq(s.unknown, known ? 0 : 2); /* the tally and the class */
        lladd_inspect_close(v);
    }
    lladd_device_close(dev);
}
END_TEST

static int see_page_type(void *ctx, const struct lladd_inspect_name *n)
{
    bool wants = n->kind == LLADD_NAME_OPERATION && strcmp(n->name, "test.tally") == 0;
    if (wants) {
        ck_assert_ptr_nonnull(n->page_type);
        ck_assert_str_eq(n->page_type, "lladd.bytes");
        ++*(int *)ctx;
    }
    if (n->kind != LLADD_NAME_OPERATION)
        ck_assert_ptr_null(n->page_type);
    return 0;
}

/* A process that does not know an operation uses the database. The page type of the operation stays
 * known, because checkpoints repeat the catalogue. */
START_TEST(page_type_of_an_unknown_operation_stays_known)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    for (int round = 0; round < 3; round++) {
        struct lladd_options o = LLADD_OPTIONS_INIT;
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_db *db;
        int seen = 0;
        struct lladd_inspect *v = bench_look(dev, false);
        ck_assert_int_eq(lladd_inspect_names(v, see_page_type, &seen), 0);
        ck_assert_int_eq(seen, 1);
        lladd_inspect_close(v);
        o.device = dev;
        o.flags = LLADD_OPT_NO_THREADS;
        o.frames = LLADD_FRAMES_HEAP;
        o.log_ring_bytes = 1u << 16;
        ck_assert_int_eq(lladd_register_class(&o, made_extension.classes[0], &err), 0);
        ck_assert_msg(lladd_open(NULL, &o, &db, &err) == 0, "%s", err.message);
        lladd_options_release(&o);
        bench_commits(db, m.bytes, 3);
        ck_assert_int_eq(lladd_checkpoint(db, &err), 0);
        ck_assert_int_eq(lladd_close(db), 0);
    }
    lladd_device_close(dev);
}
END_TEST

/* ---- pages ---------------------------------------------------------------------------------- */

static struct lladd_inspect_page page_of(struct lladd_inspect *v, lladd_pageno n)
{
    struct lladd_inspect_page p;
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = lladd_inspect_page_read(v, n, &p, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert(p.use_known);
    return p;
}

/* The view knows the use of a page, even if only the log has it yet. */
START_TEST(use_of_pages)
{
    struct made m;
    struct lladd_device *dev = bench_make(_i ? MADE_CRASHED : MADE_CLEAN, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert_int_eq(page_of(v, lladd_page_of(0)).use, LLADD_USE_SYSTEM);
    ck_assert_int_eq(page_of(v, lladd_page_of(1)).use, LLADD_USE_SYSTEM);
    ck_assert_int_eq(page_of(v, m.bytes).use, LLADD_USE_PAGED);
    ck_assert_int_eq(page_of(v, m.raw).use, LLADD_USE_RAW);
    ck_assert_int_eq(page_of(v, m.bulk).use, LLADD_USE_PAGED);
    ck_assert_int_eq(page_of(v, lladd_page_of(bench_info(v).pages - 1)).use, LLADD_USE_NONE);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect_page p;
    ck_assert_int_eq(lladd_inspect_page_read(v, lladd_page_of(bench_info(v).pages), &p, &err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_inspect_page_read(v, lladd_page_of(UINT64_MAX), &p, &err),
                     LLADD_OUT_OF_RANGE);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* Header and contents of a page. */
START_TEST(pages)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_page p = page_of(v, m.slotted);
    ck_assert_int_eq(p.code, 0);
    ck_assert_uint_eq(p.checksum, p.computed);
    ck_assert_uint_eq(p.stored_number, m.slotted.v);
    ck_assert_str_eq(p.type, "lladd.slotted");
    ck_assert_uint_eq(p.offset, m.slotted.v * 4096);
    ck_assert_uint_ge(p.lsn.v, p.base.v);
    ck_assert_uint_gt(p.base.v, 0);
    struct text t = {.len = 0};
    struct lladd_sink sink = {.ctx = &t, .write = put_text};
    ck_assert(lladd_inspect_describe_page(v, &p, &sink));
    ck_assert_ptr_nonnull(strstr(t.bytes, "owner 77"));
    ck_assert_ptr_nonnull(strstr(t.bytes, "13 bytes"));
    p = page_of(v, m.bytes);
    ck_assert(!lladd_inspect_describe_page(v, &p, &sink)); /* a page of bytes has no description */
    ck_assert_mem_eq(lladd_view_body(p.view) + 64, "hello", 5);
    t.len = 0;
    p = page_of(v, m.tree);
    ck_assert(lladd_inspect_describe_page(v, &p, &sink));
    ck_assert_ptr_nonnull(strstr(t.bytes, "top node"));
    p = page_of(v, lladd_page_of(bench_info(v).pages - 1));
    ck_assert(p.zero && p.code == 0);
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

/* ---- no changes and no findings ------------------------------------------------------------- */

/* Inspection leaves every file as it is, and has no findings for undamaged databases. */
START_TEST(untouched)
{
    struct made m;
    struct lladd_device *dev = bench_make((enum made_kind)_i, &m);
    struct image before = bench_copy(dev);
    struct lladd_inspect *v = bench_look(dev, true);
    struct findings f;
    struct lladd_inspect_page p;
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_msg(f.n == 0, "%s: %s", f.at[0].file, f.at[0].message);
    ck_assert_uint_eq(f.count.pages, bench_info(v).pages);
    ck_assert_uint_eq(f.count.raw_pages, 2);
    ck_assert_uint_gt(f.count.records, 20);
    ck_assert_uint_ge(f.count.segments, 1);
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), bench_ignore, NULL, NULL), 0);
    ck_assert_int_eq(lladd_inspect_page_read(v, m.bytes, &p, NULL), 0);
    lladd_inspect_close(v);
    struct image after = bench_copy(dev);
    ck_assert(bench_same(&before, &after));
    bench_free(&before);
    bench_free(&after);
    lladd_device_close(dev);
}
END_TEST

/* ---- not a database ------------------------------------------------------------------------- */

static int look_code(struct lladd_device *dev, struct lladd_error *err)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_inspect *v = NULL;
    *err = (struct lladd_error)LLADD_ERROR_INIT;
    o.device = dev;
    int rc = lladd_inspect_open(NULL, &o, &v, err);
    ck_assert_ptr_null(v);
    ck_assert_int_eq(rc, err->code);
    return rc;
}

START_TEST(no_database)
{
    struct lladd_error err;
    struct lladd_inspect *v;
    struct lladd_device *dev;
    struct lladd_file *f;
    ck_assert_int_eq(lladd_inspect_open(NULL, NULL, &v, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_inspect_open("x", NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(look_code(dev, &err), LLADD_NOT_A_DATABASE);
    ck_assert_int_eq(dev->ops->open(dev, "creating", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
    ck_assert_int_eq(look_code(dev, &err), LLADD_NOT_A_DATABASE);
    ck_assert_ptr_nonnull(strstr(err.message, "not been created completely"));
    ck_assert_int_eq(dev->ops->unlink(dev, "creating"), 0);
    ck_assert_int_eq(dev->ops->open(dev, "pages", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
    ck_assert_int_eq(look_code(dev, &err), LLADD_MISSING_FILE);
    ck_assert_int_eq(dev->ops->open(dev, "control", LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
    ck_assert_int_eq(look_code(dev, &err), LLADD_CORRUPT_CONTROL);
    lladd_device_close(dev);
}
END_TEST

/* If the allocation bitmap of a group is lost, no page of the group seems to be allocated, not even
 * the bitmap. This must give one finding, about the bitmap. */
START_TEST(lost_bitmap)
{
    static const unsigned char nothing[4096];
    struct findings f;
    struct lladd_inspect *v;
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno first;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    o.device = dev;
    o.flags = LLADD_OPT_NO_THREADS;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    uint64_t map = lladd_extent_max(db) + 1;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, map - 50, LLADD_EXTENT_PAGED, &first), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, 100, LLADD_EXTENT_PAGED, &first), 0);
    ck_assert_uint_gt(first.v, map);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(db), 0);
    v = bench_look(dev, false);
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.n, 0);
    lladd_inspect_close(v);
    bench_write(dev, "pages", map * sizeof nothing, nothing, sizeof nothing);
    v = bench_look(dev, false);
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.n, 1);
    ck_assert_uint_eq(f.at[0].page, map);
    ck_assert_ptr_nonnull(strstr(f.at[0].message, "a write was lost"));
    lladd_inspect_close(v);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("inspect");
    TCase *t = tcase_create("state");
    tcase_add_test(t, clean);
    tcase_add_test(t, crashed);
    tcase_add_test(t, prepared);
    tcase_add_test(t, in_use);
    tcase_add_test(t, torn);
    tcase_add_test(t, pinned);
    suite_add_tcase(s, t);
    t = tcase_create("records");
    tcase_add_test(t, fields_from_the_log);
    tcase_add_loop_test(t, text_of_each_kind_of_record, 0, 14);
    tcase_add_loop_test(t, whole_log, 0, MADE_KINDS);
    tcase_add_test(t, catalogue);
    tcase_add_test(t, page_type_of_an_unknown_operation_stays_known);
    suite_add_tcase(s, t);
    t = tcase_create("pages");
    tcase_add_loop_test(t, use_of_pages, 0, 2);
    tcase_add_test(t, pages);
    tcase_add_test(t, lost_bitmap);
    suite_add_tcase(s, t);
    t = tcase_create("all");
    tcase_add_loop_test(t, untouched, 0, MADE_KINDS);
    tcase_add_test(t, no_database);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
