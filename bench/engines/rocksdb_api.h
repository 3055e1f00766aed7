/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_ROCKSDB_API_H
#define LL_BENCH_ROCKSDB_API_H
/* The part of RocksDB's C interface that the bench uses. Functions are found with dlsym, for two
 * reasons: RocksDB's official release build is a shared library in its Java package, which has no C
 * headers; and it contains copies of compressors, with names that must not clash with other
 * engines' libraries. X(result, name, parameters): the name is without the prefix "rocksdb_",
 * objects are void pointers, booleans are bytes. */
#include <stddef.h>
#include <stdint.h>

#define BYTES const char *, size_t
#define ROCKSDB_API(X) \
    X(void, free, (void *)) \
    X(void *, options_create, (void)) \
    X(void, options_set_create_if_missing, (void *, unsigned char)) \
    X(void, options_set_compression, (void *, int)) \
    X(void, options_set_write_buffer_size, (void *, size_t)) \
    X(void, options_set_max_write_buffer_number, (void *, int)) \
    X(void, options_set_max_background_jobs, (void *, int)) \
    X(void, options_set_manual_wal_flush, (void *, unsigned char)) \
    X(void, options_set_use_direct_reads, (void *, unsigned char)) \
    X(void, options_set_use_direct_io_for_flush_and_compaction, (void *, unsigned char)) \
    X(void, options_set_block_based_table_factory, (void *, void *)) \
    X(void *, block_based_options_create, (void)) \
    X(void, block_based_options_set_filter_policy, (void *, void *)) \
    X(void, block_based_options_set_block_cache, (void *, void *)) \
    X(void, block_based_options_set_data_block_index_type, (void *, int)) \
    X(void, block_based_options_set_data_block_hash_ratio, (void *, double)) \
    X(void *, filterpolicy_create_bloom, (double)) \
    X(void *, cache_create_lru, (size_t)) \
    X(void *, writeoptions_create, (void)) \
    X(void, writeoptions_set_sync, (void *, unsigned char)) \
    X(void, writeoptions_disable_WAL, (void *, int)) \
    X(void *, readoptions_create, (void)) \
    X(void *, flushoptions_create, (void)) \
    X(void *, open, (const void *, const char *, char **)) \
    X(void, close, (void *)) \
    X(void, write, (void *, const void *, void *, char **)) \
    X(void *, get_pinned, (void *, const void *, BYTES, char **)) \
    X(void, flush, (void *, const void *, char **)) \
    X(void, flush_wal, (void *, unsigned char, char **)) \
    X(void, compact_range, (void *, BYTES, BYTES)) \
    X(const char *, pinnableslice_value, (const void *, size_t *)) \
    X(void, pinnableslice_destroy, (void *)) \
    X(void *, create_iterator, (void *, const void *)) \
    X(void *, transactiondb_create_iterator, (void *, const void *)) \
    X(void, iter_seek, (void *, BYTES)) \
    X(unsigned char, iter_valid, (const void *)) \
    X(void, iter_next, (void *)) \
    X(const char *, iter_value, (const void *, size_t *)) \
    X(void, iter_get_error, (const void *, char **)) \
    X(void, iter_destroy, (void *)) \
    X(void *, writebatch_create, (void)) \
    X(void, writebatch_put, (void *, BYTES, BYTES)) \
    X(void, writebatch_destroy, (void *)) \
    X(void *, transactiondb_options_create, (void)) \
    X(void *, transaction_options_create, (void)) \
    X(void *, transactiondb_open, (const void *, const void *, const char *, char **)) \
    X(void, transactiondb_close, (void *)) \
    X(void *, transactiondb_get_pinned, (void *, const void *, BYTES, char **)) \
    X(void, transactiondb_flush, (void *, const void *, char **)) \
    X(void, transactiondb_flush_wal, (void *, unsigned char, char **)) \
    X(void *, transaction_begin, (void *, const void *, const void *, void *)) \
    X(void, transaction_put, (void *, BYTES, BYTES, char **)) \
    X(void, transaction_commit, (void *, char **)) \
    X(void, transaction_rollback, (void *, char **)) \
    X(void, transaction_destroy, (void *))

#define ROCKSDB_MEMBER(result, name, parameters) result(*name) parameters;
struct rocksdb_api {
    ROCKSDB_API(ROCKSDB_MEMBER)
};

/* Loads the library, and finds all functions. Returns 0, or -1 with a message on stderr. */
int rocksdb_api_load(struct rocksdb_api *);

#endif
