/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine.h"

#include <string.h>

#define ENGINE(name) extern const struct bench_engine bench_engine_##name;
ENGINE(lladd_hash)
ENGINE(lladd_hash_physical)
ENGINE(lladd_array)
ENGINE(lladd_array_bulk)
#ifdef BENCH_BDB
ENGINE(bdb_hash)
ENGINE(bdb_hash_presized)
ENGINE(bdb_recno)
ENGINE(bdb_queue)
#endif
#undef ENGINE

const struct bench_engine *const bench_engines[] = {
    &bench_engine_lladd_hash, &bench_engine_lladd_hash_physical, &bench_engine_lladd_array,
    &bench_engine_lladd_array_bulk,
#ifdef BENCH_BDB
    &bench_engine_bdb_hash, &bench_engine_bdb_hash_presized, &bench_engine_bdb_recno,
    &bench_engine_bdb_queue,
#endif
    NULL};

const char *const bench_engines_missing[] = {
#ifndef BENCH_BDB
    "bdb-hash, bdb-hash-presized, bdb-recno, bdb-queue: Berkeley DB was not found (libdb5.3-dev)",
#endif
    NULL};

const struct bench_engine *bench_engine_find(const char *name)
{
    for (size_t i = 0; bench_engines[i]; i++)
        if (strcmp(bench_engines[i]->name, name) == 0)
            return bench_engines[i];
    return NULL;
}
