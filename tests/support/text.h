/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_TEXT_H
#define SUPPORT_TEXT_H
/* A sink that collects what is written in one string. If the string is too short, the test fails.
 * The struct is too large for the stack:
 *
 *     static struct text text;
 *     lladd_sim_report_text(r, text_fresh(&text));
 *     ck_assert_ptr_nonnull(strstr(text.bytes, "passed")); */
#include <lladd/op.h>

struct text {
    struct lladd_sink sink;
    size_t len;
    char bytes[400000];
};

/* Empties the sink. */
struct lladd_sink *text_fresh(struct text *);

#endif
