/* SPDX-License-Identifier: BSD-2-Clause */
/* Building a run. Each layer of the configuration has a builder. The list of builders is the tree
 * of layers in depth-first order: each layer, then its children in the order of its parameters. A
 * layer's number is its position in this list, counted from 0; readers use the same numbers. */
#include "operations/dtables/core/build.h"

#include <lladd/blob.h>
#include <lladd/bulk.h>

#define BLOCK_BYTES (8u << 10)

/* ---- layers ---------------------------------------------------------------------------------- */

static int new_layer(struct lladd_dtable_run_builder *run, const struct lladd_dtable_config *c,
                     struct lladd_dtable_builder *parent, const char *slot)
{
    size_t size = c->kind->builder_size ? c->kind->builder_size
                                        : sizeof(struct lladd_dtable_builder);
    struct lladd_dtable_builder *b = lladd_mem_alloc(run->db, size);
    if (!b)
        return ll_dtable__no_memory(run->error);
    memset(b, 0, size);
    b->kind = c->kind;
    b->config = c;
    b->db = run->db;
    b->error = run->error;
    b->order = run->order;
    b->run_ = run;
    b->parent_ = parent;
    b->slot_ = slot;
    b->number_ = run->d.n_layers++;
    b->packed_ = parent && (parent->packed_ || parent->kind->packs);
    if (run->last_layer)
        run->last_layer->next_ = b;
    else
        run->layers = b;
    run->last_layer = b;
    if (parent && strcmp(slot, "base") == 0)
        parent->base = b;
    int rc = 0;
    for (size_t i = 0; i < ll_dtable__n_params(c->kind) && !rc; i++)
        for (const struct lladd_dtable_config *below = c->params[i].child; below && !rc;
             below = below->next)
            rc = new_layer(run, below, b, c->kind->params[i].name);
    return rc;
}

struct lladd_dtable_builder *lladd_dtable_builder_child(struct lladd_dtable_builder *b,
                                                        const char *name)
{
    return lladd_dtable_builder_layer(b, name, 0);
}

struct lladd_dtable_builder *lladd_dtable_builder_layer(struct lladd_dtable_builder *b,
                                                        const char *name, size_t i)
{
    for (struct lladd_dtable_builder *c = b->next_; c; c = c->next_)
        if (c->parent_ == b && strcmp(c->slot_, name) == 0 && i-- == 0)
            return c;
    return NULL;
}

/* Adds a row to a layer without `add`: encodes the value, if the class has `encode`, and adds the
 * row to the base. */
static int pass_on(struct lladd_dtable_builder *b, const struct lladd_dtable_key *key,
                   const struct lladd_dtable_value *value)
{
    struct lladd_dtable_value below = *value;
    unsigned char room[16];
    int rc = 0;
    if (b->kind->encode && value->state == LLADD_DTABLE_FOUND)
        rc = b->kind->encode(b->config, value->bytes, room, &below.bytes);
    return rc ? rc : lladd_dtable_add(b->base, key, &below);
}

int lladd_dtable_add(struct lladd_dtable_builder *b, const struct lladd_dtable_key *key,
                     const struct lladd_dtable_value *value)
{
    if (!ll_dtable__can_store(&b->config->caps, value))
        return LLADD_DTABLE_REJECT;
    b->place = b->rows_;
    TRY(b->kind->add ? b->kind->add(b, key, value) : pass_on(b, key, value));
    b->rows_++;
    if (b->base)
        b->place = b->base->place;
    return 0;
}

int lladd_dtable_stream(struct lladd_dtable_builder *b, const char *name,
                        struct lladd_dtable_writer **out)
{
    return ll_dtable__writer(b->run_, b->number_, b->packed_, name, out);
}

uint32_t lladd_dtable_block_size(const struct lladd_dtable_builder *b)
{
    return b->run_->d.block_size;
}

int lladd_dtable_footer(struct lladd_dtable_builder *b, const void *bytes, size_t len)
{
    enum { FOOTER_MAX = 64 << 10 };
    unsigned char *footer = len <= FOOTER_MAX ? lladd_mem_alloc(b->db, len + 1) : NULL;
    if (len > FOOTER_MAX)
        return lladd_error_set(b->error, LLADD_TOO_LARGE, "a footer of %zu bytes", len);
    if (!footer)
        return ll_dtable__no_memory(b->error);
    memcpy(footer, bytes, len);
    lladd_mem_free(b->db, b->footer_);
    b->footer_ = footer;
    b->footer_len_ = len;
    return 0;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void release(struct lladd_dtable_run_builder *run)
{
    struct lladd_db *db = run->db;
    for (struct lladd_dtable_builder *b = run->layers, *next; b; b = next) {
        next = b->next_;
        if (b->kind->discard && b->begun_)
            b->kind->discard(b);
        lladd_mem_free(db, b->footer_);
        lladd_mem_free(db, b);
    }
    for (struct lladd_dtable_writer *w = run->writers, *next; w; w = next) {
        next = w->next;
        ll_dtable__writer_free(w);
    }
    lladd_dtable_config_free(run->parsed);
    lladd_mem_free(db, run->min.data);
    lladd_mem_free(db, run->last.data);
    lladd_mem_free(db, run->range_end.data);
    lladd_mem_free(db, run);
}

static int block_pages(struct lladd_dtable_run_builder *run, uint32_t bytes)
{
    uint32_t page = lladd_page_size(run->db);
    if (bytes > 1u << 20 || (bytes && bytes % page))
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "blocks of %u bytes; whole pages of %u, up to 1 MiB, are possible",
                               bytes, page);
    bytes = bytes ? bytes : BLOCK_BYTES > page ? BLOCK_BYTES : page;
    run->d.block_pages = bytes / page;
    run->d.block_size = run->d.block_pages * lladd_body_size(page);
    return 0;
}

static int settle(struct lladd_dtable_run_builder *run, const struct lladd_dtable_run_options *o)
{
    size_t name = o->name ? strlen(o->name) : 0;
    unsigned char id[8];
    run->order.type = o->type;
    if (!lladd_dtable_type_name(o->type) || name > 63)
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "a run without a type of keys, or with a name of %zu bytes", name);
    if (name)
        memcpy(run->name, o->name, name);
    if (o->comparator && o->type != LLADD_DTABLE_BYTES)
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "a comparator for keys that are not bytes");
    int rc = block_pages(run, o->block_bytes);
    if (!rc)
        rc = ll_dtable__comparator(run->all, o->comparator, &run->order.comparator, run->error);
    run->config = o->config;
    if (!rc && !o->config) {
        rc = lladd_dtable_config_parse(run->db, o->text ? o->text : "class(dt) linear_dtable",
                                       &run->parsed, run->error);
        run->config = run->parsed;
    }
    if (rc)
        return rc;
    if (!run->config->checked)
        return lladd_error_set(run->error, LLADD_BAD_STATE,
                               "the configuration was not checked (lladd_dtable_config_check)");
    rc = ll_dtable__config_has(run->config, o->type, run->error);
    if (!rc && lladd_random_bytes(run->db, id, sizeof id))
        rc = lladd_error_set(run->error, LLADD_NO_ACCESS, "no random bytes for a run");
    run->d.id = rc ? 0 : lladd_get64(id);
    return rc;
}

int lladd_dtable_run_begin(struct lladd_txn *txn, const struct lladd_dtable_run_options *options,
                           struct lladd_dtable_run_builder **out)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    TRY(lladd_check_process(db, lladd_txn_error_out(txn)));
    memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    struct lladd_dtable_run_builder *run = lladd_mem_alloc(db, sizeof *run);
    if (!run)
        return ll_dtable__no_memory(lladd_txn_error_out(txn));
    *run = (struct lladd_dtable_run_builder){
        .txn = txn, .db = db, .all = ll_dtables_of(db), .min.db = db, .last.db = db, .d.db = db,
        .range_end.db = db};
    run->error = lladd_txn_error_out(txn);
    run->alive = lladd_db_alive(db);
    int rc = settle(run, &o);
    if (!rc)
        rc = new_layer(run, run->config, NULL, "");
    for (struct lladd_dtable_builder *b = run->layers; b && !rc; b = b->next_) {
        b->begun_ = true;
        rc = b->kind->begin ? b->kind->begin(b) : 0;
    }
    if (rc)
        release(run);
    else
        *out = run;
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct lladd_dtable_key key_of(const struct lladd_dtable_run_builder *run, uint64_t number,
                                      const struct ll_dtable_bytes *bytes)
{
    struct lladd_dtable_key k = {run->order.type, number, {bytes->data, bytes->len}};
    return k;
}

static int may_build(const struct lladd_dtable_run_builder *run)
{
    int rc = run->alive && lladd_atomic_load32(run->alive)
                 ? 0
                 : lladd_check_process(run->db, run->error);
    return rc || !run->broken ? rc
                              : lladd_error_set(run->error, LLADD_BAD_STATE,
                                                "the run failed before: discard it");
}

static int check_row(struct lladd_dtable_run_builder *run, const struct lladd_dtable_key *key,
                     const struct lladd_dtable_value *value)
{
    TRY(may_build(run));
    TRY(lladd_dtable_check_key(&run->order, key, run->error));
    if (value->state != LLADD_DTABLE_FOUND && value->state != LLADD_DTABLE_TOMBSTONE &&
        !(value->state == LLADD_DTABLE_ABSENT && run->config->caps.absent))
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT, "a row without value or tombstone");
    if (value->state == LLADD_DTABLE_FOUND && value->bytes.len > LLADD_DTABLE_VALUE_MAX)
        return lladd_error_set(run->error, LLADD_TOO_LARGE, "a value of %zu bytes",
                               value->bytes.len);
    struct lladd_dtable_key last = key_of(run, run->d.max.number, &run->last);
    if (run->d.rows && lladd_dtable_compare(&run->order, &last, key) >= 0)
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "row %llu of a run: keys must ascend",
                               (unsigned long long)run->d.rows);
    return 0;
}

/* Allocates the memory that note_row needs. Called before the row is added, because note_row must
 * not fail. */
static int reserve_key(struct lladd_dtable_run_builder *run, const struct lladd_dtable_key *key)
{
    size_t n = run->order.type < LLADD_DTABLE_STRING ? 0 : key->bytes.len;
    if (n == 0)
        return 0;
    if (run->d.rows == 0 && ll_dtable__append(&run->min, key->bytes.data, n))
        return ll_dtable__no_memory(run->error);
    if (n > run->last.cap) {
        size_t was = run->last.len;
        if (!ll_dtable__more(&run->last, n))
            return ll_dtable__no_memory(run->error);
        run->last.len = was;
    }
    return 0;
}

static void note_row(struct lladd_dtable_run_builder *run, const struct lladd_dtable_key *key,
                     const struct lladd_dtable_value *value)
{
    bool bytes = run->order.type >= LLADD_DTABLE_STRING;
    if (run->d.rows++ == 0)
        run->d.min.number = bytes ? 0 : key->number;
    run->d.max.number = bytes ? 0 : key->number;
    run->last.len = bytes ? key->bytes.len : 0;
    if (run->last.len)
        memcpy(run->last.data, key->bytes.data, run->last.len);
    run->d.tombstones += value->state == LLADD_DTABLE_TOMBSTONE;
    run->d.row_bytes += bytes ? key->bytes.len : run->order.type == LLADD_DTABLE_U32 ? 4u : 8u;
    run->d.row_bytes += value->state == LLADD_DTABLE_FOUND ? value->bytes.len : 0;
}

int lladd_dtable_run_add(struct lladd_dtable_run_builder *run, const struct lladd_dtable_key *key,
                         const struct lladd_dtable_value *value)
{
    int rc = check_row(run, key, value);
    if (!rc) {
        rc = reserve_key(run, key);
        rc = rc ? rc : lladd_dtable_add(run->layers, key, value);
        if (rc < 0)
            run->broken = rc;
    }
    if (run->d.rows == 0 && rc)
        run->min.len = 0;
    if (rc == LLADD_DTABLE_REJECT)
        return lladd_error_set(run->error, LLADD_REJECTED,
                               "row %llu of a run: %s cannot store a %s of %zu bytes",
                               (unsigned long long)run->d.rows, run->config->kind->name,
                               value->state == LLADD_DTABLE_FOUND ? "value" : "tombstone",
                               value->state == LLADD_DTABLE_FOUND ? value->bytes.len : 0);
    if (!rc)
        note_row(run, key, value);
    return rc;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int check_range(const struct lladd_dtable_run_builder *run,
                       const struct lladd_dtable_key *from, const struct lladd_dtable_key *to)
{
    TRY(may_build(run));
    if (from)
        TRY(lladd_dtable_check_key(&run->order, from, run->error));
    if (to)
        TRY(lladd_dtable_check_key(&run->order, to, run->error));
    struct lladd_dtable_key last = key_of(run, run->range_number, &run->range_end);
    if ((from && to && lladd_dtable_compare(&run->order, from, to) >= 0) ||
        (run->ranges && (run->range_open || !from ||
                         lladd_dtable_compare(&run->order, &last, from) >= 0)))
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "range %llu of a run: ranges must not be empty, must ascend, "
                               "and must not touch",
                               (unsigned long long)run->ranges);
    return run->config->caps.ranges
               ? 0
               : lladd_error_set(run->error, LLADD_REJECTED,
                                 "range %llu of a run: %s stores no ranges",
                                 (unsigned long long)run->ranges, run->config->kind->name);
}

int lladd_dtable_run_add_range(struct lladd_dtable_run_builder *run,
                               const struct lladd_dtable_key *from,
                               const struct lladd_dtable_key *to)
{
    struct lladd_dtable_builder *b = run->layers;
    TRY(check_range(run, from, to));
    size_t n = to && run->order.type >= LLADD_DTABLE_STRING ? to->bytes.len : 0;
    run->range_end.len = 0;
    if (n && ll_dtable__append(&run->range_end, to->bytes.data, n))
        return run->broken = ll_dtable__no_memory(run->error);
    while (!b->kind->add_range)
        b = b->base;
    int rc = b->kind->add_range(b, from, to);
    if (rc == LLADD_DTABLE_REJECT)
        rc = lladd_error_set(run->error, LLADD_REJECTED, "range %llu of a run cannot be stored",
                             (unsigned long long)run->ranges);
    if (rc)
        return run->broken = rc;
    run->range_open = !to;
    run->range_number = to ? to->number : 0;
    run->ranges++;
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int finish_layer(struct lladd_dtable_builder *b)
{
    int rc = 0;
    for (struct lladd_dtable_builder *c = b->next_; c && !rc; c = c->next_)
        if (c->parent_ == b)
            rc = finish_layer(c);
    return rc ? rc : b->kind->finish ? b->kind->finish(b) : 0;
}

/* Fills in the descriptor. The arrays of footers and versions are indexed by the number of a layer,
 * the array of streams by the number of a stream. */
static int gather(struct lladd_dtable_run_builder *run)
{
    struct ll_dtable_descriptor *d = &run->d;
    d->footers = lladd_mem_alloc(run->db, (d->n_layers + 1) * sizeof *d->footers);
    d->versions = lladd_mem_alloc(run->db, (d->n_layers + 1) * sizeof *d->versions);
    d->streams = lladd_mem_alloc(run->db, (d->n_streams + 1) * sizeof *d->streams);
    if (!d->footers || !d->versions || !d->streams)
        return ll_dtable__no_memory(run->error);
    for (const struct lladd_dtable_builder *b = run->layers; b; b = b->next_) {
        d->footers[b->number_] = lladd_span_of(b->footer_, b->footer_len_);
        d->versions[b->number_] = b->kind->version;
    }
    for (const struct lladd_dtable_writer *w = run->writers; w; w = w->next)
        d->streams[w->number] = w->stream;
    d->type = run->order.type;
    d->name = run->name;
    d->comparator = run->order.comparator ? run->order.comparator->name : "";
    d->min = key_of(run, d->min.number, &run->min);
    d->max = key_of(run, d->max.number, &run->last);
    return 0;
}

static int write_descriptor(struct lladd_dtable_run_builder *run, lladd_pageno *root)
{
    struct ll_dtable_bytes all = {.db = run->db};
    char *text = NULL;
    int rc = lladd_dtable_config_text(run->config, &text, run->error);
    rc = rc ? rc : gather(run);
    if (!rc) {
        run->d.config = text;
        rc = ll_dtable__describe(&run->d, &all) ? ll_dtable__no_memory(run->error) : 0;
    }
    if (!rc)
        rc = lladd_blob_create(run->txn, all.data, all.len, root);
    lladd_mem_free(run->db, text);
    lladd_mem_free(run->db, all.data);
    lladd_mem_free(run->db, run->d.footers);
    lladd_mem_free(run->db, run->d.versions);
    lladd_mem_free(run->db, run->d.streams);
    run->d.footers = NULL;
    run->d.versions = NULL;
    run->d.streams = NULL;
    return rc;
}

int lladd_dtable_run_finish(struct lladd_dtable_run_builder *run, lladd_pageno *root)
{
    TRY(may_build(run));
    int rc = finish_layer(run->layers);
    if (!rc)
        rc = ll_dtable__writers_end(run);
    if (!rc && run->writers)
        rc = lladd_bulk_sync(run->txn);
    if (!rc)
        rc = write_descriptor(run, root);
    run->broken = rc;
    if (!rc)
        release(run);
    return rc;
}

int lladd_dtable_run_discard(struct lladd_dtable_run_builder *run)
{
    int rc = run ? lladd_check_process(run->db, run->error) : 0;
    if (!run || rc)
        return rc;
    for (struct lladd_dtable_writer *w = run->writers; w; w = w->next) {
        int freed = ll_dtable__writer_discard(w);
        rc = rc ? rc : freed;
    }
    int given = ll_dtable__give_spare(run);
    rc = rc ? rc : given;
    release(run);
    return rc;
}
