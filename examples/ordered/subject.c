/* SPDX-License-Identifier: BSD-2-Clause */
/* The structure in the simulator, with pages of four entries, so that a few keys cause splits. */
#include "ordered.h"

#include <lladd/pages.h>
#include <lladd/sim.h>

#include <string.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

enum { KEYS = 64, ROOM = 4 };

/* A note for the model: a key and its value; 0: the key does not exist. */
struct note {
    uint64_t key, value;
};
struct model {
    uint64_t value[KEYS];
};

static int configure(void *ctx, struct lladd_options *options, struct lladd_error *err)
{
    (void)ctx;
    return ordered_register(options, err);
}

static int find(struct lladd_db *db, lladd_pageno *root, struct lladd_error *err)
{
    struct lladd_root_value at;
    TRY(lladd_root_get(db, "ordered", &at, err));
    *root = lladd_page_of(at.a);
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno root;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = ordered_create(txn, ROOM, &root);
    for (uint64_t key = 10; !rc && key <= 30; key += 10)
        rc = ordered_put(txn, root, key, key);
    if (!rc)
        rc = lladd_root_set(txn, "ordered", (struct lladd_root_value){root.v, 0});
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    (void)lladd_abort(txn);
    return rc;
}

/* ---- the workload ---------------------------------------------------------------------------- */

static int put(struct lladd_sim *sim, struct lladd_txn *txn, lladd_pageno root, uint64_t key,
               uint64_t value)
{
    struct note note = {key, value};
    TRY(value ? ordered_put(txn, root, key, value) : ordered_remove(txn, root, key));
    return lladd_sim_note(sim, txn, &note, sizeof note);
}

/* [run] Splits by other transactions move the slow transaction's keys before it is rolled back. A
 * key that the slow transaction has removed stays a ghost until then; the ghost of a key that a
 * committed transaction has removed is purged. */
static int with_open(struct lladd_sim *sim, struct lladd_db *db, lladd_pageno root,
                     struct lladd_txn *slow, struct lladd_txn *late, struct lladd_error *err)
{
    struct lladd_txn *quick;
    TRY(put(sim, slow, root, 40, 1));
    TRY(put(sim, slow, root, 20, 0));
    TRY(lladd_sim_begin(sim, db, NULL, &quick, err));
    TRY(put(sim, quick, root, 35, 2)); /* splits */
    TRY(put(sim, quick, root, 36, 3));
    TRY(put(sim, quick, root, 10, 0));
    TRY(put(sim, quick, root, 36, 0));
    TRY(lladd_sim_commit(sim, quick));
    TRY(put(sim, late, root, 5, 4));
    TRY(put(sim, late, root, 6, 5));
    TRY(put(sim, late, root, 7, 6)); /* purges 10, not 20 */
    TRY(lladd_sim_abort(sim, slow));
    return put(sim, late, root, 20, 0);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *slow, *late;
    lladd_pageno root;
    (void)ctx;
    TRY(find(db, &root, err));
    TRY(lladd_sim_begin(sim, db, NULL, &slow, err));
    TRY(lladd_sim_begin(sim, db, NULL, &late, err));
    return with_open(sim, db, root, slow, late, err); /* `late` is open when the process ends */
}
/* [/run] */

/* [threads] Two threads on one leaf. The split of the thread that comes second moves keys of the
 * first. */
static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno root;
    (void)ctx;
    TRY(find(db, &root, err));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(put(sim, txn, root, 10 + 10 * thread, 0));
    TRY(put(sim, txn, root, 31 + thread, 7));
    TRY(put(sim, txn, root, 41 + thread, 8));
    return thread ? lladd_sim_abort(sim, txn) : lladd_sim_commit(sim, txn);
}
/* [/threads] */

/* ---- the expected contents --------------------------------------------------------------- */

static int tell(void *ctx, uint64_t key, uint64_t value)
{
    return lladd_sink_printf(ctx, "%llu=%llu ", (unsigned long long)key,
                             (unsigned long long)value);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    lladd_pageno root;
    (void)ctx;
    TRY(find(db, &root, err));
    return ordered_each(db, root, tell, to, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno root;
    (void)ctx;
    TRY(find(db, &root, err));
    return ordered_check(db, root, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno root;
    (void)ctx;
    TRY(find(db, &root, err));
    return ordered_pages(db, root, fn, arg, err);
}

static void model_init(void *ctx, void *model)
{
    struct model *m = model;
    (void)ctx;
    for (uint64_t key = 10; key <= 30; key += 10)
        m->value[key] = key;
}

static void model_apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct model *m = model;
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    m->value[note.key] = note.value;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *to)
{
    const struct model *m = model;
    int rc = 0;
    (void)ctx;
    for (uint64_t key = 0; !rc && key < KEYS; key++)
        if (m->value[key])
            rc = tell(to, key, m->value[key]);
    return rc;
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *to)
{
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    lladd_sink_printf(to, "%llu becomes %llu", (unsigned long long)note.key,
                      (unsigned long long)note.value);
}

#define SUBJECT(its_name, ...) \
    { \
        .struct_size = sizeof(struct lladd_sim_subject), .name = its_name, \
        .configure = configure, .setup = setup, .dump = dump, .check = check, .pages = pages, \
        .model_size = sizeof(struct model), .model_init = model_init, \
        .model_apply = model_apply, .model_dump = model_dump, .describe = describe, __VA_ARGS__ \
    }

static const struct lladd_sim_subject one =
    SUBJECT("ordered", .about = "an ordered structure of several pages", .run = run);
static const struct lladd_sim_subject two = SUBJECT(
    "ordered.threads", .about = "an ordered structure of several pages, used by two threads",
    .threads = 2, .run_thread = run_thread);

/* Its type is lladd_sim_plugin_fn, the name is LLADD_SIM_PLUGIN_SYMBOL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static const struct lladd_sim_subject *const all[] = {&one, &two, NULL};
    return all;
}
