/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of recovery that the buffer manager calls (struct ll_page_recovery).
 *
 * The four cases of a page that is fetched:
 *
 *   pending redo   the stored page is      result
 *   none           intact                  as it was read
 *   yes            intact, or not read     redone (restart_instant.c); not read if its records
 *                                          begin with a base (an image or format record)
 *   yes            damaged                 redone, if one of its records is a base; else rebuilt
 *   none           damaged                 rebuilt from all log that exists (rebuild.c)
 *
 * A page that cannot be read is handled like a damaged page. */
#include "recovery/redo.h"

#include <string.h>

/* Applies the pending redo to the page as it was read, or to zeros if the page's records contain a
 * base. Sets DONE if the page is complete. */
static int redo_pending(struct ll_core *core, struct ll_fetch *f, struct lladd_error *err)
{
    bool baseless = f->state != LL_FETCH_READ;
    if (baseless)
        memset(f->bytes, 0, core->page_size);
    int rc = ll_instant_redo_page(core, f->page, f->bytes, &baseless, &f->dirty_since, err);
    if (rc == 0 && !baseless)
        f->state = LL_FETCH_DONE;
    else if (rc == 0 && f->state == LL_FETCH_READ)
        (void)ll_fail_page(&f->damage, LLADD_CORRUPT_PAGE, f->page,
                           "\"pages\": page %llu lacks changes that the log builds on",
                           (unsigned long long)f->page.v);
    return rc;
}

static int fetch_from(struct ll_core *core, struct ll_fetch *f, struct lladd_error *err)
{
    const uint64_t *skipped = core->baseless ? ll_hashmap_find(core->baseless, f->page.v) : NULL;
    if (skipped)
        return ll_redo_refuse(core, f->page.v, *skipped, err);
    bool base, pending = ll_instant_is_pending(core, f->page, &base);
    int rc = 0;
    f->dirty_since.v = 0;
    /* A redo barrier may have made the base obsolete meanwhile. Then redo does not set DONE, and
     * the page is read. */
    if (pending && (base || f->state != LL_FETCH_UNREAD))
        rc = redo_pending(core, f, err);
    else if (f->state == LL_FETCH_READ)
        f->state = LL_FETCH_DONE;
    if (rc != 0 || f->state == LL_FETCH_DONE || f->state == LL_FETCH_UNREAD)
        return rc;
    rc = ll_rebuild_page(core, f, err);
    f->rebuilt = rc == 0;
    if (f->rebuilt) /* the page becomes dirty, so write-back may log an image */
        ll_redo_barrier_disown_page(core, f->page.v);
    f->state = rc == 0 ? LL_FETCH_DONE : f->state;
    return rc;
}

static int fetch(void *ctx, struct ll_fetch *f, struct lladd_error *err)
{
    struct ll_core *core = ctx;
    int rc = fetch_from(core, f, err);
    if (rc == 0 && f->state == LL_FETCH_DONE &&
        ll_page_base(f->bytes).v < lladd_atomic_load64_relaxed(&core->newest_barrier))
        ll_redo_forget_base(f->bytes, ll_redo_barrier_of_locked(core, f->page.v));
    return rc;
}

static void fetched(void *ctx, lladd_pageno page)
{
    ll_instant_redone(ctx, page);
}

void ll_page_formatted(struct ll_core *core, lladd_pageno page)
{
    if (core->baseless)
        (void)ll_hashmap_remove(core->baseless, page.v);
    ll_instant_redone(core, page);
}

static bool lost(void *ctx, lladd_lsn lsn)
{
    struct ll_core *core = ctx;
    return core->log && ll_log_lost(core->log, lsn);
}

_Static_assert(sizeof(struct ll_credit) <= sizeof((struct ll_images *)NULL)->credit,
               "struct ll_images has room for the credit");

static struct ll_credit *credit_of(struct ll_images *images)
{
    return (struct ll_credit *)(void *)images->credit;
}

static void images_end(void *ctx, struct ll_images *images)
{
    struct ll_core *core = ctx;
    ll_log_credit_return(core->log, credit_of(images));
    ll_free(&core->env, images->room);
    images->room = NULL;
}

static int mark(struct ll_core *core, struct lladd_error *err)
{
    return LLADD_PLANTED(LLADD_BUG_UNMARKED) ? 0 : ll_core_mark(core, err);
}

/* Takes at most an eighth of the ring, so that batches of images do not keep updates waiting. While
 * full redo runs there are no images: a page may lack changes that are in the log, and its image
 * would hide these changes. */
static int images(void *ctx, unsigned n, bool wait, struct ll_images *out, struct lladd_error *err)
{
    struct ll_core *core = ctx;
    size_t one = ll_image_bound(core->page_size);
    size_t most = ll_log_credit_most(core->log) / 5 / one;
    int rc = mark(core, err);
    if (rc || (lladd_atomic_load32(&core->redoing) && !LLADD_PLANTED(LLADD_BUG_IMAGE_REDO)))
        return rc;
    out->room = ll_alloc(&core->env, LL_IMAGE_ROOM(core->page_size) + ll_image_packing());
    if (!out->room)
        return 0;
    n = n < most ? n : most ? (unsigned)most : 1;
    rc = ll_log_credit_images(core->log, credit_of(out), one, n, wait, err);
    out->n = (unsigned)(credit_of(out)->bytes / one);
    if (out->n == 0)
        images_end(core, out);
    return rc;
}

static void image(void *ctx, struct ll_images *images, struct lladd_page *copy)
{
    struct ll_core *core = ctx;
    size_t packing = ll_image_packing();
    ll_image_log(core, credit_of(images), copy, (unsigned char *)images->room + packing,
                 images->room);
}

static int may_write(void *ctx, lladd_pageno page, lladd_lsn lsn, lladd_lsn *durable,
                     struct lladd_error *err)
{
    struct ll_core *core = ctx;
    int rc = mark(core, err);
    if (rc == 0 && lsn.v >= ll_log_durable(core->log).v)
        rc = ll_log_force(core->log, lsn, err);
    if (rc == 0 && lsn.v)
        rc = ll_core_witness(core, page, lsn, err);
    *durable = ll_log_durable(core->log);
    return rc;
}

struct ll_page_recovery ll_page_recovery(struct ll_core *core)
{
    return (struct ll_page_recovery){.ctx = core,
                                     .fetch = fetch,
                                     .fetched = fetched,
                                     .lost = lost,
                                     .images = images,
                                     .image = image,
                                     .images_end = images_end,
                                     .may_write = may_write};
}
