/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two calls of every Check program come here first; the linker sees to it (--wrap,
 * cmake/Tests.cmake). And before main, the heap of the C library is told to keep its memory.
 *
 * _mark_point. Check notes each assertion that holds, to be able to name the last one before a case
 * died: it writes a message for each to a file and reads them all when the case is over. Where
 * assertions stand in loops, most of a test's time went there; under the address sanitizer, nine
 * tenths. Here a place is noted when it is passed for the first time. Cases that may die have
 * processes of their own, and each begins anew. Assertions that fail do not come here.
 *
 * tcase_create. Check ends a case after four seconds unless told otherwise. A slow machine must not
 * fail a test: ctest sets a limit of half an hour (cmake/Tests.cmake), by hand there is none.
 *
 * The heap. Tests open and close a database for each crash, with buffers of many pages. glibc gives
 * such memory back to the kernel when it is freed, and every page of the next buffer is a fault:
 * up to half of a test's time. Here the memory stays with the process. What the library frees, and
 * whether it uses memory after that, is asked by support/fault_alloc.c and the address sanitizer.
 */
#include <check.h>
#include <stdio.h> /* defines __GLIBC__ */
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>

#define PLACES 8192u /* two that share a cell: the second is not noted */

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
enum { KEPT = 32 << 20 }; /* bytes; the largest threshold glibc takes for mmap */

__attribute__((constructor)) static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, KEPT);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * KEPT);
    (void)mallopt(M_TOP_PAD, 1 << 20);
}
#endif
