/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SCRUBS_H
#define LL_SIM_SCRUBS_H
/* Scrubs of a recovered database that archives (lladd_scrub). */
#include "sim/subjects/subjects.h"

/* Call it at the end of `setup`: stores the log, and makes the backup with which a scrub compares
 * the pages. */
int ll_sim_scrub_begin(struct lladd_db *, struct lladd_error *);
/* A scrub of the archive's database must find nothing: a crash loses no write of which the log, or
 * a spool, says that it is done. */
int ll_sim_scrub_nothing(struct lladd_archive *, struct lladd_error *);
/* The disk loses a write of an ordinary page, of a page written in bulk, and of a raw page. A scrub
 * must find these three, and repair the first two. The pages are allocated before and freed
 * afterwards. */
int ll_sim_scrub_lost(struct lladd_db *, struct lladd_error *);
/* The member `go_on` of a subject: scrubs before and after all log is stored, and after lost
 * writes. */
int ll_sim_scrub_go_on(void *ctx, struct lladd_db *, struct lladd_error *);

#endif
