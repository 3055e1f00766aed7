/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd backup: makes a backup of a database that no process has open. lladd restore: makes a
 * database out of a backup. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/device.h>
#include <lladd/ship.h>
#include <string.h>

static const char backup_usage[] =
    "usage: lladd backup [--label TEXT] [--rate BYTES] [--json] [--ops FILE.so] DIRECTORY STORE\n"
    "\n"
    "Opens the database, makes a backup of it in the store, and closes it. A database that a\n"
    "process has open is refused: that process makes its backups with lladd_backup\n"
    "(<lladd/ship.h>). STORE is dir:PATH.\n"
    "\n"
    "  --label TEXT     a line of text for \"lladd restore --list\"\n"
    "  --rate BYTES     reads at most so many bytes in a second\n"
    "\n"
    "Exit status: 0; 1 if pages in use are damaged (the backup is made all the same); 2 if no\n"
    "backup was made.\n";

static const char restore_usage[] =
    "usage: lladd restore [--base NAME] [--rate BYTES] [--json] STORE DIRECTORY\n"
    "       lladd restore --list [--json] STORE\n"
    "\n"
    "Makes a database in DIRECTORY, which must be absent or empty, out of the backup that ended\n"
    "last. The next open recovers it as after a crash: it has the transactions that had\n"
    "committed when the backup ended, and those that were prepared are in doubt.\n"
    "\n"
    "  --base NAME      restores the backup of this name\n"
    "  --list           lists the complete backups, oldest first\n"
    "  --rate BYTES     writes at most so many bytes in a second\n"
    "\n"
    "Exit status: 0; 1 if the backup is damaged; 2 if nothing was restored for another reason.\n";

enum { LABEL = TOOL_OWN, RATE, BASE, LIST };

static const struct option backup_options[] = {TOOL_COMMON,
                                               {"label", required_argument, NULL, LABEL},
                                               {"rate", required_argument, NULL, RATE},
                                               {NULL, 0, NULL, 0}};
static const struct option restore_options[] = {TOOL_COMMON,
                                                {"base", required_argument, NULL, BASE},
                                                {"list", no_argument, NULL, LIST},
                                                {"rate", required_argument, NULL, RATE},
                                                {NULL, 0, NULL, 0}};

struct wanted {
    const char *label, *base;
    uint64_t rate;
    bool list;
    struct tool *tool;
};

static int take(void *ctx, int option, const char *value)
{
    struct wanted *w = ctx;
    if (option == LABEL)
        w->label = value;
    else if (option == BASE)
        w->base = value;
    else if (option == LIST) {
        w->list = true;
        w->tool->more = 0;
    } else if (option == RATE)
        return tool_number_in("--rate", value, 1, UINT64_MAX, &w->rate) ? 0 : -1;
    return option >= LABEL && option <= LIST ? 0 : -1;
}

static int show(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    tool_progress(ctx, what, done, all);
    return 0;
}

static json_t *json_of(const struct lladd_backup_info *i)
{
    char uuid[40];
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     i->name, "uuid", tool_uuid(i->uuid, uuid), "page_size", (int)i->page_size,
                     "timeline", tool_json_u64(i->timeline), "from", tool_json_u64(i->from.v),
                     "end", tool_json_u64(i->end.v), "pages", tool_json_u64(i->pages),
                     "stored_bytes", tool_json_u64(i->stored_bytes), "damaged_pages",
                     tool_json_u64(i->damaged_pages), "begun_us",
                     tool_json_u64((uint64_t)i->begun_us), "ended_us",
                     tool_json_u64((uint64_t)i->ended_us), "label", tool_json_text(i->label));
}

static void print(const struct lladd_backup_info *i)
{
    char when[48], bytes[24];
    printf("%s  %s  up to LSN %" PRIu64 ", %" PRIu64 " pages, %s stored%s%s\n", i->name,
           tool_time(i->ended_us, when), i->end.v, i->pages, tool_bytes(i->stored_bytes, bytes),
           i->label[0] ? ", " : "", i->label);
    if (i->damaged_pages)
        printf("  %" PRIu64 " pages in use are damaged\n", i->damaged_pages);
}

static int backup(struct tool *t, const struct wanted *w, const char *url)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    struct lladd_db *db;
    int rc = lladd_store_open(url, NULL, &store, &err);
    if (rc)
        return tool_fail(t, "%s (%s)", err.message, lladd_code_name(rc));
    rc = tool_open(t, &db, &err);
    if (!rc) {
        o.label = w->label;
        o.bytes_per_second = w->rate;
        o.progress = show;
        o.progress_ctx = t;
        rc = lladd_backup(db, store, &o, &info, &err);
        int late = lladd_close(db);
        if (!rc && late)
            rc = lladd_error_set(&err, late, "the database could not be closed cleanly");
    }
    tool_progress_end(t);
    lladd_store_close(store);
    if (rc)
        return tool_error(t, &err);
    if (t->json)
        tool_json_print(json_of(&info), true);
    else
        print(&info);
    return info.damaged_pages ? TOOL_FINDINGS : TOOL_FINE;
}

int tool_backup(int argc, char **argv)
{
    struct tool t = {.verb = "backup", .usage = backup_usage};
    struct wanted w = {.tool = &t};
    int code;
    if (tool_parse(&t, argc, argv, backup_options, take, &w, 1, &code))
        return tool_end(&t, code);
    return tool_end(&t, backup(&t, &w, t.argv[0]));
}

static int add(void *ctx, const struct lladd_backup_info *info)
{
    json_t *all = ctx;
    if (all)
        json_array_append_new(all, json_of(info));
    else
        print(info);
    return 0;
}

static int list(struct tool *t, struct lladd_store *store, struct lladd_error *err)
{
    json_t *all = t->json ? json_array() : NULL;
    int rc = lladd_backup_each(store, NULL, add, all, err);
    if (all && !rc)
        tool_json_print(all, true);
    else
        json_decref(all);
    return rc;
}

static int restore(struct tool *t, const struct wanted *w, struct lladd_store *store,
                   struct lladd_error *err)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_device *disk;
    int rc = lladd_device_posix(t->argv[0], true, &disk, err);
    if (rc)
        return rc;
    o.base = w->base;
    o.bytes_per_second = w->rate;
    o.progress = show;
    o.progress_ctx = t;
    rc = lladd_restore(store, &o, disk, &info, err);
    tool_progress_end(t);
    lladd_device_close(disk);
    if (!rc && t->json)
        tool_json_print(json_of(&info), true);
    else if (!rc)
        print(&info);
    return rc;
}

int tool_restore(int argc, char **argv)
{
    struct tool t = {.verb = "restore", .usage = restore_usage, .more = 1};
    struct wanted w = {.tool = &t};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    int code;
    if (tool_parse(&t, argc, argv, restore_options, take, &w, 0, &code))
        return tool_end(&t, code);
    if (w.list ? t.argc != 0 : t.argc != 1)
        return tool_end(&t, tool_fail(&t, w.list ? "--list takes a store and no directory"
                                                 : "expected a store and a directory"));
    int rc = lladd_store_open(t.dir, NULL, &store, &err);
    if (!rc) {
        rc = w.list ? list(&t, store, &err) : restore(&t, &w, store, &err);
        lladd_store_close(store);
    }
    return tool_end(&t, rc ? tool_failed(&t, &err) : TOOL_FINE);
}
