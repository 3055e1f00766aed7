/* SPDX-License-Identifier: BSD-2-Clause */
/* See op_fixture.h. */
#include "op_fixture.h"

#include "operations/operations.h"

#include <errno.h>

void fixture_init(struct fixture *b, uint32_t page_size)
{
    memset(b, 0, sizeof *b);
    ck_assert_int_eq(lladd_device_memory(&b->base), 0);
    b->fd = fault_device_new(b->base);
    fault_alloc_init(&b->mem);
    b->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    b->options.device = fault_device_dev(b->fd);
    b->options.allocator = &b->mem.mem;
    b->options.flags = LLADD_OPT_NO_THREADS;
    b->options.frames = LLADD_FRAMES_HEAP;
    b->options.page_size = page_size;
    b->options.cache_bytes = 64 * page_size < (1u << 20) ? 1u << 20 : 64 * page_size;
    b->options.log_ring_bytes = page_size < 16384 ? 256u << 10 : 2u << 20;
    b->options.log_segment_min = 64u << 10;
    b->options.log_segment_max = 1u << 20;
}

void fixture_init_threads(struct fixture *b)
{
    fixture_init(b, 4096);
    b->options.flags = 0;
    b->options.cache_bytes = 4u << 20;
    b->options.log_ring_bytes = 1u << 20;
    b->options.frames = LLADD_FRAMES_AUTO;
}

int fixture_try_open(struct fixture *b)
{
    b->err = (struct lladd_error)LLADD_ERROR_INIT;
    return lladd_open(NULL, &b->options, &b->db, &b->err);
}

void fixture_open(struct fixture *b)
{
    ok_db(b, fixture_try_open(b));
}

void fixture_close(struct fixture *b)
{
    struct lladd_db *db = b->db;
    b->db = NULL;
    ck_assert_int_eq(lladd_close(db), 0);
}

void fixture_kill(struct fixture *b)
{
    static const struct fault_crash power = {FAULT_POWER, 0, false};
    lladd_db_kill(b->db);
    b->db = NULL;
    fault_device_power_cycle(b->fd, &power);
}

void fixture_crash(struct fixture *b)
{
    fixture_kill(b);
    fixture_open(b);
}

void fixture_free(struct fixture *b)
{
    if (b->db) {
        fixture_check(b);
        fixture_close(b);
    }
    lladd_options_release(&b->options);
    ck_assert_uint_eq(fault_device_open_files(b->fd), 0);
    fault_device_free(b->fd);
    lladd_device_close(b->base);
    ck_assert_uint_eq(fault_alloc_live(&b->mem), 0);
}

struct lladd_txn *fixture_begin(struct fixture *b)
{
    struct lladd_txn *txn = NULL;
    struct lladd_error err = LLADD_ERROR_INIT;
    if (lladd_begin(b->db, NULL, &txn, &err) != 0)
        ck_abort_msg("begin: %s", err.message);
    return txn;
}

struct lladd_gid fixture_gid(const char *text)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = (uint32_t)strlen(text)};
    memcpy(gid.data, text, gid.gtrid_length);
    return gid;
}

lladd_pageno fixture_page(struct fixture *b, const char *type)
{
    struct lladd_txn *txn = fixture_begin(b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_page_format(txn, page, type));
    commit(txn);
    return page;
}

static void check_types(struct fixture *b, struct lladd_view v,
                        const struct lladd_page_type *const *types)
{
    for (size_t i = 0; types && types[i]; i++)
        if (v.type && types[i]->check && lladd_page_is(b->db, v, types[i]->name))
            ck_assert_msg(types[i]->check(v), "page %llu is no good %s",
                          (unsigned long long)v.number.v, types[i]->name);
}

void fixture_check(struct fixture *b)
{
    for (uint64_t n = 0; n < lladd_page_count(b->db); n++) {
        struct lladd_page *page;
        enum lladd_page_use use;
        ok_db(b, lladd_page_use_get(b->db, lladd_page_of(n), &use, &b->err));
        if (use != LLADD_USE_PAGED && use != LLADD_USE_SYSTEM)
            continue;
        ok_db(b, lladd_page_fix(b->db, lladd_page_of(n), LLADD_LATCH_SHARED, &page, &b->err));
        struct lladd_view v = lladd_page_view(page);
        for (const struct lladd_extension *const *e = ll_operations_builtin(); *e; e++)
            check_types(b, v, (*e)->page_types);
        lladd_page_unfix(b->db, page, LLADD_LATCH_SHARED);
    }
}

void fixture_forge(struct fixture *b, lladd_pageno number, uint32_t offset, void *bytes, size_t len)
{
    struct lladd_page *page;
    unsigned char *was = exact(bytes, len);
    ok_db(b, lladd_page_fix(b->db, number, LLADD_LATCH_EXCLUSIVE, &page, &b->err));
    memcpy(was, page->bytes + offset, len);
    memcpy(page->bytes + offset, bytes, len);
    lladd_page_unfix(b->db, page, LLADD_LATCH_EXCLUSIVE);
    memcpy(bytes, was, len);
    free(was);
}

uint64_t fixture_pages_used(struct fixture *b)
{
    enum lladd_page_use use;
    uint64_t used = 0;
    for (uint64_t n = 0; n < lladd_page_count(b->db); n++) {
        ok_db(b, lladd_page_use_get(b->db, lladd_page_of(n), &use, &b->err));
        used += use == LLADD_USE_PAGED || use == LLADD_USE_RAW;
    }
    return used;
}

int fixture_count_page(void *ctx, lladd_pageno page)
{
    (void)page;
    ++*(uint64_t *)ctx;
    return 0;
}

int fixture_run(Suite *s)
{
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

bool fixture_any(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    (void)s;
    return true;
}

void fixture_nothing(struct lladd_page *page, struct lladd_span s)
{
    (void)page;
    (void)s;
}

int fixture_end(struct lladd_txn *txn, int rc)
{
    if (!rc)
        rc = lladd_commit(txn);
    if (!rc || lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return rc;
    int aborted = lladd_abort(txn);
    return aborted ? aborted : rc;
}

/* ---- failures in a workload ------------------------------------------------------------------ */

static void fail_once(struct fixture *b, bool reads, uint64_t n)
{
    if (reads)
        fault_device_fail(b->fd, n, FAULT_PREAD, EIO, false);
    else
        fault_alloc_fail(&b->mem, n, false);
}

unsigned fixture_each_fails_once(struct fixture *b, const struct fixture_steps *s, bool reads)
{
    uint64_t fired = 1;
    unsigned failures = 0;
    for (uint64_t n = 1; fired; n++) {
        bool stopped = false;
        s->setup();
        fail_once(b, reads, n);
        for (int i = 0; i < s->n; i++) {
            int rc = s->step(i);
            if (!rc)
                continue;
            ck_assert_msg(reads ? lladd_code_root(rc) == LLADD_ROOT_DATA : rc == LLADD_NO_MEMORY,
                          "step %d: %s", i, lladd_code_name(rc));
            failures++;
            stopped = true;
            fail_once(b, reads, 0);
            ck_assert_int_eq(lladd_db_error(b->db, &b->err), 0);
            s->unchanged(i);
            ck_assert_int_eq(s->step(i), 0);
        }
        fired = stopped || (reads ? fault_device_fired(b->fd) : fault_alloc_fired(&b->mem));
        fail_once(b, reads, 0);
        s->done(n);
    }
    return failures;
}

unsigned fixture_each_write_fails(struct fixture *b, const struct fixture_steps *s)
{
    uint64_t fired = 1;
    unsigned failures = 0;
    for (uint64_t n = 1; fired; n++) {
        int i = 0, rc = 0;
        s->setup();
        fault_device_fail(b->fd, n, FAULT_WRITES, EIO, true);
        while (i < s->n && (rc = s->step(i)) == 0)
            i++;
        fired = fault_device_fired(b->fd);
        fault_device_fail(b->fd, 0, FAULT_ANY, 0, false);
        if (rc) {
            failures++;
            s->crashed(i);
        } else {
            s->done(n);
        }
    }
    return failures;
}

/* ---- scratch pages --------------------------------------------------------------------------- */

unsigned char *exact(const void *bytes, size_t len)
{
    unsigned char *p = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(p);
    if (len)
        memcpy(p, bytes, len);
    return p;
}

void scratch_init(struct scratch *s, uint32_t size, uint64_t number, const struct lladd_op *format,
                  struct lladd_span redo)
{
    s->bytes = malloc(size);
    ck_assert_ptr_nonnull(s->bytes);
    memset(s->bytes, 0, size);
    lladd_put16(s->bytes + 4, 7); /* some page type */
    lladd_put64(s->bytes + 24, number);
    s->page = (struct lladd_page){s->bytes, size, 0, lladd_page_of(number)};
    ck_assert(format->validate(scratch_view(s), LLADD_SPAN_REDO, redo));
    format->redo(&s->page, redo);
}

void scratch_copy(struct scratch *to, const struct scratch *from)
{
    to->page = from->page;
    to->bytes = exact(from->bytes, from->page.size);
    to->page.bytes = to->bytes;
}

void scratch_free(struct scratch *s)
{
    free(s->bytes);
}

struct lladd_view scratch_view(const struct scratch *s)
{
    struct lladd_view v = {s->bytes, s->page.size, 7, s->page.number};
    return v;
}
