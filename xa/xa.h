/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between a transaction manager and a resource manager, as X/Open defines it (CAE
 * Specification C193, December 1991, chapters 3 to 5). Names, values and layouts are the
 * standard's, so programs compiled with another edition of <xa.h> are compatible. The include guard
 * is the standard's, too: if a program includes the transaction manager's own <xa.h> first, this
 * file adds nothing.
 */
#ifndef XA_H
#define XA_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transaction branch identification ----------------------------------------------------- */

#define XIDDATASIZE 128 /* bytes in data */
#define MAXGTRIDSIZE 64 /* most bytes of gtrid, the id of the global transaction */
#define MAXBQUALSIZE 64 /* most bytes of bqual, the branch qualifier */

struct xid_t {
    long formatID;          /* -1: the null XID */
    long gtrid_length;      /* 1 to 64 */
    long bqual_length;      /* 1 to 64; this resource manager accepts 0, too */
    char data[XIDDATASIZE]; /* gtrid, then bqual */
};
typedef struct xid_t XID;

/* ---- calls of the transaction manager (dynamic registration) ------------------------------- */

extern int ax_reg(int, XID *, long);
extern int ax_unreg(int, long);

/* ---- the resource manager switch ------------------------------------------------------------ */

#define RMNAMESZ 32     /* bytes of the name, including the final 0 */
#define MAXINFOSIZE 256 /* bytes of an open or close string, including the final 0 */

struct xa_switch_t {
    char name[RMNAMESZ];
    long flags;   /* capabilities of the resource manager */
    long version; /* 0 */
    int (*xa_open_entry)(char *, int, long);
    int (*xa_close_entry)(char *, int, long);
    int (*xa_start_entry)(XID *, int, long);
    int (*xa_end_entry)(XID *, int, long);
    int (*xa_rollback_entry)(XID *, int, long);
    int (*xa_prepare_entry)(XID *, int, long);
    int (*xa_commit_entry)(XID *, int, long);
    int (*xa_recover_entry)(XID *, long, int, long);
    int (*xa_forget_entry)(XID *, int, long);
    int (*xa_complete_entry)(int *, int *, int, long);
};

/* Flags of the switch. */
#define TMNOFLAGS 0x00000000L
#define TMREGISTER 0x00000001L  /* registers dynamically */
#define TMNOMIGRATE 0x00000002L /* cannot move an association to another thread */
#define TMUSEASYNC 0x00000004L  /* can work asynchronously */

/* Flags of the calls. */
#define TMASYNC 0x80000000L
#define TMONEPHASE 0x40000000L
#define TMFAIL 0x20000000L
#define TMNOWAIT 0x10000000L
#define TMRESUME 0x08000000L
#define TMSUCCESS 0x04000000L
#define TMSUSPEND 0x02000000L
#define TMSTARTRSCAN 0x01000000L
#define TMENDRSCAN 0x00800000L
#define TMMULTIPLE 0x00400000L
#define TMJOIN 0x00200000L
#define TMMIGRATE 0x00100000L

/* Results of ax_reg and ax_unreg. */
#define TM_JOIN 2
#define TM_RESUME 1
#define TM_OK 0
#define TMER_TMERR -1
#define TMER_INVAL -2
#define TMER_PROTO -3

/* Results of the resource manager's calls. */
#define XA_RBBASE 100
#define XA_RBROLLBACK XA_RBBASE         /* rolled back, for no stated reason */
#define XA_RBCOMMFAIL (XA_RBBASE + 1)   /* because communication failed */
#define XA_RBDEADLOCK (XA_RBBASE + 2)   /* because of a deadlock */
#define XA_RBINTEGRITY (XA_RBBASE + 3)  /* because data would have become wrong */
#define XA_RBOTHER (XA_RBBASE + 4)      /* for a reason not listed here */
#define XA_RBPROTO (XA_RBBASE + 5)      /* because of a protocol error inside the resource
                                         * manager */
#define XA_RBTIMEOUT (XA_RBBASE + 6)    /* because it took too long */
#define XA_RBTRANSIENT (XA_RBBASE + 7)  /* for a temporary reason: the transaction may be tried
                                         * again */
#define XA_RBEND XA_RBTRANSIENT
#define XA_NOMIGRATE 9 /* suspended, but only the same thread may resume the association */
#define XA_HEURHAZ 8   /* may have been completed heuristically */
#define XA_HEURCOM 7   /* has been committed heuristically */
#define XA_HEURRB 6    /* has been rolled back heuristically */
#define XA_HEURMIX 5   /* partly committed and partly rolled back */
#define XA_RETRY 4     /* the call had no effect and may be repeated */
#define XA_RDONLY 3    /* the branch was read only, and is committed */
#define XA_OK 0
#define XAER_ASYNC -2   /* asynchronous work is outstanding, or not supported */
#define XAER_RMERR -3   /* the resource manager has met an error in the branch */
#define XAER_NOTA -4    /* no such XID */
#define XAER_INVAL -5   /* wrong arguments */
#define XAER_PROTO -6   /* called in the wrong context */
#define XAER_RMFAIL -7  /* the resource manager is not available */
#define XAER_DUPID -8   /* the XID exists */
#define XAER_OUTSIDE -9 /* the thread does work outside any global transaction */

#ifdef __cplusplus
}
#endif
#endif
