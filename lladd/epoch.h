/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_EPOCH_H
#define LLADD_EPOCH_H
/**
 * @file
 * @brief Epochs: memory that threads read without a latch is released when no thread can read it
 * any more.
 *
 * A structure without latches replaces an object by a compare-and-swap of the word that leads to
 * it. Other threads may still read the old object, so the writer does not free it: it *retires* it.
 * The object is released when every thread that was in an epoch at that moment has left the epoch.
 *
 *     struct lladd_epoch *in = lladd_epoch_enter(epochs);
 *     if (!in) ...                                        out of memory
 *     uint64_t word = lladd_atomic_look64(&shared);       the object that it names stays
 *     ...
 *     if (lladd_atomic_cas64(&shared, &word, (uintptr_t)new_object))
 *         lladd_epoch_retire(epochs, in, &old_object->retired, size, release, NULL);
 *     lladd_epoch_leave(epochs, in);
 *
 * Three rules make this safe:
 *
 * 1. A thread enters an epoch before it loads a word that leads to an object, and uses the object
 *    only until it leaves the epoch.
 * 2. These words are loaded with lladd_atomic_look64 and changed with lladd_atomic_cas64 or
 *    lladd_atomic_exchange64, which are sequentially consistent. With an acquire load a processor
 *    could read the word before other threads see that the thread is in an epoch.
 * 3. A thread retires an object after it has removed the last word that leads to the object. Each
 *    object is retired once.
 *
 * An epoch should last as long as one call of the structure. A thread in an epoch may be preempted,
 * and may use any mutex. It should leave the epoch before it waits for I/O, for a transaction or
 * for a user: while it stays, nothing is released that any thread retires, and only memory limits
 * the number of objects that wait. A thread that ends without leaving counts as one that stays for
 * ever. Threads that are not in an epoch delay nothing, no matter how long they sleep.
 *
 * Memory. A thread in an epoch has a slot of 64 bytes. There are as many slots as threads were ever
 * in an epoch at a time, rounded up to a multiple of 32. An object waits in the slot of the thread
 * that has retired it. A slot is swept when a thread leaves it, if 64 objects or 256 KiB have been
 * retired there since the last sweep. A sweep releases what has been retired before the oldest
 * epoch began in which a thread is. So if no thread stays in an epoch for long, what waits in a
 * slot was retired there since the last sweep but one. A thread that stays adds what all threads
 * retire meanwhile. Their slots may be free for ever, so a thread that sweeps its own slot also
 * sweeps the free slots in which 512 KiB or more wait. lladd_epochs_sweep sweeps all free slots.
 * lladd_epochs_waiting says how much waits, so a structure can refuse work beyond a limit.
 *
 * Threads: any number may call everything but lladd_epochs_destroy. No call waits.
 * @ingroup lladd
 */
#include <lladd/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/** The epochs of one structure, or of several. */
struct lladd_epochs;
/** A thread's stay in an epoch. It belongs to the thread that has entered. */
struct lladd_epoch;

/** A retired object. Make it a member of the objects; retiring then needs no memory. Only the
 *  functions of this header use the members. */
struct lladd_retired {
    /** @cond */
    struct lladd_retired *next;
    uint64_t epoch;
    size_t bytes;
    void (*release)(void *ctx, struct lladd_retired *);
    void *ctx;
    /** @endcond */
};

/** Makes epochs, with the memory of the database handle. LLADD_NO_MEMORY. The caller destroys them
 *  before it closes the handle. */
LLADD_API int lladd_epochs_create(struct lladd_db *, struct lladd_epochs **out,
                                  struct lladd_error *);
/** Releases all that waits, and the epochs; NULL does nothing. Every stay must have been left; a
 *  debug build stops otherwise. */
LLADD_API void lladd_epochs_destroy(struct lladd_epochs *);

/** Enters an epoch. NULL: more threads are in epochs than ever before, and there is no memory for
 *  more slots. A thread may enter several times; each stay has a slot of its own. */
LLADD_API struct lladd_epoch *lladd_epoch_enter(struct lladd_epochs *);
/** Leaves the epoch. May sweep the slot, and so call `release` of retired objects; the thread then
 *  is in no epoch. */
LLADD_API void lladd_epoch_leave(struct lladd_epochs *, struct lladd_epoch *);
/** Returns the number of the stay's slot, from 0. No two threads have the same number at a time, so
 *  a structure can have counters for each number that are seldom contended. */
LLADD_API unsigned lladd_epoch_slot(const struct lladd_epoch *);
/** Retires an object: calls release(ctx, retired) when no thread can use the object any more. The
 *  call comes from any thread that leaves an epoch, sweeps or destroys the epochs. `release` must
 *  not wait, and must not retire objects. `bytes`, the size of the object, is for
 *  lladd_epochs_waiting and the next sweep. */
LLADD_API void lladd_epoch_retire(struct lladd_epochs *, struct lladd_epoch *,
                                  struct lladd_retired *, size_t bytes,
                                  void (*release)(void *ctx, struct lladd_retired *), void *ctx);

/** Sweeps all slots in which no thread is. With no thread in an epoch, nothing waits afterwards. */
LLADD_API void lladd_epochs_sweep(struct lladd_epochs *);
/** Returns the bytes of the objects that wait. Approximate while other threads retire objects. */
LLADD_API uint64_t lladd_epochs_waiting(struct lladd_epochs *);

#ifdef __cplusplus
}
#endif
#endif
