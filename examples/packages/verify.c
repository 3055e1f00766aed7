/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ways through the database that have to agree with each other, with the file, and with the
 * parent's ledger:
 *
 *   the heap    every record there is belongs to a transaction of the run, and its text is that
 *               piece of the transaction's stanza. Adding up the pieces shows what is partial, what
 *               is there twice, and what an aborted transaction left behind.
 *   the index   every sequence number leads to its whole stanza, or to nothing.
 *
 * The ledger says which of the two it must be. Only what was in flight when the loader died may be
 * either, but never anything in between. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Adds up in stored[] how many bytes of each transaction's stanza the heap holds. */
static int walk_heap(struct store *s, const struct stanzas *stanzas, const struct ledger *ledger,
                     uint64_t *stored, struct verdict *v, struct lladd_error *err)
{
    struct lladd_heap_cursor cursor;
    struct lladd_record record;
    struct lladd_rid rid;
    struct piece p;
    int rc;
    lladd_heap_open(s->db, s->heap, &cursor);
    while ((rc = lladd_heap_next(&cursor, &rid, &record, err)) == 0) {
        v->records++;
        if (!piece_parse(&record, &p) || p.sequence >= ledger->n) {
            discrepancy(v, "page %llu slot %u holds a record nobody wrote",
                        (unsigned long long)rid.page.v, rid.slot);
            continue;
        }
        struct stanza text = stanzas_of(stanzas, p.sequence);
        if (p.total != text.len || memcmp(p.text, text.text + p.offset, p.len) != 0)
            discrepancy(v, "transaction %llu: bytes %u to %zu differ from the file",
                        (unsigned long long)p.sequence, p.offset, p.offset + p.len);
        stored[p.sequence] += p.len;
    }
    lladd_heap_close(&cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* What the ledger says about a transaction against what the database says. */
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

static int walk_index(struct store *s, const struct stanzas *stanzas, struct ledger *ledger,
                      const uint64_t *stored, char *buf, size_t size, struct verdict *v,
                      struct lladd_error *err)
{
    for (uint64_t i = 0; i < ledger->n; i++) {
        struct stanza text = stanzas_of(stanzas, i);
        unsigned long long name = i;
        size_t len = 0;
        int rc = store_get(s, i, buf, size, &len, err);
        bool there = rc == 0;
        if (rc && rc != LLADD_NOT_FOUND && lladd_code_root(rc) != LLADD_ROOT_MISUSE &&
            rc != LLADD_BAD_RECORD)
            return rc;
        if (rc && rc != LLADD_NOT_FOUND)
            discrepancy(v, "transaction %llu: %s", name, err->message);
        else if (there && (len != text.len || memcmp(buf, text.text, len) != 0))
            discrepancy(v, "transaction %llu differs from the file", name);
        else if (stored[i] != (there ? text.len : 0))
            discrepancy(v, "transaction %llu: the index has %s of it, the heap %llu bytes", name,
                        there ? "all" : "nothing", (unsigned long long)stored[i]);
        else
            judge(ledger, i, there, v);
    }
    return 0;
}

int verify(struct store *s, const struct stanzas *stanzas, struct ledger *ledger, struct verdict *v,
           struct lladd_error *err)
{
    size_t longest = 1;
    for (size_t i = 0; i < stanzas->count; i++)
        if (stanzas->list[i].len > longest)
            longest = stanzas->list[i].len;
    *v = (struct verdict){0};
    uint64_t *stored = calloc(ledger->n, sizeof *stored);
    char *buf = malloc(longest);
    int rc = stored && buf ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "no memory to compare");
    if (!rc)
        rc = walk_heap(s, stanzas, ledger, stored, v, err);
    if (!rc)
        rc = walk_index(s, stanzas, ledger, stored, buf, longest, v, err);
    free(stored);
    free(buf);
    return rc;
}
