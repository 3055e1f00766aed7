/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives a fuzz target without libFuzzer: replays the given files, then runs random mutations of
 * them up to the limits given. The options are those of libFuzzer, so one command line works with
 * both:
 *
 *     fuzz_x [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-max_len=BYTES]
 *            [-artifact_prefix=PATH] [-names=1] [file or directory]...
 *
 * Only -names is not an option of libFuzzer. This option compares the files' names with what the
 * fuzzer's fuzz_refused (fuzz.h) says: the library must refuse the files named refused-*, and must
 * accept all others. A good input that is refused tests only the first check.
 *
 * If the process dies, the current input is written to <prefix>crash-<seed>-<number>. Unlike
 * libFuzzer, this program does not measure coverage to choose inputs, so it finds less.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*)(void));
__attribute__((weak)) bool fuzz_refused(void);

/* A run that takes longer than this counts as an endless loop: SIGALRM ends the process. */
enum { INPUT_SECONDS = 600 };

struct input {
    uint8_t *data;
    size_t size;
    char *name; /* of the file */
};

struct options {
    uint64_t runs;
    uint64_t seconds;
    uint64_t seed;
    size_t max_len;
    const char *prefix;
    uint64_t names;
};

static struct {
    struct input *at;
    size_t count;
    size_t capacity;
} corpus;

/* The current input, and the file for it. save_current writes the file if the process dies. */
static struct {
    const uint8_t *data;
    size_t size;
    char name[4096];
} current;

static void fatal(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

static void *allocate(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        fatal("malloc");
    return p;
}

/* ---- saving the current input  */

static void save_current(void)
{
    int fd = open(current.name, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    if (fd < 0)
        return;
    size_t done = 0;
    while (done < current.size) {
        ssize_t n = write(fd, current.data + done, current.size - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    (void)close(fd);
}

static void on_signal(int signal_number)
{
    save_current();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static void catch_deaths(void)
{
    /* A sanitizer reports the first four signals and then calls save_current. It handles neither
     * SIGABRT nor SIGALRM. */
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save_current);
    for (size_t i = __sanitizer_set_death_callback ? 4 : 0; i < sizeof signals / sizeof *signals;
         i++)
        (void)signal(signals[i], on_signal);
}

static void run(const struct options *o, uint64_t number, const uint8_t *data, size_t size)
{
    /* The copy has the exact size, so that a sanitizer detects a read after its end. */
    uint8_t *copy = allocate(size);
    if (size > 0)
        memcpy(copy, data, size);
    current.data = copy;
    current.size = size;
    (void)snprintf(current.name, sizeof current.name, "%scrash-%llu-%llu", o->prefix,
                   (unsigned long long)o->seed, (unsigned long long)number);
    (void)alarm(INPUT_SECONDS);
    (void)LLVMFuzzerTestOneInput(copy, size);
    (void)alarm(0);
    free(copy);
}

/* ---- the corpus ---- */

static void add_input(const char *name, const uint8_t *data, size_t size)
{
    if (corpus.count == corpus.capacity) {
        corpus.capacity = corpus.capacity ? corpus.capacity * 2 : 64;
        corpus.at = realloc(corpus.at, corpus.capacity * sizeof *corpus.at);
        if (!corpus.at)
            fatal("realloc");
    }
    struct input *in = &corpus.at[corpus.count++];
    in->data = allocate(size);
    in->size = size;
    if (size > 0)
        memcpy(in->data, data, size);
    in->name = strdup(name);
    if (!in->name)
        fatal("strdup");
}

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0)
        fatal(path);
    size_t size = (size_t)st.st_size;
    uint8_t *data = allocate(size);
    if (fread(data, 1, size, file) != size)
        fatal(path);
    (void)fclose(file);
    const char *slash = strrchr(path, '/');
    add_input(slash ? slash + 1 : path, data, size);
    free(data);
}

static void add_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        fatal(path);
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir)
        fatal(path);
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char name[4096];
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        add_path(name);
    }
    (void)closedir(dir);
}

/* ---- mutation ---- */

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t below(uint64_t *state, size_t n)
{
    return n == 0 ? 0 : (size_t)(next(state) % n);
}

static void put_number(uint64_t *state, uint8_t *data, size_t size)
{
    static const uint64_t numbers[] = {
        0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
        0xffffffff, 0x100000000, INT64_MAX, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
    uint64_t value = numbers[below(state, sizeof numbers / sizeof *numbers)];
    size_t width = (size_t)1 << below(state, 4);
    if (next(state) & 1)
        value += next(state) % 17 - 8;
    if (size < width)
        return;
    size_t at = below(state, size - width + 1);
    for (size_t i = 0; i < width; i++)
        data[at + i] = (uint8_t)(value >> 8 * i);
}

/* Changes the data once. Returns the new size, which is at most max_len. */
static size_t mutate(uint64_t *state, uint8_t *data, size_t size, size_t max_len)
{
    size_t at = below(state, size), len = 1 + below(state, 64);
    switch (next(state) % 8) {
    case 0:
        if (size > 0)
            data[at] ^= (uint8_t)(1u << next(state) % 8);
        return size;
    case 1:
        if (size > 0)
            data[at] = (uint8_t)next(state);
        return size;
    case 2:
    case 3:
        put_number(state, data, size);
        return size;
    case 4: /* delete */
        len = len < size - at ? len : size - at;
        memmove(data + at, data + at + len, size - at - len);
        return size - len;
    case 5: /* insert */
        if (size + len > max_len)
            return size;
        memmove(data + at + len, data + at, size - at);
        for (size_t i = 0; i < len; i++)
            data[at + i] = (uint8_t)next(state);
        return size + len;
    case 6: { /* copy a part of any input */
        const struct input *from = &corpus.at[below(state, corpus.count)];
        size_t source = below(state, from->size);
        len = len < from->size - source ? len : from->size - source;
        len = len < max_len - at ? len : max_len - at;
        if (len > 0)
            memcpy(data + at, from->data + source, len);
        return at + len > size ? at + len : size;
    }
    default: /* truncate, seldom */
        return next(state) % 8 == 0 ? at : size;
    }
}

static uint64_t seconds_now(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        fatal("clock_gettime");
    return (uint64_t)t.tv_sec;
}

static uint64_t fuzz(const struct options *o)
{
    uint64_t state = o->seed, runs = 0, end = seconds_now() + o->seconds;
    uint8_t *data = allocate(o->max_len);
    while (runs < o->runs && (o->seconds == 0 || seconds_now() < end)) {
        const struct input *in = &corpus.at[below(&state, corpus.count)];
        size_t size = in->size < o->max_len ? in->size : o->max_len;
        if (size > 0)
            memcpy(data, in->data, size);
        for (size_t changes = 1 + below(&state, 8); changes > 0; changes--)
            size = mutate(&state, data, size, o->max_len);
        run(o, ++runs, data, size);
    }
    free(data);
    return runs;
}

/* Runs all inputs. With -names=1, returns how many of them have a wrong name, else 0. */
static int replay(const struct options *o)
{
    int wrong = 0;
    for (size_t i = 0; i < corpus.count; i++) {
        const struct input *in = &corpus.at[i];
        run(o, 0, in->data, in->size);
        if (!o->names || !fuzz_refused || fuzz_refused() == (strncmp(in->name, "refused-", 8) == 0))
            continue;
        (void)fprintf(stderr, "%s: the name is wrong, the library %s this input\n", in->name,
                      fuzz_refused() ? "refuses" : "accepts");
        wrong++;
    }
    return wrong;
}

static int number_option(const char *arg, const char *name, uint64_t *value)
{
    size_t len = strlen(name);
    if (strncmp(arg, name, len) != 0)
        return 0;
    *value = strtoull(arg + len, NULL, 10);
    return 1;
}

int main(int argc, char **argv)
{
    struct options o = {UINT64_MAX, 0, 1, 1 << 16, "", 0};
    uint64_t max_len = o.max_len;
    if (LLVMFuzzerInitialize)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (number_option(arg, "-runs=", &o.runs) || number_option(arg, "-seed=", &o.seed) ||
            number_option(arg, "-max_total_time=", &o.seconds) ||
            number_option(arg, "-max_len=", &max_len) || number_option(arg, "-names=", &o.names))
            continue;
        if (strncmp(arg, "-artifact_prefix=", 17) == 0)
            o.prefix = arg + 17;
        else if (arg[0] != '-')
            add_path(arg);
    }
    o.max_len = (size_t)max_len;
    if (o.runs == UINT64_MAX && o.seconds == 0)
        o.runs = 0; /* no limit was given: replay only */

    catch_deaths();
    int wrong = replay(&o);
    size_t replayed = corpus.count;
    add_input("", (const uint8_t *)"", 0);
    uint64_t runs = fuzz(&o);
    (void)printf("replayed %zu, ran %llu\n", replayed, (unsigned long long)runs);
    for (size_t i = 0; i < corpus.count; i++) {
        free(corpus.at[i].data);
        free(corpus.at[i].name);
    }
    free(corpus.at);
    return wrong ? 1 : 0;
}
