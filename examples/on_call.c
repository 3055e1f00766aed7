/* SPDX-License-Identifier: BSD-2-Clause */
/* on_call DIR: serialisable transactions on a managed table.
 *
 * Two doctors are on call, and each may leave if the other one stays. Two transactions read that
 * both are on call, and each lets one doctor leave: snapshot isolation allows this write skew,
 * because the two transactions write different keys. Write skew cannot happen if each transaction
 * locks the keys that it reads. */
#include <lladd/dtable_managed.h>

#include <stdio.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

struct ward {
    struct lladd_db *db;
    struct lladd_managed *doctors; /* table of the doctors on call */
    bool locks;
};

static int is_on_call(struct lladd_txn *txn, const struct ward *w, uint32_t doctor, bool *out)
{
    struct lladd_dtable_key key = lladd_dtable_u32(doctor);
    int rc = lladd_managed_get(txn, w->doctors, &key, NULL, 0, NULL);
    *out = rc == 0;
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* [serialisable] Lock a key before reading it, and before writing it. */
static int lock(struct lladd_txn *txn, const struct ward *w, uint32_t doctor,
                enum lladd_lock_mode mode)
{
    struct lladd_dtable_key key = lladd_dtable_u32(doctor);
    return w->locks ? lladd_managed_lock(txn, w->doctors, &key, mode, LLADD_LOCK_TRY) : 0;
}

static int looks(struct lladd_txn *txn, const struct ward *w, uint32_t other, bool *stays)
{
    TRY(lock(txn, w, other, LLADD_LOCK_S));
    return is_on_call(txn, w, other, stays);
}

static int leaves(struct lladd_txn *txn, const struct ward *w, uint32_t doctor)
{
    struct lladd_dtable_key key = lladd_dtable_u32(doctor);
    struct lladd_dtable_value gone = lladd_dtable_tombstone();
    TRY(lock(txn, w, doctor, LLADD_LOCK_X));
    return lladd_managed_put(txn, w->doctors, &key, &gone);
}
/* [/serialisable] */

/* [whole_table] To read the whole table, lock the table: then no other transaction adds or removes
 * a doctor meanwhile. */
static int count(struct lladd_txn *txn, const struct ward *w, unsigned *out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    int rc = 0;
    *out = 0;
    if (w->locks)
        TRY(lladd_managed_lock(txn, w->doctors, NULL, LLADD_LOCK_S, LLADD_LOCK_WAIT));
    TRY(lladd_managed_table(txn, w->doctors, &table));
    TRY(lladd_dtable_cursor_open(table, 0, &c, err));
    while ((rc = lladd_dtable_next(c, err)) == 0)
        ++*out;
    lladd_dtable_cursor_close(c);
    return rc == LLADD_END ? 0 : rc;
}
/* [/whole_table] */

/* ---- the demonstration ----------------------------------------------------------------------- */

static int end(struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

static int both_come(const struct ward *w, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = 0;
    TRY(lladd_begin(w->db, NULL, &txn, err));
    for (uint32_t doctor = 1; !rc && doctor <= 2; doctor++) {
        struct lladd_dtable_key key = lladd_dtable_u32(doctor);
        struct lladd_dtable_value here = lladd_dtable_value_of("", 0);
        rc = lladd_managed_put(txn, w->doctors, &key, &here);
    }
    return end(txn, rc, err);
}

/* If `may`, lets the doctor leave. Then commits; a transaction that does not get a lock rolls
 * back. */
static int goes(struct lladd_txn *txn, const struct ward *w, uint32_t doctor, bool may,
                struct lladd_error *err)
{
    int rc = may ? leaves(txn, w, doctor) : 0;
    if (rc)
        printf("  doctor %u stays: %s\n", (unsigned)doctor, lladd_txn_error(txn)->message);
    rc = end(txn, rc, err);
    return lladd_code_root(rc) == LLADD_ROOT_RETRY ? 0 : rc;
}

/* Interleaves two transactions: each reads whether the other doctor is on call, and then each lets
 * its doctor leave. */
static int both_leave(const struct ward *w, struct lladd_error *err)
{
    struct lladd_txn *first, *second;
    bool may[2] = {false, false};
    TRY(lladd_begin(w->db, NULL, &first, err));
    TRY(lladd_begin(w->db, NULL, &second, err));
    int rc = looks(first, w, 2, &may[0]);
    if (!rc)
        rc = looks(second, w, 1, &may[1]);
    int one = goes(first, w, 1, may[0], err), two = goes(second, w, 2, may[1], err);
    return rc ? rc : one ? one : two;
}

static int day(struct ward *w, bool locks, struct lladd_error *err)
{
    struct lladd_txn *txn;
    unsigned left = 0;
    w->locks = locks;
    printf("%s:\n", locks ? "snapshots and locks" : "snapshots alone");
    TRY(both_come(w, err));
    TRY(both_leave(w, err));
    TRY(lladd_begin(w->db, NULL, &txn, err));
    TRY(end(txn, count(txn, w, &left), err));
    printf("  on call: %u\n", left);
    return 0;
}

static int run(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct ward w = {.db = db};
    int rc = lladd_managed_open(db, "doctors", &w.doctors, err);
    if (rc == LLADD_NOT_FOUND) {
        struct lladd_txn *txn;
        o.type = LLADD_DTABLE_U32;
        TRY(lladd_begin(db, NULL, &txn, err));
        TRY(end(txn, lladd_managed_create(txn, "doctors", &o), err));
        rc = lladd_managed_open(db, "doctors", &w.doctors, err);
    }
    if (!rc)
        rc = day(&w, false, err);
    return rc ? rc : day(&w, true, err);
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    options.durability = LLADD_DURABLE_OS;
    int rc = lladd_managed_register(&options, &err);
    if (!rc)
        rc = lladd_lock_register(&options, &err);
    if (!rc)
        rc = lladd_open(argc > 1 ? argv[1] : "on_call.db", &options, &db, &err);
    if (!rc) {
        rc = run(db, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    lladd_options_release(&options);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
