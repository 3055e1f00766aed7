/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_UNDER_H
#define LL_SIM_UNDER_H
/* A device that is a directory of another device: a place for a second database on the simulated
 * disk. Or the directory is "", and the device is the same files as another process sees them. */
#include <lladd/device.h>

struct ll_sim_under {
    struct lladd_device face; /* must be first */
    struct lladd_device *outer;
    const char *folder;
    bool locked; /* the lock is not on the disk: no crash depends on it */
    /* If `on_read` is not NULL, reads of more than `most` bytes give `most` bytes, and the function
     * runs before each of them. If it does not return 0, the read fails. */
    int (*on_read)(void *ctx);
    void *ctx;
    size_t most;
};

/* Makes the device; the folder need not exist. */
void ll_sim_under_init(struct ll_sim_under *, struct lladd_device *outer, const char *folder);
/* Makes the folder, durably, if it does not exist. Returns 0 or a negative errno. */
int ll_sim_under_make(struct ll_sim_under *);

#endif
