/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores; targets in a store: the options --from, --base, --to, --timeline and --expect-lsn, and
 * the device that shows the database at a target. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

bool tool_time_of(const char *what, const char *value, int64_t *out)
{
    struct tm tm = {0};
    char separator;
    int64_t fraction = 0;
    const char *rest = strptime(value, "%Y-%m-%d", &tm);
    separator = rest ? *rest : 0;
    if (separator == 'T' || separator == ' ')
        rest = strptime(rest + 1, "%H:%M:%S", &tm);
    else
        rest = NULL;
    if (rest && *rest == '.') {
        int64_t unit = 100000;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            fraction += (*rest - '0') * unit;
    }
    if (!rest || (*rest && strcmp(rest, "Z") != 0)) {
        fprintf(stderr, "lladd: %s: \"%s\" is not a time like 2026-11-20T10:44:12 (UTC)\n", what,
                value);
        return false;
    }
    *out = (int64_t)timegm(&tm) * 1000000 + fraction;
    return true;
}

static bool take_to(struct tool *t, const char *value)
{
    uint64_t lsn;
    struct lladd_restore_target *to = &t->target.to;
    uint32_t timeline = to->timeline;
    *to = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    to->timeline = timeline;
    if (strcmp(value, "base") == 0) {
        to->kind = LLADD_TO_BASE;
        return true;
    }
    if (strcmp(value, "end") == 0) {
        to->kind = LLADD_TO_END;
        return true;
    }
    if (strncmp(value, "mark:", 5) == 0) {
        to->kind = LLADD_TO_MARK;
        to->mark = value + 5;
        return true;
    }
    if (strchr(value, '-')) {
        to->kind = LLADD_TO_TIME;
        return tool_time_of("--to", value, &to->time_us);
    }
    if (!tool_number_in("--to", strncmp(value, "lsn:", 4) == 0 ? value + 4 : value, 1, UINT64_MAX,
                        &lsn))
        return false;
    to->kind = LLADD_TO_LSN;
    to->lsn = lladd_lsn_of(lsn);
    return true;
}

bool tool_take_target(struct tool *t, int option, const char *value)
{
    uint64_t timeline, lsn;
    t->target.given = true;
    if (option == TOOL_BASE) {
        t->target.base = value;
        return true;
    }
    if (option == TOOL_TO)
        return take_to(t, value);
    if (option == TOOL_EXPECT) {
        bool ok = tool_number_in("--expect-lsn", value, 1, UINT64_MAX, &lsn);
        t->target.expected = lladd_lsn_of(ok ? lsn : 0);
        return ok;
    }
    if (!tool_number_in("--timeline", value, 1, UINT32_MAX, &timeline))
        return false;
    t->target.to.timeline = (uint32_t)timeline;
    return true;
}

struct lladd_restore_options tool_restore_options(struct tool *t)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    o.base = t->target.base;
    o.target = &t->target.to;
    o.expected = t->target.expected;
    return o;
}

int tool_store_open(const struct tool *t, const char *url, struct lladd_store **out,
                    struct lladd_error *err)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    o.s3 = &t->s3;
    return lladd_store_open(url, &o, out, err);
}

/* The absolute path of the directory, or of the lowest one above it that exists. NULL: there is
 * none, or no memory. The caller frees it. */
static char *lowest(const char *path)
{
    char *above = strdup(path), *found = NULL;
    while (above && (found = realpath(*above ? above : ".", NULL)) == NULL && *above) {
        char *slash = strrchr(above, '/');
        char *end = slash == above ? above + 1 : slash ? slash : above;
        *end = 0;
    }
    free(above);
    return found;
}

static bool is_inside(const char *path, const char *dir)
{
    char *outer = realpath(dir, NULL), *inner = lowest(path);
    size_t len = outer ? strlen(outer) : 0;
    bool inside = outer && inner && strncmp(inner, outer, len) == 0 &&
                  (inner[len] == 0 || inner[len] == '/');
    free(outer);
    free(inner);
    return inside;
}

int tool_store_beside(const struct tool *t, const char *url, struct lladd_store **out,
                      struct lladd_error *err)
{
    if (strncmp(url, "dir:", 4) == 0 && is_inside(url + 4, t->dir))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the store \"%.150s\" is inside the directory of the database", url);
    return tool_store_open(t, url, out, err);
}

int tool_stored(struct tool *t, struct lladd_device **out, struct lladd_error *err)
{
    int rc = 0;
    if (t->from && !t->store)
        rc = tool_store_open(t, t->from, &t->store, err);
    if (!rc && t->from && !t->stored) {
        struct lladd_restore_options o = tool_restore_options(t);
        rc = lladd_store_device(t->store, &o, &t->stored, err);
    }
    *out = t->stored;
    return rc;
}

void tool_blame_store(const struct tool *t, struct lladd_error *err)
{
    if (t->stored && err->code && lladd_code_root(err->code) != LLADD_ROOT_MISUSE)
        (void)lladd_store_device_error(t->stored, err); /* leaves err if the store had no error */
}

void tool_stored_close(struct tool *t)
{
    lladd_store_device_close(t->stored);
    lladd_store_close(t->store);
    t->stored = NULL;
    t->store = NULL;
}
