/* SPDX-License-Identifier: BSD-2-Clause */
/* Inspects the databases of servers that are not running. */
#include "coordinator.h"
#include "participant.h"
#include "teller.h"

#include <inttypes.h>
#include <lladd/bytes.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy {
    bool there;
    unsigned char value[ACCOUNT_VALUE];
};

struct inspection {
    const struct bank_options *o;
    size_t servers, server; /* `server`: the number of the database that is being read */
    struct copy *copies;    /* [account][server] */
    uint64_t in_doubt, strangers;
};

void account_key(uint64_t account, unsigned char key[ACCOUNT_KEY])
{
    char text[32];
    (void)snprintf(text, sizeof text, "acc%09" PRIu64, account);
    memcpy(key, text, ACCOUNT_KEY);
}

static int note(void *ctx, struct lladd_span key, struct lladd_span value)
{
    struct inspection *in = ctx;
    char text[ACCOUNT_KEY + 1] = {0};
    char *end = text;
    uint64_t account = UINT64_MAX;
    if (key.len == ACCOUNT_KEY && memcmp(key.data, "acc", 3) == 0) {
        memcpy(text, key.data, ACCOUNT_KEY);
        account = strtoull(text + 3, &end, 10);
    }
    if (account >= in->o->accounts || *end || value.len != ACCOUNT_VALUE) {
        in->strangers++;
        return 0;
    }
    struct copy *copy = &in->copies[account * in->servers + in->server];
    copy->there = true;
    memcpy(copy->value, value.data, ACCOUNT_VALUE);
    return 0;
}

static int count(void *ctx, const struct lladd_in_doubt_info *info)
{
    (void)info;
    ((struct inspection *)ctx)->in_doubt++;
    return 0;
}

static int look_into(struct inspection *in, const char *dir, struct lladd_error *err)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_db *db = NULL;
    options.flags = LLADD_OPT_MUST_EXIST;
    int rc = participant_register(&options, err);
    rc = rc ? rc : lladd_open(dir, &options, &db, err);
    lladd_options_release(&options);
    rc = rc ? rc : lladd_in_doubt_each(db, count, in, err);
    rc = rc ? rc : participant_table_each(db, note, in, err);
    int closed = db ? lladd_close(db) : 0;
    return rc ? rc : closed;
}

/* True if all servers of the account have one value, and no other server has a value. */
static bool agree(const struct inspection *in, uint64_t account, int64_t *amount)
{
    unsigned char key[ACCOUNT_KEY];
    const struct copy *copies = &in->copies[account * in->servers], *first = NULL;
    size_t there = 0;
    account_key(account, key);
    for (size_t s = 0; s < in->servers; s++)
        there += copies[s].there;
    for (size_t r = 0; r < in->o->replicas; r++) {
        const struct copy *c =
            &copies[coordinator_place(in->servers, key, ACCOUNT_KEY, r)];
        first = first ? first : c;
        if (!c->there || memcmp(c->value, first->value, ACCOUNT_VALUE) != 0)
            return false;
    }
    *amount = first ? (int64_t)lladd_get64(first->value) : 0;
    return first && there == in->o->replicas;
}

bool inspect(const struct bank_options *o, char **dirs, size_t n)
{
    struct inspection in = {.o = o, .servers = n};
    struct lladd_error err = LLADD_ERROR_INIT;
    int64_t sum = 0, right = (int64_t)o->accounts * ACCOUNT_OPENING;
    uint64_t wrong = 0;
    int rc = o->replicas <= n ? 0 : LLADD_BAD_ARGUMENT;
    in.copies = calloc(o->accounts * n, sizeof *in.copies);
    rc = rc || in.copies ? rc : LLADD_NO_MEMORY;
    for (; !rc && in.server < n; in.server++)
        rc = look_into(&in, dirs[in.server], &err);
    for (uint64_t i = 0; !rc && i < o->accounts; i++) {
        int64_t amount = 0;
        wrong += !agree(&in, i, &amount);
        sum += amount;
    }
    free(in.copies);
    if (rc) {
        fprintf(stderr, "cluster-teller: inspect: %s: %s\n", lladd_code_name(rc),
                err.code ? err.message : lladd_code_text(rc));
        return false;
    }
    printf("sum %" PRId64 " of %" PRId64 " disagreeing %" PRIu64 " strangers %" PRIu64
           " in-doubt %" PRIu64 "\n",
           sum, right, wrong, in.strangers, in.in_doubt);
    return sum == right && !wrong && !in.strangers && !in.in_doubt;
}
