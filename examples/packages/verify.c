/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the database in three ways, which must agree with each other, with the file, and with the
 * parent's ledger:
 *
 *   the walk    every element of the table belongs to exactly one transaction of the run, and its
 *               value is that transaction's stanza.
 *   lookups     find a transaction's key exactly if the walk has found its stanza.
 *   the tally   has, for each letter, the number of stanzas and bytes that the walk has found.
 *
 * The ledger says for each transaction whether its stanza must be there. Only the stanza of a
 * transaction that was open when the loader died may be present or absent; if it is present, it
 * must be complete. lladd_hash_check checks that every key is in the bucket where it belongs. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparison {
    struct store *store;
    const struct stanzas *stanzas;
    struct ledger *ledger;
    struct verdict *verdict;
    struct lladd_error *err;
    unsigned char *there; /* by transaction: 1 if the walk has found its stanza */
    struct tally tally[TALLY_CELLS];
};

__attribute__((format(printf, 2, 3))) static void discrepancy(struct verdict *v, const char *fmt,
                                                              ...)
{
    if (v->discrepancies < VERDICT_SHOWN) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(v->shown[v->discrepancies], sizeof v->shown[0], fmt, ap);
        va_end(ap);
    }
    v->discrepancies++;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void meet(struct comparison *c, struct lladd_span key, struct lladd_span value)
{
    uint64_t sequence;
    c->verdict->elements++;
    if (!stanzas_find(c->stanzas, key.data, key.len, &sequence) || sequence >= c->ledger->n) {
        discrepancy(c->verdict, "there is a key of no transaction: %.*s",
                    (int)(key.len < 80 ? key.len : 80), (const char *)key.data);
        return;
    }
    struct stanza text = stanzas_of(c->stanzas, sequence);
    if (value.len != text.len || memcmp(value.data, text.text, text.len) != 0)
        discrepancy(c->verdict, "transaction %llu differs from the file",
                    (unsigned long long)sequence);
    if (c->there[sequence])
        discrepancy(c->verdict, "transaction %llu is there twice", (unsigned long long)sequence);
    c->there[sequence] = 1;
    struct tally *t = &c->tally[tally_cell(text.field, text.field_len)];
    t->stanzas++;
    t->bytes += (int64_t)text.len;
}

static int walk(struct comparison *c)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    int rc;
    while ((rc = lladd_hash_cursor_next(c->store->table, &walk, &key, &value, c->err)) == 0)
        meet(c, key, value);
    lladd_hash_cursor_close(c->store->table, &walk);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- lookups --------------------------------------------------------------------------------- */

/* Compares the outcome of a transaction in the ledger with the database. */
static void judge(struct ledger *ledger, uint64_t sequence, bool there, struct verdict *v)
{
    unsigned long long name = sequence;
    switch ((enum ledger_state)ledger->state[sequence]) {
    case LEDGER_COMMITTED:
        if (there)
            v->whole++;
        else
            discrepancy(v, "transaction %llu was acknowledged and is missing", name);
        break;
    case LEDGER_ABORTED:
        if (there)
            discrepancy(v, "transaction %llu was aborted and is there", name);
        else
            v->nothing++;
        break;
    case LEDGER_OPEN:
        if (!there)
            break;
        if (ledger_aborts(ledger, sequence)) {
            discrepancy(v, "transaction %llu never committed and is there", name);
        } else {
            v->found++;
            ledger_set(ledger, sequence, LEDGER_COMMITTED);
        }
        break;
    }
}

/* Called under the page's latch, so the value need not be copied. */
static int see(void *ctx, struct lladd_span value)
{
    *(size_t *)ctx = value.len;
    return 0;
}

static int look_up(struct comparison *c)
{
    int rc = 0;
    for (uint64_t i = 0; i < c->ledger->n && !rc; i++) {
        char key[STANZA_KEY_MAX];
        size_t len = SIZE_MAX;
        rc = lladd_hash_get_in_place(c->store->table, key, stanzas_key(c->stanzas, i, key), see,
                                     &len, c->err);
        rc = rc == LLADD_NOT_FOUND ? 0 : rc;
        bool there = len != SIZE_MAX;
        if (!rc && there != (c->there[i] != 0))
            discrepancy(c->verdict, "transaction %llu is found %s and not %s",
                        (unsigned long long)i, there ? "by its key" : "in a walk",
                        there ? "in a walk" : "by its key");
        else if (!rc)
            judge(c->ledger, i, there, c->verdict);
    }
    return rc;
}

/* ---- the tally ------------------------------------------------------------------------------- */

static int compare_tally(struct comparison *c)
{
    struct tally said[TALLY_CELLS];
    int rc = tally_read(c->store->db, c->store->tally, said, c->err);
    for (uint32_t i = 0; i < TALLY_CELLS && !rc; i++)
        if (said[i].stanzas != c->tally[i].stanzas || said[i].bytes != c->tally[i].bytes)
            discrepancy(c->verdict,
                        "the tally has %lld stanzas and %lld bytes of letter %u, the table %lld "
                        "and %lld",
                        (long long)said[i].stanzas, (long long)said[i].bytes, i,
                        (long long)c->tally[i].stanzas, (long long)c->tally[i].bytes);
    return rc;
}

static int check_table(struct comparison *c)
{
    int rc = lladd_hash_check(c->store->table, c->err);
    if (rc != LLADD_CORRUPT_PAGE)
        return rc;
    discrepancy(c->verdict, "%s", c->err->message);
    return 0;
}

int verify(struct store *s, const struct stanzas *stanzas, struct ledger *ledger, struct verdict *v,
           struct lladd_error *err)
{
    struct comparison c = {
        .store = s, .stanzas = stanzas, .ledger = ledger, .verdict = v, .err = err};
    *v = (struct verdict){0};
    c.there = calloc(ledger->n, 1);
    int rc = c.there ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "no memory to compare");
    rc = rc ? rc : walk(&c);
    rc = rc ? rc : look_up(&c);
    rc = rc ? rc : compare_tally(&c);
    rc = rc ? rc : check_table(&c);
    free(c.there);
    return rc;
}
