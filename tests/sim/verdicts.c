/* SPDX-License-Identifier: BSD-2-Clause */
/* See verdicts.h. */
#include "verdicts.h"

#include <check.h>
#include <string.h>

void ll_expect_none(const char *subject, const struct lladd_sim_failure *f, uint32_t n)
{
    if (n)
        ck_abort_msg("%s: %s: %s, token %s", subject, lladd_sim_oracle_name(f->oracle), f->message,
                     f->token);
}

const struct lladd_sim_failure *ll_expect_one(const struct lladd_sim_failure *f, uint32_t n,
                                              enum lladd_sim_oracle oracle)
{
    ck_assert_uint_eq(n, 1);
    ck_assert_msg(f->oracle == oracle, "%s instead of %s: %s", lladd_sim_oracle_name(f->oracle),
                  lladd_sim_oracle_name(oracle), f->message);
    ck_assert_str_ne(f->message, "");
    return f;
}

void expect_again(const struct lladd_sim_subject *s, const struct lladd_sim_bounds *b,
                  const struct lladd_sim_failure *f, struct text *told)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *again;
    ck_assert_str_ne(f->token, "");
    ck_assert_uint_le(strlen(f->token), LLADD_SIM_TOKEN_MAX);
    int rc = lladd_sim_replay(s, b, f->token, text_fresh(told), &again, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_str_eq(expect_caught(again, f->oracle)->message, f->message);
    ck_assert_str_eq(again->failures->token, f->token);
    lladd_sim_report_free(again);
}
