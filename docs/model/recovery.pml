/* SPDX-License-Identifier: BSD-2-Clause */
/* The recovery protocol, small enough for Spin to try every history. docs/model/README.md says what
 * is modelled, what each part stands for in the library, and how to run it. In short:
 *
 *   - two pages, in memory and on disk. A page may be written at any time (STEAL) or never
 *     (NO-FORCE). So a crash chooses a version of each page: any from the one that must be durable
 *     to the newest with a durable log record
 *   - a log; any prefix that includes the synced part may survive a crash
 *   - three transactions that share the pages. T0 adds to one page or both. T1 changes both pages
 *     in a nested top action; undo is physical inside it, and logical (two changes) once it is
 *     closed. T2 adds, prepares, and is decided later
 *   - undo of an addition is a subtraction: done twice, or not at all, it leaves a wrong sum
 *   - fuzzy checkpoints that truncate the log
 *   - up to CRASHES crashes (power failures and process kills) before any step, including those of
 *     redo, undo and checkpoints. Every transaction can still end after them; if one cannot, Spin
 *     reports an invalid end state
 *
 * Each transaction adds its own power of two to each page that it changes, so a page's value says
 * which transactions' effects it holds. The oracle compares it with the expected value. */

#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef CHECKPOINTS
#define CHECKPOINTS 0
#endif
#ifndef HAS_T0
#define HAS_T0 1
#endif
#ifndef T0_ADDS
#define T0_ADDS 1
#endif
#ifndef T0_ABORTS
#define T0_ABORTS 1
#endif
#ifndef T1_ABORTS
#define T1_ABORTS 1
#endif
#ifndef HAS_T1
#define HAS_T1 1
#endif
#ifndef HAS_T2
#define HAS_T2 1
#endif

/* ---- switches: each breaks one rule, and Spin must find an error ---- */

/* NO_WAL          a page may be written before its log (BUF-1)
 * NO_CLR          undo ignores undo_next, and undoes again what a compensation undid (OP-5)
 * NO_LSN          redo does not compare page LSNs (OP-2, OP-5)
 * NO_DIRTY_FIRST  a page enters the dirty-page table after its record is logged (BUF-4)
 * NO_FLUSH        a checkpoint moves redo's start past changes that are not durable (BUF-5)
 * ACTION_UNDO     a closed top action is undone physically (OP-5, OP-6)
 * TRUNCATE_UNDO   truncation drops log that undo still needs
 * TRUNCATE_FIRST  truncation comes before the control block names the new checkpoint
 * TRUNCATE_LATE   the log that transactions need is computed after the table is forced
 * FORGET_PREPARED a checkpoint leaves out transactions in doubt (REC-1)
 * ACK_EARLY       a commit is acknowledged before its record is durable
 * TRUST_LOG       after a process kill, all log that can be read counts as durable (REC-4) */

#define PAGES 2
#define TXNS 3
#ifndef LOG_MAX
#define LOG_MAX 32
#endif

/* Records. SET has depth 1: inside a top action or a compensation. Others have depth 0. */
#define NONE 0
#define ADD 1     /* page += arg; undo: page -= arg */
#define SET 2     /* page = arg; undo: page = old */
#define ACTION 3  /* a top action closes; its undo is logical; undo_next skips its records */
#define CLR_ADD 4 /* page += arg; never undone: undo_next */
#define CLR_SET 5 /* page = arg; never undone: undo_next */
#define CLR_END 6 /* a logical undo is complete: undo_next */
#define PREPARE 7
#define COMMIT 8
#define END 9 /* rolled back */

typedef record {
    byte kind, txn, page, arg, old, prev, undo_next
};
record log[LOG_MAX]; /* the LSN is the index, from 1 */
byte tail = 1;       /* the next LSN */
byte synced = 1;     /* all records below are durable */
byte claimed = 1;    /* the library takes all below as durable; equals synced unless TRUST_LOG */
byte oldest = 1;     /* all records below are truncated */

typedef version {
    byte value, lsn
};
version memory[PAGES], durable[PAGES];
byte latched[PAGES]; /* the record that is logged and not applied yet; 0: no latch is held */
byte locked[PAGES];  /* txn + 1: inside an open action or compensation */

#define IDLE 0
#define ACTIVE 1
#define PREPARED 2
#define ROLLING 3
#define COMMITTED 4
#define ABORTED 5

typedef transaction {
    byte state, step, first, last, undo_next, compensating
};
transaction txn[TXNS];

/* What the application was told. The oracle uses it; a crash does not change it. */
#define NOTHING 0
#define IS_PREPARED 1
#define IS_COMMITTED 2
#define IS_DECIDED 3 /* was prepared, and is to be aborted */
byte told[TXNS];

/* control: the control block, with the checkpoint that it names. next: the one being taken. */
typedef row {
    byte state, first, last, undo_next
};
typedef checkpoint {
    byte start, redo;
    row txn[TXNS]
};
checkpoint control, next;
byte stage, need, taken;

#define NORMAL 0
#define REDO 1
#define UNDO 2
byte phase = NORMAL;
byte redo_at, crashes;
byte i, n, p, expected, cut, found; /* scratch: 0 between steps */

/* ---- the log and the pages ---- */

inline append(t, what, where, to, from, jump)
{
    assert(tail < LOG_MAX - 1);
    log[tail].kind = what;
    log[tail].txn = t;
    log[tail].page = where;
    log[tail].arg = to;
    log[tail].old = from;
    log[tail].prev = txn[t].last;
    log[tail].undo_next = jump;
    txn[t].last = tail;
    if
    :: txn[t].first == 0 -> txn[t].first = tail
    :: else
    fi;
    tail++
}

inline apply_to(where, at)
{
    if
    :: log[at].kind == ADD || log[at].kind == CLR_ADD ->
        where.value = where.value + log[at].arg
    :: else -> where.value = log[at].arg
    fi;
    where.lsn = at
}

/* Logs a change, then applies it while the page is still latched. What comes between the two
 * matters only to checkpoints; without checkpoints, and in recovery, they are one step. */
inline change(t, what, where, to, from, jump)
{
    append(t, what, where, to, from, jump);
    if
    :: phase == NORMAL && CHECKPOINTS > 0 -> latched[where] = tail - 1
    :: else -> apply_to(memory[where], tail - 1)
    fi
}

#define on_page(k) (k == ADD || k == SET || k == CLR_ADD || k == CLR_SET)
#define is_clr(k) (k == CLR_ADD || k == CLR_SET || k == CLR_END)
#define free_for(t, page) (latched[page] == 0 && (locked[page] == 0 || locked[page] == t + 1))
#define busy(t) ((latched[0] != 0 && log[latched[0]].txn == t) || \
                 (latched[1] != 0 && log[latched[1]].txn == t))

inline unlock(t)
{
    if
    :: locked[0] == t + 1 -> locked[0] = 0
    :: else
    fi;
    if
    :: locked[1] == t + 1 -> locked[1] = 0
    :: else
    fi
}

/* Makes the whole log durable and tells the transactions that wait for it. The log may have become
 * durable earlier: the crash chooses. Here it must be. */
inline force()
{
    synced = tail;
    claimed = tail;
    tell()
}

inline tell()
{
    i = 0;
    do
    :: i < TXNS ->
        if
        :: txn[i].state == COMMITTED -> told[i] = IS_COMMITTED
        :: txn[i].state == PREPARED -> told[i] = IS_PREPARED
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* ---- the oracle ---- */

#define there(t) (txn[t].state == COMMITTED || txn[t].state == PREPARED)

/* When no transaction is under way, the pages hold all effects of the transactions that have
 * committed or are in doubt, and nothing else (REC-1; oracles O1, O2). */
inline check()
{
    expected = (there(0) -> 1 : 0) + (there(1) -> 4 : 0);
    assert(memory[0].value == expected);
    expected = expected + (there(2) -> 16 : 0) - (there(0) && T0_ADDS == 1 -> 1 : 0);
    assert(memory[1].value == expected);
    expected = 0
}

#define under_way(t) (txn[t].state == ACTIVE || txn[t].state == ROLLING)

inline check_if_quiet()
{
    if
    :: phase == NORMAL && !under_way(0) && !under_way(1) && !under_way(2) -> check()
    :: else
    fi
}

/* ---- undo ---- */

inline finish(t, what, state_then)
{
    append(t, what, 0, 0, 0, 0);
    txn[t].state = state_then;
    txn[t].first = 0;
    txn[t].last = 0;
    txn[t].undo_next = 0;
    txn[t].step = 9;
#ifdef ACK_EARLY
    tell();
#endif
    check_if_quiet()
}

/* Moves undo_next to the next record that needs undo. */
inline peek(t)
{
    do
    :: txn[t].undo_next != 0 && is_clr(log[txn[t].undo_next].kind) ->
        assert(txn[t].undo_next >= oldest);
#ifdef NO_CLR
        txn[t].undo_next = log[txn[t].undo_next].prev
#else
        txn[t].undo_next = log[txn[t].undo_next].undo_next
#endif
    :: txn[t].undo_next != 0 && log[txn[t].undo_next].kind == PREPARE ->
        txn[t].undo_next = log[txn[t].undo_next].prev
    :: else -> break
    od;
    assert(txn[t].undo_next == 0 || txn[t].undo_next >= oldest)
}

#define target(t) log[txn[t].undo_next]
#define can_undo(t) (!busy(t) && \
    (txn[t].undo_next == 0 || \
     (target(t).kind == ACTION && \
      (txn[t].compensating == 2 || free_for(t, txn[t].compensating))) || \
     (target(t).kind != ACTION && free_for(t, target(t).page))))

/* One step of a rollback, in normal operation or at restart. */
inline undo_one(t)
{
    assert(txn[t].undo_next == 0 || txn[t].undo_next >= oldest);
    if
    :: txn[t].undo_next == 0 ->
        unlock(t);
        finish(t, END, ABORTED)
    :: txn[t].undo_next != 0 && target(t).kind == ADD ->
        change(t, CLR_ADD, target(t).page, 256 - target(t).arg, 0, target(t).prev);
        txn[t].undo_next = target(t).prev;
        peek(t)
    :: txn[t].undo_next != 0 && target(t).kind == SET ->
        change(t, CLR_SET, target(t).page, target(t).old, 0, target(t).prev);
        txn[t].undo_next = target(t).prev;
        peek(t);
        if
        :: txn[t].undo_next == 0 || target(t).kind != SET -> unlock(t)
        :: else
        fi
    :: txn[t].undo_next != 0 && target(t).kind == ACTION ->
#ifdef ACTION_UNDO
        txn[t].undo_next = target(t).prev
#else
        if
        :: txn[t].compensating < 2 ->
            /* An ordinary change. It is undone physically until CLR_END closes the
             * compensation. */
            n = txn[t].compensating;
            locked[n] = t + 1;
            change(t, SET, n, memory[n].value - 4, memory[n].value, 0);
            txn[t].compensating = n + 1;
            n = 0
        :: else ->
            append(t, CLR_END, 0, 0, 0, target(t).undo_next);
            txn[t].compensating = 0;
            unlock(t);
            txn[t].undo_next = target(t).undo_next;
            peek(t)
        fi
#endif
    fi
}

inline begin_abort(t)
{
    if
    :: told[t] == IS_PREPARED -> told[t] = IS_DECIDED
    :: else
    fi;
    txn[t].state = ROLLING;
    peek(t)
}

/* ---- crash and restart ---- */

/* Chooses the version of a page that restart finds: the durable one, or any later one that may
 * have been written. */
inline find(where)
{
    i = durable[where].lsn + 1;
    memory[where].value = durable[where].value;
    memory[where].lsn = durable[where].lsn;
    do
    :: i < found && !(on_page(log[i].kind) && log[i].page == where) -> i++
    :: i < found && on_page(log[i].kind) && log[i].page == where && latched[where] != i ->
        apply_to(memory[where], i);
        i++
    :: i < found && on_page(log[i].kind) && log[i].page == where -> break
    :: i >= found -> break
    od;
    i = 0
}

inline lose_memory()
{
    /* Chooses how much of the log survives; pages may have been written up to there. */
    i = tail;
    do
    :: i > synced -> i--
    :: break
    od;
    cut = i;
#ifdef NO_WAL
    found = tail;
#else
    found = (claimed > cut -> claimed : cut);
#endif
    find(0);
    find(1);
    if
    :: true -> /* power failure: exactly what restart finds is durable */
        durable[0].value = memory[0].value; durable[0].lsn = memory[0].lsn;
        durable[1].value = memory[1].value; durable[1].lsn = memory[1].lsn;
        synced = cut
    :: true /* process kill: a later power failure may lose what restart finds */
    fi;
    d_step {
        do
        :: tail > cut ->
            tail--;
            forget(tail)
        :: else -> break
        od;
        claimed = cut;
#ifndef TRUST_LOG
        synced = cut; /* recovery rewrites and forces the log */
#endif
        cut = 0;
        found = 0;
        latched[0] = 0; latched[1] = 0;
        locked[0] = 0; locked[1] = 0
    }
}

inline see(at)
{
    n = log[at].txn;
    if
    :: txn[n].first == 0 -> txn[n].first = at
    :: else
    fi;
    txn[n].last = at;
    txn[n].undo_next = at;
    if
    :: log[at].kind == PREPARE -> txn[n].state = PREPARED
    :: log[at].kind == COMMIT -> txn[n].state = COMMITTED
    :: log[at].kind == END -> txn[n].state = ABORTED
    :: else -> txn[n].state = ROLLING /* a loser, even if it was prepared before */
    fi;
    n = 0
}

inline analyse()
{
    assert(control.redo >= oldest && control.start >= oldest);
    i = 0;
    do
    :: i < TXNS ->
        txn[i].first = control.txn[i].first;
        txn[i].last = control.txn[i].last;
        txn[i].undo_next = control.txn[i].undo_next;
        txn[i].compensating = 0;
        if
        :: control.txn[i].state == ACTIVE -> txn[i].state = ROLLING
        :: else -> txn[i].state = control.txn[i].state
        fi;
        i++
    :: else -> break
    od;
    i = control.start;
    do
    :: i < tail -> see(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < TXNS ->
        /* A transaction that began and left no record is aborted, and does not begin again. */
        if
        :: txn[i].state == COMMITTED || txn[i].state == ABORTED ||
           (txn[i].state == IDLE && txn[i].step > 0) ->
            if
            :: txn[i].state == IDLE -> txn[i].state = ABORTED
            :: else
            fi;
            txn[i].first = 0;
            txn[i].last = 0;
            txn[i].undo_next = 0;
            txn[i].step = 9
        :: txn[i].state == ROLLING -> txn[i].step = 9; peek(i)
        :: else
        fi;
        /* Recovery contradicts nothing that the application was told. */
        assert(told[i] != IS_COMMITTED || txn[i].state == COMMITTED);
        assert(told[i] != IS_PREPARED || there(i));
        i++
    :: else -> break
    od;
    i = 0
}

inline restart()
{
    d_step {
        crashes++;
        stage = 0;
        need = 0;
        forget_next();
        analyse();
        tell();
        phase = REDO;
        redo_at = control.redo
    }
}

inline redo_one()
{
    p = log[redo_at].page;
    if
#ifdef NO_LSN
    :: on_page(log[redo_at].kind) -> apply_to(memory[p], redo_at)
#else
    :: on_page(log[redo_at].kind) && memory[p].lsn < redo_at -> apply_to(memory[p], redo_at)
#endif
    :: else
    fi;
    p = 0;
    redo_at++
}

/* Undo order: the deepest record first, then the newest (REC-5). A compensation that has begun is
 * finished before anything else is undone. */
#define depth(t) (target(t).kind == SET -> 1 : 0)
#define rank(t) (txn[t].state != ROLLING -> 0 : \
                 (txn[t].compensating > 0 -> 255 : \
                  1 + txn[t].undo_next + (txn[t].undo_next == 0 -> 0 : 100 * depth(t))))

inline undo_newest()
{
    if
    :: rank(0) > 0 && rank(0) >= rank(1) && rank(0) >= rank(2) -> undo_one(0)
    :: rank(1) > 0 && rank(1) > rank(0) && rank(1) >= rank(2) -> undo_one(1)
    :: rank(2) > 0 && rank(2) > rank(0) && rank(2) > rank(1) -> undo_one(2)
    :: else -> phase = NORMAL; redo_at = 0; check()
    fi
}

/* ---- checkpoints ---- */

inline forget_next()
{
    next.start = 0;
    next.redo = 0;
    i = 0;
    do
    :: i < TXNS ->
        next.txn[i].state = 0; next.txn[i].first = 0; next.txn[i].last = 0;
        next.txn[i].undo_next = 0;
        i++
    :: else -> break
    od;
    i = 0
}

inline smallest_need()
{
    need = next.redo;
#ifndef TRUNCATE_UNDO
    i = 0;
    do
    :: i < TXNS ->
        if
        :: (under_way(i) || txn[i].state == PREPARED) && txn[i].first != 0 &&
           txn[i].first < need -> need = txn[i].first
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
#endif
}

/* Copies the transaction table, some time after `start`. It includes ended transactions only for
 * the oracle. */
inline copy_table()
{
    i = 0;
    do
    :: i < TXNS ->
#ifdef FORGET_PREPARED
        if
        :: txn[i].state == PREPARED -> next.txn[i].state = ABORTED
        :: else -> next.txn[i].state = txn[i].state;
            next.txn[i].first = txn[i].first;
            next.txn[i].last = txn[i].last;
            next.txn[i].undo_next = txn[i].last
        fi;
#else
        next.txn[i].state = txn[i].state;
        next.txn[i].first = txn[i].first;
        next.txn[i].last = txn[i].last;
        next.txn[i].undo_next = txn[i].last;
#endif
        i++
    :: else -> break
    od;
    i = 0
}

inline forget(at)
{
    log[at].kind = NONE; log[at].txn = 0; log[at].page = 0; log[at].arg = 0;
    log[at].old = 0; log[at].prev = 0; log[at].undo_next = 0
}

inline truncate()
{
    i = oldest;
    do
    :: i < need ->
        forget(i);
        i++
    :: else -> break
    od;
    i = 0;
    if
    :: need > oldest -> oldest = need
    :: else
    fi;
    need = 0
}

inline write_control()
{
    control.start = next.start;
    control.redo = next.redo;
    i = 0;
    do
    :: i < TXNS ->
        control.txn[i].state = next.txn[i].state;
        control.txn[i].first = next.txn[i].first;
        control.txn[i].last = next.txn[i].last;
        control.txn[i].undo_next = next.txn[i].undo_next;
        i++
    :: else -> break
    od;
    i = 0;
    forget_next()
}

/* The checkpoint writes and syncs the pages changed before next.redo, and waits for their latches.
 * It knows that it must wait for a latched page because the page enters the dirty-page table before
 * its change is logged (BUF-4). */
#ifdef NO_DIRTY_FIRST
#define flushed(page) true
#else
#define flushed(page) (latched[page] == 0 || latched[page] >= next.redo)
#endif

/* Makes the page's changes before next.redo durable. A crash may find later ones durable, too. */
inline flush(where)
{
#ifndef NO_FLUSH
    i = durable[where].lsn + 1;
    do
    :: i < next.redo ->
        if
        :: on_page(log[i].kind) && log[i].page == where && latched[where] != i ->
            apply_to(durable[where], i)
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
#else
    skip
#endif
}

/* ---- all steps ---- */

#define running(t, s) (phase == NORMAL && txn[t].step == s && !busy(t) && \
                       (txn[t].state == IDLE || txn[t].state == ACTIVE))

#define all_ended (stage == 0 && latched[0] == 0 && latched[1] == 0 && \
                   !under_way(0) && !under_way(1) && !under_way(2) && txn[2].state != PREPARED)

inline work(t)
{
    txn[t].state = ACTIVE;
    txn[t].step++
}

active proctype everything()
{
    d_step { control.start = 1; control.redo = 1 }
    do
    :: phase == NORMAL && all_ended -> break

    /* T0: one addition or two, then commit or abort */
    :: d_step { HAS_T0 && running(0, 0) && free_for(0, 0) -> work(0); change(0, ADD, 0, 1, 0, 0) }
    :: d_step { T0_ADDS > 1 && running(0, 1) && free_for(0, 1) ->
        work(0); change(0, ADD, 1, 1, 0, 0) }
    :: d_step { running(0, T0_ADDS) -> finish(0, COMMIT, COMMITTED) }

    /* T1: a top action of two changes, then commit or abort */
    :: d_step { HAS_T1 && running(1, 0) && free_for(1, 0) ->
        work(1); locked[0] = 2; change(1, SET, 0, memory[0].value + 4, memory[0].value, 0) }
    :: d_step { running(1, 1) && free_for(1, 1) ->
        work(1); locked[1] = 2; change(1, SET, 1, memory[1].value + 4, memory[1].value, 0) }
    :: d_step { running(1, 2) -> work(1); append(1, ACTION, 0, 0, 0, 0); unlock(1) }
    :: d_step { running(1, 3) -> finish(1, COMMIT, COMMITTED) }

    /* T2: one addition, prepared, then decided */
    :: d_step { HAS_T2 && running(2, 0) && free_for(2, 1) -> work(2); change(2, ADD, 1, 16, 0, 0) }
    :: d_step { running(2, 1) ->
        work(2); append(2, PREPARE, 0, 0, 0, 0); txn[2].state = PREPARED; check_if_quiet() }
    :: d_step { phase == NORMAL && txn[2].state == PREPARED ->
        force();
        finish(2, COMMIT, COMMITTED) }
    :: d_step { phase == NORMAL && txn[2].state == PREPARED ->
        force();
        txn[2].undo_next = txn[2].last; begin_abort(2) }

    /* a transaction that has begun may abort instead */
    :: d_step { phase == NORMAL && T0_ABORTS && txn[0].state == ACTIVE && !busy(0) ->
        txn[0].undo_next = txn[0].last; begin_abort(0) }
    :: d_step { phase == NORMAL && T1_ABORTS && txn[1].state == ACTIVE && !busy(1) ->
        txn[1].undo_next = txn[1].last; begin_abort(1) }
    :: d_step { phase == NORMAL && txn[0].state == ROLLING && can_undo(0) -> undo_one(0) }
    :: d_step { phase == NORMAL && txn[1].state == ROLLING && can_undo(1) -> undo_one(1) }
    :: d_step { phase == NORMAL && txn[2].state == ROLLING && can_undo(2) -> undo_one(2) }

    /* the change of a latched page is applied */
    :: d_step { latched[0] != 0 -> apply_to(memory[0], latched[0]); latched[0] = 0 }
    :: d_step { latched[1] != 0 -> apply_to(memory[1], latched[1]); latched[1] = 0 }

    /* a checkpoint */
    :: atomic { phase == NORMAL && stage == 0 && taken < CHECKPOINTS && tail > 1 ->
        taken++; stage = 1;
        if
        :: next.redo = tail /* all dirty pages are flushed */
        :: control.start < tail && control.start > control.redo -> next.redo = control.start
        fi }
    :: d_step { stage == 1 && flushed(0) && flushed(1) ->
        force(); flush(0); flush(1); stage = 2 }
    :: d_step { stage == 2 -> next.start = tail; stage = 3 }
    :: d_step { stage == 3 -> smallest_need(); copy_table(); stage = 4 }
    :: d_step { stage == 4 ->
        force();
        stage = 5;
#ifdef TRUNCATE_FIRST
        truncate()
#else
        skip
#endif
        }
    :: d_step { stage == 5 ->
#ifdef TRUNCATE_LATE
        smallest_need();
#endif
        write_control();
        stage = 6 }
    :: d_step { stage == 6 -> truncate(); stage = 0 }

    /* restart, step by step */
#ifdef REDO_STEPS
    :: d_step { phase == REDO && redo_at < tail -> redo_one() }
#else
    :: d_step { phase == REDO && redo_at < tail ->
        do
        :: redo_at < tail -> redo_one()
        :: else -> break
        od;
        phase = UNDO;
        redo_at = 0 }
#endif
    :: d_step { phase == REDO && redo_at == tail -> phase = UNDO; redo_at = 0 }
    :: d_step { phase == UNDO -> undo_newest() }

    :: atomic { crashes < CRASHES && tail > 1 -> lose_memory(); restart() }
    od
}
