/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults: the kinds of faults, and how they are injected.
 *
 * A fault counts the calls that it can hit, and hits the n-th of them. If the fault lasts for ever,
 * it also hits all later ones. For O8 (errors.c) it also notes whether LOG-4 applies to the call
 * that was hit, and whether a failed sync was repeated without a write in between.
 *
 * A write that fails has written nothing, one byte, one sector, all but one byte, or all bytes,
 * depending on the kind of fault. Such a write can tear a sector of any file. A crash can tear a
 * sector only in the log (unit.c).
 */
#include "sim/errors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- kinds of faults --------------------------------------------------------------------- */

#define CALL(kind) (1u << LL_SIM_##kind)
#define NAMES (CALL(CREATE) | CALL(MKDIR) | CALL(RENAME) | CALL(UNLINK))
#define CHANGES (NAMES | CALL(WRITE) | CALL(APPEND) | CALL(TRUNCATE))
#define WRITES (CALL(WRITE) | CALL(APPEND))
#define ALL_CALLS (UINT32_MAX & ~CALL(CLOSE))

static const struct {
    uint32_t calls;
    uint8_t flags;
    int result; /* negative errno or enum ll_sim_sync_effect; 0: not used */
} kinds[LLADD_SIM_FAULTS] = {
    [LLADD_SIM_FAULT_OPEN] = {CALL(OPEN), 0, -EIO},
    [LLADD_SIM_FAULT_CREATE] = {CALL(CREATE), 0, -EIO},
    [LLADD_SIM_FAULT_READ] = {CALL(READ), 0, -EIO},
    [LLADD_SIM_FAULT_WRITE] = {CALL(WRITE), 0, -EIO},
    [LLADD_SIM_FAULT_WRITE_BYTE] = {WRITES, LL_SIM_FAULT_ONCE, -EIO},
    [LLADD_SIM_FAULT_WRITE_SECTOR] = {WRITES, LL_SIM_FAULT_ONCE, -EIO},
    [LLADD_SIM_FAULT_WRITE_BUT_ONE] = {WRITES, LL_SIM_FAULT_ONCE, -EIO},
    [LLADD_SIM_FAULT_WRITE_ALL] = {WRITES, LL_SIM_FAULT_ONCE, -EIO},
    [LLADD_SIM_FAULT_APPEND] = {CALL(APPEND), 0, -EIO},
    [LLADD_SIM_FAULT_SYNC] = {CALL(SYNC), 0, -EIO},
    [LLADD_SIM_FAULT_SYNC_LOST] = {CALL(SYNC), 0, LL_SIM_SYNC_FAILS_LOST},
    [LLADD_SIM_FAULT_SYNC_REVERTED] = {CALL(SYNC), 0, LL_SIM_SYNC_FAILS_REVERTED},
    [LLADD_SIM_FAULT_SYNC_LATE] = {CALL(SYNC), LL_SIM_FAULT_ONCE | LL_SIM_FAULT_LIE,
                                   LL_SIM_SYNC_LIES},
    [LLADD_SIM_FAULT_SYNC_ELSEWHERE] = {CALL(SYNC), LL_SIM_FAULT_ONCE | LL_SIM_FAULT_LIE,
                                        LL_SIM_SYNC_LIES},
    [LLADD_SIM_FAULT_TRUNCATE] = {CALL(TRUNCATE), 0, -EIO},
    [LLADD_SIM_FAULT_RENAME] = {CALL(RENAME), 0, -EIO},
    [LLADD_SIM_FAULT_UNLINK] = {CALL(UNLINK), 0, -EIO},
    [LLADD_SIM_FAULT_SYNC_DIR] = {CALL(SYNC_DIR), 0, -EIO},
    [LLADD_SIM_FAULT_MKDIR] = {CALL(MKDIR), 0, -EIO},
    [LLADD_SIM_FAULT_LIST] = {CALL(LIST), 0, -EIO},
    [LLADD_SIM_FAULT_LOCK] = {CALL(LOCK), 0, -EIO},
    [LLADD_SIM_FAULT_SIZE] = {CALL(SIZE), 0, -EIO},
    [LLADD_SIM_FAULT_CLOSE] = {CALL(CLOSE), 0, -EIO},
    [LLADD_SIM_FAULT_SPACE] = {CHANGES & ~CALL(UNLINK), LL_SIM_FAULT_RESOURCE, -ENOSPC},
    [LLADD_SIM_FAULT_FILES] = {CALL(OPEN) | CALL(CREATE) | CALL(LOCK), LL_SIM_FAULT_RESOURCE,
                               -EMFILE},
    [LLADD_SIM_FAULT_READ_ONLY] = {CHANGES, 0, -EROFS},
    [LLADD_SIM_FAULT_INTERRUPTED] = {ALL_CALLS, LL_SIM_FAULT_ONCE, -EINTR},
    [LLADD_SIM_FAULT_AGAIN] = {ALL_CALLS & ~CALL(LOCK), LL_SIM_FAULT_ONCE, -EAGAIN},
    [LLADD_SIM_FAULT_MEMORY] = {0, LL_SIM_FAULT_RESOURCE, 0},
    [LLADD_SIM_FAULT_PAGE_LOST] = {CALL(WRITE), LL_SIM_FAULT_ONCE | LL_SIM_FAULT_DISK, 0},
    [LLADD_SIM_FAULT_PAGE_ASTRAY] = {CALL(WRITE), LL_SIM_FAULT_ONCE | LL_SIM_FAULT_DISK, 0},
    [LLADD_SIM_FAULT_READ_NONE] = {CALL(READ), 0, 0},
    [LLADD_SIM_FAULT_READ_BYTE] = {CALL(READ), 0, 0},
    [LLADD_SIM_FAULT_READ_SECTOR] = {CALL(READ), 0, 0},
    [LLADD_SIM_FAULT_READ_BUT_ONE] = {CALL(READ), 0, 0},
};

const char *lladd_sim_fault_name(enum lladd_sim_fault kind)
{
    static const char *const names[LLADD_SIM_FAULTS] = {
#define NAME(name, text, what) text,
        LLADD_SIM_FAULT_LIST(NAME)
#undef NAME
    };
    return (unsigned)kind < LLADD_SIM_FAULTS ? names[kind] : "?";
}

const char *ll_sim_fault_what(enum lladd_sim_fault kind)
{
    static const char *const texts[LLADD_SIM_FAULTS] = {
#define TEXT(name, text, what) what,
        LLADD_SIM_FAULT_LIST(TEXT)
#undef TEXT
    };
    return texts[kind];
}

/* ---- letting it happen ------------------------------------------------------------------- */

unsigned ll_sim_fault_flags(enum lladd_sim_fault kind)
{
    return kinds[kind].flags;
}

static struct ll_sim_run *running(const struct ll_sim_faults *f)
{
    return f->sim->running;
}

static uint64_t size_of(const struct ll_sim_run *run, uint32_t name)
{
    const struct ll_sim_binding *b = ll_sim_find(&run->live, name);
    return b && b->inode != LL_SIM_DIRECTORY ? run->live.inode[b->inode]->size : 0;
}

/* Does LOG-4 apply to this call? It applies to writes and syncs of the log in use, the page file,
 * the control file and the double-write area. There are two exceptions: the header of a log
 * segment, and a read-only file system that refuses to make the page file longer. */
static bool is_grave(const struct ll_sim_faults *f, enum ll_sim_call_kind call, uint32_t name,
                     uint64_t off)
{
    const struct ll_sim_run *run = running(f);
    const struct ll_sim_name *n = &f->sim->names.at[name];
    if (call != LL_SIM_WRITE && call != LL_SIM_SYNC)
        return false;
    if (n->kind == LL_SIM_PAGES && f->kind == LLADD_SIM_FAULT_READ_ONLY && call == LL_SIM_WRITE &&
        off >= size_of(run, name))
        return false;
    if (n->kind == LL_SIM_PAGES || strcmp(n->text, "control") == 0 || strcmp(n->text, "dwb") == 0)
        return true;
    if (n->kind != LL_SIM_LOG)
        return false;
    if (call == LL_SIM_WRITE)
        return off > 0;
    for (uint32_t i = run->n_calls; i-- > 0;) {
        const struct ll_sim_call *c = &run->trace[i];
        if (c->name != name)
            continue;
        if (c->kind == LL_SIM_WRITE && c->off > 0)
            return true;
        if (c->kind != LL_SIM_WRITE)
            return false;
    }
    return false;
}

/* Returns how many of `len` bytes are transferred by a call that the fault hits. */
static size_t part_of(const struct ll_sim_faults *f, size_t len)
{
    size_t part;
    switch (f->kind) {
    case LLADD_SIM_FAULT_READ_NONE:
        return 0;
    case LLADD_SIM_FAULT_WRITE_BYTE:
    case LLADD_SIM_FAULT_READ_BYTE:
        part = 1;
        break;
    case LLADD_SIM_FAULT_WRITE_BUT_ONE:
    case LLADD_SIM_FAULT_READ_BUT_ONE:
        part = len - 1;
        break;
    default:
        part = LL_SIM_SECTOR;
    }
    return part < len ? part : len;
}

static bool is_short_read(enum lladd_sim_fault kind)
{
    return kind >= LLADD_SIM_FAULT_READ_NONE && kind <= LLADD_SIM_FAULT_READ_BUT_ONE;
}

/* Returns the number of bytes that a read of this range would find. */
static size_t there(const struct ll_sim_faults *f, uint32_t name, uint64_t off, size_t len)
{
    uint64_t size = size_of(running(f), name);
    uint64_t left = off < size ? size - off : 0;
    return left < len ? (size_t)left : len;
}

static bool can_hit(const struct ll_sim_faults *f, enum ll_sim_call_kind call, uint32_t name,
                    uint64_t off, size_t len)
{
    if (!(kinds[f->kind].calls >> call & 1))
        return false;
    if (f->kind == LLADD_SIM_FAULT_SPACE && call != LL_SIM_CREATE && call != LL_SIM_MKDIR)
        return call != LL_SIM_RENAME && off + len > size_of(running(f), name);
    if (kinds[f->kind].flags & LL_SIM_FAULT_DISK)
        return f->sim->names.at[name].kind == LL_SIM_PAGES;
    if (is_short_read(f->kind)) {
        size_t all = there(f, name, off, len);
        return all > 0 && part_of(f, all) < all;
    }
    return f->kind != LLADD_SIM_FAULT_WRITE_BUT_ONE || len > 2;
}

/* Counts a call that the fault can hit. Returns true if the fault hits the call. */
static bool count(struct ll_sim_faults *f)
{
    f->seen++;
    if (f->for_ever ? f->seen < f->at : f->seen != f->at)
        return false;
    if (f->fired++ == 0) {
        f->calls = running(f)->n_calls;
        f->hit = f->phase;
    }
    return true;
}

static void make_grave(struct ll_sim_faults *f)
{
    if (f->grave)
        return;
    f->grave = true;
    f->graved = f->phase;
    f->acks = f->sim->record.acks;
}

static void tell_hit(struct ll_sim_faults *f, const char *name)
{
    if (f->fired > 1 || running(f)->failed)
        return;
    (void)snprintf(f->text, sizeof f->text, "FAULT: %s%s%s", ll_sim_fault_what(f->kind),
                   *name ? ": " : "", name);
    if (f->sim->history)
        ll_sim_tell(f->sim, "    %s", f->text);
    else if (ll_sim_remark(f->sim, f->text))
        running(f)->failed = LLADD_NO_MEMORY;
}

/* Detects a failed sync that is repeated without a write, truncate or rename in between. */
static void watch(struct ll_sim_faults *f, enum ll_sim_call_kind call, uint32_t name)
{
    for (uint32_t i = 0; i < f->n_failed; i++) {
        if (f->failed[i] != name)
            continue;
        if (call == LL_SIM_SYNC && f->again == LL_SIM_NONE)
            f->again = name;
        if (call == LL_SIM_WRITE || call == LL_SIM_TRUNCATE || call == LL_SIM_RENAME)
            f->failed[i--] = f->failed[--f->n_failed];
    }
}

static void sync_failed(struct ll_sim_faults *f, uint32_t name)
{
    if (f->n_failed < LL_SIM_SYNCS)
        f->failed[f->n_failed++] = name;
}

static int64_t result_of(const struct ll_sim_faults *f, uint32_t name, uint64_t off, size_t len)
{
    switch (f->kind) {
    case LLADD_SIM_FAULT_WRITE_BYTE:
    case LLADD_SIM_FAULT_WRITE_SECTOR:
    case LLADD_SIM_FAULT_WRITE_BUT_ONE:
        return (int64_t)part_of(f, len) + 1;
    case LLADD_SIM_FAULT_WRITE_ALL:
        return (int64_t)len + 1;
    case LLADD_SIM_FAULT_READ_NONE:
    case LLADD_SIM_FAULT_READ_BYTE:
    case LLADD_SIM_FAULT_READ_SECTOR:
    case LLADD_SIM_FAULT_READ_BUT_ONE:
        return (int64_t)part_of(f, there(f, name, off, len)) + 1;
    default:
        return kinds[f->kind].result;
    }
}

static int64_t before_call(void *ctx, struct ll_sim_run *run, enum ll_sim_call_kind call,
                           uint32_t name, uint64_t off, size_t len)
{
    struct ll_sim_faults *f = ctx;
    const struct ll_sim_name *n = &f->sim->names.at[name];
    (void)run;
    if (f->gathering)
        ll_sim_feature_put(f->features, 128u + (unsigned)call * 4 + (unsigned)n->kind);
    watch(f, call, name);
    if (call == LL_SIM_SYNC && f->late == name) {
        f->late = LL_SIM_NONE;
        if (is_grave(f, call, name, off))
            make_grave(f);
        sync_failed(f, name);
        return -EIO;
    }
    if (!f->armed || !can_hit(f, call, name, off, len) || !count(f))
        return 0;
    tell_hit(f, n->text);
    if (f->kind == LLADD_SIM_FAULT_PAGE_LOST)
        return LL_SIM_WRITE_LOST;
    if (f->kind == LLADD_SIM_FAULT_PAGE_ASTRAY)
        return LL_SIM_WRITE_ASTRAY;
    if (f->kind == LLADD_SIM_FAULT_SYNC_LATE)
        f->late = name;
    if (ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_LIE)
        return LL_SIM_SYNC_LIES;
    if (!(ll_sim_fault_flags(f->kind) & LL_SIM_FAULT_RESOURCE) && is_grave(f, call, name, off))
        make_grave(f);
    if (call == LL_SIM_SYNC)
        sync_failed(f, name);
    return result_of(f, name, off, len);
}

static bool grant(void *ctx, size_t size)
{
    struct ll_sim_faults *f = ctx;
    (void)size;
    if (!f->armed || f->kind != LLADD_SIM_FAULT_MEMORY || !count(f))
        return true;
    tell_hit(f, "");
    return false;
}

int ll_sim_faults_new(struct lladd_sim *sim)
{
    struct ll_sim_faults *f = calloc(1, sizeof *f);
    if (!f)
        return LLADD_NO_MEMORY;
    f->sim = sim;
    f->late = f->again = LL_SIM_NONE;
    sim->faults = f;
    sim->heap.grant = grant;
    sim->heap.grant_ctx = f;
    sim->before_call = before_call;
    sim->hook_ctx = f;
    return 0;
}

void ll_sim_arm(struct ll_sim_faults *f)
{
    f->armed = true;
    f->seen = f->fired = f->n_failed = 0;
    f->grave = false;
    f->late = f->again = LL_SIM_NONE;
    f->phase = LL_SIM_OPENING;
}

void ll_sim_disarm(struct ll_sim_faults *f)
{
    f->armed = false;
    f->late = LL_SIM_NONE;
    f->n_failed = 0;
}
