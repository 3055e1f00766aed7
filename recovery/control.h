/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_CONTROL_H
#define LL_RECOVERY_CONTROL_H
/* The control block, and the witness after it (control.c). */
#include "util/env.h"

#define LL_CONTROL_COPY 4096u /* distance of the two copies in the file */
#define LL_CONTROL_BYTES 256u
#define LL_FORMAT_VERSION 1u
/* Features that every program must know to open the database. */
#define LL_FEATURE_HEURISTIC 1ull /* the log or a checkpoint has had heuristic outcomes */
/* The database is in use, and pages get their images when they are written. Redo of an
 * earlier version of the library would write pages without images. A clean close clears this
 * feature. */
#define LL_FEATURE_WRITE_BACK 2ull
#define LL_FEATURES_KNOWN (LL_FEATURE_HEURISTIC | LL_FEATURE_WRITE_BACK)
/* Features that a program must know to write, but not to read: none yet. */
#define LL_FEATURES_KNOWN_TO_WRITE 0ull

struct ll_control {
    uint32_t format;
    uint32_t page_size;
    uint64_t compatible, read_only_compatible, incompatible; /* feature bits */
    unsigned char uuid[16];
    uint64_t seq;
    uint64_t incarnation;
    lladd_lsn checkpoint; /* where analysis starts: A of the last checkpoint (checkpoint.c) */
    lladd_lsn redo;       /* where redo starts */
    lladd_lsn watermark;  /* the log was durable up to here when the block was written */
    lladd_lsn end;        /* end of the log, if clean */
    lladd_lsn segment;    /* if clean: first LSN of the segment that contains `end`, and the
                           * segment's size */
    uint64_t segment_bytes;
    bool clean;
    bool atomic_pages; /* LLADD_OPT_ATOMIC_PAGES was used since the start of redo */
    int64_t created_us;
    unsigned written_first; /* not stored: the copy, 0 or 1, that the next write begins with */
};

/* Writes both copies and syncs each copy. In a new file one sync covers both copies. */
int ll_control_write(const struct ll_env *, struct lladd_device *, struct lladd_file *,
                     struct ll_control *, struct lladd_error *);
/* Reads the newer valid copy. One copy may be damaged or unreadable. Fails with
 * LLADD_NOT_A_DATABASE, LLADD_NEWER_FORMAT, LLADD_CORRUPT_CONTROL or an I/O error. */
int ll_control_read(struct lladd_device *, struct lladd_file *, struct ll_control *,
                    struct lladd_error *);
/* Fails with LLADD_NEWER_FORMAT if the file has a feature without which this version must not
 * write. */
int ll_control_may_write(const struct ll_control *, struct lladd_error *);
void ll_control_encode(const struct ll_control *, unsigned char out[LL_CONTROL_BYTES]);
int ll_control_decode(const unsigned char in[LL_CONTROL_BYTES], struct ll_control *,
                      struct lladd_error *);

/* The witness: how far the log was durable when a page was written. All 0: unknown. */
struct ll_witness {
    lladd_lsn durable; /* the durable end of the log before the page was written */
    lladd_pageno page; /* number of the page */
    lladd_lsn page_lsn;
    bool room; /* the file is long enough for a witness */
};

#define LL_WITNESS_BYTES 64u
#define LL_CONTROL_FILE_BYTES (2u * LL_CONTROL_COPY + LL_WITNESS_BYTES)
/* False: the witness is damaged, or was never written. */
bool ll_witness_decode(const unsigned char in[LL_WITNESS_BYTES], uint32_t salt,
                       struct ll_witness *);
/* A witness that is damaged or cannot be read is all 0, apart from `room`. */
int ll_witness_read(struct lladd_device *, struct lladd_file *, uint32_t salt, struct ll_witness *,
                    struct lladd_error *);
/* Fails with LLADD_LOG_LOST if the witness says that the log was durable beyond `end`. */
int ll_witness_check(const struct ll_witness *, lladd_lsn end, struct lladd_error *);

#endif
