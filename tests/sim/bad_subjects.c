/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared object for test_command.py, with subjects that break the rules. Each subject is named
 * after what it does. */
#include "app_subject.h"

#include <sched.h>
#include <string.h>

enum { SUBJECTS = 19 };

static const struct {
    const char *name;
    enum app_fault fault;
} named[SUBJECTS] = {
    {"right", APP_RIGHT},
    {"crashes", APP_CRASHES},
    {"hangs", APP_HANGS},
    {"loops", APP_LOOPS},
    {"leaks", APP_LEAKS_MEMORY},
    {"leaks-page", APP_LEAKS_PAGE},
    {"impure", APP_IMPURE},
    {"another-each-time", APP_RANDOM},
    {"broken", APP_UNDO_WRITES_OLD},
    {"fails", APP_FAILS},
    {"small-record", APP_SMALL_RECORD},
    {"speechless", APP_SPEECHLESS},
    {"refused", APP_REFUSED},
    {"check-speechless", APP_CHECK_SPEECHLESS},
    {"setup-speechless", APP_SETUP_SPEECHLESS},
    {"setup-holds", APP_SETUP_HOLDS},
    {"waits", APP_WAITS},
    {"no-credit-max", APP_NO_CREDIT_MAX},
    {"threads-hang", APP_RIGHT},
};

static int hang(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                struct lladd_error *err)
{
    const struct app *app = ctx;
    (void)sim, (void)db, (void)thread, (void)err;
    while (app->subject.threads) /* for ever */
        (void)sched_yield();
    return 0;
}

/* Its type is lladd_sim_plugin_fn, the name is LLADD_SIM_PLUGIN_SYMBOL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static struct app app[SUBJECTS];
    static const struct lladd_sim_subject *all[SUBJECTS + 1];
    for (int i = 0; i < SUBJECTS; i++) {
        app_init(&app[i], named[i].fault);
        app[i].subject.name = named[i].name;
        if (strcmp(named[i].name, "threads-hang") == 0) {
            app[i].subject.threads = 2;
            app[i].subject.run_thread = hang;
        }
        all[i] = &app[i].subject;
    }
    return all;
}
