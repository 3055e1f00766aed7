/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_ENV_H
#define LL_UTIL_ENV_H
/* What every layer gets from above instead of globals: memory, time, chance, named points, and
 * how to report an error where it is born. */
#include <lladd/device.h>
#include <lladd/error.h>

struct ll_env {
    struct lladd_allocator mem;
    struct lladd_world world;
    bool threads; /* may layers start threads of their own? (THR-1) */
};

/* Fills defaults for NULL members; `mem` and `world` may be NULL altogether. */
void ll_env_init(struct ll_env *, const struct lladd_allocator *mem,
                 const struct lladd_world *world, bool threads);

/* Are all three functions given, or none? An allocator that is neither is not used (nor refused:
 * that is for who takes options to do). */
bool ll_allocator_is_whole(const struct lladd_allocator *);

void *ll_alloc(const struct ll_env *, size_t size);        /* NULL: out of memory */
void *ll_alloc_zero(const struct ll_env *, size_t size);
void *ll_resize(const struct ll_env *, void *, size_t size);
void ll_free(const struct ll_env *, void *);               /* NULL is fine */
/* Of memory from ll_alloc, whatever lies behind the first MiB may come in huge pages. Does nothing
 * if the memory is the caller's allocator's. */
void ll_prefer_huge(const struct ll_env *, void *, size_t size);
char *ll_strdup(const struct ll_env *, const char *);
uint64_t ll_now_ns(const struct ll_env *);
int64_t ll_wall_us(const struct ll_env *);
int ll_random(const struct ll_env *, void *buf, size_t len); /* 0 or negative errno */

/* Passes a named point: 0, or the negative errno a test wants the step to fail with. */
static inline int ll_point(const struct ll_env *env, const char *name)
{
    return env->world.point ? env->world.point(env->world.ctx, name) : 0;
}

/* Makes an error: fills *err (nullable) with code, birthplace and message; returns code. */
int ll_fail_at(struct lladd_error *err, const char *file, int line, int code, const char *fmt, ...)
    LLADD_PRINTF(5, 6);
#define ll_fail(err, code, ...) ll_fail_at(err, __FILE__, __LINE__, code, __VA_ARGS__)
/* The same with a page or an LSN the error is about. */
int ll_fail_page_at(struct lladd_error *err, const char *file, int line, int code,
                    lladd_pageno page, const char *fmt, ...) LLADD_PRINTF(6, 7);
#define ll_fail_page(err, code, page, ...) \
    ll_fail_page_at(err, __FILE__, __LINE__, code, page, __VA_ARGS__)
int ll_fail_lsn_at(struct lladd_error *err, const char *file, int line, int code, lladd_lsn lsn,
                   const char *fmt, ...) LLADD_PRINTF(6, 7);
#define ll_fail_lsn(err, code, lsn, ...) \
    ll_fail_lsn_at(err, __FILE__, __LINE__, code, lsn, __VA_ARGS__)
/* A device call failed with the negative errno rc. `writing` decides between the data root (a read
 * failed), the resource root (no space, files, access, memory) and, for a failed write or sync that
 * is not a matter of resources, LLADD_WRITE_FAILED. The message names file and cause. */
int ll_fail_io_at(struct lladd_error *err, const char *srcfile, int line, int rc, bool writing,
                  const char *what, const char *name);
#define ll_fail_io(err, rc, writing, what, name) \
    ll_fail_io_at(err, __FILE__, __LINE__, rc, writing, what, name)

/* The code alone that ll_fail_io would give. */
int ll_io_code(int rc, bool writing);

/* An expectation of ours. A failed one stops debug and test builds; release builds go on, and the
 * caller that can poisons the handle (ERR-1). */
#ifdef LLADD_DEBUG
void ll_assert_failed(const char *expr, const char *file, int line) __attribute__((noreturn));
#define LL_ASSERT(e) ((e) ? (void)0 : ll_assert_failed(#e, __FILE__, __LINE__))
#else
#define LL_ASSERT(e) ((void)sizeof((e) ? 1 : 0))
#endif

#define LL_LIKELY(x) __builtin_expect(!!(x), 1)
#define LL_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
