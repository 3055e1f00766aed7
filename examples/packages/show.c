/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress line, numbers and folded text; see show.h. */
#include "show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 40u
#define REDRAW_SECONDS 0.1
#define FOLD_WIDTH 100
#define FOLD_INDENT 11
#define FOLD_LINES 3u

struct number number_of(uint64_t v)
{
    struct number n;
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, v), to = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            n.text[to++] = ',';
        n.text[to++] = digits[i];
    }
    n.text[to] = 0;
    return n;
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- progress -------------------------------------------------------------------------------- */

void progress_begin(struct progress *p, uint64_t done)
{
    p->began = clock_seconds();
    p->shown = 0;
    p->at_begin = done;
}

static void bar(struct progress *p, uint64_t done, double now)
{
    char cells[BAR_WIDTH + 1];
    unsigned full = p->of ? (unsigned)(done * BAR_WIDTH / p->of) : 0;
    double seconds = now - p->began;
    double rate = seconds > 0 ? (double)(done - p->at_begin) / seconds : 0;
    memset(cells, '.', BAR_WIDTH);
    memset(cells, '#', full < BAR_WIDTH ? full : BAR_WIDTH);
    cells[BAR_WIDTH] = 0;
    printf("\r  loading    [%s] %s acknowledged, %s/s \033[K", cells, number_of(done).text,
           number_of((uint64_t)rate).text);
    fflush(stdout);
    p->visible = true;
}

void progress_show(struct progress *p, uint64_t done)
{
    double now = clock_seconds();
    if (p->terminal) {
        if (now - p->shown >= REDRAW_SECONDS) {
            bar(p, done, now);
            p->shown = now;
        }
        return;
    }
    unsigned quarter = p->of ? (unsigned)(done * 4 / p->of) : 0;
    if (quarter > p->quarter && quarter < 4)
        printf("  loading    %s of %s acknowledged\n", number_of(done).text, number_of(p->of).text);
    p->quarter = quarter > p->quarter ? quarter : p->quarter;
}

void progress_end(struct progress *p)
{
    if (p->visible)
        printf("\r\033[K");
    p->visible = false;
}

/* ---- recovery and comparison ----------------------------------------------------------------- */

void recovery_line(void *ctx, const char *line)
{
    struct recovery *r = ctx;
    if (strncmp(line, "analysis: ", 10) == 0)
        snprintf(r->analysis, sizeof r->analysis, "%s", line + 10);
    else if (strncmp(line, "undone: ", 8) == 0)
        r->undone++;
}

/* The text of the trace may change in later versions of the library; then its lines are shown
 * unchanged. */
void recovery_show(const struct recovery *r, const struct lladd_stats *stats)
{
    uint64_t records, commits, losers;
    const char *counts = strchr(r->analysis, ';');
    if (counts && sscanf(counts, "; %" SCNu64 " records, %" SCNu64 " commits, %" SCNu64 " losers",
                         &records, &commits, &losers) == 3)
        printf("  analysis   %s log records since the last checkpoint: %s commits, %s unfinished\n",
               number_of(records).text, number_of(commits).text, number_of(losers).text);
    else
        printf("  analysis   %s\n", r->analysis);
    printf(
        "  redo, undo %s records applied to pages that lacked them; %s transactions rolled back\n",
        number_of(stats->recovered_redone).text, number_of(r->undone).text);
}

void verdict_show(const struct verdict *v)
{
    printf("  compared   %s committed: whole; %s aborted: no trace", number_of(v->whole).text,
           number_of(v->nothing).text);
    if (v->found)
        printf("; %s in flight had committed: whole", number_of(v->found).text);
    printf("\n");
    for (uint64_t i = 0; i < v->discrepancies && i < VERDICT_SHOWN; i++)
        printf("  WRONG      %s\n", v->shown[i]);
    if (v->discrepancies)
        printf("  WRONG      %s discrepancies\n", number_of(v->discrepancies).text);
}

/* ---- another program's lines ----------------------------------------------------------------- */

static void fold(const char *line, size_t len)
{
    for (unsigned n = 0; n < FOLD_LINES; n++) {
        size_t width = n ? FOLD_WIDTH - FOLD_INDENT : FOLD_WIDTH, take = len;
        if (len > width) {
            take = width;
            while (take > 1 && line[take - 1] != ' ')
                take--;
            take = take > 1 ? take : width;
        }
        const char *end = take == len ? "" : n + 1 == FOLD_LINES ? "..." : "";
        int shown = (int)(take - (take > 1 && line[take - 1] == ' '));
        printf("%*s%.*s%s\n", n ? FOLD_INDENT : 0, "", shown, line, end);
        line += take;
        len -= take;
        if (len == 0)
            return;
    }
}

bool show_folded(int fd)
{
    char *line = NULL;
    size_t size = 0;
    unsigned lines = 0;
    ssize_t len;
    FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return false;
    }
    for (; (len = getline(&line, &size, f)) >= 0; lines++) {
        size_t n = (size_t)len;
        fold(line, n && line[n - 1] == '\n' ? n - 1 : n);
    }
    bool good = !ferror(f) && lines > 0;
    free(line);
    fclose(f);
    return good;
}
