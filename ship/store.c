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

static int open_inside(const char *url, const struct lladd_store_options *options,
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

int lladd_store_open(const char *url, const struct lladd_store_options *options,
                     struct lladd_store **out, struct lladd_error *err)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    struct lladd_store *inside = NULL;
    if (options)
        memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    int rc = open_inside(url, options, out ? &inside : NULL, err);
    if (!rc && o.filter) {
        rc = lladd_store_over(inside, o.filter, o.allocator, out, err);
        if (rc)
            lladd_store_close(inside);
    } else if (!rc) {
        *out = inside;
    }
    return rc;
}

int lladd_store_over(struct lladd_store *inside, const struct lladd_store_filter *filter,
                     const struct lladd_allocator *allocator, struct lladd_store **out,
                     struct lladd_error *err)
{
    struct ll_ship_mem mem = {allocator};
    return inside && filter && out
               ? ll_ship_filter_open(inside, filter, mem, out, err)
               : lladd_error_set(err, LLADD_BAD_ARGUMENT, "the store or the filter is NULL");
}

void lladd_store_close(struct lladd_store *s)
{
    if (s)
        s->ops->close(s);
}
