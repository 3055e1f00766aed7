/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of lladd-bench. */
#include "driver.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS_MAX 1000u
#define VALUE_MAX 2048u
#define LIMIT_SECONDS 600u

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "lladd-bench: %s: \"%s\" (see lladd-bench --help)\n", what, text);
    return 2;
}

static int invalid(const char *option, const char *value)
{
    fprintf(stderr, "lladd-bench: invalid value for %s: \"%s\" (see lladd-bench --help)\n", option,
            value);
    return 2;
}

static int cannot_write(const char *path)
{
    fprintf(stderr, "lladd-bench: cannot write to \"%s\": %s\n", path, strerror(errno));
    return 2;
}

static void help(void)
{
    puts("usage: lladd-bench [option]... WORKLOAD...\n"
         "       lladd-bench --list\n"
         "\n"
         "Runs workloads with this library's structures and with the databases that were found\n"
         "by cmake, each measurement in a process of its own.\n"
         "\n"
         "  WORKLOAD            a workload (see --list), or one case of it: W2.fill\n"
         "  --list              workloads, engines with version and settings, what is missing\n"
         "  --engine NAME,...   engines, or families: lladd, bdb, ... (all)\n"
         "  --threads N,...     numbers of threads, in workloads that allow several (the\n"
         "                      workload's)\n"
         "  --n N,...           number of operations (the workload's; a timed workload: as many\n"
         "                      as fit)\n"
         "  --records N         records loaded before the measurement, in workloads that load\n"
         "                      any (the workload's)\n"
         "  --key SIZE          4 or 8 bytes (the workload's)\n"
         "  --value SIZE        4 to 2048 bytes (the workload's)\n"
         "  --cache MIB         size of each engine's cache (the workload's)\n"
         "  --seconds N         duration of a timed workload (the workload's)\n"
         "  --runs N            repetitions of each measurement, engines taking turns (1)\n"
         "  --limit N           seconds after which a measurement fails (600)\n"
         "  --dir DIR           where the databases are made, and removed ($TMPDIR or /tmp)\n"
         "  --json FILE         appends a line of JSON per row; FILE '-': prints these lines\n"
         "                      instead of the table\n"
         "  --dry-run           prints which measurements there would be, and makes none\n"
         "  --help\n"
         "\n"
         "Defaults are in parentheses.\n"
         "\n"
         "Exit status: 0 on success; 1 if a measurement failed; 2 if the command line is invalid\n"
         "or FILE cannot be opened.");
}

static const char *level_list(unsigned levels)
{
    static const char *const lists[8] = {
        "none", "disk", "os", "disk, os", "process", "disk, process", "os, process",
        "disk, os, process"};
    return lists[levels & 7];
}

static void list_all(void)
{
    puts("workloads:");
    for (const struct bench_case *c = bench_cases; c->workload; c++)
        printf("  %s.%-14s %s\n", c->workload, c->name, c->what);
    puts("engines:");
    for (int i = 0; bench_engines[i]; i++) {
        const struct bench_engine *e = bench_engines[i];
        printf("  %-20s %s; commits: %s\n      %s\n", e->name, e->version(),
               level_list(e->levels), e->settings);
    }
    for (const struct bench_missing *m = bench_engines_missing; m->names; m++)
        printf("  skipped: %s: %s\n", m->names, m->why);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* True if `asked` names the family of `name`: "bdb" of "bdb-hash". */
static bool family(const char *name, const char *asked)
{
    size_t n = strlen(asked);
    return strncmp(name, asked, n) == 0 && name[n] == '-';
}

static void add_engine(struct plan *p, const struct bench_engine *e)
{
    for (int i = 0; i < p->n_engines; i++)
        if (p->engines[i] == e)
            return;
    p->engines[p->n_engines++] = e;
}

/* True if `asked` is one of the names, which are separated by blanks, or the family of one. */
static bool among(const char *names, const char *asked)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", names);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, " ")) != NULL;)
        if (strcmp(name, asked) == 0 || family(name, asked))
            return true;
    return false;
}

static bool take_engine(struct plan *p, const char *asked)
{
    bool found = false;
    for (int i = 0; bench_engines[i]; i++)
        if (strcmp(bench_engines[i]->name, asked) == 0) {
            add_engine(p, bench_engines[i]);
            return true;
        }
    for (int i = 0; bench_engines[i]; i++)
        if (family(bench_engines[i]->name, asked)) {
            add_engine(p, bench_engines[i]);
            found = true;
        }
    for (const struct bench_missing *m = bench_engines_missing; !found && m->names; m++)
        if (among(m->names, asked) && p->n_skipped < NAMES_MAX) {
            p->skipped[p->n_skipped++] = m;
            found = true;
        }
    return found;
}

static int take_engines(struct plan *p, char *list)
{
    char *rest = list;
    for (char *name; (name = strsep(&rest, ",")) != NULL;)
        if (!take_engine(p, name))
            return wrong("no such engine", name);
    return 0;
}

static void take_all_engines(struct plan *p)
{
    for (int i = 0; bench_engines[i]; i++)
        add_engine(p, bench_engines[i]);
    for (const struct bench_missing *m = bench_engines_missing; m->names; m++)
        p->skipped[p->n_skipped++] = m;
}

static int take_workload(struct plan *p, const char *asked)
{
    int before = p->n_cases;
    for (const struct bench_case *c = bench_cases; c->workload; c++) {
        char full[64];
        snprintf(full, sizeof full, "%s.%s", c->workload, c->name);
        if (strcmp(asked, c->workload) != 0 && strcmp(asked, full) != 0)
            continue;
        if (p->n_cases == NAMES_MAX)
            return wrong("too many workloads", asked);
        p->cases[p->n_cases++] = c;
    }
    return p->n_cases > before ? 0 : wrong("no such workload", asked);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    *out = v;
    return *text >= '0' && *text <= '9' && !*end && !errno && v >= least && v <= most;
}

static int take_list(struct list *l, char *text, const char *what, uint64_t most)
{
    char *rest = text;
    l->n = 0;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        if (l->n == (int)(sizeof l->v / sizeof *l->v))
            return wrong("too many values", what);
        if (!number(one, 1, most, &l->v[l->n++]))
            return invalid(what, one);
    }
    return 0;
}

static int take_json(struct plan *p, const char *path)
{
    p->quiet = strcmp(path, "-") == 0;
    p->json = p->quiet ? stdout : fopen(path, "a");
    p->json_name = p->quiet ? "standard output" : path;
    return p->json ? 0 : cannot_write(path);
}

static int take_number(struct plan *p, int option, const char *text)
{
    uint64_t v = 0;
    const uint64_t million = 1000000;
    switch (option) {
    case 'R':
        return number(text, 1, 4096 * million, &p->records) ? 0 : invalid("--records", text);
    case 'k':
        if (!number(text, 4, 8, &v) || (v != 4 && v != 8))
            return invalid("--key", text);
        p->key_size = (uint32_t)v;
        return 0;
    case 'v':
        if (!number(text, 4, VALUE_MAX, &v))
            return invalid("--value", text);
        p->value_size = (uint32_t)v;
        return 0;
    case 'c':
        if (!number(text, 1, million, &v))
            return invalid("--cache", text);
        p->cache = v << 20;
        return 0;
    case 's':
        return number(text, 1, 86400, &p->seconds) ? 0 : invalid("--seconds", text);
    case 'l':
        if (!number(text, 1, 86400, &v))
            return invalid("--limit", text);
        p->limit_seconds = (unsigned)v;
        return 0;
    default:
        if (!number(text, 1, 64, &v))
            return invalid("--runs", text);
        p->runs = (int)v;
        return 0;
    }
}

static int take_dir(struct plan *p, const char *dir)
{
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return wrong("no such directory", dir);
    if (strlen(dir) >= 200)
        return wrong("the path of the directory is too long", dir);
    p->dir = dir;
    return 0;
}

static int take_option(struct plan *p, int option, char *value)
{
    switch (option) {
    case 'e':
        return take_engines(p, value);
    case 't':
        return take_list(&p->threads, value, "--threads", THREADS_MAX);
    case 'n':
        return take_list(&p->n, value, "--n", UINT64_C(4000000000));
    case 'd':
        return take_dir(p, value);
    case 'j':
        return take_json(p, value);
    case 'D':
        p->dry = true;
        return 0;
    default:
        return take_number(p, option, value);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"list", no_argument, NULL, 'L'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"engine", required_argument, NULL, 'e'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"n", required_argument, NULL, 'n'},
                                            {"records", required_argument, NULL, 'R'},
                                            {"key", required_argument, NULL, 'k'},
                                            {"value", required_argument, NULL, 'v'},
                                            {"cache", required_argument, NULL, 'c'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"dry-run", no_argument, NULL, 'D'},
                                            {NULL, 0, NULL, 0}};
    const char *tmp = getenv("TMPDIR");
    struct plan p = {.runs = 1, .limit_seconds = LIMIT_SECONDS, .dir = tmp ? tmp : "/tmp"};
    int option, rc = 0;
    while (!rc && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h' || option == 'L') {
            (option == 'h' ? help : list_all)();
            return 0;
        }
        rc = option == '?' ? 2 : take_option(&p, option, optarg);
    }
    for (; !rc && optind < argc; optind++)
        rc = take_workload(&p, argv[optind]);
    if (rc)
        return rc;
    if (p.n_cases == 0) {
        fputs("lladd-bench: no workload given (see lladd-bench --help)\n", stderr);
        return 2;
    }
    if (p.n_engines == 0 && p.n_skipped == 0)
        take_all_engines(&p);
    rc = plan_run(&p);
    if (p.json && ferror(p.json)) {
        fprintf(stderr, "lladd-bench: not all rows were written to %s\n", p.json_name);
        return 1;
    }
    if (p.json && fclose(p.json) != 0)
        return cannot_write(p.json_name);
    return rc ? 1 : 0;
}
