/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lladd-sim: explores subjects of the recovery simulator, and replays what it has found.
 *
 * A program of its own, because it holds the instrumented library, and the lladd command the
 * ordinary one. It exports what it holds: a shared object with subjects finds the library here.
 */
#include <lladd/dst.h>
#include <lladd/sim.h>

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSED = 0, FAILED = 1, USAGE = 2 };

static const char usage[] =
    "lladd-sim [options] SUBJECT...     explore\n"
    "lladd-sim --errors SUBJECT...      let every call fail\n"
    "lladd-sim [options] --all          explore all that come with the library\n"
    "lladd-sim --list                   the subjects there are\n"
    "lladd-sim --operations             and the operations each has to go all ways through\n"
    "lladd-sim SUBJECT --replay TOKEN   do it again and tell the story\n"
    "lladd-sim --damage SUBJECT...      bytes change behind the library's back\n"
    "lladd-sim --random SUBJECT...      large workloads, crashed at random\n"
    "lladd-sim --interleave SUBJECT...  several threads, in every schedule\n"
    "\n"
    "A subject is a name out of the list, or a shared object (a name with a slash), which stands\n"
    "for all its subjects; SHARED-OBJECT:NAME is one of them.\n"
    "\n"
    "  --depth N         crashes in a row (3)\n"
    "  --states N        stop after so many crash states\n"
    "  --seconds N       stop after about so long\n"
    "  --failures N      stop after so many failures (1)\n"
    "  --seed N          of what the databases ask for at random (1)\n"
    "  --full-product    every combination of versions of all pages\n"
    "  --atomic-pages    a device that does not tear pages\n"
    "  --no-power        no loss of power\n"
    "  --no-kill         no death of the process\n"
    "  --no-coverage     paths that are not reached are no failure\n"
    "  --errors          errors instead of crashes\n"
    "  --points N        errors: crashes in whose recovery they happen too (4)\n"
    "  --samples N       errors: crash states drawn after each, besides the simple ones (1)\n"
    "  --every N         errors: only each so-many-th call (1)\n"
    "  --preemptions N   interleave: threads interrupted where they could go on (2)\n"
    "  --schedules N     interleave: stop after so many schedules\n"
    "  --random-schedules  interleave: randomised priorities instead of all schedules\n"
    "  --plant BUG       switch on a bug of the library (--list names them)\n"
    "  --contract        no crashes: do its operations keep what they promise to recovery?\n"
    "  --json            one JSON object for each subject\n"
    "  --report FILE     the same, to a file, besides the text\n";

struct request {
    struct lladd_sim_bounds bounds;
    const char *token;
    FILE *report; /* nullable */
    bool json, all, errors, damage, random, contract, interleave;
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

/* ---- one subject ------------------------------------------------------------------------- */

static int errors(const struct lladd_sim_subject *s, const struct request *q)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_errors_report *r;
    struct lladd_sink sink = {stdout, to_file, 0};
    if (lladd_sim_errors(s, &q->bounds, &r, &err))
        return complain(s->name, err.message);
    int rc = q->json ? lladd_sim_errors_json(r, &sink) : lladd_sim_errors_text(r, &sink);
    int result = r->n_failures ? FAILED : PASSED;
    lladd_sim_errors_free(r);
    if (rc || fflush(stdout) != 0)
        return complain(s->name, "the report cannot be written");
    return result;
}

static int damage(const struct lladd_sim_subject *s, const struct request *q)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_damage_report *r;
    struct lladd_sink sink = {stdout, to_file, 0};
    int rc = lladd_sim_damage(s, &q->bounds, &r, &err);
    if (rc)
        return complain(s->name, err.message);
    rc = q->json ? lladd_sim_damage_json(r, &sink) : lladd_sim_damage_text(r, &sink);
    int result = r->n_failures ? FAILED : PASSED;
    lladd_sim_damage_free(r);
    if (rc || fflush(stdout) != 0)
        return complain(s->name, "the report cannot be written");
    return result;
}

static int at_random(const struct lladd_sim_subject *s, const struct request *q)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_random_report *r;
    struct lladd_sink sink = {stdout, to_file, 0};
    int rc = lladd_sim_random(s, &q->bounds, &r, &err);
    if (rc)
        return complain(s->name, err.message);
    rc = q->json ? lladd_sim_random_json(r, &sink) : lladd_sim_random_text(r, &sink);
    int result = r->n_failures ? FAILED : PASSED;
    lladd_sim_random_free(r);
    if (rc || fflush(stdout) != 0)
        return complain(s->name, "the report cannot be written");
    return result;
}

static int promises(const struct lladd_sim_subject *s, const struct request *q)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_contract_report *r;
    struct lladd_sink sink = {stdout, to_file, 0};
    if (lladd_sim_contract_subject(s, NULL, &r, &err))
        return complain(s->name, err.message);
    int rc = q->json ? lladd_sim_contract_json(r, &sink) : lladd_sim_contract_text(r, &sink);
    int result = r->broken ? FAILED : PASSED;
    lladd_sim_contract_free(r);
    if (rc || fflush(stdout) != 0)
        return complain(s->name, "the report cannot be written");
    return result;
}

static int one(const struct lladd_sim_subject *s, const struct request *q)
{
    if (q->damage && !q->token)
        return damage(s, q);
    if (q->random && !q->token)
        return at_random(s, q);
    if (q->contract)
        return promises(s, q);
    if (q->errors && !q->token)
        return errors(s, q);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    struct lladd_sink sink = {stdout, to_file, 0}, report = {q->report, to_file, 0};
    int rc = q->token ? lladd_sim_replay(s, &q->bounds, q->token, q->json ? NULL : &sink, &r, &err)
             : q->interleave ? lladd_sim_interleave(s, &q->bounds, &r, &err)
                             : lladd_sim_explore(s, &q->bounds, &r, &err);
    if (rc)
        return complain(s->name, err.message);
    if (q->json)
        rc = lladd_sim_report_json(r, &sink);
    else if (!q->token)
        rc = lladd_sim_report_text(r, &sink);
    else if (r->n_failures == 0)
        rc = lladd_sink_printf(&sink, "Nothing to object.\n");
    if (!rc && q->report)
        rc = lladd_sim_report_json(r, &report);
    int result = r->n_failures ? FAILED : PASSED;
    lladd_sim_report_free(r);
    if (rc || fflush(stdout) != 0)
        return complain(s->name, "the report cannot be written");
    return result;
}

/* ---- which subjects ---------------------------------------------------------------------- */

static void note(struct request *q, int result)
{
    q->worst = result > q->worst ? result : q->worst;
}

/* The object stays: its subjects are in use until the program ends. */
static int of_plugin(const char *text, struct request *q)
{
    char file[1024];
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    bool met = false;
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
    for (const struct lladd_sim_subject *const *s = fn(); *s; s++) {
        if (colon && strcmp((*s)->name, colon + 1) != 0)
            continue;
        met = true;
        note(q, one(*s, q));
    }
    return met ? PASSED : complain(text, "there is no such subject in it");
}

static int by_name(const char *text, struct request *q)
{
    if (strchr(text, '/'))
        return of_plugin(text, q);
    const struct lladd_sim_subject *s = lladd_sim_subject_find(text);
    return s ? one(s, q) : complain(text, "there is no such subject (--list)");
}

/* ---- options ----------------------------------------------------------------------------- */

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

static bool number(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 0);
    *out = v;
    return *text >= '0' && *text <= '9' && *end == '\0' && v <= most;
}

static bool plant(const char *name, uint64_t *planted)
{
    for (unsigned i = 0; i < LLADD_BUGS; i++) {
        if (strcmp(bug_names[i], name) != 0)
            continue;
        *planted |= (uint64_t)1 << i;
        return true;
    }
    return false;
}

enum option_number {
    DEPTH = 256,
    STATES,
    SECONDS,
    FAILURES,
    SEED,
    POINTS,
    SAMPLES,
    EVERY,
    PREEMPTIONS,
    SCHEDULES,
    FULL,
    ATOMIC,
    NO_POWER,
    NO_KILL,
    NO_COVERAGE,
    RANDOM_SCHEDULES,
    PLANT,
    JSON,
    ERRORS,
    REPLAY,
    DAMAGE,
    RANDOM,
    INTERLEAVE,
    ALL,
    REPORT,
    CONTRACT,
    LIST,
    OPERATIONS,
    HELP
};

static const struct option options[] = {
    {"depth", required_argument, NULL, DEPTH},
    {"states", required_argument, NULL, STATES},
    {"seconds", required_argument, NULL, SECONDS},
    {"failures", required_argument, NULL, FAILURES},
    {"seed", required_argument, NULL, SEED},
    {"points", required_argument, NULL, POINTS},
    {"samples", required_argument, NULL, SAMPLES},
    {"every", required_argument, NULL, EVERY},
    {"preemptions", required_argument, NULL, PREEMPTIONS},
    {"schedules", required_argument, NULL, SCHEDULES},
    {"full-product", no_argument, NULL, FULL},
    {"atomic-pages", no_argument, NULL, ATOMIC},
    {"no-power", no_argument, NULL, NO_POWER},
    {"no-kill", no_argument, NULL, NO_KILL},
    {"no-coverage", no_argument, NULL, NO_COVERAGE},
    {"random-schedules", no_argument, NULL, RANDOM_SCHEDULES},
    {"plant", required_argument, NULL, PLANT},
    {"json", no_argument, NULL, JSON},
    {"errors", no_argument, NULL, ERRORS},
    {"replay", required_argument, NULL, REPLAY},
    {"damage", no_argument, NULL, DAMAGE},
    {"random", no_argument, NULL, RANDOM},
    {"interleave", no_argument, NULL, INTERLEAVE},
    {"all", no_argument, NULL, ALL},
    {"report", required_argument, NULL, REPORT},
    {"contract", no_argument, NULL, CONTRACT},
    {"list", no_argument, NULL, LIST},
    {"operations", no_argument, NULL, OPERATIONS},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static bool with_number(int which, const char *text, struct lladd_sim_bounds *b)
{
    uint64_t v;
    bool wide = which == STATES || which == SECONDS || which == SEED || which == SCHEDULES;
    if (!number(text, wide ? UINT64_MAX / 1000 : UINT32_MAX, &v))
        return false;
    switch (which) {
    case DEPTH:
        b->depth = (uint32_t)v;
        return true;
    case STATES:
        b->states = v;
        return true;
    case SECONDS:
        b->milliseconds = 1000 * v;
        return true;
    case FAILURES:
        b->failures = (uint32_t)v;
        return true;
    case POINTS:
        b->points = (uint32_t)v;
        return true;
    case SAMPLES:
        b->samples = v ? (uint32_t)v : UINT32_MAX;
        return true;
    case EVERY:
        b->every = (uint32_t)v;
        return true;
    case PREEMPTIONS:
        b->preemptions = v ? (uint32_t)v : UINT32_MAX;
        return true;
    case SCHEDULES:
        b->schedules = v;
        return true;
    default:
        b->seed = v;
        return true;
    }
}

static uint32_t flag_of(int which)
{
    switch (which) {
    case FULL:
        return LLADD_SIM_FULL_PRODUCT;
    case ATOMIC:
        return LLADD_SIM_ATOMIC_PAGES;
    case NO_POWER:
        return LLADD_SIM_NO_POWER;
    case NO_KILL:
        return LLADD_SIM_NO_KILL;
    case NO_COVERAGE:
        return LLADD_SIM_NO_COVERAGE;
    case RANDOM_SCHEDULES:
        return LLADD_SIM_RANDOM_SCHEDULES;
    default:
        return 0;
    }
}

int main(int argc, char **argv)
{
    struct request q = {.bounds = LLADD_SIM_BOUNDS_INIT};
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == LIST)
            return list();
        if (c == OPERATIONS)
            return list_operations();
        if (c == HELP)
            return fputs(usage, stdout) < 0 || fflush(stdout) != 0 ? USAGE : PASSED;
        if (c == DAMAGE)
            q.damage = true;
        else if (c == RANDOM)
            q.random = true;
        else if (c == INTERLEAVE)
            q.interleave = true;
        else if (c == JSON)
            q.json = true;
        else if (c == ERRORS)
            q.errors = true;
        else if (c == ALL)
            q.all = true;
        else if (c == CONTRACT)
            q.contract = true;
        else if (c == REPLAY)
            q.token = optarg;
        else if (c == REPORT && !(q.report = fopen(optarg, "w")))
            return complain(optarg, strerror(errno));
        else if (c == PLANT && !plant(optarg, &q.bounds.planted))
            return complain(optarg, "there is no such bug (--list)");
        else if (c >= DEPTH && c <= SCHEDULES && !with_number(c, optarg, &q.bounds))
            return complain(optarg, "this is no number, or too large");
        else if (c == '?')
            return complain("usage", "--help");
        q.bounds.flags |= flag_of(c);
    }
    if (q.contract && q.token)
        return complain("usage", "--contract or --replay; --help");
    if (q.all ? optind < argc || q.token : optind == argc || (q.token && optind + 1 < argc))
        return complain("usage", "name a subject; --help");
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); q.all && *s; s++)
        if (!q.interleave || (*s)->threads > 1)
            note(&q, one(*s, &q));
    for (int i = optind; i < argc; i++)
        note(&q, by_name(argv[i], &q));
    if (q.report && fclose(q.report) != 0)
        return complain("the report cannot be written", strerror(errno));
    return q.worst;
}
