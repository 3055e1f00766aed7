/* SPDX-License-Identifier: BSD-2-Clause */
/* hello DIR TEXT: adds a line to a guest book and prints all lines. */
#include <lladd/heap.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    struct lladd_root_value book = {0, 0};
    struct lladd_rid rid;
    if (argc != 3 || lladd_open(argv[1], NULL, &db, &err) || lladd_begin(db, NULL, &txn, &err))
        return fprintf(stderr, "hello DIR TEXT: %s\n", err.message), 1;

    lladd_pageno root;
    struct lladd_heap *heap = NULL;
    int rc = lladd_root_get(db, "guest book", &book, &err);
    if (!rc)
        rc = lladd_heap_open(db, lladd_page_of(book.a), &heap, &err);
    else if (rc == LLADD_NOT_FOUND && (rc = lladd_heap_create_open(txn, &root, &heap)) == 0)
        rc = lladd_root_set(txn, "guest book", (struct lladd_root_value){root.v, 0});
    if (!rc)
        rc = lladd_heap_insert(txn, heap, argv[2], strlen(argv[2]), &rid);
    if (rc || (rc = lladd_commit(txn)) != 0) /* 0: the line is durable */
        return fprintf(stderr, "%s\n", lladd_code_text(rc)), 1;

    struct lladd_heap_cursor cursor;
    struct lladd_record line;
    lladd_heap_cursor_open(heap, &cursor);
    while ((rc = lladd_heap_cursor_next(&cursor, &rid, &line, &err)) == 0)
        printf("%.*s\n", (int)line.len, (const char *)line.bytes);
    lladd_heap_cursor_close(&cursor);
    lladd_heap_close(heap);
    return lladd_close(db) || rc != LLADD_END;
}
