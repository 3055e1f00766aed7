/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device: the disk as a database sees it during one run.
 *
 * A run begins with what a crash has left. These contents are nondeterministic: each crash unit is
 * decided when the run first reads the unit, or overwrites a part of it (unit.c, choice.c). Calls
 * that change something are recorded with their bytes. From this trace the explorer builds the disk
 * states (worlds) in which the next crash happens.
 *
 * The reduction. Redo reads one page and the log, and no page depends on another (OP-4). It is
 * therefore enough to try each variant of each page while all other pages are in variant 0. For the
 * pages it makes no difference whether the log ends inside a record or before this record. Cuts
 * inside a record are therefore tried only while all pages are in variant 0. Hence at most one unit
 * is `deviant`: a page that is not in variant 0, or a log that is cut inside a record. With
 * LLADD_SIM_FULL_PRODUCT any number of units may deviate.
 *
 * The lock file is not part of the disk: no crash depends on it.
 */
#include "sim/sim_private.h"

#include <errno.h>

struct ll_sim_file {
    struct ll_sim_file *next; /* in the list of closed files */
    uint32_t inode;           /* LL_SIM_NO_INODE: the lock */
    bool read_only;
};

static struct ll_sim_run *run_of(struct lladd_device *dev)
{
    return (struct ll_sim_run *)dev;
}

static struct ll_sim_file *file_of(struct lladd_file *file)
{
    return (struct ll_sim_file *)file;
}

/* ---- a run ------------------------------------------------------------------------------- */

static int apply_all(struct ll_sim_run *run, const struct ll_sim_world *w)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < w->n_ops; i++) {
        const struct ll_sim_op *op = &w->ops[i];
        if (op->kind != LL_SIM_WRITE && op->kind != LL_SIM_TRUNCATE) {
            rc = ll_sim_apply_name(run->arena, &run->live, op);
            continue;
        }
        struct ll_sim_inode *inode = ll_sim_own(run->arena, &run->live, op->inode);
        if (!inode)
            return LLADD_NO_MEMORY;
        rc = op->kind == LL_SIM_TRUNCATE
                 ? ll_sim_set_size(run->arena, inode, op->off, false)
                 : ll_sim_put(run->arena, inode, op->off, op->data, op->len, true, false);
    }
    return rc;
}

int ll_sim_run_init(struct lladd_sim *sim, struct ll_sim_run *run, struct ll_sim_arena *a,
                    uint32_t level, const struct ll_sim_world *from, struct ll_sim_units *units)
{
    *run = (struct ll_sim_run){.face = {&ll_sim_device_ops},
                               .sim = sim,
                               .arena = a,
                               .from = from,
                               .units = units,
                               .pick = LL_SIM_NO_UNIT,
                               .deviant = LL_SIM_NO_UNIT,
                               .level = level,
                               .kill = from && !units};
    if (!from)
        return 0;
    int rc = ll_sim_image_copy(a, &from->image, &run->live);
    if (rc || !units)
        return rc ? rc : apply_all(run, from);
    run->undecided = units->count;
    run->variant = ll_sim_take(a, (units->count + 1) * sizeof *run->variant);
    if (!run->variant)
        return LLADD_NO_MEMORY;
    for (uint32_t i = 0; i < units->count; i++)
        run->variant[i] = LL_SIM_UNDECIDED;
    return 0;
}

int ll_sim_run_world(struct ll_sim_run *run, struct ll_sim_arena *a, struct ll_sim_world *out)
{
    memset(out, 0, sizeof *out);
    if (!run->from)
        return 0;
    int rc = ll_sim_image_copy(a, &run->from->image, &out->image);
    if (!rc && !run->units && run->from->n_ops) {
        /* The death of a process loses nothing, and makes nothing durable either. */
        out->n_ops = out->ops_capacity = run->from->n_ops;
        out->ops = ll_sim_take(a, out->n_ops * sizeof *out->ops);
        if (!out->ops)
            return LLADD_NO_MEMORY;
        memcpy(out->ops, run->from->ops, out->n_ops * sizeof *out->ops);
    }
    /* Applies names and sizes first, because the other units depend on them. Of a unit that was
     * never read, nothing has arrived. */
    static const unsigned char order[] = {LL_SIM_UNIT_NAMES, LL_SIM_UNIT_SIZE, LL_SIM_UNIT_LOG,
                                          LL_SIM_UNIT_DATA};
    for (unsigned k = 0; !rc && run->units && k < sizeof order; k++)
        for (uint32_t i = 0; !rc && i < run->units->count; i++)
            if (run->units->at[i].kind == order[k] && run->variant[i] != LL_SIM_UNDECIDED)
                rc = ll_sim_unit_apply(a, run->units, &run->units->at[i], run->variant[i],
                                       &out->image, true);
    if (!rc && run->units)
        ll_sim_orphans(run->sim, &out->image);
    return rc;
}

/* ---- deciding ---------------------------------------------------------------------------- */

static bool is_page(const struct ll_sim_unit *u)
{
    return u->kind == LL_SIM_UNIT_DATA && u->file == LL_SIM_PAGES;
}

/* Sets which variants are enumerated: from *first up to, but not including, *limit. */
static void range_of(const struct ll_sim_run *run, uint32_t i, uint32_t *first, uint32_t *limit)
{
    const struct ll_sim_unit *u = &run->units->at[i];
    *first = 0;
    *limit = u->n;
    if (run->pick == i)
        *first = u->fresh;
    else if (run->pick != LL_SIM_NO_UNIT && u->newest && i < run->pick)
        *limit = u->fresh; /* the larger variants were explored when another unit was picked */
    if (run->sim->bounds.flags & LLADD_SIM_FULL_PRODUCT)
        return;
    uint32_t other = run->deviant;
    if (run->pick != LL_SIM_NO_UNIT && run->pick != i && is_page(&run->units->at[run->pick]))
        other = run->pick;
    if (other == LL_SIM_NO_UNIT || other == i)
        return;
    if (is_page(u))
        *limit = 1;
    else if (*limit > u->fine && u->fine > *first)
        *limit = u->fine;
}

/* Do all operations of the unit lie beyond the end of the file? */
static bool beyond(const struct ll_sim_run *run, const struct ll_sim_unit *u)
{
    if (u->kind != LL_SIM_UNIT_DATA)
        return false;
    for (uint32_t i = 0; i < u->n_ops; i++)
        if (run->from->ops[u->ops[i]].off < run->live.inode[u->inode]->size)
            return false;
    return true;
}

static int decide(struct ll_sim_run *run, uint32_t i)
{
    struct ll_sim_unit *u = &run->units->at[i];
    uint32_t first, limit, v = 0;
    int rc = ll_sim_unit_variants(run->sim, run->units, u);
    if (!rc && u->n > 1 && !beyond(run, u)) {
        range_of(run, i, &first, &limit);
        /* Most variants of the log are cuts inside a record. Random draws exclude them in three of
         * four cases; otherwise the other variants would hardly be drawn. */
        if (run->sim->choices.mode == LL_SIM_DRAW && run->sim->choices.drawn >> 32 & 3 &&
            u->fine > first && u->fine < limit)
            limit = u->fine;
        v = ll_sim_choose(run->sim, LL_SIM_C_VARIANT, u->n, first, limit);
    }
    run->variant[i] = v;
    run->undecided--;
    if (v > 0 && (is_page(u) || v >= u->fine))
        run->deviant = i;
    if (!rc && run->sim->history)
        ll_sim_tell_unit(run, u, v);
    if (!rc)
        rc = ll_sim_unit_apply(run->arena, run->units, u, v, &run->live, false);
    if (!rc && u->kind == LL_SIM_UNIT_NAMES)
        ll_sim_orphans(run->sim, &run->live);
    if (rc)
        run->failed = rc;
    return rc ? -ENOMEM : 0;
}

static int decide_names(struct ll_sim_run *run)
{
    for (uint32_t i = 0; run->undecided && i < run->units->count; i++)
        if (run->variant[i] == LL_SIM_UNDECIDED && run->units->at[i].kind == LL_SIM_UNIT_NAMES)
            return decide(run, i);
    return 0;
}

static int decide_size(struct ll_sim_run *run, uint32_t inode)
{
    for (uint32_t i = 0; run->undecided && i < run->units->count; i++) {
        const struct ll_sim_unit *u = &run->units->at[i];
        if (run->variant[i] == LL_SIM_UNDECIDED && u->kind == LL_SIM_UNIT_SIZE && u->inode == inode)
            return decide(run, i);
    }
    return 0;
}

enum overlap { NONE, SOME, WHOLE };

/* How much of the unit lies in bytes [off, end) of the file? */
static enum overlap overlap_of(const struct ll_sim_run *run, const struct ll_sim_unit *u,
                               uint32_t inode, uint64_t off, uint64_t end)
{
    bool all = true, any = false;
    if (u->kind != LL_SIM_UNIT_DATA && u->kind != LL_SIM_UNIT_LOG)
        return NONE;
    if (u->kind == LL_SIM_UNIT_DATA && u->inode != inode)
        return NONE;
    for (uint32_t i = 0; i < u->n_ops; i++) {
        const struct ll_sim_op *op = &run->from->ops[u->ops[i]];
        bool meets = op->inode == inode && op->off < end && op->off + op->len > off;
        any |= meets;
        all &= meets && op->off >= off && op->off + op->len <= end;
    }
    return !any ? NONE : all ? WHOLE : SOME;
}

static int decide_bytes(struct ll_sim_run *run, uint32_t inode, uint64_t off, uint64_t len,
                        bool overwritten)
{
    uint64_t end = len > UINT64_MAX - off ? UINT64_MAX : off + len;
    int rc = decide_size(run, inode);
    for (uint32_t i = 0; !rc && run->undecided && i < run->units->count; i++) {
        const struct ll_sim_unit *u = &run->units->at[i];
        if (run->variant[i] != LL_SIM_UNDECIDED)
            continue;
        enum overlap over = overlap_of(run, u, inode, off, end);
        if (over == NONE)
            continue;
        if (over == WHOLE && overwritten) { /* its variant makes no difference */
            run->variant[i] = 0;
            run->undecided--;
            rc = ll_sim_unit_variants(run->sim, run->units, &run->units->at[i]) ? -ENOMEM : 0;
            continue;
        }
        for (uint32_t j = 0; !rc && u->kind == LL_SIM_UNIT_LOG && j < u->n_ops; j++)
            rc = decide_size(run, run->from->ops[u->ops[j]].inode);
        if (!rc)
            rc = decide(run, i);
    }
    return rc;
}

/* ---- calls ------------------------------------------------------------------------------- */

/* Called before every device call except a close. Counts the call. Returns the result of the hook
 * `before_call` (sim_private.h), or -EIO if the run makes too many calls. */
static int64_t before(struct ll_sim_run *run, enum ll_sim_call_kind kind, uint32_t name,
                      uint64_t off, size_t len)
{
    struct lladd_sim *sim = run->sim;
    struct lladd_dst *entered = lladd_dst_current();
    if (entered)
        entered->device_calls++;
    if (++run->calls_all > sim->bounds.calls_max && !run->looks) {
        run->looping = true;
        return -EIO;
    }
    return sim->before_call ? sim->before_call(sim->hook_ctx, run, kind, name, off, len) : 0;
}

static struct ll_sim_call *note(struct ll_sim_run *run, enum ll_sim_call_kind kind, uint32_t name,
                                uint32_t inode)
{
    struct ll_sim_call *calls =
        ll_sim_grow(run->arena, run->trace, run->n_calls, &run->calls_capacity, sizeof *calls);
    if (!calls) {
        run->failed = LLADD_NO_MEMORY;
        return NULL;
    }
    run->trace = calls;
    struct ll_sim_call *call = &calls[run->n_calls++];
    *call = (struct ll_sim_call){.kind = (uint8_t)kind,
                                 .inode = inode,
                                 .name = name,
                                 .whole = ll_sim_is_atomic(run->sim, run->level)};
    return call;
}

/* Completes the record of a call: adds the call to the hash of the trace, and writes it to the
 * history. `more` is a hash of the call's arguments other than kind and name. */
static int done(struct ll_sim_run *run, const struct ll_sim_call *call, uint64_t more)
{
    if (!call)
        return -ENOMEM;
    uint64_t h = ll_sim_mix(run->trace_hash, run->sim->names.at[call->name].hash + call->kind);
    run->trace_hash = ll_sim_mix(h, more);
    if (run->sim->history)
        ll_sim_tell_call(run, call, run->n_calls);
    return 0;
}

/* Returns the current name of a file; 0 if it has none. */
static uint32_t name_of(const struct ll_sim_run *run, uint32_t inode)
{
    for (uint32_t i = 0; i < run->live.n_names; i++)
        if (run->live.names[i].inode == inode)
            return run->live.names[i].name;
    return 0;
}

/* Is the name valid: without parts that are empty, "." or ".."? */
static bool name_ok(const char *name)
{
    const char *part = name;
    for (;; name++) {
        if (*name != '/' && *name != '\0')
            continue;
        size_t len = (size_t)(name - part);
        if (len == 0 || (len <= 2 && memcmp(part, "..", len) == 0))
            return false;
        if (*name == '\0')
            return true;
        part = name + 1;
    }
}

static int parent_ok(const struct ll_sim_run *run, uint32_t name)
{
    uint32_t parent = run->sim->names.at[name].parent;
    if (parent == 0)
        return 0;
    const struct ll_sim_binding *b = ll_sim_find(&run->live, parent);
    if (!b)
        return -ENOENT;
    return b->inode == LL_SIM_DIRECTORY ? 0 : -ENOTDIR;
}

/* Decides the names, then looks up the number and the binding of a name. */
static int look_up(struct ll_sim_run *run, const char *text, uint32_t *name,
                   struct ll_sim_binding **out)
{
    if (!name_ok(text))
        return -EINVAL;
    int rc = decide_names(run);
    if (rc)
        return rc;
    *name = ll_sim_intern(run->sim, text);
    if (*name == UINT32_MAX) {
        run->failed = LLADD_NO_MEMORY;
        return -ENOMEM;
    }
    *out = ll_sim_find(&run->live, *name);
    return 0;
}

static int no_memory(struct ll_sim_run *run)
{
    run->failed = LLADD_NO_MEMORY;
    return -ENOMEM;
}

static int handle_new(struct ll_sim_run *run, uint32_t inode, bool read_only,
                      struct lladd_file **out)
{
    struct ll_sim_file *f = run->spare;
    if (f)
        run->spare = f->next;
    else
        f = ll_sim_take(run->arena, sizeof *f);
    if (!f)
        return no_memory(run);
    *f = (struct ll_sim_file){.inode = inode, .read_only = read_only};
    run->open_files++;
    *out = (struct lladd_file *)f;
    return 0;
}

static int create(struct ll_sim_run *run, uint32_t name, uint32_t *inode)
{
    int rc = parent_ok(run, name);
    if (rc)
        return rc;
    *inode = ll_sim_inode_new(run->arena, &run->live, 0);
    if (*inode == LL_SIM_NO_INODE || ll_sim_bind(run->arena, &run->live, name, *inode))
        return no_memory(run);
    return done(run, note(run, LL_SIM_CREATE, name, *inode), 0);
}

static int sim_open(struct lladd_device *dev, const char *text, unsigned flags,
                    struct lladd_file **out)
{
    struct ll_sim_run *run = run_of(dev);
    struct ll_sim_binding *b;
    uint32_t name, inode;
    int rc = look_up(run, text, &name, &b);
    if (!rc)
        rc = (int)before(run, !b && flags & LLADD_OPEN_CREATE ? LL_SIM_CREATE : LL_SIM_OPEN, name,
                         0, 0);
    if (rc)
        return rc;
    if (b && b->inode == LL_SIM_DIRECTORY)
        return flags & LLADD_OPEN_EXCLUSIVE ? -EEXIST : -EISDIR;
    if (b && flags & LLADD_OPEN_EXCLUSIVE)
        return -EEXIST;
    if (b)
        return handle_new(run, b->inode, flags & LLADD_OPEN_READ_ONLY, out);
    if (!(flags & LLADD_OPEN_CREATE)) {
        rc = parent_ok(run, name);
        return rc ? rc : -ENOENT;
    }
    rc = create(run, name, &inode);
    return rc ? rc : handle_new(run, inode, flags & LLADD_OPEN_READ_ONLY, out);
}

static int sim_close(struct lladd_device *dev, struct lladd_file *file)
{
    struct ll_sim_run *run = run_of(dev);
    struct ll_sim_file *f = file_of(file);
    int rc = 0;
    if (f->inode == LL_SIM_NO_INODE)
        run->locked = false;
    else if (run->sim->before_call) /* a close changes nothing, so it is not in the trace */
        rc = (int)run->sim->before_call(run->sim->hook_ctx, run, LL_SIM_CLOSE,
                                        name_of(run, f->inode), 0, 0);
    f->next = run->spare;
    run->spare = f;
    run->open_files--;
    return rc;
}

void lladd_sim_misread(struct lladd_sim *sim, lladd_pageno page)
{
    sim->misread = page.v + 1;
}

bool lladd_sim_misread_log(struct lladd_sim *sim)
{
    sim->misread_log = !sim->in_memory;
    return sim->misread_log;
}

static void misread_log(struct ll_sim_run *run, uint32_t inode, unsigned char *bytes, size_t len)
{
    enum { SHORT = 256 };
    struct lladd_sim *sim = run->sim;
    if (!sim->misread_log || run != &sim->workload || len <= SHORT ||
        sim->names.at[name_of(run, inode)].kind != LL_SIM_LOG)
        return;
    bytes[len - 8] ^= 0xff; /* in the last record, if the read ends where the log does */
    sim->misread_log = false;
}

static void misread(struct ll_sim_run *run, uint32_t inode, uint64_t off, unsigned char *bytes,
                    size_t len)
{
    struct lladd_sim *sim = run->sim;
    misread_log(run, inode, bytes, len);
    if (sim->misread == 0 || run != &sim->workload ||
        sim->names.at[name_of(run, inode)].kind != LL_SIM_PAGES)
        return;
    uint64_t wrong = (sim->misread - 1) * sim->page_size + sim->page_size / 2;
    if (wrong < off || wrong - off >= len)
        return;
    bytes[wrong - off] ^= 0xff;
    sim->misread = 0;
}

static int64_t sim_pread(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                         uint64_t off)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t inode = file_of(file)->inode;
    int64_t rc =
        before(run, LL_SIM_READ, run->sim->before_call ? name_of(run, inode) : 0, off, len);
    if (rc < 0)
        return rc;
    if (rc > 0)
        len = (size_t)(rc - 1) < len ? (size_t)(rc - 1) : len;
    if (inode == LL_SIM_NO_INODE)
        return -EINVAL;
    rc = run->undecided ? decide_bytes(run, inode, off, len, false) : 0;
    if (rc)
        return rc;
    len = ll_sim_get(run->live.inode[inode], off, buf, len);
    misread(run, inode, off, buf, len);
    if (run->sim->after_read)
        run->sim->after_read(run->sim->read_ctx, run, inode, off, buf, len);
    return (int64_t)len;
}

/* May the file grow to this size? A file with an undecided size counts with its durable size. */
static int check_room(const struct ll_sim_run *run, uint32_t inode, uint64_t size)
{
    uint64_t now = run->live.inode[inode]->size, capacity = run->sim->capacity;
    if (!capacity || size <= now || ll_sim_image_bytes(&run->live) + (size - now) <= capacity)
        return 0;
    return -ENOSPC;
}

/* Are these bytes raw? They are not if they begin with the header of the page that belongs at this
 * offset (docs/disk-format.md), or are zeros, as in a page that was never used. */
static bool is_raw(const struct lladd_sim *sim, const unsigned char *bytes, size_t len,
                   uint64_t off)
{
    enum { NUMBER_AT = 24 };
    bool any = false;
    for (size_t i = 0; i < len && i < LL_SIM_SECTOR; i++)
        any |= bytes[i] != 0;
    return any && len >= LLADD_PAGE_HEADER &&
           lladd_get64(bytes + NUMBER_AT) != off / sim->page_size;
}

/* Joins the pieces and writes them. */
static int write_at(struct ll_sim_run *run, enum ll_sim_call_kind kind, const struct ll_sim_file *f,
                    const struct lladd_iovec *pieces, int n, uint64_t off, size_t len)
{
    uint32_t name = name_of(run, f->inode);
    int64_t hook = before(run, kind, name, off, len);
    if (hook < 0)
        return (int)hook;
    bool astray = hook == LL_SIM_WRITE_ASTRAY;
    if (hook == LL_SIM_WRITE_LOST || astray)
        run->sim->raw_write = is_raw(run->sim, pieces[0].data, pieces[0].len, off);
    if (hook == LL_SIM_WRITE_LOST)
        return 0;
    if (astray) {
        unsigned char there[LL_SIM_SECTOR];
        off = off >= run->sim->page_size ? off - run->sim->page_size : off + len;
        size_t got = ll_sim_get(run->live.inode[f->inode], off, there, sizeof there);
        run->sim->raw_write |= is_raw(run->sim, there, got, off);
    } else if (hook > 0)
        len = (size_t)(hook - 1) < len ? (size_t)(hook - 1) : len;
    int rc = check_room(run, f->inode, off + len);
    if (!rc && run->undecided)
        rc = decide_bytes(run, f->inode, off, len, true);
    unsigned char *data = ll_sim_take(run->arena, len);
    struct ll_sim_inode *inode = ll_sim_own(run->arena, &run->live, f->inode);
    struct ll_sim_call *call = rc ? NULL : note(run, LL_SIM_WRITE, name, f->inode);
    if (!data || !inode || !call)
        return rc ? rc : no_memory(run);
    size_t at = 0;
    for (int i = 0; i < n && at < len; i++) {
        size_t part = pieces[i].len < len - at ? pieces[i].len : len - at;
        if (part > 0)
            memcpy(data + at, pieces[i].data, part);
        at += part;
    }
    call->off = off;
    call->len = (uint32_t)len;
    call->data = data;
    done(run, call, off + ll_sim_hash(data, len));
    if (ll_sim_put(run->arena, inode, off, data, len, true, false))
        return no_memory(run);
    return hook > 0 && !astray ? -EIO : 0; /* a partial write is reported as an error */
}

static int sim_pwritev(struct lladd_device *dev, struct lladd_file *file,
                       const struct lladd_iovec *pieces, int n, uint64_t off)
{
    const struct ll_sim_file *f = file_of(file);
    size_t len = 0;
    if (f->read_only || f->inode == LL_SIM_NO_INODE)
        return -EBADF;
    for (int i = 0; i < n; i++)
        len += pieces[i].len;
    if (len > UINT32_MAX / 2 || off > (uint64_t)INT64_MAX - len)
        return -EFBIG;
    return len ? write_at(run_of(dev), LL_SIM_WRITE, f, pieces, n, off, len) : 0;
}

static int sim_append(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                      size_t len, uint64_t *off)
{
    struct ll_sim_run *run = run_of(dev);
    const struct ll_sim_file *f = file_of(file);
    struct lladd_iovec piece = {buf, len};
    if (f->read_only || f->inode == LL_SIM_NO_INODE)
        return -EBADF;
    int rc = run->undecided ? decide_size(run, f->inode) : 0;
    uint64_t end = run->live.inode[f->inode]->size;
    if (len > UINT32_MAX / 2 || end > (uint64_t)INT64_MAX - len)
        return -EFBIG;
    if (!rc && len)
        rc = write_at(run, LL_SIM_APPEND, f, &piece, 1, end, len);
    if (!rc && off)
        *off = end;
    return rc;
}

/* Replaces the contents of the file that the run sees by those of the durable file. */
static int revert(struct ll_sim_run *run, uint32_t inode)
{
    struct ll_sim_world w;
    int rc = ll_sim_run_world(run, run->arena, &w);
    for (uint32_t c = 0; !rc && c < run->n_calls; c++)
        rc = ll_sim_step(run->sim, run->arena, &w, &run->trace[c], c);
    struct ll_sim_inode *live = rc ? NULL : ll_sim_own(run->arena, &run->live, inode);
    if (!live)
        return no_memory(run);
    const struct ll_sim_inode *disk = w.image.inode[inode];
    unsigned char *bytes = ll_sim_take(run->arena, (size_t)disk->size + 1);
    if (!bytes)
        return no_memory(run);
    size_t len = ll_sim_get(disk, 0, bytes, (size_t)disk->size);
    if (ll_sim_set_size(run->arena, live, 0, false) ||
        ll_sim_put(run->arena, live, 0, bytes, len, false, false) ||
        ll_sim_set_size(run->arena, live, disk->size, false))
        return no_memory(run);
    return 0;
}

/* Does a sync that fails or lies. */
static int sync_fails(struct ll_sim_run *run, uint32_t name, uint32_t inode, int effect)
{
    bool reverted = effect == LL_SIM_SYNC_FAILS_REVERTED;
    enum ll_sim_call_kind kind = reverted ? LL_SIM_SYNC_REVERTED : LL_SIM_SYNC_LOST;
    int rc = reverted && run->undecided ? decide_bytes(run, inode, 0, UINT64_MAX, false) : 0;
    if (!rc && reverted)
        rc = revert(run, inode);
    if (!rc)
        rc = done(run, note(run, kind, name, inode), 0);
    return rc || effect == LL_SIM_SYNC_LIES ? rc : -EIO;
}

static int sim_sync(struct lladd_device *dev, struct lladd_file *file)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t inode = file_of(file)->inode;
    uint32_t name = inode == LL_SIM_NO_INODE ? 0 : name_of(run, inode);
    int rc = (int)before(run, LL_SIM_SYNC, name, 0, 0);
    if (inode == LL_SIM_NO_INODE)
        return rc;
    if (rc > 0)
        return sync_fails(run, name, inode, rc);
    int noted = done(run, note(run, rc ? LL_SIM_SYNC_FAILED : LL_SIM_SYNC, name, inode), 0);
    return rc ? rc : noted;
}

static int sim_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    struct ll_sim_run *run = run_of(dev);
    const struct ll_sim_file *f = file_of(file);
    if (f->read_only || f->inode == LL_SIM_NO_INODE)
        return -EINVAL;
    uint32_t name = name_of(run, f->inode);
    int rc = (int)before(run, LL_SIM_TRUNCATE, name, size, 0);
    if (!rc && run->undecided)
        rc = decide_bytes(run, f->inode, 0, UINT64_MAX, false);
    if (!rc)
        rc = check_room(run, f->inode, size);
    if (rc)
        return rc;
    struct ll_sim_inode *inode = ll_sim_own(run->arena, &run->live, f->inode);
    struct ll_sim_call *call = note(run, LL_SIM_TRUNCATE, name, f->inode);
    if (!inode || !call || ll_sim_set_size(run->arena, inode, size, false))
        return no_memory(run);
    call->off = size;
    return done(run, call, size);
}

static int sim_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t inode = file_of(file)->inode;
    int rc = (int)before(run, LL_SIM_SIZE, run->sim->before_call ? name_of(run, inode) : 0, 0, 0);
    if (!rc && run->undecided)
        rc = decide_size(run, inode);
    if (!rc)
        *out = inode == LL_SIM_NO_INODE ? 0 : run->live.inode[inode]->size;
    return rc;
}

/* Makes the file larger. As in a file system, the next sync of the file makes the size durable. */
static int sim_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t inode = file_of(file)->inode;
    if (inode == LL_SIM_NO_INODE)
        return -EINVAL;
    int rc = run->undecided ? decide_size(run, inode) : 0;
    return rc || size <= run->live.inode[inode]->size ? rc : sim_truncate(dev, file, size);
}

static int sim_rename(struct lladd_device *dev, const char *from_text, const char *to_text)
{
    struct ll_sim_run *run = run_of(dev);
    struct ll_sim_binding *from, *to;
    uint32_t name, to_name;
    int rc = look_up(run, from_text, &name, &from);
    if (!rc)
        rc = look_up(run, to_text, &to_name, &to);
    if (!rc)
        rc = (int)before(run, LL_SIM_RENAME, name, 0, 0);
    if (rc)
        return rc;
    if (!from)
        return -ENOENT;
    if (from->inode == LL_SIM_DIRECTORY || (to && to->inode == LL_SIM_DIRECTORY))
        return -EISDIR;
    uint32_t inode = from->inode;
    if (to && to->inode == inode)
        return 0;
    rc = parent_ok(run, to_name);
    if (rc)
        return rc;
    ll_sim_unbind(&run->live, name);
    struct ll_sim_call *call = note(run, LL_SIM_RENAME, name, inode);
    if (!call || ll_sim_bind(run->arena, &run->live, to_name, inode))
        return no_memory(run);
    call->to = to_name;
    return done(run, call, run->sim->names.at[to_name].hash);
}

static int sim_unlink(struct lladd_device *dev, const char *text)
{
    struct ll_sim_run *run = run_of(dev);
    struct ll_sim_binding *b;
    uint32_t name;
    int rc = look_up(run, text, &name, &b);
    if (!rc)
        rc = (int)before(run, LL_SIM_UNLINK, name, 0, 0);
    if (rc)
        return rc;
    if (!b)
        return -ENOENT;
    if (b->inode == LL_SIM_DIRECTORY)
        return -EISDIR;
    uint32_t inode = b->inode;
    ll_sim_unbind(&run->live, name);
    return done(run, note(run, LL_SIM_UNLINK, name, inode), 0);
}

/* Finds the number of an existing directory. */
static int directory(struct ll_sim_run *run, const char *text, uint32_t *name)
{
    struct ll_sim_binding *b;
    *name = 0;
    if (*text == '\0')
        return decide_names(run);
    int rc = look_up(run, text, name, &b);
    if (!rc && !b)
        rc = -ENOENT;
    return rc || b->inode == LL_SIM_DIRECTORY ? rc : -ENOTDIR;
}

static int sim_sync_dir(struct lladd_device *dev, const char *text)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t name;
    int rc = directory(run, text, &name);
    if (!rc)
        rc = (int)before(run, LL_SIM_SYNC_DIR, name, 0, 0);
    if (rc)
        return rc;
    return done(run, note(run, LL_SIM_SYNC_DIR, name, LL_SIM_DIRECTORY), 0);
}

static int sim_mkdir(struct lladd_device *dev, const char *text)
{
    struct ll_sim_run *run = run_of(dev);
    struct ll_sim_binding *b;
    uint32_t name;
    int rc = look_up(run, text, &name, &b);
    if (!rc)
        rc = (int)before(run, LL_SIM_MKDIR, name, 0, 0);
    if (!rc)
        rc = b ? -EEXIST : parent_ok(run, name);
    if (rc)
        return rc;
    if (ll_sim_bind(run->arena, &run->live, name, LL_SIM_DIRECTORY))
        return no_memory(run);
    return done(run, note(run, LL_SIM_MKDIR, name, LL_SIM_DIRECTORY), 0);
}

static int sim_list(struct lladd_device *dev, const char *text, lladd_list_fn *fn, void *ctx)
{
    struct ll_sim_run *run = run_of(dev);
    uint32_t name;
    int rc = directory(run, text, &name);
    if (!rc)
        rc = (int)before(run, LL_SIM_LIST, name, 0, 0);
    if (rc)
        return rc;
    /* Copies the names first, because fn may call the device, and then the array may move. */
    uint32_t n = run->live.n_names;
    uint32_t *names = ll_sim_take(run->arena, (n + 1) * sizeof *names);
    if (!names)
        return no_memory(run);
    for (uint32_t i = 0; i < n; i++)
        names[i] = run->live.names[i].name;
    for (uint32_t i = 0; !rc && i < n; i++)
        if (run->sim->names.at[names[i]].parent == name)
            rc = fn(ctx, run->sim->names.at[names[i]].last);
    return rc;
}

static int sim_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                    int64_t *owner)
{
    struct ll_sim_run *run = run_of(dev);
    *owner = 0;
    (void)name; /* a database has only one lock */
    if (run->locked)
        return -EAGAIN;
    int rc = (int)before(run, LL_SIM_LOCK, 0, 0, 0);
    if (!rc)
        rc = handle_new(run, LL_SIM_NO_INODE, false, out);
    run->locked = rc == 0;
    return rc;
}

static int sim_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    (void)name;
    *owner = 0;
    return run_of(dev)->locked ? -EAGAIN : 0;
}

const struct lladd_device_ops ll_sim_device_ops = {
    .struct_size = sizeof ll_sim_device_ops,
    .open = sim_open,
    .close = sim_close,
    .pread = sim_pread,
    .pwritev = sim_pwritev,
    .append = sim_append,
    .sync = sim_sync,
    .truncate = sim_truncate,
    .size = sim_size,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .sync_dir = sim_sync_dir,
    .mkdir = sim_mkdir,
    .list = sim_list,
    .lock = sim_lock,
    .holder = sim_holder,
    .allocate = sim_allocate,
};
