/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_SEEN_H
#define TESTS_SIM_SEEN_H
/* An observer that stores every event. */
#include <lladd/dst.h>

#include <check.h>
#include <string.h>

enum { SEEN_MAX = 4096 };

struct seen {
    struct lladd_dst dst;
    struct lladd_dst_event events[SEEN_MAX];
    unsigned n;
};

static inline void seen_observe(void *ctx, const struct lladd_dst_event *event)
{
    struct seen *s = ctx;
    ck_assert_uint_lt(s->n, SEEN_MAX);
    s->events[s->n++] = *event;
}

/* Observes the calling thread from now on. */
static inline void seen_begin(struct seen *s)
{
    memset(s, 0, sizeof *s);
    s->dst.ctx = s;
    s->dst.observe = seen_observe;
    lladd_dst_enter(&s->dst);
}

/* Returns the number of events of this sort. If the name is not NULL, counts only those on an
 * operation with this name; if the detail is not 0, only those with this detail. */
static inline unsigned seen_count(const struct seen *s, enum lladd_dst_what what, const char *op,
                                  uint64_t detail)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        const struct lladd_dst_event *e = &s->events[i];
        n += e->what == what && (!op || (e->op && strcmp(e->op, op) == 0)) &&
             (!detail || e->detail == detail);
    }
    return n;
}

#endif
