/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk: names, files, and disk states (worlds).
 *
 * A file is an array of blocks. Images share inodes and blocks until an image writes, so a copy of
 * an image costs a few hundred bytes for files of any size. If a recorded write covers a whole
 * block, the bytes of the call become the block, without a copy.
 *
 * A world is the durable state of the disk and the list of pending operations, in the order in
 * which they were issued. ll_sim_step applies one call of a trace. A change is appended to the
 * list. A sync of a file applies the pending operations on its contents; a sync of a directory
 * applies those on names in the directory. The sync of a file does not make its name durable.
 */
#include "sim/sim_private.h"

#include <errno.h>

/* ---- names ------------------------------------------------------------------------------- */

static enum ll_sim_file_kind kind_of(const char *text)
{
    size_t len = strlen(text);
    if (strcmp(text, "pages") == 0)
        return LL_SIM_PAGES;
    if (len > 8 && memcmp(text, "log/", 4) == 0 && strcmp(text + len - 4, ".seg") == 0)
        return LL_SIM_LOG;
    if (len > 8 && memcmp(text, "log/", 4) == 0 && strcmp(text + len - 4, ".new") == 0)
        return LL_SIM_LOG_NEW;
    return LL_SIM_PLAIN;
}

static int names_enlarge(struct lladd_sim *sim)
{
    struct ll_sim_names *n = &sim->names;
    uint32_t count = n->n_buckets ? 2 * n->n_buckets : 64;
    uint32_t *buckets = ll_sim_take(&sim->base, count * sizeof *buckets);
    if (!buckets)
        return LLADD_NO_MEMORY;
    memset(buckets, 0, count * sizeof *buckets);
    for (uint32_t i = 0; i < n->count; i++) {
        uint32_t at = (uint32_t)n->at[i].hash & (count - 1);
        while (buckets[at])
            at = (at + 1) & (count - 1);
        buckets[at] = i + 1;
    }
    n->buckets = buckets;
    n->n_buckets = count;
    return 0;
}

int ll_sim_names_init(struct lladd_sim *sim)
{
    return names_enlarge(sim) || ll_sim_intern(sim, "") == UINT32_MAX ? LLADD_NO_MEMORY : 0;
}

/* Returns the bucket of the name, or the free bucket where it belongs. */
static uint32_t *name_place(struct ll_sim_names *n, const char *text, size_t len, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (n->n_buckets - 1);
    while (n->buckets[at]) {
        const struct ll_sim_name *name = &n->at[n->buckets[at] - 1];
        if (name->hash == hash && memcmp(name->text, text, len) == 0 && name->text[len] == '\0')
            break;
        at = (at + 1) & (n->n_buckets - 1);
    }
    return &n->buckets[at];
}

static uint32_t intern(struct lladd_sim *sim, const char *text, size_t len)
{
    struct ll_sim_names *n = &sim->names;
    uint64_t hash = ll_sim_hash(text, len);
    uint32_t *place = name_place(n, text, len, hash);
    if (*place)
        return *place - 1;
    if (2 * n->count >= n->n_buckets && names_enlarge(sim))
        return UINT32_MAX;
    char *copy = ll_sim_take(&sim->base, len + 1);
    struct ll_sim_name *at = ll_sim_grow(&sim->base, n->at, n->count, &n->capacity, sizeof *at);
    if (!copy || !at)
        return UINT32_MAX;
    n->at = at;
    memcpy(copy, text, len);
    copy[len] = '\0';
    const char *slash = strrchr(copy, '/');
    uint32_t number = n->count++;
    at[number] = (struct ll_sim_name){
        .text = copy, .last = slash ? slash + 1 : copy, .hash = hash, .kind = kind_of(copy)};
    *name_place(n, text, len, hash) = number + 1;
    if (!slash)
        return number;
    uint32_t parent = intern(sim, text, (size_t)(slash - copy));
    if (parent != UINT32_MAX)
        n->at[number].parent = parent;
    return parent == UINT32_MAX ? parent : number;
}

uint32_t ll_sim_intern(struct lladd_sim *sim, const char *text)
{
    return intern(sim, text, strlen(text));
}

struct ll_sim_binding *ll_sim_find(const struct ll_sim_image *image, uint32_t name)
{
    for (uint32_t i = 0; i < image->n_names; i++)
        if (image->names[i].name == name)
            return &image->names[i];
    return NULL;
}

int ll_sim_bind(struct ll_sim_arena *a, struct ll_sim_image *image, uint32_t name, uint32_t inode)
{
    struct ll_sim_binding *there = ll_sim_find(image, name);
    if (there) {
        there->inode = inode;
        return 0;
    }
    struct ll_sim_binding *names =
        ll_sim_grow(a, image->names, image->n_names, &image->names_capacity, sizeof *names);
    if (!names)
        return LLADD_NO_MEMORY;
    image->names = names;
    names[image->n_names++] = (struct ll_sim_binding){name, inode};
    return 0;
}

void ll_sim_unbind(struct ll_sim_image *image, uint32_t name)
{
    struct ll_sim_binding *b = ll_sim_find(image, name);
    if (b)
        *b = image->names[--image->n_names];
}

void ll_sim_orphans(const struct lladd_sim *sim, struct ll_sim_image *image)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < image->n_names; i++) {
            uint32_t parent = sim->names.at[image->names[i].name].parent;
            const struct ll_sim_binding *dir = parent ? ll_sim_find(image, parent) : NULL;
            if (!parent || (dir && dir->inode == LL_SIM_DIRECTORY))
                continue;
            image->names[i--] = image->names[--image->n_names];
            again = true;
        }
    }
}

/* ---- images ------------------------------------------------------------------------------ */

uint32_t ll_sim_inode_new(struct ll_sim_arena *a, struct ll_sim_image *image, uint64_t birth)
{
    struct ll_sim_inode *inode = ll_sim_take(a, sizeof *inode);
    struct ll_sim_inode **all =
        ll_sim_grow(a, image->inode, image->n_inodes, &image->inodes_capacity, sizeof(*all));
    if (!inode || !all)
        return LL_SIM_NO_INODE;
    image->inode = all;
    memset(inode, 0, sizeof *inode);
    inode->owner = image;
    inode->birth = birth;
    all[image->n_inodes] = inode;
    return image->n_inodes++;
}

/* Room for more names and files, so that most runs need not enlarge the arrays. */
enum { SPARE = 8 };

int ll_sim_image_copy(struct ll_sim_arena *a, const struct ll_sim_image *from,
                      struct ll_sim_image *out)
{
    out->n_names = from->n_names;
    out->names_capacity = from->n_names + SPARE;
    out->n_inodes = from->n_inodes;
    out->inodes_capacity = from->n_inodes + SPARE;
    out->names = ll_sim_take(a, out->names_capacity * sizeof *out->names);
    out->inode = ll_sim_take(a, out->inodes_capacity * sizeof(*out->inode));
    if (!out->names || !out->inode)
        return LLADD_NO_MEMORY;
    if (from->n_names)
        memcpy(out->names, from->names, from->n_names * sizeof *out->names);
    if (from->n_inodes)
        memcpy(out->inode, from->inode, from->n_inodes * sizeof(*out->inode));
    return 0;
}

/* Copy on write. A copy of an image shares inodes with the original, so the original must not
 * change while the copy lives. */
struct ll_sim_inode *ll_sim_own(struct ll_sim_arena *a, struct ll_sim_image *image, uint32_t number)
{
    struct ll_sim_inode *old = image->inode[number];
    if (old->owner == image)
        return old;
    struct ll_sim_inode *fresh = ll_sim_take(a, sizeof *fresh);
    if (!fresh)
        return NULL;
    *fresh = *old;
    fresh->owner = image;
    fresh->capacity = old->n_blocks + 1;
    fresh->block = ll_sim_take(a, fresh->capacity * sizeof *fresh->block);
    if (!fresh->block)
        return NULL;
    for (uint32_t i = 0; i < old->n_blocks; i++)
        fresh->block[i] = (struct ll_sim_block){old->block[i].bytes, false};
    image->inode[number] = fresh;
    return fresh;
}

/* Returns block `i`. If the file has fewer blocks, adds the missing ones. */
static struct ll_sim_block *block_at(struct ll_sim_arena *a, struct ll_sim_inode *inode, uint64_t i)
{
    if (i >= UINT32_MAX / 2)
        return NULL;
    if (i >= inode->capacity) {
        struct ll_sim_block *more =
            ll_sim_grow(a, inode->block, (size_t)i, &inode->capacity, sizeof *more);
        if (!more)
            return NULL;
        inode->block = more;
    }
    while (inode->n_blocks <= i)
        inode->block[inode->n_blocks++] = (struct ll_sim_block){NULL, false};
    return &inode->block[i];
}

static int own_block(struct ll_sim_arena *a, struct ll_sim_block *b)
{
    if (b->mine)
        return 0;
    unsigned char *bytes = ll_sim_take(a, LL_SIM_BLOCK);
    if (!bytes)
        return LLADD_NO_MEMORY;
    if (b->bytes)
        memcpy(bytes, b->bytes, LL_SIM_BLOCK);
    else
        memset(bytes, 0, LL_SIM_BLOCK);
    *b = (struct ll_sim_block){bytes, true};
    return 0;
}

/* Writes into one block; `len` > 0. */
static int put_block(struct ll_sim_arena *a, struct ll_sim_inode *inode, uint64_t off,
                     const unsigned char *data, size_t len, bool stable, bool hashed)
{
    struct ll_sim_block *b = block_at(a, inode, off / LL_SIM_BLOCK);
    size_t into = (size_t)(off % LL_SIM_BLOCK);
    if (!b)
        return LLADD_NO_MEMORY;
    /* The range of whole words that the write touches. */
    size_t from = into & ~(size_t)7, to = (into + len + 7) & ~(size_t)7;
    uint64_t at = off - into + from;
    if (hashed && b->bytes)
        inode->hash -= ll_sim_hash_at(b->bytes + from, to - from, at);
    if (stable && len == LL_SIM_BLOCK) {
        /* The caller's bytes become the block, and own_block copies them before a change. */
        *b = (struct ll_sim_block){(unsigned char *)(uintptr_t)data, false};
    } else {
        if (own_block(a, b))
            return LLADD_NO_MEMORY;
        memcpy(b->bytes + into, data, len);
    }
    if (hashed)
        inode->hash += ll_sim_hash_at(b->bytes + from, to - from, at);
    return 0;
}

int ll_sim_put(struct ll_sim_arena *a, struct ll_sim_inode *inode, uint64_t off,
               const unsigned char *data, size_t len, bool stable, bool hashed)
{
    while (len > 0) {
        size_t left = LL_SIM_BLOCK - (size_t)(off % LL_SIM_BLOCK);
        size_t part = len < left ? len : left;
        int rc = put_block(a, inode, off, data, part, stable, hashed);
        if (rc)
            return rc;
        off += part;
        data += part;
        len -= part;
        if (off > inode->size)
            inode->size = off;
    }
    return 0;
}

uint64_t ll_sim_image_bytes(const struct ll_sim_image *image)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < image->n_names; i++)
        if (image->names[i].inode != LL_SIM_DIRECTORY)
            sum += image->inode[image->names[i].inode]->size;
    return sum;
}

/* Invariant: the bytes beyond the size are zeros. */
int ll_sim_set_size(struct ll_sim_arena *a, struct ll_sim_inode *inode, uint64_t size, bool hashed)
{
    uint64_t whole = (size + LL_SIM_BLOCK - 1) / LL_SIM_BLOCK;
    while (inode->n_blocks > whole) {
        const struct ll_sim_block *b = &inode->block[--inode->n_blocks];
        if (hashed && b->bytes)
            inode->hash -=
                ll_sim_hash_at(b->bytes, LL_SIM_BLOCK, (uint64_t)inode->n_blocks * LL_SIM_BLOCK);
    }
    size_t into = (size_t)(size % LL_SIM_BLOCK);
    if (into > 0 && size < inode->size && inode->n_blocks == whole &&
        inode->block[whole - 1].bytes) {
        static const unsigned char zeros[LL_SIM_BLOCK];
        uint64_t was = inode->size;
        int rc = put_block(a, inode, size, zeros, LL_SIM_BLOCK - into, false, hashed);
        inode->size = was;
        if (rc)
            return rc;
    }
    inode->size = size;
    return 0;
}

size_t ll_sim_get(const struct ll_sim_inode *inode, uint64_t off, unsigned char *out, size_t len)
{
    if (off >= inode->size)
        return 0;
    if (len > inode->size - off)
        len = (size_t)(inode->size - off);
    for (size_t done = 0; done < len;) {
        uint64_t i = (off + done) / LL_SIM_BLOCK;
        size_t into = (size_t)((off + done) % LL_SIM_BLOCK);
        size_t part = len - done < LL_SIM_BLOCK - into ? len - done : LL_SIM_BLOCK - into;
        const unsigned char *bytes = i < inode->n_blocks ? inode->block[i].bytes : NULL;
        if (bytes)
            memcpy(out + done, bytes + into, part);
        else
            memset(out + done, 0, part);
        done += part;
    }
    return len;
}

int ll_sim_apply_name(struct ll_sim_arena *a, struct ll_sim_image *image,
                      const struct ll_sim_op *op)
{
    switch (op->kind) {
    case LL_SIM_CREATE:
    case LL_SIM_MKDIR:
        return ll_sim_bind(a, image, op->name, op->inode);
    case LL_SIM_RENAME: {
        const struct ll_sim_binding *from = ll_sim_find(image, op->name);
        if (from && from->inode == op->inode)
            ll_sim_unbind(image, op->name);
        return ll_sim_bind(a, image, op->to, op->inode);
    }
    default:
        ll_sim_unbind(image, op->name);
        return 0;
    }
}

/* ---- worlds ------------------------------------------------------------------------------ */

static struct ll_sim_op *add_op(struct ll_sim_arena *a, struct ll_sim_world *w,
                                const struct ll_sim_call *call, uint32_t number)
{
    struct ll_sim_op *ops = ll_sim_grow(a, w->ops, w->n_ops, &w->ops_capacity, sizeof *ops);
    if (!ops)
        return NULL;
    w->ops = ops;
    struct ll_sim_op *op = &ops[w->n_ops++];
    *op = (struct ll_sim_op){.kind = call->kind,
                             .inode = call->inode,
                             .name = call->name,
                             .to = call->to,
                             .len = call->len,
                             .call = number,
                             .off = call->off,
                             .data = call->data,
                             .whole = call->whole};
    w->fresh_ops++;
    return op;
}

static void hash_op(const struct lladd_sim *sim, const struct ll_sim_world *w, struct ll_sim_op *op)
{
    uint64_t h = ll_sim_mix(op->kind | (uint64_t)op->whole << 8, op->off);
    h = ll_sim_mix(h, op->data ? ll_sim_hash(op->data, op->len) : op->len);
    h = ll_sim_mix(h, op->inode < w->image.n_inodes ? w->image.inode[op->inode]->birth : op->inode);
    h = ll_sim_mix(h, sim->names.at[op->name].hash);
    op->hash = ll_sim_mix(h, sim->names.at[op->to].hash);
}

/* Makes one operation for each page of a write to the page file, since each page is a crash
 * unit. */
static int add_write(struct lladd_sim *sim, struct ll_sim_arena *a, struct ll_sim_world *w,
                     const struct ll_sim_call *call, uint32_t number)
{
    enum ll_sim_file_kind kind = sim->names.at[call->name].kind;
    for (uint32_t done = 0; done < call->len;) {
        uint32_t part = call->len - done;
        if (kind == LL_SIM_PAGES) {
            uint32_t left = sim->page_size - (uint32_t)((call->off + done) % sim->page_size);
            part = part < left ? part : left;
        }
        struct ll_sim_op *op = add_op(a, w, call, number);
        if (!op)
            return LLADD_NO_MEMORY;
        op->file = (uint8_t)kind;
        op->off += done;
        op->data += done;
        op->len = part;
        hash_op(sim, w, op);
        done += part;
    }
    return 0;
}

static bool is_data(const struct ll_sim_op *op)
{
    return op->kind == LL_SIM_WRITE || op->kind == LL_SIM_TRUNCATE;
}

static int make_durable(struct ll_sim_arena *a, struct ll_sim_image *image,
                        const struct ll_sim_op *op)
{
    if (!is_data(op))
        return ll_sim_apply_name(a, image, op);
    struct ll_sim_inode *inode = ll_sim_own(a, image, op->inode);
    if (!inode)
        return LLADD_NO_MEMORY;
    if (op->kind == LL_SIM_TRUNCATE)
        return ll_sim_set_size(a, inode, op->off, true);
    return ll_sim_put(a, inode, op->off, op->data, op->len, true, true);
}

/* The write `by` was made durable. Where it overlaps the lost write, it has also replaced the lost
 * bytes in the cache. */
static int patch(struct ll_sim_arena *a, struct ll_sim_op *lost, const struct ll_sim_op *by)
{
    uint64_t from = lost->off > by->off ? lost->off : by->off;
    uint64_t lost_end = lost->off + lost->len, by_end = by->off + by->len;
    uint64_t end = lost_end < by_end ? lost_end : by_end;
    if (from >= end)
        return 0;
    unsigned char *bytes = ll_sim_take(a, lost->len);
    if (!bytes)
        return LLADD_NO_MEMORY;
    memcpy(bytes, lost->data, lost->len);
    memcpy(bytes + (from - lost->off), by->data + (from - by->off), (size_t)(end - from));
    lost->data = bytes;
    lost->hash = ll_sim_mix(lost->hash, by->hash);
    return 0;
}

static int overwrite_lost(struct ll_sim_arena *a, struct ll_sim_world *w, uint32_t n,
                          const struct ll_sim_op *by)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < n; i++) {
        struct ll_sim_op *op = &w->ops[i];
        uint64_t end = by->off + by->len;
        if (!op->lost || op->inode != by->inode)
            continue;
        if (op->kind == LL_SIM_WRITE && by->kind == LL_SIM_WRITE)
            rc = patch(a, op, by);
        else if (op->kind == LL_SIM_WRITE && op->off + op->len > by->off)
            op->len = op->off < by->off ? (uint32_t)(by->off - op->off) : 0;
        else if (op->kind == LL_SIM_TRUNCATE && op->off < end)
            op->off = end;
    }
    return rc;
}

static uint32_t drop_empty(struct ll_sim_world *w, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!w->ops[i].lost || w->ops[i].kind != LL_SIM_WRITE || w->ops[i].len > 0)
            w->ops[kept++] = w->ops[i];
    return kept;
}

/* After a sync that failed or lied, no later sync makes the file's pending operations durable.
 * SYNC_REVERTED drops them. After SYNC_LOST, their writes stay in the cache and never reach the
 * disk (`gone`). After SYNC_FAILED, each of them may or may not have arrived. */
static void lose(struct ll_sim_world *w, const struct ll_sim_call *call)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->n_ops; i++) {
        struct ll_sim_op op = w->ops[i];
        bool meant = is_data(&op) && op.inode == call->inode;
        if (meant && call->kind == LL_SIM_SYNC_REVERTED)
            continue;
        if (meant && !op.lost)
            op.hash = ll_sim_mix(op.hash, 1);
        op.lost |= meant;
        op.gone |= meant && op.kind == LL_SIM_WRITE && call->kind == LL_SIM_SYNC_LOST;
        op.hash += op.gone;
        w->ops[kept++] = op;
    }
    w->n_ops = kept;
}

/* Applies the operations that the sync makes durable, and removes them from the list. */
static int settle(const struct lladd_sim *sim, struct ll_sim_arena *a, struct ll_sim_world *w,
                  const struct ll_sim_call *call)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->n_ops; i++) {
        const struct ll_sim_op *op = &w->ops[i];
        uint32_t of = op->kind == LL_SIM_RENAME ? op->to : op->name;
        bool now = call->kind == LL_SIM_SYNC
                       ? is_data(op) && op->inode == call->inode && !op->lost
                       : !is_data(op) && sim->names.at[of].parent == call->name;
        if (!now) {
            w->ops[kept++] = *op;
            continue;
        }
        int rc = make_durable(a, &w->image, op);
        if (!rc && is_data(op))
            rc = overwrite_lost(a, w, kept, op);
        if (rc)
            return rc;
    }
    w->n_ops = drop_empty(w, kept);
    return 0;
}

int ll_sim_step(struct lladd_sim *sim, struct ll_sim_arena *a, struct ll_sim_world *w,
                const struct ll_sim_call *call, uint32_t number)
{
    w->fresh_ops = 0;
    switch (call->kind) {
    case LL_SIM_SYNC:
    case LL_SIM_SYNC_DIR:
        return settle(sim, a, w, call);
    case LL_SIM_SYNC_FAILED:
    case LL_SIM_SYNC_LOST:
    case LL_SIM_SYNC_REVERTED:
        lose(w, call);
        return 0;
    case LL_SIM_WRITE:
        return add_write(sim, a, w, call, number);
    case LL_SIM_CREATE:
        /* The inode must get the number that it has in the run. */
        while (w->image.n_inodes <= call->inode)
            if (ll_sim_inode_new(a, &w->image, sim->names.at[call->name].hash) == LL_SIM_NO_INODE)
                return LLADD_NO_MEMORY;
        break;
    default:
        break;
    }
    struct ll_sim_op *op = add_op(a, w, call, number);
    if (!op)
        return LLADD_NO_MEMORY;
    op->file = (uint8_t)sim->names.at[call->name].kind;
    hash_op(sim, w, op);
    return 0;
}

uint64_t ll_sim_world_hash(const struct lladd_sim *sim, const struct ll_sim_world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->image.n_names; i++) {
        const struct ll_sim_binding *b = &w->image.names[i];
        uint64_t h = sim->names.at[b->name].hash;
        if (b->inode != LL_SIM_DIRECTORY) {
            const struct ll_sim_inode *inode = w->image.inode[b->inode];
            h = ll_sim_mix(ll_sim_mix(h, inode->hash), inode->size);
        }
        sum += h;
    }
    for (uint32_t i = 0; i < w->n_ops; i++)
        sum = ll_sim_mix(sum, w->ops[i].hash);
    return ll_sim_mix(sum, w->fresh_ops);
}
