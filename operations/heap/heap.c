/* SPDX-License-Identifier: BSD-2-Clause */
/* Heaps: any number of records in slotted pages, with permanent ids.
 *
 * A record's id names a slot, its *home*. Contents that outgrow the home's page move to another
 * page, and the home gets their address. Tags tell three kinds of slots apart:
 *
 *   PLAIN   the contents
 *   STUB    8 bytes: u48 page, u16 slot of the moved contents
 *   MOVED   8 bytes: u48 page, u16 slot of the home; then the contents
 *
 * Moved contents that outgrow their page go back to the home if they fit there now, else to a third
 * page. So the contents are never more than one step away from the home. A stub needs 8 bytes, and
 * every record occupies at least 8, so replacing contents by a stub needs no room.
 *
 * Each step is an ordinary update of one slotted page in the caller's transaction (slotted_page.c).
 * Contents are stored before the stub that points to them, and freed after the stub is gone. A
 * reader without isolation may follow a stub to a slot that the contents have left. The reader
 * therefore checks that the address in the slot is that of the home from which the reader came. If
 * it is not, the reader starts again.
 *
 * A cursor walks through the inventory in order, and through each page by slots. It follows stubs
 * and skips MOVED, so it returns each record once, at its home, even if the contents move
 * meanwhile. */
#include "operations/heap/heap.h"

#include <string.h>

enum { PLAIN = 0, STUB = 1, MOVED = 2 };

#define LINK_BYTES 8u
#define TRIES 16 /* attempts to find contents that other transactions move */

uint32_t lladd_heap_max(uint32_t page_size)
{
    return lladd_slotted_max(page_size) - LINK_BYTES;
}

static void link_put(unsigned char out[LINK_BYTES], struct lladd_rid to)
{
    lladd_put48(out, to.page.v);
    lladd_put16(out + 6, (uint16_t)to.slot);
}

static struct lladd_rid link_get(const unsigned char *p)
{
    struct lladd_rid r = {lladd_page_of(lladd_get48(p)), lladd_get16(p + 6), 0};
    return r;
}

static bool same_place(struct lladd_rid a, struct lladd_rid b)
{
    return a.page.v == b.page.v && a.slot == b.slot;
}

static int no_record(struct lladd_error *err, struct lladd_rid rid)
{
    return ll_operations__on(err, rid.page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "there is no record in slot %u of page %llu", rid.slot,
                                             (unsigned long long)rid.page.v));
}

/* ---- finding --------------------------------------------------------------------------------- */

/* A record's home: its tag, the owner word of its page, and the address if it is a stub. */
struct home {
    unsigned tag;
    uint64_t owner;
    struct lladd_rid to;
};

struct copy {
    unsigned char *bytes;
    size_t size;
    size_t len;  /* length of the whole record */
    size_t from; /* the first byte to copy */
};

static void copy_out(struct copy *c, const unsigned char *bytes, size_t len)
{
    size_t left = c->from < len ? len - c->from : 0;
    c->len = len;
    if (left && c->size)
        memcpy(c->bytes, bytes + c->from, left < c->size ? left : c->size);
}

static int look_home(struct lladd_db *db, struct lladd_rid rid, struct home *out, struct copy *c,
                     struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    TRY(ll_operations__fix(db, rid.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                           &page, err));
    struct lladd_view v = lladd_page_view(page);
    out->owner = lladd_slotted_owner(v);
    int rc = 0;
    if (!lladd_slotted_record(v, rid.slot, &r) || r.tag > STUB ||
        (r.tag == STUB && r.len != LINK_BYTES)) {
        rc = no_record(err, rid);
    } else {
        out->tag = r.tag;
        if (r.tag == STUB)
            out->to = link_get(r.bytes);
        else
            copy_out(c, r.bytes, r.len);
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}

/* Copies the contents that a stub points to. LLADD_NOT_FOUND: the contents are not there now. */
static int look_moved(struct lladd_db *db, struct lladd_rid home, struct lladd_rid at,
                      struct copy *c, struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    int rc = ll_operations__fix(db, at.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                                &page, err);
    if (rc == LLADD_WRONG_TYPE)
        return LLADD_NOT_FOUND;
    if (rc)
        return rc;
    if (lladd_slotted_record(lladd_page_view(page), at.slot, &r) && r.tag == MOVED &&
        r.len >= LINK_BYTES && same_place(link_get(r.bytes), home))
        copy_out(c, r.bytes + LINK_BYTES, r.len - LINK_BYTES);
    else
        rc = LLADD_NOT_FOUND;
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}

/* Looks at the home, then at the contents. Only one page is latched at a time. If the contents move
 * in between, the home has changed too, and the next attempt finds them. */
static int look(struct lladd_db *db, struct lladd_rid rid, struct home *home, struct copy *c,
                struct lladd_error *err)
{
    int rc = 0;
    for (int i = 0; i < TRIES; i++) {
        rc = look_home(db, rid, home, c, err);
        if (rc || home->tag == PLAIN)
            return rc;
        rc = look_moved(db, rid, home->to, c, err);
        if (rc != LLADD_NOT_FOUND)
            return rc;
    }
    return ll_operations__on(err, rid.page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "slot %u of page %llu leads to slot %u of page %llu, "
                                             "which does not hold its contents",
                                             rid.slot, (unsigned long long)rid.page.v,
                                             home->to.slot, (unsigned long long)home->to.page.v));
}

static inline int exists(struct lladd_heap *h, struct lladd_error *err)
{
    return lladd_atomic_load32(&h->alive) ? 0 : ll_operations__heap_look(h, err);
}

static int look_member(struct lladd_heap *h, struct lladd_rid rid, struct home *home,
                       struct copy *c, struct lladd_error *err)
{
    struct lladd_db *db = h->ops->db;
    TRY(exists(h, err));
    TRY(look(db, rid, home, c, err));
    return ll_operations__heap_member(db, h->root, rid.page, home->owner, err);
}

int lladd_heap_get(struct lladd_heap *h, struct lladd_rid rid, void *buf, size_t size, size_t *len,
                   struct lladd_error *err)
{
    struct home home;
    struct copy c = {.bytes = buf, .size = size};
    int rc = look_member(h, rid, &home, &c, err);
    if (!rc && len)
        *len = c.len;
    return rc;
}

static int check_range(struct lladd_error *err, struct lladd_rid rid, uint32_t offset, size_t len,
                       size_t all)
{
    if (offset <= all && len <= all - offset)
        return 0;
    return ll_operations__on(err, rid.page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "bytes %u to %llu are not in the record in slot %u of "
                                             "page %llu, which has %zu",
                                             offset, (unsigned long long)offset + len, rid.slot,
                                             (unsigned long long)rid.page.v, all));
}

int lladd_heap_read(struct lladd_heap *h, struct lladd_rid rid, uint32_t offset, void *buf,
                    size_t len, struct lladd_error *err)
{
    struct home home;
    struct copy c = {.bytes = buf, .size = len, .from = offset};
    int rc = look_member(h, rid, &home, &c, err);
    return rc ? rc : check_range(err, rid, offset, len, c.len);
}

/* ---- storing --------------------------------------------------------------------------------- */

static int check_handles(struct lladd_txn *txn, const struct lladd_heap *h)
{
    if (lladd_txn_db(txn) == h->ops->db)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_OTHER_DATABASE,
                           "heap %llu is of another database than the transaction",
                           (unsigned long long)h->root.v);
}

static int check_len(struct lladd_txn *txn, size_t len)
{
    uint32_t max = lladd_heap_max(lladd_page_size(lladd_txn_db(txn)));
    if (len <= max)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                           "a record of %zu bytes: a heap takes %u", len, max);
}

int lladd_heap_create(struct lladd_txn *txn, lladd_pageno *out)
{
    LLADD_USE(txn);
    lladd_savepoint_id before;
    lladd_pageno root;
    unsigned char bytes[8];
    TRY(lladd_savepoint(txn, &before));
    int rc = lladd_page_alloc(txn, &root);
    if (!rc) {
        lladd_put64(bytes, root.v);
        rc = lladd_update(txn, LL_OP_HEAP_FORMAT, root, bytes, sizeof bytes);
    }
    if (!rc)
        rc = ll_operations__heap_created(txn, root);
    if (!rc)
        *out = root;
    return ll_operations__step_end(txn, before, rc);
}

int lladd_heap_create_open(struct lladd_txn *txn, lladd_pageno *root, struct lladd_heap **out)
{
    LLADD_USE(txn);
    struct lladd_heap *made = NULL;
    lladd_savepoint_id before;
    lladd_pageno page;
    TRY(lladd_savepoint(txn, &before));
    int rc = lladd_heap_create(txn, &page);
    if (!rc)
        rc = lladd_heap_open(lladd_txn_db(txn), page, &made, lladd_txn_error_out(txn));
    rc = ll_operations__step_end(txn, before, rc);
    if (rc) {
        lladd_heap_close(made);
        return rc;
    }
    *root = page;
    *out = made;
    return 0;
}

int lladd_heap_insert(struct lladd_txn *txn, struct lladd_heap *h, const void *bytes, size_t len,
                      struct lladd_rid *out)
{
    LLADD_USE(txn);
    struct ll_slotted_alloc a = {.bytes = bytes, .len = (uint32_t)len, .tag = PLAIN};
    TRY(check_handles(txn, h));
    TRY(check_len(txn, len));
    TRY(exists(h, lladd_txn_error_out(txn)));
    return ll_operations__heap_place(txn, h, &a, out);
}

/* Frees a record and notes the room in the inventory. After an error, the caller rolls back. */
static int freed(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid)
{
    struct ll_slotted_free a = {.slot = rid.slot};
    int rc = ll_operations__record_drop(txn, rid.page, &a);
    return rc ? rc : ll_operations__heap_gained(txn, h, &a.state);
}

int lladd_heap_delete(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid)
{
    LLADD_USE(txn);
    struct home home;
    struct copy none = {0};
    lladd_savepoint_id before;
    TRY(check_handles(txn, h));
    TRY(look_member(h, rid, &home, &none, lladd_txn_error_out(txn)));
    TRY(lladd_savepoint(txn, &before));
    int rc = freed(txn, h, rid);
    if (!rc && home.tag == STUB)
        rc = freed(txn, h, home.to);
    return ll_operations__step_end(txn, before, rc);
}

/* The moved form of a record: its home's address, then its contents. */
static int pack(struct lladd_txn *txn, struct lladd_rid home, const void *bytes, size_t len,
                unsigned char **out)
{
    *out = lladd_mem_alloc(lladd_txn_db(txn), LINK_BYTES + len);
    if (!*out)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for a record");
    link_put(*out, home);
    if (len)
        memcpy(*out + LINK_BYTES, bytes, len);
    return 0;
}

/* Stores the contents on a page with room, then the stub in the home. */
static int move_out(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid,
                    unsigned char *packed, size_t len)
{
    struct ll_slotted_alloc a = {
        .bytes = packed, .len = (uint32_t)(LINK_BYTES + len), .tag = MOVED};
    struct lladd_rid to;
    unsigned char stub[LINK_BYTES];
    TRY(ll_operations__heap_place(txn, h, &a, &to));
    link_put(stub, to);
    return lladd_slotted_set(txn, rid, stub, sizeof stub, STUB);
}

static int set_moved(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid,
                     struct lladd_rid at, const void *bytes, size_t len, unsigned char *packed)
{
    int rc = lladd_slotted_set(txn, at, packed, LINK_BYTES + len, MOVED);
    if (rc != LLADD_PAGE_FULL)
        return rc;
    rc = lladd_slotted_set(txn, rid, bytes, len, PLAIN); /* the home may have room again */
    if (rc == LLADD_PAGE_FULL)
        rc = move_out(txn, h, rid, packed, len);
    return rc ? rc : freed(txn, h, at);
}

int lladd_heap_set(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid,
                   const void *bytes, size_t len)
{
    LLADD_USE(txn);
    struct home home;
    struct copy none = {0};
    lladd_savepoint_id before;
    unsigned char *packed = NULL;
    int rc = check_handles(txn, h);
    if (!rc)
        rc = check_len(txn, len);
    if (!rc)
        rc = look_member(h, rid, &home, &none, lladd_txn_error_out(txn));
    if (!rc && home.tag == PLAIN)
        rc = lladd_slotted_set(txn, rid, bytes, len, PLAIN);
    if (rc != LLADD_PAGE_FULL && (rc || home.tag == PLAIN))
        return rc;
    TRY(pack(txn, rid, bytes, len, &packed));
    rc = lladd_savepoint(txn, &before);
    if (rc) {
        lladd_mem_free(lladd_txn_db(txn), packed);
        return rc;
    }
    rc = home.tag == PLAIN ? move_out(txn, h, rid, packed, len)
                           : set_moved(txn, h, rid, home.to, bytes, len, packed);
    lladd_mem_free(lladd_txn_db(txn), packed);
    return ll_operations__step_end(txn, before, rc);
}

/* ---- a part of a record ---------------------------------------------------------------------- */

/* Changes *rid and *offset to the place where bytes [*offset, *offset + len) are stored. */
static int find_part(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid *rid,
                     uint32_t *offset, size_t len)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct home home;
    struct copy none = {0};
    int rc = check_handles(txn, h);
    if (!rc)
        rc = look_member(h, *rid, &home, &none, err);
    if (!rc)
        rc = check_range(err, *rid, *offset, len, none.len);
    if (rc || home.tag == PLAIN)
        return rc;
    *rid = home.to;
    *offset += LINK_BYTES;
    return 0;
}

int lladd_heap_write(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid,
                     uint32_t offset, const void *bytes, size_t len)
{
    LLADD_USE(txn);
    int rc = find_part(txn, h, &rid, &offset, len);
    return rc ? rc : lladd_slotted_write(txn, rid, offset, bytes, len);
}

int lladd_heap_add(struct lladd_txn *txn, struct lladd_heap *h, struct lladd_rid rid,
                   uint32_t offset, int64_t delta)
{
    LLADD_USE(txn);
    int rc = find_part(txn, h, &rid, &offset, sizeof delta);
    return rc ? rc : lladd_slotted_add(txn, rid, offset, delta);
}

/* ---- destroying ------------------------------------------------------------------------------ */

/* Frees the pages that one inventory page lists, neighbours together, then the inventory page. */
static int free_inventory(struct lladd_txn *txn, lladd_pageno heap, lladd_pageno at,
                          lladd_pageno *next)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = 0;
    for (uint32_t index = 0; !rc;) {
        struct lladd_page *page;
        TRY(ll_operations__fix(db, at, ll_operations__heap_page.name, LLADD_LATCH_SHARED, &page,
                               err));
        struct lladd_view v = lladd_page_view(page);
        uint32_t count = ll_operations__inventory_count(v), n = 0;
        lladd_pageno first = lladd_page_of(LLADD_NO_PAGE);
        if (ll_inventory_heap(v).v != heap.v)
            rc = lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu does not belong to heap %llu",
                                 (unsigned long long)at.v, (unsigned long long)heap.v);
        if (index < count)
            first = ll_operations__inventory_entry(v, index).page;
        while (index + n < count &&
               ll_operations__inventory_entry(v, index + n).page.v == first.v + n)
            n++;
        *next = ll_inventory_next(v);
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        if (!rc && n == 0)
            return lladd_page_free(txn, at);
        if (!rc)
            rc = lladd_extent_free(txn, first, n);
        index += n;
    }
    return rc;
}

int lladd_heap_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_heap *h;
    lladd_savepoint_id before;
    lladd_pageno at, next = root;
    TRY(ll_operations__heap_check_root(db, root, err));
    TRY(ll_operations__heap_at(db, root, &h, err));
    TRY(lladd_savepoint(txn, &before));
    int rc = 0;
    do {
        at = next;
        rc = free_inventory(txn, root, at, &next);
    } while (!rc && next.v != 0);
    if (!rc)
        ll_operations__heap_destroyed(h);
    return ll_operations__step_end(txn, before, rc);
}

/* ---- walking --------------------------------------------------------------------------------- */

/* private_[0]: inventory page. [1]: entry << 16 | next slot. [2]: data page + 1, or 0 if the entry
 * must be read. [3]: number of inventory pages visited. */
void lladd_heap_cursor_open(struct lladd_heap *h, struct lladd_heap_cursor *c)
{
    *c = (struct lladd_heap_cursor){.heap = h};
    c->private_[0] = h->root.v;
}

void lladd_heap_cursor_close(struct lladd_heap_cursor *c)
{
    lladd_mem_free(c->heap->ops->db, c->buffer);
    c->buffer = NULL;
    c->size = 0;
}

/* Finds the data page of the cursor's inventory entry; LLADD_END after the last entry. */
static int cursor_page(struct lladd_heap_cursor *c, struct lladd_error *err)
{
    struct lladd_db *db = c->heap->ops->db;
    while (c->private_[2] == 0) {
        struct lladd_page *page;
        lladd_pageno at = lladd_page_of(c->private_[0]);
        TRY(ll_operations__fix(db, at, ll_operations__heap_page.name, LLADD_LATCH_SHARED, &page,
                               err));
        struct lladd_view v = lladd_page_view(page);
        uint32_t index = (uint32_t)(c->private_[1] >> 16);
        uint64_t next = ll_inventory_next(v).v;
        int rc = 0;
        if (ll_inventory_heap(v).v != c->heap->root.v)
            rc = lladd_error_set(err, LLADD_WRONG_TYPE, "page %llu does not belong to heap %llu",
                                 (unsigned long long)at.v, (unsigned long long)c->heap->root.v);
        else if (index < ll_operations__inventory_count(v))
            c->private_[2] = ll_operations__inventory_entry(v, index).page.v + 1;
        else if (next == 0)
            rc = LLADD_END;
        else if (++c->private_[3] > lladd_page_count(db))
            rc = ll_operations__heap_endless(err, c->heap->root);
        else
            c->private_[0] = next;
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        if (rc)
            return rc;
        if (c->private_[2] == 0)
            c->private_[1] = 0;
    }
    return 0;
}

/* Finds the next home on the page, and copies plain contents. LLADD_NOT_FOUND: the page has no more
 * homes. */
static int cursor_home(struct lladd_heap_cursor *c, struct lladd_rid *rid, struct home *home,
                       struct copy *copy, struct lladd_error *err)
{
    struct lladd_db *db = c->heap->ops->db;
    struct lladd_page *page;
    struct lladd_record r;
    rid->page = lladd_page_of(c->private_[2] - 1);
    TRY(ll_operations__fix(db, rid->page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                           &page, err));
    struct lladd_view v = lladd_page_view(page);
    uint32_t slot = (uint32_t)(c->private_[1] & UINT16_MAX), slots = lladd_slotted_slots(v);
    int rc = LLADD_NOT_FOUND;
    for (; slot < slots && rc; slot++) {
        if (!lladd_slotted_record(v, slot, &r) || r.tag > STUB || (r.tag == STUB && r.len != 8))
            continue;
        rid->slot = slot;
        home->tag = r.tag;
        if (r.tag == STUB)
            home->to = link_get(r.bytes);
        else
            copy_out(copy, r.bytes, r.len);
        rc = 0;
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    c->private_[1] = (c->private_[1] & ~(uint64_t)UINT16_MAX) | slot;
    return rc;
}

int lladd_heap_cursor_next(struct lladd_heap_cursor *c, struct lladd_rid *rid,
                           struct lladd_record *out, struct lladd_error *err)
{
    struct lladd_db *db = c->heap->ops->db;
    int there = exists(c->heap, err);
    if (there)
        return there;
    if (!c->buffer) {
        c->size = lladd_page_size(db);
        c->buffer = lladd_mem_alloc(db, c->size);
        if (!c->buffer)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a cursor");
    }
    struct copy copy = {.bytes = c->buffer, .size = c->size};
    struct home home = {0};
    for (;;) {
        int rc = cursor_page(c, err);
        if (!rc)
            rc = cursor_home(c, rid, &home, &copy, err);
        if (!rc && home.tag == STUB) {
            rc = look(db, *rid, &home, &copy, err);
            if (rc == LLADD_OUT_OF_RANGE)
                continue; /* the record was deleted after cursor_home */
        }
        if (rc == LLADD_NOT_FOUND) {
            c->private_[1] = ((c->private_[1] >> 16) + 1) << 16;
            c->private_[2] = 0;
            continue;
        }
        if (rc)
            return rc;
        rid->size = (uint32_t)copy.len;
        *out = (struct lladd_record){c->buffer, (uint32_t)copy.len, 0};
        return 0;
    }
}
