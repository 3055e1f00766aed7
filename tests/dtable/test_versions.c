/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run stores the version of its format and of each class. A run with a newer version is refused,
 * and the message names the class or the format. A run with the previous version of a class is
 * read. A refused run loses nothing.
 */
#include "model.h"
#include "texts.h"

#include <lladd/bytes.h>
#include <lladd/blob.h>
#include <stdlib.h>
#include <string.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* A run's descriptor, to be changed. */
struct descriptor {
    lladd_pageno root;
    unsigned char *bytes;
    size_t len;
};

static struct descriptor descriptor_of(lladd_pageno root)
{
    uint64_t len;
    ok_db(&b, lladd_blob_length(b.db, root, &len, &b.err));
    struct descriptor d = {root, malloc((size_t)len), (size_t)len};
    ck_assert_ptr_nonnull(d.bytes);
    ok_db(&b, lladd_blob_read(b.db, root, 0, d.bytes, d.len, NULL, &b.err));
    return d;
}

static void store(struct descriptor *d)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_put32(d->bytes + d->len - 4, lladd_crc32c(0, d->bytes, d->len - 4));
    ok(txn, lladd_blob_write(txn, d->root, 0, d->bytes, d->len));
    commit(txn);
}

/* Returns the place of a layer's version in the descriptor. The version is followed by the length
 * of the layer's footer, and by the footer, which begins with `first`. */
static unsigned char *version_at(const struct descriptor *d, uint32_t version, uint32_t footer,
                                 uint64_t first)
{
    unsigned char wanted[16], *found = NULL;
    lladd_put32(wanted, version);
    lladd_put32(wanted + 4, footer);
    lladd_put64(wanted + 8, first);
    for (size_t i = 0; i + sizeof wanted <= d->len; i++)
        if (memcmp(d->bytes + i, wanted, sizeof wanted) == 0) {
            ck_assert_ptr_null(found);
            found = d->bytes + i;
        }
    ck_assert_ptr_nonnull(found);
    return found;
}

static void refused(lladd_pageno root, int code, const char *why)
{
    struct lladd_dtable *t;
    ck_assert_int_eq(lladd_dtable_run_open(b.db, root, &t, &b.err), code);
    ck_assert_msg(strstr(b.err.message, why) != NULL, "%s", b.err.message);
}

/* The values have several sizes. So the leaves have a form that was already in version 2. The
 * footer of the tree has FOOTER bytes, and begins with the number of keys. */
START_TEST(versions_of_classes)
{
    enum { ROWS = 3000, FOOTER = 32, NOW = 3 };
    static const struct shape shape = {LLADD_DTABLE_U64, ROWS, 7, 300, 9, false};
    static const struct {
        uint32_t version;
        int code;
        const char *why;
    } cases[] = {{4, LLADD_NEWER_FORMAT, "btree_dtable of version 4; 3 is known"},
                 {1, LLADD_CORRUPT_RUN, "version 1"},
                 {2, 0, ""},
                 {NOW, 0, ""}};
    struct model m;
    lladd_pageno root;
    rows_init(&m, shape.type);
    struct lladd_dtable *t =
        rows_run(&b, &m, "class(dt) btree_dtable config [ \"base\" class(dt) linear_dtable ]",
                 &shape, 1, &root);
    ck_assert_ptr_nonnull(t);
    lladd_dtable_close(t);
    struct descriptor d = descriptor_of(root);
    unsigned char *version = version_at(&d, NOW, FOOTER, m.n);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lladd_put32(version, cases[i].version);
        store(&d);
        if (cases[i].code) {
            refused(root, cases[i].code, cases[i].why);
            continue;
        }
        t = open_run(&b, root);
        rows_check(&m, t, i, 500);
        ok_db(&b, lladd_dtable_run_check(t, &b.err));
        lladd_dtable_close(t);
    }
    free(d.bytes);
    rows_free(&m);
}
END_TEST

START_TEST(version_of_the_format)
{
    static const char *const values[] = {"here", "there", NULL};
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run =
        begin_run(txn, LLADD_DTABLE_U32, "class(dt) linear_dtable");
    lladd_pageno root;
    for (uint32_t i = 0; values[i]; i++)
        ok(txn, add_text(run, i, values[i]));
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct descriptor d = descriptor_of(root);
    lladd_put32(d.bytes + 8, 2);
    store(&d);
    refused(root, LLADD_NEWER_FORMAT, "format 2; 1 is known");
    lladd_put32(d.bytes + 8, 1);
    store(&d);
    struct lladd_dtable *t = open_run(&b, root);
    char text[20];
    ck_assert_int_eq(state_of(&b, t, 1, text), LLADD_DTABLE_FOUND);
    ck_assert_str_eq(text, "there");
    lladd_dtable_close(t);
    free(d.bytes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.versions");
    TCase *tc = tcase_create("versions");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, versions_of_classes);
    tcase_add_test(tc, version_of_the_format);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
