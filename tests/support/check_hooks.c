/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wraps two functions of Check in every Check program (the linker option --wrap,
 * cmake/Tests.cmake), and configures the C library's heap before main.
 *
 * _mark_point. Check records each assertion that holds, so that it can name the last one if a case
 * dies. It writes a message for each to a file, and reads all of them at the end of the case. With
 * assertions in loops this took most of a test's time, and nine tenths under the address sanitizer.
 * Here each place of an assertion is recorded only when it is first passed. Cases that may die run
 * in their own processes, each with an empty table. Failing assertions do not call this function.
 *
 * tcase_create. By default Check ends a case after four seconds. A test must not fail because the
 * machine is slow. So ctest sets a limit of half an hour or more (cmake/Tests.cmake), and a test
 * that is run by hand has no limit.
 *
 * The heap. Tests open and close a database for each crash, with buffers of many pages. glibc
 * returns the memory of these buffers to the kernel when they are freed. Then every page of the
 * next buffer is a page fault, which took up to half of a test's time. Here the memory stays with
 * the process. Leaks and use after free are detected by support/fault_alloc.c and the address
 * sanitizer.
 */
#include <check.h>
#include <stdio.h> /* defines __GLIBC__ */
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>

#define PLACES 8192u /* if two places share a cell, the second is not recorded */

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    static uint8_t noted[PLACES]; /* atomic: threads have assertions, too */
    uint8_t *cell = &noted[((uintptr_t)file * 31 + (unsigned)line) % PLACES];
    if (__atomic_load_n(cell, __ATOMIC_RELAXED) == 0 &&
        __atomic_exchange_n(cell, 1, __ATOMIC_RELAXED) == 0)
        __real__mark_point(file, line);
}

TCase *__real_tcase_create(const char *name);
TCase *__wrap_tcase_create(const char *name);

TCase *__wrap_tcase_create(const char *name)
{
    TCase *tcase = __real_tcase_create(name);
    if (!getenv("CK_DEFAULT_TIMEOUT"))
        tcase_set_timeout(tcase, 0);
    return tcase;
}

#ifdef __GLIBC__
enum { KEPT = 32 << 20 }; /* bytes; the largest threshold that glibc accepts for mmap */

__attribute__((constructor)) static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, KEPT);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * KEPT);
    (void)mallopt(M_TOP_PAD, 1 << 20);
}
#endif
