/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_TRACE_H
#define CRASH_TRACE_H
/*
 * What a process did to its files, in a file of its own: one entry behind the other, each of this
 * head, then the name, then the bytes. Files that are open go by numbers, which begin with 1 in
 * every process.
 */
#include <stdint.h>

enum trace_kind {
    TRACE_CREATE = 1, /* name */
    TRACE_MKDIR,      /* name */
    TRACE_RENAME,     /* name: both, each with its final 0 */
    TRACE_UNLINK,     /* name */
    TRACE_SYNC_DIR,   /* name */
    TRACE_OPEN,       /* name, file */
    TRACE_CLOSE,      /* file */
    TRACE_WRITE,      /* file, at, bytes */
    TRACE_TRUNCATE,   /* file, at: the size */
    TRACE_SYNC        /* file */
};

struct trace_head {
    uint32_t kind, name_len; /* name_len with the final 0 */
    uint64_t file, at, len;
};

#endif
