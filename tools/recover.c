/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd recover: opens and closes a database and prints the steps of recovery, or with --dry-run
 * the steps that recovery would take. */
#include "tool.h"

#include "util/hashmap.h"
#include "util/vec.h"

#include <inttypes.h>
#include <lladd/stats.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd recover [--dry-run] [--json] [--ops FILE.so] DIRECTORY\n"
    "\n"
    "Opens the database, which recovers it, and closes it cleanly. Prints recovery's\n"
    "decisions. Prepared transactions stay in doubt. Operations that are not built in must be\n"
    "given with --ops: a shared object that exports \"lladd_plugin\" (see <lladd/inspect.h>).\n"
    "\n"
    "  --dry-run        changes nothing: lists the transactions that have committed since the\n"
    "                   last checkpoint, those to be rolled back, those in doubt, the pages that\n"
    "                   redo would read, and the operations that would be missing\n"
    "\n"
    "Exit status: 0; 1 if recovery fails because of damage, or (dry run) would fail for lack\n"
    "of an operation; 2 if the database cannot be opened for another reason.\n";

enum { DRY = TOOL_OWN };

static const struct option options[] = {
    TOOL_COMMON, {"dry-run", no_argument, NULL, DRY}, {NULL, 0, NULL, 0}};

static int take(void *ctx, int option, const char *value)
{
    (void)value;
    *(bool *)ctx = option == DRY;
    return option == DRY ? 0 : -1;
}

/* ---- recovery ------------------------------------------------------------------------------- */

struct trace {
    struct tool *tool;
    json_t *lines; /* with --json; else NULL */
};

static void hear(void *ctx, const char *line)
{
    struct trace *tr = ctx;
    tool_progress_end(tr->tool);
    if (tr->lines)
        json_array_append_new(tr->lines, json_string(line));
    else
        printf("%s\n", line);
}

static void tell_phase(void *ctx, enum lladd_phase phase, lladd_lsn at, unsigned percent)
{
    tool_progress_phase(((struct trace *)ctx)->tool, phase, at, percent);
}

static int recover(struct tool *t)
{
    struct trace tr = {t, t->json ? json_array() : NULL};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_db *db;
    t->options.trace = hear;
    t->options.progress = tell_phase;
    t->options.callback_ctx = &tr;
    int rc = tool_open(t, &db, &err);
    if (rc) {
        json_decref(tr.lines);
        return tool_failed(t, &err);
    }
    rc = lladd_stats_get(db, &s);
    int closed = lladd_close(db);
    if (rc || closed) {
        json_decref(tr.lines);
        return tool_fail(t, "%s: recovered, but not closed cleanly (%s)", t->dir,
                         lladd_code_name(rc ? rc : closed));
    }
    if (t->json)
        tool_json_print(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "transcript", tr.lines,
                                  "redo_records", tool_json_u64(s.recovered_records), "redone",
                                  tool_json_u64(s.recovered_redone), "rolled_back",
                                  tool_json_u64(s.recovered_undone_txns), "in_doubt",
                                  tool_json_u64(s.in_doubt), "ns", tool_json_u64(s.recovery_ns)),
                        true);
    else
        printf("recovered in %.3f s and closed: %" PRIu64 " records redone, %" PRIu64
               " transactions rolled back, %" PRIu64 " in doubt\n",
               (double)s.recovery_ns / 1e9, s.recovered_redone, s.recovered_undone_txns,
               s.in_doubt);
    return TOOL_FINE;
}

/* ---- dry run -------------------------------------------------------------------------------- */

struct winner {
    uint64_t id, commit;
};

struct plan {
    struct tool *tool;
    struct lladd_inspect *view;
    struct ll_env env;
    struct lladd_inspect_info info;
    struct ll_vec winners; /* struct winner */
    struct ll_vec losers;  /* struct lladd_inspect_txn; includes transactions in doubt */
    struct ll_vec missing; /* struct lladd_inspect_name */
    struct ll_vec pages;   /* uint64_t, sorted at the end */
    struct ll_hashmap used;    /* numbers of names that recovery will look up */
    struct ll_hashmap seen;    /* the pages in `pages` */
    bool no_memory;
};

static int out_of_memory(struct plan *p)
{
    p->no_memory = true;
    return LLADD_NO_MEMORY;
}

static bool is_kind(const struct lladd_inspect_record *r, const char *kind)
{
    return strcmp(lladd_log_kind_name(r->entry.kind), kind) == 0;
}

static int see(void *ctx, const struct lladd_inspect_record *r)
{
    struct plan *p = ctx;
    if (is_kind(r, "commit") && r->entry.lsn.v >= p->info.checkpoint.v) {
        struct winner *w = ll_vec_push(&p->winners);
        if (!w)
            return out_of_memory(p);
        w->id = r->entry.txn.v;
        w->commit = r->entry.lsn.v;
    }
    if (r->number && !is_kind(r, "catalogue") && !is_kind(r, "note") &&
        ll_hashmap_put(&p->used, r->number, 1))
        return out_of_memory(p);
    if (p->info.clean || !(is_kind(r, "update") || is_kind(r, "clr") || is_kind(r, "image")) ||
        r->entry.page == LLADD_NO_PAGE || ll_hashmap_find(&p->seen, r->entry.page))
        return 0;
    if (ll_hashmap_put(&p->seen, r->entry.page, 1) || ll_vec_append(&p->pages, &r->entry.page, 1))
        return out_of_memory(p);
    return 0;
}

static int add_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    struct plan *p = ctx;
    return ll_vec_append(&p->losers, t, 1) ? out_of_memory(p) : 0;
}

static int add_missing(void *ctx, const struct lladd_inspect_name *n)
{
    struct plan *p = ctx;
    if (n->registered || n->kind == LLADD_NAME_TAG || n->kind == LLADD_NAME_PAGE_TYPE ||
        !ll_hashmap_find(&p->used, n->number))
        return 0;
    return ll_vec_append(&p->missing, n, 1) ? out_of_memory(p) : 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Returns the LSN from which recovery reads: the lowest of the checkpoint, the beginning of the
 * oldest open transaction and, unless the database was closed cleanly, redo's start. */
static lladd_lsn plan_from(const struct plan *p)
{
    uint64_t from = p->info.clean ? p->info.checkpoint.v : p->info.redo.v;
    from = p->info.checkpoint.v < from ? p->info.checkpoint.v : from;
    if (p->losers.len) { /* oldest first */
        uint64_t id = ((struct lladd_inspect_txn *)ll_vec_at(&p->losers, 0))->id.v;
        from = id < from ? id : from;
    }
    return lladd_lsn_of(from);
}

/* Passes the records that analysis and redo would read to `see`. For older records of losers, which
 * only undo would read, notes the operation. */
static int see_if_read(void *ctx, const struct lladd_inspect_record *r)
{
    struct plan *p = ctx;
    uint64_t lsn = r->entry.lsn.v;
    tool_progress_log(p->tool, p->view, r->entry.lsn);
    uint64_t from = p->info.redo.v < p->info.checkpoint.v && !p->info.clean ? p->info.redo.v
                                                                            : p->info.checkpoint.v;
    if (lsn >= from)
        return see(ctx, r);
    bool is_loser = false;
    for (size_t i = 0; i < p->losers.len && !is_loser; i++)
        is_loser = ((struct lladd_inspect_txn *)ll_vec_at(&p->losers, i))->id.v == r->entry.txn.v;
    if (is_loser && r->number && ll_hashmap_put(&p->used, r->number, 1))
        return out_of_memory(p);
    return 0;
}

static void print_ranges(const struct ll_vec *pages)
{
    enum { MOST = 12 };
    const uint64_t *v = pages->data;
    size_t shown = 0;
    for (size_t i = 0; i < pages->len && shown < MOST; shown++) {
        size_t j = i;
        while (j + 1 < pages->len && v[j + 1] == v[j] + 1)
            j++;
        printf("%s%" PRIu64, shown ? ", " : "", v[i]);
        if (j > i)
            printf("..%" PRIu64, v[j]);
        i = j + 1;
        if (shown + 1 == MOST && i < pages->len)
            printf(", ... (%zu more)", pages->len - i);
    }
    printf("\n");
}

static void print_plan(const struct plan *p)
{
    char gid[TOOL_GID_MAX], when[48];
    printf("checkpoint at LSN %" PRIu64 ", redo from %" PRIu64 ", log ends at %" PRIu64 "\n",
           p->info.checkpoint.v, p->info.redo.v, p->info.log_end.v);
    printf("committed since the checkpoint: %zu\n", p->winners.len);
    printf("to be rolled back: %" PRIu64 "\n", p->info.losers);
    for (size_t i = 0; i < p->losers.len; i++) {
        const struct lladd_inspect_txn *t = ll_vec_at(&p->losers, i);
        if (!t->prepared)
            printf("  transaction %" PRIu64 ", last record at LSN %" PRIu64 "%s\n", t->id.v,
                   t->last.v, t->system ? ", system" : "");
    }
    printf("in doubt: %" PRIu64 "\n", p->info.in_doubt);
    for (size_t i = 0; i < p->losers.len; i++) {
        const struct lladd_inspect_txn *t = ll_vec_at(&p->losers, i);
        if (t->prepared)
            printf("  transaction %" PRIu64 ", gid %s, prepared %s%s%s\n", t->id.v,
                   tool_gid(&t->doubt.gid, gid), tool_time(t->doubt.prepared_us, when),
                   t->doubt.owner[0] ? ", owner " : "", t->doubt.owner);
    }
    printf("records for redo: %" PRIu64 ", about %zu page%s", p->info.redo_page_records,
           p->pages.len, p->pages.len == 1 ? "" : "s");
    if (p->pages.len) {
        printf(": ");
        print_ranges(&p->pages);
    } else {
        printf("\n");
    }
    for (size_t i = 0; i < p->missing.len; i++) {
        const struct lladd_inspect_name *n = ll_vec_at(&p->missing, i);
        printf("MISSING: %s \"%s\" version %" PRIu32 "; give it with --ops\n",
               lladd_name_kind_text(n->kind), n->name, n->version);
    }
}

static void print_plan_json(const struct plan *p)
{
    json_t *winners = json_array(), *losers = json_array(), *doubt = json_array();
    json_t *pages = json_array(), *missing = json_array();
    for (size_t i = 0; i < p->winners.len; i++) {
        const struct winner *w = ll_vec_at(&p->winners, i);
        json_array_append_new(winners, json_pack("{s:o, s:o}", "txn", tool_json_u64(w->id),
                                                 "commit", tool_json_u64(w->commit)));
    }
    for (size_t i = 0; i < p->losers.len; i++) {
        const struct lladd_inspect_txn *t = ll_vec_at(&p->losers, i);
        json_t *o = json_pack("{s:o, s:o}", "txn", tool_json_u64(t->id.v), "last",
                              tool_json_u64(t->last.v));
        if (t->prepared)
            json_object_set_new(o, "gid", tool_json_gid(&t->doubt.gid));
        json_array_append_new(t->prepared ? doubt : losers, o);
    }
    for (size_t i = 0; i < p->pages.len; i++)
        json_array_append_new(pages, tool_json_u64(*(uint64_t *)ll_vec_at(&p->pages, i)));
    for (size_t i = 0; i < p->missing.len; i++) {
        const struct lladd_inspect_name *n = ll_vec_at(&p->missing, i);
        json_array_append_new(missing,
                              json_pack("{s:s, s:s, s:i}", "kind", lladd_name_kind_text(n->kind),
                                        "name", n->name, "version", (int)n->version));
    }
    tool_json_print(
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "checkpoint",
                  tool_json_u64(p->info.checkpoint.v), "redo", tool_json_u64(p->info.redo.v), "end",
                  tool_json_u64(p->info.log_end.v), "winners", winners, "losers", losers,
                  "in_doubt", doubt, "redo_records", tool_json_u64(p->info.redo_page_records),
                  "redo_pages", pages, "missing", missing),
        true);
}

static int make_plan(struct plan *p, struct lladd_error *err)
{
    int rc = lladd_inspect_info_get(p->view, &p->info);
    if (!rc)
        rc = lladd_inspect_txns(p->view, add_txn, p);
    if (!rc)
        rc = lladd_inspect_log(p->view, plan_from(p), see_if_read, p, err);
    if (p->no_memory)
        return LLADD_NO_MEMORY;
    if (p->pages.len > 1)
        qsort(p->pages.data, p->pages.len, sizeof(uint64_t), by_number);
    int named = lladd_inspect_names(p->view, add_missing, p);
    return p->no_memory ? LLADD_NO_MEMORY : rc ? rc : named;
}

static int dry_run(struct tool *t)
{
    struct plan p = {.tool = t, .info = {.struct_size = sizeof p.info}};
    struct lladd_error err = LLADD_ERROR_INIT;
    int code = tool_inspect(t, &p.view);
    if (code)
        return code;
    ll_env_init(&p.env, NULL, NULL, false);
    ll_vec_init(&p.winners, &p.env, sizeof(struct winner));
    ll_vec_init(&p.losers, &p.env, sizeof(struct lladd_inspect_txn));
    ll_vec_init(&p.missing, &p.env, sizeof(struct lladd_inspect_name));
    ll_vec_init(&p.pages, &p.env, sizeof(uint64_t));
    ll_hashmap_init(&p.used, &p.env);
    ll_hashmap_init(&p.seen, &p.env);
    int rc = make_plan(&p, &err);
    tool_progress_end(t);
    if (p.no_memory) {
        code = tool_fail(t, "out of memory");
    } else {
        if (t->json)
            print_plan_json(&p);
        else
            print_plan(&p);
        if (rc)
            fprintf(stderr, "lladd recover: recovery would fail: %s\n", err.message);
        code = rc || p.missing.len ? TOOL_FINDINGS : TOOL_FINE;
    }
    ll_hashmap_free(&p.seen);
    ll_hashmap_free(&p.used);
    ll_vec_free(&p.pages);
    ll_vec_free(&p.missing);
    ll_vec_free(&p.losers);
    ll_vec_free(&p.winners);
    lladd_inspect_close(p.view);
    return code;
}

int tool_recover(int argc, char **argv)
{
    struct tool t = {.verb = "recover", .usage = usage};
    bool dry = false;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &dry, 0, &code))
        return tool_end(&t, code);
    return tool_end(&t, dry ? dry_run(&t) : recover(&t));
}
