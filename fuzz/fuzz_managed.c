/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What managed dTables read back: their catalogue rows and their journal entries. The first byte of
 * the input selects: 0 is a row, n is an entry of a table with keys of type n. The rest is the
 * bytes of the row or entry.
 *
 * Accepted bytes must be the same when written again. A refused row must give LLADD_BAD_RECORD or
 * LLADD_NEWER_FORMAT.
 */
#include "fuzz.h"
#include "operations/dtables/managed/managed.h"

#include <stdlib.h>

static struct lladd_db *db; /* all inputs use it; an input leaves no data in it */
static struct lladd_managed table;
static struct ll_use use;

static void open_once(void)
{
    if (db)
        return;
    db = fuzz_database(lladd_managed_register);
    table.db = db;
    use.t = &table;
}

static void row(struct lladd_span s)
{
    struct ll_manifest m, copy;
    unsigned char *bytes;
    size_t len;
    int rc = ll_managed__manifest_get(db, s, &m, NULL);
    MUST(rc == 0 || rc == LLADD_BAD_RECORD || rc == LLADD_NEWER_FORMAT);
    if (rc)
        return;
    MUST(ll_managed__manifest_copy(&m, 1, &copy) == 0);
    MUST(ll_managed__manifest_put(&copy, &bytes, &len) == 0);
    MUST(len == s.len && memcmp(bytes, s.data, len) == 0);
    lladd_mem_free(db, bytes);
    ll_managed__manifest_free(&copy);
    ll_managed__manifest_free(&m);
}

static void entry(enum lladd_dtable_type type, struct lladd_span s)
{
    struct lladd_dtable_order order = {type, NULL};
    struct ll_entry e;
    struct lladd_span again;
    if (!ll_managed__entry_get(&order, s, &e))
        return;
    if (e.range) {
        MUST(!e.has_from || lladd_dtable_check_key(&order, &e.key, NULL) == 0);
        MUST(!e.has_to || lladd_dtable_check_key(&order, &e.to, NULL) == 0);
        MUST(ll_managed__entry_put_range(&use, e.has_from ? &e.key : NULL, e.has_to ? &e.to : NULL,
                                         &again) == 0);
    } else {
        MUST(lladd_dtable_check_key(&order, &e.key, NULL) == 0);
        MUST(ll_managed__entry_put(&use, &e.key, &e.value, &again) == 0);
    }
    MUST(again.len == s.len && memcmp(again.data, s.data, s.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_once();
    if (size == 0)
        return 0;
    /* The copy has the exact size, so that a sanitizer detects every access out of bounds. */
    unsigned char *exact = malloc(size);
    MUST(exact);
    memcpy(exact, data + 1, size - 1);
    struct lladd_span s = lladd_span_of(exact, size - 1);
    if (data[0] == 0)
        row(s);
    else if (lladd_dtable_type_name(data[0]))
        entry(data[0], s);
    free(exact);
    return 0;
}
