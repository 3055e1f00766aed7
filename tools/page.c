/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd page: one page of the page file, and its records in the log. */
#include "tool.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: lladd page [options] DIRECTORY NUMBER\n"
    "\n"
    "Shows a page as it is in the file \"pages\": its header, whether its checksum is right,\n"
    "its use, and its contents as its page type describes them (or in hexadecimal). If the\n"
    "log has newer records about the page, which are not in this file yet, the output says so.\n"
    "\n"
    "  --history        also every record about the page that the log still has\n"
    "  --bytes          the whole page in hexadecimal\n"
    "  --json           as JSON\n"
    "  --ops FILE.so    a plug-in that knows further page types\n"
    "\n"
    "Exit status: 0; 1 if the page is damaged; 2 if it cannot be read.\n";

enum { HISTORY = TOOL_OWN, BYTES };

static const struct option options[] = {TOOL_COMMON,
                                        {"history", no_argument, NULL, HISTORY},
                                        {"bytes", no_argument, NULL, BYTES},
                                        {NULL, 0, NULL, 0}};

struct args {
    bool history, bytes;
};

static int take(void *ctx, int option, const char *value)
{
    struct args *a = ctx;
    (void)value;
    a->history = a->history || option == HISTORY;
    a->bytes = a->bytes || option == BYTES;
    return option == HISTORY || option == BYTES ? 0 : -1;
}

static const char *use_name(const struct lladd_inspect_page *p)
{
    if (!p->use_known)
        return "not known: its allocation bitmap cannot be read";
    switch (p->use) {
    case LLADD_USE_NONE:
        return "free";
    case LLADD_USE_RAW:
        return "raw: in an extent without page headers; ignore the fields below";
    case LLADD_USE_PAGED:
        return "allocated";
    case LLADD_USE_FREED:
        return "free: given back by a transaction";
    case LLADD_USE_SYSTEM:
        return "the library's own";
    }
    return "not known";
}

/* ---- newer records -------------------------------------------------------------------------- */

struct pending {
    struct tool *tool;
    struct lladd_inspect *view;
    uint64_t page, lsn;
    uint64_t records, last;
};

static bool about(const struct lladd_inspect_record *r, uint64_t page)
{
    const char *kind = lladd_log_kind_name(r->entry.kind);
    return r->entry.page == page && strncmp(kind, "object", 6) != 0;
}

static int see_pending(void *ctx, const struct lladd_inspect_record *r)
{
    struct pending *p = ctx;
    tool_progress_log(p->tool, p->view, r->entry.lsn);
    if (about(r, p->page) && r->entry.lsn.v > p->lsn) {
        p->records++;
        p->last = r->entry.lsn.v;
    }
    return 0;
}

static struct pending look_ahead(struct tool *t, struct lladd_inspect *view,
                                 const struct lladd_inspect_page *page)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_error ignored = LLADD_ERROR_INIT;
    struct pending p = {
        .tool = t, .view = view, .page = page->number.v, .lsn = page->code ? 0 : page->lsn.v};
    if (lladd_inspect_info_get(view, &info) || info.clean)
        return p;
    /* After an error, the count includes only records that could be read. */
    (void)lladd_inspect_log(view, info.redo, see_pending, &p, &ignored);
    tool_progress_end(t);
    return p;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_header(const struct lladd_inspect_page *p)
{
    printf("page %" PRIu64 " of \"pages\": bytes %" PRIu64 " to %" PRIu64 "\n", p->number.v,
           p->offset, p->offset + p->view.size - 1);
    printf("  use         %s\n", use_name(p));
    if (p->zero) {
        printf("  contents    all zeros: never formatted\n");
        return;
    }
    if (p->checksum == p->computed)
        printf("  checksum    %08" PRIx32 ", right\n", p->checksum);
    else
        printf("  checksum    %08" PRIx32 ", WRONG: it should be %08" PRIx32 "\n", p->checksum,
               p->computed);
    printf("  number      %" PRIu64 "%s\n", p->stored_number,
           p->stored_number == p->number.v ? "" : ", WRONG");
    if (p->type)
        printf("  type        %s@%" PRIu32 " (number %u)\n", p->type, p->type_version,
               p->view.type);
    else
        printf("  type        number %u%s\n", p->view.type,
               p->view.type ? ", not in the catalogue" : ", none");
    printf("  page LSN    %" PRIu64 "\n", p->lsn.v);
    printf("  base LSN    %" PRIu64 "%s\n", p->base.v,
           p->base.v ? "" : " (written in bulk: its first logged change logs an image)");
    if (p->code)
        printf("  DAMAGED     %s\n", p->message);
}

static void print_indented(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("  %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_body(struct lladd_inspect *view, const struct lladd_inspect_page *p, bool bytes)
{
    struct tool_text text;
    tool_text_init(&text);
    tool_text_clear(&text);
    bool described = lladd_inspect_describe_page(view, p, &text.sink);
    if (described) {
        printf("contents\n");
        print_indented(tool_text_get(&text));
    }
    tool_text_free(&text);
    if (bytes) {
        printf("bytes\n");
        tool_hexdump("  ", p->view.bytes, p->view.size, 0);
    } else if (!described && !p->zero) {
        printf("contents\n");
        tool_hexdump("  ", lladd_view_body(p->view), lladd_body_size(p->view.size),
                     LLADD_PAGE_HEADER);
    }
}

struct history {
    struct tool_line line;
    struct tool *tool;
    bool tell; /* show the progress, because the records are not printed on the terminal */
    uint64_t page, records;
    json_t *lines; /* with --json; else NULL */
};

static int see_history(void *ctx, const struct lladd_inspect_record *r)
{
    struct history *h = ctx;
    if (h->tell)
        tool_progress_log(h->tool, h->line.view, r->entry.lsn);
    if (!about(r, h->page))
        return 0;
    if (h->records++ == 0 && !h->lines)
        tool_line_header(&h->line);
    if (!h->lines) {
        tool_line_print(&h->line, r);
        return 0;
    }
    tool_text_clear(&h->line.text);
    lladd_inspect_describe(h->line.view, r, &h->line.text.sink);
    const char *text = tool_text_get(&h->line.text);
    json_t *o =
        json_pack("{s:o, s:s, s:o}", "lsn", tool_json_u64(r->entry.lsn.v), "kind",
                  lladd_log_kind_name(r->entry.kind), "text", tool_json_bytes(text, strlen(text)));
    tool_json_lsn(o, "txn", r->entry.txn);
    tool_json_lsn(o, "page_prev", r->entry.page_prev);
    if (r->entry.op)
        json_object_set_new(o, "op", json_string(r->entry.op));
    return json_array_append_new(h->lines, o);
}

static int print_history(struct tool *t, struct lladd_inspect *view, uint64_t page,
                         json_t *lines)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct history h = {
        .tool = t, .tell = lines || !isatty(STDOUT_FILENO), .page = page, .lines = lines};
    tool_line_init(&h.line, view, t, false);
    h.line.by_page = true;
    if (!lines)
        printf("history\n");
    int rc = lladd_inspect_log(view, lladd_lsn_of(0), see_history, &h, &err);
    tool_progress_end(t);
    tool_line_free(&h.line);
    struct tool_gap gap = tool_gap_of(view);
    tool_recycled(t, &gap);
    if (!lines && h.records == 0)
        printf("  the log has no record about this page any more\n");
    if (rc && !lines)
        printf("DAMAGED: %s\n", err.message);
    else if (rc)
        json_array_append_new(lines, json_pack("{s:s}", "damaged", err.message));
    return rc;
}

static int print_text(struct tool *t, struct lladd_inspect *view,
                      const struct lladd_inspect_page *p, const struct args *a)
{
    struct pending ahead = look_ahead(t, view, p);
    print_header(p);
    if (ahead.records)
        printf("  newer       the log has %" PRIu64 " newer record%s about it, up to LSN %" PRIu64
               ": not in this file yet\n",
               ahead.records, ahead.records == 1 ? "" : "s", ahead.last);
    print_body(view, p, a->bytes);
    return a->history ? print_history(t, view, p->number.v, NULL) : 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static const char *use_word(const struct lladd_inspect_page *p)
{
    static const char *const words[] = {"free", "raw", "allocated", "freed", "system"};
    return p->use_known && (unsigned)p->use < 5 ? words[p->use] : "unknown";
}

static int print_json(struct tool *t, struct lladd_inspect *view,
                      const struct lladd_inspect_page *p, const struct args *a)
{
    struct pending ahead = look_ahead(t, view, p);
    struct tool_text text;
    json_t *o = json_pack("{s:o, s:o, s:s, s:b, s:b, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "page",
                          tool_json_u64(p->number.v), "offset", tool_json_u64(p->offset), "use",
                          use_word(p), "zero", p->zero, "damaged", p->code != 0, "checksum",
                          tool_json_u64(p->checksum), "computed", tool_json_u64(p->computed),
                          "stored_number", tool_json_u64(p->stored_number), "type_number",
                          (int)p->view.type, "lsn", tool_json_u64(p->lsn.v), "base",
                          tool_json_u64(p->base.v), "newer_records", tool_json_u64(ahead.records));
    if (p->type)
        json_object_set_new(o, "type", json_string(p->type));
    if (p->code)
        json_object_set_new(o, "message", json_string(p->message));
    tool_text_init(&text);
    tool_text_clear(&text);
    if (lladd_inspect_describe_page(view, p, &text.sink))
        json_object_set_new(o, "text",
                            tool_json_bytes(tool_text_get(&text), strlen(tool_text_get(&text))));
    tool_text_free(&text);
    if (a->bytes)
        json_object_set_new(o, "bytes", tool_json_hex(p->view.bytes, p->view.size));
    int rc = 0;
    if (a->history) {
        json_t *lines = json_array();
        rc = print_history(t, view, p->number.v, lines);
        struct tool_gap gap = tool_gap_of(view);
        tool_json_recycled(o, &gap);
        json_object_set_new(o, "history", lines);
    }
    tool_json_print(o, true);
    return rc;
}

static int run(struct tool *t, struct lladd_inspect *view, uint64_t number,
               const struct args *a)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect_page page;
    int rc = lladd_inspect_page_read(view, lladd_page_of(number), &page, &err);
    if (rc)
        return tool_error(t, &err);
    rc = t->json ? print_json(t, view, &page, a) : print_text(t, view, &page, a);
    bool raw = page.use_known && page.use == LLADD_USE_RAW;
    return rc || (page.code && !raw) ? TOOL_FINDINGS : TOOL_FINE;
}

int tool_page(int argc, char **argv)
{
    struct tool t = {.verb = "page", .usage = usage};
    struct args a = {0};
    struct lladd_inspect *view;
    uint64_t number;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &a, 1, &code))
        return tool_end(&t, code);
    if (!tool_number("the page number", t.argv[0], &number))
        return tool_end(&t, TOOL_CANNOT);
    code = tool_inspect(&t, &view);
    if (!code) {
        code = run(&t, view, number, &a);
        lladd_inspect_close(view);
    }
    return tool_end(&t, code);
}
