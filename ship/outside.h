/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_OUTSIDE_H
#define SHIP_OUTSIDE_H
/* A backup of a database that another process has open: outside.c makes it, outside_wait.c waits
 * for the archive of the other process, outside_pages.c finds damaged pages and lost writes. */
#include "ship/backup_private.h"
#include "ship/image_private.h"

#include <lladd/inspect.h>

#define LL_SHIP_ATTEMPTS 10u /* to read objects that the archive may have replaced */
#define LL_SHIP_WAIT_NS (UINT64_C(600) * 1000000000)

struct ll_ship_outside {
    struct ll_ship_backup b; /* its `db` is NULL */
    unsigned char control[LL_SHIP_CONTROL];
    struct ll_ship_past past;
    struct ll_ship_buf steps; /* struct ll_ship_step: the timeline of the database */
    uint64_t wait_ns;
    uint64_t top;    /* the store has the timeline's log below this LSN, as far as names say */
    uint64_t logged; /* durable log before the first page was copied; 0: unknown */
    uint64_t since;  /* `top` before the first page was copied */
    uint64_t pages;  /* the number of pages that were copied first, in the order of pages */
    uint64_t need;   /* E is at least this LSN */
    struct ll_ship_image im; /* the log from `from` to E */
    struct ll_ship_goal goal;
    uint64_t first; /* pages that follow each other, in b.chunk: they are added as one frame */
    uint32_t laid;
    struct lladd_error *err;
};

/* Opens a view of the database. *end: the end of the last seal or redo barrier from `from` on (0:
 * from redo on); 0: there is none. */
int ll_ship_outside_look(struct ll_ship_outside *, uint64_t from, struct lladd_inspect_info *,
                         uint64_t *end, struct lladd_inspect **view);
/* The entry of "pages.idx" of one of the pages that were copied first, as it was copied last. */
const unsigned char *ll_ship_outside_entry(const struct ll_ship_outside *, uint64_t page);
/* Call it after all pages are in frames. Keeps in b.damaged the pages in use that neither redo nor
 * a spool gives; adds those of which the disk has lost a write, and reports them. */
int ll_ship_outside_judge(struct ll_ship_outside *);

/* A wait that was begun. Zero: not begun. */
struct ll_ship_wait {
    uint64_t since_ns; /* when the store last went on */
    uint64_t first, best; /* the first and the highest `top` */
    uint64_t pause_ns;
    bool gone; /* no process had the database open at the last look */
};

/* Has a process the database open? True also if the device cannot tell. */
bool ll_ship_is_open(struct ll_ship_outside *);
/* Waits until the store has log up to `need`, and sets o->top. LLADD_BAD_STATE: no process has the
 * database open any more. LLADD_TIMEOUT: the store has not gone on for o->wait_ns. */
int ll_ship_wait_for(struct ll_ship_outside *o, uint64_t need);
/* One pause of a wait. `need` 0: not for log, but for the first record of the other process. */
int ll_ship_wait_more(struct ll_ship_outside *o, struct ll_ship_wait *, uint64_t need);
#endif
