/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream of a replica. The first byte of the input selects what the rest is:
 *
 *   0  events as bytes. What decodes must encode to the same bytes; a cut-off event must say that
 *      it needs more bytes than there are.
 *   1  one event, which first gets right checksums.
 *   2  a script: commands of four bytes, each an event (kind; how much the position ascends;
 *      transaction, table and type of the key; key), for a replica of two tables. Kind 0 closes the
 *      replica and opens it again. Only LLADD_BAD_RECORD and LLADD_OUT_OF_RANGE may refuse an
 *      event, and a refused event must change nothing: the same event is refused again.
 */
#include "fuzz.h"

#include <lladd/bytes.h>
#include <lladd/op.h>
#include <lladd/replica.h>

enum { MODES = 3, HEAD = 44, COMMAND = 4 };

static struct lladd_db *db; /* all scripts use it; a script leaves no data in it */

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Compares what is written with the bytes at `ctx`. */
struct expected {
    const uint8_t *at;
    size_t len;
};

static int compare(void *ctx, const void *bytes, size_t len)
{
    struct expected *e = ctx;
    MUST(len <= e->len && memcmp(e->at, bytes, len) == 0);
    e->at += len;
    e->len -= len;
    return 0;
}

static void stream(const uint8_t *data, size_t size)
{
    size_t used = 1;
    for (int rc = 0; !rc; data += used, size -= used) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_replica_event e;
        rc = lladd_replica_decode(lladd_span_of(data, size), &e, &used, &err);
        MUST(rc == err.code);
        MUST(!rc || rc == LLADD_END || rc == LLADD_BAD_RECORD || rc == LLADD_NEWER_FORMAT);
        if (rc == LLADD_END)
            MUST(used > size);
        if (rc)
            return;
        struct expected bytes = {data, used};
        struct lladd_sink sink = {.ctx = &bytes, .write = compare};
        MUST(used <= size && lladd_replica_encode(&e, &sink) == 0 && bytes.len == 0);
    }
}

static void corrected(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    MUST(copy);
    if (size)
        memcpy(copy, data, size);
    if (size >= HEAD) {
        lladd_put32(copy + 4, lladd_crc32c(0, copy + HEAD, size - HEAD));
        lladd_put32(copy, lladd_crc32c(0, copy + 4, HEAD - 4));
    }
    stream(copy, size);
    free(copy);
}

/* ---- scripts --------------------------------------------------------------------------------- */

static const char *const tables[] = {"a", "b", NULL};

static void in_txn(int (*what)(struct lladd_txn *))
{
    struct lladd_txn *txn;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    MUST(what(txn) == 0);
    MUST(lladd_commit(txn) == 0);
}

static int make(struct lladd_txn *txn)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = LLADD_DTABLE_U32;
    o.flags = LLADD_MANAGED_UNLOGGED;
    int rc = lladd_managed_create(txn, tables[0], &o);
    return rc ? rc : lladd_managed_create(txn, tables[1], &o);
}

static int drop(struct lladd_txn *txn)
{
    int rc = lladd_replica_destroy(txn, "r");
    if (!rc)
        rc = lladd_managed_destroy(txn, tables[0]);
    return rc ? rc : lladd_managed_destroy(txn, tables[1]);
}

static struct lladd_replica *open_replica(void)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    struct lladd_replica *r;
    o.tables = tables;
    o.buffer_bytes = 100;
    o.lag_bytes = 16;
    MUST(lladd_replica_open(db, "r", &o, &r, NULL) == 0);
    return r;
}

/* The command's event after an event at `position`. */
static struct lladd_replica_event event_of(const uint8_t *c, uint64_t position)
{
    static const char *const names[] = {"a", "b", "a", "none"};
    struct lladd_replica_event e = {.kind = (enum lladd_replica_kind)(c[0] % 9),
                                    .position = position + c[1],
                                    .txn = c[2] & 15};
    struct lladd_dtable_key key =
        c[2] & 0x80 ? lladd_dtable_u64(c[3]) : lladd_dtable_u32(c[3]);
    if (e.kind < LLADD_REPLICA_PUT || e.kind > LLADD_REPLICA_DELETE_RANGE)
        return e;
    e.table = names[c[2] >> 4 & 3];
    e.key = key;
    if (e.kind == LLADD_REPLICA_PUT)
        e.after = lladd_dtable_value_of(c, COMMAND);
    if (e.kind == LLADD_REPLICA_DELETE_RANGE && c[2] & 0x40) {
        e.to = key;
        e.to.number = c[1];
    }
    return e;
}

static void take(struct lladd_replica *r, const struct lladd_replica_event *e)
{
    size_t done;
    uint64_t before, after;
    MUST(lladd_replica_from(r, &before) == 0);
    int rc = lladd_replica_apply(r, e, 1, &done, NULL);
    MUST(!rc || rc == LLADD_BAD_RECORD || rc == LLADD_OUT_OF_RANGE);
    MUST(done == (rc == 0));
    MUST(lladd_replica_from(r, &after) == 0 && after >= before);
    if (rc)
        MUST(after == before && lladd_replica_apply(r, e, 1, &done, NULL) == rc);
}

static void script(const uint8_t *data, size_t size)
{
    if (!db)
        db = fuzz_database(lladd_replica_register);
    in_txn(make);
    struct lladd_replica *r = open_replica();
    for (; size >= COMMAND; data += COMMAND, size -= COMMAND) {
        uint64_t next, durable;
        MUST(lladd_replica_from(r, &next) == 0);
        if (data[0]) {
            struct lladd_replica_event e = event_of(data, next - 1);
            take(r, &e);
            continue;
        }
        MUST(lladd_replica_durable(r, &durable, NULL) == 0);
        MUST(lladd_replica_close(r, NULL) == 0);
        r = open_replica();
        MUST(lladd_replica_from(r, &next) == 0 && next >= durable);
    }
    MUST(lladd_replica_close(r, NULL) == 0);
    in_txn(drop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const modes[MODES])(const uint8_t *, size_t) = {stream, corrected, script};
    if (size)
        modes[data[0] % MODES](data + 1, size - 1);
    return 0;
}
