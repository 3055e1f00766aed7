/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring in the simulator, with four slots on two pages, so that a few items fill it. */
#include "ring.h"

#include <lladd/pages.h>
#include <lladd/sim.h>

#include <string.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

enum { NUMBERS = 64 };

/* A note for the model: an item's number and its value; 0: the item was taken. */
struct note {
    uint64_t number, value;
};
struct model {
    uint64_t value[NUMBERS];
};

static int configure(void *ctx, struct lladd_options *options, struct lladd_error *err)
{
    (void)ctx;
    return ring_register(options, err);
}

static int find(struct lladd_db *db, lladd_pageno *ring, struct lladd_error *err)
{
    struct lladd_root_value at;
    TRY(lladd_root_get(db, "ring", &at, err));
    *ring = lladd_page_of(at.a);
    return 0;
}

/* Puts the items 0 and 1, so that the ring has them when the workload begins. */
static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno ring;
    uint64_t number;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = ring_create(txn, sizeof(uint64_t), 2, 2, &ring);
    for (uint64_t value = 100; !rc && value < 102; value++)
        rc = ring_put(txn, ring, &value, &number);
    if (!rc)
        rc = lladd_root_set(txn, "ring", (struct lladd_root_value){ring.v, 0});
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn); /* the simulator ends the transaction */
    return rc;
}

/* ---- the workload ---------------------------------------------------------------------------- */

static int put(struct lladd_sim *sim, struct lladd_txn *txn, lladd_pageno ring, uint64_t value)
{
    struct note note = {.value = value};
    TRY(ring_put(txn, ring, &value, &note.number));
    return lladd_sim_note(sim, txn, &note, sizeof note);
}

static int take(struct lladd_sim *sim, struct lladd_txn *txn, lladd_pageno ring)
{
    struct note note = {0, 0};
    uint64_t item;
    TRY(ring_take(txn, ring, &item, &note.number));
    return lladd_sim_note(sim, txn, &note, sizeof note);
}

/* The ring is full, because an open transaction has taken its oldest item. */
static int put_too_many(struct lladd_sim *sim, struct lladd_txn *txn, lladd_pageno ring)
{
    int rc = put(sim, txn, ring, 9);
    return rc == LLADD_NO_SPACE ? 0 : rc;
}

/* [run] Several transactions put and take items, with items of other transactions in between.
 * `slow` is rolled back, and its item becomes a gap; `late` is open when the process ends. */
static int with_open(struct lladd_sim *sim, struct lladd_db *db, lladd_pageno ring,
                     struct lladd_txn *slow, struct lladd_txn *late, struct lladd_error *err)
{
    struct lladd_txn *quick;
    TRY(put(sim, slow, ring, 1));
    TRY(lladd_sim_begin(sim, db, NULL, &quick, err));
    TRY(take(sim, quick, ring)); /* item 0 */
    TRY(put(sim, quick, ring, 2));
    TRY(take(sim, slow, ring));  /* item 1 */
    TRY(take(sim, quick, ring)); /* item 3, which `quick` has put: item 2 is not committed */
    TRY(put_too_many(sim, quick, ring));
    TRY(lladd_sim_commit(sim, quick));
    TRY(put(sim, late, ring, 3)); /* item 4, in the slot of item 0 */
    TRY(put_too_many(sim, late, ring));
    TRY(lladd_sim_abort(sim, slow));
    TRY(take(sim, late, ring)); /* item 1, which the rollback has put back */
    return take(sim, late, ring);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *slow, *late;
    lladd_pageno ring;
    (void)ctx;
    TRY(find(db, &ring, err));
    TRY(lladd_sim_begin(sim, db, NULL, &slow, err));
    TRY(lladd_sim_begin(sim, db, NULL, &late, err));
    return with_open(sim, db, ring, slow, late, err);
}
/* [/run] */

/* Two threads put and take at both ends. */
static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno ring;
    (void)ctx;
    TRY(find(db, &ring, err));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(put(sim, txn, ring, 1 + thread));
    TRY(take(sim, txn, ring));
    return thread ? lladd_sim_abort(sim, txn) : lladd_sim_commit(sim, txn);
}

/* ---- the expected contents ------------------------------------------------------------------- */

static int tell(struct lladd_sink *to, uint64_t number, uint64_t value)
{
    return lladd_sink_printf(to, "%llu=%llu ", (unsigned long long)number,
                             (unsigned long long)value);
}

static int tell_item(void *ctx, uint64_t number, struct lladd_span item)
{
    uint64_t value;
    memcpy(&value, item.data, sizeof value);
    return tell(ctx, number, value);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    lladd_pageno ring;
    (void)ctx;
    TRY(find(db, &ring, err));
    return ring_each(db, ring, tell_item, to, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno ring;
    (void)ctx;
    TRY(find(db, &ring, err));
    return ring_check(db, ring, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno ring;
    (void)ctx;
    TRY(find(db, &ring, err));
    return ring_pages(db, ring, fn, arg, err);
}

static void model_init(void *ctx, void *model)
{
    struct model *m = model;
    (void)ctx;
    m->value[0] = 100;
    m->value[1] = 101;
}

static void model_apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct model *m = model;
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    m->value[note.number] = note.value;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *to)
{
    const struct model *m = model;
    int rc = 0;
    (void)ctx;
    for (uint64_t number = 0; !rc && number < NUMBERS; number++)
        if (m->value[number])
            rc = tell(to, number, m->value[number]);
    return rc;
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *to)
{
    struct note note;
    (void)ctx;
    memcpy(&note, bytes.data, sizeof note);
    if (note.value)
        lladd_sink_printf(to, "puts %llu as item %llu", (unsigned long long)note.value,
                          (unsigned long long)note.number);
    else
        lladd_sink_printf(to, "takes item %llu", (unsigned long long)note.number);
}

#define SUBJECT(its_name, ...) \
    { \
        .struct_size = sizeof(struct lladd_sim_subject), .name = its_name, \
        .configure = configure, .setup = setup, .dump = dump, .check = check, .pages = pages, \
        .model_size = sizeof(struct model), .model_init = model_init, \
        .model_apply = model_apply, .model_dump = model_dump, .describe = describe, __VA_ARGS__ \
    }

static const struct lladd_sim_subject one =
    SUBJECT("ring", .about = "a bounded queue of several pages", .run = run);
static const struct lladd_sim_subject two = SUBJECT(
    "ring.threads", .about = "a bounded queue of several pages, used by two threads", .threads = 2,
    .run_thread = run_thread);

/* Its type is lladd_sim_plugin_fn, the name is LLADD_SIM_PLUGIN_SYMBOL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_plugin(void);

const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static const struct lladd_sim_subject *const all[] = {&one, &two, NULL};
    return all;
}
