/* SPDX-License-Identifier: BSD-2-Clause */
/* Open runs. An open run has its descriptor in memory, and a reader for each layer. */
#include "operations/dtables/core/dtable.h"

#include <lladd/blob.h>

#include <stdio.h>

/* ---- names for messages ---------------------------------------------------------------------- */

/* Writes the path of a layer, e.g. "base.alt", and returns its length. */
static size_t path_of(const struct lladd_dtable *t, char *out, size_t size)
{
    size_t n = t->parent_ ? path_of(t->parent_, out, size) : 0;
    int more = n < size ? snprintf(out + n, size - n, "%s%s", n ? "." : "",
                                   t->parent_ ? t->slot_ : "")
                        : 0;
    return n + (more > 0 ? (size_t)more : 0);
}

static const struct lladd_dtable *layer_of(const struct ll_dtable_run *run, uint32_t number)
{
    const struct lladd_dtable *t = run->layers;
    while (t && t->number_ != number)
        t = t->next_;
    return t;
}

void ll_dtable__where(const struct ll_dtable_run *run, uint32_t layer, const char *stream,
                      char *out, size_t size)
{
    const struct lladd_dtable *t = layer_of(run, layer);
    char path[48] = "";
    if (t)
        (void)path_of(t, path, sizeof path);
    (void)snprintf(out, size, "run \"%s\" of page %llu%s%s (%s)%s%s", run->d.name,
                   (unsigned long long)run->root.v, *path ? ", layer " : "", path,
                   t ? t->kind->name : "?", *stream ? ", stream " : "", stream);
}

int lladd_dtable_corrupt(const struct lladd_dtable *t, struct lladd_error *err, const char *what)
{
    char where[160] = "a dTable";
    if (t->run_)
        ll_dtable__where(t->run_, t->number_, "", where, sizeof where);
    return lladd_error_set(err, LLADD_CORRUPT_RUN, "%s: %.80s", where, what);
}

/* ---- what readers ask for -------------------------------------------------------------------- */

struct lladd_dtable *lladd_dtable_child(const struct lladd_dtable *t, const char *name)
{
    return lladd_dtable_layer(t, name, 0);
}

struct lladd_dtable *lladd_dtable_layer(const struct lladd_dtable *t, const char *name, size_t i)
{
    for (struct lladd_dtable *c = t->next_; c; c = c->next_)
        if (c->parent_ == t && strcmp(c->slot_, name) == 0 && i-- == 0)
            return c;
    return NULL;
}

int lladd_dtable_source_open(const struct lladd_dtable *t, const char *name,
                        const struct lladd_dtable_source **out, struct lladd_error *err)
{
    const struct ll_dtable_run *run = t->run_;
    for (uint32_t i = 0; i < run->d.n_streams; i++) {
        const struct lladd_dtable_source *s = &run->sources[i];
        if (s->stream->layer == t->number_ && strcmp(s->stream->name, name) == 0) {
            *out = s;
            return 0;
        }
    }
    return lladd_dtable_corrupt(t, err, "a stream is missing");
}

void lladd_dtable_source_check(const struct lladd_dtable *t, const struct lladd_dtable_source *s,
                               int (*check)(const struct lladd_dtable *, uint64_t,
                                            const unsigned char *, uint32_t, struct lladd_error *))
{
    struct lladd_dtable_source *own = &t->run_->sources[s->number];
    own->check = check;
    own->checker = t;
}

uint64_t lladd_dtable_source_size(const struct lladd_dtable_source *s)
{
    return s->size;
}

uint32_t lladd_dtable_source_block(const struct lladd_dtable_source *s)
{
    return s->block_size;
}

uint64_t lladd_dtable_source_blocks(const struct lladd_dtable_source *s)
{
    return s->n_blocks;
}

int lladd_dtable_load(struct lladd_dtable *t, const struct lladd_dtable_source *s,
                      const unsigned char **out, struct lladd_error *err)
{
    struct ll_dtable_run *run = t->run_;
    uint64_t size = s->size;
    size_t block = (size_t)run->d.block_pages * lladd_page_size(t->db);
    if (run->loaded[s->number]) {
        *out = run->loaded[s->number];
        return 0;
    }
    if (size > SIZE_MAX / 2 - block)
        return ll_dtable__no_memory(err);
    /* Room for one more block, because each block is read in place, with its page headers. */
    unsigned char *all = lladd_mem_alloc(t->db, (size_t)size + block);
    if (!all)
        return ll_dtable__no_memory(err);
    memset(all + size, 0, block);
    int rc = 0;
    for (uint64_t i = 0; i < s->n_blocks && !rc; i++) {
        uint32_t len;
        rc = ll_dtable__read_block(s, i, all + i * s->block_size, &len, err);
    }
    if (rc) {
        lladd_mem_free(t->db, all);
        return rc;
    }
    run->loaded[s->number] = all;
    run->fixed_bytes += size + block;
    *out = all;
    return 0;
}

struct ll_dtable_kept {
    struct ll_dtable_kept *next;
    uint64_t bytes[];
};

void *lladd_dtable_keep(struct lladd_dtable *t, size_t size)
{
    struct ll_dtable_run *run = t->run_;
    struct ll_dtable_kept *k = NULL;
    if (size < SIZE_MAX - sizeof *k)
        k = lladd_mem_alloc(t->db, sizeof *k + size);
    if (!k)
        return NULL;
    k->next = run->kept;
    run->kept = k;
    run->fixed_bytes += sizeof *k + size;
    return k->bytes;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void release(struct ll_dtable_run *run)
{
    struct lladd_db *db = run->all->db;
    for (struct lladd_dtable *t = run->layers; t; t = t->next_)
        if (t->opened_ && t->kind->close)
            t->kind->close(t);
    ll_dtable__cache_drop(run);
    ll_dtable__cache_give(run->all, run->fixed_bytes);
    for (struct lladd_dtable *t = run->layers, *next; t; t = next) {
        next = t->next_;
        lladd_mem_free(db, t);
    }
    for (uint32_t i = 0; i < run->d.n_streams; i++) {
        if (run->sources) {
            lladd_mem_free(db, run->sources[i].slots);
            lladd_mem_free(db, run->sources[i].map);
        }
        if (run->loaded)
            lladd_mem_free(db, run->loaded[i]);
    }
    for (struct ll_dtable_kept *k = run->kept, *next; k; k = next) {
        next = k->next;
        lladd_mem_free(db, k);
    }
    lladd_mem_free(db, run->sources);
    lladd_mem_free(db, run->loaded);
    lladd_dtable_config_free(run->config);
    ll_dtable__descriptor_free(&run->d);
    lladd_mem_free(db, run);
}

static int new_layer(struct ll_dtable_run *run, struct lladd_dtable **tail,
                     const struct lladd_dtable_config *c, struct lladd_dtable *parent,
                     const char *slot, uint32_t *number, struct lladd_error *err)
{
    size_t size = c->kind->reader_size ? c->kind->reader_size : sizeof(struct lladd_dtable);
    struct lladd_dtable *t = lladd_mem_alloc(run->all->db, size);
    if (!t)
        return ll_dtable__no_memory(err);
    memset(t, 0, size);
    t->kind = c->kind;
    t->config = c;
    t->db = run->all->db;
    t->order = run->order;
    t->has_places = c->caps.places;
    t->parent_ = parent;
    t->slot_ = slot;
    t->run_ = run;
    t->number_ = (*number)++;
    t->packed_ = parent && (parent->packed_ || parent->kind->packs);
    if (*tail)
        (*tail)->next_ = t;
    else
        run->layers = t;
    *tail = t;
    if (t->number_ >= run->d.n_layers)
        return lladd_dtable_corrupt(t, err, "its configuration has too many layers");
    if (run->d.versions[t->number_] > c->kind->version)
        return lladd_error_set(err, LLADD_NEWER_FORMAT, "%s of version %u; %u is known",
                               c->kind->name, run->d.versions[t->number_], c->kind->version);
    t->version = run->d.versions[t->number_];
    t->footer = run->d.footers[t->number_];
    if (parent && strcmp(slot, "base") == 0)
        parent->base = t;
    int rc = 0;
    for (size_t i = 0; i < ll_dtable__n_params(c->kind) && !rc; i++)
        for (const struct lladd_dtable_config *below = c->params[i].child; below && !rc;
             below = below->next)
            rc = new_layer(run, tail, below, t, c->kind->params[i].name, number, err);
    return rc;
}

static int make_sources(struct ll_dtable_run *run, struct lladd_error *err)
{
    struct lladd_db *db = run->all->db;
    size_t n = run->d.n_streams;
    run->loaded = ll_dtable__zeros(db, n, sizeof *run->loaded);
    run->sources = ll_dtable__zeros(db, n, sizeof *run->sources);
    if (!run->sources || !run->loaded)
        return ll_dtable__no_memory(err);
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct lladd_dtable_source *s = &run->sources[i];
        const struct ll_dtable_stream *stream = &run->d.streams[i];
        *s = (struct lladd_dtable_source){.run = run,
                                          .stream = stream,
                                          .number = i,
                                          .block_size = run->d.block_size,
                                          .size = stream->size,
                                          .n_blocks = stream->n_blocks};
        if (layer_of(run, stream->layer)->packed_)
            rc = ll_dtable__packed_open(s, err);
        if (rc)
            break;
        s->slots = ll_dtable__zeros(db, (size_t)s->n_blocks, sizeof *s->slots);
        rc = s->slots ? 0 : ll_dtable__no_memory(err);
        run->fixed_bytes += (s->n_blocks + 1) * sizeof *s->slots;
        run->fixed_bytes += s->map ? s->n_blocks * sizeof *s->map : 0;
    }
    return rc;
}

/* Checks that the first key is before the last one. If not, and the run has a comparator, the
 * comparator registered under this name now has another order than the one with which the run was
 * built. This check does not find every change of the order. */
static int check_order(const struct ll_dtable_run *run, struct lladd_error *err)
{
    const struct ll_dtable_descriptor *d = &run->d;
    int c = d->rows ? lladd_dtable_compare(&run->order, &d->min, &d->max) : 0;
    char where[160];
    if (d->rows == 0 || (d->rows == 1 ? c == 0 : c < 0))
        return 0;
    if (!run->order.comparator)
        return lladd_dtable_corrupt(run->layers, err, "its first key is not before its last one");
    ll_dtable__where(run, 0, "", where, sizeof where);
    return lladd_error_set(err, LLADD_OTHER_ORDER,
                           "%s: comparator \"%s\" has another order than when the run was built",
                           where, run->order.comparator->name);
}

static int open_layer(struct lladd_dtable *t, struct lladd_error *err)
{
    int rc = 0;
    for (struct lladd_dtable *c = t->next_; c && !rc; c = c->next_)
        if (c->parent_ == t)
            rc = open_layer(c, err);
    if (!rc && t->base) {
        t->places = t->base->places;
        t->ranges = t->base->ranges;
    }
    if (!rc && t->kind->open)
        rc = t->kind->open(t, err);
    t->opened_ = !rc;
    return rc;
}

static int open_all(struct ll_dtable_run *run, struct lladd_error *err)
{
    struct lladd_dtable *tail = NULL;
    uint32_t layers = 0;
    struct ll_dtable_descriptor *d = &run->d;
    TRY(ll_dtable__read_descriptor(run->all->db, run->root, d, err));
    run->order.type = d->type;
    TRY(ll_dtable__comparator(run->all, d->comparator, &run->order.comparator, err));
    TRY(lladd_dtable_config_parse(run->all->db, d->config, &run->config, err));
    TRY(lladd_dtable_config_check(run->config, d->type, err));
    TRY(new_layer(run, &tail, run->config, NULL, "", &layers, err));
    if (layers != d->n_layers)
        return lladd_dtable_corrupt(run->layers, err, "its configuration has too few layers");
    TRY(check_order(run, err));
    TRY(make_sources(run, err));
    TRY(open_layer(run->layers, err));
    if (d->rows && run->layers->ranges == 0) {
        struct lladd_dtable_key_range *f = &run->layers->key_range;
        *f = (struct lladd_dtable_key_range)LLADD_DTABLE_KEY_RANGE_EMPTY;
        lladd_dtable_key_range_widen(f, lladd_dtable_prefix(&run->order, &d->min));
        lladd_dtable_key_range_widen(f, lladd_dtable_prefix(&run->order, &d->max));
    }
    return 0;
}

int lladd_dtable_run_open(struct lladd_db *db, lladd_pageno root, struct lladd_dtable **out,
                          struct lladd_error *err)
{
    struct ll_dtables *d = ll_dtables_of(db);
    TRY(lladd_check_process(db, err));
    struct ll_dtable_run *run = lladd_mem_alloc(db, sizeof *run);
    if (!run)
        return ll_dtable__no_memory(err);
    *run = (struct ll_dtable_run){.all = d, .root = root, .d.db = db, .alive = lladd_db_alive(db)};
    lladd_mutex_lock(&d->cache.mutex);
    run->next = d->opening; /* while it is in this list, lladd_dtable_run_free refuses to free the
                             * run */
    d->opening = run;
    lladd_mutex_unlock(&d->cache.mutex);
    int rc = open_all(run, err);
    ll_dtable__cache_take(d, run->fixed_bytes);
    lladd_mutex_lock(&d->cache.mutex);
    struct ll_dtable_run **at = &d->opening;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    run->next = rc ? NULL : d->runs;
    d->runs = rc ? d->runs : run;
    lladd_mutex_unlock(&d->cache.mutex);
    if (rc) {
        release(run);
        return rc;
    }
    *out = run->layers;
    return 0;
}

static void forget(struct ll_dtable_run *run)
{
    struct ll_dtables *d = run->all;
    lladd_mutex_lock(&d->cache.mutex);
    struct ll_dtable_run **at = &d->runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    if (d->cache.hand == run)
        d->cache.hand = NULL;
    lladd_mutex_unlock(&d->cache.mutex);
}

void lladd_dtable_close(struct lladd_dtable *t)
{
    if (!t)
        return;
    if (t->run_) {
        forget(t->run_);
        release(t->run_);
        return;
    }
    t->kind->close(t);
    lladd_mem_free(t->db, t);
}

/* ---- freeing --------------------------------------------------------------------------------- */

static int is_open(struct ll_dtables *d, lladd_pageno root, struct lladd_error *err)
{
    bool open = false;
    lladd_mutex_lock(&d->cache.mutex);
    for (const struct ll_dtable_run *r = d->runs; r; r = r->next)
        open = open || r->root.v == root.v;
    for (const struct ll_dtable_run *r = d->opening; r; r = r->next)
        open = open || r->root.v == root.v;
    lladd_mutex_unlock(&d->cache.mutex);
    return open ? lladd_error_set(err, LLADD_BUSY, "the run of page %llu is open",
                                  (unsigned long long)root.v)
                : 0;
}

int lladd_dtable_run_free(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_dtable_descriptor d;
    lladd_savepoint_id before;
    TRY(lladd_check_process(db, err));
    TRY(is_open(ll_dtables_of(db), root, err));
    TRY(ll_dtable__read_descriptor(db, root, &d, err));
    int rc = lladd_savepoint(txn, &before);
    if (rc) {
        ll_dtable__descriptor_free(&d);
        return rc;
    }
    for (uint32_t i = 0; i < d.n_streams && !rc; i++) {
        const struct ll_dtable_stream *s = &d.streams[i];
        for (size_t e = 0; e < s->n_extents && !rc; e++)
            rc = lladd_extent_free(txn, lladd_page_of(s->extents[e].first), s->extents[e].pages);
    }
    if (!rc)
        rc = lladd_blob_destroy(txn, root);
    ll_dtable__descriptor_free(&d);
    if (!rc)
        return lladd_savepoint_release(txn, before);
    struct lladd_error why = *lladd_txn_error(txn);
    int undone = lladd_rollback_to(txn, before);
    *lladd_txn_error_out(txn) = why;
    return undone ? undone : rc;
}

/* ---- information about a run ----------------------------------------------------------------- */

static int run_of(const struct lladd_dtable *t, const struct ll_dtable_run **out,
                  struct lladd_error *err)
{
    int rc = ll_dtable__here(t, err);
    *out = t->run_;
    return rc ? rc
           : t->run_ && t->run_->layers == t
               ? 0
               : lladd_error_set(err, LLADD_WRONG_TYPE, "the table is not a run");
}

int lladd_dtable_run_info_get(const struct lladd_dtable *t, struct lladd_dtable_run_info *out,
                          struct lladd_error *err)
{
    const struct ll_dtable_run *run;
    TRY(run_of(t, &run, err));
    const struct ll_dtable_descriptor *d = &run->d;
    struct lladd_dtable_run_info info = {.struct_size = out->struct_size,
                                         .id = d->id,
                                         .rows = d->rows,
                                         .tombstones = d->tombstones,
                                         .row_bytes = d->row_bytes,
                                         .block_size = d->block_size,
                                         .version = d->version,
                                         .type = d->type,
                                         .comparator = *d->comparator ? d->comparator : NULL,
                                         .config = d->config,
                                         .name = d->name,
                                         .min = d->min,
                                         .max = d->max,
                                         .ranges = t->ranges};
    for (uint32_t i = 0; i < d->n_streams; i++) {
        info.bytes += d->streams[i].size;
        for (size_t e = 0; e < d->streams[i].n_extents; e++)
            info.pages += d->streams[i].extents[e].pages;
    }
    memcpy(out, &info, info.struct_size < sizeof info ? info.struct_size : sizeof info);
    return 0;
}

int lladd_dtable_run_pages(struct lladd_db *db, lladd_pageno root,
                           int (*fn)(void *ctx, lladd_pageno), void *ctx, struct lladd_error *err)
{
    struct ll_dtable_descriptor d;
    TRY(lladd_check_process(db, err));
    TRY(ll_dtable__read_descriptor(db, root, &d, err));
    int rc = 0;
    for (uint32_t i = 0; i < d.n_streams; i++)
        for (size_t e = 0; e < d.streams[i].n_extents; e++)
            for (uint64_t p = 0; p < d.streams[i].extents[e].pages && !rc; p++)
                rc = fn(ctx, lladd_page_of(d.streams[i].extents[e].first + p));
    ll_dtable__descriptor_free(&d);
    return rc ? rc : lladd_blob_pages(db, root, fn, ctx, err);
}

/* ---- verification ---------------------------------------------------------------------------- */

static int check_blocks(const struct ll_dtable_run *run, struct lladd_error *err)
{
    struct lladd_db *db = run->all->db;
    unsigned char *buffer = lladd_mem_alloc(db, (size_t)run->d.block_pages * lladd_page_size(db));
    int rc = buffer ? 0 : ll_dtable__no_memory(err);
    for (uint32_t i = 0; i < run->d.n_streams && !rc; i++)
        for (uint64_t b = 0; b < run->d.streams[i].n_blocks && !rc; b++) {
            uint32_t len;
            rc = ll_dtable__fetch(&run->sources[i], b, buffer, &len, err);
        }
    lladd_mem_free(db, buffer);
    return rc;
}

static bool same_bytes(struct lladd_span a, struct lladd_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_key(const struct lladd_dtable_key *a, const struct lladd_dtable_key *b)
{
    return a->number == b->number && same_bytes(a->bytes, b->bytes);
}

/* Detects a key that no caller can have stored, such as a u32 key of 33 bits. */
static int check_key(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                     struct lladd_error *err)
{
    return lladd_dtable_check_key(&t->order, key, NULL)
               ? lladd_dtable_corrupt(t, err, "a stored key does not fit the type of its keys")
               : 0;
}

/* Looks the key up and compares the result with the cursor's row: indexes and filters must not hide
 * rows. */
static int check_lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                        const struct lladd_dtable_value *value, struct lladd_dtable_pin *pin,
                        struct lladd_error *err)
{
    struct lladd_dtable_value v;
    int rc = lladd_dtable_lookup(t, key, pin, &v, err);
    bool bytes = !rc && v.state == LLADD_DTABLE_FOUND; /* only a row that is found has bytes */
    if (rc || (v.state == value->state && (!bytes || same_bytes(v.bytes, value->bytes))))
        return rc;
    return lladd_dtable_corrupt(t, err, "a lookup of a row's key does not find the row");
}

static int check_rows(const struct lladd_dtable *t, struct lladd_dtable_cursor *c,
                      struct lladd_error *err)
{
    const struct ll_dtable_descriptor *d = &t->run_->d;
    struct ll_dtable_bytes last = {.db = t->db};
    struct lladd_dtable_key key = {.type = d->type};
    struct lladd_dtable_value value;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    uint64_t rows = 0, tombstones = 0;
    int rc = lladd_dtable_first(c, err);
    while (!rc) {
        struct lladd_dtable_key before = {d->type, key.number, {last.data, last.len}};
        rc = lladd_dtable_row(c, &key, &value, err);
        if (rc)
            break;
        if (rows && lladd_dtable_compare(&t->order, &before, &key) >= 0)
            rc = lladd_dtable_corrupt(t, err, "rows are out of order");
        if (!rc && rows == 0 && !same_key(&key, &d->min))
            rc = lladd_dtable_corrupt(t, err,
                                      "the first row's key is not the smallest key of the run");
        if (!rc)
            rc = check_key(t, &key, err);
        if (!rc)
            rc = check_lookup(t, &key, &value, &pin, err);
        last.len = 0;
        if (!rc && ll_dtable__append(&last, key.bytes.data, key.bytes.len))
            rc = ll_dtable__no_memory(err);
        rows++;
        tombstones += value.state == LLADD_DTABLE_TOMBSTONE;
        rc = rc ? rc : lladd_dtable_next(c, err);
    }
    struct lladd_dtable_key end = {d->type, key.number, {last.data, last.len}};
    rc = rc == LLADD_END ? 0 : rc;
    lladd_dtable_unpin(&pin);
    if (!rc && (rows != d->rows || tombstones != d->tombstones ||
                (rows && !same_key(&end, &d->max))))
        rc = lladd_dtable_corrupt(t, err,
                                  "its rows, tombstones or largest key are not those stored");
    lladd_mem_free(t->db, last.data);
    return rc;
}

/* Are the deleted ranges in order? Are there as many as t->ranges says? */
static int check_ranges(const struct lladd_dtable *t, struct lladd_error *err)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct ll_dtable_bytes at = {.db = t->db};
    struct lladd_dtable_interval s = {.has_to = true};
    struct lladd_dtable_key from = {.type = t->order.type};
    uint64_t ranges = 0;
    int rc = 0;
    for (bool first = true; !rc && s.has_to; first = false) {
        if (!first) { /* Copies the end: its bytes are in pins that the next call uses. */
            at.len = 0;
            from = s.to;
            rc = check_key(t, &from, err);
            if (!rc && ll_dtable__append(&at, from.bytes.data, from.bytes.len))
                rc = ll_dtable__no_memory(err);
            from.bytes.data = at.data;
        }
        rc = rc ? rc : lladd_dtable_interval_at(t, first ? NULL : &from, pins, &s, err);
        bool follows = !rc && s.has_from != first &&
                       (first || lladd_dtable_compare(&t->order, &s.from, &from) == 0);
        if (!rc && (!follows || (!first && s.has_to &&
                                 lladd_dtable_compare(&t->order, &s.from, &s.to) >= 0)))
            rc = lladd_dtable_corrupt(t, err, "its ranges are out of order");
        ranges += !rc && s.deleted;
    }
    if (!rc && ranges != t->ranges)
        rc = lladd_dtable_corrupt(t, err, "the number of ranges is not the one stored");
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    lladd_mem_free(t->db, at.data);
    return rc;
}

int lladd_dtable_run_check(const struct lladd_dtable *t, struct lladd_error *err)
{
    const struct ll_dtable_run *run;
    struct lladd_dtable_cursor *c;
    TRY(run_of(t, &run, err));
    TRY(check_blocks(run, err));
    TRY(lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, err));
    int rc = check_rows(t, c, err);
    lladd_dtable_cursor_close(c);
    return rc ? rc : check_ranges(t, err);
}
