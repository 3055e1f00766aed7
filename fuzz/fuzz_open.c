/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A database in which many bytes have changed is inspected and opened.
 *
 * The fuzzer makes two databases in memory when it starts. One was closed; the other belonged to a
 * process that died with open transactions. The input is a byte of flags, which select the database
 * and the checksums that are corrected, then changes of six bytes each: file, offset (three bytes),
 * action, value. A change flips a bit, sets a byte, writes zeros, cuts a file off, copies a page or
 * sector to another place, or writes a small number.
 *
 * The library refuses bytes with a wrong checksum. Where the fuzzer has corrected the checksum, the
 * code after the check must cope with hostile contents: validate callbacks, the catalogue,
 * checkpoint data, allocation bitmaps, log records.
 *
 * There must be no crash, hang, leak or access out of bounds. Inspection must write nothing. If the
 * input has no changes, the database must open, contain its data, commit a transaction and close.
 * The same holds if the closed database was chosen, no checksum was corrected and verify has found
 * nothing.
 */
#include "buffer/buffer.h"
#include "limited_device.h"
#include "log/log.h"
#include "recovery/core.h"
#include "util/crc32c.h"
#include "util/vec.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <lladd/heap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { CRASHED = 1, FIX_CONTROL = 2, FIX_PAGES = 4, FIX_RECORDS = 8 };
enum { CHANGE = 6, CHANGES_MAX = 64, PAGE = 4096, FILES_MAX = 16 };

/* A log record without a block header inside, so that its checksum can be corrected in the file. */
struct place {
    size_t file, at;
    uint32_t size;
};

struct base {
    struct file files[FILES_MAX];
    size_t n;
    struct ll_vec records; /* of struct place */
    uint32_t page_salt, record_salt;
    lladd_pageno page;
};

static struct base bases[2];

/* ---- the databases -------------------------------------------------------------------------- */

static struct lladd_options options(struct lladd_device *dev)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS | LLADD_OPT_MUST_EXIST;
    o.cache_bytes = 1u << 20;
    o.log_ring_bytes = 1u << 16;
    o.log_segment_min = 1u << 14;
    o.log_segment_max = 1u << 14;
    o.frames = LLADD_FRAMES_HEAP;
    o.redo_threads = 1;
    o.device = dev;
    o.world = &fuzz_world;
    return o;
}

static void fill(struct lladd_db *db, struct base *b)
{
    struct lladd_txn *txn;
    struct lladd_rid rid;
    struct lladd_heap *heap;
    lladd_pageno slotted, extent, root;
    unsigned char raw[2 * PAGE] = {7};
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    MUST(lladd_page_alloc(txn, &b->page) == 0 && lladd_bytes_format(txn, b->page) == 0);
    MUST(lladd_bytes_set(txn, b->page, 0, "precious", 8) == 0);
    MUST(lladd_bytes_set_range(txn, b->page, 64, "a range", 7) == 0);
    MUST(lladd_counter_add(txn, b->page, 32, 5) == 0);
    MUST(lladd_root_set(txn, "page", (struct lladd_root_value){b->page.v, 1}) == 0);
    MUST(lladd_page_alloc(txn, &slotted) == 0 && lladd_slotted_format(txn, slotted, 1) == 0);
    for (unsigned i = 0; i < 5; i++)
        MUST(lladd_slotted_alloc(txn, slotted, "some record", 3 + i, 0, &rid) == 0);
    MUST(lladd_slotted_free(txn, rid) == 0);
    MUST(lladd_heap_create_open(txn, &root, &heap) == 0);
    for (unsigned i = 0; i < 10; i++)
        MUST(lladd_heap_insert(txn, heap, raw, 100 + i, &rid) == 0);
    lladd_heap_close(heap);
    MUST(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &extent) == 0);
    MUST(lladd_bulk_write(txn, extent, 2, NULL, raw) == 0 && lladd_bulk_sync(txn) == 0);
    MUST(lladd_commit(txn) == 0);
    MUST(lladd_checkpoint(db, NULL) == 0);
}

static void begin_work(struct lladd_db *db, const struct base *b)
{
    static const struct lladd_gid gid = {1, 3, 0, "abc"};
    struct lladd_txn *open, *doubtful, *done;
    MUST(lladd_pin_set(db, "pin", lladd_durable_lsn(db), NULL) == 0);
    MUST(lladd_begin(db, NULL, &open, NULL) == 0 && lladd_begin(db, NULL, &doubtful, NULL) == 0 &&
         lladd_begin(db, NULL, &done, NULL) == 0);
    MUST(lladd_bytes_set(open, b->page, 128, "open", 4) == 0);
    MUST(lladd_bytes_set(doubtful, b->page, 192, "doubt", 5) == 0);
    MUST(lladd_prepare(doubtful, &gid) == 0);
    MUST(lladd_bytes_set(done, b->page, 256, "done", 4) == 0 && lladd_commit(done) == 0);
}

static void keep(struct base *b, struct lladd_device *dev, const char *name)
{
    struct file *f = &b->files[b->n++];
    struct lladd_file *file;
    uint64_t size;
    MUST(b->n <= FILES_MAX);
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    MUST(ll_io_open(dev, name, LLADD_OPEN_READ_ONLY, &file) == 0);
    MUST(ll_io_size(dev, file, &size) == 0);
    f->len = (size_t)size;
    f->bytes = malloc(f->len + 1);
    MUST(f->bytes && ll_io_read_full(dev, file, f->bytes, f->len, 0) == 0);
    MUST(ll_io_close(dev, file) == 0);
}

struct keeping {
    struct base *b;
    struct lladd_device *dev;
};

static int keep_file(void *ctx, const char *name, uint64_t bytes)
{
    struct keeping *k = ctx;
    (void)bytes;
    keep(k->b, k->dev, name);
    return 0;
}

struct placing {
    struct base *b;
    struct lladd_inspect *view;
};

static int keep_place(void *ctx, const struct lladd_inspect_record *r)
{
    struct placing *p = ctx;
    char first[32], last[32];
    uint64_t from, to;
    lladd_lsn end = lladd_lsn_of(r->entry.lsn.v + r->size - 1);
    if (!lladd_inspect_place(p->view, r->entry.lsn, first, &from) ||
        !lladd_inspect_place(p->view, end, last, &to) || strcmp(first, last) != 0 ||
        to - from != r->size - 1)
        return 0;
    struct place *place = ll_vec_push(&p->b->records);
    MUST(place);
    place->at = (size_t)from;
    place->size = r->size;
    for (place->file = 0; strcmp(p->b->files[place->file].name, first) != 0; place->file++)
        MUST(place->file < p->b->n);
    return 0;
}

static void make(struct base *b, bool crashed)
{
    static struct ll_env env;
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_inspect *view;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    MUST(lladd_device_memory(&dev) == 0);
    struct lladd_options o = options(dev);
    o.flags = LLADD_OPT_NO_THREADS;
    MUST(lladd_open(NULL, &o, &db, NULL) == 0);
    fill(db, b);
    if (crashed) {
        begin_work(db, b);
        lladd_db_kill(db);
    } else {
        MUST(lladd_close(db) == 0);
    }
    ll_env_init(&env, NULL, NULL, false);
    ll_vec_init(&b->records, &env, sizeof(struct place));
    MUST(lladd_inspect_open(NULL, &o, &view, NULL) == 0 &&
         lladd_inspect_info_get(view, &info) == 0);
    b->page_salt = ll_crc32c(0, info.uuid, 16);
    b->record_salt = ll_record_salt(info.uuid, info.incarnation);
    struct keeping k = {b, dev};
    struct placing p = {b, view};
    MUST(lladd_inspect_files(view, keep_file, &k, NULL) == 0);
    MUST(lladd_inspect_log(view, lladd_lsn_of(0), keep_place, &p, NULL) == 0);
    MUST(b->records.len > 20);
    lladd_inspect_close(view);
    lladd_device_close(dev);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    make(&bases[0], false);
    make(&bases[1], true);
    return 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

static void apply(struct file *files, size_t n, const uint8_t *c)
{
    struct file *f = &files[c[0] % n];
    size_t at = (size_t)c[1] | (size_t)c[2] << 8 | (size_t)c[3] << 16;
    if (f->len == 0)
        return;
    at %= f->len;
    switch (c[4] % 6) {
    case 0:
        f->bytes[at] ^= (unsigned char)(1u << c[5] % 8);
        break;
    case 1:
        f->bytes[at] = c[5];
        break;
    case 2:
        memset(f->bytes + at, 0, f->len - at < c[5] ? f->len - at : c[5]);
        break;
    case 3:
        f->len = at;
        break;
    case 4: { /* copy a page or a sector to the place of another */
        size_t from = c[5] * (size_t)512, len = c[5] & 1 ? PAGE : 512;
        at -= at % len;
        if (from + len <= f->len && at + len <= f->len)
            memmove(f->bytes + at, f->bytes + from, len);
        break;
    }
    case 5: /* write a small number */
        if (at + 8 <= f->len)
            lladd_put64(f->bytes + at, c[5]);
        break;
    }
}

static void fix(const struct base *b, struct file *files, unsigned flags)
{
    for (size_t i = 0; i < b->n; i++) {
        struct file *f = &files[i];
        if ((flags & FIX_CONTROL) && strcmp(f->name, "control") == 0)
            for (size_t at = 0; at + LL_CONTROL_BYTES <= f->len; at += LL_CONTROL_COPY)
                lladd_put32(f->bytes + at, ll_crc32c(0, f->bytes + at + 4, LL_CONTROL_BYTES - 4));
        if ((flags & FIX_PAGES) && strcmp(f->name, "pages") == 0)
            for (size_t at = 0; at + PAGE <= f->len; at += PAGE)
                lladd_put32(f->bytes + at, ll_page_crc(b->page_salt, lladd_page_of(at / PAGE),
                                                       f->bytes + at, PAGE));
    }
    for (size_t i = 0; (flags & FIX_RECORDS) && i < b->records.len; i++) {
        const struct place *p = ll_vec_at(&b->records, i);
        struct file *f = &files[p->file];
        if (p->at + p->size <= f->len)
            lladd_put32(f->bytes + p->at,
                        ll_crc32c(b->record_salt, f->bytes + p->at + 4, p->size - 4));
    }
}

static void must_be_unchanged(struct lladd_device *dev, const struct file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct lladd_file *file;
        uint64_t size;
        unsigned char *bytes = malloc(files[i].len + 1);
        MUST(bytes && ll_io_open(dev, files[i].name, LLADD_OPEN_READ_ONLY, &file) == 0);
        MUST(ll_io_size(dev, file, &size) == 0 && size == files[i].len);
        MUST(ll_io_read_full(dev, file, bytes, files[i].len, 0) == 0);
        MUST(memcmp(bytes, files[i].bytes, files[i].len) == 0);
        MUST(ll_io_close(dev, file) == 0);
        free(bytes);
    }
}

/* ---- inspecting and opening ----------------------------------------------------------------- */

static int swallow(void *ctx, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        *(unsigned *)ctx += p[i]; /* reads the bytes, so that a sanitizer checks them */
    return 0;
}

struct looking {
    struct lladd_inspect *view;
    struct lladd_sink sink;
    unsigned sum;
};

static int look_at_record(void *ctx, const struct lladd_inspect_record *r)
{
    struct looking *l = ctx;
    lladd_inspect_describe(l->view, r, &l->sink);
    return l->sink.failed;
}

static int look_at_name(void *ctx, const struct lladd_inspect_name *n)
{
    struct looking *l = ctx;
    MUST(n->name && strlen(n->name) < 64);
    for (int u = 0; u < 2; u++)
        for (const struct lladd_field *f = u ? n->undo_fields : n->redo_fields; f && f->name; f++)
            MUST(lladd_sink_write(&l->sink, f->name, strlen(f->name)) == 0);
    return 0;
}

static int look_at_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    struct looking *l = ctx;
    return lladd_sink_write(&l->sink, t, sizeof *t);
}

static int look_at_pinner(void *ctx, const struct lladd_pinner *p)
{
    struct looking *l = ctx;
    return lladd_sink_printf(&l->sink, "%s %.64s", p->kind, p->name);
}

static int look_at_finding(void *ctx, const struct lladd_finding *f)
{
    struct looking *l = ctx;
    MUST(f->file && f->message && f->message[0]);
    return lladd_sink_printf(&l->sink, "%s", f->message);
}

/* Reads all that inspection can show. Returns true if verify found nothing. */
static bool inspect(struct lladd_device *dev)
{
    struct lladd_options o = options(dev);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_verified v = {.struct_size = sizeof v};
    struct looking l = {.sink = {.write = swallow}};
    l.sink.ctx = &l.sum;
    int rc = lladd_inspect_open(NULL, &o, &l.view, &err);
    if (rc) {
        MUST(err.code == rc && err.message[0]);
        return false;
    }
    MUST(lladd_inspect_info_get(l.view, &info) == 0);
    MUST(lladd_inspect_names(l.view, look_at_name, &l) == 0);
    MUST(lladd_inspect_txns(l.view, look_at_txn, &l) == 0);
    MUST(lladd_inspect_pinners(l.view, look_at_pinner, &l) == 0);
    rc = lladd_inspect_log(l.view, lladd_lsn_of(0), look_at_record, &l, &err);
    MUST(rc == (rc ? err.code : 0));
    for (uint64_t n = 0; n < info.pages; n++) {
        struct lladd_inspect_page page;
        MUST(lladd_inspect_page_read(l.view, lladd_page_of(n), &page, &err) == 0);
        lladd_inspect_describe_page(l.view, &page, &l.sink);
    }
    MUST(lladd_inspect_verify(l.view, look_at_finding, &l, &v, &err) == 0);
    lladd_inspect_close(l.view);
    return v.damage + v.repair + v.notes == 0;
}

/* Reads the database, then tries a transaction. If `intact`, both must succeed. */
static void use(struct lladd_db *db, const struct base *b, bool intact, bool crashed)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    lladd_pageno page;
    char text[8];
    int rc = lladd_bytes_get(db, b->page, 0, text, 8, &err);
    if (intact) {
        MUST(rc == 0 && memcmp(text, "precious", 8) == 0);
        MUST(!crashed || (lladd_bytes_get(db, b->page, 256, text, 4, &err) == 0 &&
                          memcmp(text, "done", 4) == 0));
    }
    rc = lladd_begin(db, NULL, &txn, &err);
    if (rc)
        return;
    rc = lladd_page_alloc(txn, &page);
    if (!rc)
        rc = lladd_bytes_format(txn, page);
    if (!rc)
        rc = lladd_root_set(txn, "another", (struct lladd_root_value){page.v, 2});
    if (rc || lladd_commit(txn) != 0)
        rc = lladd_abort(txn); /* may fail, because it needs pages that are damaged */
    MUST(!intact || rc == 0);
}

static void open_database(struct lladd_device *dev, const struct base *b, bool intact, bool crashed)
{
    struct lladd_options o = options(dev);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    for (int again = 0; again < 2; again++) {
        int rc = lladd_open(NULL, &o, &db, &err);
        MUST(rc == (rc ? err.code : 0));
        MUST(!intact || rc == 0);
        if (rc)
            return;
        use(db, b, intact, crashed);
        rc = lladd_close(db);
        MUST(!intact || rc == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file files[FILES_MAX];
    if (size < 1)
        return 0;
    unsigned flags = data[0];
    const struct base *b = &bases[flags & CRASHED];
    for (size_t i = 0; i < b->n; i++) {
        files[i] = b->files[i];
        files[i].bytes = malloc(files[i].len + 1);
        MUST(files[i].bytes);
        memcpy(files[i].bytes, b->files[i].bytes, files[i].len);
    }
    size_t changes = (size - 1) / CHANGE;
    for (size_t i = 0; i < changes && i < CHANGES_MAX; i++)
        apply(files, b->n, data + 1 + i * CHANGE);
    fix(b, files, flags);
    struct lladd_device *dev = limited_device(files, b->n);
    bool content = inspect(dev);
    must_be_unchanged(dev, files, b->n);
    /* Verify is not required to find forged contents, nor to find that the log of the crashed
     * process was cut off. */
    bool honest = !(flags & (FIX_CONTROL | FIX_PAGES | FIX_RECORDS)) && !(flags & CRASHED);
    open_database(dev, b, changes == 0 || (content && honest), flags & CRASHED);
    limited_device_close(dev);
    for (size_t i = 0; i < b->n; i++)
        free(files[i].bytes);
    return 0;
}
