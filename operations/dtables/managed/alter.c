/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes the settings of an existing table.
 *
 *   ALT-1  One transaction stores all changes in the table's row of the catalogue. After a crash
 *          either all of them hold or none.
 *   ALT-2  No digest and no combine runs during an alteration, because each run is built with one
 *          configuration. A put checks its row against the configurations that are current then.
 *
 * Rows in memory were checked against the old configurations. A digest succeeds even if a new
 * configuration refuses such a row (run_build.c). */
#include "operations/dtables/managed/managed.h"

struct alteration {
    struct lladd_managed_options o;
    unsigned which;
    char *texts[2]; /* configurations of digests and of combines; NULL: unchanged */
    struct lladd_dtable_config *config[2];
};

static const unsigned bits[2] = {LLADD_MANAGED_CONFIG, LLADD_MANAGED_COMBINE_CONFIG};

/* Parses and checks the new configurations, before anything is changed. */
static int prepare(struct lladd_managed *t, struct alteration *a, struct lladd_error *err)
{
    const char *const given[2] = {a->o.config, a->o.combine_config};
    for (int i = 0; i < 2; i++) {
        if (!(a->which & bits[i]))
            continue;
        TRY(ll_managed__settle(t->db, given[i], t->order.type, i == 1, &a->texts[i], err));
        TRY(ll_managed__read_config(t, a->texts[i], &a->config[i], err));
    }
    return 0;
}

static int edit(void *ctx, struct lladd_txn *txn, struct ll_manifest *m)
{
    static const int texts[2] = {LL_MANIFEST_CONFIG, LL_MANIFEST_COMBINE};
    struct alteration *a = ctx;
    int rc = ll_managed__set_triggers(&a->o, a->which, m, lladd_txn_error_out(txn));
    for (int i = 0; i < 2 && !rc; i++) {
        if (!a->texts[i])
            continue;
        lladd_mem_free(m->db, m->texts[texts[i]]);
        m->texts[texts[i]] = a->texts[i];
        a->texts[i] = NULL;
    }
    return rc;
}

/* Installs the new settings. The replaced configurations are freed with the alteration. */
static void install(struct lladd_managed *t, struct alteration *a)
{
    lladd_mutex_lock(&t->mutex);
    for (int i = 0; i < 2; i++) {
        struct lladd_dtable_config *old = t->config[i];
        if (!(a->which & bits[i]))
            continue;
        t->config[i] = a->config[i];
        a->config[i] = old;
    }
    ll_managed__take_triggers(t, &t->manifest);
    lladd_mutex_unlock(&t->mutex);
}

static int alter(struct lladd_managed *t, struct alteration *a, struct lladd_error *err)
{
    lladd_lsn commit = {0};
    TRY(prepare(t, a, err));
    TRY(ll_managed__work_stop(t, err));
    int rc = ll_managed__manifest_edit(t, edit, a, &commit, err);
    if (!rc)
        install(t, a);
    ll_managed__work_go_on(t);
    if (rc)
        return rc;
    ll_managed__wake(t->all); /* with the new settings, work may be due earlier */
    return lladd_wait_durable(t->db, commit, err);
}

int lladd_managed_alter(struct lladd_managed *t, unsigned which,
                        const struct lladd_managed_options *options, struct lladd_error *err)
{
    struct alteration a = {.o = LLADD_MANAGED_OPTIONS_INIT, .which = which};
    TRY(lladd_check_process(t->db, err));
    if (!options || options->struct_size < sizeof options->struct_size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "no table options, or struct_size is not set");
    if (which & ~(unsigned)LLADD_MANAGED_ALL)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a table has no options %#x", which);
    memcpy(&a.o, options, options->struct_size < sizeof a.o ? options->struct_size : sizeof a.o);
    int rc = alter(t, &a, err);
    for (int i = 0; i < 2; i++) {
        lladd_mem_free(t->db, a.texts[i]);
        lladd_dtable_config_free(a.config[i]);
    }
    return rc;
}

/* ---- current settings ------------------------------------------------------------------------ */

/* Copies a string to *at and moves *at past the copy. Returns the copy, or NULL if it is empty. */
static const char *next(char **at, const char *text)
{
    char *here = *at;
    size_t n = strlen(text) + 1;
    memcpy(here, text, n);
    *at += n;
    return n > 1 ? here : NULL;
}

int lladd_managed_settings(struct lladd_managed *t, struct lladd_managed_options *out,
                           char **strings, struct lladd_error *err)
{
    size_t size = out->struct_size, n = 0;
    struct lladd_managed_options o = {.struct_size = size};
    TRY(lladd_check_process(t->db, err));
    if (size < sizeof size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "struct_size is missing");
    lladd_mutex_lock(&t->swap); /* the manifest changes under this mutex */
    const struct ll_manifest *m = &t->manifest;
    for (int i = 0; i < 3; i++)
        n += strlen(m->texts[i]) + 1;
    char *at = *strings = lladd_mem_alloc(t->db, n);
    if (at) {
        o.type = m->type;
        o.comparator = next(&at, m->texts[LL_MANIFEST_COMPARATOR]);
        o.config = next(&at, m->texts[LL_MANIFEST_CONFIG]);
        o.combine_config = next(&at, m->texts[LL_MANIFEST_COMBINE]);
        o.schedule = m->schedule;
        o.every = m->every;
        o.memory_bytes = m->memory_bytes;
        o.rows = m->max_rows;
        o.interval_ns = m->interval_ns;
        o.flags = m->flags;
        o.block_bytes = m->block_bytes;
    }
    lladd_mutex_unlock(&t->swap);
    if (!*strings)
        return ll_managed__no_memory(err);
    memcpy(out, &o, size < sizeof o ? size : sizeof o);
    return 0;
}
