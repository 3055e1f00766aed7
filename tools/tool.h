/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H
/* Declarations for all verbs of the lladd command: common options, output as text and as JSON, and
 * exit codes. */
#include <getopt.h>
#include <jansson.h>
#include <lladd/inspect.h>
#include <lladd/op.h>
#include <lladd/ship.h>
#include <stdio.h>

enum tool_exit {
    TOOL_FINE = 0,
    TOOL_FINDINGS = 1, /* the database has findings, such as damage; or the key does not exist */
    TOOL_CANNOT = 2,   /* the database cannot be read, or the command line is wrong */
    TOOL_UNCHECKED = 3 /* no finding, but a part of the database was not checked */
};

/* ---- the command line ----------------------------------------------------------------------- */

/* The progress line on a terminal. */
struct tool_progress {
    bool on;       /* standard error is a terminal */
    bool shown;    /* the line is visible */
    int64_t at_ms; /* when the line was written */
    char what[64]; /* the current step */
};

/* The state of a database in a store: --base, --to, --timeline, --expect-lsn. */
struct tool_target {
    const char *base; /* name of the backup; NULL: chosen by the library */
    struct lladd_restore_target to;
    lladd_lsn expected; /* 0: none */
    bool given;
};

struct tool {
    const char *verb;
    const char *usage; /* the verb's help, which begins with the synopsis */
    bool json;
    const char *dir;
    const char *plugin;           /* --ops */
    struct lladd_options options; /* options for lladd_open; include the registrations of the
                                   * plug-in */
    struct tool_progress progress;
    uint64_t memory;              /* memory limit in bytes: --memory, or TOOL_MEMORY */
    uint64_t threads;             /* --threads, or 1 */
    int argc;                     /* arguments after the directory */
    char **argv;
    int more; /* number of further arguments allowed; set before tool_parse */
    bool restores;                /* the verb takes a target without --from; set before
                                   * tool_parse */
    const char *from;             /* --from: the database is in this store, so no directory is
                                   * given, and `dir` is the store */
    struct tool_target target;
    struct lladd_s3_options s3;   /* --endpoint, --region, --host-style */
    struct lladd_store *store;    /* tool_stored has opened it */
    struct lladd_device *stored;
};

/* Values that getopt_long returns for the common options; the values of a verb's own options begin
 * at TOOL_OWN. */
enum {
    TOOL_JSON = 256,
    TOOL_OPS,
    TOOL_HELP,
    TOOL_MEMORY_OPTION,
    TOOL_THREADS_OPTION,
    TOOL_FROM,
    TOOL_TO,
    TOOL_TIMELINE,
    TOOL_BASE,
    TOOL_EXPECT,
    TOOL_ENDPOINT,
    TOOL_REGION,
    TOOL_HOST_STYLE,
    TOOL_OWN
};
/* The option --memory, for verbs that read large databases; its default and its minimum, in
 * bytes. */
#define TOOL_BOUNDED {"memory", required_argument, NULL, TOOL_MEMORY_OPTION}
#define TOOL_MEMORY (256ull << 20)
#define TOOL_MEMORY_LEAST (64ull << 20)
/* The option --threads, for verbs that copy or check pages. */
#define TOOL_THREADS {"threads", required_argument, NULL, TOOL_THREADS_OPTION}
#define TOOL_COMMON \
    {"json", no_argument, NULL, TOOL_JSON}, {"ops", required_argument, NULL, TOOL_OPS}, \
    { \
        "help", no_argument, NULL, TOOL_HELP \
    }

/* TOOL_STORE: the options of a store in S3. TOOL_TARGET: the options for a target. TOOL_FROM_STORE:
 * --from and all of these options, for verbs that can read a database in a store. */
#define TOOL_STORE \
    {"endpoint", required_argument, NULL, TOOL_ENDPOINT}, \
        {"region", required_argument, NULL, TOOL_REGION}, \
    { \
        "host-style", no_argument, NULL, TOOL_HOST_STYLE \
    }
#define TOOL_TARGET \
    {"base", required_argument, NULL, TOOL_BASE}, {"to", required_argument, NULL, TOOL_TO}, \
        {"timeline", required_argument, NULL, TOOL_TIMELINE}, \
    { \
        "expect-lsn", required_argument, NULL, TOOL_EXPECT \
    }
#define TOOL_FROM_STORE {"from", required_argument, NULL, TOOL_FROM}, TOOL_STORE, TOOL_TARGET
/* For the help of verbs that take a STORE. */
#define TOOL_STORE_HELP \
    "STORE is dir:PATH, or s3://BUCKET/PREFIX for an S3 bucket. The keys for S3 come from the\n" \
    "environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. A store with a\n" \
    "filter is refused: only the programs that have the filter can use it. For S3 also:\n" \
    "\n" \
    "  --endpoint URL   the server, if it is not Amazon's (AWS_ENDPOINT_URL)\n" \
    "  --region NAME    the region (AWS_REGION; us-east-1)\n" \
    "  --host-style     puts the bucket into the server's name, also with --endpoint\n"

/* Opens a store for the database in t->dir. LLADD_BAD_ARGUMENT: the store is inside this
 * directory. */
int tool_store_beside(const struct tool *, const char *url, struct lladd_store **,
                      struct lladd_error *);
/* Handles an option of the verb. If the value is wrong, prints an error and returns -1. */
typedef int tool_option_fn(void *ctx, int option, const char *value);
/* Parses the command line: options, the directory, `wanted` further arguments, and at most
 * tool->more optional arguments. Returns 0 if the verb can run; otherwise *exit_code is the
 * program's exit code (after --help or an error). */
int tool_parse(struct tool *, int argc, char **argv, const struct option *, tool_option_fn *,
               void *ctx, int wanted, int *exit_code);
/* Frees what tool_parse has allocated. Returns exit_code, or TOOL_CANNOT if stdout could not be
 * written. */
int tool_end(struct tool *, int exit_code);

/* Shows the progress on standard error if standard error is a terminal: `what`, and `done` as a
 * percentage of `all`. If only `all` is 0, shows the number `done`; if both are 0, only `what`.
 * Updates the line when `what` changes, otherwise at most ten times a second. */
void tool_progress(struct tool *, const char *what, uint64_t done, uint64_t all);
/* Erases the progress line, before other output to the terminal. */
void tool_progress_end(struct tool *);
/* Callbacks for lladd_options.progress, which tool_parse sets, and for lladd_inspect_progress; ctx
 * is the struct tool. */
void tool_progress_phase(void *ctx, enum lladd_phase, lladd_lsn at, unsigned percent);
void tool_progress_view(void *ctx, const char *what, uint64_t done, uint64_t all);
/* Shows the progress of lladd_inspect_log, for the record at `at`. */
void tool_progress_log(struct tool *, const struct lladd_inspect *, lladd_lsn at);

/* Parses a number, decimal or with 0x. If the text is not a number, prints an error and returns
 * false. */
bool tool_number(const char *what, const char *text, uint64_t *out);
/* As tool_number, for a number from `least` to `most`. */
bool tool_number_in(const char *what, const char *text, uint64_t least, uint64_t most,
                    uint64_t *out);
/* target.c: parses a time in UTC like "2026-11-20 10:44:12" or "2026-11-20T10:44:12", with or
 * without a fraction of a second. *out: microseconds since 1970. If the text is not a time, prints
 * an error and returns false. */
bool tool_time_of(const char *what, const char *text, int64_t *out);
/* Prints an error to stderr, after "lladd <verb>: "; returns TOOL_CANNOT. */
int tool_fail(const struct tool *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* Prints an error with the name of its code to stderr; with --json prints {"error": ...} to stdout.
 * Returns TOOL_CANNOT. */
int tool_error(const struct tool *, const struct lladd_error *);
/* As tool_error, for a verb that works on an open database: returns TOOL_FINDINGS if the error is
 * damage. */
int tool_failed(const struct tool *, const struct lladd_error *);

/* ---- target.c */
/* Handles --base, --to and --timeline. If the value is wrong, prints an error and returns false. */
bool tool_take_target(struct tool *, int option, const char *value);
/* The options of a restore to the verb's target. They refer to the struct tool. */
struct lladd_restore_options tool_restore_options(struct tool *);
/* Opens a store, with the options for S3. */
int tool_store_open(const struct tool *, const char *url, struct lladd_store **,
                    struct lladd_error *);
/* With --from, opens the store, and sets *out to a device that shows the database in the store at
 * the target; tool_end closes both. Without --from, sets *out to NULL. */
int tool_stored(struct tool *, struct lladd_device **out, struct lladd_error *);
/* If an error of the store has caused *err, replaces *err by the store's error. */
void tool_blame_store(const struct tool *, struct lladd_error *);
void tool_stored_close(struct tool *);

/* Opens a database that must exist. If it does not exist, creates no file. Returns LLADD_READ_ONLY
 * with --from. */
int tool_open(struct tool *, struct lladd_db **, struct lladd_error *);

/* Calls `what` in a transaction of its own, and commits. If `what` returns an error, which it has
 * put into *err, the transaction is rolled back. */
int tool_change(struct lladd_db *, int (*what)(void *ctx, struct lladd_txn *), void *ctx,
                struct lladd_error *err);

/* scrub.c: a database that is open with the archive in a store. */
struct tool_archived {
    struct lladd_store *store;
    struct lladd_archive *archive;
    struct lladd_db *db;
};
/* Opens a database that must exist. */
int tool_open_archived(struct tool *, const char *dir, const char *url, struct tool_archived *,
                       struct lladd_error *);
/* Closes the database. Returns rc or, if that is 0, the error of the close. */
int tool_close_archived(struct tool_archived *, int rc, struct lladd_error *);
/* Call this after tool_end, because the options, which tool_end releases, refer to the archive.
 * Call it also if the open has failed. */
void tool_free_archived(struct tool_archived *);

/* A database that is recovered in memory; none of its files is changed. A quarter of the verb's
 * memory is for the page cache, and a quarter for written blocks. Further written blocks go to
 * unnamed files in $TMPDIR or /var/tmp. */
struct tool_peek {
    struct lladd_db *db;
    struct lladd_device *disk, *overlay;
    int lock;
};
int tool_peek(struct tool *, struct tool_peek *, struct lladd_error *);
/* As tool_peek, for a database that may be damaged. Full recovery ends with an error at a damaged
 * page; then this function tries instant recovery, which fetches a page only when it is used. */
int tool_peek_damaged(struct tool *, struct tool_peek *, struct lladd_error *);
void tool_peek_end(struct tool_peek *);
/* The options for a view. The view may use half of the verb's memory for its index, which finds the
 * log records of a page. */
struct lladd_options tool_inspect_options(const struct tool *);
/* Opens the verb's view. Returns 0, or reports the error and returns the exit code. */
int tool_inspect(const struct tool *, struct lladd_inspect **);

/* ---- formatting ------------------------------------------------------------------------------ */

/* "4.0 KiB"; returns the buffer. */
const char *tool_bytes(uint64_t bytes, char out[24]);
/* "2026-11-20 10:44:12 UTC" from microseconds since 1970. */
const char *tool_time(int64_t us, char out[48]);
const char *tool_uuid(const unsigned char uuid[16], char out[40]);
/* The width of a column of LSNs. */
int tool_lsn_width(const struct lladd_inspect_info *);
/* "-" for 0. */
const char *tool_lsn(lladd_lsn, char out[24]);
/* Global ids as text: format:gtrid:bqual, gtrid and bqual in hexadecimal. */
#define TOOL_GID_MAX 300
const char *tool_gid(const struct lladd_gid *, char out[TOOL_GID_MAX]);
bool tool_parse_gid(const char *text, struct lladd_gid *);
/* Parses hexadecimal bytes; `out` may be the text itself. Returns false if the text is not
 * hexadecimal. */
bool tool_hex(const char *text, unsigned char *out, size_t *len);
/* Prints offsets, hexadecimal and text; repeated lines are left out. */
void tool_hexdump(const char *indent, const void *bytes, size_t len, uint64_t offset);

/* A sink that collects text. */
struct tool_text {
    struct lladd_sink sink;
    char *text; /* NUL-terminated; NULL until something was written */
    size_t len, size;
};
void tool_text_init(struct tool_text *);
void tool_text_clear(struct tool_text *);
const char *tool_text_get(const struct tool_text *);
void tool_text_free(struct tool_text *);

/* Returns lladd_inspect_info of the view; zeros if it cannot be read. */
struct lladd_inspect_info tool_info(const struct lladd_inspect *);

/* Log that was truncated and recycled before lladd_inspect_log could read it. */
struct tool_gap {
    uint64_t bytes;
    lladd_lsn to; /* where the log continues after the last gap */
};
/* The gap of the last lladd_inspect_log. */
struct tool_gap tool_gap_of(const struct lladd_inspect *);
/* Without --json, reports a gap, if there is one, on stderr. */
void tool_recycled(const struct tool *, const struct tool_gap *);
/* Adds {"recycled": {"bytes": ..., "to": ...}} if there is a gap. */
void tool_json_recycled(json_t *object, const struct tool_gap *);

/* ---- JSON ----------------------------------------------------------------------------------- */

/* A number; a string if the number is larger than JSON readers accept. */
json_t *tool_json_u64(uint64_t);
/* A string, or {"hex": ...} if the bytes are not UTF-8. */
json_t *tool_json_bytes(const void *bytes, size_t len);
json_t *tool_json_text(const char *);
json_t *tool_json_hex(const void *bytes, size_t len);
/* An object with the fields by name. {"hex": ...} if there is no layout, or if the bytes do not fit
 * the layout. */
json_t *tool_json_fields(const struct lladd_field *, struct lladd_span);
/* Adds the LSN if it is not 0. */
void tool_json_lsn(json_t *object, const char *key, lladd_lsn);
json_t *tool_json_gid(const struct lladd_gid *);
/* Prints the value on one line, or with `pretty` on several lines, and releases it. If the value is
 * NULL because there was no memory, ends the program. */
void tool_json_print(json_t *, bool pretty);

/* ---- structures ----------------------------------------------------------------------------- */

/* A result other than 0 ends the listing. */
typedef int tool_page_fn(void *ctx, lladd_pageno);

enum tool_kind_id {
    TOOL_ARRAY = 1,
    TOOL_LIST,
    TOOL_BLOB,
    TOOL_HASH,
    TOOL_BTREE,
    TOOL_RUN,
    TOOL_KINDS
};
struct tool_kind {
    enum tool_kind_id id;
    const char *name, *page_type;
    int (*check)(struct lladd_db *, lladd_pageno root, struct lladd_error *);
    int (*pages)(struct lladd_db *, lladd_pageno root, tool_page_fn *, void *ctx,
                 struct lladd_error *);
    int (*destroy)(struct lladd_txn *, lladd_pageno root);
};
/* NULL if there is no such kind. */
const struct tool_kind *tool_kind_named(const char *name);
/* Finds the kind of the structure with its root on this page; *out is NULL if the tools know no
 * such kind. */
int tool_kind_of(struct lladd_db *, uint64_t page, const struct tool_kind **out,
                 struct lladd_error *);

/* structures.c, for verify. */
struct tool_structures {
    uint64_t checked[TOOL_KINDS];    /* number of structures checked, by enum tool_kind_id */
    uint64_t others;                 /* number of roots of unknown structures */
    uint64_t unchecked;              /* number of structures that cannot be checked here */
    uint64_t unowned;                /* allocated pages that belong to no structure */
    uint64_t leaked;                 /* unowned pages that can have no other owner */
    uint64_t damage;                 /* findings of damage */
    bool unlisted;                   /* the pages of a structure could not be listed */
    json_t *extended;                /* structures of extensions: number checked, by name; NULL:
                                      * none */
};
/* Kind of a finding: pages are allocated and have no owner; no data is lost. */
enum { TOOL_LEAK = LLADD_FINDING_NOTE + 1 };
/* Does `code` mean that a resource of this program ran out? Such an error says nothing about the
 * stored data. (A database that is recovered in memory also needs resources for its writes.) */
bool tool_ran_out(int code);
/* Checks every structure that a root points to. Returns 0 even if it has reported findings. The
 * caller must release `extended`, even after an error. */
int tool_structures_check(struct tool *, struct lladd_db *, lladd_finding_fn *, void *ctx,
                          struct tool_structures *, struct lladd_error *);

/* ---- verbs ---------------------------------------------------------------------------------- */

int tool_stat(int argc, char **argv);
int tool_log(int argc, char **argv);
int tool_page(int argc, char **argv);
int tool_verify(int argc, char **argv);
int tool_ops(int argc, char **argv);
int tool_recover(int argc, char **argv);
int tool_in_doubt(int argc, char **argv);
int tool_journal(int argc, char **argv);
int tool_resolve(int argc, char **argv);
int tool_sim(int argc, char **argv);
int tool_dump(int argc, char **argv);
int tool_load(int argc, char **argv);
int tool_dtable(int argc, char **argv);
int tool_replica(int argc, char **argv);
/* replica_tail.c: writes the changes of tables to standard output; returns the exit code. */
struct tool_tail {
    const char *name;          /* of the replica; the pin is "replica.<name>" */
    const char *const *tables; /* ends with NULL; NULL: not given */
    uint64_t from, acknowledge; /* positions; 0: not given */
    uint64_t follow;            /* seconds between two looks; 0: looks once */
};
int tool_replica_tail(struct tool *, const struct tool_tail *);
int tool_hash(int argc, char **argv);
int tool_btree(int argc, char **argv);
int tool_backup(int argc, char **argv);
int tool_restore(int argc, char **argv);
int tool_archive(int argc, char **argv);
int tool_scrub(int argc, char **argv);

/* verify.c, for scrub and archive. The first function prints a line about a finding. The second
 * adds an element to a JSON array. Both return 0 or a code. */
int tool_print_finding(const struct lladd_finding *);
int tool_add_finding(json_t *list, const struct lladd_finding *);
/* restore_page.c: "lladd restore --page". `out`: name of a new file for the page at the target;
 * NULL: the page is restored into the database in the directory t->argv[0]. t->dir is the store.
 * Calls tool_end, and returns the exit code. */
int tool_restore_page(struct tool *, uint64_t page, const char *out);
/* These functions print a line, or return JSON, about the structures that were checked. */
void tool_print_structures(const struct tool_structures *);
json_t *tool_json_structures(const struct tool_structures *);
/* archive_check.c, for archive. `rate`: bytes a second; 0: no limit. */
int tool_archive_check(struct tool *, uint64_t rate);
int tool_archive_roll(struct tool *, uint64_t rate, const char *label);
/* backup.c, for archive. Adds a transaction that is in doubt to the list (json_t *), or prints it
 * if there is no list. */
int tool_see_doubt(void *list, const struct lladd_in_doubt_info *);
/* backup.c, for archive. These functions print a line, or return JSON, about a backup. */
void tool_print_backup(const struct lladd_backup_info *);
json_t *tool_json_backup(const struct lladd_backup_info *);

/* record.c, for log and page: prints one record, as text or JSON. */
struct tool_line {
    struct lladd_inspect *view;
    int width; /* width of an LSN */
    bool json, bytes;
    bool by_page; /* the column `prev` shows the page's previous record */
    struct tool_text text;
};
void tool_line_init(struct tool_line *, struct lladd_inspect *, const struct tool *, bool bytes);
void tool_line_free(struct tool_line *);
void tool_line_header(const struct tool_line *);
void tool_line_print(struct tool_line *, const struct lladd_inspect_record *);
/* The name of the log's end in JSON. */
const char *tool_log_end_name(enum lladd_log_end);

#endif
