/* SPDX-License-Identifier: BSD-2-Clause */
/* Spilled blocks (spill.h). The file is unlinked as soon as it is open, so that it disappears
 * however the process ends. The file is sparse: blocks that were never stored take no space.
 * Dropping a block clears only its bit. */
#include "io/spill.h"

#include "io/io_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ll_spill_free(struct ll_spill *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* the file is not read again */
    free(s->bits);
    *s = (struct ll_spill)LL_SPILL_INIT;
}

bool ll_spill_has(const struct ll_spill *s, uint64_t number)
{
    return number < s->n_bits && s->bits[number / 8] >> (number % 8) & 1;
}

static int make_file(struct ll_spill *s, const char *dir)
{
    static const char last[] = "/lladd-XXXXXX";
    size_t len = strlen(dir);
    char *path = malloc(len + sizeof last);
    if (!path)
        return -ENOMEM;
    memcpy(path, dir, len);
    memcpy(path + len, last, sizeof last);
    int fd = mkstemp(path);
    int rc = fd < 0 ? -errno : 0;
    if (!rc && (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || unlink(path) != 0)) {
        rc = -errno;
        (void)close(fd); /* the first error is returned */
    }
    free(path);
    if (!rc)
        s->fd = fd;
    return rc;
}

static int want_bit(struct ll_spill *s, uint64_t number)
{
    if (number < s->n_bits)
        return 0;
    uint64_t want = s->n_bits + s->n_bits / 2 > number ? s->n_bits + s->n_bits / 2 : number + 1024;
    want = (want + 7) / 8 * 8;
    unsigned char *more = want / 8 > SIZE_MAX ? NULL : realloc(s->bits, (size_t)(want / 8));
    if (!more)
        return -ENOMEM;
    memset(more + s->n_bits / 8, 0, (size_t)((want - s->n_bits) / 8));
    s->bits = more;
    s->n_bits = want;
    return 0;
}

int ll_spill_put(struct ll_spill *s, const char *dir, uint64_t number, const void *bytes,
                 size_t size)
{
    if (number > (uint64_t)INT64_MAX / size - 1)
        return -EFBIG;
    int rc = s->fd < 0 ? make_file(s, dir) : 0;
    if (!rc)
        rc = want_bit(s, number);
    for (size_t done = 0; !rc && done < size;) {
        ssize_t n = pwrite(s->fd, (const char *)bytes + done, size - done,
                           (off_t)(number * size + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = n ? -errno : -EIO;
    }
    if (!rc)
        s->bits[number / 8] = (unsigned char)(s->bits[number / 8] | 1u << (number % 8));
    return rc;
}

int ll_spill_get(const struct ll_spill *s, uint64_t number, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n =
            pread(s->fd, (char *)bytes + done, size - done, (off_t)(number * size + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return n ? -errno : -EIO;
    }
    return 0;
}

void ll_spill_drop(struct ll_spill *s, uint64_t from)
{
    for (; from < s->n_bits && from % 8; from++)
        s->bits[from / 8] = (unsigned char)(s->bits[from / 8] & ~(1u << (from % 8)));
    if (from < s->n_bits)
        memset(s->bits + from / 8, 0, (size_t)((s->n_bits - from) / 8));
}
