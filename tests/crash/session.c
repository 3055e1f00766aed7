/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the database, makes its structures, and finds them again. */
#include "support/fixtures.h"
#include "world.h"

#include <lladd/blob.h>
#include <lladd/journal.h>
#include <lladd/lock.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- failures -------------------------------------------------------------------------------- */

void fail(struct oracle *o, const char *kind, const char *format, ...)
{
    if (atomic_exchange(&o->failed, 1) == 0) {
        va_list args;
        va_start(args, format);
        (void)snprintf(o->kind, sizeof o->kind, "%s", kind);
        (void)vsnprintf(o->message, sizeof o->message, format, args);
        va_end(args);
    }
    _exit(2);
}

void must(struct oracle *o, int rc, const char *what, const struct lladd_error *err)
{
    char kind[sizeof o->kind];
    if (rc == 0)
        return;
    (void)snprintf(kind, sizeof kind, "%s: %s", what, lladd_code_name(rc));
    fail(o, kind, "%s", err ? err->message : "");
}

void must_txn(struct session *s, int rc, const char *what, const struct lladd_txn *txn)
{
    must(s->oracle, rc, what, rc ? lladd_txn_error(txn) : NULL);
}

bool refused(struct session *s, int rc)
{
    bool limits = s->plan->features & (WITH_LIMIT | WITH_FULL);
    if (rc == LLADD_BUSY || (limits && (rc == LLADD_LOG_FULL || rc == LLADD_NO_SPACE))) {
        atomic_fetch_add(&s->oracle->refused, 1);
        return true;
    }
    return false;
}

bool no_space(struct session *s, int rc)
{
    return rc == LLADD_NO_SPACE && refused(s, rc);
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int seeded_random(void *ctx, void *buf, size_t len)
{
    struct session *s = ctx;
    seeded_fill(atomic_fetch_add(&s->oracle->chance, 1) ^ s->plan->seed, buf, len);
    return 0;
}

static int64_t seeded_wall(void *ctx)
{
    const struct session *s = ctx;
    return (int64_t)s->life * 1000000;
}

static void make(struct session *s)
{
    struct oracle *o = s->oracle;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *txn;
    lladd_pageno root;
    char name[16];
    must(o, lladd_begin(s->db, NULL, &txn, &err), "make", &err);
    must_txn(s, lladd_hash_create(txn, NULL, &root), "make", txn);
    must_txn(s, lladd_root_set(txn, "hash", (struct lladd_root_value){root.v, 0}), "make", txn);
    must_txn(s, lladd_page_alloc(txn, &root), "make", txn);
    must_txn(s, lladd_bytes_format(txn, root), "make", txn);
    must_txn(s, lladd_root_set(txn, "page", (struct lladd_root_value){root.v, 0}), "make", txn);
    for (unsigned w = 0; w < WORKERS; w++) {
        uint64_t tag;
        (void)snprintf(name, sizeof name, "w%u", w);
        must_txn(s, lladd_blob_create(txn, NULL, 0, &root), "make", txn);
        must_txn(s, lladd_root_set(txn, name, (struct lladd_root_value){root.v, 0}), "make", txn);
        must_txn(s, lladd_journal_acquire(txn, name, "crash", &tag), "make", txn);
    }
    uint64_t tag;
    must_txn(s, lladd_journal_acquire(txn, "doubts", "crash", &tag), "make", txn);
    m.type = LLADD_DTABLE_U32;
    m.rows = 40;
    m.every = 2;
    must_txn(s, lladd_managed_create(txn, "rows", &m), "make", txn);
    must_txn(s, lladd_commit(txn), "make", txn);
}

static lladd_pageno root_of(struct session *s, const char *name)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v;
    must(s->oracle, lladd_root_get(s->db, name, &v, &err), "a root", &err);
    return lladd_page_of(v.a);
}

void session_find(struct session *s)
{
    struct oracle *o = s->oracle;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v;
    char name[16];
    int rc = lladd_root_get(s->db, "hash", &v, &err);
    if (rc == LLADD_NOT_FOUND && !atomic_load(&o->made)) {
        make(s);
        rc = 0;
    }
    must(o, rc, "a root", &err);
    atomic_store(&o->made, 1);
    must(o, lladd_hash_open(s->db, root_of(s, "hash"), 0, &s->hash, &err), "hash open", &err);
    s->page = root_of(s, "page");
    for (unsigned w = 0; w < WORKERS; w++) {
        (void)snprintf(name, sizeof name, "w%u", w);
        s->blobs[w] = root_of(s, name);
        must(o, lladd_journal_find(s->db, name, &s->tags[w], &err), "journal find", &err);
    }
    must(o, lladd_journal_find(s->db, "doubts", &s->doubts, &err), "journal find", &err);
    must(o, lladd_managed_open(s->db, "rows", &s->rows, &err), "managed open", &err);
    if (s->plan->features & WITH_BLOBS) /* some writes become bulk writes, which are not logged */
        lladd_blob_bulk_from(s->db, 4 * (uint64_t)s->plan->o.page_size);
}

void session_open(struct session *s, bool instant, bool atomic)
{
    struct oracle *o = s->oracle;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    struct lladd_options options = s->plan->o;
    s->world =
        (struct lladd_environment){.ctx = s, .random = seeded_random, .wall_us = seeded_wall};
    options.world = &s->world;
    options.device = crash_device_dev(s->device);
    options.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    if (atomic)
        options.flags |= LLADD_OPT_ATOMIC_PAGES;
    must(o, lladd_journal_register(&options, &err), "register", &err);
    must(o, lladd_managed_register(&options, &err), "register", &err);
    must(o, lladd_lock_register(&options, &err), "register", &err);
    atomic_store(&o->stage, STAGE_OPENING);
    uint64_t began = now_ns();
    must(o, lladd_open(NULL, &options, &s->db, &err), "open", &err);
    atomic_store(&o->open_ns, now_ns() - began);
    atomic_store(&o->open_calls, atomic_load(&o->calls));
    lladd_options_release(&options);
    must(o, lladd_stats_get(s->db, &stats), "stats", NULL);
    atomic_store(&o->pending, stats.pages_pending + stats.losers_left > 0);
    atomic_store(&o->stage, STAGE_PENDING);
}

void session_catch_up(struct session *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    bool more = s->plan->o.flags & LLADD_OPT_NO_THREADS;
    int rc = 0;
    while (rc == 0 && more)
        rc = lladd_maintain(s->db, &more, &err);
    if (rc == 0)
        rc = lladd_checkpoint(s->db, &err);
    if (!no_space(s, rc))
        must(s->oracle, rc, "the rest of recovery", &err);
    atomic_store(&s->oracle->open_calls, atomic_load(&s->oracle->calls));
}

bool session_close(struct session *s)
{
    lladd_hash_close(s->hash);
    int rc = lladd_close(s->db);
    s->db = NULL;
    if (!no_space(s, rc))
        must(s->oracle, rc, "close", NULL);
    return rc == 0;
}
