/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_TRACE_H
#define CRASH_TRACE_H
/*
 * The format of a trace, which says what a process did to its files. The entries follow one
 * another. Each consists of struct trace_head, the name, and the bytes. Open files have numbers,
 * which begin with 1 in every process.
 */
#include <stdint.h>

enum trace_kind {
    TRACE_CREATE = 1, /* name */
    TRACE_MKDIR,      /* name */
    TRACE_RENAME,     /* name: both names, each with its final 0 */
    TRACE_UNLINK,     /* name */
    TRACE_SYNC_DIR,   /* name */
    TRACE_OPEN,       /* name, file */
    TRACE_CLOSE,      /* file */
    TRACE_WRITE,      /* file, at, bytes */
    TRACE_TRUNCATE,   /* file, at: the size */
    TRACE_SYNC        /* file */
};

struct trace_head {
    uint32_t kind, name_len; /* name_len includes the final 0 */
    uint64_t file, at, len;
};

#endif
