/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets the poison once, and hands out its error (util/poison.h, LOG-4). Any thread may call. */
#include "util/poison.h"

int ll_poison_check_slow(const struct ll_poison *p, struct lladd_error *err)
{
    uint32_t state = lladd_atomic_load32(&p->state);
    while (state == 1) { /* another thread is copying the error, which is quick */
        lladd_cpu_relax();
        state = lladd_atomic_load32(&p->state);
    }
    if (state == 0) /* a forked child: other checks refuse its calls */
        return 0;
    if (err)
        *err = p->error;
    return p->error.code;
}

int ll_poison_set(struct ll_poison *p, int code, const struct lladd_error *why,
                  struct lladd_error *err)
{
    uint32_t clean = 0;
    if (lladd_atomic_cas32(&p->state, &clean, 1)) {
        p->error = *why;
        if (lladd_code_root(why->code) != LLADD_ROOT_POISONED)
            p->error.code = code;
        /* `healthy` is cleared before the state becomes 2, so a thread that has got the error finds
         * the object poisoned. */
        lladd_atomic_store32(&p->healthy, 0);
        lladd_atomic_store32(&p->state, 2);
    }
    return ll_poison_check_slow(p, err);
}

int ll_poison_set_io_at(struct ll_poison *p, const char *srcfile, int line, int rc,
                        const char *what, const char *name, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    (void)ll_fail_io_at(&why, srcfile, line, rc, true, what, name);
    return ll_poison_set(p, LLADD_WRITE_FAILED, &why, err);
}
