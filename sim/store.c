/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store: the store of a simulation (lladd/ship.h). Its objects are files of the simulated disk in
 * the directory "store", beside the database. A crash can come at each device call of a put or
 * a removal, and leaves these files undetermined like the database's own. Each of these calls can
 * also fail.
 *
 * The '/' in the name of an object is '+' in the name of its file. A put writes the object under a
 * name that no object has, syncs the file, renames it, and syncs the directory. So the store keeps
 * the promises of struct lladd_store_ops even if a crash interrupts a put.
 */
#include "sim/sim_private.h"

#include <errno.h>

#define FOLDER "store"
#define UNDER FOLDER "/"
#define UNFINISHED UNDER ".new"
enum { PATH = 200 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static struct lladd_sim *sim_of(struct lladd_store *store)
{
    return ((struct ll_sim_objects *)store)->sim;
}

static struct lladd_device *disk_of(struct lladd_store *store)
{
    return sim_of(store)->store.disk;
}

static int fail(struct lladd_error *err, int rc, const char *what, const char *name)
{
    int code = rc == -ENOSPC ? LLADD_NO_SPACE : LLADD_STORE_FAILED;
    return lladd_error_set(err, code, "the simulated store cannot %s \"%s\": error %d", what, name,
                           -rc);
}

/* Fails while the store is away. */
static int reach(struct lladd_store *store, struct lladd_error *err)
{
    return sim_of(store)->store.away
               ? lladd_error_set(err, LLADD_STORE_FAILED, "the simulated store is away")
               : 0;
}

/* The name of the object's file. */
static int path_of(const char *name, char out[PATH], struct lladd_error *err)
{
    size_t len = strlen(name);
    if (len + sizeof UNDER > PATH)
        return lladd_error_set(err, LLADD_TOO_LARGE, "the name \"%s\" is too long", name);
    memcpy(out, UNDER, sizeof UNDER);
    for (size_t i = 0; i <= len; i++)
        out[sizeof UNDER - 1 + i] = (char)(name[i] == '/' ? '+' : name[i]);
    return 0;
}

/* ---- put --------------------------------------------------------------------------------- */

static int exists(struct lladd_device *disk, const char *path, bool *out)
{
    struct lladd_file *file;
    int rc = disk->ops->open(disk, path, LLADD_OPEN_READ_ONLY, &file);
    *out = rc == 0;
    if (rc == -ENOENT)
        return 0;
    return rc ? rc : disk->ops->close(disk, file);
}

static int create(struct lladd_device *disk, struct lladd_file **file)
{
    int rc = disk->ops->unlink(disk, UNFINISHED); /* a put that a crash has interrupted */
    if (rc && rc != -ENOENT)
        return rc;
    rc = disk->ops->open(disk, UNFINISHED, LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE, file);
    if (rc != -ENOENT)
        return rc;
    rc = disk->ops->mkdir(disk, FOLDER);
    if (!rc)
        rc = disk->ops->sync_dir(disk, "");
    return rc ? rc
              : disk->ops->open(disk, UNFINISHED, LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE, file);
}

static int write_whole(struct lladd_device *disk, const char *path,
                       const struct lladd_iovec *pieces, int n)
{
    struct lladd_file *file;
    int rc = create(disk, &file);
    if (rc)
        return rc;
    rc = disk->ops->pwritev(disk, file, pieces, n, 0);
    if (!rc)
        rc = disk->ops->sync(disk, file);
    int late = disk->ops->close(disk, file);
    rc = rc ? rc : late;
    if (!rc)
        rc = disk->ops->rename(disk, UNFINISHED, path);
    return rc ? rc : disk->ops->sync_dir(disk, FOLDER);
}

static int store_put(struct lladd_store *store, const char *name, const struct lladd_iovec *pieces,
                     int n, struct lladd_error *err)
{
    struct lladd_device *disk = disk_of(store);
    char path[PATH];
    bool taken;
    TRY(reach(store, err));
    if (sim_of(store)->store.full)
        return lladd_error_set(err, LLADD_NO_SPACE, "the simulated store is full");
    TRY(path_of(name, path, err));
    int rc = exists(disk, path, &taken);
    if (!rc && taken) {
        /* If the process died in a put, the object's name may not be durable yet. */
        rc = disk->ops->sync_dir(disk, FOLDER);
        return rc ? fail(err, rc, "put", name)
                  : lladd_error_set(err, LLADD_EXISTS, "the object \"%s\" exists", name);
    }
    if (!rc)
        rc = write_whole(disk, path, pieces, n);
    return rc ? fail(err, rc, "put", name) : 0;
}

/* ---- get, list, remove ------------------------------------------------------------------- */

static int store_get(struct lladd_store *store, const char *name, uint64_t offset, void *bytes,
                     size_t len, struct lladd_error *err)
{
    struct lladd_device *disk = disk_of(store);
    struct lladd_file *file;
    char path[PATH];
    TRY(reach(store, err));
    TRY(path_of(name, path, err));
    int rc = disk->ops->open(disk, path, LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return lladd_error_set(err, LLADD_NOT_FOUND, "there is no object \"%s\"", name);
    if (rc)
        return fail(err, rc, "get", name);
    int64_t got = disk->ops->pread(disk, file, bytes, len, offset);
    rc = disk->ops->close(disk, file);
    if (got < 0 || rc)
        return fail(err, got < 0 ? (int)got : rc, "get", name);
    return (size_t)got == len
               ? 0
               : lladd_error_set(err, LLADD_CORRUPT_BACKUP, "the object \"%s\" is too short", name);
}

struct listing {
    struct lladd_store *store;
    const char *prefix; /* as in the names of files */
    lladd_store_list_fn *fn;
    void *ctx;
    struct lladd_error *err;
    int stopped; /* the result that has ended the list; 0: none */
};

static int size_of(struct lladd_device *disk, const char *path, uint64_t *out)
{
    struct lladd_file *file;
    int rc = disk->ops->open(disk, path, LLADD_OPEN_READ_ONLY, &file);
    if (rc)
        return rc;
    rc = disk->ops->size(disk, file, out);
    int late = disk->ops->close(disk, file);
    return rc ? rc : late;
}

static int see_file(void *ctx, const char *file)
{
    struct listing *l = ctx;
    char path[PATH], name[PATH];
    uint64_t size;
    size_t len = strlen(file);
    if (*file == '.' || len >= PATH || strncmp(file, l->prefix, strlen(l->prefix)) != 0)
        return 0;
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)(file[i] == '+' ? '/' : file[i]);
    l->stopped = path_of(name, path, l->err);
    int rc = l->stopped ? 0 : size_of(disk_of(l->store), path, &size);
    if (rc)
        l->stopped = fail(l->err, rc, "list", name);
    else if (!l->stopped)
        l->stopped = l->fn(l->ctx, name, size);
    return l->stopped;
}

static int store_list(struct lladd_store *store, const char *prefix, lladd_store_list_fn *fn,
                      void *ctx, struct lladd_error *err)
{
    struct lladd_device *disk = disk_of(store);
    char path[PATH];
    TRY(reach(store, err));
    TRY(path_of(prefix, path, err));
    struct listing l = {store, path + sizeof UNDER - 1, fn, ctx, err, 0};
    int rc = disk->ops->list(disk, FOLDER, see_file, &l);
    if (l.stopped || rc == -ENOENT)
        return l.stopped;
    return rc ? fail(err, rc, "list", prefix) : 0;
}

static int store_remove(struct lladd_store *store, const char *name, struct lladd_error *err)
{
    struct lladd_device *disk = disk_of(store);
    char path[PATH];
    TRY(reach(store, err));
    TRY(path_of(name, path, err));
    int rc = disk->ops->unlink(disk, path);
    if (rc == -ENOENT)
        return lladd_error_set(err, LLADD_NOT_FOUND, "there is no object \"%s\"", name);
    if (!rc)
        rc = disk->ops->sync_dir(disk, FOLDER);
    return rc ? fail(err, rc, "remove", name) : 0;
}

static void store_close(struct lladd_store *store)
{
    (void)store; /* the simulator owns it */
}

static const struct lladd_store_ops ops = {
    .struct_size = sizeof ops,
    .put = store_put,
    .get = store_get,
    .list = store_list,
    .remove = store_remove,
    .close = store_close,
};

/* ---- a filter ---------------------------------------------------------------------------- */

/* A handle with a filter remembers parts of objects. So each disk gets a handle of its own. */
static int filtered(struct lladd_store *store, struct lladd_store **out, struct lladd_error *err)
{
    struct ll_sim_store *s = (struct ll_sim_store *)store;
    int rc = s->filtered ? 0
                         : lladd_store_over(&s->objects.face, s->objects.sim->subject.filter, NULL,
                                            &s->filtered, err);
    *out = s->filtered;
    return rc;
}

static int filtered_put(struct lladd_store *store, const char *name,
                        const struct lladd_iovec *pieces, int n, struct lladd_error *err)
{
    struct lladd_store *to;
    TRY(filtered(store, &to, err));
    return to->ops->put(to, name, pieces, n, err);
}

static int filtered_get(struct lladd_store *store, const char *name, uint64_t offset, void *bytes,
                        size_t len, struct lladd_error *err)
{
    struct lladd_store *to;
    TRY(filtered(store, &to, err));
    return to->ops->get(to, name, offset, bytes, len, err);
}

static int filtered_list(struct lladd_store *store, const char *prefix, lladd_store_list_fn *fn,
                         void *ctx, struct lladd_error *err)
{
    struct lladd_store *to;
    TRY(filtered(store, &to, err));
    return to->ops->list(to, prefix, fn, ctx, err);
}

static int filtered_remove(struct lladd_store *store, const char *name, struct lladd_error *err)
{
    struct lladd_store *to;
    TRY(filtered(store, &to, err));
    return to->ops->remove(to, name, err);
}

static int filtered_size(struct lladd_store *store, const char *name, uint64_t *out,
                         struct lladd_error *err)
{
    struct lladd_store *to;
    TRY(filtered(store, &to, err));
    return to->ops->size(to, name, out, err);
}

static const struct lladd_store_ops filtered_ops = {
    .struct_size = sizeof filtered_ops,
    .put = filtered_put,
    .get = filtered_get,
    .list = filtered_list,
    .remove = filtered_remove,
    .close = store_close,
    .size = filtered_size,
};

/* ---- a simulation ------------------------------------------------------------------------ */

static uint64_t world_now(void *ctx)
{
    const struct lladd_environment *w = &((struct lladd_sim *)ctx)->world;
    return w->now_ns(w->ctx);
}

static int64_t world_wall(void *ctx)
{
    const struct lladd_environment *w = &((struct lladd_sim *)ctx)->world;
    return w->wall_us(w->ctx);
}

/* All databases of a simulation begin with the same seed, so two of them would draw the same random
 * names for objects in the store. The random bytes therefore also depend on the calls that the
 * database has made. */
static int world_random(void *ctx, void *buf, size_t len)
{
    struct lladd_sim *sim = ctx;
    if (sim->running)
        sim->random = ll_sim_mix(sim->random, sim->running->trace_hash + sim->running->level);
    return sim->world.random(sim->world.ctx, buf, len);
}

static struct lladd_store *store_of(struct lladd_sim *sim)
{
    return sim->subject.filter ? &sim->store.face : &sim->store.objects.face;
}

int ll_sim_store_begin(struct lladd_sim *sim, struct lladd_options *options,
                       struct lladd_archive **out, struct lladd_error *err)
{
    struct lladd_archive_options o = LLADD_ARCHIVE_OPTIONS_INIT;
    sim->store.face.ops = &filtered_ops;
    sim->store.objects = (struct ll_sim_objects){{&ops}, sim};
    sim->store.world = (struct lladd_environment){sim, world_now, world_wall, world_random, NULL};
    o.world = &sim->store.world;
    *out = NULL;
    return sim->subject.archives
               ? lladd_ship_register(options, store_of(sim), &o, out, err)
               : 0;
}

void ll_sim_store_free(struct lladd_sim *sim)
{
    lladd_store_close(sim->store.filtered);
    sim->store.filtered = NULL;
}

void ll_sim_store_place(struct lladd_sim *sim, struct lladd_device *disk)
{
    ll_sim_store_free(sim);
    sim->store.disk = disk;
    sim->store.away = sim->store.full = false;
}

static struct lladd_sim *current(void)
{
    return lladd_dst_current()->ctx;
}

struct lladd_store *lladd_sim_store(void)
{
    return store_of(current());
}

struct lladd_archive *lladd_sim_archive(void)
{
    return current()->store.archive;
}

const struct lladd_environment *lladd_sim_world(void)
{
    return &current()->store.world;
}

void lladd_sim_store_away(bool away)
{
    current()->store.away = away;
}

void lladd_sim_store_full(bool full)
{
    current()->store.full = full;
}
