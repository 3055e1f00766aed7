/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_LITESTREAM_H
#define LL_BENCH_LITESTREAM_H
/* A process of Litestream that replicates an open SQLite database into a directory beside it. As
 * for each program (program.h), only the main thread may call these functions. */
struct bench_litestream;

/* Stores the whole database `file` of the directory `dir`; the process then stores what changes. */
int bench_litestream_start(const char *dir, const char *file, struct bench_litestream **out);
/* Stores a snapshot of the database beside the changes. Litestream has no command that makes the
 * running process do so: the process is ended, another one makes the snapshot, and a third one goes
 * on with the changes. */
int bench_litestream_snapshot(struct bench_litestream *);
/* Ends the process, after it has stored the last changes, and removes what it has stored. */
int bench_litestream_stop(struct bench_litestream *);

#endif
