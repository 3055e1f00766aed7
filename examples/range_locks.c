/* SPDX-License-Identifier: BSD-2-Clause */
/* range_locks DIR: a B+tree with serialisable ranges, by next-key locking.
 *
 * A room may be booked three times a day. A booking counts the day's bookings and inserts one more
 * if there are fewer than three. Locks on the keys that exist are not enough: a booking that
 * another transaction inserts after the count, a phantom, has a key that no reader has locked. So
 * the lock on a key also stands for the gap before the key. The program first shows the phantom
 * without locks, then that locks prevent it, and lets four threads book and cancel. */
#include <lladd/btree.h>
#include <lladd/keys.h>
#include <lladd/lock.h>
#include <lladd/sync.h>

#include <stdio.h>
#include <string.h>

enum { DAYS = 6, HOURS = 24, LIMIT = 3, THREADS = 4, TRIES = 60, KEY = 8 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

struct room {
    struct lladd_db *db;
    struct lladd_btree *bookings; /* key: day and hour; value: the guest's number */
    uint64_t name;                /* the tree's lock name: the number of its root page */
    bool locks;
};

static void key_of(unsigned char *key, uint32_t day, uint32_t hour)
{
    struct lladd_key k = lladd_key_into(key, KEY);
    lladd_key_u32(&k, day);
    lladd_key_u32(&k, hour);
}

/* ---- next-key locking ------------------------------------------------------------------------ */

/* [names] The key that follows another key. The end of the tree follows the last key. */
struct next {
    bool end;
    unsigned char key[KEY];
};

static int next_of(struct lladd_txn *txn, const struct room *r, const unsigned char *key,
                   bool after, struct next *next)
{
    size_t len;
    *next = (struct next){.end = false};
    int rc = lladd_btree_next_key(r->bookings, key, KEY, after, next->key, KEY, &len,
                                  lladd_txn_error_out(txn));
    next->end = rc == LLADD_END;
    return next->end ? 0 : rc;
}

/* The end has a lock name of its own, a number: no key has it, because keys are bytes. */
static int lock(struct lladd_txn *txn, const struct room *r, const struct next *at,
                enum lladd_lock_mode mode)
{
    struct lladd_lock_part part = at->end ? lladd_lock_id(0) : lladd_lock_bytes(at->key, KEY);
    return r->locks ? lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(r->name), part), mode,
                                         LLADD_LOCK_WAIT)
                    : 0;
}
/* [/names] */

/* [lock_next] Locks the key that follows `key`. While the transaction waits for the lock, the
 * holder may insert a key before the awaited key, or delete the awaited key. Then another key
 * follows `key`. So the transaction looks up the key that follows `key` again when it has the lock.
 * If this successor is the same, it stays the same, because a transaction needs this lock to insert
 * a key before the successor or to delete it. Otherwise the next round locks the new successor. A
 * lock that is not needed stays until the end; it only makes other transactions wait. */
static int lock_next(struct lladd_txn *txn, const struct room *r, const unsigned char *key,
                     bool after, enum lladd_lock_mode mode, struct next *next)
{
    struct next again;
    TRY(next_of(txn, r, key, after, &again));
    do {
        *next = again;
        TRY(lock(txn, r, next, mode));
        TRY(next_of(txn, r, key, after, &again));
    } while (again.end != next->end || memcmp(again.key, next->key, KEY) != 0);
    return 0;
}
/* [/lock_next] */

/* [change] A change locks its key and the following one. A deletion needs the second lock, too: a
 * reader does not find the deleted key, so it would not wait for the key's lock, although a
 * rollback may bring the key back. */
static int lock_change(struct lladd_txn *txn, const struct room *r, const unsigned char *key)
{
    struct next own = {.end = false}, next;
    memcpy(own.key, key, KEY);
    TRY(lock(txn, r, &own, LLADD_LOCK_X));
    return lock_next(txn, r, key, true, LLADD_LOCK_X, &next);
}

static int insert(struct lladd_txn *txn, const struct room *r, uint32_t day, uint32_t hour,
                  uint32_t guest)
{
    unsigned char key[KEY];
    key_of(key, day, hour);
    TRY(lock_change(txn, r, key));
    return lladd_btree_insert(txn, r->bookings, key, KEY, &guest, sizeof guest);
}

static int take_out(struct lladd_txn *txn, const struct room *r, uint32_t day, uint32_t hour)
{
    unsigned char key[KEY];
    key_of(key, day, hour);
    TRY(lock_change(txn, r, key));
    return lladd_btree_delete(txn, r->bookings, key, KEY);
}
/* [/change] */

/* [scan] A scan locks each key that it reads, and the first key after the range. So it has locked
 * every gap of the range, also the gap at the end of the range. */
static int count(struct lladd_txn *txn, const struct room *r, uint32_t day, unsigned *bookings)
{
    unsigned char low[KEY], high[KEY];
    struct next at;
    key_of(low, day, 0);
    key_of(high, day + 1, 0);
    *bookings = 0;
    TRY(lock_next(txn, r, low, false, LLADD_LOCK_S, &at));
    while (!at.end && memcmp(at.key, high, KEY) < 0) {
        unsigned char here[KEY];
        ++*bookings;
        memcpy(here, at.key, KEY);
        TRY(lock_next(txn, r, here, true, LLADD_LOCK_S, &at));
    }
    return 0;
}
/* [/scan] */

/* ---- transactions ---------------------------------------------------------------------------- */

struct clerk {
    struct room *room;
    uint32_t number, day, hour;
    bool gives_up;          /* the transaction rolls its change back */
    uint32_t phantoms;      /* transactions in which another transaction changed the second count */
    unsigned first, second; /* the two counts of a transaction */
    uint32_t done, deleted; /* atomic flags: the thread has booked or counted; the main thread has
                             * deleted and rolled back */
    struct lladd_thread thread;
    struct lladd_error err;
    int rc;
};

/* Books the hour, if it is free and the day is not full; otherwise cancels the booking. */
static int book_or_cancel(struct lladd_txn *txn, struct clerk *c)
{
    unsigned expected, second;
    TRY(count(txn, c->room, c->day, &expected));
    int rc = take_out(txn, c->room, c->day, c->hour);
    if (!rc)
        expected--;
    else if (rc == LLADD_NOT_FOUND && expected < LIMIT) {
        rc = insert(txn, c->room, c->day, c->hour, c->number);
        expected++;
    }
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    TRY(count(txn, c->room, c->day, &second));
    c->phantoms += second != expected;
    return 0;
}

/* [retry] A transaction that a deadlock has chosen as its victim is rolled back and tried again.
 * Any other error with the root RETRY is handled in the same way. */
static int until_done(struct clerk *c)
{
    for (;;) {
        struct lladd_txn *txn;
        TRY(lladd_begin(c->room->db, NULL, &txn, &c->err));
        int rc = book_or_cancel(txn, c);
        if (!rc)
            return c->gives_up ? lladd_abort(txn) : lladd_commit(txn);
        c->err = *lladd_txn_error(txn);
        TRY(lladd_abort(txn));
        if (lladd_code_root(rc) != LLADD_ROOT_RETRY)
            return rc;
    }
}
/* [/retry] */

/* ---- the demonstration ----------------------------------------------------------------------- */

static void *work_once(void *arg)
{
    struct clerk *c = arg;
    c->rc = until_done(c);
    lladd_atomic_store32(&c->done, 1);
    return NULL;
}

static void *work(void *arg)
{
    struct clerk *c = arg;
    for (uint32_t i = 0; !c->rc && i < TRIES; i++) {
        c->day = (i * 5 + c->number) % DAYS;
        c->hour = (i * 7 + c->number * 11) % HOURS;
        c->gives_up = i % 3 == 0;
        c->rc = until_done(c);
    }
    return NULL;
}

/* Waits until the other thread has set `done`, or waits for a lock of this thread's transaction. */
static int let_it_try(const struct clerk *other, struct lladd_error *err)
{
    struct lladd_lock_stats stats = {.struct_size = sizeof stats};
    while (!lladd_atomic_load32(&other->done) && !stats.waiting) {
        lladd_yield();
        TRY(lladd_lock_stats_get(other->room->db, &stats, err));
    }
    return 0;
}

static int ended(const struct clerk *other, int rc, struct lladd_error *err)
{
    if (!rc && other->rc)
        *err = other->err;
    return rc ? rc : other->rc;
}

static void tell(const char *what, const struct room *r, unsigned first, unsigned second)
{
    printf("%s, %s locks: %u, then %u%s\n", what, r->locks ? "with" : "without", first, second,
           first == second ? "" : ": a phantom");
}

/* Counts a day twice in one transaction. In between, another thread books an hour of that day. */
static int count_around_insertion(struct room *r, struct lladd_error *err)
{
    struct clerk other = {.room = r, .number = 9, .day = 1, .hour = 12};
    unsigned first = 0, second = 0;
    struct lladd_txn *txn;
    TRY(lladd_begin(r->db, NULL, &txn, err));
    int rc = count(txn, r, other.day, &first);
    if (!rc)
        rc = lladd_thread_start(&other.thread, work_once, &other);
    if (!rc)
        rc = let_it_try(&other, err);
    if (!rc)
        rc = count(txn, r, other.day, &second);
    if (rc)
        *err = *lladd_txn_error(txn);
    int committed = lladd_commit(txn);
    lladd_thread_join(&other.thread);
    TRY(ended(&other, rc ? rc : committed, err));
    tell("an insertion", r, first, second);
    return 0;
}

/* The other thread: counts twice in one transaction; the deletion ends in between. */
static void *count_twice(void *arg)
{
    struct clerk *c = arg;
    struct lladd_txn *txn;
    c->rc = lladd_begin(c->room->db, NULL, &txn, &c->err);
    if (!c->rc) {
        c->rc = count(txn, c->room, c->day, &c->first);
        lladd_atomic_store32(&c->done, 1);
        while (!lladd_atomic_load32(&c->deleted))
            lladd_yield();
        if (!c->rc)
            c->rc = count(txn, c->room, c->day, &c->second);
        if (c->rc)
            c->err = *lladd_txn_error(txn);
        int committed = lladd_commit(txn);
        c->rc = c->rc ? c->rc : committed;
    }
    lladd_atomic_store32(&c->done, 1);
    return NULL;
}

/* Deletes the day's booking and rolls back, while another thread counts the day twice. */
static int count_around_deletion(struct room *r, struct lladd_error *err)
{
    struct clerk other = {.room = r, .day = 1};
    struct lladd_txn *txn;
    TRY(lladd_begin(r->db, NULL, &txn, err));
    int rc = take_out(txn, r, other.day, 8);
    if (!rc)
        rc = lladd_thread_start(&other.thread, count_twice, &other);
    if (!rc)
        rc = let_it_try(&other, err);
    if (rc)
        *err = *lladd_txn_error(txn);
    int aborted = lladd_abort(txn);
    lladd_atomic_store32(&other.deleted, 1);
    lladd_thread_join(&other.thread);
    TRY(ended(&other, rc ? rc : aborted, err));
    tell("a deletion that is rolled back", r, other.first, other.second);
    return 0;
}

static int work_together(struct room *r, struct lladd_error *err)
{
    struct clerk clerks[THREADS];
    uint32_t phantoms = 0;
    int rc = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        clerks[i] = (struct clerk){.room = r, .number = i};
    for (uint32_t i = 0; !rc && i < THREADS; i++)
        rc = lladd_thread_start(&clerks[i].thread, work, &clerks[i]);
    for (uint32_t i = 0; i < THREADS; i++) {
        lladd_thread_join(&clerks[i].thread);
        phantoms += clerks[i].phantoms;
        if (clerks[i].rc && !rc) {
            rc = clerks[i].rc;
            *err = clerks[i].err;
        }
    }
    if (!rc)
        printf("%d transactions of %d threads: %u phantoms\n", THREADS * TRIES, THREADS, phantoms);
    return rc;
}

/* Prints whether a day has more than LIMIT bookings. */
static int audit(struct room *r, struct lladd_error *err)
{
    struct lladd_txn *txn;
    unsigned most = 0;
    int rc = 0;
    TRY(lladd_begin(r->db, NULL, &txn, err));
    for (uint32_t day = 0; !rc && day < DAYS; day++) {
        unsigned bookings = 0;
        rc = count(txn, r, day, &bookings);
        most = bookings > most ? bookings : most;
    }
    if (rc)
        *err = *lladd_txn_error(txn);
    int committed = lladd_commit(txn);
    if (!rc)
        printf("%s\n", most <= LIMIT ? "no day is overbooked" : "a day is overbooked");
    return rc ? rc : committed;
}

/* Opens the tree. The first run of the program creates it. */
static int open_tree(struct lladd_db *db, struct room *r, struct lladd_error *err)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_root_value value = {0, 0};
    struct lladd_txn *txn;
    lladd_pageno root;
    int rc = lladd_root_get(db, "bookings", &value, err);
    root = lladd_page_of(value.a);
    if (rc == LLADD_NOT_FOUND) {
        o.key_size = KEY;
        o.value_size = sizeof(uint32_t);
        TRY(lladd_begin(db, NULL, &txn, err));
        rc = lladd_btree_create(txn, &o, &root);
        if (!rc)
            rc = lladd_root_set(txn, "bookings", (struct lladd_root_value){root.v, 0});
        if (rc) {
            *err = *lladd_txn_error(txn);
            TRY(lladd_abort(txn));
        } else
            rc = lladd_commit(txn);
    }
    TRY(rc);
    r->db = db;
    r->name = root.v;
    return lladd_btree_open(db, root, &r->bookings, err);
}

/* Takes all bookings out, and books one hour of day 1. */
static int begin_anew(struct room *r, struct lladd_error *err)
{
    unsigned char low[KEY] = {0};
    struct lladd_txn *txn;
    struct next at;
    int rc;
    TRY(lladd_begin(r->db, NULL, &txn, err));
    while ((rc = next_of(txn, r, low, false, &at)) == 0 && !at.end)
        if ((rc = lladd_btree_delete(txn, r->bookings, at.key, KEY)) != 0)
            break;
    if (!rc)
        rc = insert(txn, r, 1, 8, 1);
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

static int demonstrate(struct room *r, struct lladd_error *err)
{
    struct lladd_lock_stats stats = {.struct_size = sizeof stats};
    TRY(begin_anew(r, err));
    TRY(count_around_deletion(r, err));
    TRY(count_around_insertion(r, err));
    r->locks = true;
    TRY(begin_anew(r, err));
    TRY(count_around_deletion(r, err));
    TRY(count_around_insertion(r, err));
    TRY(work_together(r, err));
    TRY(audit(r, err));
    TRY(lladd_lock_stats_get(r->db, &stats, err));
    printf("locked now: %llu\n", (unsigned long long)stats.holds);
    return 0;
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct room room = {.locks = false};
    struct lladd_db *db;
    options.durability = LLADD_DURABLE_OS;
    int rc = lladd_lock_register(&options, &err);
    if (!rc)
        rc = lladd_open(argc > 1 ? argv[1] : "range_locks.db", &options, &db, &err);
    if (!rc) {
        rc = open_tree(db, &room, &err);
        if (!rc)
            rc = demonstrate(&room, &err);
        lladd_btree_close(room.bookings);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    lladd_options_release(&options);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
