/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd journal: the tags of the system journal, and the committed entries of a tag. */
#include "dump_text.h"
#include "tool.h"

#include <inttypes.h>
#include <lladd/journal.h>
#include <lladd/stats.h>
#include <string.h>

static const char usage[] =
    "usage: lladd journal [--json] [--ops FILE.so] DIRECTORY\n"
    "       lladd journal [--since LSN] [--json] [--ops FILE.so] DIRECTORY TAG\n"
    "\n"
    "Lists the tags of the system journal: number, name and owner, the number and bytes of\n"
    "live entries, the LSN from which the tag needs the log, and the newest commit. Managed\n"
    "dTables keep their newest rows under tags.\n"
    "\n"
    "With TAG, the name of a tag, prints its committed entries in the order of commits: the LSN\n"
    "of the commit, the LSN of the entry, and its bytes. It prints all that the log still has,\n"
    "also entries that were discarded.\n"
    "\n"
    "  --since LSN   only transactions that committed at this LSN or later\n"
    "\n"
    "The database must not be in use; it is recovered in memory, and no file is changed.\n"
    "\n"
    "Exit status: 0; 1 if the database is damaged, or there is no such tag; 2 if the database\n"
    "cannot be read, or the log before the LSN is gone.\n";

enum { SINCE = TOOL_OWN };

static const struct option options[] = {
    {"since", required_argument, NULL, SINCE}, TOOL_COMMON, {NULL, 0, NULL, 0}};

static int take(void *ctx, int option, const char *value)
{
    if (option != SINCE)
        return -1;
    return tool_number("--since", value, ctx) ? 0 : -1;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static int print_tag(void *ctx, const struct lladd_journal_info *i)
{
    json_t *rows = ctx;
    char oldest[24], newest[24];
    if (rows)
        return json_array_append_new(
            rows,
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tag", tool_json_u64(i->tag),
                      "name", tool_json_bytes(i->name, strlen(i->name)), "owner",
                      tool_json_bytes(i->owner, strlen(i->owner)), "entries",
                      tool_json_u64(i->entries), "bytes", tool_json_u64(i->bytes), "oldest",
                      tool_json_u64(i->oldest.v), "newest", tool_json_u64(i->newest.v), "discarded",
                      tool_json_u64(i->discarded.v)));
    printf("%12" PRIu64 " %10" PRIu64 " %12" PRIu64 " %12s %12s  %s (%s)\n", i->tag, i->entries,
           i->bytes, tool_lsn(i->oldest, oldest), tool_lsn(i->newest, newest), i->name, i->owner);
    return 0;
}

static int list(const struct tool *t, struct lladd_db *db, struct lladd_error *err)
{
    json_t *rows = t->json ? json_array() : NULL;
    if (!rows)
        printf("%12s %10s %12s %12s %12s  %s\n", "tag", "entries", "bytes", "needs log", "newest",
               "name (owner)");
    int rc = lladd_journal_each(db, print_tag, rows, err);
    if (rows)
        tool_json_print(json_pack("{s:o}", "tags", rows), true);
    return rc;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void print_entry(const struct tool *t, const struct lladd_journal_entry *e)
{
    if (t->json) {
        tool_json_print(json_pack("{s:o, s:o, s:o}", "commit", tool_json_u64(e->commit.v), "lsn",
                                  tool_json_u64(e->lsn.v), "bytes",
                                  tool_json_bytes(e->bytes.data, e->bytes.len)),
                        false);
        return;
    }
    printf("%12" PRIu64 " %12" PRIu64 "  ", e->commit.v, e->lsn.v);
    dump_quoted(stdout, e->bytes.data, e->bytes.len);
    printf("\n");
}

/* Prints entries from a position on. *at gets the position after an error. */
static int print_from(const struct tool *t, struct lladd_db *db, uint64_t tag, uint64_t *at,
                      struct lladd_error *err)
{
    struct lladd_journal_position from = {.commit = lladd_lsn_of(*at)};
    struct lladd_journal_follower *f;
    struct lladd_journal_entry e;
    int rc = lladd_journal_follow_open(db, &tag, 1, from, &f, err);
    if (rc)
        return rc;
    while ((rc = lladd_journal_follow_next(f, &e, err)) == 0)
        print_entry(t, &e);
    *at = lladd_journal_follow_position(f, lladd_lsn_of(0)).commit.v;
    lladd_journal_follow_close(f);
    return rc == LLADD_END ? 0 : rc;
}

/* If `since` is 0, prints what the log has. It may have only the end of some transactions: these
 * are left out. */
static int print_entries(const struct tool *t, struct lladd_db *db, const char *name,
                         uint64_t since, struct lladd_error *err)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    uint64_t tag, at = since;
    int rc = lladd_journal_find(db, name, &tag, err);
    if (!rc && !since && (rc = lladd_stats_get(db, &s)) == 0)
        at = s.log_oldest;
    if (!rc)
        rc = print_from(t, db, tag, &at, err);
    while (rc == LLADD_OUT_OF_RANGE && !since && err->lsn.v == at) {
        fprintf(stderr, "lladd journal: left out: %s\n", err->message);
        at++;
        *err = (struct lladd_error)LLADD_ERROR_INIT;
        rc = print_from(t, db, tag, &at, err);
    }
    return rc;
}

int tool_journal(int argc, char **argv)
{
    struct tool t = {.verb = "journal", .usage = usage, .more = 1, .memory = TOOL_MEMORY};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct tool_peek p;
    uint64_t since = 0;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &since, 0, &code))
        return tool_end(&t, code);
    int rc = tool_peek(&t, &p, &err);
    tool_progress_end(&t);
    if (!rc) {
        rc = t.argc ? print_entries(&t, p.db, t.argv[0], since, &err) : list(&t, p.db, &err);
        tool_peek_end(&p);
    }
    code = TOOL_FINE;
    if (rc)
        code = rc == LLADD_NOT_FOUND ? TOOL_FINDINGS : tool_failed(&t, &err);
    if (rc == LLADD_NOT_FOUND)
        (void)tool_error(&t, &err); /* the exit code is another one */
    return tool_end(&t, code);
}
