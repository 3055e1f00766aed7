/* SPDX-License-Identifier: BSD-2-Clause */
/* See text.h. */
#include "support/text.h"

#include <check.h>
#include <string.h>

static int take(void *ctx, const void *bytes, size_t len)
{
    struct text *t = ctx;
    ck_assert_uint_lt(t->len + len, sizeof t->bytes);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = '\0';
    return 0;
}

struct lladd_sink *text_fresh(struct text *t)
{
    t->len = 0;
    t->bytes[0] = '\0';
    t->sink = (struct lladd_sink){t, take, 0};
    return &t->sink;
}
