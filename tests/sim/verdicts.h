/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_TESTS_SIM_VERDICTS_H
#define LL_TESTS_SIM_VERDICTS_H
/* What the tests of all modes ask of a report's failures. */
#include "support/text.h"

#include <lladd/sim.h>

/* There are none. Of any report. */
#define expect_passed(r) ll_expect_none((r)->subject, (r)->failures, (r)->n_failures)
/* There is one, this oracle's, which it returns. */
#define expect_caught(r, oracle) ll_expect_one((r)->failures, (r)->n_failures, oracle)

void ll_expect_none(const char *subject, const struct lladd_sim_failure *, uint32_t n);
const struct lladd_sim_failure *ll_expect_one(const struct lladd_sim_failure *, uint32_t n,
                                              enum lladd_sim_oracle);

/* The token is no longer than it may be, and does it again, in the same words; the story is in
 * `told`. */
void expect_again(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                  const struct lladd_sim_failure *, struct text *told);

#endif
