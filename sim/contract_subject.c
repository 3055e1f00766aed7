/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contract_subject: takes samples from a subject's workload.
 *
 * The workload runs on an ordinary database in memory, and its log is pinned from the beginning.
 * The simulator exists only because the workload expects one as an argument.
 */
#include "sim/contract_private.h"
#include "sim/sim_private.h"

#include <lladd/device.h>

struct session {
    struct lladd_sim *sim;
    struct lladd_device *device;
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_sim_samples samples;
};

static int begin(struct session *s, const struct lladd_sim_subject *subject,
                 struct lladd_error *err)
{
    int rc = ll_sim_new(subject, NULL, &s->sim, err);
    if (rc)
        return rc;
    s->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    if (subject->configure)
        rc = subject->configure(subject->ctx, &s->options, err);
    if (!rc && (rc = lladd_device_memory(&s->device)) != 0)
        return lladd_error_set(err, rc, "no memory for a database");
    if (rc)
        return rc;
    s->options.device = s->device;
    s->options.flags |= LLADD_OPT_NO_THREADS | LLADD_OPT_ATOMIC_PAGES;
    s->options.frames = LLADD_FRAMES_HEAP;
    return lladd_open(NULL, &s->options, &s->db, err);
}

/* Keeps the log from its first record on, whatever checkpoints the workload takes. */
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

static int collect(struct session *s, const struct lladd_sim_subject *subject,
                   struct lladd_error *err)
{
    struct lladd_txn *last;
    int rc = pin(s->db, err);
    if (!rc && subject->setup)
        rc = subject->setup(subject->ctx, s->db, err);
    if (!rc)
        rc = ll_sim_subject_run(s->sim, s->db, err);
    if (!rc)
        rc = lladd_begin(s->db, NULL, &last, err);
    if (rc)
        return rc;
    /* Only the durable part of the log can be read. */
    rc = lladd_log_note(last, "contract", lladd_span_of("", 0), NULL);
    if (!rc)
        rc = lladd_commit(last);
    if (rc)
        return lladd_error_set(err, rc, "%s", lladd_txn_error(last)->message);
    return lladd_sim_collect(s->db, &s->samples, err);
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
        rc = lladd_sim_contract(&in, out, err);
    }
    lladd_sim_samples_free(&s.samples);
    if (s.db)
        lladd_kill(s.db);
    lladd_options_release(&s.options);
    if (s.device)
        lladd_device_close(s.device);
    if (s.sim)
        ll_sim_free(s.sim);
    return rc;
}
