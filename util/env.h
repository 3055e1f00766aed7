/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_ENV_H
#define LL_UTIL_ENV_H
/* The environment that every layer gets from its caller instead of global variables: memory, time,
 * random bytes, named points. Also the functions that create errors. */
#include <lladd/device.h>
#include <lladd/error.h>
#include <stddef.h>

struct ll_env {
    struct lladd_allocator mem;
    struct lladd_environment world;
    bool threads; /* may layers start their own threads? (THR-1) */
};

/* Fills in defaults for NULL members; `mem` and `world` may be NULL. */
void ll_env_init(struct ll_env *, const struct lladd_allocator *mem,
                 const struct lladd_environment *world, bool threads);

/* Are all three functions set, or none? lladd_open refuses any other allocator. */
bool ll_allocator_is_whole(const struct lladd_allocator *);

void *ll_alloc(const struct ll_env *, size_t size);        /* NULL: out of memory */
void *ll_alloc_zero(const struct ll_env *, size_t size);
void *ll_resize(const struct ll_env *, void *, size_t size);
void ll_free(const struct ll_env *, void *);               /* NULL does nothing */
/* Allows the kernel to use huge pages for a block from ll_alloc, except for its first MiB, so that
 * a block of which only the beginning is used takes little memory. Does nothing if the application
 * supplied the allocator. */
void ll_prefer_huge(const struct ll_env *, void *, size_t size);
char *ll_strdup(const struct ll_env *, const char *);
uint64_t ll_now_ns(const struct ll_env *);
int64_t ll_wall_us(const struct ll_env *);
int ll_random(const struct ll_env *, void *buf, size_t len); /* 0 or negative errno */

/* Tells a test that the thread has reached a named point. Returns 0, or a negative errno with which
 * the thread's step must fail. */
static inline int ll_point(const struct ll_env *env, const char *name)
{
    return env->world.point ? env->world.point(env->world.ctx, name) : 0;
}

/* Is this field of a descriptor set? The struct of an older extension may lack the field. */
#define LL_HAS(descriptor, field) \
    ((descriptor)->struct_size >= \
         offsetof(__typeof__(*(descriptor)), field) + sizeof((descriptor)->field) && \
     (descriptor)->field)

/* Creates an error: fills *err (nullable) with code, source line and message; returns code. */
int ll_fail_at(struct lladd_error *err, const char *file, int line, int code, const char *fmt, ...)
    LLADD_PRINTF(5, 6);
#define ll_fail(err, code, ...) ll_fail_at(err, __FILE__, __LINE__, code, __VA_ARGS__)
/* As ll_fail, for an error about a page or a log record; also sets the error's page or LSN. */
int ll_fail_page_at(struct lladd_error *err, const char *file, int line, int code,
                    lladd_pageno page, const char *fmt, ...) LLADD_PRINTF(6, 7);
#define ll_fail_page(err, code, page, ...) \
    ll_fail_page_at(err, __FILE__, __LINE__, code, page, __VA_ARGS__)
int ll_fail_lsn_at(struct lladd_error *err, const char *file, int line, int code, lladd_lsn lsn,
                   const char *fmt, ...) LLADD_PRINTF(6, 7);
#define ll_fail_lsn(err, code, lsn, ...) \
    ll_fail_lsn_at(err, __FILE__, __LINE__, code, lsn, __VA_ARGS__)
/* Creates the error for a device call that has returned the negative errno rc. For lack of space,
 * files, access or memory the code has the root RESOURCE. For any other error the code is
 * LLADD_WRITE_FAILED after a write or sync (`writing`), else LLADD_READ_FAILED. The message names
 * file and cause. */
int ll_fail_io_at(struct lladd_error *err, const char *srcfile, int line, int rc, bool writing,
                  const char *what, const char *name);
#define ll_fail_io(err, rc, writing, what, name) \
    ll_fail_io_at(err, __FILE__, __LINE__, rc, writing, what, name)

/* Returns the code that ll_fail_io would return, without filling in an error. */
int ll_io_code(int rc, bool writing);

/* An assertion, for mistakes of the library itself (ERR-1). If it does not hold, debug and test
 * builds stop; release builds do not evaluate it. */
#ifdef LLADD_DEBUG
void ll_assert_failed(const char *expr, const char *file, int line) __attribute__((noreturn));
#define LL_ASSERT(e) ((e) ? (void)0 : ll_assert_failed(#e, __FILE__, __LINE__))
/* An assertion for a mistake in an extension: `why` says what is wrong, `what` names the object. */
void ll_misuse_failed(const char *expr, const char *file, int line, const char *why,
                      const char *what) __attribute__((noreturn));
#define LL_MISUSE(e, why, what) \
    ((e) ? (void)0 : ll_misuse_failed(#e, __FILE__, __LINE__, why, what))
#else
#define LL_ASSERT(e) ((void)sizeof((e) ? 1 : 0))
#define LL_MISUSE(e, why, what) ((void)sizeof((e) ? (why) : (what)))
#endif

static inline bool ll_power_of_two(uint64_t v)
{
    return v != 0 && (v & (v - 1)) == 0;
}

#define LL_LIKELY(x) __builtin_expect(!!(x), 1)
#define LL_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
