/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * damage_place: decides which bytes of the files mean something (docs/disk-format.md). Only damage
 * to these bytes must be noticed. Inspection of the undamaged files says which pages and records
 * exist. These bytes mean something:
 *
 *   pages     the root page, the maps, and all allocated pages except raw extents
 *   log       whole records between the oldest LSN and the end, and the headers of their blocks;
 *             after an unclean stop, only records that are stated to be durable: they end at or
 *             below the highest LSN in the control block, the witness or an undamaged seal
 *   control   the two copies
 *
 * The bytes of "dwb" mean nothing. This file is needed only for pages that the crash has torn, and
 * damage to such pages need not be noticed.
 */
#include "sim/damage_private.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONTROL_COPY = 4096,
    CONTROL_BYTES = 256,
    BLOCK_MAX = 65536,
    BLOCK_HEADER = 64,
    BLOCK_FIRST_RECORD = 24,
    PAGE_LSN = 8,
    PAGE_BASE = 16,
    WITNESS_AT = 2 * CONTROL_COPY,
    WITNESS_MAGIC = 0x57444c4c, /* "LLDW" */
    WITNESS_END = 16            /* size of the part that is read */
};

#define BLOCK_FIRST_UNKNOWN (UINT32_MAX - 1)

/* ---- learning ---------------------------------------------------------------------------- */

static int see_record(void *ctx, const struct lladd_inspect_record *r)
{
    struct ll_sim_damaging *d = ctx;
    struct ll_sim_situation *s = &d->now;
    const char *kind = lladd_log_kind_name(r->entry.kind);
    struct ll_sim_record_facts *all = ll_sim_grow(&d->sim->level[2].worlds, s->record, s->n_records,
                                                  &s->records_capacity, sizeof *all);
    if (!all)
        return LLADD_NO_MEMORY;
    s->record = all;
    all[s->n_records++] = (struct ll_sim_record_facts){
        .lsn = r->entry.lsn.v,
        .end = r->entry.lsn.v + r->size,
        .page = r->entry.page,
        .barrier = strcmp(kind, "redo-barrier") == 0,
        .names = {r->entry.prev.v, r->entry.txn.v, r->entry.page_prev.v, r->entry.undo_next.v},
        .decides = strcmp(kind, "commit") == 0 || strcmp(kind, "prepare") == 0 ||
                   strcmp(kind, "end") == 0};
    if (strcmp(kind, "seal") == 0 && r->entry.redo.len == 8)
        all[s->n_records - 1].states = lladd_get64(r->entry.redo.data);
    return 0;
}

/* Is the page LSN the LSN of a redo barrier, and is there no later record about the page? Then its
 * contents were written in bulk. */
static bool is_bulk(const struct ll_sim_situation *s, uint64_t page, uint64_t lsn)
{
    bool bulk = false;
    for (uint32_t i = 0; i < s->n_records; i++) {
        const struct ll_sim_record_facts *r = &s->record[i];
        if (r->lsn == lsn)
            bulk = r->barrier;
        else if (r->lsn > lsn && r->page == page)
            return false;
    }
    return bulk;
}

static bool is_free(unsigned use)
{
    return use == LLADD_USE_NONE || use == LLADD_USE_FREED;
}

static int learn_pages(struct ll_sim_damaging *d, struct lladd_inspect *view)
{
    struct ll_sim_situation *s = &d->now;
    struct lladd_error err = LLADD_ERROR_INIT;
    s->n_pages = s->info.page_file_bytes / d->sim->page_size;
    s->page = ll_sim_take(&d->sim->level[2].worlds, (s->n_pages + 1) * sizeof *s->page);
    if (!s->page)
        return LLADD_NO_MEMORY;
    for (uint64_t p = 0; p < s->n_pages; p++) {
        struct lladd_inspect_page page;
        int rc = lladd_inspect_page_read(view, lladd_page_of(p), &page, &err);
        if (rc)
            return rc;
        s->page[p] = (struct ll_sim_page_facts){
            .lsn = page.lsn.v,
            .base = page.base.v,
            .use = (uint8_t)(page.use_known ? page.use : LLADD_USE_PAGED),
            .zero = page.zero,
            .bulk = page.lsn.v && is_bulk(s, p, page.lsn.v),
            .bad = page.code != 0};
    }
    return 0;
}

/* Does the first block of the log begin inside a record of unknown length? Its header says so. */
static bool begins_inside(const struct ll_sim_damaging *d, uint64_t oldest)
{
    char name[32];
    unsigned char header[BLOCK_HEADER] = {0};
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)oldest);
    const struct ll_sim_binding *b = ll_sim_find(d->now.image, ll_sim_intern(d->sim, name));
    if (b && b->inode != LL_SIM_DIRECTORY)
        (void)ll_sim_get(d->now.image->inode[b->inode], 0, header, sizeof header);
    return lladd_get32(header + BLOCK_FIRST_RECORD) == BLOCK_FIRST_UNKNOWN;
}

int ll_sim_damage_learn(struct ll_sim_damaging *d)
{
    struct ll_sim_situation *s = &d->now;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *view;
    struct ll_sim_found found;
    int rc = ll_sim_inspect(d->sim, s->image, &found, &view);
    if (rc)
        return rc;
    s->damage = found.damage;
    s->repair = found.repair;
    s->info.struct_size = sizeof s->info;
    rc = lladd_inspect_info_get(view, &s->info);
    if (!rc)
        rc = lladd_inspect_log(view, lladd_lsn_of(0), see_record, d, &err);
    if (!rc)
        rc = learn_pages(d, view);
    s->begins_inside = begins_inside(d, s->info.log_oldest.v);
    lladd_inspect_close(view);
    return rc;
}

int ll_sim_damage_learn_after(struct ll_sim_damaging *d, const struct ll_sim_image *image)
{
    struct ll_sim_situation *s = &d->now;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *view = NULL;
    struct ll_sim_found found;
    int rc = ll_sim_inspect(d->sim, image, &found, &view);
    for (uint64_t p = 0; !rc && p < s->n_pages; p++) {
        struct lladd_inspect_page page;
        rc = lladd_inspect_page_read(view, lladd_page_of(p), &page, &err);
        if (!rc)
            s->page[p].passing = page.use_known && is_free(page.use);
    }
    if (view)
        lladd_inspect_close(view);
    return rc == LLADD_OUT_OF_RANGE ? 0 : rc; /* the file may have become shorter */
}

bool ll_sim_damage_unused(const struct ll_sim_situation *s, uint64_t page)
{
    const struct ll_sim_page_facts *f = page < s->n_pages ? &s->page[page] : NULL;
    return !f || f->zero || f->bad || f->passing || is_free(f->use);
}

uint32_t ll_sim_damage_decisions_from(const struct ll_sim_situation *s, uint64_t lsn)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_records; i++)
        n += s->record[i].decides && s->record[i].end > lsn;
    return n;
}

uint64_t ll_sim_damage_newest(const struct ll_sim_damaging *d, const struct ll_sim_image *image)
{
    uint64_t newest = 0;
    uint32_t name = ll_sim_intern(d->sim, "pages");
    const struct ll_sim_binding *b = ll_sim_find(image, name);
    unsigned char header[32];
    for (uint64_t p = 0; b && p < d->now.n_pages; p++) {
        if (d->now.page[p].use == LLADD_USE_RAW ||
            ll_sim_get(image->inode[b->inode], p * d->sim->page_size, header, sizeof header) !=
                sizeof header)
            continue;
        uint64_t lsn = lladd_get64(header + PAGE_LSN);
        newest = lsn > newest ? lsn : newest;
    }
    return newest;
}

/* ---- meaning ----------------------------------------------------------------------------- */

/* Returns the record that contains the LSN, or NULL. */
static const struct ll_sim_record_facts *record_at(const struct ll_sim_situation *s, uint64_t lsn)
{
    uint32_t from = 0, to = s->n_records;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (s->record[mid].end <= lsn)
            from = mid + 1;
        else
            to = mid;
    }
    return from < s->n_records && s->record[from].lsn <= lsn ? &s->record[from] : NULL;
}

/* Returns the first record that has a byte in [lsn, end), or NULL. */
static const struct ll_sim_record_facts *record_in(const struct ll_sim_situation *s, uint64_t lsn,
                                                   uint64_t end)
{
    for (uint32_t i = 0; i < s->n_records; i++)
        if (s->record[i].end > lsn && s->record[i].lsn < end)
            return &s->record[i];
    return NULL;
}

static void unused(struct ll_sim_meaning *m, enum lladd_sim_reason why)
{
    m->reasons |= 1u << why;
}

static void mean_log(const struct ll_sim_damaging *d, struct ll_sim_meaning *m, uint32_t name,
                     uint64_t size, uint64_t off)
{
    const struct ll_sim_situation *s = &d->now;
    uint64_t first = strtoull(d->sim->names.at[name].last, NULL, 16);
    uint64_t block = size < BLOCK_MAX ? size : BLOCK_MAX;
    uint64_t begin = first + off / block * (block - BLOCK_HEADER), into = off % block;
    const struct ll_sim_record_facts *r = into < BLOCK_HEADER
                                              ? record_in(s, begin, begin + block - BLOCK_HEADER)
                                              : record_at(s, begin + into - BLOCK_HEADER);
    m->one_page = false;
    if (!r) {
        unused(m, LLADD_SIM_REASON_UNUSED_LOG);
        return;
    }
    uint64_t lsn = r->lsn > begin || into >= BLOCK_HEADER ? r->lsn : begin;
    if (lsn < m->log_first) {
        m->log_first = lsn;
        m->log_first_end = r->end;
    }
    m->log_end = r->end > m->log_end ? r->end : m->log_end;
}

static bool is_named(const struct ll_sim_situation *s, uint64_t from, uint64_t to)
{
    bool named = false;
    for (uint32_t i = 0; i < s->n_records; i++)
        for (unsigned k = 0; k < 4 && s->record[i].lsn >= to; k++)
            named |= s->record[i].names[k] >= from && s->record[i].names[k] < to;
    for (uint64_t p = 0; p < s->n_pages; p++)
        named |= s->page[p].lsn >= from && s->page[p].lsn < to && s->page[p].use == LLADD_USE_PAGED;
    return named;
}

/* Has the damage hit the first records of the log, and does nothing refer to them? Then it need not
 * be noticed: the log may begin with the end of a truncated record, so only a reference proves that
 * these records existed. */
static bool is_unnamed_start(const struct ll_sim_situation *s, const struct ll_sim_meaning *m)
{
    return s->begins_inside && m->log_first == s->record[0].lsn && m->log_end <= s->info.redo.v &&
           !is_named(s, m->log_first, m->log_end);
}

/* Returns the LSN that the witness in the control file states: below it, the log was durable. 0: no
 * witness. */
static uint64_t witnessed(const struct ll_sim_damaging *d)
{
    unsigned char bytes[WITNESS_END];
    const struct ll_sim_image *image = d->now.image;
    const struct ll_sim_binding *b = ll_sim_find(image, ll_sim_intern(d->sim, "control"));
    if (!b || ll_sim_get(image->inode[b->inode], WITNESS_AT, bytes, sizeof bytes) != sizeof bytes)
        return 0;
    return lladd_get32(bytes + 4) == WITNESS_MAGIC ? lladd_get64(bytes + 8) : 0;
}

/* Decides whether damage to the log must be noticed. It must if the first damaged record is known
 * to have been durable: because of a close, the control file or an undamaged seal. */
static void weigh_log(const struct ll_sim_damaging *d, struct ll_sim_meaning *m)
{
    const struct ll_sim_situation *s = &d->now;
    uint64_t stated = s->clean ? s->info.log_end.v : s->info.watermark.v;
    if (!s->clean && witnessed(d) > stated)
        stated = witnessed(d);
    if (m->log_first == UINT64_MAX)
        return;
    if (is_unnamed_start(s, m)) {
        unused(m, LLADD_SIM_REASON_UNNAMED);
        return;
    }
    for (uint32_t i = 0; i < s->n_records; i++) {
        const struct ll_sim_record_facts *r = &s->record[i];
        if (r->states > stated && (r->end <= m->log_first || r->lsn >= m->log_end))
            stated = r->states;
    }
    if (m->log_first_end <= stated) {
        m->solid = true;
        return;
    }
    unused(m, LLADD_SIM_REASON_TAIL);
    m->tail = m->log_first;
}

static void mean_page(const struct ll_sim_damaging *d, struct ll_sim_meaning *m, uint64_t off)
{
    uint64_t p = off / d->sim->page_size;
    const struct ll_sim_page_facts *f = p < d->now.n_pages ? &d->now.page[p] : NULL;
    if (m->page != UINT64_MAX && m->page != p)
        m->one_page = false;
    m->page = p;
    if (ll_sim_damage_unused(&d->now, p)) {
        unused(m, LLADD_SIM_REASON_FREE);
        return;
    }
    if (f->use == LLADD_USE_RAW) {
        unused(m, LLADD_SIM_REASON_RAW);
        return;
    }
    m->bulk |= f->bulk;
    m->page_lsn = f->lsn > m->page_lsn ? f->lsn : m->page_lsn;
    m->solid = true;
}

static void mean_byte(const struct ll_sim_damaging *d, struct ll_sim_meaning *m,
                      const struct ll_sim_region *r, uint64_t size, uint64_t off)
{
    const struct ll_sim_name *name = &d->sim->names.at[r->name];
    m->differs = true;
    if (name->kind == LL_SIM_LOG) {
        mean_log(d, m, r->name, size, off);
        return;
    }
    if (name->kind == LL_SIM_PAGES) {
        mean_page(d, m, off);
        return;
    }
    m->one_page = false;
    if (name->kind == LL_SIM_LOG_NEW || strcmp(name->text, "log/new.tmp") == 0)
        unused(m, LLADD_SIM_REASON_UNUSED_LOG);
    else if (strcmp(name->text, "dwb") == 0)
        unused(m, LLADD_SIM_REASON_DWB);
    else if (strcmp(name->text, "control") == 0 &&
             (off >= 2 * CONTROL_COPY || off % CONTROL_COPY >= CONTROL_BYTES))
        unused(m, LLADD_SIM_REASON_CONTROL_GAP);
    else
        m->solid = true;
}

static bool reads_zeros(const struct ll_sim_damaging *d, const struct ll_sim_inode *inode,
                        uint64_t len)
{
    unsigned char bytes[512];
    bool zeros = true;
    for (uint64_t at = 0; zeros && at < len; at += sizeof bytes) {
        size_t n = ll_sim_get(inode, d->read_from + at, bytes, sizeof bytes);
        for (size_t i = 0; i < n; i++)
            zeros &= bytes[i] == 0;
    }
    return zeros;
}

/* Compares the old and the new bytes of the region. If the damage is a read that goes wrong, all
 * bytes of the region count as different. */
static void mean_region(const struct ll_sim_damaging *d, struct ll_sim_meaning *m,
                        const struct ll_sim_region *r, const struct ll_sim_inode *old,
                        const struct ll_sim_inode *new)
{
    uint64_t end = r->len < old->size - r->off ? r->off + r->len : old->size;
    unsigned char a[512], b[512];
    for (uint64_t at = r->off; at < end; at += sizeof a) {
        size_t n = end - at < sizeof a ? (size_t)(end - at) : sizeof a;
        (void)ll_sim_get(old, at, a, n);
        size_t there = new ? ll_sim_get(new, at, b, n) : 0;
        for (size_t k = 0; k < n; k++) {
            m->zeros &= k < there && b[k] == 0 && !d->misread;
            if (d->misread || k >= there || a[k] != b[k])
                mean_byte(d, m, r, old->size, at + k);
        }
    }
}

void ll_sim_damage_meaning(struct ll_sim_damaging *d, struct ll_sim_meaning *m)
{
    *m = (struct ll_sim_meaning){.page = UINT64_MAX,
                                 .tail = UINT64_MAX,
                                 .log_first = UINT64_MAX,
                                 .one_page = true,
                                 .zeros = true};
    for (uint32_t i = 0; i < d->n_regions; i++) {
        const struct ll_sim_region *r = &d->region[i];
        const struct ll_sim_binding *was = ll_sim_find(d->now.image, r->name);
        const struct ll_sim_binding *is = ll_sim_find(d->image, r->name);
        if (!was || was->inode == LL_SIM_DIRECTORY)
            continue; /* The file did not exist before, so nothing is lost. */
        const struct ll_sim_inode *old = d->now.image->inode[was->inode];
        if (r->off < old->size)
            mean_region(d, m, r, old, is ? d->image->inode[is->inode] : NULL);
        if (d->misread && !d->read_bit)
            m->zeros = reads_zeros(d, old, r->len);
    }
    weigh_log(d, m);
}
