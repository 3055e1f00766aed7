/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushes. A flush writes the pages that have changed since the last flush to segments, syncs, and
 * logs their addresses. Then all changes below its bound are in the store, and the marks move: redo
 * of changes begins at the bound.
 *
 * The bound is the LSN below which every change was applied when the flush began (BWT-1). Only then
 * does the flush look at pages, so each page that it writes has all changes below the bound.
 *
 * A page has changed if the number of its state is not the number that the last flush has written
 * (BWT-5). The flush goes through the levels from the root down, and through each level along the
 * right links of the very states that it has seen. So what it has seen of a level divides the keys,
 * and the children that an inner page names are met afterwards (BWT-2). All pages of a tree that a
 * flush writes become valid together, with the last of its store records.
 *
 * A redo barrier precedes each write in the log, and is durable before the write. The changes in
 * the written pages precede the barrier, so they are durable, too (BWT-3).
 *
 * A store record counts without the commit of its transaction. What lladd_bulk_write gives to
 * extensions, like an archive, counts with it. So a flush has two transactions: the first one
 * writes, syncs and commits; the second one logs the records and moves the marks.
 *
 * The bytes of the pages are not in the store's current state until the record is logged; a flush
 * that fails leaves everything as it was.
 */
#include "operations/bwtree/stored.h"

#include <lladd/bulk.h>
#include <lladd/log_read.h>
#include <lladd/stats.h>

enum { BUFFER_PAGES = 64, SMALLEST_REST = BW_FRAGMENT_HEAD };

struct flush {
    struct bw_store *store;
    unsigned flags;
    uint64_t bound;
    bool wrote;
    struct lladd_txn *txn; /* or NULL */
    unsigned char *buffer;
    uint32_t page, fill; /* the page of the buffer that is being filled, and its bytes */
    uint64_t since;      /* no store record from here on is missing in the map pages */
    struct lladd_error *err;
};

/* ---- writing --------------------------------------------------------------------------------- */

static uint32_t body_of(const struct flush *f)
{
    return lladd_body_size(lladd_page_size(f->store->db));
}

static struct bw_segment *segment(const struct flush *f)
{
    return &f->store->segments[f->store->current];
}

static int want_txn(struct flush *f)
{
    return f->txn ? 0 : ll_bwtree__begin(f->store, &f->txn, f->err);
}

static int want_buffer(struct flush *f)
{
    uint32_t size = lladd_page_size(f->store->db);
    if (f->buffer)
        return 0;
    f->buffer = lladd_mem_alloc(f->store->db, (size_t)BUFFER_PAGES * size);
    if (!f->buffer)
        return lladd_error_set(f->err, LLADD_NO_MEMORY, "out of memory for a flush of Bw-trees");
    memset(f->buffer, 0, (size_t)BUFFER_PAGES * size);
    return 0;
}

static int copy_error(struct flush *f, int rc)
{
    if (rc && f->err)
        *f->err = *lladd_txn_error_out(f->txn);
    return rc;
}

/* Writes the pages of the buffer, and begins a new page. */
static int write_buffer(struct flush *f)
{
    uint32_t size = lladd_page_size(f->store->db), n = f->page + (f->fill > 0);
    struct bw_segment *g = segment(f);
    if (n == 0)
        return 0;
    TRY(copy_error(f, lladd_bulk_write(f->txn, lladd_page_of(g->first.v + g->used), n,
                                       ll_bwtree__segment_page.name, f->buffer)));
    g->used += n;
    lladd_atomic_count64(&f->store->bytes, (uint64_t)n * size);
    memset(f->buffer, 0, (size_t)n * size);
    f->page = f->fill = 0;
    return 0;
}

static int next_page(struct flush *f)
{
    f->page += f->fill > 0;
    f->fill = 0;
    return f->page == BUFFER_PAGES ? write_buffer(f) : 0;
}

/* Makes room for a fragment: it does not leave its segment, and its head does not leave its
 * page. */
static int want_room(struct flush *f, uint32_t len)
{
    uint64_t body = body_of(f);
    f->fill = (f->fill + 15) / 16 * 16;
    if (f->fill > 0 && body - f->fill < SMALLEST_REST)
        TRY(next_page(f));
    if (f->store->n_segments > 0) {
        const struct bw_segment *g = segment(f);
        uint64_t left = (g->pages - g->used - f->page) * body;
        if (left >= f->fill && left - f->fill >= len)
            return 0;
        TRY(write_buffer(f));
    }
    return ll_bwtree__segment_room(f->store, (len + body - 1) / body,
                                   f->flags & BW_FLUSH_ALLOCATE,
                                   LLADD_PLANTED(LLADD_BUG_BW_SEGMENT) ? f->txn : NULL, f->err);
}

/* Appends store->fragment. */
static int append(struct flush *f, uint32_t len, uint64_t *at)
{
    uint32_t size = lladd_page_size(f->store->db), done = 0;
    TRY(want_txn(f));
    TRY(want_buffer(f));
    TRY(want_room(f, len));
    *at = bw_address(segment(f)->first.v + segment(f)->used + f->page, f->fill, len);
    while (done < len) {
        uint32_t part = body_of(f) - f->fill < len - done ? body_of(f) - f->fill : len - done;
        memcpy(f->buffer + (size_t)f->page * size + LLADD_PAGE_HEADER + f->fill,
               f->store->fragment + done, part);
        done += part;
        f->fill += part;
        if (f->fill == body_of(f))
            TRY(next_page(f));
    }
    return 0;
}

/* ---- what has changed ------------------------------------------------------------------------ */

/* What the walk has seen of a page. */
struct sight {
    uint32_t right, child; /* `child`: the first one of an inner page */
    uint8_t level;
    bool changed;
    uint64_t number;
    uint32_t len; /* of the fragment */
};

/* Looks at the page, and makes its fragment if it has changed. */
static int look(struct flush *f, struct bw_stored *s, uint32_t pid, struct sight *out)
{
    static const struct bw_aim lowest = {.key = {(const unsigned char *)"", 0, 0}};
    struct lladd_bwtree *t = s->tree;
    struct bw_key ignored;
    struct bw_seen seen;
    struct bw_call c;
    TRY(ll_bwtree__enter(t, &c, f->err));
    const struct bw_state *state = bw_load(t, pid);
    *out = (struct sight){.right = ll_bwtree__right(t, state, &ignored),
                          .level = state->level,
                          .changed = state->number != s->places[pid].number,
                          .number = state->number};
    if (state->level > 0 && bw_is_first(bw_bottom(state))) {
        ll_bwtree__step(t, state, &lowest, &seen);
        out->child = seen.child;
    }
    int rc = 0;
    if (out->changed) {
        struct bw_page *p = ll_bwtree__fold(t, state, false);
        rc = p ? ll_bwtree__fragment_make(s, pid, p, f->bound, &out->len) : LLADD_NO_MEMORY;
        if (p)
            ll_bwtree__page_free(t, p);
    }
    bw_leave(&c);
    return rc ? lladd_error_set(f->err, rc, "out of memory for a flush of Bw-trees") : 0;
}

static int capture(struct flush *f, struct bw_stored *s, uint32_t pid, struct sight *out)
{
    struct bw_assigned row = {.pid = pid};
    if (ll_bwtree__places(s, (uint64_t)pid + 1) ||
        ll_operations__grow(f->store->db, &s->list.rows, s->list.n + 1, &s->list.cap,
                            sizeof *s->list.rows))
        return lladd_error_set(f->err, LLADD_NO_MEMORY, "out of memory for a flush of Bw-trees");
    TRY(look(f, s, pid, out));
    bool made = pid != BW_ROOT && !s->places[pid].at; /* by a split, since the last flush */
    if (!out->changed || (made && LLADD_PLANTED(LLADD_BUG_BW_PAIR)))
        return 0;
    row.number = out->number;
    TRY(append(f, out->len, &row.at));
    s->list.rows[s->list.n++] = row;
    return 0;
}

/* Goes through the levels from the root down, each from left to right. */
static int capture_tree(struct flush *f, struct bw_stored *s)
{
    uint32_t first = BW_ROOT;
    for (bool leaf = false; !leaf;) {
        uint32_t below = BW_NONE;
        struct sight seen;
        for (uint32_t pid = first;; pid = seen.right) {
            TRY(capture(f, s, pid, &seen));
            leaf = seen.level == 0;
            if (pid == first)
                below = seen.child;
            if (seen.right == BW_NONE)
                break;
        }
        first = below;
    }
    return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

static int log_part(struct flush *f, struct bw_stored *s, size_t from, size_t n,
                    unsigned char *bytes, uint64_t *end)
{
    struct lladd_span none = {NULL, 0};
    struct lladd_token token;
    lladd_lsn lsn;
    size_t len = BW_RECORD_HEAD + n * BW_RECORD_ENTRY;
    memset(bytes, 0, len);
    bytes[0] = BW_VERSION;
    bytes[1] = (unsigned char)((from == 0 ? BW_RECORD_FIRST : 0) |
                               (from + n == s->list.n ? BW_RECORD_LAST : 0));
    lladd_put32(bytes + 4, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        unsigned char *to = bytes + BW_RECORD_HEAD + i * BW_RECORD_ENTRY;
        lladd_put32(to, s->list.rows[from + i].pid);
        lladd_put64(to + 4, s->list.rows[from + i].at);
    }
    TRY(copy_error(f, lladd_log_object(f->txn, &ll_bwtree__store_class, s->id,
                                       lladd_span_of(bytes, len), none, &token, &lsn)));
    lladd_object_applied(f->txn, &token);
    *end = lsn.v + 1;
    return 0;
}

/* The addresses are true from the last record on, whatever becomes of the transaction. The mark
 * never goes back into the group. */
static void take_over(struct flush *f, struct bw_stored *s, uint64_t end)
{
    f->since = s->store->grouped = end;
    for (size_t i = 0; i < s->list.n; i++) {
        const struct bw_assigned *row = &s->list.rows[i];
        struct bw_place *p = &s->places[row->pid];
        ll_bwtree__segment_moved(s->store, p->at, row->at);
        p->at = row->at;
        p->number = LLADD_PLANTED(LLADD_BUG_BW_LIST) ? bw_load(s->tree, row->pid)->number
                                                     : row->number;
    }
    s->list.n = 0;
}

static int log_tree(struct flush *f, struct bw_stored *s)
{
    size_t most = (lladd_log_object_max(f->store->db) / 2 - BW_RECORD_HEAD) / BW_RECORD_ENTRY;
    size_t n = s->list.n < most ? s->list.n : most;
    uint64_t end = 0;
    int rc = 0;
    if (n == 0)
        return 0;
    unsigned char *bytes =
        lladd_mem_alloc(f->store->db, BW_RECORD_HEAD + n * BW_RECORD_ENTRY);
    if (!bytes)
        return lladd_error_set(f->err, LLADD_NO_MEMORY, "out of memory for a flush of Bw-trees");
    for (size_t from = 0; !rc && from < s->list.n; from += n)
        rc = log_part(f, s, from, s->list.n - from < n ? s->list.n - from : n, bytes, &end);
    lladd_mem_free(f->store->db, bytes);
    if (!rc)
        take_over(f, s, end);
    return rc;
}

/* ---- the map pages and the marks ------------------------------------------------------------- */

/* Writes the addresses that map page i lacks. */
static int settle_page(struct flush *f, struct bw_stored *s, size_t i)
{
    uint32_t per = bw_entries_of(f->store->db);
    size_t from = i * per, to = from + per < s->n_places ? from + per : s->n_places;
    while (from < to && s->places[from].at == s->places[from].settled)
        from++;
    while (from < to && s->places[to - 1].at == s->places[to - 1].settled)
        to--;
    if (from >= to)
        return 0;
    unsigned char *bytes = f->buffer;
    memset(bytes, 0, (to - from) * BW_ENTRY);
    for (size_t k = from; k < to; k++)
        lladd_put64(bytes + (k - from) * BW_ENTRY, s->places[k].at);
    return copy_error(
        f, ll_bwtree__info_put(f->txn, s->maps[i],
                               (uint32_t)(BW_INFO_HEAD + (from - i * per) * BW_ENTRY), bytes,
                               (to - from) * BW_ENTRY, false));
}

static bool lacks_maps(const struct bw_stored *s)
{
    size_t have = s->n_maps * bw_entries_of(s->store->db);
    for (size_t i = have; i < s->n_places; i++)
        if (s->places[i].at)
            return true;
    return false;
}

static int put_marks(struct flush *f)
{
    unsigned char marks[16];
    lladd_put64(marks, f->bound);
    lladd_put64(marks + 8, f->since);
    return copy_error(f, ll_bwtree__info_put(f->txn, f->store->page, BW_INFO_OWN + 8, marks,
                                             sizeof marks, false));
}

/* Writes addresses and marks. *complete: false if there are pages without a place in a map page. */
static int settle(struct flush *f, bool *complete)
{
    *complete = true;
    for (struct bw_stored *s = f->store->trees; s; s = s->next) {
        for (size_t i = 0; i < s->n_maps; i++)
            TRY(settle_page(f, s, i));
        *complete &= !lacks_maps(s);
    }
    return *complete ? put_marks(f) : 0;
}

static void note_settled(struct flush *f, lladd_lsn commit, bool complete)
{
    struct bw_store *store = f->store;
    for (struct bw_stored *s = store->trees; s; s = s->next) {
        size_t have = s->n_maps * bw_entries_of(store->db);
        for (size_t i = 0; i < s->n_places && i < have; i++)
            s->places[i].settled = s->places[i].at;
    }
    if (!complete)
        return;
    lladd_mutex_lock(&store->mutex);
    ll_bwtree__marks_settle(store);
    store->next_redo = f->bound;
    store->next_since = f->since;
    store->commit = commit.v;
    lladd_mutex_unlock(&store->mutex);
    lladd_atomic_store64(&store->flushed, f->bound);
}

void ll_bwtree__marks_settle(struct bw_store *store)
{
    if (!store->commit || store->commit >= lladd_durable_lsn(store->db).v)
        return;
    store->redo = store->next_redo;
    store->since = store->next_since;
    store->commit = 0;
}

/* ---- the whole flush ------------------------------------------------------------------------- */

static void end_flush(struct bw_store *store)
{
    lladd_mutex_lock(&store->mutex);
    store->flushing = false;
    lladd_cond_broadcast(&store->ended);
    lladd_mutex_unlock(&store->mutex);
}

/* Takes the store. LLADD_NOT_FOUND: the database has none. */
static int begin_flush(struct bw_store *store, bool wait, struct lladd_error *err)
{
    lladd_mutex_lock(&store->mutex);
    while (store->flushing && wait)
        lladd_cond_wait(&store->ended, &store->mutex);
    bool there = store->recovered && store->page.v != LLADD_NO_PAGE;
    bool mine = there && !store->flushing;
    store->flushing |= mine;
    lladd_mutex_unlock(&store->mutex);
    if (!there)
        return LLADD_NOT_FOUND;
    if (mine && store->damaged) {
        end_flush(store);
        return lladd_error_set(err, LLADD_CORRUPT_PAGE, "no flush of Bw-trees: %.200s",
                               store->why.message);
    }
    return mine ? 0 : lladd_error_set(err, LLADD_BUSY, "another thread flushes the Bw-trees");
}

static int capture_all(struct flush *f)
{
    for (struct bw_stored *s = f->store->trees; s; s = s->next)
        if (lladd_atomic_load_ptr(&s->tree))
            TRY(capture_tree(f, s));
    return 0;
}

static int grow_maps(struct flush *f)
{
    for (struct bw_stored *s = f->store->trees; s; s = s->next)
        if (f->flags & BW_FLUSH_ALLOCATE)
            TRY(ll_bwtree__maps_grow(s, f->err));
    return 0;
}

/* Ends a transaction of the flush. Returns rc, or why the transaction has failed. */
static int end_txn(struct flush *f, int rc, lladd_lsn *commit)
{
    struct lladd_txn *txn = f->txn;
    f->txn = NULL;
    return txn ? ll_bwtree__end(txn, rc, commit, f->err) : rc;
}

/* Writes the rest, and makes it durable. */
static int sync_all(struct flush *f)
{
    f->wrote = f->txn != NULL;
    if (!f->wrote)
        return 0;
    TRY(write_buffer(f));
    return copy_error(f, lladd_bulk_sync(f->txn));
}

/* The first transaction: writes what has changed. */
static int write_all(struct flush *f)
{
    int rc = capture_all(f);
    if (!rc)
        rc = sync_all(f);
    return !rc && LLADD_PLANTED(LLADD_BUG_BW_SEGMENT) ? 0 : end_txn(f, rc, NULL);
}

static bool marks_stay(const struct flush *f)
{
    return !f->wrote && !(f->flags & BW_FLUSH_FORCE) &&
           f->bound < lladd_atomic_load64(&f->store->flushed) + f->store->step;
}

static uint64_t newest(struct lladd_db *db)
{
    struct lladd_stats stats = {.struct_size = sizeof stats};
    return lladd_stats_get(db, &stats) ? 0 : stats.log_tail;
}

/* A planted bug. */
static int marks_first(struct flush *f)
{
    struct lladd_txn *txn = f->txn;
    TRY(ll_bwtree__begin(f->store, &f->txn, f->err));
    int rc = ll_bwtree__end(f->txn, put_marks(f), NULL, f->err);
    f->txn = txn;
    return rc;
}

/* The second transaction: logs the addresses, and moves the marks. */
static int log_all(struct flush *f, lladd_lsn *commit, bool *complete)
{
    TRY(want_txn(f));
    int rc = want_buffer(f);
    if (!rc && LLADD_PLANTED(LLADD_BUG_BW_RSSP))
        rc = marks_first(f);
    for (struct bw_stored *s = f->store->trees; s && !rc; s = s->next)
        rc = log_tree(f, s);
    if (!rc)
        rc = settle(f, complete);
    return end_txn(f, rc, commit);
}

static int run(struct flush *f)
{
    lladd_lsn commit = {0};
    bool complete = false;
    for (struct bw_stored *s = f->store->trees; s; s = s->next)
        s->list.n = 0;
    uint64_t before = lladd_atomic_load64(&f->store->flushed);
    f->bound = lladd_object_applied_lsn(f->store->db).v;
    f->bound = f->bound > before ? f->bound : before;
    f->since = f->bound > f->store->grouped ? f->bound : f->store->grouped;
    if (LLADD_PLANTED(LLADD_BUG_BW_BOUND))
        f->bound = newest(f->store->db);
    int rc = write_all(f);
    if (!rc)
        rc = grow_maps(f);
    if (!rc && marks_stay(f))
        return 0;
    rc = rc ? end_txn(f, rc, NULL) : log_all(f, &commit, &complete);
    lladd_mem_free(f->store->db, f->buffer);
    if (rc)
        return rc;
    note_settled(f, commit, complete);
    lladd_atomic_count64(&f->store->flushes, 1);
    return f->flags & BW_FLUSH_FORCE && commit.v ? lladd_log_force(f->store->db, commit, f->err)
                                                 : 0;
}

/* With a segment and map pages ahead, the next flush in a checkpoint need not allocate. */
static int provide(struct bw_store *store, struct lladd_error *err)
{
    struct flush f = {.store = store, .flags = BW_FLUSH_ALLOCATE, .err = err};
    TRY(ll_bwtree__segments_free(store, err));
    TRY(grow_maps(&f));
    return LLADD_PLANTED(LLADD_BUG_BW_SEGMENT)
               ? 0
               : ll_bwtree__segment_room(store, 1, true, NULL, err);
}

int ll_bwtree__flush(struct bw_store *store, unsigned flags, struct lladd_error *err)
{
    struct flush f = {.store = store, .flags = flags, .err = err};
    int rc = begin_flush(store, flags & BW_FLUSH_WAIT, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    rc = run(&f);
    if (!rc && flags & BW_FLUSH_ALLOCATE)
        rc = provide(store, err);
    end_flush(store);
    return rc;
}

int ll_bwtree__provide(struct bw_store *store, struct lladd_error *err)
{
    int rc = begin_flush(store, true, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    rc = provide(store, err);
    end_flush(store);
    return rc;
}

void ll_bwtree__flush_if_due(struct bw_store *store, uint64_t lsn)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (__builtin_expect(lsn < lladd_atomic_load64(&store->flushed) + store->due, 1) ||
        lsn < lladd_atomic_load64(&store->retry))
        return;
    /* After a failure the log keeps the changes, and a later writer tries again. */
    if (ll_bwtree__flush(store, BW_FLUSH_ALLOCATE, &why))
        lladd_atomic_store64(&store->retry, lsn + store->due / 4);
}

/* ---- callbacks of the class ------------------------------------------------------------------ */

/* The log below `lsn` is to be released. */
void ll_bwtree__advance(void *ctx, struct lladd_db *db, lladd_lsn lsn)
{
    struct bw_store *store = lladd_extension_state(db, &ll_bwtree__extension);
    struct lladd_error why = LLADD_ERROR_INIT;
    (void)ctx;
    if (store && lladd_atomic_load64(&store->flushed) < lsn.v)
        (void)ll_bwtree__flush(store, BW_FLUSH_FORCE, &why); /* if it fails, the log stays */
}

/* Without changes the marks still have to follow the log. After a clean close the store has all
 * changes: the close has rolled back what was open, and then takes a checkpoint. If the segments
 * have no room, the log keeps the changes. */
int ll_bwtree__checkpoint(void *ctx, struct lladd_db *db)
{
    struct bw_store *store = lladd_extension_state(db, &ll_bwtree__extension);
    struct lladd_error why = LLADD_ERROR_INIT;
    (void)ctx;
    int rc = store ? ll_bwtree__flush(store, 0, &why) : 0;
    return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : 0;
}

void ll_bwtree__store_stats(struct bw_store *store, struct lladd_bwtree_stats *out)
{
    if (begin_flush(store, true, NULL))
        return;
    out->segments = store->n_segments;
    for (size_t i = 0; i < store->n_segments; i++)
        out->segment_pages += store->segments[i].pages;
    out->flushes = lladd_atomic_load64_relaxed(&store->flushes);
    out->flushed_bytes = lladd_atomic_load64_relaxed(&store->bytes);
    lladd_mutex_lock(&store->mutex);
    ll_bwtree__marks_settle(store);
    out->redo_lsn = store->redo;
    lladd_mutex_unlock(&store->mutex);
    end_flush(store);
}
