/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lladd: the command that inspects, recovers and changes LLADD databases.
 *
 * Verbs that only read files use <lladd/inspect.h>, take no lock, and also work on a database that
 * is in use, crashed or damaged. Verbs that read structures (`dump`, `journal`, get, scan, stat and
 * check of `hash`, `btree` and `dtable`, a part of `verify` and of `stat`) need a database that is
 * not in use, and recover it in memory (peek.c). `recover`, `resolve`, `load`, `hash put`,
 * `btree put`, `dtable put`, `replica apply` and similar verbs open the database. `sim` needs no
 * database: it runs another program. docs/man/lladd.1 is the manual.
 */
#include "tool.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} verbs[] = {
    {"stat", tool_stat, "sizes, state, what the next open has to do, what keeps the log"},
    {"log", tool_log, "the records of the log, by operation, with their fields"},
    {"page", tool_page, "one page: header, contents, history"},
    {"verify", tool_verify, "check every page, record and structure"},
    {"ops", tool_ops, "the operations that the log knows"},
    {"recover", tool_recover, "recover and close, or say what recovery would do"},
    {"in-doubt", tool_in_doubt, "prepared transactions that wait for a decision"},
    {"resolve", tool_resolve, "commit or abort a transaction in doubt"},
    {"journal", tool_journal, "tags of the journal, and their committed entries"},
    {"dump", tool_dump, "arrays, hash tables, B+trees, lists and blobs as text"},
    {"load", tool_load, "make structures from the text that dump writes"},
    {"hash", tool_hash, "get, put, del, scan: one hash table, for scripts"},
    {"btree", tool_btree, "create, get, put, del, scan, stat, check: one B+tree, for scripts"},
    {"dtable", tool_dtable, "create, put, get, del, scan, maintain, alter, stat: managed dTables"},
    {"replica", tool_replica, "apply, check, status, dump, tail: dTables that follow a source"},
    {"backup", tool_backup, "make a backup in a store"},
    {"restore", tool_restore, "make a database out of a backup, or list the backups"},
    {"archive", tool_archive, "list, check, expire, roll a store; store a closed database's log"},
    {"scrub", tool_scrub, "read every page, repair it from an archive, find lost writes"},
    {"sim", tool_sim, "explore the crashes of a workload, or replay one (lladd-sim)"},
};

static void print_usage(FILE *to)
{
    fprintf(to, "usage: lladd VERB [options] DIRECTORY ...\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        fprintf(to, "  %-10s%s\n", verbs[i].name, verbs[i].about);
    fprintf(to,
            "\n\"lladd VERB --help\" says more. Only recover, resolve, load, backup, restore,\n"
            "archive, scrub, put, del, create, alter and maintain of hash, btree and dtable,\n"
            "and apply and tail of replica change anything. Every verb but replica tail takes\n"
            "--json; all but sim also --ops FILE.so, for operations that are not built in. Exit\n"
            "status: 0 success, 1 the database is damaged (hash, btree, dtable: or the key does\n"
            "not exist; replica: or the events are broken or do not fit), 2 the command could not\n"
            "be carried out, 3 not all was checked.\n");
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "--version") == 0) {
        printf("lladd %s\n", lladd_version());
        return fflush(stdout) ? TOOL_CANNOT : TOOL_FINE;
    }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
        if (argc == 2) {
            print_usage(stdout);
            return fflush(stdout) ? TOOL_CANNOT : TOOL_FINE;
        }
        char *ask[] = {argv[2], (char *)(uintptr_t) "--help", NULL};
        for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
            if (strcmp(argv[2], verbs[i].name) == 0)
                return verbs[i].run(2, ask);
        verb = argv[2];
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verb, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    if (*verb)
        fprintf(stderr, "lladd: there is no verb \"%s\"\n\n", verb);
    print_usage(stderr);
    return TOOL_CANNOT;
}
