/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random_shrink: makes a failure that random.c has found smaller.
 *
 * First the workload is reduced. These reductions are tried: no errors in recoveries, no error in
 * the workload, the subject's own sizes, fewer calls of `run`, fewer crashes in a row. A reduction
 * is kept if the same oracle reports a violation in one of the next few hundred crashes. Then the
 * crash is described as a row of choices, as in replay.c, and this row is reduced as rows of the
 * explorer are. The token contains the workload and the row. In two cases it contains the workload,
 * the depth, the point and the variant instead: the row is too long, or a replay of the row does
 * not show the failure (a row of choices cannot describe an error in a recovery).
 *
 * If the bounds limit the time of the search, all reductions together may take as much time again.
 * When that time is over, the smallest failure found so far is kept.
 */
#include "sim/random.h"

#include <stdlib.h>

enum { SEARCH_STATES = 300 }; /* crash states in which a smaller workload must show the failure */

/* The state of a reduction. */
struct attempt {
    const struct lladd_sim_subject *subject;
    struct lladd_sim_bounds bounds;
    uint64_t started; /* when the reductions of all failures began */
    struct ll_sim_which at;
    struct lladd_sim_failure failure; /* the smallest failure so far */
    struct ll_sim_vector token;
    uint32_t drawn; /* number of calls of `run` that was drawn */
    bool is_row;
    struct lladd_sim_failure by_row;
    struct ll_sim_vector row;
};

/* Tries the workload of `at`. With THERE, tries only the crash at the point and variant of `at`.
 * With ABOUT, tries all points, beginning with the point of `at`. If the same oracle reports a
 * violation again, *kept becomes true, and `a` gets the place of this crash. With THERE, `a` also
 * gets the row of choices, if a replay of the row shows the violation too. */
static int try_it(struct attempt *a, const struct ll_sim_which *at, enum ll_sim_scope scope,
                  bool *kept, struct lladd_error *err)
{
    struct lladd_sim_random_report report = {.struct_size = sizeof report};
    struct ll_sim_random r = {.report = &report,
                              .bounds = a->bounds,
                              .at = *at,
                              .scope = scope,
                              .wanted = a->failure.oracle,
                              .started = a->started};
    r.bounds.depth = at->depth;
    r.bounds.failures = 1;
    r.bounds.states = scope == ABOUT ? SEARCH_STATES : 0;
    int rc = ll_sim_random_workload(&r, a->subject, err);
    *kept = !rc && report.n_failures;
    a->drawn = r.drawn;
    if (*kept) {
        a->is_row = scope == THERE && r.whole && r.row.count;
        a->at = r.at;
        a->at.depth = at->depth;
        a->failure = a->is_row ? r.whole_failure : r.failures[0];
        a->token = r.tokens[0];
    }
    if (*kept && a->is_row) {
        a->by_row = r.failures[0];
        a->row = a->token;
        a->row.value[2] |= A_ROW;
        a->row.count = ROW_AT;
        a->is_row = r.row.count <= LL_SIM_VECTOR_MAX - ROW_AT;
        for (uint32_t i = 0; a->is_row && i < r.row.count; i++)
            a->row.value[a->row.count++] = r.row.value[i];
    }
    free(r.failures);
    free(r.tokens);
    return rc;
}

/* Tries the values from 1 to `present` - 1 for *what, which is a field of *at. Keeps the first
 * value with which the failure still happens. */
static int fewer(struct attempt *a, uint32_t *what, struct ll_sim_which *at, uint32_t present,
                 struct lladd_error *err)
{
    bool kept = false;
    int rc = 0;
    for (uint32_t n = 1; !rc && !kept && n < present; n++) {
        *what = n;
        rc = try_it(a, at, ABOUT, &kept, err);
    }
    *at = a->at;
    return rc;
}

static int make_smaller(struct attempt *a, struct lladd_error *err)
{
    bool kept;
    struct ll_sim_which at = a->at;
    int rc = 0;
    for (uint32_t bit = 1; !rc && bit <= WITHOUT_ALL; bit <<= 1) {
        at = a->at;
        at.without |= bit;
        rc = try_it(a, &at, ABOUT, &kept, err);
    }
    at = a->at;
    if (!rc)
        rc = fewer(a, &at.repeats, &at, a->drawn, err);
    if (!rc)
        rc = fewer(a, &at.depth, &at, at.depth, err);
    return rc ? rc : try_it(a, &at, THERE, &kept, err);
}

/* Makes the token from the row, if the row fits into a token. Otherwise makes it from the numbers
 * from which the crash was drawn. */
static int give_token(struct attempt *a, struct lladd_sim_failure *f, struct lladd_error *err)
{
    int rc = make_smaller(a, err);
    if (rc)
        return rc;
    if (a->is_row && ll_sim_token_encode(a->subject, &a->row, a->by_row.token)) {
        *f = a->by_row;
        return 0;
    }
    if (!ll_sim_token_encode(a->subject, &a->token, a->failure.token))
        /* Cannot happen: six numbers and a seed always fit. */
        return lladd_error_set(err, LLADD_BUG, "a token is too long");
    *f = a->failure;
    return 0;
}

int ll_sim_random_give_tokens(struct ll_sim_random *r, const struct lladd_sim_subject *subject,
                              struct lladd_error *err)
{
    uint32_t n = r->report->n_failures, kept = 0;
    uint64_t started = ll_sim_now();
    int rc = 0;
    for (uint32_t i = 0; !rc && i < n; i++) {
        const struct ll_sim_vector *t = &r->tokens[i];
        struct attempt a = {
            .subject = subject,
            .bounds = r->bounds,
            .started = started,
            .failure = r->failures[i],
            .token = *t,
            .at = {t->value[0], t->value[1], t->value[2], t->value[3], t->value[4], t->value[5]}};
        bool twin = false;
        if (t->count)
            rc = give_token(&a, &r->failures[i], err);
        for (uint32_t k = 0; k < kept && t->count; k++)
            twin |= strcmp(r->failures[k].token, r->failures[i].token) == 0;
        if (!twin)
            r->failures[kept++] = r->failures[i];
    }
    r->report->n_failures = kept;
    return rc;
}
