/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd log: prints the records of the log. */
#include "tool.h"

#include "util/vec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd log [options] DIRECTORY\n"
    "\n"
    "Prints the records of the log, oldest first, by the names of their operations and with their\n"
    "fields, as the catalogue in the log describes them: the application is not needed. Columns:\n"
    "LSN, bytes in the log, transaction (the LSN of its first record), previous record of the\n"
    "transaction, nesting depth, kind, page.\n"
    "\n"
    "  --txn LSN        only this transaction\n"
    "  --page N         only records about this page\n"
    "  --op NAME        only this operation, class or tag\n"
    "  --kind KIND      only this kind of record: update, clr, commit, checkpoint-data, ...\n"
    "  --from LSN       only records from this LSN on\n"
    "  --to LSN         only records before this LSN\n"
    "  --last N         only the last N of the selected records\n"
    "  --bytes          also the bytes, in hexadecimal; long values are not cut off\n"
    "  --stats          instead of the records, the number of records and bytes of each operation\n"
    "  --json           one JSON object a line; the last one says how the log ends\n"
    "  --ops FILE.so    a plug-in with operations that describe their own records\n"
    "\n"
    "If the database is in use, the log ends where it did when the command began. Log that is\n"
    "truncated before it could be read is left out; standard error says how much (with --json the\n"
    "last object: \"recycled\").\n"
    "\n"
    "Exit status: 0, also at a torn tail, which is normal after a crash; 1 if durable log\n"
    "is damaged; 2 if the log cannot be read.\n";

enum { TXN = TOOL_OWN, PAGE, OP, KIND, FROM, TO, LAST, BYTES, STATS };

static const struct option options[] = {TOOL_COMMON,
                                        {"txn", required_argument, NULL, TXN},
                                        {"page", required_argument, NULL, PAGE},
                                        {"op", required_argument, NULL, OP},
                                        {"kind", required_argument, NULL, KIND},
                                        {"from", required_argument, NULL, FROM},
                                        {"to", required_argument, NULL, TO},
                                        {"last", required_argument, NULL, LAST},
                                        {"bytes", no_argument, NULL, BYTES},
                                        {"stats", no_argument, NULL, STATS},
                                        {NULL, 0, NULL, 0}};

struct args {
    bool by_txn, by_page, by_to, by_last, bytes, stats;
    uint64_t txn, page, from, to, last;
    const char *op, *kind;
};

static bool is_kind(const char *name)
{
    for (unsigned kind = 1; strcmp(lladd_log_kind_name(kind), "unknown") != 0; kind++)
        if (strcmp(lladd_log_kind_name(kind), name) == 0)
            return true;
    fprintf(stderr, "lladd log: there is no kind of record \"%s\"\n", name);
    return false;
}

static int take(void *ctx, int option, const char *value)
{
    struct args *a = ctx;
    switch (option) {
    case TXN:
        a->by_txn = true;
        return tool_number("--txn", value, &a->txn) ? 0 : -1;
    case PAGE:
        a->by_page = true;
        return tool_number("--page", value, &a->page) ? 0 : -1;
    case OP:
        a->op = value;
        return 0;
    case KIND:
        a->kind = value;
        return is_kind(value) ? 0 : -1;
    case FROM:
        return tool_number("--from", value, &a->from) ? 0 : -1;
    case TO:
        a->by_to = true;
        return tool_number("--to", value, &a->to) ? 0 : -1;
    case LAST:
        a->by_last = true;
        return tool_number("--last", value, &a->last) ? 0 : -1;
    case BYTES:
        a->bytes = true;
        return 0;
    case STATS:
        a->stats = true;
        return 0;
    default:
        return -1;
    }
}

static bool wanted(const struct args *a, const struct lladd_log_entry *e)
{
    return !(a->by_txn && e->txn.v != a->txn) && !(a->by_page && e->page != a->page) &&
           !(a->op && (!e->op || strcmp(e->op, a->op) != 0)) &&
           !(a->kind && strcmp(lladd_log_kind_name(e->kind), a->kind) != 0);
}

/* ---- statistics ----------------------------------------------------------------------------- */

/* A row of the summary: a pair of record kind and operation number. */
struct row {
    unsigned kind;
    uint32_t number, version;
    char name[64];
    uint64_t records, bytes;
};

static int by_bytes(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static int count(struct ll_vec *rows, const struct lladd_inspect_record *r)
{
    struct row *row = NULL;
    /* The number in a catalogue record belongs to the name that it defines. */
    bool named = strcmp(lladd_log_kind_name(r->entry.kind), "catalogue") != 0;
    uint32_t number = named ? r->number : 0;
    for (size_t i = 0; i < rows->len && !row; i++) {
        struct row *p = ll_vec_at(rows, i);
        row = p->kind == r->entry.kind && p->number == number ? p : NULL;
    }
    if (!row) {
        row = ll_vec_push(rows);
        if (!row)
            return LLADD_NO_MEMORY;
        row->kind = r->entry.kind;
        row->number = number;
        row->version = r->entry.op_version;
        snprintf(row->name, sizeof row->name, "%s", named && r->entry.op ? r->entry.op : "");
    }
    row->records++;
    row->bytes += r->size;
    return 0;
}

static void print_rows(const struct ll_vec *rows)
{
    uint64_t records = 0, bytes = 0;
    for (size_t i = 0; i < rows->len; i++) {
        records += ((struct row *)ll_vec_at(rows, i))->records;
        bytes += ((struct row *)ll_vec_at(rows, i))->bytes;
    }
    printf("%10s %12s %8s %7s  %-16s %s\n", "records", "bytes", "mean", "share", "kind",
           "operation");
    for (size_t i = 0; i < rows->len; i++) {
        const struct row *r = ll_vec_at(rows, i);
        printf("%10" PRIu64 " %12" PRIu64 " %8.1f %6.1f%%  ", r->records, r->bytes,
               (double)r->bytes / (double)r->records, 100.0 * (double)r->bytes / (double)bytes);
        if (r->name[0])
            printf("%-16s %s@%" PRIu32 "\n", lladd_log_kind_name(r->kind), r->name, r->version);
        else
            printf("%s\n", lladd_log_kind_name(r->kind));
    }
    printf("%10" PRIu64 " %12" PRIu64 "                    all\n", records, bytes);
}

static void print_rows_json(const struct ll_vec *rows)
{
    for (size_t i = 0; i < rows->len; i++) {
        const struct row *r = ll_vec_at(rows, i);
        json_t *o = json_pack("{s:s, s:o, s:o}", "kind", lladd_log_kind_name(r->kind), "records",
                              tool_json_u64(r->records), "bytes", tool_json_u64(r->bytes));
        if (r->name[0]) {
            json_object_set_new(o, "op", json_string(r->name));
            json_object_set_new(o, "version", json_integer(r->version));
        }
        tool_json_print(o, false);
    }
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* Result of a callback that ends the walk: positive, so it is not an error code. */
enum { ENOUGH = 1 };

struct walk {
    struct tool *tool;
    struct lladd_inspect *view;
    const struct args *args;
    struct tool_line line;
    struct ll_vec rows;
    struct ll_vec last; /* for --last: ring of the LSNs of the last matching records */
    uint64_t seen;      /* matching records in the first pass */
    bool noting;        /* true during the first pass */
    struct tool_gap gap;
};

static int note(struct walk *w, lladd_lsn lsn)
{
    uint64_t n = w->args->last;
    w->seen++;
    if (n == 0)
        return 0;
    if (w->last.len < n)
        return ll_vec_append(&w->last, &lsn, 1);
    *(lladd_lsn *)ll_vec_at(&w->last, (size_t)((w->seen - 1) % n)) = lsn;
    return 0;
}

/* Returns the LSN of the first of the last N records. */
static lladd_lsn first_of_last(const struct walk *w)
{
    uint64_t n = w->args->last;
    return *(const lladd_lsn *)ll_vec_at(&w->last, w->last.len < n ? 0 : (size_t)(w->seen % n));
}

static int see(void *ctx, const struct lladd_inspect_record *r)
{
    struct walk *w = ctx;
    if (w->noting || w->args->stats)
        tool_progress_log(w->tool, w->view, r->entry.lsn);
    if (w->args->by_to && r->entry.lsn.v >= w->args->to)
        return ENOUGH;
    if (!wanted(w->args, &r->entry))
        return 0;
    if (w->noting)
        return note(w, r->entry.lsn);
    if (w->args->stats)
        return count(&w->rows, r);
    tool_line_print(&w->line, r);
    return ferror(stdout) ? ENOUGH : 0;
}

static struct tool_gap add_gap(struct walk *w, const struct lladd_inspect *view)
{
    struct tool_gap gap = tool_gap_of(view);
    w->gap.bytes += gap.bytes;
    if (gap.bytes)
        w->gap.to = gap.to;
    return gap;
}

/* The first pass: collects the LSNs of the last N matching records from *from on, and sets *from to
 * the first of these LSNs. If a part of the log was recycled before the walk read it, the walk has
 * skipped records: it has a gap. Then the pass starts again after the gap. If fewer than N matching
 * records follow the gap, others may have been in the gap. */
static int note_last(struct walk *w, struct lladd_inspect *view, lladd_lsn *from,
                     struct lladd_error *err)
{
    uint64_t end = tool_info(view).log_end.v;
    struct tool_gap gap;
    int rc;
    w->noting = true;
    do {
        w->seen = 0;
        ll_vec_truncate(&w->last, 0);
        rc = lladd_inspect_log(view, *from, see, w, err);
        gap = add_gap(w, view);
        if (gap.bytes)
            *from = gap.to;
    } while (rc != LLADD_NO_MEMORY && gap.bytes && from->v < end);
    w->noting = false;
    if (gap.bytes) { /* the gap extends to the end */
        w->seen = 0;
        ll_vec_truncate(&w->last, 0);
    }
    if (w->seen >= w->args->last)
        w->gap.bytes = 0;
    if (w->last.len)
        *from = first_of_last(w);
    return rc;
}

static int walk(struct walk *w, struct lladd_inspect *view, struct lladd_error *err)
{
    lladd_lsn from = lladd_lsn_of(w->args->from);
    if (w->args->by_last) {
        int rc = note_last(w, view, &from, err);
        if (rc == LLADD_NO_MEMORY || w->last.len == 0)
            return rc;
    }
    int rc = lladd_inspect_log(view, from, see, w, err);
    add_gap(w, view);
    return rc;
}

/* Prints why the list ends. Returns the exit code. */
static int foot(const struct tool *t, struct lladd_inspect *view, int rc,
                const struct tool_gap *gap, const struct lladd_error *err)
{
    struct lladd_inspect_info info = tool_info(view);
    const char *text = lladd_inspect_log_end(view);
    bool ended = rc == 0 || rc == ENOUGH;
    if (rc == LLADD_NO_MEMORY)
        return tool_fail(t, "out of memory");
    tool_recycled(t, gap);
    if (t->json) {
        json_t *o = json_pack("{s:s, s:s}", "kind",
                              ended ? tool_log_end_name(info.log_end_kind) : "damaged", "text",
                              ended ? text : err->message);
        tool_json_lsn(o, "lsn", ended ? info.log_end : err->lsn);
        tool_json_recycled(o, gap);
        tool_json_print(json_pack("{s:o}", "end", o), false);
    } else if (rc == 0) {
        printf("end of the log: %s\n", text);
    } else if (!ended) {
        printf("DAMAGED: %s\n", err->message);
    }
    return ended && info.log_end_kind != LLADD_LOG_END_DAMAGED ? TOOL_FINE : TOOL_FINDINGS;
}

static int run(struct tool *t, const struct args *a, struct lladd_inspect *view)
{
    struct ll_env env;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct walk w = {.tool = t, .view = view, .args = a};
    ll_env_init(&env, NULL, NULL, false);
    ll_vec_init(&w.rows, &env, sizeof(struct row));
    ll_vec_init(&w.last, &env, sizeof(lladd_lsn));
    tool_line_init(&w.line, view, t, a->bytes);
    if (!a->stats)
        tool_line_header(&w.line);
    int rc = walk(&w, view, &err);
    tool_progress_end(t);
    if (a->stats && w.rows.len) {
        qsort(w.rows.data, w.rows.len, sizeof(struct row), by_bytes);
        if (t->json)
            print_rows_json(&w.rows);
        else
            print_rows(&w.rows);
    }
    tool_line_free(&w.line);
    ll_vec_free(&w.rows);
    ll_vec_free(&w.last);
    return foot(t, view, rc, &w.gap, &err);
}

int tool_log(int argc, char **argv)
{
    struct tool t = {.verb = "log", .usage = usage};
    struct args a = {0};
    struct lladd_inspect *view;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &a, 0, &code))
        return tool_end(&t, code);
    code = tool_inspect(&t, &view);
    if (!code) {
        code = run(&t, &a, view);
        lladd_inspect_close(view);
    }
    return tool_end(&t, code);
}
