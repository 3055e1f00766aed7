/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_SPOOL_EXTENSION_H
#define TESTS_SHIP_SPOOL_EXTENSION_H
/* Like the extension of an archive, this one keeps the pages that are written in bulk in spools. */
#include "ship/ship_private.h"

#include <lladd/extension.h>

extern const struct lladd_extension spool_extension;
extern uint32_t spool_timeline;            /* of the databases that are opened from now on */
extern struct ll_ship_spool *opened_spool; /* of the database that was opened last; NULL: closed */

#endif
