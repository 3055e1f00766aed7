/* SPDX-License-Identifier: BSD-2-Clause */
/* Litestream beside SQLite; see litestream.h. */
#include "litestream.h"

#include "common.h"
#include "engine.h"
#include "program.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "sqlite-litestream"

struct bench_litestream {
    char side[PATH_MAX + 16]; /* the directory of all that follows */
    char config[PATH_MAX + 48], log[PATH_MAX + 48];
    struct bench_program program;
    pid_t pid;
};

/* Litestream waits as long for a lock as the bench does, otherwise it fails beside many writers. It
 * may take minutes to store the last changes: its own limit is 30 seconds. */
static int write_config(const struct bench_litestream *l, const char *dir, const char *file)
{
    FILE *f = fopen(l->config, "we");
    int rc = f ? 0 : errno;
    if (f) {
        rc = fprintf(f,
                     "shutdown-sync-timeout: 300s\n"
                     "dbs:\n"
                     "  - path: %s/%s\n"
                     "    meta-path: %s/meta\n"
                     "    busy-timeout: 60s\n"
                     "    replica:\n"
                     "      path: %s/replica\n",
                     dir, file, l->side, l->side) < 0
                 ? EIO
                 : 0;
        rc = fclose(f) && !rc ? errno : rc;
    }
    return rc ? bench_failed(NAME, l->config, strerror(rc)) : 0;
}

static int replicate(struct bench_litestream *l)
{
    const char *const argv[] = {BENCH_LITESTREAM, "replicate", "-config", l->config, NULL};
    l->pid = bench_program_start(&l->program, argv);
    return l->pid < 0 ? BENCH_FAILED : 0;
}

int bench_litestream_start(const char *dir, const char *file, struct bench_litestream **out)
{
    char path[PATH_MAX];
    struct bench_litestream *l = calloc(1, sizeof *l);
    if (!l || !realpath(dir, path))
        return bench_failed(NAME, dir, strerror(errno));
    *out = l;
    snprintf(l->side, sizeof l->side, "%s-litestream", path);
    snprintf(l->config, sizeof l->config, "%s/litestream.yml", l->side);
    snprintf(l->log, sizeof l->log, "%s/log", l->side);
    l->program = (struct bench_program){NAME, l->log, geteuid(), getegid(), SIGTERM};
    const char *const argv[] = {BENCH_LITESTREAM, "replicate", "-config", l->config, "-once",
                                NULL};
    int rc = mkdir(l->side, 0700) == 0 ? 0 : bench_failed(NAME, l->side, strerror(errno));
    rc = rc ? rc : write_config(l, path, file);
    rc = rc ? rc : bench_program_run(&l->program, argv);
    return rc ? rc : replicate(l);
}

/* The running process is killed, which Litestream withstands. A process that is asked to end first
 * stores the last changes, and waits seconds for the writers' lock. */
int bench_litestream_snapshot(struct bench_litestream *l)
{
    const char *const argv[] = {BENCH_LITESTREAM, "replicate", "-config", l->config, "-once",
                                "-force-snapshot", NULL};
    int rc = bench_program_stop(&l->program, l->pid, SIGKILL, "replicate");
    rc = rc ? rc : bench_program_run(&l->program, argv);
    return rc ? rc : replicate(l);
}

int bench_litestream_stop(struct bench_litestream *l)
{
    int rc = bench_program_stop(&l->program, l->pid, SIGTERM, "replicate");
    bench_remove_dir(l->side);
    free(l);
    return rc;
}
