/* SPDX-License-Identifier: BSD-2-Clause */
/* The transactions of a server.
 *
 * A branch is this server's part of a transaction. It begins with the transaction's first GET, PUT,
 * DELETE or ADD at this server, and ends
 *
 *   with PREPARE      if it has written nothing (READ_ONLY) or has failed (NO: rolled back),
 *   with COMMIT_ONE   in any case,
 *   with COMMIT       after PREPARE and YES; nothing else may commit it then,
 *   with ABORT        in any state,
 *   with its session  unless it is prepared.
 *
 * Messages of one branch are processed in the order in which they came. If a message waits for a
 * lock, the later messages of the branch wait in the branch's queue; other branches go on.
 *
 * A promise (a vote, an acknowledgement) is sent when the log record on which it depends is
 * durable. The acknowledgement for an unknown branch waits for all logged commits: one of them may
 * have ended this branch, and the coordinator must not forget the decision before that commit is
 * durable. */
#include "participant_private.h"

#include <lladd/bytes.h>
#include <lladd/twophase.h>
#include <search.h>
#include <stdlib.h>

static struct lladd_gid gid_of(const struct branch *b)
{
    struct lladd_gid gid = {.format = CLUSTER_GID_FORMAT, .gtrid_length = CLUSTER_GID_LENGTH};
    memcpy(gid.data, b->uuid, 16);
    lladd_put64(gid.data + 16, b->id.incarnation);
    lladd_put64(gid.data + 24, b->id.sequence);
    gid.bqual_length = b->timeline ? CLUSTER_BQUAL_LENGTH : 0;
    lladd_put32(gid.data + CLUSTER_GID_LENGTH, b->timeline);
    return gid;
}

static int compare(const void *left, const void *right)
{
    const struct branch *a = left, *b = right;
    int uuids = memcmp(a->uuid, b->uuid, 16);
    if (uuids)
        return uuids;
    if (a->id.incarnation != b->id.incarnation)
        return a->id.incarnation < b->id.incarnation ? -1 : 1;
    return (a->id.sequence > b->id.sequence) - (a->id.sequence < b->id.sequence);
}

static struct branch *find(struct participant *p, const unsigned char uuid[16], struct txn_id id)
{
    struct branch key = {.id = id};
    memcpy(key.uuid, uuid, 16);
    void *found = tfind(&key, &p->index, compare);
    return found ? *(struct branch *const *)found : NULL;
}

struct branch *branch_new(struct participant *p, const unsigned char uuid[16], struct txn_id id)
{
    struct branch *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    memcpy(b->uuid, uuid, 16);
    b->id = id;
    b->timeline = lladd_db_timeline(p->db);
    STAILQ_INIT(&b->queue);
    if (!tsearch(b, &p->index, compare)) {
        free(b);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&p->branches, b, link);
    return b;
}

static void clear_queue(struct branch *b)
{
    struct waiting *w;
    while ((w = STAILQ_FIRST(&b->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&b->queue, link);
        if (b->session)
            b->session->waiting -= w->len;
        free(w);
    }
}

void branch_free(struct participant *p, struct branch *b)
{
    clear_queue(b);
    if (b->session)
        b->session->txns--;
    tdelete(b, &p->index, compare);
    TAILQ_REMOVE(&p->branches, b, link);
    free(b);
}

void participant_fail(struct participant *p, int rc, const struct lladd_error *err)
{
    if (p->error.code)
        return;
    if (err && err->code)
        p->error = *err;
    else
        lladd_error_set(&p->error, rc, "%s", lladd_code_text(rc));
}

/* ---- ending branches ------------------------------------------------------------------------- */

static void roll_back(struct participant *p, struct branch *b)
{
    int rc = b->txn ? lladd_abort(b->txn) : 0;
    b->txn = NULL;
    p->counts.aborted++;
    if (rc)
        participant_fail(p, rc, NULL);
}

/* Called if the branch can only be rolled back. Rolls it back now, so that no other branch waits
 * for its locks. */
static void doom(struct participant *p, struct branch *b, int code)
{
    if (b->code)
        return;
    b->code = code;
    roll_back(p, b);
}

static void abandon(struct participant *p, struct branch *b)
{
    if (!b->code)
        roll_back(p, b);
    branch_free(p, b);
}

/* Logs the commit. False: the commit could not be logged, and the transaction is unchanged (or the
 * database is poisoned). */
static bool log_commit(struct participant *p, struct branch *b, lladd_lsn *lsn, int *rc)
{
    *rc = lladd_commit_async(b->txn, lsn);
    if (*rc)
        return false;
    b->txn = NULL;
    if (lsn->v > p->ended.v)
        p->ended = *lsn;
    return true;
}

static void vote(struct participant *p, struct branch *b, enum verdict verdict, int code,
                 lladd_lsn after)
{
    struct message m = {.type = MESSAGE_VOTE, .txn = b->id, .verdict = verdict, .code = code};
    session_answer(p, b->session, &m, after, true);
}

static void refuse(struct participant *p, struct branch *b)
{
    vote(p, b, VERDICT_NO, b->code, lladd_lsn_of(0));
    branch_free(p, b);
}

/* True if the branch has no error and has processed as many operations as the message's `ops`
 * says. */
static bool complete(struct participant *p, struct branch *b, const struct message *m)
{
    if (!b->code && b->ops != m->ops)
        doom(p, b, LLADD_CONFLICT);
    return !b->code;
}

/* Called if a commit or prepare has returned an error. Unless the database is poisoned, the branch
 * is unchanged, and is rolled back. */
static void failed(struct participant *p, struct branch *b, int rc)
{
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED) {
        b->txn = NULL;
        participant_fail(p, rc, NULL);
        b->code = rc;
    } else {
        doom(p, b, rc);
    }
    refuse(p, b);
}

static void end_read_only(struct participant *p, struct branch *b)
{
    lladd_lsn after = {0}; /* LSN of the newest commit that the branch may have read */
    int rc;
    if (!log_commit(p, b, &after, &rc)) {
        failed(p, b, rc);
        return;
    }
    p->counts.read_only++;
    vote(p, b, VERDICT_READ_ONLY, 0, after);
    branch_free(p, b);
}

/* Returns false when the branch has ended. */
static bool prepare(struct participant *p, struct branch *b, const struct message *m)
{
    if (!complete(p, b, m)) {
        refuse(p, b);
        return false;
    }
    if (!b->wrote) {
        end_read_only(p, b);
        return false;
    }
    struct lladd_gid gid = gid_of(b);
    lladd_lsn after = {0};
    int rc = lladd_prepare_async(b->txn, &gid, &after);
    if (rc) {
        failed(p, b, rc);
        return false;
    }
    b->prepared = true;
    b->asked_ms = p->io.now_ms(p->io.ctx);
    vote(p, b, VERDICT_YES, 0, after);
    return true;
}

static void commit_one(struct participant *p, struct branch *b, const struct message *m)
{
    lladd_lsn after = {0};
    int rc = 0;
    if (!complete(p, b, m)) {
        refuse(p, b);
    } else if (!log_commit(p, b, &after, &rc)) {
        failed(p, b, rc);
    } else {
        p->counts.one_phase++;
        vote(p, b, VERDICT_COMMITTED, 0, after);
        branch_free(p, b);
    }
}

/* Carries out the coordinator's decision to commit. If the branch is unknown, the decision was
 * carried out earlier. */
static void commit(struct participant *p, struct session *s, struct branch *b,
                   const struct message *m)
{
    lladd_lsn after = p->ended;
    int rc;
    if (b && !b->prepared) { /* only a branch that has voted yes may be committed with COMMIT */
        session_drop(p, s);
        return;
    }
    if (b && !log_commit(p, b, &after, &rc)) {
        b->txn = NULL;
        participant_fail(p, rc, NULL); /* the error is never lack of space */
        return;
    }
    if (b) {
        p->counts.committed++;
        branch_free(p, b);
    }
    struct message ack = {.type = MESSAGE_ACK, .txn = m->txn};
    session_answer(p, s, &ack, after, false);
}

/* ---- reading and writing --------------------------------------------------------------------- */

enum done { DONE, WAIT, GONE };

int lock_wait_take(const struct lock_wait *w, uint64_t timeout_ns)
{
    struct lladd_lock_part key = lladd_lock_bytes(w->key, w->key_len);
    return lladd_lock_acquire(w->txn, (struct lladd_lock_name){&key, 1}, w->mode, timeout_ns);
}

/* WAIT: another transaction holds the lock; b->lock describes the request. */
static enum done lock(struct participant *p, struct branch *b, const struct message *m,
                      enum lladd_lock_mode mode)
{
    memcpy(b->key, m->key.data, m->key.len);
    b->lock = (struct lock_wait){p, b->txn, mode, b->key, m->key.len,
                                 p->options.lock_ms * UINT64_C(1000000)};
    int rc = lock_wait_take(&b->lock, LLADD_LOCK_TRY);
    if (rc == LLADD_BUSY)
        return WAIT;
    if (rc)
        doom(p, b, rc);
    return DONE;
}

static enum done get(struct participant *p, struct branch *b, const struct message *m)
{
    size_t len = 0;
    int rc = b->code;
    if (!rc && lock(p, b, m, m->update ? LLADD_LOCK_U : LLADD_LOCK_S) == WAIT)
        return WAIT;
    if (!rc && !b->code) {
        rc = lladd_hash_get(p->table, m->key.data, m->key.len, p->value, WIRE_VALUE_MAX, &len,
                            NULL);
        if (rc && rc != LLADD_NOT_FOUND)
            doom(p, b, rc);
    }
    rc = b->code ? b->code : rc;
    struct message result = {.type = MESSAGE_RESULT,
                             .txn = b->id,
                             .request = m->request,
                             .code = rc,
                             .value = lladd_span_of(p->value, rc ? 0 : len)};
    session_send(p, b->session, &result);
    return DONE;
}

static int add(struct participant *p, struct branch *b, const struct message *m)
{
    int64_t sum;
    size_t len = 0;
    int rc = lladd_hash_get(p->table, m->key.data, m->key.len, p->value, WIRE_VALUE_MAX, &len,
                            NULL);
    if (!rc && (len < 8 || __builtin_add_overflow((int64_t)lladd_get64(p->value), m->delta, &sum)))
        rc = LLADD_OUT_OF_RANGE;
    if (rc)
        return rc;
    lladd_put64(p->value, (uint64_t)sum);
    return lladd_hash_put(b->txn, p->table, m->key.data, m->key.len, p->value, len);
}

static int write(struct participant *p, struct branch *b, const struct message *m)
{
    if (m->type == MESSAGE_ADD)
        return add(p, b, m);
    if (m->type == MESSAGE_PUT)
        return lladd_hash_put(b->txn, p->table, m->key.data, m->key.len, m->value.data,
                              m->value.len);
    return lladd_hash_delete(b->txn, p->table, m->key.data, m->key.len);
}

static enum done change(struct participant *p, struct branch *b, const struct message *m)
{
    if (b->code) /* the vote will report the error */
        return DONE;
    if (lock(p, b, m, LLADD_LOCK_X) == WAIT)
        return WAIT;
    if (b->code)
        return DONE;
    int rc = write(p, b, m);
    b->wrote = b->wrote || !rc;
    if (rc && (rc != LLADD_NOT_FOUND || m->type == MESSAGE_ADD))
        doom(p, b, rc);
    return DONE;
}

static enum done perform(struct participant *p, struct branch *b, const struct message *m)
{
    enum done done = DONE;
    switch (m->type) {
    case MESSAGE_GET:
        done = get(p, b, m);
        break;
    case MESSAGE_PREPARE:
        return prepare(p, b, m) ? DONE : GONE;
    case MESSAGE_COMMIT_ONE:
        commit_one(p, b, m);
        return GONE;
    default:
        done = change(p, b, m);
    }
    b->ops += done == DONE;
    return done;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void wait_for_lock(struct participant *p, struct branch *b)
{
    b->locking = true;
    p->counts.waiting++;
    p->io.wait_for_lock(p->io.ctx, &b->lock);
}

/* Processes the queued messages, up to the next message that must wait for a lock. */
static void drain(struct participant *p, struct branch *b)
{
    struct waiting *w;
    while ((w = STAILQ_FIRST(&b->queue)) != NULL) {
        struct message m;
        int rc = message_decode(w->frame, w->len, &m);
        enum done done = rc ? DONE : perform(p, b, &m);
        if (done == GONE)
            return;
        if (done == WAIT) {
            wait_for_lock(p, b);
            return;
        }
        STAILQ_REMOVE_HEAD(&b->queue, link);
        b->session->waiting -= w->len;
        free(w);
    }
}

static void enqueue(struct participant *p, struct branch *b, const unsigned char *frame, size_t len)
{
    struct session *s = b->session;
    struct waiting *w = s->waiting + len <= p->options.waiting_max ? malloc(sizeof *w + len) : NULL;
    if (!w) { /* no memory, or more bytes than a correct coordinator sends meanwhile */
        session_drop(p, s);
        return;
    }
    w->len = len;
    memcpy(w->frame, frame, len);
    s->waiting += len;
    STAILQ_INSERT_TAIL(&b->queue, w, link);
    if (!b->locking)
        drain(p, b);
}

void participant_locked(struct participant *p, struct lock_wait *wait, int rc)
{
    struct branch *b = (struct branch *)((char *)wait - offsetof(struct branch, lock));
    b->locking = false;
    p->counts.waiting--;
    if (b->orphaned) {
        abandon(p, b);
        return;
    }
    if (rc)
        doom(p, b, rc == LLADD_BUSY ? LLADD_TIMEOUT : rc);
    drain(p, b);
}

static struct branch *begin(struct participant *p, struct session *s, const struct message *m)
{
    if (s->txns >= p->options.txns_max)
        return NULL;
    struct branch *b = branch_new(p, s->uuid, m->txn);
    if (!b)
        return NULL;
    b->session = s;
    s->txns++;
    struct lladd_txn_options options = LLADD_TXN_OPTIONS_INIT;
    options.owner = "cluster hash table"; /* for `lladd in-doubt` */
    if (lladd_begin(p->db, &options, &b->txn, NULL)) {
        b->txn = NULL;
        branch_free(p, b);
        return NULL;
    }
    p->counts.begun++;
    return b;
}

/* Answers a message for which no branch can begin: because there is no room, or because the message
 * is PREPARE or COMMIT_ONE. */
static void turn_away(struct participant *p, struct session *s, const struct message *m, int code)
{
    struct message result = {
        .type = MESSAGE_RESULT, .txn = m->txn, .request = m->request, .code = code};
    struct message no = {
        .type = MESSAGE_VOTE, .txn = m->txn, .verdict = VERDICT_NO, .code = code};
    if (m->type == MESSAGE_GET)
        session_send(p, s, &result);
    else if (m->type == MESSAGE_PREPARE || m->type == MESSAGE_COMMIT_ONE)
        session_send(p, s, &no);
}

void branch_receive(struct participant *p, struct session *s, const struct message *m,
                    const unsigned char *frame, size_t len)
{
    struct branch *b = find(p, s->uuid, m->txn);
    if (m->type == MESSAGE_COMMIT) {
        commit(p, s, b, m);
    } else if (m->type == MESSAGE_ABORT) {
        if (b && b->locking)
            b->orphaned = true;
        else if (b)
            abandon(p, b);
    } else if (b && (b->prepared || b->orphaned || b->session != s)) {
        session_drop(p, s); /* such a branch accepts no more operations */
    } else if (!b && (m->type == MESSAGE_PREPARE || m->type == MESSAGE_COMMIT_ONE)) {
        turn_away(p, s, m, LLADD_CONFLICT);
    } else if (!b && !(b = begin(p, s, m))) {
        turn_away(p, s, m, LLADD_BUSY);
    } else if (b->locking) {
        enqueue(p, b, frame, len);
    } else if (perform(p, b, m) == WAIT) {
        enqueue(p, b, frame, len);
    }
}

void branches_orphan(struct participant *p, struct session *s)
{
    struct branch *b, *next;
    for (b = TAILQ_FIRST(&p->branches); b; b = next) {
        next = TAILQ_NEXT(b, link);
        if (b->session != s)
            continue;
        clear_queue(b);
        s->txns--;
        b->session = NULL;
        if (b->locking)
            b->orphaned = true;
        else if (!b->prepared)
            abandon(p, b);
    }
}

void branch_inquire(struct participant *p, struct session *s, struct branch *b)
{
    struct message m = {.type = MESSAGE_INQUIRE, .txn = b->id, .timeline = b->timeline};
    b->asked_ms = p->io.now_ms(p->io.ctx);
    p->counts.inquiries++;
    session_send(p, s, &m);
}
