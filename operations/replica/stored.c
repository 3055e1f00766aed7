/* SPDX-License-Identifier: BSD-2-Clause */
/* The stored state of a replica: a blob, which the named root "replica:<name>" leads to.
 *
 *   0 u32 CRC-32C of the bytes from 4 on   4 u32 version   8 u64 commit   16 u64 from
 *   24 u16 bytes of the source's name   26 u16 zero   28 u32 number of tables
 *   32 the source's name; then for each table u8 length, and the name */
#include "operations/replica/replica.h"

#include <lladd/blob.h>
#include <lladd/extension.h>
#include <lladd/snapshot.h>

enum { STATE_HEAD = 32, STATE_MAX = 1 << 20 };

/* ---- the state as bytes ---------------------------------------------------------------------- */

static size_t state_size(const struct lladd_replica *r)
{
    size_t n = STATE_HEAD + (r->source ? strlen(r->source) : 0);
    for (size_t i = 0; i < r->n_tables; i++)
        n += 1 + strlen(r->tables[i].name);
    return n;
}

int ll_replica__check_size(const struct lladd_replica *r, struct lladd_error *err)
{
    size_t n = state_size(r);
    return n <= STATE_MAX
               ? 0
               : lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                 "the state of a replica of %zu tables has %zu bytes; at most %d "
                                 "are possible",
                                 r->n_tables, n, STATE_MAX);
}

/* The bytes of the replica's state; the caller frees them. */
static unsigned char *state_bytes(const struct lladd_replica *r, struct lladd_managed_position at,
                                  size_t *len)
{
    size_t source = r->source ? strlen(r->source) : 0, n = state_size(r);
    unsigned char *bytes = lladd_mem_alloc(r->db, n), *p = bytes + STATE_HEAD;
    if (!bytes)
        return NULL;
    memset(bytes, 0, STATE_HEAD);
    lladd_put32(bytes + 4, LL_REPLICA_VERSION);
    lladd_put64(bytes + 8, at.commit);
    lladd_put64(bytes + 16, at.from);
    lladd_put16(bytes + 24, (uint16_t)source);
    lladd_put32(bytes + 28, (uint32_t)r->n_tables);
    if (source)
        memcpy(p, r->source, source);
    p += source;
    for (size_t i = 0; i < r->n_tables; i++) {
        size_t name = strlen(r->tables[i].name);
        *p++ = (unsigned char)name;
        memcpy(p, r->tables[i].name, name);
        p += name;
    }
    lladd_put32(bytes, lladd_crc32c(0, bytes + 4, n - 4));
    *len = n;
    return bytes;
}

static int wrong_state(const struct lladd_replica *r, struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_CORRUPT_RUN, "the state of replica \"%s\" is damaged",
                           r->name);
}

static int understand_tables(struct lladd_replica *r, const unsigned char *p,
                             const unsigned char *end, size_t n, struct lladd_error *err)
{
    TRY(ll_replica__make_tables(r, n, err));
    for (size_t i = 0; i < n; i++) {
        if (p == end || !*p || *p > LLADD_MANAGED_NAME_MAX || (size_t)(end - p) <= *p ||
            memchr(p + 1, 0, *p))
            return wrong_state(r, err);
        TRY(ll_replica__add_table(r, p + 1, *p, err));
        p += 1 + *p;
    }
    return p == end ? 0 : wrong_state(r, err);
}

static int understand(struct lladd_replica *r, const unsigned char *bytes, size_t len,
                      struct lladd_error *err)
{
    if (len < STATE_HEAD || lladd_get32(bytes) != lladd_crc32c(0, bytes + 4, len - 4))
        return wrong_state(r, err);
    if (lladd_get32(bytes + 4) > LL_REPLICA_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "replica \"%s\" was made by a newer version: format %u; %d is known",
                               r->name, (unsigned)lladd_get32(bytes + 4), LL_REPLICA_VERSION);
    size_t source = lladd_get16(bytes + 24), n = lladd_get32(bytes + 28);
    r->stored = (struct lladd_managed_position){lladd_get64(bytes + 8), lladd_get64(bytes + 16)};
    r->stored_before = r->stored;
    if (lladd_get32(bytes + 4) != LL_REPLICA_VERSION || lladd_get16(bytes + 26) ||
        source > LL_REPLICA_SOURCE_MAX || source > len - STATE_HEAD || !n || n > len ||
        memchr(bytes + STATE_HEAD, 0, source))
        return wrong_state(r, err);
    if (source)
        TRY(ll_replica__copy_text(r->db, bytes + STATE_HEAD, source, &r->source, err));
    return understand_tables(r, bytes + STATE_HEAD + source, bytes + len, n, err);
}

/* Forces the log of the commits that are visible: the state may be one of them, which an earlier
 * handle has stored. */
static int force_commits(struct lladd_db *db, struct lladd_error *err)
{
    lladd_lsn now;
    TRY(lladd_snapshot_acquire(db, &now, err));
    TRY(lladd_snapshot_release(db, now));
    return now.v ? lladd_log_force(db, now, err) : 0;
}

int ll_replica__read(struct lladd_replica *r, struct lladd_error *err)
{
    uint64_t len;
    TRY(force_commits(r->db, err)); /* REP-5 */
    TRY(lladd_blob_length(r->db, r->blob, &len, err));
    if (len > STATE_MAX)
        return wrong_state(r, err);
    unsigned char *bytes = lladd_mem_alloc(r->db, (size_t)len + 1);
    if (!bytes)
        return ll_replica__no_memory(err);
    int rc = lladd_blob_read(r->db, r->blob, 0, bytes, len, NULL, err);
    if (!rc)
        rc = understand(r, bytes, (size_t)len, err);
    lladd_mem_free(r->db, bytes);
    return rc;
}

/* ---- storing it ------------------------------------------------------------------------------ */

int ll_replica__make(void *ctx, struct lladd_txn *txn)
{
    struct lladd_replica *r = ctx;
    char name[LLADD_ROOT_NAME_MAX + 1];
    size_t len;
    unsigned char *bytes = state_bytes(r, r->stored, &len);
    if (!bytes)
        return ll_replica__no_memory(lladd_txn_error_out(txn));
    int rc = lladd_blob_create(txn, bytes, len, &r->blob);
    lladd_mem_free(r->db, bytes);
    ll_replica__root_name(r->name, name);
    return rc ? rc : lladd_root_set(txn, name, (struct lladd_root_value){r->blob.v, 0});
}

int ll_replica__replace(void *ctx, struct lladd_txn *txn)
{
    const struct ll_replica_storing *s = ctx;
    size_t len;
    unsigned char *bytes = state_bytes(s->r, s->at, &len);
    if (!bytes)
        return ll_replica__no_memory(lladd_txn_error_out(txn));
    int rc = lladd_blob_replace(txn, s->r->blob, bytes, len);
    lladd_mem_free(s->r->db, bytes);
    return rc;
}
