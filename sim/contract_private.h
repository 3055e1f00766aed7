/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_CONTRACT_PRIVATE_H
#define LL_SIM_CONTRACT_PRIVATE_H
/* What the files of the contract checks share.
 *
 * The parent maps a board that parent and child see, and forks a child that works off *units* (one
 * check of one sample). Before it calls anything of the operation's, the child notes on the board
 * what it is about to do; if it dies of that, the parent writes the verdict and forks another one
 * behind the place. */
#include <lladd/bytes.h>
#include <lladd/sim_contract.h>

#include <stddef.h>
#include <string.h>

enum { LL_SIM__SLOTS = 3, LL_SIM__SIGNAL_STACK = 64 << 10 };

/* Shared by parent and children. */
struct ll_sim__board {
    size_t unit;    /* being worked on */
    size_t next;    /* the one after the last that was finished */
    bool done;      /* all are */
    bool outside;   /* the fault lies beside the page or the bytes */
    bool late;      /* the time was up */
    int signal;     /* that the child died of; 0: none */
    char doing[96]; /* what it was about to do */
    char where[64]; /* the byte it touched */
    struct ll_sim__state {
        bool given_up; /* it crashes or loops: nothing more is tried */
    } state[];         /* per operation; behind them the verdicts */
};

/* The child's arena: pages and bytes, each alone between forbidden pages. */
struct ll_sim__bench {
    const struct lladd_sim_contract *in;
    struct ll_sim__board *board;
    struct lladd_sim_kept *kept; /* all operations */
    const uint32_t *op_of;       /* per sample */
    unsigned char *map;
    size_t map_len, unit_len;             /* of the whole; of one slot with the guard before it */
    size_t page_room, bytes_room;         /* of a slot, rounded up to the system's pages */
    unsigned char *slot[LL_SIM__SLOTS];   /* pages */
    unsigned char *bytes;                 /* room for the bytes, which lie at its end */
    unsigned char *kept_redo, *kept_undo; /* made by prepare */
    uint32_t size;
    unsigned inside; /* slot whose page a callback may touch */
    size_t len;      /* of the bytes it may read */
    uint64_t random;
};

/* contract_run.c: callbacks under guard. */
int ll_sim__bench_init(struct ll_sim__bench *, size_t longest, struct lladd_error *);
void ll_sim__bench_free(struct ll_sim__bench *);
/* Puts bytes in their place, and says where that is; then no page may be touched but that in the
 * slot. False: it cannot be forbidden. */
bool ll_sim__lay(struct ll_sim__bench *, unsigned slot, struct lladd_span *bytes);
/* All pages may be touched again. False: it cannot be had. */
bool ll_sim__allow(struct ll_sim__bench *, unsigned slot);
/* What lies at this address, as the callback sees it. False: it is none of these. */
bool ll_sim__where(const struct ll_sim__bench *, const unsigned char *at, char *out, size_t size);
/* In the child: dying is told. */
void ll_sim__watch(struct ll_sim__bench *);
struct lladd_page ll_sim__page(const struct ll_sim__bench *, unsigned slot, uint64_t number);
struct lladd_view ll_sim__view(const struct ll_sim__bench *, unsigned slot, uint64_t number);
bool ll_sim__validate(struct ll_sim__bench *, const struct lladd_op *, unsigned slot,
                      uint64_t number, enum lladd_span_kind, struct lladd_span);
void ll_sim__run(struct ll_sim__bench *, const struct lladd_op *, unsigned slot, uint64_t number,
                 enum lladd_span_kind, struct lladd_span);
int ll_sim__prepare(struct ll_sim__bench *, const struct lladd_sim_sample *,
                    struct lladd_span *redo, struct lladd_span *undo, struct lladd_error *);
/* Starts and stops the clock of callbacks that are called elsewhere. */
void ll_sim__clock(struct ll_sim__bench *, const char *doing, const char *op);
void ll_sim__clock_off(void);
/* Does the child's work from board->next on, in processes. 0, or an error. */
int ll_sim__fork(struct ll_sim__bench *, size_t units, void (*work)(struct ll_sim__bench *, size_t),
                 void (*died)(struct ll_sim__bench *, size_t), struct lladd_error *);

/* contract_logical.c: undos that are calls on a database. */
void ll_sim__check_undo(struct ll_sim__bench *, const struct lladd_sim_undo *,
                        struct lladd_sim_kept *);

/* contract.c: notes how a check has gone. */
void ll_sim__kept(struct lladd_sim_kept *, enum lladd_sim_check);
void ll_sim__broken(struct lladd_sim_kept *, enum lladd_sim_check, const char *fmt, ...)
    LLADD_PRINTF(3, 4);

#endif
