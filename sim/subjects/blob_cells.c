/* SPDX-License-Identifier: BSD-2-Clause */
/* See blobs.h. */
#include "sim/subjects/blobs.h"

#include <lladd/pages.h>

#include <stdio.h>
#include <string.h>

enum { CELLS = 6, NEAR = 3800, LONGEST = 16000 };

/* Returns the number of zeros before the contents of a cell. */
static uint64_t zeros_of(unsigned cell)
{
    return cell == LL_SIM_BLOB_FAR ? 200000 : NEAR;
}

static const char *name_of(unsigned cell, char out[LLADD_ROOT_NAME_MAX + 1])
{
    (void)snprintf(out, LLADD_ROOT_NAME_MAX + 1, "blob.%u", cell);
    return out;
}

/* Sets *root to the root page of the cell's blob, or to LLADD_NO_PAGE if there is no blob. */
static int find(struct lladd_db *db, unsigned cell, lladd_pageno *root, struct lladd_error *err)
{
    struct lladd_root_value v;
    char name[LLADD_ROOT_NAME_MAX + 1];
    int rc = lladd_root_get(db, name_of(cell, name), &v, err);
    *root = lladd_page_of(rc ? LLADD_NO_PAGE : v.a);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int note(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                size_t len)
{
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, len) : 0;
}

int ll_sim_blob_make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                     size_t len)
{
    unsigned char bytes[LONGEST];
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno root;
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_blob_create(txn, NULL, zeros_of(cell), &root));
    TRY(lladd_blob_append(txn, root, bytes, len));
    TRY(lladd_root_set(txn, name_of(cell, name), (struct lladd_root_value){root.v, 0}));
    return note(w, txn, cell, letter, len);
}

int ll_sim_blob_write(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                      size_t len)
{
    unsigned char bytes[LONGEST];
    lladd_pageno root;
    ll_sim_fill(bytes, cell, letter, len);
    TRY(find(w->db, cell, &root, lladd_txn_error_out(txn)));
    TRY(lladd_blob_write(txn, root, zeros_of(cell), bytes, len));
    return note(w, txn, cell, letter, len);
}

int ll_sim_blob_replace(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                        size_t len)
{
    unsigned char bytes[NEAR + LONGEST];
    lladd_pageno root;
    memset(bytes, 0, NEAR);
    ll_sim_fill(bytes + NEAR, cell, letter, len);
    TRY(find(w->db, cell, &root, lladd_txn_error_out(txn)));
    TRY(lladd_blob_replace(txn, root, bytes, NEAR + len));
    return note(w, txn, cell, letter, len);
}

int ll_sim_blob_append(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                       size_t was, size_t len)
{
    unsigned char bytes[LONGEST];
    lladd_pageno root;
    ll_sim_fill(bytes, cell, letter, len);
    TRY(find(w->db, cell, &root, lladd_txn_error_out(txn)));
    TRY(lladd_blob_append(txn, root, bytes + was, len - was));
    return note(w, txn, cell, letter, len);
}

int ll_sim_blob_drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno root;
    TRY(find(w->db, cell, &root, lladd_txn_error_out(txn)));
    TRY(lladd_blob_destroy(txn, root));
    TRY(lladd_root_delete(txn, name_of(cell, name)));
    return note(w, txn, cell, 0, 0);
}

/* ---- dump and check ---------------------------------------------------------------------- */

/* Reads the contents of a cell, and checks the zeros before them. */
static int read_blob(struct lladd_db *db, unsigned cell, lladd_pageno root, unsigned char *out,
                     size_t *len, struct lladd_error *err)
{
    uint64_t from = zeros_of(cell), got;
    for (uint64_t at = 0, n; at < from; at += n) {
        n = from - at < LONGEST ? from - at : LONGEST;
        TRY(lladd_blob_read(db, root, at, out, n, NULL, err));
        for (size_t i = 0; i < n; i++)
            if (out[i])
                return lladd_error_set(err, LLADD_BAD_STATE, "a byte before the contents is not 0");
    }
    TRY(lladd_blob_read(db, root, from, out, LONGEST, &got, err));
    *len = (size_t)got;
    return 0;
}

int ll_sim_blobs_dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink,
                      struct lladd_error *err)
{
    struct ll_sim_cells c;
    unsigned char bytes[LONGEST];
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno root;
        size_t len = 0;
        TRY(find(db, cell, &root, err));
        if (root.v == LLADD_NO_PAGE)
            continue;
        TRY(read_blob(db, cell, root, bytes, &len, err));
        if (!ll_sim_cells_see(&c, bytes, len) || !c.at[cell].letter)
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "the bytes of blob %u are not a text of its cell", cell);
    }
    return ll_sim_cells_write(&c, sink);
}

int ll_sim_blobs_check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno root;
        TRY(find(db, cell, &root, err));
        if (root.v != LLADD_NO_PAGE)
            TRY(lladd_blob_check(db, root, err));
    }
    return 0;
}

int ll_sim_blobs_pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                       struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno root;
        TRY(find(db, cell, &root, err));
        if (root.v != LLADD_NO_PAGE)
            TRY(lladd_blob_pages(db, root, fn, arg, err));
    }
    return 0;
}
