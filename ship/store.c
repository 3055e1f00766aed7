/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes stores of every kind. */
#include "ship/ship_private.h"

#include <string.h>

int lladd_store_open(const char *url, const struct lladd_store_options *options,
                     struct lladd_store **out, struct lladd_error *err)
{
    if (url && out && strncmp(url, "dir:", 4) == 0)
        return ll_ship_dir_open(url + 4, options, &ll_ship_posix, out, err);
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "\"%.100s\" is no store: expected dir:PATH", url ? url : "");
}

void lladd_store_close(struct lladd_store *s)
{
    if (s)
        s->ops->close(s);
}
