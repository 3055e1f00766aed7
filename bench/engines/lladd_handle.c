/* SPDX-License-Identifier: BSD-2-Clause */
/* The handle and the transactions that the engines of this library share. */
#include "lladd.h"

#include <lladd/ship.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int bench_lladd_failed(const char *what, int rc, const struct lladd_error *err)
{
    if (rc == 0)
        return 0;
    if (rc == LLADD_NOT_FOUND)
        return BENCH_ABSENT;
    if (lladd_code_root(rc) == LLADD_ROOT_RETRY)
        return BENCH_AGAIN;
    return bench_failed("lladd", what, err && err->code ? err->message : lladd_code_text(rc));
}

int bench_lladd_open_with(const struct bench_setup *s, struct lladd_options *o,
                          struct bench_db **out)
{
    static const enum lladd_durability levels[] = {LLADD_DURABLE, LLADD_DURABLE_OS,
                                                   LLADD_DURABLE_LATER};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct bench_db *b = calloc(1, sizeof *b);
    if (!b)
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    if (!o->cache_bytes)
        o->cache_bytes = s->cache_bytes;
    o->durability = levels[s->level];
    if (s->keep_log)
        o->checkpoint_bytes = o->log_limit_bytes = UINT64_C(1) << 40;
    else if (s->checkpoint_log)
        o->checkpoint_bytes = s->checkpoint_log;
    return bench_lladd_failed("open", lladd_open(s->dir, o, &b->db, &err), &err);
}

int bench_lladd_open(const struct bench_setup *s, struct bench_db **out)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    return bench_lladd_open_with(s, &o, out);
}

/* Each process has a store of its own, because a process may make the database anew. */
int bench_lladd_archive(const struct bench_setup *s, struct lladd_options *o,
                        struct bench_archive *out)
{
    struct lladd_archive_options ao = LLADD_ARCHIVE_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    char url[1024];
    ao.thread = true;
    *out = (struct bench_archive){.store = NULL};
    snprintf(url, sizeof url, "dir:%s-archive-%ld", s->dir, (long)getpid());
    int rc = lladd_store_open(url, NULL, &out->store, &err);
    if (!rc)
        rc = lladd_ship_register(o, out->store, &ao, &out->archive, &err);
    return bench_lladd_failed("archive", rc, &err);
}

int bench_lladd_catch_up(struct bench_db *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    bool more = true;
    int rc = 0;
    while (more && !rc)
        rc = lladd_archive_step(b->archive.archive, &more, &err);
    return bench_lladd_failed("archive", rc, &err);
}

int bench_lladd_close(struct bench_db *b)
{
    int rc = lladd_close(b->db);
    lladd_archive_free(b->archive.archive);
    lladd_store_close(b->archive.store);
    free(b->extents);
    free(b);
    return bench_lladd_failed("close", rc, NULL);
}

int bench_lladd_begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    (void)t;
    int rc = lladd_begin(b->db, NULL, &txn, &err);
    *out = (struct bench_txn *)txn;
    return bench_lladd_failed("begin", rc, &err);
}

int bench_lladd_commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return bench_lladd_failed("commit", lladd_commit((struct lladd_txn *)txn), NULL);
}

int bench_lladd_join(struct bench_db *b, struct bench_thread **out)
{
    (void)b;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : BENCH_FAILED;
}

void bench_lladd_leave(struct bench_db *b, struct bench_thread *t)
{
    if (t->txn)
        (void)bench_lladd_commit(b, t->txn); /* a transaction that has only read */
    free(t);
}

int bench_lladd_reading(struct bench_db *b, struct bench_thread *t)
{
    struct bench_txn *old = t->txn;
    if (old && ++t->reads < BENCH_READS)
        return 0;
    *t = (struct bench_thread){.txn = NULL};
    int rc = old ? bench_lladd_commit(b, old) : 0;
    return rc ? rc : bench_lladd_begin(b, NULL, &t->txn);
}

int bench_lladd_abort(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return bench_lladd_failed("abort", lladd_abort((struct lladd_txn *)txn), NULL);
}

int bench_lladd_commit_async(struct bench_db *b, struct bench_txn *txn, uint64_t *ticket)
{
    (void)b;
    lladd_lsn lsn = {0};
    int rc = lladd_commit_async((struct lladd_txn *)txn, &lsn);
    *ticket = lsn.v;
    return bench_lladd_failed("commit", rc, NULL);
}

int bench_lladd_wait(struct bench_db *b, uint64_t ticket)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    return bench_lladd_failed("wait", lladd_wait_durable(b->db, (lladd_lsn){ticket}, &err), &err);
}

int bench_lladd_checkpoint(struct bench_db *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    return bench_lladd_failed("checkpoint", lladd_checkpoint(b->db, &err), &err);
}

int bench_lladd_backup(struct bench_db *b, const char *dir)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store = NULL;
    char url[1024];
    snprintf(url, sizeof url, "dir:%s", dir);
    int rc = lladd_store_open(url, NULL, &store, &err);
    if (!rc)
        rc = lladd_backup(b->db, store, NULL, NULL, &err);
    lladd_store_close(store);
    return bench_lladd_failed("backup", rc, &err);
}

void bench_lladd_io(struct bench_db *b, uint64_t *log_bytes, uint64_t *pages_read,
                    uint64_t *pages_written)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    if (lladd_stats_get(b->db, &s))
        return;
    *log_bytes = s.log_bytes;
    *pages_read = s.pages_read;
    *pages_written = s.pages_written;
}
