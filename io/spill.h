/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_IO_SPILL_H
#define LL_IO_SPILL_H
/*
 * Blocks of one file that do not fit into memory. An unnamed file of the operating system stores
 * block n at offset n * size. A bit map in memory has one bit for each block number up to the
 * highest that was stored. Threads: one thread at a time may call these functions for one ll_spill.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ll_spill {
    int fd;              /* -1: no block was stored yet */
    unsigned char *bits; /* which blocks are in the file */
    uint64_t n_bits;     /* a multiple of 8 */
};

#define LL_SPILL_INIT {.fd = -1}

void ll_spill_free(struct ll_spill *);
bool ll_spill_has(const struct ll_spill *, uint64_t number);
/* Stores a block of `size` bytes; `size` is the same in every call. `dir` is the directory for the
 * file. Returns 0 or a negative errno; after an error the block's contents are undefined. */
int ll_spill_put(struct ll_spill *, const char *dir, uint64_t number, const void *bytes,
                 size_t size);
int ll_spill_get(const struct ll_spill *, uint64_t number, void *bytes, size_t size);
/* Drops the blocks from number `from` on. */
void ll_spill_drop(struct ll_spill *, uint64_t from);

#endif
