/* SPDX-License-Identifier: BSD-2-Clause */
/* WiredTiger: row store and column store, snapshot isolation, a session and a cursor per thread. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#define TABLE "table:bench"

struct bench_db {
    WT_CONNECTION *wt;
    struct bench_setup setup;
    bool column;
};

struct bench_thread {
    WT_SESSION *session;
    WT_CURSOR *cursor;
    unsigned reads;
    bool reading;
    unsigned char key[BENCH_KEY_MAX]; /* a key of more than 8 bytes; the cursor points to it */
};

static const char *version(void)
{
    int major, minor, patch;
    static char text[32];
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static int failed(const char *what, int rc)
{
    if (rc == WT_ROLLBACK)
        return BENCH_AGAIN;
    if (rc == WT_NOTFOUND)
        return BENCH_ABSENT;
    return rc ? bench_failed("wiredtiger", what, wiredtiger_strerror(rc)) : 0;
}

static int open_as(const struct bench_setup *s, bool column, struct bench_db **out)
{
    static const char *const sync[] = {"enabled=true,method=fsync", "enabled=true,method=none",
                                       "enabled=false"};
    struct bench_db *b = calloc(1, sizeof *b);
    char text[512];
    WT_SESSION *session;
    if (!b)
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    b->column = column;
    uint64_t cache = s->txn_ops > 2000000 ? UINT64_C(6) << 30 : s->cache_bytes;
    snprintf(text, sizeof text,
             "create,cache_size=%lluM,session_max=%u,log=(enabled=true,file_max=64MB),"
             "checkpoint=(log_size=%llu),transaction_sync=(%s)",
             (unsigned long long)cache >> 20, s->threads + 100,
             (unsigned long long)s->checkpoint_log, sync[s->level]);
    int rc = wiredtiger_open(s->dir, NULL, text, &b->wt);
    if (!rc)
        rc = b->wt->open_session(b->wt, NULL, "isolation=snapshot", &session);
    snprintf(text, sizeof text, "key_format=%s,value_format=u",
             column             ? "r"
             : s->key_size == 4 ? "I"
             : s->key_size <= 8 ? "Q"
                                : "u");
    if (!rc)
        rc = session->create(session, TABLE, text);
    return failed("open", rc ? rc : session->close(session, NULL));
}

static int open_rows(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, out);
}

static int open_columns(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, true, out);
}

static int close_it(struct bench_db *b)
{
    int rc = b->wt->close(b->wt, NULL); /* takes a checkpoint */
    free(b);
    return failed("close", rc);
}

static int join(struct bench_db *b, struct bench_thread **out)
{
    struct bench_thread *t = calloc(1, sizeof *t);
    if (!t)
        return BENCH_FAILED;
    *out = t;
    int rc = b->wt->open_session(b->wt, NULL, "isolation=snapshot", &t->session);
    if (!rc)
        rc = t->session->open_cursor(t->session, TABLE, NULL, NULL, &t->cursor);
    return failed("session", rc);
}

static void leave(struct bench_db *b, struct bench_thread *t)
{
    (void)b;
    failed("session", t->session->close(t->session, NULL));
    free(t);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)b;
    *out = (struct bench_txn *)t;
    return failed("begin", t->session->begin_transaction(t->session, NULL));
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    WT_SESSION *s = ((struct bench_thread *)txn)->session;
    return failed("commit", s->commit_transaction(s, NULL));
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    WT_SESSION *s = ((struct bench_thread *)txn)->session;
    return failed("rollback", s->rollback_transaction(s, NULL));
}

static void set_key(const struct bench_db *b, struct bench_thread *t, uint64_t key)
{
    WT_CURSOR *c = t->cursor;
    WT_ITEM digits = {.data = t->key, .size = b->setup.key_size};
    if (b->column) {
        c->set_key(c, key + 1); /* record numbers begin with 1 */
    } else if (b->setup.key_size == 4) {
        c->set_key(c, (uint32_t)key);
    } else if (b->setup.key_size <= sizeof key) {
        c->set_key(c, key);
    } else {
        bench_digits(t->key, key, b->setup.key_size);
        c->set_key(c, &digits);
    }
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    struct bench_thread *t = (struct bench_thread *)txn;
    WT_CURSOR *c = t->cursor;
    WT_ITEM v = {.data = value, .size = b->setup.value_size};
    set_key(b, t, key);
    c->set_value(c, &v);
    return failed("insert", c->insert(c)); /* replaces the value of a present key */
}

/* Makes sure that the thread is in a transaction that is not too old. */
static int want_reading(struct bench_thread *t)
{
    WT_SESSION *s = t->session;
    int rc = 0;
    if (t->reading && t->reads++ % BENCH_READS == 0) {
        rc = s->commit_transaction(s, NULL);
        t->reading = false;
    }
    if (!rc && !t->reading) {
        rc = s->begin_transaction(s, NULL);
        t->reading = true;
    }
    return rc;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    WT_CURSOR *c = t->cursor;
    WT_ITEM v;
    int rc = want_reading(t);
    set_key(b, t, key);
    if (!rc)
        rc = c->search(c);
    if (!rc)
        rc = c->get_value(c, &v);
    if (!rc)
        memcpy(value, v.data, v.size);
    return failed("search", rc);
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    WT_CURSOR *c = t->cursor;
    WT_ITEM v;
    int near = 0, rc = want_reading(t);
    *seen = 0;
    set_key(b, t, key);
    if (!rc)
        rc = c->search_near(c, &near);
    if (!rc && near < 0)
        rc = c->next(c);
    while (!rc && (rc = c->get_value(c, &v)) == 0) {
        memcpy((char *)values + (size_t)*seen * b->setup.value_size, v.data, v.size);
        if (++*seen == n)
            break;
        rc = c->next(c);
    }
    int reset = c->reset(c);
    return failed("scan", rc && rc != WT_NOTFOUND ? rc : reset);
}

static int checkpoint(struct bench_db *b)
{
    WT_SESSION *session;
    int rc = b->wt->open_session(b->wt, NULL, NULL, &session);
    if (rc)
        return failed("session", rc);
    rc = session->checkpoint(session, NULL);
    int closed = session->close(session, NULL);
    return failed("checkpoint", rc ? rc : closed);
}

/* The backup cursor gives the names of the files to copy. WiredTiger keeps these files until the
 * cursor is closed. */
static int backup(struct bench_db *b, const char *dir)
{
    WT_SESSION *session;
    WT_CURSOR *cursor;
    int rc = b->wt->open_session(b->wt, NULL, NULL, &session);
    if (rc)
        return failed("session", rc);
    rc = session->open_cursor(session, "backup:", NULL, NULL, &cursor);
    int copied = 0;
    while (!rc && !copied && (rc = cursor->next(cursor)) == 0) {
        char from[1200], to[1200];
        const char *name;
        rc = cursor->get_key(cursor, &name);
        snprintf(from, sizeof from, "%s/%s", b->setup.dir, rc ? "" : name);
        snprintf(to, sizeof to, "%s/%s", dir, rc ? "" : name);
        copied = rc ? 0 : bench_copy(from, to);
    }
    int closed = session->close(session, NULL);
    rc = rc == WT_NOTFOUND ? 0 : rc;
    return copied ? copied : failed("backup", rc ? rc : closed);
}

#define ENGINE(symbol, text, store, only_numbers, opens) \
    const struct bench_engine bench_engine_##symbol = { \
        .name = text, \
        .version = version, \
        .settings = store "; snapshot isolation; log files of 64 MiB; a cache of 6 GiB for " \
                          "transactions of more than 2 million operations; disk: " \
                          "transaction_sync by fsync; OS: transaction_sync without fsync; " \
                          "process: no transaction_sync", \
        .log_files = "WiredTigerLog", \
        .levels = BENCH_AT_ALL, \
        .numbered = only_numbers, \
        .open = opens, \
        .close = close_it, \
        .join = join, \
        .leave = leave, \
        .begin = begin, \
        .commit = commit, \
        .abort = roll_back, \
        .insert = put, \
        .update = put, \
        .lookup = lookup, \
        .scan = scan, \
        .records = true, \
        .checkpoints = true, .checkpoint = checkpoint, \
        .backup = backup, \
    };
ENGINE(wiredtiger, "wiredtiger", "row store", false, open_rows)
ENGINE(wiredtiger_col, "wiredtiger-col", "column store", true, open_columns)
