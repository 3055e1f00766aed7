/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FAULT_ALLOC_H
#define SUPPORT_FAULT_ALLOC_H
/*
 * An allocator for tests. It fails at the calls that the test chooses, counts blocks in use, and
 * fills fresh memory with 0xa5, so that no code works only because memory happens to be zero.
 *
 *     struct fault_alloc fa;
 *     fault_alloc_init(&fa);
 *     options.allocator = &fa.mem;
 *     for (uint64_t n = 1;; n++) {
 *         fault_alloc_fail(&fa, n, false);
 *         ... run: success or LLADD_NO_MEMORY, then close everything ...
 *         ck_assert_uint_eq(fault_alloc_live(&fa), 0);
 *         if (fault_alloc_fired(&fa) == 0)
 *             break;
 *     }
 *
 * Calls of alloc and resize are counted, calls of release are not. A failed resize leaves the block
 * as it was. Releasing a foreign block, or a block twice, ends the test. Any thread may call.
 */
#include <lladd/device.h>

struct fault_alloc {
    struct lladd_allocator mem; /* for the code under test */
    uint64_t calls;
    uint64_t fail_from;
    uint64_t fail_to;
    uint64_t fired;
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t peak_bytes;
};

void fault_alloc_init(struct fault_alloc *);
/* The n-th call from now fails. If `forever` is true, every later call fails, too. With n = 0 no
 * call fails. Sets the number of failed calls (fault_alloc_fired) to 0. */
void fault_alloc_fail(struct fault_alloc *, uint64_t n, bool forever);
uint64_t fault_alloc_fired(const struct fault_alloc *);
uint64_t fault_alloc_calls(const struct fault_alloc *);
uint64_t fault_alloc_live(const struct fault_alloc *); /* blocks in use; at the end: leaks */
uint64_t fault_alloc_bytes(const struct fault_alloc *);
uint64_t fault_alloc_peak(const struct fault_alloc *);

#endif
