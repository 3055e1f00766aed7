/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_BESIDE_H
#define TESTS_SHIP_BESIDE_H
/*
 * A device through which another process reads the files of a database in use. Reads of the page
 * file are short, a function runs before each of them, and one page can be torn.
 */
#include <lladd/device.h>

enum { BESIDE_FILES = 8 };

struct beside {
    struct lladd_device base;
    struct lladd_device *below;
    struct lladd_file *pages[BESIDE_FILES]; /* handles of the page file that are open */
    void (*on_read)(uint64_t read);         /* nullable; `read` is counted from 1 */
    uint64_t reads;
    uint64_t torn;  /* this page is torn in the next reads of it */
    uint64_t times; /* their number */
};

void beside_init(struct beside *, struct lladd_device *below);
#endif
