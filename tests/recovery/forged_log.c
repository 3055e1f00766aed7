/* SPDX-License-Identifier: BSD-2-Clause */
/* See forged_log.h. */
#include "forged_log.h"

#include "io/io.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Remembers the names in a record of checkpoint data. */
static int see(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct forged_log *f = ctx;
    const unsigned char *p = rec->redo.data;
    size_t left = rec->kind == LL_REC_CHECKPOINT_DATA ? rec->redo.len : 0;
    (void)err;
    while (left >= 5) {
        uint32_t len = lladd_get32(p + 1);
        if (p[0] == LL_CKPT_NAME && f->n_names < 128) {
            size_t n = p[5 + 9];
            memcpy(f->names[f->n_names].name, p + 5 + 12, n);
            f->names[f->n_names].name[n] = 0;
            f->names[f->n_names++].number = lladd_get32(p + 5);
            f->parts = realloc(f->parts, f->parts_len + 5 + len);
            memcpy(f->parts + f->parts_len, p, 5 + len);
            f->parts_len += 5 + len;
        }
        p += 5 + len;
        left -= 5 + len;
    }
    return 0;
}

void forged_open(struct forged_log *f, struct fixture *r)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(f, 0, sizeof *f);
    f->r = r;
    f->dev = r->options.device;
    ll_env_init(&f->env, NULL, r->options.world, false);
    ck_assert_int_eq(ll_io_open(f->dev, "control", 0, &f->control_file), 0);
    ck_assert_int_eq(ll_control_read(f->dev, f->control_file, &f->control, &err), 0);
    ck_assert(f->control.clean);
    ll_poison_init(&f->poison);
    struct ll_log_config c = {.env = &f->env,
                              .poison = &f->poison,
                              .dev = f->dev,
                              .incarnation = f->control.incarnation,
                              .segment_min = r->options.log_segment_min,
                              .segment_max = r->options.log_segment_max,
                              .ring_bytes = r->options.log_ring_bytes};
    struct ll_log_start s = {.from = f->control.checkpoint,
                             .watermark = f->control.watermark,
                             .clean = true,
                             .end = f->control.end,
                             .segment = f->control.segment,
                             .segment_bytes = f->control.segment_bytes};
    memcpy(c.uuid, f->control.uuid, 16);
    int rc = ll_log_open(&c, &s, &f->log, &err);
    if (!rc)
        rc = ll_log_scan(f->log, see, f, &err);
    if (!rc)
        rc = ll_log_start(f->log, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
}

lladd_lsn forged_tail(const struct forged_log *f)
{
    return ll_log_tail(f->log);
}

lladd_lsn forged_append(struct forged_log *f, struct ll_record *rec, bool starts)
{
    struct ll_credit credit = {0};
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = ll_log_credit(f->log, &credit, ll_record_bound(rec->redo.len, rec->undo.len), &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ll_log_reserve(f->log, &credit, rec, starts);
    ll_log_publish(f->log, rec);
    ll_log_credit_return(f->log, &credit);
    return rec->lsn;
}

lladd_lsn forged_checkpoint(struct forged_log *f)
{
    struct ll_record names = {.kind = LL_REC_CHECKPOINT_DATA,
                              .page = LLADD_NO_PAGE,
                              .redo = lladd_span_of(f->parts, f->parts_len)};
    f->control.checkpoint = f->control.redo = forged_append(f, &names, false);
    return f->control.checkpoint;
}

void forged_close(struct forged_log *f)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_lsn end;
    int rc = ll_log_finish(f->log, &end, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ll_log_close(f->log);
    f->control.clean = false;
    f->control.watermark = end;
    rc = ll_control_write(&f->env, f->dev, f->control_file, &f->control, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_int_eq(ll_io_close(f->dev, f->control_file), 0);
    free(f->parts);
    f->parts = NULL;
}

uint32_t forged_number(const struct forged_log *f, const char *name)
{
    for (unsigned i = 0; i < f->n_names; i++)
        if (strcmp(f->names[i].name, name) == 0)
            return f->names[i].number;
    ck_abort_msg("\"%s\" has no number", name);
    return 0;
}

lladd_lsn forged_page_lsn(const struct forged_log *f, lladd_pageno page)
{
    size_t len;
    unsigned char *bytes = fixture_file(f->r, "pages", &len);
    ck_assert_uint_ge(len, (page.v + 1) * 4096);
    lladd_lsn lsn = ll_page_lsn(bytes + page.v * 4096);
    free(bytes);
    return lsn;
}
