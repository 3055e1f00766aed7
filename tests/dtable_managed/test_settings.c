/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings of a managed table. An invalid configuration is refused at creation, and leaves nothing.
 * Changes of settings are durable. They apply to runs that are built afterwards, and to the
 * schedule.
 */
#include "managed_fixture.h"

#include <lladd/ctable.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

/* The configuration of a table must be able to store tombstones: digests store them, and so do
 * combines that leave an older run. */
static const struct {
    const char *config, *says; /* says: the line, column and class that the error names; NULL: the
                                * configuration is accepted */
} deleting[] = {
    {"class(dt) array_dtable config [ \"value_size\" int 1 \"tag_byte\" bool false ]",
     "line 1, column 11: array_dtable"},
    {"class(dt) empty_dtable", "line 1, column 11: empty_dtable"},
    {"class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"base_config\" "
     "config [ \"tag_byte\" bool false ]\n\"alt\" class(dt) empty_dtable \"reject_value\" string "
     "\"_\" ]",
     "line 1, column 54: array_dtable"},
    {"class(dt) keydiv_dtable config [ \"divider\" int 100 \"below\" class(dt) linear_dtable\n"
     "\"from\" class(dt) empty_dtable ]",
     "line 2, column 18: empty_dtable"},
    {"class(dt) exist_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config [ "
     "\"value_size\" int 1 \"tag_byte\" bool false \"hole_value\" string \"!\" ] \"tombstones\" "
     "class(dt) linear_dtable ]",
     NULL},
    {"class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config [ "
     "\"tag_byte\" bool false \"hole_value\" string \"!\" ] \"alt\" class(dt) linear_dtable "
     "\"reject_value\" string \"_\" ]",
     NULL},
    {"class(dt) array_dtable config [ \"tag_byte\" bool false \"hole_value\" string \"!\" "
     "\"tombstone_value\" string \"-\" ]",
     NULL},
};

START_TEST(configurations_without_tombstones_are_refused)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    const char *config = deleting[_i / 2].config, *says = deleting[_i / 2].says;
    t = managed_begin(&b, NULL);
    o.type = LLADD_DTABLE_U32;
    o.config = _i % 2 ? NULL : config;
    o.combine_config = _i % 2 ? config : NULL;
    struct lladd_txn *txn = fixture_begin(&b);
    if (says) {
        refuses(txn, LLADD_BAD_CONFIG, lladd_managed_create(txn, "other", &o));
        ck_assert_msg(strstr(lladd_txn_error(txn)->message, says) != NULL, "%s",
                      lladd_txn_error(txn)->message);
        commit(txn);
        ck_assert_int_eq(lladd_managed_destroy((txn = fixture_begin(&b)), "other"),
                         LLADD_NOT_FOUND);
        commit(txn);
    } else {
        ok(txn, lladd_managed_create(txn, "other", &o));
        commit(txn);
        struct lladd_managed *other = managed_open(&b, "other");
        managed_fill(&b, other, "1=a 2=b 3=c 5=d");
        ok_db(&b, lladd_managed_digest(other, &b.err));
        managed_fill(&b, other, "2 6=e"); /* key 2 is deleted in a run that is not the oldest one */
        ok_db(&b, lladd_managed_digest(other, &b.err));
        managed_expect(&b, other, "1=a 3=c 5=d 6=e");
        ok_db(&b, lladd_managed_combine(other, 0, &b.err));
        managed_expect(&b, other, "1=a 3=c 5=d 6=e");
        managed_close(&b, other);
    }
    managed_done(&b, t);
}
END_TEST

/* A refused table leaves nothing, not even in the catalogue. */
START_TEST(refused_tables_leave_nothing)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_root_value root;
    managed_init(&b);
    fixture_open(&b);
    uint64_t pages = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    o.type = LLADD_DTABLE_U32;
    o.config = "class(dt) fixed_dtable";
    refuses(txn, LLADD_BAD_CONFIG, lladd_managed_create(txn, "bad", &o));
    o.config = NULL;
    o.every = 1;
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_managed_create(txn, "bad", &o));
    commit(txn);
    ck_assert_int_eq(lladd_root_get(b.db, "managed", &root, &b.err), LLADD_NOT_FOUND);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    fixture_free(&b);
}
END_TEST

/* ---- changes --------------------------------------------------------------------------------- */

#define LINEAR "class(dt) linear_dtable"
#define FILTER "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]"
#define ONE_BYTE "class(dt) fixed_dtable config [ \"value_size\" int 1 ]"

/* Checks the options of the table; `want` lists all of them in a line. */
static void are(struct lladd_managed *table, const char *want)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings, said[2000];
    ok_db(&b, lladd_managed_settings(table, &o, &strings, &b.err));
    (void)snprintf(said, sizeof said, "%d %s %s %s %d %u %llu %llu %llu", o.type,
                   o.comparator ? o.comparator : "-", o.config ? o.config : "-",
                   o.combine_config ? o.combine_config : "-", o.schedule, o.every,
                   (unsigned long long)o.memory_bytes, (unsigned long long)o.rows,
                   (unsigned long long)o.interval_ns);
    ck_assert_str_eq(said, want);
    lladd_mem_free(b.db, strings);
}

#define RESOLVED "config [ \"base\" class(dt) linear_dtable ]"
#define RESOLVED_FILTER \
    "config [ \"base\" class(dt) bloom_dtable \"base_config\" config [ \"base\" class(dt) " \
    "linear_dtable \"bits_per_key\" int 10 ] ]"

static const struct {
    unsigned which;
    const char *after;
} changes[] = {
    {0, "1 - - - 1 5 1000 10 20"},
    {LLADD_MANAGED_CONFIG, "1 - " RESOLVED_FILTER " - 1 5 1000 10 20"},
    {LLADD_MANAGED_COMBINE_CONFIG, "1 - - " RESOLVED " 1 5 1000 10 20"},
    {LLADD_MANAGED_SCHEDULE, "1 - - - 2 5 1000 10 20"},
    {LLADD_MANAGED_EVERY, "1 - - - 1 7 1000 10 20"},
    {LLADD_MANAGED_MEMORY_BYTES, "1 - - - 1 5 2000 10 20"},
    {LLADD_MANAGED_ROWS, "1 - - - 1 5 1000 30 20"},
    {LLADD_MANAGED_INTERVAL, "1 - - - 1 5 1000 10 40"},
    {LLADD_MANAGED_ALL, "1 - " RESOLVED_FILTER " " RESOLVED " 2 7 2000 30 40"},
};

/* Only the options that `which` selects are changed. The change is in force at once, and after a
 * crash. A second change can set the old value again. */
START_TEST(each_option_is_changed)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT, none = o;
    o.schedule = LLADD_MANAGED_TIERED;
    o.every = 5;
    o.memory_bytes = 1000;
    o.rows = 10;
    o.interval_ns = 20;
    t = managed_begin(&b, &o);
    managed_fill(&b, t, "1=a 2=b");
    are(t, changes[0].after);
    o.type = LLADD_DTABLE_BYTES; /* the type is ignored */
    o.config = FILTER;
    o.combine_config = LINEAR;
    o.schedule = LLADD_MANAGED_NEVER;
    o.every = 7;
    o.memory_bytes = 2000;
    o.rows = 30;
    o.interval_ns = 40;
    ok_db(&b, lladd_managed_alter(t, changes[_i].which, &o, &b.err));
    are(t, changes[_i].after);
    t = managed_restart(&b); /* the power fails */
    are(t, changes[_i].after);
    managed_expect(&b, t, "1=a 2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_expect(&b, t, "1=a 2=b");
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_ALL, &none, &b.err));
    are(t, "1 - - - 0 4 33554432 0 0");
    managed_done(&b, t);
}
END_TEST

/* A table changes from each schedule to each other one. */
START_TEST(every_schedule_is_stored)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char want[60];
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=b");
    for (unsigned i = 0; i < 2 * 16; i++) { /* from i / 8 to i / 2 % 4 */
        o.schedule = (enum lladd_managed_schedule)(i % 2 ? i / 2 % 4 : i / 8);
        ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_SCHEDULE, &o, &b.err));
        (void)snprintf(want, sizeof want, "1 - - - %d 4 33554432 0 0", (int)o.schedule);
        are(t, want);
        t = managed_restart(&b);
        are(t, want);
        managed_expect(&b, t, "1=a 2=b");
    }
    o.schedule = LLADD_MANAGED_LEVELS + 1;
    ck_assert_int_eq(lladd_managed_alter(t, LLADD_MANAGED_SCHEDULE, &o, &b.err),
                     LLADD_BAD_ARGUMENT);
    managed_done(&b, t);
}
END_TEST

START_TEST(wrong_changes_change_nothing)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    t = managed_begin(&b, NULL);
    o.config = FILTER;
    o.every = 1;
    ck_assert_int_eq(lladd_managed_alter(t, LLADD_MANAGED_ALL, &o, &b.err), LLADD_BAD_ARGUMENT);
    o.every = 2;
    ck_assert_int_eq(lladd_managed_alter(t, 1u << 20, &o, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_managed_alter(t, 0, NULL, &b.err), LLADD_BAD_ARGUMENT);
    o.combine_config = "class(dt) bloom_dtable config [ \"base\"\n class(dt) fixed_dtable ]";
    ck_assert_int_eq(lladd_managed_alter(t, LLADD_MANAGED_ALL, &o, &b.err), LLADD_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(b.err.message, "combine_config: line 2, column 12: fixed_dtable"));
    o.combine_config = NULL;
    o.config = "class(dt) array_dtable config [ \"value_size\" int 1 \"tag_byte\" bool false ]";
    ck_assert_int_eq(lladd_managed_alter(t, LLADD_MANAGED_ALL, &o, &b.err), LLADD_BAD_CONFIG);
    are(t, "1 - - - 0 4 33554432 0 0");
    t = managed_restart(&b);
    are(t, "1 - - - 0 4 33554432 0 0");
    managed_done(&b, t);
}
END_TEST

/* True if the configuration of the run has the class; run 0 is the newest. */
static bool run_has(unsigned run, const char *class_name)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_managed_run runs[8];
    struct lladd_dtable *r;
    ok_db(&b, lladd_managed_stats_get(t, &s, runs, 8, &b.err));
    ck_assert_uint_lt(run, s.runs);
    ok_db(&b, lladd_dtable_run_open(b.db, runs[run].root, &r, &b.err));
    ok_db(&b, lladd_dtable_run_info_get(r, &info, &b.err));
    bool has = strstr(info.config, class_name) != NULL;
    lladd_dtable_close(r);
    return has;
}

/* A new configuration applies to runs that are built afterwards. Earlier rows that do not fit it
 * are stored nevertheless. Later rows are checked against it. */
START_TEST(later_runs_have_the_new_configuration)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = LLADD_MANAGED_NEVER;
    t = managed_begin(&b, &o);
    managed_fill(&b, t, "1=a 2=b");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    o.config = FILTER;
    o.combine_config = ONE_BYTE;
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_CONFIG, &o, &b.err));
    managed_fill(&b, t, "3=ccc");
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert(run_has(0, "bloom_dtable") && !run_has(1, "bloom_dtable"));
    struct lladd_txn *old = fixture_begin(&b); /* this transaction has a snapshot, and goes on */
    managed_sees(old, t, "1=a 2=b 3=ccc");
    managed_put(old, t, 4, "dddd");
    managed_fill(&b, t, "5=eeeee");
    ok_db(&b, lladd_managed_alter(t, LLADD_MANAGED_COMBINE_CONFIG, &o, &b.err));
    refuses(old, LLADD_REJECTED, managed_try(old, t, 6, "ff"));
    managed_put(old, t, 6, "f");
    managed_sees(old, t, "1=a 2=b 3=ccc 4=dddd 6=f");
    commit(old);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ck_assert(run_has(0, "bloom_dtable"));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err)); /* the configuration rejects some values */
    ck_assert(run_has(0, "linear_dtable") && !run_has(0, "bloom_dtable"));
    managed_expect(&b, t, "1=a 2=b 3=ccc 4=dddd 5=eeeee 6=f");
    managed_fill(&b, t, "3=c 4=d 5=e");
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ok_db(&b, lladd_managed_digest(t, &b.err));
    ok_db(&b, lladd_managed_combine(t, 0, &b.err));
    ck_assert(run_has(0, "fixed_dtable"));
    t = managed_restart(&b);
    managed_expect(&b, t, "1=a 2=b 3=c 4=d 5=e 6=f");
    managed_tidy(&b, t);
    managed_done(&b, t);
}
END_TEST

/* The current settings decide when a digest is due. */
START_TEST(changed_settings_make_a_digest_due)
{
    static const unsigned bits[] = {LLADD_MANAGED_ROWS, LLADD_MANAGED_MEMORY_BYTES,
                                    LLADD_MANAGED_INTERVAL};
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    t = managed_begin(&b, NULL);
    managed_fill(&b, t, "1=a 2=b 3=c");
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).digests, 0);
    o.rows = 3;
    o.memory_bytes = 1;
    o.interval_ns = 1;
    ok_db(&b, lladd_managed_alter(t, bits[_i], &o, &b.err));
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    o = (struct lladd_managed_options)LLADD_MANAGED_OPTIONS_INIT;
    ok_db(&b, lladd_managed_alter(t, bits[_i], &o, &b.err));
    managed_fill(&b, t, "1=b 2=c 3=d");
    managed_tidy(&b, t);
    ck_assert_uint_eq(managed_stats(&b, t).digests, 1);
    managed_done(&b, t);
}
END_TEST

/* A cTable gets other groups, and then becomes a row store again. The columns of the cTable stay
 * the same. */
START_TEST(column_groups_are_changed)
{
    static const char *const names[] = {"a", "b", "c"};
    struct lladd_ctable_group groups[] = {{names + 1, 2, "class(dt) auto_dtable"},
                                          {names, 1, ONE_BYTE}};
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_dtable_value values[] = {lladd_dtable_value_of("x", 1),
                                          lladd_dtable_value_of("yy", 2),
                                          lladd_dtable_value_of("zzz", 3)};
    struct lladd_ctable *ct;
    managed_init(&b);
    fixture_open(&b);
    o.columns = names;
    o.n_columns = 3;
    o.managed.type = LLADD_DTABLE_U32;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_ctable_create(txn, "people", &o));
    commit(txn);
    for (uint32_t i = 0; i < 4; i++) {
        ok_db(&b, lladd_ctable_open(b.db, "people", &ct, &b.err));
        t = lladd_ctable_managed(ct);
        if (i) {
            o.columns = NULL; /* the members for the columns and for the type are ignored */
            o.n_columns = 0;
            o.managed.type = 0;
            o.groups = i == 3 ? NULL : groups;
            o.n_groups = i == 3 ? 0 : i;
            ok_db(&b, lladd_ctable_alter(ct, 0, &o, &b.err));
        }
        txn = fixture_begin(&b);
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        ok(txn, lladd_ctable_put(txn, ct, &key, values));
        values[0] = lladd_dtable_value_of("xx", 2);
        int rc = lladd_ctable_put(txn, ct, &key, values);
        ck_assert_int_eq(rc, i == 2 ? LLADD_REJECTED : 0);
        values[0] = lladd_dtable_value_of("x", 1);
        ok(txn, lladd_ctable_put(txn, ct, &key, values));
        commit(txn);
        ok_db(&b, lladd_managed_digest(t, &b.err));
        ck_assert(run_has(0, "column_dtable") == (i == 1 || i == 2));
        ck_assert(run_has(0, "fixed_dtable") == (i == 2));
        groups[1].config = "class(dt)\nno_dtable";
        o.groups = groups;
        o.n_groups = 2;
        ck_assert_int_eq(lladd_ctable_alter(ct, 0, &o, &b.err), LLADD_BAD_CONFIG);
        ck_assert_ptr_nonnull(strstr(b.err.message, "group \"a\": line 2, column 1"));
        groups[1].config = ONE_BYTE;
        fixture_crash(&b);
        ok_db(&b, lladd_ctable_open(b.db, "people", &ct, &b.err));
        txn = fixture_begin(&b);
        for (key.number = 0; key.number <= i; key.number++)
            for (uint32_t c = 0; c < 3; c++) {
                char bytes[8];
                size_t len;
                ok(txn, lladd_ctable_get(txn, ct, &key, c, bytes, sizeof bytes, &len));
                ck_assert_uint_eq(len, c + 1);
            }
        commit(txn);
        ok_db(&b, lladd_ctable_close(ct, &b.err));
    }
    txn = fixture_begin(&b);
    ok(txn, lladd_ctable_destroy(txn, "people"));
    commit(txn);
    managed_no_leaks(&b);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable_managed.settings");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, configurations_without_tombstones_are_refused, 0,
                        2 * sizeof deleting / sizeof deleting[0]);
    tcase_add_test(tc, refused_tables_leave_nothing);
    tcase_add_loop_test(tc, each_option_is_changed, 0, sizeof changes / sizeof changes[0]);
    tcase_add_test(tc, every_schedule_is_stored);
    tcase_add_test(tc, wrong_changes_change_nothing);
    tcase_add_test(tc, later_runs_have_the_new_configuration);
    tcase_add_loop_test(tc, changed_settings_make_a_digest_due, 0, 3);
    tcase_add_test(tc, column_groups_are_changed);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
