/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd stat: the size and state of a database, the work of the next open, and the reasons why log
 * is kept. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/journal.h>
#include <string.h>

#define JOURNAL "journal" /* object class of the journal's records */

static const char usage[] =
    "usage: lladd stat [--json] [--ops FILE.so] DIRECTORY\n"
    "\n"
    "Shows the size and the state of a database, what the next open will have to do, the\n"
    "transactions that have not ended, and what keeps the log from being truncated. Lists the\n"
    "tags of a journal, unless the database is in use.\n"
    "Changes nothing, and works while the database is in use. Only the process that uses the\n"
    "database knows the progress of a running checkpoint: lladd_stats_get.\n"
    "\n"
    "Exit status: 0; 1 if the log is damaged; 2 if the directory cannot be read as a\n"
    "database.\n";

static const struct option options[] = {TOOL_COMMON, {NULL, 0, NULL, 0}};

static uint32_t timeline_of(const struct lladd_inspect_info *i)
{
    return (uint32_t)(i->incarnation >> 32);
}

static const char *state_of(const struct lladd_inspect_info *i, char out[96])
{
    if (i->in_use == 1 && i->holder)
        snprintf(out, 96, "in use by process %" PRId64, i->holder);
    else if (i->in_use == 1)
        snprintf(out, 96, "in use");
    else if (i->clean)
        snprintf(out, 96, "closed cleanly");
    else
        snprintf(out, 96, "not closed cleanly: the next open recovers it");
    return out;
}

static int print_file(void *ctx, const char *name, uint64_t bytes)
{
    const struct lladd_inspect_info *i = ctx;
    char text[24];
    printf("  %-30s %12s", name, tool_bytes(bytes, text));
    if (strcmp(name, "pages") == 0)
        printf("   %" PRIu64 " pages of %" PRIu32 " bytes", i->pages, i->page_size);
    printf("\n");
    return 0;
}

static void print_log(const struct lladd_inspect_info *i, const char *end)
{
    char text[24];
    printf("\nLog\n");
    printf("  readable        LSN %" PRIu64 " to %" PRIu64 ", %s in %" PRIu64 " segment%s\n",
           i->log_oldest.v, i->log_end.v,
           tool_bytes(i->log_end.v > i->log_oldest.v ? i->log_end.v - i->log_oldest.v : 0, text),
           i->log_segments, i->log_segments == 1 ? "" : "s");
    printf("  its end         %s\n", end);
    printf("  checkpoint      LSN %" PRIu64 "; redo starts at %" PRIu64 "\n", i->checkpoint.v,
           i->redo.v);
    printf("  known durable   below LSN %" PRIu64 "\n", i->watermark.v);
}

static void print_work(const struct lladd_inspect_info *i)
{
    char a[24], b[24];
    printf("\nNext open\n");
    if (i->clean && i->losers == 0 && i->in_doubt == 0) {
        printf("  nothing to recover\n");
        return;
    }
    if (i->in_use == 1)
        printf("  if the process that uses it died now:\n");
    printf("  analysis        %" PRIu64 " records from the checkpoint on, %" PRIu64 " commit%s\n",
           i->analysis_records, i->commits, i->commits == 1 ? "" : "s");
    printf("  redo            %" PRIu64 " records, %s; %" PRIu64 " about %" PRIu64 " page%s\n",
           i->redo_records, tool_bytes(i->redo_bytes, a), i->redo_page_records, i->redo_pages,
           i->redo_pages == 1 ? "" : "s");
    printf("  undo            %" PRIu64 " transaction%s, at most %s of log to take back\n",
           i->losers, i->losers == 1 ? "" : "s", tool_bytes(i->undo_log_bytes, b));
    printf("  in doubt        %" PRIu64 " prepared transaction%s\n", i->in_doubt,
           i->in_doubt == 1 ? "" : "s");
    if (i->in_use == 1)
        printf("  a checkpoint    may be running and reduce this; the process has its progress:\n"
               "                  lladd_stats_get, checkpoint_written of checkpoint_pages\n");
}

static int print_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    int width = *(const int *)ctx;
    char gid[TOOL_GID_MAX], when[48];
    printf("  %*" PRIu64 " %*" PRIu64 " %9" PRIu64 "  %s", width, t->id.v, width, t->last.v,
           t->records,
           t->prepared ? "prepared"
           : t->system ? "active, system"
                       : "active");
    if (t->prepared)
        printf(" %s, gid %s%s%s", tool_time(t->doubt.prepared_us, when),
               tool_gid(&t->doubt.gid, gid), t->doubt.owner[0] ? ", owner " : "", t->doubt.owner);
    printf("\n");
    return 0;
}

static int print_pinner(void *ctx, const struct lladd_pinner *p)
{
    int width = *(const int *)ctx;
    char age[24], lsn[24];
    printf("  %*s %12s  %s", width, tool_lsn(p->lsn, lsn),
           p->lsn.v ? tool_bytes(p->age_bytes, age) : "?", p->kind);
    if (strcmp(p->kind, "class") == 0 && strcmp(p->name, JOURNAL) == 0)
        printf(" %s, see below", p->name);
    else if (strcmp(p->kind, "class") == 0)
        printf(" %s (only the application knows what it needs)", p->name);
    else if (p->txn.v)
        printf(" %" PRIu64 "%s%s", p->txn.v, p->name[0] ? ", gid " : "", p->name);
    else if (p->name[0])
        printf(" \"%s\"", p->name);
    printf("\n");
    return 0;
}

/* ---- the journal ---------------------------------------------------------------------------- */

static int find_journal(void *ctx, const struct lladd_pinner *p)
{
    bool *found = ctx;
    *found = *found || (strcmp(p->kind, "class") == 0 && strcmp(p->name, JOURNAL) == 0);
    return 0;
}

/* Lists the journal's tags. To read the tags, recovers the database in memory; only the pages that
 * are needed for this are redone. */
static int each_tag(const struct tool *t, const struct lladd_inspect_info *i,
                    lladd_journal_info_fn *fn, void *ctx, struct lladd_error *err)
{
    struct tool quick = *t;
    struct tool_peek peek;
    if (i->in_use == 1)
        return lladd_error_set(err, LLADD_LOCKED, "the database is in use");
    quick.options.recovery = LLADD_RECOVER_INSTANT;
    int rc = tool_peek(&quick, &peek, err);
    if (rc)
        return rc;
    rc = lladd_journal_each(peek.db, fn, ctx, err);
    tool_peek_end(&peek);
    return rc;
}

static int print_tag(void *ctx, const struct lladd_journal_info *tag)
{
    int width = *(const int *)ctx;
    char lsn[24], bytes[24];
    printf("  %*s %10" PRIu64 " %12s  \"%s\" of \"%s\"\n", width, tool_lsn(tag->oldest, lsn),
           tag->entries, tool_bytes(tag->bytes, bytes), tag->name, tag->owner);
    return 0;
}

static int print_journal(const struct tool *t, struct lladd_inspect *view,
                         const struct lladd_inspect_info *i)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int width = tool_lsn_width(i);
    bool found = false;
    int rc = lladd_inspect_pinners(view, find_journal, &found);
    if (rc || !found)
        return rc;
    printf("\nWhat is live in the journal\n  %*s %10s %12s  tag\n", width, "from LSN", "entries",
           "bytes");
    if (each_tag(t, i, print_tag, &width, &err))
        printf("  cannot be listed: %s\n", err.message);
    return 0;
}

static int print_text(const struct tool *t, struct lladd_inspect *view,
                      const struct lladd_inspect_info *i)
{
    char text[96];
    int width = tool_lsn_width(i);
    printf("%s: LLADD database, format %" PRIu32 "\n", t->dir, i->format);
    printf("  uuid            %s\n", tool_uuid(i->uuid, text));
    printf("  created         %s\n", tool_time(i->created_us, text));
    if (timeline_of(i))
        printf("  timeline        %" PRIu32 ": a restored copy, or one that took an archive over\n",
               timeline_of(i));
    printf("  state           %s\n", state_of(i, text));
    printf("  page size       %" PRIu32 " bytes%s\n", i->page_size,
           i->atomic_pages ? ", no images in the log (the device writes pages atomically)" : "");
    for (int k = 0; k < 2; k++)
        if (i->control_bad[k])
            printf("  control block   copy %d is damaged, the other one is used\n", k + 1);
    printf("\nFiles\n");
    int rc = lladd_inspect_files(view, print_file, (void *)(uintptr_t)i, NULL);
    print_log(i, lladd_inspect_log_end(view));
    print_work(i);
    if (!rc && i->losers + i->in_doubt) {
        printf("\nTransactions that have not ended\n  %*s %*s %9s\n", width, "id", width, "last",
               "records");
        rc = lladd_inspect_txns(view, print_txn, &width);
    }
    printf("\nWhat keeps the log, the oldest LSN first\n  %*s %12s\n", width, "LSN", "age");
    if (!rc)
        rc = lladd_inspect_pinners(view, print_pinner, &width);
    return rc ? rc : print_journal(t, view, i);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static int add_file(void *ctx, const char *name, uint64_t bytes)
{
    return json_array_append_new(
        ctx, json_pack("{s:o, s:o}", "name", tool_json_text(name), "bytes", tool_json_u64(bytes)));
}

static int add_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    json_t *o = json_pack("{s:o, s:o, s:o, s:b, s:b}", "id", tool_json_u64(t->id.v), "last",
                          tool_json_u64(t->last.v), "records", tool_json_u64(t->records), "system",
                          t->system, "prepared", t->prepared);
    if (t->prepared) {
        json_object_set_new(o, "gid", tool_json_gid(&t->doubt.gid));
        json_object_set_new(o, "prepared_us", json_integer(t->doubt.prepared_us));
        json_object_set_new(o, "owner", tool_json_bytes(t->doubt.owner, strlen(t->doubt.owner)));
    }
    return json_array_append_new(ctx, o);
}

static int add_pinner(void *ctx, const struct lladd_pinner *p)
{
    json_t *o = json_pack("{s:s}", "kind", p->kind);
    tool_json_lsn(o, "lsn", p->lsn);
    if (p->lsn.v)
        json_object_set_new(o, "age_bytes", tool_json_u64(p->age_bytes));
    tool_json_lsn(o, "txn", p->txn);
    if (p->name[0])
        json_object_set_new(o, "name", tool_json_bytes(p->name, strlen(p->name)));
    return json_array_append_new(ctx, o);
}

static int add_tag(void *ctx, const struct lladd_journal_info *tag)
{
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o}", "tag", tool_json_u64(tag->tag), "name",
                          tool_json_text(tag->name), "owner", tool_json_text(tag->owner), "entries",
                          tool_json_u64(tag->entries), "bytes", tool_json_u64(tag->bytes));
    tool_json_lsn(o, "oldest", tag->oldest);
    return json_array_append_new(ctx, o);
}

/* Adds {"journal": [...]}. If the tags cannot be listed, adds the reason instead. Adds nothing if
 * the database has no journal. */
static int json_journal(const struct tool *t, struct lladd_inspect *view,
                        const struct lladd_inspect_info *i, json_t *o)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    bool found = false;
    int rc = lladd_inspect_pinners(view, find_journal, &found);
    if (rc || !found)
        return rc;
    json_t *tags = json_array();
    if (each_tag(t, i, add_tag, tags, &err)) {
        json_decref(tags);
        tags = json_pack("{s:o}", "error", tool_json_text(err.message));
    }
    return json_object_set_new(o, "journal", tags);
}

static json_t *json_log(const struct lladd_inspect_info *i, const char *end)
{
    return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "oldest",
                     tool_json_u64(i->log_oldest.v), "end", tool_json_u64(i->log_end.v), "end_kind",
                     tool_log_end_name(i->log_end_kind), "end_text", end, "segments",
                     tool_json_u64(i->log_segments), "file_bytes", tool_json_u64(i->log_file_bytes),
                     "checkpoint", tool_json_u64(i->checkpoint.v), "redo", tool_json_u64(i->redo.v),
                     "watermark", tool_json_u64(i->watermark.v));
}

static json_t *json_work(const struct lladd_inspect_info *i)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "analysis_records",
        tool_json_u64(i->analysis_records), "commits", tool_json_u64(i->commits), "redo_records",
        tool_json_u64(i->redo_records), "redo_bytes", tool_json_u64(i->redo_bytes),
        "redo_page_records", tool_json_u64(i->redo_page_records), "redo_pages",
        tool_json_u64(i->redo_pages), "losers", tool_json_u64(i->losers), "in_doubt",
        tool_json_u64(i->in_doubt), "undo_log_bytes", tool_json_u64(i->undo_log_bytes));
}

static int print_json(const struct tool *t, struct lladd_inspect *view,
                      const struct lladd_inspect_info *i)
{
    char uuid[40];
    json_t *files = json_array(), *txns = json_array(), *pinners = json_array();
    int rc = lladd_inspect_files(view, add_file, files, NULL);
    if (!rc)
        rc = lladd_inspect_txns(view, add_txn, txns);
    if (!rc)
        rc = lladd_inspect_pinners(view, add_pinner, pinners);
    json_t *o = json_pack("{s:o, s:s, s:i, s:i, s:o, s:b, s:b, s:[b,b]}", "directory",
                          tool_json_text(t->dir), "uuid", tool_uuid(i->uuid, uuid), "format",
                          (int)i->format, "page_size", (int)i->page_size, "created_us",
                          json_integer(i->created_us), "clean", i->clean, "atomic_pages",
                          i->atomic_pages, "control_bad", i->control_bad[0], i->control_bad[1]);
    json_object_set_new(o, "in_use", i->in_use < 0 ? json_null() : json_boolean(i->in_use));
    if (i->holder)
        json_object_set_new(o, "pid", json_integer(i->holder));
    json_object_set_new(o, "timeline", json_integer(timeline_of(i)));
    json_object_set_new(o, "pages", tool_json_u64(i->pages));
    json_object_set_new(o, "files", files);
    json_object_set_new(o, "log", json_log(i, lladd_inspect_log_end(view)));
    json_object_set_new(o, "next_open", json_work(i));
    json_object_set_new(o, "transactions", txns);
    json_object_set_new(o, "pinners", pinners);
    if (!rc)
        rc = json_journal(t, view, i, o);
    tool_json_print(o, true);
    return rc;
}

int tool_stat(int argc, char **argv)
{
    struct tool t = {.verb = "stat", .usage = usage};
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    int code;
    if (tool_parse(&t, argc, argv, options, NULL, NULL, 0, &code))
        return tool_end(&t, code);
    code = tool_inspect(&t, &view);
    if (code)
        return tool_end(&t, code);
    int rc = lladd_inspect_info_get(view, &info);
    if (!rc)
        rc = t.json ? print_json(&t, view, &info) : print_text(&t, view, &info);
    bool damaged =
        info.log_end_kind == LLADD_LOG_END_DAMAGED || info.log_end_kind == LLADD_LOG_END_UNKNOWN;
    lladd_inspect_close(view);
    if (rc)
        return tool_end(&t, tool_fail(&t, "out of memory"));
    return tool_end(&t, damaged ? TOOL_FINDINGS : TOOL_FINE);
}
