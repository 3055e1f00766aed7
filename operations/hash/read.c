/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading an element whose key or value lives in a blob, without locks.
 *
 * Blobs are read page by page, so between the page that refers to them and their last page a writer
 * may put another value in the old one's place, and the pages of the old one may come to hold
 * anything. What was read is one whole value if, when the reading is over,
 *
 *   - the element refers to the same blob as before, and
 *   - the blob's root page has the version that it had before the first byte was read.
 *
 * The reference alone would not do: a blob of the same length may have come to the same page, after
 * any number of others. With both, the root page was that of this blob and complete all the time
 * (the entry refers to a blob only after it is made; it is destroyed only after the entry refers to
 * another one; and undo goes backwards), so its data pages belonged to it all the time, and nothing
 * writes to a table's blob but who makes it.
 *
 * If it was not so, the reader begins anew with what is there now. After some attempts it reads
 * under the latch of the element's page: then the blob is not replaced, and it comes to an end
 * whatever writers do. */
#include "operations/hash/table.h"

#include "operations/blob.h"

#define UNLATCHED 4 /* attempts; then a writer of this bucket has to wait for a reader */

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

/* Under the latch of the entry's page. An error is a change, too: it comes again when that is the
 * reason, and is reported then. */
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
        int rc = ll_hash__find_element(r->table, r->key, r->hash, &f, err);
        if (rc)
            return rc;
        if (whole && is_same(r, &f.entry)) {
            ll_hash__let_go(r->table, &f);
            return 0;
        }
        r->key_part.n = r->value_part.n = 0;
        rc = r->see(r, &f.entry, err);
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
