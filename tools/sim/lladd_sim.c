/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lladd-sim: explores subjects of the recovery simulator, and replays failures.
 *
 * This is a separate program because it contains the instrumented library, while the lladd command
 * contains the ordinary library. It exports the library's functions to shared objects with
 * subjects.
 *
 * Each subject runs in its own process. If a subject crashes or does not end, the program reports
 * this with the subject's name, and still runs the other subjects.
 */
#include <lladd/dst.h>
#include <lladd/sim.h>

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PASSED = 0, FAILED = 1, USAGE = 2 };

static const char usage[] =
    "lladd-sim [options] SUBJECT...     explore\n"
    "lladd-sim --errors SUBJECT...      let each call fail in turn\n"
    "lladd-sim --damage SUBJECT...      change bytes of the files without the library's knowledge\n"
    "lladd-sim --random SUBJECT...      large workloads, crashed at random\n"
    "lladd-sim --interleave SUBJECT...  several threads, in every schedule\n"
    "lladd-sim --contract SUBJECT...    no crashes: check that its operations keep the contract\n"
    "                                   with recovery\n"
    "lladd-sim [options] --all          all subjects of the library, instead of names\n"
    "lladd-sim SUBJECT --replay TOKEN   repeat a failure and print its history\n"
    "lladd-sim --list                   list the subjects\n"
    "lladd-sim --operations             list the operations that each subject must cover fully\n"
    "\n"
    "A subject is a name from the list, or a shared object (a name with a slash), which\n"
    "stands for all its subjects; SHARED-OBJECT:NAME is one of them. A number in parentheses\n"
    "is the default.\n"
    "\n"
    "  --depth N         explore, random, interleave: crashes in a row (4, the last sampled)\n"
    "  --states N        stop after N crash states, or damages\n"
    "  --seconds N       stop after about N seconds; a subject without progress is ended then\n"
    "  --failures N      stop after N failures (1)\n"
    "  --seed N          seed of all random choices (1)\n"
    "  --full-product    explore, errors, interleave: every combination of versions of all pages\n"
    "  --atomic-pages    a device that does not tear pages\n"
    "  --atomic-turns    as --atomic-pages, for every second database only\n"
    "  --instant         databases recover instantly: pages are redone when they are fetched\n"
    "  --no-power        no loss of power\n"
    "  --no-kill         no death of the process\n"
    "  --no-coverage     a path never reached, or a fault that never hit, is not a failure\n"
    "  --points N        errors: number of crashes with errors in their recovery, too (4)\n"
    "  --samples N       errors: random crash states after each error, besides simple ones (1)\n"
    "  --every N         errors: only every N-th call (1)\n"
    "  --preemptions N   interleave: number of interruptions of threads that could continue (2)\n"
    "  --schedules N     interleave: stop after N schedules\n"
    "  --random-schedules  interleave: random priorities instead of all schedules\n"
    "  --plant BUG       switch on a bug of the library (--list names them)\n"
    "  --limit N         kill a subject that takes more than N seconds\n"
    "  --json            one JSON object for each subject\n"
    "  --report FILE     writes these JSON objects to a file, besides the text\n"
    "\n"
    "An option is refused if it has no effect in the mode, contradicts another, or is given\n"
    "twice (--plant may be).\n";

struct request {
    unsigned mode;
    struct lladd_sim_bounds bounds;
    const char *token;
    const char *report_name;
    FILE *report;   /* nullable */
    unsigned limit; /* seconds; 0: none */
    bool json, all;
    int worst;
};

static int to_file(void *ctx, const void *bytes, size_t len)
{
    return fwrite(bytes, 1, len, ctx) == len ? 0 : LLADD_NO_SPACE;
}

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "lladd-sim: %s: %s\n", what, why);
    return USAGE;
}

/* ---- modes ------------------------------------------------------------------------------- */

enum {
    EXPLORE = 1,
    ERRORS = 2,
    DAMAGE = 4,
    RANDOM = 8,
    INTERLEAVE = 16,
    CONTRACT = 32,
    REPLAY = 64,
    LIST = 128,
    OPERATIONS = 256,
    HELP = 512,
    SEARCH = EXPLORE | ERRORS | DAMAGE | RANDOM | INTERLEAVE,
    RUN = SEARCH | CONTRACT | REPLAY
};

/* The destinations of a report; each is nullable. */
struct outlet {
    struct lladd_sink *text;
    struct lladd_sink *json[2];
};

/* Runs a subject and writes the report. Returns 0, with *found true if a failure was found; or an
 * error code. */
#define MODE(mode, type, call, failed, as_text, as_json, release) \
    static int mode(const struct lladd_sim_subject *s, const struct request *q, \
                    const struct outlet *to, bool *found, struct lladd_error *err) \
    { \
        struct type *r; \
        int rc = call; \
        if (rc) \
            return rc; \
        *found = (failed) != 0; \
        if (to->text) \
            rc = as_text(r, to->text); \
        for (int i = 0; !rc && i < 2; i++) \
            if (to->json[i]) \
                rc = as_json(r, to->json[i]); \
        release(r); \
        return rc ? lladd_error_set(err, rc, "the report cannot be written") : 0; \
    }

static int promises(const struct lladd_sim_subject *s, const struct request *q,
                    struct lladd_sim_contract_report **out, struct lladd_error *err)
{
    struct lladd_sim_contract given = LLADD_SIM_CONTRACT_INIT;
    given.seed = q->bounds.seed;
    return lladd_sim_contract_subject(s, &given, out, err);
}

/* The history is written while the replay runs. */
static int replay(const struct lladd_sim_subject *s, const struct request *q,
                  const struct outlet *to, struct lladd_sim_report **out, struct lladd_error *err)
{
    int rc = lladd_sim_replay(s, &q->bounds, q->token, to->text, out, err);
    if (!rc && to->text && (*out)->n_failures == 0)
        (void)lladd_sink_printf(to->text, "No failures.\n"); /* `told` checks the sink */
    return rc;
}

static int told(const struct lladd_sim_report *r, struct lladd_sink *to)
{
    (void)r;
    return to->failed;
}

MODE(explore_it, lladd_sim_report, lladd_sim_explore(s, &q->bounds, &r, err), r->n_failures,
     lladd_sim_report_text, lladd_sim_report_json, lladd_sim_report_free)
MODE(errors_of_it, lladd_sim_errors_report, lladd_sim_errors(s, &q->bounds, &r, err), r->n_failures,
     lladd_sim_errors_text, lladd_sim_errors_json, lladd_sim_errors_free)
MODE(damage_it, lladd_sim_damage_report, lladd_sim_damage(s, &q->bounds, &r, err), r->n_failures,
     lladd_sim_damage_text, lladd_sim_damage_json, lladd_sim_damage_free)
MODE(at_random, lladd_sim_random_report, lladd_sim_random(s, &q->bounds, &r, err), r->n_failures,
     lladd_sim_random_text, lladd_sim_random_json, lladd_sim_random_free)
MODE(interleave_it, lladd_sim_report, lladd_sim_interleave(s, &q->bounds, &r, err), r->n_failures,
     lladd_sim_report_text, lladd_sim_report_json, lladd_sim_report_free)
MODE(promises_of_it, lladd_sim_contract_report, promises(s, q, &r, err), r->broken,
     lladd_sim_contract_text, lladd_sim_contract_json, lladd_sim_contract_free)
MODE(replay_it, lladd_sim_report, replay(s, q, to, &r, err), r->n_failures, told,
     lladd_sim_report_json, lladd_sim_report_free)

/* ---- one subject ------------------------------------------------------------------------- */

static int run_it(const struct lladd_sim_subject *s, const struct request *q)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sink out = {stdout, to_file, 0}, file = {q->report, to_file, 0};
    struct outlet to = {q->json ? NULL : &out, {q->json ? &out : NULL, q->report ? &file : NULL}};
    bool found = false;
    int rc = q->mode == EXPLORE      ? explore_it(s, q, &to, &found, &err)
             : q->mode == ERRORS     ? errors_of_it(s, q, &to, &found, &err)
             : q->mode == DAMAGE     ? damage_it(s, q, &to, &found, &err)
             : q->mode == RANDOM     ? at_random(s, q, &to, &found, &err)
             : q->mode == INTERLEAVE ? interleave_it(s, q, &to, &found, &err)
             : q->mode == CONTRACT   ? promises_of_it(s, q, &to, &found, &err)
                                     : replay_it(s, q, &to, &found, &err);
    if (rc)
        return complain(s->name, err.message);
    if (fflush(stdout) != 0 || (q->report && fflush(q->report) != 0))
        return complain(s->name, "the report cannot be written");
    return found ? FAILED : PASSED;
}

/* ---- subjects that crash or do not end ------------------------------------------------------- */

/* The report of a subject's process to its parent, in shared memory. */
struct legacy {
    bool late;      /* the process was killed because it did not end */
    char where[160]; /* the running callback, or the callback called last; "": none */
};

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGALRM};
enum { DEADLY = sizeof deadly / sizeof *deadly, STACK = 64 << 10, LOOK = 5, LOOKS = 2 };

/* The shared struct. A global variable, because a signal handler gets no argument from the
 * program. */
static struct legacy *legacy;
static time_t limit_at, time_is_up; /* 0: none */
static uint64_t calls_before;
static unsigned idle; /* number of checks in a row, after the time was up, that found no new device
                       * call */

/* Copies a text. Called in a signal handler, so it calls no library function. */
static char *put(char *at, const char *text)
{
    const char *end = legacy->where + sizeof legacy->where - 1;
    while (*text && at < end)
        *at++ = *text++;
    *at = '\0';
    return at;
}

static void note_place(void)
{
    const struct lladd_dst *d = lladd_dst_current();
    char *at = legacy->where;
    *at = '\0';
    if (!d || !d->op)
        return;
    at = put(at, d->calling ? "in " : "after ");
    at = put(at, d->callback);
    at = put(at, " of \"");
    at = put(at, d->op);
    at = put(at, "\"");
    if (d->page == LLADD_NO_PAGE)
        return;
    char digits[24], *first = digits + sizeof digits - 1;
    *first = '\0';
    uint64_t n = d->page;
    do
        *--first = (char)('0' + n % 10);
    while (n /= 10);
    at = put(at, " on page ");
    (void)put(at, first);
}

/* May a subject continue after its time is up? Yes, while it makes progress, for example makes a
 * failure smaller. Progress means device calls, because each run has a limited number of device
 * calls (oracle O13); the number of operation calls is not limited, so these do not count. */
static bool may_go_on(void)
{
    const struct lladd_dst *d = lladd_dst_current();
    time_t now = time(NULL);
    uint64_t calls = d ? d->device_calls : 0;
    if (limit_at && now >= limit_at)
        return false;
    idle = calls == calls_before && time_is_up && now >= time_is_up ? idle + 1 : 0;
    if (idle == LOOKS) /* One idle check is not enough, because the whole machine may have been
                        * stopped. */
        return false;
    calls_before = calls;
    (void)alarm(limit_at && limit_at - now < LOOK ? (unsigned)(limit_at - now) : LOOK);
    return true;
}

static void dies(int signal)
{
    if (signal == SIGALRM && may_go_on())
        return;
    legacy->late = signal == SIGALRM;
    note_place();
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = SIG_DFL;
    (void)sigaction(signal, &a, NULL);
    (void)raise(signal); /* takes effect when the handler returns */
}

/* In the subject's process: installs the signal handlers that report why it dies. */
static void watch(const struct request *q)
{
    static char stack[STACK]; /* the callback may have used up its own stack */
    stack_t other = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = dies;
    a.sa_flags = SA_ONSTACK | SA_RESTART;
    (void)sigemptyset(&a.sa_mask);
    (void)sigaltstack(&other, NULL);
    for (int i = 0; i < DEADLY; i++)
        (void)sigaction(deadly[i], &a, NULL);
    uint64_t seconds = q->bounds.milliseconds / 1000;
    time_t now = time(NULL);
    limit_at = q->limit ? now + (time_t)q->limit : 0;
    time_is_up = seconds && seconds < UINT32_MAX ? now + (time_t)seconds : 0;
    if (limit_at || time_is_up)
        (void)alarm(!time_is_up || (limit_at && limit_at < time_is_up)
                        ? q->limit
                        : (unsigned)(time_is_up - now));
}

static void put_json(FILE *to, const char *text)
{
    for (; *text; text++)
        (void)fprintf(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

/* Writes a report for a subject that has died. */
static int died(const struct lladd_sim_subject *s, const struct request *q, int signal)
{
    char why[400];
    FILE *to[2] = {q->json ? stdout : NULL, q->report};
    const char *comma = legacy->where[0] ? ", " : "";
    if (legacy->late && q->limit)
        (void)snprintf(why, sizeof why, "the subject has not ended within %u s%s%s", q->limit,
                       comma, legacy->where);
    else if (legacy->late)
        (void)snprintf(why, sizeof why,
                       "the subject has not ended: its time was up, and it made no more device "
                       "calls%s%s",
                       comma, legacy->where);
    else
        (void)snprintf(why, sizeof why, "the subject crashed: signal %d, %s%s%s", signal,
                       strsignal(signal), comma, legacy->where);
    bool fine = q->json || printf("subject %s: FAILED\n  %s\n", s->name, why) > 0;
    for (int i = 0; i < 2; i++) {
        if (!to[i])
            continue;
        fprintf(to[i],
                "{\"subject\":\"%s\",\"complete\":false,\"states\":0,\"depth_states\":[],"
                "\"nanoseconds\":0,\"failures\":[{\"oracle\":\"%s\",\"depth\":0,"
                "\"token\":\"\",\"message\":\"",
                s->name, legacy->late ? "no end" : "crash");
        put_json(to[i], why);
        fprintf(to[i], "\"}]}\n");
        fine &= !ferror(to[i]) && fflush(to[i]) == 0;
    }
    return fine && fflush(stdout) == 0 ? FAILED : complain(s->name, why);
}

/* Runs the subject in its own process. */
static int one(const struct lladd_sim_subject *s, const struct request *q)
{
    int status;
    if (fflush(stdout) != 0 || (q->report && fflush(q->report) != 0))
        return complain(s->name, "the report cannot be written");
    if (!legacy)
        legacy = mmap(NULL, sizeof *legacy, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0);
    if (legacy == MAP_FAILED)
        return legacy = NULL, complain(s->name, strerror(errno));
    memset(legacy, 0, sizeof *legacy);
    pid_t child = fork();
    if (child < 0)
        return complain(s->name, strerror(errno));
    if (child == 0) {
        watch(q);
        if (q->mode == REPLAY) /* so that all text that was printed before a crash is visible */
            (void)setvbuf(stdout, NULL, _IOLBF, 0);
        exit(run_it(s, q));
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return complain(s->name, strerror(errno));
    return WIFSIGNALED(status) ? died(s, q, WTERMSIG(status)) : WEXITSTATUS(status);
}

/* ---- choosing subjects ------------------------------------------------------------------- */

static void note(struct request *q, int result)
{
    q->worst = result > q->worst ? result : q->worst;
}

/* Runs the subjects of an array with this name (NULL: all). */
static unsigned each(const struct lladd_sim_subject *const *s, const char *name, struct request *q)
{
    unsigned n = 0;
    for (; *s; s++) {
        if (name && strcmp((*s)->name, name) != 0)
            continue;
        n++;
        note(q, one(*s, q));
    }
    return n;
}

/* The shared object stays loaded, because its subjects are used until the program ends. */
static int of_plugin(const char *text, struct request *q)
{
    char file[1024];
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    if (len >= sizeof file)
        return complain(text, "the name is too long");
    memcpy(file, text, len);
    file[len] = '\0';
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return complain(file, dlerror());
    void *symbol = dlsym(object, LLADD_SIM_PLUGIN_SYMBOL);
    if (!symbol)
        return complain(file, "it has no " LLADD_SIM_PLUGIN_SYMBOL);
    lladd_sim_plugin_fn *fn;
    memcpy(&fn, &symbol, sizeof fn);
    const struct lladd_sim_subject *const *all = fn();
    if (q->token && !colon && all[0] && all[1])
        return complain(text, "a token belongs to one subject: name it after a colon");
    return each(all, colon ? colon + 1 : NULL, q)
               ? PASSED
               : complain(text, "there is no such subject in it");
}

static int by_name(const char *text, struct request *q)
{
    if (strchr(text, '/'))
        return of_plugin(text, q);
    return each(lladd_sim_subjects(), text, q)
               ? PASSED
               : complain(text, "there is no such subject (--list)");
}

/* ---- lists ------------------------------------------------------------------------------- */

#define BUG_NAME(name, text, oracle, what) text,
#define BUG_WHAT(name, text, oracle, what) what,
static const char *const bug_names[] = {LLADD_BUG_LIST(BUG_NAME)};
static const char *const bug_texts[] = {LLADD_BUG_LIST(BUG_WHAT)};

static int list(void)
{
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); *s; s++)
        printf("%-20s %s\n", (*s)->name, (*s)->about ? (*s)->about : "");
    printf("\nbugs for --plant:\n");
    for (unsigned i = 0; i < LLADD_BUGS; i++)
        printf("%-20s %s\n", bug_names[i], bug_texts[i]);
    return fflush(stdout) == 0 ? PASSED : USAGE;
}

static int list_operations(void)
{
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); *s; s++)
        for (const char *const *op = (*s)->operations; op && *op; op++)
            printf("%-20s %s\n", (*s)->name, *op);
    return fflush(stdout) == 0 ? PASSED : USAGE;
}

/* ---- options ----------------------------------------------------------------------------- */

enum option_number {
    O_ERRORS,
    O_DAMAGE,
    O_RANDOM,
    O_INTERLEAVE,
    O_CONTRACT,
    O_REPLAY,
    O_LIST,
    O_OPERATIONS,
    O_HELP,
    O_DEPTH,
    O_STATES,
    O_SECONDS,
    O_FAILURES,
    O_SEED,
    O_POINTS,
    O_SAMPLES,
    O_EVERY,
    O_PREEMPTIONS,
    O_SCHEDULES,
    O_LIMIT,
    O_FULL,
    O_ATOMIC,
    O_TURNS,
    O_INSTANT,
    O_NO_POWER,
    O_NO_KILL,
    O_NO_COVERAGE,
    O_RANDOM_SCHEDULES,
    O_ALL,
    O_JSON,
    O_PLANT,
    O_REPORT,
    OPTIONS
};

enum sort { A_MODE, A_FLAG, A_SWITCH, A_NUMBER, A_TEXT };
#define MANY (UINT64_MAX / 1000)

static const struct known {
    const char *name;
    enum sort sort;
    unsigned modes;       /* modes in which the option is allowed; for an option that sets the mode:
                           * the mode */
    uint64_t least, most; /* range of a number; for a flag, `least` is the flag */
} known[OPTIONS] = {
    [O_ERRORS] = {"errors", A_MODE, ERRORS, 0, 0},
    [O_DAMAGE] = {"damage", A_MODE, DAMAGE, 0, 0},
    [O_RANDOM] = {"random", A_MODE, RANDOM, 0, 0},
    [O_INTERLEAVE] = {"interleave", A_MODE, INTERLEAVE, 0, 0},
    [O_CONTRACT] = {"contract", A_MODE, CONTRACT, 0, 0},
    [O_REPLAY] = {"replay", A_TEXT, REPLAY, 0, 0},
    [O_LIST] = {"list", A_MODE, LIST, 0, 0},
    [O_OPERATIONS] = {"operations", A_MODE, OPERATIONS, 0, 0},
    [O_HELP] = {"help", A_MODE, HELP, 0, 0},
    [O_DEPTH] = {"depth", A_NUMBER, EXPLORE | RANDOM | INTERLEAVE, 1,
                 LLADD_SIM_DEPTH_MAX},
    [O_STATES] = {"states", A_NUMBER, SEARCH, 1, MANY},
    [O_SECONDS] = {"seconds", A_NUMBER, SEARCH, 1, MANY},
    [O_FAILURES] = {"failures", A_NUMBER, SEARCH, 1, UINT32_MAX},
    [O_SEED] = {"seed", A_NUMBER, SEARCH | CONTRACT, 1, MANY},
    [O_POINTS] = {"points", A_NUMBER, ERRORS, 1, 1000000},
    [O_SAMPLES] = {"samples", A_NUMBER, ERRORS, 0, 1000000},
    [O_EVERY] = {"every", A_NUMBER, ERRORS, 1, UINT32_MAX},
    [O_PREEMPTIONS] = {"preemptions", A_NUMBER, INTERLEAVE, 0, 1000000},
    [O_SCHEDULES] = {"schedules", A_NUMBER, INTERLEAVE, 1, MANY},
    [O_LIMIT] = {"limit", A_NUMBER, RUN, 1, 1000000},
    [O_FULL] = {"full-product", A_FLAG, EXPLORE | ERRORS | INTERLEAVE, LLADD_SIM_FULL_PRODUCT, 0},
    [O_ATOMIC] = {"atomic-pages", A_FLAG, SEARCH, LLADD_SIM_ATOMIC_PAGES, 0},
    [O_TURNS] = {"atomic-turns", A_FLAG, SEARCH & ~DAMAGE, LLADD_SIM_ATOMIC_PAGES | LLADD_SIM_TURNS,
                 0},
    [O_INSTANT] = {"instant", A_FLAG, SEARCH, LLADD_SIM_INSTANT, 0},
    [O_NO_POWER] = {"no-power", A_FLAG, SEARCH, LLADD_SIM_NO_POWER, 0},
    [O_NO_KILL] = {"no-kill", A_FLAG, SEARCH, LLADD_SIM_NO_KILL, 0},
    [O_NO_COVERAGE] = {"no-coverage", A_FLAG, EXPLORE | ERRORS | RANDOM, LLADD_SIM_NO_COVERAGE, 0},
    [O_RANDOM_SCHEDULES] = {"random-schedules", A_FLAG, INTERLEAVE, LLADD_SIM_RANDOM_SCHEDULES, 0},
    [O_ALL] = {"all", A_SWITCH, SEARCH | CONTRACT, 0, 0},
    [O_JSON] = {"json", A_SWITCH, RUN, 0, 0},
    [O_PLANT] = {"plant", A_TEXT, SEARCH | REPLAY, 0, 0},
    [O_REPORT] = {"report", A_TEXT, RUN, 0, 0},
};

static int complain_of(enum option_number o, const char *why, const char *other)
{
    fprintf(stderr, "lladd-sim: --%s %s%s\n", known[o].name, why, other);
    return USAGE;
}

static const char *mode_name(unsigned mode)
{
    for (unsigned o = 0; o < OPTIONS; o++)
        if (known[o].modes == mode && (known[o].sort == A_MODE || o == O_REPLAY))
            return known[o].name;
    return "explore";
}

static bool number(const char *text, const struct known *k, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    *out = v;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && v >= k->least &&
           v <= k->most;
}

static bool plant(const char *name, uint64_t *planted)
{
    for (unsigned i = 0; i < LLADD_BUGS; i++) {
        if (strcmp(bug_names[i], name) != 0)
            continue;
        *planted |= LLADD_BUG_MASK(i);
        return true;
    }
    return false;
}

static void take_number(enum option_number o, uint64_t v, struct request *q)
{
    struct lladd_sim_bounds *b = &q->bounds;
    uint32_t small = (uint32_t)v;
    switch (o) {
    case O_DEPTH:
        b->depth = small;
        break;
    case O_STATES:
        b->states = v;
        break;
    case O_SECONDS:
        b->milliseconds = 1000 * v;
        break;
    case O_FAILURES:
        b->failures = small;
        break;
    case O_SEED:
        b->seed = v;
        break;
    case O_POINTS:
        b->points = small;
        break;
    case O_SAMPLES:
        b->samples = small ? small : UINT32_MAX;
        break;
    case O_EVERY:
        b->every = small;
        break;
    case O_PREEMPTIONS:
        b->preemptions = small ? small : UINT32_MAX;
        break;
    case O_SCHEDULES:
        b->schedules = v;
        break;
    default:
        q->limit = small;
        break;
    }
}

static int take_text(enum option_number o, const char *text, struct request *q)
{
    if (o == O_PLANT && !plant(text, &q->bounds.planted))
        return complain(text, "there is no such bug (--list)");
    if (o == O_REPORT)
        q->report_name = text;
    if (o == O_REPLAY)
        q->token = text;
    return PASSED;
}

/* Handles one option. */
static int take(enum option_number o, const char *text, struct request *q)
{
    const struct known *k = &known[o];
    uint64_t v;
    switch (k->sort) {
    case A_FLAG:
        q->bounds.flags |= (uint32_t)k->least;
        return PASSED;
    case A_NUMBER:
        if (!number(text, k, &v)) {
            fprintf(stderr, "lladd-sim: --%s %s: it takes a number from %llu to %llu\n", k->name,
                    text, (unsigned long long)k->least, (unsigned long long)k->most);
            return USAGE;
        }
        take_number(o, v, q);
        return PASSED;
    case A_TEXT:
        return take_text(o, text, q);
    default:
        q->json |= o == O_JSON;
        q->all |= o == O_ALL;
        return PASSED;
    }
}

/* Checks that the given options do not contradict each other and are allowed in the mode. */
static int look_at(const bool given[OPTIONS], struct request *q)
{
    q->mode = EXPLORE;
    for (unsigned o = 0; o < OPTIONS; o++) {
        if (!given[o] || !(known[o].sort == A_MODE || o == O_REPLAY))
            continue;
        if (q->mode != EXPLORE)
            return complain_of((enum option_number)o, "contradicts --", mode_name(q->mode));
        q->mode = known[o].modes;
    }
    for (unsigned o = 0; o < OPTIONS; o++)
        if (given[o] && !(known[o].modes & q->mode))
            return q->mode == EXPLORE
                       ? complain_of((enum option_number)o, "needs ",
                                     known[o].modes == ERRORS ? "--errors" : "another mode")
                       : complain_of((enum option_number)o, "cannot be used with --",
                                     mode_name(q->mode));
    if (given[O_ATOMIC] && given[O_TURNS])
        return complain_of(O_ATOMIC, "contradicts --", known[O_TURNS].name);
    /* DAMAGE also works on closed files */
    if (given[O_NO_POWER] && given[O_NO_KILL] && q->mode != DAMAGE)
        return complain_of(O_NO_POWER, "contradicts --", "no-kill: no crash is left");
    return PASSED;
}

static int options_of(int argc, char **argv, struct request *q)
{
    struct option longs[OPTIONS + 1];
    bool given[OPTIONS] = {false};
    memset(longs, 0, sizeof longs);
    for (int o = 0; o < OPTIONS; o++)
        longs[o] = (struct option){known[o].name,
                                   known[o].sort >= A_NUMBER ? required_argument : no_argument,
                                   NULL, 256 + o};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (c == '?')
            return complain("usage", "--help");
        enum option_number o = (enum option_number)(c - 256);
        if (given[o] && o != O_PLANT)
            return complain_of(o, "is given twice", "");
        given[o] = true;
        if (take(o, optarg, q))
            return USAGE;
    }
    return look_at(given, q);
}

static int subjects_of(int argc, char **argv, struct request *q)
{
    if (q->all && optind < argc)
        return complain(argv[optind], "a subject is named, and --all is given");
    if (!q->all && optind == argc)
        return complain("usage", "expected a subject; see --help");
    if (q->token && optind + 1 < argc)
        return complain(argv[optind + 1], "a token belongs to one subject");
    if (q->report_name && !(q->report = fopen(q->report_name, "w")))
        return complain(q->report_name, strerror(errno));
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); q->all && *s; s++)
        if (q->mode != INTERLEAVE || (*s)->threads > 1)
            note(q, one(*s, q));
    for (int i = optind; i < argc; i++)
        note(q, by_name(argv[i], q));
    if (q->report && fclose(q->report) != 0)
        return complain("the report cannot be written", strerror(errno));
    return q->worst;
}

int main(int argc, char **argv)
{
    struct request q = {.bounds = LLADD_SIM_BOUNDS_INIT};
    if (options_of(argc, argv, &q))
        return USAGE;
    if (q.mode & (LIST | OPERATIONS | HELP) && optind < argc)
        return complain(argv[optind], "unexpected subject: this mode takes none");
    switch (q.mode) {
    case LIST:
        return list();
    case OPERATIONS:
        return list_operations();
    case HELP:
        return fputs(usage, stdout) < 0 || fflush(stdout) != 0 ? USAGE : PASSED;
    default:
        return subjects_of(argc, argv, &q);
    }
}
