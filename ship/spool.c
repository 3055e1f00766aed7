/* SPDX-License-Identifier: BSD-2-Clause */
/* The spool keeps the pages that transactions write in bulk until an archive has stored these
 * pages. The log does not have them. Each such transaction has files of its own:
 *
 *     files/ship/<transaction>.<part>.blk      blk.c has the format
 *
 * The transaction's first bulk write begins a part. Another part is begun when the part before is
 * full. When the transaction is about to log its commit or prepare record, its last part is ended
 * and synced, and the names of its parts are synced. So a transaction with such a record has a
 * whole spool. The spool of a transaction that is rolled back is deleted at once. A crash may leave
 * spools of transactions that recovery rolls back: the archiver deletes each when it reads the END
 * record of its transaction. That record exists, because the transaction's redo barrier was durable
 * before the spool was begun.
 *
 * A write that fails leaves no hole: the next write begins at the same place. A sync that fails is
 * final (LOG-4): the transaction cannot commit any more.
 *
 * Threads: the mutex guards the list and what the archiver reads of an entry. As long as the entry
 * is live, the rest of it belongs to the thread of its transaction. No file is used under the
 * mutex. */
#include "ship/ship_private.h"

#include <errno.h>
#include <lladd/dst.h>
#include <lladd/lladd.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "files/ship"
enum {
    PART = 16 << 20,         /* a part with this many bytes is full */
    PART_MOST = 3 * PART,    /* no part is longer */
    NAME_LENGTH = 16 + 1 + 4 /* without ".blk" */
};

/* The spool of a transaction. */
struct spooled {
    struct ll_ship_spool *spool;
    struct spooled *next;
    uint64_t txn;
    uint32_t parts; /* under the mutex: number of files */
    uint64_t bytes; /* under the mutex */
    bool live;      /* under the mutex: the transaction has joined and not ended */
    bool freed;     /* under the mutex: the archiver has deleted the files of a live entry */
    struct lladd_file *file; /* the last part; NULL: none is open */
    uint64_t at;             /* offset in the file at which the next piece begins */
    uint64_t reach;          /* the file may have bytes up to here */
    uint64_t pages;          /* number of pages in this part */
    int failed;              /* error code of the sync that failed; 0: no sync has failed */
};

struct ll_ship_spool {
    struct ll_ship_mem mem;
    struct lladd_device *dev;
    unsigned char uuid[16];
    uint32_t timeline, page_size;
    struct lladd_mutex mutex;
    struct spooled *first;
};

static void file_name(uint64_t txn, uint32_t part, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, DIRECTORY "/%016llx.%04x.blk", (unsigned long long)txn,
                   part);
}

/* ---- the list ------------------------------------------------------------------------------- */

static struct spooled *new_entry(struct ll_ship_spool *sp, uint64_t txn, bool live)
{
    struct spooled *s = ll_ship_new(sp->mem, sizeof *s);
    if (!s)
        return NULL;
    s->spool = sp;
    s->txn = txn;
    s->live = live;
    lladd_mutex_lock(&sp->mutex);
    s->next = sp->first;
    sp->first = s;
    lladd_mutex_unlock(&sp->mutex);
    return s;
}

static struct spooled *find(struct ll_ship_spool *sp, uint64_t txn)
{
    struct spooled *s = sp->first;
    while (s && s->txn != txn)
        s = s->next;
    return s;
}

static void take_out(struct ll_ship_spool *sp, const struct spooled *s)
{
    struct spooled **at = &sp->first;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
}

/* The transaction has ended. `gone`: its files were deleted. */
static void end(struct spooled *s, bool gone)
{
    struct ll_ship_spool *sp = s->spool;
    lladd_mutex_lock(&sp->mutex);
    s->live = false;
    bool drop = gone || s->freed;
    if (drop)
        take_out(sp, s);
    lladd_mutex_unlock(&sp->mutex);
    if (drop)
        ll_ship_delete(sp->mem, s);
}

/* ---- writing -------------------------------------------------------------------------------- */

static int make_directory(struct lladd_device *dev, struct lladd_error *err)
{
    int rc = dev->ops->mkdir(dev, "files");
    if (rc == 0 || rc == -EEXIST)
        rc = dev->ops->sync_dir(dev, "");
    if (rc == 0)
        rc = dev->ops->mkdir(dev, DIRECTORY);
    if (rc == 0 || rc == -EEXIST)
        rc = dev->ops->sync_dir(dev, "files");
    return rc ? ll_ship_fail_io(err, rc, "make", DIRECTORY) : 0;
}

static int close_part(struct spooled *s)
{
    struct lladd_device *dev = s->spool->dev;
    struct lladd_file *file = s->file;
    s->file = NULL;
    return file ? dev->ops->close(dev, file) : 0;
}

static int write_at(struct spooled *s, const struct lladd_iovec *pieces, int n, size_t len)
{
    struct lladd_device *dev = s->spool->dev;
    s->reach = s->at + len > s->reach ? s->at + len : s->reach;
    return dev->ops->pwritev(dev, s->file, pieces, n, s->at);
}

static int open_part(struct spooled *s, struct lladd_error *err)
{
    struct ll_ship_spool *sp = s->spool;
    struct lladd_device *dev = sp->dev;
    char name[LL_SHIP_NAME_MAX];
    file_name(s->txn, s->parts, name);
    int rc = dev->ops->open(dev, name, LLADD_OPEN_CREATE, &s->file);
    if (rc == -ENOENT || rc == -ENOTDIR) {
        rc = make_directory(dev, err);
        if (rc)
            return rc;
        rc = dev->ops->open(dev, name, LLADD_OPEN_CREATE, &s->file);
    }
    if (rc)
        return ll_ship_fail_io(err, rc, "open", name);
    s->at = s->reach = s->pages = 0;
    lladd_mutex_lock(&sp->mutex);
    s->parts++;
    lladd_mutex_unlock(&sp->mutex);
    return 0;
}

static void advance(struct spooled *s, size_t len)
{
    s->at += len;
    lladd_mutex_lock(&s->spool->mutex);
    s->bytes += len;
    lladd_mutex_unlock(&s->spool->mutex);
}

/* Opens a part if none is open, and writes its header if it has none. */
static int want_header(struct spooled *s, struct lladd_error *err)
{
    struct ll_ship_spool *sp = s->spool;
    char name[LL_SHIP_NAME_MAX];
    unsigned char header[LL_SHIP_BLK_HEADER];
    struct lladd_iovec piece = {header, sizeof header};
    int rc = s->file ? 0 : open_part(s, err);
    if (rc || s->at > 0)
        return rc;
    struct ll_ship_blk b = {
        .timeline = sp->timeline, .page_size = sp->page_size, .txn = s->txn, .part = s->parts - 1};
    memcpy(b.uuid, sp->uuid, sizeof b.uuid);
    ll_ship_blk_header(&b, header);
    rc = write_at(s, &piece, 1, sizeof header);
    if (rc) {
        file_name(s->txn, s->parts - 1, name);
        return ll_ship_fail_io(err, rc, "write", name);
    }
    advance(s, sizeof header);
    return 0;
}

static int sync_failed(struct spooled *s, int rc, const char *name, struct lladd_error *err)
{
    s->failed = ll_ship_fail_io(err, rc, "sync", name);
    return s->failed;
}

/* Ends the part that is open, and syncs it. A later bulk write may replace the end by a piece. */
static int end_part(struct spooled *s, bool last, struct lladd_error *err)
{
    struct lladd_device *dev = s->spool->dev;
    char name[LL_SHIP_NAME_MAX];
    unsigned char bytes[LL_SHIP_BLK_PIECE];
    struct lladd_iovec piece = {bytes, sizeof bytes};
    file_name(s->txn, s->parts - 1, name);
    ll_ship_blk_end(s->pages, last, bytes);
    int rc = write_at(s, &piece, 1, sizeof bytes);
    if (!rc && s->reach > s->at + sizeof bytes)
        rc = dev->ops->truncate(dev, s->file, s->at + sizeof bytes);
    if (rc)
        return ll_ship_fail_io(err, rc, "write", name);
    s->reach = s->at + sizeof bytes;
    rc = LLADD_PLANTED(LLADD_BUG_SPOOL_SYNC) ? 0 : dev->ops->sync(dev, s->file);
    return rc ? sync_failed(s, rc, name, err) : 0;
}

static int want_part(struct spooled *s, struct lladd_error *err)
{
    if (s->file && s->at >= PART) {
        int rc = end_part(s, false, err);
        if (!rc && (rc = close_part(s)) != 0)
            rc = sync_failed(s, rc, DIRECTORY, err);
        if (rc)
            return rc;
    }
    return want_header(s, err);
}

static int write_piece(struct spooled *s, const struct ll_ship_blk_piece *p,
                       struct lladd_error *err)
{
    struct ll_ship_spool *sp = s->spool;
    unsigned char head[LL_SHIP_BLK_PIECE];
    size_t len = (size_t)p->n * sp->page_size;
    struct lladd_iovec pieces[2] = {{head, sizeof head}, {p->bytes, len}};
    char name[LL_SHIP_NAME_MAX];
    int rc = want_part(s, err);
    if (rc)
        return rc;
    ll_ship_blk_piece(p, sp->page_size, head);
    rc = write_at(s, pieces, 2, sizeof head + len);
    if (rc) {
        file_name(s->txn, s->parts - 1, name);
        return ll_ship_fail_io(err, rc, "write", name);
    }
    s->pages += p->n;
    advance(s, sizeof head + len);
    return 0;
}

static int entry_of(struct ll_ship_spool *sp, struct lladd_txn *txn, struct spooled **out)
{
    *out = lladd_txn_joined(txn, &ll_ship_spool_participant);
    if (*out)
        return 0;
    struct spooled *s = new_entry(sp, lladd_txn_id(txn).v, true);
    if (!s)
        return ll_ship_no_memory(lladd_txn_error_out(txn));
    int rc = lladd_txn_join(txn, &ll_ship_spool_participant, s);
    if (rc)
        end(s, true);
    else
        *out = s;
    return rc;
}

static int refuse_failed(const struct spooled *s, struct lladd_error *err)
{
    return lladd_error_set(err, s->failed,
                           "the pages that the transaction has written in bulk are not durable in "
                           "\"" DIRECTORY "\": a sync has failed");
}

int ll_ship_spool_write(struct ll_ship_spool *sp, struct lladd_txn *txn, lladd_lsn barrier,
                        lladd_pageno first, uint64_t n, bool typed, const void *bytes)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    const unsigned char *from = bytes;
    struct spooled *s;
    uint64_t most = PART / sp->page_size;
    int rc = entry_of(sp, txn, &s);
    if (!rc && s->failed)
        rc = refuse_failed(s, err);
    for (uint64_t done = 0; done < n && !rc;) {
        uint64_t now = n - done < most ? n - done : most;
        struct ll_ship_blk_piece p = {barrier.v, first.v + done, (uint32_t)now, typed,
                                      from + done * sp->page_size};
        rc = write_piece(s, &p, err);
        done += now;
    }
    return rc;
}

/* ---- the end of a transaction --------------------------------------------------------------- */

static int committing(void *ctx, void *state, struct lladd_txn *txn)
{
    struct spooled *s = state;
    struct lladd_device *dev = s->spool->dev;
    struct lladd_error *err = lladd_txn_error_out(txn);
    (void)ctx;
    if (s->failed)
        return refuse_failed(s, err);
    if (!s->parts) /* every bulk write of the transaction has failed */
        return 0;
    int rc = want_header(s, err);
    if (!rc)
        rc = end_part(s, true, err);
    if (!rc && (rc = dev->ops->sync_dir(dev, DIRECTORY)) != 0)
        rc = sync_failed(s, rc, DIRECTORY, err);
    return rc;
}

/* Everything that was written is synced, so an error of close does not matter. */
static void prepared(void *ctx, void *state, struct lladd_txn *txn)
{
    (void)ctx, (void)txn;
    (void)close_part(state);
}

static void committed(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    struct spooled *s = state;
    (void)ctx, (void)db, (void)commit;
    (void)close_part(s);
    end(s, s->parts == 0);
}

static int delete_parts(struct ll_ship_spool *sp, uint64_t txn, uint32_t parts)
{
    char name[LL_SHIP_NAME_MAX];
    int rc = 0;
    for (uint32_t i = 0; i < parts && !rc; i++) {
        file_name(txn, i, name);
        rc = sp->dev->ops->unlink(sp->dev, name);
        rc = rc == -ENOENT ? 0 : rc;
    }
    return rc;
}

/* A file that cannot be deleted, or that comes back after a crash, is found at the next open. */
static void aborted(void *ctx, void *state, struct lladd_db *db)
{
    struct spooled *s = state;
    (void)ctx, (void)db;
    (void)close_part(s);
    end(s, delete_parts(s->spool, s->txn, s->parts) == 0);
}

const struct lladd_participant ll_ship_spool_participant = {
    .struct_size = sizeof ll_ship_spool_participant,
    .name = "lladd.ship.spool",
    .version = 1,
    .aborted = aborted,
    .committing = committing,
    .prepared = prepared,
    .committed = committed,
};

/* ---- the archiver --------------------------------------------------------------------------- */

static int read_bytes(struct ll_ship_spool *sp, struct lladd_file *file, const char *name,
                      struct ll_ship_buf *out, struct lladd_error *err)
{
    uint64_t size = 0;
    int rc = sp->dev->ops->size(sp->dev, file, &size);
    if (rc)
        return ll_ship_fail_io(err, rc, "read", name);
    if (size > PART_MOST)
        return lladd_error_set(err, LLADD_CORRUPT_BACKUP,
                               "\"%s\" is longer than any part of a spool", name);
    out->len = 0;
    unsigned char *bytes = ll_ship_room(out, size + 1);
    if (!bytes)
        return ll_ship_no_memory(err);
    while (out->len < size) {
        int64_t got =
            sp->dev->ops->pread(sp->dev, file, bytes + out->len, size - out->len, out->len);
        if (got < 0)
            return ll_ship_fail_io(err, (int)got, "read", name);
        if (got == 0)
            break;
        out->len += (size_t)got;
    }
    return 0;
}

/* Opens the file of a part for reading. LLADD_NOT_FOUND: there is no such file. */
static int open_stored(struct ll_ship_spool *sp, uint64_t txn, uint32_t part,
                       char name[LL_SHIP_NAME_MAX], struct lladd_file **file,
                       struct lladd_error *err)
{
    file_name(txn, part, name);
    int rc = sp->dev->ops->open(sp->dev, name, LLADD_OPEN_READ_ONLY, file);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return lladd_error_set(err, LLADD_NOT_FOUND, "there is no \"%s\"", name);
    return rc ? ll_ship_fail_io(err, rc, "open", name) : 0;
}

int ll_ship_spool_read(struct ll_ship_spool *sp, uint64_t txn, uint32_t part,
                       struct ll_ship_buf *out, bool *last, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_file *file;
    struct ll_ship_blk b;
    struct ll_ship_blk_piece piece;
    int rc = open_stored(sp, txn, part, name, &file, err);
    if (rc)
        return rc;
    rc = read_bytes(sp, file, name, out, err);
    int late = sp->dev->ops->close(sp->dev, file);
    if (!rc && late)
        rc = ll_ship_fail_io(err, late, "read", name);
    if (!rc)
        rc = ll_ship_blk_begin(&b, name, out->data, out->len, err);
    if (rc)
        return rc;
    if (memcmp(b.uuid, sp->uuid, sizeof b.uuid) != 0 || b.page_size != sp->page_size ||
        b.txn != txn || b.part != part)
        return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%s\" belongs to another spool", name);
    while ((rc = ll_ship_blk_next(&b, &piece, err)) == 0) {
    }
    if (rc != LLADD_END)
        return rc;
    out->len = b.at;
    *last = b.last;
    return 0;
}

int ll_ship_spool_get(struct ll_ship_spool *sp, uint64_t txn, uint32_t part, uint64_t at, void *out,
                      size_t len, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_file *file;
    unsigned char *bytes = out;
    int64_t got = 1;
    int rc = open_stored(sp, txn, part, name, &file, err);
    if (rc)
        return rc;
    while (len && (got = sp->dev->ops->pread(sp->dev, file, bytes, len, at)) > 0) {
        bytes += got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    int late = sp->dev->ops->close(sp->dev, file);
    if (got < 0 || late)
        return ll_ship_fail_io(err, got < 0 ? (int)got : late, "read", name);
    return len ? lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%s\": it ends too early", name) : 0;
}

int ll_ship_spool_free(struct ll_ship_spool *sp, uint64_t txn, struct lladd_error *err)
{
    lladd_mutex_lock(&sp->mutex);
    struct spooled *s = find(sp, txn);
    uint32_t parts = s && !s->freed ? s->parts : 0;
    lladd_mutex_unlock(&sp->mutex);
    if (parts == 0)
        return 0;
    int rc = delete_parts(sp, txn, parts);
    if (!rc)
        rc = sp->dev->ops->sync_dir(sp->dev, DIRECTORY);
    if (rc)
        return ll_ship_fail_io(err, rc, "delete a file of", DIRECTORY);
    lladd_mutex_lock(&sp->mutex);
    s = find(sp, txn); /* the transaction may have ended meanwhile */
    bool drop = s && !s->live;
    if (drop)
        take_out(sp, s);
    else if (s)
        s->freed = true;
    lladd_mutex_unlock(&sp->mutex);
    if (drop)
        ll_ship_delete(sp->mem, s);
    return 0;
}

bool ll_ship_spool_has(struct ll_ship_spool *sp, uint64_t txn)
{
    lladd_mutex_lock(&sp->mutex);
    const struct spooled *s = find(sp, txn);
    bool has = s && !s->freed && s->parts > 0;
    lladd_mutex_unlock(&sp->mutex);
    return has;
}

uint64_t ll_ship_spool_bytes(struct ll_ship_spool *sp)
{
    uint64_t bytes = 0;
    lladd_mutex_lock(&sp->mutex);
    for (const struct spooled *s = sp->first; s; s = s->next)
        bytes += s->freed ? 0 : s->bytes;
    lladd_mutex_unlock(&sp->mutex);
    return bytes;
}

struct listed {
    uint64_t txn;
    bool live;
};

int ll_ship_spool_each(struct ll_ship_spool *sp, ll_ship_spool_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct ll_ship_buf list = {.mem = sp->mem};
    int rc = 0;
    lladd_mutex_lock(&sp->mutex);
    for (const struct spooled *s = sp->first; s && !rc; s = s->next) {
        struct listed l = {s->txn, s->live};
        rc = s->freed ? 0 : ll_ship_append(&list, &l, sizeof l, err);
    }
    lladd_mutex_unlock(&sp->mutex);
    const struct listed *at = (const void *)list.data;
    for (size_t i = 0; i < list.len / sizeof *at && !rc; i++)
        rc = fn(ctx, at[i].txn, at[i].live);
    ll_ship_buf_free(&list);
    return rc;
}

/* ---- opening: what earlier runs have left --------------------------------------------------- */

struct found {
    struct ll_ship_spool *spool;
    struct lladd_error *err;
    int rc;
};

static int file_size(struct ll_ship_spool *sp, const char *name, uint64_t *out,
                     struct lladd_error *err)
{
    struct lladd_file *file;
    int rc = sp->dev->ops->open(sp->dev, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc)
        return rc == -ENOENT ? LLADD_NOT_FOUND : ll_ship_fail_io(err, rc, "open", name);
    rc = sp->dev->ops->size(sp->dev, file, out);
    int late = sp->dev->ops->close(sp->dev, file);
    return rc || late ? ll_ship_fail_io(err, rc ? rc : late, "read", name) : 0;
}

static int see_file(void *ctx, const char *name)
{
    struct found *f = ctx;
    char *end_txn, *end_part, full[LL_SHIP_NAME_MAX];
    uint64_t bytes = 0;
    if (strlen(name) != NAME_LENGTH + 4 || strcmp(name + NAME_LENGTH, ".blk") != 0)
        return 0;
    uint64_t txn = strtoull(name, &end_txn, 16);
    if (end_txn != name + 16 || *end_txn != '.')
        return 0;
    uint32_t part = (uint32_t)strtoul(end_txn + 1, &end_part, 16);
    if (end_part != name + NAME_LENGTH)
        return 0;
    file_name(txn, part, full);
    f->rc = file_size(f->spool, full, &bytes, f->err);
    if (f->rc == LLADD_NOT_FOUND) { /* the archive of the open database has deleted it meanwhile */
        f->rc = 0;
        return 0;
    }
    if (f->rc)
        return f->rc;
    struct spooled *s = find(f->spool, txn);
    if (!s && !(s = new_entry(f->spool, txn, false)))
        return f->rc = ll_ship_no_memory(f->err);
    s->parts = part + 1 > s->parts ? part + 1 : s->parts;
    s->bytes += bytes;
    return 0;
}

int ll_ship_spool_look(struct lladd_device *dev, struct ll_ship_mem mem,
                       const unsigned char uuid[16], uint32_t page_size, struct ll_ship_spool **out,
                       struct lladd_error *err)
{
    struct ll_ship_spool *sp = ll_ship_new(mem, sizeof *sp);
    struct found f = {sp, err, 0};
    if (!sp)
        return ll_ship_no_memory(err);
    if (lladd_mutex_init(&sp->mutex, LLADD_RANK_LEAF, "spools")) {
        ll_ship_delete(mem, sp);
        return ll_ship_no_memory(err);
    }
    sp->mem = mem;
    sp->dev = dev;
    sp->page_size = page_size;
    memcpy(sp->uuid, uuid, sizeof sp->uuid);
    int rc = dev->ops->list(dev, DIRECTORY, see_file, &f);
    rc = f.rc ? f.rc : rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
    if (rc && !f.rc)
        rc = ll_ship_fail_io(err, rc, "list", DIRECTORY);
    if (rc)
        ll_ship_spool_close(sp);
    else
        *out = sp;
    return rc;
}

int ll_ship_spool_open(struct lladd_db *db, struct ll_ship_mem mem, uint32_t timeline,
                       struct ll_ship_spool **out, struct lladd_error *err)
{
    unsigned char uuid[16];
    lladd_db_uuid(db, uuid);
    int rc = ll_ship_spool_look(lladd_db_device(db), mem, uuid, lladd_page_size(db), out, err);
    if (!rc)
        (*out)->timeline = timeline;
    return rc;
}

void ll_ship_spool_timeline(struct ll_ship_spool *sp, uint32_t timeline)
{
    sp->timeline = timeline;
}

void ll_ship_spool_close(struct ll_ship_spool *sp)
{
    if (!sp)
        return;
    while (sp->first) {
        struct spooled *s = sp->first;
        sp->first = s->next;
        (void)close_part(s); /* the outcome of its transaction is unknown */
        ll_ship_delete(sp->mem, s);
    }
    lladd_mutex_destroy(&sp->mutex);
    ll_ship_delete(sp->mem, sp);
}
