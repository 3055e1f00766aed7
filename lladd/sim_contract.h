/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SIM_CONTRACT_H
#define LLADD_SIM_CONTRACT_H
/**
 * @file
 * @brief Contract checks: they test whether an operation keeps the promises on which recovery
 * relies.
 *
 * The checks need no workload and no crash, only samples: a page and an update of it. Each
 * operation runs on a copy of the page between inaccessible memory pages, in a child process with a
 * time limit. So an operation that crashes, loops or writes outside its page does no harm, and the
 * report names it. sim/README.md says for which crash each promise is needed.
 * @ingroup sim
 */
#include <lladd/lladd.h>
#include <lladd/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/** X(name, "name", "what went wrong if the check fails"). */
#define LLADD_SIM_CHECKS(X) \
    X(ONE_PAGE, "one-page", "a callback touches memory outside its page and its bytes") \
    X(ACCEPTS, "accepts", "prepare or validate refuses a sample, or the sample's page is invalid") \
    X(PURE, "pure", "redo or undo depends on more than the page and the bytes") \
    X(HEADER, "header", "redo or undo changes the page header") \
    X(INVARIANT, "invariant", "check does not hold after redo or undo") \
    X(RESTORES, "restores", "undo does not reverse redo") \
    X(PREFIXES, "prefixes", "undo does not reverse a prefix of several records") \
    X(INTERLEAVED, "interleaved", "undo is wrong when others have changed the page since") \
    X(ABSENT, "absent", "undo of a change that was not applied changes something") \
    X(TWICE, "twice", "undo applied twice differs from undo applied once") \
    X(FIELDS, "fields", "the field layout does not describe the bytes exactly") \
    X(HOSTILE, "hostile", "bytes that validate accepts lead a callback outside its page") \
    X(ENDS, "ends", "a callback does not return") \
    X(SURVIVES, "survives", "a callback crashes")

enum lladd_sim_check {
#define LLADD_SIM_CHECK_ENUM(name, text, what) LLADD_SIM_C_##name,
    LLADD_SIM_CHECKS(LLADD_SIM_CHECK_ENUM)
#undef LLADD_SIM_CHECK_ENUM
        LLADD_SIM_CHECKS_COUNT
};
/** Returns the name of a check, for example "one-page"; never NULL. */
LLADD_API const char *lladd_sim_check_name(enum lladd_sim_check);

/** A page and an update of the page. Set members that you do not know to zero. */
struct lladd_sim_sample {
    const struct lladd_op *op;
    const struct lladd_page_type *type; /**< type of the page after the update; the checks use its
                                             `hole`, `check` and `mask` */
    const void *page; /**< the page before the update: `page_size` bytes including the header; NULL:
                           zeros */
    uint64_t number;  /**< number of the page */
    struct lladd_span args; /**< for `prepare`, or the redo bytes if the operation has no `prepare`.
                                 Ignored if `redo` is not NULL */
    struct lladd_span redo, undo; /**< as logged. NULL: the check makes them from `args` */
    /** The transaction of the sample; 0: none, and the check `interleaved` leaves the sample out.
     *  Successive samples of one page form a history: each sample finds the page as the previous
     *  one left it. Transactions that have not ended may be rolled back in any order. */
    uint64_t owner;
    size_t ended; /**< index of the first sample after the end of transaction `owner`; 0: this
                       transaction has not ended */
};

/** A logical undo, for the checks `absent` and `twice` (lladd_log_undo_only). */
struct lladd_sim_undo {
    const char *op; /**< name of an operation of undo kind LOGICAL */
    struct lladd_span undo;
    /** Makes the changes that `undo` undoes, in a transaction that will commit. */
    int (*effect)(void *ctx, struct lladd_txn *);
};

/** The input of the checks. Initialise with LLADD_SIM_CONTRACT_INIT; zero means the default. */
struct lladd_sim_contract {
    size_t struct_size;
    uint32_t page_size; /**< default 4096 */
    uint32_t rounds;    /**< number of damaged records, and of damaged pages, that are tried for
                             each sample. Default 300 */
    uint64_t seed;      /**< seed of the damage. Default 1 */
    uint32_t limit_ms;  /**< limit of the processor time of one callback. Default 500 */
    const struct lladd_sim_sample *samples;
    size_t n_samples;
    /* For logical undos, which the checks run on a database in memory: */
    const struct lladd_sim_undo *undos;
    size_t n_undos;
    void *ctx; /**< given to the functions below and to `effect` */
    int (*configure)(void *ctx, struct lladd_options *, struct lladd_error *);
    int (*setup)(void *ctx, struct lladd_db *, struct lladd_error *); /**< nullable */
    /** Writes the contents of the database; equal contents must give equal bytes. */
    int (*dump)(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
};
#define LLADD_SIM_CONTRACT_INIT_SIZE sizeof(struct lladd_sim_contract)
#define LLADD_SIM_CONTRACT_INIT LLADD_SIZED_INIT(lladd_sim_contract)

enum lladd_sim_result {
    LLADD_SIM_NOT_APPLICABLE =
        0, /**< the operation makes no such promise, or no sample could test it */
    LLADD_SIM_KEPT = 1,
    LLADD_SIM_BROKEN = 2
};

/** The results for one operation. */
struct lladd_sim_kept {
    char op[64];
    uint32_t version;
    enum lladd_sim_result result[LLADD_SIM_CHECKS_COUNT];
    uint64_t runs[LLADD_SIM_CHECKS_COUNT];     /**< number of times each check ran */
    char message[LLADD_SIM_CHECKS_COUNT][160]; /**< the first violation, one line; or "" */
};

struct lladd_sim_contract_report {
    size_t struct_size;
    uint32_t n_verdicts;
    uint32_t broken; /**< number of broken promises of all operations */
    uint64_t nanoseconds;
    const struct lladd_sim_kept *verdicts;
};

/** Checks every operation that has a sample. Returns 0 if the checks could run; (*out)->broken is
 *  the number of broken promises. After an error (bad input, no memory, no child process) *out is
 *  NULL. The callbacks run in child processes, so the caller's memory does not change. */
LLADD_API int lladd_sim_contract_check(const struct lladd_sim_contract *,
                                       struct lladd_sim_contract_report **out,
                                       struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_contract_free(struct lladd_sim_contract_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_contract_text(const struct lladd_sim_contract_report *,
                                      struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_contract_json(const struct lladd_sim_contract_report *,
                                      struct lladd_sink *);

/** Samples from the log of a database: every durable update, with the page before the update. */
struct lladd_sim_samples {
    struct lladd_sim_sample *at;
    size_t count;
    void *private_;
};
/** Makes samples. The log must reach back to the creation of the database: use a new one, created
 *  with LLADD_OPT_ATOMIC_PAGES, with a pin (lladd_pin_set) if checkpoints are taken. From its first
 *  image on, a page gives no samples until it is formatted again. Free the samples with
 *  lladd_sim_samples_free. */
LLADD_API int lladd_sim_collect(struct lladd_db *, struct lladd_sim_samples *out,
                                struct lladd_error *);
/** Frees samples of lladd_sim_collect. */
LLADD_API void lladd_sim_samples_free(struct lladd_sim_samples *);

struct lladd_sim_subject;

/** Runs a subject's workload (sim.h) on a database in memory, and checks every operation that the
 *  workload used, with samples from its log. Only `rounds`, `seed` and `limit_ms` of `given`
 *  (nullable) are used. The database keeps its whole log. So if `configure` sets log_limit_bytes,
 *  the workload may return LLADD_LOG_FULL, which is no failure here: the samples come from the
 *  records that were durable by then. */
LLADD_API int lladd_sim_contract_subject(const struct lladd_sim_subject *,
                                         const struct lladd_sim_contract *given,
                                         struct lladd_sim_contract_report **out,
                                         struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
