/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_ERROR_H
#define LLADD_ERROR_H
/**
 * @file
 * @brief Errors are return values: 0, or a negative code from one table (error_list.h).
 *
 * The root of a code says what the caller should do. The message and the source line of the error
 * are in the transaction or in the struct that the caller passed, never in a global variable.
 * @ingroup lladd
 */
#include <lladd/error_list.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_ERROR_ENUM(name, number, root, text) name = number,
/** Every code that a call can return, besides 0. */
enum lladd_code { LLADD_OK = 0, LLADD_ERROR_LIST(LLADD_ERROR_ENUM) };
#undef LLADD_ERROR_ENUM

#define LLADD_ROOT_ENUM(name, number, text) name = number,
/** What the caller of a failed call should do. */
enum lladd_root { LLADD_ROOT_NONE = 0, LLADD_ERROR_ROOTS(LLADD_ROOT_ENUM) };
#undef LLADD_ROOT_ENUM

/** What went wrong and where. A call that returns an error fills the struct; a call that returns 0
 *  does not change it. */
struct lladd_error {
    int code;           /**< enum lladd_code */
    int sys_errno;      /**< the operating system's number, or 0 */
    const char *source; /**< source file where the error arose; static */
    int line;
    lladd_lsn lsn;     /**< the log record in question, 0 if none */
    lladd_pageno page; /**< the page in question, LLADD_NO_PAGE if none */
    char message[256]; /**< one line; names the file, page or LSN in question if there is one */
};

/** An error struct without an error. */
#define LLADD_ERROR_INIT \
    { \
        0, 0, NULL, 0, {0}, {LLADD_NO_PAGE}, \
        { \
            0 \
        } \
    }

/** Fills *err (nullable) and returns `code`. The macro lladd_error_set records the source file and
 *  line. The function of the same name, for callers that cannot use a macro, records "extension"
 *  and line 0. Any thread; the caller owns the struct. */
LLADD_API int lladd_error_set(struct lladd_error *err, int code, const char *fmt, ...)
    LLADD_PRINTF(3, 4);
/** The macro lladd_error_set calls this function. Only the pointer `source` is stored, so the
 *  string must outlive the struct, as __FILE__ does. */
LLADD_API int lladd_error_set_at(struct lladd_error *err, const char *source, int line, int code,
                                 const char *fmt, ...) LLADD_PRINTF(5, 6);
#define lladd_error_set(err, ...) lladd_error_set_at(err, __FILE__, __LINE__, __VA_ARGS__)

/** Returns "LLADD_NO_SPACE" for -402; "LLADD_OK" for 0; NULL for a number that is not a code. */
LLADD_API const char *lladd_code_name(int code);
/** Returns the table's one-line text for a code; NULL for a number that is not a code. */
LLADD_API const char *lladd_code_text(int code);
/** Returns the root of a code, which says what the caller should do. */
LLADD_API enum lladd_root lladd_code_root(int code);

#ifdef __cplusplus
}
#endif
#endif
