/* SPDX-License-Identifier: BSD-2-Clause */
/* members DIR: a dTable class of your own, a set of numbers.
 *
 * A member of a set is a key with an empty value. Such rows need neither lengths nor values: this
 * class stores eight bytes per row, finds rows by binary search, and rejects tombstones and rows
 * with other values; an exception_dtable above it stores the rejected rows elsewhere.
 * docs/writing-a-dtable.md walks through this file. */
#include <lladd/bytes.h>
#include <lladd/dtable_class.h>
#include <lladd/pages.h>

#include <stdio.h>

#define TRY(call) \
    do { \
        int rc_ = (call); \
        if (rc_) \
            return rc_; \
    } while (0)

/* [configure] Sets the capabilities of the class. Called when a configuration with the class is
 * checked. */
static int members_configure(struct lladd_dtable_config *config, struct lladd_dtable_caps *caps,
                             struct lladd_error *err)
{
    (void)config;
    (void)err;
    caps->types = LLADD_DTABLE_NUMBERS;
    caps->tombstones = false;
    caps->value_size = 0;
    return 0;
}
/* [/configure] */

/* [builder] Adds rows. */
enum { CELL = 8 };

struct members_builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *out;
    uint64_t rows;
};

static int members_begin(struct lladd_dtable_builder *base)
{
    struct members_builder *b = (struct members_builder *)base;
    return lladd_dtable_stream(base, "members", &b->out);
}

static int members_add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
                       const struct lladd_dtable_value *value)
{
    struct members_builder *b = (struct members_builder *)base;
    unsigned char cell[CELL];
    if (value->state == LLADD_DTABLE_TOMBSTONE || value->bytes.len > 0)
        return LLADD_DTABLE_REJECT;
    lladd_put64(cell, key->number);
    TRY(lladd_dtable_write_cell(b->out, cell, CELL));
    b->rows++;
    return 0;
}

static int members_finish(struct lladd_dtable_builder *base)
{
    unsigned char rows[8];
    lladd_put64(rows, ((struct members_builder *)base)->rows);
    return lladd_dtable_footer(base, rows, sizeof rows);
}
/* [/builder] */

/* [open] The reader. It checks the bytes from the disk before it uses them. */
struct members {
    struct lladd_dtable base;
    const struct lladd_dtable_source *in;
    uint32_t block_size;
};

static int members_open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct members *t = (struct members *)base;
    TRY(lladd_dtable_source_open(base, "members", &t->in, err));
    t->block_size = lladd_dtable_source_block(t->in);
    if (base->footer.len != 8)
        return lladd_dtable_corrupt(base, err, "no number of rows");
    base->places = lladd_get64(base->footer.data);
    if (base->places > lladd_dtable_source_blocks(t->in) * (t->block_size / CELL))
        return lladd_dtable_corrupt(base, err, "more rows than there is room for");
    return 0;
}
/* [/open] */

/* [read] The row at a place, and the place of a key. */
static int members_at(const struct lladd_dtable *base, uint64_t place,
                      struct lladd_dtable_pin *pin, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    const struct members *t = (const struct members *)base;
    const unsigned char *cell;
    TRY(lladd_dtable_cell(pin, 0, t->in, t->block_size, CELL, place, &cell, err));
    if (key)
        *key = (struct lladd_dtable_key){.type = base->order.type, .number = lladd_get64(cell)};
    if (value)
        *value = lladd_dtable_value_of("", 0);
    return 0;
}

static int members_find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                        struct lladd_error *err)
{
    uint64_t from = 0, to = base->places;
    *exact = false;
    while (from < to) {
        uint64_t mid = from + (to - from) / 2;
        struct lladd_dtable_key there;
        TRY(members_at(base, mid, pin, &there, NULL, err));
        *exact = *exact || there.number == key->number;
        if (there.number < key->number)
            from = mid + 1;
        else
            to = mid;
    }
    *place = from;
    return 0;
}
/* [/read] */

/* [class] The whole class, with its name. */
static const struct lladd_dtable_class members_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "members_dtable",
    .version = 1,
    .about = "a set of numbers: keys without values",
    .configure = members_configure,
    .builder_size = sizeof(struct members_builder),
    .begin = members_begin,
    .add = members_add,
    .finish = members_finish,
    .reader_size = sizeof(struct members),
    .open = members_open,
    .find = members_find,
    .at = members_at,
};
/* [/class] */

/* [use] A table of members; a few of them have a note as their value. */
static const char config[] = "class(dt) exception_dtable config [\n"
                             "    \"base\" class(dt) members_dtable \"reject_value\" blob empty\n"
                             "    \"alt\" class(dt) linear_dtable ]";

static int add_members(struct lladd_dtable_run_builder *run)
{
    for (uint32_t n = 1; n <= 100000; n++) {
        char note[32];
        int len = n % 1000 ? 0 : snprintf(note, sizeof note, "the %uth", n);
        struct lladd_dtable_key key = lladd_dtable_u32(7 * n);
        struct lladd_dtable_value value = lladd_dtable_value_of(note, (size_t)len);
        TRY(lladd_dtable_run_add(run, &key, &value));
    }
    return 0;
}

static int build(struct lladd_txn *txn)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    lladd_pageno root;
    o.type = LLADD_DTABLE_U32;
    o.text = config;
    o.name = "members";
    TRY(lladd_dtable_run_begin(txn, &o, &run));
    int rc = add_members(run);
    if (!rc)
        rc = lladd_dtable_run_finish(run, &root);
    if (rc) {
        TRY(lladd_dtable_run_discard(run));
        return rc;
    }
    return lladd_root_set(txn, "members", (struct lladd_root_value){root.v, 0});
}
/* [/use] */

static int build_once(struct lladd_db *db, struct lladd_root_value *root, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_root_get(db, "members", root, err);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = build(txn);
    if (rc) {
        *err = *lladd_txn_error(txn);
        TRY(lladd_abort(txn));
        return rc;
    }
    TRY(lladd_commit(txn));
    return lladd_root_get(db, "members", root, err);
}

static int show(const struct lladd_dtable *t, struct lladd_error *err)
{
    static const uint32_t ids[] = {7, 8, 7000};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    for (int i = 0; i < 3; i++) {
        char note[32];
        size_t len = 0;
        struct lladd_dtable_key key = lladd_dtable_u32(ids[i]);
        int rc = lladd_dtable_get(t, &key, note, sizeof note, &len, err);
        if (rc && rc != LLADD_NOT_FOUND)
            return rc;
        printf("%u is %s%s%.*s\n", ids[i], rc ? "no member" : "a member", len ? ", " : "",
               (int)len, note);
    }
    TRY(lladd_dtable_run_check(t, err));
    TRY(lladd_dtable_run_info_get(t, &info, err));
    printf("%llu rows in %llu KiB\n", (unsigned long long)info.rows,
           (unsigned long long)info.bytes / 1024);
    return 0;
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value root;
    struct lladd_dtable *t;
    TRY(lladd_dtable_class_add(db, &members_class, err));
    TRY(build_once(db, &root, err));
    TRY(lladd_dtable_run_open(db, lladd_page_of(root.a), &t, err));
    int rc = show(t, err);
    lladd_dtable_close(t);
    return rc;
}

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    int rc = lladd_open(argc > 1 ? argv[1] : "members.db", NULL, &db, &err);
    if (!rc) {
        rc = run(db, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
