/* SPDX-License-Identifier: BSD-2-Clause */
/* Cursors of cTables. A cursor of a cTable moves a cursor of the managed table, and reads the
 * wanted columns of the row there. The cursor skips tombstones, so it shows only existing rows. All
 * columns come from one row, whichever layers store them. */
#include "operations/dtables/ctable/ctable.h"

#include <lladd/extension.h>

int lladd_ctable_cursor_open(struct lladd_txn *txn, struct lladd_ctable *t,
                             const uint32_t *columns, size_t n, struct lladd_ctable_cursor **out)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    const struct lladd_dtable *table;
    TRY(ll_ctable__check(t, columns, n, err));
    TRY(lladd_managed_table(txn, t->below, &table));
    struct lladd_ctable_cursor *c = lladd_mem_alloc(t->db, sizeof *c + n * sizeof c->columns[0]);
    if (!c)
        return ll_ctable__no_memory(err);
    *c = (struct lladd_ctable_cursor){.t = t, .table = table};
    if (n)
        memcpy(c->columns, columns, n * sizeof c->columns[0]);
    int rc = ll_ctable__room(t->db, n, &c->row, err);
    if (!rc)
        rc = lladd_dtable_cursor_open(table, 0, &c->rows, err);
    c->row.all_.numbers = c->columns;
    if (rc)
        lladd_ctable_cursor_close(c);
    else
        *out = c;
    return rc;
}

void lladd_ctable_cursor_close(struct lladd_ctable_cursor *c)
{
    if (!c)
        return;
    struct lladd_db *db = c->t->db;
    lladd_ctable_row_free(&c->row);
    lladd_dtable_cursor_close(c->rows);
    lladd_mem_free(db, c);
}

int lladd_ctable_first(struct lladd_ctable_cursor *c, struct lladd_error *err)
{
    return lladd_dtable_first(c->rows, err);
}

int lladd_ctable_last(struct lladd_ctable_cursor *c, struct lladd_error *err)
{
    return lladd_dtable_last(c->rows, err);
}

int lladd_ctable_next(struct lladd_ctable_cursor *c, struct lladd_error *err)
{
    return lladd_dtable_next(c->rows, err);
}

int lladd_ctable_prev(struct lladd_ctable_cursor *c, struct lladd_error *err)
{
    return lladd_dtable_prev(c->rows, err);
}

int lladd_ctable_seek(struct lladd_ctable_cursor *c, const struct lladd_dtable_key *key,
                      struct lladd_error *err)
{
    return lladd_dtable_seek(c->rows, key, err);
}

int lladd_ctable_seek_for_prev(struct lladd_ctable_cursor *c, const struct lladd_dtable_key *key,
                               struct lladd_error *err)
{
    return lladd_dtable_seek_for_prev(c->rows, key, err);
}

int lladd_ctable_row_read(struct lladd_ctable_cursor *c, struct lladd_dtable_key *key,
                     const struct lladd_dtable_value **values, struct lladd_error *err)
{
    enum lladd_dtable_state state;
    int rc = key ? lladd_dtable_row(c->rows, key, NULL, err) : 0;
    if (!rc && values)
        rc = lladd_dtable_row_columns(c->rows, &c->row.all_, &state, err);
    if (!rc && values)
        *values = c->row.all_.values;
    else if (!rc && !key)
        rc = lladd_dtable_row(c->rows, NULL, NULL, err);
    return rc;
}
