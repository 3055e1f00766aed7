/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress of a verb: one line on the terminal, overwritten repeatedly and erased at the end.
 * Nothing is written if standard error is not a terminal. */
#include "tool.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { LEAST_MS = 100 };

static int64_t now_ms(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* if the clock fails, every update is shown */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void tool_progress(struct tool *t, const char *what, uint64_t done, uint64_t all)
{
    struct tool_progress *p = &t->progress;
    if (!p->on)
        return;
    bool other = !p->shown || strncmp(p->what, what, sizeof p->what - 1) != 0;
    int64_t now = now_ms();
    if (!other && now - p->at_ms < LEAST_MS)
        return;
    p->shown = true;
    p->at_ms = now;
    snprintf(p->what, sizeof p->what, "%s", what);
    fprintf(stderr, "\r\033[Klladd %s: %s", t->verb, p->what);
    if (all)
        fprintf(stderr, " %u %%",
                (unsigned)((double)(done < all ? done : all) * 100 / (double)all));
    else if (done)
        fprintf(stderr, " %" PRIu64, done);
    (void)fflush(stderr);
}

void tool_progress_end(struct tool *t)
{
    if (!t->progress.shown)
        return;
    t->progress.shown = false;
    fprintf(stderr, "\r\033[K");
    (void)fflush(stderr);
}

void tool_progress_phase(void *ctx, enum lladd_phase phase, lladd_lsn at, unsigned percent)
{
    static const char *const names[] = {[LLADD_PHASE_ANALYSIS] = "reading the log",
                                        [LLADD_PHASE_REDO] = "recovery, redo",
                                        [LLADD_PHASE_OBJECTS] = "recovery, objects",
                                        [LLADD_PHASE_UNDO] = "recovery, undo"};
    (void)at;
    if (phase == LLADD_PHASE_DONE)
        tool_progress_end(ctx);
    else if ((unsigned)phase < sizeof names / sizeof *names && names[phase])
        tool_progress(ctx, names[phase], percent, percent ? 100 : 0);
}

void tool_progress_view(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    char text[64];
    snprintf(text, sizeof text, "checking the %s", what);
    tool_progress(ctx, text, done, all);
}

void tool_progress_log(struct tool *t, const struct lladd_inspect *view, lladd_lsn at)
{
    if (!t->progress.on)
        return;
    struct lladd_inspect_info i = tool_info(view);
    tool_progress(t, "reading the log", at.v > i.log_oldest.v ? at.v - i.log_oldest.v : 0,
                  i.log_end.v > i.log_oldest.v ? i.log_end.v - i.log_oldest.v : 0);
}
