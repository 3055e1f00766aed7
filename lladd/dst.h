/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DST_H
#define LLADD_DST_H
/**
 * @file
 * @brief What the instrumented build of the library, `lladd_dst`, has besides: it tells what it
 * does.
 *
 * `lladd_dst` is made of the same sources as `lladd` with LLADD_DST defined, and is linked instead
 * of it by who simulates: the recovery simulator, and who tests an extension with it. In `lladd`
 * every macro of this header compiles to nothing, and the functions do not exist.
 *
 * A `struct lladd_dst` belongs to the OS thread that has entered it, and everything that thread
 * then does with any database is seen by it. A thread that has entered none, which is how every
 * thread begins, also one that the library started, is not watched: the library does what `lladd`
 * does.
 * @ingroup sim
 */
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- events ------------------------------------------------------------------------------ */

/** What a step of the library was. In brackets: which members say more; the others say nothing. */
enum lladd_dst_what {
    /** Recovery enters a phase (detail: enum lladd_dst_phase). */
    LLADD_DST_PHASE = 1,
    /** An update was logged and applied (op, lsn, txn, page, depth). */
    LLADD_DST_APPLY,
    /** Recovery or repair has met an update (op, lsn, txn, page, depth, detail: enum
     *  lladd_dst_found). */
    LLADD_DST_REDO,
    LLADD_DST_REDO_CLR,   /**< the same of a compensation record */
    LLADD_DST_REDO_IMAGE, /**< the same of a page image; no op */
    /** A page undo was applied and its CLR logged (op, lsn: of what was undone, txn, page, depth).
     *  depth > 0: inside a top action or a compensation that was never finished. */
    LLADD_DST_UNDO,
    /** A logical undo begins (op, lsn: of what is undone, txn, depth: of that). */
    LLADD_DST_COMPENSATE_BEGIN,
    LLADD_DST_COMPENSATE_END, /**< it has succeeded, its CLR is logged; as above */
    LLADD_DST_COMMIT,         /**< a commit record has its LSN (lsn, txn) */
    LLADD_DST_END,            /**< the record that ends a rollback has its LSN (lsn, txn) */
    /** A call is about to say: durable (lsn: of the record that has to be, durable). */
    LLADD_DST_ACKNOWLEDGE,
    /** A page goes to the page file, or to the double-write area first (lsn: the page's, page,
     *  durable). lsn >= durable breaks the rule of the write-ahead log. */
    LLADD_DST_PAGE_WRITE,
    /** One is complete (lsn: where analysis begins, detail: bytes of log that redo would read
     *  now). */
    LLADD_DST_CHECKPOINT
};

/** Phases of an open, in this order; those with nothing to do are left out. */
enum lladd_dst_phase {
    LLADD_DST_ANALYSIS = 1,
    LLADD_DST_LOG_START,    /**< the accepted tail is forced, the new segment begins */
    LLADD_DST_DOUBLE_WRITE, /**< torn pages come back from the double-write area */
    LLADD_DST_REDO_PAGES,
    LLADD_DST_REDO_OBJECTS,
    LLADD_DST_IN_DOUBT,
    LLADD_DST_UNDO_LOSERS,
    LLADD_DST_CHECK,
    LLADD_DST_RECOVERED
};

/** In which state redo found the page of a record. */
enum lladd_dst_found {
    LLADD_DST_STALE = 1, /**< as the record had found it: applied */
    LLADD_DST_FRESH,     /**< the record gives the page its first contents: applied */
    LLADD_DST_PRESENT,   /**< with the record's effect already: left alone */
    LLADD_DST_BASELESS,  /**< torn or never written, and no image or format met yet: left alone */
    LLADD_DST_REFUSED    /**< an error: the page is neither, or the bytes do not fit it */
};

struct lladd_dst_event {
    enum lladd_dst_what what;
    uint32_t op_version;
    const char *op; /**< name of the operation; lives as long as the handle */
    lladd_lsn lsn;
    lladd_lsn txn;
    lladd_lsn durable; /**< everything below it is on stable storage, as far as the log knows */
    uint64_t page;
    uint64_t detail;
    uint32_t depth;
};

/* ---- the watcher ------------------------------------------------------------------------- */

/** Zeroed means: nothing is watched, nothing is different. */
struct lladd_dst {
    void *ctx; /**< given to the functions below */
    /** Nullable. Called with latches held, perhaps; must not call the library. */
    void (*observe)(void *ctx, const struct lladd_dst_event *);
};

#ifdef LLADD_DST
/** The calling thread's; use lladd_dst_current. */
extern __thread struct lladd_dst *lladd_dst_entered;
#endif

/** Makes it the calling thread's; NULL leaves. It must live until the thread has entered another.
 *  Returns the one that was. */
LLADD_API struct lladd_dst *lladd_dst_enter(struct lladd_dst *);
/** The calling thread's, or NULL. */
LLADD_API struct lladd_dst *lladd_dst_current(void);

/* ---- inside the library (and in extensions, if they like) -------------------------------- */

/** LLADD_OBSERVE(.what = ..., .lsn = ...): members as of an initializer, evaluated only if somebody
 *  watches. C only. */
#ifdef LLADD_DST
#define LLADD_OBSERVE(...) \
    do { \
        if (lladd_dst_entered && lladd_dst_entered->observe) { \
            const struct lladd_dst_event lladd_event = {__VA_ARGS__}; \
            lladd_dst_entered->observe(lladd_dst_entered->ctx, &lladd_event); \
        } \
    } while (0)
#else
#define LLADD_OBSERVE(...) \
    do { \
        if (0) { \
            const struct lladd_dst_event lladd_event = {__VA_ARGS__}; \
            (void)lladd_event; \
        } \
    } while (0)
#endif

#ifdef __cplusplus
}
#endif
#endif
