/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_TESTS_SIM_VERDICTS_H
#define LL_TESTS_SIM_VERDICTS_H
/* Checks of a report's failures, for the tests of all modes. */
#include "support/text.h"

#include <lladd/sim.h>

/* Asserts that a report of any mode has no failures. */
#define expect_passed(r) ll_expect_none((r)->subject, (r)->failures, (r)->n_failures)
/* Asserts that the report has one failure, of this oracle. Returns the failure. */
#define expect_caught(r, oracle) ll_expect_one((r)->failures, (r)->n_failures, oracle)

void ll_expect_none(const char *subject, const struct lladd_sim_failure *, uint32_t n);
const struct lladd_sim_failure *ll_expect_one(const struct lladd_sim_failure *, uint32_t n,
                                              enum lladd_sim_oracle);

/* Asserts that the token is not too long and repeats the failure with the same message. Writes the
 * history to `told`. */
void expect_again(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                  const struct lladd_sim_failure *, struct text *told);

#endif
