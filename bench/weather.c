/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads readings of weather stations in random order, as the Rose paper does (section 5.1), into
 * tables of this library and into their peers. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-weather [MILLIONS [MIB]] [case]...
 *
 * MILLIONS of tuples of 44 bytes (default 10) go into each store, which has MIB of memory in all
 * (default 256), a thousand a transaction or batch. The cases are the stores, and `model` and
 * `tuples`; the default is all stores. Each store has a process of its own.
 *
 * The load ends when the last batch is accepted. Lookups and a scan follow, while the store may
 * still be merging ("as loaded"). Then each store makes one sorted run of everything ("settle"),
 * and is read again. `model` compares the schedule of levels with its model for many sizes of C0
 * (docs/levels.md). `tuples` prints all tuples as CSV.
 *
 * The peers are those that are installed: RocksDB as bench/install-peers gets it, and LevelDB. All
 * stores but rocksdb-direct may also use the operating system's cache. */
#include "common.h"
#include "common_weather.h"
#include "weather/store.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKUPS = 500000, SCANS = 3, MILLION = 1000000, MIB = 1 << 20, SLICES = 10 };
#define FULL_TUPLES 10000000u
#define FULL_MIB 256u

static const struct weather_store *const stores[] = {
    &weather_lladd_unlogged, &weather_lladd_journal, &weather_lladd_rows, &weather_lladd_columns,
#ifdef BENCH_ROCKSDB
    &weather_rocksdb, &weather_rocksdb_direct, &weather_rocksdb_log,
#endif
#ifdef BENCH_LEVELDB
    &weather_leveldb,
#endif
};
enum { STORES = sizeof stores / sizeof stores[0] };

/* What the parent compares, in memory that it shares with its children. Million tuples a second,
 * thousand lookups a second. */
struct result {
    double load, lookups;
};

static struct weather_tuple *tuples;
static size_t n;
static uint64_t memory;
static int64_t sum_of_temperatures;

/* ---- figures --------------------------------------------------------------------------------- */

void weather_print(const char *store, const char *what, const char *unit, double value,
                   const char *target)
{
    struct bench_figure f = {.n = 0};
    char text[96];
    (void)snprintf(text, sizeof text, "%s: %s", store, what);
    bench_add(&f, value);
    bench_print(BENCH_WEATHER, text, unit, &f, target, NULL);
}

/* The targets are for one size. */
static const char *target(const char *text)
{
    return n == FULL_TUPLES && memory == (uint64_t)FULL_MIB * MIB ? text : NULL;
}

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), tail = strlen(ending);
    return len >= tail && strcmp(name + len - tail, ending) == 0;
}

uint64_t weather_files(const char *dir, const char *ending)
{
    uint64_t bytes = 0;
    struct dirent *e;
    DIR *d = opendir(dir);
    bench_must(d ? 0 : -1, dir);
    while ((e = readdir(d)) != NULL) {
        struct stat st;
        if (ends_with(e->d_name, ending) && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            bytes += (uint64_t)st.st_size;
    }
    (void)closedir(d);
    return bytes;
}

/* Bytes given to write(2) by this process so far. */
static double written(void)
{
    unsigned long long bytes = 0;
    char line[128];
    FILE *f = fopen("/proc/self/io", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "wchar: %llu", &bytes) == 1)
            break;
    if (f)
        (void)fclose(f);
    return (double)bytes;
}

/* The most memory that this process has had, without the tuples. */
static double peak_mib(void)
{
    struct rusage r;
    bench_must(getrusage(RUSAGE_SELF, &r), "getrusage");
    return (double)r.ru_maxrss / 1024 - (double)(n * sizeof *tuples) / MIB;
}

/* ---- loading --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_batches(const char *name, double *ms, size_t batches)
{
    qsort(ms, batches, sizeof *ms, compare);
    weather_print(name, "batches, p99.9", "ms", ms[(size_t)((double)(batches - 1) * 0.999)], NULL);
    weather_print(name, "longest batch", "ms", ms[batches - 1],
                  strcmp(name, "lladd-unlogged") == 0 ? target("<= 50") : NULL);
}

/* A slice has a million tuples, or a tenth of all if that is less. */
static size_t slice_batches(void)
{
    size_t tuples_a_slice = n / SLICES < MILLION ? n / SLICES : MILLION;
    size_t batches = tuples_a_slice / WEATHER_BATCH;
    return batches ? batches : 1;
}

static const char *load_target(const char *name)
{
    return strcmp(name, "lladd-unlogged") == 0  ? target(">= 0.8")
           : strcmp(name, "lladd-journal") == 0 ? target(">= 0.6")
                                                : NULL;
}

static double load(const struct weather_store *s, void *db)
{
    size_t batches = (n + WEATHER_BATCH - 1) / WEATHER_BATCH, slice = slice_batches();
    double *ms = malloc(batches * sizeof *ms);
    bench_must(ms ? 0 : -1, "memory");
    double bytes = written();
    printf("{\"bench\":\"" BENCH_WEATHER "\",\"series\":\"%s\",\"points\":[", s->name);
    uint64_t begun = bench_now_ns(), slice_begun = begun, now = begun;
    for (size_t i = 0; i < batches; i++) {
        size_t at = i * WEATHER_BATCH;
        uint64_t since = bench_now_ns();
        s->put(db, tuples + at, n - at < WEATHER_BATCH ? n - at : WEATHER_BATCH);
        now = bench_now_ns();
        ms[i] = (double)(now - since) / 1e6;
        if ((i + 1) % slice)
            continue;
        printf("%s[%.3f,%.0f]", i + 1 == slice ? "" : ",",
               (double)((i + 1) * WEATHER_BATCH) / MILLION,
               (double)(slice * WEATHER_BATCH) / ((double)(now - slice_begun) / 1e9));
        slice_begun = now;
    }
    printf("]}\n");
    double rate = (double)n / ((double)(now - begun) / 1e9) / 1e6;
    weather_print(s->name, "load", "million tuples/s", rate, load_target(s->name));
    print_batches(s->name, ms, batches);
    weather_print(s->name, "written while loading", "bytes/tuple", (written() - bytes) / (double)n,
                  NULL);
    weather_print(s->name, "memory", "MiB", peak_mib(),
                  s->name[0] == 'l' ? target("<= 256") : NULL);
    free(ms);
    return rate;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Thousand lookups a second. */
static double lookups(const struct weather_store *s, void *db, const char *what)
{
    size_t count = n < LOOKUPS ? n : LOOKUPS;
    uint64_t seed = 7, since = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        bench_must(s->get(db, &tuples[bench_random(&seed) % n]) ? 0 : -1, "finding a tuple");
    double rate = (double)count / ((double)(bench_now_ns() - since) / 1e9) / 1e3;
    weather_print(s->name, what, "thousand/s", rate, NULL);
    return rate;
}

/* Reads all tuples several times, with `read`. Prints millions a second. */
static void scans(const struct weather_store *s, void *db, uint64_t (*read)(void *, int64_t *),
                  const char *what, const char *wanted)
{
    struct bench_figure f = {.n = 0};
    char text[96];
    for (int i = 0; i < SCANS; i++) {
        int64_t sum = 0;
        uint64_t since = bench_now_ns(), seen = read(db, &sum);
        bench_add(&f, (double)seen / ((double)(bench_now_ns() - since) / 1e9) / 1e6);
        bench_must(seen == n && sum == sum_of_temperatures ? 0 : -1, "reading all tuples");
    }
    (void)snprintf(text, sizeof text, "%s: %s", s->name, what);
    bench_print(BENCH_WEATHER, text, "million tuples/s", &f, wanted, NULL);
}

static void settle(const struct weather_store *s, void *db)
{
    uint64_t since = bench_now_ns();
    s->settle(db);
    weather_print(s->name, "settle", "s", (double)(bench_now_ns() - since) / 1e9, NULL);
    double bytes = (double)s->bytes(db);
    weather_print(s->name, "on disk", "MB", bytes / 1e6, NULL);
    weather_print(s->name, "raw size / size on disk", "x", (double)(n * WEATHER_TUPLE) / bytes,
                  strcmp(s->name, "lladd-unlogged") == 0 ? target(">= 6.5") : NULL);
}

/* Runs in the child. */
static void measure(const struct weather_store *s, struct result *r)
{
    bool ours = strcmp(s->name, "lladd-unlogged") == 0;
    char dir[256];
    bench_make_dir(dir);
    void *db = s->open(dir, memory);
    r->load = load(s, db);
    if (s->scan) {
        (void)lookups(s, db, "lookups as loaded");
        scans(s, db, s->scan, "scan as loaded", NULL);
    }
    if (s->report)
        s->report(db, s->name);
    settle(s, db);
    if (s->scan) {
        r->lookups = lookups(s, db, "lookups");
        scans(s, db, s->scan, "scan", ours ? target(">= 20") : NULL);
    }
    if (s->column)
        scans(s, db, s->column, "one column", target(">= 1000"));
    s->close(db);
    bench_remove_dir(dir);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void in_child(const struct weather_store *s, struct result *r)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    bench_must(child < 0 ? -1 : 0, "fork");
    if (child == 0) {
        measure(s, r);
        exit(0);
    }
    bench_must(waitpid(child, &status, 0) == child && status == 0 ? 0 : -1, s->name);
}

static void print_tuples(void)
{
    for (size_t i = 0; i < n; i++) {
        struct weather_reading r = weather_reading(&tuples[i]);
        printf("%d,%d,%u,%" PRIu64 ",%d,%d,%d,%d,%d,%d\n", r.longitude, r.latitude, r.time,
               r.conditions, r.station, r.elevation, r.temperature, r.wind_direction, r.wind_speed,
               r.gust);
    }
}

/* Ours against RocksDB, in the form in which it is faster. */
static void compare_with_rocksdb(const struct result *r)
{
    struct result peer = {.load = 0};
    for (size_t i = 0; i < STORES; i++) {
        if (strncmp(stores[i]->name, "rocksdb", 7) != 0)
            continue;
        peer.load = r[i].load > peer.load ? r[i].load : peer.load;
        peer.lookups = r[i].lookups > peer.lookups ? r[i].lookups : peer.lookups;
    }
    if (r[0].load == 0 || peer.load == 0)
        return;
    weather_print("lladd-unlogged / rocksdb", "load", "x", r[0].load / peer.load, target(">= 3.6"));
    weather_print("lladd-unlogged / rocksdb", "lookups", "x", r[0].lookups / peer.lookups,
                  target(">= 2"));
}

/* Is the case asked for? Without a case, all stores are. */
static bool wanted(const char *name, int argc, char **argv, bool by_default)
{
    bool found = argc == 0 && by_default;
    for (int i = 0; i < argc; i++)
        found = found || strcmp(argv[i], name) == 0;
    return found;
}

static bool known(const char *name)
{
    bool found = strcmp(name, "model") == 0 || strcmp(name, "tuples") == 0;
    for (size_t i = 0; i < STORES; i++)
        found = found || strcmp(name, stores[i]->name) == 0;
    return found;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench-weather [MILLIONS [MIB]] [case]...\ncases: model tuples");
    for (size_t i = 0; i < STORES; i++)
        (void)fprintf(stderr, " %s", stores[i]->name);
    (void)fprintf(stderr, "\n");
    return 2;
}

/* A number at *argv, if there is one; moves on. */
static double number(int *argc, char ***argv, double otherwise)
{
    char *end = NULL;
    double v = *argc ? strtod(**argv, &end) : 0;
    if (!*argc || *end || end == **argv)
        return otherwise;
    --*argc;
    ++*argv;
    return v;
}

static void run(int argc, char **argv)
{
    struct result *r = mmap(NULL, STORES * sizeof *r, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bench_must(r == MAP_FAILED ? -1 : 0, "memory");
    for (size_t i = 0; i < STORES; i++)
        if (wanted(stores[i]->name, argc, argv, true))
            in_child(stores[i], &r[i]);
    compare_with_rocksdb(r);
    (void)munmap(r, STORES * sizeof *r);
    if (wanted("model", argc, argv, false))
        weather_model(tuples, n, memory);
    if (wanted("tuples", argc, argv, false))
        print_tuples();
}

int main(int argc, char **argv)
{
    argc--;
    argv++;
    double millions = number(&argc, &argv, (double)FULL_TUPLES / MILLION);
    double mib = number(&argc, &argv, FULL_MIB);
    bool good = millions >= 0.001 && millions <= 1000 && mib >= 1 && mib <= 1 << 20;
    for (int i = 0; i < argc; i++)
        good = good && known(argv[i]);
    if (!good)
        return usage();
    n = (size_t)(millions * MILLION + 0.5);
    memory = (uint64_t)mib * MIB;
    tuples = weather_tuples(n, 1);
    bench_must(tuples ? 0 : -1, "memory for the tuples");
    for (size_t i = 0; i < n; i++)
        sum_of_temperatures += weather_temperature(tuples[i].value);
    run(argc, argv);
    free(tuples);
    return 0;
}
