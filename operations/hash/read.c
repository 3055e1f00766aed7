/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads an element. A key or value in a blob is read without a latch on the element's page.
 *
 * Meanwhile a writer may replace the value, and the old blob's pages may be reused. The bytes
 * read are one complete value if afterwards
 *
 *   - the element refers to the same blob as before, and
 *   - the blob's root page has the same version as before the first byte was read.
 *
 * The reference alone is not enough: another blob of the same length may have got the same root
 * page. The two conditions together mean that the blob existed during the whole read, because a
 * writer creates a blob before an entry refers to it, and destroys the blob after the entry has
 * lost the reference. Undo reverses that order. Meanwhile only a destruction of the table in steps
 * writes to the blob (destroy.c), and each of these writes changes the blob's root page.
 *
 * Otherwise the reader starts again. After some attempts it reads under the latch of the
 * element's page, so that no writer can replace the blob meanwhile. */
#include "operations/hash/table.h"

#include "operations/blob/blob.h"

#define UNLATCHED 4 /* attempts without the latch; the next one makes writers of the bucket wait */

static int read_part(struct lladd_db *db, struct hb_part *part, struct lladd_error *err)
{
    if (!part->n)
        return 0;
    lladd_pageno root = lladd_page_of(lladd_get64(part->ref + 8));
    int rc = ll_operations__blob_version(db, root, &part->version, err);
    return rc ? rc : lladd_blob_read(db, root, 0, part->into, part->n, NULL, err);
}

static int read_parts(struct ll_hash_reader *r, struct lladd_error *err)
{
    int rc = read_part(r->table->db, &r->key_part, err);
    return rc ? rc : read_part(r->table->db, &r->value_part, err);
}

/* The caller holds the latch of the entry's page. An error counts as a change, and the blob is read
 * again. */
static bool part_is_same(struct lladd_db *db, const struct hb_part *part, bool blob,
                         const unsigned char *ref)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint64_t version = 0;
    if (!part->n)
        return true;
    return blob && memcmp(ref, part->ref, sizeof part->ref) == 0 &&
           ll_operations__blob_version(db, lladd_page_of(lladd_get64(ref + 8)), &version,
                                       &ignored) == 0 &&
           version == part->version;
}

static bool is_same(const struct ll_hash_reader *r, const struct hb_entry *e)
{
    struct lladd_db *db = r->table->db;
    return part_is_same(db, &r->key_part, (e->key_len & HB_BLOB) != 0,
                        e->key + HB_KEY_REF - sizeof r->key_part.ref) &&
           part_is_same(db, &r->value_part, (e->value_len & HB_BLOB) != 0, e->value);
}

int ll_hash__read(struct ll_hash_reader *r, struct lladd_error *err)
{
    bool whole = false;
    for (unsigned tries = 0;; tries++) {
        struct lladd_error ignored = LLADD_ERROR_INIT;
        struct ll_hash_found f;
        bool latched = tries == UNLATCHED;
        TRY(ll_hash__find_element(r->table, r->key, r->hash, &f, err));
        if (whole && is_same(r, &f.entry)) {
            ll_hash__let_go(r->table, &f);
            return 0;
        }
        r->key_part.n = r->value_part.n = 0;
        int rc = r->see(r, &f.entry, err);
        bool blobs = r->key_part.n || r->value_part.n;
        if (!rc && blobs && latched)
            rc = read_parts(r, err);
        ll_hash__let_go(r->table, &f);
        if (rc || !blobs || latched)
            return rc;
        rc = read_parts(r, &ignored);
        if (LLADD_PLANTED(LLADD_BUG_BLOB_ONCE)) {
            *err = ignored;
            return rc;
        }
        whole = rc == 0;
    }
}
