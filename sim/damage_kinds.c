/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * damage_kinds: generates all damages to a set of files. The order is always the same, so that a
 * token can identify a damage by its kind and its number in this order.
 */
#include "sim/damage_private.h"

enum {
    SECTOR = LL_SIM_SECTOR,
    PAGE_HEADER = 32,
    BLOCK_HEADER = 64,
    BLOCK_MAX = 65536,
    CONTROL_COPY = 4096,
    CONTROL_BYTES = 256,
    DWB_HEADER = 64,
    RECORD_HEADER = 40,
    EARLIER = 6 /* number of earlier states of the files to go back to */
};

typedef int on_file(struct ll_sim_damaging *, uint32_t name, struct ll_sim_inode *);

static const char *text_of(const struct ll_sim_damaging *d, uint32_t name)
{
    return d->sim->names.at[name].text;
}

/* Does the file belong to the database? Files of a subject's store, restored copies, and files that
 * an archive keeps do not belong to it. They are not damaged here, because the oracles judge only
 * the database. tests/ship damages such files. */
static bool is_own(const struct ll_sim_damaging *d, uint32_t name)
{
    static const char *const others[] = {"store/", "copy/", "files/ship/"};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(text_of(d, name), others[i], strlen(others[i])) == 0)
            return false;
    return true;
}

/* Calls fn for each file of the database, in the order of the names' numbers. The order in the
 * image is not used, because renames change it. */
static int each_file(struct ll_sim_damaging *d, on_file *fn)
{
    int rc = 0;
    for (uint32_t n = 1; !rc && !d->sim->stop && n < d->sim->names.count; n++) {
        const struct ll_sim_binding *b = ll_sim_find(d->now.image, n);
        if (b && b->inode != LL_SIM_DIRECTORY && is_own(d, n))
            rc = fn(d, n, d->now.image->inode[b->inode]);
    }
    return rc;
}

/* ---- bits -------------------------------------------------------------------------------- */

static int flip(struct ll_sim_damaging *d, uint32_t name, const struct ll_sim_inode *inode,
                uint64_t off, unsigned bit)
{
    unsigned char byte;
    int rc = 0;
    if (off >= inode->size || !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_FLIP, &rc))
        return rc;
    (void)ll_sim_get(inode, off, &byte, 1);
    byte ^= (unsigned char)(1u << bit);
    rc = ll_sim_damage_put(d, name, off, &byte, 1);
    return rc ? rc
              : ll_sim_damage_try(d, "bit %u of byte %llu of %s flips", bit,
                                  (unsigned long long)off, text_of(d, name));
}

static int flip_bytes(struct ll_sim_damaging *d, uint32_t name, const struct ll_sim_inode *inode,
                      uint64_t off, uint32_t len)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < len; i++)
        for (unsigned bit = 0; !rc && bit < 8; bit++)
            rc = flip(d, name, inode, off + i, bit);
    return rc;
}

/* Flips one pseudo-random bit in each sector. */
static int flip_sectors(struct ll_sim_damaging *d, uint32_t name, const struct ll_sim_inode *inode)
{
    int rc = 0;
    for (uint64_t at = 0; !rc && at < inode->size; at += SECTOR) {
        uint64_t h = ll_sim_mix(at, name + d->sim->bounds.seed);
        rc = flip(d, name, inode, at + h % SECTOR, (unsigned)(h >> 32) % 8);
    }
    return rc;
}

/* Flips every bit of the headers of all records and of all blocks. */
static int flip_records(struct ll_sim_damaging *d, uint32_t name, const struct ll_sim_inode *inode)
{
    uint64_t block = inode->size < BLOCK_MAX ? inode->size : BLOCK_MAX;
    unsigned char header[BLOCK_HEADER];
    int rc = 0;
    for (uint64_t b = 0; !rc && b < inode->size; b += block) {
        (void)ll_sim_get(inode, b, header, sizeof header);
        uint64_t first = lladd_get64(header + 16);
        for (uint32_t i = 0; !rc && i < d->now.n_records; i++) {
            uint64_t lsn = d->now.record[i].lsn;
            if (lsn >= first && lsn < first + block - BLOCK_HEADER)
                rc = flip_bytes(d, name, inode, b + BLOCK_HEADER + (lsn - first), RECORD_HEADER);
        }
        if (!rc)
            rc = flip_bytes(d, name, inode, b, BLOCK_HEADER);
    }
    return rc;
}

static int flips(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    int rc = flip_sectors(d, name, inode);
    if (!rc && d->sim->names.at[name].kind == LL_SIM_LOG)
        return flip_records(d, name, inode);
    if (!rc && d->sim->names.at[name].kind == LL_SIM_PAGES)
        for (uint64_t p = 0; !rc && p < inode->size; p += d->sim->page_size)
            rc = flip_bytes(d, name, inode, p, PAGE_HEADER);
    else if (!rc && strcmp(text_of(d, name), "control") == 0)
        for (uint64_t c = 0; !rc && c < 2 * CONTROL_COPY; c += CONTROL_COPY)
            rc = flip_bytes(d, name, inode, c, CONTROL_BYTES);
    else if (!rc)
        rc = flip_bytes(d, name, inode, 0, DWB_HEADER);
    return rc;
}

/* ---- sectors and pages ------------------------------------------------------------------- */

static int garbage(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    unsigned char noise[SECTOR];
    uint64_t h = d->sim->bounds.seed;
    int rc = 0;
    for (uint64_t at = 0; !rc && at < inode->size; at += SECTOR) {
        if (!ll_sim_damage_next(d, LLADD_SIM_DAMAGE_GARBAGE, &rc))
            continue;
        for (size_t i = 0; i < sizeof noise; i += 8)
            lladd_put64(noise + i, h = ll_sim_mix(h, at + i));
        size_t len = inode->size - at < SECTOR ? (size_t)(inode->size - at) : SECTOR;
        rc = ll_sim_damage_put(d, name, at, noise, len);
        if (!rc)
            rc = ll_sim_damage_try(d, "the sector at byte %llu of %s becomes noise",
                                   (unsigned long long)at, text_of(d, name));
    }
    return rc;
}

static int zeros(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    static const unsigned char zero[BLOCK_MAX];
    uint32_t unit = d->sim->names.at[name].kind == LL_SIM_PAGES ? d->sim->page_size : SECTOR;
    int rc = 0;
    for (uint64_t at = 0; !rc && at < inode->size; at += unit) {
        if (!ll_sim_damage_next(d, LLADD_SIM_DAMAGE_ZERO, &rc))
            continue;
        size_t len = inode->size - at < unit ? (size_t)(inode->size - at) : unit;
        rc = ll_sim_damage_put(d, name, at, zero, len);
        if (!rc)
            rc = ll_sim_damage_try(d, "%u bytes at %llu of %s become zeros", unit,
                                   (unsigned long long)at, text_of(d, name));
    }
    return rc;
}

/* ---- lost writes ------------------------------------------------------------------------- */

/* Returns the bytes that the call writes to the page if it covers the whole page, else NULL. */
static const unsigned char *written(const struct ll_sim_damaging *d, const struct ll_sim_call *call,
                                    uint32_t name, uint64_t page)
{
    uint32_t size = d->sim->page_size;
    if (call->kind != LL_SIM_WRITE || call->name != name || call->off > page * size ||
        call->off + call->len < (page + 1) * size)
        return NULL;
    return call->data + (page * size - call->off);
}

/* Returns which call, counted from 1, wrote the version of the page that the file contains; 0: this
 * version is older than the workload. Later versions, which were lost with the power, are no
 * damage: the loss of power could have left them. */
static uint32_t present(const struct ll_sim_damaging *d, uint32_t name, uint64_t page)
{
    const struct ll_sim_binding *b = ll_sim_find(d->now.image, name);
    unsigned char now[BLOCK_MAX];
    uint32_t size = d->sim->page_size;
    (void)ll_sim_get(d->now.image->inode[b->inode], page * size, now, size);
    for (uint32_t c = d->now.calls; c > 0; c--) {
        const unsigned char *bytes = written(d, &d->sim->workload.trace[c - 1], name, page);
        if (bytes && memcmp(bytes, now, size) == 0)
            return c;
    }
    return 0;
}

/* Puts back each earlier version of the page, one at a time: the version from before the workload,
 * and the versions that the workload wrote up to the one in the file. */
static int lost_versions(struct ll_sim_damaging *d, uint32_t name, uint64_t page)
{
    const struct ll_sim_run *w = &d->sim->workload;
    uint32_t size = d->sim->page_size, last = present(d, name, page);
    unsigned char old[BLOCK_MAX];
    const struct ll_sim_binding *b = ll_sim_find(&d->sim->start.image, name);
    int rc = 0;
    for (uint32_t c = 0; !rc && c <= last; c++) {
        const struct ll_sim_call *call = c ? &w->trace[c - 1] : NULL;
        const unsigned char *bytes = call ? written(d, call, name, page) : old;
        uint64_t at = page * size;
        if (!bytes)
            continue;
        if ((!call && !b) || !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_LOST, &rc))
            continue;
        if (!call) {
            size_t n = ll_sim_get(d->sim->start.image.inode[b->inode], at, old, size);
            memset(old + n, 0, size - n);
        }
        rc = ll_sim_damage_put(d, name, at, bytes, size);
        if (!rc)
            rc = ll_sim_damage_try(d, "page %llu is as it was after call %u of the workload",
                                   (unsigned long long)page, c);
    }
    return rc;
}

static int lost_pages(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    int rc = 0;
    if (d->sim->names.at[name].kind != LL_SIM_PAGES)
        return 0;
    for (uint64_t p = 0; !rc && (p + 1) * d->sim->page_size <= inode->size; p++)
        rc = lost_versions(d, name, p);
    return rc;
}

/* Leaves out one write of the workload to a file other than the page file. */
static int lost_writes(struct ll_sim_damaging *d)
{
    const struct ll_sim_run *w = &d->sim->workload;
    int rc = 0;
    for (uint32_t c = 0; !rc && c < d->now.calls; c++) {
        const struct ll_sim_call *call = &w->trace[c];
        if (call->kind != LL_SIM_WRITE || d->sim->names.at[call->name].kind == LL_SIM_PAGES ||
            !is_own(d, call->name) ||
            !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_LOST, &rc))
            continue;
        struct ll_sim_arena *a = &d->sim->level[2].runs;
        ll_sim_rewind(a);
        rc = ll_sim_damage_image(d, a, d->now.calls, c, d->now.power, d->image);
        /* The file may have another name now. */
        for (uint32_t n = 1; !rc && n < d->sim->names.count; n++) {
            const struct ll_sim_binding *b = ll_sim_find(d->image, n);
            if (b && b->inode == call->inode)
                ll_sim_damage_region(d, n, call->off, call->len);
        }
        if (!rc)
            rc =
                ll_sim_damage_try(d, "call %u, a write of %u bytes at %llu of %s, was lost", c + 1,
                                  call->len, (unsigned long long)call->off, text_of(d, call->name));
    }
    return rc;
}

/* ---- misdirected writes and reads -------------------------------------------------------- */

/* Copies bytes of the undamaged files to another place. */
static int copy(struct ll_sim_damaging *d, uint32_t from, uint64_t from_off, uint32_t to,
                uint64_t to_off, size_t len)
{
    unsigned char bytes[BLOCK_MAX];
    const struct ll_sim_binding *b = ll_sim_find(d->now.image, from);
    if (!b)
        return 0;
    size_t n = ll_sim_get(d->now.image->inode[b->inode], from_off, bytes, len);
    return ll_sim_damage_put(d, to, to_off, bytes, n);
}

/* Does this damage: the newest write of a page went to the place of another page. The page keeps
 * the version that the workload wrote before. If there is none, it keeps the newest version. */
static int misdirect_page(struct ll_sim_damaging *d, uint32_t name, uint64_t page, uint64_t victim)
{
    const struct ll_sim_run *w = &d->sim->workload;
    uint32_t size = d->sim->page_size;
    int rc = 0;
    if (!ll_sim_damage_next(d, LLADD_SIM_DAMAGE_MISDIRECTED, &rc))
        return rc;
    rc = copy(d, name, page * size, name, victim * size, size);
    /* Finds the version that the newest write has replaced. */
    const unsigned char *newest = NULL, *before = NULL;
    for (uint32_t c = 0, last = present(d, name, page); c < last; c++) {
        const unsigned char *bytes = written(d, &w->trace[c], name, page);
        if (!bytes)
            continue;
        before = newest;
        newest = bytes;
    }
    if (!rc && before)
        rc = ll_sim_damage_put(d, name, page * size, before, size);
    return rc ? rc
              : ll_sim_damage_try(d, "the newest write of page %llu went to page %llu%s",
                                  (unsigned long long)page, (unsigned long long)victim,
                                  before ? "" : " as well");
}

static int misread(struct ll_sim_damaging *d, uint32_t name, uint64_t off, uint64_t from,
                   unsigned char bit)
{
    int rc = 0;
    if (!ll_sim_damage_next(d, LLADD_SIM_DAMAGE_MISREAD, &rc))
        return rc;
    d->misread = true;
    d->read_name = name;
    d->read_off = off;
    d->read_from = from;
    d->read_bit = bit;
    ll_sim_damage_region(d, name, off,
                         bit                                           ? 1
                         : d->sim->names.at[name].kind == LL_SIM_PAGES ? d->sim->page_size
                                                                       : SECTOR);
    if (bit)
        return ll_sim_damage_try(d, "once, byte %llu of %s is read with a bit flipped",
                                 (unsigned long long)off, text_of(d, name));
    return ll_sim_damage_try(d, "once, %s is read at %llu instead of %llu", text_of(d, name),
                             (unsigned long long)from, (unsigned long long)off);
}

static int astray(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    bool pages = d->sim->names.at[name].kind == LL_SIM_PAGES;
    uint32_t unit = pages ? d->sim->page_size : SECTOR;
    uint64_t n = inode->size / unit;
    int rc = 0;
    for (uint64_t i = 0; !rc && i < n; i++) {
        uint64_t others[] = {(i + 1) % n, ll_sim_mix(i, d->sim->bounds.seed) % n};
        for (unsigned k = 0; !rc && k < 2; k++) {
            if (others[k] == i)
                continue;
            if (pages) {
                rc = misdirect_page(d, name, i, others[k]);
            } else if (ll_sim_damage_next(d, LLADD_SIM_DAMAGE_MISDIRECTED, &rc)) {
                rc = copy(d, name, i * unit, name, others[k] * unit, unit);
                if (!rc)
                    rc = ll_sim_damage_try(d, "sector %llu of %s was written to sector %llu too",
                                           (unsigned long long)i, text_of(d, name),
                                           (unsigned long long)others[k]);
            }
            if (!rc)
                rc = misread(d, name, i * unit, others[k] * unit, 0);
        }
        if (!rc)
            rc = misread(d, name, i * unit + ll_sim_mix(i, 3) % unit, 0, 16);
    }
    return rc;
}

/* ---- files ------------------------------------------------------------------------------- */

static int cut_off(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    uint64_t size = inode->size;
    uint64_t sizes[] = {0, 1, 100, SECTOR, 4096, size / 2, size - 4096, size - SECTOR, size - 1};
    int rc = 0;
    for (unsigned i = 0; !rc && i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] >= size || !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_TRUNCATED, &rc))
            continue;
        rc = ll_sim_damage_size(d, name, sizes[i]);
        if (!rc)
            rc = ll_sim_damage_try(d, "%s is cut off at byte %llu", text_of(d, name),
                                   (unsigned long long)sizes[i]);
    }
    if (!rc && ll_sim_damage_next(d, LLADD_SIM_DAMAGE_TRUNCATED, &rc)) {
        rc = ll_sim_damage_gone(d, name);
        if (!rc)
            rc = ll_sim_damage_try(d, "%s is missing", text_of(d, name));
    }
    return rc;
}

/* Copies bytes [off, off + len) of the file `from` to the same place in the file `name`. */
static int put_from(struct ll_sim_damaging *d, uint32_t name, const struct ll_sim_inode *from,
                    uint64_t off, uint64_t len)
{
    unsigned char bytes[4096];
    int rc = 0;
    for (uint64_t end = off + len; !rc && off < end; off += sizeof bytes) {
        size_t n = end - off < sizeof bytes ? (size_t)(end - off) : sizeof bytes;
        n = ll_sim_get(from, off, bytes, n);
        if (n)
            rc = ll_sim_damage_put(d, name, off, bytes, n);
    }
    return rc;
}

static int foreign(struct ll_sim_damaging *d, uint32_t name, struct ll_sim_inode *inode)
{
    uint32_t there = ll_sim_intern(d->other, text_of(d, name));
    const struct ll_sim_binding *b = ll_sim_find(&d->other->workload.live, there);
    int rc = 0;
    if (!b || b->inode == LL_SIM_DIRECTORY)
        return 0;
    const struct ll_sim_inode *from = d->other->workload.live.inode[b->inode];
    if (ll_sim_damage_next(d, LLADD_SIM_DAMAGE_FOREIGN, &rc)) {
        ll_sim_damage_region(d, name, 0, inode->size);
        rc = put_from(d, name, from, 0, from->size);
        if (!rc)
            rc = ll_sim_damage_size(d, name, from->size);
        if (!rc)
            rc = ll_sim_damage_try(d, "%s is another database's", text_of(d, name));
    }
    uint32_t unit = d->sim->names.at[name].kind == LL_SIM_PAGES ? d->sim->page_size : 4096;
    for (uint64_t at = 0; !rc && at < inode->size; at += unit) {
        if (!ll_sim_damage_next(d, LLADD_SIM_DAMAGE_FOREIGN, &rc))
            continue;
        rc = put_from(d, name, from, at, unit);
        if (!rc)
            rc = ll_sim_damage_try(d, "%u bytes at %llu of %s are another database's", unit,
                                   (unsigned long long)at, text_of(d, name));
    }
    return rc;
}

/* ---- earlier states ---------------------------------------------------------------------- */

/* Marks as changed the page file (`pages`), all other files (`others`), or both. This includes
 * files that exist only before the damage, or only after it. */
static void all_regions(struct ll_sim_damaging *d, bool pages, bool others)
{
    for (uint32_t n = 1; n < d->sim->names.count; n++) {
        bool is_pages = d->sim->names.at[n].kind == LL_SIM_PAGES;
        if ((is_pages ? pages : others) && is_own(d, n))
            ll_sim_damage_region(d, n, 0, UINT64_MAX / 2);
    }
}

/* Makes either the page file or all other files older. */
static int mixed(struct ll_sim_damaging *d, const struct ll_sim_image *old, uint32_t c,
                 bool old_pages)
{
    uint32_t name = ll_sim_intern(d->sim, "pages");
    const struct ll_sim_binding *was = ll_sim_find(old, name);
    const struct ll_sim_binding *is = ll_sim_find(d->now.image, name);
    int rc = 0;
    if (!was || !is || was->inode != is->inode ||
        !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_OLDER, &rc))
        return rc;
    const struct ll_sim_image *most = old_pages ? d->now.image : old;
    const struct ll_sim_image *few = old_pages ? old : d->now.image;
    rc = ll_sim_image_copy(&d->sim->level[1].worlds, most, d->image);
    if (rc)
        return rc;
    d->image->inode[is->inode] = few->inode[is->inode];
    all_regions(d, old_pages, !old_pages);
    return ll_sim_damage_try(d, "%s as after call %u of the workload",
                             old_pages ? "pages is" : "all but pages is", c);
}

/* Replaces one file by its contents at an earlier time. */
static int older_file(struct ll_sim_damaging *d, const struct ll_sim_image *old, uint32_t c,
                      uint32_t name)
{
    const struct ll_sim_binding *was = ll_sim_find(old, name);
    const struct ll_sim_binding *is = ll_sim_find(d->now.image, name);
    int rc = 0;
    if (!was || !is || was->inode == LL_SIM_DIRECTORY ||
        d->sim->names.at[name].kind == LL_SIM_PAGES || !is_own(d, name) ||
        !ll_sim_damage_next(d, LLADD_SIM_DAMAGE_OLDER, &rc))
        return rc;
    const struct ll_sim_inode *from = old->inode[was->inode];
    ll_sim_damage_region(d, name, 0, d->now.image->inode[is->inode]->size);
    rc = put_from(d, name, from, 0, from->size);
    if (!rc)
        rc = ll_sim_damage_size(d, name, from->size);
    return rc ? rc
              : ll_sim_damage_try(d, "%s is as after call %u of the workload", text_of(d, name), c);
}

static int older(struct ll_sim_damaging *d)
{
    struct ll_sim_image old;
    struct ll_sim_arena *a = &d->sim->level[2].runs;
    int rc = 0;
    for (uint32_t i = 0; !rc && !d->sim->stop && i < EARLIER; i++) {
        uint32_t c = (uint32_t)((uint64_t)d->now.calls * i / EARLIER);
        ll_sim_rewind(a);
        rc = ll_sim_damage_image(d, a, c, UINT32_MAX, d->now.power, &old);
        if (!rc)
            rc = mixed(d, &old, c, false);
        if (!rc)
            rc = mixed(d, &old, c, true);
        for (uint32_t n = 1; !rc && n < d->sim->names.count; n++)
            rc = older_file(d, &old, c, n);
    }
    return rc;
}

/* ---- entry points ------------------------------------------------------------------------ */

int ll_sim_damage_all(struct ll_sim_damaging *d)
{
    static on_file *const on_files[] = {lost_pages, zeros,  cut_off, foreign,
                                        garbage,    astray, flips};
    int rc = lost_writes(d);
    if (!rc)
        rc = older(d);
    for (unsigned i = 0; !rc && i < sizeof on_files / sizeof on_files[0]; i++)
        rc = each_file(d, on_files[i]);
    return rc;
}
