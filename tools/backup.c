/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd backup: makes a backup of a database that no process has open. lladd restore: makes a
 * database out of a backup. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/device.h>
#include <lladd/ship.h>
#include <string.h>

static const char backup_usage[] =
    "usage: lladd backup [options] [--json] [--ops FILE.so] DIRECTORY STORE\n"
    "\n"
    "Opens the database, makes a backup of it in the store, and closes it. If a process has the\n"
    "database open and archives it into the same store, the backup is made beside that process:\n"
    "its files are only read, and the command waits until the store has the log that the backup\n"
    "needs. A process that does not archive makes its backups with lladd_backup (<lladd/ship.h>).\n"
    "\n"
    "  --label TEXT     a line of text for \"lladd restore --list\"\n"
    "  --rate BYTES     reads at most BYTES bytes a second\n"
    "  --threads N      N threads read and compress pages (1)\n"
    "  --wait SECONDS   gives up if the archive of another process stores nothing for this time\n"
    "                   while the command waits for it (default 600)\n"
    "\n" TOOL_STORE_HELP "\n"
    "The pages are also compared with the newest backup and the archived log in the store. If a\n"
    "page is older, the disk has lost a write; it is reported, and repaired as by \"lladd scrub\"\n"
    "if the log allows it.\n"
    "\n"
    "Exit status: 0; 1 if pages in use are damaged, or writes were lost (the backup is made all\n"
    "the same); 2 if no backup was made.\n";

static const char restore_usage[] =
    "usage: lladd restore [--to TARGET] [options] STORE DIRECTORY\n"
    "       lladd restore --list [--json] STORE\n"
    "       lladd restore --page N [--json] [--ops FILE.so] STORE DIRECTORY\n"
    "       lladd restore --page N --out FILE [--to TARGET] [options] STORE\n"
    "\n"
    "Makes a database in DIRECTORY, which must be absent or empty, out of a backup and the\n"
    "archived log. The next open recovers it as after a crash. Then the database has the\n"
    "transactions that had committed at the target. Those that were prepared there are in doubt;\n"
    "the command lists them. A target that the store cannot restore is refused; the message\n"
    "names the LSNs that it can restore.\n"
    "\n"
    "  --to base        the end of the last backup, or of the backup of --base (the default)\n"
    "  --to end         the end of the archived log\n"
    "  --to LSN         all transactions with a commit record below this LSN, and no other\n"
    "  --to mark:NAME   what had committed when the mark was made\n"
    "  --to TIME        what had committed at the last mark in the log before this time (UTC),\n"
    "                   for example 2026-11-20T10:44:12\n"
    "  --timeline N     the target is on this timeline, not on that of the backup that ended last\n"
    "  --base NAME      begins with the backup of this name\n"
    "  --expect-lsn LSN refuses if the LSNs that can be restored on the timeline end below this\n"
    "                   one. A store does not show that its newest objects are missing\n"
    "  --list           lists the complete backups, oldest first\n"
    "  --rate BYTES     writes at most BYTES bytes a second\n"
    "  --threads N      N threads decompress and write pages (1)\n"
    "  --page N         restores one page of the database in DIRECTORY, which no process may\n"
    "                   have open: recovers the database, and rebuilds page N, with its newest\n"
    "                   change, from the log and the archive, even if the page looks whole.\n"
    "                   Nothing is written to the store\n"
    "  --out FILE       with --page: writes the page as it was at the target to a new file, with\n"
    "                   its header and checksum, and changes no database\n"
    "\n" TOOL_STORE_HELP "\n"
    "Exit status: 0; 1 if the backup is damaged; 2 if nothing was restored for another reason.\n";

enum { LABEL = TOOL_OWN, RATE, LIST, PAGE, OUT, WAIT };

static const struct option backup_options[] = {TOOL_COMMON,
                                               TOOL_STORE,
                                               TOOL_THREADS,
                                               {"label", required_argument, NULL, LABEL},
                                               {"rate", required_argument, NULL, RATE},
                                               {"wait", required_argument, NULL, WAIT},
                                               {NULL, 0, NULL, 0}};
static const struct option restore_options[] = {TOOL_COMMON,
                                                TOOL_STORE,
                                                TOOL_TARGET,
                                                TOOL_THREADS,
                                                {"list", no_argument, NULL, LIST},
                                                {"rate", required_argument, NULL, RATE},
                                                {"page", required_argument, NULL, PAGE},
                                                {"out", required_argument, NULL, OUT},
                                                {NULL, 0, NULL, 0}};

struct wanted {
    const char *label;
    uint64_t rate, page; /* page LLADD_NO_PAGE: the whole database */
    uint64_t wait;       /* seconds; 0: the default */
    json_t *findings;    /* with --json; else NULL */
    const char *out;
    bool list;
    struct tool *tool;
};

static int take(void *ctx, int option, const char *value)
{
    struct wanted *w = ctx;
    if (option == LABEL)
        w->label = value;
    else if (option == LIST) {
        w->list = true;
        w->tool->more = 0;
    } else if (option == RATE)
        return tool_number_in("--rate", value, 1, UINT64_MAX, &w->rate) ? 0 : -1;
    else if (option == PAGE)
        return tool_number_in("--page", value, 0, LLADD_NO_PAGE - 1, &w->page) ? 0 : -1;
    else if (option == WAIT)
        return tool_number_in("--wait", value, 1, UINT64_MAX / 1000000000, &w->wait) ? 0 : -1;
    else if (option == OUT)
        w->out = value;
    return option >= LABEL && option <= WAIT ? 0 : -1;
}

static int show(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    tool_progress(ctx, what, done, all);
    return 0;
}

json_t *tool_json_backup(const struct lladd_backup_info *i)
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

void tool_print_backup(const struct lladd_backup_info *i)
{
    char when[48], bytes[24];
    printf("%s  %s  up to LSN %" PRIu64 ", %" PRIu64 " pages, %s stored%s%s\n", i->name,
           tool_time(i->ended_us, when), i->end.v, i->pages, tool_bytes(i->stored_bytes, bytes),
           i->label[0] ? ", " : "", i->label);
    if (i->damaged_pages)
        printf("  %" PRIu64 " pages in use are damaged\n", i->damaged_pages);
}

static int tell(void *ctx, const struct lladd_finding *f)
{
    struct wanted *w = ctx;
    tool_progress_end(w->tool);
    return w->findings ? tool_add_finding(w->findings, f) : tool_print_finding(f);
}

static void print_made(struct wanted *w, const struct lladd_backup_info *info)
{
    if (w->findings) {
        json_t *made = tool_json_backup(info);
        json_object_set(made, "findings", w->findings);
        json_object_set_new(made, "lost_pages", tool_json_u64(info->lost_pages));
        json_object_set_new(made, "compared", json_boolean(info->compared));
        tool_json_print(made, true);
        return;
    }
    tool_print_backup(info);
    if (info->lost_pages)
        printf("  the disk has lost writes of %" PRIu64 " pages\n", info->lost_pages);
}

/* Another process has the lock of the database. If it only inspects the database, `err` stays as it
 * is. */
static int backup_outside(struct tool *t, const struct wanted *w, struct lladd_store *store,
                          const struct lladd_backup_options *o, struct lladd_backup_info *info,
                          struct lladd_error *err)
{
    struct lladd_outside_options outside = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_device *disk;
    int64_t owner;
    int rc = lladd_device_posix(t->dir, false, &disk, err);
    if (rc)
        return rc;
    outside.backup = o;
    outside.wait_ns = w->wait * 1000000000;
    rc = disk->ops->holder(disk, "lock", &owner) == 0
             ? LLADD_LOCKED
             : lladd_backup_outside(disk, store, &outside, info, err);
    lladd_device_close(disk);
    return rc;
}

static int backup(struct tool *t, struct wanted *w, const char *url)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    struct lladd_db *db;
    int rc = tool_store_beside(t, url, &store, &err);
    if (rc)
        return tool_error(t, &err);
    o.label = w->label;
    o.bytes_per_second = w->rate;
    o.threads = (uint32_t)t->threads;
    o.progress = show;
    o.progress_ctx = t;
    o.finding = tell;
    o.finding_ctx = w;
    w->findings = t->json ? json_array() : NULL;
    rc = tool_open(t, &db, &err);
    if (rc == LLADD_LOCKED) {
        rc = backup_outside(t, w, store, &o, &info, &err);
    } else if (!rc) {
        rc = lladd_backup(db, store, &o, &info, &err);
        int late = lladd_close(db);
        if (!rc && late)
            rc = lladd_error_set(&err, late, "the database could not be closed cleanly");
    }
    tool_progress_end(t);
    lladd_store_close(store);
    if (!rc)
        print_made(w, &info);
    json_decref(w->findings);
    if (rc)
        return tool_error(t, &err);
    return info.damaged_pages || info.lost_pages ? TOOL_FINDINGS : TOOL_FINE;
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
        json_array_append_new(all, tool_json_backup(info));
    else
        tool_print_backup(info);
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

int tool_see_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    char when[48], gid[TOOL_GID_MAX];
    json_t *list = ctx;
    tool_time(info->prepared_us, when);
    if (list)
        return json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "gid",
                                                     tool_json_gid(&info->gid), "prepared_us",
                                                     json_integer(info->prepared_us), "owner",
                                                     tool_json_text(info->owner)));
    printf("in doubt: %s, prepared %s%s%s\n", tool_gid(&info->gid, gid), when,
           info->owner[0] ? ", owner " : "", info->owner);
    return 0;
}

static int restore(struct tool *t, const struct wanted *w, struct lladd_store *store,
                   struct lladd_error *err)
{
    struct lladd_restore_options o = tool_restore_options(t);
    struct lladd_backup_info info = {.struct_size = sizeof info};
    json_t *doubt = t->json ? json_array() : NULL;
    struct lladd_device *disk;
    int rc = lladd_device_posix(t->argv[0], true, &disk, err);
    if (rc) {
        json_decref(doubt);
        return rc;
    }
    o.bytes_per_second = w->rate;
    o.threads = (uint32_t)t->threads;
    o.progress = show;
    o.progress_ctx = t;
    o.in_doubt = tool_see_doubt;
    o.in_doubt_ctx = doubt;
    rc = lladd_restore(store, &o, disk, &info, err);
    tool_progress_end(t);
    lladd_device_close(disk);
    if (!rc && t->json) {
        json_t *made = tool_json_backup(&info);
        json_object_set(made, "in_doubt", doubt);
        tool_json_print(made, true);
    } else if (!rc) {
        tool_print_backup(&info);
    }
    json_decref(doubt);
    return rc;
}

/* What is wrong with the command line; NULL: nothing. */
static const char *misused(const struct tool *t, const struct wanted *w)
{
    bool page = w->page != LLADD_NO_PAGE;
    return w->list && (page || t->argc != 0) ? "--list takes a store and no directory"
           : w->out && !page                 ? "--out needs --page"
           : w->out && t->argc != 0          ? "--out takes a store and no directory"
           : !w->list && !w->out && t->argc != 1 ? "expected a store and a directory"
           : page && !w->out && t->target.given
               ? "a page is restored to its newest state; --to, --base, --timeline and "
                 "--expect-lsn need --out"
               : NULL;
}

int tool_restore(int argc, char **argv)
{
    struct tool t = {.verb = "restore",
                     .usage = restore_usage,
                     .more = 1,
                     .restores = true};
    struct wanted w = {.tool = &t, .page = LLADD_NO_PAGE};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    int code;
    if (tool_parse(&t, argc, argv, restore_options, take, &w, 0, &code))
        return tool_end(&t, code);
    const char *why = misused(&t, &w);
    if (why)
        return tool_end(&t, tool_fail(&t, "%s", why));
    if (w.page != LLADD_NO_PAGE)
        return tool_restore_page(&t, w.page, w.out);
    int rc = tool_store_open(&t, t.dir, &store, &err);
    if (!rc) {
        rc = w.list ? list(&t, store, &err) : restore(&t, &w, store, &err);
        lladd_store_close(store);
    }
    return tool_end(&t, rc ? tool_failed(&t, &err) : TOOL_FINE);
}
