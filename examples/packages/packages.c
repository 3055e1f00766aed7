/* SPDX-License-Identifier: BSD-2-Clause */
/* packages: loads a file into a database, kills the loading process several times, and checks the
 * database.
 *
 *   packages FILE --dir DIR [--transactions N] [--kills N] [--threads N] [--seed S] [--lladd TOOL]
 *
 * The files to read:
 *
 *   tally.c     a page type and an operation of the program's own: what you write yourself
 *   store.c     the library's hash table, which the same transactions change
 *   loader.c    threads with many transactions in flight; asynchronous commit
 *   verify.c    what "recovered" means, and how it is checked
 *   this file   the parent: it starts the loader, notes the acknowledged transactions, kills the
 *               loader, and compares the database with the file and the ledger
 *
 * The loader is a separate process. The file, and the ledger of acknowledged transactions, are in
 * this process, so it compares the database with data that do not come from the database.
 * Acknowledgements come through a pipe; the kernel keeps the pipe's contents after the death of the
 * loader. */
#include "ledger.h"
#include "loader.h"
#include "show.h"
#include "stanzas.h"
#include "store.h"
#include "verify.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <lladd/stats.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALL_MS 60000
#define THREADS_MAX 256u
#define TRANSACTIONS_MAX 1000000000u

struct run {
    const char *path, *dir, *tool;
    uint64_t transactions, kills, threads, seed;
    struct stanzas stanzas;
    struct ledger ledger;
    uint64_t limit; /**< for the loaders that are killed; the last loader loads the other
                         transactions */
    struct progress progress;
    struct ack last;     /**< the current loader's transaction with the highest commit LSN */
    double load_seconds; /**< sum, over the loaders, of the time from the opened database to the
                              last acknowledgement */
    double recovery_min, recovery_max;
};

struct child {
    pid_t pid;
    int acks, leave;
    uint64_t heard; /**< number of transactions that the loader has acknowledged */
    double began, ended;
    bool ready;
};

static uint64_t settled(const struct run *r)
{
    return r->ledger.committed + r->ledger.aborted;
}

/* ---- the loader, as its parent sees it ------------------------------------------------------- */

static void be_child(const struct run *r, uint64_t round, int acks, int leave)
{
    struct loader_job job = {.dir = r->dir,
                             .stanzas = &r->stanzas,
                             .ledger = &r->ledger,
                             .limit = round < r->kills ? r->limit : r->ledger.n,
                             .threads = (unsigned)r->threads,
                             .seed = r->seed + mix(round),
                             .acks = acks,
                             .leave = leave};
    _exit(loader_run(&job));
}

static bool child_start(struct run *r, uint64_t round, struct child *c)
{
    int acks[2], leave[2];
    pid_t parent = getpid();
    fflush(stdout);
    if (pipe(acks) || pipe(leave))
        return perror("packages: pipe"), false;
    *c = (struct child){.pid = fork(), .acks = acks[0], .leave = leave[1]};
    if (c->pid == 0) {
        /* If the parent dies, the kernel must kill the child. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
            _exit(1);
        close(acks[0]);
        close(leave[1]);
        be_child(r, round, acks[1], leave[0]);
    }
    close(acks[1]);
    close(leave[0]);
    if (c->pid < 0)
        return perror("packages: fork"), false;
    return true;
}

static bool note(struct run *r, struct child *c, const struct ack *ack)
{
    if (ack->ready) {
        c->ready = true;
        c->began = clock_seconds();
        progress_begin(&r->progress, settled(r));
        return true;
    }
    if (ack->sequence >= r->ledger.n || r->ledger.state[ack->sequence] != LEDGER_OPEN) {
        fprintf(stderr, "packages: %" PRIu64 " was acknowledged twice\n", ack->sequence);
        return false;
    }
    ledger_set(&r->ledger, ack->sequence, ack->commit ? LEDGER_COMMITTED : LEDGER_ABORTED);
    if (ack->commit > r->last.commit)
        r->last = *ack;
    c->heard++;
    return true;
}

/* Waits for the next acknowledgements. 1: some have come; 0: the pipe has ended; -1: an error. */
static int hear(struct run *r, struct child *c)
{
    struct ack acks[128];
    struct pollfd wait = {.fd = c->acks, .events = POLLIN};
    int ready = poll(&wait, 1, STALL_MS);
    if (ready == 0) {
        fprintf(stderr, "packages: nothing from the loader for %d seconds\n", STALL_MS / 1000);
        return -1;
    }
    ssize_t n = ready < 0 ? -1 : read(c->acks, acks, sizeof acks);
    if (n < 0)
        return errno == EINTR ? 1 : (perror("packages: loader"), -1);
    if ((size_t)n % sizeof *acks != 0) {
        fprintf(stderr, "packages: read only a part of an acknowledgement\n");
        return -1;
    }
    for (size_t i = 0; i < (size_t)n / sizeof *acks; i++)
        if (!note(r, c, &acks[i]))
            return -1;
    if (n > 0)
        c->ended = clock_seconds();
    return n > 0;
}

/* Reads the loader's acknowledgements until the loader has ended. Kills the loader when at least
 * `target` transactions have an outcome. First waits until this loader has acknowledged a
 * transaction, unless no transaction is left for it. */
static bool child_watch(struct run *r, struct child *c, uint64_t target, bool *killed)
{
    int more = 1;
    *killed = false;
    while (more > 0) {
        more = hear(r, c);
        progress_show(&r->progress, settled(r));
        bool idle = settled(r) >= r->limit;
        if (more > 0 && !*killed && c->ready && settled(r) >= target && (c->heard || idle)) {
            *killed = true;
            kill(c->pid, SIGKILL);
        }
        if (settled(r) == r->ledger.n && c->leave >= 0) {
            close(c->leave);
            c->leave = -1;
        }
    }
    progress_end(&r->progress);
    if (more < 0)
        kill(c->pid, SIGKILL);
    return more == 0;
}

/* Waits for the process to end; false if it did not end as expected. */
static bool child_end(struct run *r, struct child *c, bool expect_killed)
{
    int status;
    pid_t pid;
    close(c->acks);
    if (c->leave >= 0)
        close(c->leave);
    do
        pid = waitpid(c->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (pid < 0)
        return perror("packages: wait"), false;
    if (c->heard)
        r->load_seconds += c->ended - c->began;
    if (expect_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                      : WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    fprintf(stderr, "packages: the loader failed (%s %d)\n",
            WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

/* ---- after a loader has ended ---------------------------------------------------------------- */

static bool library_failed(const char *what, const struct lladd_error *err)
{
    fprintf(stderr, "packages: %s: %s: %s\n", what, lladd_code_name(err->code), err->message);
    return false;
}

/* Opens the database, which recovers it; compares it with the file and the ledger; closes it. */
static bool inspect(struct run *r, uint64_t killed)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    struct recovery recovery = {0};
    struct verdict verdict = {0};
    struct store store;
    if (store_open(&store, r->dir, recovery_line, &recovery, &err))
        return library_failed("open", &err);
    int rc = lladd_stats_get(store.db, &stats);
    if (rc)
        lladd_error_set(&err, rc, "no statistics");
    if (!rc && killed) {
        double seconds = (double)stats.recovery_ns / 1e9;
        printf("Kill %-5" PRIu64 " after %s acknowledged transactions; recovery took %.2f s\n",
               killed, number_of(settled(r)).text, seconds);
        recovery_show(&recovery, &stats);
        r->recovery_min = seconds < r->recovery_min ? seconds : r->recovery_min;
        r->recovery_max = seconds > r->recovery_max ? seconds : r->recovery_max;
    }
    if (!rc)
        rc = verify(&store, &r->stanzas, &r->ledger, &verdict, &err);
    if (!rc)
        verdict_show(&verdict);
    if (store_close(&store) && !rc) {
        fprintf(stderr, "packages: the database could not be closed cleanly\n");
        return false;
    }
    return rc ? library_failed("compare", &err) : verdict.discrepancies == 0;
}

/* Runs one loader. `target`: the loader is killed when so many transactions have an outcome;
 * UINT64_MAX: it is not killed. */
static bool load(struct run *r, uint64_t round, uint64_t target)
{
    struct child c;
    bool killed = false;
    r->last = (struct ack){0};
    if (!child_start(r, round, &c))
        return false;
    bool good = child_watch(r, &c, target, &killed);
    return child_end(r, &c, target != UINT64_MAX || !good) && good;
}

/* ---- the whole run --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the limit for the killed loaders. The last loader always has some transactions to load,
 * however late a killed loader dies. The first of these transactions commits, because show_last
 * needs a commit. */
static uint64_t limit_of(const struct ledger *l)
{
    uint64_t limit = l->n - l->n / 50;
    do
        limit--;
    while (limit && ledger_aborts(l, limit));
    return limit;
}

/* The moments of the kills: random, in ascending order. */
static uint64_t *draw_targets(const struct run *r)
{
    uint64_t *targets = malloc((r->kills + 1) * sizeof *targets);
    for (uint64_t i = 0; targets && i < r->kills; i++)
        targets[i] = r->limit ? 1 + mix(r->seed ^ mix(~i)) % r->limit : 0;
    if (targets)
        qsort(targets, r->kills, sizeof *targets, by_value);
    return targets;
}

static void introduce(const struct run *r)
{
    printf("Loading    %s (%s stanzas) again and again: %s transactions.\n", r->path,
           number_of(r->stanzas.count).text, number_of(r->transactions).text);
    printf(
        "           Each puts a stanza into a hash table (lladd_hash, undone by key), under its\n"
        "           first field and a sequence number, and counts it by its first letter\n"
        "           (packages.count, our own operation: examples/packages/tally.c).\n"
        "           One in %u is aborted on purpose.\n",
        ABORT_EVERY);
    printf("Killing    the loader, a process of %" PRIu64 " threads, with SIGKILL, %" PRIu64
           " times. Opening recovers; then\n",
           r->threads, r->kills);
    printf("           all is compared with the file. This tests the death of a process.\n"
           "           The tests of the library simulate power loss, which also destroys what the\n"
           "           system has not written.\n");
}

static void conclude(const struct run *r)
{
    double text = stanzas_bytes(&r->stanzas, r->transactions);
    printf("Result     no discrepancy. %s transactions in %.2f s of loading: %s durable\n"
           "           ones a second, %.0f MB/s of text.",
           number_of(r->transactions).text, r->load_seconds,
           number_of((uint64_t)((double)r->transactions / r->load_seconds)).text,
           text / 1e6 / r->load_seconds);
    if (r->kills)
        printf(" Recovery took %.2f to %.2f s.", r->recovery_min, r->recovery_max);
    printf(" (--seed %" PRIu64 ")\n", r->seed);
}

/* Lets the tool print the last transaction. The tool knows only what the log says about this
 * program. A transaction can have more records than a screen has lines, so the tool prints only the
 * last four records. */
static bool show_last(const struct run *r)
{
    char txn[24];
    int status, out[2];
    snprintf(txn, sizeof txn, "%" PRIu64, r->last.txn);
    printf("Last one   lladd log --txn %s --last 4 %s\n", txn, r->dir);
    fflush(stdout);
    if (pipe(out))
        return perror("packages: pipe"), false;
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(out[1], STDOUT_FILENO) < 0 || close(out[0]) || close(out[1]))
            _exit(127);
        execl(r->tool, "lladd", "log", "--txn", txn, "--from", txn, "--last", "4", r->dir,
              (char *)NULL);
        perror(r->tool);
        _exit(127);
    }
    close(out[1]);
    if (pid < 0)
        return perror("packages: fork"), close(out[0]), false;
    bool shown = show_folded(out[0]);
    if (waitpid(pid, &status, 0) != pid)
        return perror("packages: wait"), false;
    return shown && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool run(struct run *r)
{
    r->ledger = (struct ledger){.n = r->transactions, .seed = r->seed};
    r->ledger.state = calloc(r->transactions, 1);
    r->limit = limit_of(&r->ledger);
    uint64_t *targets = draw_targets(r);
    r->progress = (struct progress){.of = r->transactions, .terminal = isatty(STDOUT_FILENO)};
    bool good = targets && r->ledger.state;
    if (!good)
        fprintf(stderr, "packages: no memory for %" PRIu64 " transactions\n", r->transactions);
    else
        introduce(r);
    for (uint64_t i = 0; good && i < r->kills; i++)
        good = load(r, i, targets[i]) && inspect(r, i + 1);
    good = good && load(r, r->kills, UINT64_MAX);
    if (good)
        printf("The end    the rest is loaded, the database closed\n");
    good = good && inspect(r, 0);
    if (good)
        conclude(r);
    if (good && r->tool && r->last.txn)
        good = show_last(r);
    free(targets);
    free(r->ledger.state);
    return good;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(const char *what, const char *of)
{
    fprintf(stderr,
            "packages: %s%s\n"
            "usage: packages FILE --dir DIR [--transactions N] [--kills N] [--threads N]\n"
            "                [--seed S] [--lladd TOOL]\n",
            what, of);
    return 2;
}

static bool parse(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    uint64_t v = strtoull(text, &end, 10);
    *out = v;
    return *text >= '0' && *text <= '9' && *end == 0 && !errno && v >= min && v <= max;
}

/* Makes the directory. An existing directory must be empty, because its contents would not be in
 * the ledger. */
static bool fresh_directory(const char *dir, char *why, size_t size)
{
    if (mkdir(dir, 0777) && errno != EEXIST) {
        snprintf(why, size, "%s: %s", dir, strerror(errno));
        return false;
    }
    DIR *d = opendir(dir);
    if (!d) {
        snprintf(why, size, "%s: %s", dir, strerror(errno));
        return false;
    }
    bool empty = true;
    for (struct dirent *e; empty && (e = readdir(d)) != NULL;)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(d);
    if (!empty)
        snprintf(why, size, "%s is not empty: the database must be a new one", dir);
    return empty;
}

/* The database needs space for its pages, which are only partly full, and for the log between two
 * checkpoints. */
static bool enough_space(const struct run *r, char *why, size_t size)
{
    struct statvfs fs;
    double text = stanzas_bytes(&r->stanzas, r->transactions);
    double need = 3.0 * text + 64.0 * (double)r->transactions + 800e6;
    if (statvfs(r->dir, &fs)) {
        snprintf(why, size, "%s: %s", r->dir, strerror(errno));
        return false;
    }
    double have = (double)fs.f_bavail * (double)fs.f_frsize;
    if (have < need)
        snprintf(why, size,
                 "%s transactions of this file need about %.1f GB of disk, %s has %.1f: choose "
                 "fewer (--transactions) or another place (--dir)",
                 number_of(r->transactions).text, need / 1e9, r->dir, have / 1e9);
    return have >= need;
}

static int options(struct run *r, int argc, char **argv)
{
    static const struct option known[] = {{"dir", required_argument, NULL, 'd'},
                                          {"transactions", required_argument, NULL, 'n'},
                                          {"kills", required_argument, NULL, 'k'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"lladd", required_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        bool good = true;
        if (c == 'd')
            r->dir = optarg;
        else if (c == 'l')
            r->tool = optarg;
        else if (c == 'n')
            good = parse(optarg, 1, TRANSACTIONS_MAX, &r->transactions);
        else if (c == 'k')
            good = parse(optarg, 0, TRANSACTIONS_MAX, &r->kills);
        else if (c == 't')
            good = parse(optarg, 1, THREADS_MAX, &r->threads);
        else if (c == 's')
            good = parse(optarg, 0, UINT64_MAX, &r->seed);
        else
            return usage("unknown option", "");
        if (!good)
            return usage("not a number in range: ", optarg);
    }
    if (optind + 1 != argc || !r->dir)
        return usage("one FILE and --dir are needed", "");
    if (r->kills > r->transactions)
        return usage("more kills than transactions", "");
    r->path = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct run r = {.transactions = 200000,
                    .kills = 5,
                    .threads = 8,
                    .recovery_min = 1e9,
                    .seed = mix((uint64_t)getpid() + (uint64_t)(clock_seconds() * 1e6)) % 1000000};
    char why[512];
    int rc = options(&r, argc, argv);
    if (rc)
        return rc;
    if (!stanzas_read(&r.stanzas, r.path, why, sizeof why) ||
        !fresh_directory(r.dir, why, sizeof why) || !enough_space(&r, why, sizeof why)) {
        fprintf(stderr, "packages: %s\n", why);
        rc = 2;
    } else if (!run(&r)) {
        rc = 1;
    }
    stanzas_free(&r.stanzas);
    return rc;
}
