/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_INSPECT_PRIVATE_H
#define LLADD_INSPECT_PRIVATE_H
/* Declarations that the files of inspection share; inspect.c describes how they work together. */
#include "recovery/analysis.h"
#include "recovery/core.h"
#include "recovery/registry.h"
#include "util/hashmap.h"
#include "util/vec.h"

#include <lladd/inspect.h>

/* A transaction that has not ended in the part of the log read so far. */
struct ll_inspect_txn {
    struct lladd_inspect_txn seen;
    bool row;           /* the checkpoint's transaction table contains the transaction */
    bool doubt_known;   /* the transaction's prepare record was read */
    uint64_t log_bytes; /* bytes of its scanned records, plus the undo reserve in its row. The sum
                         * estimates how much undo reads */
};

struct ll_inspect_file {
    char *name; /* freed with the view */
    uint64_t bytes;
};

/* An allocation bitmap as recovery would leave it before undo. */
struct ll_inspect_map {
    unsigned char *bytes;
    bool bad; /* the bitmap is damaged in the file, and not rebuilt by redo; `bytes` are zeros */
};

/* The pages of one pass over the log: those with numbers [first, end). */
struct ll_inspect_part {
    struct ll_hashmap pages;
    uint64_t first, end; /* end UINT64_MAX: this is the last part, as far as known */
    size_t most;         /* maximum number of pages that fit */
};

struct lladd_inspect {
    struct ll_core core; /* never opened: env, device, poison, control block, catalogue, redo
                          * barriers, pins and heuristic outcomes */
    bool own_device;
    uint64_t memory;            /* limit in bytes for data about pages of the log */
    lladd_progress_fn *opening; /* `progress` of the options; nullable */
    void *opening_ctx;
    lladd_inspect_progress_fn *progress; /* nullable */
    void *progress_ctx;
    struct lladd_registry registry; /* built-in descriptors, and those of the options; the view
                                     * frees `items` */
    bool mutexes;                   /* core.misc is initialised */
    bool catalogue;                 /* the catalogue is initialised */
    struct lladd_error control_error[2];
    struct lladd_file *page_file;  /* NULL: missing */
    struct lladd_error page_error; /* why the page file is missing */
    struct ll_log *log;            /* NULL: cannot be opened */
    struct lladd_error log_error;  /* why the log cannot be opened, or the damage in it; code 0: no
                                    * error */
    bool scanned;                  /* the log was read to its end without damage */
    uint64_t known_end;            /* the highest known end of a record; 0: unknown */
    uint64_t checkpoint_pages;     /* number of pages in the page file when the checkpoint was
                                    * taken */
    struct lladd_inspect_info info;
    char end_text[320];
    struct ll_vec files;    /* struct ll_inspect_file */
    struct ll_vec txns;     /* struct ll_inspect_txn, oldest first */
    struct ll_hashmap maps; /* page number of an allocation bitmap -> struct ll_inspect_map * */
    bool maps_redone;
    unsigned char *page; /* bytes of the page that was read last */
};

/* inspect.c */
/* Takes the view again. After an error the view can only be closed. */
int ll_inspect_again(struct lladd_inspect *, struct lladd_error *);
/* For a database in use: the oldest LSN that its log has now; 0 if that is unknown. */
lladd_lsn ll_inspect_oldest_now(struct lladd_inspect *);
/* The name of an operation's page type, registered or learned from the log; NULL: none. */
const char *ll_inspect_page_type(struct lladd_inspect *, const struct ll_name *);

/* Opens the log of a control block for reading. With `lenient`, opens as much of the log as can be
 * read; without it, fails where recovery would fail. */
int ll_inspect_open_log(struct lladd_inspect *, const struct ll_control *, bool lenient,
                        struct ll_log **out, struct lladd_error *);

/* part.c */
/* Initialises a part. Its pages may take at most `memory` bytes; each page takes `each` bytes
 * besides its slot in the map. */
void ll_part_init(struct ll_inspect_part *, const struct ll_env *, uint64_t memory, size_t each);
void ll_part_free(struct ll_inspect_part *);
static inline bool ll_part_has(const struct ll_inspect_part *p, uint64_t page)
{
    return page >= p->first && page < p->end;
}
typedef void ll_part_dropped(void *ctx, uint64_t value);
/* Called before a page is put into the map. If the map is full, drops the pages with the highest
 * numbers, and passes each dropped page to fn (nullable). False: the new page is not in this part
 * any more. */
bool ll_part_make_room(struct ll_inspect_part *, uint64_t page, ll_part_dropped *, void *ctx);
/* Begins the next part, with an empty map. False: the last part is done. */
bool ll_part_next(struct ll_inspect_part *);

/* open.c */
/* Takes the first steps of an open, for a database that is not in use. Returns 0, the error with
 * which the next open would fail, or LLADD_NO_MEMORY. */
int ll_inspect_try_open(struct lladd_inspect *, struct lladd_error *);

/* log.c */
/* Reads the log from the checkpoint to the end of the log, and collects the catalogue,
 * transactions, redo barriers, pins, and the amount of redo. Damage is noted in the view; only a
 * lack of memory is an error. */
int ll_inspect_survey(struct lladd_inspect *, struct lladd_error *);
/* Passes every record to fn, from the first record at or after `from` on. Returns 0 at the end of
 * the log; stops if fn returns another value than 0, and returns that value. */
typedef int ll_inspect_visit(void *ctx, const struct ll_record *);
int ll_inspect_walk(struct lladd_inspect *, lladd_lsn from, ll_inspect_visit *, void *ctx,
                    struct lladd_error *);
/* The transaction of this id if it has not ended. */
const struct ll_inspect_txn *ll_inspect_txn_of(const struct lladd_inspect *, lladd_lsn id);

/* page.c */
/* Reads page n into bytes. Returns 0, LLADD_OUT_OF_RANGE, LLADD_READ_FAILED, or the error that says
 * why there is no page file. */
int ll_inspect_read_page(struct lladd_inspect *, uint64_t n, unsigned char *bytes,
                         struct lladd_error *);
/* Reads the copy of page n from which recovery will restore the page after a torn write. False: the
 * double-write area has no good copy. */
bool ll_inspect_area_page(struct lladd_inspect *, uint64_t n, unsigned char *bytes);
/* Checks a page with its own bytes, the catalogue and the log's end. Returns 0, or a code with the
 * damage in the error. */
int ll_inspect_judge_page(struct lladd_inspect *, lladd_pageno, const unsigned char *bytes,
                          struct lladd_error *);
/* Finds the use of the page; *known is false if its allocation bitmap cannot be read. The only
 * error is LLADD_NO_MEMORY. */
int ll_inspect_use(struct lladd_inspect *, lladd_pageno, enum lladd_page_use *, bool *known,
                   struct lladd_error *);
void ll_inspect_free_maps(struct lladd_inspect *);

/* ---- verify (verify.c, verify_log.c) ---------------------------------------- */

#define LL_VERIFY_NO_OFFSET UINT64_MAX

/* The data that the log has about a page. */
struct ll_verify_history {
    uint64_t base;        /* LSN of the newest image or format record; 0: the log has none */
    uint64_t last;        /* LSN of the newest record */
    uint64_t first;       /* LSN of the page's first record that redo reads; 0: none */
    uint64_t first_prev;  /* the page LSN that this record expects */
    bool first_is_base;   /* this record is an image or a format record */
    bool given_up;        /* the page was freed after `last`, so it may be older on disk */
    bool given_up_before; /* value of `given_up` before the newest `lladd.map.free` of the page, in
                           * case that record is undone */
};

struct ll_verify_barrier {
    uint64_t first, n, lsn, txn;
};

struct ll_verify {
    struct lladd_inspect *v;
    lladd_finding_fn *fn;
    void *ctx;
    struct lladd_verified *out;
    struct lladd_error *err;
    struct ll_inspect_part part; /* page -> index into histories */
    struct ll_vec histories;
    struct ll_vec unused;   /* size_t: free entries of `histories` */
    unsigned pass;          /* 0: the first pass, which also checks everything that does not concern
                            * single pages */
    bool log_whole_before;  /* log_whole when the first pass over the records began */
    uint64_t seen;          /* records read in this pass */
    struct ll_hashmap told; /* LSNs of records that were reported because they do not follow the
                             * page's previous record. Later passes read these records, and must not
                             * report them a second time */
    struct ll_hashmap txns; /* id -> LSN of its last record */
    struct ll_vec barriers; /* all redo barriers of the log, oldest first */
    unsigned char *blank;   /* a bit for each page of the file: it was taken, and the log has no
                             * record or redo barrier of it since */
    uint64_t blank_pages;   /* number of bits */
    struct ll_log_cursor *cursor; /* reads single records */
    bool log_whole;               /* the log has no damage so far */
    uint64_t log_begins;          /* LSN of the first record that can be read; 0: no record was read
                                   * yet */
    uint64_t hidden;              /* the oldest LSN before log_begins to which a record refers: the
                                   * record at that LSN is lost; 0: none */
};

/* These functions pass a finding to the caller's callback. If the result is not 0, stop and return
 * it. */
int ll_verify_tell(struct ll_verify *, struct lladd_finding);
int ll_verify_tell_file(struct ll_verify *, enum lladd_finding_kind, int code, const char *file,
                        uint64_t offset, const char *message);
int ll_verify_tell_lsn(struct ll_verify *, enum lladd_finding_kind, int code, uint64_t lsn,
                       const char *message);
int ll_verify_no_memory(struct ll_verify *);
int ll_verify_log(struct ll_verify *);
/* Reads the log again, for the next part of the pages. */
int ll_verify_log_again(struct ll_verify *);
void ll_verify_progress(const struct ll_verify *, const char *what, uint64_t done, uint64_t all);
/* The data about a page; NULL: the log has no record about it. */
struct ll_verify_history *ll_verify_history_of(const struct ll_verify *, uint64_t page);
/* Does the page have no contents, because it was taken and not formatted yet (BUF-5)? */
bool ll_verify_is_blank(const struct ll_verify *, uint64_t page);
/* The newest redo barrier that covers a page, at or below `to`; NULL: none. */
const struct ll_verify_barrier *ll_verify_barrier_of(const struct ll_verify *, uint64_t page,
                                                     uint64_t to);

#endif
