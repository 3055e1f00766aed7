/* SPDX-License-Identifier: BSD-2-Clause */
/* Expandable arrays (lladd/array.h; paper, sections 4.1 and 5): a run of pages of plain bytes.
 *
 * The root page, page type "lladd.array", says what there is:
 *
 *   32 u32 bytes of an element, u32 serial number
 *   40 u64 state: 0 nothing, 1 an array, 2 one that was destroyed
 *   48 u64 length, in elements
 *   56 u64 formatted pages
 *   64     the run (run.h)
 *
 * Elements stand side by side on pages of type "lladd.bytes" and never cross one: element i is on
 * page i / n of the run, n being as many as a page's body holds. They are changed by lladd.set and
 * lladd.set_range like any bytes.
 *
 *   lladd.array.format  redo u32 size, u32 serial            undo none
 *   lladd.array.put     redo u8 field, u64 value             undo alike: 1 state, 2 length,
 *                                                            3 formatted
 *
 * (A1) Pages below `formatted` are formatted; those at or above it hold nothing, and what is read
 *      there is zeros. A write there formats the pages up to its own, and some ahead, in top
 *      actions that stay. (In the transaction that made the array, as a part of it; see run.h.)
 * (A2) An element at or above the length may be anything below `formatted`: shrinking changes only
 *      the length, so its undo is one word. Who extends the array writes zeros there, logged, with
 *      undo.
 * (A3) When it is durable that an array was cut, and nobody has changed its length since, whoever
 *      changes it next lowers `formatted` and gives back the pages, in top actions of its own. A
 *      crash before that leaves the pages to the array.
 *
 * In memory there is one struct lladd_array for an array, however often it is opened: length and
 * number of formatted pages, so that a call on an element looks at no root page, and the run.
 * Length 0 stands for "ask the root page", which also knows whether the array is still alive. Who
 * changes the length (or state), and every rollback that may have changed it back, first changes
 * the page, then sets the copy to 0 and counts `looks`; who asks the page takes down `looks` before
 * and keeps the answer only if it is the same behind. So the copy is never older than the page.
 *
 * A root page number may come again. An array is known by its root page, the id of the transaction
 * that made it (which the run has) and a serial number within that.
 *
 * Threads: any, on different elements. `change` is held by who changes the length or formats pages,
 * over I/O, before the run's latch; `mutex` is a leaf. */
#include "operations/run.h"

#include <lladd/array.h>
#include <stdlib.h>

#define SIZE_AT 0u
#define SERIAL_AT 4u
#define RUN_AT 32u
#define FORMAT_BYTES 8u
#define PUT_BYTES 9u
#define BYTES_MAX (UINT64_C(1) << 48)
#define AHEAD_MIN 4u
#define AHEAD_MAX 64u

enum { NOTHING = 0, ALIVE = 1, DESTROYED = 2 };
enum { STATE = 1, LENGTH = 2, FORMATTED = 3 }; /* times 8: where in the root page's body */

struct arrays;

struct lladd_array {
    struct lladd_db *db;
    uint64_t length;    /* atomic; 0: ask the root page */
    uint64_t formatted; /* atomic */
    uint64_t inverse;   /* of per_page, in 2^64ths */
    uint32_t size, per_page;
    struct ll_run run;
    lladd_op_id put;
    uint32_t serial;
    struct lladd_mutex change;
    /* Under the extension's mutex: */
    struct arrays *all;
    struct lladd_array *next;
    uint64_t users;
    uint64_t looks;   /* answers of the root page that are older do not count */
    uint64_t changes; /* of the length, and rollbacks that may have been */
    bool gone;        /* for good */
    bool cut;         /* pages above `cut_to` are nobody's any more */
    uint64_t cut_to;  /* elements */
};

/* What a transaction has to do with an array, beyond its elements. */
struct note {
    struct note *next;
    struct lladd_array *array;
    bool made, destroyed, cut;
    uint64_t changes, cut_to;
};

struct owner {
    struct arrays *all;
    struct note *notes;
    struct owner *next, *before;
};

struct arrays {
    struct lladd_db *db;
    struct lladd_mutex mutex;
    struct lladd_array **buckets;
    size_t n_buckets, n;
    struct owner *owners;
    uint32_t serial;
};

static struct arrays *arrays_of(struct lladd_db *db)
{
    return lladd_state(db, &ll_operations__array_extension);
}

/* ---- the root page --------------------------------------------------------------------------- */

static uint64_t length_max(uint32_t size)
{
    return BYTES_MAX / size;
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (kind != LLADD_SPAN_REDO || s.len != FORMAT_BYTES)
        return false;
    uint32_t size = lladd_get32(s.data);
    return size >= 1 && size <= lladd_body_size(page.size);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(lladd_page_body(page), redo.data, FORMAT_BYTES);
}

static const struct lladd_field format_fields[] = {
    {"size", LLADD_FIELD_U32}, {"serial", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};

static const struct lladd_op array_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.array.format",
    .version = 1,
    .page_type = "lladd.array",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = FORMAT_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

struct put_args {
    uint8_t field;
    uint64_t value;
};

static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct put_args *put = args.data;
    unsigned char *redo = lladd_draft_redo(draft, PUT_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, PUT_BYTES);
    redo[0] = undo[0] = put->field;
    lladd_put64(redo + 1, put->value);
    memcpy(undo + 1, lladd_view_body(page) + 8u * put->field, 8);
    return 0;
}

static bool sensible(uint32_t field, uint64_t value)
{
    return field == STATE ? value <= DESTROYED : value <= BYTES_MAX;
}

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)page;
    (void)kind;
    return s.len == PUT_BYTES && p[0] >= STATE && p[0] <= FORMATTED &&
           sensible(p[0], lladd_get64(p + 1));
}

static void put_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(lladd_page_body(page) + 8u * p[0], p + 1, 8);
}

static const struct lladd_field put_fields[] = {
    {"field", LLADD_FIELD_U8}, {"value", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};

static const struct lladd_op array_put = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.array.put",
    .version = 1,
    .page_type = "lladd.array",
    .redo_fields = put_fields,
    .undo_fields = put_fields,
    .record_max = 2 * PUT_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = put_validate,
    .redo = put_apply,
    .undo = put_apply,
};

static bool root_check(struct lladd_view v)
{
    const unsigned char *p = lladd_view_body(v);
    uint32_t size = lladd_get32(p + SIZE_AT);
    for (uint32_t field = STATE; field <= FORMATTED; field++)
        if (!sensible(field, lladd_get64(p + (size_t)8 * field)))
            return false;
    return size >= 1 && size <= lladd_body_size(v.size);
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    static const char *const states[] = {"nothing", "array", "destroyed array"};
    const unsigned char *p = lladd_view_body(v);
    uint64_t state = lladd_get64(p + 8 * STATE);
    (void)ctx;
    lladd_sink_printf(sink, "%s of %llu elements of %u bytes, %llu pages formatted\n",
                      states[state <= DESTROYED ? state : NOTHING],
                      (unsigned long long)lladd_get64(p + 8 * LENGTH), lladd_get32(p + SIZE_AT),
                      (unsigned long long)lladd_get64(p + 8 * FORMATTED));
    ll_operations__run_describe(v, RUN_AT, sink);
}

static const struct lladd_page_type array_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.array",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};

/* What a root page says. */
struct root {
    uint32_t size, serial;
    uint64_t state, length, formatted, maker;
};

static int read_root(struct lladd_db *db, lladd_pageno page, struct root *out,
                     struct lladd_error *err)
{
    struct lladd_page *held;
    int rc = ll_operations__fix(db, page, array_page.name, LLADD_LATCH_SHARED, &held, err);
    if (rc)
        return rc;
    const unsigned char *p = lladd_page_body(held);
    bool sane = root_check(lladd_page_view(held));
    *out = (struct root){.size = lladd_get32(p + SIZE_AT),
                         .serial = lladd_get32(p + SERIAL_AT),
                         .state = lladd_get64(p + 8 * STATE),
                         .length = lladd_get64(p + 8 * LENGTH),
                         .formatted = lladd_get64(p + 8 * FORMATTED),
                         .maker = lladd_get64(p + RUN_AT + 16)};
    lladd_unfix(db, held, LLADD_LATCH_SHARED);
    if (sane && out->length <= length_max(out->size))
        return 0;
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "page %llu: no array can look like that",
                                             (unsigned long long)page.v));
}

static int destroyed(struct lladd_error *err, lladd_pageno root)
{
    return ll_operations__on(
        err, root,
        lladd_error_set(err, LLADD_DESTROYED, "array %llu is no more", (unsigned long long)root.v));
}

/* ---- in memory ------------------------------------------------------------------------------- */

static struct lladd_array **bucket(struct arrays *all, lladd_pageno root)
{
    return &all->buckets[(size_t)(root.v * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
                         (all->n_buckets - 1)];
}

/* Room for one more; without memory, and some already, chains get longer. Under the mutex. */
static int spread(struct arrays *all)
{
    size_t n_old = all->n_buckets, n = n_old ? n_old * 2 : 16;
    struct lladd_array **old = all->buckets;
    if (all->n < n_old)
        return 0;
    struct lladd_array **fresh = lladd_alloc(all->db, n * sizeof(struct lladd_array *));
    if (!fresh)
        return n_old ? 0 : LLADD_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        fresh[i] = NULL;
    all->buckets = fresh;
    all->n_buckets = n;
    for (size_t i = 0; i < n_old; i++) {
        for (struct lladd_array *a = old[i], *next; a; a = next) {
            next = a->next;
            struct lladd_array **to = bucket(all, a->run.root);
            a->next = *to;
            *to = a;
        }
    }
    lladd_free(all->db, old);
    return 0;
}

static struct lladd_array *find(struct arrays *all, lladd_pageno page, const struct root *root)
{
    struct lladd_array *a = all->n_buckets ? *bucket(all, page) : NULL;
    while (a &&
           (a->run.root.v != page.v || a->run.maker_id != root->maker || a->serial != root->serial))
        a = a->next;
    return a;
}

static void free_array(struct lladd_array *a)
{
    ll_operations__run_close(&a->run);
    lladd_mutex_destroy(&a->change);
    lladd_free(a->db, a);
}

static void release(struct lladd_array *a)
{
    struct arrays *all = a->all;
    lladd_mutex_lock(&all->mutex);
    bool last = --a->users == 0;
    if (last) {
        struct lladd_array **at = bucket(all, a->run.root);
        while (*at != a)
            at = &(*at)->next;
        *at = a->next;
        all->n--;
    }
    lladd_mutex_unlock(&all->mutex);
    if (last)
        free_array(a);
}

static int make_array(struct arrays *all, lladd_pageno page, const struct root *root,
                      struct lladd_array **out, struct lladd_error *err)
{
    struct lladd_array *a = lladd_alloc(all->db, sizeof *a);
    if (!a)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for an array");
    memset(a, 0, sizeof *a);
    a->db = all->db;
    a->all = all;
    a->users = 1;
    a->size = root->size;
    a->serial = root->serial;
    a->per_page = lladd_body_size(lladd_page_size(all->db)) / root->size;
    a->inverse = UINT64_MAX / a->per_page + 1;
    int rc = lladd_op_lookup(all->db, array_put.name, array_put.version, &a->put);
    if (!rc)
        rc = lladd_mutex_init(&a->change, LL_OPERATIONS_RANK_ARRAY, "array");
    if (rc) {
        lladd_free(all->db, a);
        return lladd_error_set(err, rc, "out of memory for an array");
    }
    rc = ll_operations__run_open(&a->run, all->db, page, RUN_AT, err);
    if (rc) {
        lladd_mutex_destroy(&a->change);
        lladd_free(all->db, a);
        return rc;
    }
    *out = a;
    return 0;
}

/* The one in memory, made if need be; release gives it back. */
static int acquire(struct lladd_db *db, lladd_pageno page, struct lladd_array **out,
                   struct lladd_error *err)
{
    struct arrays *all = arrays_of(db);
    struct lladd_array *fresh = NULL;
    struct root root;
    int rc = read_root(db, page, &root, err);
    if (!rc && root.state == NOTHING)
        rc =
            ll_operations__on(err, page,
                              lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu is no array's root",
                                              (unsigned long long)page.v));
    if (!rc && root.state == DESTROYED)
        rc = destroyed(err, page);
    if (rc)
        return rc;
    lladd_mutex_lock(&all->mutex);
    struct lladd_array *a = find(all, page, &root);
    if (a)
        a->users++;
    lladd_mutex_unlock(&all->mutex);
    if (!a && (rc = make_array(all, page, &root, &fresh, err)) != 0)
        return rc;
    if (fresh) {
        lladd_mutex_lock(&all->mutex);
        a = find(all, page, &root);
        if (a) {
            a->users++;
        } else if ((rc = spread(all)) == 0) {
            struct lladd_array **to = bucket(all, page);
            a = fresh;
            a->next = *to;
            *to = a;
            all->n++;
        }
        lladd_mutex_unlock(&all->mutex);
        if (a != fresh)
            free_array(fresh);
    }
    *out = a;
    return rc ? lladd_error_set(err, rc, "out of memory for an array") : 0;
}

/* What memory says of the root page does not hold any more. Under the mutex. */
static void forget(struct lladd_array *a, bool made)
{
    a->looks++;
    a->changes++;
    a->cut = false;
    lladd_atomic_store64(&a->length, 0);
    if (made) /* only its maker knows it: for others, pages once formatted stay so */
        lladd_atomic_store64(&a->formatted, 0);
}

static void changed(struct lladd_array *a)
{
    lladd_mutex_lock(&a->all->mutex);
    forget(a, false);
    lladd_mutex_unlock(&a->all->mutex);
}

/* Asks the root page. */
static int look(struct lladd_array *a, struct root *out, struct lladd_error *err)
{
    struct arrays *all = a->all;
    for (;;) {
        lladd_mutex_lock(&all->mutex);
        uint64_t looks = a->looks;
        bool gone = a->gone;
        lladd_mutex_unlock(&all->mutex);
        int rc = gone ? LLADD_DESTROYED : read_root(a->db, a->run.root, out, err);
        if (rc == LLADD_WRONG_TYPE || rc == LLADD_DESTROYED ||
            (!rc &&
             (out->state != ALIVE || out->maker != a->run.maker_id || out->serial != a->serial)))
            return destroyed(err, a->run.root);
        if (rc)
            return rc;
        lladd_mutex_lock(&all->mutex);
        bool still = a->looks == looks;
        if (still) {
            lladd_atomic_store64(&a->formatted, out->formatted);
            lladd_atomic_store64(&a->length, out->length);
        }
        lladd_mutex_unlock(&all->mutex);
        if (still)
            return 0;
    }
}

/* ---- what transactions have to do with it ---------------------------------------------------- */

static void owner_free(struct owner *o)
{
    struct arrays *all = o->all;
    lladd_mutex_lock(&all->mutex);
    if (o->before)
        o->before->next = o->next;
    else
        all->owners = o->next;
    if (o->next)
        o->next->before = o->before;
    lladd_mutex_unlock(&all->mutex);
    for (struct note *n = o->notes, *next; n; n = next) {
        next = n->next;
        release(n->array);
        lladd_free(all->db, n);
    }
    lladd_free(all->db, o);
}

static void array_taken_back(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    (void)ctx;
    (void)txn;
    (void)since;
    struct owner *o = state;
    lladd_mutex_lock(&o->all->mutex);
    for (struct note *n = o->notes; n; n = n->next) {
        forget(n->array, n->made);
        n->destroyed = n->cut = false; /* perhaps; then the root page says so, as ever */
    }
    lladd_mutex_unlock(&o->all->mutex);
}

static void array_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    struct owner *o = state;
    lladd_mutex_lock(&o->all->mutex);
    for (struct note *n = o->notes; n; n = n->next) {
        forget(n->array, n->made);
        n->array->gone |= n->made;
    }
    lladd_mutex_unlock(&o->all->mutex);
    owner_free(o);
}

static void array_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    struct owner *o = state;
    lladd_mutex_lock(&o->all->mutex);
    for (struct note *n = o->notes; n; n = n->next) {
        struct lladd_array *a = n->array;
        a->gone |= n->destroyed;
        if (n->cut && n->changes == a->changes) { /* A3 */
            a->cut = true;
            a->cut_to = n->cut_to;
        }
    }
    lladd_mutex_unlock(&o->all->mutex);
    owner_free(o);
}

static const struct lladd_participant array_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.array",
    .version = 1,
    .durable = array_durable,
    .aborted = array_aborted,
    .taken_back = array_taken_back,
};

static int owner_of(struct lladd_txn *txn, struct arrays *all, struct owner **out)
{
    *out = lladd_joined(txn, &array_participant);
    if (*out)
        return 0;
    struct owner *o = lladd_alloc(all->db, sizeof *o);
    if (!o)
        return LLADD_NO_MEMORY;
    *o = (struct owner){.all = all};
    int rc = lladd_join(txn, &array_participant, o);
    if (rc) {
        lladd_free(all->db, o);
        return rc;
    }
    lladd_mutex_lock(&all->mutex);
    o->next = all->owners;
    if (o->next)
        o->next->before = o;
    all->owners = o;
    lladd_mutex_unlock(&all->mutex);
    *out = o;
    return 0;
}

/* The transaction is about to change the root page. */
static int note(struct lladd_txn *txn, struct lladd_array *a, struct note **out)
{
    struct owner *o;
    int rc = owner_of(txn, a->all, &o);
    struct note *n = NULL;
    if (!rc)
        for (n = o->notes; n && n->array != a;)
            n = n->next;
    if (!rc && !n) {
        n = lladd_alloc(a->db, sizeof *n);
        if (n) {
            *n = (struct note){.next = o->notes, .array = a};
            lladd_mutex_lock(&a->all->mutex);
            a->users++;
            o->notes = n;
            lladd_mutex_unlock(&a->all->mutex);
        } else {
            rc = LLADD_NO_MEMORY;
        }
    }
    *out = n;
    return rc ? lladd_error_set(lladd_txn_error_out(txn), rc, "no room to note an array") : 0;
}

static int put(struct lladd_txn *txn, struct lladd_array *a, uint8_t field, uint64_t value)
{
    struct put_args args = {field, value};
    return lladd_update(txn, a->put, a->run.root, &args, sizeof args);
}

/* ---- where an element is --------------------------------------------------------------------- */

static int behind(struct lladd_error *err, const struct lladd_array *a, uint64_t index, uint64_t n,
                  uint64_t length)
{
    return ll_operations__on(
        err, a->run.root,
        lladd_error_set(err, LLADD_OUT_OF_RANGE, "%llu elements from %llu: array %llu has %llu",
                        (unsigned long long)n, (unsigned long long)index,
                        (unsigned long long)a->run.root.v, (unsigned long long)length));
}

/* Are elements [first, first + n) there? */
static inline int inside(struct lladd_array *a, uint64_t first, uint64_t n, struct lladd_error *err)
{
    struct root root;
    uint64_t length = lladd_atomic_load64(&a->length);
    if (first < length && n <= length - first)
        return 0;
    int rc = look(a, &root, err);
    if (rc || (first <= root.length && n <= root.length - first))
        return rc;
    return behind(err, a, first, n, root.length);
}

static int other_database(struct lladd_txn *txn, const struct lladd_array *a)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_OTHER_DATABASE,
                           "array %llu is of another database than the transaction",
                           (unsigned long long)a->run.root.v);
}

static inline int at_home(struct lladd_txn *txn, const struct lladd_array *a)
{
    return lladd_txn_db(txn) == a->db ? 0 : other_database(txn, a);
}

/* index / per_page, for an index of at most 2^48: the inverse is too large by less than 2^-64 of
 * itself, the product thus by less than 2^-16, and a page holds fewer than 2^16 elements. */
static inline uint64_t page_of(const struct lladd_array *a, uint64_t index)
{
#ifdef __SIZEOF_INT128__
    if (a->per_page > 1)
        return (uint64_t)((unsigned __int128)index * a->inverse >> 64);
#endif
    return index / a->per_page;
}

static uint64_t pages_for(const struct lladd_array *a, uint64_t length)
{
    return length ? page_of(a, length - 1) + 1 : 0;
}

/* ---- formatting ------------------------------------------------------------------------------ */

/* Pages [from, to), and the root page says so. */
static int format_step(struct lladd_txn *txn, struct lladd_array *a, uint64_t from, uint64_t to)
{
    struct ll_run_step step;
    int rc = ll_operations__run_step_begin(txn, &a->run, &step);
    if (rc)
        return rc;
    for (uint64_t i = from; i < to && !rc; i++)
        rc = lladd_bytes_format(txn, ll_operations__run_page(&a->run, i));
    if (!rc)
        rc = put(txn, a, FORMATTED, to);
    return ll_operations__run_step_end(txn, &step, rc);
}

/* Under `change`. */
static int format_to(struct lladd_txn *txn, struct lladd_array *a, uint64_t page)
{
    struct root root;
    int rc = look(a, &root, lladd_txn_error_out(txn));
    if (rc || page < root.formatted)
        return rc;
    uint64_t at = root.formatted, all = pages_for(a, root.length);
    uint64_t ahead = at / 8 < AHEAD_MIN ? AHEAD_MIN : at / 8 > AHEAD_MAX ? AHEAD_MAX : at / 8;
    uint64_t to = page + ahead < all ? page + ahead : all;
    to = to > page ? to : page + 1;
    rc = ll_operations__run_grow(txn, &a->run, to);
    while (at < to && !rc) {
        uint64_t next = to - at > AHEAD_MAX ? at + AHEAD_MAX : to;
        rc = format_step(txn, a, at, next);
        if (rc)
            break;
        at = next;
        lladd_mutex_lock(&a->all->mutex);
        a->looks++;
        lladd_atomic_store64(&a->formatted, at);
        lladd_mutex_unlock(&a->all->mutex);
    }
    return rc;
}

static int want_page(struct lladd_txn *txn, struct lladd_array *a, uint64_t page)
{
    lladd_mutex_lock(&a->change);
    int rc = format_to(txn, a, page);
    lladd_mutex_unlock(&a->change);
    return rc;
}

static inline int writable(struct lladd_txn *txn, struct lladd_array *a, uint64_t page)
{
    return page < lladd_atomic_load64(&a->formatted) ? 0 : want_page(txn, a, page);
}

/* ---- elements -------------------------------------------------------------------------------- */

static int write_element(struct lladd_txn *txn, struct lladd_array *a, uint64_t index,
                         uint32_t offset, const void *bytes, size_t len)
{
    int rc = at_home(txn, a);
    if (!rc)
        rc = inside(a, index, 1, lladd_txn_error_out(txn));
    if (rc)
        return rc;
    uint64_t page = page_of(a, index);
    rc = writable(txn, a, page);
    if (rc)
        return rc;
    return lladd_set(txn, ll_operations__run_page(&a->run, page),
                     (uint32_t)(index - page * a->per_page) * a->size + offset, bytes, len);
}

int lladd_array_set(struct lladd_txn *txn, struct lladd_array *a, uint64_t index, const void *bytes)
{
    return write_element(txn, a, index, 0, bytes, a->size);
}

int lladd_array_write(struct lladd_txn *txn, struct lladd_array *a, uint64_t index, uint32_t offset,
                      const void *bytes, size_t len)
{
    if (offset > a->size || len > a->size - offset)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_OUT_OF_RANGE,
                               "%zu bytes from %u: an element has %u", len, offset, a->size);
    return write_element(txn, a, index, offset, bytes, len);
}

/* The part of elements [first, first + n) that is on the first one's page. */
struct part {
    uint64_t page;
    uint32_t offset;
    size_t n, bytes;
};

static struct part part_of(const struct lladd_array *a, uint64_t first, uint64_t n)
{
    uint64_t page = page_of(a, first);
    uint32_t at = (uint32_t)(first - page * a->per_page);
    size_t fit = n < a->per_page - at ? (size_t)n : a->per_page - at;
    return (struct part){page, at * a->size, fit, fit * a->size};
}

int lladd_array_set_range(struct lladd_txn *txn, struct lladd_array *a, uint64_t first, uint64_t n,
                          const void *bytes)
{
    const unsigned char *p = bytes;
    lladd_savepoint_id before;
    int rc = at_home(txn, a);
    if (!rc)
        rc = inside(a, first, n, lladd_txn_error_out(txn));
    if (!rc && n)
        rc = writable(txn, a, page_of(a, first + n - 1));
    if (!rc)
        rc = lladd_savepoint(txn, &before);
    if (rc)
        return rc;
    while (n && !rc) {
        struct part part = part_of(a, first, n);
        rc = lladd_set_range(txn, ll_operations__run_page(&a->run, part.page), part.offset, p,
                             part.bytes);
        p += part.bytes;
        first += part.n;
        n -= part.n;
    }
    rc = ll_operations__all_or_nothing(txn, before, rc);
    return rc ? rc : lladd_savepoint_release(txn, before);
}

int lladd_array_get_range(struct lladd_array *a, uint64_t first, uint64_t n, void *out,
                          struct lladd_error *err)
{
    unsigned char *p = out;
    int rc = inside(a, first, n, err);
    while (n && !rc) {
        struct part part = part_of(a, first, n);
        if (part.page < lladd_atomic_load64(&a->formatted))
            rc = lladd_get(a->db, ll_operations__run_page(&a->run, part.page), part.offset, p,
                           part.bytes, err);
        else
            memset(p, 0, part.bytes); /* A1 */
        p += part.bytes;
        first += part.n;
        n -= part.n;
    }
    return rc;
}

int lladd_array_get(struct lladd_array *a, uint64_t index, void *out, struct lladd_error *err)
{
    return lladd_array_get_range(a, index, 1, out, err);
}

/* ---- length ---------------------------------------------------------------------------------- */

int lladd_array_length(struct lladd_array *a, uint64_t *out, struct lladd_error *err)
{
    struct root root;
    uint64_t length = lladd_atomic_load64(&a->length);
    if (length) {
        *out = length;
        return 0;
    }
    int rc = look(a, &root, err);
    if (!rc)
        *out = root.length;
    return rc;
}

/* A3, under `change`. */
static int give_back(struct lladd_txn *txn, struct lladd_array *a, const struct root *root)
{
    struct ll_run_step step;
    lladd_mutex_lock(&a->all->mutex);
    bool cut = a->cut;
    uint64_t length = a->cut_to > root->length ? a->cut_to : root->length;
    lladd_mutex_unlock(&a->all->mutex);
    uint64_t pages = pages_for(a, length);
    int rc = 0;
    if (cut && pages < root->formatted) {
        rc = ll_operations__run_step_begin(txn, &a->run, &step);
        if (rc)
            return rc;
        rc = put(txn, a, FORMATTED, pages);
        rc = ll_operations__run_step_end(txn, &step, rc);
        lladd_mutex_lock(&a->all->mutex);
        a->looks++;
        if (!rc)
            lladd_atomic_store64(&a->formatted, pages);
        lladd_mutex_unlock(&a->all->mutex);
    }
    if (cut && !rc)
        rc = ll_operations__run_shrink(txn, &a->run, pages);
    lladd_mutex_lock(&a->all->mutex);
    a->cut = a->cut && rc;
    lladd_mutex_unlock(&a->all->mutex);
    return rc;
}

/* A2: elements [from, to) may have been others before. Pages that are zeros anyway log nothing. */
static int write_zeros(struct lladd_txn *txn, struct lladd_array *a, uint64_t from, uint64_t to,
                       uint64_t formatted)
{
    int rc = 0;
    unsigned char *zeros = NULL;
    while (from < to && !rc) {
        struct part part = part_of(a, from, to - from);
        if (part.page >= formatted)
            break;
        if (!zeros) {
            zeros = lladd_alloc(a->db, lladd_page_size(a->db));
            if (!zeros)
                return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                                       "out of memory for an array");
            memset(zeros, 0, lladd_page_size(a->db));
        }
        rc = lladd_set_range(txn, ll_operations__run_page(&a->run, part.page), part.offset, zeros,
                             part.bytes);
        from += part.n;
    }
    lladd_free(a->db, zeros);
    return rc;
}

static int extend(struct lladd_txn *txn, struct lladd_array *a, uint64_t n, uint64_t *first)
{
    struct root root;
    struct note *noted;
    lladd_savepoint_id before;
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = look(a, &root, err);
    if (rc)
        return rc;
    if (n > length_max(a->size) - root.length)
        return lladd_error_set(err, LLADD_TOO_LARGE, "an array has at most 2^48 bytes");
    rc = note(txn, a, &noted);
    if (!rc)
        rc = give_back(txn, a, &root);
    if (!rc)
        rc = look(a, &root, err);
    if (!rc)
        rc = lladd_savepoint(txn, &before);
    if (rc)
        return rc;
    rc = write_zeros(txn, a, root.length, root.length + n, root.formatted);
    if (!rc)
        rc = put(txn, a, LENGTH, root.length + n);
    rc = ll_operations__all_or_nothing(txn, before, rc);
    if (!rc)
        rc = lladd_savepoint_release(txn, before);
    if (rc)
        return rc;
    noted->cut = false;
    changed(a);
    if (first)
        *first = root.length;
    return 0;
}

int lladd_array_extend(struct lladd_txn *txn, struct lladd_array *a, uint64_t n, uint64_t *first)
{
    int rc = at_home(txn, a);
    if (rc)
        return rc;
    lladd_mutex_lock(&a->change);
    rc = extend(txn, a, n, first);
    lladd_mutex_unlock(&a->change);
    return rc;
}

static int shrink(struct lladd_txn *txn, struct lladd_array *a, uint64_t n)
{
    struct root root;
    struct note *noted;
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = look(a, &root, err);
    if (!rc && n > root.length)
        return behind(err, a, 0, n, root.length);
    if (!rc)
        rc = note(txn, a, &noted);
    if (!rc)
        rc = give_back(txn, a, &root);
    if (!rc)
        rc = put(txn, a, LENGTH, root.length - n);
    if (rc)
        return rc;
    lladd_mutex_lock(&a->all->mutex);
    forget(a, false);
    noted->cut = true;
    noted->cut_to = root.length - n;
    noted->changes = a->changes;
    lladd_mutex_unlock(&a->all->mutex);
    return 0;
}

int lladd_array_shrink(struct lladd_txn *txn, struct lladd_array *a, uint64_t n)
{
    int rc = at_home(txn, a);
    if (rc)
        return rc;
    lladd_mutex_lock(&a->change);
    rc = shrink(txn, a, n);
    lladd_mutex_unlock(&a->change);
    return rc;
}

/* ---- made, opened, destroyed ----------------------------------------------------------------- */

uint32_t lladd_array_element_max(const struct lladd_db *db)
{
    return lladd_body_size(lladd_page_size(db));
}

uint32_t lladd_array_element_size(const struct lladd_array *a)
{
    return a->size;
}

int lladd_array_open(struct lladd_db *db, lladd_pageno root, struct lladd_array **out,
                     struct lladd_error *err)
{
    return acquire(db, root, out, err);
}

void lladd_array_close(struct lladd_array *a)
{
    if (a)
        release(a);
}

/* The root page, its run and the length; alive last. */
static int make_root(struct lladd_txn *txn, uint32_t size, uint64_t length, lladd_pageno *root)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct arrays *all = arrays_of(db);
    unsigned char bytes[FORMAT_BYTES];
    struct lladd_array a = {.db = db};
    lladd_op_id format;
    int rc = lladd_op_lookup(db, array_format.name, array_format.version, &format);
    if (!rc)
        rc = lladd_op_lookup(db, array_put.name, array_put.version, &a.put);
    if (!rc)
        rc = lladd_page_alloc(txn, root);
    lladd_put32(bytes, size);
    lladd_put32(bytes + 4, lladd_atomic_add32(&all->serial, 1));
    if (!rc)
        rc = lladd_update(txn, format, *root, bytes, sizeof bytes);
    if (!rc)
        rc = ll_operations__run_create(txn, *root, RUN_AT);
    a.run.root = *root;
    if (!rc && length)
        rc = put(txn, &a, LENGTH, length);
    return rc ? rc : put(txn, &a, STATE, ALIVE);
}

int lladd_array_create(struct lladd_txn *txn, uint32_t size, uint64_t length, lladd_pageno *root)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_array *a = NULL;
    struct note *noted = NULL;
    lladd_savepoint_id before;
    lladd_pageno page = {0};
    if (size == 0 || size > lladd_array_element_max(db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "elements of %u bytes: 1 to %u will do",
                               size, lladd_array_element_max(db));
    if (length > length_max(size))
        return lladd_error_set(err, LLADD_TOO_LARGE, "an array has at most 2^48 bytes");
    int rc = lladd_savepoint(txn, &before);
    if (rc)
        return rc;
    rc = make_root(txn, size, length, &page);
    if (!rc)
        rc = acquire(db, page, &a, err);
    if (!rc)
        rc = note(txn, a, &noted);
    rc = ll_operations__all_or_nothing(txn, before, rc);
    if (!rc)
        rc = lladd_savepoint_release(txn, before);
    if (!rc) {
        noted->made = true;
        *root = page;
    }
    if (a)
        release(a);
    return rc;
}

static int destroy(struct lladd_txn *txn, struct lladd_array *a)
{
    lladd_savepoint_id before;
    int rc = lladd_savepoint(txn, &before);
    if (rc)
        return rc;
    rc = put(txn, a, STATE, DESTROYED);
    if (!rc)
        rc = ll_operations__run_free(txn, &a->run);
    if (!rc)
        rc = lladd_page_free(txn, a->run.root);
    rc = ll_operations__all_or_nothing(txn, before, rc);
    return rc ? rc : lladd_savepoint_release(txn, before);
}

int lladd_array_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    struct lladd_array *a;
    struct note *noted;
    int rc = acquire(lladd_txn_db(txn), root, &a, lladd_txn_error_out(txn));
    if (rc)
        return rc;
    lladd_mutex_lock(&a->change);
    rc = note(txn, a, &noted);
    if (!rc)
        rc = destroy(txn, a);
    if (!rc) {
        changed(a);
        noted->destroyed = true;
    }
    lladd_mutex_unlock(&a->change);
    release(a);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct each {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int each_page(void *ctx, lladd_pageno first, uint64_t n)
{
    const struct each *e = ctx;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = e->fn(e->ctx, lladd_page_of(first.v + i));
    return rc;
}

int lladd_array_pages(struct lladd_array *a, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                      struct lladd_error *err)
{
    struct each e = {fn, ctx};
    struct root root;
    int rc = look(a, &root, err);
    if (!rc)
        rc = fn(ctx, a->run.root);
    return rc ? rc : ll_operations__run_each(&a->run, each_page, &e, err);
}

/* Extents, to be sorted. */
struct extent {
    uint64_t first, n;
};

struct extents {
    struct lladd_array *a;
    struct lladd_error *err;
    struct extent *at;
    size_t n, cap;
};

static int broken(struct lladd_error *err, lladd_pageno page, const char *what)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s",
                                             (unsigned long long)page.v, what));
}

static int collect(void *ctx, lladd_pageno first, uint64_t n)
{
    struct extents *e = ctx;
    if (e->n == e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 64;
        struct extent *p = lladd_resize(e->a->db, e->at, cap * sizeof *p);
        if (!p)
            return lladd_error_set(e->err, LLADD_NO_MEMORY, "out of memory to check an array");
        e->at = p;
        e->cap = cap;
    }
    e->at[e->n++] = (struct extent){first.v, n};
    for (uint64_t i = 0; i < n; i++) {
        enum lladd_page_use use;
        lladd_pageno page = lladd_page_of(first.v + i);
        int rc = lladd_page_use(e->a->db, page, &use, e->err);
        if (rc)
            return rc;
        if (use != LLADD_USE_PAGED)
            return broken(e->err, page, "an array's, but not allocated");
    }
    return 0;
}

static int by_first(const void *x, const void *y)
{
    const struct extent *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Every page is allocated, and is the array's once. */
static int check_extents(struct lladd_array *a, struct lladd_error *err)
{
    struct extents e = {.a = a, .err = err};
    int rc = collect(&e, a->run.root, 1);
    if (!rc)
        rc = ll_operations__run_each(&a->run, collect, &e, err);
    if (!rc)
        qsort(e.at, e.n, sizeof *e.at, by_first);
    for (size_t i = 1; i < e.n && !rc; i++)
        if (e.at[i - 1].first + e.at[i - 1].n > e.at[i].first)
            rc = broken(err, lladd_page_of(e.at[i].first), "twice in an array");
    lladd_free(a->db, e.at);
    return rc;
}

int lladd_array_check(struct lladd_array *a, struct lladd_error *err)
{
    struct root root;
    int rc = look(a, &root, err);
    if (!rc)
        rc = check_extents(a, err);
    if (!rc && root.formatted > ll_operations__run_size(&a->run))
        rc = broken(err, a->run.root, "more pages of the array are formatted than it has");
    for (uint64_t i = 0; i < root.formatted && !rc; i++) {
        struct lladd_page *held;
        lladd_pageno page = ll_operations__run_page(&a->run, i);
        rc = ll_operations__fix(a->db, page, ll_operations__bytes_page.name, LLADD_LATCH_SHARED,
                                &held, err);
        if (!rc)
            lladd_unfix(a->db, held, LLADD_LATCH_SHARED);
        else if (rc == LLADD_WRONG_TYPE)
            rc = broken(err, page, "an array's, but no page of bytes");
    }
    return rc;
}

/* ---- per handle ------------------------------------------------------------------------------ */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct arrays *all = lladd_alloc(db, sizeof *all);
    if (!all)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *all = (struct arrays){.db = db};
    int rc = lladd_mutex_init(&all->mutex, LLADD_RANK_LEAF, "arrays");
    if (rc) {
        lladd_free(db, all);
        return lladd_error_set(err, rc, "out of memory");
    }
    *state = all;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct arrays *all = state;
    while (all->owners) /* whose end the handle did not live to see */
        owner_free(all->owners);
    for (size_t i = 0; i < all->n_buckets; i++) {
        for (struct lladd_array *a = all->buckets[i], *next; a; a = next) {
            next = a->next; /* somebody has not closed it */
            free_array(a);
        }
    }
    lladd_free(db, all->buckets);
    lladd_mutex_destroy(&all->mutex);
    lladd_free(db, all);
}

static const struct lladd_op *const ops[] = {&array_format, &array_put, NULL};
static const struct lladd_page_type *const page_types[] = {&array_page, NULL};
static const struct lladd_participant *const participants[] = {&array_participant, NULL};

const struct lladd_extension ll_operations__array_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.array",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};
