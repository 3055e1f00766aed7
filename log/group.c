/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group: group commit by leaders and followers, and the poison.
 *
 * Whoever needs something written or durable becomes the *leader* if there is none, and works for
 * all: a commit waits for no thread of the log's own, and a program with one thread pays no context
 * switch. (A bulk load has what it logs written by one, meanwhile: space.c.)
 * One word holds the number g of the next group to be synced and what its leader is doing:
 *
 *     FREE     no leader
 *     OPEN     a leader gathers for group g, or only writes without syncing ("relaxed")
 *     FLIGHT   group g is closed at the LSN `cut`; it is being written
 *     SYNCING  it is written and being synced; then comes (g+1, FREE)
 *
 * Others sleep on the word (a futex) with bits that say what they wait for: the end of group g or
 * of g+1, told apart by the parity of the number, and, if written is enough for them, the end of a
 * write. Since the kernel compares the word when they lie down, nobody sleeps through a change that
 * he has not seen. The end of a group wakes one of those who wait for the next, to lead it, and
 * then, with one call, all of its own. Who leaves OPEN without having synced wakes one who wants
 * to.
 *
 *     A woken sleeper who finds what he wants without leading, while nobody leads, wakes the next
 *     one (pass_on): otherwise the invitation would be lost.
 *
 * Seals (LOG-3). The last record of a synced group says what was durable before it. It is reserved
 * when the group is closed: its end is the cut, so all that was reserved before it belongs to the
 * group.
 *
 * LOG-4. A failed write or sync poisons the log: the error is kept, every waiter and every later
 * caller gets it, nothing becomes durable any more, nothing is tried again. What is published after
 * that stays in memory.
 */
#include "log/log_private.h"

#include <limits.h>

enum { WAKE_WRITTEN = 4, WAKE_ALL = 7 };
/* What a relaxed leader writes at once; in between others can go on with the space. */
enum { PORTION = 256 * 1024 };
/* How long somebody waits awake: a few microseconds, then until all others had their turn so
 * often. */
enum { GLANCES = 256, YIELDS = 64 };

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

int ll_log__check(struct ll_log *log, struct lladd_error *err)
{
    if (LL_LIKELY(lladd_atomic_load32(&log->poisoned) == 0))
        return 0;
    if (err)
        *err = log->poison;
    return log->poison.code;
}

/* True for the first one. */
static bool note_poison(struct ll_log *log, const struct lladd_error *why)
{
    lladd_mutex_lock(&log->ring_mutex);
    bool first = log->poisoned == 0;
    if (first) {
        log->poison = *why;
        lladd_atomic_store32(&log->poisoned, 1);
    }
    lladd_mutex_unlock(&log->ring_mutex);
    return first;
}

/* Nobody waits any longer; then those above are told, who may take latches that waiters held. */
static void tell_everybody(struct ll_log *log, bool first)
{
    lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
    lladd_atomic_add32(&log->hunger, 1);
    lladd_word_wake(&log->hunger, INT_MAX, UINT32_MAX);
    if (first && log->cfg.poisoned)
        log->cfg.poisoned(log->cfg.ctx, &log->poison);
}

void ll_log__poison(struct ll_log *log, const struct lladd_error *why)
{
    tell_everybody(log, note_poison(log, why));
}

/* ---- sleeping and waking ----------------------------------------------------------------- */

static void sleep_on(struct ll_log *log, uint32_t word, uint32_t bits)
{
    for (unsigned i = 0; i < 3; i++) {
        if (bits & 1u << i)
            lladd_atomic_add32(&log->sleepers[i], 1);
    }
    lladd_word_wait(&log->word, word, bits, 0);
    for (unsigned i = 0; i < 3; i++) {
        if (bits & 1u << i)
            lladd_atomic_add32(&log->sleepers[i], UINT32_MAX);
    }
}

/* Call after the word was changed. */
static void wake(struct ll_log *log, uint32_t bit, int n)
{
    unsigned i = bit == WAKE_WRITTEN ? 2 : bit - 1;
    if (lladd_atomic_load32(&log->sleepers[i]) != 0)
        lladd_word_wake(&log->word, n, bit);
}

static void set_word(struct ll_log *log, uint32_t group, uint32_t phase)
{
    /* Not a plain store: it must be seen before our look at the sleepers. */
    (void)lladd_atomic_exchange32(&log->word, group << 2 | phase);
}

/* Ends a leadership that did not sync. */
static void leave(struct ll_log *log, uint32_t group)
{
    set_word(log, group, LL_LOG__FREE);
    if (LL_UNLIKELY(lladd_atomic_load32(&log->poisoned) != 0)) {
        lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
        return;
    }
    wake(log, WAKE_WRITTEN, INT_MAX);
    wake(log, parity_bit(group), 1);
}

/* Whatever the reason, bytes are not where they must be (LOG-4). */
static int leave_poisoned(struct ll_log *log, uint32_t group, struct lladd_error *why,
                          struct lladd_error *err)
{
    if (lladd_code_root(why->code) != LLADD_ROOT_POISONED)
        why->code = LLADD_WRITE_FAILED;
    bool first = note_poison(log, why);
    set_word(log, group + 1, LL_LOG__FREE);
    tell_everybody(log, first);
    return ll_log__check(log, err);
}

static void pass_on(struct ll_log *log)
{
    uint32_t word = lladd_atomic_load32(&log->word);
    if (phase_of(word) == LL_LOG__FREE)
        wake(log, parity_bit(group_of(word)), 1);
}

static bool try_lead(struct ll_log *log, uint32_t word)
{
    return lladd_atomic_cas32(&log->word, &word, word | LL_LOG__OPEN);
}

/* The bits for someone who waits until lsn is durable, or has his turn to lead. */
static uint32_t bits_for(const struct ll_log *log, uint32_t word, uint64_t lsn)
{
    bool closed = phase_of(word) >= LL_LOG__FLIGHT;
    bool too_late = closed && lsn >= lladd_atomic_load64(&log->cut);
    return parity_bit(group_of(word) + (too_late ? 1 : 0));
}

/* ---- leading ----------------------------------------------------------------------------- */

/* Writes what is published below `end`, in portions; it must pass `lsn`. */
static int write_published(struct ll_log *log, uint64_t lsn, uint64_t end, uint64_t portion,
                           struct lladd_error *err)
{
    for (;;) {
        uint64_t before = log->written;
        int rc = ll_log__walk(log, end - before < portion ? end : before + portion, err);
        if (!rc && log->writer.walked > before) {
            rc = ll_log__write_walked(log, portion == UINT64_MAX, err);
            if (portion != UINT64_MAX)
                wake(log, WAKE_WRITTEN, INT_MAX);
        }
        if (rc || lladd_atomic_load32(&log->poisoned) != 0)
            return rc;
        if (log->written >= end || (log->written == before && before > lsn))
            return 0;
        /* Somebody reserved before us and is about to publish. */
        if (log->written == before)
            lladd_yield();
    }
}

static int lead_write(struct ll_log *log, uint32_t group, uint64_t lsn, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = write_published(log, lsn, lladd_atomic_load64(&log->tail), PORTION, &why);
    if (rc)
        return leave_poisoned(log, group, &why, err);
    leave(log, group);
    return ll_log__check(log, err);
}

/* Ends the group's enrolment: everything reserved until now belongs to it, and a seal. */
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

static int sync_group(struct ll_log *log, uint64_t cut, struct lladd_error *err)
{
    int rc = ll_point(log->env, "log.group.before_sync");
    uint64_t start = ll_now_ns(log->env);
    if (rc)
        return ll_fail_io(err, rc, true, "sync", LL_LOG_DIR);
    rc = ll_log__sync_range(log, lladd_atomic_load64(&log->durable), cut, err);
    if (rc)
        return rc;
    ll_log__gather_done(log, ll_now_ns(log->env) - start);
    rc = ll_point(log->env, "log.group.after_sync");
    return rc ? ll_fail_io(err, rc, true, "sync", LL_LOG_DIR) : 0;
}

static int lead_group(struct ll_log *log, uint32_t group, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    ll_log__gather(log);
    ll_log__gather_close(log);
    uint64_t cut = close_group(log, group);
    int rc = write_published(log, cut - 1, cut, UINT64_MAX, &why);
    if (!rc)
        rc = ll_log__check(log, &why);
    if (rc)
        return leave_poisoned(log, group, &why, err);
    set_word(log, group, LL_LOG__SYNCING);
    wake(log, WAKE_WRITTEN, INT_MAX);
    rc = sync_group(log, cut, &why);
    if (rc)
        return leave_poisoned(log, group, &why, err);
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

/* Where a sync takes less than falling asleep and being woken, to wait awake is shorter: did the
 * word change meanwhile? By yielding, so that who is awaited gets the processor if he has none. */
static bool await_change(const struct ll_log *log, uint32_t word)
{
    if (!ll_log__syncs_fast(log))
        return false;
    for (unsigned i = 0; i < GLANCES; i++) {
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

/* Until `lsn` is below *goal, which is durable or written. */
static int wait_or_lead(struct ll_log *log, uint64_t lsn, bool durable, struct lladd_error *err)
{
    const uint64_t *goal = durable ? &log->durable : &log->written;
    for (;;) {
        uint32_t word = lladd_atomic_load32(&log->word);
        int rc = ll_log__check(log, err);
        if (LL_UNLIKELY(rc)) {
            /* Who lay down since it was poisoned was not told. */
            lladd_word_wake(&log->word, INT_MAX, WAKE_ALL);
            return rc;
        }
        if (lladd_atomic_load64(goal) > lsn)
            return 0;
        if (phase_of(word) != LL_LOG__FREE) {
            if (await_change(log, word))
                continue;
            sleep_on(log, word, bits_for(log, word, lsn) | (durable ? 0u : WAKE_WRITTEN));
            if (!durable && lladd_atomic_load64(goal) > lsn)
                pass_on(log);
            continue;
        }
        if (!try_lead(log, word))
            continue;
        if (lladd_atomic_load64(goal) > lsn) { /* done by another just before */
            leave(log, group_of(word));
            continue;
        }
        return durable ? lead_group(log, group_of(word), err)
                       : lead_write(log, group_of(word), lsn, err);
    }
}

int ll_log__make_room(struct ll_log *log, bool *progress, struct lladd_error *err)
{
    uint32_t word = lladd_atomic_load32(&log->word);
    uint64_t before = lladd_atomic_load64(&log->written);
    *progress = true;
    if (phase_of(word) != LL_LOG__FREE) {
        /* UINT64_MAX: what he needs is not in any group yet. */
        sleep_on(log, word, bits_for(log, word, UINT64_MAX) | WAKE_WRITTEN);
        pass_on(log);
        return ll_log__check(log, err);
    }
    if (!try_lead(log, word))
        return 0;
    int rc = lead_write(log, group_of(word), 0, err);
    *progress = lladd_atomic_load64(&log->written) > before;
    return rc;
}

static int check_lsn(const struct ll_log *log, uint64_t lsn, struct lladd_error *err)
{
    if (LL_LIKELY(lsn < lladd_atomic_load64(&log->tail)))
        return 0;
    return ll_fail_lsn(err, LLADD_BAD_ARGUMENT, lladd_lsn_of(lsn),
                       "LSN %llu was not handed out yet", (unsigned long long)lsn);
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
    return wait_or_lead(log, lsn.v, true, err);
}

int ll_log_write(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    int rc = ll_log__check(log, err);
    if (rc || lladd_atomic_load64(&log->written) > lsn.v)
        return rc;
    rc = check_lsn(log, lsn.v, err);
    return rc ? rc : wait_or_lead(log, lsn.v, false, err);
}
