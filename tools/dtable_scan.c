/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable scan: the rows of a table in the order of their keys. */
#include "dtable.h"

#include <lladd/dtable_class.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum step { FIRST, NEXT };

struct scan {
    struct tabling *d;
    struct lladd_dtable_cursor *rows;   /* one of these two is open */
    struct lladd_ctable_cursor *columns;
    const struct lladd_dtable_key *from, *to; /* nullable */
    /* The row at the cursor. */
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    const struct lladd_dtable_value *values;
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
        [FIRST] = lladd_dtable_first, [NEXT] = lladd_dtable_next};
    static int (*const of_columns[])(struct lladd_ctable_cursor *, struct lladd_error *) = {
        [FIRST] = lladd_ctable_first, [NEXT] = lladd_ctable_next};
    return s->columns ? of_columns[how](s->columns, &s->d->err)
                      : of_rows[how](s->rows, &s->d->err);
}

static int seek(struct scan *s, const struct lladd_dtable_key *key)
{
    return s->columns ? lladd_ctable_seek(s->columns, key, &s->d->err)
                      : lladd_dtable_seek(s->rows, key, &s->d->err);
}

static int read_row(struct scan *s)
{
    return s->columns ? lladd_ctable_row(s->columns, &s->key, &s->values, &s->d->err)
                      : lladd_dtable_row(s->rows, &s->key, &s->value, &s->d->err);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static int compare(const struct scan *s, const struct lladd_dtable_key *a,
                   const struct lladd_dtable_key *b)
{
    return lladd_dtable_compare(&s->d->rows->order, a, b);
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
    }
    return rc == LLADD_END ? 0 : rc;
}

/* Reads an end of the range, if it is given; otherwise sets *out to NULL. */
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
    /* Rows on a terminal show the progress themselves. */
    d->t->progress.on = d->t->progress.on && !isatty(STDOUT_FILENO);
    int rc = take_end(d, 1, &room[0], &keys[0], &s.from);
    if (!rc)
        rc = take_end(d, 2, &room[1], &keys[1], &s.to);
    if (!rc)
        rc = open_cursor(&s);
    if (!rc)
        rc = print(&s, s.from ? seek(&s, s.from) : step(&s, FIRST));
    close_cursor(&s);
    free(room[0]);
    free(room[1]);
    return rc;
}
