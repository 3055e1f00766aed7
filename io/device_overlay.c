/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device_overlay: shows the files of another device, the device below, with changes that are kept
 * in memory.
 *
 * For experiments on a database: the database is opened, recovered, read and changed on this
 * device, while the device below is only read. Closing this device discards all writes.
 *
 * Definitions. A *node* is a file or directory that was opened or made on this device. An *entry*
 * binds a full name to a node or, if the name was deleted on this device, to NULL. A name without
 * an entry stands for the file or directory of the device below. A file consists of the first
 * `shown` bytes of the file below, and of written blocks, each of BLOCK bytes, which replace and
 * extend these bytes. All other bytes are zeros. A write of zeros beyond `shown` makes no block, so
 * a preallocated log takes no memory.
 *
 * Memory. lladd_device_overlay_bounded bounds the memory for blocks. A block that is first written
 * when this memory is used up is stored in an unnamed file of its node (spill.h). No block moves
 * between memory and that file.
 *
 * The lock. This device does not lock the file below, because the `lock` of the device below would
 * write the owner's pid into that file. The `lock` of this device only asks the device below
 * whether the lock is held, and returns -EAGAIN if it is. The caller must ensure that no process
 * takes the lock below later; the lladd command holds a shared lock on the file for this purpose
 * (tools/peek.c).
 *
 * Threads. `names` guards entries, reference counts and lock flags. The latch of a node, taken
 * after `names` or alone, guards the node's size and blocks. A thread that holds `names` or a latch
 * may call the device below. A read calls the device below without a latch, because the files below
 * do not change.
 */
#include "io/io_private.h"
#include "io/spill.h"
#include "util/env.h"
#include "util/hashmap.h"

#include <lladd/sync.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK = 4096,
    BLOCK_COST = BLOCK + 64, /* an estimate, with the hash map's slot and the allocator's
                              * overhead */
    PID_FIELD = 20
};

struct node {
    struct lladd_mutex latch;
    struct lladd_file *below; /* NULL: made on this device */
    uint64_t shown, size;
    struct ll_hashmap blocks; /* written blocks; the key is the block's number */
    struct ll_spill spill;  /* blocks that did not fit into memory */
    unsigned char *scratch; /* buffer for a spilled block; NULL until needed */
    size_t refs;          /* number of entries and open files; under `names` */
    bool directory;
    bool locked; /* under `names` */
};

struct entry {
    struct entry *next;
    struct node *node; /* NULL: deleted */
    char name[];
};

struct overlay_device {
    struct lladd_device base;
    struct lladd_device *below;
    uint32_t rank; /* rank of `names`; the latches of nodes have the next rank. Both are less than
                    * the ranks of the device below */
    struct ll_env env;
    struct lladd_mutex names;
    struct entry *entries; /* few entries: the files of a database */
    uint64_t most; /* limit for `used` */
    uint64_t used; /* bytes of blocks in memory; atomic */
    char *spill_dir; /* NULL: no spill file */
};

struct overlay_file {
    struct node *node;
    bool read_only;
    bool holds_lock;
};

static struct overlay_device *device_of(struct lladd_device *dev)
{
    return (struct overlay_device *)dev;
}

static struct node *node_of(const struct lladd_file *file)
{
    return ((const struct overlay_file *)file)->node;
}

/* ---- nodes ---- */

static struct node *new_node(struct overlay_device *dev, bool directory)
{
    struct node *node = calloc(1, sizeof *node);
    if (node && lladd_mutex_init(&node->latch, dev->rank + 1, "overlay file") != 0) {
        free(node);
        return NULL;
    }
    if (node) {
        node->directory = directory;
        node->spill = (struct ll_spill)LL_SPILL_INIT;
        node->refs = 1; /* the caller's reference */
        ll_hashmap_init(&node->blocks, &dev->env);
    }
    return node;
}

static void give_room_back(struct overlay_device *dev)
{
    (void)lladd_atomic_sub64(&dev->used, BLOCK_COST);
}

/* Reserves memory for one block within the limit; false if none is left. */
static bool take_room(struct overlay_device *dev)
{
    if (lladd_atomic_add64(&dev->used, BLOCK_COST) + BLOCK_COST <= dev->most)
        return true;
    give_room_back(dev);
    return false;
}

static void free_block(struct overlay_device *dev, unsigned char *block)
{
    free(block);
    give_room_back(dev);
}

static void drop_blocks(struct overlay_device *dev, struct node *node, uint64_t from)
{
    uint64_t number, at;
    bool more = true;
    while (more) { /* removal invalidates the cursor */
        size_t cursor = 0;
        while ((more = ll_hashmap_next(&node->blocks, &cursor, &number, &at)) && number < from) {
        }
        if (more) {
            free_block(dev, (unsigned char *)(uintptr_t)at);
            (void)ll_hashmap_remove(&node->blocks, number); /* the key is in the map */
        }
    }
    ll_spill_drop(&node->spill, from);
}

static int unref(struct overlay_device *dev, struct node *node)
{
    if (--node->refs > 0)
        return 0;
    int rc = node->below ? ll_io_close(dev->below, node->below) : 0;
    uint64_t number, at;
    for (size_t cursor = 0; ll_hashmap_next(&node->blocks, &cursor, &number, &at);)
        free_block(dev, (unsigned char *)(uintptr_t)at);
    ll_hashmap_free(&node->blocks);
    ll_spill_free(&node->spill);
    free(node->scratch);
    lladd_mutex_destroy(&node->latch);
    free(node);
    return rc;
}

/* ---- names: all functions under `names` ---- */

static struct entry *find_entry(const struct overlay_device *dev, const char *name, size_t len)
{
    for (struct entry *e = dev->entries; e; e = e->next)
        if (strncmp(e->name, name, len) == 0 && e->name[len] == '\0')
            return e;
    return NULL;
}

/* Binds name to node (NULL: deleted) in place of its present node. Takes a reference to node. */
static int bind(struct overlay_device *dev, const char *name, struct node *node)
{
    size_t len = strlen(name);
    struct entry *e = find_entry(dev, name, len);
    struct node *old = e ? e->node : NULL;
    if (!e) {
        e = malloc(sizeof *e + len + 1);
        if (!e)
            return -ENOMEM;
        memcpy(e->name, name, len + 1);
        e->next = dev->entries;
        dev->entries = e;
    }
    e->node = node;
    if (node)
        node->refs++;
    return old ? unref(dev, old) : 0;
}

static int node_below(struct overlay_device *dev, const char *name, struct node **out)
{
    struct lladd_file *file;
    int rc = ll_io_open(dev->below, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc != 0 && rc != -EISDIR)
        return rc;
    struct node *node = new_node(dev, rc == -EISDIR);
    if (!node) {
        if (rc == 0)
            (void)ll_io_close(dev->below, file); /* only read */
        return -ENOMEM;
    }
    if (rc == 0) {
        node->below = file;
        rc = ll_io_size(dev->below, file, &node->shown);
        node->size = node->shown;
    }
    if (rc == 0 || rc == -EISDIR)
        rc = bind(dev, name, node);
    *out = node;
    int dropped = unref(dev, node); /* the entry keeps it */
    return rc != 0 ? rc : dropped;
}

/* Returns 0 if the name is a directory, else -ENOENT, -ENOTDIR, or the error of the device
 * below. */
static int check_directory(struct overlay_device *dev, const char *name, size_t len)
{
    const struct entry *e = find_entry(dev, name, len);
    if (len == 0 || (e && e->node && e->node->directory))
        return 0;
    if (e)
        return e->node ? -ENOTDIR : -ENOENT;
    char *whole = strndup(name, len);
    if (!whole)
        return -ENOMEM;
    struct node *node;
    int rc = node_below(dev, whole, &node);
    free(whole);
    return rc != 0 ? rc : node->directory ? 0 : -ENOTDIR;
}

/* Returns 0 if the directory of the name exists, else as check_directory. */
static int check_parent(struct overlay_device *dev, const char *name)
{
    int rc = 0;
    const char *slash = strchr(name, '/');
    for (; slash && rc == 0; slash = strchr(slash + 1, '/'))
        rc = check_directory(dev, name, (size_t)(slash - name));
    return rc;
}

/* Finds the node of a name, or makes one if only the device below has the name. */
static int find(struct overlay_device *dev, const char *name, struct node **out)
{
    const struct entry *e = find_entry(dev, name, strlen(name));
    int rc = check_parent(dev, name);
    if (rc != 0)
        return rc;
    if (!e)
        rc = node_below(dev, name, out);
    else if (e->node)
        *out = e->node;
    else
        rc = -ENOENT;
    return rc == -ENOTDIR ? -ENOENT : rc; /* the directory exists on this device; the device
                                           * below may have a file of its name */
}

static int find_or_create(struct overlay_device *dev, const char *name, unsigned flags,
                          struct node **out)
{
    int rc = ll_io__name_ok(name, false) ? find(dev, name, out) : -EINVAL;
    if (rc == 0)
        return flags & LLADD_OPEN_EXCLUSIVE ? -EEXIST : (*out)->directory ? -EISDIR : 0;
    if (rc != -ENOENT || !(flags & LLADD_OPEN_CREATE))
        return rc;
    rc = check_parent(dev, name);
    if (rc != 0)
        return rc;
    struct node *node = new_node(dev, false);
    if (!node)
        return -ENOMEM;
    rc = bind(dev, name, node);
    *out = node;
    int dropped = unref(dev, node); /* the entry, if bind made one, keeps it */
    return rc != 0 ? rc : dropped;
}

/* ---- contents ---- */

static unsigned char *block_at(const struct node *node, uint64_t number)
{
    return ll_hashmap_get_ptr(&node->blocks, number);
}

static bool is_zero(const unsigned char *p, size_t len)
{
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

/* Reads [off, off + len) of the file below; bytes from `shown` on are zeros. */
static int read_below(struct overlay_device *dev, const struct node *node, uint64_t shown,
                      unsigned char *buf, size_t len, uint64_t off)
{
    size_t n = off >= shown ? 0 : shown - off < len ? (size_t)(shown - off) : len;
    memset(buf + n, 0, len - n);
    return n ? ll_io_read_full(dev->below, node->below, buf, n, off) : 0;
}

/* Makes a block with the contents of the file below. The caller has called take_room; an error
 * gives the room back. Under the latch. */
static int make_block(struct overlay_device *dev, struct node *node, uint64_t number,
                      unsigned char **out)
{
    unsigned char *block = malloc(BLOCK);
    int rc = block ? read_below(dev, node, node->shown, block, BLOCK, number * BLOCK) : -ENOMEM;
    if (rc == 0 && ll_hashmap_put_ptr(&node->blocks, number, block) != 0)
        rc = -ENOMEM;
    if (rc != 0) {
        free_block(dev, block);
        return rc;
    }
    *out = block;
    return 0;
}

/* Reads the block from the spill file into `scratch`. Under the latch. */
static int fetch_spilled(struct node *node, uint64_t number)
{
    if (!node->scratch)
        node->scratch = malloc(BLOCK);
    return node->scratch ? ll_spill_get(&node->spill, number, node->scratch, BLOCK) : -ENOMEM;
}

/* Writes a part of a block in the spill file; adds the block if the file does not have it. Under
 * the latch. */
static int write_spilled(struct overlay_device *dev, struct node *node, uint64_t number, size_t at,
                         const unsigned char *data, size_t n)
{
    if (n == BLOCK)
        return ll_spill_put(&node->spill, dev->spill_dir, number, data, BLOCK);
    if (!node->scratch)
        node->scratch = malloc(BLOCK);
    int rc = !node->scratch ? -ENOMEM
             : ll_spill_has(&node->spill, number)
                 ? fetch_spilled(node, number)
                 : read_below(dev, node, node->shown, node->scratch, BLOCK, number * BLOCK);
    if (rc != 0)
        return rc;
    memcpy(node->scratch + at, data, n);
    return ll_spill_put(&node->spill, dev->spill_dir, number, node->scratch, BLOCK);
}

/* Under the latch. */
static int write_block(struct overlay_device *dev, struct node *node, uint64_t number, size_t at,
                       const unsigned char *data, size_t n)
{
    unsigned char *block = block_at(node, number);
    if (!block && (ll_spill_has(&node->spill, number) || !take_room(dev)))
        return dev->spill_dir ? write_spilled(dev, node, number, at, data, n) : -ENOMEM;
    int rc = block ? 0 : make_block(dev, node, number, &block);
    if (rc == 0)
        memcpy(block + at, data, n);
    return rc;
}

/* Under the latch. */
static int write_piece(struct overlay_device *dev, struct node *node, const unsigned char *data,
                       size_t len, uint64_t off)
{
    while (len > 0) {
        uint64_t number = off / BLOCK;
        size_t at = (size_t)(off % BLOCK), n = BLOCK - at < len ? BLOCK - at : len;
        bool there = block_at(node, number) || ll_spill_has(&node->spill, number);
        int rc = there || off < node->shown || !is_zero(data, n)
                     ? write_block(dev, node, number, at, data, n)
                     : 0;
        if (rc != 0)
            return rc;
        data += n;
        off += n;
        len -= n;
    }
    return 0;
}

/* After an error the size is unchanged, but blocks may have been written. Under the latch. */
static int write_pieces(struct overlay_device *dev, struct node *node,
                        const struct lladd_iovec *pieces, int n, uint64_t off)
{
    uint64_t start = off, end = off;
    for (int i = 0; i < n; i++) {
        if (end > INT64_MAX || pieces[i].len > INT64_MAX - end)
            return -EFBIG;
        end += pieces[i].len;
    }
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        rc = write_piece(dev, node, pieces[i].data, pieces[i].len, off);
        off += pieces[i].len;
    }
    if (rc == 0 && end > node->size && end > start)
        node->size = end;
    return rc;
}

/* ---- the table of functions ---- */

static int overlay_open(struct lladd_device *base, const char *name, unsigned flags,
                        struct lladd_file **out)
{
    struct overlay_device *dev = device_of(base);
    int rc = ll_io__check_flags(flags);
    if (rc != 0)
        return rc;
    struct overlay_file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    lladd_mutex_lock(&dev->names);
    rc = find_or_create(dev, name, flags, &file->node);
    if (rc == 0)
        file->node->refs++;
    lladd_mutex_unlock(&dev->names);
    if (rc != 0) {
        free(file);
        return rc;
    }
    file->read_only = (flags & LLADD_OPEN_READ_ONLY) != 0;
    *out = (struct lladd_file *)file;
    return 0;
}

static int overlay_close(struct lladd_device *base, struct lladd_file *handle)
{
    struct overlay_device *dev = device_of(base);
    struct overlay_file *file = (struct overlay_file *)handle;
    lladd_mutex_lock(&dev->names);
    if (file->holds_lock)
        file->node->locked = false;
    int rc = unref(dev, file->node);
    lladd_mutex_unlock(&dev->names);
    free(file);
    return rc;
}

/* Copies the written bytes of one block to `to`; does nothing if the block was not written. Under
 * the latch. */
static int read_block(struct node *node, uint64_t number, size_t at, unsigned char *to, size_t n)
{
    const unsigned char *block = block_at(node, number);
    if (!block && !ll_spill_has(&node->spill, number))
        return 0;
    int rc = block ? 0 : fetch_spilled(node, number);
    if (rc == 0)
        memcpy(to, (block ? block : node->scratch) + at, n);
    return rc;
}

static int64_t overlay_pread(struct lladd_device *base, struct lladd_file *file, void *buf,
                             size_t len, uint64_t off)
{
    struct node *node = node_of(file);
    if (off > INT64_MAX || len > INT64_MAX - off)
        return -EINVAL;
    lladd_mutex_lock(&node->latch);
    uint64_t size = node->size, shown = node->shown;
    lladd_mutex_unlock(&node->latch);
    size_t n = off >= size ? 0 : size - off < len ? (size_t)(size - off) : len;
    int rc = n ? read_below(device_of(base), node, shown, buf, n, off) : 0;
    if (rc != 0)
        return rc;
    lladd_mutex_lock(&node->latch);
    for (size_t done = 0; done < n && rc == 0;) {
        size_t at = (size_t)((off + done) % BLOCK);
        size_t part = BLOCK - at < n - done ? BLOCK - at : n - done;
        rc = read_block(node, (off + done) / BLOCK, at, (unsigned char *)buf + done, part);
        done += part;
    }
    lladd_mutex_unlock(&node->latch);
    return rc != 0 ? rc : (int64_t)n;
}

static int overlay_pwritev(struct lladd_device *base, struct lladd_file *file,
                           const struct lladd_iovec *pieces, int n, uint64_t off)
{
    struct node *node = node_of(file);
    if (((struct overlay_file *)file)->read_only)
        return -EBADF;
    lladd_mutex_lock(&node->latch);
    int rc = write_pieces(device_of(base), node, pieces, n, off);
    lladd_mutex_unlock(&node->latch);
    return rc;
}

static int overlay_append(struct lladd_device *base, struct lladd_file *file, const void *buf,
                          size_t len, uint64_t *off)
{
    struct node *node = node_of(file);
    struct lladd_iovec piece = {buf, len};
    if (((struct overlay_file *)file)->read_only)
        return -EBADF;
    lladd_mutex_lock(&node->latch);
    uint64_t end = node->size;
    int rc = write_pieces(device_of(base), node, &piece, 1, end);
    lladd_mutex_unlock(&node->latch);
    if (rc == 0 && off)
        *off = end;
    return rc;
}

static int overlay_sync(struct lladd_device *base, struct lladd_file *file)
{
    (void)base;
    (void)file;
    return 0;
}

/* Turns the bytes from `size` on into zeros. Under the latch. */
static int cut_off(struct overlay_device *dev, struct node *node, uint64_t size)
{
    static const unsigned char zeros[BLOCK];
    uint64_t number = size / BLOCK;
    size_t at = (size_t)(size % BLOCK);
    int rc = 0;
    if (at && (block_at(node, number) || ll_spill_has(&node->spill, number)))
        rc = write_block(dev, node, number, at, zeros, BLOCK - at);
    if (rc != 0)
        return rc;
    drop_blocks(dev, node, number + (at != 0));
    node->shown = node->shown < size ? node->shown : size;
    return 0;
}

static int overlay_truncate(struct lladd_device *base, struct lladd_file *file, uint64_t size)
{
    struct node *node = node_of(file);
    if (((struct overlay_file *)file)->read_only)
        return -EINVAL;
    if (size > INT64_MAX)
        return -EFBIG;
    lladd_mutex_lock(&node->latch);
    int rc = size < node->size ? cut_off(device_of(base), node, size) : 0;
    if (rc == 0)
        node->size = size;
    lladd_mutex_unlock(&node->latch);
    return rc;
}

static int overlay_size(struct lladd_device *base, struct lladd_file *file, uint64_t *out)
{
    (void)base;
    struct node *node = node_of(file);
    lladd_mutex_lock(&node->latch);
    *out = node->size;
    lladd_mutex_unlock(&node->latch);
    return 0;
}

/* Only the size grows: the new bytes are zeros and take no memory. */
static int overlay_allocate(struct lladd_device *base, struct lladd_file *file, uint64_t size)
{
    uint64_t now = 0;
    int rc = overlay_size(base, file, &now);
    return rc || size <= now ? rc : overlay_truncate(base, file, size);
}

/* Binds the new name first: after that, the removal of the old name needs no memory. */
static int rename_locked(struct overlay_device *dev, const char *from, const char *to)
{
    struct node *node, *old = NULL;
    int rc = find(dev, from, &node);
    if (rc != 0)
        return rc;
    rc = find(dev, to, &old);
    if (rc != 0 && rc != -ENOENT)
        return rc;
    if (node->directory || (rc == 0 && old->directory))
        return -EISDIR;
    if (rc == 0 && old == node)
        return 0;
    rc = check_parent(dev, to);
    if (rc == 0)
        rc = bind(dev, to, node);
    return rc != 0 ? rc : bind(dev, from, NULL); /* `from` has an entry */
}

static int overlay_rename(struct lladd_device *base, const char *from, const char *to)
{
    struct overlay_device *dev = device_of(base);
    if (!ll_io__name_ok(from, false) || !ll_io__name_ok(to, false))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = rename_locked(dev, from, to);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static int overlay_unlink(struct lladd_device *base, const char *name)
{
    struct overlay_device *dev = device_of(base);
    struct node *node;
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = find(dev, name, &node);
    if (rc == 0)
        rc = node->directory ? -EISDIR : bind(dev, name, NULL);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static int overlay_sync_dir(struct lladd_device *base, const char *name)
{
    struct overlay_device *dev = device_of(base);
    if (!ll_io__name_ok(name, true))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = check_parent(dev, name);
    if (rc == 0)
        rc = check_directory(dev, name, strlen(name));
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static int overlay_mkdir(struct lladd_device *base, const char *name)
{
    struct overlay_device *dev = device_of(base);
    struct node *node;
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = find(dev, name, &node);
    rc = rc == 0 ? -EEXIST : rc == -ENOENT ? check_parent(dev, name) : rc;
    if (rc == 0) {
        node = new_node(dev, true);
        rc = node ? bind(dev, name, node) : -ENOMEM;
        if (node && unref(dev, node) != 0 && rc == 0) /* the entry keeps it */
            rc = -EIO;
    }
    lladd_mutex_unlock(&dev->names);
    return rc;
}

/* ---- lists ---- */

struct names {
    struct overlay_device *dev;
    const char *folder;
    char *text; /* the names; each ends with a 0 byte */
    size_t len;
};

static int add_name(struct names *names, const char *name)
{
    size_t len = strlen(name) + 1;
    char *more = realloc(names->text, names->len + len);
    if (!more)
        return -ENOMEM;
    memcpy(more + names->len, name, len);
    names->text = more;
    names->len += len;
    return 0;
}

/* Adds a name of the device below, unless this device has an entry for the name. */
static int add_below(void *ctx, const char *name)
{
    struct names *names = ctx;
    size_t folder = strlen(names->folder), len = folder + 1 + strlen(name);
    char *whole = malloc(len + 1);
    if (!whole)
        return -ENOMEM;
    (void)snprintf(whole, len + 1, "%s%s%s", names->folder, folder ? "/" : "", name);
    bool mine = find_entry(names->dev, whole, strlen(whole)) != NULL;
    free(whole);
    return mine ? 0 : add_name(names, name);
}

static int collect(struct names *names)
{
    size_t folder = strlen(names->folder);
    int rc = ll_io_list(names->dev->below, names->folder, add_below, names);
    if (rc == -ENOENT || rc == -ENOTDIR)
        rc = 0; /* the directory was made on this device */
    for (const struct entry *e = names->dev->entries; e && rc == 0; e = e->next) {
        const char *rest = folder ? e->name + folder + 1 : e->name;
        bool inside =
            folder == 0 || (strncmp(e->name, names->folder, folder) == 0 && e->name[folder] == '/');
        if (inside && e->node && !strchr(rest, '/'))
            rc = add_name(names, rest);
    }
    return rc;
}

static int overlay_list(struct lladd_device *base, const char *name, lladd_list_fn *fn, void *ctx)
{
    struct overlay_device *dev = device_of(base);
    struct names names = {.dev = dev, .folder = name};
    int rc = overlay_sync_dir(base, name); /* is it a directory? */
    if (rc != 0)
        return rc;
    lladd_mutex_lock(&dev->names);
    rc = collect(&names);
    lladd_mutex_unlock(&dev->names);
    for (const char *p = names.text; rc == 0 && p < names.text + names.len; p += strlen(p) + 1)
        rc = fn(ctx, p);
    free(names.text);
    return rc;
}

/* ---- the lock ---- */

/* Is the lock free on this device and on the device below? Returns 0 or -EAGAIN. Under `names`. */
static int check_free(struct overlay_device *dev, const char *name, const struct node *node,
                      int64_t *owner)
{
    const struct lladd_device_ops *below = dev->below->ops;
    *owner = 0;
    if (node && node->locked) {
        *owner = getpid();
        return -EAGAIN;
    }
    return LL_IO_HAS(below, holder) ? below->holder(dev->below, name, owner) : 0;
}

/* The file contains the pid of the holder, as on other devices. */
static int take_lock(struct overlay_device *dev, struct node *node)
{
    char text[PID_FIELD + 1];
    (void)snprintf(text, sizeof text, "%-*lld\n", PID_FIELD - 1, (long long)getpid());
    struct lladd_iovec piece = {text, PID_FIELD};
    lladd_mutex_lock(&node->latch);
    int rc = write_pieces(dev, node, &piece, 1, 0);
    lladd_mutex_unlock(&node->latch);
    if (rc == 0)
        node->locked = true;
    return rc;
}

static int overlay_lock(struct lladd_device *base, const char *name, struct lladd_file **out,
                        int64_t *owner)
{
    struct overlay_device *dev = device_of(base);
    *owner = 0;
    struct overlay_file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    lladd_mutex_lock(&dev->names);
    int rc = find_or_create(dev, name, LLADD_OPEN_CREATE, &file->node);
    if (rc == 0)
        rc = check_free(dev, name, file->node, owner);
    if (rc == 0)
        rc = take_lock(dev, file->node);
    if (rc == 0)
        file->node->refs++;
    lladd_mutex_unlock(&dev->names);
    if (rc != 0) {
        free(file);
        return rc;
    }
    file->holds_lock = true;
    *out = (struct lladd_file *)file;
    return 0;
}

static int overlay_holder(struct lladd_device *base, const char *name, int64_t *owner)
{
    struct overlay_device *dev = device_of(base);
    struct node *node = NULL;
    *owner = 0;
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = find(dev, name, &node);
    if (rc == 0 || rc == -ENOENT)
        rc = check_free(dev, name, rc == 0 ? node : NULL, owner);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static void overlay_prefetch(struct lladd_device *base, struct lladd_file *file, uint64_t off,
                             uint64_t len)
{
    const struct node *node = node_of(file);
    if (node->below)
        ll_io_prefetch(device_of(base)->below, node->below, off, len);
}

const struct lladd_device_ops ll_io__overlay_ops = {
    .struct_size = sizeof ll_io__overlay_ops,
    .open = overlay_open,
    .close = overlay_close,
    .pread = overlay_pread,
    .pwritev = overlay_pwritev,
    .append = overlay_append,
    .sync = overlay_sync,
    .truncate = overlay_truncate,
    .size = overlay_size,
    .rename = overlay_rename,
    .unlink = overlay_unlink,
    .sync_dir = overlay_sync_dir,
    .mkdir = overlay_mkdir,
    .list = overlay_list,
    .lock = overlay_lock,
    .prefetch = overlay_prefetch,
    .holder = overlay_holder,
    .allocate = overlay_allocate,
};

int lladd_device_overlay(struct lladd_device *below, struct lladd_device **out)
{
    return lladd_device_overlay_bounded(below, UINT64_MAX, NULL, out);
}

int lladd_device_overlay_bounded(struct lladd_device *below, uint64_t memory_bytes,
                                 const char *spill_dir, struct lladd_device **out)
{
    if (!below || !out || (!spill_dir && memory_bytes != UINT64_MAX))
        return LLADD_BAD_ARGUMENT;
    bool nested = below->ops == &ll_io__overlay_ops;
    struct overlay_device *dev = calloc(1, sizeof *dev);
    char *dir = spill_dir ? strdup(spill_dir) : NULL;
    if (dev)
        dev->rank = (nested ? device_of(below)->rank : (uint32_t)LLADD_RANK_DEVICE) - 2;
    if (!dev || (spill_dir && !dir) ||
        lladd_mutex_init(&dev->names, dev->rank, "overlay device") != 0) {
        free(dir);
        free(dev);
        return LLADD_NO_MEMORY;
    }
    dev->most = memory_bytes;
    dev->spill_dir = dir;
    ll_env_init(&dev->env, NULL, NULL, false);
    dev->base.ops = &ll_io__overlay_ops;
    dev->below = below;
    *out = &dev->base;
    return 0;
}

void ll_io__overlay_close_device(struct lladd_device *base)
{
    struct overlay_device *dev = device_of(base);
    while (dev->entries) {
        struct entry *e = dev->entries;
        dev->entries = e->next;
        if (e->node)
            (void)unref(dev, e->node); /* the file below was only read */
        free(e);
    }
    lladd_mutex_destroy(&dev->names);
    free(dev->spill_dir);
    free(dev);
}
