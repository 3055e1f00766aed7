/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The present version of the library recovers databases of earlier versions.
 *
 * Each text in the folder `earlier` has the files of a database as a crash has left them. A version
 * of the library at an earlier commit had written these files. The log has changes to redo, a
 * transaction to undo, and a transaction in doubt. It has records of operations that later versions
 * no longer log.
 *
 *     test_earlier --write earlier/NAME.txt
 *
 * writes such a text with the library that the program is linked with. To add a text, build this
 * program in a checkout of the earlier commit. The program uses only public headers, and writes the
 * same bytes each time.
 */
#include <check.h>
#include <lladd/btree.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/hash.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/twophase.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 160, HASHED = 40, SLOTS = 8, KEY = 4, SHORT = 100, LONG = 1500, PAGE = 4096 };
/* The four transactions. Each changes other rows. BASE and EARLY commit, IN_DOUBT is prepared, and
 * LOSER is open at the crash. */
enum part { BASE, EARLY, IN_DOUBT, LOSER };

/* The expected contents. For each row: the first byte of its value; 0 if there is no row. */
struct world {
    unsigned char tree[ROWS], table[HASHED], records[SLOTS];
    uint64_t counter;
};

struct handles {
    struct lladd_db *db;
    struct lladd_btree *tree;
    struct lladd_hash *table;
    lladd_pageno page;
};

static const struct lladd_gid gid = {.format = 1, .gtrid_length = 4, .data = "gone"};
static struct lladd_error err = LLADD_ERROR_INIT;

#define OK(call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, lladd_code_name(ok_rc), err.message); \
    } while (0)
#define OK_TXN(txn, call) \
    do { \
        int ok_rc = (call); \
        ck_assert_msg(ok_rc == 0, "%s: %s: %s", #call, lladd_code_name(ok_rc), \
                      lladd_txn_error(txn)->message); \
    } while (0)

/* ---- the history ----------------------------------------------------------------------------- */

static const unsigned char *key_of(unsigned i)
{
    static unsigned char key[KEY];
    for (unsigned at = 0; at < KEY; at++)
        key[at] = (unsigned char)(i >> 8 * (KEY - 1 - at));
    return key;
}

/* A few rows of the tree have values that are stored in blobs. */
static size_t length_of(unsigned i)
{
    return i % 48 < 8 && i % 2 == 0 && i > 0 ? LONG : SHORT;
}

static const unsigned char *value_of(unsigned char byte)
{
    static unsigned char value[LONG];
    memset(value, byte, sizeof value);
    return value;
}

static struct lladd_rid rid_of(const struct handles *h, unsigned slot)
{
    return (struct lladd_rid){.page = h->page, .slot = (uint16_t)slot};
}

/* Changes a row of the tree, and if the table has a row of this number, that row, too; byte 0
 * removes the row. */
static void change_row(const struct handles *h, struct lladd_txn *txn, unsigned i,
                       unsigned char byte)
{
    const unsigned char *value = value_of(byte);
    if (!byte)
        OK_TXN(txn, lladd_btree_delete(txn, h->tree, key_of(i), KEY));
    else if (i % 4 == 1)
        OK_TXN(txn, lladd_btree_insert(txn, h->tree, key_of(i), KEY, value, length_of(i)));
    else
        OK_TXN(txn, lladd_btree_put(txn, h->tree, key_of(i), KEY, value, length_of(i)));
    if (i >= HASHED)
        return;
    if (!byte)
        OK_TXN(txn, lladd_hash_delete(txn, h->table, key_of(i), KEY));
    else
        OK_TXN(txn, lladd_hash_put(txn, h->table, key_of(i), KEY, value, SHORT));
}

/* Returns true if the transaction changes row i. *byte becomes the byte that fills the new value,
 * or 0 if the transaction removes the row. */
static bool row_of(enum part part, unsigned i, unsigned char *byte)
{
    *byte = (unsigned char)('a' + part);
    if (part == BASE)
        return i % 2 == 0;
    if (i % 16 == 2 * part) { /* a row of BASE */
        *byte = i / 16 % 2 ? *byte : 0;
        return true;
    }
    return i % 8 == 2 * part - 1;
}

/* If the transaction puts a row back that it has removed, returns the byte that fills the new
 * value. Returns 0 if the row stays removed. */
static unsigned char again(unsigned i)
{
    return i / 32 % 2 ? 'z' : 0;
}

/* Makes the changes of the transaction. */
static void do_part(const struct handles *h, struct lladd_txn *txn, enum part part)
{
    unsigned char byte;
    for (unsigned i = 0; i < ROWS; i++) {
        if (!row_of(part, i, &byte))
            continue;
        change_row(h, txn, i, byte);
        if (!byte && again(i))
            change_row(h, txn, i, again(i));
    }
    if (part == BASE)
        return;
    struct lladd_rid counter = rid_of(h, 0), record = rid_of(h, part);
    OK_TXN(txn, lladd_slotted_add(txn, counter, 0, 1 << 8 * part));
    OK_TXN(txn, lladd_slotted_set(txn, record, value_of((unsigned char)('a' + part)), SHORT, 0));
}

/* Makes the same changes in the expected contents. */
static void expect_part(struct world *w, enum part part)
{
    unsigned char byte;
    for (unsigned i = 0; i < ROWS; i++) {
        if (!row_of(part, i, &byte))
            continue;
        w->tree[i] = byte ? byte : again(i);
        if (i < HASHED)
            w->table[i] = w->tree[i];
    }
    if (part == BASE) {
        memset(w->records, 'r', sizeof w->records);
        return;
    }
    w->counter += UINT64_C(1) << 8 * part;
    w->records[part] = (unsigned char)('a' + part);
}

/* ---- a database in memory -------------------------------------------------------------------- */

/* A clock and random numbers that are the same in each run. */
static uint64_t tick(void *ctx)
{
    return *(uint64_t *)ctx += 1000;
}
static int64_t wall(void *ctx)
{
    (void)ctx;
    return 0;
}
static int same_bytes(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 7, len);
    return 0;
}

static uint64_t clock_now;
static const struct lladd_environment environment = {
    .ctx = &clock_now, .now_ns = tick, .wall_us = wall, .random = same_bytes};

static struct lladd_db *open_on(struct lladd_device *device, enum lladd_recovery recovery)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_db *db = NULL;
    o.device = device;
    o.world = &environment;
    o.flags = LLADD_OPT_NO_THREADS;
    o.page_size = PAGE;
    o.cache_bytes = 1u << 20;
    o.log_ring_bytes = 256u << 10;
    o.log_segment_min = o.log_segment_max = 64u << 10;
    o.recovery = recovery;
    OK(lladd_open(NULL, &o, &db, &err));
    lladd_options_release(&o);
    return db;
}

static struct lladd_txn *begin(struct lladd_db *db)
{
    struct lladd_txn *txn = NULL;
    OK(lladd_begin(db, NULL, &txn, &err));
    return txn;
}

static void set_root(struct lladd_txn *txn, const char *name, lladd_pageno page)
{
    OK_TXN(txn, lladd_root_set(txn, name, (struct lladd_root_value){page.v, 0}));
}

static lladd_pageno root_of(struct lladd_db *db, const char *name)
{
    struct lladd_root_value value;
    OK(lladd_root_get(db, name, &value, &err));
    return lladd_page_of(value.a);
}

static struct handles open_all(struct lladd_db *db)
{
    struct handles h = {.db = db, .page = root_of(db, "records")};
    OK(lladd_btree_open(db, root_of(db, "tree"), &h.tree, &err));
    OK(lladd_hash_open(db, root_of(db, "table"), LLADD_HASH_LOGICAL, &h.table, &err));
    return h;
}

static void close_all(struct handles *h)
{
    lladd_btree_close(h->tree);
    lladd_hash_close(h->table);
}

static void create_all(struct lladd_db *db)
{
    struct lladd_txn *txn = begin(db);
    lladd_pageno tree, table, page;
    struct lladd_rid rid;
    OK_TXN(txn, lladd_btree_create(txn, NULL, &tree));
    OK_TXN(txn, lladd_hash_create(txn, NULL, &table));
    OK_TXN(txn, lladd_page_alloc(txn, &page));
    OK_TXN(txn, lladd_slotted_format(txn, page, 0));
    OK_TXN(txn, lladd_slotted_alloc(txn, page, NULL, sizeof(uint64_t), 0, &rid));
    ck_assert_uint_eq(rid.slot, 0);
    for (unsigned i = 1; i < SLOTS; i++)
        OK_TXN(txn, lladd_slotted_alloc(txn, page, value_of('r'), SHORT, 0, &rid));
    set_root(txn, "tree", tree);
    set_root(txn, "table", table);
    set_root(txn, "records", page);
    OK_TXN(txn, lladd_commit(txn));
}

/* Leaves on the device the files of a crash: pages that a checkpoint has written, and log from
 * after the checkpoint. */
static void write_history(struct lladd_device *device)
{
    struct lladd_db *db = open_on(device, LLADD_RECOVER_FULL);
    create_all(db);
    struct handles h = open_all(db);
    struct lladd_txn *base = begin(db);
    do_part(&h, base, BASE);
    OK_TXN(base, lladd_commit(base));
    OK(lladd_checkpoint(db, &err));
    struct lladd_txn *doubt = begin(db), *loser = begin(db), *early = begin(db);
    do_part(&h, doubt, IN_DOUBT); /* keeps the log from here on, also after the recovery */
    do_part(&h, loser, LOSER);
    OK_TXN(doubt, lladd_prepare(doubt, &gid));
    do_part(&h, early, EARLY);
    OK_TXN(early, lladd_commit(early));
    close_all(&h);
    lladd_db_kill(db);
}

/* ---- files as text --------------------------------------------------------------------------- */

/* Lines of a text: "file NAME SIZE", then for the contents "OFFSET BYTES". Numbers and bytes are
 * hexadecimal. "xx*n." stands for n bytes xx; this n is decimal. Bytes that no line has are
 * zeros. */
enum { LINE = 88, RUN_MIN = 4, ZEROS_MIN = 16 };

struct writing {
    struct lladd_device *device;
    FILE *to;
    const char *folder;
};

static size_t run_at(const unsigned char *bytes, size_t at, size_t size)
{
    size_t n = 1;
    while (at + n < size && bytes[at + n] == bytes[at])
        n++;
    return n;
}

static void print_bytes(FILE *to, const unsigned char *bytes, size_t size)
{
    int column = 0;
    for (size_t at = 0; at < size;) {
        size_t n = run_at(bytes, at, size);
        if (bytes[at] == 0 && n >= ZEROS_MIN) {
            fputs(column ? "\n" : "", to);
            column = 0;
            at += n;
            continue;
        }
        if (column == 0)
            column = fprintf(to, "%zx ", at);
        n = n < RUN_MIN ? 1 : n;
        column += n > 1 ? fprintf(to, "%02x*%zu.", bytes[at], n) : fprintf(to, "%02x", bytes[at]);
        at += n;
        if (column > LINE || at == size) {
            fputc('\n', to);
            column = 0;
        }
    }
}

static int print_file(void *ctx, const char *name)
{
    const struct writing *w = ctx;
    char path[100];
    struct lladd_file *file;
    uint64_t size;
    if (strcmp(name, "log") == 0 || strcmp(name, "files") == 0 || strcmp(name, "lock") == 0)
        return 0;
    snprintf(path, sizeof path, "%s%s", w->folder, name);
    ck_assert_int_eq(w->device->ops->open(w->device, path, LLADD_OPEN_READ_ONLY, &file), 0);
    ck_assert_int_eq(w->device->ops->size(w->device, file, &size), 0);
    unsigned char *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(w->device->ops->pread(w->device, file, bytes, size, 0), (int64_t)size);
    ck_assert_int_eq(w->device->ops->close(w->device, file), 0);
    fprintf(w->to, "file %s %zu\n", path, (size_t)size);
    print_bytes(w->to, bytes, size);
    free(bytes);
    return 0;
}

static void print_device(struct lladd_device *device, FILE *to)
{
    struct writing w = {device, to, ""};
    ck_assert_int_eq(device->ops->list(device, "", print_file, &w), 0);
    w.folder = "log/";
    ck_assert_int_eq(device->ops->list(device, "log", print_file, &w), 0);
}

/* Writes the bytes of one line to the file. */
static void read_bytes(struct lladd_device *device, struct lladd_file *file, char *line)
{
    unsigned char bytes[PAGE];
    char *at;
    uint64_t offset = strtoull(line, &at, 16);
    size_t n = 0;
    ck_assert_int_eq(*at++, ' ');
    while (*at != '\n') {
        char two[3] = {at[0], at[1], 0}, *end = at + 2;
        size_t times = 1;
        if (*end == '*') {
            times = strtoull(end + 1, &end, 10);
            ck_assert_int_eq(*end++, '.');
        }
        ck_assert_uint_le(n + times, sizeof bytes);
        memset(bytes + n, (int)strtoul(two, NULL, 16), times);
        n += times;
        at = end;
    }
    const struct lladd_iovec piece = {bytes, n};
    ck_assert_int_eq(device->ops->pwritev(device, file, &piece, 1, offset), 0);
}

static void read_device(struct lladd_device *device, FILE *from)
{
    char line[1000], name[100];
    size_t size;
    struct lladd_file *file = NULL;
    ck_assert_int_eq(device->ops->mkdir(device, "log"), 0);
    while (fgets(line, sizeof line, from)) {
        if (sscanf(line, "file %99s %zu", name, &size) != 2) {
            read_bytes(device, file, line);
            continue;
        }
        if (file)
            ck_assert_int_eq(device->ops->close(device, file), 0);
        ck_assert_int_eq(device->ops->open(device, name, LLADD_OPEN_CREATE, &file), 0);
        ck_assert_int_eq(device->ops->truncate(device, file, size), 0);
    }
    ck_assert_int_eq(device->ops->close(device, file), 0);
}

/* ---- what recovery must give ----------------------------------------------------------------- */

static void expect_row(const struct handles *h, const struct world *w, unsigned i)
{
    static unsigned char got[LONG];
    size_t len = 0, want = length_of(i);
    int rc = lladd_btree_get(h->tree, key_of(i), KEY, got, sizeof got, &len, &err);
    ck_assert_msg(rc == (w->tree[i] ? 0 : LLADD_NOT_FOUND), "row %u of the tree: %d", i, rc);
    if (!rc)
        ck_assert_msg(len == want && memcmp(got, value_of(w->tree[i]), len) == 0,
                      "row %u of the tree: %zu bytes of %c", i, len, got[0]);
    if (i >= HASHED)
        return;
    rc = lladd_hash_get(h->table, key_of(i), KEY, got, sizeof got, &len, &err);
    ck_assert_msg(rc == (w->table[i] ? 0 : LLADD_NOT_FOUND), "row %u of the table: %d", i, rc);
    if (!rc)
        ck_assert_msg(len == SHORT && memcmp(got, value_of(w->table[i]), len) == 0,
                      "row %u of the table: %zu bytes of %c", i, len, got[0]);
}

static void expect_world(const struct handles *h, const struct world *w)
{
    unsigned char got[LONG];
    size_t len;
    OK(lladd_btree_check(h->tree, &err));
    OK(lladd_hash_check(h->table, &err));
    for (unsigned i = 0; i < ROWS; i++)
        expect_row(h, w, i);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct lladd_rid rid = rid_of(h, i);
        OK(lladd_slotted_read(h->db, rid, got, sizeof got, &len, NULL, &err));
        ck_assert_uint_eq(len, i ? SHORT : sizeof(uint64_t));
        if (i)
            ck_assert(memcmp(got, value_of(w->records[i]), SHORT) == 0);
        else
            ck_assert_uint_eq(lladd_get64(got), w->counter);
    }
}

/* The library that has written the files. */
static const char *const sources[] = {
    NULL, /* this one */
    "before-btree-insert.txt",
};
enum { SOURCES = sizeof sources / sizeof *sources, CASES = SOURCES * 4 };

static struct lladd_device *files_of(const char *source)
{
    struct lladd_device *device;
    ck_assert_int_eq(lladd_device_memory(&device), 0);
    if (!source) {
        write_history(device);
        return device;
    }
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", LLADD_EARLIER, source);
    FILE *from = fopen(path, "r");
    ck_assert_msg(from != NULL, "%s cannot be read", path);
    read_device(device, from);
    fclose(from);
    return device;
}

/* Returns true if the log has records of this operation and version. */
static bool logged(struct lladd_db *db, const char *op, uint32_t version)
{
    struct lladd_log_cursor *log;
    struct lladd_log_entry e;
    bool found = false;
    OK(lladd_log_open(db, lladd_lsn_of(0), op, &log, &err));
    while (!found && lladd_log_next(log, &e, &err) == 0)
        found = e.op_version == version;
    lladd_log_close(log);
    return found;
}

static void go_on(struct lladd_db *db)
{
    for (bool more = true; more;)
        OK(lladd_maintain(db, &more, &err));
}

START_TEST(rows_and_transactions_are_recovered)
{
    const char *source = sources[_i / 4];
    enum lladd_recovery how = _i & 1 ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    bool commit = _i & 2;
    struct world w = {.counter = 0};
    struct lladd_txn *doubt;
    struct lladd_device *device = files_of(source);
    struct lladd_db *db = open_on(device, how);
    ck_assert_int_eq(logged(db, "lladd.btree.fill", 1), source != NULL);
    ck_assert_int_eq(logged(db, "lladd.btree.insert", 1), source == NULL);
    struct handles h = open_all(db);
    expect_part(&w, BASE);
    expect_part(&w, EARLY);
    OK(lladd_in_doubt_claim(db, &gid, &doubt, &err));
    OK_TXN(doubt, commit ? lladd_commit(doubt) : lladd_abort(doubt));
    if (commit)
        expect_part(&w, IN_DOUBT);
    expect_world(&h, &w);
    go_on(db);
    expect_world(&h, &w);
    /* The present version changes the database and recovers it again. */
    struct lladd_txn *txn = begin(db);
    do_part(&h, txn, LOSER);
    OK_TXN(txn, lladd_commit(txn));
    expect_part(&w, LOSER);
    close_all(&h);
    lladd_db_kill(db);
    db = open_on(device, how);
    h = open_all(db);
    expect_world(&h, &w);
    close_all(&h);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_device_close(device);
}
END_TEST

static const char *path_to_write;

START_TEST(write_text)
{
    struct lladd_device *device = files_of(NULL);
    FILE *to = fopen(path_to_write, "w");
    ck_assert_ptr_nonnull(to);
    print_device(device, to);
    ck_assert_int_eq(fclose(to), 0);
    lladd_device_close(device);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("earlier");
    TCase *t = tcase_create("earlier");
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        path_to_write = argv[2];
        tcase_add_test(t, write_text);
    } else
        tcase_add_loop_test(t, rows_and_transactions_are_recovered, 0, CASES);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
