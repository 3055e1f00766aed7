/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What logged Bw-trees read: fragments from the store, and records of changes from the log. The
 * first byte selects the tree, and which of the two the input is.
 *
 * A fragment gets the right length, checksum and page number, so that the checks after these are
 * reached. It is refused, or gives a page from which the same fragment is made again. A record is
 * refused, or changes a row.
 */
#include "fuzz.h"
#include "operations/bwtree/stored.h"

static struct bw_stored *trees[3];
enum { TREES = sizeof trees / sizeof trees[0], PID = 7 };
static bool refused;

bool fuzz_refused(void)
{
    return refused;
}

static void make_trees(void)
{
    static const uint32_t sizes[TREES][2] = {{8, 8}, {0, 0}, {16, 0}};
    struct lladd_db *db = fuzz_database(lladd_bwtree_register);
    for (unsigned i = 0; i < TREES; i++) {
        struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
        char name[2] = {(char)('a' + i), 0};
        struct lladd_bwtree *t;
        struct lladd_txn *txn;
        o.key_size = sizes[i][0];
        o.value_size = sizes[i][1];
        MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
        MUST(lladd_bwtree_create(txn, name, &o) == 0);
        MUST(lladd_commit(txn) == 0);
        MUST(lladd_bwtree_open(db, name, &t, NULL) == 0);
        trees[i] = t->stored;
    }
}

static void try_fragment(struct bw_stored *s, const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    struct bw_page *page;
    uint32_t len;
    MUST(bytes);
    memcpy(bytes, data, size);
    if (size >= BW_FRAGMENT_HEAD) {
        lladd_put32(bytes, (uint32_t)size);
        lladd_put64(bytes + 8, s->id);
        lladd_put32(bytes + 16, PID);
        lladd_put16(bytes + 22, BW_VERSION);
        lladd_put32(bytes + 44, 0);
        lladd_put32(bytes + 4, lladd_crc32c(0, bytes + 8, size - 8));
    }
    refused = ll_bwtree__fragment_read(s->tree, PID, bytes, size, &page, NULL) != 0;
    if (!refused) {
        MUST(ll_bwtree__fragment_make(s, PID, page, lladd_get64(bytes + 24), &len) == 0);
        MUST(len == size && memcmp(s->store->fragment, bytes, size) == 0);
        ll_bwtree__page_free(s->tree, page);
    }
    free(bytes);
}

/* The row is taken away again. */
static void try_record(struct bw_stored *s, const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    MUST(bytes);
    memcpy(bytes, data, size);
    refused = ll_bwtree__repeat(s, NULL, lladd_lsn_of(1), lladd_span_of(bytes, size)) != 0;
    if (!refused) {
        size_t len = BW_CHANGE_HEAD + (size_t)lladd_get16(bytes + 1);
        bytes[0] = BW_CHANGE_DELETE;
        MUST(ll_bwtree__repeat(s, NULL, lladd_lsn_of(2), lladd_span_of(bytes, len)) == 0);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!trees[0])
        make_trees();
    refused = true;
    if (size == 0)
        return 0;
    struct bw_stored *s = trees[data[0] / 2 % TREES];
    if (data[0] % 2)
        try_record(s, data + 1, size - 1);
    else
        try_fragment(s, data + 1, size - 1);
    return 0;
}
