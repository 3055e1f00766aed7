/* SPDX-License-Identifier: BSD-2-Clause */
/* See entries.h. */
#include "sim/subjects/entries.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/twophase.h>
#include <string.h>

/* Pages: the head, the slots, the page of the prepared transaction, that of the open one. */
enum { HEAD, SLOT, DOUBT = SLOT + LL_SIM_ENTRY_SLOTS, OPEN, PAGES };
enum { AT = 16, ENDS_AT = 64, LEN = 60, EXTENT = 2, RAW_AFTER = 4 };
#define ROOT "extent"
#define RAW_ROOT "raw"

/* A note for the model: the number of an entry, or 0 for the prepared transaction. */
struct note {
    struct ll_sim_entry entry;
};

static bool has_extent(uint32_t number)
{
    return number % 2 == 0;
}

/* ---- texts ------------------------------------------------------------------------------- */

/* The text of an entry: its number, its variant, then bytes that follow from both. */
static void fill(unsigned char text[LEN], struct ll_sim_entry e)
{
    memset(text, 0, LEN);
    if (!e.number)
        return;
    lladd_put32(text, e.number);
    lladd_put32(text + 4, e.variant);
    memset(text + 8, (int)('a' + e.number + 32 * e.variant), LEN - 8);
}

static int take(const unsigned char text[LEN], const char *where, struct ll_sim_entry *out,
                struct lladd_error *err)
{
    unsigned char want[LEN];
    *out = (struct ll_sim_entry){lladd_get32(text), lladd_get32(text + 4)};
    fill(want, *out);
    return memcmp(text, want, LEN) == 0
               ? 0
               : lladd_error_set(err, LLADD_CORRUPT_PAGE, "%s has no entry's text", where);
}

/* ---- the workload ------------------------------------------------------------------------ */

int ll_sim_entries_make(struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

static int write_text(struct ll_sim_work *w, struct lladd_txn *txn, unsigned page,
                      struct ll_sim_entry e)
{
    unsigned char text[LEN];
    fill(text, e);
    return lladd_bytes_set(txn, lladd_page_of(w->first.v + page), AT, text, LEN);
}

/* Writes the pages of an extent in bulk: raw ones, or ones with headers. */
static int write_extent(struct lladd_txn *txn, lladd_pageno first, struct ll_sim_entry e, bool raw)
{
    struct lladd_db *db = lladd_txn_db(txn);
    size_t size = lladd_page_size(db);
    unsigned char *pages = lladd_mem_alloc(db, EXTENT * size);
    if (!pages)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    memset(pages, 0, EXTENT * size);
    for (unsigned p = 0; p < EXTENT; p++)
        fill(pages + p * size + LLADD_PAGE_HEADER + AT, e);
    int rc = lladd_bulk_write(txn, first, EXTENT, raw ? NULL : "lladd.bytes", pages);
    lladd_mem_free(db, pages);
    return rc ? rc : lladd_bulk_sync(txn);
}

static int find_extent(struct lladd_db *db, const char *root, struct lladd_root_value *v,
                       struct lladd_error *err)
{
    int rc = lladd_root_get(db, root, v, err);
    if (rc)
        *v = (struct lladd_root_value){LLADD_NO_PAGE, 0};
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int make_extent(struct lladd_txn *txn, const char *root, struct ll_sim_entry e, bool raw)
{
    unsigned kind = raw ? LLADD_EXTENT_RAW : LLADD_EXTENT_BULK;
    lladd_pageno first;
    TRY(lladd_extent_alloc(txn, EXTENT, kind, &first));
    TRY(write_extent(txn, first, e, raw));
    return lladd_root_set(txn, root, (struct lladd_root_value){first.v, kind});
}

static int replace_extent(struct ll_sim_work *w, struct lladd_txn *txn, struct ll_sim_entry e)
{
    struct lladd_root_value old;
    TRY(find_extent(w->db, ROOT, &old, lladd_txn_error_out(txn)));
    if (old.a != LLADD_NO_PAGE)
        TRY(lladd_extent_free(txn, lladd_page_of(old.a), EXTENT));
    return make_extent(txn, ROOT, e, false);
}

static int do_entry(struct ll_sim_work *w, struct lladd_txn *txn, struct ll_sim_entry e,
                    lladd_lsn before)
{
    unsigned char number[8], end[8];
    struct note note = {e};
    lladd_put32(number, e.number);
    lladd_put32(number + 4, e.variant);
    lladd_put64(end, before.v);
    TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + HEAD), AT, number, sizeof number));
    TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + HEAD), ENDS_AT + 8 * (e.number - 1), end,
                        sizeof end));
    TRY(write_text(w, txn, SLOT + e.number % LL_SIM_ENTRY_SLOTS, e));
    if (has_extent(e.number))
        TRY(replace_extent(w, txn, e));
    if (e.number == RAW_AFTER)
        TRY(make_extent(txn, RAW_ROOT, e, true));
    return w->sim ? lladd_sim_note(w->sim, txn, &note, sizeof note) : 0;
}

static int begin(struct ll_sim_work *w, struct lladd_txn **txn)
{
    TRY(ll_sim_pages_find(w->db, &w->first, w->err));
    return w->sim ? lladd_sim_begin(w->sim, w->db, NULL, txn, w->err)
                  : lladd_begin(w->db, NULL, txn, w->err);
}

int ll_sim_entry_do(struct ll_sim_work *w, uint32_t number, uint32_t variant)
{
    struct lladd_txn *txn;
    lladd_lsn before = lladd_durable_lsn(w->db);
    if (number == 0 || number > LL_SIM_ENTRIES_MOST)
        return lladd_error_set(w->err, LLADD_BAD_ARGUMENT, "there is no entry %u", number);
    TRY(begin(w, &txn));
    int rc = do_entry(w, txn, (struct ll_sim_entry){number, variant}, before);
    if (!rc)
        rc = w->sim ? lladd_sim_commit(w->sim, txn) : lladd_commit(txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

int ll_sim_entry_open(struct ll_sim_work *w)
{
    struct lladd_txn *txn;
    TRY(begin(w, &txn));
    int rc = write_text(w, txn, OPEN, (struct ll_sim_entry){1, 7});
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

int ll_sim_entry_roll_back(struct ll_sim_work *w)
{
    struct lladd_txn *txn;
    struct ll_sim_entry e = {4, 6};
    TRY(begin(w, &txn));
    int rc = write_text(w, txn, SLOT, e);
    if (!rc)
        rc = replace_extent(w, txn, e);
    if (!rc)
        rc = lladd_sim_abort(w->sim, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

int ll_sim_entry_prepare(struct ll_sim_work *w)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 5};
    struct lladd_txn *txn;
    struct note note = {{0, 0}};
    memcpy(gid.data, "entry", 5);
    TRY(begin(w, &txn));
    int rc = write_text(w, txn, DOUBT, (struct ll_sim_entry){1, 5});
    if (!rc)
        rc = lladd_sim_note(w->sim, txn, &note, sizeof note);
    if (!rc)
        rc = lladd_sim_prepare(w->sim, txn, &gid);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int read_text(struct lladd_db *db, unsigned page, const char *where,
                     struct ll_sim_entry *out, struct lladd_error *err)
{
    unsigned char text[LEN];
    lladd_pageno first;
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_bytes_get(db, lladd_page_of(first.v + page), AT, text, LEN, err));
    return take(text, where, out, err);
}

static int read_raw(struct lladd_db *db, lladd_pageno page, unsigned char text[LEN],
                    struct lladd_error *err)
{
    unsigned char *all = lladd_mem_alloc(db, lladd_page_size(db));
    if (!all)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    int rc = lladd_bulk_read(db, page, 1, true, all, err);
    memcpy(text, all + LLADD_PAGE_HEADER + AT, LEN);
    lladd_mem_free(db, all);
    return rc;
}

static int read_extent(struct lladd_db *db, const char *root, struct ll_sim_entry *out,
                       struct lladd_error *err)
{
    struct lladd_root_value v;
    *out = (struct ll_sim_entry){0, 0};
    TRY(find_extent(db, root, &v, err));
    for (unsigned p = 0; v.a != LLADD_NO_PAGE && p < EXTENT; p++) {
        unsigned char text[LEN];
        struct ll_sim_entry e;
        lladd_pageno page = lladd_page_of(v.a + p);
        TRY(v.b == LLADD_EXTENT_RAW ? read_raw(db, page, text, err)
                                    : lladd_bytes_get(db, page, AT, text, LEN, err));
        TRY(take(text, "a page of the extent", &e, err));
        if (!e.number || (p && (e.number != out->number || e.variant != out->variant)))
            return lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                   "page %u of the extent does not have the entry's text", p);
        *out = e;
    }
    return 0;
}

static int read_all(struct lladd_db *db, struct ll_sim_entries *out, struct lladd_error *err)
{
    unsigned char number[8];
    struct ll_sim_entry doubt, open;
    lladd_pageno first;
    memset(out, 0, sizeof *out);
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_bytes_get(db, lladd_page_of(first.v + HEAD), AT, number, sizeof number, err));
    out->last = (struct ll_sim_entry){lladd_get32(number), lladd_get32(number + 4)};
    for (unsigned i = 0; i < LL_SIM_ENTRY_SLOTS; i++)
        TRY(read_text(db, SLOT + i, "a slot", &out->slot[i], err));
    TRY(read_extent(db, ROOT, &out->extent, err));
    TRY(read_extent(db, RAW_ROOT, &out->raw, err));
    TRY(read_text(db, DOUBT, "the page of the prepared transaction", &doubt, err));
    out->doubt = doubt.number != 0;
    TRY(read_text(db, OPEN, "the page of the open transaction", &open, err));
    if (open.number)
        return lladd_error_set(err, LLADD_CORRUPT_PAGE, "an open transaction's change is there");
    return 0;
}

/* Returns true if the database must have entry `e` in the place of entry `number`. */
static bool fits(const struct ll_sim_entries *has, struct ll_sim_entry e, uint32_t number)
{
    bool newest = number == has->last.number;
    return e.number == number && (!newest || !number || e.variant == has->last.variant);
}

int ll_sim_entries_read(struct lladd_db *db, struct ll_sim_entries *out, struct lladd_error *err)
{
    TRY(read_all(db, out, err));
    uint32_t last = out->last.number;
    bool fine = fits(out, out->extent, has_extent(last) ? last : last - 1) &&
                fits(out, out->raw, last < RAW_AFTER ? 0 : RAW_AFTER);
    for (uint32_t i = 0; i < LL_SIM_ENTRY_SLOTS; i++) {
        uint32_t number = last;
        while (number && number % LL_SIM_ENTRY_SLOTS != i)
            number--;
        fine = fine && fits(out, out->slot[i], number);
    }
    return fine ? 0
                : lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                  "the contents are not those after entry %u: slots %u %u %u, "
                                  "extents %u %u",
                                  last, out->slot[0].number, out->slot[1].number,
                                  out->slot[2].number, out->extent.number, out->raw.number);
}

int ll_sim_entries_last(struct lladd_db *db, uint32_t *out, struct lladd_error *err)
{
    struct ll_sim_entries has;
    int rc = ll_sim_entries_read(db, &has, err);
    *out = has.last.number;
    return rc;
}

int ll_sim_entry_end(struct lladd_db *db, uint32_t number, lladd_lsn *out, struct lladd_error *err)
{
    unsigned char end[8];
    lladd_pageno first;
    TRY(ll_sim_pages_find(db, &first, err));
    int rc = lladd_bytes_get(db, lladd_page_of(first.v + HEAD), ENDS_AT + 8 * number, end,
                             sizeof end, err);
    *out = lladd_lsn_of(rc ? 0 : lladd_get64(end));
    return rc;
}

/* ---- the archive ------------------------------------------------------------------------- */

/* An archive that continues compares the log with the segments in the store. If a segment is
 * damaged (--damage), the archive takes it for the log of another copy. This is reported as damage
 * of the log. */
int ll_sim_entries_store(struct lladd_archive *a, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    bool more = true;
    int rc = 0;
    while (!rc && more)
        rc = lladd_archive_step(a, &more, &own);
    return rc ? lladd_error_set(err, rc == LLADD_DIVERGED ? LLADD_CORRUPT_LOG : rc, "%s",
                                own.message)
              : 0;
}

/* ---- what a store has -------------------------------------------------------------------- */

static int count_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    (void)info;
    ++*(uint32_t *)ctx;
    return 0;
}

static int read_shown(struct lladd_db *db, struct ll_sim_shown *out, struct lladd_error *err)
{
    out->in_doubt = 0;
    TRY(lladd_in_doubt_each(db, count_doubt, &out->in_doubt, err));
    return ll_sim_entries_read(db, &out->has, err);
}

static int open_and_read(struct lladd_device *device, bool instant, struct ll_sim_shown *out,
                         struct lladd_error *err)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_db *db;
    o.device = device;
    o.flags = LLADD_OPT_NO_THREADS | LLADD_OPT_MUST_EXIST;
    o.cache_bytes = 256 << 10;
    o.log_ring_bytes = 64 << 10;
    o.log_segment_min = o.log_segment_max = 8 << 10;
    o.frames = LLADD_FRAMES_HEAP;
    o.redo_threads = 1;
    o.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    TRY(lladd_open(NULL, &o, &db, err));
    int rc = read_shown(db, out, err);
    lladd_db_kill(db);
    return rc;
}

/* The copy is another database than the one that is simulated, so the simulator must not see what
 * the copy's recovery does. Planted bugs stay planted. */
int ll_sim_entries_look(struct lladd_device *device, bool instant, struct ll_sim_shown *out,
                        struct lladd_error *err)
{
    struct lladd_dst own = {.planted = lladd_dst_current()->planted};
    struct lladd_device *overlay;
    if (lladd_device_overlay(device, &overlay))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    struct lladd_dst *before = lladd_dst_enter(&own);
    int rc = open_and_read(overlay, instant, out, err);
    (void)lladd_dst_enter(before);
    lladd_device_close(overlay);
    return rc;
}

int ll_sim_entries_show(struct lladd_store *store, const struct lladd_restore_options *options,
                        bool instant, struct ll_sim_shown *out, struct lladd_error *err)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_device *device;
    TRY(lladd_store_device(store, options, &device, err));
    lladd_store_device_info(device, &info);
    out->end = info.end;
    int rc = ll_sim_entries_look(device, instant, out, err);
    if (rc)
        (void)lladd_store_device_error(device, err); /* the device's own error, if there is one,
                                                      * says more */
    lladd_store_device_close(device);
    return rc;
}

/* ---- model ------------------------------------------------------------------------------- */

static int write_down(const struct ll_sim_entries *has, struct lladd_sink *sink)
{
    return lladd_sink_printf(sink, "%u.%u: %u.%u %u.%u %u.%u, %u.%u %u.%u, %u", has->last.number,
                             has->last.variant, has->slot[0].number, has->slot[0].variant,
                             has->slot[1].number, has->slot[1].variant, has->slot[2].number,
                             has->slot[2].variant, has->extent.number, has->extent.variant,
                             has->raw.number, has->raw.variant, has->doubt);
}

int ll_sim_entries_dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                        struct lladd_error *err)
{
    struct ll_sim_entries has;
    (void)ctx;
    TRY(read_all(db, &has, err));
    return write_down(&has, sink);
}

void ll_sim_entries_add(struct ll_sim_entries *has, struct ll_sim_entry e)
{
    has->last = has->slot[e.number % LL_SIM_ENTRY_SLOTS] = e;
    if (has_extent(e.number))
        has->extent = e;
    if (e.number == RAW_AFTER)
        has->raw = e;
}

void ll_sim_entries_apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct ll_sim_entries *has = model;
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    if (note.entry.number)
        ll_sim_entries_add(has, note.entry);
    else
        has->doubt = 1;
}

int ll_sim_entries_model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

void ll_sim_entries_describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    if (note.entry.number)
        (void)lladd_sink_printf(sink, "does entry %u.%u", note.entry.number, note.entry.variant);
    else
        (void)lladd_sink_printf(sink, "changes a page");
}

int ll_sim_entries_pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *err)
{
    static const char *const roots[] = {ROOT, RAW_ROOT};
    TRY(ll_sim_pages_each(ctx, db, fn, arg, err));
    for (unsigned i = 0; i < sizeof roots / sizeof *roots; i++) {
        struct lladd_root_value v;
        TRY(find_extent(db, roots[i], &v, err));
        for (unsigned p = 0; v.a != LLADD_NO_PAGE && p < EXTENT; p++)
            TRY(fn(arg, lladd_page_of(v.a + p)));
    }
    return 0;
}
