/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of a handle, as a struct and by name. */
#include "db/db_private.h"

#include <lladd/stats.h>
#include <stdio.h>
#include <string.h>

/* Each statistic: its name, its member of struct lladd_stats, and its value. */
#define STATS(X) \
    X("txn.begun", begun, begun) \
    X("txn.committed", committed, committed) \
    X("txn.aborted", aborted, lladd_atomic_load64(&t->aborted)) \
    X("txn.prepared", prepared, lladd_atomic_load64(&t->prepared)) \
    X("txn.active", active, active) \
    X("txn.in_doubt", in_doubt, in_doubt) \
    X("log.tail", log_tail, tail) \
    X("log.durable", log_durable, ll_log_durable(core->log).v) \
    X("log.oldest", log_oldest, ll_log_oldest(core->log).v) \
    X("log.bytes", log_bytes, log.bytes) \
    X("log.records", log_records, log.records) \
    X("log.groups", log_groups, log.groups) \
    X("log.syncs", log_syncs, log.syncs) \
    X("log.segments", log_segments, log.segments) \
    X("log.disk_bytes", log_disk_bytes, log.segment_bytes) \
    X("log.limit_bytes", log_limit_bytes, db->log_limit_bytes) \
    X("log.waits", log_waits, log.waits_for_space) \
    X("log.undo_reserved", undo_reserved, log.undo_reserved) \
    X("checkpoint.count", checkpoints, lladd_atomic_load64(&core->checkpoints)) \
    X("checkpoint.lsn", checkpoint_lsn, lladd_atomic_load64(&core->last_checkpoint)) \
    X("checkpoint.redo_bytes", redo_bytes, tail - redo) \
    X("checkpoint.written", checkpoint_written, lladd_atomic_load64(&core->flush.written)) \
    X("checkpoint.pages", checkpoint_pages, lladd_atomic_load64(&core->flush.pages)) \
    X("page.count", pages, ll_buffer_page_count(core->buffer)) \
    X("page.read", pages_read, buf.reads) \
    X("page.written", pages_written, buf.pages_written) \
    X("page.syncs", page_syncs, buf.syncs) \
    X("page.repairs", repairs, buf.repairs) \
    X("page.given", pages_given, lladd_atomic_load64(&core->given)) \
    X("page.lost_writes", lost_writes, buf.lost_writes) \
    X("page.images", page_images, lladd_atomic_load64(&core->images)) \
    X("cache.hits", cache_hits, buf.hits) \
    X("cache.misses", cache_misses, buf.misses) \
    X("cache.evictions", evictions, buf.evictions) \
    X("cache.dirty", dirty_pages, buf.dirty + buf.in_flight) \
    X("cache.bytes", cache_bytes, buf.bytes) \
    X("recovery.records", recovered_records, core->recovered_records) \
    X("recovery.redone", recovered_redone, lladd_atomic_load64(&core->recovered_redone)) \
    X("recovery.undone", recovered_undone_txns, lladd_atomic_load64(&core->recovered_undone)) \
    X("recovery.ns", recovery_ns, core->recovery_ns) \
    X("recovery.analysis_ns", recovery_analysis_ns, core->analysis_ns) \
    X("recovery.redo_ns", recovery_redo_ns, core->redo_ns) \
    X("recovery.pages_pending", pages_pending, ll_instant_left(core)) \
    X("recovery.losers_left", losers_left, ll_deferred_left(core)) \
    X("recovery.memory", recovery_memory, lladd_atomic_load64(&core->recovery_memory)) \
    X("recovery.memory_most", recovery_memory_most, \
      lladd_atomic_load64(&core->recovery_memory_most)) \
    X("recovery.early", recovered_early, core->recovered_early)

static void fill(struct lladd_db *db, struct lladd_stats *s)
{
    struct ll_core *core = &db->core;
    struct ll_txn_table *t = &core->txns;
    struct ll_log_stats log;
    struct ll_buffer_stats buf;
    uint64_t begun, active, in_doubt;
    ll_log_stats(core->log, &log);
    ll_buffer_stats(core->buffer, &buf);
    uint64_t committed = lladd_atomic_load64(&t->committed) + lladd_atomic_load64(&t->read);
    ll_txns_count(core, &begun, &active, &in_doubt);
    uint64_t redo = ll_core_redo(core).v; /* read before the tail, so that tail >= redo */
    uint64_t tail = ll_log_tail(core->log).v;
    memset(s, 0, sizeof *s);
    s->struct_size = sizeof *s;
#define SET(name, field, value) s->field = value;
    STATS(SET)
#undef SET
}

int lladd_stats_get(struct lladd_db *db, struct lladd_stats *out)
{
    int rc = ll_db_enter(db, NULL);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED)
        return rc;
    if (!out || out->struct_size < sizeof(size_t))
        return LLADD_BAD_ARGUMENT;
    struct lladd_stats all;
    size_t size = out->struct_size < sizeof all ? out->struct_size : sizeof all;
    fill(db, &all);
    all.struct_size = size;
    memcpy(out, &all, size);
    return 0;
}

static int each_op(struct ll_core *core, lladd_stat_fn *fn, void *ctx)
{
    int rc = 0;
    for (uint32_t i = 1; !rc; i++) {
        struct ll_name *n = ll_op_catalog_by_number(core, i);
        char name[96];
        if (!n)
            break;
        if (n->kind != LL_NAME_OP)
            continue;
        const char *what[] = {"count", "bytes", "redone", "redo_ns"};
        const uint64_t *value[] = {&n->count, &n->bytes, &n->redone, &n->redo_ns};
        uint64_t gathered[] = {0, 0, 0, 0};
        ll_txns_counted(core, n, &gathered[0], &gathered[1]);
        for (size_t k = 0; !rc && k < 4; k++) {
            snprintf(name, sizeof name, "op.%s.%s", n->name, what[k]);
            rc = fn(ctx, name, lladd_atomic_load64_relaxed(value[k]) + gathered[k]);
        }
    }
    return rc;
}

int lladd_stat_each(struct lladd_db *db, lladd_stat_fn *fn, void *ctx)
{
    struct lladd_stats s;
    int rc = ll_db_enter(db, NULL);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED)
        return rc;
    fill(db, &s);
    rc = 0;
#define CALL(name, field, value) \
    if (!rc) \
        rc = fn(ctx, name, s.field);
    STATS(CALL)
#undef CALL
    return rc ? rc : each_op(&db->core, fn, ctx);
}
