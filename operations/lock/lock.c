/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls on a transaction's locks. They find, create and release the holds of a name. */
#include "operations/lock/table.h"

int ll_operations__locker_name(struct ll_locker *l, size_t len)
{
    if (len <= l->name_size)
        return 0;
    size_t size = len < 256 ? 256 : len;
    unsigned char *name = lladd_mem_resize(l->all->db, l->name, size);
    if (!name)
        return LLADD_NO_MEMORY;
    l->name = name;
    l->name_size = size;
    return 0;
}

/* ---- lock ------------------------------------------------------------------------------------ */

static int want_replaced(struct ll_locker *l, struct lladd_error *err)
{
    return ll_operations__grow(l->all->db, &l->replaced, l->n_replaced + 1, &l->cap_replaced,
                               sizeof *l->replaced)
               ? lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a lock")
               : 0;
}

/* Locks the request's name, or upgrades the hold on it. On entry *hold is the present hold or NULL;
 * on success it becomes the granted hold. */
static int step(const struct ll_lock_request *r, struct ll_lock_hold **hold,
                struct ll_lock_hold *parent, lladd_savepoint_id now)
{
    struct ll_locker *l = r->by;
    struct ll_lock_hold *h = *hold;
    unsigned before = h ? h->mode : LLADD_LOCK_NONE;
    bool keep = h && h->changed != now;
    if (keep)
        TRY(want_replaced(l, r->err));
    TRY(ll_operations__lock_take(r, hold));
    if (keep) {
        l->replaced[l->n_replaced++] =
            (struct ll_lock_replaced){h, now, h->changed, (uint8_t)before};
        h->replaced++;
        h->changed = now;
    }
    if (!h)
        ll_operations__lock_hold_add(l, *hold, parent, now);
    (*hold)->call = l->calls;
    (*hold)->before = (uint8_t)before;
    return 0;
}

/* Undoes what this call has granted on ancestors (LOCK-5). */
static void undo_steps(struct ll_locker *l, struct ll_lock_hold *deepest, size_t n_replaced)
{
    while (l->n_replaced > n_replaced) {
        const struct ll_lock_replaced *r = &l->replaced[--l->n_replaced];
        r->hold->replaced--;
        r->hold->changed = r->changed;
    }
    for (struct ll_lock_hold *h = deepest, *parent; h; h = parent) {
        parent = h->parent;
        if (h->call != l->calls)
            continue;
        if (h->before)
            ll_operations__lock_weaken(h, h->before);
        else
            ll_operations__lock_release(l, h);
    }
}

static size_t part_size(const struct lladd_lock_part *part)
{
    return ll_operations__lock_name_size((struct lladd_lock_name){part, 1});
}

/* Encodes the name into l->name. If it differs from the last name only in its last component, and
 * the parent is held in mode `intent` or a stronger one, returns the hold on the parent; else
 * NULL. */
static struct ll_lock_hold *near_parent(struct ll_locker *l, struct lladd_lock_name name,
                                        size_t size, unsigned intent)
{
    size_t at = 0;
    for (size_t i = 0; i < name.n; i++)
        at += ll_operations__lock_part_put(l->name + at, &name.parts[i]);
    struct ll_lock_hold *near = l->near;
    if (!near || !ll_lock_includes(near->mode, intent))
        return NULL;
    size_t last = part_size(&name.parts[name.n - 1]);
    const struct ll_lock *lock = near->lock;
    return lock->len == size - last && memcmp(lock->name, l->name, lock->len) == 0 ? near : NULL;
}

static int lock_path(struct ll_lock_request *r, struct lladd_lock_name name, size_t size,
                     unsigned mode, lladd_savepoint_id now)
{
    struct ll_locker *l = r->by;
    unsigned intent = ll_operations__lock_intent[mode];
    size_t n_replaced = l->n_replaced;
    int rc = 0;
    l->calls++;
    struct ll_lock_hold *h, *parent = near_parent(l, name, size, intent);
    r->name = l->name;
    r->len = parent ? parent->lock->len : 0;
    r->hash = parent ? parent->lock->node.key : 0;
    for (size_t i = parent ? name.n - 1 : 0;; i++) {
        if (parent && ll_lock_includes(ll_operations__lock_implies[parent->mode], mode))
            return 0;
        if (i == name.n)
            return 0;
        size_t len = part_size(&name.parts[i]);
        r->hash = ll_operations__lock_hash(l->all, r->hash, l->name + r->len, len);
        r->len += len;
        r->want = i + 1 < name.n ? intent : mode;
        h = ll_operations__lock_hold_find(l, r->hash, l->name, r->len);
        if (!h || !ll_lock_includes(h->mode, r->want))
            rc = step(r, &h, parent, now);
        if (rc)
            break;
        if (i + 2 == name.n)
            l->near = h;
        parent = h;
    }
    undo_steps(l, parent, n_replaced);
    return rc;
}

static uint64_t deadline_of(const struct ll_locks *all, uint64_t timeout_ns)
{
    if (timeout_ns == LLADD_LOCK_WAIT)
        timeout_ns = lladd_atomic_load64_relaxed(&all->timeout_ns);
    if (timeout_ns == LLADD_LOCK_TRY || timeout_ns == LLADD_LOCK_FOREVER)
        return timeout_ns;
    uint64_t now = lladd_now_ns(all->db);
    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

static int bad_name(struct lladd_error *err, size_t size)
{
    return size ? lladd_error_set(err, LLADD_TOO_LARGE, "a name has at most %u bytes",
                                  LLADD_LOCK_NAME_MAX)
                : lladd_error_set(err, LLADD_BAD_ARGUMENT, "a name has at least one component");
}

/* The transaction's locker, created at its first lock, with room for a name. */
static int locker_of(struct lladd_txn *txn, size_t name_size, struct ll_locker **out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_locker *l = lladd_txn_joined(txn, &ll_operations__lock_participant);
    struct ll_locks *all;
    int rc = 0;
    if (!l && !(rc = ll_operations__locks_of(lladd_txn_db(txn), &all, err)))
        rc = ll_operations__locker_join(all, txn, &l);
    if (!rc && ll_operations__locker_name(l, name_size))
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a lock");
    *out = l;
    return rc;
}

int lladd_lock_acquire(struct lladd_txn *txn, struct lladd_lock_name name,
                       enum lladd_lock_mode mode, uint64_t timeout_ns)
{
    LLADD_USE(txn);
    struct lladd_txn_now now;
    struct ll_lock_request r = {.want = LLADD_LOCK_NONE};
    TRY(lladd_txn_now_get(txn, &now));
    r.txn = txn;
    r.err = lladd_txn_error_out(txn);
    size_t size = ll_operations__lock_name_size(name);
    if (size == 0 || size == SIZE_MAX)
        return bad_name(r.err, size);
    if ((unsigned)mode - 1 >= LL_LOCK_MODES - 1)
        return lladd_error_set(r.err, LLADD_BAD_ARGUMENT, "%d is not a lock mode", (int)mode);
    if (now.rolling_back)
        return 0;
    if (now.page_held) /* refused even if the request would not wait */
        return lladd_error_set(
            r.err, LLADD_BAD_STATE,
            "lladd_lock_acquire while the thread holds a page: a transaction with "
            "the lock may need that page; lock first, or unfix the page");
    TRY(locker_of(txn, size, &r.by));
    lladd_atomic_store64_relaxed(&r.by->txn, lladd_txn_id(txn).v);
    r.deadline = deadline_of(r.by->all, timeout_ns);
    return lock_path(&r, name, size, mode, now.next);
}

/* ---- other calls ----------------------------------------------------------------------------- */

/* The hold on the name itself, or NULL. *implied: the mode that the holds on its ancestors imply
 * for it. */
static struct ll_lock_hold *find_path(struct ll_locker *l, struct lladd_lock_name name,
                                      unsigned *implied)
{
    struct ll_lock_hold *h = NULL;
    uint64_t hash = 0;
    *implied = LLADD_LOCK_NONE;
    for (size_t i = 0, at = 0; i < name.n; i++) {
        size_t len = ll_operations__lock_part_put(l->name + at, &name.parts[i]);
        hash = ll_operations__lock_hash(l->all, hash, l->name + at, len);
        at += len;
        if (h)
            *implied = ll_operations__lock_join[*implied][ll_operations__lock_implies[h->mode]];
        h = ll_operations__lock_hold_find(l, hash, l->name, at);
        if (!h)
            return NULL; /* without a hold on the ancestor, there is no hold on the name (LOCK-3) */
    }
    return h;
}

int lladd_lock_release(struct lladd_txn *txn, struct lladd_lock_name name)
{
    LLADD_USE(txn);
    struct lladd_txn_now now;
    unsigned implied;
    TRY(lladd_txn_now_get(txn, &now));
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_locker *l = lladd_txn_joined(txn, &ll_operations__lock_participant);
    size_t size = ll_operations__lock_name_size(name);
    if (size == 0 || size == SIZE_MAX)
        return bad_name(err, size);
    if (now.rolling_back)
        return 0; /* During a rollback lladd_lock_acquire takes no locks. */
    if (l && ll_operations__locker_name(l, size))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a lock");
    struct ll_lock_hold *h = l ? find_path(l, name, &implied) : NULL;
    if (!h)
        return lladd_error_set(err, LLADD_NOT_FOUND, "the name is not locked");
    const char *why = NULL;
    if (l->serialisable)
        why = "the transaction is serialisable";
    else if (h->mode == LLADD_LOCK_IX || h->mode == LLADD_LOCK_SIX || h->mode == LLADD_LOCK_X)
        why = "it may protect a change";
    else if (h->children)
        why = "a name below it is locked";
    if (why)
        return lladd_error_set(err, LLADD_BAD_STATE, "this lock cannot be released: %s", why);
    ll_operations__lock_release(l, h);
    return 0;
}

static enum lladd_lock_mode held(const struct lladd_txn *txn, struct lladd_lock_name name)
{
    struct ll_locker *l = lladd_txn_joined(txn, &ll_operations__lock_participant);
    size_t size = ll_operations__lock_name_size(name);
    unsigned implied;
    if (!l || size == 0 || size == SIZE_MAX || ll_operations__locker_name(l, size))
        return LLADD_LOCK_NONE;
    const struct ll_lock_hold *h = find_path(l, name, &implied);
    return ll_operations__lock_join[h ? h->mode : LLADD_LOCK_NONE][implied];
}

enum lladd_lock_mode lladd_lock_held(const struct lladd_txn *txn, struct lladd_lock_name name)
{
    struct lladd_use use;
    if (lladd_use_begin((struct lladd_txn *)txn, &use))
        return LLADD_LOCK_NONE;
    enum lladd_lock_mode mode = held(txn, name);
    lladd_use_end(&use);
    return mode;
}

int lladd_lock_serialisable(struct lladd_txn *txn, bool on)
{
    LLADD_USE(txn);
    struct lladd_txn_now now;
    struct ll_locker *l;
    TRY(lladd_txn_now_get(txn, &now));
    TRY(locker_of(txn, 0, &l));
    l->serialisable = on;
    return 0;
}

uint64_t lladd_lock_number(const struct lladd_txn *txn)
{
    struct lladd_use use;
    if (lladd_use_begin((struct lladd_txn *)txn, &use))
        return 0;
    const struct ll_locker *l = lladd_txn_joined(txn, &ll_operations__lock_participant);
    uint64_t number = l ? lladd_atomic_load64(&l->number) : 0;
    lladd_use_end(&use);
    return number;
}
