/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EXAMPLE_INDEXED_H
#define EXAMPLE_INDEXED_H
/* Secondary indexes of a cTable: a B+tree for a column, changed in the transaction that changes the
 * row. Keys of the table are u32 numbers. docs/ctables.md explains the rules.
 *
 * All transactions that use an indexed table change and read it only by these calls. They are then
 * serialisable, by locks: LLADD_DEADLOCK and LLADD_CONFLICT mean that the transaction must be
 * rolled back and tried again. */
#include <lladd/btree.h>
#include <lladd/ctable.h>

struct ix {
    struct lladd_btree *tree;
    uint64_t lock; /* the index's lock name: the number of the tree's root page */
    uint32_t column;
    bool unique;
};
struct ix_table {
    struct lladd_ctable *rows;
    const struct ix *indexes;
    size_t n;
};

/* Registers cTables and the lock manager, before lladd_open. */
int ix_register(struct lladd_options *, struct lladd_error *);
/* Makes an index over the table's rows, under this root name. LLADD_EXISTS: the name is taken, or
 * two rows have the same value in the column of a unique index; then there is no index. Until the
 * index is open in every thread, no transaction may change the table. */
int ix_build(struct lladd_db *, struct lladd_ctable *, const char *root, uint32_t column,
             bool unique, struct lladd_error *);
int ix_open(struct lladd_db *, const char *root, struct ix *, struct lladd_error *);
void ix_close(struct ix *);
/* Destroys a closed index, in the transaction. */
int ix_destroy(struct lladd_txn *, const char *root);

/* Puts or deletes a row, and changes its entries. `values`: as for lladd_ctable_put; NULL deletes
 * the row. LLADD_EXISTS: another row has the value in the column of a unique index. A call that
 * fails has changed nothing. */
int ix_put(struct lladd_txn *, const struct ix_table *, uint32_t id,
           const struct lladd_dtable_value *values);
/* Calls fn for each row with this value in the indexed column, in the order of the ids. */
typedef int ix_fn(void *ctx, uint32_t id);
int ix_find(struct lladd_txn *, const struct ix_table *, const struct ix *, const void *value,
            size_t len, ix_fn *, void *ctx);
/* Calls fn for each row with a value from `low` on, before `high` (NULL: no bound), in the order of
 * the values. Until this transaction ends, no other transaction changes an entry of the index. */
int ix_range(struct lladd_txn *, const struct ix_table *, const struct ix *, struct lladd_span low,
             const struct lladd_span *high, ix_fn *, void *ctx);
/* Checks that the entries of the index are those of the rows. No transaction may be open.
 * LLADD_CORRUPT_PAGE: they are not. */
int ix_check(struct lladd_db *, const struct ix_table *, const struct ix *, struct lladd_error *);
#endif
