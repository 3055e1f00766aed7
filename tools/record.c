/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints one log record, as a line of text or of JSON. */
#include "tool.h"

#include <inttypes.h>
#include <string.h>

#define KIND_WIDTH 16
#define VALUE_MAX 72 /* characters of a field's value that are printed without --bytes */

void tool_line_init(struct tool_line *l, struct lladd_inspect *view, const struct tool *t,
                    bool bytes)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    memset(l, 0, sizeof *l);
    l->view = view;
    l->json = t->json;
    l->bytes = bytes;
    l->width = lladd_inspect_info_get(view, &info) ? 6 : tool_lsn_width(&info);
    tool_text_init(&l->text);
}

void tool_line_free(struct tool_line *l)
{
    tool_text_free(&l->text);
}

void tool_line_header(const struct tool_line *l)
{
    if (!l->json)
        printf("%*s %6s %*s %*s %2s %-*s %8s  %s\n", l->width, "LSN", "size", l->width, "txn",
               l->by_page && l->width < 8 ? 8 : l->width, l->by_page ? "page was" : "prev", "d",
               KIND_WIDTH, "kind", "page", "operation and fields");
}

const char *tool_log_end_name(enum lladd_log_end kind)
{
    switch (kind) {
    case LLADD_LOG_END_UNKNOWN:
        return "unknown";
    case LLADD_LOG_END_CLEAN:
        return "clean";
    case LLADD_LOG_END_OPEN:
        return "open";
    case LLADD_LOG_END_TORN:
        return "torn";
    case LLADD_LOG_END_DAMAGED:
        return "damaged";
    }
    return "unknown";
}

/* ---- text ----------------------------------------------------------------------------------- */

static bool has_page(const struct lladd_log_entry *e)
{
    /* In an object record the page number is the number of the object, which is printed as a
     * field. */
    return e->page != LLADD_NO_PAGE && strncmp(lladd_log_kind_name(e->kind), "object", 6) != 0;
}

static void print_span(const char *what, struct lladd_span s)
{
    if (s.len == 0)
        return;
    printf("    %s, %zu bytes\n", what, s.len);
    tool_hexdump("      ", s.data, s.len, 0);
}

/* Returns the length of the value at p: a quoted string, or the text up to the next blank. */
static size_t value_length(const char *p)
{
    if (*p != '"')
        return strcspn(p, " ");
    size_t n = 1;
    while (p[n] && p[n] != '"')
        n += p[n] == '\\' && p[n + 1] ? 2 : 1;
    return n + (p[n] == '"');
}

/* Prints fields, with long values truncated. */
static void print_short(const char *text)
{
    while (*text) {
        size_t name = strcspn(text, "= ");
        bool named = text[name] == '=';
        name += text[name] != 0;
        printf("%.*s", (int)name, text);
        text += name;
        size_t n = named ? value_length(text) : 0;
        if (n > VALUE_MAX)
            printf("%.*s%s", VALUE_MAX, text, *text == '"' ? "...\"" : "...");
        else
            printf("%.*s", (int)n, text);
        text += n;
    }
}

static void print_text(struct tool_line *l, const struct lladd_inspect_record *r)
{
    const struct lladd_log_entry *e = &r->entry;
    char txn[24], prev[24], page[24] = "-";
    const char *gap = " ";
    if (has_page(e))
        snprintf(page, sizeof page, "%" PRIu64, e->page);
    printf("%*" PRIu64 " %6" PRIu32 " %*s %*s %2" PRIu32 " %-*s %8s", l->width, e->lsn.v, r->size,
           l->width, tool_lsn(e->txn, txn), l->by_page && l->width < 8 ? 8 : l->width,
           tool_lsn(l->by_page ? e->page_prev : e->prev, prev), e->depth, KIND_WIDTH,
           lladd_log_kind_name(e->kind), page);
    if (e->op && strcmp(lladd_log_kind_name(e->kind), "catalogue") != 0)
        printf("  %s@%" PRIu32, e->op, e->op_version);
    else if (r->number && !e->op)
        printf("  number %" PRIu32 ", not in the catalogue;", r->number);
    else
        gap = "  ";
    tool_text_clear(&l->text);
    lladd_inspect_describe(l->view, r, &l->text.sink);
    const char *text = tool_text_get(&l->text);
    printf("%s", *text ? gap : "");
    if (l->bytes)
        printf("%s", text);
    else
        print_short(text);
    if (e->undo_next.v)
        printf(" undo_next=%" PRIu64, e->undo_next.v);
    printf("\n");
    if (l->bytes) {
        print_span("redo", e->redo);
        print_span("undo", e->undo);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *json_flags(unsigned flags)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{LLADD_RECORD_UNDO_PAGE, "undo-page"},
                 {LLADD_RECORD_UNDO_LOGICAL, "undo-logical"},
                 {LLADD_RECORD_FORMATS, "formats"},
                 {LLADD_RECORD_COMPRESSED, "compressed"},
                 {LLADD_RECORD_SYSTEM, "system"}};
    json_t *out = json_array();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (flags & names[i].bit)
            json_array_append_new(out, json_string(names[i].name));
    return out;
}

/* Is this a record kind of the library without a field layout? The text of such a record contains
 * all its fields. */
static bool only_text(unsigned kind)
{
    const char *name = lladd_log_kind_name(kind);
    return strcmp(name, "catalogue") == 0 || strcmp(name, "checkpoint-data") == 0 ||
           strcmp(name, "prepare") == 0 || strcmp(name, "image") == 0;
}

static void print_json(struct tool_line *l, const struct lladd_inspect_record *r)
{
    const struct lladd_log_entry *e = &r->entry;
    json_t *o = json_pack("{s:o, s:i, s:s}", "lsn", tool_json_u64(e->lsn.v), "size", (int)r->size,
                          "kind", lladd_log_kind_name(e->kind));
    tool_json_lsn(o, "txn", e->txn);
    tool_json_lsn(o, "prev", e->prev);
    tool_json_lsn(o, "undo_next", e->undo_next);
    json_object_set_new(o, "depth", json_integer(e->depth));
    if (e->page != LLADD_NO_PAGE)
        json_object_set_new(o, has_page(e) ? "page" : "object", tool_json_u64(e->page));
    tool_json_lsn(o, "page_prev", e->page_prev);
    if (e->op) {
        json_object_set_new(o, "op", json_string(e->op));
        json_object_set_new(o, "version", json_integer(e->op_version));
    } else if (r->number) {
        json_object_set_new(o, "number", json_integer(r->number));
    }
    json_object_set_new(o, "flags", json_flags(r->flags));
    if (e->redo.len && !only_text(e->kind))
        json_object_set_new(o, "redo", tool_json_fields(r->redo_fields, e->redo));
    if (e->undo.len)
        json_object_set_new(o, "undo", tool_json_fields(r->undo_fields, e->undo));
    tool_text_clear(&l->text);
    lladd_inspect_describe(l->view, r, &l->text.sink);
    const char *text = tool_text_get(&l->text);
    json_object_set_new(o, "text", tool_json_bytes(text, strlen(text)));
    if (l->bytes) {
        json_object_set_new(o, "redo_bytes", tool_json_hex(e->redo.data, e->redo.len));
        json_object_set_new(o, "undo_bytes", tool_json_hex(e->undo.data, e->undo.len));
    }
    tool_json_print(o, false);
}

void tool_line_print(struct tool_line *l, const struct lladd_inspect_record *r)
{
    if (l->json)
        print_json(l, r);
    else
        print_text(l, r);
}
