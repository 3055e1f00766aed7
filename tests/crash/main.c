/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crashes on real files. Again and again processes are killed, the power fails, and disks and logs
 * fill up, mostly during recovery. Each time the next open of the database must succeed with the
 * same options, and the database must contain what it has promised, and have no damage. README.md
 * lists what is drawn, and how to repeat a round.
 */
#include "round.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: crash [options]\n"
    "  --seed N        determines the seed of each round (1)\n"
    "  --rounds N      number of rounds (60; 1500 if LLADD_NIGHTLY is set; 12 if instrumented)\n"
    "  --round N       runs only round N\n"
    "  --first N       begins with round N\n"
    "  --kills N       ends after the round with the N-th kill inside recovery\n"
    "  --seconds N     ends after the first round that ends N seconds or more after the start\n"
    "  --without LIST  draws nothing of these kinds (names with commas between them)\n"
    "  --relay DIR     runs one cycle of each round with the database in DIR/<round>, and leaves\n"
    "                  it there for another machine's program; no power failures\n"
    "  --last          with --relay: runs the last process instead of a cycle\n"
    "  --hang N        a process that runs for N seconds counts as hung (900)\n"
    "  --keep          keeps the directories of failed rounds\n"
    "  --verbose       prints a line for each process\n"
    "Kinds: ";

struct kind {
    char name[64];
    uint64_t count, first;
};

struct run {
    uint64_t seed, first, rounds, kills, seconds;
    char *without, *relay;
    bool last;
    struct settings settings;
    struct tally tally;
    struct kind *kinds;
    size_t kind_count;
    uint64_t failures;
};

static unsigned features_of(const char *names)
{
    unsigned f = 0;
    char *copy = strdup(names), *rest = copy, *name;
    while (copy && (name = strsep(&rest, ","))) {
        unsigned i = 0;
        while (feature_names[i] && strcmp(feature_names[i], name) != 0)
            i++;
        if (!feature_names[i]) {
            (void)fprintf(stderr, "crash: there is no kind \"%s\"\n", name);
            exit(3);
        }
        f |= 1u << i;
    }
    free(copy);
    return f;
}

static void say_usage(void)
{
    (void)fputs(usage, stdout);
    for (unsigned i = 0; feature_names[i]; i++)
        printf("%s%s", feature_names[i], feature_names[i + 1] ? ", " : "\n");
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (end == text || *end) {
        (void)fprintf(stderr, "crash: \"%s\" is not a number\n", text);
        exit(3);
    }
    return n;
}

static void read_options(struct run *r, int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},    {"rounds", 1, NULL, 'r'}, {"round", 1, NULL, 'o'},
        {"kills", 1, NULL, 'k'},   {"seconds", 1, NULL, 't'}, {"without", 1, NULL, 'w'},
        {"hang", 1, NULL, 'h'},    {"keep", 0, NULL, 'K'},   {"verbose", 0, NULL, 'v'},
        {"relay", 1, NULL, 'y'},   {"last", 0, NULL, 'l'},   {"first", 1, NULL, 'f'},
        {"help", 0, NULL, '?'},    {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (c == 's')
            r->seed = number(optarg);
        else if (c == 'r')
            r->rounds = number(optarg);
        else if (c == 'o')
            r->first = number(optarg), r->rounds = 1;
        else if (c == 'f')
            r->first = number(optarg);
        else if (c == 'k')
            r->kills = number(optarg), r->rounds = UINT64_MAX;
        else if (c == 't')
            r->seconds = number(optarg), r->rounds = UINT64_MAX;
        else if (c == 'w')
            r->without = optarg, r->settings.features &= ~features_of(optarg);
        else if (c == 'h')
            r->settings.hang_ns = number(optarg) * 1000000000u;
        else if (c == 'y')
            r->relay = optarg, r->settings.leg = LEG_NEXT;
        else if (c == 'l')
            r->last = true;
        else if (c == 'K')
            r->settings.keep = true;
        else if (c == 'v')
            r->settings.verbose = true;
        else
            say_usage(), exit(c == '?' && optind == argc ? 0 : 3);
    }
    if (r->relay)
        r->settings.features &= ~(unsigned)WITH_POWER;
    if (r->last)
        r->settings.leg = LEG_LAST;
    if (r->last && !r->relay) {
        (void)fprintf(stderr, "crash: --last belongs to --relay\n");
        exit(3);
    }
}

static void note_failure(struct run *r, uint64_t round, const struct failure *f)
{
    size_t i = 0;
    while (i < r->kind_count && strcmp(r->kinds[i].name, f->kind) != 0)
        i++;
    if (i == r->kind_count) {
        r->kinds = realloc(r->kinds, (i + 1) * sizeof *r->kinds);
        if (!r->kinds)
            abort();
        memcpy(r->kinds[i].name, f->kind, sizeof f->kind);
        r->kinds[i].count = 0;
        r->kinds[i].first = round;
        r->kind_count++;
    }
    r->kinds[i].count++;
    r->failures++;
    printf("%s: %s\n  repeat: crash --seed %llu --round %llu --keep --verbose", f->kind, f->message,
           (unsigned long long)r->seed, (unsigned long long)round);
    if (r->without)
        printf(" --without %s", r->without);
    if (r->relay)
        printf(" --relay %s%s", r->relay, r->last ? " --last" : "");
    printf("\n");
    if (f->dir)
        printf("  kept: %s\n", f->dir);
}

static int summary(const struct run *r)
{
    const struct tally *t = &r->tally;
    printf("seed %llu: %llu rounds, %llu processes, %llu opens, %llu kills, %llu of them inside "
           "recovery, %llu power states, %llu refusals, %llu failures\n",
           (unsigned long long)r->seed, (unsigned long long)t->rounds,
           (unsigned long long)t->lives, (unsigned long long)t->opens,
           (unsigned long long)t->kills, (unsigned long long)t->kills_in_recovery,
           (unsigned long long)t->power_states, (unsigned long long)t->refused,
           (unsigned long long)r->failures);
    printf("kills inside recovery with:");
    for (unsigned i = 0; feature_names[i]; i++)
        printf(" %s %llu", feature_names[i], (unsigned long long)t->by_feature[i]);
    printf("\n");
    for (size_t i = 0; i < r->kind_count; i++)
        printf("%6llu  %s (first: --round %llu)\n", (unsigned long long)r->kinds[i].count,
               r->kinds[i].name, (unsigned long long)r->kinds[i].first);
    return r->failures > 0;
}

static uint64_t usual_rounds(void)
{
#ifdef LL_TEST_SHORT
    return 12;
#else
    return getenv("LLADD_NIGHTLY") ? 1500 : 60;
#endif
}

/* Uses memory for the files. No test here depends on a disk, and waiting for a disk would take most
 * of the time. */
static void use_memory(void)
{
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", 1) != 0)
        exit(3);
}

/* The round's directory within the relay's directory; the first leg makes it. */
static char *relay_dir(const struct run *r, uint64_t round)
{
    char *dir;
    if (!r->relay)
        return NULL;
    if (asprintf(&dir, "%s/%llu", r->relay, (unsigned long long)round) < 0)
        abort();
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        perror(dir);
        exit(3);
    }
    return dir;
}

int main(int argc, char **argv)
{
    struct run r = {.seed = 1, .rounds = usual_rounds(),
                    .kills = UINT64_MAX, .seconds = UINT64_MAX,
                    .settings = {.features = WITH_ALL, .hang_ns = 900ull * 1000000000u}};
    time_t began = time(NULL);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    use_memory();
    read_options(&r, argc, argv);
    for (uint64_t i = 0; i < r.rounds; i++) {
        struct failure f;
        uint64_t round = r.first + i;
        char *dir = relay_dir(&r, round);
        r.settings.relay = dir;
        if (!round_run(mix(r.seed, 'R', round, 0), &r.settings, &r.tally, &f))
            note_failure(&r, round, &f);
        free(f.dir);
        free(dir);
        if (r.tally.kills_in_recovery >= r.kills || (uint64_t)(time(NULL) - began) >= r.seconds)
            break;
    }
    int rc = summary(&r);
    free(r.kinds);
    return rc;
}
