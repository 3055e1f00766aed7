/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds RocksDB's functions; see rocksdb_api.h. */
#include "rocksdb_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int rocksdb_api_load(struct rocksdb_api *api)
{
    void *library = dlopen(BENCH_ROCKSDB, RTLD_NOW | RTLD_LOCAL), *found;
    const char *missing = library ? NULL : dlerror();
#define FIND(result, name, parameters) \
    found = missing ? NULL : dlsym(library, "rocksdb_" #name); \
    missing = missing || found ? missing : #name; \
    memcpy(&api->name, &found, sizeof found);
    ROCKSDB_API(FIND)
    if (missing)
        fprintf(stderr, "rocksdb: %s: %s\n", BENCH_ROCKSDB, missing);
    return missing ? -1 : 0;
}
