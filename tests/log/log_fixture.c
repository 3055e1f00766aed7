/* SPDX-License-Identifier: BSD-2-Clause */
/* See log_fixture.h. */
#include "log_fixture.h"

#include <stdlib.h>
#include <string.h>

static void on_checkpoint(void *ctx)
{
    struct fixture *f = ctx;
    __atomic_fetch_add(&f->checkpoint_calls, 1, __ATOMIC_SEQ_CST);
}

void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    ck_assert_int_eq(lladd_device_memory(&f->memory), 0);
    f->fd = fault_device_new(f->memory);
    fault_alloc_init(&f->fa);
    test_world_init(&f->world, 1);
    ll_env_init(&f->env, &f->fa.mem, &f->world.world, false);
    ll_poison_init(&f->poison);
    f->cfg = (struct ll_log_config){
        .env = &f->env,
        .dev = fault_device_dev(f->fd),
        .uuid = "a test database",
        .incarnation = 1,
        .segment_min = 4096,
        .segment_max = 16384,
        .ring_bytes = 16384,
        .poison = &f->poison,
        .wants_checkpoint = on_checkpoint,
        .ctx = f,
    };
    f->err = (struct lladd_error)LLADD_ERROR_INIT;
}

void fixture_create(struct fixture *f)
{
    must(f, ll_log_create(&f->cfg, &f->log, &f->err));
    f->start.from = ll_log_tail(f->log);
    f->start.watermark = f->start.from;
}

void fixture_free(struct fixture *f)
{
    ll_log_close(f->log);
    ck_assert_uint_eq(fault_device_open_files(f->fd), 0);
    ck_assert_uint_eq(fault_alloc_live(&f->fa), 0);
    fault_device_free(f->fd);
    lladd_device_close(f->memory);
    test_world_free(&f->world);
    free(f->list);
}

/* ---- records ---- */

void make_record(struct ll_record *rec, uint64_t seed, size_t len, unsigned char *bytes)
{
    uint64_t s = seed;
    size_t redo = len ? seeded_next(&s) % (len + 1) : 0;
    memset(rec, 0, sizeof *rec);
    rec->kind = LL_REC_UPDATE;
    rec->flags = LL_REC_UNDO_PAGE;
    rec->op = (uint32_t)(seeded_next(&s) & 0xffff);
    rec->depth = (uint32_t)(seeded_next(&s) % 9);
    rec->page = seeded_next(&s) % 7 == 0 ? LLADD_NO_PAGE : seeded_next(&s) >> 17;
    seeded_fill(seed, bytes, len);
    rec->redo = lladd_span_of(bytes, redo);
    rec->undo = lladd_span_of(bytes + redo, len - redo);
}

static void note(struct fixture *f, const struct ll_record *rec, uint64_t seed)
{
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->list = realloc(f->list, f->capacity * sizeof *f->list);
        ck_assert_ptr_nonnull(f->list);
    }
    f->list[f->count++] = (struct appended){*rec, seed};
}

lladd_lsn put_record(struct fixture *f, struct ll_record *rec)
{
    must(f, ll_log_credit(f->log, &f->credit, ll_record_bound(rec->redo.len, rec->undo.len),
                          &f->err));
    ll_log_reserve(f->log, &f->credit, rec, false);
    ll_log_publish(f->log, rec);
    ll_log_credit_rests(&f->credit);
    return rec->lsn;
}

int try_put(struct fixture *f, size_t len, lladd_lsn *lsn)
{
    uint64_t seed = 1000003 * (f->count + 1) + len;
    unsigned char *bytes = malloc(len + 1);
    struct ll_record rec;
    ck_assert_ptr_nonnull(bytes);
    make_record(&rec, seed, len, bytes);
    if (f->count > 0) {
        rec.prev = f->list[f->count - 1].rec.lsn;
        rec.txn = f->list[0].rec.lsn;
        rec.page_prev = f->list[f->count / 2].rec.lsn;
        rec.undo_next = seed % 3 == 0 ? f->list[f->count - 1].rec.lsn : lladd_lsn_of(0);
    }
    int rc =
        ll_log_credit(f->log, &f->credit, ll_record_bound(rec.redo.len, rec.undo.len), &f->err);
    if (rc == 0) {
        ll_log_reserve(f->log, &f->credit, &rec, f->count == 0);
        ll_log_publish(f->log, &rec);
        ll_log_credit_rests(&f->credit);
        note(f, &rec, seed);
        if (lsn)
            *lsn = rec.lsn;
    }
    free(bytes);
    return rc;
}

lladd_lsn put(struct fixture *f, size_t len)
{
    lladd_lsn lsn = {0};
    must(f, try_put(f, len, &lsn));
    return lsn;
}

void force(struct fixture *f)
{
    must(f, ll_log_force(f->log, f->list[f->count - 1].rec.lsn, &f->err));
    f->durable_count = f->count;
}

void check_record(struct fixture *f, const struct ll_record *rec, size_t i)
{
    ck_assert_uint_lt(i, f->count);
    const struct ll_record *want = &f->list[i].rec;
    size_t len = want->redo.len + want->undo.len;
    unsigned char *bytes = malloc(len + 1);
    ck_assert_ptr_nonnull(bytes);
    seeded_fill(f->list[i].seed, bytes, len);
    ck_assert_uint_eq(rec->lsn.v, want->lsn.v);
    ck_assert_uint_eq(rec->size, want->size);
    ck_assert_uint_eq(rec->prev.v, want->prev.v);
    ck_assert_uint_eq(rec->txn.v, want->txn.v);
    ck_assert_uint_eq(rec->page_prev.v, want->page_prev.v);
    ck_assert_uint_eq(rec->undo_next.v, want->undo_next.v);
    ck_assert_uint_eq(rec->page, want->page);
    ck_assert_uint_eq(rec->op, want->op);
    ck_assert_uint_eq(rec->depth, want->depth);
    ck_assert_uint_eq(rec->kind, want->kind);
    ck_assert_uint_eq(rec->flags, want->flags);
    ck_assert_uint_eq(rec->redo.len, want->redo.len);
    ck_assert_uint_eq(rec->undo.len, want->undo.len);
    ck_assert_mem_eq(rec->redo.data, bytes, rec->redo.len);
    ck_assert_mem_eq(rec->undo.data, bytes + rec->redo.len, rec->undo.len);
    free(bytes);
}

void check_records(struct fixture *f, size_t from, size_t to)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    ck_assert_int_eq(ll_log_cursor_open(f->log, &c), 0);
    for (size_t i = to; i-- > from;) {
        must(f, ll_log_cursor_read(c, f->list[i].rec.lsn, &rec, &f->err));
        check_record(f, &rec, i);
    }
    for (size_t i = from + 1; i < to; i++) {
        do
            must(f, ll_log_cursor_next(c, &rec, &f->err));
        while (rec.kind == LL_REC_SEAL);
        check_record(f, &rec, i);
    }
    ll_log_cursor_close(c);
}

/* ---- stopping and opening ---- */

struct seen {
    struct fixture *f;
    size_t count;
};

static int on_scan(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct seen *s = ctx;
    (void)err;
    if (rec->kind == LL_REC_SEAL)
        return 0;
    check_record(s->f, rec, s->count++);
    return 0;
}

static int ignore(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    (void)ctx;
    (void)rec;
    (void)err;
    return 0;
}

int look(struct fixture *f)
{
    ll_log_close(f->log);
    f->log = NULL;
    int rc = ll_log_open(&f->cfg, &f->start, &f->log, &f->err);
    return rc ? rc : ll_log_scan(f->log, ignore, NULL, &f->err);
}

int reopen(struct fixture *f)
{
    struct seen seen = {f, 0};
    ll_log_close(f->log);
    f->log = NULL;
    f->credit.bytes = 0;
    while (seen.count < f->count && f->list[seen.count].rec.lsn.v < f->start.from.v)
        seen.count++;
    f->cfg.incarnation++;
    ll_poison_init(&f->poison);
    int rc = ll_log_open(&f->cfg, &f->start, &f->log, &f->err);
    if (!rc)
        rc = ll_log_scan(f->log, on_scan, &seen, &f->err);
    if (!rc) {
        ck_assert_uint_ge(seen.count, f->durable_count);
        f->count = seen.count;
        rc = ll_log_start(f->log, &f->err);
        if (f->goes_on == GOES_ON_HERE && ll_log_could_stay(f->log))
            rc = ll_log_start_here(f->log, &f->err);
        if (!rc)
            rc = ll_log_started(f->log, &f->err);
        if (!rc)
            f->durable_count = seen.count;
    }
    return rc;
}

void crash_and_reopen(struct fixture *f, enum fault_crash_mode how)
{
    ll_log_close(f->log);
    f->log = NULL;
    fault_device_power_cycle(f->fd, &(struct fault_crash){.mode = how});
    must(f, reopen(f));
}

void stop(struct fixture *f)
{
    ll_log_credit_return(f->log, &f->credit);
    must(f, ll_log_finish(f->log, &f->start.end, &f->err));
    f->durable_count = f->count;
    f->start.clean = true;
    f->start.watermark = f->start.end;
    ll_log_newest_segment(f->log, &f->start.segment, &f->start.segment_bytes);
    ll_log_close(f->log);
    f->log = NULL;
}

void stop_and_reopen(struct fixture *f)
{
    stop(f);
    must(f, ll_log_open(&f->cfg, &f->start, &f->log, &f->err));
    must(f, ll_log_start(f->log, &f->err));
    f->start.clean = false;
}

/* ---- files ---- */

static struct lladd_file *open_base(struct fixture *f, const char *name)
{
    struct lladd_file *file;
    ck_assert_int_eq(ll_io_open(f->memory, name, 0, &file), 0);
    return file;
}

void read_file(struct fixture *f, const char *name, uint64_t offset, void *buf, size_t len)
{
    struct lladd_file *file = open_base(f, name);
    ck_assert_int_eq(ll_io_read_full(f->memory, file, buf, len, offset), 0);
    ck_assert_int_eq(ll_io_close(f->memory, file), 0);
}

void write_file(struct fixture *f, const char *name, uint64_t offset, const void *buf, size_t len)
{
    struct lladd_file *file = open_base(f, name);
    ck_assert_int_eq(ll_io_pwrite(f->memory, file, buf, len, offset), 0);
    ck_assert_int_eq(ll_io_close(f->memory, file), 0);
}

void flip_byte(struct fixture *f, const char *name, uint64_t offset, unsigned char mask)
{
    unsigned char byte;
    read_file(f, name, offset, &byte, 1);
    byte ^= mask;
    write_file(f, name, offset, &byte, 1);
}

uint64_t file_size(struct fixture *f, const char *name)
{
    uint64_t size;
    struct lladd_file *file = open_base(f, name);
    ck_assert_int_eq(ll_io_size(f->memory, file, &size), 0);
    ck_assert_int_eq(ll_io_close(f->memory, file), 0);
    return size;
}

void name_of(uint64_t first, char out[LL_LOG_NAME_SIZE])
{
    ll_log__segment_name(first, out);
}

bool file_exists(struct fixture *f, const char *name)
{
    struct lladd_file *file;
    int rc = ll_io_open(f->memory, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc == 0)
        ck_assert_int_eq(ll_io_close(f->memory, file), 0);
    return rc == 0;
}
