/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes stores of every kind. */
#include "ship/ship_private.h"

#include <string.h>

static int open_s3(const char *where, const struct lladd_store_options *options,
                   struct lladd_store **out, struct lladd_error *err)
{
#ifdef LL_SHIP_S3
    return ll_ship_s3_open(where, options, out, err);
#else
    (void)options, (void)out;
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "\"s3://%.100s\": this library was built without S3, "
                           "which needs libcurl and libexpat",
                           where);
#endif
}

int lladd_store_open(const char *url, const struct lladd_store_options *options,
                     struct lladd_store **out, struct lladd_error *err)
{
    if (url && out && strncmp(url, "dir:", 4) == 0)
        return ll_ship_dir_open(url + 4, options, &ll_ship_posix, out, err);
    if (url && out && strncmp(url, "s3://", 5) == 0)
        return open_s3(url + 5, options, out, err);
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "\"%.100s\" is no store: expected dir:PATH or s3://BUCKET/PREFIX",
                           url ? url : "");
}

void lladd_store_close(struct lladd_store *s)
{
    if (s)
        s->ops->close(s);
}
