/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_CONTRACT_PRIVATE_H
#define LL_SIM_CONTRACT_PRIVATE_H
/* What the files of the contract checks share.
 *
 * A *unit* is one check of one sample, or the checks of one logical undo. The parent forks a child
 * that works through the units. Both share the *board*. Before the child calls a callback of an
 * operation, it writes to the board which callback it is. If the child dies in the callback, the
 * parent records the broken promise and forks another child, which continues with the next unit. */
#include <lladd/bytes.h>
#include <lladd/sim_contract.h>

#include <stddef.h>
#include <string.h>

enum { LL_SIM__SLOTS = 3, LL_SIM__SIGNAL_STACK = 64 << 10 };

/* Shared by parent and children. */
struct ll_sim__board {
    size_t unit;    /* in progress */
    size_t next;    /* the first unit that is not finished */
    bool done;      /* all units are finished */
    bool outside;   /* the fault was an access outside the page and the bytes */
    bool late;      /* the time limit was exceeded */
    int signal;     /* the signal that ended the child; 0: none */
    char doing[96]; /* the callback that the child called last */
    char where[64]; /* the place of the forbidden access, as text */
    /* For messages: what check_hostile has mangled. A string literal, so that the pointer is valid
     * in all processes. */
    const char *with;
    struct ll_sim__state {
        bool given_up; /* the operation ended its child, so its other units are skipped */
    } state[];         /* per operation */
};

/* The memory that callbacks work on: pages and bytes, each between inaccessible guard pages. */
struct ll_sim__bench {
    const struct lladd_sim_contract *in;
    struct ll_sim__board *board;
    struct lladd_sim_kept *kept; /* verdicts of all operations */
    const uint32_t *op_of;       /* index of the operation of each sample, then of each undo */
    unsigned char *map;
    size_t map_len;                     /* bytes of the whole mapping */
    size_t page_room, bytes_room;       /* bytes of a slot, in whole system pages */
    unsigned char *slot[LL_SIM__SLOTS]; /* the pages */
    unsigned char *bytes; /* room for the record's bytes; their end is the end of the room */
    unsigned char *kept_redo, *kept_undo; /* bytes that prepare has made */
    uint32_t size;
    unsigned inside; /* the slot with the page that a callback may touch */
    size_t len;      /* number of bytes the callback may read */
    uint64_t random;
};

/* contract_run.c: callbacks between guard pages. */
int ll_sim__bench_init(struct ll_sim__bench *, size_t longest, struct lladd_error *);
void ll_sim__bench_free(struct ll_sim__bench *);
/* Copies the record's bytes to their room, and sets bytes->data to the copy. Then forbids access to
 * all pages except the page in the slot. Returns false if access cannot be forbidden. */
bool ll_sim__lay(struct ll_sim__bench *, unsigned slot, struct lladd_span *bytes);
/* Allows access to all pages again. Returns false if that fails. */
bool ll_sim__allow(struct ll_sim__bench *, unsigned slot);
/* Describes the address relative to the page or to the record's bytes. Returns false if the address
 * lies outside the mapping. */
bool ll_sim__where(const struct ll_sim__bench *, const unsigned char *at, char *out, size_t size);
/* Called in the child. Installs handlers that report a fatal signal on the board. */
void ll_sim__watch(struct ll_sim__bench *);
struct lladd_page ll_sim__page(const struct ll_sim__bench *, unsigned slot, uint64_t number);
struct lladd_view ll_sim__view(const struct ll_sim__bench *, unsigned slot, uint64_t number);
bool ll_sim__validate(struct ll_sim__bench *, const struct lladd_op *, unsigned slot,
                      uint64_t number, enum lladd_span_kind, struct lladd_span);
void ll_sim__run(struct ll_sim__bench *, const struct lladd_op *, unsigned slot, uint64_t number,
                 enum lladd_span_kind, struct lladd_span);
int ll_sim__prepare(struct ll_sim__bench *, const struct lladd_sim_sample *,
                    struct lladd_span *redo, struct lladd_span *undo, struct lladd_error *);
/* Starts and stops the time limit for callbacks that other files call. */
void ll_sim__clock(struct ll_sim__bench *, const char *doing, const char *op);
void ll_sim__clock_off(void);
/* Runs the units from board->next on in child processes. Returns 0 or an error. */
int ll_sim__fork(struct ll_sim__bench *, size_t units, void (*work)(struct ll_sim__bench *, size_t),
                 void (*died)(struct ll_sim__bench *, size_t), struct lladd_error *);

/* contract_logical.c: logical undos, which run on a database. */
void ll_sim__check_undo(struct ll_sim__bench *, const struct lladd_sim_undo *,
                        struct lladd_sim_kept *);

/* contract.c: record that a check was passed, or not. */
void ll_sim__kept(struct lladd_sim_kept *, enum lladd_sim_check);
void ll_sim__broken(struct lladd_sim_kept *, enum lladd_sim_check, const char *fmt, ...)
    LLADD_PRINTF(3, 4);

#endif
