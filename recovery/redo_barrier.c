/* SPDX-License-Identifier: BSD-2-Clause */
/* Redo barriers (BUF-6): ranges of pages that were written without log records. Redo ignores
 * records of these pages with an LSN below the LSN of the barrier. Barriers are disjoint and sorted
 * by first page; a newer barrier cuts its range out of older barriers. Threads: under
 * core->misc. */
#include "recovery/core.h"

#include <lladd/bytes.h>
#include <string.h>

#define PAGES_MAX (1ull << 48)

bool ll_redo_barrier_decode(const struct ll_record *rec, uint64_t *first, uint64_t *n)
{
    if (rec->kind != LL_REC_REDO_BARRIER || rec->redo.len != 16)
        return false;
    const unsigned char *range = rec->redo.data;
    *first = lladd_get64(range);
    *n = lladd_get64(range + 8);
    return true;
}

static void insert(struct ll_core *core, size_t at, const struct ll_redo_barrier *like,
                   uint64_t first, uint64_t n)
{
    memmove(core->barriers + at + 1, core->barriers + at,
            (core->n_barriers - at) * sizeof *core->barriers);
    core->barriers[at] = *like;
    core->barriers[at].first = first;
    core->barriers[at].n = n;
    core->n_barriers++;
}

static int make_room(struct ll_core *core, uint64_t first, uint64_t n, struct lladd_error *err)
{
    if (n == 0 || first >= PAGES_MAX || n > PAGES_MAX - first)
        return ll_fail(err, LLADD_BAD_RECORD, "invalid redo barrier: %llu pages from page %llu on",
                       (unsigned long long)n, (unsigned long long)first);
    size_t pieces = 0;
    for (size_t i = 0; i < core->n_barriers; i++) {
        const struct ll_redo_barrier *f = &core->barriers[i];
        pieces += f->first < first + n && first < f->first + f->n;
    }
    return ll_grow(&core->env, &core->barriers, &core->cap_barriers, core->n_barriers + pieces + 3,
                   sizeof *core->barriers)
               ? ll_fail(err, LLADD_NO_MEMORY, "out of memory for a redo barrier")
               : 0;
}

/* A barrier with an LSN above all others adds at most two entries: it may split an older one. */
int ll_redo_barrier_promise(struct ll_core *core, struct lladd_error *err)
{
    if (ll_grow(&core->env, &core->barriers, &core->cap_barriers,
                core->n_barriers + 2 * (core->barriers_promised + 1), sizeof *core->barriers))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a redo barrier");
    core->barriers_promised++;
    return 0;
}

void ll_redo_barrier_promise_end(struct ll_core *core)
{
    core->barriers_promised--;
}

static void cut_older(struct ll_core *core, uint64_t first, uint64_t end, lladd_lsn lsn)
{
    size_t i = 0;
    while (i < core->n_barriers) {
        struct ll_redo_barrier *f = &core->barriers[i], old = *f;
        uint64_t old_end = old.first + old.n;
        if (old_end <= first || old.first >= end || old.lsn.v >= lsn.v) {
            i++;
            continue;
        }
        memmove(f, f + 1, (core->n_barriers - i - 1) * sizeof *f);
        core->n_barriers--;
        if (old.first < first)
            insert(core, i++, &old, old.first, first - old.first);
        if (old_end > end)
            insert(core, i++, &old, end, old_end - end);
    }
}

/* Analysis meets barriers in any order, so this barrier leaves out the parts that newer barriers
 * cover. */
void ll_redo_barrier_put(struct ll_core *core, const struct ll_redo_barrier *barrier)
{
    uint64_t first = barrier->first, end = first + barrier->n;
    lladd_atomic_max64(&core->newest_barrier, barrier->lsn.v);
    cut_older(core, first, end, barrier->lsn);
    for (size_t i = 0; first < end; i++) {
        bool last = i == core->n_barriers || core->barriers[i].first >= end;
        uint64_t next = last ? end : core->barriers[i].first;
        if (!last && next + core->barriers[i].n <= first)
            continue;
        if (next > first)
            insert(core, i++, barrier, first, next - first);
        first = last ? end : next + core->barriers[i].n;
    }
}

int ll_redo_barrier_add(struct ll_core *core, uint64_t first, uint64_t n, lladd_lsn lsn,
                        struct lladd_error *err)
{
    lladd_mutex_lock(&core->misc);
    int rc = make_room(core, first, n, err);
    if (!rc)
        ll_redo_barrier_put(core, &(struct ll_redo_barrier){first, n, lsn, {0}});
    lladd_mutex_unlock(&core->misc);
    return rc;
}

static struct ll_redo_barrier *find(const struct ll_core *core, uint64_t page)
{
    size_t i = ll_lower_bound(core->barriers, core->n_barriers, sizeof *core->barriers, page + 1);
    struct ll_redo_barrier *barrier = i ? &core->barriers[i - 1] : NULL;
    return barrier && page - barrier->first < barrier->n ? barrier : NULL;
}

/* Takes no mutex, because no thread changes the barriers during redo. */
lladd_lsn ll_redo_barrier_of(const struct ll_core *core, uint64_t page)
{
    const struct ll_redo_barrier *barrier = find(core, page);
    return lladd_lsn_of(barrier ? barrier->lsn.v : 0);
}

lladd_lsn ll_redo_barrier_of_locked(struct ll_core *core, uint64_t page)
{
    lladd_mutex_lock(&core->misc);
    lladd_lsn lsn = ll_redo_barrier_of(core, page);
    lladd_mutex_unlock(&core->misc);
    return lsn;
}

lladd_lsn ll_redo_barrier_own(struct ll_core *core, uint64_t page, lladd_lsn txn)
{
    lladd_mutex_lock(&core->misc);
    const struct ll_redo_barrier *barrier = find(core, page);
    bool own = barrier && txn.v && barrier->txn.v == txn.v;
    lladd_lsn lsn = lladd_lsn_of(own ? barrier->lsn.v : 0);
    lladd_mutex_unlock(&core->misc);
    return lsn;
}

void ll_redo_barrier_disown(struct ll_core *core, lladd_lsn txn, lladd_lsn stop)
{
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; i < core->n_barriers; i++) {
        struct ll_redo_barrier *b = &core->barriers[i];
        if (b->txn.v == txn.v && b->lsn.v > stop.v)
            b->txn.v = 0;
    }
    lladd_mutex_unlock(&core->misc);
}

void ll_redo_barrier_disown_page(struct ll_core *core, uint64_t page)
{
    lladd_mutex_lock(&core->misc);
    struct ll_redo_barrier *barrier = find(core, page);
    if (barrier && !LLADD_PLANTED(LLADD_BUG_BULK_CHANGED))
        barrier->txn.v = 0;
    lladd_mutex_unlock(&core->misc);
}
