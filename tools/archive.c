/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd archive: lists what a store has, checks, expires and rolls it (archive_check.c); stores the
 * log of a database that no process has open, takes its archive over, and ends it. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/ship.h>
#include <string.h>

static const char usage[] =
    "usage: lladd archive list [options] [--json] STORE\n"
    "       lladd archive check [--base NAME] [--rate BYTES] [--threads N] [--memory BYTES]\n"
    "                           [--json] [--ops FILE.so] STORE\n"
    "       lladd archive expire [--keep N] [--keep-since TIME] [--dry-run] [--json] STORE\n"
    "       lladd archive roll [--base NAME] [--timeline N] [--label TEXT] [--rate BYTES]\n"
    "                          [--threads N] [--memory BYTES] [--json] [--ops FILE.so] STORE\n"
    "       lladd archive push [options] [--json] DIRECTORY STORE\n"
    "       lladd archive adopt [options] [--json] DIRECTORY STORE\n"
    "       lladd archive detach [--json] [--ops FILE.so] DIRECTORY\n"
    "\n"
    "The archive of a log.\n"
    "\n"
    "  list     shows the complete backups in the store, and for each timeline where it left its\n"
    "           parent, the LSNs that can be restored, gaps in the stored log, and named marks.\n"
    "           Of each stored segment of the log only the header is read; \"lladd verify --from\n"
    "           STORE --to end\" reads the log, too. A line \"damaged: ...\" names a damaged\n"
    "           manifest\n"
    "  check    proves that the last backup, or the backup of --base, can be restored: reads each\n"
    "           object of the backup and of the archived log above it; then restores the\n"
    "           database in memory up to the end of that log, and verifies each page, record\n"
    "           and structure. Names each object that is damaged or missing. Writes nothing\n"
    "  expire   deletes backups, and the archived log that no kept backup needs. The last backup\n"
    "           stays. Prints each object that is deleted with --json, or with --dry-run\n"
    "  roll     makes a new backup out of the last one and the archived log above it, without\n"
    "           the database. Makes none if there is no log above the last backup\n"
    "  push     stores the log that is not in the store yet, up to its end. Needs only the\n"
    "           control block and the log, so it works even if the page file is lost. Changes\n"
    "           nothing in DIRECTORY. No process may have the database open\n"
    "  adopt    if the archive of the database is refused (LLADD_DIVERGED), because another copy\n"
    "           has claimed the store, or the file files/ship/claim is lost: gives the database\n"
    "           a timeline of its own, and lists its transactions in doubt. The other copy goes\n"
    "           on with the old timeline. Then stores the log, as \"push\" does. No process may\n"
    "           have the database open\n"
    "  detach   opens the database, and ends its archive for good: from then on the log is\n"
    "           truncated although it is not stored\n"
    "\n"
    "  --base NAME      check: the backup to check; roll: the backup to begin with\n"
    "  --timeline N     roll: takes the log of this timeline\n"
    "  --label TEXT     roll: a line of text for \"lladd restore --list\"\n"
    "  --keep N         expire: keeps the N backups that ended last\n"
    "  --keep-since TIME  expire: keeps everything that is needed to restore each state since\n"
    "                   this time (UTC), for example 2026-11-20T10:44:12. With both --keep and\n"
    "                   --keep-since, expire deletes only what neither of the two keeps\n"
    "  --dry-run        expire: deletes nothing\n"
    "  --rate BYTES     reads at most BYTES bytes a second\n"
    "  --threads N      check: N threads check the objects of the backup; roll: N threads read\n"
    "                   and compress pages (1)\n"
    "  --memory BYTES   limit of the memory for the restored database, as for \"lladd verify\"\n"
    "\n" TOOL_STORE_HELP "\n"
    "Exit status: 0; 1 if the log has gaps, or the log or the store is damaged, or the database\n"
    "needs a new backup after \"adopt\"; 2 if nothing was done for another reason; 3 if \"check\"\n"
    "has found no damage, but could not check every structure.\n";

enum { RATE = TOOL_OWN, KEEP, KEEP_SINCE, DRY_RUN, LABEL };

static const struct option options[] = {TOOL_COMMON, TOOL_STORE, {NULL, 0, NULL, 0}};
static const struct option check_options[] = {TOOL_COMMON,
                                              TOOL_STORE,
                                              TOOL_BOUNDED,
                                              TOOL_THREADS,
                                              {"base", required_argument, NULL, TOOL_BASE},
                                              {"rate", required_argument, NULL, RATE},
                                              {NULL, 0, NULL, 0}};

static const struct option expire_options[] = {TOOL_COMMON,
                                               TOOL_STORE,
                                               {"keep", required_argument, NULL, KEEP},
                                               {"keep-since", required_argument, NULL, KEEP_SINCE},
                                               {"dry-run", no_argument, NULL, DRY_RUN},
                                               {NULL, 0, NULL, 0}};

static const struct option roll_options[] = {TOOL_COMMON,
                                             TOOL_STORE,
                                             TOOL_BOUNDED,
                                             TOOL_THREADS,
                                             {"base", required_argument, NULL, TOOL_BASE},
                                             {"timeline", required_argument, NULL, TOOL_TIMELINE},
                                             {"label", required_argument, NULL, LABEL},
                                             {"rate", required_argument, NULL, RATE},
                                             {NULL, 0, NULL, 0}};

struct wanted {
    uint64_t rate;
    const char *label;
    struct lladd_keep keep;
};

/* ---- list ------------------------------------------------------------------------------------ */

struct listing {
    json_t *backups, *timelines; /* NULL: text */
    json_t *timeline;            /* the items that follow belong to this timeline */
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

/* `damage`: a message; NULL: nothing is damaged. */
static void print_list(const struct tool *t, const struct listing *l, const char *damage)
{
    if (!t->json && damage)
        printf("damaged: %s\n", damage);
    if (!t->json)
        return;
    json_t *all = json_pack("{s:O, s:O}", "backups", l->backups, "timelines", l->timelines);
    if (damage)
        json_object_set_new(all, "damaged", tool_json_text(damage));
    tool_json_print(all, true);
}

static int list_store(struct tool *t, struct lladd_store *store)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct listing l = {.backups = t->json ? json_array() : NULL,
                        .timelines = t->json ? json_array() : NULL};
    /* A damaged manifest is told after everything else. */
    int rc = lladd_backup_each(store, NULL, see_backup, &l, &err);
    bool damaged = rc == LLADD_CORRUPT_BACKUP;
    if (!rc || damaged)
        rc = lladd_archive_each(store, NULL, see_item, &l, &err);
    rc = damaged && rc == LLADD_CORRUPT_BACKUP ? 0 : rc;
    if (!rc)
        print_list(t, &l, damaged ? err.message : NULL);
    json_decref(l.backups);
    json_decref(l.timelines);
    if (rc)
        return tool_failed(t, &err);
    return l.gap || damaged ? TOOL_FINDINGS : TOOL_FINE;
}

static int list(struct tool *t, const struct wanted *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    (void)w;
    if (tool_store_open(t, t->dir, &store, &err))
        return tool_error(t, &err);
    int code = list_store(t, store);
    lladd_store_close(store);
    return code;
}

/* ---- push, adopt, detach --------------------------------------------------------------------- */

static int take(void *ctx, int option, const char *value)
{
    struct wanted *w = ctx;
    bool ok = option == RATE   ? tool_number_in("--rate", value, 1, UINT64_MAX, &w->rate)
              : option == KEEP ? tool_number_in("--keep", value, 1, UINT64_MAX, &w->keep.backups)
              : option == KEEP_SINCE ? tool_time_of("--keep-since", value, &w->keep.since_us)
                                     : option == DRY_RUN || option == LABEL;
    w->label = option == LABEL ? value : w->label;
    w->keep.dry_run = w->keep.dry_run || option == DRY_RUN;
    return ok ? 0 : -1;
}

static json_t *json_of(const struct lladd_archive_status *s)
{
    json_t *j = json_pack("{s:o, s:o, s:o, s:b}", "stored", tool_json_u64(s->stored.v), "objects",
                          tool_json_u64(s->objects), "stored_bytes", tool_json_u64(s->stored_bytes),
                          "gap", (int)s->gap);
    if (s->gap) {
        json_object_set_new(j, "gap_from", tool_json_u64(s->gap_from.v));
        json_object_set_new(j, "gap_to", tool_json_u64(s->gap_to.v));
    }
    return j;
}

static int push(struct tool *t, const struct wanted *w)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store;
    struct lladd_device *disk;
    char bytes[24];
    (void)w;
    int rc = lladd_device_posix(t->dir, false, &disk, &err);
    if (rc)
        return tool_error(t, &err);
    rc = tool_store_beside(t, t->argv[0], &store, &err);
    if (!rc) {
        rc = lladd_archive_push(disk, store, NULL, &s, &err);
        lladd_store_close(store);
    }
    lladd_device_close(disk);
    if (rc)
        return tool_failed(t, &err);
    if (t->json) {
        tool_json_print(json_of(&s), true);
    } else {
        printf("stored up to LSN %" PRIu64 ", %" PRIu64 " objects, %s\n", s.stored.v, s.objects,
               tool_bytes(s.stored_bytes, bytes));
        if (s.gap)
            printf("the log from LSN %" PRIu64 " to %" PRIu64 " is not in the archive\n",
                   s.gap_from.v, s.gap_to.v);
    }
    return s.gap ? TOOL_FINDINGS : TOOL_FINE;
}

static void print_adopted(const struct tool *t, const struct lladd_adopt_info *i, json_t *doubt)
{
    if (t->json) {
        tool_json_print(json_pack("{s:b, s:o, s:o, s:o, s:o, s:b, s:O}", "adopted",
                                  (int)i->adopted, "timeline", tool_json_u64(i->timeline),
                                  "parent", tool_json_u64(i->parent), "fork",
                                  tool_json_u64(i->fork.v), "stored", tool_json_u64(i->stored.v),
                                  "needs_backup", (int)i->needs_backup, "in_doubt", doubt),
                        true);
        return;
    }
    if (!i->adopted)
        printf("the archive is not refused: nothing was adopted\n");
    printf("timeline %" PRIu32, i->timeline);
    if (i->timeline)
        printf(": left timeline %" PRIu32 " at LSN %" PRIu64, i->parent, i->fork.v);
    printf(", stored up to LSN %" PRIu64 "\n", i->stored.v);
    if (i->needs_backup)
        printf("no backup and log in the store reach that LSN: make a new backup\n");
}

static int adopt_disk(struct tool *t, struct lladd_device *disk, json_t *doubt,
                      struct lladd_error *err)
{
    struct lladd_adopt_options o = LLADD_ADOPT_OPTIONS_INIT;
    struct lladd_adopt_info info = {.struct_size = sizeof info};
    struct lladd_store *store;
    int rc = tool_store_open(t, t->argv[0], &store, err);
    if (rc)
        return tool_failed(t, err);
    o.in_doubt = tool_see_doubt;
    o.in_doubt_ctx = doubt;
    rc = lladd_archive_adopt(disk, store, &o, &info, err);
    lladd_store_close(store);
    if (rc)
        return tool_failed(t, err);
    print_adopted(t, &info, doubt);
    return info.needs_backup ? TOOL_FINDINGS : TOOL_FINE;
}

static int adopt(struct tool *t, const struct wanted *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_device *disk;
    (void)w;
    if (lladd_device_posix(t->dir, false, &disk, &err))
        return tool_error(t, &err);
    json_t *doubt = t->json ? json_array() : NULL;
    int code = adopt_disk(t, disk, doubt, &err);
    json_decref(doubt);
    lladd_device_close(disk);
    return code;
}

static int detach(struct tool *t, const struct wanted *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *view;
    struct lladd_db *db;
    char pin[64];
    (void)w;
    int code = tool_inspect(t, &view);
    if (code)
        return code;
    (void)snprintf(pin, sizeof pin, "lladd.archive.%" PRIu64, tool_info(view).incarnation >> 32);
    lladd_inspect_close(view);
    int rc = tool_open(t, &db, &err);
    if (!rc) {
        rc = lladd_pin_clear(db, pin, &err);
        int late = lladd_close(db);
        if (!rc && late)
            rc = lladd_error_set(&err, late, "the database could not be closed cleanly");
    }
    if (rc == LLADD_NOT_FOUND)
        return tool_fail(t, "no archive is attached");
    if (rc)
        return tool_failed(t, &err);
    if (t->json)
        tool_json_print(json_pack("{s:s}", "detached", pin), true);
    else
        printf("detached: the pin \"%s\" is removed\n", pin);
    return TOOL_FINE;
}

struct deleting {
    json_t *list; /* with --json; else NULL */
    bool print;
};

static int see_deleted(void *ctx, const struct lladd_finding *f)
{
    struct deleting *d = ctx;
    if (d->list)
        return json_array_append_new(d->list, tool_json_text(f->file));
    if (d->print)
        printf("%s\n", f->file);
    return 0;
}

static void print_expired(const struct lladd_expire_info *i, bool dry)
{
    char bytes[24];
    printf("%s%" PRIu64 " backup%s of %" PRIu64 ", log below LSN %" PRIu64 ": %" PRIu64
           " objects, %s\n",
           dry ? "would delete " : "deleted ", i->expired, i->expired == 1 ? "" : "s",
           i->expired + i->kept, i->log_from.v, i->objects, tool_bytes(i->bytes, bytes));
}

static int expire(struct tool *t, const struct wanted *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_expire_info info = {.struct_size = sizeof info};
    struct deleting d = {.list = t->json ? json_array() : NULL, .print = w->keep.dry_run};
    if (!w->keep.backups && !w->keep.since_us)
        return tool_fail(t, "expected --keep or --keep-since");
    int rc = tool_store_open(t, t->dir, &t->store, &err);
    if (!rc)
        rc = lladd_archive_expire(t->store, &w->keep, see_deleted, &d, &info, &err);
    if (!rc && t->json)
        tool_json_print(json_pack("{s:O, s:b, s:o, s:o, s:o, s:o, s:o}", "deleted", d.list,
                                  "dry_run", (int)w->keep.dry_run, "kept", tool_json_u64(info.kept),
                                  "expired", tool_json_u64(info.expired), "objects",
                                  tool_json_u64(info.objects), "bytes", tool_json_u64(info.bytes),
                                  "log_from", tool_json_u64(info.log_from.v)),
                        true);
    else if (!rc)
        print_expired(&info, w->keep.dry_run);
    json_decref(d.list);
    return rc ? tool_failed(t, &err) : TOOL_FINE;
}

static int check(struct tool *t, const struct wanted *w)
{
    return tool_archive_check(t, w->rate);
}

static int roll(struct tool *t, const struct wanted *w)
{
    return tool_archive_roll(t, w->rate, w->label);
}

static const struct action {
    const char *name, *full;
    int (*run)(struct tool *, const struct wanted *);
    const struct option *options;
    int wanted;
} actions[] = {
    {"list", "archive list", list, options, 0},
    {"check", "archive check", check, check_options, 0},
    {"expire", "archive expire", expire, expire_options, 0},
    {"roll", "archive roll", roll, roll_options, 0},
    {"push", "archive push", push, options, 1},
    {"adopt", "archive adopt", adopt, options, 1},
    {"detach", "archive detach", detach, options, 0},
};
#define ACTIONS "list, check, expire, roll, push, adopt or detach"

int tool_archive(int argc, char **argv)
{
    struct tool t = {.verb = "archive", .usage = usage, .restores = true};
    struct wanted w = {.keep = LLADD_KEEP_INIT};
    const char *what = argc > 1 ? argv[1] : "";
    const struct action *a = NULL;
    int code;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(what, actions[i].name) == 0)
            a = &actions[i];
    if (!a && *what != '-')
        return tool_fail(&t, "expected " ACTIONS ", not \"%s\"", what);
    if (a)
        t.verb = a->full;
    if (tool_parse(&t, a ? argc - 1 : argc, a ? argv + 1 : argv, a ? a->options : options, take, &w,
                   a ? a->wanted : 0, &code))
        return tool_end(&t, code);
    return tool_end(&t, a ? a->run(&t, &w) : tool_fail(&t, "expected " ACTIONS));
}
