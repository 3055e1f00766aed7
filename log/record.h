/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_RECORD_H
#define LL_LOG_RECORD_H
/* A log record in memory: callers that append fill it in, and readers return it. log_format.h
 * describes its bytes; only log/ and the tools need them. */
#include <lladd/types.h>

/* Kinds of records. The numbers are stored in the log and never reused. */
enum ll_record_kind {
    LL_REC_NONE = 0,
    LL_REC_UPDATE = 1,     /* page, op, redo; undo as the flags say */
    LL_REC_CLR = 2,        /* page, op; the member `undo` has the bytes that the operation's undo
                            * has applied to the page; undo_next */
    LL_REC_CLR_END = 3,    /* a logical compensation is complete; undo_next */
    LL_REC_UNDO_ONLY = 4,  /* op: logical undo bytes, no page (LLADD paper, section 2.4) */
    LL_REC_ACTION_END = 5, /* a nested top action ends: op (or 0), logical undo bytes, undo_next */
    LL_REC_COMMIT = 6,
    LL_REC_END = 7,          /* rollback complete */
    LL_REC_PREPARE = 8,      /* gid, time, owner; PREPARE_BLOB records precede it */
    LL_REC_PREPARE_BLOB = 9, /* the blob of one participant, or a piece of it */
    LL_REC_IMAGE = 10,       /* full page image: redo of the page can start here (BUF-5) */
    LL_REC_OBJECT = 11,      /* object class, object id, redo, undo */
    LL_REC_OBJECT_CLR = 12,  /* compensation of an object record; undo_next */
    LL_REC_CATALOGUE = 13,   /* gives a name of the catalogue its number */
    LL_REC_CHECKPOINT_BEGIN = 14,
    LL_REC_CHECKPOINT_DATA = 15,
    LL_REC_CHECKPOINT_END = 16,
    LL_REC_SEAL = 17,           /* appended by the log itself; states a watermark (LOG-3) */
    LL_REC_REDO_BARRIER = 18,   /* before an extent is written in bulk (BUF-6) */
    LL_REC_PIN = 19,            /* a named pin was set or removed */
    LL_REC_HEURISTIC = 20,      /* a heuristic abort, or the removal of a heuristic outcome
                                 * (lladd_heuristic_forget) */
    LL_REC_RELOCATED_UNDO = 21, /* reserved: undo copied forward for an old in-doubt transaction */
    LL_REC_NOTE = 22,           /* tagged payload of an extension, no redo, no undo */
    LL_REC_KINDS
};

/* Flags, stored with the record. */
enum {
    LL_REC_UNDO_PAGE = 1,    /* undo bytes are physical: same page, the operation's `undo` */
    LL_REC_UNDO_LOGICAL = 2, /* undo bytes are logical: the operation's `compensate` */
    LL_REC_FORMATS = 4,      /* redo starts from a zeroed page; page_prev is 0 */
    LL_REC_COMPRESSED = 8,   /* IMAGE: body is LZ4 */
    LL_REC_SYSTEM = 16       /* written by a system transaction */
};

struct ll_record {
    lladd_lsn lsn;       /* LSN of this record; set by the log */
    lladd_lsn prev;      /* previous record of the same transaction, 0 if first or none */
    lladd_lsn txn;       /* transaction id = LSN of its first record; equals lsn in that record;
                            0 for records of no transaction */
    lladd_lsn page_prev; /* page LSN before this record; 0 for FORMATS and images */
    lladd_lsn undo_next; /* CLR, CLR_END, OBJECT_CLR: where undo continues. ACTION_END: where undo
                            continues once the action is undone or skipped. 0: no record is left
                            to undo */
    uint64_t page;       /* page (or object) number below 2^48 - 1, or LLADD_NO_PAGE */
    uint32_t op;         /* number of the name in the catalogue, below 2^16; 0 if none */
    uint32_t depth;      /* number of top actions and compensations around the record (REC-5) */
    uint8_t kind;        /* enum ll_record_kind */
    uint8_t flags;
    uint32_t size;          /* size with header and padding; set by the log; the next record begins
                             * at lsn + size */
    struct lladd_span redo; /* redo bytes, or the payload of a kind without redo and undo */
    struct lladd_span undo;
};

/* The chain of records of one transaction; each record refers to the one before it. ll_log_append
 * updates the chain by relaxed atomic stores, after the record has its LSN and before it publishes
 * the record. A thread that sees the record therefore sees a chain that includes it (checkpoints
 * rely on this). */
struct ll_chain {
    lladd_lsn id;        /* LSN of the first record: the transaction's id; 0: no record */
    lladd_lsn last;      /* last record */
    lladd_lsn undo_next; /* the record with which a rollback begins */
};

#endif
