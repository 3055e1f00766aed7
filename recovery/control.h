/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_CONTROL_H
#define LL_RECOVERY_CONTROL_H
/* The control block, and the witness after it (control.c). */
#include "util/env.h"

#define LL_CONTROL_COPY 4096u /* distance of the two copies in the file */
#define LL_CONTROL_BYTES 256u
#define LL_FORMAT_VERSION 1u
/* Features that a reader must know. */
#define LL_FEATURE_HEURISTIC 1ull /* heuristic outcomes are, or were, in log and checkpoints */
#define LL_FEATURES_KNOWN LL_FEATURE_HEURISTIC
/* Features that a reader may ignore and a writer must know: there is none yet. */
#define LL_FEATURES_KNOWN_TO_WRITE 0ull

struct ll_control {
    uint32_t format;
    uint32_t page_size;
    uint64_t compatible, read_only_compatible, incompatible; /* feature bits */
    unsigned char uuid[16];
    uint64_t seq;
    uint64_t incarnation;
    lladd_lsn checkpoint; /* of the last complete one's begin record */
    lladd_lsn redo;       /* where its redo starts */
    lladd_lsn watermark;  /* log durable up to here when the block was written */
    lladd_lsn end;        /* end of the log, if clean */
    lladd_lsn segment;    /* if clean: the segment that holds `end`, and its size */
    uint64_t segment_bytes;
    bool clean;
    bool atomic_pages; /* LLADD_OPT_ATOMIC_PAGES was used since the checkpoint, or by it */
    int64_t created_us;
};

/* 0 or the root's errors; writes both copies, each synced. */
int ll_control_write(const struct ll_env *, struct lladd_device *, struct lladd_file *,
                     struct ll_control *, struct lladd_error *);
/* The newer good copy. LLADD_NOT_A_DATABASE, LLADD_NEWER_FORMAT, LLADD_CORRUPT_CONTROL. */
int ll_control_read(struct lladd_device *, struct lladd_file *, struct ll_control *,
                    struct lladd_error *);
/* LLADD_NEWER_FORMAT: there is a feature that a writer must know, and this version does not. */
int ll_control_may_write(const struct ll_control *, struct lladd_error *);
void ll_control_encode(const struct ll_control *, unsigned char out[LL_CONTROL_BYTES]);
int ll_control_decode(const unsigned char in[LL_CONTROL_BYTES], struct ll_control *,
                      struct lladd_error *);

/* The witness: what a page that was written says about the log. All 0: nothing. */
struct ll_witness {
    lladd_lsn durable; /* everything below was durable ... */
    lladd_pageno page; /* ... when this page was written ... */
    lladd_lsn page_lsn;
    bool room; /* the file is long enough to say so */
};

#define LL_WITNESS_BYTES 64u
#define LL_CONTROL_FILE_BYTES (2u * LL_CONTROL_COPY + LL_WITNESS_BYTES)
/* False: it is damaged, or none. */
bool ll_witness_decode(const unsigned char in[LL_WITNESS_BYTES], uint32_t salt,
                       struct ll_witness *);
int ll_witness_read(struct lladd_device *, struct lladd_file *, uint32_t salt, struct ll_witness *,
                    struct lladd_error *);
/* Not synced. 0 or a negative errno. */
int ll_witness_write(const struct ll_env *, struct lladd_device *, struct lladd_file *,
                     uint32_t salt, const struct ll_witness *);
/* LLADD_LOG_LOST if the log, which ends at `end`, has lost a part that was durable. */
int ll_witness_check(const struct ll_witness *, lladd_lsn end, struct lladd_error *);

#endif
