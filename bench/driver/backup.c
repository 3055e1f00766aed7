/* SPDX-License-Identifier: BSD-2-Clause */
/* W12: backups of an open database. An operation of the rows "copy", "backup" and "backup-busy" is
 * a MiB of the closed database's files; of the rows "commits" and "commits-backup" it is a
 * transaction.
 *
 *  copy            the files are copied and synced while the database is closed, as cp would
 *  backup          a backup of the open database, which no transaction uses
 *  commits         durable transactions of one update, without a backup
 *  commits-backup  the same while backups are made, one after the other
 *  backup-busy     these backups */
#include "driver.h"

#include "common.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND 1000000000u

/* nftw has no argument for its callback. */
static double bytes_found;
static const char *copy_from, *copy_to;

static int add_size(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)path;
    (void)at;
    bytes_found += what == FTW_F ? (double)st->st_size : 0;
    return 0;
}

/* Rounded up. */
static uint64_t mib_of(const char *dir)
{
    bytes_found = 0;
    return nftw(dir, add_size, 16, FTW_PHYS) == 0 ? (uint64_t)(bytes_found / (1 << 20)) + 1 : 0;
}

static int copy_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
    char to[1024];
    (void)st;
    (void)at;
    snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    if (what == FTW_D)
        return mkdir(to, 0700) == 0 || errno == EEXIST ? 0 : bench_failed("driver", to, "mkdir");
    return what == FTW_F ? bench_copy(path, to) : 0;
}

/* Makes an empty directory for a copy beside the database. */
static int target_dir(const struct cell *c, char out[600])
{
    snprintf(out, 600, "%s-copy", c->dir);
    bench_remove_dir(out);
    return mkdir(out, 0700) == 0 ? 0 : bench_failed("driver", out, strerror(errno));
}

static int timed_copy(const struct cell *c, uint64_t mib)
{
    struct row r = row_init("copy");
    struct meter m;
    char to[600];
    int rc = target_dir(c, to);
    copy_from = c->dir;
    copy_to = to;
    meter_start(&m, c, NULL);
    rc = rc ? rc : nftw(c->dir, copy_one, 16, FTW_PHYS);
    meter_stop(&m, c, NULL, &r);
    r.ops = mib;
    bench_remove_dir(to);
    if (!rc)
        cell_send(c, &r);
    return rc;
}

static int timed_backup(const struct cell *c, struct bench_db *db, uint64_t mib)
{
    struct row r = row_init("backup");
    struct meter m;
    char to[600];
    int rc = target_dir(c, to);
    meter_start(&m, c, db);
    rc = rc ? rc : c->engine->backup(db, to);
    meter_stop(&m, c, db, &r);
    r.ops = mib;
    bench_remove_dir(to);
    if (!rc)
        cell_send(c, &r);
    return rc;
}

/* ---- commits beside backups ------------------------------------------------------------------ */

/* The phase ends when its time is over and, if backups are made, the first backup is complete. */
struct phase {
    const struct cell *cell;
    struct bench_db *db;
    uint64_t end;
    uint32_t enough;    /* atomic: the commits may end */
    struct row commits; /* the row of the transactions, and what failed in them */
    int commits_rc;
    uint64_t backups;
    double backups_s;
    int backups_rc;
};

static bool is_over(const struct phase *p)
{
    return bench_now_ns() >= p->end && __atomic_load_n(&p->enough, __ATOMIC_ACQUIRE);
}

static int commit_until(struct worker *w)
{
    const struct cell *c = w->cell;
    uint64_t share = c->records / c->threads;
    int rc = 0;
    while (!rc && !is_over(w->shared)) {
        uint64_t i = bench_random(&w->seed) % (share ? share : 1) * c->threads + w->index;
        uint64_t t0 = bench_now_ns();
        rc = cell_update(c, w->db, w->thread, i, (uint32_t)w->ops + 1, &w->retries);
        hist_add(&w->hist, bench_now_ns() - t0);
        w->ops++;
    }
    return rc;
}

static void *commit_all(void *arg)
{
    struct phase *p = arg;
    p->commits_rc = workers_run(p->cell, p->db, commit_until, p, &p->commits);
    return NULL;
}

static void back_up(struct phase *p)
{
    uint64_t begun = bench_now_ns();
    do {
        char to[600];
        p->backups_rc = target_dir(p->cell, to);
        p->backups_rc = p->backups_rc ? p->backups_rc : p->cell->engine->backup(p->db, to);
        p->backups++;
        p->backups_s = (double)(bench_now_ns() - begun) / 1e9;
        __atomic_store_n(&p->enough, 1, __ATOMIC_RELEASE);
        bench_remove_dir(to);
    } while (!p->backups_rc && bench_now_ns() < p->end);
}

/* The main thread makes the backups, because it alone may start programs (engines/program.h). */
static int run_phase(const struct cell *c, struct bench_db *db, bool backups, uint64_t mib)
{
    struct phase p = {.cell = c, .db = db, .end = bench_now_ns() + c->seconds * SECOND,
                      .enough = !backups};
    pthread_t thread;
    p.commits = row_init(backups ? "commits-backup" : "commits");
    bench_must(pthread_create(&thread, NULL, commit_all, &p), "pthread_create");
    if (backups)
        back_up(&p);
    bench_must(pthread_join(thread, NULL), "pthread_join");
    if (p.commits_rc || p.backups_rc)
        return p.commits_rc ? p.commits_rc : p.backups_rc;
    cell_send(c, &p.commits);
    if (backups) {
        struct row busy = row_init("backup-busy");
        busy.ops = mib * p.backups;
        busy.elapsed_s = p.backups_s;
        cell_send(c, &busy);
    }
    return 0;
}

int run_backup(const struct cell *c)
{
    struct bench_db *db;
    uint64_t mib = mib_of(c->dir);
    int rc = timed_copy(c, mib);
    rc = rc ? rc : cell_open(c, c->records, &db);
    rc = rc ? rc : timed_backup(c, db, mib);
    rc = rc ? rc : run_phase(c, db, false, mib);
    rc = rc ? rc : run_phase(c, db, true, mib);
    return rc ? rc : c->engine->close(db);
}
