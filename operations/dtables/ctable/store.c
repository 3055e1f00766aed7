/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the configuration of a column store: a column_dtable, with a layer for each group. */
#include "operations/dtables/ctable/ctable.h"

#include <lladd/extension.h>
#include <stdio.h>

enum { NUMBER = 12 }; /* most bytes of a column number and the space before it */
#define LINEAR "class(dt) linear_dtable"

struct store {
    struct lladd_db *db;
    const struct lladd_ctable_options *o;
    struct lladd_error *err;
    struct lladd_dtable_config *column;
    bool *grouped; /* for each column: is it in a group? */
    char *word;    /* room for the numbers of a group's columns, as text */
};

/* ---- groups ---------------------------------------------------------------------------------- */

/* Puts the name of the configuration in front of the message, because there are several texts to
 * which the message's line and column could refer. */
static int in_text(struct store *s, int rc, const char *what, const char *name)
{
    struct lladd_error was = *s->err;
    if (rc != LLADD_BAD_CONFIG)
        return rc;
    return lladd_error_set(s->err, rc, "%s%s%.60s%s: %.180s", what, *name ? " \"" : "", name,
                           *name ? "\"" : "", was.message);
}

static int add_layer(struct store *s, const char *parameter, const char *config)
{
    struct lladd_dtable_config *c = NULL;
    int rc = lladd_dtable_config_parse(s->db, config ? config : LINEAR, &c, s->err);
    if (!rc)
        rc = lladd_dtable_config_check(c, s->o->managed.type, s->err);
    if (!rc && strcmp(parameter, "groups") == 0) /* the column_dtable settles the size of the keys'
                                                  * values */
        rc = lladd_dtable_config_settled(c, s->err);
    if (!rc && strcmp(parameter, "base") == 0)
        rc = lladd_dtable_config_deletes(c, s->err);
    if (!rc)
        rc = lladd_dtable_config_set_child(s->column, parameter, c, s->err);
    if (rc)
        lladd_dtable_config_free(c);
    return rc;
}

static int add_group(struct store *s, const char *word, const char *name, const char *config)
{
    TRY(in_text(s, add_layer(s, "groups", config), "group", name));
    return lladd_dtable_config_add_word(s->column, "columns", lladd_span_of(word, strlen(word)),
                                        s->err);
}

static int number_of(const struct store *s, const char *name, uint32_t *out)
{
    for (size_t i = 0; name && i < s->o->n_columns; i++)
        if (strcmp(s->o->columns[i], name) == 0) {
            *out = (uint32_t)i;
            return 0;
        }
    return lladd_error_set(s->err, LLADD_NOT_FOUND,
                           "a group has a column \"%.100s\", which the table does not have",
                           name ? name : "");
}

static int named_group(struct store *s, const struct lladd_ctable_group *g)
{
    size_t len = 0;
    if (!g->columns || g->n == 0 || g->n > s->o->n_columns)
        return lladd_error_set(s->err, LLADD_BAD_ARGUMENT,
                               "a group of %zu columns: no columns, or more than the table has",
                               g->n);
    for (size_t i = 0; i < g->n; i++) {
        uint32_t column = 0;
        TRY(number_of(s, g->columns[i], &column));
        if (s->grouped[column])
            return lladd_error_set(s->err, LLADD_BAD_ARGUMENT,
                                   "column \"%s\" is in two groups, or twice in one",
                                   g->columns[i]);
        s->grouped[column] = true;
        len += (size_t)snprintf(s->word + len, NUMBER, i ? " %u" : "%u", column);
    }
    return add_group(s, s->word, g->columns[0], g->config);
}

static int build(struct store *s)
{
    char word[24];
    int rc = lladd_dtable_config_new(s->db, "column_dtable", &s->column, s->err);
    if (!rc)
        rc = in_text(s, add_layer(s, "base", s->o->keys), "keys", "");
    for (size_t i = 0; i < s->o->n_groups && !rc; i++)
        rc = named_group(s, &s->o->groups[i]);
    for (size_t i = 0; i < s->o->n_columns && !rc; i++) {
        if (s->grouped[i])
            continue;
        (void)snprintf(word, sizeof word, "%zu", i);
        rc = add_group(s, word, s->o->columns[i], NULL);
    }
    return rc ? rc : lladd_dtable_config_check(s->column, s->o->managed.type, s->err);
}

int ll_ctable__store(struct lladd_db *db, const struct lladd_ctable_options *o, char **out,
                     struct lladd_error *err)
{
    struct store s = {.db = db, .o = o, .err = err};
    s.grouped = lladd_mem_alloc(db, o->n_columns * (NUMBER + sizeof *s.grouped) + 1);
    if (!s.grouped)
        return ll_ctable__no_memory(err);
    memset(s.grouped, 0, o->n_columns * sizeof *s.grouped);
    s.word = (char *)(s.grouped + o->n_columns);
    int rc = build(&s);
    if (!rc)
        rc = lladd_dtable_config_text(s.column, out, err);
    lladd_dtable_config_free(s.column);
    lladd_mem_free(db, s.grouped);
    return rc;
}
