/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd scrub: reads every page of a database that no process has open, repairs damaged ones from
 * the log and a store, and looks for writes that the disk has lost. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/inspect.h>
#include <lladd/ship.h>
#include <lladd/stats.h>

static const char usage[] =
    "usage: lladd scrub [options] [--json] [--ops FILE.so] DIRECTORY STORE\n"
    "\n"
    "Opens the database with the archive in the store, reads every page, and closes it.\n"
    "Recovery, and then the scrub, repair damaged pages from the log and the archive. If a page\n"
    "is whole, but older than the newest backup or the archived log says, the disk has lost a\n"
    "write of this page, maybe long ago; the page is repaired, too. A raw page that has other\n"
    "bytes than were written to it last is reported. Nothing is written to the store. A database\n"
    "that a process has open is refused: that process calls lladd_scrub (<lladd/ship.h>).\n"
    "\n"
    "  repair  the page was damaged, or a write of it was lost, and it was repaired\n"
    "  damage  the same, but it could not be repaired\n"
    "\n"
    "  --rate BYTES     reads at most BYTES bytes a second\n"
    "\n" TOOL_STORE_HELP "\n"
    "Exit status: 0 if all is well; 1 if a page was damaged or a write was lost, also if it was\n"
    "repaired; 2 if the scrub could not be carried out.\n";

enum { RATE = TOOL_OWN };

static const struct option options[] = {
    TOOL_COMMON, TOOL_STORE, {"rate", required_argument, NULL, RATE}, {NULL, 0, NULL, 0}};

struct job {
    struct tool *tool;
    uint64_t rate;
    json_t *list; /* with --json; else NULL */
    struct tool_archived a;
};

static int take(void *ctx, int option, const char *value)
{
    struct job *j = ctx;
    return option == RATE && tool_number_in("--rate", value, 1, UINT64_MAX, &j->rate) ? 0 : -1;
}

static int show(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    struct job *j = ctx;
    tool_progress(j->tool, what, done, all);
    return 0;
}

static int tell(void *ctx, const struct lladd_finding *f)
{
    struct job *j = ctx;
    tool_progress_end(j->tool);
    return j->list ? tool_add_finding(j->list, f) : tool_print_finding(f);
}

static void print(struct job *j, const struct lladd_scrub_info *i)
{
    if (j->list) {
        tool_json_print(json_pack("{s:O, s:o, s:o, s:o, s:o, s:b, s:o}", "findings", j->list,
                                  "pages", tool_json_u64(i->pages), "repaired",
                                  tool_json_u64(i->repaired), "damaged", tool_json_u64(i->damaged),
                                  "lost", tool_json_u64(i->lost), "compared", i->compared, "from",
                                  tool_json_u64(i->from.v)),
                        true);
        return;
    }
    printf("%" PRIu64 " pages, %" PRIu64 " repaired, %" PRIu64 " damaged, %" PRIu64
           " lost writes\n",
           i->pages, i->repaired, i->damaged, i->lost);
    if (!i->compared)
        printf("the store has no backup, so only lost writes that the log knows were looked for\n");
}

int tool_open_archived(struct tool *t, const char *dir, const char *url, struct tool_archived *a,
                       struct lladd_error *err)
{
    struct lladd_inspect *view;
    int rc = lladd_inspect_open(dir, &t->options, &view, err);
    if (rc)
        return rc;
    lladd_inspect_close(view);
    rc = tool_store_open(t, url, &a->store, err);
    if (!rc)
        rc = lladd_ship_register(&t->options, a->store, NULL, &a->archive, err);
    t->options.flags = LLADD_OPT_MUST_EXIST;
    return rc ? rc : lladd_open(dir, &t->options, &a->db, err);
}

int tool_close_archived(struct tool_archived *a, int rc, struct lladd_error *err)
{
    int late = lladd_close(a->db);
    a->db = NULL;
    return rc || !late ? rc
                       : lladd_error_set(err, late, "the database could not be closed cleanly");
}

void tool_free_archived(struct tool_archived *a)
{
    lladd_archive_free(a->archive);
    lladd_store_close(a->store);
}

static int scrub(struct job *j, const char *url)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct lladd_scrub_info info = {.struct_size = sizeof info};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats stats = {.struct_size = sizeof stats};
    int rc = tool_open_archived(j->tool, j->tool->dir, url, &j->a, &err);
    if (rc)
        return tool_failed(j->tool, &err);
    o.bytes_per_second = j->rate;
    o.finding = tell;
    o.finding_ctx = j;
    o.progress = show;
    o.progress_ctx = j;
    rc = lladd_scrub(j->a.archive, &o, &info, &err);
    (void)lladd_stats_get(j->a.db, &stats);
    rc = tool_close_archived(&j->a, rc, &err);
    tool_progress_end(j->tool);
    if (rc)
        return tool_failed(j->tool, &err);
    /* Pages may also have been repaired in recovery, and when the scrub fetched them. */
    uint64_t repaired = stats.repairs > stats.pages_given ? stats.repairs : stats.pages_given;
    info.repaired = info.repaired > repaired ? info.repaired : repaired;
    print(j, &info);
    return info.repaired + info.damaged + info.lost ? TOOL_FINDINGS : TOOL_FINE;
}

int tool_scrub(int argc, char **argv)
{
    struct tool t = {.verb = "scrub", .usage = usage};
    struct job j = {.tool = &t};
    int code;
    if (!tool_parse(&t, argc, argv, options, take, &j, 1, &code)) {
        j.list = t.json ? json_array() : NULL;
        code = scrub(&j, t.argv[0]);
    }
    code = tool_end(&t, code); /* releases the options, which refer to the archive */
    tool_free_archived(&j.a);
    json_decref(j.list);
    return code;
}
