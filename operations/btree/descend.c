/* SPDX-License-Identifier: BSD-2-Clause */
/* Descents from the top node to the node that covers a key. Inner nodes are read without a latch
 * (lladd/optimistic.h), or with one shared latch at a time if that fails. Between two nodes a
 * descent holds no latch, so the next node may be split before the descent reads it. Then the key
 * is at or after the high fence of that node, and the right link leads to the key's node. The page
 * may also have become another node of the tree. Then the page's level, flags or low fence do not
 * fit the key, and the descent begins again. The page cannot have become anything else, because
 * node pages stay node pages of their tree (BPT-5). */
#include "operations/btree/tree.h"

#include <lladd/optimistic.h>

/* Where the first steps of a search read: the slots around the middle, in a page of 4 KiB. */
#define SLOTS_AT 96u
#define SLOTS_LEN 480u
#define TRIES 10000 /* attempts before the thread reports that the pages contradict each other */

int ll_btree__again(struct ll_btree_tree *t, unsigned *tries, struct lladd_error *err)
{
    if (++*tries > TRIES)
        return ll_btree__corrupt(err, t->root, "the nodes of its tree contradict each other");
    if (*tries > 4)
        lladd_yield();
    return 0;
}

/* Counts a move along a right link. */
static int count_right(struct ll_btree_tree *t, uint64_t *moves, struct lladd_error *err)
{
    return ++*moves > lladd_page_count(t->db)
               ? ll_btree__corrupt(err, t->root, "the right links of its tree do not end")
               : 0;
}

static int look_latched(struct ll_btree_tree *t, lladd_pageno page, struct bt_key key,
                        uint32_t level, struct bt_seen *seen, enum bt_step *step,
                        struct lladd_error *err)
{
    struct lladd_page *p;
    TRY(lladd_page_fix(t->db, page, LLADD_LATCH_SHARED, &p, err));
    *step = ll_btree__look(t, p->bytes, p->size, key, level, seen);
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

/* One step of a descent, in a node of this level. */
static inline int look(struct ll_btree_tree *t, lladd_pageno page, struct bt_key key,
                       uint32_t level, struct bt_seen *seen, enum bt_step *step,
                       struct lladd_error *err)
{
    struct lladd_read g;
    if (__builtin_expect(lladd_read_begin(t->db, page, &g), 1)) {
        *step = ll_btree__look(t, g.bytes, g.size, key, level, seen);
        if (__builtin_expect(lladd_read_validate(&g), 1))
            return 0;
    }
    return look_latched(t, page, key, level, seen, step, err);
}

int ll_btree__descend(struct ll_btree_tree *t, struct bt_key key, uint32_t level, lladd_pageno *out,
                      uint32_t *moved, struct lladd_error *err)
{
    struct bt_seen seen;
    enum bt_step step = BT_HERE;
    uint64_t top, moves = 0;
    TRY(ll_btree__top(t, &top, err));
    lladd_pageno page = bt_top_page(top);
    if (bt_top_level(top) < level)
        return LLADD_END;
    for (uint32_t at = bt_top_level(top); at > level;) {
        TRY(look(t, page, key, at, &seen, &step, err));
        if (step == BT_AGAIN || (step == BT_GO_RIGHT && seen.right.v == 0))
            return LLADD_CONFLICT;
        if (step == BT_GO_RIGHT) {
            TRY(count_right(t, &moves, err));
            page = seen.right;
            if (moved)
                *moved = at + 1;
            continue;
        }
        page = seen.child;
        at--;
        lladd_prefetch_lines(t->db, page, SLOTS_AT, SLOTS_LEN);
    }
    *out = page;
    return 0;
}

/* Latches the page; goes right until the node covers the key. LLADD_CONFLICT: begin again. */
static int fix_from(struct ll_btree_tree *t, lladd_pageno page, struct bt_key key, uint32_t level,
                    enum lladd_latch latch, struct lladd_page **out, struct lladd_error *err)
{
    for (uint64_t moves = 0;;) {
        struct bt_seen seen;
        TRY(lladd_page_fix(t->db, page, latch, out, err));
        enum bt_step step = ll_btree__look(t, (*out)->bytes, (*out)->size, key, level, &seen);
        if (step == BT_HERE)
            return 0;
        lladd_page_unfix(t->db, *out, latch);
        if (step == BT_AGAIN || seen.right.v == 0)
            return LLADD_CONFLICT;
        TRY(count_right(t, &moves, err));
        page = seen.right;
    }
}

int ll_btree__fix(struct ll_btree_tree *t, struct bt_key key, uint32_t level,
                  enum lladd_latch latch, struct lladd_page **out, struct lladd_error *err)
{
    for (unsigned tries = 0;;) {
        lladd_pageno page;
        int rc = ll_btree__descend(t, key, level, &page, NULL, err);
        if (!rc)
            rc = fix_from(t, page, key, level, latch, out, err);
        if (rc != LLADD_CONFLICT)
            return rc;
        TRY(ll_btree__again(t, &tries, err));
    }
}

int ll_btree__fix_near(struct ll_btree_tree *t, lladd_pageno page, struct bt_key key,
                       struct lladd_page **out, struct lladd_error *err)
{
    if (page.v && fix_from(t, page, key, 0, LLADD_LATCH_SHARED, out, NULL) == 0)
        return 0;
    return ll_btree__fix(t, key, 0, LLADD_LATCH_SHARED, out, err);
}
