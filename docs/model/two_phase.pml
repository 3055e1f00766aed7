/* SPDX-License-Identifier: BSD-2-Clause */
/* Two-phase commit with presumed abort, small enough for Spin to try every history.
 * docs/model/README.md says what is modelled and how to run it. In short:
 *
 *   - one transaction, a coordinator, N participants. Each participant changes something or only
 *     reads, votes yes or no, and may give up alone as long as it has not voted yes
 *   - a record is written, then forced; a crash may keep or lose a record that is not forced
 *   - the network loses, repeats and reorders messages, and may keep them while a process crashes.
 *     A process that waits for an answer sends again after a timeout, which may be too early.
 *     Losses, repetitions and early timeouts are faults: FAULTS in all
 *   - the coordinator and the participants crash between any two steps, CRASHES times in all; after
 *     a restart each knows only what its log holds
 *   - a process without a record of the transaction still answers: the coordinator *abort*, a
 *     participant *no* to a request for its vote and *ack* to an order to commit
 *   - when the crashes and faults are used up, every process comes to an end. No process waits for
 *     ever (otherwise Spin reports an invalid end state), and no history goes round in circles
 *     (Spin's search for non-progress cycles; no step here needs fairness)
 *
 * outcome[] holds what each participant really did, for the oracle. A crash does not change it. */

#ifndef N
#define N 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif

/* ---- switches: each breaks one rule, and Spin must find an error ---- */

/* VOTE_FIRST      a participant votes yes before its prepare record is durable
 * SEND_FIRST      the coordinator sends its decision before the decision is durable
 * ACK_FIRST       a participant acknowledges a commit before its commit record is durable
 * FORGET_EARLY    the coordinator forgets a commit before all have acknowledged it
 * NO_LIST         the commit record does not list the participants that must learn of it
 * PRESUME_COMMIT  a coordinator that knows nothing says commit
 * VOTE_UNKNOWN    a participant that does not know the transaction votes read-only
 * ONE_FOR_ALL     one-phase commit with more than one participant
 * IMPATIENT       a participant in doubt aborts before it has the decision
 * NEVER_ASK       a participant in doubt waits for the decision and does not ask for it
 * SILENT          a participant that has forgotten a transaction does not answer
 * CALM            breaks no rule: no process gives up or votes no, so the transaction commits */

/* Messages to a participant, then those from it. The network holds each at most once. */
#define PREPARE 1
#define COMMIT 2
#define ABORT 4
#define ONE_PHASE 8
#define YES 16
#define NO 32
#define READ_ONLY 64
#define ASK 128
#define ACK 256   /* committed, or the transaction is not known here */
#define DONE 512  /* committed in one phase */
#define GONE 1024 /* a one-phase commit, but the transaction is not known here */
#define TO_PARTICIPANT (PREPARE | COMMIT | ABORT | ONE_PHASE)
#define MESSAGES 11
short net[N];

/* The coordinator. Its log holds the decision, later that all have acknowledged it. */
#define IDLE 0
#define COLLECTING 1
#define SINGLE 2     /* one participant, and it decides */
#define DECIDED 3    /* to commit; the record is written */
#define COMMITTING 4 /* to commit; the record is durable */
#define FORGOTTEN 5  /* nothing to do, nothing known */
byte state = IDLE;
byte yes, readers, acked; /* a bit for each participant */

#define NONE 0
#define COMMIT_RECORD 1
#define END_RECORD 2
/* list: the participants that must commit; part of the commit record. */
byte written, forced, list;

/* The participants. Only the newest record of a log matters: it makes the earlier ones obsolete. */
#define WORKING 0
#define PREPARED 1
#define COMMITTED 2
#define UNKNOWN 3
typedef participant {
    byte state, written, forced;
    short owes /* the answer to send once the record is durable */
};
participant part[N];

#define PREPARE_RECORD 1
#define COMMITTED_RECORD 2
#define ABORTED_RECORD 3 /* never forced: if it is lost, the answer is *abort* again */
#define CLEAN 4          /* truncated after a durable commit: the transaction is forgotten */

/* What the oracle knows. A crash does not change it. */
#define NOTHING 0
#define HAS_COMMITTED 1
#define HAS_ABORTED 2
#define HAS_READ 3
#define HAZARD 4 /* the application was told that the outcome is unknown */
byte outcome[N], told;

byte crashes, faults, i;
bool over;

/* ---- the oracle ---- */

inline agree()
{
    i = 0;
    do
    :: i < N ->
        /* No participant commits if another aborts. */
        assert(outcome[p] != HAS_COMMITTED || outcome[i] != HAS_ABORTED);
        assert(outcome[p] != HAS_ABORTED || outcome[i] != HAS_COMMITTED);
        i++
    :: else -> break
    od;
    i = 0;
    assert(told != HAS_COMMITTED || outcome[p] != HAS_ABORTED);
    assert(told != HAS_ABORTED || outcome[p] != HAS_COMMITTED)
}

inline decide(what)
{
    /* A participant never reverses its outcome. */
    assert(outcome[p] == NOTHING || outcome[p] == what);
    outcome[p] = what;
    agree()
}

inline tell(what)
{
    told = what;
    i = 0;
    do
    :: i < N ->
        assert(told != HAS_COMMITTED || outcome[i] != HAS_ABORTED);
        assert(told != HAS_ABORTED || outcome[i] != HAS_COMMITTED);
        i++
    :: else -> break
    od;
    i = 0
}

/* ---- the network ---- */

inline send(what) { net[p] = net[p] | what }

/* Receives a message. It may arrive again, which is a fault. */
inline take(what)
{
    if
    :: net[p] = net[p] & ~what
    :: faults < FAULTS -> faults++
    fi
}

inline lose_one()
{
    i = 0;
    do
    :: i < MESSAGES - 1 -> i++ /* not this one */
    :: net[p] & (1 << i) -> net[p] = net[p] & ~(1 << i); break
    :: i == MESSAGES - 1 && !(net[p] & (1 << i)) -> break
    od;
    faults++;
    i = 0
}

/* quiet: no message is under way between the two, and the participant owes none, so one of the two
 * must send again. early: a timeout may come before that, which is a fault. */
#define quiet (net[p] == 0 && part[p].owes == 0)
#define early (faults < FAULTS)

inline say(what, in_time)
{
    if
    :: in_time -> send(what)
    :: !(in_time) -> faults++; send(what)
    fi
}

/* ---- the coordinator's part ---- */

#define me (1 << p)
#define everybody ((1 << N) - 1)
#define no_votes_wanted (state >= COMMITTING)
#define missing (state == COMMITTING && (list & me) && !(acked & me))
#ifdef CALM
#define gives_up false
#else
#define gives_up true
#endif
#if N == 1 || defined(ONE_FOR_ALL)
#define one_phase true
#else
#define one_phase false
#endif

/* Needs no record and no acknowledgement: a participant that asks later is told *abort*, too. */
inline abort_all()
{
    tell(HAS_ABORTED);
    state = FORGOTTEN;
    i = 0;
    do
    :: i < N && !(readers & (1 << i)) -> net[i] = net[i] | ABORT; i++
    :: i < N -> i++ /* not sent: the participant may ask */
    :: i == N -> break
    od;
    i = 0
}

inline forget()
{
    written = END_RECORD;
    state = FORGOTTEN;
    yes = 0;
    readers = 0;
    acked = 0
}

inline answer()
{
    if
    :: state == COMMITTING -> send(COMMIT)
#ifdef PRESUME_COMMIT
    :: state == FORGOTTEN -> send(COMMIT)
#else
    :: state == FORGOTTEN -> send(ABORT)
#endif
    :: else /* nothing is decided yet */
    fi
}

/* A record that was written and not forced may be durable or lost. */
inline restart_coordinator()
{
    crashes++;
    if
    :: forced = written
    :: written = forced
    fi;
    yes = 0;
    readers = 0;
    acked = 0;
#ifdef NO_LIST
    list = 0;
#endif
    state = (forced == COMMIT_RECORD -> COMMITTING : FORGOTTEN);
    if
    :: true /* messages to the coordinator arrive later, or are lost */
    :: i = 0;
        do
        :: i < N -> net[i] = net[i] & TO_PARTICIPANT; i++
        :: else -> break
        od;
        i = 0
    fi
}

active proctype coordinator()
{
end:
    do
    :: over -> break

    :: atomic { state == IDLE -> state = COLLECTING }
    :: atomic { one_phase && state == IDLE -> state = SINGLE }
    :: atomic { gives_up && state == COLLECTING -> abort_all() }
    :: atomic { state == COLLECTING && readers == everybody ->
        tell(HAS_COMMITTED); state = FORGOTTEN }
    :: atomic { state == COLLECTING && (yes | readers) == everybody && readers != everybody ->
        written = COMMIT_RECORD;
        list = yes;
        state = DECIDED }
    :: atomic { state == DECIDED ->
        forced = written;
        state = COMMITTING;
        tell(HAS_COMMITTED) }
#ifdef FORGET_EARLY
    :: atomic { state == COMMITTING -> forget() }
#else
    :: atomic { state == COMMITTING && (acked & list) == list -> forget() }
#endif
    :: atomic { state == SINGLE && acked == everybody ->
        tell(HAS_COMMITTED); state = FORGOTTEN; acked = 0 }

    :: atomic { crashes < CRASHES && !over -> restart_coordinator() }
    od
}

/* ---- the participants' part ---- */

/* Forces the participant's record, then sends the answer that waits for it. */
inline force_and_speak()
{
    part[p].forced = part[p].written;
    if
    :: part[p].state == COMMITTED -> decide(HAS_COMMITTED)
    :: else
    fi;
    send(part[p].owes);
    part[p].owes = 0
}

inline vote_yes()
{
    part[p].written = PREPARE_RECORD;
    part[p].state = PREPARED;
    part[p].owes = YES;
#ifdef VOTE_FIRST
    send(YES)
#else
    skip
#endif
}

inline give_up()
{
    part[p].state = UNKNOWN;
    decide(HAS_ABORTED)
}

inline commit(say_then)
{
    part[p].written = COMMITTED_RECORD;
    part[p].state = COMMITTED;
    part[p].owes = say_then;
    if
    :: say_then == ACK -> decide(HAS_COMMITTED)
    :: else /* one phase: committed once the record is durable */
    fi;
#ifdef ACK_FIRST
    send(ACK)
#else
    skip
#endif
}

inline abort_prepared()
{
    part[p].written = ABORTED_RECORD;
    part[p].state = UNKNOWN;
    part[p].owes = 0;
    decide(HAS_ABORTED)
}

/* A restarted participant knows only what its log holds. */
inline restart_participant()
{
    crashes++;
    if
    :: part[p].forced = part[p].written
    :: part[p].written = part[p].forced
    fi;
    part[p].owes = 0;
    if
    :: part[p].forced == NONE && outcome[p] != HAS_READ -> give_up()
    :: part[p].forced == PREPARE_RECORD -> part[p].state = PREPARED
    :: part[p].forced == COMMITTED_RECORD -> part[p].state = COMMITTED; decide(HAS_COMMITTED)
    :: else -> part[p].state = UNKNOWN
    fi;
    if
    :: true
    :: net[p] = net[p] & ~TO_PARTICIPANT
    fi
}

#define settled(q) (part[q].state == UNKNOWN || (part[q].state == COMMITTED && !part[q].owes))

/* A participant, and the coordinator's messages to and from it. */
proctype pair(byte p)
{
end:
    do
    :: over -> break

    /* the coordinator sends */
    :: atomic { state == COLLECTING && !((yes | readers) & me) && (quiet || early) ->
        say(PREPARE, quiet) }
    :: atomic { state == SINGLE && !(acked & me) && (quiet || early) -> say(ONE_PHASE, quiet) }
    :: atomic { missing && (quiet || early) -> say(COMMIT, quiet) }
#ifdef SEND_FIRST
    :: atomic { state == DECIDED && (list & me) && quiet -> send(COMMIT) }
#endif

    /* the participant receives */
    :: atomic { net[p] & PREPARE ->
        take(PREPARE);
        if
        :: part[p].state == WORKING -> vote_yes()
        :: part[p].state == WORKING -> part[p].state = UNKNOWN; decide(HAS_READ); send(READ_ONLY)
        :: gives_up && part[p].state == WORKING -> give_up(); send(NO)
        :: part[p].state == PREPARED && !part[p].owes -> send(YES)
#ifdef VOTE_UNKNOWN
        :: part[p].state == UNKNOWN -> send(READ_ONLY)
#else
        :: part[p].state == UNKNOWN -> send(NO)
#endif
        :: part[p].state == COMMITTED || part[p].owes /* late */
        fi }
    :: atomic { net[p] & COMMIT ->
        take(COMMIT);
        if
        :: part[p].state == PREPARED && !part[p].owes -> commit(ACK)
        :: part[p].state == PREPARED && part[p].owes ->
#ifdef VOTE_FIRST
            commit(ACK)
#else
            assert(false) /* no commit without its vote */
#endif
        :: part[p].state == COMMITTED && !part[p].owes -> send(ACK)
        :: part[p].state == COMMITTED && part[p].owes
#ifdef SILENT
        :: part[p].state == UNKNOWN
#else
        :: part[p].state == UNKNOWN -> send(ACK)
#endif
        :: part[p].state == WORKING -> assert(false)
        fi }
    :: atomic { net[p] & ABORT ->
        take(ABORT);
        if
        :: part[p].state == WORKING -> give_up()
        :: part[p].state == PREPARED -> abort_prepared()
        :: else
        fi }
    :: atomic { net[p] & ONE_PHASE ->
        take(ONE_PHASE);
        if
        :: part[p].state == WORKING -> commit(DONE)
        :: gives_up && part[p].state == WORKING -> give_up(); send(NO)
        :: part[p].state == COMMITTED && !part[p].owes -> send(DONE)
        :: part[p].state == COMMITTED && part[p].owes
        :: part[p].state == UNKNOWN -> send(GONE)
        fi }

    /* the participant acts */
    :: atomic { part[p].owes -> force_and_speak() }
    :: atomic { gives_up && part[p].state == WORKING -> give_up() }
    :: atomic { part[p].state == WORKING && state == FORGOTTEN -> give_up() }
    :: atomic { part[p].state == COMMITTED && !part[p].owes ->
        part[p].state = UNKNOWN; part[p].written = CLEAN; part[p].forced = CLEAN }
#ifndef NEVER_ASK
    :: atomic { part[p].state == PREPARED && !part[p].owes &&
                ((quiet && no_votes_wanted) || early) ->
        say(ASK, (quiet && no_votes_wanted)) }
#endif
#ifdef IMPATIENT
    :: atomic { part[p].state == PREPARED -> abort_prepared() }
#endif

    /* the coordinator receives */
    :: atomic { net[p] & YES ->
        take(YES);
        if
        :: state == COLLECTING -> yes = yes | me
        :: else
        fi }
    :: atomic { net[p] & READ_ONLY ->
        take(READ_ONLY);
        if
        :: state == COLLECTING -> readers = readers | me
        :: else
        fi }
    :: atomic { net[p] & NO ->
        take(NO);
        if
        :: state == COLLECTING -> abort_all()
        :: state == SINGLE -> tell(HAS_ABORTED); state = FORGOTTEN
        :: else
        fi }
    :: atomic { net[p] & ASK -> take(ASK); answer() }
    :: atomic { net[p] & ACK -> take(ACK); acked = acked | (state == COMMITTING -> me : 0) }
    :: atomic { net[p] & DONE -> take(DONE); acked = acked | (state == SINGLE -> me : 0) }
    :: atomic { net[p] & GONE ->
        take(GONE);
        if
        :: state == SINGLE -> tell(HAZARD); state = FORGOTTEN
        :: else
        fi }

    /* faults */
    :: atomic { faults < FAULTS && net[p] != 0 -> lose_one() }
    :: atomic { crashes < CRASHES -> restart_participant() }
    od
}

#if N == 1
#define all_settled settled(0)
#elif N == 2
#define all_settled (settled(0) && settled(1))
#else
#define all_settled (settled(0) && settled(1) && settled(2))
#endif

/* The only process that must terminate. */
init
{
    atomic {
        i = 0;
        do
        :: i < N -> run pair(i); i++
        :: else -> break
        od;
        i = 0
    }
    atomic {
        state == FORGOTTEN && all_settled;
        i = 0;
        do
        :: i < N ->
            assert(outcome[i] != NOTHING);
            assert(told != HAS_COMMITTED || outcome[i] != HAS_ABORTED);
            assert(told != HAS_ABORTED || outcome[i] != HAS_COMMITTED);
            i++
        :: else -> break
        od;
        i = 0;
#ifdef CALM
        assert(told == HAS_COMMITTED);
#endif
        over = true
    }
}
