/* SPDX-License-Identifier: BSD-2-Clause */
/* Extensions of a handle: merges the built-in descriptors with the registered ones, checks that the
 * log can hold what the operations need, and calls the extensions' callbacks. Built-in extensions
 * come first, then the user's in the order of registration; stop and detach go in the opposite
 * order. */
#include "db/db_private.h"
#include "operations/operations.h"

#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <string.h>

/* Catalogue space for the built-in descriptors: their number, the bytes of their entries, and the
 * longest entry. tests/operations/test_descriptors.c checks the numbers. */
const struct ll_payloads ll_extensions_builtin = {.names = 112, .bytes = 5770, .longest = 169};

static int put_items(struct lladd_registry *out, const struct lladd_registry *user,
                     struct lladd_error *err)
{
    int rc = ll_registry_reserve(out, user->n, err);
    for (size_t i = 0; !rc && i < user->n; i++) {
        bool there;
        rc = ll_registry_find(out, user->items[i].kind, user->items[i].desc, &there, err);
        if (!rc && !there)
            ll_registry_put(out, user->items[i].kind, user->items[i].desc);
    }
    return rc;
}

int ll_extensions_merge(const struct ll_env *env, const struct lladd_registry *user,
                        struct lladd_registry *out, struct lladd_error *err)
{
    memset(out, 0, sizeof *out);
    out->env = *env;
    out->builtin = ll_operations_builtin();
    out->payloads = ll_extensions_builtin;
    if (!user || user->n == 0)
        return 0;
    out->payloads.names += user->payloads.names;
    out->payloads.bytes += user->payloads.bytes;
    if (user->payloads.longest > out->payloads.longest)
        out->payloads.longest = user->payloads.longest;
    return put_items(out, user, err);
}

/* The largest log buffer and the largest byte limit that any operation needs, and the operations
 * that need them. An operation is NULL if no operation needs more than the catalogue records of the
 * registered names. */
struct fit {
    const struct lladd_options *o;
    uint32_t page_size;
    uint64_t aside; /* log bytes reserved for the next checkpoint in any case */
    uint64_t ring, limit;
    const struct lladd_op *ring_for, *limit_for;
};

static void fit_op(struct fit *f, const struct lladd_op *op)
{
    size_t most = ll_op_record_max(op, f->page_size), count = op->credit_max ? op->credit_max : 1;
    size_t one = ll_op_credit(op, f->page_size), image = ll_image_bound(f->page_size);
    size_t credit = count * one > one + image ? count * one : one + image;
    uint64_t ring = ll_log_ring_for(one > image ? one : image, credit);
    if (ring > f->ring) {
        f->ring = ring;
        f->ring_for = op;
    }
    uint64_t limit = ll_log_limit_for(f->o->log_segment_min, f->o->log_segment_max, credit,
                                      f->aside + count * ll_undo_need_op(op, most));
    if (limit > f->limit) {
        f->limit = limit;
        f->limit_for = op;
    }
}

static int too_small(const struct fit *f, const char *option, uint64_t is, uint64_t need,
                     const struct lladd_op *op, struct lladd_error *err)
{
    return ll_fail(err, LLADD_BAD_ARGUMENT,
                   "%s: %llu are needed, with pages of %u bytes, for %s%s%s; it is %llu", option,
                   (unsigned long long)need, f->page_size, op ? "operation \"" : "",
                   op ? op->name : "the names that are registered", op ? "\"" : "",
                   (unsigned long long)is);
}

int ll_extensions_fit(const struct lladd_registry *reg, uint32_t page_size,
                      const struct lladd_options *o, bool *ample, struct lladd_error *err)
{
    struct fit f = {.o = o, .page_size = page_size};
    f.ring = ll_log_ring_for(ll_record_bound(LL_CKPT_PART_HEAD + reg->payloads.longest, 0), 0);
    f.aside =
        ll_core_aside_least(reg->payloads.bytes + reg->payloads.names * ll_record_bound(0, 0));
    for (size_t i = 0; reg->builtin[i]; i++)
        for (size_t k = 0; reg->builtin[i]->ops && reg->builtin[i]->ops[k]; k++)
            fit_op(&f, reg->builtin[i]->ops[k]);
    for (size_t i = 0; i < reg->n; i++)
        if (reg->items[i].kind == LL_NAME_OP)
            fit_op(&f, reg->items[i].desc);
    if (o->log_ring_bytes < f.ring && f.ring > LL_LOG_RING_MAX)
        return ll_fail(err, LLADD_BAD_REGISTRATION,
                       "operation \"%s\": no log buffer has space for %u of its records at once",
                       f.ring_for->name, f.ring_for->credit_max);
    if (o->log_ring_bytes < f.ring)
        return too_small(&f, "log_ring_bytes", o->log_ring_bytes, f.ring, f.ring_for, err);
    if (o->log_limit_bytes < f.limit)
        return too_small(&f, "log_limit_bytes", o->log_limit_bytes, f.limit, f.limit_for, err);
    *ample = o->log_limit_bytes / 2 >= f.limit;
    return 0;
}

static int ask_allocator(struct ll_core *core, lladd_pageno page, bool *out,
                         struct lladd_error *err)
{
    struct lladd_db *db = ll_db_of(core);
    for (size_t i = 0; i < db->n_extensions; i++) {
        struct ll_extension_state *s = &db->extensions[i];
        if (s->ext->is_allocated)
            return s->ext->is_allocated(s->ext->ctx, db, s->state, page, out, err);
    }
    *out = true;
    return 0;
}

static int ask_for_base(struct ll_core *core, lladd_pageno page, lladd_lsn since, lladd_lsn writer,
                        unsigned char *bytes, struct lladd_error *err)
{
    struct lladd_db *db = ll_db_of(core);
    int rc = LLADD_NOT_FOUND;
    for (size_t i = 0; rc == LLADD_NOT_FOUND && i < db->n_extensions; i++) {
        const struct lladd_extension *e = db->extensions[i].ext;
        if (LL_HAS(e, base_of))
            rc = e->base_of(e->ctx, db, db->extensions[i].state, page, since, writer, bytes, err);
    }
    return rc;
}

static int attach(struct lladd_db *db, const struct lladd_extension *ext, struct lladd_error *err)
{
    struct ll_extension_state *s = &db->extensions[db->n_extensions++];
    s->ext = ext;
    int rc = ext->attach ? ext->attach(ext->ctx, db, &s->state, err) : 0;
    s->attached = rc == 0;
    db->hears_bulk = db->hears_bulk || LL_HAS(ext, bulk_written);
    if (rc == 0 && LL_HAS(ext, base_of))
        db->core.base_of = ask_for_base;
    return rc;
}

static int attach_classes(struct lladd_db *db, struct lladd_error *err)
{
    struct ll_op_catalog *cat = &db->core.cat;
    int rc = 0;
    for (size_t i = 0; !rc && i < cat->n_classes; i++) {
        const struct lladd_object_class *c = cat->classes[i]->desc;
        rc = c->attach ? c->attach(c->ctx, db, err) : 0;
    }
    return rc;
}

int ll_extensions_attach(struct lladd_db *db, const struct lladd_registry *reg,
                         struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    size_t builtin = 0, n = 0;
    while (reg->builtin[builtin])
        builtin++;
    for (size_t i = 0; i < reg->n; i++)
        n += reg->items[i].kind == LL_REGISTERED_EXTENSION;
    db->extensions = ll_alloc_zero(&core->env, (builtin + n) * sizeof *db->extensions);
    if (!db->extensions)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    core->is_allocated = ask_allocator;
    int rc = 0;
    for (size_t i = 0; !rc && i < builtin; i++)
        rc = attach(db, reg->builtin[i], err);
    for (size_t i = 0; !rc && i < reg->n; i++)
        if (reg->items[i].kind == LL_REGISTERED_EXTENSION)
            rc = attach(db, reg->items[i].desc, err);
    return rc ? rc : attach_classes(db, err);
}

int ll_extensions_create(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn_options o = {.struct_size = sizeof o, .system = true};
    struct lladd_txn *txn;
    int rc = lladd_begin(db, &o, &txn, err);
    for (size_t i = 0; !rc && i < db->n_extensions; i++) {
        struct ll_extension_state *s = &db->extensions[i];
        if (!s->ext->create)
            continue;
        rc = s->ext->create(s->ext->ctx, txn, s->state);
        if (rc) {
            if (err)
                *err = txn->err;
            if (err && err->code != rc)
                ll_fail(err, rc, "extension \"%s\" could not be created", s->ext->name);
            int undone = lladd_abort(txn); /* the open fails in any case */
            (void)undone;
            return rc;
        }
    }
    if (rc)
        return rc;
    rc = lladd_commit(txn);
    if (rc &&
        !ll_core_check(&db->core, err)) { /* the handle is not poisoned, so the transaction still
                                           * exists */
        if (err)
            *err = txn->err;
        int undone = lladd_abort(txn);
        (void)undone;
    }
    return rc;
}

int ll_extensions_recovered(struct lladd_db *db, struct lladd_error *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < db->n_extensions; i++) {
        struct ll_extension_state *s = &db->extensions[i];
        if (s->ext->recovered)
            rc = s->ext->recovered(s->ext->ctx, db, s->state, err);
    }
    return rc;
}

int ll_extensions_bulk_written(struct lladd_txn *txn, lladd_lsn barrier, lladd_pageno first,
                               uint64_t n, bool typed, const void *bytes)
{
    struct lladd_db *db = ll_db_of(txn->core);
    int rc = 0;
    for (size_t i = 0; !rc && i < db->n_extensions; i++) {
        const struct lladd_extension *e = db->extensions[i].ext;
        if (!LL_HAS(e, bulk_written))
            continue;
        txn->err.code = 0;
        rc = e->bulk_written(e->ctx, db, db->extensions[i].state, txn, barrier, first, n, typed,
                             bytes);
        if (rc && txn->err.code != rc)
            ll_fail_page(&txn->err, rc, first,
                         "extension \"%s\" refuses pages that were written in bulk", e->name);
    }
    return rc;
}

bool ll_extensions_hear_bulk(const struct lladd_db *db, const struct lladd_participant *p)
{
    for (size_t i = 0; i < db->n_extensions; i++) {
        const struct lladd_extension *e = db->extensions[i].ext;
        if (!LL_HAS(e, bulk_written) || !e->participants)
            continue;
        for (size_t k = 0; e->participants[k]; k++)
            if (e->participants[k] == p)
                return true;
    }
    return false;
}

void ll_extensions_stop(struct lladd_db *db)
{
    for (size_t i = db->n_extensions; i > 0; i--) {
        struct ll_extension_state *s = &db->extensions[i - 1];
        if (s->attached && !s->stopped && LL_HAS(s->ext, stop))
            s->ext->stop(s->ext->ctx, db, s->state);
        s->stopped = true;
    }
}

void ll_extensions_detach(struct lladd_db *db)
{
    while (db->n_extensions) {
        struct ll_extension_state *s = &db->extensions[--db->n_extensions];
        if (s->attached && s->ext->detach)
            s->ext->detach(s->ext->ctx, db, s->state);
    }
    ll_free(&db->core.env, db->extensions);
    db->extensions = NULL;
}

/* Does the root's value (`a`) name an allocated page of this type? */
static int has_type(struct lladd_db *db, struct lladd_root_value value, const char *type, bool *out,
                    struct lladd_error *err)
{
    lladd_pageno page = lladd_page_of(value.a);
    struct lladd_page *p;
    enum lladd_page_use use;
    *out = false;
    int rc = value.a < lladd_page_count(db) ? lladd_page_use_get(db, page, &use, err) : 0;
    if (rc || value.a >= lladd_page_count(db) || use != LLADD_USE_PAGED)
        return rc;
    rc = lladd_page_fix(db, page, LLADD_LATCH_SHARED, &p, err);
    if (rc)
        return rc;
    *out = lladd_page_is(db, lladd_page_view(p), type);
    lladd_page_unfix(db, p, LLADD_LATCH_SHARED);
    return 0;
}

int lladd_structure_find(struct lladd_db *db, const char *root, struct lladd_root_value value,
                         const struct lladd_structure **out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (rc || !root || !out)
        return rc ? rc : ll_fail(err, LLADD_BAD_ARGUMENT, "root or result is NULL");
    *out = NULL;
    for (size_t i = 0; !rc && !*out && i < db->n_extensions; i++) {
        const struct lladd_extension *e = db->extensions[i].ext;
        if (!LL_HAS(e, structures))
            continue;
        for (size_t k = 0; !rc && !*out && e->structures[k]; k++) {
            const struct lladd_structure *s = e->structures[k];
            bool is = !s->root || strcmp(s->root, root) == 0;
            if (is && s->page_type)
                rc = has_type(db, value, s->page_type, &is, err);
            if (!rc && is)
                *out = s;
        }
    }
    return rc;
}

void *lladd_extension_state(struct lladd_db *db, const struct lladd_extension *ext)
{
    for (size_t i = 0; i < db->n_extensions; i++)
        if (db->extensions[i].ext == ext)
            return db->extensions[i].state;
    return NULL;
}
