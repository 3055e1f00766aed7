/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment of a handle: memory, time, random bytes and named points reach every layer
 * through one struct ll_env, which is filled in at open. Many databases can therefore run in one
 * process, and a test can control each database: it can make the n-th allocation fail, stop the
 * clock, or stop a thread at a named point. This file also creates errors.
 *
 * The library uses all three functions of an allocator, or none: if only `alloc` came from the
 * application, memory would be returned to the wrong heap. lladd_open refuses an incomplete
 * allocator; ll_env_init uses malloc instead of such an allocator.
 *
 * Threads. The struct is constant after ll_env_init. Its functions must allow concurrent calls.
 */
#include "util/env.h"
#include "util/fibers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

enum { MIB = 1 << 20, HUGE = 2 << 20 }; /* HUGE: size of a huge page of x86-64, and of arm64 with 4
                                         * KiB pages */

static void *system_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *system_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

static void system_release(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static uint64_t system_now_ns(void *ctx)
{
    (void)ctx;
    if (LL_SCHEDULED)
        return lladd_dst_now_ns();
    struct timespec t;
    /* Cannot fail: the clock exists on every Linux and the address is valid. */
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int64_t system_wall_us(void *ctx)
{
    (void)ctx;
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int system_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    unsigned char *p = buf;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

bool ll_allocator_is_whole(const struct lladd_allocator *mem)
{
    int given = (mem->alloc != NULL) + (mem->resize != NULL) + (mem->release != NULL);
    return given == 0 || given == 3;
}

void ll_env_init(struct ll_env *env, const struct lladd_allocator *mem,
                 const struct lladd_environment *world, bool threads)
{
    memset(env, 0, sizeof *env);
    if (mem && mem->alloc && mem->resize && mem->release) {
        env->mem = *mem;
    } else {
        env->mem.alloc = system_alloc;
        env->mem.resize = system_resize;
        env->mem.release = system_release;
    }
    if (world)
        env->world = *world;
    if (!env->world.now_ns)
        env->world.now_ns = system_now_ns;
    if (!env->world.wall_us)
        env->world.wall_us = system_wall_us;
    if (!env->world.random)
        env->world.random = system_random;
    env->threads = threads;
}

/* No allocator is asked for 0 bytes: the result of malloc(0) differs between systems, and NULL must
 * mean "out of memory". */
void *ll_alloc(const struct ll_env *env, size_t size)
{
    return env->mem.alloc(env->mem.ctx, size ? size : 1);
}

void *ll_alloc_zero(const struct ll_env *env, size_t size)
{
    /* Unlike memset, calloc does not write to memory that the kernel has just zeroed. */
    if (env->mem.alloc == system_alloc)
        return calloc(1, size ? size : 1);
    void *p = ll_alloc(env, size);
    if (p)
        memset(p, 0, size);
    return p;
}

void ll_prefer_huge(const struct ll_env *env, void *p, size_t size)
{
    if (env->mem.alloc != system_alloc)
        return;
    uintptr_t from = ((uintptr_t)p + MIB + HUGE - 1) & ~(uintptr_t)(HUGE - 1);
    uintptr_t to = ((uintptr_t)p + size) & ~(uintptr_t)(HUGE - 1);
    /* Only advice: a kernel without huge pages returns an error, which is ignored. */
    if (from < to)
        (void)madvise((unsigned char *)p + (from - (uintptr_t)p), to - from, MADV_HUGEPAGE);
}

void *ll_resize(const struct ll_env *env, void *ptr, size_t size)
{
    if (!ptr)
        return ll_alloc(env, size);
    return env->mem.resize(env->mem.ctx, ptr, size ? size : 1);
}

void ll_free(const struct ll_env *env, void *ptr)
{
    if (ptr)
        env->mem.release(env->mem.ctx, ptr);
}

char *ll_strdup(const struct ll_env *env, const char *s)
{
    size_t len = strlen(s) + 1;
    char *copy = ll_alloc(env, len);
    if (copy)
        memcpy(copy, s, len);
    return copy;
}

uint64_t ll_now_ns(const struct ll_env *env)
{
    return env->world.now_ns(env->world.ctx);
}

int64_t ll_wall_us(const struct ll_env *env)
{
    return env->world.wall_us(env->world.ctx);
}

int ll_random(const struct ll_env *env, void *buf, size_t len)
{
    return env->world.random(env->world.ctx, buf, len);
}

static void fill(struct lladd_error *err, const char *file, int line, int code, const char *fmt,
                 va_list args) __attribute__((format(printf, 5, 0)));

static void fill(struct lladd_error *err, const char *file, int line, int code, const char *fmt,
                 va_list args)
{
    if (!err)
        return;
    err->code = code;
    err->sys_errno = 0;
    err->source = file;
    err->line = line;
    err->lsn.v = 0;
    err->page.v = LLADD_NO_PAGE;
    /* A message that is too long is truncated; if formatting fails, the code's text is used. */
    if (vsnprintf(err->message, sizeof err->message, fmt, args) < 0) {
        const char *text = lladd_code_text(code);
        (void)snprintf(err->message, sizeof err->message, "%s", text ? text : "");
    }
}

int ll_fail_at(struct lladd_error *err, const char *file, int line, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, file, line, code, fmt, args);
    va_end(args);
    return code;
}

int ll_fail_page_at(struct lladd_error *err, const char *file, int line, int code,
                    lladd_pageno page, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, file, line, code, fmt, args);
    va_end(args);
    if (err)
        err->page = page;
    return code;
}

int ll_fail_lsn_at(struct lladd_error *err, const char *file, int line, int code, lladd_lsn lsn,
                   const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, file, line, code, fmt, args);
    va_end(args);
    if (err)
        err->lsn = lsn;
    return code;
}

int ll_io_code(int rc, bool writing)
{
    switch (rc < 0 ? -rc : rc) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return LLADD_NO_SPACE;
    case ENOMEM:
        return LLADD_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return LLADD_NO_FILES;
    case EACCES:
    case EPERM:
    case ELOOP:
    case EROFS:
        return LLADD_NO_ACCESS;
    default:
        return writing ? LLADD_WRITE_FAILED : LLADD_READ_FAILED;
    }
}

/* strerror_r has two versions. The GNU version returns the text, which need not be in the buffer.
 * The POSIX version fills the buffer and returns 0 or an error number. */
static const char *text_of_pointer(const char *text, const char *buf)
{
    (void)buf;
    return text;
}

static const char *text_of_status(int status, const char *buf)
{
    return status == 0 ? buf : "an error without a name";
}
#define CAUSE_OF(call, buf) \
    _Generic((call), char *: text_of_pointer, int: text_of_status)(call, buf)

int ll_fail_io_at(struct lladd_error *err, const char *srcfile, int line, int rc, bool writing,
                  const char *what, const char *name)
{
    int sys_errno = rc < 0 ? -rc : rc;
    int code = ll_io_code(rc, writing);
    char buf[96];
    const char *cause = CAUSE_OF(strerror_r(sys_errno, buf, sizeof buf), buf);
    if (sys_errno == ELOOP)
        cause = "it is a symbolic link, and a database does not follow links";
    else if (sys_errno == EPERM)
        cause = "not permitted, not a regular file, or owned by another user";
    (void)ll_fail_at(err, srcfile, line, code, "cannot %s \"%s\": %s", what, name, cause);
    if (err)
        err->sys_errno = sys_errno;
    return code;
}
