/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * damage_report: the results of tests of silent damage, as text and as JSON.
 */
#include "sim/sim_private.h"

#include <stdlib.h>

#define TEXT(name, text, what) text,
#define REASON(name, text) text,

const char *lladd_sim_damage_name(enum lladd_sim_damage_kind kind)
{
    static const char *const names[] = {LLADD_SIM_DAMAGE_LIST(TEXT)};
    return (unsigned)kind < LLADD_SIM_DAMAGE_KINDS ? names[kind] : "?";
}

const char *lladd_sim_damage_end_name(enum lladd_sim_damage_end end)
{
    static const char *const names[LLADD_SIM_DAMAGE_ENDS] = {"repaired", "detected", "harmless",
                                                             "undetectable", "WRONG"};
    return (unsigned)end < LLADD_SIM_DAMAGE_ENDS ? names[end] : "?";
}

const char *lladd_sim_reason_text(enum lladd_sim_reason reason)
{
    static const char *const texts[] = {LLADD_SIM_REASON_LIST(REASON)};
    return (unsigned)reason < LLADD_SIM_REASONS ? texts[reason] : "?";
}

void lladd_sim_damage_free(struct lladd_sim_damage_report *r)
{
    if (!r)
        return;
    free((void *)(uintptr_t)r->failures);
    free(r);
}

/* The sink keeps its first failure, so one check at the end is enough. */
int lladd_sim_damage_text(const struct lladd_sim_damage_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "subject %s, damage mode: %s\n", r->subject,
                            r->n_failures ? "FAILED"
                            : r->complete ? "passed"
                                          : "passed so far");
    (void)lladd_sink_printf(s, "  %llu of %llu cases of damage tried in %.2f s\n",
                            (unsigned long long)r->done, (unsigned long long)r->possible,
                            (double)r->nanoseconds / 1e9);
    (void)lladd_sink_printf(s, "  %-12s", "");
    for (unsigned e = 0; e < LLADD_SIM_DAMAGE_ENDS; e++)
        (void)lladd_sink_printf(s, " %12s",
                                lladd_sim_damage_end_name((enum lladd_sim_damage_end)e));
    (void)lladd_sink_printf(s, "\n");
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++) {
        (void)lladd_sink_printf(s, "  %-12s", lladd_sim_damage_name((enum lladd_sim_damage_kind)k));
        for (unsigned e = 0; e < LLADD_SIM_DAMAGE_ENDS; e++)
            (void)lladd_sink_printf(s, " %12llu", (unsigned long long)r->counts[k][e]);
        (void)lladd_sink_printf(s, "\n");
    }
    (void)lladd_sink_printf(s, "  detected by open %llu, by a read %llu, by inspection %llu\n",
                            (unsigned long long)r->by_open, (unsigned long long)r->by_read,
                            (unsigned long long)r->by_inspection);
    for (unsigned i = 0; i < LLADD_SIM_REASONS; i++)
        if (r->reasons[i])
            (void)lladd_sink_printf(s, "  not required to be noticed: %llu, %s\n",
                                    (unsigned long long)r->reasons[i],
                                    lladd_sim_reason_text((enum lladd_sim_reason)i));
    ll_sim_text_failures(r->n_failures, r->failures, s);
    return s->failed;
}

int lladd_sim_damage_json(const struct lladd_sim_damage_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"subject\":\"%s\",\"mode\":\"damage\",\"seed\":%llu", r->subject,
                            (unsigned long long)r->seed);
    (void)lladd_sink_printf(s, ",\"complete\":%s,\"possible\":%llu,\"done\":%llu",
                            r->complete ? "true" : "false", (unsigned long long)r->possible,
                            (unsigned long long)r->done);
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++) {
        (void)lladd_sink_printf(s, ",\"%s\":{",
                                lladd_sim_damage_name((enum lladd_sim_damage_kind)k));
        for (unsigned e = 0; e < LLADD_SIM_DAMAGE_ENDS; e++)
            (void)lladd_sink_printf(s, "%s\"%s\":%llu", e ? "," : "",
                                    lladd_sim_damage_end_name((enum lladd_sim_damage_end)e),
                                    (unsigned long long)r->counts[k][e]);
        (void)lladd_sink_printf(s, "}");
    }
    (void)lladd_sink_printf(s, ",\"by_open\":%llu,\"by_read\":%llu,\"by_inspection\":%llu",
                            (unsigned long long)r->by_open, (unsigned long long)r->by_read,
                            (unsigned long long)r->by_inspection);
    (void)lladd_sink_printf(s, ",\"nanoseconds\":%llu", (unsigned long long)r->nanoseconds);
    ll_sim_json_failures(r->n_failures, r->failures, s);
    (void)lladd_sink_printf(s, "}\n");
    return s->failed;
}
