/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A segment is missing in the middle or at the beginning of the log. Open must refuse the log if
 * redo needs this segment. If open refuses the log, verify must report the missing segment,
 * wherever the last checkpoint is.
 */
#include "bench.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

static bool opens(struct lladd_device *dev)
{
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    int rc = lladd_open(NULL, &o, &db, NULL);
    if (!rc)
        lladd_db_kill(db);
    lladd_options_release(&o);
    return rc == 0;
}

static void note(struct lladd_txn *txn)
{
    static const char text[1000];
    struct lladd_span span = lladd_span_of(text, sizeof text);
    ck_assert_int_eq(lladd_log_note(txn, "test.note", span, NULL), 0);
}

/* Makes a database that has crashed. If `open` is true, redo begins at the last checkpoint, and
 * undo needs some segments before the checkpoint. If `open` is false, redo begins some segments
 * before the checkpoint, and only the first of these segments has a record about a page. */
static struct lladd_device *long_crashed(bool open)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    struct lladd_options o = made_options(dev);
    struct lladd_db *db;
    struct lladd_txn *txn;
    o.checkpoint_bytes = 48 << 10;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    bench_change(db, m.bytes, "once");
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (int i = 0; i < 100; i++) {
        if (open)
            ck_assert_int_eq(lladd_bytes_set(txn, m.bytes, 400, "open", 4), 0);
        note(txn);
    }
    if (!open)
        ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(open ? lladd_checkpoint(db, NULL) : lladd_maintain(db, NULL, NULL), 0);
    lladd_db_kill(db);
    return dev;
}

/* The log has a hole, and no other damage. Verify must report what open refuses. */
START_TEST(missing_segments)
{
    struct lladd_device *dev = long_crashed(_i == 1);
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_info i = bench_info(v);
    char begins[32]; /* the file in which redo begins */
    uint64_t offset;
    ck_assert(lladd_inspect_place(v, i.redo, begins, &offset));
    lladd_inspect_close(v);
    ck_assert_uint_eq(bench_verify_files(dev).count.damage, 0);
    struct image im = bench_copy(dev);
    unsigned refused = 0, holes = 0;
    for (size_t k = 0; k < im.n; k++) {
        const char *name = im.files[k].name;
        if (strncmp(name, "log/", 4) != 0)
            continue;
        struct lladd_device *cut = bench_device(&im);
        ck_assert_int_eq(cut->ops->unlink(cut, name), 0);
        struct findings f = bench_verify_files(cut);
        bench_no_page_accused(&f);
        if (!opens(cut)) {
            ck_assert_msg(f.count.damage > 0, "%s is missing, and nothing is said", name);
            refused++;
            uint64_t first = strtoull(name + 4, NULL, 16);
            holes += first > i.log_oldest.v && first + MADE_SEGMENT < i.checkpoint.v;
        } else {
            ck_assert_str_ne(name, begins);
        }
        lladd_device_close(cut);
    }
    ck_assert_uint_gt(refused, holes);
    ck_assert_uint_ge(holes, 2);
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("missing segments");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, missing_segments, 0, 2);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
