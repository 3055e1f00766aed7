/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the cells. Engines take turns, so that all meet the same load of the machine. Each
 * measurement has a process of its own, so that its memory and processor time are those of one
 * engine. If the process dies, the row of the cell says so, and the next cell runs. */
#include "driver.h"

#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS_MAX 8
#define BAR 24

struct state {
    const struct plan *plan;
    char root[256]; /* directory of all databases */
    char base[128]; /* describes the loaded databases that are kept in `root` */
    uint64_t done, total, begun;
    int failures;
    struct cell refused; /* the last refused cell, and the reason */
    const char *refused_why;
};

/* ---- the bar --------------------------------------------------------------------------------- */

static void bar_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static void bar_show(const struct state *s, const struct cell *c)
{
    char bar[BAR + 1];
    if (!isatty(STDERR_FILENO))
        return;
    uint64_t full = s->total ? s->done * BAR / s->total : 0;
    double spent = (double)(bench_now_ns() - s->begun) / 1e9;
    double left = s->done ? spent / (double)s->done * (double)(s->total - s->done) : NAN;
    for (unsigned i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    fprintf(stderr, "\r\033[K[%s] %llu/%llu %s %s %s, %u thread%s", bar,
            (unsigned long long)s->done, (unsigned long long)s->total, c->c->workload, c->c->name,
            c->engine->name, c->threads, c->threads == 1 ? "" : "s");
    if (isfinite(left))
        fprintf(stderr, ", %.0f s left", left);
    fflush(stderr);
}

/* ---- a child process ------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int rows, said; /* read end of the pipe for rows; a file with the child's standard error */
    struct row row[ROWS_MAX];
    int n_rows;
    char why[200]; /* the reason if it failed; otherwise empty */
};

static int start(struct child *k, struct cell *c, int (*fn)(const struct cell *))
{
    int ends[2];
    k->said = memfd_create("said", MFD_CLOEXEC);
    if (k->said < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    fflush(NULL);
    k->pid = fork();
    if (k->pid == 0) {
        close(ends[0]);
        c->rows = ends[1];
        count_log_files(c->engine->log_files);
        int rc = dup2(k->said, STDERR_FILENO) < 0 ? -1 : fn(c);
        if (rc == BENCH_AGAIN || rc == BENCH_ABSENT)
            bench_failed(c->engine->name, c->c->name,
                         rc == BENCH_ABSENT ? "a record is missing"
                                            : "it wants the transaction to be tried again");
        _exit(rc ? 1 : 0);
    }
    close(ends[1]);
    k->rows = ends[0];
    return k->pid < 0 ? -errno : 0;
}

/* Receives rows. Returns NULL when the child has closed its end of the pipe; otherwise the reason
 * why no more rows can be received. */
static const char *receive(struct child *k, unsigned limit_seconds)
{
    uint64_t end = bench_now_ns() + (uint64_t)limit_seconds * 1000000000u;
    size_t have = 0;
    for (;;) {
        uint64_t now = bench_now_ns();
        struct pollfd p = {.fd = k->rows, .events = POLLIN};
        int ready = poll(&p, 1, now < end ? (int)((end - now) / 1000000u) + 1 : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ready < 0 ? strerror(errno) : "it took longer than --limit allows";
        if (k->n_rows == ROWS_MAX)
            return "it has more rows than there is room for";
        ssize_t n = read(k->rows, (char *)&k->row[k->n_rows] + have, sizeof(struct row) - have);
        if (n <= 0)
            return n < 0 ? strerror(errno) : NULL;
        have += (size_t)n;
        if (have == sizeof(struct row)) {
            k->n_rows++;
            have = 0;
        }
    }
}

/* Copies the last line of the child's standard error. */
static void last_words(struct child *k, char *out, size_t size)
{
    char text[4096];
    off_t end = lseek(k->said, 0, SEEK_END);
    off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(k->said, text, sizeof text - 1, from);
    text[n > 0 ? n : 0] = 0;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    const char *line = strrchr(text, '\n');
    snprintf(out, size, "%.*s", (int)size - 1, line ? line + 1 : text);
}

/* Programs that the engine has started end when the child does. Until then they may write files
 * into the directory of the database. They are now children of this process (plan_run). */
static void await_orphans(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

/* Runs fn in a child; `killed`: the child may end itself by SIGKILL. */
static int run_child(const struct state *s, struct child *k, struct cell *c,
                     int (*fn)(const struct cell *), bool killed)
{
    char words[160];
    int status = 0;
    memset(k, 0, sizeof *k);
    int rc = start(k, c, fn);
    if (rc) {
        snprintf(k->why, sizeof k->why, "fork: %s", strerror(-rc));
        return rc;
    }
    const char *broken = receive(k, s->plan->limit_seconds);
    if (broken)
        kill(k->pid, SIGKILL);
    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    await_orphans();
    last_words(k, words, sizeof words);
    if (broken)
        snprintf(k->why, sizeof k->why, "%s", broken);
    else if (WIFSIGNALED(status) && !(killed && WTERMSIG(status) == SIGKILL))
        snprintf(k->why, sizeof k->why, "ended by signal %d (%s) %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), words);
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        snprintf(k->why, sizeof k->why, "%s", *words ? words : "it failed without a message");
    close(k->rows);
    close(k->said);
    return *k->why ? -1 : 0;
}

/* ---- databases ------------------------------------------------------------------------------- */

/* A server that runs as another user must reach its own directory. */
static void let_pass(const struct state *s)
{
    bench_must(chmod(s->root, 0711), s->root);
}

/* Removes the loaded databases, unless the cell's case loads equal ones. */
static void keep_bases_for(struct state *s, const struct cell *c)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%d %d %d %llu %u %u", c->c->load == load_fill,
             c->c->in_order, c->c->txn_ops && c->c->txn_ops < BENCH_BULK,
             (unsigned long long)c->records, c->key_size, c->value_size);
    if (c->c->load && strcmp(wanted, s->base) == 0)
        return;
    if (*s->base) {
        bench_remove_dir(s->root);
        bench_must(mkdir(s->root, 0700), s->root);
        let_pass(s);
    }
    snprintf(s->base, sizeof s->base, "%s", c->c->load ? wanted : "");
}

static int drop_cached(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)at;
    int fd = flag == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    int rc = fdatasync(fd);
    rc = rc ? rc : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return rc;
}

static int make_base(const struct state *s, struct child *k, struct cell *c)
{
    struct stat st;
    if (c->c->load && stat(c->dir, &st) == 0)
        return 0;
    if (mkdir(c->dir, 0700) != 0) {
        snprintf(k->why, sizeof k->why, "mkdir: %s", strerror(errno));
        return -1;
    }
    return c->c->load ? run_child(s, k, c, c->c->load, false) : 0;
}

/* ---- one cell -------------------------------------------------------------------------------- */

static double prepare(const struct state *s, struct child *k, struct cell *c)
{
    double log_bytes = NAN;
    if (c->c->prepare && run_child(s, k, c, c->c->prepare, true) == 0 && k->n_rows)
        log_bytes = k->row[0].log_bytes;
    if (!*k->why && c->c->cold && nftw(c->dir, drop_cached, 16, FTW_PHYS) != 0)
        snprintf(k->why, sizeof k->why, "its files could not be dropped from the cache");
    return log_bytes;
}

/* Syncs the file system before a measurement. Otherwise the writes that earlier engines left to the
 * operating system would slow the measurement. */
static void settle(const struct state *s)
{
    int fd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bench_must(fd < 0 ? -1 : 0, s->root);
    bench_must(syncfs(fd), "syncfs");
    bench_must(close(fd), "close");
}

static void run_cell(struct state *s, struct cell *c)
{
    struct child *k = calloc(1, sizeof *k);
    bench_must(k ? 0 : -1, "memory");
    snprintf(c->dir, sizeof c->dir, "%s/%s", s->root, c->engine->name);
    bar_show(s, c);
    int rc = make_base(s, k, c);
    if (!rc) {
        memset(k, 0, sizeof *k);
        double log_bytes = prepare(s, k, c);
        settle(s);
        rc = *k->why ? -1 : run_child(s, k, c, c->c->run, false);
        for (int i = 0; !rc && i < k->n_rows; i++)
            if (c->c->prepare)
                k->row[i].log_bytes = log_bytes;
    }
    bar_clear();
    for (int i = 0; i < k->n_rows && !c->c->prepare; i++)
        rows_put(s->plan, c, &k->row[i]);
    for (int i = 0; i < k->n_rows && c->c->prepare && !rc; i++)
        rows_put(s->plan, c, &k->row[i]);
    if (rc) {
        struct row failed = row_init(c->c->name);
        snprintf(failed.failure, sizeof failed.failure, "%s", k->why);
        rows_put(s->plan, c, &failed);
        s->failures++;
    }
    if (rc || !c->c->load)
        bench_remove_dir(c->dir);
    free(k);
    s->done++;
}

/* ---- all cells ------------------------------------------------------------------------------- */

static struct cell cell_of(const struct plan *p, const struct bench_case *b, uint64_t n,
                           const struct bench_engine *e, uint64_t threads, int run)
{
    struct cell c = {.c = b, .engine = e, .n = n, .run = run, .threads = (uint32_t)threads};
    c.records = p->records && b->load ? p->records : b->records;
    c.cache = p->cache ? p->cache : b->cache;
    c.seconds = p->seconds ? p->seconds : b->seconds;
    c.key_size = p->key_size ? p->key_size : b->key_size;
    c.value_size = p->value_size ? p->value_size : b->value_size;
    if (c.value_size >= 8 && c.key_size == 4 && b->load)
        c.key_size = 8; /* a lookup checks 8 bytes of the value; the key gets 8 bytes, too */
    return c;
}

typedef void cell_fn(struct state *, struct cell *);

static void each_thread_count(struct state *s, const struct bench_case *b, uint64_t n, int run,
                              cell_fn *fn)
{
    const struct plan *p = s->plan;
    const struct list *threads = p->threads.n && b->threads.n > 1 ? &p->threads : &b->threads;
    for (int e = 0; e < p->n_engines; e++)
        for (int t = 0; t < threads->n; t++) {
            struct cell c = cell_of(p, b, n, p->engines[e], threads->v[t], run);
            fn(s, &c);
        }
}

static void each_cell(struct state *s, cell_fn *fn)
{
    const struct plan *p = s->plan;
    for (int i = 0; i < p->n_cases; i++) {
        const struct bench_case *b = p->cases[i];
        const struct list own = {{b->n}, 1}, *n = p->n.n ? &p->n : &own;
        for (int k = 0; k < n->n; k++)
            for (int run = 0; run < p->runs; run++)
                each_thread_count(s, b, n->v[k], run, fn);
    }
}

/* Why the engine cannot run the cell; NULL if it can. */
static const char *refusal(const struct cell *c)
{
    if (c->engine->backups_only && c->c->run != run_backup)
        return "it takes part in W12 alone";
    return c->c->refuses(c->engine, c);
}

static void count_cell(struct state *s, struct cell *c)
{
    s->total += refusal(c) == NULL;
}

static void do_cell(struct state *s, struct cell *c)
{
    const char *why = refusal(c);
    char what[64];
    keep_bases_for(s, c);
    if (!why && s->plan->dry) {
        struct row empty = row_init(c->c->name);
        rows_put(s->plan, c, &empty);
    } else if (!why) {
        run_cell(s, c);
    } else if (c->run == 0 && !(s->refused.c == c->c && s->refused.engine == c->engine &&
                                s->refused_why == why)) {
        s->refused = *c;
        s->refused_why = why;
        bool many = c->c->threads.n > 1 && c->threads > 1;
        snprintf(what, sizeof what, many ? "%s.%s, %u threads" : "%s.%s", c->c->workload,
                 c->c->name, c->threads);
        bar_clear();
        rows_skipped(s->plan, what, c->engine->name, why);
    }
}

int plan_run(const struct plan *p)
{
    struct state s = {.plan = p, .begun = bench_now_ns()};
    bench_must(setenv("TMPDIR", p->dir, 1), "setenv");
    bench_must(prctl(PR_SET_CHILD_SUBREAPER, 1), "prctl");
    bench_make_dir(s.root);
    let_pass(&s);
    for (int i = 0; i < p->n_skipped; i++)
        rows_skipped(p, "all", p->skipped[i]->names, p->skipped[i]->why);
    each_cell(&s, count_cell);
    rows_head(p);
    each_cell(&s, do_cell);
    bench_remove_dir(s.root);
    return s.failures;
}
