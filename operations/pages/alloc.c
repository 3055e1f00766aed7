/* SPDX-License-Identifier: BSD-2-Clause */
/* The allocator: pages and extents of the page file (lladd/pages.h).
 *
 * Only the allocation bitmaps say what is allocated (alloc_bitmap.c). Memory has hints, which are
 * unknown at first, so an open reads no bitmap for them:
 *
 *   groups    for every bitmap, an upper bound of the longest run of free pages (`run`) and the
 *             place of the last free page found. A failed search lowers the bound. The end of a
 *             transaction that changed the bitmap makes the bound unknown again. It also increments
 *             `epoch`, so that a search that began earlier does not lower the bound.
 *   current   the group from which single pages are allocated: after open the last one. When it is
 *             full, the lowest group that may have a free page becomes the current one.
 *   holds     reservations of freed pages that an undo may need (reservation.c).
 *
 * If no group has room, the page file grows. It grows to four times its size while it is smaller
 * than a MiB, then to twice its size, by at least 16 pages and at most 64 MiB. The file grows by
 * more if the request needs more, and by less on a full device. The file never shrinks. Growing
 * allocates the device's blocks, so that writing an allocated page needs no more space. Growing is
 * not logged. A page of zeros in a bitmap's place stands for a group without allocations; the
 * bitmap is formatted when its group is first used.
 *
 * A transaction that has freed pages waits in the queue `pending` until its commit is durable. Each
 * call that allocates or frees pages checks the oldest transaction in the queue. If the commit of
 * this transaction is durable, the call drops the cached copies of the transaction's pages (BUF-6),
 * and then releases its reservations. The call drops only copies of pages that are free according
 * to the bitmap: the transaction may have freed a page and rolled back to a savepoint.
 *
 * With relaxed durability, a commit may stay in memory for a long time. If the pending transactions
 * have freed many pages (`many`), the allocator forces the log before it grows the file; from half
 * as many on, it asks the log thread for a sync. If the device is full, the allocator forces the
 * log even for one page.
 *
 * Threads: any number. No thread holds `mutex`, a leaf, while it waits for a page. A thread that
 * grows the file or formats a bitmap holds `grow`. */
#include "operations/pages/alloc_bitmap.h"

#include <lladd/bulk.h>
#include <lladd/log_read.h>

#define RUN_UNKNOWN UINT32_MAX
#define GROW_PAGES_MIN 16u
#define GROW_BYTES_SOON (1u << 20)
#define GROW_BYTES_MAX (64u << 20)
/* If the pending pages have fewer bytes than this, the file grows without a sync before it. */
#define MANY_BYTES_MIN (4u << 20)

struct ll_bitmap_group {
    uint32_t run;   /* upper bound of the longest run of free pages, or RUN_UNKNOWN */
    uint32_t hint;  /* index of the 64-page word where the last single page was found */
    uint32_t epoch; /* incremented whenever pages may have become free */
    bool formatted; /* the group's bitmap is known to exist */
};

/* The allocator's state of a transaction that allocates or frees pages. */
struct ll_page_owner {
    struct ll_txn_part part;
    struct ll_reservation_txn hold; /* reservations of the pages that it has freed */
    struct ll_operations *ops;
    struct ll_page_owner *next_pending;
    lladd_lsn commit; /* LSN of its commit record; 0: not logged yet */
    uint64_t n_pages; /* while pending: the number of reserved pages, among them those that a
                       * rollback to a savepoint has allocated again */
    bool pending;     /* the transaction is in the queue, or being released; under the mutex, like
                       * `told` */
    bool told;        /* `durable` has been called, so the release frees this struct */
    uint64_t *groups; /* groups that may get free pages when the transaction ends */
    size_t n_groups, cap_groups;
};

/* ---- groups ---------------------------------------------------------------------------------- */

/* Extends the table to groups 0 to n - 1. The caller holds the mutex. */
static int want_groups(struct ll_operations *ops, uint64_t n)
{
    struct ll_allocator *a = &ops->alloc;
    if (n > a->cap_groups) {
        uint64_t cap = a->cap_groups * 2 > n ? a->cap_groups * 2 : n;
        if (cap > SIZE_MAX / sizeof(struct ll_bitmap_group))
            return LLADD_NO_MEMORY;
        struct ll_bitmap_group *g = lladd_mem_resize(ops->db, a->groups, (size_t)cap * sizeof *g);
        if (!g)
            return LLADD_NO_MEMORY;
        a->groups = g;
        a->cap_groups = cap;
    }
    if (a->n_groups == 0)
        a->current = n - 1;
    for (; a->n_groups < n; a->n_groups++)
        a->groups[a->n_groups] = (struct ll_bitmap_group){.run = RUN_UNKNOWN};
    return 0;
}

/* Notes that pages of the group may have become free. The caller holds the mutex. */
static void group_freed(struct ll_allocator *a, uint64_t group)
{
    if (group >= a->n_groups)
        return;
    a->groups[group].run = RUN_UNKNOWN;
    a->groups[group].epoch++;
}

void ll_operations__alloc_forget(struct ll_operations *ops)
{
    struct ll_allocator *a = &ops->alloc;
    lladd_mutex_lock(&a->mutex);
    for (uint64_t g = 0; g < a->n_groups; g++)
        group_freed(a, g);
    lladd_mutex_unlock(&a->mutex);
}

static uint64_t groups_in(uint32_t page_size, uint64_t pages)
{
    uint32_t span = ll_bitmap_span(page_size);
    return (pages + span - 1) / span;
}

/* Picks a group that may have a run of n pages. False: the file must grow. The caller holds the
 * mutex. */
static bool pick_group(struct ll_allocator *a, uint32_t n, uint64_t *out)
{
    if (a->current < a->n_groups && a->groups[a->current].run >= n) {
        *out = a->current;
        return true;
    }
    for (uint64_t g = 0; g < a->n_groups; g++) {
        if (a->groups[g].run >= n) {
            if (n == 1)
                a->current = g;
            *out = g;
            return true;
        }
    }
    return false;
}

static bool is_map(struct lladd_db *db, const struct lladd_page *page)
{
    return lladd_page_is(db, lladd_page_view(page), ll_operations__map_page.name);
}

/* Handles a page of another type in the place of a group's bitmap. Type 0: the bitmap does not
 * exist yet. The first bitmap is created with the database. */
static int look_at_no_map(lladd_pageno map, uint16_t type, struct lladd_error *err)
{
    if (type == 0 && map.v != 1)
        return 0;
    return ll_operations__on(err, map,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "page %llu should be an allocation bitmap, and is of "
                                             "type %u",
                                             (unsigned long long)map.v, type));
}

/* Formats the bitmap of a group unless it exists. The caller holds `grow`. */
static int format_map(struct lladd_txn *txn, struct ll_operations *ops, uint64_t group)
{
    struct lladd_page *page;
    lladd_pageno map = ll_bitmap_page(lladd_page_size(ops->db), group);
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(lladd_page_fix(ops->db, map, LLADD_LATCH_SHARED, &page, err));
    uint16_t type = lladd_page_view(page).type;
    bool there = is_map(ops->db, page);
    lladd_page_unfix(ops->db, page, LLADD_LATCH_SHARED);
    if (there)
        return 0;
    int rc = look_at_no_map(map, type, err);
    return rc ? rc : lladd_update(txn, LL_OP_MAP_FORMAT, map, NULL, 0);
}

/* Makes sure that the group's bitmap exists. */
static int want_map(struct lladd_txn *txn, struct ll_operations *ops, uint64_t group)
{
    struct ll_allocator *a = &ops->alloc;
    lladd_mutex_lock(&a->grow);
    int rc = format_map(txn, ops, group);
    if (!rc) {
        lladd_mutex_lock(&a->mutex);
        a->groups[group].formatted = true;
        lladd_mutex_unlock(&a->mutex);
    }
    lladd_mutex_unlock(&a->grow);
    return rc;
}

/* Grows the file for a run of n pages, unless another thread has grown it since it had `seen`
 * pages. */
static int grow(struct lladd_txn *txn, struct ll_operations *ops, uint32_t n, uint64_t seen)
{
    struct ll_allocator *a = &ops->alloc;
    uint32_t page_size = lladd_page_size(ops->db);
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = 0;
    lladd_mutex_lock(&a->grow);
    uint64_t count = lladd_page_count(ops->db);
    if (count == seen) {
        uint64_t least = n + 2, step = count; /* n pages, a bitmap, and one to spare */
        if (count < GROW_BYTES_SOON / page_size)
            step = 3 * count;
        step = step < GROW_PAGES_MIN ? GROW_PAGES_MIN : step;
        step = step > GROW_BYTES_MAX / page_size ? GROW_BYTES_MAX / page_size : step;
        step = step < least ? least : step;
        rc = lladd_pages_extend(ops->db, count + step, err);
        if (rc == LLADD_NO_SPACE && step > least)
            rc = lladd_pages_extend(ops->db, count + least, err);
        if (!rc) {
            lladd_mutex_lock(&a->mutex);
            if (count % ll_bitmap_span(page_size) != 0)
                group_freed(a, count / ll_bitmap_span(page_size));
            lladd_mutex_unlock(&a->mutex);
        }
    }
    lladd_mutex_unlock(&a->grow);
    return rc;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void owner_drop(struct ll_txn_part *part)
{
    struct ll_page_owner *o = (struct ll_page_owner *)part;
    ll_operations__reserve_release(&o->hold);
    lladd_mem_free(o->ops->db, o->groups);
}

static int owner_of(struct lladd_txn *txn, struct ll_page_owner **out)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    struct ll_txn_part *part;
    TRY(ll_operations__owner_of(txn, &ll_operations__pages_participant, &ops->alloc.owners,
                                sizeof(struct ll_page_owner), "an allocation", &part));
    *out = (struct ll_page_owner *)part;
    (*out)->ops = ops;
    (*out)->hold.holds = &ops->alloc.holds;
    return 0;
}

/* Notes that the transaction changes bits of the group's bitmap. */
static int owner_note(struct ll_page_owner *o, uint64_t group)
{
    for (size_t i = o->n_groups; i > 0; i--)
        if (o->groups[i - 1] == group)
            return 0;
    if (ll_operations__grow(o->ops->db, &o->groups, o->n_groups + 1, &o->cap_groups,
                            sizeof *o->groups))
        return LLADD_NO_MEMORY;
    o->groups[o->n_groups++] = group;
    return 0;
}

/* The transaction's state, with the group noted. */
static int owner_for(struct lladd_txn *txn, uint64_t group, struct ll_page_owner **out)
{
    TRY(owner_of(txn, out));
    int rc = owner_note(*out, group);
    return rc ? lladd_error_set(lladd_txn_error_out(txn), rc, "out of memory for an allocation")
              : 0;
}

/* Called when the transaction has ended, or its reservations were released: its groups may have
 * more free pages than before. */
static void touched(struct ll_page_owner *o)
{
    struct ll_allocator *a = &o->ops->alloc;
    lladd_mutex_lock(&a->mutex);
    for (size_t i = 0; i < o->n_groups; i++)
        group_freed(a, o->groups[i]);
    lladd_mutex_unlock(&a->mutex);
}

static int pages_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    (void)ctx;
    (void)txn;
    return ll_operations__reserve_write(&((struct ll_page_owner *)state)->hold, sink);
}

static int pages_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    (void)ctx;
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_page_owner *o;
    TRY(owner_of(txn, &o));
    TRY(ll_operations__reserve_restore(&o->hold, blob, err));
    uint32_t page_size = lladd_page_size(o->ops->db);
    for (const struct ll_reservation_node *n = o->hold.nodes; n; n = n->next_owned)
        if (owner_note(o, ll_bitmap_group(page_size, lladd_page_of(n->node.key >> 16))))
            return lladd_error_set(err, LLADD_NO_MEMORY,
                                   "out of memory for a transaction in doubt");
    return 0;
}

/* Adds the transaction at the end of the queue, or at the front if dropping its pages has failed.
 * The caller holds the mutex. */
static void put_pending(struct ll_allocator *a, struct ll_page_owner *o, bool in_front)
{
    if (a->newest.v < o->commit.v)
        a->newest = o->commit;
    o->next_pending = in_front ? a->pending : NULL;
    if (in_front)
        a->pending = o;
    else
        *a->pending_end = o;
    if (!o->next_pending)
        a->pending_end = &o->next_pending;
    a->n_pending_pages += o->n_pages;
}

static void pages_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    struct ll_page_owner *o = state;
    struct ll_allocator *a = &o->ops->alloc;
    touched(o);
    o->commit = commit;
    if (!o->hold.nodes)
        return;
    o->n_pages = ll_operations__reserve_count(&o->hold);
    lladd_mutex_lock(&a->mutex);
    o->pending = true;
    put_pending(a, o, false);
    lladd_mutex_unlock(&a->mutex);
}

/* The library may call this long after the commit is durable, before or after the allocator has
 * released the reservations. (The callback `committed` comes promptly, but would need memory at
 * each commit; without memory the commit would fail.) */
static void pages_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    struct ll_page_owner *o = state;
    struct ll_allocator *a = &o->ops->alloc;
    lladd_mutex_lock(&a->mutex);
    o->told = true;
    bool over = !o->pending;
    lladd_mutex_unlock(&a->mutex);
    if (over)
        ll_operations__owner_end(&o->part);
}

static void pages_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    struct ll_page_owner *o = state;
    ll_operations__reserve_release(&o->hold);
    touched(o);
    ll_operations__owner_end(&o->part);
}

const struct lladd_participant ll_operations__pages_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.pages",
    .version = 1,
    .prepare = pages_prepare,
    .in_doubt = pages_in_doubt,
    .logged = pages_logged,
    .durable = pages_durable,
    .aborted = pages_aborted,
};

/* ---- dropping freed pages -------------------------------------------------------------------- */

/* The pages of a reservation node that are FREED and that no other transaction reserves. */
static int node_freed(struct ll_operations *ops, const struct ll_reservation_node *node,
                      uint64_t out[LL_RESERVATION_WORDS], struct lladd_error *err)
{
    lladd_pageno map = lladd_page_of(node->node.key >> 16);
    uint32_t chunk = (uint32_t)(node->node.key & 0xffff);
    uint64_t others[LL_RESERVATION_WORDS];
    struct lladd_page *page;
    TRY(ll_operations__fix(ops->db, map, ll_operations__map_page.name, LLADD_LATCH_SHARED, &page,
                           err));
    ll_operations__held(&ops->alloc.holds, map, chunk, node->owner, others);
    for (uint32_t i = 0; i < LL_RESERVATION_CHUNK; i++) {
        uint32_t index = chunk * LL_RESERVATION_CHUNK + i;
        uint64_t bit = UINT64_C(1) << i % 64;
        out[i / 64] &= ~bit;
        if ((node->bits[i / 64] & ~others[i / 64] & bit) && index < ll_bitmap_span(page->size) &&
            ll_operations__bitmap_use(lladd_page_view(page), index) == LLADD_USE_FREED)
            out[i / 64] |= bit;
    }
    lladd_page_unfix(ops->db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Drops the cached copies of a node's freed pages. A copy in use stays, which does no harm: the
 * next owner of the page formats it, or a redo barrier drops it. */
static int node_drop(struct ll_operations *ops, const struct ll_reservation_node *node,
                     struct lladd_error *err)
{
    uint32_t page_size = lladd_page_size(ops->db);
    uint64_t group = ll_bitmap_group(page_size, lladd_page_of(node->node.key >> 16));
    uint32_t base = (uint32_t)(node->node.key & 0xffff) * LL_RESERVATION_CHUNK;
    uint64_t bits[LL_RESERVATION_WORDS] = {0};
    int rc = node_freed(ops, node, bits, err);
    for (uint32_t i = 0; i < LL_RESERVATION_CHUNK && !rc;) {
        uint32_t from = i;
        while (i < LL_RESERVATION_CHUNK && bits[i / 64] >> i % 64 & 1)
            i++;
        if (i > from)
            rc = lladd_pages_discard(ops->db, ll_bitmap_numbered(page_size, group, base + from),
                                     i - from);
        else
            i++;
        if (rc == LLADD_BUSY)
            rc = 0;
    }
    return rc;
}

/* Removes the oldest transaction from the queue if its commit is durable. The caller holds the
 * mutex. */
static struct ll_page_owner *take_pending(struct ll_operations *ops)
{
    struct ll_allocator *a = &ops->alloc;
    struct ll_page_owner *o = a->pending;
    if (!o || o->commit.v >= lladd_durable_lsn(ops->db).v)
        return NULL;
    a->pending = o->next_pending;
    if (!a->pending)
        a->pending_end = &a->pending;
    a->n_pending_pages -= o->n_pages;
    a->dropping++;
    return o;
}

/* Releases the pages of the oldest pending transaction, if its commit is durable. *some (nullable):
 * was there such a transaction? */
static int drop_pending(struct ll_operations *ops, bool *some, struct lladd_error *err)
{
    struct ll_allocator *a = &ops->alloc;
    lladd_mutex_lock(&a->mutex);
    struct ll_page_owner *o = take_pending(ops);
    lladd_mutex_unlock(&a->mutex);
    if (some)
        *some = o != NULL;
    if (!o)
        return 0;
    int rc = 0;
    for (const struct ll_reservation_node *node = o->hold.nodes; node && !rc;
         node = node->next_owned)
        rc = node_drop(ops, node, err);
    if (!rc) {
        ll_operations__reserve_release(&o->hold);
        touched(o);
    }
    lladd_mutex_lock(&a->mutex);
    a->dropping--;
    a->dropped += !rc;
    if (rc)
        put_pending(a, o, true);
    else
        o->pending = false;
    bool over = !rc && o->told;
    lladd_mutex_unlock(&a->mutex);
    if (over)
        ll_operations__owner_end(&o->part);
    return rc;
}

/* With at least this many pending pages, a sync is better than growth: a quarter of the file,
 * within bounds. */
static uint64_t many(uint32_t page_size, uint64_t count)
{
    uint64_t least = MANY_BYTES_MIN / page_size, most = GROW_BYTES_MAX / page_size;
    return count / 4 < least ? least : count / 4 > most ? most : count / 4;
}

/* The first step of each call that allocates or frees pages. Releases the pages of up to one
 * transaction, and asks for a sync before too many pages are pending. */
static int look_at_pending(struct ll_operations *ops, struct lladd_error *err)
{
    struct ll_allocator *a = &ops->alloc;
    uint64_t half = many(lladd_page_size(ops->db), lladd_page_count(ops->db)) / 2;
    int rc = drop_pending(ops, NULL, err);
    lladd_mutex_lock(&a->mutex);
    bool ask = a->n_pending_pages >= half && lladd_durable_lsn(ops->db).v >= a->asked;
    if (ask) /* one sync is enough for all transactions that are pending now */
        a->asked = a->newest.v + 1;
    lladd_mutex_unlock(&a->mutex);
    if (ask)
        (void)lladd_log_force_soon(ops->db); /* without a log thread, make_room forces the log
                                              * later */
    return rc;
}

/* Makes the pending transactions durable and releases the pages that they freed. */
static int force_pending(struct ll_operations *ops, struct lladd_error *err)
{
    struct ll_allocator *a = &ops->alloc;
    bool some = true;
    lladd_mutex_lock(&a->mutex);
    lladd_lsn newest = a->pending ? a->newest : lladd_lsn_of(0);
    lladd_mutex_unlock(&a->mutex);
    int rc = newest.v ? lladd_log_force(ops->db, newest, err) : 0;
    while (!rc && some)
        rc = drop_pending(ops, &some, err);
    return rc;
}

/* ---- allocating and freeing ------------------------------------------------------------------ */

/* Tries one group. LLADD_PAGE_FULL: the group has no run of this length; its bound has been
 * lowered, unless pages may have become free during the search. */
static int take_in(struct lladd_txn *txn, struct ll_operations *ops, uint64_t group,
                   struct ll_bitmap_take *take)
{
    struct ll_allocator *a = &ops->alloc;
    uint32_t page_size = lladd_page_size(ops->db), span = ll_bitmap_span(page_size);
    lladd_pageno map = ll_bitmap_page(page_size, group);
    struct ll_page_owner *o;
    TRY(owner_for(txn, group, &o));
    lladd_mutex_lock(&a->mutex);
    struct ll_bitmap_group g = a->groups[group];
    lladd_mutex_unlock(&a->mutex);
    uint64_t count = lladd_page_count(ops->db);
    int rc = 0;
    if (count <= map.v || count <= group * span) {
        rc = LLADD_PAGE_FULL; /* the bitmap lies beyond the end of the file */
        take->longest = 0;
    } else {
        take->hint = g.hint;
        take->limit = count - group * span < span ? (uint32_t)(count - group * span) : span;
        rc = g.formatted ? 0 : want_map(txn, ops, group);
        if (!rc)
            rc = lladd_update(txn, LL_OP_MAP_TAKE, map, take, sizeof *take);
    }
    lladd_mutex_lock(&a->mutex);
    struct ll_bitmap_group *now = &a->groups[group];
    if (rc == LLADD_PAGE_FULL && now->epoch == g.epoch)
        now->run = take->longest;
    else if (!rc && take->n == 1)
        now->hint = take->index / 64;
    lladd_mutex_unlock(&a->mutex);
    return rc;
}

/* The number of pending transactions released so far. If the number changes, there may be room.
 * `all`: first waits for the releases that are in progress. */
static uint64_t dropped_so_far(struct ll_allocator *a, bool all)
{
    for (;;) {
        lladd_mutex_lock(&a->mutex);
        bool busy = a->dropping != 0;
        uint64_t dropped = a->dropped;
        lladd_mutex_unlock(&a->mutex);
        if (!all || !busy)
            return dropped;
        lladd_yield();
    }
}

/* Called after a search has found no run of n pages in a file of `count` pages. `dropped`: the
 * number of transactions released before the search. Releases more transactions, or grows the
 * file. */
static int make_room(struct lladd_txn *txn, struct ll_operations *ops, uint32_t n, uint64_t count,
                     uint64_t dropped)
{
    struct ll_allocator *a = &ops->alloc;
    struct lladd_error *err = lladd_txn_error_out(txn);
    bool some = true;
    int rc = 0;
    while (!rc && some)
        rc = drop_pending(ops, &some, err);
    lladd_mutex_lock(&a->mutex);
    bool wait = a->n_pending_pages >= many(lladd_page_size(ops->db), count);
    lladd_mutex_unlock(&a->mutex);
    if (!rc && wait)
        rc = force_pending(ops, err);
    if (rc || dropped_so_far(a, false) != dropped)
        return rc;
    rc = grow(txn, ops, n, count);
    if (rc != LLADD_NO_SPACE)
        return rc;
    struct lladd_error full = *err;
    rc = force_pending(ops, err);
    if (rc || dropped_so_far(a, true) != dropped)
        return rc;
    *err = full;
    return LLADD_NO_SPACE;
}

static int take_pages(struct lladd_txn *txn, uint32_t n, enum lladd_page_use use, lladd_pageno *out)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    struct ll_allocator *a = &ops->alloc;
    uint32_t page_size = lladd_page_size(ops->db);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_bitmap_take take = {.ops = ops, .n = n, .use = use};
    int rc = look_at_pending(ops, err);
    while (!rc) {
        uint64_t count = lladd_page_count(ops->db), group = 0;
        lladd_mutex_lock(&a->mutex);
        rc = want_groups(ops, groups_in(page_size, count));
        bool found = !rc && pick_group(a, n, &group);
        uint64_t dropped = a->dropped;
        lladd_mutex_unlock(&a->mutex);
        if (rc)
            return lladd_error_set(err, rc, "out of memory for an allocation");
        if (!found) {
            rc = make_room(txn, ops, n, count, dropped);
            continue;
        }
        rc = take_in(txn, ops, group, &take);
        if (!rc) {
            *out = ll_bitmap_numbered(page_size, group, take.index);
            return 0;
        }
        if (rc == LLADD_PAGE_FULL)
            rc = 0;
    }
    return rc;
}

static int free_pages(struct lladd_txn *txn, lladd_pageno first, uint64_t n, bool raw)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    uint32_t page_size = lladd_page_size(ops->db), span = ll_bitmap_span(page_size);
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint64_t count = lladd_page_count(ops->db), group = ll_bitmap_group(page_size, first);
    struct ll_bitmap_free args = {ll_bitmap_index(page_size, first), (uint32_t)n, raw};
    lladd_pageno map = ll_bitmap_page(page_size, group);
    struct ll_page_owner *o;
    if (first.v >= count || n > count - first.v)
        return ll_operations__on(
            err, first,
            lladd_error_set(err, LLADD_OUT_OF_RANGE,
                            "page %llu cannot be freed: the page file has %llu pages",
                            (unsigned long long)(first.v + n - 1), (unsigned long long)count));
    if (n == 0 || n > span)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "an extent has 1 to %u pages", span - 1);
    lladd_pageno bad = first;
    if (!ll_bitmap_system(page_size, first) && args.index + n > span)
        bad = ll_bitmap_page(page_size, group + 1);
    if (ll_bitmap_system(page_size, bad))
        return ll_operations__on(err, bad,
                                 lladd_error_set(err, LLADD_WRONG_TYPE,
                                                 "page %llu cannot be freed: it is %s",
                                                 (unsigned long long)bad.v,
                                                 bad.v ? "an allocation bitmap" : "the root page"));
    int rc = look_at_pending(ops, err);
    if (!rc)
        rc = owner_for(txn, group, &o);
    if (!rc && !LLADD_PLANTED(LLADD_BUG_FREE_EARLY) &&
        (rc = ll_operations__reserve(&o->hold, map, args.index, args.n)) != 0)
        rc = lladd_error_set(err, rc, "out of memory for an allocation");
    if (rc)
        return rc;
    rc = lladd_update(txn, LL_OP_MAP_FREE, map, &args, sizeof args);
    if (rc != LLADD_WRONG_TYPE || lladd_txn_error(txn)->page.v != map.v)
        return rc;
    /* The bitmap does not exist: no page of the group was ever allocated. */
    return ll_operations__on(err, first,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "page %llu cannot be freed: it is not allocated",
                                             (unsigned long long)first.v));
}

int lladd_page_alloc(struct lladd_txn *txn, lladd_pageno *out)
{
    LLADD_USE(txn);
    return take_pages(txn, 1, LLADD_USE_PAGED, out);
}

int lladd_page_free(struct lladd_txn *txn, lladd_pageno page)
{
    LLADD_USE(txn);
    return free_pages(txn, page, 1, false);
}

uint64_t lladd_extent_max(const struct lladd_db *db)
{
    return ll_bitmap_span(lladd_page_size(db)) - 1;
}

int lladd_extent_alloc(struct lladd_txn *txn, uint64_t n, unsigned flags, lladd_pageno *first)
{
    LLADD_USE(txn);
    const struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    if (n == 0 || n > lladd_extent_max(db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "an extent has 1 to %llu pages",
                               (unsigned long long)lladd_extent_max(db));
    if (flags & ~(unsigned)(LLADD_EXTENT_BULK | LLADD_EXTENT_RAW))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "unknown flags %#x", flags);
    enum lladd_page_use use = flags & LLADD_EXTENT_RAW ? LLADD_USE_RAW : LLADD_USE_PAGED;
    if (!flags)
        return take_pages(txn, (uint32_t)n, use, first);
    lladd_savepoint_id before;
    lladd_pageno got;
    TRY(lladd_savepoint(txn, &before));
    int rc = take_pages(txn, (uint32_t)n, use, &got);
    /* The barrier also drops cached copies of the pages: an aborted transaction may have left dirty
     * ones. */
    if (!rc)
        rc = lladd_redo_barrier(txn, got, n);
    if (!rc)
        *first = got;
    return ll_operations__step_end(txn, before, rc);
}

int lladd_extent_free(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    LLADD_USE(txn);
    return free_pages(txn, first, n, true);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* The page's use. *held (nullable): a transaction reserves the page. */
static int use_of(struct ll_operations *ops, lladd_pageno page, enum lladd_page_use *out,
                  bool *held, struct lladd_error *err)
{
    uint32_t page_size = lladd_page_size(ops->db), index = ll_bitmap_index(page_size, page);
    lladd_pageno map = ll_bitmap_page(page_size, ll_bitmap_group(page_size, page));
    struct lladd_page *p;
    if (held)
        *held = false;
    *out = page.v < lladd_page_count(ops->db) && ll_bitmap_system(page_size, page)
               ? LLADD_USE_SYSTEM
               : LLADD_USE_NONE;
    if (page.v >= lladd_page_count(ops->db) || *out == LLADD_USE_SYSTEM)
        return 0;
    TRY(lladd_page_fix(ops->db, map, LLADD_LATCH_SHARED, &p, err));
    int rc = 0;
    if (is_map(ops->db, p)) {
        uint64_t bits[LL_RESERVATION_WORDS];
        *out = ll_operations__bitmap_use(lladd_page_view(p), index);
        if (held) {
            ll_operations__held(&ops->alloc.holds, map, index / LL_RESERVATION_CHUNK, NULL, bits);
            *held = bits[index % LL_RESERVATION_CHUNK / 64] >> index % 64 & 1;
        }
    } else {
        rc = look_at_no_map(map, lladd_page_view(p).type, err);
    }
    lladd_page_unfix(ops->db, p, LLADD_LATCH_SHARED);
    return rc;
}

int lladd_page_use_get(struct lladd_db *db, lladd_pageno page, enum lladd_page_use *out,
                       struct lladd_error *err)
{
    return use_of(ll_operations_of(db), page, out, NULL, err);
}

bool lladd_pages_taken(const struct lladd_db *db, const struct lladd_log_entry *e,
                       lladd_pageno *first, uint64_t *n)
{
    uint32_t index, count, page_size = lladd_page_size(db), span = ll_bitmap_span(page_size);
    lladd_pageno map = lladd_page_of(e->page);
    /* Nothing has checked a record that is only read. */
    if (!ll_bitmap_taken(e, &index, &count) || !ll_bitmap_system(page_size, map) || index >= span)
        return false;
    *first = ll_bitmap_numbered(page_size, ll_bitmap_group(page_size, map), index);
    *n = count < span - index ? count : span - index;
    return true;
}

/* Must the page have a base copy (BUF-5)? Recovery asks this about a page without one. Raw pages
 * and blank pages need none. A freed page needs one while a transaction reserves the page. */
int ll_operations__is_allocated(struct ll_operations *ops, lladd_pageno page, bool *out,
                                struct lladd_error *err)
{
    enum lladd_page_use use;
    bool held, blank = false;
    TRY(use_of(ops, page, &use, &held, err));
    bool used = use == LLADD_USE_PAGED || (use == LLADD_USE_FREED && held);
    int rc = used ? ll_operations__is_blank(ops, page, &blank, err) : 0;
    if (lladd_code_root(rc) == LLADD_ROOT_DATA)
        rc = 0; /* the log is damaged, so the page may have contents */
    if (!rc)
        *out = use == LLADD_USE_SYSTEM || (used && !blank);
    return rc;
}

/* ---- open and close -------------------------------------------------------------------------- */

int ll_operations__alloc_init(struct ll_operations *ops, struct lladd_error *err)
{
    struct ll_allocator *a = &ops->alloc;
    a->pending_end = &a->pending;
    a->owners = (struct ll_txn_parts){ops->db, &a->mutex, owner_drop, NULL};
    int rc = ll_operations__reservations_init(&a->holds, ops->db, "freed pages");
    if (rc)
        return lladd_error_set(err, rc, "out of memory");
    rc = lladd_mutex_init(&a->mutex, LLADD_RANK_LEAF, "allocator");
    if (!rc && (rc = lladd_mutex_init(&a->grow, LL_OPERATIONS_RANK_GROW, "page file")) != 0)
        lladd_mutex_destroy(&a->mutex);
    if (!rc)
        return 0;
    ll_operations__reservations_free(&a->holds);
    return lladd_error_set(err, rc, "out of memory");
}

void ll_operations__alloc_free(struct ll_operations *ops)
{
    struct ll_allocator *a = &ops->alloc;
    ll_operations__owners_end(&a->owners);
    lladd_mem_free(ops->db, a->groups);
    ll_operations__blank_free(ops);
    lladd_mutex_destroy(&a->grow);
    lladd_mutex_destroy(&a->mutex);
    ll_operations__reservations_free(&a->holds);
}

int ll_operations__alloc_create(struct lladd_txn *txn)
{
    struct lladd_db *db = lladd_txn_db(txn);
    TRY(lladd_pages_extend(db, GROW_PAGES_MIN, lladd_txn_error_out(txn)));
    TRY(lladd_update(txn, LL_OP_ROOT_FORMAT, lladd_page_of(0), NULL, 0));
    return lladd_update(txn, LL_OP_MAP_FORMAT, lladd_page_of(1), NULL, 0);
}
