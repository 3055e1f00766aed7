/* SPDX-License-Identifier: BSD-2-Clause */
/* Expandable arrays (lladd/array.h; LLADD paper, sections 4.1 and 5): an extent sequence of pages
 * with plain bytes.
 *
 * Elements are stored next to each other on pages of type "lladd.bytes", and no element crosses a
 * page. Element i is on page i / n of the sequence, where n is the number of elements that fit a
 * page's body. lladd.set, lladd.set.long and lladd.set_range change them like other bytes.
 *
 * (A1) Pages below the root page's field `formatted` are formatted. Other pages have no contents,
 * and the elements on them read as zeros. A write to such a page formats the pages up to it and a
 * few more. The formatting is done in nested top actions or, in the transaction that creates the
 * array, by ordinary updates (extents.h).
 *
 * (A2) Elements at or above the length may have any contents: shrinking changes only the length,
 * so its undo is one word. Extending the array writes zeros there, with undo.
 *
 * (A3) When a shrink is durable and the length has not changed since, the next change of the length
 * lowers `formatted` and frees the pages beyond the end, in nested top actions. If a crash comes
 * before that change, the array keeps these pages until another shrink.
 *
 * Threads: any number, on different elements. A thread that changes the length or formats pages
 * holds `change`, also during I/O; `change` is taken before the mutex of the extent sequence. The
 * extension's `mutex` is a leaf. */
#include "operations/array/array.h"

#include <stdlib.h>

#define AHEAD_MIN 4u
#define AHEAD_MAX 64u

static void changed(struct lladd_array *a)
{
    lladd_mutex_lock(&a->all->mutex);
    ll_operations__array_forget(a, false);
    lladd_mutex_unlock(&a->all->mutex);
}

static lladd_op_id op(struct ll_arrays *all, enum ll_array_op which)
{
    return ll_operations__nth_op(all->db, &all->first_op, &ll_operations__array_format, which);
}

static int put(struct lladd_txn *txn, lladd_pageno root, uint8_t field, uint64_t value)
{
    struct ll_array_put args = {field, value};
    return lladd_update(txn, op(ll_arrays_of(lladd_txn_db(txn)), LL_ARRAY_PUT), root, &args,
                        sizeof args);
}

/* ---- the place of an element ----------------------------------------------------------------- */

static int beyond_end(struct lladd_error *err, const struct lladd_array *a, uint64_t index,
                      uint64_t n, uint64_t length)
{
    return ll_operations__on(
        err, a->run.root,
        lladd_error_set(err, LLADD_OUT_OF_RANGE,
                        "%llu elements from index %llu on: array %llu has %llu elements",
                        (unsigned long long)n, (unsigned long long)index,
                        (unsigned long long)a->run.root.v, (unsigned long long)length));
}

/* Do elements [first, first + n) exist? */
static inline int inside(struct lladd_array *a, uint64_t first, uint64_t n, struct lladd_error *err)
{
    struct ll_array_root root;
    uint64_t length = lladd_atomic_load64(&a->length);
    if (first < length && n <= length - first)
        return 0;
    int rc = ll_operations__array_look(a, &root, err);
    if (rc || (first <= root.length && n <= root.length - first))
        return rc;
    return beyond_end(err, a, first, n, root.length);
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

/* index / per_page, for an index of at most 2^48. The inverse is too large by less than 1, so the
 * product is too large by less than 2^48 / 2^64 = 2^-16. The error does not change the quotient,
 * because a page has fewer than 2^16 elements: the fraction of the exact result is at most 1 -
 * 2^-16. */
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

/* Formats pages [from, to) and stores the new `formatted` in the root page. */
static int format_step(struct lladd_txn *txn, struct lladd_array *a, uint64_t from, uint64_t to)
{
    struct ll_extents_step step;
    TRY(ll_operations__extents_step_begin(txn, &a->run, &step));
    int rc = 0;
    for (uint64_t i = from; i < to && !rc; i++)
        rc = lladd_bytes_format(txn, ll_operations__extents_page(&a->run, i));
    if (!rc)
        rc = put(txn, a->run.root, LL_ARRAY_FORMATTED, to);
    return ll_operations__extents_step_end(txn, &step, rc);
}

/* Formats the pages up to and including `page`, and a few more. The caller holds `change`. */
static int format_to(struct lladd_txn *txn, struct lladd_array *a, uint64_t page)
{
    struct ll_array_root root;
    int rc = ll_operations__array_look(a, &root, lladd_txn_error_out(txn));
    if (rc || page < root.formatted)
        return rc;
    uint64_t at = root.formatted, all = pages_for(a, root.length);
    uint64_t ahead = at / 8 < AHEAD_MIN ? AHEAD_MIN : at / 8 > AHEAD_MAX ? AHEAD_MAX : at / 8;
    uint64_t to = page + ahead < all ? page + ahead : all;
    to = to > page ? to : page + 1;
    rc = ll_operations__extents_grow(txn, &a->run, to);
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
    TRY(at_home(txn, a));
    TRY(inside(a, index, 1, lladd_txn_error_out(txn)));
    uint64_t page = page_of(a, index);
    TRY(writable(txn, a, page));
    return lladd_bytes_set(txn, ll_operations__extents_page(&a->run, page),
                           (uint32_t)(index - page * a->per_page) * a->size + offset, bytes, len);
}

int lladd_array_set(struct lladd_txn *txn, struct lladd_array *a, uint64_t index, const void *bytes)
{
    LLADD_USE(txn);
    return write_element(txn, a, index, 0, bytes, a->size);
}

int lladd_array_write(struct lladd_txn *txn, struct lladd_array *a, uint64_t index, uint32_t offset,
                      const void *bytes, size_t len)
{
    LLADD_USE(txn);
    if (offset > a->size || len > a->size - offset)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_OUT_OF_RANGE,
                               "%zu bytes from %u: an element has %u", len, offset, a->size);
    return write_element(txn, a, index, offset, bytes, len);
}

/* The part of elements [first, first + n) that is on the page of element `first`. */
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
    LLADD_USE(txn);
    const unsigned char *p = bytes;
    lladd_savepoint_id before;
    TRY(at_home(txn, a));
    TRY(inside(a, first, n, lladd_txn_error_out(txn)));
    if (n)
        TRY(writable(txn, a, page_of(a, first + n - 1)));
    TRY(lladd_savepoint(txn, &before));
    int rc = 0;
    while (n && !rc) {
        struct part part = part_of(a, first, n);
        rc = lladd_bytes_set_range(txn, ll_operations__extents_page(&a->run, part.page),
                                   part.offset, p, part.bytes);
        p += part.bytes;
        first += part.n;
        n -= part.n;
    }
    return ll_operations__step_end(txn, before, rc);
}

int lladd_array_get_range(struct lladd_array *a, uint64_t first, uint64_t n, void *out,
                          struct lladd_error *err)
{
    unsigned char *p = out;
    int rc = inside(a, first, n, err);
    while (n && !rc) {
        struct part part = part_of(a, first, n);
        if (part.page < lladd_atomic_load64(&a->formatted))
            rc = lladd_bytes_get(a->db, ll_operations__extents_page(&a->run, part.page),
                                 part.offset, p, part.bytes, err);
        else
            memset(p, 0, part.bytes); /* the page is not formatted, so its elements are zeros
                                       * (A1) */
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
    struct ll_array_root root;
    uint64_t length = lladd_atomic_load64(&a->length);
    if (length) {
        *out = length;
        return 0;
    }
    int rc = ll_operations__array_look(a, &root, err);
    if (!rc)
        *out = root.length;
    return rc;
}

/* Frees the pages beyond the end that a durable shrink has left (A3), if any. The caller holds
 * `change`. */
static int free_cut(struct lladd_txn *txn, struct lladd_array *a, const struct ll_array_root *root)
{
    struct ll_extents_step step;
    lladd_mutex_lock(&a->all->mutex);
    bool cut = a->cut;
    uint64_t length = a->cut_to > root->length ? a->cut_to : root->length;
    lladd_mutex_unlock(&a->all->mutex);
    uint64_t pages = pages_for(a, length);
    int rc = 0;
    if (cut && pages < root->formatted) {
        TRY(ll_operations__extents_step_begin(txn, &a->run, &step));
        rc = put(txn, a->run.root, LL_ARRAY_FORMATTED, pages);
        rc = ll_operations__extents_step_end(txn, &step, rc);
        lladd_mutex_lock(&a->all->mutex);
        a->looks++;
        if (!rc)
            lladd_atomic_store64(&a->formatted, pages);
        lladd_mutex_unlock(&a->all->mutex);
    }
    if (cut && !rc)
        rc = ll_operations__extents_shrink(txn, &a->run, pages);
    lladd_mutex_lock(&a->all->mutex);
    a->cut = a->cut && rc;
    lladd_mutex_unlock(&a->all->mutex);
    return rc;
}

/* Clears those of elements [from, to) that are on formatted pages (A2). For a page that is all
 * zeros, the log record has no bytes. */
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
            zeros = lladd_mem_alloc(a->db, lladd_page_size(a->db));
            if (!zeros)
                return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                                       "out of memory for an array");
            memset(zeros, 0, lladd_page_size(a->db));
        }
        rc = lladd_bytes_set_range(txn, ll_operations__extents_page(&a->run, part.page),
                                   part.offset, zeros, part.bytes);
        from += part.n;
    }
    lladd_mem_free(a->db, zeros);
    return rc;
}

static int extend(struct lladd_txn *txn, struct lladd_array *a, uint64_t n, uint64_t *first)
{
    struct ll_array_root root;
    struct ll_array_note *noted;
    lladd_savepoint_id before;
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(ll_operations__array_look(a, &root, err));
    if (n > ll_array_length_max(a->size) - root.length)
        return lladd_error_set(err, LLADD_TOO_LARGE, "an array has at most 2^48 bytes");
    TRY(ll_operations__array_note(txn, a, &noted));
    TRY(free_cut(txn, a, &root));
    TRY(ll_operations__array_look(a, &root, err));
    TRY(lladd_savepoint(txn, &before));
    int rc = write_zeros(txn, a, root.length, root.length + n, root.formatted);
    if (!rc)
        rc = put(txn, a->run.root, LL_ARRAY_LENGTH, root.length + n);
    rc = ll_operations__step_end(txn, before, rc);
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
    LLADD_USE(txn);
    TRY(at_home(txn, a));
    lladd_mutex_lock(&a->change);
    int rc = extend(txn, a, n, first);
    lladd_mutex_unlock(&a->change);
    return rc;
}

static int shrink(struct lladd_txn *txn, struct lladd_array *a, uint64_t n)
{
    struct ll_array_root root;
    struct ll_array_note *noted;
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(ll_operations__array_look(a, &root, err));
    if (n > root.length)
        return beyond_end(err, a, 0, n, root.length);
    TRY(ll_operations__array_note(txn, a, &noted));
    TRY(free_cut(txn, a, &root));
    TRY(put(txn, a->run.root, LL_ARRAY_LENGTH, root.length - n));
    lladd_mutex_lock(&a->all->mutex);
    ll_operations__array_forget(a, false);
    noted->cut = true;
    noted->cut_to = root.length - n;
    noted->changes = a->changes;
    lladd_mutex_unlock(&a->all->mutex);
    return 0;
}

int lladd_array_shrink(struct lladd_txn *txn, struct lladd_array *a, uint64_t n)
{
    LLADD_USE(txn);
    TRY(at_home(txn, a));
    lladd_mutex_lock(&a->change);
    int rc = shrink(txn, a, n);
    lladd_mutex_unlock(&a->change);
    return rc;
}

/* ---- create, open, destroy ------------------------------------------------------------------- */

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
    return ll_operations__array_acquire(db, root, out, err);
}

void lladd_array_close(struct lladd_array *a)
{
    if (a)
        ll_operations__array_release(a);
}

/* Allocates and writes the root page, the state last. */
static int make_root(struct lladd_txn *txn, uint32_t size, uint64_t length, lladd_pageno *root)
{
    struct ll_arrays *all = ll_arrays_of(lladd_txn_db(txn));
    unsigned char bytes[LL_ARRAY_FORMAT_BYTES];
    TRY(lladd_page_alloc(txn, root));
    lladd_put32(bytes, size);
    lladd_put32(bytes + 4, lladd_atomic_add32(&all->serial, 1));
    TRY(lladd_update(txn, op(all, LL_ARRAY_FORMAT), *root, bytes, sizeof bytes));
    TRY(ll_operations__extents_create(txn, *root, LL_ARRAY_RUN));
    if (length)
        TRY(put(txn, *root, LL_ARRAY_LENGTH, length));
    return put(txn, *root, LL_ARRAY_STATE, LL_ARRAY_ALIVE);
}

int lladd_array_create(struct lladd_txn *txn, uint32_t size, uint64_t length, lladd_pageno *root)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_array *a = NULL;
    struct ll_array_note *noted = NULL;
    lladd_savepoint_id before;
    lladd_pageno page = {0};
    if (size == 0 || size > lladd_array_element_max(db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "elements of %u bytes: expected 1 to %u",
                               size, lladd_array_element_max(db));
    if (length > ll_array_length_max(size))
        return lladd_error_set(err, LLADD_TOO_LARGE, "an array has at most 2^48 bytes");
    TRY(lladd_savepoint(txn, &before));
    int rc = make_root(txn, size, length, &page);
    if (!rc)
        rc = ll_operations__array_acquire(db, page, &a, err);
    if (!rc)
        rc = ll_operations__array_note(txn, a, &noted);
    rc = ll_operations__step_end(txn, before, rc);
    if (!rc) {
        noted->made = true;
        *root = page;
    }
    if (a)
        ll_operations__array_release(a);
    return rc;
}

int lladd_array_create_open(struct lladd_txn *txn, uint32_t size, uint64_t length,
                            lladd_pageno *root, struct lladd_array **out)
{
    LLADD_USE(txn);
    struct lladd_array *made = NULL;
    lladd_savepoint_id before;
    lladd_pageno page;
    TRY(lladd_savepoint(txn, &before));
    int rc = lladd_array_create(txn, size, length, &page);
    if (!rc)
        rc = lladd_array_open(lladd_txn_db(txn), page, &made, lladd_txn_error_out(txn));
    rc = ll_operations__step_end(txn, before, rc);
    if (rc) {
        lladd_array_close(made);
        return rc;
    }
    *root = page;
    *out = made;
    return 0;
}

static int destroy(struct lladd_txn *txn, struct lladd_array *a)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    int rc = put(txn, a->run.root, LL_ARRAY_STATE, LL_ARRAY_DESTROYED);
    if (!rc)
        rc = ll_operations__extents_free(txn, &a->run);
    if (!rc)
        rc = lladd_page_free(txn, a->run.root);
    return ll_operations__step_end(txn, before, rc);
}

int lladd_array_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct lladd_array *a;
    struct ll_array_note *noted;
    struct lladd_txn_now now;
    TRY(ll_operations__array_acquire(lladd_txn_db(txn), root, &a, lladd_txn_error_out(txn)));
    lladd_mutex_lock(&a->change);
    int rc = ll_operations__array_note(txn, a, &noted);
    if (!rc)
        rc = lladd_txn_now_get(txn, &now);
    if (!rc)
        rc = destroy(txn, a);
    if (!rc) {
        changed(a);
        noted->destroyed = now.next;
    }
    lladd_mutex_unlock(&a->change);
    ll_operations__array_release(a);
    return rc;
}

/* ---- the whole structure --------------------------------------------------------------------- */

int lladd_array_pages(struct lladd_array *a, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                      struct lladd_error *err)
{
    struct ll_array_root root;
    TRY(ll_operations__array_look(a, &root, err));
    TRY(fn(ctx, a->run.root));
    return ll_operations__extents_each_page(&a->run, fn, ctx, err);
}

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
    if (ll_operations__grow(e->a->db, &e->at, e->n + 1, &e->cap, sizeof *e->at))
        return lladd_error_set(e->err, LLADD_NO_MEMORY, "out of memory to check an array");
    e->at[e->n++] = (struct extent){first.v, n};
    for (uint64_t i = 0; i < n; i++) {
        enum lladd_page_use use;
        lladd_pageno page = lladd_page_of(first.v + i);
        TRY(lladd_page_use_get(e->a->db, page, &use, e->err));
        if (use != LLADD_USE_PAGED)
            return broken(e->err, page, "belongs to an array, but is not allocated");
    }
    return 0;
}

static int by_first(const void *x, const void *y)
{
    const struct extent *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Checks that every page is allocated, and belongs to the array only once. */
static int check_extents(struct lladd_array *a, struct lladd_error *err)
{
    struct extents e = {.a = a, .err = err};
    int rc = collect(&e, a->run.root, 1);
    if (!rc)
        rc = ll_operations__extents_each(&a->run, collect, &e, err);
    if (!rc)
        qsort(e.at, e.n, sizeof *e.at, by_first);
    for (size_t i = 1; i < e.n && !rc; i++)
        if (e.at[i - 1].first + e.at[i - 1].n > e.at[i].first)
            rc = broken(err, lladd_page_of(e.at[i].first), "an array has this page twice");
    lladd_mem_free(a->db, e.at);
    return rc;
}

int lladd_array_check(struct lladd_array *a, struct lladd_error *err)
{
    struct ll_array_root root;
    TRY(ll_operations__array_look(a, &root, err));
    TRY(check_extents(a, err));
    if (root.formatted > ll_operations__extents_size(&a->run))
        return broken(err, a->run.root, "more pages are formatted than the array has");
    for (uint64_t i = 0; i < root.formatted; i++) {
        struct lladd_page *held;
        lladd_pageno page = ll_operations__extents_page(&a->run, i);
        int rc = ll_operations__fix(a->db, page, ll_operations__bytes_page.name, LLADD_LATCH_SHARED,
                                    &held, err);
        if (rc == LLADD_WRONG_TYPE)
            return broken(err, page, "belongs to an array, but is not of type lladd.bytes");
        TRY(rc);
        lladd_page_unfix(a->db, held, LLADD_LATCH_SHARED);
    }
    return 0;
}
