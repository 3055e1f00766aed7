#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# test_misuse.sh <release | debug> <folder of the shared library> <compiler's arguments>...: builds
# a program that makes the mistakes of an operation's author (docs/writing-an-operation.md). What it
# prints and how it ends must be as in the table below. The debug library must name the mistake.
set -eu
kind=$1 libdir=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/misuse.c" << 'END'
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <string.h>
static int prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                   struct lladd_draft *draft)
{
    memcpy(lladd_draft_redo(draft, 8), args.data, 8);
    memcpy(lladd_draft_undo(draft, 8), lladd_view_body(page), 8);
    return ctx != NULL;
}
static bool validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span bytes)
{
    return page.bytes && kind <= LLADD_SPAN_UNDO && bytes.len == 8;
}
static void put(struct lladd_page *page, struct lladd_span bytes)
{
    memcpy(lladd_page_body(page), bytes.data, 8);
}
static void forget(struct lladd_page *page, struct lladd_span bytes)
{
    (void)page;
    (void)bytes;
}
static struct lladd_op op = {.struct_size = sizeof op, .name = "misuse.put", .version = 1,
                             .page_type = "lladd.bytes", .record_max = 16,
                             .undo_kind = LLADD_UNDO_PAGE, .prepare = prepare,
                             .validate = validate, .redo = put, .undo = put};
static struct lladd_mutex mutex;
static void lock(void)
{
    lladd_mutex_lock(&mutex);
    lladd_mutex_unlock(&mutex);
}
static int mistake(const char *what, struct lladd_txn *txn, lladd_op_id id, lladd_pageno number)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_page *page;
    int rc = 0;
    if (strcmp(what, "undo") == 0 || strcmp(what, "nothing") == 0)
        return lladd_update(txn, id, number, "12345678", 8);
    if (strcmp(what, "credit") == 0) {
        rc = lladd_log_credit(txn, id, 1);
        lock();
        return rc ? rc : lladd_log_credit(txn, id, 0);
    }
    enum lladd_latch latch = strcmp(what, "shared") ? LLADD_LATCH_EXCLUSIVE : LLADD_LATCH_SHARED;
    rc = lladd_log_credit(txn, id, 1);
    if (rc || (rc = lladd_page_fix(db, number, latch, &page, NULL)) != 0)
        return rc;
    if (strcmp(what, "shared") == 0)
        rc = lladd_update_page(txn, id, page, "12345678", 8);
    else if (strcmp(what, "wait") == 0)
        rc = lladd_commit(txn);
    else
        lock();
    lladd_page_unfix(db, page, latch);
    return rc;
}
int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    struct lladd_db *db;
    lladd_pageno page;
    lladd_op_id id;
    if (argc != 2 || lladd_device_memory(&options.device) ||
        lladd_mutex_init(&mutex, LLADD_RANK_EXTENSION, "of an author"))
        return 100;
    if (strcmp(argv[1], "undo") == 0)
        op.undo = forget;
    if (lladd_register_op(&options, &op, &err) || lladd_open(NULL, &options, &db, &err) ||
        lladd_begin(db, NULL, &txn, &err) || lladd_page_alloc(txn, &page) ||
        lladd_bytes_format(txn, page) || lladd_op_lookup(db, op.name, 1, &id))
        return 101;
    printf("%s\n", lladd_code_name(mistake(argv[1], txn, id, page)));
    return 0;
}
END
cc -std=gnu11 -o "$work/misuse" "$work/misuse.c" "$@"

said_of() { # mistake: one word, "stopped" if the library has ended the program
    rc=0
    LD_LIBRARY_PATH=$libdir "$work/misuse" "$1" > "$work/said" 2> "$work/why" || rc=$?
    if test "$rc" = 134; then echo stopped; else cat "$work/said"; fi
}
count=0
# Columns of the table: the mistake; what the program prints with the release library, and with the
# debug library, or "stopped"; a part of the debug library's message.
while read -r mistake release debug why; do
    if test "$kind" = debug; then expected=$debug; else expected=$release why=; fi
    said=$(said_of "$mistake")
    if test "$said" != "$expected"; then
        echo "mistake \"$mistake\", $kind library: \"$said\" and not \"$expected\""
        cat "$work/why"
        exit 1
    fi
    if test -n "$why" && ! grep -q "$why" "$work/why"; then
        echo "mistake \"$mistake\": the $kind library does not say \"$why\":"
        cat "$work/why"
        exit 1
    fi
    count=$((count + 1))
done << 'END'
nothing LLADD_OK LLADD_OK
shared LLADD_BAD_STATE LLADD_BAD_STATE
wait LLADD_BAD_STATE LLADD_BAD_STATE
undo LLADD_OK LLADD_BUG
mutex LLADD_OK stopped of an author
credit LLADD_OK stopped of an author
END
echo "$count mistakes made with the $kind library"
