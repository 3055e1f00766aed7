/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable: cTables, which have rows with named columns. */
#include "csv.h"
#include "dtable.h"
#include "dump_text.h"

#include <lladd/dtable_class.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct tabling *d)
{
    return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Splits "a,b" into names. One allocation has the array of pointers to the names and, after it, the
 * names. */
static int cut(struct tabling *d, const char *list, const char ***names, size_t *n)
{
    *n = 1;
    for (const char *p = list; *p; p++)
        *n += *p == ',';
    *names = malloc(*n * sizeof **names + strlen(list) + 1);
    if (!*names)
        return no_memory(d);
    char *text = strcpy((char *)(*names + *n), list);
    for (size_t i = 0; i < *n; i++) {
        size_t len = strcspn(text, ",");
        (*names)[i] = text;
        text += len;
        *text++ = 0; /* the byte after the last name is not used */
    }
    return 0;
}

/* Finds the number of a column. The error for a missing column differs from the one for a missing
 * key. */
static int number_of(struct tabling *d, const char *name, uint32_t *out)
{
    int rc = lladd_ctable_named(d->columns, &name, 1, out, &d->err);
    if (rc == LLADD_NOT_FOUND)
        d->err.code = rc = LLADD_BAD_ARGUMENT;
    return rc;
}

int tabling_choose(struct tabling *d)
{
    const char **names = NULL;
    size_t n = lladd_ctable_columns(d->columns);
    int rc = d->names ? cut(d, d->names, &names, &n) : 0;
    d->chosen = rc ? NULL : calloc(n + 1, sizeof *d->chosen);
    if (!rc && !d->chosen)
        rc = no_memory(d);
    for (d->n_chosen = 0; !rc && d->n_chosen < n; d->n_chosen++) {
        d->chosen[d->n_chosen] = (uint32_t)d->n_chosen;
        if (names)
            rc = number_of(d, names[d->n_chosen], &d->chosen[d->n_chosen]);
    }
    free(names);
    return rc;
}

/* ---- making and altering --------------------------------------------------------------------- */

/* Makes the table, or alters the open one. */
static int make(struct tabling *d, struct lladd_ctable_options *o, bool alter)
{
    struct lladd_ctable_group *groups = calloc(d->n_groups + 1, sizeof *groups);
    int rc = groups ? 0 : no_memory(d);
    for (size_t i = 0; i < d->n_groups && !rc; i++) {
        const char **names = NULL;
        groups[i].config = d->groups[i].config;
        rc = cut(d, d->groups[i].names, &names, &groups[i].n);
        groups[i].columns = names;
    }
    if (d->n_groups || d->keys_config) {
        o->groups = groups;
        o->n_groups = d->n_groups;
        o->keys = d->keys_config;
    }
    if (!rc && alter) {
        rc = lladd_ctable_alter(d->columns, d->given, o, &d->err);
    } else if (!rc) {
        rc = lladd_ctable_create(d->txn, d->t->argv[0], o);
        if (rc)
            d->err = *lladd_txn_error(d->txn);
    }
    for (size_t i = 0; groups && i < d->n_groups; i++)
        free((void *)groups[i].columns);
    free(groups);
    return rc == LLADD_NOT_FOUND ? (d->err.code = LLADD_BAD_ARGUMENT) : rc;
}

int tabling_create(struct tabling *d, const struct lladd_managed_options *m)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    const char **names = NULL;
    int rc = cut(d, d->names, &names, &o.n_columns);
    o.columns = names;
    o.managed = *m;
    if (!rc)
        rc = make(d, &o, false);
    free(names);
    return rc;
}

int tabling_alter(struct tabling *d, const struct lladd_managed_options *m)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.managed = *m;
    return make(d, &o, true);
}

/* ---- writing --------------------------------------------------------------------------------- */

int tabling_put_columns(struct tabling *d, const struct lladd_dtable_key *key)
{
    size_t n = (size_t)d->t->argc - 2;
    struct lladd_ctable_change *changes = calloc(n + 1, sizeof *changes);
    unsigned char **rooms = calloc(n + 1, sizeof *rooms);
    int rc = changes && rooms ? 0 : no_memory(d);
    for (size_t i = 0; i < n && !rc; i++) {
        char *text = d->t->argv[i + 2], *value = strchr(text, '=');
        if (value)
            *value++ = 0;
        rc = number_of(d, text, &changes[i].column);
        rooms[i] = rc || !value ? NULL : malloc(strlen(value) + 1);
        if (!rc && value && !rooms[i])
            rc = no_memory(d);
        if (rc || !value)
            continue;
        struct lladd_span all = {value, strlen(value)};
        changes[i].value.state = LLADD_DTABLE_FOUND;
        rc = tabling_bytes(d, all, rooms[i], &changes[i].value.bytes) ? 0 : d->err.code;
    }
    if (!rc) {
        rc = lladd_ctable_update(d->txn, d->columns, key, changes, n);
        if (rc)
            d->err = *lladd_txn_error(d->txn);
    }
    for (size_t i = 0; rooms && i < n; i++)
        free(rooms[i]);
    free(rooms);
    free(changes);
    return rc;
}

int tabling_put_header(struct tabling *d, const struct csv *c)
{
    d->chosen = calloc(c->n + 1, sizeof *d->chosen);
    int rc = d->chosen ? 0 : no_memory(d);
    for (size_t i = 1; i < c->n && !rc; i++) {
        struct lladd_span field = csv_field(c, i);
        char *name = strndup(field.data, field.len);
        rc = name ? number_of(d, name, &d->chosen[i - 1]) : no_memory(d);
        free(name);
        for (size_t k = 1; k < i && !rc; k++)
            if (d->chosen[k - 1] == d->chosen[i - 1])
                rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "a column is named twice");
    }
    d->n_chosen = c->n - 1;
    return rc;
}

/* An empty field means no value; an empty pair of quotation marks means a value of no bytes. */
static int change_of(struct tabling *d, const struct csv *c, size_t i, unsigned char **room,
                     struct lladd_ctable_change *out)
{
    struct lladd_span field = csv_field(c, i + 1);
    *out = (struct lladd_ctable_change){.column = d->chosen[i]};
    if (field.len == 0 && !csv_quoted(c, i + 1))
        return 0;
    *room = malloc(field.len + 1);
    if (!*room)
        return no_memory(d);
    out->value.state = LLADD_DTABLE_FOUND;
    return tabling_bytes(d, field, *room, &out->value.bytes) ? 0 : d->err.code;
}

int tabling_put_fields(struct tabling *d, const struct csv *c)
{
    struct lladd_ctable_change *changes = calloc(c->n + 1, sizeof *changes);
    unsigned char **rooms = calloc(c->n + 1, sizeof *rooms);
    struct lladd_span text = csv_field(c, 0);
    unsigned char *room = malloc(text.len + 1);
    struct lladd_dtable_key key;
    int rc = changes && rooms && room ? 0 : no_memory(d);
    if (!rc && c->n > 1 && c->n != d->n_chosen + 1)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT,
                             "the row has %zu fields, but the first line has %zu", c->n,
                             d->n_chosen + 1);
    if (!rc && !tabling_key(d, text, room, &key))
        rc = d->err.code;
    for (size_t i = 0; i + 1 < c->n && !rc; i++)
        rc = change_of(d, c, i, &rooms[i], &changes[i]);
    if (!rc) {
        rc = c->n == 1 ? lladd_ctable_delete(d->txn, d->columns, &key)
                       : lladd_ctable_update(d->txn, d->columns, &key, changes, c->n - 1);
        if (rc)
            d->err = *lladd_txn_error(d->txn);
    }
    for (size_t i = 0; rooms && i < c->n; i++)
        free(rooms[i]);
    free(rooms);
    free(changes);
    free(room);
    return rc;
}

/* ---- printing -------------------------------------------------------------------------------- */

static const char *name_of(const struct tabling *d, size_t i)
{
    return lladd_ctable_column_name(d->columns, d->chosen[i]);
}

void tabling_write_header(const struct tabling *d)
{
    if (!d->csv || d->t->json)
        return;
    printf("key");
    for (size_t i = 0; i < d->n_chosen; i++) {
        putchar(',');
        csv_write(stdout, name_of(d, i), strlen(name_of(d, i)));
    }
    putchar('\n');
}

static void write_json(const struct tabling *d, const struct lladd_dtable_key *key,
                       const struct lladd_dtable_value *values)
{
    json_t *columns = json_array();
    for (size_t i = 0; i < d->n_chosen; i++) {
        struct lladd_span v = values[i].bytes;
        json_t *value = values[i].state != LLADD_DTABLE_FOUND ? json_null()
                        : d->hex                              ? tool_json_hex(v.data, v.len)
                                                              : tool_json_bytes(v.data, v.len);
        json_array_append_new(columns, json_pack("{s:o, s:o}", "name",
                                                 tool_json_text(name_of(d, i)), "value", value));
    }
    tool_json_print(json_pack("{s:o, s:o}", "key", tabling_json_key(d, key), "columns", columns),
                    false);
}

void tabling_write_columns(const struct tabling *d, const struct lladd_dtable_key *key,
                           const struct lladd_dtable_value *values)
{
    if (d->t->json) {
        write_json(d, key, values);
        return;
    }
    tabling_write_key(d, key);
    for (size_t i = 0; i < d->n_chosen; i++) {
        bool found = values[i].state == LLADD_DTABLE_FOUND;
        if (d->csv)
            putchar(',');
        else if (found)
            printf(" %s=", name_of(d, i));
        if (found && d->csv && values[i].bytes.len == 0)
            printf("\"\"");
        else if (found)
            tabling_write_bytes(d, values[i].bytes);
    }
    putchar('\n');
}

int tabling_get_columns(struct tabling *d, const struct lladd_dtable_key *key)
{
    struct lladd_ctable_row row = {.n = 0};
    int rc = tabling_choose(d);
    if (rc)
        return rc;
    rc = lladd_ctable_lookup(d->txn, d->columns, key, d->chosen, d->n_chosen, &row);
    if (rc)
        d->err = *lladd_txn_error(d->txn);
    bool one = d->names && d->n_chosen == 1 && !d->csv && !d->t->json;
    if (!rc && one && row.values[0].state != LLADD_DTABLE_FOUND)
        rc = LLADD_NOT_FOUND;
    if (!rc && one) {
        tabling_write_value(d, key, row.values[0].bytes);
    } else if (!rc) {
        tabling_write_header(d);
        tabling_write_columns(d, key, row.values);
    }
    lladd_ctable_row_free(&row);
    return rc;
}
