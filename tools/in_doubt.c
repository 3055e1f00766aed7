/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd in-doubt and lladd resolve: list prepared transactions, and end them. */
#include "tool.h"

#include <inttypes.h>
#include <string.h>

static const char list_usage[] =
    "usage: lladd in-doubt [--json] DIRECTORY\n"
    "\n"
    "Lists the prepared transactions that are in doubt: global id, when they were prepared,\n"
    "and their owner. A global id is written format:gtrid:bqual, the latter two in\n"
    "hexadecimal. Then lists the transactions that an administrator has ended (lladd resolve\n"
    "--heuristic) and that were not forgotten yet: how they were ended, and when. Reads only;\n"
    "works while the database is in use (then most of these transactions are about to be\n"
    "decided).\n"
    "\n"
    "Exit status: 0; 1 if the log is damaged, so that there may be more such transactions; 2 if\n"
    "the directory cannot be read.\n";

static const char resolve_usage[] =
    "usage: lladd resolve (--commit | --abort) [--heuristic] [--json] [--ops FILE.so]\n"
    "                     DIRECTORY GID\n"
    "       lladd resolve --forget [--json] [--ops FILE.so] DIRECTORY GID\n"
    "\n"
    "Opens the database (which recovers it), commits or aborts the prepared transaction with\n"
    "this global id, as `lladd in-doubt` writes it, and closes the database. Ask the\n"
    "coordinator first: this cannot be undone.\n"
    "\n"
    "Use --heuristic if the coordinator cannot be reached and waiting is not possible:\n"
    "the outcome is remembered, so that the coordinator learns of it when it comes back. The\n"
    "global id stays in use until the coordinator, or --forget, forgets the outcome.\n"
    "\n"
    "Exit status: 0; 1 if there is no such transaction, or the database is damaged; 2 if the\n"
    "database cannot be opened for another reason.\n";

/* ---- in-doubt ------------------------------------------------------------------------------- */

struct list {
    json_t *rows; /* with --json; else NULL */
    uint64_t n;
};

static int see_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    struct list *l = ctx;
    char gid[TOOL_GID_MAX], when[48];
    if (!t->prepared)
        return 0;
    if (l->rows)
        return json_array_append_new(
            l->rows,
            json_pack("{s:o, s:o, s:o, s:o}", "gid", tool_json_gid(&t->doubt.gid), "txn",
                      tool_json_u64(t->id.v), "prepared_us", json_integer(t->doubt.prepared_us),
                      "owner", tool_json_bytes(t->doubt.owner, strlen(t->doubt.owner))));
    if (l->n++ == 0)
        printf("%-23s %12s  %-20s %s\n", "prepared", "transaction", "owner", "global id");
    printf("%-23s %12" PRIu64 "  %-20s %s\n", tool_time(t->doubt.prepared_us, when), t->id.v,
           t->doubt.owner[0] ? t->doubt.owner : "-", tool_gid(&t->doubt.gid, gid));
    return 0;
}

static const char *outcome_name(enum lladd_outcome outcome)
{
    return outcome == LLADD_OUTCOME_COMMIT ? "committed" : "aborted";
}

static int see_outcome(void *ctx, const struct lladd_heuristic_info *h)
{
    struct list *l = ctx;
    char gid[TOOL_GID_MAX], when[48];
    if (l->rows)
        return json_array_append_new(
            l->rows, json_pack("{s:o, s:s, s:o, s:o, s:o}", "gid", tool_json_gid(&h->gid),
                               "outcome", outcome_name(h->outcome), "prepared_us",
                               json_integer(h->prepared_us), "decided_us",
                               json_integer(h->decided_us), "owner",
                               tool_json_bytes(h->owner, strlen(h->owner))));
    if (l->n++ == 0)
        printf("%-23s %12s  %-20s %s\n", "decided heuristically", "outcome", "owner", "global id");
    printf("%-23s %12s  %-20s %s\n", tool_time(h->decided_us, when), outcome_name(h->outcome),
           h->owner[0] ? h->owner : "-", tool_gid(&h->gid, gid));
    return 0;
}

int tool_in_doubt(int argc, char **argv)
{
    static const struct option options[] = {TOOL_COMMON, {NULL, 0, NULL, 0}};
    struct tool t = {.verb = "in-doubt", .usage = list_usage};
    struct list l = {NULL, 0}, ended = {NULL, 0};
    struct lladd_inspect *view;
    int code;
    if (tool_parse(&t, argc, argv, options, NULL, NULL, 0, &code))
        return tool_end(&t, code);
    code = tool_inspect(&t, &view);
    if (code)
        return tool_end(&t, code);
    l.rows = t.json ? json_array() : NULL;
    ended.rows = t.json ? json_array() : NULL;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    int rc = lladd_inspect_info_get(view, &info);
    if (!rc)
        rc = lladd_inspect_txns(view, see_txn, &l);
    if (!rc)
        rc = lladd_inspect_heuristics(view, see_outcome, &ended);
    bool whole =
        info.log_end_kind != LLADD_LOG_END_DAMAGED && info.log_end_kind != LLADD_LOG_END_UNKNOWN;
    if (rc)
        code = tool_fail(&t, "out of memory");
    else if (t.json)
        tool_json_print(json_pack("{s:o, s:o, s:b}", "in_doubt", l.rows, "heuristic",
                                  ended.rows, "complete", whole),
                        true);
    else if (l.n + ended.n == 0 && whole)
        printf("no transaction is in doubt\n");
    if (!rc && !whole) {
        tool_fail(&t, "there may be more: %s", lladd_inspect_log_end(view));
        code = TOOL_FINDINGS;
    }
    lladd_inspect_close(view);
    return tool_end(&t, code);
}

/* ---- resolve -------------------------------------------------------------------------------- */

enum { COMMIT = TOOL_OWN, ABORT, FORGET, HEURISTIC };

struct decision {
    int what; /* COMMIT, ABORT, FORGET */
    bool heuristic;
};

static int take(void *ctx, int option, const char *value)
{
    struct decision *d = ctx;
    (void)value;
    if (option == HEURISTIC) {
        d->heuristic = true;
        return 0;
    }
    if ((option != COMMIT && option != ABORT && option != FORGET) ||
        (d->what && d->what != option)) {
        fprintf(stderr, "lladd resolve: expected --commit, --abort or --forget\n");
        return -1;
    }
    d->what = option;
    return 0;
}

static int fail(const struct tool *t, const struct lladd_error *err)
{
    int code = tool_error(t, err);
    enum lladd_root root = lladd_code_root(err->code);
    return root == LLADD_ROOT_DATA || root == LLADD_ROOT_ANSWER ? TOOL_FINDINGS : code;
}

static int decide(const struct tool *t, struct lladd_db *db, const struct lladd_gid *gid,
                  const struct decision *d)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    int rc = d->what == FORGET ? lladd_heuristic_forget(db, gid, &err)
                               : lladd_in_doubt_claim(db, gid, &txn, &err);
    if (rc)
        return fail(t, &err);
    if (d->what == FORGET)
        return TOOL_FINE;
    if (d->heuristic)
        rc = lladd_heuristic_end(txn,
                                 d->what == COMMIT ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT);
    else
        rc = d->what == COMMIT ? lladd_commit(txn) : lladd_abort(txn);
    if (rc == 0)
        return TOOL_FINE;
    if (lladd_db_error(db, &err) == 0)
        err = *lladd_txn_error(txn); /* not poisoned: the transaction is unchanged */
    return fail(t, &err);
}

static int resolve(struct tool *t, const struct lladd_gid *gid, const struct decision *d)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    char text[TOOL_GID_MAX];
    int rc = tool_open(t, &db, &err);
    if (rc)
        return fail(t, &err);
    int code = decide(t, db, gid, d);
    rc = lladd_close(db);
    if (code)
        return code;
    if (rc)
        fprintf(stderr,
                "lladd resolve: the verb succeeded, but the database was not closed cleanly (%s)\n",
                lladd_code_name(rc));
    const char *done = d->what == COMMIT  ? "committed"
                       : d->what == ABORT ? "aborted"
                                          : "forgotten";
    if (t->json)
        tool_json_print(json_pack("{s:o, s:s, s:b}", "gid", tool_json_gid(gid), "outcome", done,
                                  "heuristic", d->heuristic),
                        true);
    else
        printf("%s%s %s\n", done, d->heuristic ? " heuristically" : "", tool_gid(gid, text));
    return TOOL_FINE;
}

int tool_resolve(int argc, char **argv)
{
    static const struct option options[] = {TOOL_COMMON,
                                            {"commit", no_argument, NULL, COMMIT},
                                            {"abort", no_argument, NULL, ABORT},
                                            {"forget", no_argument, NULL, FORGET},
                                            {"heuristic", no_argument, NULL, HEURISTIC},
                                            {NULL, 0, NULL, 0}};
    struct tool t = {.verb = "resolve", .usage = resolve_usage};
    struct lladd_gid gid;
    struct decision d = {0, false};
    int code;
    if (tool_parse(&t, argc, argv, options, take, &d, 1, &code))
        return tool_end(&t, code);
    if (!d.what || (d.what == FORGET && d.heuristic))
        return tool_end(&t, tool_fail(&t, "expected --commit, --abort or --forget"));
    if (!tool_parse_gid(t.argv[0], &gid))
        return tool_end(&t,
                        tool_fail(&t,
                                  "\"%s\" is not a global id (format:gtrid:bqual, the latter two "
                                  "in hexadecimal)",
                                  t.argv[0]));
    return tool_end(&t, resolve(&t, &gid, &d));
}
