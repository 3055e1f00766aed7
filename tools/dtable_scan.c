/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable scan: the rows of a table in the order of their keys. */
#include "dtable.h"
#include "dump_text.h"

#include <inttypes.h>
#include <lladd/dtable_class.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum step { FIRST, NEXT, LAST, PREV };

/* A copy of a key. */
struct kept {
    bool any;
    struct lladd_dtable_key key;
    unsigned char *bytes;
    size_t size;
};

struct scan {
    struct tabling *d;
    struct lladd_dtable_cursor *rows; /* one of the two is open */
    struct lladd_ctable_cursor *columns;
    const struct lladd_dtable_key *from, *to; /* nullable */
    /* The row at the cursor. */
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    const struct lladd_dtable_value *values;
    struct kept before, after; /* with --salvage: the keys of the last row before and the first row
                                * after the rows that are left out */
};

/* ---- a cursor of either kind ----------------------------------------------------------------- */

static int open_cursor(struct scan *s)
{
    struct tabling *d = s->d;
    if (!d->columns)
        return lladd_dtable_cursor_open(d->rows, 0, &s->rows, &d->err);
    int rc = tabling_choose(d);
    if (rc)
        return rc;
    rc = lladd_ctable_cursor_open(d->txn, d->columns, d->chosen, d->n_chosen, &s->columns);
    if (rc)
        d->err = *lladd_txn_error(d->txn);
    else
        tabling_write_header(d);
    return rc;
}

static void close_cursor(struct scan *s)
{
    if (s->rows)
        lladd_dtable_cursor_close(s->rows);
    if (s->columns)
        lladd_ctable_cursor_close(s->columns);
}

static int step(struct scan *s, enum step how)
{
    static int (*const of_rows[])(struct lladd_dtable_cursor *, struct lladd_error *) = {
        [FIRST] = lladd_dtable_first,
        [NEXT] = lladd_dtable_next,
        [LAST] = lladd_dtable_last,
        [PREV] = lladd_dtable_prev};
    static int (*const of_columns[])(struct lladd_ctable_cursor *, struct lladd_error *) = {
        [FIRST] = lladd_ctable_first,
        [NEXT] = lladd_ctable_next,
        [LAST] = lladd_ctable_last,
        [PREV] = lladd_ctable_prev};
    return s->columns ? of_columns[how](s->columns, &s->d->err)
                      : of_rows[how](s->rows, &s->d->err);
}

static int seek(struct scan *s, const struct lladd_dtable_key *key)
{
    return s->columns ? lladd_ctable_seek(s->columns, key, &s->d->err)
                      : lladd_dtable_seek(s->rows, key, &s->d->err);
}

static int seek_for_prev(struct scan *s, const struct lladd_dtable_key *key)
{
    return s->columns ? lladd_ctable_seek_for_prev(s->columns, key, &s->d->err)
                      : lladd_dtable_seek_for_prev(s->rows, key, &s->d->err);
}

static int read_row(struct scan *s)
{
    return s->columns ? lladd_ctable_row_read(s->columns, &s->key, &s->values, &s->d->err)
                      : lladd_dtable_row(s->rows, &s->key, &s->value, &s->d->err);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static int compare(const struct scan *s, const struct lladd_dtable_key *a,
                   const struct lladd_dtable_key *b)
{
    return lladd_dtable_compare(&s->d->rows->order, a, b);
}

static int keep(struct scan *s, struct kept *k)
{
    size_t len = s->key.bytes.len;
    if (len >= k->size) {
        unsigned char *bytes = realloc(k->bytes, 2 * len + 64);
        if (!bytes)
            return lladd_error_set(&s->d->err, LLADD_NO_MEMORY, "out of memory");
        k->bytes = bytes;
        k->size = 2 * len + 64;
    }
    k->any = true;
    k->key = s->key;
    if (s->key.type == LLADD_DTABLE_STRING || s->key.type == LLADD_DTABLE_BYTES) {
        if (len)
            memcpy(k->bytes, s->key.bytes.data, len);
        k->key.bytes.data = k->bytes;
    }
    return 0;
}

/* Prints rows from the cursor's position on. */
static int print(struct scan *s, int rc)
{
    for (; !rc && !ferror(stdout); rc = step(s, NEXT)) {
        rc = read_row(s);
        if (rc || (s->to && compare(s, &s->key, s->to) > 0))
            break;
        if (s->columns)
            tabling_write_columns(s->d, &s->key, s->values);
        else
            tabling_write(s->d, &s->key, s->value.bytes);
        tabling_tell_row(s->d);
        rc = s->d->salvage ? keep(s, &s->before) : 0;
        if (rc)
            break;
    }
    return rc == LLADD_END ? 0 : rc;
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Is rc damage that --salvage skips? */
static bool pass(const struct scan *s, int rc)
{
    return s->d->salvage && lladd_code_root(rc) == LLADD_ROOT_DATA;
}

static void say_key(const char *where, const struct kept *k)
{
    if (!k->any)
        return;
    fprintf(stderr, "%s", where);
    if (k->key.bytes.data)
        dump_quoted(stderr, k->key.bytes.data, k->key.bytes.len);
    else if (k->key.type == LLADD_DTABLE_DOUBLE)
        fprintf(stderr, "%.17g", lladd_dtable_as_double(&k->key));
    else
        fprintf(stderr, "%" PRIu64, k->key.number);
}

/* Reports which rows are left out, and why. */
static void leave_out(struct scan *s, const char *why)
{
    tool_progress_end(s->d->t);
    fprintf(stderr, "lladd %s: rows", s->d->t->verb);
    say_key(" after ", &s->before);
    say_key(s->before.any && s->after.any ? " and before " : " before ", &s->after);
    fprintf(stderr, " are left out: %s\n", why);
    s->d->left_out = true;
}

/* Goes backwards from the end of the range to the last damage, or to the rows that were printed.
 * Copies the key of the first row after this place. */
static int find_end_of_damage(struct scan *s)
{
    int rc = s->to ? seek_for_prev(s, s->to) : step(s, LAST);
    for (; !rc; rc = step(s, PREV)) {
        rc = read_row(s);
        if (rc || (s->before.any && compare(s, &s->key, &s->before.key) <= 0) ||
            (s->from && compare(s, &s->key, s->from) < 0))
            break;
        rc = keep(s, &s->after);
        if (rc)
            break;
        tool_progress(s->d->t, "rows, backwards", ++s->d->done, 0);
    }
    return rc == LLADD_END || pass(s, rc) ? 0 : rc;
}

/* Called after damage: continues with the rows after the last damage. The rows between the first
 * and the last damage are left out. */
static int go_on(struct scan *s)
{
    char why[sizeof s->d->err.message];
    snprintf(why, sizeof why, "%s", s->d->err.message);
    int rc = find_end_of_damage(s);
    if (rc)
        return rc;
    leave_out(s, why);
    return s->after.any ? print(s, seek(s, &s->after.key)) : 0;
}

/* Parses an end of the range if the argument is given; otherwise sets *out to NULL. */
static int take_end(struct tabling *d, int arg, unsigned char **room, struct lladd_dtable_key *key,
                    const struct lladd_dtable_key **out)
{
    *out = NULL;
    if (arg >= d->t->argc)
        return 0;
    struct lladd_span text = {d->t->argv[arg], strlen(d->t->argv[arg])};
    *room = malloc(text.len + 1);
    if (!*room)
        return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
    *out = key;
    return tabling_key(d, text, *room, key) ? 0 : d->err.code;
}

int tabling_scan(struct tabling *d)
{
    struct scan s = {.d = d};
    struct lladd_dtable_key keys[2];
    unsigned char *room[2] = {NULL, NULL};
    /* If the rows go to a terminal, no progress line is shown. */
    d->t->progress.on = d->t->progress.on && !isatty(STDOUT_FILENO);
    int rc = take_end(d, 1, &room[0], &keys[0], &s.from);
    if (!rc)
        rc = take_end(d, 2, &room[1], &keys[1], &s.to);
    if (!rc)
        rc = open_cursor(&s);
    if (!rc)
        rc = print(&s, s.from ? seek(&s, s.from) : step(&s, FIRST));
    if (pass(&s, rc))
        rc = go_on(&s);
    close_cursor(&s);
    free(room[0]);
    free(room[1]);
    free(s.before.bytes);
    free(s.after.bytes);
    return rc;
}
