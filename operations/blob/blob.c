/* SPDX-License-Identifier: BSD-2-Clause */
/* Blobs (large objects): the calls.
 *
 * The first bytes of a blob are in its root page, the others in data pages (page.c, tree.c).
 * Changes of the root page are logged. A write of less than `bulk_from` bytes to data pages is
 * logged too: the records have the old and the new bytes of existing pages, and the contents of new
 * pages. A longer write is not logged. Its steps are:
 *
 *   - Allocate extents for its pages and log redo barriers for them, so that redo applies no older
 *     log records to these pages.
 *   - Write the pages to the page file. The first and the last page are completed with the blob's
 *     present bytes.
 *   - Log the change of the entries in root and index pages, one log record for each run of
 *     consecutive pages, and free the replaced pages. A rollback finds the replaced pages
 *     unchanged, because the allocator reuses them only after the commit is durable.
 *   - At commit or prepare, the participant's `committing` syncs the written pages, once for all
 *     writes of the transaction.
 *
 * If a crash comes before the commit record is durable, the blob keeps its old pages, which are
 * unchanged. If the crash comes later, the blob has its new pages, which were durable before the
 * commit record. Logged updates use physical undo. This is correct because the caller's isolation
 * keeps other transactions from writing the blob. A call that fails rolls back to a savepoint. */
#include "operations/blob/blob.h"

#include <lladd/bulk.h>
#include <string.h>

#define BULK_FROM (1u << 20) /* docs/structures-blobs.md has the measurements */
#define STAGE_BYTES (1u << 20)
#define EXTENT_BYTES (8u << 20) /* the longest extent of a write that is not logged */
#define FRESH_MAX 64u           /* new pages that a logged write allocates at a time */
#define TRIES 16                /* attempts to read pages that other transactions replace */

/* ---- the extension and its participant ------------------------------------------------------- */

static const struct lladd_op *const ops[] = {
    [LL_BLOB_FORMAT] = &ll_operations__blob_format,
    [LL_BLOB_WRITE] = &ll_operations__blob_write,
    [LL_BLOB_LINK] = &ll_operations__blob_link_op,
    [LL_BLOB_INDEX_FORMAT] = &ll_operations__blob_index_format,
    [LL_BLOB_INDEX_LINK] = &ll_operations__blob_index_link,
    [LL_BLOB_DATA_FORMAT] = &ll_operations__blob_data_format,
    [LL_BLOB_DATA_SET] = &ll_operations__blob_data_set,
    [LL_BLOB_OPS] = NULL,
};

static const struct lladd_page_type *const page_types[] = {&ll_operations__blob_page,
                                                           &ll_operations__blob_index_page,
                                                           &ll_operations__blob_data_page, NULL};

/* Called only for transactions that have written pages without logging them: no others have
 * joined. */
static int committing(void *ctx, void *state, struct lladd_txn *txn)
{
    (void)ctx;
    (void)state;
    return lladd_bulk_sync(txn);
}

static const struct lladd_participant participant = {
    .struct_size = sizeof participant,
    .name = "lladd.blobs",
    .version = 1,
    .committing = committing,
};
static const struct lladd_participant *const participants[] = {&participant, NULL};

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_blobs *b = lladd_mem_alloc(db, sizeof *b);
    if (!b)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *b = (struct ll_blobs){.bulk_from = BULK_FROM};
    *state = b;
    return 0;
}

lladd_op_id ll_operations__blob_op(struct lladd_db *db, enum ll_blob_op op)
{
    return ll_operations__nth_op(db, &ll_blobs_of(db)->first_op, ops[0], (unsigned)op);
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    lladd_mem_free(db, state);
}

const struct lladd_extension ll_operations__blob_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.blob",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};

void lladd_blob_bulk_from(struct lladd_db *db, uint64_t bytes)
{
    lladd_atomic_store64(&ll_blobs_of(db)->bulk_from, bytes ? bytes : BULK_FROM);
}

/* ---- logged bytes ---------------------------------------------------------------------------- */

/* `redo_only`: this transaction has allocated the page; a rollback frees the page, so the update
 * needs no undo. */
static int log_update(struct lladd_txn *txn, enum ll_blob_op op, lladd_pageno page,
                      const void *args, size_t len, bool redo_only)
{
    lladd_op_id id = ll_blob_op(txn, op);
    return redo_only ? lladd_log_redo_only(txn, id, page, args, len)
                     : lladd_update(txn, id, page, args, len);
}

/* Replaces n bytes from `at` on in the root page. The last of the log records also sets the length
 * to `len`. */
static int write_root(struct lladd_txn *txn, lladd_pageno root, uint64_t was, uint64_t len,
                      uint32_t at, const unsigned char *bytes, uint32_t n, bool redo_only)
{
    int rc = 0;
    do {
        uint32_t some = n < BLOB_PIECE ? n : BLOB_PIECE;
        struct ll_blob_write a = {some == n ? len : was, at, some, bytes};
        rc = log_update(txn, LL_BLOB_WRITE, root, &a, sizeof a, redo_only);
        at += some;
        bytes = bytes ? bytes + some : NULL;
        n -= some;
    } while (n && !rc);
    return rc;
}

static int write_data(struct lladd_txn *txn, lladd_pageno page, uint32_t at,
                      const unsigned char *bytes, uint32_t n, bool redo_only)
{
    int rc = 0;
    while (n && !rc) {
        uint32_t some = n < BLOB_PIECE ? n : BLOB_PIECE;
        struct ll_blob_set a = {at, some, bytes};
        rc = log_update(txn, LL_BLOB_DATA_SET, page, &a, sizeof a, redo_only);
        at += some;
        bytes = bytes ? bytes + some : NULL;
        n -= some;
    }
    return rc;
}

/* A part of the bytes in a blob's data pages: bytes [from, from + len), counted from the first byte
 * of data page 0. */
struct part {
    lladd_pageno root;
    uint64_t from, len;
    const unsigned char *bytes;
};

static uint64_t first_page(const struct part *p, uint32_t room)
{
    return p->from / room;
}
static uint64_t n_pages(const struct part *p, uint32_t room)
{
    return (p->from + p->len - 1) / room - p->from / room + 1;
}
/* The bytes of the part that are on data page i. Returns their number; *at: their offset in the
 * page's contents. */
static uint32_t of_page(const struct part *p, uint32_t room, uint64_t i, uint32_t *at,
                        const unsigned char **bytes)
{
    uint64_t begin = i * room, end = begin + room;
    uint64_t from = p->from > begin ? p->from : begin;
    uint64_t to = p->from + p->len < end ? p->from + p->len : end;
    *at = (uint32_t)(from - begin);
    *bytes = p->bytes ? p->bytes + (from - p->from) : NULL;
    return (uint32_t)(to - from);
}

/* Formats a new data page with the part's bytes, and zeros elsewhere. */
static int fill_page(struct lladd_txn *txn, const struct part *p, uint32_t room, uint64_t i,
                     lladd_pageno page)
{
    const unsigned char *bytes;
    uint32_t at, n = of_page(p, room, i, &at, &bytes);
    bool in_front = at == 0;
    struct ll_blob_data a = {.root = p->root, .where = ll_blob_where(0, i)};
    if (in_front) {
        a.bytes = bytes;
        a.n = n < BLOB_PIECE ? n : BLOB_PIECE;
    }
    int rc = lladd_update(txn, ll_blob_op(txn, LL_BLOB_DATA_FORMAT), page, &a, sizeof a);
    return rc ? rc : write_data(txn, page, BLOB_REST + at + a.n, bytes + a.n, n - a.n, true);
}

/* Allocates and fills the n data pages from i on, which do not exist yet. */
static int fresh_pages(struct lladd_txn *txn, const struct part *p, uint32_t room, uint64_t i,
                       uint64_t n)
{
    lladd_pageno first;
    int rc = lladd_extent_alloc(txn, n, LLADD_EXTENT_PAGED, &first);
    for (uint64_t k = 0; k < n && !rc; k++)
        rc = fill_page(txn, p, room, i + k, lladd_page_of(first.v + k));
    return rc ? rc : ll_operations__blob_link(txn, p->root, i, first, n);
}

static int overwrite_pages(struct lladd_txn *txn, const struct part *p, uint32_t room, uint64_t i,
                           struct ll_blob_run r)
{
    int rc = 0;
    for (uint64_t k = 0; k < r.n && !rc; k++) {
        const unsigned char *bytes;
        uint32_t at, n = of_page(p, room, i + k, &at, &bytes);
        rc = write_data(txn, lladd_page_of(r.first.v + k), BLOB_REST + at, bytes, n, false);
    }
    return rc;
}

static int put_logged(struct lladd_txn *txn, const struct part *p)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t room = ll_blob_page_room(lladd_page_size(db));
    uint64_t i = first_page(p, room), left = n_pages(p, room);
    while (left) {
        struct ll_blob_place at;
        struct ll_blob_run r = {{0}, 0};
        TRY(ll_operations__blob_place(txn, p->root, i, &at));
        TRY(ll_operations__blob_at(db, p->root, at, left < FRESH_MAX ? left : FRESH_MAX, &r,
                                   lladd_txn_error_out(txn)));
        TRY(r.first.v ? overwrite_pages(txn, p, room, i, r) : fresh_pages(txn, p, room, i, r.n));
        i += r.n;
        left -= r.n;
    }
    return 0;
}

/* ---- writes without logging ------------------------------------------------------------------ */

struct bulk {
    struct lladd_txn *txn;
    const struct part *part;
    uint32_t page_size, room;
    struct ll_blob_run *extents;
    size_t n, cap;
    unsigned char *stage;
    uint32_t stage_pages;
};

/* Allocates an extent of at most `want` pages; fewer if there is no space for so many. */
static int take_extent(struct bulk *b, uint64_t want)
{
    struct lladd_db *db = lladd_txn_db(b->txn);
    uint64_t max = EXTENT_BYTES / b->page_size;
    max = max < lladd_extent_max(db) ? max : lladd_extent_max(db);
    if (ll_operations__grow(db, &b->extents, b->n + 1, &b->cap, sizeof *b->extents))
        return lladd_error_set(lladd_txn_error_out(b->txn), LLADD_NO_MEMORY,
                               "out of memory for a large write");
    struct ll_blob_run *e = &b->extents[b->n];
    e->n = want < max ? want : max;
    int rc = lladd_extent_alloc(b->txn, e->n, LLADD_EXTENT_BULK, &e->first);
    while (rc == LLADD_NO_SPACE && e->n > 1) {
        e->n /= 2;
        rc = lladd_extent_alloc(b->txn, e->n, LLADD_EXTENT_BULK, &e->first);
    }
    b->n += !rc;
    return rc;
}

/* Copies the blob's present bytes into the contents of a staged page. */
static int merge_old(struct bulk *b, uint64_t i, unsigned char *contents)
{
    struct lladd_db *db = lladd_txn_db(b->txn);
    struct lladd_error *err = lladd_txn_error_out(b->txn);
    struct ll_blob_run r;
    struct lladd_page *page;
    int rc = ll_operations__blob_find(db, b->part->root, i, 1, &r, err);
    if (!rc && r.first.v) {
        rc = ll_operations__blob_fix(db, b->part->root, r.first, ll_blob_where(0, i), &page, err);
        if (!rc) {
            memcpy(contents, page->bytes + BLOB_REST, b->room);
            lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        }
    }
    return rc == LLADD_CONFLICT ? ll_operations__blob_broken(err, b->part->root, r.first) : rc;
}

static int stage_page(struct bulk *b, uint64_t i, unsigned char *page)
{
    const unsigned char *bytes;
    uint32_t at, n = of_page(b->part, b->room, i, &at, &bytes);
    memset(page, 0, b->page_size);
    int rc = n < b->room ? merge_old(b, i, page + BLOB_REST) : 0;
    lladd_put64(page + BLOB_ROOT, b->part->root.v);
    lladd_put64(page + BLOB_WHERE, ll_blob_where(0, i));
    memcpy(page + BLOB_REST + at, bytes, n);
    return rc;
}

/* Writes data pages from i on to the extent. */
static int write_extent(struct bulk *b, uint64_t i, struct ll_blob_run e)
{
    while (e.n) {
        uint32_t n = e.n < b->stage_pages ? (uint32_t)e.n : b->stage_pages;
        for (uint32_t k = 0; k < n; k++)
            TRY(stage_page(b, i + k, b->stage + (size_t)k * b->page_size));
        TRY(lladd_bulk_write(b->txn, e.first, n, ll_operations__blob_data_page.name, b->stage));
        i += n;
        e.first.v += n;
        e.n -= n;
    }
    return 0;
}

static int join(struct lladd_txn *txn)
{
    if (lladd_txn_joined(txn, &participant))
        return 0;
    return lladd_txn_join(txn, &participant, ll_blobs_of(lladd_txn_db(txn)));
}

/* Allocates all extents first, so that one force of the log makes all redo barriers durable. */
static int write_bulk(struct bulk *b)
{
    uint64_t first = first_page(b->part, b->room), n = n_pages(b->part, b->room), i;
    int rc = join(b->txn);
    for (uint64_t left = n; left && !rc;) {
        rc = take_extent(b, left);
        left -= rc ? 0 : b->extents[b->n - 1].n;
    }
    i = first;
    for (size_t k = 0; k < b->n && !rc; i += b->extents[k++].n)
        rc = write_extent(b, i, b->extents[k]);
    i = first;
    for (size_t k = 0; k < b->n && !rc; i += b->extents[k++].n)
        rc = ll_operations__blob_link(b->txn, b->part->root, i, b->extents[k].first,
                                      b->extents[k].n);
    return rc;
}

static int put_bulk(struct lladd_txn *txn, const struct part *p)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t page_size = lladd_page_size(db), room = ll_blob_page_room(page_size);
    uint64_t n = n_pages(p, room), most = STAGE_BYTES / page_size;
    struct bulk b = {.txn = txn,
                     .part = p,
                     .page_size = page_size,
                     .room = room,
                     .stage_pages = (uint32_t)(n < most ? n : most)};
    b.stage = lladd_mem_alloc(db, (size_t)b.stage_pages * page_size);
    int rc = b.stage ? write_bulk(&b)
                     : lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                                       "out of memory for a large write");
    lladd_mem_free(db, b.stage);
    lladd_mem_free(db, b.extents);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int look(struct lladd_db *db, lladd_pageno root, uint64_t *len, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(ll_operations__blob_root(db, root, &page, err));
    *len = lladd_get64(page->bytes + BLOB_LENGTH);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int check_span(struct lladd_txn *txn, uint64_t offset, uint64_t len)
{
    if (offset <= LLADD_BLOB_MAX && len <= LLADD_BLOB_MAX - offset)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                           "a blob has at most 2^48 bytes");
}

/* Replaces bytes [offset, offset + len) of a blob of `was` bytes, which may get longer. */
static int put(struct lladd_txn *txn, lladd_pageno root, uint64_t was, uint64_t offset,
               const unsigned char *bytes, uint64_t len)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint64_t head = ll_blob_head_room(lladd_page_size(db)), end = offset + len, now = was;
    int rc = 0;
    if (len && offset < head) {
        uint32_t n = (uint32_t)(end < head ? len : head - offset);
        now = was > offset + n ? was : offset + n;
        rc = write_root(txn, root, was, now, BLOB_FIRST + (uint32_t)offset, bytes, n, false);
        bytes += n;
        offset += n;
    }
    struct part p = {root, offset - head, end - offset, bytes};
    if (!rc && end > offset)
        rc = p.len >= lladd_atomic_load64(&ll_blobs_of(db)->bulk_from) ? put_bulk(txn, &p)
                                                                       : put_logged(txn, &p);
    if (!rc && end > now)
        rc = write_root(txn, root, now, end, BLOB_FIRST, NULL, 0, false);
    return rc;
}

/* Clears the bytes after the new length on the last page (page.c says why). */
static int clear_tail(struct lladd_txn *txn, lladd_pageno root, uint64_t was, uint64_t len)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t page_size = lladd_page_size(db), room = ll_blob_page_room(page_size);
    uint64_t from = len - ll_blob_head_room(page_size), rest = room - from % room;
    struct ll_blob_run r;
    if (rest == room)
        return 0;
    int rc = ll_operations__blob_find(db, root, from / room, 1, &r, lladd_txn_error_out(txn));
    if (rc == LLADD_CONFLICT)
        return ll_operations__blob_broken(lladd_txn_error_out(txn), root, root);
    if (rc || r.first.v == 0)
        return rc;
    rest = was - len < rest ? was - len : rest;
    return write_data(txn, r.first, BLOB_REST + (uint32_t)(from % room), NULL, (uint32_t)rest,
                      false);
}

static int cut(struct lladd_txn *txn, lladd_pageno root, uint64_t was, uint64_t len)
{
    uint32_t page_size = lladd_page_size(lladd_txn_db(txn)), head = ll_blob_head_room(page_size);
    uint64_t in_root = was < head ? was : head;
    int rc = ll_operations__blob_cut(txn, root, ll_blob_pages_for(page_size, len));
    if (!rc && len > head)
        rc = clear_tail(txn, root, was, len);
    uint32_t n = len < in_root ? (uint32_t)(in_root - len) : 0;
    uint32_t at = n ? BLOB_FIRST + (uint32_t)len : BLOB_FIRST;
    return rc ? rc : write_root(txn, root, was, len, at, NULL, n, false);
}

int lladd_blob_create(struct lladd_txn *txn, const void *bytes, uint64_t len, lladd_pageno *root)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    uint64_t head = ll_blob_head_room(lladd_page_size(db));
    uint32_t in_root = bytes ? (uint32_t)(len < head ? len : head) : 0;
    lladd_savepoint_id before;
    lladd_pageno page;
    TRY(check_span(txn, 0, len));
    TRY(lladd_savepoint(txn, &before));
    struct ll_blob_write a = {bytes ? in_root : len, BLOB_FIRST,
                              in_root < BLOB_PIECE ? in_root : BLOB_PIECE, bytes};
    int rc = lladd_page_alloc(txn, &page);
    if (!rc)
        rc = lladd_update(txn, ll_blob_op(txn, LL_BLOB_FORMAT), page, &a, sizeof a);
    if (!rc && in_root > a.n)
        rc = write_root(txn, page, in_root, in_root, BLOB_FIRST + a.n, a.bytes + a.n, in_root - a.n,
                        true);
    if (!rc && bytes && len > in_root)
        rc =
            put(txn, page, in_root, in_root, (const unsigned char *)bytes + in_root, len - in_root);
    if (!rc)
        *root = page;
    return ll_operations__step_end(txn, before, rc);
}

int lladd_blob_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    lladd_savepoint_id before;
    uint64_t len;
    TRY(look(lladd_txn_db(txn), root, &len, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    int rc = ll_operations__blob_cut(txn, root, 0);
    if (!rc)
        rc = lladd_page_free(txn, root);
    return ll_operations__step_end(txn, before, rc);
}

/* Writes bytes. `all`: the blob ends after these bytes. `offset` UINT64_MAX: appends. */
static int change(struct lladd_txn *txn, lladd_pageno root, uint64_t offset, const void *bytes,
                  uint64_t len, bool all)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_savepoint_id before;
    uint64_t was = 0;
    TRY(look(lladd_txn_db(txn), root, &was, err));
    if (offset == UINT64_MAX)
        offset = was;
    TRY(check_span(txn, offset, len));
    if (len && !bytes)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bytes is NULL");
    if (offset > was)
        return lladd_error_set(err, LLADD_OUT_OF_RANGE, "offset %llu: the blob has %llu bytes",
                               (unsigned long long)offset, (unsigned long long)was);
    TRY(lladd_savepoint(txn, &before));
    int rc = 0;
    if (all && len < was)
        rc = cut(txn, root, was, len);
    if (!rc && len)
        rc = put(txn, root, all && len < was ? len : was, offset, bytes, len);
    return ll_operations__step_end(txn, before, rc);
}

int lladd_blob_write(struct lladd_txn *txn, lladd_pageno root, uint64_t offset, const void *bytes,
                     uint64_t len)
{
    LLADD_USE(txn);
    if (offset == UINT64_MAX)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                               "a blob has at most 2^48 bytes");
    return change(txn, root, offset, bytes, len, false);
}

int lladd_blob_append(struct lladd_txn *txn, lladd_pageno root, const void *bytes, uint64_t len)
{
    LLADD_USE(txn);
    return change(txn, root, UINT64_MAX, bytes, len, false);
}

int lladd_blob_replace(struct lladd_txn *txn, lladd_pageno root, const void *bytes, uint64_t len)
{
    LLADD_USE(txn);
    return change(txn, root, 0, bytes, len, true);
}

int lladd_blob_truncate(struct lladd_txn *txn, lladd_pageno root, uint64_t len)
{
    LLADD_USE(txn);
    lladd_savepoint_id before;
    uint64_t was = 0;
    TRY(check_span(txn, 0, len));
    TRY(look(lladd_txn_db(txn), root, &was, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    int rc = 0;
    if (len < was)
        rc = cut(txn, root, was, len);
    else if (len > was)
        rc = write_root(txn, root, was, len, BLOB_FIRST, NULL, 0, false);
    return ll_operations__step_end(txn, before, rc);
}

/* ---- reading --------------------------------------------------------------------------------- */

int lladd_blob_length(struct lladd_db *db, lladd_pageno root, uint64_t *out,
                      struct lladd_error *err)
{
    return look(db, root, out, err);
}

/* Reads consecutive data pages; *done: the number of bytes read. LLADD_CONFLICT: another
 * transaction has replaced the pages. */
static int read_run(struct lladd_db *db, lladd_pageno root, uint64_t from, struct ll_blob_run r,
                    unsigned char *out, uint64_t len, uint64_t *done, struct lladd_error *err)
{
    uint32_t room = ll_blob_page_room(lladd_page_size(db));
    *done = 0;
    for (uint64_t i = from / room, end = i + r.n; i < end && *done < len; i++) {
        uint64_t at = (from + *done) % room, n = room - at;
        n = n < len - *done ? n : len - *done;
        if (r.first.v == 0) {
            memset(out + *done, 0, (size_t)n);
        } else {
            struct lladd_page *page;
            TRY(ll_operations__blob_fix(db, root, r.first, ll_blob_where(0, i), &page, err));
            memcpy(out + *done, page->bytes + BLOB_REST + at, (size_t)n);
            lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
            r.first.v++;
        }
        *done += n;
    }
    return 0;
}

static int read_data(struct lladd_db *db, lladd_pageno root, uint64_t from, unsigned char *out,
                     uint64_t len, struct lladd_error *err)
{
    uint32_t room = ll_blob_page_room(lladd_page_size(db));
    struct ll_blob_run r = {{0}, 0};
    for (int tries = 0; len;) {
        uint64_t pages = (from + len - 1) / room - from / room + 1, done = 0;
        int rc = ll_operations__blob_find(db, root, from / room, pages, &r, err);
        if (!rc)
            rc = read_run(db, root, from, r, out, len, &done, err);
        /* The page may belong to a raw extent by now: then it looks damaged. */
        bool damaged = lladd_code_root(rc) == LLADD_ROOT_DATA;
        if (rc && rc != LLADD_CONFLICT && !damaged)
            return rc;
        tries = done ? 0 : tries + 1;
        if (tries == TRIES)
            return damaged ? rc : ll_operations__blob_broken(err, root, r.first);
        out += done;
        from += done;
        len -= done;
    }
    return 0;
}

int lladd_blob_read(struct lladd_db *db, lladd_pageno root, uint64_t offset, void *out,
                    uint64_t len, uint64_t *got, struct lladd_error *err)
{
    uint64_t head = ll_blob_head_room(lladd_page_size(db)), in_root = 0;
    struct lladd_page *page;
    TRY(ll_operations__blob_root(db, root, &page, err));
    uint64_t all = lladd_get64(page->bytes + BLOB_LENGTH);
    uint64_t there = offset >= all ? 0 : all - offset < len ? all - offset : len;
    int rc = 0;
    if (!got && there < len) {
        rc = lladd_error_set(err, LLADD_OUT_OF_RANGE, "bytes %llu to %llu: the blob has %llu",
                             (unsigned long long)offset, (unsigned long long)offset + len,
                             (unsigned long long)all);
    } else if (there && offset < head) {
        in_root = head - offset < there ? head - offset : there;
        memcpy(out, page->bytes + BLOB_FIRST + offset, (size_t)in_root);
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (!rc && there > in_root)
        rc = read_data(db, root, offset + in_root - head, (unsigned char *)out + in_root,
                       there - in_root, err);
    if (!rc && got)
        *got = there;
    return rc;
}

/* ---- the whole structure --------------------------------------------------------------------- */

struct pages_of {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int give_page(void *ctx, lladd_pageno page, uint64_t where, struct lladd_error *err)
{
    struct pages_of *p = ctx;
    (void)where;
    (void)err;
    return p->fn(p->ctx, page);
}

int lladd_blob_pages(struct lladd_db *db, lladd_pageno root, int (*fn)(void *ctx, lladd_pageno),
                     void *ctx, struct lladd_error *err)
{
    struct pages_of p = {fn, ctx};
    uint64_t len;
    TRY(look(db, root, &len, err));
    TRY(fn(ctx, root));
    return ll_operations__blob_each(db, root, give_page, &p, err);
}

struct checking {
    struct lladd_db *db;
    lladd_pageno root;
    uint64_t len;
};

static bool is_zero(const unsigned char *p, uint64_t n)
{
    while (n && *p == 0) {
        p++;
        n--;
    }
    return n == 0;
}

/* Checks that the page has its role, is allocated, and lies before the blob's end, and that its
 * bytes after the end are zeros. */
static int check_page(void *ctx, lladd_pageno page, uint64_t where, struct lladd_error *err)
{
    const struct checking *c = ctx;
    uint32_t page_size = lladd_page_size(c->db), room = ll_blob_page_room(page_size);
    uint64_t first = where & ((UINT64_C(1) << 56) - 1);
    uint64_t begin = ll_blob_head_room(page_size) + first * room;
    enum lladd_page_use use;
    struct lladd_page *p;
    bool fine = begin < c->len;
    int rc = lladd_page_use_get(c->db, page, &use, err);
    if (!rc)
        rc = ll_operations__blob_fix(c->db, c->root, page, where, &p, err);
    if (rc)
        return rc == LLADD_CONFLICT ? ll_operations__blob_broken(err, c->root, page) : rc;
    if (where >> 56 == 0 && fine && c->len - begin < room)
        fine = is_zero(p->bytes + BLOB_REST + (c->len - begin), room - (c->len - begin));
    lladd_page_unfix(c->db, p, LLADD_LATCH_SHARED);
    return fine && use == LLADD_USE_PAGED ? 0 : ll_operations__blob_broken(err, c->root, page);
}

int lladd_blob_check(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct checking c = {.db = db, .root = root};
    uint64_t head = ll_blob_head_room(lladd_page_size(db));
    struct lladd_page *page;
    TRY(ll_operations__blob_root(db, root, &page, err));
    c.len = lladd_get64(page->bytes + BLOB_LENGTH);
    bool fine = c.len <= LLADD_BLOB_MAX &&
                (c.len >= head || is_zero(page->bytes + BLOB_FIRST + c.len, head - c.len));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (!fine)
        return ll_operations__blob_broken(err, root, root);
    return ll_operations__blob_each(db, root, check_page, &c, err);
}
