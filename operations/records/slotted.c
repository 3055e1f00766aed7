/* SPDX-License-Identifier: BSD-2-Clause */
/* Slotted pages, the calls: they purge, reserve, and cut long records into pieces.
 *
 * The common case is one update. Otherwise the operation returns:
 *
 *   LLADD_BUSY, wants_hold   The record shrinks. The call reserves its bytes for undo, and tries
 *                            again.
 *   LLADD_PAGE_FULL, idle    The page has ghosts or slack (slotted_page.c). The call latches the
 *                            page, purges what is not reserved, and tries again. The call holds the
 *                            latch from the check for reservations to the purge, so no transaction
 *                            changes the page in between.
 *
 * A change of a record longer than LLADD_SLOTTED_PIECE may take several log records. The caller's
 * isolation keeps other transactions from reading the states in between. If a step fails, the call
 * rolls back to a savepoint and has changed nothing (API-1). */
#include "operations/records/slotted.h"

#include <string.h>

/* ---- reservations ---------------------------------------------------------------------------- */

struct owner {
    struct ll_txn_part part;
    struct ll_reservation_txn hold;
};

static void owner_drop(struct ll_txn_part *part)
{
    ll_operations__reserve_release(&((struct owner *)part)->hold);
}

int ll_operations__records_init(struct ll_operations *ops)
{
    ops->record_owners = (struct ll_txn_parts){ops->db, &ops->records.mutex, owner_drop, NULL};
    return ll_operations__reservations_init(&ops->records, ops->db, "records given up");
}

void ll_operations__records_free(struct ll_operations *ops)
{
    ll_operations__owners_end(&ops->record_owners);
    ll_operations__reservations_free(&ops->records);
}

/* The transaction's reservations of records, created at first use. */
static int records_owner(struct lladd_txn *txn, struct ll_reservation_txn **out)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    struct ll_txn_part *part;
    TRY(ll_operations__owner_of(txn, &ll_operations__records_participant, &ops->record_owners,
                                sizeof(struct owner), "a transaction's records", &part));
    *out = &((struct owner *)part)->hold;
    (*out)->holds = &ops->records;
    return 0;
}

int ll_operations__reserve_record(struct lladd_txn *txn, lladd_pageno page, uint32_t slot)
{
    struct ll_reservation_txn *o = NULL;
    int rc = records_owner(txn, &o);
    if (!rc && (rc = ll_operations__reserve(o, page, slot, 1)) != 0)
        rc = lladd_error_set(lladd_txn_error_out(txn), rc,
                             "out of memory for a transaction's records");
    return rc;
}

static int records_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    (void)ctx;
    (void)txn;
    return ll_operations__reserve_write(&((struct owner *)state)->hold, sink);
}

static int records_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    (void)ctx;
    struct ll_reservation_txn *o = NULL;
    int rc = records_owner(txn, &o);
    return rc ? rc : ll_operations__reserve_restore(o, blob, lladd_txn_error_out(txn));
}

static void records_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    (void)commit;
    owner_drop(state);
}

const struct lladd_participant ll_operations__records_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.records",
    .version = 1,
    .prepare = records_prepare,
    .in_doubt = records_in_doubt,
    .logged = records_logged,
    .durable = ll_operations__owner_durable,
    .aborted = ll_operations__owner_aborted,
};

/* ---- purging --------------------------------------------------------------------------------- */

/* Bytes that a purge of the slot would free; 0 if the slot is reserved. *chunk and `held` cache the
 * reservations of one chunk of slots. */
static uint32_t gain_of(struct ll_operations *ops, struct lladd_view v, uint32_t s, uint32_t *chunk,
                        uint64_t held[LL_RESERVATION_WORDS])
{
    struct slot e = slot_get(v.bytes, s);
    uint32_t gain = e.at == 0 ? 0 : e.ghost ? e.cap : e.cap - slot_need(e.len);
    if (gain == 0)
        return 0;
    if (*chunk != s / LL_RESERVATION_CHUNK) {
        *chunk = s / LL_RESERVATION_CHUNK;
        ll_operations__held(&ops->records, v.number, *chunk, NULL, held);
    }
    return held[s % LL_RESERVATION_CHUNK / 64] >> s % 64 & 1 ? 0 : gain;
}

/* Purges ghosts and slack without reservations, in as many slots as one log record can name, if
 * they may provide `want` bytes. Otherwise returns LLADD_PAGE_FULL. */
static int purge(struct lladd_txn *txn, struct lladd_page *page, uint32_t want)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    struct lladd_view v = lladd_page_view(page);
    uint64_t held[LL_RESERVATION_WORDS];
    unsigned char list[2 * LL_SLOTTED_PURGE_MAX];
    uint32_t chunk = UINT32_MAX, sum = 0;
    size_t n = 0;
    if (ll_operations__recovering(ops) || !ll_operations__slotted_fine(v))
        return LLADD_PAGE_FULL;
    for (uint32_t s = 0; s < slotted_get(v.bytes, SLOTTED_SLOTS); s++) {
        uint32_t gain = gain_of(ops, v, s, &chunk, held);
        if (gain && n < LL_SLOTTED_PURGE_MAX)
            lladd_put16(list + 2 * n++, (uint16_t)s);
        sum += gain;
    }
    /* A purged ghost may also leave its directory entry to the new record. */
    if (n == 0 || sum + SLOT_BYTES < want)
        return LLADD_PAGE_FULL;
    return lladd_update_page(txn, LL_OP_SLOTTED_PURGE, page, list, 2 * n);
}

static int purge_unlatched(struct lladd_txn *txn, lladd_pageno n, uint32_t want)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_page *page;
    int rc = lladd_log_credit(txn, LL_OP_SLOTTED_PURGE, 1);
    if (!rc)
        rc = ll_operations__fix(db, n, ll_operations__slotted_page.name, LLADD_LATCH_EXCLUSIVE,
                                &page, lladd_txn_error_out(txn));
    if (!rc) {
        rc = purge(txn, page, want);
        lladd_page_unfix(db, page, LLADD_LATCH_EXCLUSIVE);
    }
    int rest = lladd_log_credit(txn, LL_OP_SLOTTED_PURGE, 0);
    return rc ? rc : rest;
}

int lladd_slotted_credit(struct lladd_txn *txn, unsigned count)
{
    LLADD_USE(txn);
    /* Log space is shared, but the credit must name each operation. A set has the longest record,
     * and a purge may precede each set, so the space of 2 * count sets is enough. */
    static const lladd_op_id ops[] = {LL_OP_SLOTTED_ALLOC, LL_OP_SLOTTED_FREE, LL_OP_SLOTTED_PURGE};
    struct ll_reservation_txn *owner;
    int rc = records_owner(txn, &owner);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0] && !rc; i++)
        rc = lladd_log_credit(txn, ops[i], 1);
    return rc ? rc : lladd_log_credit(txn, LL_OP_SLOTTED_SET, 2 * count);
}

/* ---- single updates (held: the latched page, or NULL) ---------------------------------------- */

static int alloc_step(struct lladd_txn *txn, lladd_pageno page, struct lladd_page *held,
                      struct ll_slotted_alloc *a)
{
    for (;;) {
        int rc = ll_operations__update(txn, LL_OP_SLOTTED_ALLOC, page, held, a, sizeof *a);
        if (rc != LLADD_PAGE_FULL || a->state.idle == 0)
            return rc;
        TRY(held ? purge(txn, held, a->short_of) : purge_unlatched(txn, page, a->short_of));
    }
}

static int set_step(struct lladd_txn *txn, lladd_pageno page, struct lladd_page *held,
                    struct ll_slotted_set *a)
{
    for (;;) {
        struct owner *o = lladd_txn_joined(txn, &ll_operations__records_participant);
        a->owner = o ? &o->hold : NULL;
        a->wants_hold = false;
        a->state.idle = 0;
        int rc = ll_operations__update(txn, LL_OP_SLOTTED_SET, page, held, a, sizeof *a);
        if (rc == LLADD_BUSY && a->wants_hold)
            rc = ll_operations__reserve_record(txn, page, a->slot);
        else if (rc == LLADD_PAGE_FULL && a->state.idle)
            rc = held ? purge(txn, held, a->short_of) : purge_unlatched(txn, page, a->short_of);
        else
            return rc;
        if (rc)
            return rc;
    }
}

static int free_step(struct lladd_txn *txn, lladd_pageno page, struct lladd_page *held,
                     struct ll_slotted_free *a)
{
    int rc = a->slot < UINT16_MAX ? ll_operations__reserve_record(txn, page, a->slot) : 0;
    return rc ? rc : ll_operations__update(txn, LL_OP_SLOTTED_FREE, page, held, a, sizeof *a);
}

int ll_operations__record_drop(struct lladd_txn *txn, lladd_pageno page, struct ll_slotted_free *a)
{
    return free_step(txn, page, NULL, a);
}

/* ---- several steps, or none ------------------------------------------------------------------ */

/* Overwrites bytes [at, at + len) of a record, piece by piece. */
static int overwrite(struct lladd_txn *txn, struct lladd_rid rid, const unsigned char *bytes,
                     uint32_t at, uint32_t len)
{
    int rc = 0;
    for (uint32_t done = 0; done < len && !rc;) {
        uint32_t n = len - done < LLADD_SLOTTED_PIECE ? len - done : LLADD_SLOTTED_PIECE;
        struct ll_slotted_set a = {.bytes = bytes + done,
                                   .slot = rid.slot,
                                   .from = at + done,
                                   .cut = n,
                                   .len = n,
                                   .new_tag = SLOT_NONE};
        rc = set_step(txn, rid.page, NULL, &a);
        done += n;
    }
    return rc;
}

/* Changes a record's length from `from` to `to` bytes, at its end. `bytes` has the new contents,
 * from which the added bytes are taken; if it is NULL, zeros are added. */
static int lengthen(struct lladd_txn *txn, struct lladd_rid rid, const unsigned char *bytes,
                    uint32_t from, uint32_t to)
{
    int rc = 0;
    while (from != to && !rc) {
        bool up = from < to;
        uint32_t gap = up ? to - from : from - to;
        uint32_t n = gap < LLADD_SLOTTED_PIECE ? gap : LLADD_SLOTTED_PIECE;
        struct ll_slotted_set a = {.bytes = up && bytes ? bytes + from : NULL,
                                   .slot = rid.slot,
                                   .from = up ? from : from - n,
                                   .cut = up ? 0 : n,
                                   .len = up ? n : 0,
                                   .new_tag = SLOT_NONE};
        rc = set_step(txn, rid.page, NULL, &a);
        from = up ? from + n : from - n;
    }
    return rc;
}

/* Sets a record in pieces. bytes NULL: only the length changes. */
static int set_long(struct lladd_txn *txn, struct lladd_rid rid, const unsigned char *bytes,
                    uint32_t len, unsigned tag)
{
    lladd_savepoint_id before;
    size_t had;
    TRY(lladd_slotted_read(lladd_txn_db(txn), rid, NULL, 0, &had, NULL, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    int rc =
        lengthen(txn, rid, bytes, (uint32_t)had, len); /* first, because the page may be full */
    if (!rc && bytes)
        rc = overwrite(txn, rid, bytes, 0, (uint32_t)had < len ? (uint32_t)had : len);
    if (!rc && tag != SLOT_NONE) {
        struct ll_slotted_set a = {.slot = rid.slot, .new_tag = tag};
        rc = set_step(txn, rid.page, NULL, &a);
    }
    return ll_operations__step_end(txn, before, rc);
}

static int alloc_long(struct lladd_txn *txn, lladd_pageno page, struct ll_slotted_alloc *a)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    int rc = alloc_step(txn, page, NULL, a);
    if (!rc)
        rc = overwrite(txn, (struct lladd_rid){page, a->slot, a->len},
                       a->bytes + LLADD_SLOTTED_PIECE, LLADD_SLOTTED_PIECE,
                       a->len - LLADD_SLOTTED_PIECE);
    return ll_operations__step_end(txn, before, rc);
}

int ll_operations__record_store(struct lladd_txn *txn, lladd_pageno page,
                                struct ll_slotted_alloc *a)
{
    return a->len <= LLADD_SLOTTED_PIECE || !a->bytes ? alloc_step(txn, page, NULL, a)
                                                      : alloc_long(txn, page, a);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int check_record(struct lladd_txn *txn, size_t len, unsigned tag)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint32_t max = lladd_slotted_max(lladd_page_size(lladd_txn_db(txn)));
    if (len > max)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a record of %zu bytes: a page takes %u", len,
                               max);
    if (tag >= SLOT_ALIGN)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a record's tag is below %u", SLOT_ALIGN);
    return 0;
}

static int check_held(struct lladd_txn *txn, size_t len, unsigned tag)
{
    int rc = check_record(txn, len, tag);
    if (rc || len <= LLADD_SLOTTED_PIECE)
        return rc;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                           "a record of %zu bytes on a held page: at most %u", len,
                           LLADD_SLOTTED_PIECE);
}

int lladd_slotted_alloc(struct lladd_txn *txn, lladd_pageno page, const void *bytes, size_t len,
                        unsigned tag, struct lladd_rid *out)
{
    LLADD_USE(txn);
    struct ll_slotted_alloc a = {.bytes = bytes, .len = (uint32_t)len, .tag = tag};
    TRY(check_record(txn, len, tag));
    TRY(ll_operations__record_store(txn, page, &a));
    *out = (struct lladd_rid){page, a.slot, a.len};
    return 0;
}

int lladd_slotted_alloc_held(struct lladd_txn *txn, struct lladd_page *held, const void *bytes,
                             size_t len, unsigned tag, struct lladd_rid *out)
{
    LLADD_USE(txn);
    struct ll_slotted_alloc a = {.bytes = bytes, .len = (uint32_t)len, .tag = tag};
    TRY(check_held(txn, len, tag));
    TRY(alloc_step(txn, held->number, held, &a));
    *out = (struct lladd_rid){held->number, a.slot, a.len};
    return 0;
}

int lladd_slotted_free(struct lladd_txn *txn, struct lladd_rid rid)
{
    LLADD_USE(txn);
    struct ll_slotted_free a = {.slot = rid.slot};
    return free_step(txn, rid.page, NULL, &a);
}

int lladd_slotted_free_held(struct lladd_txn *txn, struct lladd_page *held, uint32_t slot)
{
    LLADD_USE(txn);
    struct ll_slotted_free a = {.slot = slot};
    return free_step(txn, held->number, held, &a);
}

int lladd_slotted_set(struct lladd_txn *txn, struct lladd_rid rid, const void *bytes, size_t len,
                      unsigned tag)
{
    LLADD_USE(txn);
    struct ll_slotted_set a = {
        .bytes = bytes, .slot = rid.slot, .len = (uint32_t)len, .new_tag = tag, .whole = true};
    TRY(check_record(txn, len, tag));
    /* A short record may replace a long one; then the undo bytes may be too long for one record. */
    int rc = len <= LLADD_SLOTTED_PIECE ? set_step(txn, rid.page, NULL, &a) : LLADD_TOO_LARGE;
    return rc == LLADD_TOO_LARGE ? set_long(txn, rid, bytes, (uint32_t)len, tag) : rc;
}

int lladd_slotted_set_held(struct lladd_txn *txn, struct lladd_page *held, uint32_t slot,
                           const void *bytes, size_t len, unsigned tag)
{
    LLADD_USE(txn);
    struct ll_slotted_set a = {
        .bytes = bytes, .slot = slot, .len = (uint32_t)len, .new_tag = tag, .whole = true};
    int rc = check_held(txn, len, tag);
    return rc ? rc : set_step(txn, held->number, held, &a);
}

int lladd_slotted_write(struct lladd_txn *txn, struct lladd_rid rid, uint32_t offset,
                        const void *bytes, size_t len)
{
    LLADD_USE(txn);
    struct ll_slotted_set a = {.bytes = bytes,
                               .slot = rid.slot,
                               .from = offset,
                               .cut = (uint32_t)len,
                               .len = (uint32_t)len,
                               .new_tag = SLOT_NONE};
    lladd_savepoint_id before;
    int rc = check_record(txn, len, 0);
    if (rc || len <= LLADD_SLOTTED_PIECE)
        return rc ? rc : set_step(txn, rid.page, NULL, &a);
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__step_end(txn, before, overwrite(txn, rid, bytes, offset, (uint32_t)len));
}

int lladd_slotted_resize(struct lladd_txn *txn, struct lladd_rid rid, size_t len)
{
    LLADD_USE(txn);
    int rc = check_record(txn, len, 0);
    return rc ? rc : set_long(txn, rid, NULL, (uint32_t)len, SLOT_NONE);
}

/* ---- reading --------------------------------------------------------------------------------- */

uint32_t lladd_slotted_slots(struct lladd_view v)
{
    return ll_operations__slotted_head_fine(v) ? slotted_get(v.bytes, SLOTTED_SLOTS) : 0;
}

bool lladd_slotted_record(struct lladd_view v, uint32_t slot, struct lladd_record *out)
{
    if (!ll_operations__slot_fine(v, slot))
        return false;
    struct slot e = slot_get(v.bytes, slot);
    if (e.ghost)
        return false;
    *out = (struct lladd_record){v.bytes + e.at, e.len, e.tag};
    return true;
}

uint32_t lladd_slotted_room(struct lladd_view v, bool reserved)
{
    if (!ll_operations__slotted_head_fine(v))
        return 0;
    uint32_t have = slotted_free(v.bytes, v.size), entry = SLOT_BYTES;
    if (slotted_get(v.bytes, SLOTTED_UNUSED))
        entry = 0;
    if (reserved) {
        have += slotted_get(v.bytes, SLOTTED_IDLE);
        entry = slotted_get(v.bytes, SLOTTED_GHOSTS) ? 0 : entry;
    }
    uint32_t max = lladd_slotted_max(v.size);
    have = have < entry + SLOT_CAP_MIN ? 0 : (have - entry) & ~(SLOT_ALIGN - 1);
    return have < max ? have : max;
}

uint64_t lladd_slotted_owner(struct lladd_view v)
{
    return lladd_get64(v.bytes + SLOTTED_OWNER);
}

int lladd_slotted_read(struct lladd_db *db, struct lladd_rid rid, void *buf, size_t size,
                       size_t *len, unsigned *tag, struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    TRY(ll_operations__fix(db, rid.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                           &page, err));
    int rc = 0;
    if (lladd_slotted_record(lladd_page_view(page), rid.slot, &r)) {
        if (r.len && size)
            memcpy(buf, r.bytes, r.len < size ? r.len : size);
        if (len)
            *len = r.len;
        if (tag)
            *tag = r.tag;
    } else {
        rc = ll_operations__on(err, rid.page,
                               lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                               "there is no record in slot %u of page %llu",
                                               rid.slot, (unsigned long long)rid.page.v));
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}

int lladd_slotted_format(struct lladd_txn *txn, lladd_pageno page, uint64_t owner)
{
    LLADD_USE(txn);
    unsigned char bytes[8];
    lladd_put64(bytes, owner);
    return lladd_update(txn, LL_OP_SLOTTED_FORMAT, page, bytes, sizeof bytes);
}
