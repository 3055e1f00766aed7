/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contract_subject: takes samples from a subject's workload, and checks the operations on them.
 *
 * The workload runs on a database in memory. A pin keeps the whole log, from which the samples are
 * taken. The simulator only notes which callback was called last, and reports endless waits.
 */
#include "sim/contract_private.h"
#include "sim/sim_private.h"

#include <lladd/device.h>

struct session {
    struct lladd_sim *sim;
    struct lladd_device *device;
    /* The disk of the store. Unlike `device`, it has no mutex: in the lock order, the mutex of an
     * archive's store comes after that of a device. */
    struct ll_sim_run disk;
    struct lladd_options options;
    struct lladd_archive *unused; /* an archive that belongs to the simulator's options, which open
                                   * no database here */
    struct lladd_db *db;
    bool full; /* the workload found no space in its log, all of which is kept */
    struct lladd_sim_samples samples;
};

static int begin(struct session *s, const struct lladd_sim_subject *subject,
                 struct lladd_error *err)
{
    int rc = ll_sim_new(subject, NULL, &s->sim, err);
    if (rc)
        return rc;
    s->sim->in_memory = true;
    s->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    if (subject->configure)
        rc = subject->configure(subject->ctx, &s->options, err);
    if (!rc && (rc = lladd_device_memory(&s->device)) != 0)
        return lladd_error_set(err, rc, "no memory for a database");
    if (rc)
        return rc;
    s->unused = s->sim->store.archive;
    rc = ll_sim_store_begin(s->sim, &s->options, &s->sim->store.archive, err);
    if (rc)
        return rc;
    rc = ll_sim_run_init(s->sim, &s->disk, &s->sim->base, 0, NULL, NULL);
    if (rc)
        return rc;
    ll_sim_store_place(s->sim, &s->disk.face);
    s->options.device = s->device;
    s->options.flags |= LLADD_OPT_NO_THREADS | LLADD_OPT_ATOMIC_PAGES;
    s->options.frames = LLADD_FRAMES_HEAP;
    return lladd_open(NULL, &s->options, &s->db, err);
}

/* Keeps the log from its first record on, so that checkpoints of the workload truncate nothing. */
static int pin(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry first;
    int rc = lladd_log_open(db, lladd_lsn_of(0), NULL, &cursor, err);
    if (rc)
        return rc;
    rc = lladd_log_next(cursor, &first, err);
    lladd_log_close(cursor);
    return rc ? rc : lladd_pin_set(db, "contract", first.lsn, err);
}

/* Reports which part of the subject has failed, and why. An endless wait is reported even if the
 * subject has ignored the error that it got. */
static int judge(struct session *s, const char *what, int rc, struct lladd_error *err)
{
    struct lladd_error own = err ? *err : (struct lladd_error)LLADD_ERROR_INIT;
    const struct ll_sim_verdict *v = &s->sim->violation;
    if (v->oracle)
        return lladd_error_set(err, rc ? rc : LLADD_DEADLOCK, "its %s does not end: %s: %s", what,
                               lladd_sim_oracle_name(v->oracle), v->message);
    if (!rc)
        return 0;
    const char *name = lladd_code_name(rc), *why = ll_sim_explain(s->sim, s->db, rc, &own);
    return lladd_error_set(err, rc, "its %s failed: %s: %s", what, name ? name : "error", why);
}

static int set_up_and_run(struct session *s, const struct lladd_sim_subject *subject,
                          struct lladd_error *err)
{
    int rc = pin(s->db, err);
    if (!rc && subject->setup) {
        rc = subject->setup(subject->ctx, s->db, err);
        if (!rc) /* LSN 0 needs no wait. The call fails if the setup has left a page fixed. */
            rc = lladd_wait_durable(s->db, lladd_lsn_of(0), err);
        rc = judge(s, "setup", rc, err);
    }
    if (rc)
        return rc;
    rc = ll_sim_subject_run(s->sim, s->db, err);
    /* A workload with a log limit may need that a checkpoint frees log, which the pin prevents. The
     * log then has the samples up to this point, which are enough. */
    s->full = rc == LLADD_LOG_FULL && s->options.log_limit_bytes;
    return judge(s, "workload", s->full ? 0 : rc, err);
}

/* lladd_sim_collect reads only the durable log. This commit makes earlier records durable. */
static int make_durable(struct session *s, struct lladd_error *err)
{
    struct lladd_txn *last;
    int rc = lladd_begin(s->db, NULL, &last, err);
    if (rc)
        return judge(s, "workload", rc, err);
    rc = lladd_log_note(last, "contract", lladd_span_of("", 0), NULL);
    if (!rc)
        rc = lladd_commit(last);
    return rc ? lladd_error_set(err, rc, "%s", lladd_txn_error(last)->message) : 0;
}

static int collect(struct session *s, const struct lladd_sim_subject *subject,
                   struct lladd_error *err)
{
    s->sim->dst.scarce = false;
    struct lladd_dst *before = lladd_dst_enter(&s->sim->dst);
    int rc = set_up_and_run(s, subject, err);
    (void)lladd_dst_enter(before);
    if (!rc && !s->full)
        rc = make_durable(s, err);
    return rc ? rc : lladd_sim_collect(s->db, &s->samples, err);
}

int lladd_sim_contract_subject(const struct lladd_sim_subject *subject,
                               const struct lladd_sim_contract *given,
                               struct lladd_sim_contract_report **out, struct lladd_error *err)
{
    struct session s = {.sim = NULL};
    struct lladd_sim_contract in = LLADD_SIM_CONTRACT_INIT;
    *out = NULL;
    if (given && given->struct_size == sizeof in) {
        in.rounds = given->rounds;
        in.seed = given->seed;
        in.limit_ms = given->limit_ms;
    }
    int rc = begin(&s, subject, err);
    if (!rc)
        rc = collect(&s, subject, err);
    if (!rc) {
        in.page_size = lladd_page_size(s.db);
        in.samples = s.samples.at;
        in.n_samples = s.samples.count;
        rc = lladd_sim_contract_check(&in, out, err);
    }
    lladd_sim_samples_free(&s.samples);
    if (s.db)
        lladd_db_kill(s.db);
    lladd_options_release(&s.options);
    if (s.device)
        lladd_device_close(s.device);
    if (s.sim)
        ll_sim_free(s.sim);
    lladd_archive_free(s.unused);
    return rc;
}
