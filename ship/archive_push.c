/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores the log of a database that no process has open, for example when its other files are lost.
 * Only reads the database: the call puts no claim, and moves no pin. */
#include "ship/archive_private.h"

#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <string.h>

int ll_ship_archive_look(struct lladd_archive *a, bool held, struct lladd_inspect **out,
                         struct lladd_error *err)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    o.device = a->dev;
    o.allocator = a->opt.allocator;
    int rc = lladd_inspect_open(NULL, &o, &view, err);
    if (rc)
        return rc;
    rc = lladd_inspect_info_get(view, &info);
    if (rc)
        (void)lladd_error_set(err, rc, "the log cannot be looked at");
    else if (info.in_use == 1 && !held)
        rc = lladd_error_set(err, LLADD_LOCKED, "process %lld has the database open",
                             (long long)info.holder);
    else if (info.log_end_kind == LLADD_LOG_END_DAMAGED ||
             info.log_end_kind == LLADD_LOG_END_UNKNOWN)
        rc = lladd_error_set(err, LLADD_CORRUPT_LOG, "%.200s", lladd_inspect_log_end(view));
    a->closed_end = info.log_end.v;
    a->done = a->pos = info.log_oldest.v;
    if (rc)
        lladd_inspect_close(view);
    else
        *out = view;
    return rc;
}

static int push(struct lladd_archive *a, struct lladd_error *err)
{
    struct lladd_inspect *view;
    bool more = true;
    int rc = ll_ship_archive_look(a, false, &view, err);
    if (rc)
        return rc;
    lladd_inspect_close(view);
    rc = ll_ship_archive_identify(a, err);
    if (!rc)
        rc = ll_ship_spool_look(a->dev, a->mem, a->uuid, a->page_size, &a->spool, err);
    while (!rc && more) {
        rc = ll_ship_archive_step(a, true, &more, err);
        ll_ship_archive_say(a, rc, err);
    }
    return rc;
}

int lladd_archive_push(struct lladd_device *dev, struct lladd_store *store,
                       const struct lladd_archive_options *options,
                       struct lladd_archive_status *out, struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    struct lladd_archive *a;
    if (!dev || !store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the device or the store is NULL");
    int rc = ll_ship_archive_new(store, options, &a, err);
    if (rc)
        return rc;
    a->dev = dev;
    a->opt.give_up_bytes = 0;
    rc = push(a, &local);
    if (rc && err)
        *err = local;
    if (!rc && out)
        rc = lladd_archive_status_get(a, out, err);
    lladd_archive_free(a);
    return rc;
}
