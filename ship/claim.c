/* SPDX-License-Identifier: BSD-2-Clause */
/* A claim says which copy of a database archives into the store. Two copies of one directory have
 * the same uuid. Until both copies have been changed, the log of one copy begins with the whole log
 * of the other, so the logs do not tell the copies apart. Claim n of a timeline is the object
 * "claim.<n>" with random bytes; the claim with the highest number counts.
 *
 * Before a database puts a claim, it writes the bytes of the new claim and of the last claim in the
 * store to its file "files/ship/claim". So the database recognises its claim, even if the reply to
 * the put was lost. If one of two copies puts a claim, the file of the other copy lacks this claim,
 * and the other copy stops. */
#include "ship/ship_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "files/ship/claim"
#define MAGIC "LLCLAIM"
enum { FILE_BYTES = 44, HOST = 64, CLAIM_MOST = 256 };

/* The claims in the file. docs/backup.md has the format of the file. */
struct own {
    bool there;
    unsigned char last[LL_SHIP_CLAIM], next[LL_SHIP_CLAIM];
};

static int read_own(struct lladd_device *dev, struct own *out, struct lladd_error *err)
{
    unsigned char bytes[FILE_BYTES];
    struct lladd_file *file;
    *out = (struct own){.there = false};
    int rc = dev->ops->open(dev, FILE_NAME, LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (rc)
        return ll_ship_fail_io(err, rc, "open", FILE_NAME);
    int64_t got = dev->ops->pread(dev, file, bytes, sizeof bytes, 0);
    rc = dev->ops->close(dev, file);
    if (got < 0 || rc)
        return ll_ship_fail_io(err, got < 0 ? (int)got : rc, "read", FILE_NAME);
    if (got != FILE_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0 ||
        lladd_get32(bytes + 40) != lladd_crc32c(0, bytes, 40))
        return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%s\" is damaged", FILE_NAME);
    out->there = true;
    memcpy(out->last, bytes + 8, LL_SHIP_CLAIM);
    memcpy(out->next, bytes + 24, LL_SHIP_CLAIM);
    return 0;
}

static int make_dir(struct lladd_device *dev, const char *name, const char *above)
{
    int rc = dev->ops->mkdir(dev, name);
    return rc && rc != -EEXIST ? rc : dev->ops->sync_dir(dev, above);
}

static int write_new(struct lladd_device *dev, const char *name, const void *bytes, size_t len)
{
    struct lladd_file *file;
    struct lladd_iovec piece = {bytes, len};
    int rc = dev->ops->open(dev, name, LLADD_OPEN_CREATE, &file);
    if (rc)
        return rc;
    rc = dev->ops->truncate(dev, file, 0);
    if (!rc)
        rc = dev->ops->pwritev(dev, file, &piece, 1, 0);
    if (!rc)
        rc = dev->ops->sync(dev, file);
    int late = dev->ops->close(dev, file);
    return rc ? rc : late;
}

int ll_ship_file_replace(struct lladd_device *dev, const char *name, const void *bytes, size_t len,
                         struct lladd_error *err)
{
    char temporary[64];
    (void)snprintf(temporary, sizeof temporary, "%.50s.new", name);
    int rc = make_dir(dev, "files", "");
    if (!rc)
        rc = make_dir(dev, "files/ship", "files");
    if (!rc)
        rc = write_new(dev, temporary, bytes, len);
    if (!rc)
        rc = dev->ops->rename(dev, temporary, name);
    if (!rc)
        rc = dev->ops->sync_dir(dev, "files/ship");
    return rc ? ll_ship_fail_io(err, rc, "write", name) : 0;
}

int ll_ship_file_remove(struct lladd_device *dev, const char *name, struct lladd_error *err)
{
    int rc = dev->ops->unlink(dev, name);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (!rc)
        rc = dev->ops->sync_dir(dev, "files/ship");
    return rc ? ll_ship_fail_io(err, rc, "delete", name) : 0;
}

static int write_own(struct lladd_device *dev, const struct own *own, struct lladd_error *err)
{
    unsigned char bytes[FILE_BYTES];
    memcpy(bytes, MAGIC, sizeof MAGIC);
    memcpy(bytes + 8, own->last, LL_SHIP_CLAIM);
    memcpy(bytes + 24, own->next, LL_SHIP_CLAIM);
    lladd_put32(bytes + 40, lladd_crc32c(0, bytes, 40));
    return ll_ship_file_replace(dev, FILE_NAME, bytes, sizeof bytes, err);
}

/* ---- in the store --------------------------------------------------------------------------- */

static void claim_name(uint32_t timeline, uint64_t n, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/claim.%llu", timeline, (unsigned long long)n);
}

static int see_claim(void *ctx, const char *name, uint64_t size)
{
    uint64_t *newest = ctx, n = strtoull(strrchr(name, '.') + 1, NULL, 10);
    (void)size;
    *newest = n > *newest ? n : *newest;
    return 0;
}

/* Is the claim whole, as far as it shows? Claims of earlier versions end with the host's name,
 * which has no zero byte. */
static bool whole(const unsigned char *bytes, size_t len)
{
    enum { TAIL = 5 }; /* a zero byte, and the CRC of all bytes before the CRC */
    if (len < LL_SHIP_CLAIM || len > CLAIM_MOST)
        return false;
    return len < LL_SHIP_CLAIM + 8 + TAIL || bytes[len - TAIL] != 0 ||
           lladd_get32(bytes + len - 4) == lladd_crc32c(0, bytes, len - 4);
}

static int newest_claim(struct lladd_store *store, uint32_t timeline, uint64_t *n,
                        unsigned char out[LL_SHIP_CLAIM], struct lladd_error *err)
{
    unsigned char bytes[CLAIM_MOST];
    char name[LL_SHIP_NAME_MAX];
    uint64_t size = 0;
    *n = 0; /* stays so if there is none */
    (void)snprintf(name, sizeof name, "t%08x/claim.", timeline);
    int rc = store->ops->list(store, name, see_claim, n, err);
    if (rc || !*n)
        return rc;
    claim_name(timeline, *n, name);
    rc = ll_ship_size(store, name, &size, err);
    size_t len = size < sizeof bytes ? (size_t)size : sizeof bytes;
    if (!rc)
        rc = ll_ship_get(store, name, 0, bytes, len, err);
    if (!rc && !whole(bytes, size <= sizeof bytes ? len : SIZE_MAX))
        rc = ll_ship_corrupt(err, name, "it is damaged");
    if (!rc)
        memcpy(out, bytes, LL_SHIP_CLAIM);
    return rc;
}

static int put_claim(struct lladd_store *store, struct ll_ship_mem mem,
                     const struct lladd_environment *world, uint32_t timeline,
                     const struct ll_ship_claim *claim, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX], host[HOST] = "";
    unsigned char when[8], tail[5] = {0};
    (void)gethostname(host, sizeof host - 1); /* for people; no program reads it */
    lladd_put64(when, (uint64_t)ll_ship_wall_us(world));
    uint32_t crc = lladd_crc32c(0, claim->bytes, LL_SHIP_CLAIM);
    crc = lladd_crc32c(crc, when, sizeof when);
    crc = lladd_crc32c(crc, host, strlen(host));
    lladd_put32(tail + 1, lladd_crc32c(crc, tail, 1));
    struct lladd_iovec pieces[] = {{claim->bytes, LL_SHIP_CLAIM},
                                   {when, sizeof when},
                                   {host, strlen(host)},
                                   {tail, sizeof tail}};
    claim_name(timeline, claim->n, name);
    return ll_ship_put(store, mem, name, pieces, 4, err);
}

static int fail_taken(struct lladd_error *err, uint32_t timeline, uint64_t n)
{
    return lladd_error_set(err, LLADD_DIVERGED,
                           "another copy of this database archives into the store: claim %llu of "
                           "timeline %u is not of this copy",
                           (unsigned long long)n, timeline);
}

int ll_ship_claim_own(struct lladd_store *store, struct lladd_device *dev, uint32_t timeline,
                      struct ll_ship_claim *out, struct lladd_error *err)
{
    struct own own;
    *out = (struct ll_ship_claim){.n = 0};
    /* The file is read after the store: the archive of the database may put its claim meanwhile. */
    int rc = newest_claim(store, timeline, &out->n, out->bytes, err);
    if (!rc)
        rc = read_own(dev, &own, err);
    if (!rc && out->n &&
        (!own.there || (memcmp(out->bytes, own.last, LL_SHIP_CLAIM) != 0 &&
                        memcmp(out->bytes, own.next, LL_SHIP_CLAIM) != 0)))
        rc = fail_taken(err, timeline, out->n);
    return rc;
}

int ll_ship_claim(struct lladd_store *store, struct ll_ship_mem mem,
                  const struct lladd_environment *world, struct lladd_device *dev,
                  uint32_t timeline, struct ll_ship_claim *out, struct lladd_error *err)
{
    struct own own = {.there = true};
    int rc = ll_ship_claim_own(store, dev, timeline, out, err);
    if (!rc)
        rc = ll_ship_random(world, own.next, sizeof own.next, err);
    memcpy(own.last, out->bytes, LL_SHIP_CLAIM);
    if (!rc)
        rc = write_own(dev, &own, err);
    if (rc)
        return rc;
    out->n++;
    memcpy(out->bytes, own.next, LL_SHIP_CLAIM);
    rc = put_claim(store, mem, world, timeline, out, err);
    return rc == LLADD_EXISTS ? fail_taken(err, timeline, out->n) : rc;
}

int ll_ship_claim_read(struct lladd_store *store, uint32_t timeline, struct lladd_error *err)
{
    unsigned char bytes[LL_SHIP_CLAIM];
    uint64_t n;
    return newest_claim(store, timeline, &n, bytes, err);
}

int ll_ship_claim_forget(struct lladd_device *dev, struct lladd_error *err)
{
    return ll_ship_file_remove(dev, FILE_NAME, err);
}

int ll_ship_claim_check(struct lladd_store *store, uint32_t timeline,
                        const struct ll_ship_claim *claim, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    unsigned char byte;
    claim_name(timeline, claim->n + 1, name);
    int rc = ll_ship_get(store, name, 0, &byte, 1, err);
    if (rc == LLADD_NOT_FOUND)
        return 0;
    return rc ? rc : fail_taken(err, timeline, claim->n + 1);
}
