/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H
/* Shared by the fuzzers: the entry point, a check that is not compiled out in release builds, and a
 * database in memory. A fuzzer has one thread. */
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <stdlib.h>
#include <string.h>

/* The entry point that libFuzzer and standalone_main.c call. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Optional: did the library refuse the last input at its first check? Then the other checks did not
 * see this input. */
bool fuzz_refused(void);

#define MUST(condition) \
    do { \
        if (!(condition)) \
            abort(); \
    } while (0)

/* Opens a database in memory, with the extension that `reg` registers (nullable). The fuzzer uses
 * the database for all inputs and never closes it, so an input must leave no data in it. */
static inline struct lladd_db *fuzz_database(int (*reg)(struct lladd_options *,
                                                        struct lladd_error *))
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    struct lladd_db *db;
    MUST(lladd_device_memory(&dev) == 0);
    o.device = dev;
    o.flags = LLADD_OPT_NO_THREADS;
    o.log_limit_bytes = UINT64_MAX;
    MUST(!reg || reg(&o, NULL) == 0);
    MUST(lladd_open(NULL, &o, &db, NULL) == 0);
    lladd_options_release(&o);
    return db;
}

#endif
