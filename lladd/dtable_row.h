/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_ROW_H
#define LLADD_DTABLE_ROW_H
/**
 * @file
 * @brief Packed rows: the values of several columns as one value of a dTable.
 *
 * In a row a column has a value, which may be empty, or no value (LLADD_DTABLE_ABSENT). Columns are
 * numbered from 0; the cTable stores their names (ctable.h). A row has only one packed form, so
 * equal rows have equal bytes:
 *
 *     u8  low 4 bits: version (1); high 4 bits: 0, 1 or 2 if each end has 1, 2 or 4 bytes
 *     u16 n: number of columns up to the last column that has a value
 *     n bits, in whole bytes, lowest bit first: bit i says whether column i has a value
 *     n ends of values, relative to the start of the first value; the end of a column without a
 *       value is the previous end
 *     the values
 *
 * See docs/disk-format.md. The functions that read packed rows tolerate any bytes. Any thread.
 * @ingroup operations
 */
#include <lladd/dtable.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The maximum number of columns in a row. */
#define LLADD_DTABLE_COLUMNS_MAX 1024u

/** *out gets the length of the packed row. LLADD_TOO_LARGE for more than LLADD_DTABLE_COLUMNS_MAX
 *  columns or LLADD_DTABLE_VALUE_MAX bytes, LLADD_BAD_ARGUMENT for a state other than FOUND and
 *  ABSENT. */
LLADD_API int lladd_dtable_row_size(const struct lladd_dtable_value *columns, size_t n, size_t *out,
                                    struct lladd_error *);
/** Packs columns that lladd_dtable_row_size has accepted; `out` has the length it returned. */
LLADD_API void lladd_dtable_row_pack(const struct lladd_dtable_value *columns, size_t n, void *out);
/** Returns true if the span is a valid packed row. *n (nullable) gets the number of columns in the
 *  row; columns from *n on have no value. */
LLADD_API bool lladd_dtable_row_check(struct lladd_span row, size_t *n);
/** Gets the value of a column; *out refers to the bytes of `row`, or is ABSENT. False if the
 *  span is not a packed row; the call checks only the bytes that it needs. */
LLADD_API bool lladd_dtable_row_column(struct lladd_span row, uint32_t column,
                                       struct lladd_dtable_value *out);

/* ---- some columns of a table's rows ---------------------------------------------------------- */

/** The columns to read, and where to store their values. */
struct lladd_dtable_columns {
    size_t n;
    const uint32_t *numbers;           /**< column numbers */
    struct lladd_dtable_value *values; /**< n values */
    struct lladd_dtable_pin *pins;     /**< n + 1 pins that keep the values in memory */
};
/** Reads columns of a packed row in the value of a dTable, without a copy. If the value's state is
 *  not FOUND, only *state is set. LLADD_BAD_RECORD if the value is not a packed row. */
LLADD_API int lladd_dtable_row_unpack(const struct lladd_dtable_value *,
                                      const struct lladd_dtable_columns *,
                                      enum lladd_dtable_state *state, struct lladd_error *);
/** Reads columns of a key's row in a table of packed rows. *state gets the row's state; if it is
 *  FOUND, the values live until the pins are used again or released. LLADD_BAD_RECORD if the value
 *  is not a packed row. */
LLADD_API int lladd_dtable_lookup_columns(const struct lladd_dtable *,
                                          const struct lladd_dtable_key *,
                                          const struct lladd_dtable_columns *,
                                          enum lladd_dtable_state *state, struct lladd_error *);
/** Reads columns of the row at the cursor. The values live until the cursor moves, or the pins are
 *  used again or released. */
LLADD_API int lladd_dtable_row_columns(struct lladd_dtable_cursor *,
                                       const struct lladd_dtable_columns *,
                                       enum lladd_dtable_state *state, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
