/* SPDX-License-Identifier: BSD-2-Clause */
/* A run's descriptor, stored in a blob. docs/disk-format.md gives its layout byte by byte. */
#include "operations/dtables/core/dtable.h"

#include <lladd/blob.h>

static const char magic[8] = {'L', 'L', 'A', 'D', 'D', 'r', 'u', 'n'};
enum { HEAD = 72, DESCRIPTOR_MAX = 1 << 30 };

uint32_t ll_dtable__block_seed(uint64_t run, uint32_t stream, uint64_t block)
{
    unsigned char id[20];
    lladd_put64(id, run);
    lladd_put32(id + 8, stream);
    lladd_put64(id + 12, block);
    return lladd_crc32c(0, id, sizeof id);
}

/* ---- written --------------------------------------------------------------------------------- */

struct put {
    struct ll_dtable_bytes *to;
    int rc;
};

static void put(struct put *p, const void *bytes, size_t n)
{
    if (!p->rc)
        p->rc = ll_dtable__append(p->to, bytes, n);
}
static void put16(struct put *p, uint16_t v)
{
    unsigned char b[2];
    lladd_put16(b, v);
    put(p, b, sizeof b);
}
static void put32(struct put *p, uint32_t v)
{
    unsigned char b[4];
    lladd_put32(b, v);
    put(p, b, sizeof b);
}
static void put64(struct put *p, uint64_t v)
{
    unsigned char b[8];
    lladd_put64(b, v);
    put(p, b, sizeof b);
}
static void put_bytes(struct put *p, const void *bytes, size_t n)
{
    put32(p, (uint32_t)n);
    put(p, bytes, n);
    put(p, "", 1);
}
static void put_key(struct put *p, const struct lladd_dtable_key *key)
{
    put64(p, key->number);
    put_bytes(p, key->bytes.data, key->bytes.len);
}

static void put_stream(struct put *p, const struct ll_dtable_stream *s)
{
    put32(p, s->layer);
    put_bytes(p, s->name, strlen(s->name));
    put64(p, s->size);
    put32(p, (uint32_t)s->n_extents);
    for (size_t i = 0; i < s->n_extents; i++) {
        put64(p, s->extents[i].first);
        put32(p, (uint32_t)s->extents[i].pages);
    }
    for (size_t i = 0; i < s->n_blocks; i++)
        put32(p, s->crcs[i]);
}

int ll_dtable__describe(const struct ll_dtable_descriptor *d, struct ll_dtable_bytes *out)
{
    struct put p = {out, 0};
    put(&p, magic, sizeof magic);
    put32(&p, LL_DTABLE_FORMAT);
    put16(&p, (uint16_t)d->type);
    put16(&p, 0);
    put64(&p, d->id);
    put64(&p, d->rows);
    put64(&p, d->tombstones);
    put64(&p, d->row_bytes);
    put32(&p, d->block_pages);
    put32(&p, d->block_size);
    put32(&p, d->n_layers);
    put32(&p, d->n_streams);
    put64(&p, 0);
    put_bytes(&p, d->name, strlen(d->name));
    put_bytes(&p, d->comparator, strlen(d->comparator));
    put_bytes(&p, d->config, strlen(d->config));
    put_key(&p, &d->min);
    put_key(&p, &d->max);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        put32(&p, d->versions[i]);
        put_bytes(&p, d->footers[i].data, d->footers[i].len);
    }
    for (uint32_t i = 0; i < d->n_streams; i++)
        put_stream(&p, &d->streams[i]);
    if (!p.rc)
        put32(&p, lladd_crc32c(0, out->data, out->len));
    return p.rc;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* Reads the fields one after the other. A field that goes beyond the end reads as zeros, or as an
 * empty text, and sets `short_`. */
struct get {
    const unsigned char *at, *end;
    bool short_;
};

static const unsigned char *get(struct get *g, size_t n)
{
    static const unsigned char zeros[8];
    if (n > (size_t)(g->end - g->at)) {
        g->short_ = true;
        g->at = g->end;
        return zeros;
    }
    g->at += n;
    return g->at - n;
}
static uint32_t get32(struct get *g)
{
    return lladd_get32(get(g, 4));
}
static uint64_t get64(struct get *g)
{
    return lladd_get64(get(g, 8));
}
static struct lladd_span get_bytes(struct get *g)
{
    size_t n = get32(g);
    if (n >= (size_t)(g->end - g->at)) {
        g->short_ = true;
        return lladd_span_of("", 0);
    }
    const unsigned char *bytes = get(g, n + 1);
    g->short_ = g->short_ || bytes[n] != 0;
    return lladd_span_of(bytes, n);
}
static const char *get_text(struct get *g)
{
    struct lladd_span s = get_bytes(g);
    g->short_ = g->short_ || strlen(s.data) != s.len;
    return s.data;
}
static void get_key(struct get *g, struct lladd_dtable_key *key, enum lladd_dtable_type type)
{
    key->type = type;
    key->number = get64(g);
    key->bytes = get_bytes(g);
}

/* Do the extents have exactly the pages that the stream needs, and does each extent except the last
 * contain whole blocks? */
static bool fits(const struct ll_dtable_stream *s, uint32_t body, uint32_t unit)
{
    uint64_t pages = 0, need = s->size / body + (s->size % body != 0);
    for (size_t i = 0; i < s->n_extents; i++) {
        const struct ll_dtable_extent *e = &s->extents[i];
        bool last = i + 1 == s->n_extents;
        if (e->pages == 0 || e->first == 0 || e->first >> 48 || (!last && e->pages % unit))
            return false;
        pages += e->pages;
    }
    return pages == need;
}

static int get_stream(struct get *g, struct ll_dtable_descriptor *d, struct ll_dtable_stream *s,
                      uint32_t page_size)
{
    uint32_t body = lladd_body_size(page_size);
    s->layer = get32(g);
    const char *name = get_text(g);
    s->size = get64(g);
    size_t extents = get32(g), left = (size_t)(g->end - g->at);
    uint64_t blocks = s->size / d->block_size + (s->size % d->block_size != 0), block = 0;
    if (g->short_ || s->layer >= d->n_layers || strlen(name) >= sizeof s->name ||
        extents > left / 12 || blocks > (left - extents * 12) / 4)
        return LLADD_CORRUPT_RUN;
    memcpy(s->name, name, strlen(name) + 1);
    s->extents = lladd_mem_alloc(d->db, (extents + 1) * sizeof *s->extents);
    s->crcs = lladd_mem_alloc(d->db, ((size_t)blocks + 1) * sizeof *s->crcs);
    if (!s->extents || !s->crcs)
        return LLADD_NO_MEMORY;
    s->n_extents = extents;
    for (size_t i = 0; i < extents; i++) {
        s->extents[i].first = get64(g);
        s->extents[i].pages = get32(g);
        s->extents[i].block = block;
        block += s->extents[i].pages / d->block_pages;
    }
    for (s->n_blocks = 0; s->n_blocks < blocks; s->n_blocks++)
        s->crcs[s->n_blocks] = get32(g);
    return fits(s, body, d->block_pages) ? 0 : LLADD_CORRUPT_RUN;
}

static int get_parts(struct get *g, struct ll_dtable_descriptor *d, uint32_t page_size)
{
    int rc = 0;
    d->footers = lladd_mem_alloc(d->db, (d->n_layers + 1) * sizeof *d->footers);
    d->versions = lladd_mem_alloc(d->db, (d->n_layers + 1) * sizeof *d->versions);
    d->streams = ll_dtable__zeros(d->db, d->n_streams, sizeof *d->streams);
    if (!d->footers || !d->versions || !d->streams)
        return LLADD_NO_MEMORY;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        d->versions[i] = get32(g);
        d->footers[i] = get_bytes(g);
    }
    for (uint32_t i = 0; i < d->n_streams && !rc; i++)
        rc = get_stream(g, d, &d->streams[i], page_size);
    return rc;
}

static int broken(struct lladd_error *err, const char *what)
{
    return lladd_error_set(err, LLADD_CORRUPT_RUN, "a run's descriptor %s", what);
}

static int get_all(struct lladd_db *db, size_t len, struct ll_dtable_descriptor *d,
                   struct lladd_error *err)
{
    uint32_t page_size = lladd_page_size(db);
    struct get g = {d->memory + sizeof magic, d->memory + len - 4, false};
    d->version = get32(&g);
    if (d->version > LL_DTABLE_FORMAT)
        return lladd_error_set(err, LLADD_NEWER_FORMAT, "a run of format %u; %d is known",
                               d->version, LL_DTABLE_FORMAT);
    if (lladd_crc32c(0, d->memory, len - 4) != lladd_get32(d->memory + len - 4))
        return broken(err, "has a wrong checksum");
    d->type = (enum lladd_dtable_type)(get32(&g) & 0xffff);
    d->id = get64(&g);
    d->rows = get64(&g);
    d->tombstones = get64(&g);
    d->row_bytes = get64(&g);
    d->block_pages = get32(&g);
    d->block_size = get32(&g);
    d->n_layers = get32(&g);
    d->n_streams = get32(&g);
    (void)get64(&g);
    if (g.short_ || !lladd_dtable_type_name(d->type) || d->block_pages == 0 ||
        d->block_pages > (1u << 20) / page_size ||
        d->block_size != d->block_pages * lladd_body_size(page_size) || d->n_layers == 0 ||
        d->n_layers > LL_DTABLE_LAYERS_MAX || d->n_streams > LL_DTABLE_STREAMS_MAX ||
        d->tombstones > d->rows)
        return broken(err, "is invalid: expected fields within their limits");
    d->name = get_text(&g);
    d->comparator = get_text(&g);
    d->config = get_text(&g);
    get_key(&g, &d->min, d->type);
    get_key(&g, &d->max, d->type);
    int rc = get_parts(&g, d, page_size);
    if (rc == LLADD_NO_MEMORY)
        return ll_dtable__no_memory(err);
    if (rc || g.short_ || g.at != g.end || strlen(d->name) > 63)
        return broken(err, "is invalid: expected layers and streams up to its end");
    return 0;
}

int ll_dtable__understand(struct lladd_db *db, unsigned char *bytes, size_t len,
                          struct ll_dtable_descriptor *d, struct lladd_error *err)
{
    if (len < HEAD || memcmp(bytes, magic, sizeof magic) != 0)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "the blob is not the descriptor of a run");
    *d = (struct ll_dtable_descriptor){.db = db, .memory = bytes};
    int rc = get_all(db, len, d, err);
    if (rc) {
        d->memory = NULL;
        ll_dtable__descriptor_free(d);
    }
    return rc;
}

int lladd_dtable_run_there(struct lladd_db *db, lladd_pageno page, bool *out,
                           struct lladd_error *err)
{
    unsigned char begin[sizeof magic];
    uint64_t len;
    *out = false;
    int rc = lladd_check_process(db, err);
    if (!rc)
        rc = lladd_blob_length(db, page, &len, err);
    if (rc == LLADD_WRONG_TYPE || rc == LLADD_DESTROYED)
        return 0;
    if (rc || len < HEAD)
        return rc;
    rc = lladd_blob_read(db, page, 0, begin, sizeof begin, NULL, err);
    *out = !rc && memcmp(begin, magic, sizeof magic) == 0;
    return rc;
}

int ll_dtable__read_descriptor(struct lladd_db *db, lladd_pageno root,
                               struct ll_dtable_descriptor *d, struct lladd_error *err)
{
    uint64_t len;
    TRY(lladd_blob_length(db, root, &len, err));
    if (len > DESCRIPTOR_MAX)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu: the blob is not a run",
                               (unsigned long long)root.v);
    unsigned char *bytes = lladd_mem_alloc(db, (size_t)len + 1);
    if (!bytes)
        return ll_dtable__no_memory(err);
    int rc = lladd_blob_read(db, root, 0, bytes, len, NULL, err);
    if (!rc)
        rc = ll_dtable__understand(db, bytes, (size_t)len, d, err);
    if (rc)
        lladd_mem_free(db, bytes);
    return rc;
}

void ll_dtable__descriptor_free(struct ll_dtable_descriptor *d)
{
    for (uint32_t i = 0; d->streams && i < d->n_streams; i++) {
        lladd_mem_free(d->db, d->streams[i].extents);
        lladd_mem_free(d->db, d->streams[i].crcs);
    }
    lladd_mem_free(d->db, d->streams);
    lladd_mem_free(d->db, d->versions);
    lladd_mem_free(d->db, d->footers);
    lladd_mem_free(d->db, d->memory);
    *d = (struct ll_dtable_descriptor){.db = d->db};
}
