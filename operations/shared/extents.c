/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent sequences: see extents.h. The area of the structure's root page:
 *
 *   +0  u64 extents in use
 *   +8  u64 first page of the chain, 0: none
 *   +16 u64 id of the transaction that created the sequence
 *   +24 16 * u64 first pages of extents 0 to 15
 *
 * A page of the chain, page type "lladd.run":
 *
 *   32 u64 next page of the chain, 0: none
 *   40 u64 the structure's root page
 *   48 u64 each: first pages of extents, from extent 16 on; each page continues the one before
 *
 * Entries beyond the number of extents have no meaning. The chain keeps its pages when the sequence
 * shrinks.
 *
 *   lladd.run.format  redo u64 root                  no undo
 *   lladd.run.put     redo u16 offset, u64 value     undo the same; sets a word of the root page
 *   lladd.run.link    redo u16 offset, u64 value     undo the same; sets a word of a chain's page
 *
 * One nested top action allocates an extent, stores its first page number, and increments the
 * count. The extent is added to the list in memory only after the action has ended. So a page that
 * a reader finds in the list stays part of the sequence until the page is freed. To shrink the
 * sequence, another nested top action lowers the count and frees the pages. Their numbers stay
 * listed until growing overwrites them.
 *
 * Threads: a thread that changes the number of extents holds `grow`, also during I/O. Readers take
 * no latch. The extension's mutex, a leaf, protects `stale`, `maker`, and the sequences of each
 * maker. */
#include "operations/shared/extents.h"

#define DIRECT_AT 24u
#define CHAIN_ENTRIES (LLADD_PAGE_HEADER + 16u)
#define PUT_BYTES 10u
#define FIXED_EXTENTS 56u /* number of extents before those of LARGEST pages */
#define LARGEST 8192u

/* The sequences of an open transaction that has created them and changed their size. */
struct ll_extents_maker {
    struct ll_txn_part owner;
    struct ll_extents_all *runs;
    struct ll_extents *made;
};

struct ll_extents_all {
    struct lladd_db *db;
    struct lladd_mutex mutex;
    struct ll_txn_parts makers;
};

static struct ll_extents_all *runs_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_operations__extents_extension);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

uint64_t ll_operations__extents_pages(uint64_t n)
{
    if (n <= 4)
        return n;
    if (n > FIXED_EXTENTS)
        return 4 * (uint64_t)LARGEST + (n - FIXED_EXTENTS) * LARGEST;
    return (4 + (n & 3)) << ((n - 4) >> 2);
}

static uint64_t extent_length(uint64_t k)
{
    return ll_operations__extents_pages(k + 1) - ll_operations__extents_pages(k);
}

static uint64_t extents_for(uint64_t n)
{
    uint64_t offset;
    return n ? ll_extents_extent(n - 1, &offset) + 1 : 0;
}

static uint32_t chain_entries(uint32_t page_size)
{
    return (page_size - CHAIN_ENTRIES) / 8;
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len == 8 && lladd_get64(s.data) != page.number.v;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(lladd_page_body(page) + 8, redo.data, 8);
}

static const struct lladd_field format_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                   {NULL, LLADD_FIELD_END}};

static const struct lladd_op run_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.run.format",
    .version = 1,
    .page_type = "lladd.run",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

struct put_args {
    uint32_t offset;
    uint64_t value;
};

static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct put_args *put = args.data;
    if (put->offset > lladd_body_size(page.size) - 8)
        return ll_operations__on(draft->error, page.number,
                                 lladd_error_set(draft->error, LLADD_OUT_OF_RANGE,
                                                 "a run's word at byte %u does not fit page %llu",
                                                 put->offset, (unsigned long long)page.number.v));
    unsigned char *redo = lladd_draft_redo(draft, PUT_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, PUT_BYTES);
    lladd_put16(redo, (uint16_t)put->offset);
    lladd_put64(redo + 2, put->value);
    lladd_put16(undo, (uint16_t)put->offset);
    memcpy(undo + 2, lladd_view_body(page) + put->offset, 8);
    return 0;
}

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len == PUT_BYTES && lladd_get16(s.data) <= lladd_body_size(page.size) - 8;
}

/* The word with the root page's number must not change. */
static bool link_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return put_validate(page, kind, s) && (lladd_get16(s.data) == 0 || lladd_get16(s.data) >= 16);
}

static void put_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(lladd_page_body(page) + lladd_get16(p), p + 2, 8);
}

static const struct lladd_field put_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"value", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};

#define PUT_OP(op_name, type, check) \
    { \
        .struct_size = sizeof(struct lladd_op), .name = op_name, .version = 1, \
        .page_type = (type), .redo_fields = put_fields, .undo_fields = put_fields, \
        .record_max = 2 * PUT_BYTES, .undo_kind = LLADD_UNDO_PAGE, .prepare = put_prepare, \
        .validate = (check), .redo = put_apply, .undo = put_apply, \
    }

/* The page type is NULL here, because roots of arrays and of hash tables have different page
 * types. */
static const struct lladd_op run_put = PUT_OP("lladd.run.put", NULL, put_validate);
static const struct lladd_op run_link = PUT_OP("lladd.run.link", "lladd.run", link_validate);

/* Shows all entries except zeros, because only the root page says how many are valid. */
static void run_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    lladd_sink_printf(sink, "root %llu, next %llu\n",
                      (unsigned long long)lladd_get64(lladd_view_body(v) + 8),
                      (unsigned long long)lladd_get64(lladd_view_body(v)));
    for (uint32_t i = 0; i < chain_entries(v.size); i++) {
        uint64_t first = lladd_get64(v.bytes + CHAIN_ENTRIES + (size_t)8 * i);
        if (first)
            lladd_sink_printf(sink, "%u: %llu\n", i, (unsigned long long)first);
    }
}

void ll_operations__extents_describe(struct lladd_view v, uint32_t at, struct lladd_sink *sink)
{
    const unsigned char *p = lladd_view_body(v) + at;
    uint64_t n = lladd_get64(p);
    lladd_sink_printf(sink, "made by %llu, %llu extents, chain %llu\n",
                      (unsigned long long)lladd_get64(p + 16), (unsigned long long)n,
                      (unsigned long long)lladd_get64(p + 8));
    for (uint32_t k = 0; k < n && k < LL_RUN_DIRECT; k++)
        lladd_sink_printf(sink, "extent %u: %llu pages from %llu\n", k,
                          (unsigned long long)extent_length(k),
                          (unsigned long long)lladd_get64(p + DIRECT_AT + (size_t)8 * k));
}

static bool run_check(struct lladd_view v)
{
    return lladd_get64(lladd_view_body(v) + 8) != v.number.v;
}

static const struct lladd_page_type run_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.run",
    .version = 1,
    .check = run_check,
    .describe = run_describe,
};

/* ---- on disk --------------------------------------------------------------------------------- */

static int broken(struct lladd_error *err, lladd_pageno page, const char *what)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s",
                                             (unsigned long long)page.v, what));
}

static int put(struct lladd_txn *txn, const struct ll_extents *r, lladd_pageno page,
               uint32_t offset, uint64_t value)
{
    struct put_args args = {offset, value};
    return lladd_update(txn, page.v == r->root.v ? r->put : r->link, page, &args, sizeof args);
}

static int read_word(const struct ll_extents *r, lladd_pageno page, uint32_t offset, uint64_t *out,
                     struct lladd_error *err)
{
    struct lladd_page *held;
    TRY(lladd_page_fix(r->db, page, LLADD_LATCH_SHARED, &held, err));
    *out = lladd_get64(lladd_page_body(held) + offset);
    lladd_page_unfix(r->db, held, LLADD_LATCH_SHARED);
    return 0;
}

/* The next page of the chain after `page`, which is the root page or in the chain; 0: none. */
static int chain_next(const struct ll_extents *r, lladd_pageno page, lladd_pageno *next,
                      struct lladd_error *err)
{
    struct lladd_page *held;
    if (page.v == r->root.v)
        return read_word(r, page, r->at + 8, &next->v, err);
    int rc = ll_operations__fix(r->db, page, run_page.name, LLADD_LATCH_SHARED, &held, err);
    if (rc == LLADD_WRONG_TYPE)
        return broken(err, page, "not of type \"lladd.run\", but in the chain of a run");
    if (rc)
        return rc;
    next->v = lladd_get64(lladd_page_body(held));
    bool ours = lladd_get64(lladd_page_body(held) + 8) == r->root.v;
    lladd_page_unfix(r->db, held, LLADD_LATCH_SHARED);
    return ours ? 0 : broken(err, page, "in the chain of another run");
}

/* Page c of the chain, counted from 0. LLADD_END: the chain has exactly c pages, and *out is its
 * last page (the root page if c is 0). */
static int chain_find(const struct ll_extents *r, uint64_t c, lladd_pageno *out,
                      struct lladd_error *err)
{
    lladd_pageno next;
    *out = r->root;
    for (uint64_t i = 0; i <= c; i++) {
        TRY(chain_next(r, *out, &next, err));
        if (next.v == 0)
            return i == c ? LLADD_END : broken(err, r->root, "the chain of its run is too short");
        *out = next;
    }
    return 0;
}

/* ---- in memory ------------------------------------------------------------------------------- */

/* Makes room in memory for extent k. */
static int want_slot(struct ll_extents *r, uint64_t k)
{
    unsigned level = 63 - (unsigned)__builtin_clzll((k >> 6) + 1);
    if (lladd_atomic_load_ptr(&r->level[level]))
        return 0;
    size_t n = (size_t)64 << level;
    uint64_t *fresh = lladd_mem_alloc(r->db, n * sizeof *fresh);
    if (!fresh)
        return LLADD_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        fresh[i] = 0;
    lladd_atomic_store_ptr(&r->level[level], fresh);
    return 0;
}

static int keep(struct ll_extents *r, uint64_t k, uint64_t first, struct lladd_error *err)
{
    uint64_t pages = lladd_page_count(r->db), length = extent_length(k);
    if (first == 0 || first >= pages || length > pages - first)
        return broken(err, r->root, "lists an extent that is not in the page file");
    if (want_slot(r, k))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a run");
    lladd_atomic_store64(ll_extents_slot(r, k), first);
    return 0;
}

/* Reads extents LL_RUN_DIRECT to n - 1. */
static int load_chain(struct ll_extents *r, lladd_pageno page, uint64_t n, struct lladd_error *err)
{
    uint32_t entries = chain_entries(lladd_page_size(r->db));
    int rc = 0;
    for (uint64_t k = LL_RUN_DIRECT; k < n && !rc;) {
        struct lladd_page *held;
        if (page.v == 0)
            return broken(err, r->root, "the chain of its run is too short");
        lladd_pageno next;
        rc = chain_next(r, page, &next, err);
        if (rc || (rc = lladd_page_fix(r->db, page, LLADD_LATCH_SHARED, &held, err)) != 0)
            return rc;
        const unsigned char *p = held->bytes + CHAIN_ENTRIES;
        for (uint32_t i = 0; i < entries && k < n && !rc; i++, k++)
            rc = keep(r, k, lladd_get64(p + (size_t)8 * i), err);
        lladd_page_unfix(r->db, held, LLADD_LATCH_SHARED);
        page = next;
    }
    return rc;
}

static int load(struct ll_extents *r, struct lladd_error *err)
{
    struct lladd_page *held;
    TRY(lladd_page_fix(r->db, r->root, LLADD_LATCH_SHARED, &held, err));
    const unsigned char *p = lladd_page_body(held) + r->at;
    uint64_t n = lladd_get64(p);
    lladd_pageno chain = lladd_page_of(lladd_get64(p + 8));
    if (!r->maker_id) /* set once: readers compare it without a latch */
        r->maker_id = lladd_get64(p + 16);
    int rc = 0;
    if (n > lladd_page_count(r->db))
        rc = broken(err, r->root, "lists more extents than there are pages");
    for (uint64_t k = 0; k < n && k < LL_RUN_DIRECT && !rc; k++)
        rc = keep(r, k, lladd_get64(p + DIRECT_AT + 8 * k), err);
    lladd_page_unfix(r->db, held, LLADD_LATCH_SHARED);
    if (!rc)
        rc = load_chain(r, chain, n, err);
    if (!rc)
        lladd_atomic_store64(&r->n_extents, n);
    return rc;
}

static void free_levels(struct ll_extents *r)
{
    for (size_t i = 0; i < sizeof r->level / sizeof r->level[0]; i++)
        lladd_mem_free(r->db, r->level[i]);
}

static int init(struct ll_extents *r, struct lladd_db *db, lladd_pageno root, uint32_t at)
{
    memset(r, 0, sizeof *r);
    r->db = db;
    r->root = root;
    r->at = at;
    TRY(lladd_op_lookup(db, run_format.name, run_format.version, &r->format));
    TRY(lladd_op_lookup(db, run_put.name, run_put.version, &r->put));
    return lladd_op_lookup(db, run_link.name, run_link.version, &r->link);
}

int ll_operations__extents_create(struct lladd_txn *txn, lladd_pageno root, uint32_t at)
{
    struct ll_extents r;
    int rc = init(&r, lladd_txn_db(txn), root, at);
    return rc ? rc : put(txn, &r, root, at + 16, lladd_txn_id(txn).v);
}

int ll_operations__extents_open(struct ll_extents *r, struct lladd_db *db, lladd_pageno root,
                                uint32_t at, struct lladd_error *err)
{
    int rc = init(r, db, root, at);
    if (!rc)
        rc = lladd_mutex_init(&r->grow, LL_OPERATIONS_RANK_RUN, "run");
    if (rc)
        return lladd_error_set(err, rc, "out of memory for a run");
    rc = load(r, err);
    if (rc) {
        free_levels(r);
        lladd_mutex_destroy(&r->grow);
    }
    return rc;
}

/* ---- the transaction that created it --------------------------------------------------------- */

static void disown(struct ll_extents *r)
{
    struct ll_extents **at = &r->maker->made;
    while (*at != r)
        at = &(*at)->next_made;
    *at = r->next_made;
    r->maker = NULL;
}

void ll_operations__extents_close(struct ll_extents *r)
{
    struct ll_extents_all *runs = runs_of(r->db);
    lladd_mutex_lock(&runs->mutex);
    if (r->maker)
        disown(r);
    lladd_mutex_unlock(&runs->mutex);
    free_levels(r);
    lladd_mutex_destroy(&r->grow);
}

static void maker_drop(struct ll_txn_part *part)
{
    struct ll_extents_maker *m = (struct ll_extents_maker *)part;
    struct ll_extents_all *runs = m->runs;
    lladd_mutex_lock(&runs->mutex);
    while (m->made)
        disown(m->made);
    lladd_mutex_unlock(&runs->mutex);
}

/* A rollback may have removed extents: the size is 0 until the root page has been read again. */
static void maker_forget(struct ll_extents_maker *m)
{
    lladd_mutex_lock(&m->runs->mutex);
    for (struct ll_extents *r = m->made; r; r = r->next_made) {
        r->stale = true;
        lladd_atomic_store64(&r->n_extents, 0);
    }
    lladd_mutex_unlock(&m->runs->mutex);
}

static void maker_aborted(void *ctx, void *state, struct lladd_db *db)
{
    maker_forget(state);
    ll_operations__owner_aborted(ctx, state, db);
}

static void maker_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    (void)ctx;
    (void)txn;
    (void)since;
    maker_forget(state);
}

static const struct lladd_participant run_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.run",
    .version = 1,
    .durable = ll_operations__owner_durable,
    .aborted = maker_aborted,
    .undone = maker_undone,
};

/* From now on, a rollback of the transaction marks the sequence stale. */
static int own(struct lladd_txn *txn, struct ll_extents *r)
{
    struct ll_extents_all *runs = runs_of(r->db);
    struct ll_txn_part *owner;
    TRY(ll_operations__owner_of(txn, &run_participant, &runs->makers,
                                sizeof(struct ll_extents_maker), "a run", &owner));
    struct ll_extents_maker *m = (struct ll_extents_maker *)owner;
    m->runs = runs;
    lladd_mutex_lock(&runs->mutex);
    if (r->maker != m) {
        if (r->maker)
            disown(r);
        r->maker = m;
        r->next_made = m->made;
        m->made = r;
    }
    lladd_mutex_unlock(&runs->mutex);
    return 0;
}

/* ---- changing the number of extents ---------------------------------------------------------- */

int ll_operations__extents_step_begin(struct lladd_txn *txn, struct ll_extents *r,
                                      struct ll_extents_step *s)
{
    s->maker = ll_extents_made_by(r, txn);
    if (s->maker)
        TRY(own(txn, r));
    return s->maker ? lladd_savepoint(txn, &s->before) : lladd_nta_begin(txn, &s->action);
}

int ll_operations__extents_step_end(struct lladd_txn *txn, struct ll_extents_step *s, int rc)
{
    if (s->maker)
        return ll_operations__step_end(txn, s->before, rc);
    return ll_operations__action_end(txn, &s->action, rc, LLADD_NO_OP, NULL, 0);
}

/* The place where extent k is listed; adds a page to the chain if the chain is too short. */
static int place(struct lladd_txn *txn, struct ll_extents *r, uint64_t k, lladd_pageno *page,
                 uint32_t *offset)
{
    uint32_t entries = chain_entries(lladd_page_size(r->db));
    *page = r->root;
    *offset = r->at + DIRECT_AT + 8 * (uint32_t)k;
    if (k < LL_RUN_DIRECT)
        return 0;
    unsigned char root[8];
    lladd_pageno last;
    *offset = CHAIN_ENTRIES - LLADD_PAGE_HEADER + 8 * (uint32_t)((k - LL_RUN_DIRECT) % entries);
    int rc = chain_find(r, (k - LL_RUN_DIRECT) / entries, &last, lladd_txn_error_out(txn));
    *page = last;
    if (rc != LLADD_END)
        return rc;
    rc = lladd_page_alloc(txn, page);
    lladd_put64(root, r->root.v);
    if (!rc)
        rc = lladd_update(txn, r->format, *page, root, sizeof root);
    return rc ? rc : put(txn, r, last, last.v == r->root.v ? r->at + 8 : 0, page->v);
}

static int add_extent(struct lladd_txn *txn, struct ll_extents *r, uint64_t k, lladd_pageno *first)
{
    lladd_pageno page;
    uint32_t offset;
    TRY(lladd_extent_alloc(txn, extent_length(k), LLADD_EXTENT_PAGED, first));
    TRY(place(txn, r, k, &page, &offset));
    TRY(put(txn, r, page, offset, first->v));
    return put(txn, r, r->root, r->at, k + 1);
}

/* Reads the root page again if the creating transaction has rolled something back. */
static int refresh(struct ll_extents *r, struct lladd_error *err)
{
    struct ll_extents_all *runs = runs_of(r->db);
    lladd_mutex_lock(&runs->mutex);
    bool stale = r->stale;
    r->stale = false;
    lladd_mutex_unlock(&runs->mutex);
    int rc = stale ? load(r, err) : 0;
    if (rc) {
        lladd_mutex_lock(&runs->mutex);
        r->stale = true;
        lladd_mutex_unlock(&runs->mutex);
    }
    return rc;
}

static int add(struct lladd_txn *txn, struct ll_extents *r)
{
    struct ll_extents_step step;
    lladd_pageno first = {0};
    uint64_t k = lladd_atomic_load64(&r->n_extents);
    int rc = want_slot(r, k);
    if (rc)
        return lladd_error_set(lladd_txn_error_out(txn), rc, "out of memory for a run");
    TRY(ll_operations__extents_step_begin(txn, r, &step));
    rc = add_extent(txn, r, k, &first);
    rc = ll_operations__extents_step_end(txn, &step, rc);
    if (rc)
        return rc;
    lladd_atomic_store64(ll_extents_slot(r, k), first.v);
    lladd_atomic_store64(&r->n_extents, k + 1);
    return 0;
}

int ll_operations__extents_grow(struct lladd_txn *txn, struct ll_extents *r, uint64_t n)
{
    lladd_mutex_lock(&r->grow);
    int rc = refresh(r, lladd_txn_error_out(txn));
    while (!rc && ll_operations__extents_size(r) < n)
        rc = add(txn, r);
    lladd_mutex_unlock(&r->grow);
    return rc;
}

static int free_extents(struct lladd_txn *txn, struct ll_extents *r, uint64_t from, uint64_t to)
{
    int rc = 0;
    for (uint64_t k = to; k > from && !rc; k--)
        rc = lladd_extent_free(txn, lladd_page_of(lladd_atomic_load64(ll_extents_slot(r, k - 1))),
                               extent_length(k - 1));
    return rc;
}

int ll_operations__extents_shrink(struct lladd_txn *txn, struct ll_extents *r, uint64_t n)
{
    struct ll_extents_step step;
    uint64_t left = extents_for(n);
    lladd_mutex_lock(&r->grow);
    int rc = refresh(r, lladd_txn_error_out(txn));
    uint64_t had = lladd_atomic_load64(&r->n_extents);
    if (!rc && left < had && (rc = ll_operations__extents_step_begin(txn, r, &step)) == 0) {
        rc = put(txn, r, r->root, r->at, left);
        if (!rc)
            rc = free_extents(txn, r, left, had);
        rc = ll_operations__extents_step_end(txn, &step, rc);
        if (!rc)
            lladd_atomic_store64(&r->n_extents, left);
    }
    lladd_mutex_unlock(&r->grow);
    return rc;
}

/* ---- the whole structure --------------------------------------------------------------------- */

int ll_operations__extents_count(struct ll_extents *r, uint64_t *pages, struct lladd_error *err)
{
    lladd_mutex_lock(&r->grow);
    int rc = refresh(r, err);
    *pages = ll_operations__extents_size(r);
    lladd_mutex_unlock(&r->grow);
    return rc;
}

int ll_operations__extents_each_link(struct ll_extents *r,
                                     int (*fn)(void *ctx, lladd_pageno, uint64_t n), void *ctx,
                                     struct lladd_error *err)
{
    lladd_pageno page = r->root;
    for (uint64_t steps = 0; steps <= lladd_page_count(r->db); steps++) {
        TRY(chain_next(r, page, &page, err));
        if (page.v == 0)
            return 0;
        TRY(fn(ctx, page, 1));
    }
    return broken(err, r->root, "the chain of its run does not end");
}

int ll_operations__extents_each(struct ll_extents *r,
                                int (*fn)(void *ctx, lladd_pageno, uint64_t n), void *ctx,
                                struct lladd_error *err)
{
    lladd_mutex_lock(&r->grow);
    int rc = refresh(r, err);
    uint64_t n = lladd_atomic_load64(&r->n_extents);
    lladd_mutex_unlock(&r->grow);
    for (uint64_t k = 0; k < n && !rc; k++)
        rc = fn(ctx, lladd_page_of(lladd_atomic_load64(ll_extents_slot(r, k))), extent_length(k));
    return rc ? rc : ll_operations__extents_each_link(r, fn, ctx, err);
}

struct each_page {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int each_page(void *ctx, lladd_pageno first, uint64_t n)
{
    const struct each_page *e = ctx;
    for (uint64_t i = 0; i < n; i++)
        TRY(e->fn(e->ctx, lladd_page_of(first.v + i)));
    return 0;
}

int ll_operations__extents_each_page(struct ll_extents *r, int (*fn)(void *ctx, lladd_pageno),
                                     void *ctx, struct lladd_error *err)
{
    return ll_operations__extents_each(r, each_page, &(struct each_page){fn, ctx}, err);
}

static int free_one(void *ctx, lladd_pageno first, uint64_t n)
{
    return lladd_extent_free(ctx, first, n);
}

int ll_operations__extents_free_pages(struct lladd_txn *txn, struct ll_extents *r, uint64_t from,
                                      uint64_t to)
{
    int rc = 0;
    while (to > from && !rc) {
        uint64_t offset, k = ll_extents_extent(to - 1, &offset);
        uint64_t n = offset + 1 < to - from ? offset + 1 : to - from;
        lladd_pageno first = lladd_page_of(lladd_atomic_load64(ll_extents_slot(r, k)));
        rc = lladd_extent_free(txn, lladd_page_of(first.v + offset + 1 - n), n);
        to -= n;
    }
    return rc;
}

int ll_operations__extents_free_chain(struct lladd_txn *txn, struct ll_extents *r)
{
    return ll_operations__extents_each_link(r, free_one, txn, lladd_txn_error_out(txn));
}

int ll_operations__extents_free(struct lladd_txn *txn, struct ll_extents *r)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    int rc = ll_operations__extents_each(r, free_one, txn, lladd_txn_error_out(txn));
    return ll_operations__step_end(txn, before, rc);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    int rc = ll_operations__state_new(
        db, sizeof(struct ll_extents_all), offsetof(struct ll_extents_all, mutex),
        offsetof(struct ll_extents_all, makers), maker_drop, "runs made", state, err);
    if (!rc)
        ((struct ll_extents_all *)*state)->db = db;
    return rc;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_extents_all *runs = state;
    ll_operations__owners_end(&runs->makers);
    ll_operations__state_free(db, runs, offsetof(struct ll_extents_all, mutex));
}

static const struct lladd_op *const ops[] = {&run_format, &run_put, &run_link, NULL};
static const struct lladd_page_type *const page_types[] = {&run_page, NULL};
static const struct lladd_participant *const participants[] = {&run_participant, NULL};

const struct lladd_extension ll_operations__extents_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.run",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};
