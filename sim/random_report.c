/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of lladd_sim_random, as text and as JSON. */
#include "sim/sim_private.h"

#include <stdlib.h>

void lladd_sim_random_free(struct lladd_sim_random_report *r)
{
    if (!r)
        return;
    free((void *)(uintptr_t)r->failures);
    free((void *)(uintptr_t)r->fired);
    free(r);
}

int lladd_sim_random_text(const struct lladd_sim_random_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "subject %s, at random: %s\n", r->subject,
                            r->n_failures ? "FAILED" : "passed so far");
    (void)lladd_sink_printf(
        s, "  seed %llu: %llu workloads of %llu runs (%llu refused), %llu device calls\n",
        (unsigned long long)r->seed, (unsigned long long)r->workloads, (unsigned long long)r->runs,
        (unsigned long long)r->refused, (unsigned long long)r->calls);
    (void)lladd_sink_printf(
        s, "  %llu places to crash at, %llu recoveries judged, %llu with an error, in %.2f s\n",
        (unsigned long long)r->points, (unsigned long long)r->states,
        (unsigned long long)r->disturbed, (double)r->nanoseconds / 1e9);
    for (uint32_t i = 0; i < r->n_fired; i++)
        if (r->fired[i].offered)
            (void)lladd_sink_printf(s, "  %-36s %10llu of %10llu%s\n", r->fired[i].name,
                                    (unsigned long long)r->fired[i].fired,
                                    (unsigned long long)r->fired[i].offered,
                                    r->fired[i].fired ? "" : " !");
    ll_sim_text_failures(r->n_failures, r->failures, s);
    return s->failed;
}

int lladd_sim_random_json(const struct lladd_sim_random_report *r, struct lladd_sink *s)
{
    (void)lladd_sink_printf(s, "{\"subject\":\"%s\",\"mode\":\"random\",\"seed\":%llu", r->subject,
                            (unsigned long long)r->seed);
    (void)lladd_sink_printf(s, ",\"workloads\":%llu,\"runs\":%llu,\"refused\":%llu,\"calls\":%llu",
                            (unsigned long long)r->workloads, (unsigned long long)r->runs,
                            (unsigned long long)r->refused, (unsigned long long)r->calls);
    (void)lladd_sink_printf(
        s, ",\"points\":%llu,\"states\":%llu,\"disturbed\":%llu,\"nanoseconds\":%llu",
        (unsigned long long)r->points, (unsigned long long)r->states,
        (unsigned long long)r->disturbed, (unsigned long long)r->nanoseconds);
    (void)lladd_sink_printf(s, ",\"fired\":{");
    for (uint32_t i = 0; i < r->n_fired; i++)
        (void)lladd_sink_printf(s, "%s\"%s\":[%llu,%llu]", i ? "," : "", r->fired[i].name,
                                (unsigned long long)r->fired[i].fired,
                                (unsigned long long)r->fired[i].offered);
    (void)lladd_sink_printf(s, "}");
    ll_sim_json_failures(r->n_failures, r->failures, s);
    (void)lladd_sink_printf(s, "}\n");
    return s->failed;
}
