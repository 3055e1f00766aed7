/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection: reads a database's files without opening the database, and without the application.
 * One thread at a time uses a view.
 *
 *   inspect.c      the view: control block, files, the process that has the database open; info
 *                  and lists
 *   log.c          the log: a survey from the checkpoint on, like analysis; every record with its
 *                  fields
 *   page.c         pages: a page's header, and its use in the allocation bitmap
 *   verify.c       checks everything, with a finding for each damaged place
 *   verify_log.c   the same for the log
 *   part.c         bounds the memory for data about pages: one part of the pages at a time
 *   open.c         tries the first steps of the next open, with the open's own code
 *
 * A view has the log open for reading. It also has the parts of the core that need no running
 * database: the control block, the catalogue, redo barriers and pins. Inspection and recovery use
 * the same decoders, so they agree on what is damaged.
 *
 * The files of a database in use change while a view reads them, and a mix of old and new bytes
 * looks like damage. So a damaged place is read again. Damage is reported if no process has the
 * database open, or if several reads find the same damage.
 *
 * Stored bytes are checked, never asserted (ERR-1).
 */
#include "inspect/inspect_private.h"

#include "db/db.h"
#include "io/io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_FILES "files"

/* The view of a database in use is taken again until damage is certain. Damage is certain if the
 * control block stayed unchanged during LOOKS views, and each of these views found damage in the
 * same place as the view before it. After LOOKS_MAX views the damage is reported in any case. */
enum { LOOKS = 4, LOOKS_MAX = 32 };
/* Size of the log's ring; a record is at most a quarter of it. Nothing is appended, so no ring is
 * allocated. */
#define RING_BYTES (64ull << 20)
#define MEMORY_DEFAULT (32ull << 20)

/* ---- the control block ---------------------------------------------------------------------- */

static int read_copy(struct lladd_device *dev, struct lladd_file *file, int i,
                     struct ll_control *out, struct lladd_error *err)
{
    unsigned char bytes[LL_CONTROL_BYTES];
    int rc = ll_io_read_full(dev, file, bytes, sizeof bytes, (uint64_t)i * LL_CONTROL_COPY);
    if (rc == -ENODATA)
        return ll_fail(err, LLADD_CORRUPT_CONTROL, "the file ends before copy %d does", i + 1);
    if (rc)
        return ll_fail_io(err, rc, false, "read", FILE_CONTROL);
    return ll_control_decode(bytes, out, err);
}

static int control_missing(struct lladd_inspect *v, struct lladd_error *err)
{
    bool ours = false, creating = false;
    for (size_t i = 0; i < v->files.len; i++) {
        const char *name = ((struct ll_inspect_file *)ll_vec_at(&v->files, i))->name;
        creating = creating || strcmp(name, FILE_CREATING) == 0;
        ours = ours || strcmp(name, FILE_PAGES) == 0 || strncmp(name, DIR_LOG "/", 4) == 0;
    }
    if (creating)
        return ll_fail(err, LLADD_NOT_A_DATABASE,
                       "the database has not been created completely; opening it begins anew");
    if (ours)
        return ll_fail(err, LLADD_MISSING_FILE,
                       "\"control\" is missing; \"log\" or \"pages\" is there");
    return ll_fail(err, LLADD_NOT_A_DATABASE, "there is no database in the directory");
}

static int read_control(struct lladd_inspect *v, struct lladd_error *err)
{
    struct ll_core *core = &v->core;
    struct lladd_device *dev = core->dev;
    struct ll_control ignored;
    struct lladd_file *file;
    int rc = ll_io_open(dev, FILE_CONTROL, LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return control_missing(v, err);
    if (rc)
        return ll_fail_io(err, rc, false, "open", FILE_CONTROL);
    rc = ll_control_read(dev, file, &core->control, err);
    for (int i = 0; i < 2; i++) {
        v->control_error[i] = (struct lladd_error)LLADD_ERROR_INIT;
        v->info.control_bad[i] = read_copy(dev, file, i, &ignored, &v->control_error[i]) != 0;
    }
    (void)ll_io_close(dev, file); /* the file was only read */
    if (rc)
        return rc;
    ll_core_identify(core);
    return 0;
}

/* False: the control block cannot be read. */
static bool control_now(const struct lladd_inspect *v, struct ll_control *now)
{
    struct lladd_file *file;
    if (ll_io_open(v->core.dev, FILE_CONTROL, LLADD_OPEN_READ_ONLY, &file))
        return false;
    int rc = ll_control_read(v->core.dev, file, now, NULL);
    (void)ll_io_close(v->core.dev, file); /* the file was only read */
    return rc == 0;
}

/* Has the control block been written since the view was taken? */
static bool control_moved(const struct lladd_inspect *v)
{
    struct ll_control now;
    return control_now(v, &now) && now.seq != v->core.control.seq;
}

static void ask_holder(struct lladd_inspect *v)
{
    struct lladd_device *dev = v->core.dev;
    int64_t pid = 0;
    bool can = LL_IO_HAS(dev->ops, holder);
    int rc = can ? dev->ops->holder(dev, FILE_LOCK, &pid) : -ENOTSUP;
    v->info.in_use = rc == 0 ? 0 : rc == -EAGAIN ? 1 : -1;
    v->info.holder = rc == -EAGAIN ? pid : 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

struct listing {
    struct lladd_inspect *v;
    const char *dir;
    unsigned depth;
};

static int list_dir(struct lladd_inspect *, const char *dir, unsigned depth);

static char *join(const struct ll_env *env, const char *dir, const char *name)
{
    size_t d = strlen(dir), n = strlen(name);
    char *path = ll_alloc(env, d + n + 2);
    if (!path)
        return NULL;
    memcpy(path, dir, d);
    if (d)
        path[d++] = '/';
    memcpy(path + d, name, n + 1);
    return path;
}

/* The library has files in log/, and in files/ with one folder for each class. */
static bool descends(const struct listing *l, const char *path)
{
    if (l->depth == 0)
        return strcmp(path, DIR_LOG) == 0 || strcmp(path, DIR_FILES) == 0;
    return l->depth == 1 && strncmp(path, DIR_FILES "/", 6) == 0;
}

/* Other files in the directory are not opened: opening one, for example a FIFO, could block. */
static bool is_ours(const struct listing *l, const char *path)
{
    static const char *const names[] = {FILE_CONTROL, FILE_CREATING, FILE_LOCK, FILE_PAGES,
                                        FILE_DWB};
    bool ours = l->depth > 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ours = ours || strcmp(path, names[i]) == 0;
    return ours;
}

static int see_file(void *ctx, const char *name)
{
    struct listing *l = ctx;
    struct lladd_inspect *v = l->v;
    struct lladd_device *dev = v->core.dev;
    struct lladd_file *file;
    uint64_t bytes = 0;
    char *path = join(&v->core.env, l->dir, name);
    if (!path)
        return -ENOMEM;
    int rc = 0;
    if (descends(l, path)) {
        rc = list_dir(v, path, l->depth + 1);
        if (rc != -ENOTDIR) {
            ll_free(&v->core.env, path);
            return rc;
        }
        rc = 0;
    }
    if (!is_ours(l, path)) {
        ll_free(&v->core.env, path);
        return 0;
    }
    if (ll_io_open(dev, path, LLADD_OPEN_READ_ONLY, &file) == 0) {
        rc = ll_io_size(dev, file, &bytes);
        (void)ll_io_close(dev, file); /* the file was only read */
    }
    struct ll_inspect_file *row = rc ? NULL : ll_vec_push(&v->files);
    if (!row) {
        ll_free(&v->core.env, path);
        return rc ? rc : -ENOMEM;
    }
    row->name = path;
    row->bytes = bytes;
    return 0;
}

static int list_dir(struct lladd_inspect *v, const char *dir, unsigned depth)
{
    struct listing l = {v, dir, depth};
    int rc = v->core.dev->ops->list(v->core.dev, dir, see_file, &l);
    return rc == -ENOENT && depth ? 0 : rc; /* the folder was removed meanwhile */
}

static int by_name(const void *a, const void *b)
{
    const struct ll_inspect_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int list_files(struct lladd_inspect *v, struct lladd_error *err)
{
    int rc = list_dir(v, "", 0);
    if (rc == -ENOMEM)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (rc)
        return ll_fail_io(err, rc, false, "list", "the directory");
    if (v->files.len > 1)
        qsort(v->files.data, v->files.len, sizeof(struct ll_inspect_file), by_name);
    return 0;
}

static void free_files(struct lladd_inspect *v)
{
    for (size_t i = 0; i < v->files.len; i++)
        ll_free(&v->core.env, ((struct ll_inspect_file *)ll_vec_at(&v->files, i))->name);
    ll_vec_free(&v->files);
}

int lladd_inspect_files(struct lladd_inspect *v, lladd_inspect_file_fn *fn, void *ctx,
                        struct lladd_error *err)
{
    int rc = v && fn ? 0 : ll_fail(err, LLADD_BAD_ARGUMENT, "view or callback is NULL");
    for (size_t i = 0; !rc && i < v->files.len; i++) {
        const struct ll_inspect_file *f = ll_vec_at(&v->files, i);
        rc = fn(ctx, f->name, f->bytes);
    }
    return rc;
}

/* ---- the view ------------------------------------------------------------------------------- */

static int count_segment(void *ctx, const struct ll_log_file *f)
{
    struct lladd_inspect *v = ctx;
    v->info.log_segments += f->in_use;
    return 0;
}

int ll_inspect_open_log(struct lladd_inspect *v, const struct ll_control *c, bool lenient,
                        struct ll_log **out, struct lladd_error *err)
{
    struct ll_log_config cfg = {.env = &v->core.env,
                                .dev = v->core.dev,
                                .poison = v->core.poison,
                                .incarnation = c->incarnation,
                                .segment_min = 4096,
                                .segment_max = 4096,
                                .ring_bytes = RING_BYTES,
                                .read_only = true,
                                .lenient = lenient};
    memcpy(cfg.uuid, c->uuid, sizeof cfg.uuid);
    struct ll_log_start start = ll_control_log_start(c);
    return ll_log_open(&cfg, &start, out, err);
}

/* A failure is noted in the view. Only a lack of memory is an error of the call. */
static int open_log(struct lladd_inspect *v, struct lladd_error *err)
{
    int rc = ll_inspect_open_log(v, &v->core.control, true, &v->log, &v->log_error);
    if (rc) {
        v->log = NULL;
        return rc == LLADD_NO_MEMORY ? ll_fail(err, rc, "out of memory") : 0;
    }
    v->info.log_oldest = ll_log_oldest(v->log);
    return ll_log_file_each(v->log, count_segment, v, &v->log_error) == LLADD_NO_MEMORY
               ? ll_fail(err, LLADD_NO_MEMORY, "out of memory")
               : 0;
}

static int open_pages(struct lladd_inspect *v, struct lladd_error *err)
{
    struct lladd_device *dev = v->core.dev;
    int rc = ll_io_open(dev, FILE_PAGES, LLADD_OPEN_READ_ONLY, &v->page_file);
    if (rc == 0)
        rc = ll_io_size(dev, v->page_file, &v->info.page_file_bytes);
    if (rc == -ENOMEM)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (rc == -ENOENT)
        ll_fail(&v->page_error, LLADD_MISSING_FILE, "the page file \"pages\" is missing");
    else if (rc)
        ll_fail_io(&v->page_error, rc, false, "open", FILE_PAGES);
    v->info.pages = v->info.page_file_bytes / v->core.page_size;
    v->page = ll_alloc(&v->core.env, v->core.page_size);
    return v->page ? 0 : ll_fail(err, LLADD_NO_MEMORY, "out of memory");
}

static void fill_info(struct lladd_inspect *v)
{
    const struct ll_control *c = &v->core.control;
    struct lladd_inspect_info *i = &v->info;
    i->struct_size = sizeof *i;
    i->format = c->format;
    i->page_size = c->page_size;
    memcpy(i->uuid, c->uuid, sizeof i->uuid);
    i->compatible = c->compatible;
    i->read_only_compatible = c->read_only_compatible;
    i->incompatible = c->incompatible;
    i->incarnation = c->incarnation;
    i->created_us = c->created_us;
    i->clean = c->clean;
    i->atomic_pages = c->atomic_pages;
    i->checkpoint = c->checkpoint;
    i->redo = c->redo;
    i->watermark = c->watermark;
    for (size_t k = 0; k < v->files.len; k++) {
        const struct ll_inspect_file *f = ll_vec_at(&v->files, k);
        if (strncmp(f->name, DIR_LOG "/", 4) == 0)
            i->log_file_bytes += f->bytes;
    }
}

static int init(struct lladd_inspect *v, struct lladd_error *err)
{
    v->core.poison = &v->core.own_poison;
    ll_poison_init(v->core.poison);
    ll_vec_init(&v->files, &v->core.env, sizeof(struct ll_inspect_file));
    ll_vec_init(&v->txns, &v->core.env, sizeof(struct ll_inspect_txn));
    ll_hashmap_init(&v->maps, &v->core.env);
    int rc = lladd_mutex_init(&v->core.misc, LLADD_RANK_LEAF, "redo barriers and pins");
    if (rc)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    v->mutexes = true;
    v->catalogue = true;
    return ll_op_catalog_init(&v->core, &v->registry, err);
}

static void forget(struct lladd_inspect *v)
{
    struct ll_core *core = &v->core;
    ll_inspect_free_maps(v);
    free_files(v);
    ll_vec_free(&v->txns);
    if (v->page_file)
        (void)ll_io_close(core->dev, v->page_file); /* the file was only read */
    ll_log_close(v->log);
    if (v->catalogue)
        ll_op_catalog_free(core);
    ll_free(&core->env, core->barriers);
    ll_free(&core->env, core->pins);
    ll_free(&core->env, core->heuristics);
    ll_free(&core->env, v->page);
    if (v->mutexes)
        lladd_mutex_destroy(&core->misc);
}

static int look(struct lladd_inspect *v, struct lladd_error *err)
{
    int rc = init(v, err);
    if (!rc)
        rc = list_files(v, err);
    if (!rc)
        ask_holder(v);
    if (!rc)
        rc = read_control(v, err);
    if (!rc)
        fill_info(v);
    if (!rc)
        rc = open_pages(v, err);
    if (!rc)
        rc = open_log(v, err);
    return rc ? rc : ll_inspect_survey(v, err);
}

static void start_over(struct lladd_inspect *v)
{
    struct lladd_inspect kept = *v;
    forget(v);
    *v = (struct lladd_inspect){.core = {.env = kept.core.env, .dev = kept.core.dev},
                                .registry = kept.registry,
                                .own_device = kept.own_device,
                                .memory = kept.memory,
                                .opening = kept.opening,
                                .opening_ctx = kept.opening_ctx,
                                .progress = kept.progress,
                                .progress_ctx = kept.progress_ctx};
}

/* Takes the view repeatedly, until it is consistent or its damage is certain. */
static int look_well(struct lladd_inspect *v, struct lladd_error *err)
{
    uint64_t place = 0; /* place of the damage that the last look found */
    for (int i = 1, still = 0;; i++) {
        int rc = look(v, err);
        bool odd = rc ? lladd_code_root(rc) == LLADD_ROOT_DATA
                      : v->log_error.code || v->info.control_bad[0] || v->info.control_bad[1];
        if (!odd)
            return rc;
        bool moved = control_moved(v) || (i > 1 && v->log_error.lsn.v != place);
        still += !moved;
        place = v->log_error.lsn.v;
        if (i == LOOKS_MAX || still == LOOKS || !(v->info.in_use == 1 || (!rc && moved)))
            return rc;
        start_over(v);
    }
}

int ll_inspect_again(struct lladd_inspect *v, struct lladd_error *err)
{
    start_over(v);
    return look_well(v, err);
}

lladd_lsn ll_inspect_oldest_now(struct lladd_inspect *v)
{
    struct ll_control now;
    struct ll_log *log;
    struct lladd_error ignored = LLADD_ERROR_INIT;
    lladd_lsn oldest = {0};
    bool moves = v->info.in_use == 1 || control_moved(v);
    if (moves && control_now(v, &now) && ll_inspect_open_log(v, &now, true, &log, &ignored) == 0) {
        oldest = ll_log_oldest(log);
        ll_log_close(log);
    }
    return oldest;
}

int lladd_inspect_open(const char *dir, const struct lladd_options *options,
                       struct lladd_inspect **out, struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    struct lladd_options o;
    struct ll_env env;
    err = err ? err : &local;
    if (!out)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "out is NULL");
    *out = NULL;
    int rc = ll_options_take(options, &o, err);
    if (!rc && !dir && !o.device)
        rc = ll_fail(err, LLADD_BAD_ARGUMENT, "neither a directory nor a device is given");
    if (rc)
        return rc;
    ll_env_init(&env, o.allocator, o.world, false);
    struct lladd_inspect *v = ll_alloc_zero(&env, sizeof *v);
    if (!v)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    v->core.env = env;
    v->core.dev = o.device;
    v->memory = o.recovery_bytes ? o.recovery_bytes : MEMORY_DEFAULT;
    v->opening = o.progress;
    v->opening_ctx = o.callback_ctx;
    if (!o.device) {
        rc = lladd_device_posix(dir, false, &v->core.dev, err);
        if (rc) {
            ll_free(&env, v);
            return rc;
        }
        v->own_device = true;
    }
    rc = ll_extensions_merge(&env, o.registry, &v->registry, err);
    if (!rc)
        rc = look_well(v, err);
    if (rc) {
        lladd_inspect_close(v);
        return rc;
    }
    *out = v;
    return 0;
}

void lladd_inspect_close(struct lladd_inspect *v)
{
    if (!v)
        return;
    struct ll_env env = v->core.env;
    struct lladd_device *dev = v->core.dev;
    bool own = v->own_device;
    forget(v);
    ll_free(&env, v->registry.items);
    ll_free(&env, v);
    if (own)
        lladd_device_close(dev);
}

void lladd_inspect_progress(struct lladd_inspect *v, lladd_inspect_progress_fn *fn, void *ctx)
{
    v->progress = fn;
    v->progress_ctx = ctx;
}

/* ---- what it says --------------------------------------------------------------------------- */

int lladd_inspect_info_get(const struct lladd_inspect *v, struct lladd_inspect_info *out)
{
    if (!v || !out || out->struct_size < sizeof(size_t))
        return LLADD_BAD_ARGUMENT;
    size_t size = out->struct_size < sizeof *out ? out->struct_size : sizeof *out;
    memcpy(out, &v->info, size);
    out->struct_size = size;
    return 0;
}

const char *lladd_inspect_log_end(const struct lladd_inspect *v)
{
    return v->end_text;
}

int lladd_inspect_txns(struct lladd_inspect *v, lladd_inspect_txn_fn *fn, void *ctx)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < v->txns.len; i++)
        rc = fn(ctx, &((struct ll_inspect_txn *)ll_vec_at(&v->txns, i))->seen);
    return rc;
}

const char *ll_inspect_page_type(struct lladd_inspect *v, const struct ll_name *n)
{
    const struct lladd_op *op = n->kind == LL_NAME_OP ? n->desc : NULL;
    if (op)
        return op->page_type;
    const struct ll_name *type = ll_op_catalog_by_number(&v->core, n->page_type_number);
    return type && type->kind == LL_NAME_PAGE_TYPE ? type->name : NULL;
}

const char *lladd_name_kind_text(enum lladd_name_kind kind)
{
    static const char *const texts[] = {NULL,    "operation",   "page type",
                                        "class", "participant", "tag"};
    unsigned k = (unsigned)kind;
    return k >= 1 && k < sizeof texts / sizeof *texts ? texts[k] : "unknown";
}

int lladd_inspect_names(struct lladd_inspect *v, lladd_inspect_name_fn *fn, void *ctx)
{
    int rc = 0;
    for (uint32_t number = 1; !rc && number <= v->core.cat.n_numbers; number++) {
        const struct ll_name *n = ll_op_catalog_by_number(&v->core, number);
        if (!n)
            continue;
        struct lladd_inspect_name row = {.kind = (enum lladd_name_kind)n->kind,
                                         .number = number,
                                         .version = n->version,
                                         .name = n->name,
                                         .registered = n->desc != NULL,
                                         .recorded = n->first_used,
                                         .redo_fields = ll_op_catalog_fields(n, false),
                                         .undo_fields = ll_op_catalog_fields(n, true),
                                         .page_type = ll_inspect_page_type(v, n)};
        rc = fn(ctx, &row);
    }
    return rc;
}

/* ---- what keeps the log --------------------------------------------------------------------- */

static int by_need(const void *a, const void *b)
{
    const struct lladd_pinner *x = a, *y = b;
    uint64_t p = x->lsn.v ? x->lsn.v : UINT64_MAX, q = y->lsn.v ? y->lsn.v : UINT64_MAX;
    return p < q ? -1 : p > q;
}

static int put_pinner(struct lladd_inspect *v, struct ll_vec *rows, const char *kind, lladd_lsn lsn,
                      lladd_lsn txn, const char *name)
{
    struct lladd_pinner *p = ll_vec_push(rows);
    if (!p)
        return LLADD_NO_MEMORY;
    p->kind = kind;
    p->lsn = lsn;
    p->txn = txn;
    p->page = LLADD_NO_PAGE;
    if (lsn.v && lsn.v < v->info.log_end.v)
        p->age_bytes = v->info.log_end.v - lsn.v;
    size_t len = strlen(name);
    memcpy(p->name, name, len < sizeof p->name ? len : sizeof p->name - 1);
    return 0;
}

/* Writes format:gtrid:bqual, truncated to the buffer's size. gtrid and bqual are in hexadecimal. */
static void gid_text(const struct lladd_gid *g, char *out, size_t size)
{
    int n = snprintf(out, size, "%lld:", (long long)g->format);
    size_t len = n > 0 ? (size_t)n : 0;
    for (uint32_t i = 0; i < g->gtrid_length + g->bqual_length && len + 4 < size; i++) {
        if (i == g->gtrid_length)
            out[len++] = ':';
        len += (size_t)snprintf(out + len, 3, "%02x", g->data[i]);
    }
    if (g->bqual_length == 0 && len + 1 < size) {
        out[len] = ':';
        out[len + 1] = 0;
    }
}

static int gather_pinners(struct lladd_inspect *v, struct ll_vec *rows)
{
    struct ll_core *core = &v->core;
    int rc = put_pinner(v, rows, "checkpoint", core->control.redo, lladd_lsn_of(0), "");
    for (size_t i = 0; !rc && i < v->txns.len; i++) {
        const struct lladd_inspect_txn *t =
            &((struct ll_inspect_txn *)ll_vec_at(&v->txns, i))->seen;
        char gid[64] = "";
        if (t->prepared)
            gid_text(&t->doubt.gid, gid, sizeof gid);
        rc = put_pinner(v, rows, t->prepared ? "prepared" : "transaction", t->id, t->id, gid);
    }
    for (size_t i = 0; !rc && i < core->n_pins; i++)
        rc = put_pinner(v, rows, "pin", core->pins[i].lsn, lladd_lsn_of(0), core->pins[i].name);
    for (uint32_t k = 1; !rc && k <= core->cat.n_numbers; k++) {
        const struct ll_name *n = ll_op_catalog_by_number(core, k);
        if (n && n->kind == LL_NAME_CLASS)
            rc = put_pinner(v, rows, "class", lladd_lsn_of(0), lladd_lsn_of(0), n->name);
    }
    return rc;
}

int lladd_inspect_heuristics(struct lladd_inspect *v, lladd_heuristic_fn *fn, void *ctx)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < v->core.n_heuristics; i++) { /* a view's lists do not change */
        struct lladd_heuristic_info info;
        ll_heuristic_describe(&v->core.heuristics[i], &info);
        rc = fn(ctx, &info);
    }
    return rc;
}

int lladd_inspect_pinners(struct lladd_inspect *v, lladd_inspect_pinner_fn *fn, void *ctx)
{
    struct ll_vec rows;
    ll_vec_init(&rows, &v->core.env, sizeof(struct lladd_pinner));
    int rc = gather_pinners(v, &rows);
    if (!rc && rows.len > 1)
        qsort(rows.data, rows.len, sizeof(struct lladd_pinner), by_need);
    for (size_t i = 0; !rc && i < rows.len; i++)
        rc = fn(ctx, ll_vec_at(&rows, i));
    ll_vec_free(&rows);
    return rc;
}
