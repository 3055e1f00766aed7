/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reserve: credit, reservation and publication of records.
 *
 * The ring holds payload bytes: LSN l is at offset l modulo the ring's size, a power of two. The
 * ring is followed by spare bytes for one record of the greatest length. A record that would wrap
 * around is written contiguously instead, and its end goes into the spare bytes. The end is then
 * copied to the beginning of the ring, where it belongs.
 *
 * Four LSNs; tail <= granted <= limit:
 *   tail     next LSN. An append changes it by one compare-and-swap. (An atomic addition is not
 *            enough: a record's form depends on its LSN, and its size on its form.)
 *   granted  tail plus all credit that is granted and not used. It is raised only if ring and disk
 *            have the space, so an append with credit cannot fail and does not wait.
 *   limit    up to here the space in the ring is zeroed; its former contents were written.
 *   written  up to here the operating system has the bytes; limit <= written + ring size.
 *
 * Credit is an amount, not a place: the LSN comes from the tail, and only the sum must fit. Credit
 * is *in hand* from the call that takes it until the caller trims or returns it. After a trim it is
 * *idle*: if little credit is outstanding, the transaction keeps what it has not used.
 *
 * No deadlock. A caller that must wait for credit first returns its own. A thread with credit in
 * hand waits only for pages, their I/O, and the log's writer. A thread that holds a page latch, or
 * a mutex that ranks after pages, does not ask for credit that it may have to wait for. All credit
 * in hand is therefore soon used, trimmed or returned. Trims keep idle credit at about a quarter of
 * the ring or less, and one request is at most five eighths of the ring, so every request is
 * granted eventually. Debug builds check what threads with credit in hand wait for (util/sync.c).
 *
 * Publication. The LSN field of a record is stored last, with release semantics. The writer walks
 * from record to record: a record is published if its LSN field holds the LSN of its place. Ring
 * space is zeroed before it is handed out, so no older record or payload can be mistaken for that
 * LSN. Space is zeroed late and in chunks, so that rollbacks can read written records from the
 * ring.
 *
 * A thread that reads the ring holds the write mutex or ring_mutex; a thread that reuses ring space
 * holds ring_mutex. An append stores its record without either mutex: the space of the record is
 * not reused before the record is written, and the record is not written before it is published.
 */
#include "log/log_private.h"
#include "util/held.h"

#include <lladd/dst.h>
#include <limits.h>
#include <string.h>

/* Extra credit granted with a request, so that the next appends need no call. */
enum { CHUNK = 4096 };

/* The longest distance, in LSNs, that a narrow record can hold (record.c). */
#define REACH ((uint64_t)(UINT32_MAX - 1) * 8)

void ll_log__reserve_init(struct ll_log *log, uint64_t tail)
{
    log->first_lsn = tail;
    lladd_atomic_store64(&log->tail, tail);
    lladd_atomic_store64(&log->granted, tail);
    lladd_atomic_store64(&log->limit, tail);
    lladd_atomic_store64(&log->written, tail);
    lladd_atomic_store64(&log->durable, tail);
    lladd_atomic_store64(&log->visible, tail);
}

/* ---- the ring ---- */

static void zero_ring(const struct ll_log *log, uint64_t from, uint64_t to)
{
    while (from < to) {
        size_t at = (size_t)(from & (log->ring_size - 1)), n = log->ring_size - at;
        n = to - from < n ? (size_t)(to - from) : n;
        memset(log->ring + at, 0, n);
        from += n;
        /* The spare bytes hold the LSN field of a record that begins in the last eight bytes of the
         * ring. */
        if (at + n == log->ring_size)
            memset(log->ring + log->ring_size, 0, 8);
    }
}

/* Raises `limit` to `want` or somewhat more, if enough was written. *done: `limit` covers `want`,
 * unless the call fails. Under ring_mutex. */
static int extend_ring(struct ll_log *log, uint64_t want, bool *done, struct lladd_error *err)
{
    LL_ASSERT(lladd_mutex_mine(&log->ring_mutex));
    uint64_t limit = log->limit;
    uint64_t most = lladd_atomic_load64(&log->written) + log->ring_size;
    *done = limit >= want || want <= most;
    if (limit >= want || want > most)
        return 0;
    if (!log->ring) {
        size_t size = log->ring_size + ll_log__align(log->record_max) + LL_RECORD_ALIGN;
        unsigned char *ring = ll_alloc(log->env, size);
        if (!ring || ll_log__writer_alloc(log) != 0) {
            ll_free(log->env, ring);
            return ll_fail(err, LLADD_NO_MEMORY, "no memory for a log buffer of %zu bytes", size);
        }
        ll_prefer_huge(log->env, ring, size); /* a page fault for every 4 KiB would cost
                                               * measurable time */
        log->ring = ring;
    }
    uint64_t to = (want + log->ring_chunk - 1) & ~(log->ring_chunk - 1);
    if (to > most)
        to = most;
    zero_ring(log, limit, to);
    lladd_atomic_store64(&log->limit, to);
    return 0;
}

int ll_log_make_ring(struct ll_log *log, struct lladd_error *err)
{
    bool done;
    lladd_mutex_lock(&log->ring_mutex);
    int rc = extend_ring(log, lladd_atomic_load64(&log->granted) + LL_LOG_SEAL_SIZE, &done, err);
    lladd_mutex_unlock(&log->ring_mutex);
    return rc;
}

bool ll_log__ring_published(struct ll_log *log, uint64_t lsn, uint32_t *size)
{
    LL_ASSERT(lladd_mutex_mine(&log->ring_mutex));
    uint64_t limit = log->limit;
    if (!log->ring || lsn + log->ring_size < limit || lsn >= lladd_atomic_load64(&log->tail) ||
        lsn < log->first_lsn)
        return false;
    if (LLADD_LE64(lladd_atomic_load64(ll_log__ring_lsn(log, lsn))) != lsn)
        return false;
    *size = ll_log__peek_size(ll_log__ring_at(log, lsn));
    return true;
}

bool ll_log__ring_read(struct ll_log *log, uint64_t lsn, void *out, size_t len)
{
    LL_ASSERT(lladd_mutex_mine(&log->ring_mutex));
    if (!log->ring || lsn + log->ring_size < log->limit || lsn < log->first_lsn)
        return false;
    uint64_t at = lsn & (log->ring_size - 1);
    size_t first = len < log->ring_size - at ? len : (size_t)(log->ring_size - at);
    memcpy(out, log->ring + at, first);
    memcpy((unsigned char *)out + first, log->ring, len - first);
    return true;
}

/* ---- credit ---- */

enum ll_log__grant ll_log__try_grant(struct ll_log *log, uint64_t bytes, bool checked)
{
    uint64_t granted = lladd_atomic_load64(&log->granted);
    do {
        /* While undo_left is below undo_floor, the undo reserve may need the space; the caller must
         * check first (ll_log__disk_room). */
        if (!checked && (int64_t)lladd_atomic_load64(&log->undo_left) <
                            (int64_t)lladd_atomic_load64_relaxed(&log->undo_floor))
            return LL_LOG__NO_DISK;
        if (granted + bytes > lladd_atomic_load64(&log->disk_limit))
            return LL_LOG__NO_DISK;
        /* Leave space for the leader's next seal. */
        if (granted + bytes + LL_LOG_SEAL_SIZE > lladd_atomic_load64(&log->limit))
            return LL_LOG__NO_RING;
    } while (!lladd_atomic_cas64(&log->granted, &granted, granted + bytes));
    return LL_LOG__GRANTED;
}

static uint64_t outstanding(const struct ll_log *log)
{
    /* Only an estimate, because other threads change both values. */
    uint64_t tail = lladd_atomic_load64_relaxed(&log->tail);
    uint64_t granted = lladd_atomic_load64_relaxed(&log->granted);
    return granted > tail ? granted - tail : 0;
}

static void wake_space_waiters(struct ll_log *log)
{
    lladd_atomic_add32(&log->space_word, 1);
    lladd_word_wake(&log->space_word, INT_MAX, UINT32_MAX);
}

void ll_log_credit_return(struct ll_log *log, struct ll_credit *c)
{
    ll_log_credit_rests(c);
    if (c->bytes == 0)
        return;
    lladd_atomic_sub64(&log->granted, c->bytes);
    c->bytes = 0;
    if (LL_UNLIKELY(lladd_atomic_look32(&log->space_waiters) != 0))
        wake_space_waiters(log);
}

void ll_log_credit_trim(struct ll_log *log, struct ll_credit *c)
{
    ll_log_credit_rests(c);
    if (c->bytes > 0 && (outstanding(log) > log->ring_size / 4 || LLADD_SCARCE()))
        ll_log_credit_return(log, c);
}

#ifdef LLADD_DEBUG
void ll_log_credit_in_hand(struct ll_credit *c)
{
    if (c->taker)
        return;
    c->taker = lladd_thread_self();
    ll_held.credits++;
}

void ll_log_credit_rests(struct ll_credit *c)
{
    if (!c->taker)
        return;
    LL_ASSERT(c->taker == lladd_thread_self());
    c->taker = 0;
    ll_held.credits--;
}
#endif

/* An idle caller may keep up to 1/REST of the ring. */
enum { REST = 64 };

bool ll_log_credit_may_rest(const struct ll_log *log, struct ll_credit *c)
{
    ll_log_credit_rests(c);
    return c->bytes <= (LLADD_SCARCE() ? 0 : log->ring_size / REST);
}

/* Called by a thread that finds no room although all published records are written. The missing
 * space is credit of other threads, which will soon use or return it. A thread that publishes or
 * returns credit after `space_waiters` was raised wakes this thread; the call of ll_log__make_room
 * below writes the records that were published earlier. */
static int wait_for_others(struct ll_log *log, uint64_t want, struct lladd_error *err)
{
    bool progress = false;
    uint32_t seen = lladd_atomic_load32(&log->space_word);
    lladd_atomic_add32(&log->space_waiters, 1);
    int rc = ll_log__make_room(log, &progress, err);
    lladd_atomic_fence();
    uint64_t granted = lladd_atomic_load64(&log->granted);
    uint64_t most = lladd_atomic_load64(&log->written) + log->ring_size;
    /* A publisher reads `space_waiters` without a barrier, because this is the fast path of every
     * append. In the worst case the publisher does not see this waiter, and the time limit ends the
     * wait. */
    if (!rc && !progress && granted + want + LL_LOG_SEAL_SIZE > most)
        lladd_word_wait_net("log space", &log->space_word, seen, UINT32_MAX, 1000000);
    lladd_atomic_add32(&log->space_waiters, UINT32_MAX);
    return rc;
}

/* Takes one step towards `want` bytes of ring space. Without `wait`, waits only for the writer. */
static int make_ring_room(struct ll_log *log, uint64_t want, bool wait, struct lladd_error *err)
{
    bool done;
    lladd_mutex_lock(&log->ring_mutex);
    int rc =
        extend_ring(log, lladd_atomic_load64(&log->granted) + want + LL_LOG_SEAL_SIZE, &done, err);
    lladd_mutex_unlock(&log->ring_mutex);
    if (rc || done)
        return rc;
    bool progress = false;
    lladd_atomic_count64(&log->waits, 1);
    rc = ll_log__make_room(log, &progress, err);
    return rc || progress || !wait ? rc : wait_for_others(log, want, err);
}

size_t ll_log_credit_of_ring(uint64_t ring_bytes)
{
    return (size_t)(ring_bytes / 8 * 5);
}

size_t ll_log_credit_most(const struct ll_log *log)
{
    return ll_log_credit_of_ring(log->ring_size);
}

uint64_t ll_log_ring_for(size_t record, size_t credit)
{
    uint64_t ring = LL_LOG_RING_MIN;
    while (record > ring / 4 || credit > ll_log_credit_of_ring(ring))
        ring *= 2;
    return ring;
}

static int too_much(const struct ll_log *log, size_t bytes, struct lladd_error *err)
{
    return ll_fail(err, LLADD_TOO_LARGE,
                   "%zu bytes of log are needed at once; with log_ring_bytes %llu at most %zu "
                   "(five eighths) can be had; log_ring_bytes must be at least %llu",
                   bytes, (unsigned long long)log->ring_size, ll_log_credit_most(log),
                   (unsigned long long)ll_log_ring_for(0, bytes));
}

static int take(struct ll_log *log, struct ll_credit *c, size_t bytes, enum ll_log__claim claim,
                struct lladd_error *err)
{
    if (bytes > ll_log_credit_most(log))
        return too_much(log, bytes, err);
    int rc = ll_log__check(log, err);
    if (rc)
        return rc;
    uint64_t most_extra = log->ring_size / 16 < CHUNK ? log->ring_size / 16 : CHUNK;
    uint64_t want = bytes - c->bytes;
    uint64_t extra = outstanding(log) < log->ring_size / 8 && !LLADD_SCARCE() ? most_extra : 0;
    if (LL_LIKELY(ll_log__try_grant(log, want + extra, false) == LL_LOG__GRANTED)) {
        c->bytes += want + extra;
        return 0;
    }
    /* A thread must not wait while it has credit for which another thread may wait. */
    ll_log_credit_return(log, c);
    for (;;) {
        enum ll_log__grant g = ll_log__try_grant(log, bytes, false);
        if (g == LL_LOG__NO_DISK)
            rc = ll_log__disk_room(log, bytes, claim, &g, err);
        if (!rc && g == LL_LOG__GRANTED)
            break;
        if (!rc && g == LL_LOG__NO_RING)
            rc = make_ring_room(log, bytes, true, err);
        if (!rc)
            rc = ll_log__check(log, err);
        if (rc)
            return rc;
    }
    c->bytes = bytes;
    return 0;
}

static int acquire(struct ll_log *log, struct ll_credit *c, size_t bytes, enum ll_log__claim claim,
                   struct lladd_error *err)
{
    ll_log_credit_rests(c);
    ll_held_check_credit();
    int rc = take(log, c, bytes, claim, err);
    if (!rc)
        ll_log_credit_in_hand(c);
    return rc;
}

static int credit(struct ll_log *log, struct ll_credit *c, size_t bytes, enum ll_log__claim claim,
                  struct lladd_error *err)
{
    int rc = acquire(log, c, bytes, claim, err);
    if (rc)
        return rc;
    /* If more than half of the ring is unwritten, the caller writes the log, so that the ring does
     * not become full. Otherwise, if much is unwritten or the undo reserve is low, the log's thread
     * (if there is one) does its work in parallel. */
    uint64_t waiting = ll_log__unwritten(log);
    bool progress;
    if (waiting > log->ring_size / 2 && ll_log__write_unless_busy(log, &progress, err, &rc)) {
        if (rc)
            ll_log_credit_return(log, c);
        return rc;
    }
    if ((waiting > LL_LOG__MUCH || ll_log__undo_is_low(log)) &&
        lladd_atomic_load32(&log->segs->idle))
        ll_log__ask_worker(log);
    return 0;
}

int ll_log_credit_slow(struct ll_log *log, struct ll_credit *c, size_t bytes,
                       struct lladd_error *err)
{
    return credit(log, c, bytes, LL_LOG__USERS, err);
}

int ll_log_credit_owed(struct ll_log *log, struct ll_credit *c, size_t bytes,
                       struct lladd_error *err)
{
    if (c->bytes < bytes)
        return credit(log, c, bytes, LL_LOG__OWING, err);
    ll_log_credit_in_hand(c);
    return 0;
}

int ll_log_credit_reserved(struct ll_log *log, struct ll_credit *c, size_t bytes,
                           struct lladd_error *err)
{
    if (c->bytes < bytes)
        return acquire(log, c, bytes, LL_LOG__RESERVED, err);
    ll_log_credit_in_hand(c);
    return 0;
}

int ll_log_credit_images(struct ll_log *log, struct ll_credit *c, size_t one, unsigned n, bool wait,
                         struct lladd_error *err)
{
    enum { TRIES = 3 }; /* the ring is written before the second try, zeroed before the third */
    struct lladd_error why = LLADD_ERROR_INIT;
    enum ll_log__grant g = LL_LOG__NO_RING;
    size_t bytes = one * n;
    LL_ASSERT(c->bytes == 0);
    if (wait)
        ll_held_check_credit();
    int rc = bytes > ll_log_credit_most(log) ? LLADD_LOG_FULL : 0;
    for (unsigned tries = 0; !rc && g != LL_LOG__GRANTED && (wait || tries < TRIES); tries++) {
        /* Updates request less credit and would always get it first, so this request becomes
         * smaller, too. */
        if (tries && tries % TRIES == 0 && n > 1)
            bytes = one * (n /= 2);
        if (tries)
            rc = make_ring_room(log, bytes, wait, &why);
        if (!rc)
            rc = ll_log__check(log, &why);
        if (!rc)
            rc =
                ll_log__disk_room(log, bytes, wait ? LL_LOG__IMAGES : LL_LOG__IMAGES_NOW, &g, &why);
    }
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED && err)
        *err = why;
    if (rc || g != LL_LOG__GRANTED)
        return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : 0;
    c->bytes = bytes;
    ll_log_credit_in_hand(c);
    return 0;
}

bool ll_log__seal_reserve(struct ll_log *log, struct ll_record *seal)
{
    uint64_t granted = lladd_atomic_load64(&log->granted);
    do {
        uint64_t to = granted + LL_LOG_SEAL_SIZE;
        if ((to > lladd_atomic_load64(&log->disk_limit) ||
             (int64_t)lladd_atomic_load64(&log->undo_left) < 0) &&
            !ll_log__disk_room_now(log, to))
            return false;
        if (to > lladd_atomic_load64(&log->limit)) {
            bool done = false;
            lladd_mutex_lock(&log->ring_mutex);
            int rc = extend_ring(log, to, &done, NULL);
            lladd_mutex_unlock(&log->ring_mutex);
            if (rc || !done)
                return false;
        }
    } while (!lladd_atomic_cas64(&log->granted, &granted, granted + LL_LOG_SEAL_SIZE));
    struct ll_credit c = {.bytes = LL_LOG_SEAL_SIZE};
    ll_log_reserve(log, &c, seal, false);
    LL_ASSERT(seal->size == LL_LOG_SEAL_SIZE && c.bytes == 0);
    return true;
}

/* ---- reserve and publish ---- */

/* The lowest of the LSNs that the narrow form stores as distances; `none` if all of them are 0. */
static uint64_t farthest(const struct ll_record *rec, uint64_t none)
{
    uint64_t far = rec->txn.v ? rec->txn.v : none;
    if (rec->prev.v && rec->prev.v < far)
        far = rec->prev.v;
    if (rec->page_prev.v && rec->page_prev.v < far)
        far = rec->page_prev.v;
    return far;
}

static bool fits_narrow(const struct ll_record *rec)
{
    return rec->depth <= 7 && rec->redo.len <= UINT16_MAX &&
           (rec->prev.v | rec->txn.v | rec->page_prev.v) % LL_RECORD_ALIGN == 0;
}

/* All bytes of the record at p but its LSN are stored already. */
static inline void finish(struct ll_log *log, unsigned char *p, uint64_t lsn, uint32_t size)
{
    size_t at = (size_t)(lsn & (log->ring_size - 1));
    if (LL_UNLIKELY(at + size > log->ring_size)) {
        memcpy(log->ring, log->ring + log->ring_size, at + size - log->ring_size);
        if (at + 8 == log->ring_size)
            lladd_put64(log->ring, lsn);
    }
    lladd_atomic_store64((uint64_t *)(void *)(p + 8), LLADD_LE64(lsn));
    if (LL_UNLIKELY(lladd_atomic_load32(&log->space_waiters) != 0))
        wake_space_waiters(log);
}

void ll_log_reserve(struct ll_log *log, struct ll_credit *c, struct ll_record *rec, bool starts)
{
    uint64_t lsn = lladd_atomic_load64_relaxed(&log->tail), far = farthest(rec, lsn);
    bool fits = fits_narrow(rec);
    do
        rec->size = fits && lsn - far <= REACH ? ll_log__narrow_size(rec) : ll_log__wide_size(rec);
    while (!lladd_atomic_cas64(&log->tail, &lsn, lsn + rec->size));
    LL_ASSERT(c->bytes >= rec->size);
    LL_ASSERT(rec->size <= ll_log__align(log->record_max)); /* a longer record would not fit into
                                                             * the spare bytes */
    c->bytes -= rec->size;
    rec->lsn.v = lsn;
    if (starts && rec->txn.v == 0)
        rec->txn.v = lsn;
}

void ll_log_publish(struct ll_log *log, const struct ll_record *rec)
{
    unsigned char *p = ll_log__ring_at(log, rec->lsn.v);
    if (ll_log__poisoned(log))
        return; /* LOG-4: the log writes nothing any more */
    ll_log__record_encode(rec, ll_log__salt(log, rec->lsn.v), p);
    finish(log, p, rec->lsn.v, rec->size);
}

static inline void chain_moves(struct ll_chain *chain, uint64_t lsn, uint64_t undo_next)
{
    lladd_atomic_store64_relaxed(&chain->last.v, lsn);
    lladd_atomic_store64_relaxed(&chain->undo_next.v, undo_next);
}

void ll_log_append(struct ll_log *log, struct ll_credit *c, struct ll_record *rec,
                   struct ll_chain *chain, const lladd_lsn *undo_next)
{
    rec->prev = chain->last;
    rec->txn = chain->id;
    ll_log_reserve(log, c, rec, true);
    if (chain->id.v == 0)
        lladd_atomic_store64_relaxed(&chain->id.v, rec->lsn.v);
    chain_moves(chain, rec->lsn.v, undo_next ? undo_next->v : rec->lsn.v);
    ll_log_publish(log, rec);
}

void ll_log_wait_published(struct ll_log *log, lladd_lsn up_to)
{
    uint64_t goal = lladd_atomic_load64(&log->tail);
    if (up_to.v < goal)
        goal = up_to.v;
    for (;;) {
        uint64_t at = lladd_atomic_load64(&log->visible);
        if (at < goal) {
            uint32_t size;
            lladd_mutex_lock(&log->ring_mutex);
            while (at < goal && ll_log__ring_published(log, at, &size))
                at += size;
            lladd_mutex_unlock(&log->ring_mutex);
            lladd_atomic_max64(&log->visible, at);
        }
        if (at >= goal || ll_log__poisoned(log))
            return;
        lladd_yield();
    }
}

size_t ll_log_record_max(const struct ll_log *log)
{
    return log->record_max;
}
