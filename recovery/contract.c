/* SPDX-License-Identifier: BSD-2-Clause */
/* Contract checks (debug builds): before an update is logged, its operation runs on copies of the
 * page. An operation that formats the page is not checked. These must hold:
 *
 *   - `validate` accepts the redo bytes for the page as it is before redo.
 *   - Redo is pure: the result depends only on the page and the redo bytes. Redo therefore runs on
 *     two copies, which lie at different addresses and have different bytes in the hole of the
 *     page. The results must be equal, apart from the hole and the bytes that `mask` masks.
 *   - If the undo is physical, `validate` accepts the undo bytes for the page as redo has left it.
 *     Undo then restores the page as it was before redo, apart from the hole and masked bytes.
 *   - Redo and undo do not change the page header.
 *   - The `check` of the operation and the `check` of the page type hold before redo, after redo
 *     and after undo.
 *
 * If an operation breaks this contract, the update fails with LLADD_BUG, and nothing has changed.
 * If there is no memory for the copies, there is no check: a check must not make an update fail. */
#include "recovery/core.h"

#include <stdio.h>
#include <string.h>

struct contract {
    struct lladd_txn *txn;
    const struct lladd_op *op;
    const struct lladd_page_type *type; /* of the page; NULL: the type is not registered */
    struct lladd_page a, b;
    unsigned char *kept; /* the page after redo, unmasked */
    uint32_t size;
};

static int broken(const struct contract *c, const char *what, lladd_pageno page)
{
    return ll_fail_page(&c->txn->err, LLADD_BUG, page, "operation \"%s\" on page %llu: %s",
                        c->op->name, (unsigned long long)page.v, what);
}

static void fill_hole(const struct contract *c, struct lladd_page *p, int byte)
{
    uint32_t begin = 0, end = 0;
    if (!c->type || !c->type->hole)
        return;
    c->type->hole(ll_view_of(p), &begin, &end);
    if (begin >= LLADD_PAGE_HEADER && begin <= end && end <= c->size)
        memset(p->bytes + begin, byte, end - begin);
}

static void mask(const struct contract *c, struct lladd_page *p)
{
    if (c->op->mask)
        c->op->mask(c->op->ctx, p);
    else if (c->type && c->type->mask)
        c->type->mask(c->type->ctx, p);
    fill_hole(c, p, 0);
}

static bool holds(const struct contract *c, const struct lladd_page *p)
{
    struct lladd_view v = ll_view_of(p);
    return (!c->op->check || c->op->check(v)) && (!c->type || !c->type->check || c->type->check(v));
}

static int same(const struct contract *c, const char *what)
{
    if (memcmp(c->a.bytes, c->b.bytes, c->size) == 0)
        return 0;
    for (uint32_t i = 0; i < c->size; i++) {
        if (c->a.bytes[i] == c->b.bytes[i])
            continue;
        char text[160];
        snprintf(text, sizeof text, "%s: byte %u is 0x%02x and 0x%02x", what, i, c->a.bytes[i],
                 c->b.bytes[i]);
        return broken(c, text, c->a.number);
    }
    return 0;
}

static int check_redo(struct contract *c, const struct lladd_page *before, struct lladd_span redo)
{
    memcpy(c->a.bytes, before->bytes, c->size);
    memcpy(c->b.bytes, before->bytes, c->size);
    if (!c->op->validate(ll_view_of(before), LLADD_SPAN_REDO, redo))
        return broken(c, "validate refuses the redo bytes that prepare has built", before->number);
    if (!holds(c, before))
        return broken(c, "check does not hold before redo", before->number);
    fill_hole(c, &c->b, 0xa5);
    LLADD_CALLING("redo", c->op->name, before->number.v);
    c->op->redo(&c->a, redo);
    c->op->redo(&c->b, redo);
    LLADD_CALLED();
    if (memcmp(c->a.bytes, before->bytes, LLADD_PAGE_HEADER) != 0)
        return broken(c, "redo changes the page header", before->number);
    if (!holds(c, &c->a))
        return broken(c, "check does not hold after redo", before->number);
    return 0;
}

static int check_undo(struct contract *c, const struct lladd_page *before, struct lladd_span undo)
{
    if (!c->op->validate(ll_view_of(&c->a), LLADD_SPAN_UNDO, undo))
        return broken(c, "validate refuses the undo bytes that prepare has built", before->number);
    LLADD_CALLING("undo", c->op->name, before->number.v);
    c->op->undo(&c->a, undo);
    LLADD_CALLED();
    if (memcmp(c->a.bytes, before->bytes, LLADD_PAGE_HEADER) != 0)
        return broken(c, "undo changes the page header", before->number);
    if (!holds(c, &c->a))
        return broken(c, "check does not hold after undo", before->number);
    memcpy(c->b.bytes, before->bytes, c->size);
    mask(c, &c->a);
    mask(c, &c->b);
    return same(c, "undo does not reverse redo");
}

static int run(struct contract *c, const struct lladd_page *before, const struct lladd_draft *d)
{
    struct lladd_span redo = lladd_span_of(d->bytes, d->redo_len);
    struct lladd_span undo = lladd_span_of(d->bytes + d->redo_len, d->undo_len);
    int rc = check_redo(c, before, redo);
    if (rc)
        return rc;
    memcpy(c->kept, c->a.bytes, c->size);
    mask(c, &c->a);
    mask(c, &c->b);
    rc = same(c, "redo is not pure");
    memcpy(c->a.bytes, c->kept, c->size);
    if (!rc && c->op->undo_kind == LLADD_UNDO_PAGE)
        rc = check_undo(c, before, undo);
    return rc;
}

int ll_contract_check(struct lladd_txn *txn, const struct ll_name *name,
                      const struct lladd_page *before, const struct lladd_draft *d)
{
    const struct lladd_op *op = name->desc;
    if (op->formats || !op->redo)
        return 0;
    struct ll_core *core = txn->core;
    struct contract c = {.txn = txn, .op = op, .size = core->page_size};
    c.type = ll_op_catalog_page_type(core, ll_page_type(before->bytes));
    unsigned char *memory = ll_alloc(&core->env, 3 * (size_t)c.size + 64);
    if (!memory)
        return 0;
    c.a = *before;
    c.b = *before;
    c.a.bytes = memory;
    c.b.bytes = memory + c.size + 24; /* another alignment */
    c.kept = c.b.bytes + c.size;
    int rc = run(&c, before, d);
    ll_free(&core->env, memory);
    return rc;
}
