/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes a database handle, and puts its parts together. While one thread opens or closes
 * the handle, no other thread of the application uses it.
 *
 * During the creation of a database, its directory has a file "creating". The control block is
 * written last. If a crash leaves "creating" and no valid control block, the next open that may
 * create a database removes the library's other files and starts again. If there is no file
 * "creating", open removes nothing. It refuses a directory that has other files than "lock" and no
 * file "control". The files of a new database may become durable in any order, as long as all of
 * them are durable before the control block is written. So syncs are deferred
 * (io/device_deferred.c, ll_control_write).
 *
 *   lock ► control ► log, buffer ► catalogue ► extensions attach ► recovery ► extensions recovered
 *        ► background work ► (after an unclean stop) checkpoint */
#include "db/db_private.h"
#include "io/io.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_CACHE (64ull << 20)
#define RECOVERY_LEAST (32ull << 20)
#define DEFAULT_RING (8ull << 20)
#define DEFAULT_SEGMENT_MIN (1ull << 20)
#define DEFAULT_SEGMENT_MAX (64ull << 20)
#define DEFAULT_LOG_LIMIT (4ull << 30)
#define DEFAULT_CHECKPOINT (64ull << 20)
/* Upper limit of the default checkpoint_bytes (docs/decisions/checkpoints-by-dirty-pages.md). */
#define CHECKPOINT_MOST (512ull << 20)
/* Bounds of pending_undo_max (recovery/core.h), in bytes of log. */
#define PENDING_MIN (4ull << 20)
#define PENDING_MOST (64ull << 20)
#define FLAGS_KNOWN \
    (LLADD_OPT_NO_THREADS | LLADD_OPT_MUST_EXIST | LLADD_OPT_MUST_NOT_EXIST | \
     LLADD_OPT_ATOMIC_PAGES | LLADD_OPT_LOG_FULL_ERROR)
#define CACHE_MIN (8ull * LL_PAGE_SIZE_MAX)

const char *lladd_version(void)
{
    return "0.1.0";
}

/* ---- options ----------------------------------------------------------------------------- */

static uint64_t or_default(uint64_t v, uint64_t def)
{
    return v ? v : def;
}

int ll_options_take(const struct lladd_options *in, struct lladd_options *o,
                    struct lladd_error *err)
{
    *o = (struct lladd_options){.struct_size = sizeof *o};
    if (in && (in->struct_size < 8 || in->struct_size > 4096))
        return ll_fail(err, LLADD_BAD_ARGUMENT, "options: use LLADD_OPTIONS_INIT");
    if (in)
        memcpy(o, in, in->struct_size < sizeof *o ? in->struct_size : sizeof *o);
    return 0;
}

static int check_options(const struct lladd_options *in, struct lladd_options *o,
                         struct lladd_error *err)
{
    int rc = ll_options_take(in, o, err);
    if (rc)
        return rc;
    o->cache_bytes = or_default(o->cache_bytes, DEFAULT_CACHE);
    o->log_ring_bytes = or_default(o->log_ring_bytes, DEFAULT_RING);
    o->log_segment_min = or_default(o->log_segment_min, DEFAULT_SEGMENT_MIN);
    if (!o->log_segment_max)
        o->log_segment_max =
            o->log_segment_min > DEFAULT_SEGMENT_MAX ? o->log_segment_min : DEFAULT_SEGMENT_MAX;
    o->log_limit_bytes = or_default(o->log_limit_bytes, DEFAULT_LOG_LIMIT);
    if (!o->recovery_bytes)
        o->recovery_bytes =
            o->cache_bytes / 4 > RECOVERY_LEAST ? o->cache_bytes / 4 : RECOVERY_LEAST;
    if (!o->durability)
        o->durability = LLADD_DURABLE;
    if (o->page_size && (!ll_power_of_two(o->page_size) || o->page_size < LL_PAGE_SIZE_MIN ||
                         o->page_size > LL_PAGE_SIZE_MAX))
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "page_size is %u: expected a power of two from %u to %u", o->page_size,
                       LL_PAGE_SIZE_MIN, LL_PAGE_SIZE_MAX);
    if (!ll_power_of_two(o->log_segment_min) || o->log_segment_min < 4096 ||
        !ll_power_of_two(o->log_segment_max) || o->log_segment_max < o->log_segment_min ||
        o->log_segment_max > (1ull << 31))
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "log segments: expected powers of two from 4096 to 2^31, min not above max");
    /* The lower bound depends on page size and operations: ll_extensions_fit. */
    if (!ll_power_of_two(o->log_ring_bytes) || o->log_ring_bytes > LL_LOG_RING_MAX)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "log_ring_bytes: expected a power of two, at most 2^30");
    if (o->cache_bytes < CACHE_MIN / 8)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "cache_bytes: expected at least %llu",
                       (unsigned long long)(CACHE_MIN / 8));
    if (o->flags & ~(uint32_t)FLAGS_KNOWN)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "options: unknown flag 0x%x",
                       o->flags & ~(uint32_t)FLAGS_KNOWN);
    if (o->allocator && !ll_allocator_is_whole(o->allocator))
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "allocator: alloc, resize and release belong together");
    if (o->frames > LLADD_FRAMES_HEAP || o->durability > LLADD_DURABLE_LATER ||
        o->recovery > LLADD_RECOVER_INSTANT)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "options: an enum is out of range");
    return 0;
}

/* ---- what log and buffer manager ask ----------------------------------------------------- */

static int on_loaded(void *ctx, struct ll_frame *f, struct lladd_error *err)
{
    const struct lladd_page_type *t = ll_op_catalog_page_type(ctx, ll_page_type(f->page.bytes));
    return t && t->loaded ? t->loaded(t->ctx, ll_view_of(&f->page), &f->private_, err) : 0;
}

static void on_flushed(void *ctx, struct lladd_page *copy, void *private_)
{
    const struct lladd_page_type *t = ll_op_catalog_page_type(ctx, ll_page_type(copy->bytes));
    if (t && t->flushed)
        t->flushed(t->ctx, copy, private_);
}

static void on_evicted(void *ctx, struct ll_frame *f)
{
    const struct lladd_page_type *t =
        f->private_ ? ll_op_catalog_page_type(ctx, ll_page_type(f->page.bytes)) : NULL;
    if (t && t->evicted)
        t->evicted(t->ctx, f->page.number, &f->private_);
    f->private_ = NULL;
}

/* ---- parts ------------------------------------------------------------------------------- */

static int open_log(struct lladd_db *db, const struct lladd_options *o, bool create,
                    struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    struct ll_log_config c = {.env = &core->env,
                              .dev = core->dev,
                              .segment_min = o->log_segment_min,
                              .segment_max = o->log_segment_max,
                              .ring_bytes = o->log_ring_bytes,
                              .limit_bytes =
                                  o->log_limit_bytes == UINT64_MAX ? 0 : o->log_limit_bytes,
                              .poison = core->poison,
                              .wants_checkpoint = ll_background_pressed,
                              .ctx = core};
    memcpy(c.uuid, core->control.uuid, 16);
    if (create) {
        c.incarnation = 1;
        return ll_log_create(&c, &core->log, err);
    }
    c.incarnation = core->control.incarnation + (core->control.clean ? 0 : 1);
    struct ll_log_start start = ll_control_log_start(&core->control);
    return ll_log_open(&c, &start, &core->log, err);
}

static int open_buffer(struct lladd_db *db, const struct lladd_options *o, bool create,
                       struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    struct ll_buffer_config c = {.env = &core->env,
                                 .dev = core->dev,
                                 .poison = core->poison,
                                 .name = FILE_PAGES,
                                 .dwb_name = FILE_DWB,
                                 .page_size = core->page_size,
                                 .budget = o->cache_bytes,
                                 .salt = core->salt,
                                 .frames = (enum ll_frames)o->frames,
                                 .recovery = ll_page_recovery(core),
                                 .create = create,
                                 .no_images = core->no_images,
                                 .ctx = core,
                                 .loaded = on_loaded,
                                 .flushed = on_flushed,
                                 .evicted = on_evicted};
    return ll_buffer_open(&c, &core->buffer, err);
}

static int init_core(struct lladd_db *db, const struct lladd_options *o, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    core->db = db;
    core->dev = o->device;
    core->no_images = o->flags & LLADD_OPT_ATOMIC_PAGES;
    core->log_full_error = o->flags & LLADD_OPT_LOG_FULL_ERROR;
    core->checkpoint_bytes = or_default(o->checkpoint_bytes, DEFAULT_CHECKPOINT);
    core->checkpoint_most = core->checkpoint_bytes;
    if (!o->checkpoint_bytes && o->log_limit_bytes / 8 > core->checkpoint_most)
        core->checkpoint_most =
            o->log_limit_bytes / 8 < CHECKPOINT_MOST ? o->log_limit_bytes / 8 : CHECKPOINT_MOST;
    uint64_t pending = o->log_limit_bytes / 64;
    core->txns.pending_undo_max = pending < PENDING_MIN    ? PENDING_MIN
                                  : pending > PENDING_MOST ? PENDING_MOST
                                                           : pending;
    core->log_growth = o->log_limit_bytes / 32;
    core->progress = o->progress;
    core->trace = o->trace;
    core->callback_ctx = o->callback_ctx;
    core->redo_threads = o->redo_threads;
    core->recover_instantly = o->recovery == LLADD_RECOVER_INSTANT;
    core->recovery_bytes = o->recovery_bytes;
    core->pace_checkpoint = ll_background_pace;
    core->hurry_checkpoint = ll_background_hurry;
    ll_vec_init(&core->snapshots, &core->env, sizeof(struct ll_snapshot));
    db->durability = o->durability;
    db->log_limit_bytes = o->log_limit_bytes;
    core->pid = (uint64_t)getpid();
    core->poison = &core->own_poison;
    ll_poison_init(core->poison);
    int rc = lladd_mutex_init(&core->control_mutex, LLADD_RANK_LOG - 30, "control block");
    if (!rc)
        rc = lladd_mutex_init(&core->witness_mutex, LLADD_RANK_LOG - 20, "witness");
    if (!rc)
        rc = lladd_mutex_init(&core->misc, LLADD_RANK_LEAF, "redo barriers and pins");
    if (!rc)
        rc = lladd_mutex_init(&core->cut, LLADD_RANK_BUFFER - 10, "truncation of the log");
    if (!rc)
        rc = lladd_mutex_init(&core->checkpointing, LLADD_RANK_CHECKPOINT, "checkpoint");
    if (!rc)
        rc = lladd_mutex_init(&db->wake_mutex, LLADD_RANK_LEAF + 1, "checkpointer");
    if (!rc)
        rc = lladd_cond_init(&db->wake);
    if (!rc)
        rc = ll_txns_init(core);
    return rc ? ll_fail(err, LLADD_NO_MEMORY, "out of memory") : 0;
}

/* Puts the poison into memory that the kernel clears in a forked child, so that `healthy` is 0
 * there. If there is no such memory, process ids are compared instead. They are also compared if
 * the handle has no threads, because a handle without threads must be cheap to open. Called before
 * another thread knows the handle. */
static void watch_fork(struct lladd_db *db)
{
    if (!db->core.env.threads)
        return;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    if (madvise(p, size, MADV_WIPEONFORK)) {
        munmap(p, size);
        return;
    }
    db->core.poison = p;
    ll_poison_init(db->core.poison);
    db->alive = &db->core.poison->healthy;
}

static void release(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    struct ll_env env = core->env;
    struct lladd_device *dev = core->dev;
    bool own = db->own_device;
    ll_extensions_stop(db);
    ll_background_stop(db);
    ll_buffer_close(core->buffer);
    ll_extensions_detach(db);
    ll_deferred_free(core);
    ll_instant_free(core);
    ll_txns_free(core);
    ll_log_close(core->log);
    ll_op_catalog_free(core);
    ll_free(&env, core->barriers);
    ll_free(&env, core->pins);
    ll_vec_free(&core->snapshots);
    ll_free(&env, core->heuristics);
    int late = core->control_file ? ll_io_close(dev, core->control_file) : 0;
    if (db->lock)
        late = ll_io_close(dev, db->lock);
    (void)late; /* everything that must be durable was synced before */
    if (db->alive)
        munmap(core->poison, (size_t)sysconf(_SC_PAGESIZE));
    lladd_cond_destroy(&db->wake);
    lladd_mutex_destroy(&db->wake_mutex);
    lladd_mutex_destroy(&core->checkpointing);
    lladd_mutex_destroy(&core->cut);
    lladd_mutex_destroy(&core->misc);
    lladd_mutex_destroy(&core->witness_mutex);
    lladd_mutex_destroy(&core->control_mutex);
    dev = ll_io_deferred_free(dev); /* before the copy of the device's allocator is freed */
    db->magic = 0;
    core->db = NULL;
    ll_free(&env, db);
    if (own)
        lladd_device_close(dev);
}

/* ---- creating ---------------------------------------------------------------------------- */

struct listing {
    bool others, creating, ours;
};

static int see_name(void *ctx, const char *name)
{
    struct listing *l = ctx;
    if (strcmp(name, FILE_CREATING) == 0)
        l->creating = true;
    else if (strcmp(name, FILE_PAGES) == 0 || strcmp(name, FILE_DWB) == 0 ||
             strcmp(name, DIR_LOG) == 0)
        l->ours = true;
    else if (strcmp(name, FILE_CONTROL) != 0 && strcmp(name, FILE_LOCK) != 0)
        l->others = true;
    return 0;
}

struct segment {
    char name[300];
    bool found;
};

static int see_segment(void *ctx, const char *name)
{
    struct segment *s = ctx;
    if (strlen(name) + sizeof DIR_LOG + 1 > sizeof s->name)
        return 0;
    memcpy(s->name, DIR_LOG "/", sizeof DIR_LOG);
    memcpy(s->name + sizeof DIR_LOG, name, strlen(name) + 1);
    s->found = true;
    return 1;
}

static int remove_if_there(struct lladd_device *dev, const char *name, struct lladd_error *err)
{
    int rc = dev->ops->unlink(dev, name);
    return rc && rc != -ENOENT ? ll_fail_io(err, rc, true, "remove", name) : 0;
}

/* Removes the files that an interrupted creation may have left. */
static int sweep(struct lladd_device *dev, struct lladd_error *err)
{
    int rc = remove_if_there(dev, FILE_CONTROL, err);
    if (!rc)
        rc = remove_if_there(dev, FILE_PAGES, err);
    if (!rc)
        rc = remove_if_there(dev, FILE_DWB, err);
    while (!rc) {
        struct segment s = {.found = false};
        int io = dev->ops->list(dev, DIR_LOG, see_segment, &s);
        if (io < 0 && io != -ENOENT)
            return ll_fail_io(err, io, false, "list", DIR_LOG);
        if (!s.found)
            return 0;
        rc = remove_if_there(dev, s.name, err);
    }
    return rc;
}

static int make_marker(struct lladd_device *dev, struct lladd_error *err)
{
    struct lladd_file *f;
    int rc = ll_io_open(dev, FILE_CREATING, LLADD_OPEN_CREATE, &f);
    if (!rc)
        rc = ll_io_close(dev, f);
    if (!rc)
        rc = ll_io_sync_dir(dev, "");
    return rc ? ll_fail_io(err, rc, true, "create", FILE_CREATING) : 0;
}

static int sync_root(struct lladd_device *dev, struct lladd_error *err)
{
    int rc = ll_io_sync_dir(dev, "");
    return rc ? ll_fail_io(err, rc, true, "sync", "the directory") : 0;
}

static int remove_marker(struct lladd_device *dev, struct lladd_error *err)
{
    int rc = remove_if_there(dev, FILE_CREATING, err);
    return rc ? rc : sync_root(dev, err);
}

static int make_database(struct lladd_db *db, const struct lladd_options *o,
                         const struct lladd_registry *reg, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    struct lladd_environment *w = &core->env.world;
    core->control.format = LL_FORMAT_VERSION;
    core->control.incarnation = 1;
    core->control.created_us = ll_wall_us(&core->env);
    int rc = make_marker(core->dev, err);
    if (!rc)
        rc = sweep(core->dev, err);
    if (rc)
        return rc;
    rc = w->random(w->ctx, core->control.uuid, 16);
    if (rc)
        return ll_fail_io(err, rc, true, "make", "a uuid");
    ll_core_identify(core);
    rc = ll_io_deferred_new(&core->env, core->dev, &core->dev);
    if (rc)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    rc = open_log(db, o, true, err);
    if (!rc)
        rc = open_buffer(db, o, true, err);
    if (!rc)
        rc = ll_op_catalog_init(core, reg, err);
    if (rc)
        return rc;
    rc = ll_io_open(core->dev, FILE_CONTROL, LLADD_OPEN_CREATE, &core->control_file);
    if (rc)
        return ll_fail_io(err, rc, true, "create", FILE_CONTROL);
    /* Allocates the file now. Later the file is only overwritten, and an overwrite does not fail on
     * a full disk. */
    static const unsigned char nothing[LL_CONTROL_FILE_BYTES];
    rc = ll_io_pwrite(core->dev, core->control_file, nothing, sizeof nothing, 0);
    if (rc)
        return ll_fail_io(err, rc, true, "write", FILE_CONTROL);
    core->marked = 1; /* ll_core_mark must do nothing, because there is no control block yet */
    rc = sync_root(core->dev, err);
    if (!rc)
        rc = ll_extensions_attach(db, reg, err);
    if (!rc)
        rc = ll_extensions_create(db, err);
    if (!rc)
        rc = ll_checkpoint(core, LL_CHECKPOINT_ALL, err);
    return rc ? rc : remove_marker(core->dev, err);
}

/* ---- opening ----------------------------------------------------------------------------- */

static int open_database(struct lladd_db *db, const struct lladd_options *o,
                         const struct lladd_registry *reg, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    ll_core_identify(core);
    if (o->page_size && o->page_size != core->page_size)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "the database has pages of %u bytes, not %u",
                       core->page_size, o->page_size);
    int rc = open_log(db, o, false, err);
    if (!rc)
        rc = open_buffer(db, o, false, err);
    if (!rc)
        rc = ll_op_catalog_init(core, reg, err);
    if (!rc)
        rc = ll_extensions_attach(db, reg, err);
    if (!rc)
        rc = ll_restart(core, err);
    return rc;
}

/* Reads the control block. *create: there is no control block, and a database may be created. */
static int look(struct lladd_db *db, const struct lladd_options *o, bool *create,
                struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    struct lladd_device *dev = core->dev;
    *create = false;
    int rc = ll_io_open(dev, FILE_CONTROL, 0, &core->control_file);
    if (rc == 0) {
        rc = ll_control_read(dev, core->control_file, &core->control, err);
        if (!rc && (rc = ll_control_may_write(&core->control, err)) != 0)
            return rc;
        if (!rc && core->control.clean)
            return 0;
    } else if (rc != -ENOENT) {
        return ll_fail_io(err, rc, false, "open", FILE_CONTROL);
    } else {
        rc = LLADD_NOT_FOUND;
    }
    struct listing l = {0};
    int io = dev->ops->list(dev, "", see_name, &l);
    if (io < 0)
        return ll_fail_io(err, io, false, "list", "the directory");
    if (rc == 0 && l.creating) {
        /* The control block that was read is complete. It must be durable before "creating" is
         * removed. If an earlier sync has failed, the bytes that were read may be only in the
         * system's cache, and a second sync proves nothing (LOG-4). So the control block is written
         * again. */
        rc = ll_control_write(&core->env, dev, core->control_file, &core->control, err);
        return rc ? rc : remove_marker(dev, err);
    }
    if (rc == 0)
        return 0;
    /* A torn control block is a sign of an interrupted creation. Any other error is no such
     * sign. */
    bool torn = rc == LLADD_CORRUPT_CONTROL || rc == LLADD_NOT_A_DATABASE;
    if (rc != LLADD_NOT_FOUND && !(l.creating && torn))
        return rc; /* ll_control_read has set the error */
    if (!l.creating && (l.ours || l.others))
        return l.ours ? ll_fail(err, LLADD_MISSING_FILE,
                                "\"control\" is missing; \"log\" or \"pages\" "
                                "is there")
                      : ll_fail(err, LLADD_NOT_A_DATABASE,
                                "the directory holds other files and no \"control\"");
    if (o->flags & LLADD_OPT_MUST_EXIST)
        return ll_fail(err, LLADD_NOT_A_DATABASE, "there is no database in the directory");
    if (core->control_file) {
        int late = ll_io_close(dev, core->control_file);
        core->control_file = NULL;
        if (late)
            return ll_fail_io(err, late, false, "close", FILE_CONTROL);
    }
    *create = true;
    return 0;
}

static int take_lock(struct lladd_db *db, struct lladd_error *err)
{
    int64_t owner = 0;
    int rc = db->core.dev->ops->lock(db->core.dev, FILE_LOCK, &db->lock, &owner);
    if (rc == -EAGAIN && owner == 0)
        return ll_fail(err, LLADD_LOCKED, "another process inspects the database or has it open");
    if (rc == -EAGAIN)
        return ll_fail(err, LLADD_LOCKED, "the database is open in process %lld", (long long)owner);
    return rc ? ll_fail_io(err, rc, true, "lock", FILE_LOCK) : 0;
}

/* Takes a checkpoint, so that the next recovery does not repeat the work of this recovery. With
 * threads, the checkpointer takes it later. Without threads, lladd_maintain takes it later if the
 * recovery was instant. */
static int checkpoint_recovery(struct lladd_db *db, struct lladd_error *err)
{
    if (db->core.recover_instantly || db->core.env.threads) {
        lladd_atomic_store32(&db->core.owes_checkpoint, 1);
        if (db->core.env.threads)
            ll_background_want(&db->core);
        return 0;
    }
    /* An error of the checkpoint, such as a full disk, fails the open only if the error poisons the
     * handle. */
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = ll_checkpoint(&db->core, LL_CHECKPOINT_ALL, &why);
    if (lladd_code_root(rc) != LLADD_ROOT_POISONED)
        return 0;
    if (err)
        *err = why;
    return rc;
}

static int assemble(struct lladd_db *db, const struct lladd_options *o, struct lladd_error *err)
{
    struct lladd_registry reg = {0};
    bool create = false, ample = false;
    int rc = init_core(db, o, err);
    if (rc)
        return rc;
    watch_fork(db);
    rc = take_lock(db, err);
    if (!rc)
        rc = look(db, o, &create, err);
    if (!rc && !create && (o->flags & LLADD_OPT_MUST_NOT_EXIST))
        rc = ll_fail(err, LLADD_EXISTS, "there is a database already");
    if (!rc)
        rc = ll_extensions_merge(&db->core.env, o->registry, &reg, err);
    if (!rc && create)
        db->core.control.page_size = o->page_size ? o->page_size : LL_PAGE_SIZE_MIN;
    if (!rc)
        rc = ll_extensions_fit(&reg, db->core.control.page_size, o, &ample, err);
    db->core.checkpoints_aside = ample ? 2 : 1;
    if (!rc)
        rc = create ? make_database(db, o, &reg, err) : open_database(db, o, &reg, err);
    ll_free(&db->core.env, reg.items);
    if (rc)
        return rc;
    lladd_atomic_max64(&db->core.txns.visible, db->core.control.checkpoint.v);
    db->magic = LL_DB_MAGIC;
    rc = ll_extensions_recovered(db, err);
    if (!rc)
        rc = ll_buffer_start(db->core.buffer, err);
    if (!rc)
        rc = ll_background_start(db, err);
    if (!rc && !create && lladd_atomic_load32(&db->core.marked))
        rc = checkpoint_recovery(db, err);
    return rc;
}

static int open_db(const char *dir, const struct lladd_options *options, struct lladd_db **out,
                   struct lladd_error *err)
{
    struct lladd_options o;
    struct ll_env env;
    if (!out)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "out is NULL");
    *out = NULL;
    int rc = check_options(options, &o, err);
    if (!rc && !dir && !o.device)
        rc = ll_fail(err, LLADD_BAD_ARGUMENT, "neither a directory nor a device is given");
    if (rc)
        return rc;
    ll_env_init(&env, o.allocator, o.world, !(o.flags & LLADD_OPT_NO_THREADS));
    struct lladd_db *db = ll_alloc_zero(&env, sizeof *db);
    if (!db)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    db->core.env = env;
    if (!o.device) {
        rc = lladd_device_posix_mode(dir, !(o.flags & LLADD_OPT_MUST_EXIST), o.file_mode, &o.device,
                                     err);
        if (rc) {
            ll_free(&env, db);
            return rc;
        }
        db->own_device = true;
    }
    rc = assemble(db, &o, err);
    if (rc) {
        if (!db->core.dev)
            db->core.dev = o.device;
        release(db);
        return rc;
    }
    *out = db;
    return 0;
}

int lladd_open(const char *dir, const struct lladd_options *options, struct lladd_db **out,
               struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = open_db(dir, options, out, &why);
    if (rc && err)
        *err = why; /* not earlier: recovery also writes to `why` for errors that it then handles */
    return rc;
}

/* ---- closing ----------------------------------------------------------------------------- */

static int abort_all(struct lladd_db *db)
{
    struct ll_txn_table *t = &db->core.txns;
    int rc = 0;
    for (;;) {
        lladd_mutex_lock(&t->mutex);
        struct lladd_txn *txn = ll_txns_first(t);
        while (txn && lladd_atomic_load32(&txn->state) == LL_TXN_PREPARED)
            txn = ll_txns_next(txn);
        lladd_mutex_unlock(&t->mutex);
        if (!txn || rc)
            return rc;
        rc = ll_txn_abort(txn);
    }
}

static int write_clean(struct ll_core *core, lladd_lsn end)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    core->control.clean = true;
    core->control.incompatible &= ~LL_FEATURE_WRITE_BACK;
    core->control.end = end;
    core->control.watermark = end;
    ll_log_newest_segment(core->log, &core->control.segment, &core->control.segment_bytes);
    return ll_control_write(&core->env, core->dev, core->control_file, &core->control, &err);
}

/* Makes every commit durable, runs the participants' `durable` callbacks, aborts the transactions
 * that the callbacks began, and takes a checkpoint that writes back all pages. */
static int close_round(struct lladd_db *db, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    lladd_lsn last = lladd_lsn_of(lladd_atomic_load64(&core->txns.visible));
    int rc = last.v ? ll_log_force(core->log, last, err) : 0;
    if (!rc)
        ll_txns_drain(core);
    if (!rc)
        rc = abort_all(db);
    (void)ll_txns_release_credit(core);
    core->closing = true;
    return rc ? rc : ll_checkpoint(core, LL_CHECKPOINT_ALL, err);
}

/* Participants may write in their callbacks, so rounds repeat until a round ends with nothing left
 * to write. If something is left after CLOSE_ROUNDS rounds, the database is not marked clean, and
 * the next open redoes what participants have written, as after a crash. */
enum { CLOSE_ROUNDS = 16 };

static int close_clean(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_lsn end;
    bool more = true, settled = false;
    int rc = ll_core_check(core, &err);
    if (!rc)
        ll_deferred_expect(core);
    while (!rc && more)
        rc = ll_deferred_step(core, UINT64_MAX, &more, &err);
    if (!rc)
        rc = abort_all(db);
    /* If nothing was logged, the control block has remained clean. A page that was repaired when it
     * was fetched is dirty even then, and must be written as long as the log can rebuild it. */
    if (rc || (!lladd_atomic_load32(&core->marked) && ll_buffer_dirty_count(core->buffer) == 0))
        return rc;
    for (unsigned i = 0; !rc && !settled && i < CLOSE_ROUNDS; i++) {
        rc = close_round(db, &err);
        settled = ll_core_settled(core);
    }
    /* LLADD_NO_SPACE: the checkpoint would free no log, or a class has no space for what it writes
     * at a checkpoint. ll_log_finish makes all commits durable, and the next open redoes them. */
    if (rc == LLADD_NO_SPACE && core->closing) {
        rc = ll_core_check(core, &err);
        settled = false;
    }
    if (!rc)
        rc = ll_log_finish(core->log, &end, &err);
    return rc || !settled ? rc : write_clean(core, end);
}

int lladd_close(struct lladd_db *db)
{
    if (!db || db->magic != LL_DB_MAGIC)
        return LLADD_CLOSED;
    if (ll_db_enter(db, NULL) == LLADD_FORKED)
        return LLADD_FORKED;
    if (ll_held_pages(db))
        return LLADD_BAD_STATE;
    ll_extensions_stop(db); /* extensions' threads may need the background threads */
    ll_background_stop(db);
    int rc = close_clean(db);
    release(db);
    return rc;
}

void lladd_db_kill(struct lladd_db *db)
{
    if (db && db->magic == LL_DB_MAGIC)
        release(db);
}

/* ---- what the handle says ---------------------------------------------------------------- */

int ll_db_enter(const struct lladd_db *db, struct lladd_error *err)
{
    if (!db || db->magic != LL_DB_MAGIC) {
        /* During the open, extensions may call this before lladd_open has returned the handle. */
        if (!db || !db->core.db)
            return ll_fail(err, LLADD_CLOSED, "the database handle is closed");
    }
    struct ll_core *core = (struct ll_core *)(uintptr_t)&db->core;
    return db->alive ? ll_core_check(core, err) : ll_core_check_slow(core, err);
}

int lladd_db_error(struct lladd_db *db, struct lladd_error *err)
{
    return ll_core_check(&db->core, err);
}

int lladd_check_process(const struct lladd_db *db, struct lladd_error *err)
{
    if (LL_LIKELY(db->alive && lladd_atomic_load32(db->alive)))
        return 0;
    return db->core.pid == (uint64_t)getpid() ? 0 : ll_core_forked(&db->core, err);
}

const uint32_t *lladd_db_alive(const struct lladd_db *db)
{
    return db->alive;
}

struct lladd_device *lladd_db_device(const struct lladd_db *db)
{
    return db->core.dev;
}

uint32_t lladd_page_size(const struct lladd_db *db)
{
    return db->core.page_size;
}

uint64_t lladd_losers_left(struct lladd_db *db)
{
    return ll_deferred_left(&db->core);
}

uint64_t lladd_page_count(const struct lladd_db *db)
{
    return ll_buffer_page_count(db->core.buffer);
}

void lladd_db_uuid(const struct lladd_db *db, unsigned char out[16])
{
    memcpy(out, db->core.uuid, sizeof db->core.uuid);
}

uint32_t lladd_db_timeline(const struct lladd_db *db)
{
    return db->core.timeline;
}

void *lladd_mem_alloc(struct lladd_db *db, size_t size)
{
    return ll_alloc(&db->core.env, size);
}

void *lladd_mem_resize(struct lladd_db *db, void *p, size_t size)
{
    return ll_resize(&db->core.env, p, size);
}

void lladd_mem_free(struct lladd_db *db, void *p)
{
    ll_free(&db->core.env, p);
}

int lladd_random_bytes(struct lladd_db *db, void *buf, size_t len)
{
    return ll_random(&db->core.env, buf, len);
}

uint64_t lladd_now_ns(struct lladd_db *db)
{
    return ll_now_ns(&db->core.env);
}
