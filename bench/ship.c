/* SPDX-License-Identifier: BSD-2-Clause */
/* Restores from an archive. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-ship [GIB] [case]...   cases: restore page; default: all
 *
 * Each case makes a backup, and then writes and archives GIB gibibytes of log (default 1).
 * `restore` kills the database, which has kept this log, and measures its recovery. Then it
 * restores a copy up to the end of the archived log, and opens the copy. `page` lets the database
 * truncate its log, damages pages in the page file, and reads each: the library rebuilds the page
 * from the backup and the archived log.
 */
#include "common.h"

#include <lladd/records.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/ship.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "ship"
#define MIB (UINT64_C(1) << 20)

enum { PAGE = 4096, PAGES = 16000, LEN = 1000, A_TXN = 100, WANTED = 5, DAMAGED = 100 };

struct fixture {
    char dir[256], db_dir[300], url[300];
    struct lladd_options options;
    struct lladd_store *store;
    struct lladd_archive *archive;
    struct lladd_db *db;
    lladd_pageno first;
    uint64_t seed, gib; /* gib: of log */
};

static void must(int rc, const char *what, const struct lladd_error *err)
{
    if (rc)
        fprintf(stderr, "bench: %s: %s\n", what, err->message);
    bench_must(rc, what);
}

static void open_db(struct fixture *f)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    f->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    f->options.cache_bytes = 256 * MIB;
    f->options.log_limit_bytes = UINT64_MAX;
    f->options.checkpoint_bytes = UINT64_C(1) << 40; /* the bench takes the checkpoints */
    must(lladd_store_open(f->url, NULL, &f->store, &err), "store", &err);
    must(lladd_ship_register(&f->options, f->store, NULL, &f->archive, &err), "register", &err);
    must(lladd_open(f->db_dir, &f->options, &f->db, &err), "open", &err);
}

static void release(struct fixture *f)
{
    lladd_options_release(&f->options);
    lladd_archive_free(f->archive);
    lladd_store_close(f->store);
}

static void archive_all(struct fixture *f)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (bool more = true; more;)
        must(lladd_archive_step(f->archive, &more, &err), "archive", &err);
}

static struct lladd_txn *begin(struct fixture *f)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(f->db, NULL, &txn, NULL), "begin");
    return txn;
}

/* Makes the database, with its backup. */
static void setup(struct fixture *f, uint64_t gib)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    *f = (struct fixture){.seed = 1, .gib = gib};
    bench_make_dir(f->dir);
    (void)snprintf(f->db_dir, sizeof f->db_dir, "%s/db", f->dir);
    (void)snprintf(f->url, sizeof f->url, "dir:%s/store", f->dir);
    open_db(f);
    struct lladd_txn *txn = begin(f);
    bench_must(lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_PAGED, &f->first), "extent");
    for (unsigned i = 0; i < PAGES; i++)
        bench_must(lladd_bytes_format(txn, lladd_page_of(f->first.v + i)), "format");
    bench_must(lladd_commit(txn), "commit");
    must(lladd_checkpoint(f->db, &err), "checkpoint", &err);
    must(lladd_backup(f->db, f->store, NULL, NULL, &err), "backup", &err);
}

static lladd_pageno random_page(struct fixture *f)
{
    return lladd_page_of(f->first.v + bench_random(&f->seed) % PAGES);
}

/* Writes log, and archives it. Returns the log's size in MiB. `let_go`: also takes checkpoints, so
 * that the database truncates its log. */
static double write_log(struct fixture *f, bool let_go)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char bytes[LEN];
    uint64_t from = lladd_durable_lsn(f->db).v, end = from;
    for (unsigned n = 0; end - from < f->gib * 1024 * MIB; n++) {
        struct lladd_txn *txn = begin(f);
        for (unsigned i = 0; i < A_TXN; i++) {
            memset(bytes, (int)(n + i), sizeof bytes);
            bench_must(lladd_bytes_set(txn, random_page(f), 0, bytes, sizeof bytes), "set");
        }
        bench_must(lladd_commit(txn), "commit");
        end = lladd_durable_lsn(f->db).v;
        if (n % 500 == 0)
            archive_all(f);
        if (let_go && n % 500 == 0)
            must(lladd_checkpoint(f->db, &err), "checkpoint", &err);
    }
    archive_all(f);
    return (double)(end - from) / (double)MIB;
}

static void print(const char *what, uint64_t gib, const char *more, const char *unit,
                  const struct bench_figure *figure, const char *target)
{
    char name[100];
    (void)snprintf(name, sizeof name, "%s, %llu GiB of log%s", what, (unsigned long long)gib, more);
    bench_print(BENCH, name, unit, figure, target, NULL);
}

static void bench_restore(uint64_t gib)
{
    struct fixture f;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct bench_figure recovery = {.n = 0}, restore = {.n = 0}, opened = {.n = 0};
    struct lladd_device *dev;
    char copy[300];
    setup(&f, gib);
    double mib = write_log(&f, false);
    lladd_db_kill(f.db);
    release(&f);
    bench_drop_cached(f.db_dir);
    uint64_t t0 = bench_now_ns();
    open_db(&f);
    bench_add(&recovery, mib * 1e9 / (double)(bench_now_ns() - t0));
    bench_must(lladd_close(f.db), "close");

    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    target.kind = LLADD_TO_END;
    o.target = &target;
    (void)snprintf(copy, sizeof copy, "%s/copy", f.dir);
    must(lladd_device_posix(copy, true, &dev, &err), "device", &err);
    t0 = bench_now_ns();
    must(lladd_restore(f.store, &o, dev, NULL, &err), "restore", &err);
    uint64_t t1 = bench_now_ns();
    lladd_device_close(dev);
    release(&f);
    struct lladd_options plain = LLADD_OPTIONS_INIT;
    plain.cache_bytes = 256 * MIB;
    uint64_t t2 = bench_now_ns();
    must(lladd_open(copy, &plain, &f.db, &err), "open", &err);
    bench_add(&restore, mib * 1e9 / (double)(t1 - t0));
    bench_add(&opened, mib * 1e9 / (double)(bench_now_ns() - t2));
    bench_must(lladd_close(f.db), "close");
    bench_remove_dir(f.dir);
    print("recovery", gib, "", "MiB/s", &recovery, NULL);
    print("restore", gib, "", "MiB/s", &restore, NULL);
    print("open of the restored copy", gib, "", "MiB/s", &opened, ">= 0.9 of recovery");
}

static void damage(const struct fixture *f, uint64_t page)
{
    char path[400];
    (void)snprintf(path, sizeof path, "%s/pages", f->db_dir);
    FILE *file = fopen(path, "r+b");
    bench_must(file ? fseek(file, (long)(page * PAGE + 1024), SEEK_SET) : -1, "pages");
    bench_must(fwrite("damaged", 1, 7, file) == 7 ? 0 : -1, "damage");
    bench_must(fclose(file), "pages");
}

/* The number of pages that the archive has given. */
static uint64_t pages_given(const struct fixture *f)
{
    struct lladd_archive_status status = {.struct_size = sizeof status};
    struct lladd_error err = LLADD_ERROR_INIT;
    must(lladd_archive_status_get(f->archive, &status, &err), "status", &err);
    return status.pages_given;
}

/* Reads damaged pages until the archive was needed for WANTED of them. The other pages have a base
 * in the database's own log. */
static void bench_page(uint64_t gib)
{
    struct fixture f;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct bench_figure archived = {.n = 0}, own = {.n = 0};
    setup(&f, gib);
    (void)write_log(&f, true);
    bench_must(lladd_close(f.db), "close");
    release(&f);
    for (uint64_t i = 0; i < DAMAGED; i++)
        damage(&f, f.first.v + i * 7);
    open_db(&f);
    for (uint64_t i = 0; i < DAMAGED && archived.n < WANTED; i++) {
        unsigned char byte;
        uint64_t before = pages_given(&f), t0 = bench_now_ns();
        must(lladd_bytes_get(f.db, lladd_page_of(f.first.v + i * 7), 0, &byte, 1, &err), "page",
             &err);
        double ms = (double)(bench_now_ns() - t0) / 1e6;
        struct bench_figure *figure = pages_given(&f) > before ? &archived : &own;
        if (figure->n < WANTED)
            bench_add(figure, ms);
    }
    bench_must(lladd_close(f.db), "close");
    release(&f);
    bench_remove_dir(f.dir);
    if (archived.n)
        print("one page from the archive", gib, " since the backup", "ms", &archived, "<= 1000");
    if (own.n)
        print("one page from the log of the database", gib, " since the backup", "ms", &own, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint64_t gib);
    } cases[] = {{"restore", bench_restore}, {"page", bench_page}};
    uint64_t given = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, gib = given ? given : 1;
    int first = given ? 2 : 1;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == first;
        for (int i = first; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run(gib);
    }
    return 0;
}
