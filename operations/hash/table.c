/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables in memory. txn.c has what is kept for each transaction.
 *
 * Each table has one struct ll_hash_table, created at first use and kept until the database is
 * closed, so that a rollback finds it without allocating memory. Lookups use its number of
 * buckets; 0 means "read the root page". A lookup with a wrong number does no harm, because a
 * bucket page says which keys belong to it.
 *
 * A split or merge without chains logs the root page's number of buckets last, so a crash may
 * leave the old number. The levels of buckets then show the split or merge: the next bucket to
 * be split has the higher level already, or the last bucket's parent has the lower one. load()
 * corrects the number.
 *
 * A transaction reserves a key (operations/shared/reservation.c) before it removes the key,
 * before it replaces a reserved ghost, and before a put that may shorten a value. A reservation
 * is the root page's number and 18 bits of the key's hash, so it covers other keys with the same
 * bits too, which does no harm.
 *
 * A transaction has a table alone (`owner`) until it ends, if it has created the table, changed it
 * with physical undo, or begun to destroy it. Its changes are then undone byte by byte, splits
 * included. A transaction that has changed a table with logical undo is counted in `changers` until
 * the transaction ends. The undo of this transaction searches the table for keys, so until then no
 * other transaction may have the table alone. */
#include "operations/hash/table.h"

#include <string.h>

#define HOLD_BITS 18u
#define LAYOUT 2u

int ll_hash__corrupt(struct lladd_error *err, lladd_pageno page, const char *what)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s",
                                             (unsigned long long)page.v, what));
}

/* ---- the root page --------------------------------------------------------------------------- */

/* Redo: key size, value size, seed. */
#define FORMAT_BYTES (8u + HR_SEED_BYTES)

static bool sizes_fine(const unsigned char *p)
{
    return lladd_get32(p) <= LL_HASH_INLINE_MAX && lladd_get32(p + 4) <= LL_HASH_INLINE_MAX;
}

static bool format_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_REDO && s.len == FORMAT_BYTES && sizes_fine(s.data);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    lladd_put32(page->bytes + HR_LAYOUT, LAYOUT);
    memcpy(page->bytes + HR_KEY, redo.data, FORMAT_BYTES);
}

static const struct lladd_field format_fields[] = {{"key_size", LLADD_FIELD_U32},
                                                   {"value_size", LLADD_FIELD_U32},
                                                   {"seed", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};

static const struct lladd_op root_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.hash.format",
    .version = 1,
    .page_type = "lladd.hash",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = FORMAT_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

static bool count_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_REDO && s.len == 8;
}

static void count_redo(struct lladd_page *page, struct lladd_span redo)
{
    memcpy(page->bytes + HR_BUCKETS, redo.data, 8);
}

static const struct lladd_field count_fields[] = {{"buckets", LLADD_FIELD_U64},
                                                  {NULL, LLADD_FIELD_END}};

/* Logged after a split or a merge that is never undone, so it has no undo. */
static const struct lladd_op root_count = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.hash.buckets",
    .version = 1,
    .page_type = "lladd.hash",
    .redo_fields = count_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = count_validate,
    .redo = count_redo,
};

static int destroy_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                           struct lladd_draft *d)
{
    (void)ctx;
    (void)args;
    lladd_put32(lladd_draft_redo(d, 4), 1);
    memcpy(lladd_draft_undo(d, 4), v.bytes + HR_STATE, 4);
    return 0;
}

static bool destroy_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 4 && lladd_get32(s.data) <= 1;
}

static void destroy_apply(struct lladd_page *page, struct lladd_span bytes)
{
    memcpy(page->bytes + HR_STATE, bytes.data, 4);
}

static const struct lladd_field destroy_fields[] = {{"destroyed", LLADD_FIELD_U32},
                                                    {NULL, LLADD_FIELD_END}};

static const struct lladd_op root_destroy = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.hash.destroy",
    .version = 1,
    .page_type = "lladd.hash",
    .redo_fields = destroy_fields,
    .undo_fields = destroy_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = destroy_prepare,
    .validate = destroy_validate,
    .redo = destroy_apply,
    .undo = destroy_apply,
};

static bool root_check(struct lladd_view v)
{
    return lladd_get32(v.bytes + HR_LAYOUT) == LAYOUT && lladd_get32(v.bytes + HR_STATE) <= 1 &&
           sizes_fine(v.bytes + HR_KEY) &&
           (lladd_get32(v.bytes + HR_STATE) || lladd_get64(v.bytes + HR_GONE) == 0);
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    uint64_t gone = lladd_get64(v.bytes + HR_GONE);
    lladd_sink_printf(sink, "keys of %u bytes, values of %u (0: any), %llu buckets%s\n",
                      lladd_get32(v.bytes + HR_KEY), lladd_get32(v.bytes + HR_VALUE),
                      (unsigned long long)lladd_get64(v.bytes + HR_BUCKETS),
                      lladd_get32(v.bytes + HR_STATE) ? ", destroyed" : "");
    if (gone)
        lladd_sink_printf(sink, "in steps: %llu pages of the run are gone\n",
                          (unsigned long long)gone - 1);
}

const struct lladd_page_type ll_hash__root_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.hash",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};

/* ---- the list of tables ---------------------------------------------------------------------- */

static struct ll_hash_table *find(struct ll_hashes *h, lladd_pageno root)
{
    struct ll_hash_table *t = h->tables;
    while (t && t->root.v != root.v)
        t = t->next;
    return t;
}

static int make(struct ll_hashes *h, lladd_pageno root, struct ll_hash_table **out)
{
    struct ll_hash_table *t = lladd_mem_alloc(h->db, sizeof *t);
    if (!t)
        return LLADD_NO_MEMORY;
    *t = (struct ll_hash_table){.hashes = h, .db = h->db, .root = root};
    int rc = lladd_mutex_init(&t->loading, LL_HASH_RANK_LOADING, "hash table");
    if (!rc && (rc = lladd_mutex_init(&t->shape, LL_HASH_RANK_SHAPE, "hash table shape")) != 0)
        lladd_mutex_destroy(&t->loading);
    if (rc)
        lladd_mem_free(h->db, t);
    *out = rc ? NULL : t;
    return rc;
}

static void unmake(struct ll_hash_table *t)
{
    if (t->loaded)
        ll_operations__extents_close(&t->run);
    lladd_mutex_destroy(&t->shape);
    lladd_mutex_destroy(&t->loading);
    lladd_mem_free(t->db, t);
}

int ll_hash__find_table(struct ll_hashes *h, lladd_pageno root, struct ll_hash_table **out)
{
    struct ll_hash_table *fresh;
    lladd_mutex_lock(&h->mutex);
    *out = find(h, root);
    lladd_mutex_unlock(&h->mutex);
    if (*out)
        return 0;
    TRY(make(h, root, &fresh));
    lladd_mutex_lock(&h->mutex);
    *out = find(h, root);
    if (!*out) {
        fresh->next = h->tables;
        h->tables = *out = fresh;
    }
    lladd_mutex_unlock(&h->mutex);
    if (*out != fresh)
        unmake(fresh);
    return 0;
}

/* The caller holds the extension's mutex. */
static void set_buckets(struct ll_hash_table *t, uint64_t n)
{
    lladd_atomic_store64(&t->version, t->version + 1);
    lladd_atomic_store64(&t->buckets, n);
}

int ll_hash__new_table(struct ll_hashes *h, lladd_pageno root, struct ll_hash_table **out)
{
    TRY(make(h, root, out));
    lladd_mutex_lock(&h->mutex);
    struct ll_hash_table *older = find(h, root);
    if (older) { /* kept for handles that may still be open */
        older->root = lladd_page_of(LLADD_NO_PAGE);
        lladd_atomic_store32(&older->destroyed, 1);
        set_buckets(older, 0);
    }
    (*out)->next = h->tables;
    h->tables = *out;
    lladd_mutex_unlock(&h->mutex);
    return 0;
}

void ll_hash__set_buckets(struct ll_hash_table *t, uint64_t n)
{
    lladd_mutex_lock(&t->hashes->mutex);
    set_buckets(t, n);
    lladd_mutex_unlock(&t->hashes->mutex);
}

void ll_hash__forget(struct ll_hash_table *t)
{
    ll_hash__set_buckets(t, 0);
}

/* Stores a number of buckets read from pages, unless the number was set after the reading began:
 * then the table has been split, merged or rolled back. A split with an old number would split the
 * wrong bucket, and a key could be stored on a page that was a bucket before a rollback. */
static bool publish(struct ll_hash_table *t, uint64_t version, uint64_t n, bool unsure)
{
    lladd_mutex_lock(&t->hashes->mutex);
    bool same = lladd_atomic_load64(&t->version) == version;
    if (same) {
        lladd_atomic_store32(&t->unsure, unsure);
        lladd_atomic_store64(&t->buckets, n);
    }
    lladd_mutex_unlock(&t->hashes->mutex);
    return same;
}

/* ---- reading the root page ------------------------------------------------------------------- */

static int destroyed(const struct ll_hash_table *t, struct lladd_error *err)
{
    return ll_operations__on(err, t->root,
                             lladd_error_set(err, LLADD_DESTROYED,
                                             "the hash table of page %llu has been destroyed",
                                             (unsigned long long)t->root.v));
}

/* What the root page says. read_root() also fills in the table's constant fields. */
struct root {
    uint64_t buckets, gone; /* gone: as HR_GONE */
    bool destroyed;
};

static int read_root(struct ll_hash_table *t, struct root *r, struct lladd_error *err)
{
    struct lladd_page *p;
    TRY(ll_operations__fix(t->db, t->root, ll_hash__root_page.name, LLADD_LATCH_SHARED, &p, err));
    struct lladd_view v = lladd_page_view(p);
    *r = (struct root){lladd_get64(v.bytes + HR_BUCKETS), lladd_get64(v.bytes + HR_GONE),
                       lladd_get32(v.bytes + HR_STATE) != 0};
    int rc = 0;
    if (!root_check(v) || r->buckets >> HB_LEVEL_MAX) {
        rc = ll_hash__corrupt(err, t->root, "is not a valid root page of a hash table");
    } else if ((r->destroyed && r->gone == 0) || !ll_extents_says(v.bytes + HR_RUN, 1)) {
        rc = destroyed(t, err); /* the table is destroyed completely, or its creation was rolled
                                 * back */
    } else if (r->buckets == 0) {
        rc = ll_hash__corrupt(err, t->root, "is the root of a hash table without buckets");
    } else {
        t->key_size = lladd_get32(v.bytes + HR_KEY);
        t->value_size = lladd_get32(v.bytes + HR_VALUE);
        t->seed = ll_siphash_key_of(v.bytes + HR_SEED);
        t->fixed = t->key_size && t->value_size;
        t->fixed_slots = t->fixed ? ll_hash__fixed_slots(v.size, t->key_size, t->value_size) : 0;
    }
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return rc;
}

/* Opens the run. The caller holds `loading`. */
static int load_run(struct ll_hash_table *t, struct lladd_error *err)
{
    if (t->loaded)
        return 0;
    int rc = ll_operations__extents_open(&t->run, t->db, t->root, HR_RUN - LLADD_PAGE_HEADER, err);
    t->loaded = !rc;
    return rc;
}

/* The level of a bucket, according to its page. */
static int level_of(struct ll_hash_table *t, uint64_t b, unsigned *out, struct lladd_error *err)
{
    struct lladd_page *p;
    lladd_pageno n = ll_operations__extents_page(&t->run, b);
    TRY(ll_operations__fix(t->db, n, ll_hash__bucket_page.name, LLADD_LATCH_SHARED, &p, err));
    *out = p->bytes[HB_LEVEL];
    bool ours =
        lladd_get48(p->bytes + HB_ROOT) == t->root.v && lladd_get48(p->bytes + HB_BUCKET) == b;
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return ours ? 0 : ll_hash__corrupt(err, n, "is not the bucket it should be");
}

/* Corrects *n if the last split or merge has not reached the root page: the level of the bucket
 * that it changed shows that. Sets *unsure if that bucket's page is damaged, and chooses *n such
 * that the keys of both buckets are looked up on the damaged page. These lookups fail, and the rest
 * of the table remains usable. */
static int catch_up(struct ll_hash_table *t, uint64_t *n, bool *unsure, struct lladd_error *err)
{
    unsigned level, full = 63 - (unsigned)__builtin_clzll(*n);
    uint64_t next = *n - (UINT64_C(1) << full);
    int rc = level_of(t, next, &level, err);
    if (!rc && level == full + 1) {
        *n += 1;
        return 0;
    }
    *unsure = lladd_code_root(rc) == LLADD_ROOT_DATA;
    if (*n == 1 || (rc && !*unsure))
        return *unsure ? 0 : rc;
    uint64_t last = *n - 1, parent = ll_hash__parent(last);
    rc = level_of(t, parent, &level, err);
    bool lost = lladd_code_root(rc) == LLADD_ROOT_DATA;
    if (lost || (!rc && level + 1 == ll_hash__level(parent, *n)))
        *n = last;
    *unsure = *unsure || lost;
    return lost ? 0 : rc;
}

/* Reads the number of buckets. The caller holds `loading`. */
static int load(struct ll_hash_table *t, uint64_t *out, bool *unsure, struct lladd_error *err)
{
    struct root r = {0, 0, false};
    /* called while no latch is held */
    t->type = lladd_page_type_number(t->db, ll_hash__bucket_page.name);
    int rc = read_root(t, &r, err);
    /* WRONG_TYPE of a page that was this table's root: the table was destroyed */
    if ((!rc && r.destroyed) || (rc == LLADD_WRONG_TYPE && t->loaded))
        rc = destroyed(t, err);
    if (!rc)
        rc = load_run(t, err);
    *out = r.buckets;
    if (!rc && ll_operations__extents_size(&t->run) && *out > ll_operations__extents_size(&t->run))
        rc = ll_hash__corrupt(err, t->root, "has more buckets than pages");
    *unsure = false;
    return rc ? rc : catch_up(t, out, unsure, err);
}

int ll_hash__buckets_slow(struct ll_hash_table *t, uint64_t *out, struct lladd_error *err)
{
    if (lladd_atomic_load32(&t->destroyed))
        return destroyed(t, err);
    lladd_mutex_lock(&t->loading);
    int rc = 0;
    for (bool fresh = false; !fresh && !rc;) {
        uint64_t version = lladd_atomic_load64(&t->version);
        bool unsure;
        *out = lladd_atomic_load64(&t->buckets);
        if (*out)
            break;
        rc = load(t, out, &unsure, err);
        fresh = !rc && publish(t, version, *out, unsure);
    }
    lladd_mutex_unlock(&t->loading);
    return rc;
}

int ll_hash__rest(struct ll_hash_table *t, struct ll_hash_rest *out, struct lladd_error *err)
{
    struct root r = {0, 0, false};
    uint64_t pages = 0;
    uint16_t type = lladd_page_type_number(t->db, ll_hash__bucket_page.name);
    lladd_mutex_lock(&t->loading);
    if (t->type != type)
        t->type = type;
    int rc = read_root(t, &r, err);
    if (!rc)
        rc = load_run(t, err);
    lladd_mutex_unlock(&t->loading);
    if (!rc)
        rc = ll_operations__extents_count(&t->run, &pages, err);
    *out = (struct ll_hash_rest){r.destroyed, r.buckets, pages, r.destroyed ? r.gone - 1 : 0};
    if (lladd_atomic_load32(&t->unsure))
        ll_hash__forget(t);
    if (!rc && !r.destroyed)
        rc = ll_hash__buckets(t, &out->buckets, err);
    if (!rc && (out->gone >= pages || out->buckets > pages))
        rc = ll_hash__corrupt(err, t->root, "has fewer pages than it says");
    return rc;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static uint32_t hold_index(uint64_t hash)
{
    return (uint32_t)(hash >> 20) & ((1u << HOLD_BITS) - 1);
}

int ll_hash__reserve(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash)
{
    struct ll_hash_owner *o;
    TRY(ll_hash__owner(txn, t->hashes, &o));
    o->hold.holds = &t->hashes->holds;
    if (ll_operations__reserve(&o->hold, t->root, hold_index(hash), 1))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for the reservation of a key");
    return 0;
}

bool ll_hash__any_held(const struct ll_hash_table *t)
{
    return ll_operations__recovering(t->hashes->ops) ||
           !ll_operations__nothing_held(&t->hashes->holds);
}

bool ll_hash__held(const struct ll_hash_table *t, uint64_t hash)
{
    uint64_t held[LL_RESERVATION_WORDS];
    uint32_t i = hold_index(hash);
    if (!ll_hash__any_held(t))
        return false;
    if (ll_operations__recovering(t->hashes->ops))
        return true;
    ll_operations__held(&t->hashes->holds, t->root, i / LL_RESERVATION_CHUNK, NULL, held);
    return held[i % LL_RESERVATION_CHUNK / 64] >> i % 64 & 1;
}

bool ll_hash__may_forget(const struct ll_hash_table *t, const struct hb_entry *e)
{
    if (!(e->tag & HB_GHOST) || ll_operations__recovering(t->hashes->ops))
        return false;
    return ll_operations__nothing_held(&t->hashes->holds) ||
           !ll_hash__held(t, ll_hash__of(t, e->key, e->key_len));
}

/* ---- the extension --------------------------------------------------------------------------- */

/* Operations in the order of their ids in struct ll_hashes, then those that only old logs have. */
static const struct lladd_op *const ops[] = {&root_format,
                                             &root_count,
                                             &root_destroy,
                                             &ll_hash__bucket_format,
                                             &ll_hash__put,
                                             &ll_hash__remove,
                                             &ll_hash__mark,
                                             &ll_hash__restore,
                                             &ll_hash__narrow,
                                             &ll_hash__widen,
                                             &ll_hash__slot,
                                             &ll_hash__bytes,
                                             &ll_hash__old[0],
                                             &ll_hash__old[1],
                                             &ll_hash__old[2],
                                             &ll_hash__old[3],
                                             &ll_hash__old[4],
                                             &ll_hash__old[5],
                                             &ll_hash__old[6],
                                             &ll_hash__old_bytes[0],
                                             NULL};
static const struct lladd_page_type *const page_types[] = {&ll_hash__root_page,
                                                           &ll_hash__bucket_page, NULL};
static const struct lladd_participant *const participants[] = {&ll_hash__participant, NULL};

/* tests/operations/test_hash.c checks that three of these ids are those of their operations. */
static int look_up(struct ll_hashes *h)
{
    lladd_op_id *const ids[] = {
        &h->format, &h->count,   &h->destroy, &h->bucket, &h->put,  &h->remove,
        &h->mark,   &h->restore, &h->narrow,  &h->widen,  &h->slot, &h->bytes};
    return ll_operations__ids(h->db, &root_format, ids, sizeof ids / sizeof ids[0]);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_hashes *h = lladd_mem_alloc(db, sizeof *h);
    if (!h)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *h = (struct ll_hashes){.db = db, .ops = ll_operations_of(db)};
    h->owners = (struct ll_txn_parts){db, &h->mutex, ll_hash__owner_drop, NULL};
    int rc = look_up(h);
    if (!rc)
        rc = ll_operations__reservations_init(&h->holds, db, "hash keys removed");
    if (!rc && (rc = lladd_mutex_init(&h->mutex, LLADD_RANK_LEAF, "hash tables")) != 0)
        ll_operations__reservations_free(&h->holds);
    if (rc) {
        lladd_mem_free(db, h);
        return lladd_error_set(err, rc, "hash tables cannot be used");
    }
    *state = h;
    return 0;
}

/* Allocates what undo by key in this table needs (REC-3): the list of the run's extents. A
 * transaction in doubt may have destroyed the table; undo restores the root page first, and the run
 * is the same. If the table is damaged, undo reports it. */
static int load_for_undo(struct ll_hash_table *t, struct lladd_error *err)
{
    struct root r = {0, 0, false};
    lladd_mutex_lock(&t->loading);
    int rc = read_root(t, &r, err);
    if (!rc || (rc == LLADD_DESTROYED && r.destroyed))
        rc = load_run(t, err);
    lladd_mutex_unlock(&t->loading);
    return rc == LLADD_NO_MEMORY ? rc : 0;
}

/* Forgets what was read during recovery, because recovery may have changed it since. Then loads the
 * tables that transactions in doubt have changed by key. */
static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    (void)ctx;
    (void)db;
    struct ll_hashes *h = state;
    int rc = 0;
    for (struct ll_hash_table *t = h->tables; t; t = t->next) {
        if (t->loaded)
            ll_operations__extents_close(&t->run);
        t->loaded = false;
        ll_hash__forget(t);
    }
    for (struct ll_hash_table *t = h->tables; t && !rc; t = t->next)
        if (lladd_atomic_load64(&t->changers))
            rc = load_for_undo(t, err);
    return rc;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_hashes *h = state;
    ll_operations__owners_end(&h->owners);
    for (struct ll_hash_table *t = h->tables, *next; t; t = next) {
        next = t->next;
        unmake(t);
    }
    ll_operations__reservations_free(&h->holds);
    lladd_mutex_destroy(&h->mutex);
    lladd_mem_free(db, h);
}

const struct lladd_extension ll_hash__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.hash",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
};
