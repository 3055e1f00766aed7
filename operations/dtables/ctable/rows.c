/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes and looks up rows of cTables. An update of some columns reads the row that the transaction
 * sees, and writes the whole new row, as one journal entry. A concurrent update of other columns of
 * the same row is therefore a conflict. */
#include "operations/dtables/ctable/ctable.h"

#include <lladd/extension.h>

/* ---- written --------------------------------------------------------------------------------- */

static int put(struct lladd_txn *txn, struct lladd_ctable *t, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *values)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    size_t size;
    TRY(lladd_dtable_row_size(values, t->n, &size, err));
    void *row = lladd_mem_alloc(t->db, size);
    if (!row)
        return ll_ctable__no_memory(err);
    lladd_dtable_row_pack(values, t->n, row);
    struct lladd_dtable_value v = lladd_dtable_value_of(row, size);
    int rc = lladd_managed_put(txn, t->below, key, &v);
    lladd_mem_free(t->db, row);
    return rc;
}

int lladd_ctable_put(struct lladd_txn *txn, struct lladd_ctable *t,
                     const struct lladd_dtable_key *key, const struct lladd_dtable_value *values)
{
    LLADD_USE(txn);
    return put(txn, t, key, values);
}

int lladd_ctable_delete(struct lladd_txn *txn, struct lladd_ctable *t,
                        const struct lladd_dtable_key *key)
{
    LLADD_USE(txn);
    struct lladd_dtable_value none = lladd_dtable_tombstone();
    return lladd_managed_put(txn, t->below, key, &none);
}

/* Reads all columns of the row that the transaction sees. The values stay valid until the pin is
 * released. */
static int read_all(struct lladd_txn *txn, struct lladd_ctable *t,
                    const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                    struct lladd_dtable_value *values)
{
    struct lladd_dtable_value row;
    TRY(lladd_managed_lookup(txn, t->below, key, pin, &row));
    if (row.state == LLADD_DTABLE_FOUND && !lladd_dtable_row_check(row.bytes, NULL))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_RECORD,
                               "cTable \"%s\": the value is not a packed row", t->name);
    for (uint32_t i = 0; i < t->n; i++) {
        values[i].state = LLADD_DTABLE_ABSENT;
        if (row.state == LLADD_DTABLE_FOUND)
            (void)lladd_dtable_row_column(row.bytes, i, &values[i]); /* the row was checked */
    }
    return 0;
}

int lladd_ctable_update(struct lladd_txn *txn, struct lladd_ctable *t,
                        const struct lladd_dtable_key *key,
                        const struct lladd_ctable_change *changes, size_t n)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = ll_ctable__check(t, &changes[i].column, 1, err);
    if (rc)
        return rc;
    struct lladd_dtable_value *values = lladd_mem_alloc(t->db, t->n * sizeof *values);
    if (!values)
        return ll_ctable__no_memory(err);
    rc = read_all(txn, t, key, &pin, values);
    for (size_t i = 0; i < n && !rc; i++)
        values[changes[i].column] = changes[i].value;
    if (!rc)
        rc = put(txn, t, key, values);
    lladd_dtable_unpin(&pin);
    lladd_mem_free(t->db, values);
    return rc;
}

/* ---- looked up ------------------------------------------------------------------------------- */

void lladd_ctable_row_free(struct lladd_ctable_row *r)
{
    for (size_t i = 0; i < r->cap_; i++)
        lladd_dtable_unpin(&r->all_.pins[i]);
    if (r->db_) {
        lladd_mem_free(r->db_, r->all_.pins);
        lladd_mem_free(r->db_, r->all_.values);
    }
    *r = (struct lladd_ctable_row){.n = 0};
}

int ll_ctable__room(struct lladd_db *db, size_t n, struct lladd_ctable_row *r,
                    struct lladd_error *err)
{
    if (n > LLADD_DTABLE_COLUMNS_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE, "%zu columns at a time; %u are possible", n,
                               LLADD_DTABLE_COLUMNS_MAX);
    r->n = 0;
    r->values = NULL;
    if (r->db_ != db || n + 1 > r->cap_) {
        lladd_ctable_row_free(r);
        struct lladd_dtable_pin *pins = lladd_mem_alloc(db, (n + 1) * sizeof *pins);
        struct lladd_dtable_value *values = lladd_mem_alloc(db, (n + 1) * sizeof *values);
        if (!pins || !values) {
            lladd_mem_free(db, pins);
            lladd_mem_free(db, values);
            return ll_ctable__no_memory(err);
        }
        memset(pins, 0, (n + 1) * sizeof *pins);
        r->db_ = db;
        r->cap_ = n + 1;
        r->all_.pins = pins;
        r->all_.values = values;
    }
    for (size_t i = 0; i < n; i++)
        r->all_.values[i] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    r->all_.n = n;
    return 0;
}

int lladd_ctable_lookup(struct lladd_txn *txn, struct lladd_ctable *t,
                        const struct lladd_dtable_key *key, const uint32_t *columns, size_t n,
                        struct lladd_ctable_row *r)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    const struct lladd_dtable *table;
    enum lladd_dtable_state state;
    TRY(ll_ctable__check(t, columns, n, err));
    TRY(ll_ctable__room(t->db, n, r, err));
    TRY(lladd_managed_table(txn, t->below, &table));
    r->all_.numbers = columns;
    int rc = lladd_dtable_lookup_columns(table, key, &r->all_, &state, err);
    r->all_.numbers = NULL;
    if (rc)
        return rc;
    if (state != LLADD_DTABLE_FOUND)
        return lladd_error_set(err, LLADD_NOT_FOUND, "cTable \"%s\" has no such row", t->name);
    r->n = n;
    r->values = r->all_.values;
    return 0;
}

int lladd_ctable_get(struct lladd_txn *txn, struct lladd_ctable *t,
                     const struct lladd_dtable_key *key, uint32_t column, void *buf, size_t size,
                     size_t *len)
{
    LLADD_USE(txn);
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    struct lladd_dtable_columns one = {1, &column, &v, pins};
    const struct lladd_dtable *table;
    enum lladd_dtable_state state;
    int rc = ll_ctable__check(t, &column, 1, err);
    if (!rc)
        rc = lladd_managed_table(txn, t->below, &table);
    if (!rc)
        rc = lladd_dtable_lookup_columns(table, key, &one, &state, err);
    if (!rc && state != LLADD_DTABLE_FOUND)
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "cTable \"%s\" has no such row", t->name);
    else if (!rc && v.state != LLADD_DTABLE_FOUND)
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "the row has no value in column \"%s\"",
                             t->columns[column]);
    if (!rc) {
        lladd_copy(buf, v.bytes.data, v.bytes.len < size ? v.bytes.len : size);
        if (len)
            *len = v.bytes.len;
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    return rc;
}
