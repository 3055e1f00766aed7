/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device_memory: files in memory, which exist as long as the device.
 *
 * For tests, and for benchmarks without a disk. Tests open files very often, so opening an existing
 * file is cheap: one latch, one hash lookup and one small allocation.
 *
 * Definitions. A *node* is a file or directory. A node lives while a name or an open file refers to
 * it, as on POSIX, so an unlinked file can be read until it is closed. An *entry* binds a full name
 * ("log/0000.seg") to a node. Entries form no tree: a directory is an entry with a directory node,
 * and contains the entries with names that begin with its name and "/". The database's own
 * directory, "", always exists and has no entry.
 *
 * The contents of a file are one block of memory that grows by half or more. Bytes from `made` to
 * `size` read as zeros, but their memory is undefined: a write that begins after `made` first
 * zeroes the bytes from `made` to the start of the write. So truncation to a greater size touches
 * no memory. sync does nothing: the simulator's device models the loss of unsynced data.
 *
 * Threads. `names` guards the table, reference counts and locks. The latch of a node, taken after
 * `names` or alone, guards the node's contents. A long read is counted in `readers` under the
 * latch and then copies without the latch, in parallel with other reads. A thread that changes the
 * file waits until `readers` is 0.
 */
#include "io/io_private.h"
#include "util/env.h"

#include <lladd/sync.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct lladd_mutex latch;
    struct lladd_cond no_readers;
    unsigned char *data;
    size_t size;
    size_t made; /* at most `size`: `data` is defined up to here; later bytes read as zeros */
    size_t capacity;
    size_t readers; /* readers that copy without the latch */
    size_t refs;    /* number of names and open files; under `names` */
    bool directory;
    bool locked;   /* under `names` */
    int64_t owner; /* pid that took the lock last; under `names` */
};

struct entry {
    struct entry *next;
    struct node *node;
    uint64_t hash;
    size_t len;
    char name[];
};

struct memory_device {
    struct lladd_device base;
    struct lladd_mutex names;
    struct entry **buckets; /* their number is a power of two */
    size_t bucket_count;
    size_t entry_count;
};

struct memory_file {
    struct node *node;
    bool read_only;
    bool holds_lock;
};

/* LONG_READ: from this number of bytes on, copying takes longer than counting the reader. */
enum { BUCKETS_MIN = 32, PID_FIELD = 20, LONG_READ = 16384 };

static struct memory_device *device_of(struct lladd_device *dev)
{
    return (struct memory_device *)dev;
}

static struct node *node_of(const struct lladd_file *file)
{
    return ((const struct memory_file *)file)->node;
}

/* ---- nodes ---- */

static struct node *new_node(bool directory)
{
    struct node *node = calloc(1, sizeof *node);
    if (node && lladd_mutex_init(&node->latch, LLADD_RANK_DEVICE + 1, "memory file") != 0) {
        free(node);
        return NULL;
    }
    if (node && lladd_cond_init(&node->no_readers) != 0) {
        lladd_mutex_destroy(&node->latch);
        free(node);
        return NULL;
    }
    if (node)
        node->directory = directory;
    return node;
}

static void unref(struct node *node)
{
    if (--node->refs > 0)
        return;
    lladd_cond_destroy(&node->no_readers);
    lladd_mutex_destroy(&node->latch);
    free(node->data);
    free(node);
}

static int grow(struct node *node, uint64_t size)
{
    if (size > INT64_MAX || size > SIZE_MAX / 2)
        return -EFBIG;
    if (size <= node->capacity)
        return 0;
    size_t capacity = node->capacity + node->capacity / 2;
    if (capacity < size)
        capacity = (size_t)size;
    unsigned char *data = realloc(node->data, capacity);
    if (!data)
        return -ENOMEM;
    node->data = data;
    node->capacity = capacity;
    return 0;
}

/* ---- names ---- */

/* FNV-1a. The same pass finds the length. */
static uint64_t hash_name(const char *name, size_t *len)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *p = name;
    for (; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    *len = (size_t)(p - name);
    return hash ^ hash >> 32;
}

/* Returns the address of the pointer to the entry of `name`. If there is no entry, that pointer is
 * the NULL at the end of the bucket. */
static struct entry **find(const struct memory_device *dev, const char *name, uint64_t hash,
                           size_t len)
{
    struct entry **place = &dev->buckets[hash & (dev->bucket_count - 1)];
    for (; *place; place = &(*place)->next) {
        const struct entry *e = *place;
        if (e->hash == hash && e->len == len && memcmp(e->name, name, len) == 0)
            break;
    }
    return place;
}

static struct node *lookup(const struct memory_device *dev, const char *name)
{
    size_t len;
    uint64_t hash = hash_name(name, &len);
    const struct entry *e = *find(dev, name, hash, len);
    return e ? e->node : NULL;
}

/* Does the directory of `name` exist? Returns 0, -ENOENT or -ENOTDIR. */
static int check_parent(const struct memory_device *dev, const char *name)
{
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - name);
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t i = 0; i < len; i++)
            hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
        const struct entry *e = *find(dev, name, hash ^ hash >> 32, len);
        if (!e)
            return -ENOENT;
        if (!e->node->directory)
            return -ENOTDIR;
    }
    return 0;
}

static int absent(const struct memory_device *dev, const char *name)
{
    int rc = check_parent(dev, name);
    return rc != 0 ? rc : -ENOENT;
}

/* Doubles the table. If memory is short, the present table stays. */
static void rehash(struct memory_device *dev)
{
    size_t count = dev->bucket_count * 2;
    struct entry **buckets = calloc(count, sizeof(struct entry *));
    if (!buckets)
        return;
    for (size_t i = 0; i < dev->bucket_count; i++) {
        struct entry *e = dev->buckets[i];
        while (e) {
            struct entry *next = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
            e = next;
        }
    }
    free(dev->buckets);
    dev->buckets = buckets;
    dev->bucket_count = count;
}

/* Binds name to node; the name must have no entry. Takes a reference to the node. */
static int bind(struct memory_device *dev, const char *name, struct node *node)
{
    size_t len;
    uint64_t hash = hash_name(name, &len);
    struct entry *e = malloc(sizeof *e + len + 1);
    if (!e)
        return -ENOMEM;
    if (dev->entry_count >= dev->bucket_count)
        rehash(dev);
    struct entry **bucket = &dev->buckets[hash & (dev->bucket_count - 1)];
    memcpy(e->name, name, len + 1);
    e->len = len;
    e->hash = hash;
    e->node = node;
    e->next = *bucket;
    *bucket = e;
    node->refs++;
    dev->entry_count++;
    return 0;
}

static void unbind(struct memory_device *dev, struct entry **place)
{
    struct entry *e = *place;
    *place = e->next;
    dev->entry_count--;
    unref(e->node);
    free(e);
}

/* Under `names`. */
static int find_or_create(struct memory_device *dev, const char *name, unsigned flags,
                          struct node **out)
{
    struct node *node = lookup(dev, name);
    if (node) {
        /* A name in the table is valid. */
        if (flags & LLADD_OPEN_EXCLUSIVE)
            return -EEXIST;
        *out = node;
        return node->directory ? -EISDIR : 0;
    }
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    if (!(flags & LLADD_OPEN_CREATE))
        return absent(dev, name);
    int rc = check_parent(dev, name);
    if (rc != 0)
        return rc;
    node = new_node(false);
    if (!node)
        return -ENOMEM;
    rc = bind(dev, name, node);
    if (rc != 0) {
        node->refs = 1;
        unref(node);
        return rc;
    }
    *out = node;
    return 0;
}

/* ---- the table of functions ---- */

static int memory_open(struct lladd_device *base, const char *name, unsigned flags,
                       struct lladd_file **out)
{
    struct memory_device *dev = device_of(base);
    int rc = ll_io__check_flags(flags);
    if (rc != 0)
        return rc;
    struct memory_file *file = malloc(sizeof *file);
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
    file->holds_lock = false;
    *out = (struct lladd_file *)file;
    return 0;
}

static int memory_close(struct lladd_device *base, struct lladd_file *handle)
{
    struct memory_device *dev = device_of(base);
    struct memory_file *file = (struct memory_file *)handle;
    lladd_mutex_lock(&dev->names);
    if (file->holds_lock)
        file->node->locked = false;
    unref(file->node);
    lladd_mutex_unlock(&dev->names);
    free(file);
    return 0;
}

static void lock_to_change(struct node *node)
{
    lladd_mutex_lock(&node->latch);
    while (node->readers > 0)
        lladd_cond_wait(&node->no_readers, &node->latch);
}

/* Copies `n` bytes that are below `size`. The caller holds the latch or is counted as a reader. */
static void copy_out(const struct node *node, unsigned char *buf, size_t off, size_t n)
{
    size_t made = off < node->made ? node->made - off : 0;
    made = made < n ? made : n;
    if (made)
        memcpy(buf, node->data + off, made);
    if (made < n)
        memset(buf + made, 0, n - made);
}

static void copy_unlatched(struct node *node, void *buf, size_t off, size_t n)
{
    node->readers++;
    lladd_mutex_unlock(&node->latch);
    copy_out(node, buf, off, n);
    lladd_mutex_lock(&node->latch);
    if (--node->readers == 0)
        lladd_cond_broadcast(&node->no_readers);
}

static int64_t memory_pread(struct lladd_device *base, struct lladd_file *file, void *buf,
                            size_t len, uint64_t off)
{
    (void)base;
    if (off > INT64_MAX || len > INT64_MAX - off)
        return -EINVAL;
    struct node *node = node_of(file);
    size_t n = 0;
    lladd_mutex_lock(&node->latch);
    if (off < node->size) {
        size_t left = node->size - (size_t)off;
        n = len < left ? len : left;
        if (n >= LONG_READ)
            copy_unlatched(node, buf, (size_t)off, n);
        else if (n > 0)
            copy_out(node, buf, (size_t)off, n);
    }
    lladd_mutex_unlock(&node->latch);
    return (int64_t)n;
}

/* Under the node's latch. Writes everything or changes nothing. */
static int write_pieces(struct node *node, const struct lladd_iovec *pieces, int n, uint64_t off)
{
    uint64_t end = off;
    for (int i = 0; i < n; i++) {
        if (end > INT64_MAX || pieces[i].len > INT64_MAX - end)
            return -EFBIG;
        end += pieces[i].len;
    }
    if (end == off)
        return 0;
    int rc = grow(node, end);
    if (rc != 0)
        return rc;
    if (off > node->made)
        memset(node->data + node->made, 0, (size_t)off - node->made);
    unsigned char *to = node->data + off;
    for (int i = 0; i < n; i++) {
        if (pieces[i].len > 0)
            memcpy(to, pieces[i].data, pieces[i].len);
        to += pieces[i].len;
    }
    if (end > node->made)
        node->made = (size_t)end;
    if (end > node->size)
        node->size = (size_t)end;
    return 0;
}

static int memory_pwritev(struct lladd_device *base, struct lladd_file *file,
                          const struct lladd_iovec *pieces, int n, uint64_t off)
{
    (void)base;
    if (((struct memory_file *)file)->read_only)
        return -EBADF;
    struct node *node = node_of(file);
    lock_to_change(node);
    int rc = write_pieces(node, pieces, n, off);
    lladd_mutex_unlock(&node->latch);
    return rc;
}

static int memory_append(struct lladd_device *base, struct lladd_file *file, const void *buf,
                         size_t len, uint64_t *off)
{
    (void)base;
    if (((struct memory_file *)file)->read_only)
        return -EBADF;
    struct node *node = node_of(file);
    struct lladd_iovec piece = {buf, len};
    lock_to_change(node);
    uint64_t end = node->size;
    int rc = write_pieces(node, &piece, 1, end);
    lladd_mutex_unlock(&node->latch);
    if (rc == 0 && off)
        *off = end;
    return rc;
}

static int memory_sync(struct lladd_device *base, struct lladd_file *file)
{
    (void)base;
    (void)file;
    return 0;
}

/* Under the latch. */
static int resize(struct node *node, uint64_t size)
{
    int rc = grow(node, size);
    if (rc != 0)
        return rc;
    node->size = (size_t)size;
    node->made = node->made < node->size ? node->made : node->size;
    if (size == 0) {
        free(node->data);
        node->data = NULL;
        node->capacity = 0;
    }
    return 0;
}

static int memory_truncate(struct lladd_device *base, struct lladd_file *file, uint64_t size)
{
    (void)base;
    if (((struct memory_file *)file)->read_only)
        return -EINVAL; /* as ftruncate on a descriptor opened for reading */
    struct node *node = node_of(file);
    lock_to_change(node);
    int rc = resize(node, size);
    lladd_mutex_unlock(&node->latch);
    return rc;
}

/* For an empty file, calloc provides the zeros without touching the memory. */
static int memory_allocate(struct lladd_device *base, struct lladd_file *file, uint64_t size)
{
    (void)base;
    if (((struct memory_file *)file)->read_only)
        return -EBADF;
    struct node *node = node_of(file);
    int rc = 0;
    lock_to_change(node);
    if (!node->data && size > 0 && size < SIZE_MAX / 2) {
        node->data = calloc(1, (size_t)size);
        node->capacity = node->data ? (size_t)size : 0;
        node->size = node->made = node->capacity;
        rc = node->data ? 0 : -ENOMEM;
    } else if (size > node->size) {
        rc = resize(node, size);
    }
    lladd_mutex_unlock(&node->latch);
    return rc;
}

static int memory_size(struct lladd_device *base, struct lladd_file *file, uint64_t *out)
{
    (void)base;
    struct node *node = node_of(file);
    lladd_mutex_lock(&node->latch);
    *out = node->size;
    lladd_mutex_unlock(&node->latch);
    return 0;
}

static int rename_locked(struct memory_device *dev, const char *from, const char *to)
{
    size_t from_len, to_len;
    uint64_t from_hash = hash_name(from, &from_len);
    uint64_t to_hash = hash_name(to, &to_len);
    struct node *node = lookup(dev, from);
    if (!node)
        return absent(dev, from);
    const struct entry *old = *find(dev, to, to_hash, to_len);
    if (node->directory || (old && old->node->directory))
        return -EISDIR;
    if (old && old->node == node)
        return 0;
    int rc = old ? 0 : check_parent(dev, to);
    if (rc == 0)
        rc = old ? 0 : bind(dev, to, node);
    if (rc != 0)
        return rc;
    if (old) {
        struct entry *e = *find(dev, to, to_hash, to_len);
        node->refs++;
        unref(e->node);
        e->node = node;
    }
    unbind(dev, find(dev, from, from_hash, from_len));
    return 0;
}

static int memory_rename(struct lladd_device *base, const char *from, const char *to)
{
    struct memory_device *dev = device_of(base);
    if (!ll_io__name_ok(from, false) || !ll_io__name_ok(to, false))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = rename_locked(dev, from, to);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static int memory_unlink(struct lladd_device *base, const char *name)
{
    struct memory_device *dev = device_of(base);
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    size_t len;
    uint64_t hash = hash_name(name, &len);
    lladd_mutex_lock(&dev->names);
    struct entry **place = find(dev, name, hash, len);
    int rc = 0;
    if (!*place)
        rc = absent(dev, name);
    else if ((*place)->node->directory)
        rc = -EISDIR;
    else
        unbind(dev, place);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

/* Returns 0 if `name` is a directory ("": the database's own), else -ENOENT or -ENOTDIR. Under
 * `names`. */
static int check_directory(const struct memory_device *dev, const char *name)
{
    if (*name == '\0')
        return 0;
    const struct node *node = lookup(dev, name);
    if (!node)
        return absent(dev, name);
    return node->directory ? 0 : -ENOTDIR;
}

static int memory_sync_dir(struct lladd_device *base, const char *name)
{
    struct memory_device *dev = device_of(base);
    if (!ll_io__name_ok(name, true))
        return -EINVAL;
    lladd_mutex_lock(&dev->names);
    int rc = check_directory(dev, name);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

static int memory_mkdir(struct lladd_device *base, const char *name)
{
    struct memory_device *dev = device_of(base);
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    struct node *node = new_node(true);
    if (!node)
        return -ENOMEM;
    node->refs = 1;
    lladd_mutex_lock(&dev->names);
    int rc = lookup(dev, name) ? -EEXIST : check_parent(dev, name);
    if (rc == 0)
        rc = bind(dev, name, node);
    unref(node);
    lladd_mutex_unlock(&dev->names);
    return rc;
}

/* Collects the names in a directory; each ends with a 0 byte. Under `names`. */
static int collect(const struct memory_device *dev, const char *name, char **out, size_t *out_len)
{
    size_t prefix = strlen(name);
    *out = NULL;
    *out_len = 0;
    for (size_t i = 0; i < dev->bucket_count; i++) {
        for (const struct entry *e = dev->buckets[i]; e; e = e->next) {
            const char *rest = e->name;
            if (prefix > 0) {
                if (e->len <= prefix || memcmp(e->name, name, prefix) != 0 ||
                    e->name[prefix] != '/')
                    continue;
                rest += prefix + 1;
            }
            if (strchr(rest, '/'))
                continue;
            size_t len = strlen(rest) + 1;
            char *more = realloc(*out, *out_len + len);
            if (!more) {
                free(*out);
                return -ENOMEM;
            }
            memcpy(more + *out_len, rest, len);
            *out = more;
            *out_len += len;
        }
    }
    return 0;
}

static int memory_list(struct lladd_device *base, const char *name, lladd_list_fn *fn, void *ctx)
{
    struct memory_device *dev = device_of(base);
    if (!ll_io__name_ok(name, true))
        return -EINVAL;
    char *names = NULL;
    size_t len = 0;
    lladd_mutex_lock(&dev->names);
    int rc = check_directory(dev, name);
    if (rc == 0)
        rc = collect(dev, name, &names, &len);
    lladd_mutex_unlock(&dev->names);
    if (rc != 0)
        return rc;
    for (const char *p = names; rc == 0 && p < names + len; p += strlen(p) + 1)
        rc = fn(ctx, p);
    free(names);
    return rc;
}

/* Under `names`. The file contains the pid of the holder, as on disk. */
static int take_lock(struct node *node)
{
    int64_t pid = getpid();
    if (node->owner == pid && node->size > 0)
        return 0;
    char text[PID_FIELD + 1];
    (void)snprintf(text, sizeof text, "%-*lld\n", PID_FIELD - 1, (long long)pid);
    struct lladd_iovec piece = {text, PID_FIELD};
    lock_to_change(node);
    int rc = write_pieces(node, &piece, 1, 0);
    lladd_mutex_unlock(&node->latch);
    if (rc == 0)
        node->owner = pid;
    return rc;
}

static int memory_lock(struct lladd_device *base, const char *name, struct lladd_file **out,
                       int64_t *owner)
{
    struct memory_device *dev = device_of(base);
    *owner = 0;
    struct memory_file *file = malloc(sizeof *file);
    if (!file)
        return -ENOMEM;
    lladd_mutex_lock(&dev->names);
    int rc = find_or_create(dev, name, LLADD_OPEN_CREATE, &file->node);
    if (rc == 0 && file->node->locked) {
        *owner = file->node->owner;
        rc = -EAGAIN;
    }
    if (rc == 0)
        rc = take_lock(file->node);
    if (rc == 0) {
        file->node->locked = true;
        file->node->refs++;
    }
    lladd_mutex_unlock(&dev->names);
    if (rc != 0) {
        free(file);
        return rc;
    }
    file->read_only = false;
    file->holds_lock = true;
    *out = (struct lladd_file *)file;
    return 0;
}

static int memory_holder(struct lladd_device *base, const char *name, int64_t *owner)
{
    struct memory_device *dev = device_of(base);
    struct node *node;
    *owner = 0;
    lladd_mutex_lock(&dev->names);
    int rc = find_or_create(dev, name, 0, &node);
    if (rc == -ENOENT)
        rc = 0; /* the lock was never taken */
    else if (rc == 0 && node->locked) {
        *owner = node->owner;
        rc = -EAGAIN;
    }
    lladd_mutex_unlock(&dev->names);
    return rc;
}

const struct lladd_device_ops ll_io__memory_ops = {
    .struct_size = sizeof ll_io__memory_ops,
    .open = memory_open,
    .close = memory_close,
    .pread = memory_pread,
    .pwritev = memory_pwritev,
    .append = memory_append,
    .sync = memory_sync,
    .truncate = memory_truncate,
    .size = memory_size,
    .rename = memory_rename,
    .unlink = memory_unlink,
    .sync_dir = memory_sync_dir,
    .mkdir = memory_mkdir,
    .list = memory_list,
    .lock = memory_lock,
    .prefetch = NULL, /* everything is in memory */
    .holder = memory_holder,
    .allocate = memory_allocate,
};

int lladd_device_memory(struct lladd_device **out)
{
    struct memory_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return LLADD_NO_MEMORY;
    dev->base.ops = &ll_io__memory_ops;
    dev->bucket_count = BUCKETS_MIN;
    dev->buckets = calloc(BUCKETS_MIN, sizeof(struct entry *));
    if (!dev->buckets || lladd_mutex_init(&dev->names, LLADD_RANK_DEVICE, "memory device") != 0) {
        free(dev->buckets);
        free(dev);
        return LLADD_NO_MEMORY;
    }
    *out = &dev->base;
    return 0;
}

void ll_io__memory_close_device(struct lladd_device *base)
{
    struct memory_device *dev = device_of(base);
    for (size_t i = 0; i < dev->bucket_count; i++) {
        while (dev->buckets[i])
            unbind(dev, &dev->buckets[i]);
    }
    free(dev->buckets);
    lladd_mutex_destroy(&dev->names);
    free(dev);
}
