/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that has too little address space for the pages of a file, as on a 32-bit processor. */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static struct fixture r;

/* Bytes of address space that the process uses. */
static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    ck_assert_int_eq(fclose(f), 0);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* As on a 32-bit processor, there is not enough address space to reserve an address for every page
 * of a file. An open that must reserve them fails. By default the pages are in the heap. */
START_TEST(without_address_space_pages_are_in_the_heap)
{
    struct rlimit was, less;
    fixture_init(&r, 0);
    r.options.cache_bytes = 64u << 20;
    r.options.frames = LLADD_FRAMES_RESERVED;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &was), 0);
    less = was;
    if (LL_TEST_CAN_RESERVE) /* leaves half of the address space that the open would reserve */
        less.rlim_cur = address_space() + (512u << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &less), 0);
    int rc = fixture_try_open(&r);
    r.options.frames = LLADD_FRAMES_AUTO;
    int heap = fixture_try_open(&r);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &was), 0);
    ck_assert_int_eq(rc, LLADD_NO_MEMORY);
    ck_assert_msg(heap == 0, "%s", r.err.message);
    lladd_pageno pages[20];
    fixture_pages(&r, pages, 20);
    for (unsigned i = 0; i < 20; i++)
        fixture_set(&r, cell_of(pages[i], 3), i + 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < 20; i++)
        fixture_expect(&r, cell_of(pages[i], 3), i + 1);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("address space");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, without_address_space_pages_are_in_the_heap);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
