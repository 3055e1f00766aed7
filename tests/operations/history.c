/* SPDX-License-Identifier: BSD-2-Clause */
/* See history.h. */
#include "history.h"

bool history_may_write(const struct history *h, int t, uint32_t record)
{
    return h->owner[record] < 0 || h->owner[record] == t;
}

void history_wrote(struct history *h, int t, uint32_t record, struct version v)
{
    h->now[record] = v;
    h->owner[record] = t;
}

static void ended(struct history *h, int t, bool keep)
{
    for (uint32_t i = 0; i < h->records; i++) {
        if (h->owner[i] != t)
            continue;
        h->owner[i] = -1;
        h->undone += !keep;
        if (keep)
            h->base[i] = h->now[i];
        else
            h->now[i] = h->base[i];
    }
    h->txn[t] = NULL;
}

static void end(struct history *h, int t, bool keep)
{
    if (keep)
        commit(h->txn[t]);
    else
        abort_txn(h->txn[t]);
    ended(h, t, keep);
}

static void crash(struct history *h, struct fixture *b)
{
    fixture_crash(b);
    if (h->reopen)
        h->reopen();
    for (int t = 0; t < h->txns; t++)
        ended(h, t, false);
    h->expect(h);
}

static void write_as(struct history *h, struct fixture *b, int t, uint64_t random)
{
    if (!h->txn[t])
        h->txn[t] = fixture_begin(b);
    h->write(h, t, random);
}

void history_run(struct history *h, struct fixture *b, uint64_t seed)
{
    ck_assert_uint_le(h->records, HISTORY_RECORDS);
    ck_assert_int_le(h->txns, HISTORY_TXNS);
    for (uint32_t i = 0; i < h->records; i++)
        h->owner[i] = -1;
    for (int step = 0; step < h->steps; step++) {
        uint64_t r = seeded_next(&seed);
        int t = (int)(r % (unsigned)h->txns);
        if (h->txn[t] && (r >> 3) % h->end_every == 0)
            end(h, t, r >> 60 & 1);
        else if ((r >> 3) % h->crash_every == 1)
            crash(h, b);
        else
            write_as(h, b, t, r >> 3);
        if (h->look_every && (unsigned)step % h->look_every == 0)
            h->expect(h);
    }
    h->expect(h);
}
