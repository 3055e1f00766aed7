/* SPDX-License-Identifier: BSD-2-Clause */
/* Check notes each assertion that holds, so as to be able to say behind which one a case has died:
 * it writes a message for each to a file and, when the case is over, reads them all, moving what is
 * left for each. Where assertions stand in loops, most of a test's time went there; under the
 * address sanitizer, nine tenths. Here a place is noted when it is passed for the first time. Cases
 * that may die have processes of their own, and each begins anew. Assertions that fail do not come
 * here.
 *
 * The linker puts it between the tests and Check (--wrap, cmake/Tests.cmake). */
#include <stdint.h>

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
