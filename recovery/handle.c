/* SPDX-License-Identifier: BSD-2-Clause */
/* The handle: checks at the beginning of a call, and reports to the application. */
#include "recovery/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int ll_core_forked(const struct ll_core *core, struct lladd_error *err)
{
    return ll_fail(err, LLADD_FORKED, "the handle belongs to the parent process %llu",
                   (unsigned long long)core->pid);
}

int ll_core_check_slow(struct ll_core *core, struct lladd_error *err)
{
    if (core->pid != (uint64_t)getpid())
        return ll_core_forked(core, err);
    return ll_poison_check(core->poison, err);
}

void ll_core_trace(struct ll_core *core, const char *fmt, ...)
{
    if (!core->trace)
        return;
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    core->trace(core->callback_ctx, line);
}

void ll_core_progress(struct ll_core *core, enum lladd_phase phase, lladd_lsn at, unsigned percent)
{
    if (core->progress)
        core->progress(core->callback_ctx, phase, at, percent);
}
