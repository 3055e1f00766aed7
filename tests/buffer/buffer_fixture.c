/* SPDX-License-Identifier: BSD-2-Clause */
/* See buffer_fixture.h. */
#include "buffer_fixture.h"

#include "buffer/buffer_private.h"
#include "support/fixtures.h"

#include <stdlib.h>
#include <string.h>

/* ---- gate ---- */

static int force(struct fixture_gate *g, lladd_lsn lsn, struct lladd_error *err)
{
    __atomic_fetch_add(&g->forces, 1, __ATOMIC_RELAXED);
    if (g->during)
        g->during(g->arg);
    int rc = __atomic_load_n(&g->fails, __ATOMIC_ACQUIRE);
    if (rc != 0)
        return ll_fail_lsn(err, rc, lsn, "the log is told to fail");
    uint64_t old = __atomic_load_n(&g->durable, __ATOMIC_ACQUIRE);
    while (old <= lsn.v && !__atomic_compare_exchange_n(&g->durable, &old, lsn.v + 1, false,
                                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return 0;
}

static int may_write(void *ctx, lladd_pageno n, lladd_lsn lsn, lladd_lsn *durable,
                     struct lladd_error *err)
{
    struct fixture_gate *g = ctx;
    (void)n;
    uint64_t now = __atomic_load_n(&g->durable, __ATOMIC_ACQUIRE);
    int rc = lsn.v && lsn.v >= now ? force(g, lsn, err) : 0;
    durable->v = __atomic_load_n(&g->durable, __ATOMIC_ACQUIRE);
    return rc;
}

/* ---- checker ---- */

static struct fixture_checker *checker_of(struct lladd_device *dev)
{
    return (struct fixture_checker *)dev;
}

static void count(uint64_t *p, uint64_t n)
{
    __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

static void check_page(struct fixture_checker *c, uint64_t n, const unsigned char *bytes)
{
    uint64_t lsn = ll_page_lsn(bytes).v;
    if (lsn != 0 && lsn >= __atomic_load_n(&c->gate->durable, __ATOMIC_ACQUIRE))
        count(&c->early, 1);
    if (ll_page_verify(c->salt, lladd_page_of(n), bytes, c->page_size, "pages", NULL) != 0)
        count(&c->wrong, 1);
}

static int checker_open(struct lladd_device *dev, const char *name, unsigned flags,
                        struct lladd_file **out)
{
    struct fixture_checker *c = checker_of(dev);
    int rc = c->below->ops->open(c->below, name, flags, out);
    if (rc == 0 && strcmp(name, "pages") == 0)
        c->pages = *out;
    return rc;
}

static int checker_close(struct lladd_device *dev, struct lladd_file *file)
{
    struct fixture_checker *c = checker_of(dev);
    if (file == c->pages)
        c->pages = NULL;
    return c->below->ops->close(c->below, file);
}

static int64_t checker_pread(struct lladd_device *dev, struct lladd_file *file, void *buf,
                             size_t len, uint64_t off)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->pread(c->below, file, buf, len, off);
}

static int checker_pwritev(struct lladd_device *dev, struct lladd_file *file,
                           const struct lladd_iovec *pieces, int n, uint64_t off)
{
    struct fixture_checker *c = checker_of(dev);
    bool lost = false;
    if (file == c->pages && !c->raw) {
        uint64_t number = __atomic_add_fetch(&c->page_writes, 1, __ATOMIC_RELAXED);
        lost = c->lose_every && number % c->lose_every == 0;
        uint64_t at = off;
        for (int i = 0; i < n; i++) {
            if (at % c->page_size != 0 || pieces[i].len % c->page_size != 0)
                count(&c->wrong, 1);
            for (size_t k = 0; k + c->page_size <= pieces[i].len; k += c->page_size)
                check_page(c, (at + k) / c->page_size, (const unsigned char *)pieces[i].data + k);
            at += pieces[i].len;
        }
    }
    return lost ? 0 : c->below->ops->pwritev(c->below, file, pieces, n, off);
}

static int checker_sync(struct lladd_device *dev, struct lladd_file *file)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->sync(c->below, file);
}

static int checker_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->truncate(c->below, file, size);
}

static int checker_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->size(c->below, file, out);
}

static int checker_unlink(struct lladd_device *dev, const char *name)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->unlink(c->below, name);
}

static int checker_sync_dir(struct lladd_device *dev, const char *name)
{
    struct fixture_checker *c = checker_of(dev);
    return c->below->ops->sync_dir(c->below, name);
}

static void checker_prefetch(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                             uint64_t len)
{
    struct fixture_checker *c = checker_of(dev);
    (void)file;
    if (off % c->page_size != 0 || len % c->page_size != 0)
        count(&c->wrong, 1);
    count(&c->prefetched, len / c->page_size);
}

static void checker_init(struct fixture_checker *c, struct lladd_device *below,
                         struct fixture_gate *gate)
{
    memset(c, 0, sizeof *c);
    c->below = below;
    c->gate = gate;
    c->page_size = FIXTURE_PAGE;
    c->salt = FIXTURE_SALT;
    c->ops = (struct lladd_device_ops){
        .struct_size = sizeof c->ops,
        .open = checker_open,
        .close = checker_close,
        .pread = checker_pread,
        .pwritev = checker_pwritev,
        .sync = checker_sync,
        .truncate = checker_truncate,
        .size = checker_size,
        .unlink = checker_unlink,
        .sync_dir = checker_sync_dir,
        .prefetch = checker_prefetch,
    };
    c->dev.ops = &c->ops;
}

/* ---- life ---- */

/* Finds the budget by trying, so that no test depends on the size of a frame. */
uint64_t fixture_budget(unsigned pages, uint32_t page_size)
{
    struct ll_env env;
    struct lladd_device *dev;
    struct fixture_gate gate = {.tail = 0};
    struct ll_poison poison;
    ll_poison_init(&poison);
    ll_env_init(&env, NULL, NULL, false);
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    struct ll_buffer_config cfg = {
        .env = &env,
        .poison = &poison,
        .dev = dev,
        .name = "pages",
        .page_size = page_size,
        .frames = LL_FRAMES_HEAP,
        .recovery = {.ctx = &gate, .may_write = may_write},
        .create = true,
    };
    for (cfg.budget = pages * (uint64_t)page_size;; cfg.budget += 64) {
        struct ll_buffer *b;
        if (ll_buffer_open(&cfg, &b, NULL) != 0)
            continue;
        struct ll_buffer_stats s;
        ll_buffer_stats(b, &s);
        ll_buffer_close(b);
        cfg.create = false;
        if (s.frames >= pages)
            break;
    }
    lladd_device_close(dev);
    return cfg.budget;
}

void fixture_init(struct fixture *r, int kind, unsigned pages)
{
    memset(r, 0, sizeof *r);
    r->gate.tail = 1000;
    fault_alloc_init(&r->mem);
    test_world_init(&r->world, 1);
    ll_env_init(&r->env, &r->mem.mem, &r->world.world, false);
    bool files = kind >= FIXTURE_HEAP_FILES;
    if (files) {
        r->dir = temp_dir_new();
        ck_assert_int_eq(lladd_device_posix(r->dir, true, &r->base, NULL), 0);
    } else {
        ck_assert_int_eq(lladd_device_memory(&r->base), 0);
    }
    r->fault = fault_device_new(r->base);
    checker_init(&r->checker, fault_device_dev(r->fault), &r->gate);
    bool heap = kind == FIXTURE_HEAP || kind == FIXTURE_HEAP_FILES || !LL_TEST_CAN_RESERVE;
    /* In reserved address space, the budget pays for frames in whole pages of the operating system.
     * So the same number of pages needs a larger budget. */
    enum { MORE = 160 << 10 };
    ll_poison_init(&r->poison);
    r->cfg = (struct ll_buffer_config){
        .env = &r->env,
        .poison = &r->poison,
        .dev = &r->checker.dev,
        .name = "pages",
        .page_size = FIXTURE_PAGE,
        .budget = fixture_budget(pages, FIXTURE_PAGE) + (heap ? 0 : MORE),
        .salt = FIXTURE_SALT,
        .frames = heap ? LL_FRAMES_HEAP : LL_FRAMES_RESERVED,
        .recovery = {.ctx = &r->gate, .may_write = may_write},
        .create = true,
    };
}

void fixture_create(struct fixture *r)
{
    r->cfg.create = true;
    ck_assert_int_eq(ll_buffer_open(&r->cfg, &r->b, &r->err), 0);
    r->cfg.create = false;
}

void fixture_open(struct fixture *r, int kind, unsigned pages)
{
    fixture_init(r, kind, pages);
    fixture_create(r);
}

void fixture_reopen(struct fixture *r)
{
    ll_buffer_close(r->b);
    r->cfg.create = false;
    ll_poison_init(&r->poison);
    ck_assert_int_eq(ll_buffer_open(&r->cfg, &r->b, &r->err), 0);
}

void fixture_close(struct fixture *r)
{
    ll_buffer_close(r->b);
    r->b = NULL;
    ck_assert_uint_eq(r->checker.early, 0);
    ck_assert_uint_eq(r->checker.wrong, 0);
    ck_assert_uint_eq(fault_alloc_live(&r->mem), 0);
    ck_assert_uint_eq(fault_device_open_files(r->fault), 0);
    fault_device_free(r->fault);
    lladd_device_close(r->base);
    temp_dir_remove(r->dir);
    test_world_free(&r->world);
}

/* ---- pages ---- */

struct ll_frame *fixture_fix(struct fixture *r, uint64_t n, unsigned how)
{
    struct ll_frame *f = NULL;
    int rc = ll_buffer_fix(r->b, lladd_page_of(n), how, &f, &r->err);
    ck_assert_msg(rc == 0, "page %llu: %s", (unsigned long long)n, r->err.message);
    ck_assert_uint_eq(f->page.number.v, n);
    ck_assert_uint_eq(f->page.size, r->cfg.page_size);
    return f;
}

void fixture_unfix(struct fixture *r, struct ll_frame *f, unsigned how)
{
    ll_buffer_unfix(r->b, f, how);
}

int fixture_try(struct fixture *r, uint64_t n, unsigned how)
{
    struct ll_frame *f;
    int rc = ll_buffer_fix(r->b, lladd_page_of(n), how, &f, &r->err);
    if (rc == 0)
        ll_buffer_unfix(r->b, f, how & LL_FIX_EXCLUSIVE);
    return rc;
}

void fixture_stamp(unsigned char *page, uint32_t page_size, uint64_t n, uint64_t lsn,
                   uint64_t value)
{
    ll_page_set_type(page, 7);
    ll_page_set_lsn(page, lladd_lsn_of(lsn));
    ll_page_set_number(page, n);
    for (uint32_t i = LLADD_PAGE_HEADER; i < page_size; i += 8)
        lladd_put64(page + i, value);
}

uint64_t fixture_change(struct fixture *r, struct ll_frame *f, uint64_t value)
{
    uint64_t lsn = __atomic_fetch_add(&r->gate.tail, 10, __ATOMIC_ACQ_REL);
    ll_buffer_dirty(r->b, f, lladd_lsn_of(lsn));
    fixture_stamp(f->page.bytes, r->cfg.page_size, f->page.number.v, lsn, value);
    return lsn;
}

uint64_t fixture_put(struct fixture *r, uint64_t n, uint64_t value)
{
    bool fresh = n >= ll_buffer_page_count(r->b);
    struct ll_frame *f = fixture_fix(r, n, LL_FIX_EXCLUSIVE | (fresh ? LL_FIX_FRESH : 0));
    uint64_t lsn = fixture_change(r, f, value);
    fixture_unfix(r, f, LL_FIX_EXCLUSIVE);
    return lsn;
}

uint64_t fixture_format(struct fixture *r, uint64_t n, uint64_t value)
{
    struct ll_frame *f = fixture_fix(r, n, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    uint64_t lsn = fixture_change(r, f, value);
    ll_page_set_base(f->page.bytes, lladd_lsn_of(lsn));
    fixture_unfix(r, f, LL_FIX_EXCLUSIVE);
    return lsn;
}

bool fixture_is_whole(const unsigned char *page, uint32_t page_size)
{
    uint64_t value = lladd_get64(page + LLADD_PAGE_HEADER);
    for (uint32_t i = LLADD_PAGE_HEADER; i < page_size; i += 8) {
        if (lladd_get64(page + i) != value)
            return false;
    }
    return true;
}

uint64_t fixture_value(const unsigned char *page, uint32_t page_size)
{
    ck_assert(fixture_is_whole(page, page_size));
    return lladd_get64(page + LLADD_PAGE_HEADER);
}

uint64_t fixture_get(struct fixture *r, uint64_t n)
{
    struct ll_frame *f = fixture_fix(r, n, LL_FIX_SHARED);
    uint64_t value = fixture_value(f->page.bytes, r->cfg.page_size);
    fixture_unfix(r, f, LL_FIX_SHARED);
    return value;
}

void fixture_peek(struct fixture *r, uint64_t off, void *bytes, size_t len)
{
    struct lladd_device *dev = r->base;
    struct lladd_file *file;
    ck_assert_int_eq(dev->ops->open(dev, "pages", LLADD_OPEN_READ_ONLY, &file), 0);
    int64_t got = dev->ops->pread(dev, file, bytes, len, off);
    ck_assert_int_ge(got, 0);
    memset((unsigned char *)bytes + got, 0, len - (size_t)got);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

void fixture_poke(struct fixture *r, uint64_t off, const void *bytes, size_t len)
{
    struct lladd_device *dev = r->base;
    struct lladd_iovec piece = {bytes, len};
    struct lladd_file *file;
    ck_assert_int_eq(dev->ops->open(dev, "pages", 0, &file), 0);
    ck_assert_int_eq(dev->ops->pwritev(dev, file, &piece, 1, off), 0);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

uint64_t fixture_stored(struct fixture *r, uint64_t n)
{
    unsigned char *page = malloc(r->cfg.page_size);
    ck_assert_ptr_nonnull(page);
    fixture_peek(r, n * r->cfg.page_size, page, r->cfg.page_size);
    int rc =
        ll_page_verify(r->cfg.salt, lladd_page_of(n), page, r->cfg.page_size, "pages", &r->err);
    ck_assert_msg(rc == 0, "%s", r->err.message);
    uint64_t value = fixture_value(page, r->cfg.page_size);
    free(page);
    return value;
}

void fixture_flush(struct fixture *r)
{
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    int rc = ll_buffer_flush(r->b, all, &r->err);
    ck_assert_msg(rc == 0, "%s", r->err.message);
}

struct ll_buffer_stats fixture_stats(struct fixture *r)
{
    struct ll_buffer_stats s;
    ll_buffer_stats(r->b, &s);
    return s;
}

static void note_dirty(struct fixture_dirty *d, uint64_t page, uint64_t rec)
{
    ck_assert_uint_lt(d->n, sizeof d->at / sizeof d->at[0]);
    d->at[d->n].page = page;
    d->at[d->n++].rec = rec;
}

void fixture_dirty(struct fixture *r, struct fixture_dirty *d)
{
    struct ll_buffer *b = r->b;
    d->n = 0;
    lladd_mutex_lock(&b->dirty_latch);
    for (uint32_t i = 0; i < lladd_atomic_load32(&b->slot_count); i++) {
        const struct ll_frame *f = ll_buffer__page_of_slot(b, i);
        uint64_t rec = f ? lladd_atomic_load64(&f->rec_lsn) : 0;
        if (rec)
            note_dirty(d, lladd_atomic_load64_relaxed(&f->page.number.v), rec);
    }
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        note_dirty(d, e->page, e->rec_lsn);
    }
    lladd_mutex_unlock(&b->dirty_latch);
}

int fixture_bulk(struct fixture *r, lladd_pageno first, uint64_t n, unsigned char *bytes,
                 bool paged)
{
    struct ll_bulk_range range = {.first = first.v, .n = n};
    int rc = ll_buffer_bulk_begin(r->b, &range, &r->err);
    if (rc)
        return rc;
    rc = ll_buffer_bulk_write(r->b, &range, bytes, paged, &r->err);
    ll_buffer_bulk_end(r->b, &range);
    return rc;
}
