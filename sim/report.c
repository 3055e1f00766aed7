/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report: the results of an exploration, as text and as JSON.
 */
#include "sim/sim_private.h"

#include <stdlib.h>

const char *lladd_sim_path_name(enum lladd_sim_path path)
{
    static const char *const names[LLADD_SIM_PATHS] = {
        "redo", "undo", "undo-partial", "redo-clr", "crash-1", "crash-2", "crash-3"};
    return (unsigned)path < LLADD_SIM_PATHS ? names[path] : "?";
}

const char *lladd_sim_oracle_name(enum lladd_sim_oracle oracle)
{
    static const char *const names[LLADD_SIM_ORACLES] = {
        "none",          "O1 lost",      "O2 contents",  "O3 check",     "O4 wal",
        "O5 again",      "O6 go on",     "O7 rebuild",   "O8 errors",    "O9 in doubt",
        "O10 leak",      "O11 open",     "O12 memory",   "O13 loop",     "O14 determinism",
        "O15 coverage",  "O16 workload", "O17 deadlock", "O18 one page", "O19 undo max",
        "O20 inspection"};
    return (unsigned)oracle < LLADD_SIM_ORACLES ? names[oracle] : "?";
}

void lladd_sim_report_free(struct lladd_sim_report *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_coverage; i++)
        free((char *)(uintptr_t)r->coverage[i].op);
    free((void *)(uintptr_t)r->coverage);
    free((void *)(uintptr_t)r->failures);
    free(r);
}

static unsigned long long per_second(const struct lladd_sim_report *r)
{
    return r->nanoseconds ? r->states * 1000000000ull / r->nanoseconds : 0;
}

/* ---- as text ----------------------------------------------------------------------------- */

static void text_coverage(const struct lladd_sim_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "  %-28s %8s", "operation", "runs");
    for (unsigned p = 0; p < LLADD_SIM_PATHS; p++)
        (void)lladd_sink_printf(s, " %12s", lladd_sim_path_name((enum lladd_sim_path)p));
    (void)lladd_sink_printf(s, "\n");
    for (uint32_t i = 0; i < r->n_coverage; i++) {
        const struct lladd_sim_coverage *c = &r->coverage[i];
        (void)lladd_sink_printf(s, "  %-28s %8llu", c->op, (unsigned long long)c->runs);
        for (unsigned p = 0; p < LLADD_SIM_PATHS; p++)
            (void)lladd_sink_printf(s, " %11llu%c", (unsigned long long)c->paths[p],
                                    c->missing >> p & 1 ? '!' : ' ');
        (void)lladd_sink_printf(s, "\n");
    }
}

void ll_sim_text_failures(uint32_t n, const struct lladd_sim_failure *failures,
                          struct lladd_sink *s)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct lladd_sim_failure *f = &failures[i];
        (void)lladd_sink_printf(s, "  %s objects: %s\n", lladd_sim_oracle_name(f->oracle),
                                f->message);
        if (f->token[0])
            (void)lladd_sink_printf(s, "    token %s\n", f->token);
    }
}

/* The sink keeps its first failure, so one check at the end is enough. */
int lladd_sim_report_text(const struct lladd_sim_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "subject %s: %s\n", r->subject,
                            r->n_failures ? "FAILED"
                            : r->complete ? "passed"
                                          : "passed so far");
    (void)lladd_sink_printf(s, "  workload: %llu device calls, %llu promises\n",
                            (unsigned long long)r->calls, (unsigned long long)r->acks);
    if (r->schedules)
        (void)lladd_sink_printf(
            s,
            "  schedules: %llu with %s%u preemptions in %llu turns; "
            "%llu different runs\n",
            (unsigned long long)r->schedules,
            r->flags & LLADD_SIM_RANDOM_SCHEDULES ? "random priorities, " : "up to ",
            r->preemptions, (unsigned long long)r->turns, (unsigned long long)r->recordings);
    (void)lladd_sink_printf(s, "  crash states: %llu (%llu of them deaths of the process)\n",
                            (unsigned long long)r->states, (unsigned long long)r->kill_states);
    for (uint32_t d = 1; d <= LLADD_SIM_DEPTH_MAX; d++)
        if (r->depth_states[d])
            (void)lladd_sink_printf(s, "    after %u crash%s in a row: %llu\n", d,
                                    d > 1 ? "es" : "", (unsigned long long)r->depth_states[d]);
    (void)lladd_sink_printf(s, "  crash points like earlier ones: %llu; different endings: %llu\n",
                            (unsigned long long)r->worlds_seen, (unsigned long long)r->endings);
    (void)lladd_sink_printf(s, "  %s in %.2f s, %llu states a second\n",
                            r->complete ? "everything within the bounds"
                                        : "not everything within the bounds",
                            (double)r->nanoseconds / 1e9, per_second(r));
    text_coverage(r, s);
    ll_sim_text_failures(r->n_failures, r->failures, s);
    return s->failed;
}

/* ---- as JSON ----------------------------------------------------------------------------- */

void ll_sim_json_string(const char *text, struct lladd_sink *s)
{
    (void)lladd_sink_write(s, "\"", 1);
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)lladd_sink_printf(s, "\\%c", *p);
        else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            (void)lladd_sink_printf(s, "\\u%04x", (unsigned)(unsigned char)*p);
        else
            (void)lladd_sink_write(s, p, 1);
    }
    (void)lladd_sink_write(s, "\"", 1);
}

void ll_sim_json_number(const char *key, uint64_t value, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, ",\"%s\":%llu", key, (unsigned long long)value);
}

static void json_coverage(const struct lladd_sim_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, ",\"coverage\":[");
    for (uint32_t i = 0; i < r->n_coverage; i++) {
        const struct lladd_sim_coverage *c = &r->coverage[i];
        (void)lladd_sink_printf(s, "%s{\"op\":", i ? "," : "");
        ll_sim_json_string(c->op, s);
        ll_sim_json_number("version", c->version, s);
        ll_sim_json_number("runs", c->runs, s);
        for (unsigned p = 0; p < LLADD_SIM_PATHS; p++)
            ll_sim_json_number(lladd_sim_path_name((enum lladd_sim_path)p), c->paths[p], s);
        (void)lladd_sink_printf(s, ",\"missing\":[");
        for (unsigned p = 0, n = 0; p < LLADD_SIM_PATHS; p++)
            if (c->missing >> p & 1)
                (void)lladd_sink_printf(s, "%s\"%s\"", n++ ? "," : "",
                                        lladd_sim_path_name((enum lladd_sim_path)p));
        (void)lladd_sink_printf(s, "]}");
    }
    (void)lladd_sink_printf(s, "]");
}

void ll_sim_json_failures(uint32_t n, const struct lladd_sim_failure *failures,
                          struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, ",\"failures\":[");
    for (uint32_t i = 0; i < n; i++) {
        const struct lladd_sim_failure *f = &failures[i];
        (void)lladd_sink_printf(s, "%s{\"oracle\":\"%s\"", i ? "," : "",
                                lladd_sim_oracle_name(f->oracle));
        ll_sim_json_number("depth", f->depth, s);
        (void)lladd_sink_printf(s, ",\"token\":\"%s\",\"message\":", f->token);
        ll_sim_json_string(f->message, s);
        (void)lladd_sink_printf(s, "}");
    }
    (void)lladd_sink_printf(s, "]");
}

int lladd_sim_report_json(const struct lladd_sim_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"subject\":");
    ll_sim_json_string(r->subject, s);
    ll_sim_json_number("flags", r->flags, s);
    ll_sim_json_number("depth", r->depth, s);
    ll_sim_json_number("seed", r->seed, s);
    (void)lladd_sink_printf(s, ",\"complete\":%s", r->complete ? "true" : "false");
    ll_sim_json_number("calls", r->calls, s);
    ll_sim_json_number("acks", r->acks, s);
    if (r->schedules) {
        ll_sim_json_number("schedules", r->schedules, s);
        ll_sim_json_number("recordings", r->recordings, s);
        ll_sim_json_number("turns", r->turns, s);
        ll_sim_json_number("preemptions", r->preemptions, s);
    }
    ll_sim_json_number("states", r->states, s);
    ll_sim_json_number("kill_states", r->kill_states, s);
    (void)lladd_sink_printf(s, ",\"depth_states\":[");
    for (uint32_t d = 1; d <= r->depth && d <= LLADD_SIM_DEPTH_MAX; d++)
        (void)lladd_sink_printf(s, "%s%llu", d > 1 ? "," : "",
                                (unsigned long long)r->depth_states[d]);
    (void)lladd_sink_printf(s, "]");
    ll_sim_json_number("worlds_seen", r->worlds_seen, s);
    ll_sim_json_number("endings", r->endings, s);
    ll_sim_json_number("choices", r->choices, s);
    ll_sim_json_number("nanoseconds", r->nanoseconds, s);
    ll_sim_json_number("states_per_second", per_second(r), s);
    json_coverage(r, s);
    ll_sim_json_failures(r->n_failures, r->failures, s);
    (void)lladd_sink_printf(s, "}\n");
    return s->failed;
}
