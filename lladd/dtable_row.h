/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_ROW_H
#define LLADD_DTABLE_ROW_H
/**
 * @file
 * @brief Packed rows: the values of several columns as one value of a dTable.
 *
 * A column has a value, which may be empty, or none (LLADD_DTABLE_ABSENT). Columns are identified
 * by number, from 0; the table stores their names (ctable.h). There is only one way to pack a row,
 * so equal rows are equal bytes:
 *
 *     u8  low half: version, 1; high half: 0, 1 or 2, an end takes 1, 2 or 4 bytes
 *     u16 n: columns up to the last one that has a value
 *     n bits, in bytes, the lowest first: has a value
 *     n ends of values, relative to the first value's first byte; without a value: the previous end
 *     the values
 *
 * docs/disk-format.md. The functions trust none of the bytes. Threads: pure functions.
 * @ingroup operations
 */
#include <lladd/dtable.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The maximal number of columns in a row. */
#define LLADD_DTABLE_COLUMNS_MAX 1024u

/** The length of the packed row. LLADD_TOO_LARGE for more columns or bytes than a value can have,
 *  LLADD_BAD_ARGUMENT for a state other than FOUND and ABSENT. */
LLADD_API int lladd_dtable_row_size(const struct lladd_dtable_value *columns, size_t n, size_t *out,
                                    struct lladd_error *);
/** Packs columns that lladd_dtable_row_size has accepted; `out` has the length it returned. */
LLADD_API void lladd_dtable_row_pack(const struct lladd_dtable_value *columns, size_t n, void *out);
/** Is the span a valid packed row? *n (nullable) gets the number of columns it stores; later ones
 *  have no value. */
LLADD_API bool lladd_dtable_row_check(struct lladd_span row, size_t *n);
/** The value of a column, in place; ABSENT if it has none. False if the bytes it reads are not
 *  those of a packed row; it does not check the others. */
LLADD_API bool lladd_dtable_row_column(struct lladd_span row, uint32_t column,
                                       struct lladd_dtable_value *out);

/* ---- some columns of a table's rows ---------------------------------------------------------- */

/** The columns asked for, and the place for the answers. */
struct lladd_dtable_columns {
    size_t n;
    const uint32_t *numbers;           /**< of the columns */
    struct lladd_dtable_value *values; /**< n of them */
    struct lladd_dtable_pin *pins;     /**< n + 1 pins that keep the values in memory */
};
/** Takes the columns from a value: a packed row in place, or any other state. LLADD_BAD_RECORD. */
LLADD_API int lladd_dtable_row_unpack(const struct lladd_dtable_value *,
                                      const struct lladd_dtable_columns *,
                                      enum lladd_dtable_state *state, struct lladd_error *);
/** Some columns of a key's row, in a table of packed rows. *state is the row's; if it is FOUND, the
 *  values live until the pins are used again or released. LLADD_BAD_RECORD if the value is not a
 *  packed row. */
LLADD_API int lladd_dtable_lookup_columns(const struct lladd_dtable *,
                                          const struct lladd_dtable_key *,
                                          const struct lladd_dtable_columns *,
                                          enum lladd_dtable_state *state, struct lladd_error *);
/** Some columns of the row at the cursor. The values live until the cursor moves, or the pins are
 *  used again or released. */
LLADD_API int lladd_dtable_row_columns(struct lladd_dtable_cursor *,
                                       const struct lladd_dtable_columns *,
                                       enum lladd_dtable_state *state, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
