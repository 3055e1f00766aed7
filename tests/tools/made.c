/* SPDX-License-Identifier: BSD-2-Clause */
/* See made.h. */
#include "made.h"

#include <lladd/btree.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/heap.h>
#include <lladd/twophase.h>
#include <string.h>

const char *const made_names[MADE_KINDS] = {"clean",  "crashed", "prepared",
                                             "pinned", "long",    "negative"};

#define TRY(call) \
    do { \
        int rc_ = (call); \
        if (rc_) \
            return rc_; \
    } while (0)

/* ---- the application's operation ------------------------------------------------------------ */

static const struct lladd_field tally_fields[] = {
    {"delta", LLADD_FIELD_I64}, {"why", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field tally_undo_fields[] = {{"delta", LLADD_FIELD_I64},
                                                       {NULL, LLADD_FIELD_END}};

static int tally_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    void *redo = lladd_draft_redo(draft, args.len), *undo = lladd_draft_undo(draft, 8);
    if (!redo || !undo)
        return LLADD_TOO_LARGE;
    memcpy(redo, args.data, args.len);
    memcpy(undo, args.data, 8);
    return 0;
}

static bool tally_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO ? s.len >= 8 : s.len == 8;
}

static void tally_redo(struct lladd_page *page, struct lladd_span s)
{
    unsigned char *at = lladd_page_body(page);
    lladd_put64(at, lladd_get64(at) + lladd_get64(s.data));
}

static void tally_undo(struct lladd_page *page, struct lladd_span s)
{
    unsigned char *at = lladd_page_body(page);
    lladd_put64(at, lladd_get64(at) - lladd_get64(s.data));
}

/* Tallies in these databases are small. */
static bool tally_check(struct lladd_view page)
{
    return lladd_get64(lladd_view_body(page)) < 100000;
}

static void tally_describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                           struct lladd_span s)
{
    (void)ctx;
    lladd_sink_printf(sink, "(%s%lld)", kind == LLADD_SPAN_REDO ? "tally +" : "tally back ",
                      s.len >= 8 ? (long long)lladd_get64(s.data) : 0LL);
}

const struct lladd_op made_tally = {.struct_size = sizeof(struct lladd_op),
                                    .name = "test.tally",
                                    .version = 3,
                                    .page_type = "lladd.bytes",
                                    .redo_fields = tally_fields,
                                    .undo_fields = tally_undo_fields,
                                    .record_max = 128,
                                    .undo_kind = LLADD_UNDO_PAGE,
                                    .prepare = tally_prepare,
                                    .validate = tally_validate,
                                    .redo = tally_redo,
                                    .undo = tally_undo,
                                    .check = tally_check,
                                    .describe = tally_describe};

static const struct lladd_op *const made_ops[] = {&made_tally, NULL};

/* ---- an object class that needs none of its records ----------------------------------------- */

static lladd_lsn memory_durable(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return lladd_lsn_of(UINT64_MAX);
}

static int memory_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                       struct lladd_span redo)
{
    (void)ctx;
    (void)db;
    (void)lsn;
    (void)object;
    (void)redo;
    return LLADD_BUG; /* is not called, because memory_durable returns the maximum */
}

static int memory_undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn,
                       lladd_lsn compensation, uint64_t object, struct lladd_span undo)
{
    (void)ctx;
    (void)db;
    (void)txn;
    (void)compensation;
    (void)object;
    (void)undo;
    return 0;
}

static void memory_describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                            struct lladd_span s)
{
    (void)ctx;
    lladd_sink_printf(sink, "%s \"%.*s\"", kind == LLADD_SPAN_REDO ? "remember" : "forget",
                      (int)s.len, (const char *)s.data);
}

static const struct lladd_object_class made_memory = {.struct_size =
                                                          sizeof(struct lladd_object_class),
                                                      .name = "test.memory",
                                                      .version = 1,
                                                      .durable_lsn = memory_durable,
                                                      .redo = memory_redo,
                                                      .undo = memory_undo,
                                                      .describe = memory_describe};

static const struct lladd_object_class *const made_classes[] = {&made_memory, NULL};

const struct lladd_extension made_extension = {.struct_size = sizeof(struct lladd_extension),
                                               .name = "test.made",
                                               .version = 1,
                                               .ops = made_ops,
                                               .classes = made_classes};

/* ---- clock and random numbers that repeat --------------------------------------------------- */

static uint64_t world_now(void *ctx)
{
    (void)ctx;
    return 1000000000;
}

static int64_t world_wall(void *ctx)
{
    (void)ctx;
    return 1234567890123456; /* 2009-02-13 23:31:30 UTC */
}

static int world_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)buf)[i] = (unsigned char)(0x11 * (i % 16));
    return 0;
}

static const struct lladd_environment world = {NULL, world_now, world_wall, world_random, NULL};

struct lladd_options made_options(struct lladd_device *device)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS;
    o.cache_bytes = 1u << 20;
    o.log_ring_bytes = 1u << 16;
    o.log_segment_min = MADE_SEGMENT;
    o.log_segment_max = MADE_SEGMENT;
    o.redo_threads = 1;
    o.frames = LLADD_FRAMES_HEAP;
    o.device = device;
    o.world = &world;
    int rc = lladd_register_extension(&o, &made_extension, NULL);
    if (rc)
        o.struct_size = 0; /* lladd_open refuses these options */
    return o;
}

/* ---- contents ------------------------------------------------------------------------------- */

static int tally(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page, int64_t delta,
                 const char *why)
{
    unsigned char args[128];
    size_t len = strlen(why);
    lladd_put64(args, (uint64_t)delta);
    memcpy(args + 8, why, len);
    return lladd_update(txn, op, page, args, 8 + len);
}

static int add_pages(struct lladd_db *db, lladd_op_id op, struct made *m, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_page_alloc(txn, &m->bytes));
    TRY(lladd_bytes_format(txn, m->bytes));
    TRY(lladd_bytes_set(txn, m->bytes, 64, "hello", 5));
    TRY(tally(txn, op, m->bytes, 5, "first"));
    TRY(lladd_root_set(txn, "bytes", (struct lladd_root_value){m->bytes.v, 0}));
    TRY(lladd_page_alloc(txn, &m->slotted));
    TRY(lladd_slotted_format(txn, m->slotted, 77));
    TRY(lladd_page_alloc(txn, &m->freed));
    TRY(lladd_bytes_format(txn, m->freed));
    TRY(lladd_commit(txn));
    return 0;
}

static int add_records(struct lladd_db *db, struct made *m, struct lladd_error *err)
{
    struct lladd_txn *txn;
    struct lladd_heap *heap;
    struct lladd_rid rid[4];
    char text[300];
    TRY(lladd_begin(db, NULL, &txn, err));
    for (int i = 0; i < 4; i++)
        TRY(lladd_slotted_alloc(txn, m->slotted, "record", 6, 0, &rid[i]));
    TRY(lladd_slotted_free(txn, rid[1]));
    TRY(lladd_slotted_set(txn, rid[2], "longer record", 13, 1));
    memset(text, 'z', sizeof text);
    TRY(lladd_slotted_alloc(txn, m->slotted, text, sizeof text, 0, &rid[0]));
    TRY(lladd_page_free(txn, m->freed));
    TRY(lladd_commit(txn));
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_heap_create_open(txn, &m->heap, &heap));
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 20; i++)
        TRY(lladd_heap_insert(txn, heap, text, 20 + (size_t)i, &rid[0]));
    lladd_heap_close(heap);
    return lladd_commit(txn);
}

static int add_extents(struct lladd_db *db, struct made *m, struct lladd_error *err)
{
    struct lladd_txn *txn;
    static unsigned char bytes[2 * 4096];
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &m->raw));
    memset(bytes, 0xa5, sizeof bytes);
    TRY(lladd_bulk_write(txn, m->raw, 2, NULL, bytes));
    TRY(lladd_extent_alloc(txn, 2, LLADD_EXTENT_BULK, &m->bulk));
    memset(bytes, 0x5a, sizeof bytes);
    TRY(lladd_bulk_write(txn, m->bulk, 2, "lladd.bytes", bytes));
    TRY(lladd_bulk_sync(txn));
    TRY(lladd_log_note(txn, "test.note", lladd_span_of("mind the gap", 12), NULL));
    return lladd_commit(txn);
}

/* Loads a tree of a few leaves. A load takes little log, so all of the log fits into one
 * segment. */
static int load_tree(struct lladd_txn *txn, lladd_pageno *root)
{
    struct lladd_btree_loader *load;
    char key[] = "k000", value[200];
    memset(value, 't', sizeof value);
    TRY(lladd_btree_load_begin(txn, NULL, &load));
    for (unsigned i = 0; i < 40; i++) {
        key[2] = (char)('0' + i / 10);
        key[3] = (char)('0' + i % 10);
        TRY(lladd_btree_load_add(load, key, 4, value, 80 + 2 * i));
    }
    TRY(lladd_btree_load_finish(load, root));
    return lladd_root_set(txn, "tree", (struct lladd_root_value){root->v, 0});
}

/* Makes a ghost, and puts a row. */
static int change_tree(struct lladd_txn *txn, struct lladd_btree *tree)
{
    TRY(lladd_btree_delete(txn, tree, "k007", 4));
    return lladd_btree_put(txn, tree, "k00x", 4, "new", 3);
}

static int add_tree(struct lladd_db *db, struct made *m, struct lladd_error *err)
{
    struct lladd_btree *tree;
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(load_tree(txn, &m->tree));
    TRY(lladd_commit(txn));
    TRY(lladd_btree_open(db, m->tree, &tree, err));
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = change_tree(txn, tree);
    lladd_btree_close(tree);
    return rc ? rc : lladd_commit(txn);
}

static int remember(struct lladd_txn *txn, uint64_t object, const char *what)
{
    struct lladd_token token;
    struct lladd_span bytes = lladd_span_of(what, strlen(what));
    TRY(lladd_log_object(txn, &made_memory, object, bytes, bytes, &token, NULL));
    lladd_object_applied(txn, &token);
    return 0;
}

static int add_aborted(struct lladd_db *db, lladd_op_id op, struct made *m, struct lladd_error *err)
{
    struct lladd_txn *txn;
    struct lladd_action action;
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_nta_begin(txn, &action));
    TRY(remember(txn, 42, "the answer"));
    TRY(lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    TRY(lladd_commit(txn));
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(remember(txn, 43, "nonsense"));
    TRY(tally(txn, op, m->bytes, 1000, "a mistake"));
    TRY(lladd_counter_add(txn, m->bytes, 16, 9));
    m->aborted = lladd_txn_id(txn);
    return lladd_abort(txn);
}

static struct lladd_gid gid_of(int64_t format, const char *text)
{
    struct lladd_gid g = {
        .format = format, .gtrid_length = (uint32_t)strlen(text), .bqual_length = 2};
    memcpy(g.data, text, strlen(text));
    memcpy(g.data + strlen(text), "b1", 2);
    return g;
}

static int add_prepared(struct lladd_db *db, lladd_op_id op, struct made *m, int64_t format,
                        const char *name, struct lladd_error *err)
{
    struct lladd_txn_options o = {.struct_size = sizeof o, .owner = "the till"};
    struct lladd_gid g = gid_of(format, name);
    struct lladd_txn *txn;
    TRY(lladd_begin(db, &o, &txn, err));
    TRY(tally(txn, op, m->bytes, 100, name));
    TRY(lladd_prepare(txn, &g));
    m->prepared = lladd_txn_id(txn);
    return 0;
}

/* Makes transactions that a crash will interrupt. */
static int add_unfinished(struct lladd_db *db, lladd_op_id op, struct made *m,
                          struct lladd_error *err)
{
    struct lladd_txn *open[2], *done;
    struct lladd_action action;
    TRY(lladd_begin(db, NULL, &open[0], err));
    TRY(tally(open[0], op, m->bytes, 7, "under way"));
    m->active = lladd_txn_id(open[0]);
    TRY(add_prepared(db, op, m, 7, "order-1", err));
    TRY(lladd_begin(db, NULL, &open[1], err));
    TRY(lladd_nta_begin(open[1], &action));
    TRY(lladd_bytes_set(open[1], m->bytes, 128, "half", 4));
    TRY(lladd_begin(db, NULL, &done, err));
    TRY(lladd_bytes_set(done, m->bytes, 256, "done", 4));
    return lladd_commit(done); /* makes the records of the other transactions durable, too */
}

/* Writes enough log for several segments, with checkpoints. */
static int add_length(struct lladd_db *db, lladd_op_id op, struct made *m, struct lladd_error *err)
{
    for (int i = 0; i < 40; i++) {
        struct lladd_txn *txn;
        TRY(lladd_begin(db, NULL, &txn, err));
        for (int k = 0; k < 20; k++)
            TRY(tally(txn, op, m->bytes, k, "again and again and again and again"));
        TRY(lladd_commit(txn));
        if (i % 10 == 9)
            TRY(lladd_checkpoint(db, err));
    }
    return 0;
}

static int add_kind(struct lladd_db *db, lladd_op_id op, enum made_kind kind, struct made *m,
                    struct lladd_error *err)
{
    switch (kind) {
    case MADE_CRASHED:
        TRY(lladd_checkpoint(db, err));
        return add_unfinished(db, op, m, err);
    case MADE_PREPARED:
        TRY(add_prepared(db, op, m, 7, "order-1", err));
        return add_prepared(db, op, m, 7, "order-2", err);
    case MADE_NEGATIVE:
        return add_prepared(db, op, m, -7, "order-1", err);
    case MADE_PINNED:
        return lladd_pin_set(db, "backup", m->aborted, err);
    case MADE_LONG:
        return add_length(db, op, m, err);
    case MADE_CLEAN:
    case MADE_KINDS:
        break;
    }
    return 0;
}

int made_open(const char *dir, struct lladd_device *device, enum made_kind kind, struct made *m,
              struct lladd_db **out, struct lladd_error *err)
{
    struct lladd_options o = made_options(device);
    lladd_op_id op;
    int rc = lladd_open(dir, &o, out, err);
    lladd_options_release(&o);
    if (rc)
        return rc;
    rc = lladd_op_lookup(*out, made_tally.name, made_tally.version, &op);
    if (!rc)
        rc = add_pages(*out, op, m, err);
    if (!rc)
        rc = add_records(*out, m, err);
    if (!rc)
        rc = add_extents(*out, m, err);
    if (!rc)
        rc = add_tree(*out, m, err);
    if (!rc)
        rc = add_aborted(*out, op, m, err);
    if (!rc)
        rc = add_kind(*out, op, kind, m, err);
    if (rc) {
        lladd_db_kill(*out);
        *out = NULL;
        if (err && err->code != rc)
            lladd_error_set(err, rc, "making a database of kind \"%s\": %s", made_names[kind],
                            lladd_code_text(rc));
    }
    return rc;
}

int made_make(const char *dir, struct lladd_device *device, enum made_kind kind, struct made *m,
              struct lladd_error *err)
{
    struct lladd_db *db;
    memset(m, 0, sizeof *m);
    int rc = made_open(dir, device, kind, m, &db, err);
    if (rc)
        return rc;
    if (kind == MADE_CRASHED) {
        lladd_db_kill(db);
        return 0;
    }
    rc = lladd_close(db);
    return rc ? lladd_error_set(err, rc, "close: %s", lladd_code_text(rc)) : 0;
}
