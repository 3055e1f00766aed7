/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves the oracle between machines. The oracle says what the database must contain (world.h). */
#include "world.h"

#include <errno.h>
#include <inttypes.h>

enum { NUMBERS = 5 + 2 * WORKERS + 4 * SLOTS + 2 * PINS };

/* Copies the numbers that outlive a process: out of the oracle or, if `put` is true, into the
 * oracle. */
static void copy_numbers(struct oracle *o, uint64_t n[NUMBERS], bool put)
{
    unsigned i = 0;
#define NUMBER(field, type)                                                                        \
    do {                                                                                           \
        if (put)                                                                                   \
            atomic_store(&o->field, (type)n[i]);                                                   \
        n[i++] = atomic_load(&o->field);                                                           \
    } while (0)
    NUMBER(made, uint32_t);
    NUMBER(open_calls, uint64_t);
    NUMBER(open_ns, uint64_t);
    NUMBER(capacity, uint64_t);
    NUMBER(chance, uint64_t);
    for (unsigned w = 0; w < WORKERS; w++) {
        NUMBER(worker[w].sure, uint32_t);
        NUMBER(worker[w].issued, uint32_t);
    }
    for (unsigned s = 0; s < SLOTS; s++) {
        NUMBER(slot[s].state, uint32_t);
        NUMBER(slot[s].serial, uint32_t);
        NUMBER(slot[s].committed, uint32_t);
        NUMBER(slot[s].commits, uint32_t);
    }
    for (unsigned p = 0; p < PINS; p++) {
        NUMBER(pin[p].lsn, uint64_t);
        NUMBER(pin[p].sure, uint32_t);
    }
#undef NUMBER
}

bool oracle_save(struct oracle *o, const uint64_t conductor[2], const char *path)
{
    uint64_t n[NUMBERS];
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    copy_numbers(o, n, false);
    bool good = fprintf(f, "%" PRIu64 " %" PRIu64 "\n", conductor[0], conductor[1]) > 0;
    for (unsigned i = 0; good && i < NUMBERS; i++)
        good = fprintf(f, "%" PRIu64 "\n", n[i]) > 0;
    return fclose(f) == 0 && good;
}

bool oracle_load(struct oracle *o, uint64_t conductor[2], const char *path)
{
    uint64_t n[NUMBERS];
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool good = fscanf(f, "%" SCNu64 " %" SCNu64, &conductor[0], &conductor[1]) == 2;
    for (unsigned i = 0; good && i < NUMBERS; i++)
        good = fscanf(f, "%" SCNu64, &n[i]) == 1;
    (void)fclose(f);
    if (good)
        copy_numbers(o, n, true);
    else
        errno = EBADMSG;
    return good;
}
