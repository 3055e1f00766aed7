/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, clock, random bytes, and the rate of a copy, as the caller's options say. */
#include "ship/ship_private.h"

#include <errno.h>
#include <lladd/sync.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* lladd_open refuses an allocator that lacks a function. But some functions of this library need no
 * open database; they use malloc instead of such an allocator. */
static bool usable(const struct lladd_allocator *a)
{
    return a && a->alloc && a->release;
}

void *ll_ship_new(struct ll_ship_mem mem, size_t size)
{
    if (!usable(mem.allocator))
        return calloc(1, size);
    void *p = mem.allocator->alloc(mem.allocator->ctx, size);
    return p ? memset(p, 0, size) : NULL;
}

void ll_ship_delete(struct ll_ship_mem mem, void *p)
{
    if (!usable(mem.allocator))
        free(p);
    else if (p)
        mem.allocator->release(mem.allocator->ctx, p);
}

int ll_ship_no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a backup or an archive");
}

void *ll_ship_room(struct ll_ship_buf *b, size_t len)
{
    if (len > SIZE_MAX / 4 - b->len)
        return NULL;
    if (b->cap - b->len >= len && b->data)
        return b->data + b->len;
    size_t cap = b->cap ? b->cap : 4096;
    while (cap - b->len < len)
        cap *= 2;
    unsigned char *data = ll_ship_new(b->mem, cap);
    if (!data)
        return NULL;
    if (b->len)
        memcpy(data, b->data, b->len);
    ll_ship_delete(b->mem, b->data);
    b->data = data;
    b->cap = cap;
    return data + b->len;
}

int ll_ship_append(struct ll_ship_buf *b, const void *bytes, size_t len, struct lladd_error *err)
{
    void *room = ll_ship_room(b, len);
    if (!room)
        return ll_ship_no_memory(err);
    if (len)
        memcpy(room, bytes, len);
    b->len += len;
    return 0;
}

int ll_ship_print(struct ll_ship_buf *b, struct lladd_error *err, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof line)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a line of a backup's text is too long");
    return ll_ship_append(b, line, (size_t)n, err);
}

void ll_ship_buf_free(struct ll_ship_buf *b)
{
    ll_ship_delete(b->mem, b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

int64_t ll_ship_wall_us(const struct lladd_environment *world)
{
    struct timespec t = {0, 0};
    if (world && world->wall_us)
        return world->wall_us(world->ctx);
    (void)clock_gettime(CLOCK_REALTIME, &t); /* this clock always exists */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

uint64_t ll_ship_now_ns(const struct lladd_environment *world)
{
    struct timespec t = {0, 0};
    if (world && world->now_ns)
        return world->now_ns(world->ctx);
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* this clock always exists */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int ll_ship_random(const struct lladd_environment *world, void *out, size_t len,
                   struct lladd_error *err)
{
    int rc;
    if (world && world->random)
        rc = world->random(world->ctx, out, len);
    else
        rc = getrandom(out, len, 0) == (ssize_t)len ? 0 : -(errno ? errno : EIO);
    return rc ? lladd_error_set(err, LLADD_STORE_FAILED, "no random bytes: %s", strerror(-rc)) : 0;
}

void ll_ship_take_options(void *out, size_t size, const void *options)
{
    size_t have;
    if (!options)
        return;
    memcpy(&have, options, sizeof have);
    memcpy(out, options, have < size ? have : size);
}

int ll_ship_fail_io(struct lladd_error *err, int rc, const char *what, const char *name)
{
    int code = rc == -ENOSPC || rc == -EDQUOT                  ? LLADD_NO_SPACE
               : rc == -EACCES || rc == -EPERM || rc == -EROFS ? LLADD_NO_ACCESS
               : rc == -EMFILE || rc == -ENFILE                ? LLADD_NO_FILES
               : rc == -ENOMEM                                 ? LLADD_NO_MEMORY
                                                               : LLADD_STORE_FAILED;
    lladd_error_set(err, code, "cannot %s \"%s\": %s", what, name, strerror(-rc));
    if (err)
        err->sys_errno = -rc;
    return code;
}

int ll_ship_pause(uint64_t ns, struct lladd_error *err)
{
    struct lladd_mutex mutex;
    struct lladd_cond cond;
    if (lladd_mutex_init(&mutex, LLADD_RANK_LEAF, "pause of a store"))
        return ll_ship_no_memory(err);
    if (lladd_cond_init(&cond)) {
        lladd_mutex_destroy(&mutex);
        return ll_ship_no_memory(err);
    }
    lladd_mutex_lock(&mutex);
    (void)lladd_cond_wait_for(&cond, &mutex, ns); /* no signal comes */
    lladd_mutex_unlock(&mutex);
    lladd_cond_destroy(&cond);
    lladd_mutex_destroy(&mutex);
    return 0;
}

/* Waits until the time has passed that copying all bytes so far takes at this rate. */
int ll_ship_pace(struct ll_ship_pace *p, uint64_t bytes, struct lladd_error *err)
{
    if (!p->bytes_per_second)
        return 0;
    p->passed += bytes;
    double due = (double)p->passed * 1e9 / (double)p->bytes_per_second;
    double now = (double)(ll_ship_now_ns(p->world) - p->began_ns);
    return due <= now ? 0 : ll_ship_pause((uint64_t)(due - now), err);
}
