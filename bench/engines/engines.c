/* SPDX-License-Identifier: BSD-2-Clause */
/* The lists of built and of missing engines, and what all engines share: keys and failures. */
#include "engine.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The engines of each package: X(symbol). Packages of peers may be missing. */
#define LLADD(X) \
    X(lladd_hash) X(lladd_hash_physical) X(lladd_array) X(lladd_array_bulk) X(lladd_records) \
    X(lladd_records_atomic) X(lladd_dtable) X(lladd_btree) X(lladd_btree_many) \
    X(lladd_hash_archived) X(lladd_dtable_archived)
#define OLC(X) X(olc)
#define BDB(X) X(bdb_hash) X(bdb_hash_presized) X(bdb_btree) X(bdb_recno) X(bdb_queue)
#define LMDB(X) X(lmdb)
#define SQLITE(X) X(sqlite) X(sqlite_rowid)
#define LITESTREAM(X) X(sqlite_litestream)
#define POSTGRESQL(X) X(postgresql)
#define WIREDTIGER(X) X(wiredtiger) X(wiredtiger_col)
#define ROCKSDB(X) X(rocksdb_batch) X(rocksdb_txn)
#define LEVELDB(X) X(leveldb)
#define KYOTOCABINET(X) X(kyotocabinet_hash) X(kyotocabinet_tree)
#define TDB(X) X(tdb)

#define DECLARE(symbol) extern const struct bench_engine bench_engine_##symbol;
#define ADDRESS(symbol) &bench_engine_##symbol,

LLADD(DECLARE)
OLC(DECLARE)
BDB(DECLARE)
LMDB(DECLARE)
SQLITE(DECLARE)
LITESTREAM(DECLARE)
POSTGRESQL(DECLARE)
WIREDTIGER(DECLARE)
ROCKSDB(DECLARE)
LEVELDB(DECLARE)
KYOTOCABINET(DECLARE)
TDB(DECLARE)

const struct bench_engine *const bench_engines[] = {
    LLADD(ADDRESS) OLC(ADDRESS)
#ifdef BENCH_BDB
    BDB(ADDRESS)
#endif
#ifdef BENCH_LMDB
    LMDB(ADDRESS)
#endif
#ifdef BENCH_SQLITE
    SQLITE(ADDRESS)
#endif
#ifdef BENCH_LITESTREAM
    LITESTREAM(ADDRESS)
#endif
#ifdef BENCH_POSTGRESQL
    POSTGRESQL(ADDRESS)
#endif
#ifdef BENCH_WIREDTIGER
    WIREDTIGER(ADDRESS)
#endif
#ifdef BENCH_ROCKSDB
    ROCKSDB(ADDRESS)
#endif
#ifdef BENCH_LEVELDB
    LEVELDB(ADDRESS)
#endif
#ifdef BENCH_KYOTOCABINET
    KYOTOCABINET(ADDRESS)
#endif
#ifdef BENCH_TDB
    TDB(ADDRESS)
#endif
    NULL};

const struct bench_missing bench_engines_missing[] = {
#ifndef BENCH_BDB
    {"bdb-hash bdb-hash-presized bdb-btree bdb-recno bdb-queue",
     "Berkeley DB was not found (libdb5.3-dev)"},
#endif
#ifndef BENCH_LMDB
    {"lmdb", "LMDB was not found (liblmdb-dev)"},
#endif
#ifndef BENCH_SQLITE
    {"sqlite sqlite-rowid", "SQLite was not found (libsqlite3-dev)"},
#endif
#ifndef BENCH_LITESTREAM
    {"sqlite-litestream",
     "Litestream was not found (bench/install-peers fetches it), or SQLite was not"},
#endif
#ifndef BENCH_POSTGRESQL
    {"postgresql", "PostgreSQL or libpq was not found (postgresql, libpq-dev)"},
#endif
#ifndef BENCH_WIREDTIGER
    {"wiredtiger wiredtiger-col", "WiredTiger was not found (libwiredtiger-dev)"},
#endif
#ifndef BENCH_ROCKSDB
    {"rocksdb-batch rocksdb-txn",
     "the release build of RocksDB was not found (bench/install-peers fetches it)"},
#endif
#ifndef BENCH_LEVELDB
    {"leveldb", "LevelDB was not found (libleveldb-dev)"},
#endif
#ifndef BENCH_KYOTOCABINET
    {"kyotocabinet-hash kyotocabinet-tree",
     "Kyoto Cabinet was not found (libkyotocabinet-dev)"},
#endif
#ifndef BENCH_TDB
    {"tdb", "TDB was not found (libtdb-dev)"},
#endif
    {NULL, NULL}};

int bench_failed(const char *engine, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", engine, what, why);
    return BENCH_FAILED;
}

static int copy_bytes(FILE *from, FILE *to)
{
    enum { PIECE = 1 << 20 };
    char *piece = malloc(PIECE);
    size_t n;
    int rc = piece ? 0 : ENOMEM;
    while (!rc && (n = fread(piece, 1, PIECE, from)) > 0)
        rc = fwrite(piece, 1, n, to) == n ? 0 : errno;
    rc = !rc && ferror(from) ? EIO : rc;
    rc = !rc && fflush(to) ? errno : rc;
    rc = !rc && fsync(fileno(to)) ? errno : rc;
    free(piece);
    return rc;
}

int bench_copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    int rc = out ? 0 : errno;
    if (out) {
        rc = copy_bytes(in, out);
        rc = fclose(out) && !rc ? errno : rc;
    }
    if (in)
        fclose(in);
    return rc ? bench_failed("driver", from, strerror(rc)) : 0;
}

void bench_digits(unsigned char out[BENCH_KEY_MAX], uint64_t key, uint32_t size)
{
    if (size <= 8) {
        bench_key(out, key, size);
        return;
    }
    for (uint32_t i = size; i > 0; i--, key /= 10)
        out[i - 1] = (unsigned char)('0' + key % 10);
}

void bench_key(unsigned char out[8], uint64_t key, uint32_t size)
{
    uint64_t big = htobe64(key << (64 - 8 * size));
    memcpy(out, &big, sizeof big);
}
