/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd verify: checks the database as far as this is possible without the application. */
#include "tool.h"

#include <inttypes.h>

static const char usage[] =
    "usage: lladd verify [--archive STORE] [--json] [--ops FILE.so] [--memory BYTES]\n"
    "                    DIRECTORY\n"
    "       lladd verify [...] --from STORE [--to TARGET]\n"
    "\n"
    "Reads both copies of the control block, every record of the log, the double-write area\n"
    "and every page. Each finding names file, byte, page and LSN, and has one of four classes:\n"
    "\n"
    "  damage  data is lost, or the next open will fail\n"
    "  repair  damage that the library will repair by itself, at the next open or when it reads\n"
    "          the place: from the log, the double-write area or the control block's other copy\n"
    "  leak    pages that are allocated but have no owner\n"
    "  note    no fault, e.g. a torn tail of the log after a crash\n"
    "\n"
    "Pages are checked for checksum, identity, agreement with the log, and by the checks of\n"
    "their types: the built-in ones, and those of the plug-in given with --ops. Works while\n"
    "the database is in use.\n"
    "\n"
    "If the database is not in use, it is then recovered in memory, with nothing on disk\n"
    "changed, and each structure that a root points to is checked: arrays, lists, blobs, hash\n"
    "tables, B+trees, logged Bw-trees and runs of dTables. Allocated pages that belong to none\n"
    "of these are counted. They are a leak if every root points to such a structure and no\n"
    "transaction is in doubt.\n"
    "\n"
    "The plug-in given with --ops checks an application's own structure, if the plug-in has a\n"
    "check for it (struct lladd_structure). Otherwise the root of the structure is reported as\n"
    "not checked.\n"
    "\n"
    "  --memory BYTES   limit of the memory used, whatever the log holds: at least 67108864, the\n"
    "                   default is 268435456. If recovery in memory writes more than its part,\n"
    "                   the rest goes to unnamed files in $TMPDIR, or in /var/tmp. Not counted:\n"
    "                   about a 10000th of the size of the page file, and what each transaction,\n"
    "                   name and root takes\n"
    "  --archive STORE  also compares each page with the newest backup and the archived log in\n"
    "                   the store. If a page is whole, but older than these say, the disk has\n"
    "                   lost a write of it, maybe long ago. A raw page must have the bytes that\n"
    "                   were written to it last. A page that does not agree is damage or, if the\n"
    "                   next open rebuilds it, repair. Neither the database nor the store is\n"
    "                   changed. Takes 16 bytes of memory for each page, which --memory does not\n"
    "                   count\n"
    "  --from STORE     reads the database from a store, as it was at a target, and restores\n"
    "                   nothing; --to, --timeline, --base, --expect-lsn, --endpoint, --region\n"
    "                   and --host-style as for lladd restore\n"
    "\n"
    "Exit status: 0 if all is well; 1 if there is damage, repair or leak; 2 if the directory or\n"
    "the store cannot be read; 3 if there is none of these, but a structure could not be\n"
    "checked, or --archive could not compare the pages, because the database is in use or the\n"
    "store has no backup.\n";

enum { ARCHIVE = TOOL_OWN };

static const struct option options[] = {TOOL_COMMON,
                                        TOOL_BOUNDED,
                                        TOOL_FROM_STORE,
                                        {"archive", required_argument, NULL, ARCHIVE},
                                        {NULL, 0, NULL, 0}};

static int take(void *ctx, int option, const char *value)
{
    const char **archive = ctx;
    *archive = value;
    return option == ARCHIVE ? 0 : -1;
}

static const char *kind_name(unsigned kind)
{
    return kind == LLADD_FINDING_DAMAGE   ? "damage"
           : kind == LLADD_FINDING_REPAIR ? "repair"
           : kind == TOOL_LEAK            ? "leak"
                                          : "note";
}

struct told {
    struct tool *tool;
    json_t *damaged; /* with --archive: damaged pages, by their numbers as text; else NULL */
    json_t *list;    /* with --json; else NULL */
    bool unreadable; /* a part could not be read for lack of permission, memory or file
                      * descriptors */
};

int tool_print_finding(const struct lladd_finding *f)
{
    printf("%-6s  %s", kind_name(f->kind), f->file);
    if (f->offset != UINT64_MAX)
        printf(", byte %" PRIu64, f->offset);
    if (f->page.v != LLADD_NO_PAGE)
        printf(", page %" PRIu64, f->page.v);
    if (f->lsn.v)
        printf(", LSN %" PRIu64, f->lsn.v);
    printf(": %s\n", f->message);
    return 0;
}

int tool_add_finding(json_t *list, const struct lladd_finding *f)
{
    json_t *o =
        json_pack("{s:s, s:o}", "kind", kind_name(f->kind), "file", tool_json_text(f->file));
    if (f->code)
        json_object_set_new(o, "code", json_string(lladd_code_name(f->code)));
    if (f->offset != UINT64_MAX)
        json_object_set_new(o, "byte", tool_json_u64(f->offset));
    if (f->page.v != LLADD_NO_PAGE)
        json_object_set_new(o, "page", tool_json_u64(f->page.v));
    tool_json_lsn(o, "lsn", f->lsn);
    json_object_set_new(o, "message", tool_json_text(f->message));
    return json_array_append_new(list, o);
}

static const char *page_key(const struct lladd_finding *f, char out[24])
{
    snprintf(out, 24, "%" PRIu64, f->page.v);
    return out;
}

static int tell(void *ctx, const struct lladd_finding *f)
{
    struct told *told = ctx;
    char page[24];
    if (told->damaged && f->kind == LLADD_FINDING_DAMAGE)
        json_object_set_new(told->damaged, page_key(f, page), json_true());
    told->unreadable = told->unreadable || lladd_code_root(f->code) == LLADD_ROOT_RESOURCE;
    tool_progress_end(told->tool);
    return told->list ? tool_add_finding(told->list, f) : tool_print_finding(f);
}

/* The results for structures, if they were checked. */
struct looked {
    struct tool_structures s;
    bool done;
    bool in_use; /* another process has the database open, so structures were not checked */
    char why_not[320];
};

void tool_print_structures(const struct tool_structures *s)
{
    static const char *const names[][2] = {[TOOL_ARRAY] = {"array", "arrays"},
                                           [TOOL_LIST] = {"list", "lists"},
                                           [TOOL_BLOB] = {"blob", "blobs"},
                                           [TOOL_HASH] = {"hash table", "hash tables"},
                                           [TOOL_BTREE] = {"B+tree", "B+trees"},
                                           [TOOL_RUN] = {"run", "runs"}};
    const char *comma = "";
    printf("structures: ");
    for (int i = TOOL_ARRAY; i < TOOL_KINDS; i++) {
        if (!s->checked[i])
            continue;
        printf("%s%" PRIu64 " %s", comma, s->checked[i], names[i][s->checked[i] > 1]);
        comma = ", ";
    }
    const char *name;
    json_t *n;
    json_object_foreach(s->extended, name, n) {
        printf("%s%" JSON_INTEGER_FORMAT " %s", comma, json_integer_value(n), name);
        comma = ", ";
    }
    if (!*comma)
        printf("none");
    if (s->others)
        printf("; %" PRIu64 " root%s of unknown structures", s->others,
               s->others == 1 ? "" : "s");
    if (s->unchecked)
        printf("; %" PRIu64 " not checked", s->unchecked);
    if (s->unowned)
        printf("; %" PRIu64 " page%s outside of structures", s->unowned,
               s->unowned == 1 ? "" : "s");
    printf("\n");
}

static void print_structures(const struct looked *l)
{
    if (l->done)
        tool_print_structures(&l->s);
    else
        printf("structures: not checked: %s\n", l->why_not);
}

json_t *tool_json_structures(const struct tool_structures *s)
{
    json_t *extended = s->extended ? json_incref(s->extended) : json_object();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "arrays",
                     tool_json_u64(s->checked[TOOL_ARRAY]), "lists",
                     tool_json_u64(s->checked[TOOL_LIST]), "blobs",
                     tool_json_u64(s->checked[TOOL_BLOB]), "hash_tables",
                     tool_json_u64(s->checked[TOOL_HASH]), "btrees",
                     tool_json_u64(s->checked[TOOL_BTREE]), "runs",
                     tool_json_u64(s->checked[TOOL_RUN]), "extensions", extended,
                     "other_roots", tool_json_u64(s->others), "not_checked",
                     tool_json_u64(s->unchecked), "unowned_pages", tool_json_u64(s->unowned));
}

static json_t *json_structures(const struct looked *l)
{
    return l->done ? tool_json_structures(&l->s)
                   : json_pack("{s:o}", "unchecked", tool_json_text(l->why_not));
}

/* The results of --archive. */
struct compared {
    const char *url; /* NULL: without --archive */
    struct told *told;
    struct lladd_verified *v;
    struct lladd_scrub_info info;
    bool done;
    char why_not[320];
};

static void print_compared(const struct compared *c)
{
    if (c->url && !c->done)
        printf("archive: not compared: %s\n", c->why_not);
    else if (c->url)
        printf("archive: %" PRIu64 " lost write%s\n", c->info.lost, c->info.lost == 1 ? "" : "s");
}

static json_t *json_compared(const struct compared *c)
{
    return c->done ? json_pack("{s:o, s:o}", "lost", tool_json_u64(c->info.lost), "from",
                               tool_json_u64(c->info.from.v))
                   : json_pack("{s:o}", "unchecked", tool_json_text(c->why_not));
}

static void print_summary(const struct lladd_verified *v, const struct looked *l,
                          const struct compared *c)
{
    printf("checked: %" PRIu64 " record%s in %" PRIu64 " log segment%s, %" PRIu64 " page%s",
           v->records, v->records == 1 ? "" : "s", v->segments, v->segments == 1 ? "" : "s",
           v->pages, v->pages == 1 ? "" : "s");
    if (v->free_pages + v->raw_pages + v->zero_pages)
        printf(" (%" PRIu64 " free, %" PRIu64 " raw, %" PRIu64 " never formatted)", v->free_pages,
               v->raw_pages, v->zero_pages);
    printf("\n");
    print_structures(l);
    print_compared(c);
    if (v->damage + v->repair + l->s.leaked == 0)
        printf("no damage%s\n", l->done || l->in_use
                                    ? ""
                                    : " in what was checked; the database could not be opened");
    if (v->damage)
        printf("%" PRIu64 " damaged place%s\n", v->damage, v->damage == 1 ? "" : "s");
    if (v->repair)
        printf("%" PRIu64 " damaged place%s that the library will repair\n", v->repair,
               v->repair == 1 ? "" : "s");
    if (l->s.leaked)
        printf("%" PRIu64 " page%s lost\n", l->s.leaked, l->s.leaked == 1 ? "" : "s");
}

static int print_json(const struct lladd_verified *v, const struct looked *l,
                      const struct compared *c, json_t *findings)
{
    json_t *all =
        json_pack("{s:o, s:{s:o, s:o, s:o, s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}", "findings",
                  findings, "checked", "records", tool_json_u64(v->records), "segments",
                  tool_json_u64(v->segments), "pages", tool_json_u64(v->pages), "free_pages",
                  tool_json_u64(v->free_pages), "raw_pages", tool_json_u64(v->raw_pages),
                  "never_formatted", tool_json_u64(v->zero_pages), "structures", json_structures(l),
                  "damage", tool_json_u64(v->damage), "repair", tool_json_u64(v->repair),
                  "leaked_pages", tool_json_u64(l->s.leaked), "notes", tool_json_u64(v->notes));
    if (c->url)
        json_object_set_new(all, "archive", json_compared(c));
    tool_json_print(all, true);
    return 0;
}

/* Is the error damage? A missing or invalid control block is damage, too, although then nothing
 * else can be checked. */
static bool is_damage(const struct lladd_error *err)
{
    return err->code == LLADD_CORRUPT_CONTROL || err->code == LLADD_MISSING_FILE;
}

static int report_control(const struct tool *t, const struct lladd_error *err)
{
    struct lladd_verified v = {.struct_size = sizeof v, .damage = 1};
    struct looked l = {.why_not = "there is no control block"};
    struct compared c = {.url = NULL};
    struct lladd_finding f = {.kind = LLADD_FINDING_DAMAGE,
                              .code = err->code,
                              .file = "control",
                              .offset = err->code == LLADD_CORRUPT_CONTROL ? 0 : UINT64_MAX,
                              .page = {LLADD_NO_PAGE},
                              .message = err->message};
    if (t->json) {
        json_t *list = json_array();
        int rc = tool_add_finding(list, &f);
        rc = print_json(&v, &l, &c, list) ? -1 : rc;
        return rc ? TOOL_CANNOT : TOOL_FINDINGS;
    }
    (void)tool_print_finding(&f); /* tool_print_finding always returns 0 */
    printf("without a control block nothing else can be checked\n");
    return TOOL_FINDINGS;
}

/* Can lladd_open return this error for an undamaged database, for example because this program
 * lacks a registration or a permission? */
static bool lacks_something(int code)
{
    return code == LLADD_NO_OPERATION || code == LLADD_NO_COMPARATOR || code == LLADD_BAD_CONFIG ||
           code == LLADD_BAD_REGISTRATION || code == LLADD_BAD_ARGUMENT || code == LLADD_LOCKED ||
           code == LLADD_NEWER_FORMAT || code == LLADD_OTHER_ORDER;
}

/* Checks the structures, in a database recovered in memory. The database must not be open in
 * another process, because its files would change meanwhile. If lladd_open returns an error that
 * verification has not found, the error is an additional finding. */
static int look_at_structures(struct tool *t, const struct lladd_inspect *view, struct told *told,
                              struct lladd_verified *v, struct looked *l, struct lladd_error *err)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    struct tool_peek peek;
    int rc = lladd_inspect_info_get(view, &i);
    if (rc)
        return rc;
    if (i.in_use == 1) {
        l->in_use = true;
        snprintf(l->why_not, sizeof l->why_not, "the database is in use");
        return 0;
    }
    rc = tool_peek(t, &peek, err);
    if (!rc) {
        l->done = true;
        rc = tool_structures_check(t, peek.db, tell, told, &l->s, err);
        v->damage += l->s.damage;
        tool_peek_end(&peek);
        return rc;
    }
    snprintf(l->why_not, sizeof l->why_not, "%s", err->message);
    told->unreadable = told->unreadable || tool_ran_out(rc);
    if (!lacks_something(rc) && !tool_ran_out(rc) && v->damage == 0) {
        struct lladd_finding f = {LLADD_FINDING_DAMAGE, rc, ".", UINT64_MAX, err->lsn, err->page,
                                  err->message};
        v->damage++;
        return tell(told, &f);
    }
    return 0;
}

/* ---- with an archive ------------------------------------------------------------------------ */

/* Skips a page that was already reported as damage: the log may have shown, too, that the page is
 * too old. */
static int tell_compared(void *ctx, const struct lladd_finding *f)
{
    struct compared *c = ctx;
    char page[24];
    if (json_object_get(c->told->damaged, page_key(f, page)))
        return 0;
    c->v->damage += f->kind == LLADD_FINDING_DAMAGE;
    c->v->repair += f->kind == LLADD_FINDING_REPAIR;
    return tell(c->told, f);
}

static int show(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    tool_progress(ctx, what, done, all);
    return 0;
}

static int compare_with(struct tool *t, struct compared *c, struct lladd_store *store,
                        struct lladd_error *err)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct tool_peek peek;
    int rc = tool_peek_damaged(t, &peek, err);
    if (rc) {
        snprintf(c->why_not, sizeof c->why_not, "%s", err->message);
        c->told->unreadable = c->told->unreadable || tool_ran_out(rc);
        return 0;
    }
    o.finding = tell_compared;
    o.finding_ctx = c;
    o.progress = show;
    o.progress_ctx = t;
    c->info.struct_size = sizeof c->info;
    rc = lladd_archive_verify(peek.db, peek.disk, store, &o, &c->info, err);
    tool_peek_end(&peek);
    c->done = c->info.compared;
    snprintf(c->why_not, sizeof c->why_not, "the store has no backup of this database");
    return rc;
}

static int compare(struct tool *t, const struct looked *l, struct compared *c,
                   struct lladd_error *err)
{
    struct lladd_store *store;
    if (!c->url)
        return 0;
    if (l->in_use) {
        snprintf(c->why_not, sizeof c->why_not, "%s", l->why_not);
        return 0;
    }
    int rc = tool_store_open(t, c->url, &store, err);
    if (!rc) {
        rc = compare_with(t, c, store, err);
        lladd_store_close(store);
    }
    return rc;
}

static int verdict(const struct lladd_verified *v, const struct looked *l,
                   const struct compared *c)
{
    return v->damage + v->repair + l->s.leaked                    ? TOOL_FINDINGS
           : !l->done || l->s.unchecked || (c->url && !c->done) ? TOOL_UNCHECKED
                                                                  : TOOL_FINE;
}

static int verify(struct tool *t, struct lladd_inspect *view, struct compared *c)
{
    struct lladd_verified v = {.struct_size = sizeof v};
    struct looked l = {.done = false};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct told told = {.tool = t,
                        .list = t->json ? json_array() : NULL,
                        .damaged = c->url ? json_object() : NULL};
    c->told = &told;
    c->v = &v;
    lladd_inspect_progress(view, tool_progress_view, t);
    int rc = lladd_inspect_verify(view, tell, &told, &v, &err), code;
    if (!rc)
        rc = look_at_structures(t, view, &told, &v, &l, &err);
    if (!rc)
        rc = compare(t, &l, c, &err);
    tool_progress_end(t);
    code = rc ? tool_error(t, &err) : verdict(&v, &l, c);
    if (!rc && t->json)
        rc = print_json(&v, &l, c, json_incref(told.list));
    else if (!rc)
        print_summary(&v, &l, c);
    json_decref(told.list);
    json_decref(told.damaged);
    json_decref(l.s.extended);
    return !rc && told.unreadable ? tool_fail(t, "not everything could be read") : code;
}

int tool_verify(int argc, char **argv)
{
    struct tool t = {.verb = "verify", .usage = usage};
    struct compared c = {.url = NULL};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *view;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &c.url, 0, &code))
        return tool_end(&t, code);
    if (c.url && t.from)
        return tool_end(&t, tool_fail(&t, "--archive compares a directory with a store"));
    struct lladd_options look = tool_inspect_options(&t);
    if (tool_stored(&t, &look.device, &err))
        return tool_end(&t, tool_failed(&t, &err));
    if (lladd_inspect_open(t.dir, &look, &view, &err))
        return tool_end(&t, is_damage(&err) ? report_control(&t, &err) : tool_error(&t, &err));
    code = verify(&t, view, &c);
    lladd_inspect_close(view);
    return tool_end(&t, code);
}
