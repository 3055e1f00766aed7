/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for the archive of another process. Nothing of that process can be waited for, so the wait
 * looks at the store again and again, with pauses that grow. It ends if the other process has
 * ended, or if the store does not go on for a long time. */
#include "ship/outside.h"

#include <errno.h>

#define PAUSE_LEAST (UINT64_C(1) << 23) /* about 8 ms */
#define PAUSE_MOST (UINT64_C(1) << 30)  /* about 1 s */
#define SECOND UINT64_C(1000000000)

bool ll_ship_is_open(struct ll_ship_outside *o)
{
    int64_t owner;
    struct lladd_device *dev = o->b.dev;
    int rc = dev->ops->holder ? dev->ops->holder(dev, "lock", &owner) : -EAGAIN;
    return rc != 0; /* also if the device cannot tell */
}

static int tell(struct ll_ship_outside *o, const struct ll_ship_wait *w, uint64_t need)
{
    const struct lladd_backup_options *opt = &o->b.opt;
    uint64_t all = need > w->first ? need - w->first : 0, done = w->best - w->first;
    int rc = opt->progress
                 ? opt->progress(opt->progress_ctx, "archive", done < all ? done : all, all)
                 : 0;
    return rc ? lladd_error_set(o->err, rc, "the progress function has stopped the backup") : 0;
}

static int fail_ended(struct ll_ship_outside *o, uint64_t need)
{
    return lladd_error_set(o->err, LLADD_BAD_STATE,
                           "the process that had the database open has ended: the store has the "
                           "log up to LSN %llu, and the backup needs it up to LSN %llu",
                           (unsigned long long)o->top, (unsigned long long)need);
}

static int fail_late(struct ll_ship_outside *o, uint64_t need)
{
    unsigned long long seconds = (unsigned long long)(o->wait_ns / SECOND);
    if (!need)
        return lladd_error_set(o->err, LLADD_TIMEOUT,
                               "the process that has the database open has logged nothing for "
                               "%llu s, so it does not archive",
                               seconds);
    return lladd_error_set(o->err, LLADD_TIMEOUT,
                           "the process that has the database open has archived nothing into this "
                           "store for %llu s: the store has the log up to LSN %llu, and the backup "
                           "needs it up to LSN %llu",
                           seconds, (unsigned long long)o->top, (unsigned long long)need);
}

int ll_ship_wait_more(struct ll_ship_outside *o, struct ll_ship_wait *w, uint64_t need)
{
    uint64_t now = ll_ship_now_ns(o->b.opt.world);
    if (!w->pause_ns)
        *w = (struct ll_ship_wait){now, o->top, o->top, PAUSE_LEAST, false};
    if (o->top > w->best) {
        w->best = o->top;
        w->since_ns = now;
        w->pause_ns = PAUSE_LEAST;
    }
    int rc = tell(o, w, need);
    bool open = ll_ship_is_open(o);
    if (rc)
        return rc;
    if (!open && w->gone)
        return fail_ended(o, need);
    w->gone = !open; /* the store may have got its last log since it was looked at */
    if (!open)
        return 0;
    if (now - w->since_ns >= o->wait_ns)
        return fail_late(o, need);
    rc = ll_ship_pause(w->pause_ns, o->err);
    w->pause_ns = w->pause_ns < PAUSE_MOST ? 2 * w->pause_ns : PAUSE_MOST;
    return rc;
}

int ll_ship_wait_for(struct ll_ship_outside *o, uint64_t need)
{
    struct ll_ship_wait wait = {0};
    unsigned attempts = 0;
    for (;;) {
        int rc = ll_ship_past_again(&o->past, o->err);
        if (!rc)
            rc = ll_ship_past_top(&o->past, &o->steps, &o->top, o->err);
        if (!rc && o->top >= need)
            return 0;
        /* A piece may have been deleted since it was listed. */
        if (rc && (rc != LLADD_CORRUPT_BACKUP || ++attempts >= LL_SHIP_ATTEMPTS))
            return rc;
        rc = ll_ship_wait_more(o, &wait, need);
        if (rc)
            return rc;
    }
}
