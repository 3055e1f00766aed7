/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errors_report: the results of the faults, as text and as JSON.
 */
#include "sim/sim_private.h"

static unsigned long long ull(uint64_t v)
{
    return v;
}

static void text_fault(const struct lladd_sim_fault_counts *c, const char *name,
                       struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "  %-16s %8llu %7llu %8llu %8llu %7llu %8llu %8llu %8llu%s\n", name,
                            ull(c->chances), ull(c->once), ull(c->for_ever), ull(c->recovery),
                            ull(c->close), ull(c->returned), ull(c->absorbed), ull(c->poisoned),
                            c->hole ? "  HOLE" : "");
}

/* The sink keeps its first failure, so one check at the end is enough. */
int lladd_sim_errors_text(const struct lladd_sim_errors_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "errors in subject %s: %s\n", r->subject,
                            r->n_failures ? "FAILED"
                            : r->complete ? "passed"
                                          : "passed so far");
    (void)lladd_sink_printf(s, "  runs with an error: %llu; crashes chosen for recoveries: %u\n",
                            ull(r->runs), r->points);
    (void)lladd_sink_printf(s,
                            "  crash states after them: %llu; opens refused on a full disk: "
                            "%llu\n",
                            ull(r->states), ull(r->full_refused));
    (void)lladd_sink_printf(s, "  %s in %.2f s\n",
                            r->complete ? "everything within the bounds"
                                        : "not everything within the bounds",
                            (double)r->nanoseconds / 1e9);
    (void)lladd_sink_printf(s, "  %-16s %8s %7s %8s %8s %7s %8s %8s %8s\n", "fault", "chances",
                            "once", "for ever", "recovery", "close", "returned", "absorbed",
                            "poisoned");
    for (unsigned k = 0; k < LLADD_SIM_FAULTS; k++)
        if (r->faults[k].chances || r->faults[k].once)
            text_fault(&r->faults[k], lladd_sim_fault_name((enum lladd_sim_fault)k), s);
    (void)lladd_sink_printf(s, "  never possible:");
    for (unsigned k = 0; k < LLADD_SIM_FAULTS; k++)
        if (!r->faults[k].chances && !r->faults[k].once)
            (void)lladd_sink_printf(s, " %s", lladd_sim_fault_name((enum lladd_sim_fault)k));
    (void)lladd_sink_printf(s, "\n");
    ll_sim_text_failures(r->n_failures, r->failures, s);
    return s->failed;
}

static void json_fault(const struct lladd_sim_fault_counts *c, const char *name,
                       struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"fault\":\"%s\"", name);
    ll_sim_json_number("chances", c->chances, s);
    ll_sim_json_number("once", c->once, s);
    ll_sim_json_number("for_ever", c->for_ever, s);
    ll_sim_json_number("recovery", c->recovery, s);
    ll_sim_json_number("close", c->close, s);
    ll_sim_json_number("returned", c->returned, s);
    ll_sim_json_number("absorbed", c->absorbed, s);
    ll_sim_json_number("poisoned", c->poisoned, s);
    (void)lladd_sink_printf(s, ",\"hole\":%s}", c->hole ? "true" : "false");
}

int lladd_sim_errors_json(const struct lladd_sim_errors_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"mode\":\"errors\",\"subject\":");
    ll_sim_json_string(r->subject, s);
    ll_sim_json_number("seed", r->seed, s);
    (void)lladd_sink_printf(s, ",\"complete\":%s", r->complete ? "true" : "false");
    ll_sim_json_number("points", r->points, s);
    ll_sim_json_number("runs", r->runs, s);
    ll_sim_json_number("states", r->states, s);
    ll_sim_json_number("full_refused", r->full_refused, s);
    ll_sim_json_number("nanoseconds", r->nanoseconds, s);
    (void)lladd_sink_printf(s, ",\"faults\":[");
    for (unsigned k = 0; k < LLADD_SIM_FAULTS; k++) {
        (void)lladd_sink_printf(s, "%s", k ? "," : "");
        json_fault(&r->faults[k], lladd_sim_fault_name((enum lladd_sim_fault)k), s);
    }
    (void)lladd_sink_printf(s, "]");
    ll_sim_json_failures(r->n_failures, r->failures, s);
    (void)lladd_sink_printf(s, "}\n");
    return s->failed;
}
