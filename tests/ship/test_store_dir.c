/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store in a directory: each of the system's calls fails, in turn, before or after its effect.
 */
#include "contract.h"

#include "ship/ship_private.h"

#include "support/fixtures.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *dir;
static struct lladd_store *store;
static struct lladd_error err;

/* Which call fails, and how. */
static struct plan {
    unsigned calls, fail_at, fired;
    bool after;   /* it has its effect, and fails all the same */
    int error;    /* positive */
    bool no_link; /* the file system has no hard links */
    bool no_rename;
    bool small; /* each write is interrupted, or writes one byte */
    unsigned interrupted;
    size_t unsynced, most_unsynced; /* bytes that were written and not synced yet */
} plan;

static bool before(void)
{
    plan.calls++;
    bool now = plan.calls == plan.fail_at;
    plan.fired += now;
    return now && !plan.after;
}

static int after(int rc)
{
    return plan.calls == plan.fail_at && plan.after ? -plan.error : rc;
}

static int t_open_new(void *ctx, const char *path, uint32_t mode)
{
    if (before()) {
        errno = plan.error;
        return -1;
    }
    return ll_ship_posix.open_new(ctx, path, mode);
}

static int64_t t_write(void *ctx, int fd, const void *bytes, size_t len)
{
    if (before()) {
        errno = plan.error;
        return -1;
    }
    if (plan.small && plan.interrupted++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    int64_t done = ll_ship_posix.write(ctx, fd, bytes, plan.small ? 1 : len);
    plan.unsynced += done > 0 ? (size_t)done : 0;
    if (plan.unsynced > plan.most_unsynced)
        plan.most_unsynced = plan.unsynced;
    return done;
}

static int t_sync(void *ctx, int fd)
{
    plan.unsynced = 0;
    return before() ? -plan.error : after(ll_ship_posix.sync(ctx, fd));
}

static int t_links(void *ctx, int fd, uint64_t *out)
{
    return ll_ship_posix.links(ctx, fd, out);
}

static int t_link(void *ctx, const char *from, const char *to)
{
    if (plan.no_link)
        return -EPERM;
    return before() ? -plan.error : after(ll_ship_posix.link(ctx, from, to));
}

static int t_rename_new(void *ctx, const char *from, const char *to)
{
    if (plan.no_rename)
        return -EINVAL;
    return before() ? -plan.error : after(ll_ship_posix.rename_new(ctx, from, to));
}

static int t_unlink(void *ctx, const char *path)
{
    return before() ? -plan.error : after(ll_ship_posix.unlink(ctx, path));
}

static int t_mkdir(void *ctx, const char *path, uint32_t mode)
{
    return before() ? -plan.error : after(ll_ship_posix.mkdir(ctx, path, mode));
}

static int t_sync_dir(void *ctx, const char *path)
{
    return before() ? -plan.error : after(ll_ship_posix.sync_dir(ctx, path));
}

static const struct ll_ship_calls calls = {.open_new = t_open_new,
                                           .write = t_write,
                                           .sync = t_sync,
                                           .links = t_links,
                                           .link = t_link,
                                           .rename_new = t_rename_new,
                                           .unlink = t_unlink,
                                           .mkdir = t_mkdir,
                                           .sync_dir = t_sync_dir};

static void setup(void)
{
    plan = (struct plan){.error = EIO};
    err = (struct lladd_error)LLADD_ERROR_INIT;
    dir = temp_dir_new();
    ck_assert_int_eq(ll_ship_dir_open(dir, NULL, &calls, &store, &err), 0);
}

static void teardown(void)
{
    lladd_store_close(store);
    temp_dir_remove(dir);
}

static int put(const char *name, const char *text)
{
    return contract_put(store, name, text, &err);
}

static bool holds(const char *name, const char *text)
{
    return contract_holds(store, name, text);
}

static unsigned listed(const char *prefix)
{
    return contract_listed(store, prefix);
}

/* The same as for the store in S3. */
START_TEST(objects_are_put_got_listed_and_deleted)
{
    plan.small = _i == 1;
    contract_objects(store);
}
END_TEST

START_TEST(objects_of_all_sizes)
{
    contract_sizes(store, 1 << 20);
}
END_TEST

START_TEST(objects_are_read_in_pieces)
{
    contract_sequence(store);
}
END_TEST

START_TEST(every_object_is_listed_once)
{
    contract_list(store, 300);
}
END_TEST

/* After a call that failed, the object is whole or not there, and no other file counts as an
 * object. A second put leaves the object as it should be. */
START_TEST(each_call_of_put_fails)
{
    static const int errors[] = {EIO, ENOSPC, EEXIST, EDQUOT};
    bool fired = true;
    plan.after = _i & 1;
    plan.no_link = _i & 2;
    plan.error = errors[_i / 4];
    for (unsigned n = 1; fired; n++) {
        char name[40];
        (void)snprintf(name, sizeof name, "base/%u/control", n);
        plan.calls = plan.fired = 0;
        plan.fail_at = n;
        unsigned there = listed("");
        int rc = put(name, "contents");
        fired = plan.fired != 0;
        ck_assert(rc == 0 || fired);
        plan.fail_at = 0;
        if (rc == 0) {
            ck_assert(holds(name, "contents"));
        } else {
            ck_assert_uint_le(listed(""), there + 1);
            ck_assert(listed("") == there || holds(name, "contents"));
            struct lladd_iovec piece = {"contents", 8};
            ck_assert_int_eq(ll_ship_put(store, (struct ll_ship_mem){NULL}, name, &piece, 1, &err),
                             0);
            ck_assert(holds(name, "contents"));
        }
        ck_assert_uint_eq(listed(""), there + 1);
        ck_assert(n < 100);
    }
}
END_TEST

/* On NFS the reply to a link may be lost, and its repetition says that the name is taken. */
START_TEST(a_link_that_was_made_is_known_by_the_number_of_names)
{
    unsigned made = 0;
    plan.after = true;
    plan.error = EEXIST;
    for (plan.fail_at = 1; plan.fail_at < 20; plan.fail_at++) {
        char name[20];
        (void)snprintf(name, sizeof name, "object%u", plan.fail_at);
        plan.calls = 0;
        int rc = put(name, "mine");
        ck_assert(rc == 0 || rc == LLADD_STORE_FAILED);
        made += rc == 0 && plan.fired && holds(name, "mine");
        plan.fired = 0;
    }
    ck_assert_uint_ge(made, 1);
}
END_TEST

/* The pieces of the caller have other lengths than those that are synced. */
START_TEST(a_large_object_is_synced_in_pieces)
{
    enum { MIB = 1 << 20, HEAD = 24, LEN = 3 * MIB + 5 };
    unsigned char *bytes = malloc(HEAD + LEN), *got = malloc(HEAD + LEN);
    ck_assert(bytes && got);
    for (size_t i = 0; i < HEAD + LEN; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 4096);
    struct lladd_iovec pieces[] = {{bytes, HEAD}, {bytes + HEAD, LEN}};
    ck_assert_int_eq(store->ops->put(store, "large", pieces, 2, &err), 0);
    ck_assert_uint_eq(plan.unsynced, 0);
    ck_assert_uint_eq(plan.most_unsynced, MIB);
    ck_assert_int_eq(store->ops->get(store, "large", 0, got, HEAD + LEN, &err), 0);
    ck_assert_mem_eq(got, bytes, HEAD + LEN);
    for (unsigned n = plan.calls; n > 0; n--) { /* each call fails */
        char name[40];
        (void)snprintf(name, sizeof name, "large.%u", n);
        plan.calls = 0;
        plan.fail_at = n;
        int rc = store->ops->put(store, name, pieces, 2, &err);
        plan.fail_at = 0;
        ck_assert_int_eq(ll_ship_put(store, (struct ll_ship_mem){NULL}, name, pieces, 2, &err), 0);
        ck_assert_int_eq(store->ops->get(store, name, 0, got, HEAD + LEN, &err), 0);
        ck_assert_mem_eq(got, bytes, HEAD + LEN);
        ck_assert_msg(rc == 0 || rc == LLADD_STORE_FAILED || rc == LLADD_NO_SPACE, "%d", rc);
    }
    free(bytes);
    free(got);
}
END_TEST

START_TEST(without_links_and_renames_a_put_is_refused)
{
    plan.no_link = plan.no_rename = true;
    ck_assert_int_eq(put("archive", "mine"), LLADD_NO_ACCESS);
    ck_assert_uint_eq(listed(""), 0);
    plan.no_rename = false;
    ck_assert_int_eq(put("archive", "mine"), 0);
    ck_assert_int_eq(put("archive", "yours"), LLADD_EXISTS);
    ck_assert(holds("archive", "mine"));
}
END_TEST

START_TEST(a_taken_name_is_compared)
{
    contract_taken_names(store);
}
END_TEST

/* Only a put makes the directory of a store: a reader with a wrong name leaves nothing. */
START_TEST(a_store_is_made_below_a_directory_that_exists)
{
    struct lladd_store *other = NULL;
    struct lladd_device *device;
    unsigned char byte;
    char *below = temp_dir_path(dir, "new"), *far = temp_dir_path(dir, "no/where");
    ck_assert_int_eq(ll_ship_dir_open(below, NULL, &calls, &other, &err), 0);
    ck_assert_int_eq(other->ops->get(other, "archive", 0, &byte, 1, &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(other->ops->remove(other, "archive", &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_store_device(other, NULL, &device, &err), LLADD_NOT_FOUND);
    ck_assert_int_ne(access(below, F_OK), 0);
    ck_assert_int_eq(contract_put(other, "archive", "mine", &err), 0);
    ck_assert(contract_holds(other, "archive", "mine"));
    lladd_store_close(other);
    ck_assert_int_eq(ll_ship_dir_open(far, NULL, &calls, &other, &err), LLADD_STORE_FAILED);
    ck_assert_int_eq(lladd_store_open("ftp://x", NULL, &other, &err), LLADD_BAD_ARGUMENT);
    free(below);
    free(far);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store_dir");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, objects_are_put_got_listed_and_deleted, 0, 2);
    tcase_add_test(tc, objects_of_all_sizes);
    tcase_add_test(tc, objects_are_read_in_pieces);
    tcase_add_test(tc, every_object_is_listed_once);
    tcase_add_loop_test(tc, each_call_of_put_fails, 0, 16);
    tcase_add_test(tc, a_link_that_was_made_is_known_by_the_number_of_names);
    tcase_add_test(tc, a_large_object_is_synced_in_pieces);
    tcase_add_test(tc, without_links_and_renames_a_put_is_refused);
    tcase_add_test(tc, a_taken_name_is_compared);
    tcase_add_test(tc, a_store_is_made_below_a_directory_that_exists);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
