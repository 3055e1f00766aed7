/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group: group commit by leaders and followers.
 *
 * A thread that needs a record durable becomes the *leader* if no other thread leads, and syncs for
 * all. A commit therefore needs no thread of the log, and a program with one thread pays no context
 * switch. One word holds the number g of the next group to be synced and the phase of its leader:
 *
 *     FREE     no leader
 *     OPEN     a leader gathers committers for group g
 *     FLIGHT   group g is closed at the LSN `cut`, and is being written and synced; the next state
 *              is (g+1, FREE)
 *
 * Other threads sleep on the word (a futex) with a bit that says whether they wait for the end of
 * group g or of g+1; the bit is the parity of the number. The kernel compares the word when a
 * thread goes to sleep, so a thread does not sleep if the word has changed since it was read. When
 * a group ends, its leader wakes one waiter of group g+1, which will lead that group, and then all
 * waiters of group g. A leader that leaves OPEN without a sync wakes one waiter.
 *
 * The leader of a group holds the write mutex while it writes, not while it syncs. Other threads
 * take the write mutex, without becoming leader, for a non-durable write or for ring space. The log
 * can therefore be written while a sync, which takes long, is in progress. Bytes written above the
 * cut belong to the next group.
 *
 * Seals (LOG-3). The last record of a synced group, if there is space for it, is a seal: it states
 * up to where the log was durable before the group. The seal is reserved when the group is closed,
 * and the end of the seal is the cut: every record reserved before the seal belongs to the group.
 *
 * LOG-4. A failed write or sync poisons the database (util/poison.h). Every waiter and every later
 * caller gets the error. No more records become durable, and no write is repeated: a thread that
 * takes the write mutex checks for the poison first.
 */
#include "log/log_private.h"
#include "util/held.h"

#include <limits.h>

enum { WAKE_ALL = 3 };
/* Bytes written in one portion when no sync follows. Between two portions other threads can use the
 * freed ring space. */
enum { PORTION = 256 * 1024 };
/* If syncs are fast, a thread spins and then yields at most these numbers of times before it
 * sleeps. */
enum { SPINS = 256, YIELDS = 64 };

static inline uint32_t phase_of(uint32_t word)
{
    return word & 3;
}
static inline uint32_t group_of(uint32_t word)
{
    return word >> 2;
}
static inline uint32_t parity_bit(uint32_t group)
{
    return 1u << (group & 1);
}

/* ---- poison ------------------------------------------------------------------------------ */

/* Another layer that poisons the database does not call this function. Every wait ends
 * nevertheless: a leader ends its group, and a wait for space has a time limit. */
static void wake_all_waiters(struct ll_log *log)
{
    lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
    lladd_atomic_add32(&log->space_word, 1);
    lladd_word_wake(&log->space_word, INT_MAX, UINT32_MAX);
}

void ll_log__poison(struct ll_log *log, const struct lladd_error *why)
{
    (void)ll_poison_set(log->cfg.poison, LLADD_WRITE_FAILED, why, NULL);
    wake_all_waiters(log);
}

/* ---- sleeping and waking ----------------------------------------------------------------- */

static void sleep_on(struct ll_log *log, uint32_t word, uint32_t bit)
{
    lladd_atomic_add32(&log->sleepers[bit - 1], 1);
    ll_word_wait_with_credit("group commit", &log->word, word, bit, 0);
    lladd_atomic_add32(&log->sleepers[bit - 1], UINT32_MAX);
}

/* Call after set_word. */
static void wake(struct ll_log *log, uint32_t bit, int n)
{
    if (lladd_atomic_look32(&log->sleepers[bit - 1]) != 0)
        lladd_word_wake(&log->word, n, bit);
}

static void set_word(struct ll_log *log, uint32_t group, uint32_t phase)
{
    /* Not a plain store: the change must be visible before this thread loads `sleepers` (also
     * sequentially consistent). A sleeper first counts itself, then the kernel compares the word.
     * Either the kernel sees the change, or this thread sees the sleeper. */
    (void)lladd_atomic_exchange32(&log->word, group << 2 | phase);
}

static void leave(struct ll_log *log, uint32_t group)
{
    set_word(log, group, LL_LOG__FREE);
    if (ll_log__poisoned(log)) {
        lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
        return;
    }
    wake(log, parity_bit(group), 1);
}

static bool try_lead(struct ll_log *log, uint32_t word)
{
    return lladd_atomic_cas32(&log->word, &word, word | LL_LOG__OPEN);
}

static uint32_t bit_for(const struct ll_log *log, uint32_t word, uint64_t lsn)
{
    bool closed = phase_of(word) >= LL_LOG__FLIGHT;
    bool too_late = closed && lsn >= lladd_atomic_load64(&log->cut);
    return parity_bit(group_of(word) + (too_late ? 1 : 0));
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Writes the published records below `end`, in portions. Waits for records that are not published
 * yet until `written` has passed `lsn`. Under the write mutex. */
static int write_published(struct ll_log *log, uint64_t lsn, uint64_t end, uint64_t portion,
                           struct lladd_error *err)
{
    while (log->written < end) {
        uint64_t before = log->written;
        int rc = ll_log__walk(log, end - before < portion ? end : before + portion, err);
        if (!rc && log->writer.walked > before)
            rc = ll_log__write_walked(log, portion == UINT64_MAX, err);
        if (rc || ll_log__poisoned(log))
            return rc;
        if (log->written == before && before > lsn)
            return 0;
        /* Another thread has reserved a record below `end` and is about to publish it. */
        if (log->written == before)
            lladd_yield();
    }
    return 0;
}

/* Writes until `written` has passed lsn (lsn 0: writes all published records), and releases the
 * write mutex. */
static int write_locked(struct ll_log *log, uint64_t lsn, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if ((lsn == 0 || log->written <= lsn) && ll_log__check(log, NULL) == 0 &&
        write_published(log, lsn, lladd_atomic_load64(&log->tail), PORTION, &why) != 0)
        ll_log__poison(log, &why);
    lladd_mutex_unlock(&log->write_mutex);
    return ll_log__check(log, err);
}

bool ll_log__write_unless_busy(struct ll_log *log, bool *progress, struct lladd_error *err, int *rc)
{
    *progress = false;
    if (!lladd_mutex_trylock(&log->write_mutex))
        return false;
    uint64_t before = log->written;
    *rc = write_locked(log, 0, err);
    *progress = lladd_atomic_load64(&log->written) > before;
    return true;
}

int ll_log__make_room(struct ll_log *log, bool *progress, struct lladd_error *err)
{
    uint64_t before = lladd_atomic_load64(&log->written);
    lladd_mutex_lock(&log->write_mutex);
    int rc = write_locked(log, 0, err);
    *progress = lladd_atomic_load64(&log->written) > before;
    return rc;
}

/* ---- leading ----------------------------------------------------------------------------- */

static int leave_poisoned(struct ll_log *log, uint32_t group, struct lladd_error *err)
{
    set_word(log, group + 1, LL_LOG__FREE);
    wake_all_waiters(log);
    return ll_log__check(log, err);
}

/* The group consists of every record reserved until now, and a seal. Returns the cut. */
static uint64_t close_group(struct ll_log *log, uint32_t group)
{
    uint64_t watermark = lladd_atomic_load64(&log->durable);
    unsigned char bytes[8];
    lladd_put64(bytes, watermark);
    struct ll_record seal = {
        .kind = LL_REC_SEAL, .page = LLADD_NO_PAGE, .redo = lladd_span_of(bytes, sizeof bytes)};
    bool sealed = ll_log__seal_reserve(log, &seal);
    uint64_t cut = sealed ? seal.lsn.v + seal.size : lladd_atomic_load64(&log->tail);
    if (!sealed)
        lladd_atomic_count64(&log->unsealed, 1);
    lladd_atomic_store64(&log->cut, cut);
    set_word(log, group, LL_LOG__FLIGHT);
    if (sealed)
        ll_log_publish(log, &seal);
    return cut;
}

static int write_group(struct ll_log *log, uint64_t cut, struct lladd_error *err)
{
    lladd_mutex_lock(&log->write_mutex);
    int rc = ll_log__check(log, err);
    if (!rc)
        rc = write_published(log, cut - 1, cut, UINT64_MAX, err);
    if (rc) /* poison before another thread can take the write mutex */
        ll_log__poison(log, err);
    lladd_mutex_unlock(&log->write_mutex);
    return rc ? rc : ll_log__check(log, err);
}

static int sync_group(struct ll_log *log, uint64_t cut, struct lladd_error *err)
{
    int rc = ll_point(log->env, "log.group.before_sync");
    uint64_t start = ll_now_ns(log->env);
    if (rc)
        return ll_fail_io(err, rc, true, "sync", LL_LOG_DIR);
    rc = ll_log__sync_range(log, lladd_atomic_load64(&log->durable), cut, err);
    if (rc)
        return rc;
    ll_log__commit_delay_done(log, ll_now_ns(log->env) - start);
    rc = ll_point(log->env, "log.group.after_sync");
    return rc ? ll_fail_io(err, rc, true, "sync", LL_LOG_DIR) : 0;
}

static int lead_group(struct ll_log *log, uint32_t group, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    ll_log__commit_delay(log);
    ll_log__commit_delay_close(log);
    uint64_t cut = close_group(log, group);
    int rc = write_group(log, cut, &why);
    if (!rc && (rc = sync_group(log, cut, &why)) != 0)
        ll_log__poison(log, &why);
    if (!rc)
        rc = ll_log__check(log, NULL); /* another thread may have poisoned the database */
    if (rc)
        return leave_poisoned(log, group, err);
    lladd_atomic_count64(&log->groups, 1);
    if (LLADD_PLANTED(LLADD_BUG_GROUP_LATE))
        cut = lladd_atomic_load64(&log->tail);
    lladd_atomic_store64(&log->durable, cut);
    set_word(log, group + 1, LL_LOG__FREE);
    if (!LLADD_PLANTED(LLADD_BUG_WAKE))
        wake(log, parity_bit(group + 1), 1);
    wake(log, parity_bit(group), INT_MAX);
    return 0;
}

/* ---- following --------------------------------------------------------------------------- */

/* If syncs are fast: waits for a change of the word, by spinning briefly, then by yields, which let
 * the awaited thread run. True if the word changed. */
static bool await_change(const struct ll_log *log, uint32_t word)
{
    if (!ll_log__syncs_fast(log))
        return false;
    for (unsigned i = 0; i < SPINS; i++) {
        if (lladd_atomic_load32(&log->word) != word)
            return true;
        lladd_cpu_relax();
    }
    for (unsigned i = 0; i < YIELDS; i++) {
        lladd_yield();
        if (lladd_atomic_load32(&log->word) != word)
            return true;
    }
    return false;
}

static int wait_or_lead(struct ll_log *log, uint64_t lsn, struct lladd_error *err)
{
    for (;;) {
        uint32_t word = lladd_atomic_load32(&log->word);
        int rc = ll_log__check(log, err);
        if (LL_UNLIKELY(rc)) {
            /* Some threads may have gone to sleep after ll_log__poison woke all. */
            lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
            return rc;
        }
        if (lladd_atomic_load64(&log->durable) > lsn)
            return 0;
        if (phase_of(word) != LL_LOG__FREE) {
            if (!await_change(log, word))
                sleep_on(log, word, bit_for(log, word, lsn));
            continue;
        }
        if (!try_lead(log, word))
            continue;
        if (lladd_atomic_load64(&log->durable) > lsn) { /* another leader has just made lsn
                                                         * durable */
            leave(log, group_of(word));
            continue;
        }
        return lead_group(log, group_of(word), err);
    }
}

static int check_lsn(const struct ll_log *log, uint64_t lsn, struct lladd_error *err)
{
    if (LL_LIKELY(lsn < lladd_atomic_load64(&log->tail)))
        return 0;
    return ll_fail_lsn(err, LLADD_BAD_ARGUMENT, lladd_lsn_of(lsn),
                       "LSN %llu has not been assigned yet", (unsigned long long)lsn);
}

int ll_log_force(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    int rc = ll_log__check(log, err);
    if (rc || lladd_atomic_load64(&log->durable) > lsn.v)
        return rc;
    rc = check_lsn(log, lsn.v, err);
    if (rc)
        return rc;
    ll_log__arrive(log);
    return wait_or_lead(log, lsn.v, err);
}

/* Takes the write mutex; if syncs are fast, spins first. False: lsn was written meanwhile, and the
 * mutex is not held. */
static bool take_write_mutex(struct ll_log *log, uint64_t lsn)
{
    bool got = lladd_mutex_trylock(&log->write_mutex);
    for (unsigned i = 0; !got && ll_log__syncs_fast(log) && i < SPINS; i++) {
        lladd_cpu_relax();
        if (lladd_atomic_load64(&log->written) > lsn)
            return false;
        got = lladd_mutex_trylock(&log->write_mutex);
    }
    if (!got)
        lladd_mutex_lock(&log->write_mutex);
    return true;
}

int ll_log_write(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    int rc = ll_log__check(log, err);
    if (rc || lladd_atomic_load64(&log->written) > lsn.v)
        return rc;
    rc = check_lsn(log, lsn.v, err);
    if (rc)
        return rc;
    return take_write_mutex(log, lsn.v) ? write_locked(log, lsn.v, err) : ll_log__check(log, err);
}
