/* SPDX-License-Identifier: BSD-2-Clause */
/* The archive of an open database: its calls, its thread, and what it does while the database is
 * opened and closed.
 *
 * The hold is set before lladd_open returns, so that no checkpoint recycles log that an earlier run
 * has not stored. lladd_open uses the store only for a damaged page that the log cannot rebuild. So
 * lladd_open succeeds without such damage even if the store cannot be reached. */
#include "ship/archive_private.h"

#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 8 << 20, PIECE_SECONDS = 10, RANK_WORK = LLADD_RANK_EXTENSION + 900 };
#define SECOND UINT64_C(1000000000)
#define HOLD_NAME "lladd.archive"

/* ---- one step at a time --------------------------------------------------------------------- */

static int fail_detached(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_STATE,
                           "no database is open with this archive, or it was detached");
}

void ll_ship_archive_say(struct lladd_archive *a, int rc, const struct lladd_error *err)
{
    uint64_t ns = ll_ship_now_ns(a->opt.world), end = ll_ship_archive_end(a);
    lladd_mutex_lock(&a->state);
    struct lladd_archive_status *s = &a->status;
    s->stored = lladd_lsn_of(a->begun ? a->pos : 0);
    s->kept = lladd_lsn_of(a->done);
    s->diverged = a->diverged.code != 0;
    s->failures += rc != 0;
    s->error = rc ? *err : (struct lladd_error)LLADD_ERROR_INIT;
    if (a->begun && a->pos >= end)
        a->caught_up_ns = ns;
    lladd_mutex_unlock(&a->state);
}

static int step(struct lladd_archive *a, bool all, bool *more, struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    *more = false;
    lladd_mutex_lock(&a->work);
    int rc = 0;
    if (!a->db || a->detached) {
        rc = fail_detached(&local);
    } else {
        rc = ll_ship_archive_step(a, all, more, &local);
        ll_ship_archive_say(a, rc, &local);
    }
    lladd_mutex_unlock(&a->work);
    if (rc && err)
        *err = local;
    return rc;
}

int lladd_archive_step(struct lladd_archive *a, bool *more, struct lladd_error *err)
{
    if (!a || !more)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive or the result is NULL");
    return step(a, true, more, err);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static bool stopped(struct lladd_archive *a)
{
    lladd_mutex_lock(&a->state);
    bool stop = a->stop;
    lladd_mutex_unlock(&a->state);
    return stop;
}

static void *run(void *arg)
{
    struct lladd_archive *a = arg;
    uint64_t ns = a->opt.mark_ns < a->opt.piece_ns ? a->opt.mark_ns : a->opt.piece_ns;
    while (!stopped(a)) {
        bool more = true;
        while (more && !stopped(a))
            if (step(a, false, &more, NULL)) /* the status has the error */
                more = false;
        lladd_mutex_lock(&a->state);
        if (!a->stop)
            (void)lladd_cond_wait_for(&a->wake, &a->state, ns); /* the loop checks `stop` */
        lladd_mutex_unlock(&a->state);
    }
    return NULL;
}

/* ---- in a handle ---------------------------------------------------------------------------- */

static int on_attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct lladd_archive *a = ctx;
    struct ll_ship_spool *spool;
    if (a->db)
        return lladd_error_set(err, LLADD_BAD_STATE, "a database is open with this archive");
    if (a->opt.thread && !lladd_db_alive(db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the archive's thread needs a database that was opened without "
                               "LLADD_OPT_NO_THREADS");
    /* A new database has timeline 0, and no control block yet. */
    int rc = ll_ship_spool_open(db, a->mem, 0, &spool, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&a->state);
    a->db = db;
    a->spool = spool;
    a->spooling = true;
    a->stop = false;
    a->status = (struct lladd_archive_status){.struct_size = sizeof a->status};
    a->status.error = (struct lladd_error)LLADD_ERROR_INIT;
    lladd_mutex_unlock(&a->state);
    a->dev = lladd_db_device(db);
    a->hold = NULL;
    a->pinned = a->claimed = a->begun = a->detached = false;
    a->diverged = (struct lladd_error)LLADD_ERROR_INIT;
    a->done = a->pos = a->start = a->seen = 0;
    a->mark_end = a->marked_ns = a->piece_ns = 0;
    a->open.len = a->shipped.len = 0;
    *state = a;
    return 0;
}

static int on_recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    struct lladd_archive *a = ctx;
    (void)state;
    int rc = ll_ship_archive_identify(a, err);
    if (!rc)
        rc = lladd_log_keep(db, HOLD_NAME, lladd_lsn_of(0), &a->hold, err);
    if (rc)
        return rc;
    ll_ship_spool_timeline(a->spool, a->timeline);
    a->done = a->pos = lladd_log_hold_raise(a->hold, lladd_lsn_of(0)).v;
    lladd_mutex_lock(&a->state);
    a->caught_up_ns = ll_ship_now_ns(a->opt.world);
    a->status.attached = true;
    a->status.kept = lladd_lsn_of(a->done);
    lladd_mutex_unlock(&a->state);
    rc = a->opt.thread ? lladd_thread_start(&a->thread, run, a) : 0;
    return rc ? lladd_error_set(err, rc, "the archive's thread could not be started") : 0;
}

static void on_stop(void *ctx, struct lladd_db *db, void *state)
{
    struct lladd_archive *a = ctx;
    (void)db, (void)state;
    lladd_mutex_lock(&a->state);
    a->stop = true;
    a->status.attached = false;
    lladd_cond_broadcast(&a->wake);
    lladd_mutex_unlock(&a->state);
    lladd_thread_join(&a->thread);
    lladd_log_release(a->hold);
    a->hold = NULL;
}

static void on_detach(void *ctx, struct lladd_db *db, void *state)
{
    struct lladd_archive *a = ctx;
    (void)db, (void)state;
    lladd_mutex_lock(&a->state);
    struct ll_ship_spool *spool = a->spool;
    a->db = NULL;
    a->spool = NULL;
    while (a->lookers)
        lladd_cond_wait(&a->wake, &a->state);
    lladd_mutex_unlock(&a->state);
    ll_ship_spool_close(spool);
}

/* A transaction that has a spool goes on writing to the spool, even after the archive was detached.
 * A spool must have all pages that its transaction writes in bulk. */
static int on_bulk_written(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                           lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                           const void *bytes)
{
    struct lladd_archive *a = ctx;
    (void)db, (void)state;
    lladd_mutex_lock(&a->state);
    bool spooling = a->spooling;
    lladd_mutex_unlock(&a->state);
    if (!spooling && !lladd_txn_joined(txn, &ll_ship_spool_participant))
        return 0;
    return ll_ship_spool_write(a->spool, txn, barrier, first, n, typed, bytes);
}

/* Does not wait for a step: the step may need a page that this thread has latched. */
static int on_base_of(void *ctx, struct lladd_db *db, void *state, lladd_pageno page,
                      lladd_lsn since, lladd_lsn writer, void *bytes, struct lladd_error *err)
{
    (void)state;
    return ll_ship_page(ctx, db, page, since, writer, bytes, err);
}

static const struct lladd_participant *const participants[] = {&ll_ship_spool_participant, NULL};

static void take_options(struct lladd_archive *a, const struct lladd_archive_options *options)
{
    a->opt = (struct lladd_archive_options)LLADD_ARCHIVE_OPTIONS_INIT;
    ll_ship_take_options(&a->opt, sizeof a->opt, options);
    a->mem.allocator = a->opt.allocator;
    if (!a->opt.piece_ns)
        a->opt.piece_ns = PIECE_SECONDS * SECOND;
    if (!a->opt.piece_bytes)
        a->opt.piece_bytes = PIECE_BYTES;
    if (!a->opt.mark_ns)
        a->opt.mark_ns = SECOND;
    a->open.mem = a->bytes.mem = a->after.mem = a->object.mem = a->scratch.mem = a->mem;
    a->shipped.mem = a->seen_bulk.mem = a->mem;
    a->ext = (struct lladd_extension){
        .struct_size = sizeof a->ext,
        .name = "lladd.archive",
        .version = 1,
        .ctx = a,
        .participants = participants,
        .attach = on_attach,
        .recovered = on_recovered,
        .stop = on_stop,
        .detach = on_detach,
        .bulk_written = on_bulk_written,
        .base_of = on_base_of,
    };
}

static int make_locks(struct lladd_archive *a)
{
    if (lladd_mutex_init(&a->work, RANK_WORK, "work of an archive"))
        return LLADD_NO_MEMORY;
    if (lladd_mutex_init(&a->state, LLADD_RANK_LEAF, "status of an archive")) {
        lladd_mutex_destroy(&a->work);
        return LLADD_NO_MEMORY;
    }
    if (lladd_cond_init(&a->wake)) {
        lladd_mutex_destroy(&a->state);
        lladd_mutex_destroy(&a->work);
        return LLADD_NO_MEMORY;
    }
    return 0;
}

int ll_ship_archive_new(struct lladd_store *store, const struct lladd_archive_options *options,
                        struct lladd_archive **out, struct lladd_error *err)
{
    struct ll_ship_mem mem = {options ? options->allocator : NULL};
    struct lladd_archive *a = ll_ship_new(mem, sizeof *a);
    if (!a)
        return ll_ship_no_memory(err);
    take_options(a, options);
    int rc = ll_ship_store_lock(store, mem, &a->store, err);
    if (!rc && make_locks(a)) {
        lladd_store_close(a->store);
        rc = ll_ship_no_memory(err);
    }
    if (rc) {
        ll_ship_delete(mem, a);
        return rc;
    }
    *out = a;
    return 0;
}

int lladd_ship_register(struct lladd_options *o, struct lladd_store *store,
                        const struct lladd_archive_options *options, struct lladd_archive **out,
                        struct lladd_error *err)
{
    struct lladd_archive *a;
    if (!o || !store || !out)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "an archive needs options of a database, a store and a result");
    int rc = ll_ship_archive_new(store, options, &a, err);
    if (rc)
        return rc;
    rc = lladd_register_extension(o, &a->ext, err);
    if (rc)
        lladd_archive_free(a);
    else
        *out = a;
    return rc;
}

void lladd_archive_free(struct lladd_archive *a)
{
    if (!a)
        return;
    ll_ship_buf_free(&a->open);
    ll_ship_buf_free(&a->bytes);
    ll_ship_buf_free(&a->after);
    ll_ship_buf_free(&a->object);
    ll_ship_buf_free(&a->scratch);
    ll_ship_buf_free(&a->shipped);
    ll_ship_buf_free(&a->seen_bulk);
    ll_ship_spool_close(a->spool); /* lladd_archive_push has opened it; otherwise NULL */
    lladd_cond_destroy(&a->wake);
    lladd_mutex_destroy(&a->state);
    lladd_mutex_destroy(&a->work);
    lladd_store_close(a->store);
    ll_ship_delete(a->mem, a);
}

/* ---- marks, detach, status ------------------------------------------------------------------ */

static int mark_name(uint32_t timeline, const char *mark, char out[LL_SHIP_NAME_MAX],
                     struct lladd_error *err)
{
    size_t len = mark ? strlen(mark) : 0;
    if (len && len < LL_SHIP_MARK_NAME && !strchr(mark, '/')) {
        (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/mark/%s", timeline, mark);
        if (ll_ship_name_ok(out))
            return 0;
    }
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "the name of a mark has 1 to 64 letters, digits, '_', '-' and '.', and "
                           "does not begin with '.'");
}

static int put_mark(struct lladd_archive *a, const char *name, lladd_lsn lsn,
                    struct lladd_error *err)
{
    struct ll_ship_buf text = {.mem = a->mem};
    int rc = ll_ship_print(&text, err, "LLADD mark 1\nlsn %llu\ntime_us %lld\n",
                           (unsigned long long)lsn.v, (long long)ll_ship_wall_us(a->opt.world));
    if (!rc)
        rc = ll_ship_text_end(&text, err);
    struct lladd_iovec piece = {text.data, text.len};
    if (!rc)
        rc = ll_ship_put(a->store, a->mem, name, &piece, 1, err);
    ll_ship_buf_free(&text);
    return rc;
}

/* The object is put after the record was logged, because it contains the record's LSN. If the put
 * fails, no restore finds a mark of this name. */
static int mark(struct lladd_archive *a, const char *mark, lladd_lsn *lsn, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    unsigned char byte;
    int rc = a->diverged.code ? ll_ship_diverged(err, "no mark was made") : 0;
    if (!rc)
        rc = ll_ship_archive_begin(a, err);
    if (!rc)
        rc = mark_name(a->timeline, mark, name, err);
    if (rc)
        return rc;
    rc = ll_ship_get(a->store, name, 0, &byte, 1, err);
    if (rc != LLADD_NOT_FOUND)
        return rc ? rc
                  : lladd_error_set(err, LLADD_EXISTS, "the mark \"%s\" was used before", mark);
    rc = ll_ship_archive_note(a, mark, lladd_lsn_of(0), lsn, err);
    if (!rc)
        rc = lladd_log_force(a->db, *lsn, err);
    return rc ? rc : put_mark(a, name, *lsn, err);
}

int lladd_archive_mark(struct lladd_archive *a, const char *name, lladd_lsn *lsn,
                       struct lladd_error *err)
{
    lladd_lsn at;
    if (!a)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive is NULL");
    lladd_mutex_lock(&a->work);
    int rc = a->db && !a->detached ? mark(a, name, &at, err) : fail_detached(err);
    lladd_mutex_unlock(&a->work);
    if (!rc && lsn)
        *lsn = at;
    return rc;
}

static int detach(struct lladd_archive *a, struct lladd_error *err)
{
    int rc = a->pin[0] ? lladd_pin_clear(a->db, a->pin, err) : 0;
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    a->detached = true;
    lladd_log_release(a->hold);
    a->hold = NULL;
    lladd_mutex_lock(&a->state);
    a->status.attached = false;
    a->stop = true;
    a->spooling = false;
    lladd_cond_broadcast(&a->wake);
    lladd_mutex_unlock(&a->state);
    return ll_ship_bulk_drop(a, UINT64_MAX, err);
}

int lladd_archive_detach(struct lladd_archive *a, struct lladd_error *err)
{
    if (!a)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive is NULL");
    lladd_mutex_lock(&a->work);
    int rc = a->db && !a->detached ? ll_ship_archive_identify(a, err) : fail_detached(err);
    if (!rc)
        rc = detach(a, err);
    lladd_mutex_unlock(&a->work);
    return rc;
}

int lladd_archive_status_get(struct lladd_archive *a, struct lladd_archive_status *out,
                             struct lladd_error *err)
{
    if (!a || !out)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the archive or the result is NULL");
    lladd_mutex_lock(&a->state);
    struct lladd_archive_status s = a->status;
    struct lladd_db *db = s.attached ? a->db : NULL;
    uint64_t since = a->caught_up_ns;
    struct ll_ship_spool *spool = a->spool;
    a->lookers += db != NULL;
    lladd_mutex_unlock(&a->state);
    s.spool_bytes = db ? ll_ship_spool_bytes(spool) : 0;
    uint64_t end = db ? lladd_durable_lsn(db).v : 0, from = s.stored.v ? s.stored.v : s.kept.v;
    if (db) {
        lladd_mutex_lock(&a->state);
        a->lookers--;
        lladd_cond_broadcast(&a->wake);
        lladd_mutex_unlock(&a->state);
    }
    if (end > from) {
        s.unstored_bytes = end - from;
        s.unstored_ns = ll_ship_now_ns(a->opt.world) - since;
    }
    s.struct_size = out->struct_size;
    memcpy(out, &s, out->struct_size < sizeof s ? out->struct_size : sizeof s);
    return 0;
}
