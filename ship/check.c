/* SPDX-License-Identifier: BSD-2-Clause */
/* Check: proves that a backup can be restored.
 *
 *   1. the objects that a restore needs are read one by one, so that each damaged or missing one is
 *      named (check_objects.c)
 *   2. the database is opened on an overlay over the read-only device that shows the backup with
 *      the archived log (store_device.c). Recovery redoes the log, and rolls open transactions
 *      back. What it writes stays in memory
 *   3. the database is closed, and every page and record is verified as `lladd verify` does it
 *
 * If objects of the archive are damaged or missing, steps 2 and 3 are done for the end of the
 * backup, which needs no archive. */
#include "ship/check_private.h"

#include <lladd/lladd.h>
#include <string.h>

enum { MEMORY = 64 << 20 };

/* ---- findings ------------------------------------------------------------------------------- */

static bool was_told(const struct ll_ship_check *c, const char *object)
{
    for (size_t at = 0; at < c->told.len; at += strlen((const char *)c->told.data + at) + 1)
        if (strcmp((const char *)c->told.data + at, object) == 0)
            return true;
    return false;
}

static int tell(struct ll_ship_check *c, const struct lladd_finding *f)
{
    uint64_t *count = f->kind == LLADD_FINDING_DAMAGE   ? &c->info.damage
                      : f->kind == LLADD_FINDING_REPAIR ? &c->info.repair
                                                        : &c->info.notes;
    ++*count;
    int rc = c->opt.finding ? c->opt.finding(c->opt.finding_ctx, f) : 0;
    c->stopped = rc != 0;
    return rc ? lladd_error_set(c->err, rc, "the function for findings has stopped the check") : 0;
}

int ll_ship_check_tell(struct ll_ship_check *c, enum lladd_finding_kind kind, int code,
                       const char *object, const char *message)
{
    struct lladd_finding f = {.kind = kind,
                              .code = code,
                              .file = object,
                              .offset = UINT64_MAX,
                              .page = {LLADD_NO_PAGE},
                              .message = message};
    if (was_told(c, object))
        return 0;
    int rc = ll_ship_append(&c->told, object, strlen(object) + 1, c->err);
    return rc ? rc : tell(c, &f);
}

int ll_ship_check_blame(struct ll_ship_check *c, const struct lladd_error *why, const char *object)
{
    char name[LL_SHIP_NAME_MAX];
    const char *begin = why->message, *end = *begin == '"' ? strchr(begin + 1, '"') : NULL;
    if (lladd_code_root(why->code) != LLADD_ROOT_DATA) {
        if (c->err)
            *c->err = *why;
        return why->code;
    }
    /* The message of an error of an object begins with the object's name (ll_ship_corrupt). */
    if (end && (size_t)(end - begin) <= sizeof name) {
        memcpy(name, begin + 1, (size_t)(end - begin - 1));
        name[end - begin - 1] = 0;
        object = name;
    }
    return ll_ship_check_tell(c, LLADD_FINDING_DAMAGE, why->code, object, why->message);
}

static int report(struct ll_ship_check *c)
{
    int rc = c->opt.progress ? c->opt.progress(c->opt.progress_ctx, c->what, c->done, c->all) : 0;
    return rc ? lladd_error_set(c->err, rc, "the progress function has stopped the check") : 0;
}

int ll_ship_check_read(struct ll_ship_check *c, uint64_t bytes)
{
    c->info.objects++;
    c->info.bytes += bytes;
    c->done += bytes;
    c->all = c->all > c->done ? c->all : c->done;
    int rc = ll_ship_pace(&c->pace, bytes, c->err);
    return rc ? rc : report(c);
}

/* ---- the backup ----------------------------------------------------------------------------- */

struct listing {
    struct ll_ship_check *c;
    struct ll_ship_buf bases; /* char[LL_SHIP_NAME_MAX]: the name of a backup */
};

/* Notes the backup to which the object belongs. The objects of a backup may come in any order. */
static int see_base(void *ctx, const char *name, uint64_t size)
{
    struct listing *l = ctx;
    char base[LL_SHIP_NAME_MAX] = "";
    const char *begin = name + strlen("base/"), *slash = strchr(begin, '/');
    (void)size;
    if (!slash || (size_t)(slash - begin) >= sizeof base)
        return 0;
    memcpy(base, begin, (size_t)(slash - begin));
    for (size_t at = 0; at < l->bases.len; at += sizeof base)
        if (strcmp((const char *)l->bases.data + at, base) == 0)
            return 0;
    return ll_ship_append(&l->bases, base, sizeof base, l->c->err);
}

/* Reads the manifest. Keeps it if its backup is the wanted one, or the newest so far. */
static int try_base(struct ll_ship_check *c, const char *base)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_manifest m;
    ll_ship_base_name(base, "manifest", name);
    ll_ship_manifest_init(&m, c->mem);
    int rc = ll_ship_manifest_find(c->store, base, &m, &why);
    const struct lladd_backup_info *best = &c->m.info;
    bool wanted = c->opt.base ? strcmp(base, c->opt.base) == 0
                              : !*best->name || m.info.ended_us > best->ended_us ||
                                    (m.info.ended_us == best->ended_us &&
                                     strcmp(m.info.name, best->name) > 0);
    if (!rc && wanted) {
        ll_ship_manifest_free(&c->m);
        c->m = m;
        return 0;
    }
    ll_ship_manifest_free(&m);
    return rc == LLADD_NOT_FOUND
               ? ll_ship_check_tell(c, LLADD_FINDING_NOTE, 0, name,
                                    "there is none: the backup was interrupted, or has not ended")
           : rc ? ll_ship_check_blame(c, &why, name)
                : 0;
}

/* Reads all manifests, since the check names each backup that cannot be used. */
static int find_base(struct ll_ship_check *c)
{
    struct listing l = {c, {.mem = c->mem}};
    int rc = c->store->ops->list(c->store, "base/", see_base, &l, c->err);
    for (size_t at = 0; at < l.bases.len && !rc; at += LL_SHIP_NAME_MAX)
        rc = try_base(c, (const char *)l.bases.data + at);
    ll_ship_buf_free(&l.bases);
    if (rc || *c->m.info.name || c->info.damage)
        return rc;
    return lladd_error_set(c->err, LLADD_NOT_FOUND, "no complete backup%s%.100s%s",
                           c->opt.base ? " is called \"" : " is in the store",
                           c->opt.base ? c->opt.base : "", c->opt.base ? "\"" : "");
}

/* ---- restored in memory --------------------------------------------------------------------- */

/* Reports the first error of the store. If the store had no error, reports the error of the
 * restored database. The database may have gone on after an error of the store. */
static int blame(struct ll_ship_check *c, struct lladd_error *why)
{
    (void)lladd_store_device_error(c->shown, why); /* leaves `why` if the store had no error */
    return why->code ? ll_ship_check_blame(c, why, ".") : 0;
}

static struct lladd_options options_of(const struct ll_ship_check *c, struct lladd_device *overlay)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    const struct lladd_options *given = c->opt.database;
    ll_ship_take_options(&o, sizeof o, given);
    if (!given)
        o.flags = LLADD_OPT_NO_THREADS;
    o.struct_size = sizeof o;
    if (o.flags & LLADD_OPT_NO_THREADS)
        o.redo_threads = 1; /* the shares of redo would run one after the other */
    o.flags |= LLADD_OPT_MUST_EXIST;
    o.recovery = LLADD_RECOVER_FULL;
    o.device = overlay;
    return o;
}

/* *whole: recovery has found no damage. */
static int recover(struct ll_ship_check *c, const struct lladd_options *options, bool *whole)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_db *db;
    *whole = false;
    if (lladd_open(NULL, options, &db, &why))
        return blame(c, &why);
    int rc = c->opt.opened ? c->opt.opened(c->opt.opened_ctx, db) : 0;
    if (rc) {
        lladd_db_kill(db);
        return lladd_error_set(c->err, rc, "the function for the restored database has stopped "
                                           "the check");
    }
    rc = lladd_close(db);
    if (rc)
        (void)lladd_error_set(&why, rc, "the restored database cannot be closed");
    rc = blame(c, &why);
    *whole = why.code == 0;
    return rc;
}

/* Finds the object that has the log at the LSN. False: recovery has written this log. */
static bool object_of(const struct ll_ship_image *log, uint64_t lsn, char out[LL_SHIP_NAME_MAX])
{
    for (size_t i = 0; i < ll_ship_image_segments(log); i++) {
        const struct ll_ship_image_segment *s = ll_ship_image_at(log, i);
        if (lsn < s->first || lsn >= ll_ship_image_end(s))
            continue;
        ll_ship_image_name(log, i, lsn, out);
        return true;
    }
    return false;
}

/* If the store has failed, the finding is a consequence of that failure, and is not told. Damage in
 * log that is older than what the restore needs shows only here. */
static int see_finding(void *ctx, const struct lladd_finding *f)
{
    struct ll_ship_check *c = ctx;
    char name[LL_SHIP_NAME_MAX];
    int rc = lladd_store_device_error(c->shown, NULL);
    if (rc)
        return rc;
    if (f->kind == LLADD_FINDING_DAMAGE && strncmp(f->file, "log/", 4) == 0 && f->lsn.v &&
        object_of(ll_ship_device_log(c->shown), f->lsn.v, name))
        return ll_ship_check_tell(c, f->kind, f->code, name, f->message);
    return tell(c, f);
}

static void see_progress(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    struct ll_ship_check *c = ctx;
    if (c->opt.progress)
        (void)c->opt.progress(c->opt.progress_ctx, what, done, all); /* cannot stop this part */
}

static int verify(struct ll_ship_check *c, const struct lladd_options *options)
{
    struct lladd_verified v = {.struct_size = sizeof v};
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_inspect *view;
    if (lladd_inspect_open(NULL, options, &view, &why))
        return blame(c, &why);
    lladd_inspect_progress(view, see_progress, c);
    int rc = lladd_inspect_verify(view, see_finding, c, &v, &why);
    lladd_inspect_close(view);
    c->info.pages = v.pages;
    c->info.records = v.records;
    return c->stopped ? rc : blame(c, &why);
}

/* The device shows another timeline, as a restored copy does. So the pin of the origin's archive
 * does not count. That pin may keep older log than the backup has. */
static int prove(struct ll_ship_check *c)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_device *overlay;
    bool whole;
    uint64_t damage = c->info.damage, memory = c->opt.memory_bytes ? c->opt.memory_bytes : MEMORY;
    if (!c->opt.spill_dir)
        memory = UINT64_MAX;
    int rc = lladd_device_overlay_bounded(c->shown, memory, c->opt.spill_dir, &overlay);
    if (rc)
        return lladd_error_set(c->err, rc, "no memory for the restored database");
    struct lladd_options options = options_of(c, overlay);
    lladd_store_device_info(c->shown, &info);
    ll_ship_device_timeline(c->shown, info.timeline + 1);
    c->what = "recovery";
    c->done = c->all = 0;
    rc = report(c);
    if (!rc)
        rc = recover(c, &options, &whole);
    if (!rc && whole) {
        rc = verify(c, &options);
        if (!rc && c->info.damage == damage)
            c->info.restored = info.end;
    }
    lladd_device_close(overlay);
    return rc;
}

/* Restores the backup, with the archived log if that is whole. */
static int restore(struct ll_ship_check *c)
{
    struct lladd_restore_target to = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_error why = LLADD_ERROR_INIT;
    char name[LL_SHIP_NAME_MAX];
    to.kind = c->target ? LLADD_TO_LSN : LLADD_TO_BASE;
    to.lsn = lladd_lsn_of(c->target);
    o.base = c->m.info.name;
    o.target = &to;
    o.allocator = c->opt.allocator;
    o.world = c->opt.world;
    ll_ship_base_name(c->m.info.name, "manifest", name);
    int rc = lladd_store_device(c->store, &o, &c->shown, &why);
    if (rc == LLADD_OUT_OF_RANGE)
        return ll_ship_check_tell(c, LLADD_FINDING_DAMAGE, rc, name, why.message);
    if (rc)
        return ll_ship_check_blame(c, &why, name);
    rc = prove(c);
    lladd_store_device_close(c->shown);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int run(struct ll_ship_check *c)
{
    unsigned char uuid[16];
    struct lladd_error why = LLADD_ERROR_INIT;
    c->what = "objects";
    int rc = find_base(c);
    if (rc || !*c->m.info.name)
        return rc;
    memcpy(c->info.name, c->m.info.name, sizeof c->info.name);
    c->info.timeline = c->m.info.timeline;
    c->info.end = c->m.info.end;
    c->all = c->m.info.stored_bytes;
    int code = ll_ship_store_uuid(c->store, uuid, &why);
    if (code == LLADD_NOT_FOUND)
        code = ll_ship_corrupt(&why, "archive", "it is missing");
    if (code)
        rc = ll_ship_check_blame(c, &why, "archive");
    uint64_t damage = c->info.damage;
    if (!rc)
        rc = ll_ship_check_base(c);
    bool base_whole = c->info.damage == damage;
    if (!rc)
        rc = ll_ship_check_archive(c);
    return rc || !base_whole ? rc : restore(c);
}

int lladd_archive_check(struct lladd_store *store, const struct lladd_check_options *options,
                        struct lladd_check_info *info, struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    struct ll_ship_check c = {.store = store, .opt = LLADD_CHECK_OPTIONS_INIT};
    struct lladd_store *shared = NULL;
    if (!store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a check needs a store");
    c.err = err ? err : &local;
    ll_ship_take_options(&c.opt, sizeof c.opt, options);
    if (c.opt.memory_bytes && !c.opt.spill_dir)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "memory_bytes needs a spill_dir");
    c.mem.allocator = c.opt.allocator;
    c.told.mem = c.object.mem = c.mem;
    c.pace = (struct ll_ship_pace){c.opt.bytes_per_second, ll_ship_now_ns(c.opt.world), 0,
                                   c.opt.world};
    ll_ship_manifest_init(&c.m, c.mem);
    int rc = ll_ship_threads(c.opt.threads, &c.threads, c.err);
    if (!rc)
        rc = ll_ship_store_share(&c.store, c.threads, c.mem, &shared, c.err);
    if (!rc)
        rc = run(&c);
    if (!rc && info) {
        c.info.struct_size = info->struct_size;
        memcpy(info, &c.info,
               info->struct_size < sizeof c.info ? info->struct_size : sizeof c.info);
    }
    ll_ship_manifest_free(&c.m);
    ll_ship_buf_free(&c.told);
    ll_ship_buf_free(&c.object);
    lladd_store_close(shared);
    return rc;
}
