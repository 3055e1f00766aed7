/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd ops: the names that the log defines, and how many records and bytes they have. */
#include "tool.h"

#include "util/vec.h"

#include <inttypes.h>
#include <string.h>

static const char usage[] =
    "usage: lladd ops [--json] [--ops FILE.so] DIRECTORY\n"
    "\n"
    "Lists the catalogue: operations, page types, object classes, participants and tags with\n"
    "their versions and numbers, the page type that an operation needs, the layout of its\n"
    "redo and undo bytes, the number and size of its records in the log, and the LSN of its\n"
    "first use if the log still has it. A name that is neither built in nor in the plug-in\n"
    "given with --ops is marked: a program that opens the database must register it if\n"
    "recovery needs it.\n"
    "\n"
    "If the database is in use, log that is truncated before it could be read is not counted;\n"
    "standard error says how much (with --json: \"recycled\").\n"
    "\n"
    "Exit status: 0; 1 if the log is damaged (the counts end there); 2 if it cannot be read.\n";

static const struct option options[] = {TOOL_COMMON, {NULL, 0, NULL, 0}};

struct entry {
    struct lladd_inspect_name name;
    uint64_t records, bytes;
    uint64_t first; /* LSN of the catalogue record; 0: the record is no longer in the log */
};

static int add_name(void *ctx, const struct lladd_inspect_name *n)
{
    struct entry *e = ll_vec_push(ctx);
    if (!e)
        return LLADD_NO_MEMORY;
    e->name = *n;
    return 0;
}

static struct entry *find(struct ll_vec *list, uint32_t number)
{
    size_t low = 0, high = list->len; /* sorted by number */
    while (low < high) {
        size_t mid = (low + high) / 2;
        struct entry *e = ll_vec_at(list, mid);
        if (e->name.number == number)
            return e;
        if (e->name.number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

struct counting {
    struct tool *tool;
    struct lladd_inspect *view;
    struct ll_vec *list;
};

static int count(void *ctx, const struct lladd_inspect_record *r)
{
    struct counting *c = ctx;
    struct entry *e = r->number ? find(c->list, r->number) : NULL;
    tool_progress_log(c->tool, c->view, r->entry.lsn);
    if (!e)
        return 0;
    if (strcmp(lladd_log_kind_name(r->entry.kind), "catalogue") == 0) {
        e->first = r->entry.lsn.v;
        return 0;
    }
    e->records++;
    e->bytes += r->size;
    return 0;
}

static const char *type_name(enum lladd_field_type type)
{
    static const char *const names[] = {"end",  "u8",  "u16",   "u32",  "u64", "i64",
                                        "page", "lsn", "bytes", "rest", "text"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

static void print_fields(const char *what, const struct lladd_field *f)
{
    if (!f || !f->name)
        return;
    printf("%35s%s:", "", what);
    for (; f->name; f++)
        printf(" %s %s%s", type_name(f->type), f->name, f[1].name ? "," : "");
    printf("\n");
}

static void print_entry(const struct entry *e)
{
    const struct lladd_inspect_name *n = &e->name;
    char first[24], versioned[80];
    snprintf(versioned, sizeof versioned, "%s@%" PRIu32, n->name, n->version);
    printf("%6" PRIu32 "  %-11s %10s %10" PRIu64 " %12" PRIu64 "  %s%s\n", n->number,
           lladd_name_kind_text(n->kind), tool_lsn(lladd_lsn_of(e->first), first), e->records,
           e->bytes, versioned,
           n->registered || n->kind == LLADD_NAME_TAG ? "" : "  (not known here)");
    if (n->page_type)
        printf("%35spage: %s\n", "", n->page_type);
    print_fields("redo", n->redo_fields);
    print_fields("undo", n->undo_fields);
}

static json_t *json_layout(const struct lladd_field *f)
{
    json_t *out = json_array();
    for (; f && f->name; f++)
        json_array_append_new(out,
                              json_pack("{s:s, s:s}", "name", f->name, "type", type_name(f->type)));
    return out;
}

static json_t *json_entry(const struct entry *e)
{
    const struct lladd_inspect_name *n = &e->name;
    json_t *o = json_pack("{s:i, s:s, s:s, s:i, s:b, s:o, s:o}", "number", (int)n->number, "kind",
                          lladd_name_kind_text(n->kind), "name", n->name, "version",
                          (int)n->version, "known", n->registered, "records",
                          tool_json_u64(e->records), "bytes", tool_json_u64(e->bytes));
    tool_json_lsn(o, "first", lladd_lsn_of(e->first));
    if (n->redo_fields)
        json_object_set_new(o, "redo", json_layout(n->redo_fields));
    if (n->undo_fields)
        json_object_set_new(o, "undo", json_layout(n->undo_fields));
    if (n->page_type)
        json_object_set_new(o, "page_type", json_string(n->page_type));
    return o;
}

static void print_all(const struct tool *t, struct ll_vec *list,
                      const struct lladd_inspect *view)
{
    json_t *all = t->json ? json_array() : NULL;
    if (!t->json)
        printf("%6s  %-11s %10s %10s %12s  %s\n", "number", "kind", "first use", "records", "bytes",
               "name@version");
    for (size_t i = 0; i < list->len; i++) {
        if (t->json)
            json_array_append_new(all, json_entry(ll_vec_at(list, i)));
        else
            print_entry(ll_vec_at(list, i));
    }
    struct tool_gap gap = tool_gap_of(view);
    tool_recycled(t, &gap);
    if (t->json) {
        json_t *o = json_pack("{s:o}", "names", all);
        tool_json_recycled(o, &gap);
        tool_json_print(o, true);
    }
}

static int run(struct tool *t, struct lladd_inspect *view)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_env env;
    struct ll_vec list;
    struct counting c = {t, view, &list};
    ll_env_init(&env, NULL, NULL, false);
    ll_vec_init(&list, &env, sizeof(struct entry));
    int rc = lladd_inspect_names(view, add_name, &list);
    if (rc) {
        ll_vec_free(&list);
        return tool_fail(t, "out of memory");
    }
    rc = lladd_inspect_log(view, lladd_lsn_of(0), count, &c, &err);
    tool_progress_end(t);
    print_all(t, &list, view);
    ll_vec_free(&list);
    if (rc)
        fprintf(stderr, "lladd ops: counted up to a damaged place only: %s\n", err.message);
    return rc ? TOOL_FINDINGS : TOOL_FINE;
}

int tool_ops(int argc, char **argv)
{
    struct tool t = {.verb = "ops", .usage = usage};
    struct lladd_inspect *view;
    int code;
    if (tool_parse(&t, argc, argv, options, NULL, NULL, 0, &code))
        return tool_end(&t, code);
    code = tool_inspect(&t, &view);
    if (!code) {
        code = run(&t, view);
        lladd_inspect_close(view);
    }
    return tool_end(&t, code);
}
