/* SPDX-License-Identifier: BSD-2-Clause */
/* Roll: makes a new backup out of the last one and the archived log above it. The primary database
 * takes no part.
 *
 * The read-only device over the store shows the database as a crash at the end of the log, E, would
 * have left it (store_device.c). From this device the roll copies what a backup of the primary that
 * ended at E might have copied:
 *
 *   control   the control block of the last checkpoint that is complete in the log
 *   pages     with all their records below E redone. They are newer than the checkpoint, as the
 *             pages of a backup may be, and no page is newer than E
 *   log       from `from` to E: what is needed by redo from this checkpoint, by the transactions
 *             that are open at E, by the classes and by the pins
 *
 * Transactions that are open at E are not rolled back in the backup, because they may commit above
 * E. So the pages of the backup are not those of a recovered database. The roll opens a recovered
 * database on an overlay, but only to redo single records, and to learn what the classes need and
 * which pages are in use. This recovery also proves that the last backup and the log can be
 * restored. */
#include "ship/backup_private.h"
#include "ship/image_private.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <string.h>

enum { MEMORY = 64 << 20, PAGE_LSN = 8 };

/* A pin, and the LSN of the record that states it. */
struct pin {
    uint64_t at, lsn; /* LSN of the record; the pin's LSN */
};

struct roll {
    struct lladd_store *store;
    struct lladd_roll_options opt;
    struct lladd_device *shown;  /* the database at E */
    struct lladd_device *opened; /* over `shown`, for `db` */
    struct lladd_device *redone; /* over `shown`: with the records of the pages redone */
    struct ll_ship_backup b;     /* the new backup */
    struct ll_ship_manifest old; /* the last backup */
    unsigned char *page;
    /* what the log says */
    uint64_t checkpoint, redo, incarnation; /* of the last complete checkpoint; 0: there is none */
    uint64_t watermark;                     /* the end of this checkpoint's last record */
    struct ll_ship_buf open;     /* uint64_t: transactions that have not ended */
    struct ll_ship_buf pins;     /* struct pin */
    struct ll_ship_buf barriers; /* uint64_t: for each page the LSN of its newest redo barrier */
    struct ll_ship_buf lacking;  /* uint64_t: pages of which a record could not be redone */
    struct lladd_error *err;
};

/* ---- what the log says ---------------------------------------------------------------------- */

static uint64_t *open_txn(struct roll *r, uint64_t txn)
{
    uint64_t *at = (void *)r->open.data;
    for (size_t i = r->open.len / sizeof *at; i-- > 0;)
        if (at[i] == txn)
            return at + i;
    return NULL;
}

static int note_txn(struct roll *r, const struct ll_ship_logged *l)
{
    uint64_t *at = l->txn ? open_txn(r, l->txn) : NULL;
    bool ends = l->kind == LL_SHIP_REC_COMMIT || l->kind == LL_SHIP_REC_END;
    if (at && ends) {
        r->open.len -= sizeof *at;
        *at = *(uint64_t *)(void *)(r->open.data + r->open.len);
    }
    return at || ends || !l->txn ? 0 : ll_ship_append(&r->open, &l->txn, sizeof l->txn, r->err);
}

static void note_barrier(struct roll *r, const struct ll_ship_logged *l)
{
    uint64_t *newest = (void *)r->barriers.data, pages = r->barriers.len / sizeof *newest;
    if (l->redo_len != 16)
        return;
    uint64_t first = lladd_get64(l->redo), n = lladd_get64(l->redo + 8);
    for (uint64_t i = first; i < pages && i - first < n; i++)
        newest[i] = l->lsn;
}

static int note_pin(struct roll *r, uint64_t at, uint64_t lsn)
{
    struct pin pin = {at, lsn};
    return lsn ? ll_ship_append(&r->pins, &pin, sizeof pin, r->err) : 0; /* 0: it was removed */
}

/* The pins among the parts of a checkpoint's data (docs/disk-format.md). */
static int note_pins(struct roll *r, const struct ll_ship_logged *l)
{
    enum { HEAD = 5, PIN = 4 };
    const unsigned char *b = l->redo;
    size_t len = l->redo_len;
    int rc = 0;
    while (len >= HEAD && !rc) {
        uint32_t part = lladd_get32(b + 1);
        if (part > len - HEAD)
            break;
        if (b[0] == PIN && part > 8)
            rc = note_pin(r, l->lsn, lladd_get64(b + HEAD));
        b += HEAD + part;
        len -= HEAD + part;
    }
    return rc;
}

static int note(void *ctx, const struct ll_ship_logged *l, struct lladd_error *err)
{
    struct roll *r = ctx;
    int rc = 0;
    (void)err;
    /* A commit record with a payload ends a transaction that was ended heuristically. */
    if (l->kind == LL_SHIP_REC_HEURISTIC || (l->kind == LL_SHIP_REC_COMMIT && l->redo_len))
        r->b.m.heuristic = true;
    if (l->kind == LL_SHIP_REC_REDO_BARRIER) {
        note_barrier(r, l);
    } else if (l->kind == LL_SHIP_REC_CHECKPOINT_END && l->redo_len == 16) {
        r->checkpoint = lladd_get64(l->redo);
        r->redo = lladd_get64(l->redo + 8);
        r->incarnation = l->incarnation;
        r->watermark = l->lsn + l->size;
    } else if (l->kind == LL_SHIP_REC_CHECKPOINT_DATA) {
        rc = note_pins(r, l);
    } else if (l->kind == LL_SHIP_REC_PIN && l->redo_len > 8) {
        rc = note_pin(r, l->lsn, lladd_get64(l->redo));
    }
    return rc ? rc : note_txn(r, l);
}

/* ---- pages ---------------------------------------------------------------------------------- */

static int fail_page(struct roll *r, int64_t got, uint64_t page)
{
    if (lladd_store_device_error(r->shown, r->err))
        return lladd_store_device_error(r->shown, NULL);
    return lladd_error_set(r->err, LLADD_STORE_FAILED, "cannot keep page %llu in memory (%lld)",
                           (unsigned long long)page, (long long)got);
}

static uint64_t *lacking(struct roll *r, uint64_t page)
{
    uint64_t *at = (void *)r->lacking.data;
    for (size_t i = 0; i < r->lacking.len / sizeof *at; i++)
        if (at[i] == page)
            return at + i;
    return NULL;
}

/* The page lacks what the record changes. That is no damage if the page is not in use at E: a freed
 * page need not be written. */
static int note_lacking(struct roll *r, uint64_t page)
{
    memset(r->page, 0, r->old.info.page_size);
    return lacking(r, page) ? 0 : ll_ship_append(&r->lacking, &page, sizeof page, r->err);
}

static void note_found(struct roll *r, uint64_t page)
{
    uint64_t *at = lacking(r, page);
    if (!at)
        return;
    r->lacking.len -= sizeof *at;
    *at = *(uint64_t *)(void *)(r->lacking.data + r->lacking.len);
}

static int write_page(struct roll *r, uint64_t page)
{
    uint32_t size = r->old.info.page_size;
    struct lladd_iovec piece = {r->page, size};
    int rc = r->redone->ops->pwritev(r->redone, r->b.pages, &piece, 1, page * size);
    return rc ? fail_page(r, rc, page) : 0;
}

static int redo_page(struct roll *r, const struct ll_ship_logged *l)
{
    uint32_t size = r->old.info.page_size;
    struct lladd_error why = LLADD_ERROR_INIT;
    int64_t got = r->redone->ops->pread(r->redone, r->b.pages, r->page, size, l->page * size);
    if (got != (int64_t)size)
        return fail_page(r, got, l->page);
    bool empty = !ll_ship_page_ok(r->old.info.uuid, l->page, r->page, size) ||
                 lladd_get64(r->page + PAGE_LSN) == 0;
    if (!empty && lladd_get64(r->page + PAGE_LSN) >= l->lsn)
        return 0;
    int rc = lladd_page_redo(r->b.db, lladd_page_of(l->page), l->bytes, l->size,
                             lladd_lsn_of(l->lsn), l->incarnation, r->page, &empty, &why);
    if (rc == LLADD_CORRUPT_PAGE || (!rc && empty))
        rc = note_lacking(r, l->page);
    else if (!rc)
        note_found(r, l->page);
    else if (r->err)
        *r->err = why;
    return rc ? rc : write_page(r, l->page);
}

/* Redo does not apply records below the newest barrier of the page (BUF-6). */
static int redo(void *ctx, const struct ll_ship_logged *l, struct lladd_error *err)
{
    struct roll *r = ctx;
    const uint64_t *newest = (const void *)r->barriers.data;
    bool changes = l->kind == LL_SHIP_REC_UPDATE || l->kind == LL_SHIP_REC_CLR ||
                   l->kind == LL_SHIP_REC_IMAGE;
    (void)err;
    if (!changes || l->page >= r->barriers.len / sizeof *newest || newest[l->page] > l->lsn)
        return 0;
    return redo_page(r, l);
}

static int check_lacking(struct roll *r)
{
    const uint64_t *page = (const void *)r->lacking.data;
    int rc = 0;
    for (size_t i = 0; i < r->lacking.len / sizeof *page && !rc; i++) {
        enum lladd_page_use use = LLADD_USE_NONE;
        rc = lladd_page_use_get(r->b.db, lladd_page_of(page[i]), &use, r->err);
        if (!rc && use != LLADD_USE_NONE && use != LLADD_USE_FREED && use != LLADD_USE_RAW)
            rc = lladd_error_set(r->err, LLADD_CORRUPT_PAGE,
                                 "page %llu is older in backup \"%s\" than its records say",
                                 (unsigned long long)page[i], r->old.info.name);
    }
    return rc;
}

/* ---- the new backup ------------------------------------------------------------------------- */

static int scan(struct roll *r, uint64_t from, ll_ship_scan_fn *fn)
{
    uint64_t end;
    bool more = false;
    return ll_ship_scan(ll_ship_device_log(r->shown), from, r->b.m.info.end.v, fn, r, &end, &more,
                        r->err);
}

static int read_log(struct roll *r)
{
    size_t len = r->b.m.info.pages * sizeof(uint64_t);
    void *room = ll_ship_room(&r->barriers, len);
    if (!room)
        return ll_ship_no_memory(r->err);
    memset(room, 0, len);
    r->barriers.len = len;
    r->b.m.heuristic = r->old.heuristic;
    return scan(r, r->old.info.from.v, note);
}

/* Finds where the log of the new backup begins. `db` has the pins of the last backup, but not the
 * archive's pin. Recovery from the new backup takes pins from the checkpoint and from the log above
 * it. */
static int find_from(struct roll *r)
{
    const uint64_t *txn = (const void *)r->open.data;
    const struct pin *pin = (const void *)r->pins.data;
    lladd_lsn needed;
    uint64_t from = r->redo < r->checkpoint ? r->redo : r->checkpoint;
    for (size_t i = 0; i < r->open.len / sizeof *txn; i++)
        from = txn[i] < from ? txn[i] : from;
    for (size_t i = 0; i < r->pins.len / sizeof *pin; i++)
        if (pin[i].at >= r->checkpoint && pin[i].lsn < from)
            from = pin[i].lsn;
    int rc = lladd_checkpoint(r->b.db, r->err); /* so that redo of `db` needs no old log */
    if (!rc)
        rc = lladd_log_needed(r->b.db, &needed, r->err);
    if (rc)
        return rc;
    from = needed.v < from ? needed.v : from;
    r->b.m.info.from = lladd_lsn_of(from > r->old.info.from.v ? from : r->old.info.from.v);
    r->b.m.redo = lladd_lsn_of(r->redo);
    return 0;
}

static int make_control(struct roll *r, unsigned char control[LL_SHIP_CONTROL])
{
    char name[LL_SHIP_NAME_MAX];
    ll_ship_base_name(r->old.info.name, "control", name);
    int rc = ll_ship_get(r->store, name, 0, control, LL_SHIP_CONTROL, r->err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(r->err, name, "it is missing") : rc;
    ll_ship_control_at(control, r->checkpoint, r->redo, r->watermark, r->incarnation);
    ll_ship_control_copy(control, r->b.m.info.timeline, r->b.m.heuristic);
    return 0;
}

static int store_backup(struct roll *r)
{
    unsigned char control[LL_SHIP_CONTROL];
    int rc = make_control(r, control);
    if (!rc)
        rc = ll_ship_backup_start(&r->b, control);
    r->b.what = "pages";
    r->b.bytes_all = r->b.m.info.pages * r->b.m.info.page_size;
    r->b.repairing = true; /* damaged pages cannot be repaired here */
    if (!rc)
        rc = ll_ship_copy_pages(&r->b, 0, r->b.m.info.pages);
    if (!rc)
        rc = ll_ship_finish_pages(&r->b);
    if (!rc)
        rc = ll_ship_copy_log(&r->b);
    if (!rc)
        rc = ll_ship_backup_finish(&r->b);
    if (rc)
        ll_ship_backup_take_back(&r->b);
    return rc;
}

static int make(struct roll *r)
{
    r->page = ll_ship_new(r->b.mem, r->old.info.page_size);
    int rc = r->page ? ll_ship_backup_room(&r->b) : ll_ship_no_memory(r->err);
    if (!rc)
        rc = read_log(r);
    if (!rc && !r->checkpoint)
        rc = lladd_error_set(r->err, LLADD_OUT_OF_RANGE, "the log has no complete checkpoint");
    if (!rc)
        rc = find_from(r);
    if (!rc)
        rc = scan(r, r->old.redo.v, redo);
    if (!rc)
        rc = check_lacking(r);
    return rc ? rc : store_backup(r);
}

/* ---- devices -------------------------------------------------------------------------------- */

static int overlay(struct roll *r, struct lladd_device **out)
{
    uint64_t memory = r->opt.memory_bytes ? r->opt.memory_bytes : MEMORY;
    int rc = lladd_device_overlay_bounded(r->shown, r->opt.spill_dir ? memory / 2 : UINT64_MAX,
                                          r->opt.spill_dir, out);
    return rc ? lladd_error_set(r->err, rc, "no memory for the database of the new backup") : 0;
}

/* If the store is the cause of an error, its error is the one to report. */
static int blame(struct roll *r, int rc)
{
    bool cause = rc && lladd_code_root(rc) != LLADD_ROOT_MISUSE &&
                 lladd_store_device_error(r->shown, r->err) != 0;
    return cause ? lladd_store_device_error(r->shown, NULL) : rc;
}

static int with_pages(struct roll *r)
{
    struct lladd_device *dev = r->redone;
    int rc = dev->ops->open(dev, "pages", 0, &r->b.pages);
    if (rc)
        return ll_ship_fail_io(r->err, rc, "open", "pages");
    rc = blame(r, make(r));
    int late = dev->ops->close(dev, r->b.pages);
    return rc || !late ? rc : ll_ship_fail_io(r->err, late, "close", "pages");
}

/* The store may be used by one thread at a time, so the database has no threads. (With several
 * threads of the roll, the store is one that any of them may use.) */
static int with_database(struct roll *r)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    const struct lladd_options *given = r->opt.database;
    if (given)
        memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    o.struct_size = sizeof o;
    o.flags |= LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS;
    o.redo_threads = 1;
    o.recovery = LLADD_RECOVER_FULL;
    o.device = r->opened;
    /* The device shows another timeline, so the pin of the origin's archive does not count, as in a
     * restored copy. Otherwise recovery from the last backup would find the pin where it was when
     * that backup was made. */
    ll_ship_device_timeline(r->shown, r->b.m.info.timeline + 1);
    int rc = blame(r, lladd_open(NULL, &o, &r->b.db, r->err));
    if (rc)
        return rc;
    r->b.dev = r->redone;
    rc = with_pages(r);
    lladd_db_kill(r->b.db); /* none of its changes are kept */
    return rc;
}

static int with_devices(struct roll *r)
{
    int rc = overlay(r, &r->opened);
    if (!rc)
        rc = overlay(r, &r->redone);
    if (!rc)
        rc = with_database(r);
    lladd_device_close(r->opened);
    lladd_device_close(r->redone);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int show(struct roll *r)
{
    struct lladd_restore_target to = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    to.kind = LLADD_TO_END;
    to.timeline = r->opt.timeline;
    o.target = &to;
    o.base = r->opt.base;
    o.allocator = r->opt.allocator;
    o.world = r->opt.world;
    int rc = lladd_store_device(r->store, &o, &r->shown, r->err);
    if (rc)
        return rc;
    lladd_store_device_info(r->shown, &info);
    rc = ll_ship_manifest_find(r->store, info.name, &r->old, r->err);
    struct lladd_backup_info *made = &r->b.m.info;
    memcpy(made->uuid, info.uuid, sizeof made->uuid);
    made->page_size = info.page_size;
    made->timeline = info.timeline;
    made->end = info.end;
    made->pages = info.pages;
    return rc;
}

static int run(struct roll *r)
{
    int rc = show(r);
    /* A copy that has no backup yet gets one, even if it has no log of its own. */
    bool new = !rc && (r->b.m.info.end.v > r->old.info.end.v ||
                       r->b.m.info.timeline != r->old.info.timeline);
    if (!rc && !new)
        r->b.m.info = r->old.info;
    if (new)
        rc = with_devices(r);
    lladd_store_device_close(r->shown);
    return rc;
}

int lladd_archive_roll(struct lladd_store *store, const struct lladd_roll_options *options,
                       struct lladd_backup_info *info, struct lladd_error *err)
{
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    struct roll r = {.store = store, .opt = LLADD_ROLL_OPTIONS_INIT, .err = err};
    struct lladd_store *shared = NULL;
    if (!store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a roll needs a store");
    ll_ship_take_options(&r.opt, sizeof r.opt, options);
    if (r.opt.memory_bytes && !r.opt.spill_dir)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "memory_bytes needs a spill_dir");
    b.label = r.opt.label;
    b.bytes_per_second = r.opt.bytes_per_second;
    b.progress = r.opt.progress;
    b.progress_ctx = r.opt.progress_ctx;
    b.allocator = r.opt.allocator;
    b.world = r.opt.world;
    b.threads = r.opt.threads;
    r.b.err = err;
    int rc = ll_ship_backup_options(&r.b, &b);
    if (!rc)
        rc = ll_ship_store_share(&r.store, r.b.threads, r.b.mem, &shared, err);
    r.b.store = r.store;
    r.open.mem = r.pins.mem = r.barriers.mem = r.lacking.mem = r.b.mem;
    ll_ship_manifest_init(&r.old, r.b.mem);
    if (!rc)
        rc = run(&r);
    if (!rc && info) {
        size_t size = info->struct_size < sizeof *info ? info->struct_size : sizeof *info;
        r.b.m.info.struct_size = info->struct_size;
        memcpy(info, &r.b.m.info, size);
    }
    ll_ship_delete(r.b.mem, r.page);
    ll_ship_buf_free(&r.open);
    ll_ship_buf_free(&r.pins);
    ll_ship_buf_free(&r.barriers);
    ll_ship_buf_free(&r.lacking);
    ll_ship_manifest_free(&r.old);
    lladd_store_close(shared);
    ll_ship_backup_release(&r.b);
    return rc;
}
