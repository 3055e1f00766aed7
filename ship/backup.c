/* SPDX-License-Identifier: BSD-2-Clause */
/* A backup of an open database. The steps, in this order:
 *
 *   1. take a hold at the oldest LSN, so that no log is recycled; then take a checkpoint
 *   2. read the control block; then find `from`, the oldest LSN that is needed by redo from this
 *      control block, by a transaction, by a class or by a pin. Raise the hold to `from`
 *   3. copy all pages, with plain reads; meanwhile transactions change and write the pages
 *   4. choose E: an LSN above the page LSN of every copied page, up to which the log is durable
 *   5. copy again the pages that were written in bulk by certain transactions: those with a commit
 *      or prepare record that was logged after step 3 began and is below E. Step 3 may have copied
 *      these pages before they were written, and the log does not have their contents. Then look
 *      for a page among these that has been written in bulk again meanwhile, or has a page LSN that
 *      is not below E. If there is one, raise E, and repeat this step for the transactions with a
 *      commit or prepare record between the two values of E
 *   6. copy the log from `from` to E; then put the manifest
 *
 * Recovery from the copy is recovery from a crash at E. Each page is between its state at the
 * checkpoint and its state at E. No page is newer than the log. The control block, which was read
 * first, says where redo starts. */
#include "ship/backup_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/stats.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 100, LABEL_MOST = 200 };

int ll_ship_progress(struct ll_ship_backup *b, uint64_t bytes)
{
    b->bytes_done += bytes;
    if (b->bytes_done > b->bytes_all)
        b->bytes_all = b->bytes_done;
    int rc = ll_ship_pace(&b->pace, bytes, b->err);
    if (rc || !b->opt.progress)
        return rc;
    rc = b->opt.progress(b->opt.progress_ctx, b->what, b->bytes_done, b->bytes_all);
    return rc ? lladd_error_set(b->err, rc, "the progress function has stopped the backup") : 0;
}

/* ---- steps 1 and 2 -------------------------------------------------------------------------- */

static int see_file(void *ctx, const char *name)
{
    bool *others = ctx;
    *others = *others || strcmp(name, "ship") != 0;
    return 0;
}

/* Files that extensions own are not in the log. */
int ll_ship_refuse_files(struct ll_ship_backup *b)
{
    bool others = false;
    int rc = b->dev->ops->list(b->dev, "files", see_file, &others);
    if (rc && rc != -ENOENT && rc != -ENOTDIR)
        return ll_ship_fail_io(b->err, rc, "list", "files");
    return others ? lladd_error_set(b->err, LLADD_BAD_STATE,
                                    "\"files\" has files of an extension, which a backup would "
                                    "not have")
                  : 0;
}

/* Refuses a store into which another copy of the database archives: the backup would be taken for
 * one of that copy, and go on with its log. */
static int check_claim(struct ll_ship_backup *b)
{
    unsigned char control[LL_SHIP_CONTROL];
    struct ll_ship_claim claim;
    int rc = ll_ship_control_read(b->dev, control, b->err);
    return rc ? rc
              : ll_ship_claim_own(b->store, b->dev, ll_ship_control_timeline(control), &claim,
                                  b->err);
}

static int begin(struct ll_ship_backup *b, struct lladd_log_hold *hold,
                 unsigned char control[LL_SHIP_CONTROL])
{
    struct lladd_backup_info *i = &b->m.info;
    int rc = lladd_checkpoint(b->db, b->err);
    if (!rc)
        rc = ll_ship_control_read(b->dev, control, b->err);
    if (!rc)
        rc = lladd_log_needed(b->db, &i->from, b->err);
    if (rc)
        return rc;
    /* If another checkpoint has ended since the control block was read, the database may need less
     * log than the backup, which has the older control block. */
    b->m.redo = lladd_lsn_of(ll_ship_control_redo(control));
    uint64_t analysis = ll_ship_control_checkpoint(control);
    if (b->m.redo.v < i->from.v || LLADD_PLANTED(LLADD_BUG_FROM_REDO))
        i->from = b->m.redo;
    if (analysis < i->from.v)
        i->from = lladd_lsn_of(analysis);
    (void)lladd_log_hold_raise(hold, i->from);
    i->timeline = ll_ship_control_timeline(control);
    b->read_to = i->from.v;
    return 0;
}

static int put_small(struct ll_ship_backup *b, const char *what, const void *bytes, size_t len)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_iovec piece = {bytes, len};
    ll_ship_base_name(b->m.info.name, what, name);
    return ll_ship_put(b->store, b->mem, name, &piece, 1, b->err);
}

int ll_ship_backup_start(struct ll_ship_backup *b, const unsigned char control[LL_SHIP_CONTROL])
{
    unsigned char random[4];
    struct lladd_backup_info *i = &b->m.info;
    struct ll_ship_buf text = {.mem = b->mem};
    int rc = ll_ship_random(b->opt.world, random, sizeof random, b->err);
    if (rc)
        return rc;
    (void)snprintf(i->name, sizeof i->name, "%08x-%016llx-%02x%02x%02x%02x", i->timeline,
                   (unsigned long long)b->m.redo.v, random[0], random[1], random[2], random[3]);
    i->begun_us = ll_ship_wall_us(b->opt.world);
    rc = ll_ship_print(&text, b->err, "from %llu\nbegun_us %lld\n", (unsigned long long)i->from.v,
                       (long long)i->begun_us);
    if (!rc)
        rc = ll_ship_text_end(&text, b->err);
    if (!rc)
        rc = put_small(b, "begun", text.data, text.len);
    ll_ship_buf_free(&text);
    b->m.control_crc = lladd_crc32c(0, control, LL_SHIP_CONTROL);
    return rc ? rc : put_small(b, "control", control, LL_SHIP_CONTROL);
}

int ll_ship_backup_finish(struct ll_ship_backup *b)
{
    struct ll_ship_buf text = {.mem = b->mem};
    b->m.info.ended_us = ll_ship_wall_us(b->opt.world);
    int rc = ll_ship_manifest_write(&b->m, &text, b->err);
    if (!rc)
        rc = put_small(b, "manifest", text.data, text.len);
    ll_ship_buf_free(&text);
    return rc;
}

/* ---- steps 3 to 5 --------------------------------------------------------------------------- */

static int set_end(struct ll_ship_backup *b)
{
    lladd_lsn durable = lladd_durable_lsn(b->db);
    int rc = 0;
    if (durable.v <= b->newest) {
        rc = lladd_log_force(b->db, lladd_lsn_of(b->newest), b->err);
        durable = lladd_durable_lsn(b->db);
    }
    b->m.info.end = durable;
    return rc;
}

static int by_first(const void *a, const void *b)
{
    const struct ll_ship_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts ranges, and joins those that overlap. */
static void join(struct ll_ship_buf *ranges)
{
    struct ll_ship_range *r = (void *)ranges->data;
    size_t n = ranges->len / sizeof *r, kept = 0;
    if (n > 1)
        qsort(r, n, sizeof *r, by_first);
    for (size_t i = 0; i < n; i++) {
        struct ll_ship_range *last = kept ? &r[kept - 1] : NULL;
        if (last && r[i].first <= last->first + last->n) {
            uint64_t end = r[i].first + r[i].n;
            if (end > last->first + last->n)
                last->n = end - last->first;
        } else {
            r[kept++] = r[i];
        }
    }
    ranges->len = kept * sizeof *r;
}

static int copy_repaired(struct ll_ship_backup *b, void *unused, uint64_t page, const char *why)
{
    (void)unused;
    int rc = ll_ship_copy_pages(b, page, 1);
    const struct ll_ship_buf *d = &b->damaged;
    uint64_t last = d->len ? ((const uint64_t *)(const void *)(d->data + d->len))[-1] : 0;
    if (rc || !d->len || last != page)
        return rc;
    rc = ll_ship_tell_damaged(b, page, why, b->opt.finding, b->opt.finding_ctx);
    return rc ? lladd_error_set(b->err, rc, "the function for findings has stopped the backup") : 0;
}

static int copy_again(struct ll_ship_backup *b)
{
    join(&b->again);
    int rc = 0;
    for (size_t at = 0; at < b->again.len && !rc; at += sizeof(struct ll_ship_range)) {
        const struct ll_ship_range *r = (const void *)(b->again.data + at);
        rc = ll_ship_copy_pages(b, r->first, r->n);
    }
    return rc ? rc : ll_ship_repair_pages(b, copy_repaired, NULL);
}

/* *settled: the pages that were copied again are in their state at the backup's end. */
static int pass(struct ll_ship_backup *b, uint64_t since, bool *settled)
{
    bool written = false;
    uint64_t end = b->m.info.end.v;
    b->again.len = 0;
    b->newest = 0;
    int rc = ll_ship_read_log(b, end, since);
    if (LLADD_PLANTED(LLADD_BUG_BULK_LEFT))
        b->again.len = 0;
    *settled = !rc && b->again.len == 0;
    if (rc || *settled)
        return rc;
    rc = copy_again(b);
    /* A bulk write waits until its barrier is durable (BUF-1). So the barriers of all pages that
     * were copied are durable now. */
    if (!rc)
        rc = ll_ship_overlaps(b, &b->again, end, lladd_durable_lsn(b->db).v, &written);
    *settled = !rc && !written && b->newest < end;
    return rc;
}

/* A watch writes pages again, so E is chosen after it. */
static int copy_all(struct ll_ship_backup *b, uint64_t pages)
{
    struct ll_ship_watch *watch = NULL;
    int rc = ll_ship_watch_begin(b, &watch);
    if (!rc)
        rc = ll_ship_copy_pages(b, 0, pages);
    if (!rc)
        rc = ll_ship_repair_pages(b, copy_repaired, NULL);
    if (!rc)
        rc = ll_ship_watch_end(watch);
    ll_ship_watch_free(watch);
    return rc;
}

static int copy_pages(struct ll_ship_backup *b)
{
    uint64_t since = lladd_durable_lsn(b->db).v;
    uint64_t pages = lladd_page_count(b->db);
    bool settled = false;
    b->what = "pages";
    b->bytes_all = pages * b->m.info.page_size;
    int rc = copy_all(b, pages);
    if (!rc)
        rc = set_end(b);
    for (unsigned i = 0; !rc && !settled; i++) {
        if (i == PASSES)
            return lladd_error_set(b->err, LLADD_BUSY,
                                   "pages that are written in bulk were written again each of %d "
                                   "times that they were copied",
                                   PASSES);
        rc = pass(b, since, &settled);
        since = b->m.info.end.v;
        if (!rc && !settled)
            rc = set_end(b);
    }
    /* Redo expects the page file to have each page that the log names, because a database extends
     * the file before it logs a record of a new page. */
    b->m.info.pages = lladd_page_count(b->db);
    return rc ? rc : ll_ship_finish_pages(b);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int copy(struct ll_ship_backup *b, struct lladd_log_hold *hold)
{
    unsigned char control[LL_SHIP_CONTROL];
    int rc = begin(b, hold, control);
    if (!rc)
        rc = ll_ship_backup_start(b, control);
    if (!rc)
        rc = copy_pages(b);
    if (!rc)
        rc = ll_ship_copy_log(b);
    if (!rc) /* another copy may have begun to archive meanwhile */
        rc = check_claim(b);
    if (!rc)
        rc = ll_ship_backup_finish(b);
    if (!rc && LLADD_PLANTED(LLADD_BUG_MANIFEST_FIRST))
        rc = ll_ship_put_index(b);
    return rc;
}

static int collect(void *ctx, const char *name, uint64_t size)
{
    struct ll_ship_buf *names = ctx;
    (void)size;
    return ll_ship_append(names, name, strlen(name) + 1, NULL);
}

/* The manifest may exist: perhaps only the reply to its put was lost. The manifest is deleted
 * first. If its deletion fails, all other objects stay. So no manifest names objects that were
 * deleted. */
void ll_ship_backup_take_back(struct ll_ship_backup *b)
{
    char prefix[LL_SHIP_NAME_MAX], manifest[LL_SHIP_NAME_MAX];
    struct ll_ship_buf names = {.mem = b->mem};
    if (!*b->m.info.name)
        return;
    ll_ship_base_name(b->m.info.name, "", prefix);
    ll_ship_base_name(b->m.info.name, "manifest", manifest);
    int rc = b->store->ops->remove(b->store, manifest, NULL);
    if (rc && rc != LLADD_NOT_FOUND)
        return;
    if (b->store->ops->list(b->store, prefix, collect, &names, NULL) == 0)
        for (size_t at = 0; at < names.len; at += strlen((char *)names.data + at) + 1)
            (void)b->store->ops->remove(b->store, (char *)names.data + at, NULL);
    ll_ship_buf_free(&names);
}

int ll_ship_backup_options(struct ll_ship_backup *b, const struct lladd_backup_options *options)
{
    b->opt = (struct lladd_backup_options)LLADD_BACKUP_OPTIONS_INIT;
    ll_ship_take_options(&b->opt, sizeof b->opt, options);
    b->mem.allocator = b->opt.allocator;
    int rc = ll_ship_threads(b->opt.threads, &b->threads, b->err);
    if (rc)
        return rc;
    b->pace = (struct ll_ship_pace){b->opt.bytes_per_second, ll_ship_now_ns(b->opt.world), 0,
                                    b->opt.world};
    const char *label = b->opt.label ? b->opt.label : "";
    if (strlen(label) > LABEL_MOST || strpbrk(label, "\n\r"))
        return lladd_error_set(b->err, LLADD_BAD_ARGUMENT,
                               "a label is one line of at most %d bytes", LABEL_MOST);
    ll_ship_manifest_init(&b->m, b->mem);
    memcpy(b->m.info.label, label, strlen(label));
    b->object.mem = b->index.mem = b->entries.mem = b->writers.mem = b->again.mem = b->mem;
    b->suspects.mem = b->damaged.mem = b->mem;
    return 0;
}

int ll_ship_backup_room(struct ll_ship_backup *b)
{
    size_t frame = (size_t)LL_SHIP_FRAME * b->m.info.page_size;
    b->chunk = ll_ship_new(b->mem, frame > LL_SHIP_CHUNK ? frame : LL_SHIP_CHUNK);
    b->packed = ll_ship_new(b->mem, frame);
    b->lz4 = ll_ship_new(b->mem, (size_t)LZ4_sizeofState());
    return b->chunk && b->packed && b->lz4 ? 0 : ll_ship_no_memory(b->err);
}

void ll_ship_backup_release(struct ll_ship_backup *b)
{
    ll_ship_delete(b->mem, b->chunk);
    ll_ship_delete(b->mem, b->packed);
    ll_ship_delete(b->mem, b->lz4);
    ll_ship_buf_free(&b->object);
    ll_ship_buf_free(&b->index);
    ll_ship_buf_free(&b->entries);
    ll_ship_buf_free(&b->damaged);
    ll_ship_buf_free(&b->suspects);
    for (size_t at = 0; at < b->writers.len; at += sizeof(struct ll_ship_writer))
        ll_ship_buf_free(&((struct ll_ship_writer *)(void *)(b->writers.data + at))->ranges);
    ll_ship_buf_free(&b->writers);
    ll_ship_buf_free(&b->again);
    ll_ship_manifest_free(&b->m);
}

static int run(struct ll_ship_backup *b)
{
    struct lladd_log_hold *hold = NULL;
    int rc = lladd_db_error(b->db, b->err);
    if (rc)
        return rc;
    b->dev = lladd_db_device(b->db);
    lladd_db_uuid(b->db, b->m.info.uuid);
    b->m.info.page_size = lladd_page_size(b->db);
    rc = ll_ship_refuse_files(b);
    if (!rc)
        rc = ll_ship_backup_room(b);
    if (!rc)
        rc = ll_ship_claim_store(b->store, b->mem, b->m.info.uuid, b->m.info.page_size, b->err);
    if (!rc)
        rc = check_claim(b);
    if (!rc)
        rc = lladd_log_keep(b->db, "backup", lladd_lsn_of(0), &hold, b->err);
    if (rc)
        return rc;
    rc = b->dev->ops->open(b->dev, "pages", LLADD_OPEN_READ_ONLY, &b->pages);
    if (rc) {
        rc = ll_ship_fail_io(b->err, rc, "open", "pages");
    } else {
        rc = copy(b, hold);
        int late = b->dev->ops->close(b->dev, b->pages);
        if (!rc && late)
            rc = ll_ship_fail_io(b->err, late, "read", "pages");
        if (rc)
            ll_ship_backup_take_back(b);
    }
    lladd_log_release(hold);
    return rc;
}

int lladd_backup(struct lladd_db *db, struct lladd_store *store,
                 const struct lladd_backup_options *options, struct lladd_backup_info *info,
                 struct lladd_error *err)
{
    struct ll_ship_backup b = {.db = db, .store = store, .err = err};
    struct lladd_store *shared = NULL;
    if (!db || !store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a backup needs a database and a store");
    int rc = ll_ship_backup_options(&b, options);
    if (!rc)
        rc = ll_ship_store_share(&b.store, b.threads, b.mem, &shared, err);
    if (!rc)
        rc = run(&b);
    if (!rc && info) {
        size_t size = info->struct_size < sizeof *info ? info->struct_size : sizeof *info;
        b.m.info.struct_size = info->struct_size;
        memcpy(info, &b.m.info, size);
    }
    lladd_store_close(shared);
    ll_ship_backup_release(&b);
    return rc;
}
