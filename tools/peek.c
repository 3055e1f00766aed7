/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a database and recovers it in memory. No file of the database is changed: all writes stay
 * in memory, or in unnamed files if there is not enough memory (lladd_device_overlay_bounded).
 *
 * A database that is in use is refused, because its files may change while they are read. A shared
 * lock on the database's lock file keeps other processes from opening the database meanwhile;
 * several tools may hold the shared lock together.
 *
 * With --from the files are read from a store, as they were at the target; nothing is restored. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lladd/device.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes the shared lock. Returns -1 if the lock cannot be taken, for example if the lock file does
 * not exist, or if a process has the database open. For an open database the following lladd_open
 * returns an error that names the process. */
static int hold_off(const char *dir)
{
    char path[4096];
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int n = snprintf(path, sizeof path, "%s/lock", dir);
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        (void)close(fd); /* the file was only read */
        fd = -1;
    }
    return fd;
}

/* Warns that changes of transactions in doubt are visible although their outcome is unknown. */
static void warn(const struct tool *t, struct lladd_db *db)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    if (lladd_stats_get(db, &s) == 0 && s.in_doubt)
        fprintf(stderr, "lladd %s: the changes of %" PRIu64 " transaction%s in doubt are visible\n",
                t->verb, s.in_doubt, s.in_doubt == 1 ? "" : "s");
}

int tool_peek(struct tool *t, struct tool_peek *p, struct lladd_error *err)
{
    struct lladd_device *stored;
    *p = (struct tool_peek){.lock = -1};
    int rc = tool_stored(t, &stored, err);
    if (!rc && !stored)
        rc = lladd_device_posix(t->dir, false, &p->disk, err);
    if (rc)
        return rc;
    if (!stored)
        p->lock = hold_off(t->dir);
    const char *dir = getenv("TMPDIR");
    rc = lladd_device_overlay_bounded(stored ? stored : p->disk, t->memory / 4,
                                      dir && *dir ? dir : "/var/tmp", &p->overlay);
    if (rc) {
        lladd_error_set(err, rc, "no overlay of the files: %s", lladd_code_text(rc));
    } else {
        struct lladd_options o = t->options;
        o.cache_bytes = t->memory / 4;
        o.recovery_bytes = t->memory / 8;
        /* Without threads the shares of redo run one after the other, and each reads the log. */
        o.redo_threads = 1;
        o.device = p->overlay;
        o.flags = LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS;
        if (stored) /* only the pages that are looked at are redone */
            o.recovery = LLADD_RECOVER_INSTANT;
        rc = lladd_open(t->dir, &o, &p->db, err);
    }
    if (rc) {
        tool_blame_store(t, err);
        tool_peek_end(p);
    } else {
        warn(t, p->db);
    }
    return rc;
}

int tool_peek_damaged(struct tool *t, struct tool_peek *p, struct lladd_error *err)
{
    int rc = tool_peek(t, p, err);
    if (lladd_code_root(rc) != LLADD_ROOT_DATA)
        return rc;
    t->options.recovery = LLADD_RECOVER_INSTANT;
    return tool_peek(t, p, err);
}

void tool_peek_end(struct tool_peek *p)
{
    if (p->db)
        lladd_db_kill(p->db);
    lladd_device_close(p->overlay);
    lladd_device_close(p->disk);
    if (p->lock >= 0)
        (void)close(p->lock); /* the file was only read */
    *p = (struct tool_peek){.lock = -1};
}
