/* SPDX-License-Identifier: BSD-2-Clause */
/* Crash states per second of one core, with one to three crashes in a row. The subject "small" has
 * 8 pages, 2 transactions and 40 records. The time includes recovery, all oracles, and making each
 * state from the previous one. */
#include "common.h"

#include <lladd/sim.h>

#include <stdio.h>

static void explore(uint32_t depth, uint64_t states, struct bench_figure *figure)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_sim_report *r;
    struct lladd_error err = LLADD_ERROR_INIT;
    b.depth = depth;
    b.states = states;
    b.flags = LLADD_SIM_NO_COVERAGE;
    uint64_t start = bench_cpu_ns();
    bench_must(lladd_sim_explore(lladd_sim_subject_find("small"), &b, &r, &err), err.message);
    double seconds = (double)(bench_cpu_ns() - start) / 1e9;
    bench_must(r->n_failures ? LLADD_BUG : 0, "exploring the subject \"small\" without objections");
    bench_add(figure, (double)r->states / seconds);
    lladd_sim_report_free(r);
}

int main(void)
{
    struct bench_figure one = {.n = 0}, two = {.n = 0}, three = {.n = 0};
    for (int i = 0; i < BENCH_RUNS; i++) {
        explore(1, 0, &one);
        explore(2, 0, &two);
        explore(3, 50000, &three);
    }
    bench_print("sim", "one crash", "states/s", &one, ">= 30000", "120000 to 165000");
    bench_print("sim", "two crashes in a row", "states/s", &two, ">= 30000", "120000 to 165000");
    bench_print("sim", "three crashes in a row", "states/s", &three, ">= 30000",
                "120000 to 165000");
    return 0;
}
