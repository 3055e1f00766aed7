/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_BUILD_H
#define LL_OPERATIONS_DTABLE_BUILD_H
/* A run under construction: build.c, stream.c. */
#include "operations/dtables/core/dtable.h"

/* A stream being written. `stage` holds what has not been written yet, page headers included. */
struct lladd_dtable_writer {
    struct lladd_dtable_run_builder *run;
    struct lladd_dtable_writer *next; /* the writer created after this one */
    struct ll_dtable_stream stream;
    uint32_t number;
    unsigned char *stage;
    size_t stage_pages; /* capacity */
    size_t fill;        /* bytes of contents in the stage */
    bool flushing;      /* the stage is being written */
    bool packs;         /* the bytes that follow belong to a compressed stream (pack.c) */
    uint64_t size;      /* bytes that the layer has written */
    void *lz4;                     /* LZ4's state; the buffers below share its memory */
    unsigned char *plain, *packed; /* a block, and room for its compressed form */
    size_t plain_len;
    struct ll_dtable_packed {
        uint32_t len, crc;
    } *map; /* length and CRC of each block as stored */
    size_t n_map, cap_map;
};

struct lladd_dtable_run_builder {
    struct lladd_txn *txn;
    struct lladd_db *db;
    struct ll_dtables *all;
    struct lladd_error *error;
    struct lladd_dtable_order order;
    struct lladd_dtable_config *parsed; /* owned; NULL unless given as text */
    const struct lladd_dtable_config *config;
    struct lladd_dtable_builder *layers, *last_layer; /* linked by next_ */
    struct lladd_dtable_writer *writers, *last_writer;
    struct ll_dtable_descriptor d; /* its counts are up to date */
    struct ll_dtable_bytes min, last;
    uint64_t ranges;
    uint64_t range_number; /* with `range_end`: where the newest range ends */
    struct ll_dtable_bytes range_end;
    bool range_open; /* the newest range has no end */
    /* The newest extent: its first page, the first of its spare pages, which no stream has, and
     * their number. */
    uint64_t spare_from, spare, spare_pages;
    uint64_t taken; /* pages of all extents */
    bool ending;    /* no layer will stage more bytes */
    char name[64];
    const uint32_t *alive; /* lladd_db_alive */
    int broken; /* the error after which only discard is allowed */
};

int ll_dtable__writer(struct lladd_dtable_run_builder *, uint32_t layer, bool packs,
                      const char *name, struct lladd_dtable_writer **out);
/* Appends bytes to be stored uncompressed. */
int ll_dtable__write(struct lladd_dtable_writer *, const void *bytes, size_t len);
/* Appends bytes to a compressed stream; ll_dtable__pack_end writes its map: pack.c. */
int ll_dtable__pack(struct lladd_dtable_writer *, const void *bytes, size_t len);
int ll_dtable__pack_end(struct lladd_dtable_writer *);
/* Writes what all streams have staged, and frees the pages that were allocated but not used. */
int ll_dtable__writers_end(struct lladd_dtable_run_builder *);
/* Frees the pages that no stream has. */
int ll_dtable__give_spare(struct lladd_dtable_run_builder *);
/* Frees all pages of the stream. */
int ll_dtable__writer_discard(struct lladd_dtable_writer *);
void ll_dtable__writer_free(struct lladd_dtable_writer *);

#endif
