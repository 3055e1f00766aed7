/* SPDX-License-Identifier: BSD-2-Clause */
/* Subjects that break the rules, each named after what it does: a shared object for
 * test_command.py. */
#include "toy.h"

#include <sched.h>
#include <string.h>

enum { SUBJECTS = 19 };

static const struct {
    const char *name;
    enum toy_fault fault;
} named[SUBJECTS] = {
    {"right", TOY_RIGHT},   {"crashes", TOY_CRASHES},          {"hangs", TOY_HANGS},
    {"loops", TOY_LOOPS},   {"leaks", TOY_LEAKS_MEMORY},       {"leaks-page", TOY_LEAKS_PAGE},
    {"impure", TOY_IMPURE}, {"another-each-time", TOY_RANDOM}, {"broken", TOY_UNDO_WRITES_OLD},
    {"fails", TOY_FAILS},   {"small-record", TOY_SMALL_RECORD},
    {"speechless", TOY_SPEECHLESS},
    {"refused", TOY_REFUSED},
    {"check-speechless", TOY_CHECK_SPEECHLESS},
    {"setup-speechless", TOY_SETUP_SPEECHLESS},
    {"setup-holds", TOY_SETUP_HOLDS},
    {"waits", TOY_WAITS},
    {"no-credit-max", TOY_NO_CREDIT_MAX},
    {"threads-hang", TOY_RIGHT},
};

static int hang(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                struct lladd_error *err)
{
    const struct toy *toy = ctx;
    (void)sim, (void)db, (void)thread, (void)err;
    while (toy->subject.threads) /* for ever */
        (void)sched_yield();
    return 0;
}

/* Its type is lladd_sim_plugin_fn, the name is LLADD_SIM_PLUGIN_SYMBOL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static struct toy toy[SUBJECTS];
    static const struct lladd_sim_subject *all[SUBJECTS + 1];
    for (int i = 0; i < SUBJECTS; i++) {
        toy_init(&toy[i], named[i].fault);
        toy[i].subject.name = named[i].name;
        if (strcmp(named[i].name, "threads-hang") == 0) {
            toy[i].subject.threads = 2;
            toy[i].subject.run_thread = hang;
        }
        all[i] = &toy[i].subject;
    }
    return all;
}
