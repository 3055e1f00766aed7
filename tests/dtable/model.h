/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_MODEL_H
#define TESTS_DTABLE_MODEL_H
/* A model: the expected rows of a table, in memory and in the order of their keys. Functions
 * compare a table with the model. */
#include "op_fixture.h"

#include <lladd/dtable_class.h>
#include <lladd/dtable_row.h>

struct model_row {
    struct lladd_dtable_key key;
    enum lladd_dtable_state state;
    unsigned char *key_bytes, *value;
    size_t len;
};
struct model {
    enum lladd_dtable_type type;
    struct lladd_dtable_order order;
    struct model_row *rows;
    size_t n, cap;
    bool packed;       /* values are packed rows */
    bool vague;        /* for the table, a deleted row is the same as any other absent row */
    uint64_t compared; /* how many answers of a table were compared */
};

void rows_init(struct model *, enum lladd_dtable_type);
void rows_free(struct model *);
/* Copies the rows to an uninitialised model. */
void rows_copy(struct model *, const struct model *);
/* Appends a row after all others. */
void rows_add(struct model *, const struct lladd_dtable_key *, const struct lladd_dtable_value *);
/* Inserts a row at its place, or replaces the row of this key. If the state of the value is ABSENT,
 * removes the row. */
void rows_put(struct model *, const struct lladd_dtable_key *, const struct lladd_dtable_value *);
/* Returns the row of a key, or NULL. */
const struct model_row *rows_find(const struct model *, const struct lladd_dtable_key *);

/* How keys and values are drawn. */
struct shape {
    enum lladd_dtable_type type;
    size_t rows;
    uint64_t first, gap; /* first: the number before the first key; gap: the largest distance
                          * between two keys */
    unsigned tombstones; /* one row in this many is a tombstone; 0: there are no tombstones */
    bool packed;         /* values are packed rows of up to four columns */
};
enum { SHAPE_ROOM = 160 };
/* Draws the next key of a shape. *number is the number of the previous key, and becomes the number
 * of this key. The bytes of *key are in `room` (64 bytes). */
void shape_key(const struct shape *, uint64_t *random, uint64_t *number, unsigned char *room,
               struct lladd_dtable_key *key);
/* Draws a tombstone or a value. Values have from 0 to 40 bytes; some are numbers, words, or
 * placeholders of the configurations. If s->packed, the value is a packed row of values of this
 * kind. The bytes of the value are in `room` (SHAPE_ROOM bytes). */
struct lladd_dtable_value shape_value(const struct shape *, uint64_t *random, unsigned char *room);

/* Builds a run of drawn rows, and commits it. Rows that the run rejects are not in the model.
 * Returns NULL if the configuration has no keys of the type. */
struct lladd_dtable *rows_run(struct fixture *, struct model *, const char *config,
                              const struct shape *, uint64_t seed, lladd_pageno *root);

/* Compares the table with the model: lookups of every key, of keys between them and outside of
 * them, and `steps` random moves of a cursor. Tombstones must be returned only to calls that ask
 * for them. */
void rows_check(struct model *, const struct lladd_dtable *, uint64_t seed, unsigned steps);
/* Like rows_check, but without places, and without cursors that ask for tombstones: managed tables
 * have no places, and may leave out tombstones. */
void rows_check_found(struct model *, const struct lladd_dtable *, uint64_t seed, unsigned steps);

/* A cursor over the rows with values. It can stay open during all changes of the table, and each
 * move is compared with the model. */
struct walk {
    struct model *m;
    struct lladd_dtable_cursor *c;
    struct lladd_error err;
    bool all;
    long at;
};
void walk_open(struct walk *, struct model *, const struct lladd_dtable *);
void walk_moves(struct walk *, uint64_t *random, unsigned moves);
void walk_close(struct walk *);

#define ok_err(err, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, lladd_code_name(ok_rc), (err)->message); \
    } while (0)

#endif
