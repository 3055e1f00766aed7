/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd archive check: proves that a backup can be restored. The structures of the database that is
 * restored in memory are checked as by `lladd verify`. lladd archive roll: makes a backup out of
 * another one and the archived log. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/ship.h>
#include <stdlib.h>
#include <time.h>

struct job {
    struct tool *tool;
    json_t *list; /* with --json; else NULL */
    struct tool_structures structures;
    bool looked;             /* the structures were checked */
    struct lladd_error error; /* from the check of the structures */
};

static int show(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    struct job *j = ctx;
    tool_progress(j->tool, what, done, all);
    return 0;
}

static int tell(void *ctx, const struct lladd_finding *f)
{
    struct job *j = ctx;
    tool_progress_end(j->tool);
    return j->list ? tool_add_finding(j->list, f) : tool_print_finding(f);
}

static int look(void *ctx, struct lladd_db *db)
{
    struct job *j = ctx;
    int rc = tool_structures_check(j->tool, db, tell, j, &j->structures, &j->error);
    j->looked = rc == 0;
    return rc;
}

static void print(struct job *j, const struct lladd_check_info *i)
{
    char bytes[24];
    printf(*i->name ? "backup %s: " : "no backup can be read%s: ", i->name);
    if (i->restored.v)
        printf("restored in memory up to LSN %" PRIu64 ", %" PRIu64 " pages, %" PRIu64 " records\n",
               i->restored.v, i->pages, i->records);
    else
        printf("damaged\n");
    printf("read: %" PRIu64 " objects, %s\n", i->objects, tool_bytes(i->bytes, bytes));
    if (j->looked)
        tool_print_structures(&j->structures);
    if (i->damage + i->repair + j->structures.damage + j->structures.leaked == 0)
        printf("no damage\n");
}

static void print_json(struct job *j, const struct lladd_check_info *i)
{
    json_t *o = json_pack("{s:O, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                          "findings", j->list, "backup", tool_json_text(i->name), "timeline",
                          tool_json_u64(i->timeline), "end", tool_json_u64(i->end.v), "restored",
                          tool_json_u64(i->restored.v), "objects", tool_json_u64(i->objects),
                          "bytes", tool_json_u64(i->bytes), "pages", tool_json_u64(i->pages),
                          "records", tool_json_u64(i->records), "damage",
                          tool_json_u64(i->damage + j->structures.damage), "repair",
                          tool_json_u64(i->repair), "leaked_pages",
                          tool_json_u64(j->structures.leaked));
    if (j->looked)
        json_object_set_new(o, "structures", tool_json_structures(&j->structures));
    tool_json_print(o, true);
}

/* The directory for writes of the restored database that do not fit into memory. */
static const char *spill_dir(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/var/tmp";
}

static void set_memory(struct tool *t)
{
    t->options.cache_bytes = t->memory / 4;
    t->options.recovery_bytes = t->memory / 8;
    t->options.flags = LLADD_OPT_NO_THREADS;
}

static int check(struct job *j, uint64_t rate)
{
    struct tool *t = j->tool;
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    struct lladd_error err = LLADD_ERROR_INIT;
    set_memory(t);
    o.base = t->target.base;
    o.bytes_per_second = rate;
    o.threads = (uint32_t)t->threads;
    o.finding = tell;
    o.progress = show;
    o.opened = look;
    o.finding_ctx = o.progress_ctx = o.opened_ctx = j;
    o.database = &t->options;
    o.memory_bytes = t->memory / 4;
    o.spill_dir = spill_dir();
    int rc = tool_store_open(t, t->dir, &t->store, &err);
    if (!rc)
        rc = lladd_archive_check(t->store, &o, &info, &err);
    tool_progress_end(t);
    if (rc)
        return tool_failed(t, j->error.code ? &j->error : &err);
    if (j->list)
        print_json(j, &info);
    else
        print(j, &info);
    const struct tool_structures *s = &j->structures;
    return info.damage + info.repair + s->damage + s->leaked ? TOOL_FINDINGS
           : !j->looked || s->unchecked                      ? TOOL_UNCHECKED
                                                             : TOOL_FINE;
}

int tool_archive_check(struct tool *t, uint64_t rate)
{
    struct job j = {.tool = t, .list = t->json ? json_array() : NULL, .error = LLADD_ERROR_INIT};
    int code = check(&j, rate);
    json_decref(j.list);
    json_decref(j.structures.extended);
    return code;
}

int tool_archive_roll(struct tool *t, uint64_t rate, const char *label)
{
    struct lladd_roll_options o = LLADD_ROLL_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct job j = {.tool = t};
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* this clock always exists */
    int64_t began = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    set_memory(t);
    o.base = t->target.base;
    o.timeline = t->target.to.timeline;
    o.label = label;
    o.bytes_per_second = rate;
    o.threads = (uint32_t)t->threads;
    o.progress = show;
    o.progress_ctx = &j;
    o.database = &t->options;
    o.memory_bytes = t->memory / 4;
    o.spill_dir = spill_dir();
    int rc = tool_store_open(t, t->dir, &t->store, &err);
    if (!rc)
        rc = lladd_archive_roll(t->store, &o, &info, &err);
    tool_progress_end(t);
    if (rc)
        return tool_failed(t, &err);
    if (!t->json && info.begun_us < began)
        printf("no log above the last backup:\n");
    if (t->json)
        tool_json_print(tool_json_backup(&info), true);
    else
        tool_print_backup(&info);
    return info.damaged_pages ? TOOL_FINDINGS : TOOL_FINE;
}
