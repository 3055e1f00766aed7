/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line, plug-ins, and errors: the beginning and end of every verb. */
#include "tool.h"

#include <dlfcn.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <lladd/bwtree.h>
#include <lladd/lock.h>
#include <lladd/replica.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tool_fail(const struct tool *t, const char *fmt, ...)
{
    va_list ap;
    if (t->progress.shown)
        fprintf(stderr, "\r\033[K"); /* erases the progress line; tool_progress rewrites it later */
    fprintf(stderr, "lladd %s: ", t->verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    return TOOL_CANNOT;
}

int tool_error(const struct tool *t, const struct lladd_error *error)
{
    struct lladd_error why = *error;
    const struct lladd_error *err = &why;
    tool_blame_store(t, &why);
    const char *name = lladd_code_name(err->code);
    if (t->json) {
        json_t *e = json_pack("{s:s, s:o, s:o}", "code", name ? name : "unknown", "message",
                              tool_json_text(err->message), "directory",
                              tool_json_text(t->dir ? t->dir : ""));
        tool_json_lsn(e, "lsn", err->lsn);
        tool_json_print(json_pack("{s:o}", "error", e), true);
        return TOOL_CANNOT;
    }
    return tool_fail(t, "%s: %s (%s)", t->dir, err->message, name ? name : "unknown error");
}

int tool_failed(const struct tool *t, const struct lladd_error *err)
{
    int code = tool_error(t, err);
    return lladd_code_root(err->code) == LLADD_ROOT_DATA ? TOOL_FINDINGS : code;
}

/* ---- arguments ------------------------------------------------------------------------------ */

bool tool_number(const char *what, const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    bool hex = strncmp(text, "0x", 2) == 0; /* hexadecimal, the notation of log file names */
    bool begins = isxdigit((unsigned char)text[hex ? 2 : 0]);
    unsigned long long v = strtoull(text, &end, hex ? 16 : 10);
    if (errno || !begins || end == text || *end) {
        fprintf(stderr, "lladd: %s: \"%s\" is not a number\n", what, text);
        return false;
    }
    *out = v;
    return true;
}

bool tool_number_in(const char *what, const char *text, uint64_t least, uint64_t most,
                    uint64_t *out)
{
    uint64_t v;
    if (!tool_number(what, text, &v))
        return false;
    if (v < least || v > most) {
        fprintf(stderr, "lladd: %s: %s is not between %" PRIu64 " and %" PRIu64 "\n", what, text,
                least, most);
        return false;
    }
    *out = v;
    return true;
}

static int register_all(struct tool *t, const struct lladd_extension *const *list)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (; list && *list; list++)
        if (lladd_register_extension(&t->options, *list, &err))
            return tool_fail(t, "%s: %s", t->plugin, err.message);
    return 0;
}

/* The plug-in stays loaded, because its descriptors are needed until the program ends. */
static int load_plugin(struct tool *t)
{
    char path[4096];
    /* Without a slash dlopen would search the system's directories. */
    int n = snprintf(path, sizeof path, "%s%s", strchr(t->plugin, '/') ? "" : "./", t->plugin);
    if (n < 0 || (size_t)n >= sizeof path)
        return tool_fail(t, "the name of the plug-in is too long");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return tool_fail(t, "cannot load the plug-in: %s", dlerror());
    void *symbol = dlsym(so, LLADD_PLUGIN_SYMBOL);
    lladd_plugin_fn *fn;
    if (!symbol)
        return tool_fail(t, "%s does not export \"%s\"", t->plugin, LLADD_PLUGIN_SYMBOL);
    memcpy(&fn, &symbol, sizeof fn); /* ISO C has no other conversion from void * to a function
                                      * pointer */
    return register_all(t, fn());
}

/* Registers the library's optional extensions: locks, because a transaction in doubt may hold
 * locks, and the journal, managed dTables, replicas and logged Bw-trees, which the database may
 * use. */
static int register_known(struct tool *t)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = lladd_lock_register(&t->options, &err);
    if (!rc)
        rc = lladd_replica_register(&t->options, &err); /* and managed dTables */
    if (!rc)
        rc = lladd_bwtree_register(&t->options, &err);
    rc = rc ? tool_fail(t, "%s", err.message) : 0;
    rc = !rc && t->plugin ? load_plugin(t) : rc;
    if (rc)
        lladd_options_release(&t->options);
    return rc;
}

static int usage_error(const struct tool *t)
{
    fprintf(stderr, "\"lladd %s --help\" says how it is used\n", t->verb);
    return TOOL_CANNOT;
}

/* "-7:00:" is not an option but a global id with a negative format. */
static bool is_negative_id(const char *text)
{
    size_t digits = text[0] == '-' ? strspn(text + 1, "0123456789") : 0;
    return digits > 0 && text[1 + digits] == ':';
}

/* Moves global ids that begin with '-' to the end of the arguments, in their order, because getopt
 * would take them for options. Returns their number. Stops at "--", after which getopt takes no
 * argument for an option. */
static int set_aside_ids(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc - n && strcmp(argv[i], "--") != 0;) {
        if (!is_negative_id(argv[i])) {
            i++;
            continue;
        }
        char *id = argv[i];
        memmove(&argv[i], &argv[i + 1], (size_t)(argc - i - 1) * sizeof *argv);
        argv[argc - 1] = id;
        n++;
    }
    return n;
}

static bool take_bound(struct tool *t, int option, const char *value)
{
    if (option == TOOL_THREADS_OPTION)
        return tool_number_in("--threads", value, 1, 256, &t->threads);
    if (!tool_number("--memory", value, &t->memory))
        return false;
    if (t->memory >= TOOL_MEMORY_LEAST)
        return true;
    tool_fail(t, "--memory: at least %llu", TOOL_MEMORY_LEAST);
    return false;
}

int tool_parse(struct tool *t, int argc, char **argv, const struct option *options,
               tool_option_fn *take, void *ctx, int wanted, int *exit_code)
{
    t->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    t->memory = TOOL_MEMORY;
    t->threads = 1;
    t->s3 = (struct lladd_s3_options)LLADD_S3_OPTIONS_INIT;
    t->target.to = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    t->progress.on = isatty(STDERR_FILENO) == 1;
    if (t->progress.on) {
        t->options.progress = tool_progress_phase;
        t->options.callback_ctx = t;
    }
    *exit_code = TOOL_CANNOT;
    optind = 1;
    char name[32]; /* for getopt's messages */
    snprintf(name, sizeof name, "lladd %s", t->verb);
    argv[0] = name;
    int ids = set_aside_ids(argc, argv);
    for (int o; (o = getopt_long(argc - ids, argv, "h", options, NULL)) != -1;) {
        if (o == TOOL_HELP || o == 'h') {
            printf("%s", t->usage);
            *exit_code = fflush(stdout) ? TOOL_CANNOT : TOOL_FINE;
            return 1;
        }
        if (o == TOOL_JSON)
            t->json = true;
        else if (o == TOOL_MEMORY_OPTION || o == TOOL_THREADS_OPTION) {
            if (!take_bound(t, o, optarg)) {
                *exit_code = usage_error(t);
                return 1;
            }
        } else if (o == TOOL_OPS)
            t->plugin = optarg;
        else if (o == TOOL_FROM)
            t->from = optarg;
        else if (o == TOOL_ENDPOINT)
            t->s3.endpoint = optarg;
        else if (o == TOOL_REGION)
            t->s3.region = optarg;
        else if (o == TOOL_HOST_STYLE)
            t->s3.host_style = true;
        else if (o > TOOL_FROM && o < TOOL_ENDPOINT) {
            if (!tool_take_target(t, o, optarg)) {
                *exit_code = usage_error(t);
                return 1;
            }
        } else if (o == '?' || !take || take(ctx, o, optarg)) {
            *exit_code = usage_error(t);
            return 1;
        }
    }
    int dirs = t->from ? 0 : 1, given = argc - optind;
    const char *why = t->target.given && !t->from && !t->restores
                          ? "--base, --to, --timeline and --expect-lsn need --from"
                      : given < dirs                    ? "expected a directory"
                      : given < dirs + wanted           ? "an argument is missing"
                      : given - dirs - wanted > t->more ? "too many arguments"
                                                        : NULL;
    if (why) {
        tool_fail(t, "%s", why);
        *exit_code = usage_error(t);
        return 1;
    }
    t->dir = t->from ? t->from : argv[optind];
    t->argc = given - dirs;
    t->argv = argv + optind + dirs;
    *exit_code = register_known(t);
    return *exit_code != 0;
}

int tool_end(struct tool *t, int exit_code)
{
    tool_progress_end(t);
    tool_stored_close(t);
    lladd_options_release(&t->options);
    if (fflush(stdout) || ferror(stdout)) {
        tool_fail(t, "cannot write the output: %s", strerror(errno));
        return TOOL_CANNOT;
    }
    return exit_code;
}

int tool_open(struct tool *t, struct lladd_db **out, struct lladd_error *err)
{
    struct lladd_inspect *view;
    if (t->from)
        return lladd_error_set(err, LLADD_READ_ONLY, "nothing is changed in a store");
    int rc = lladd_inspect_open(t->dir, &t->options, &view, err);
    if (!rc)
        lladd_inspect_close(view);
    if (rc == LLADD_NOT_A_DATABASE)
        return rc;
    *err = (struct lladd_error)LLADD_ERROR_INIT;
    t->options.flags = LLADD_OPT_MUST_EXIST;
    return lladd_open(t->dir, &t->options, out, err);
}

int tool_change(struct lladd_db *db, int (*what)(void *ctx, struct lladd_txn *), void *ctx,
                struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = what(ctx, txn);
    if (!rc) {
        rc = lladd_commit(txn);
        if (!rc)
            return 0;
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED) {
            (void)lladd_db_error(db, err); /* the error of the handle is the cause of rc */
            return rc;
        }
        *err = *lladd_txn_error(txn);
    }
    int undone = lladd_abort(txn);
    if (undone)
        (void)lladd_db_error(db, err);
    return undone ? undone : rc;
}

struct lladd_options tool_inspect_options(const struct tool *t)
{
    struct lladd_options o = t->options;
    o.recovery_bytes = t->memory / 2;
    return o;
}

int tool_inspect(const struct tool *t, struct lladd_inspect **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options o = tool_inspect_options(t);
    int rc = lladd_inspect_open(t->dir, &o, out, &err);
    return rc ? tool_error(t, &err) : 0;
}
