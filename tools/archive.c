/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd archive: what a store has. */
#include "tool.h"

#include <inttypes.h>
#include <string.h>

static const char usage[] =
    "usage: lladd archive list [--json] STORE\n"
    "\n"
    "Lists the complete backups in the store, and for each timeline where it left its parent,\n"
    "the LSNs that can be restored, gaps in the stored log, and named marks. Of each stored\n"
    "segment of the log only the header is read; \"lladd verify --from STORE --to end\" reads\n"
    "the log, too.\n"
    "\n"
    "Exit status: 0; 1 if the log has gaps, or the store is damaged; 2 if it cannot be read.\n";

static const struct option options[] = {TOOL_COMMON, {NULL, 0, NULL, 0}};

struct listing {
    json_t *backups, *timelines; /* NULL: text */
    json_t *timeline;            /* the one that is told */
    bool gap;
};

static int see_backup(void *ctx, const struct lladd_backup_info *info)
{
    struct listing *l = ctx;
    if (l->backups)
        return json_array_append_new(l->backups, tool_json_backup(info));
    tool_print_backup(info);
    return 0;
}

static void print_item(const struct lladd_archive_item *i)
{
    char when[48];
    tool_time(i->time_us, when);
    switch (i->kind) {
    case LLADD_ARCHIVE_TIMELINE:
        printf("timeline %" PRIu32, i->timeline);
        if (i->timeline)
            printf(": left timeline %" PRIu32 " at LSN %" PRIu64 ", %s", i->parent, i->from.v,
                   when);
        printf("\n");
        break;
    case LLADD_ARCHIVE_RANGE:
        printf("  can be restored to LSN %" PRIu64 " to %" PRIu64 "\n", i->from.v, i->end.v);
        break;
    case LLADD_ARCHIVE_GAP:
        printf("  gap: no log from LSN %" PRIu64 " to %" PRIu64 "\n", i->from.v, i->end.v);
        break;
    case LLADD_ARCHIVE_MARK:
        printf("  mark \"%s\" at LSN %" PRIu64 ", %s\n", i->name, i->from.v, when);
        break;
    }
}

static int add_item(struct listing *l, const struct lladd_archive_item *i)
{
    static const char *const lists[] = {[LLADD_ARCHIVE_RANGE] = "ranges",
                                        [LLADD_ARCHIVE_GAP] = "gaps",
                                        [LLADD_ARCHIVE_MARK] = "marks"};
    if (i->kind == LLADD_ARCHIVE_TIMELINE) {
        l->timeline = json_pack("{s:I, s:[], s:[], s:[]}", "timeline", (json_int_t)i->timeline,
                                "ranges", "gaps", "marks");
        if (i->timeline) {
            json_object_set_new(l->timeline, "parent", json_integer(i->parent));
            json_object_set_new(l->timeline, "fork", tool_json_u64(i->from.v));
            json_object_set_new(l->timeline, "when_us", json_integer(i->time_us));
        }
        return json_array_append_new(l->timelines, l->timeline);
    }
    json_t *o = i->kind == LLADD_ARCHIVE_MARK
                    ? json_pack("{s:s, s:o, s:I}", "name", i->name, "lsn", tool_json_u64(i->from.v),
                                "time_us", (json_int_t)i->time_us)
                    : json_pack("{s:o, s:o}", "from", tool_json_u64(i->from.v), "end",
                                tool_json_u64(i->end.v));
    return json_array_append_new(json_object_get(l->timeline, lists[i->kind]), o);
}

static int see_item(void *ctx, const struct lladd_archive_item *i)
{
    struct listing *l = ctx;
    l->gap = l->gap || i->kind == LLADD_ARCHIVE_GAP;
    if (l->timelines)
        return add_item(l, i);
    print_item(i);
    return 0;
}

static int list(struct tool *t, struct lladd_store *store)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct listing l = {.backups = t->json ? json_array() : NULL,
                        .timelines = t->json ? json_array() : NULL};
    int rc = lladd_backup_each(store, NULL, see_backup, &l, &err);
    if (!rc)
        rc = lladd_archive_each(store, NULL, see_item, &l, &err);
    if (!rc && t->json)
        tool_json_print(json_pack("{s:O, s:O}", "backups", l.backups, "timelines", l.timelines),
                        true);
    json_decref(l.backups);
    json_decref(l.timelines);
    if (rc)
        return tool_failed(t, &err);
    return l.gap ? TOOL_FINDINGS : TOOL_FINE;
}

int tool_archive(int argc, char **argv)
{
    struct tool t = {.verb = "archive", .usage = usage};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    const char *what = argc > 1 ? argv[1] : "";
    bool known = strcmp(what, "list") == 0;
    int code;
    if (!known && *what != '-')
        return tool_fail(&t, "expected list, not \"%s\"", what);
    if (known)
        t.verb = "archive list";
    if (tool_parse(&t, known ? argc - 1 : argc, known ? argv + 1 : argv, options, NULL, NULL, 0,
                   &code))
        return tool_end(&t, code);
    if (!known)
        return tool_end(&t, tool_fail(&t, "expected list"));
    if (lladd_store_open(t.dir, NULL, &store, &err))
        return tool_end(&t, tool_error(&t, &err));
    code = list(&t, store);
    lladd_store_close(store);
    return tool_end(&t, code);
}
