/* SPDX-License-Identifier: BSD-2-Clause */
/* Compatibility and other properties of lock modes (Gray, Lorie, Putzolu 1975).
 *
 * U is compatible with S and IS, in both orders of the requests. New readers cannot keep the holder
 * of U from getting X, because a waiting upgrade makes later requests wait. */
#include "operations/lock/table.h"

#define IS (1u << LLADD_LOCK_IS)
#define IX (1u << LLADD_LOCK_IX)
#define S (1u << LLADD_LOCK_S)
#define SIX (1u << LLADD_LOCK_SIX)
#define U (1u << LLADD_LOCK_U)
#define X (1u << LLADD_LOCK_X)

const uint8_t ll_operations__lock_conflicts[LL_LOCK_MODES] = {
    [LLADD_LOCK_IS] = X,
    [LLADD_LOCK_IX] = S | SIX | U | X,
    [LLADD_LOCK_S] = IX | SIX | X,
    [LLADD_LOCK_SIX] = IX | S | SIX | U | X,
    [LLADD_LOCK_U] = IX | SIX | U | X,
    [LLADD_LOCK_X] = IS | IX | S | SIX | U | X,
};

/* The order is NONE, IS, IX, S, SIX, U, X. IX joined with U gives SIX, which reads all, changes
 * parts, and conflicts with everything that U conflicts with. */
#define N_ LLADD_LOCK_NONE
#define IS_ LLADD_LOCK_IS
#define IX_ LLADD_LOCK_IX
#define S_ LLADD_LOCK_S
#define SIX_ LLADD_LOCK_SIX
#define U_ LLADD_LOCK_U
#define X_ LLADD_LOCK_X
const uint8_t ll_operations__lock_join[LL_LOCK_MODES][LL_LOCK_MODES] = {
    {N_, IS_, IX_, S_, SIX_, U_, X_},       {IS_, IS_, IX_, S_, SIX_, U_, X_},
    {IX_, IX_, IX_, SIX_, SIX_, SIX_, X_},  {S_, S_, SIX_, S_, SIX_, U_, X_},
    {SIX_, SIX_, SIX_, SIX_, SIX_, SIX_, X_}, {U_, U_, SIX_, U_, SIX_, U_, X_},
    {X_, X_, X_, X_, X_, X_, X_},
};

const uint8_t ll_operations__lock_intent[LL_LOCK_MODES] = {N_, IS_, IX_, IS_, IX_, IX_, IX_};
const uint8_t ll_operations__lock_implies[LL_LOCK_MODES] = {N_, N_, N_, S_, S_, S_, X_};
const uint8_t ll_operations__lock_reading[LL_LOCK_MODES] = {N_, IS_, IS_, S_, S_, S_, S_};
const uint8_t ll_operations__lock_writing[LL_LOCK_MODES] = {N_, N_, IX_, N_, IX_, U_, X_};

const char *lladd_lock_mode_name(enum lladd_lock_mode mode)
{
    static const char *const names[LL_LOCK_MODES] = {"-", "IS", "IX", "S", "SIX", "U", "X"};
    return (unsigned)mode < LL_LOCK_MODES ? names[mode] : "?";
}
