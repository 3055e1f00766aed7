/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalogue gives each name, with its version, a number, and logs the number.
 *
 * At the first use of a name a catalogue record is appended, before the first record that contains
 * the number. Each checkpoint repeats the payloads of all catalogue records. A reader that starts
 * at a checkpoint therefore knows the name of each operation in the log and the layout of its
 * bytes, without the application. Names of all kinds share one sequence of numbers, which begins
 * with 1 and has no gaps. A number is reused only if a crash has lost its catalogue record.
 *
 * The payload of a catalogue record: docs/disk-format.md, "13 catalogue".
 *
 * Threads: cat.mutex guards the catalogue. Lookups by number take no mutex: a full array is
 * replaced and kept, and an entry below the published length never changes. */
#include "recovery/core.h"
#include "recovery/registry.h"

#include <lladd/bytes.h>
#include <string.h>

#define NAME_MAX_LEN 63u
#define NUMBER_MAX 65535u /* 16 bits in a record */
#define HEAD 12u          /* bytes of a payload before the name */
#define TAIL 4u
#define TAG_PAYLOAD (HEAD + NAME_MAX_LEN + TAIL)

struct retired {
    struct retired *next;
};

static int add_to_all(struct ll_core *core, struct ll_name *n)
{
    struct ll_op_catalog *cat = &core->cat;
    if (ll_grow(&core->env, &cat->all, &cat->cap_all, cat->n_all + 1, sizeof *cat->all))
        return LLADD_NO_MEMORY;
    cat->all[cat->n_all++] = n;
    return 0;
}

/* A replaced array can be read until close. */
static int grow_numbers(struct ll_core *core, uint32_t number)
{
    struct ll_op_catalog *cat = &core->cat;
    if (number <= cat->cap_numbers)
        return 0;
    uint32_t cap = cat->cap_numbers * 2;
    while (cap < number)
        cap *= 2;
    struct ll_name **p = ll_alloc_zero(&core->env, cap * sizeof *p);
    if (!p)
        return LLADD_NO_MEMORY;
    struct retired *old = (struct retired *)(void *)cat->numbers;
    memcpy(p, old, cat->n_numbers * sizeof *p);
    lladd_atomic_store_ptr(&cat->numbers, p);
    cat->cap_numbers = cap;
    old->next = cat->retired;
    cat->retired = old;
    return 0;
}

/* Is n's name these len bytes? `name` contains no 0 byte. */
static bool is_called(const struct ll_name *n, const char *name, size_t len)
{
    return n->name == name || (strncmp(n->name, name, len) == 0 && n->name[len] == 0);
}

/* The search begins after the name that was found last, because the log often has names in the
 * order of their registration. */
static struct ll_name *find(struct ll_core *core, unsigned kind, const char *name, size_t len,
                            uint32_t version)
{
    struct ll_op_catalog *cat = &core->cat;
    for (size_t i = 0, at = cat->hint; i < cat->n_all; i++, at++) {
        at = at < cat->n_all ? at : 0;
        struct ll_name *n = cat->all[at];
        if (n->kind != kind || (version != 0 && n->version != version) || !is_called(n, name, len))
            continue;
        cat->hint = at + 1;
        return n;
    }
    return NULL;
}

/* Finds the page type of an operation, from *hint on: operations of one type are registered
 * together, mostly in the order of the types. */
static struct ll_name *type_called(const struct ll_op_catalog *cat, const char *name, size_t *hint)
{
    size_t len = strlen(name);
    for (size_t i = 0, at = *hint; i < cat->n_types; i++, at++) {
        at = at < cat->n_types ? at : 0;
        *hint = at;
        if (is_called(cat->types[at], name, len))
            return cat->types[at];
    }
    return NULL;
}

static struct ll_name **array_of(struct ll_core *core, size_t n)
{
    return ll_alloc_zero(&core->env, n * sizeof(struct ll_name *));
}

/* Allocates the arrays for the registered names. A name may be used for the first time in a
 * compensation, which must not lack memory or log space (REC-3). So the first use of a registered
 * name allocates nothing, unless the log has unregistered names. The catalogue record of the name
 * uses log space that is set aside. After a failure, ll_op_catalog_free frees the memory. */
static int allocate(struct ll_core *core, const struct lladd_registry *reg)
{
    struct ll_op_catalog *cat = &core->cat;
    size_t n = reg->payloads.names ? reg->payloads.names : 1;
    cat->cap_numbers = (uint32_t)n;
    cat->cap_all = n + 8; /* room for some names from the log */
    cat->buf_size = reg->payloads.longest > TAG_PAYLOAD ? reg->payloads.longest : TAG_PAYLOAD;
    /* 8 bytes more for each name, because the size of a record is rounded up. */
    cat->log_bytes = reg->payloads.names * ll_record_bound(8, 0) + reg->payloads.bytes;
    cat->registered = ll_alloc_zero(&core->env, n * sizeof *cat->registered);
    cat->numbers = array_of(core, n);
    cat->ids = array_of(core, n);
    cat->classes = array_of(core, n);
    cat->types = array_of(core, n);
    cat->all = array_of(core, cat->cap_all);
    cat->buf = ll_alloc(&core->env, cat->buf_size);
    return cat->registered && cat->numbers && cat->ids && cat->classes && cat->types && cat->all &&
                   cat->buf
               ? 0
               : LLADD_NO_MEMORY;
}

static struct ll_name *fill(struct ll_name *name, uint8_t kind, const void *desc)
{
    const struct lladd_page_type *head = desc; /* all descriptors begin with name and version */
    name->kind = kind;
    name->name = head->name;
    name->version = head->version;
    name->desc = desc;
    return name;
}

static struct ll_name *add_extension(struct ll_op_catalog *cat, struct ll_name *next,
                                     const struct lladd_extension *e)
{
    for (size_t i = 0; e->page_types && e->page_types[i]; i++)
        cat->types[cat->n_types++] = fill(next++, LL_NAME_PAGE_TYPE, e->page_types[i]);
    struct ll_name **id = cat->ids + cat->n_ids;
    for (const struct lladd_op *const *op = e->ops; op && *op; op++)
        *id++ = fill(next++, LL_NAME_OP, *op);
    cat->n_ids = (size_t)(id - cat->ids);
    for (size_t i = 0; e->classes && e->classes[i]; i++)
        cat->classes[cat->n_classes++] = fill(next++, LL_NAME_CLASS, e->classes[i]);
    for (size_t i = 0; e->participants && e->participants[i]; i++)
        fill(next++, LL_NAME_PARTICIPANT, e->participants[i]);
    return next;
}

static struct ll_name *add_item(struct ll_op_catalog *cat, struct ll_name *next,
                                const struct ll_registered *r)
{
    if (r->kind == LL_REGISTERED_EXTENSION)
        return next;
    struct ll_name *name = fill(next, r->kind, r->desc);
    if (r->kind == LL_NAME_OP)
        cat->ids[cat->n_ids++] = name;
    else if (r->kind == LL_NAME_CLASS)
        cat->classes[cat->n_classes++] = name;
    else if (r->kind == LL_NAME_PAGE_TYPE)
        cat->types[cat->n_types++] = name;
    return next + 1;
}

static void add_registered(struct ll_op_catalog *cat, const struct lladd_registry *reg)
{
    struct ll_name *next = cat->registered;
    for (size_t i = 0; reg->builtin && reg->builtin[i]; i++)
        next = add_extension(cat, next, reg->builtin[i]);
    for (size_t i = 0; i < reg->n; i++)
        next = add_item(cat, next, &reg->items[i]);
    cat->n_registered = cat->n_all = (size_t)(next - cat->registered);
    /* fails if ll_extensions_builtin has a wrong count */
    LL_ASSERT(cat->n_registered <= cat->cap_numbers);
    struct ll_name **all = cat->all;
    for (struct ll_name *name = cat->registered; name < next; name++)
        *all++ = name;
}

/* Operations of one type are registered together, so the type is looked up only when its name
 * changes. */
static int prepare_ops(struct ll_core *core, struct lladd_error *err)
{
    struct ll_op_catalog *cat = &core->cat;
    const char *wanted = NULL;
    struct ll_name *type = NULL;
    size_t hint = 0;
    for (size_t i = 0; i < cat->n_ids; i++) {
        struct ll_name *name = cat->ids[i];
        const struct lladd_op *op = name->desc;
        ll_core_needs(core, name);
        if (!op->page_type)
            continue;
        if (op->page_type != wanted)
            type = type_called(cat, op->page_type, &hint);
        if (!type)
            return ll_fail(err, LLADD_BAD_REGISTRATION,
                           "operation \"%s\" needs page type \"%s\", which is not registered",
                           op->name, op->page_type);
        wanted = op->page_type;
        name->page_type = type;
    }
    return 0;
}

int ll_op_catalog_init(struct ll_core *core, const struct lladd_registry *reg,
                       struct lladd_error *err)
{
    struct ll_op_catalog *cat = &core->cat;
    if (lladd_mutex_init(&cat->mutex, LLADD_RANK_CATALOGUE, "catalogue"))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (allocate(core, reg))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    add_registered(cat, reg);
    return prepare_ops(core, err);
}

static void free_fields(const struct ll_env *env, struct lladd_field *f)
{
    for (struct lladd_field *p = f; p && p->type != LLADD_FIELD_END; p++)
        ll_free(env, (void *)(uintptr_t)p->name);
    ll_free(env, f);
}

void ll_op_catalog_drop(const struct ll_env *env, struct ll_name *n)
{
    free_fields(env, n->redo_fields);
    free_fields(env, n->undo_fields);
    ll_free(env, (void *)(uintptr_t)n->name);
    memset(n, 0, sizeof *n);
}

void ll_op_catalog_free(struct ll_core *core)
{
    struct ll_op_catalog *cat = &core->cat;
    for (size_t i = cat->n_registered; i < cat->n_all; i++) {
        ll_op_catalog_drop(&core->env, cat->all[i]);
        ll_free(&core->env, cat->all[i]);
    }
    for (struct retired *r = cat->retired, *next; r; r = next) {
        next = r->next;
        ll_free(&core->env, r);
    }
    ll_free(&core->env, cat->buf);
    ll_free(&core->env, cat->all);
    ll_free(&core->env, cat->types);
    ll_free(&core->env, cat->classes);
    ll_free(&core->env, cat->ids);
    ll_free(&core->env, cat->numbers);
    ll_free(&core->env, cat->registered);
    lladd_mutex_destroy(&cat->mutex);
    memset(cat, 0, sizeof *cat);
}

struct ll_name *ll_op_catalog_find(struct ll_core *core, unsigned kind, const char *name,
                                   uint32_t version)
{
    lladd_mutex_lock(&core->cat.mutex);
    struct ll_name *n = find(core, kind, name, strlen(name), version);
    lladd_mutex_unlock(&core->cat.mutex);
    return n;
}

struct ll_name *ll_op_catalog_by_desc(struct ll_core *core, unsigned kind, const void *desc)
{
    struct ll_name **before = &core->cat.by_desc[((uintptr_t)desc >> 5) % LL_CATALOGUE_FOUND];
    struct ll_name *found = lladd_atomic_load_ptr(before);
    if (found && found->desc == desc && found->kind == kind)
        return found; /* safe, because registered names are kept until close */
    found = NULL;
    lladd_mutex_lock(&core->cat.mutex);
    for (size_t i = 0; i < core->cat.n_all && !found; i++) {
        struct ll_name *n = core->cat.all[i];
        if (n->kind == kind && n->desc == desc)
            found = n;
    }
    lladd_mutex_unlock(&core->cat.mutex);
    if (found)
        lladd_atomic_store_ptr(before, found);
    return found;
}

struct ll_name *ll_op_catalog_by_number(const struct ll_core *core, uint32_t number)
{
    uint32_t n = lladd_atomic_load32(&core->cat.n_numbers);
    if (number == 0 || number > n)
        return NULL;
    struct ll_name **numbers = lladd_atomic_load_ptr(&core->cat.numbers);
    return numbers[number - 1];
}

const struct lladd_page_type *ll_op_catalog_page_type(const struct ll_core *core, uint32_t number)
{
    const struct ll_name *n = ll_op_catalog_by_number(core, number);
    return n && n->kind == LL_NAME_PAGE_TYPE ? n->desc : NULL;
}

struct lladd_log_entry ll_log_entry_of(const struct ll_core *core, const struct ll_record *rec)
{
    const struct ll_name *name = ll_op_catalog_by_number(core, rec->op);
    return (struct lladd_log_entry){.lsn = rec->lsn,
                                    .prev = rec->prev,
                                    .txn = rec->txn,
                                    .undo_next = rec->undo_next,
                                    .page = rec->page,
                                    .page_prev = rec->page_prev,
                                    .kind = rec->kind,
                                    .depth = rec->depth,
                                    .op = name ? name->name : NULL,
                                    .op_version = name ? name->version : 0,
                                    .redo = rec->redo,
                                    .undo = rec->undo};
}

static void set_number(struct ll_core *core, struct ll_name *n, uint32_t number)
{
    struct ll_op_catalog *cat = &core->cat;
    cat->numbers[number - 1] = n;
    if (number > cat->n_numbers)
        lladd_atomic_store32(&cat->n_numbers, number);
    lladd_atomic_store32(&n->number, number);
}

static size_t count_fields(const struct lladd_field *f)
{
    size_t n = 0;
    for (; f && f[n].name; n++) {
    }
    return n;
}

const struct lladd_field *ll_op_catalog_fields(const struct ll_name *n, bool undo)
{
    if (n->kind == LL_NAME_OP && n->desc) {
        const struct lladd_op *op = n->desc;
        return undo ? op->undo_fields : op->redo_fields;
    }
    return undo ? n->undo_fields : n->redo_fields;
}

static void put_fields(unsigned char **at, const struct lladd_field *f)
{
    for (; f && f->name; f++) {
        size_t len = strlen(f->name);
        (*at)[0] = (unsigned char)f->type;
        (*at)[1] = (unsigned char)len;
        memcpy(*at + 2, f->name, len);
        *at += 2 + len;
    }
}

size_t ll_op_catalog_payload(const struct ll_name *n)
{
    size_t bytes = HEAD + strlen(n->name) + TAIL;
    for (int undo = 0; undo < 2; undo++)
        for (const struct lladd_field *f = ll_op_catalog_fields(n, undo); f && f->name; f++)
            bytes += 2 + strlen(f->name);
    return bytes;
}

size_t ll_op_catalog_longest_learned(struct ll_core *core)
{
    size_t longest = 0;
    lladd_mutex_lock(&core->cat.mutex);
    for (size_t i = core->cat.n_registered; i < core->cat.n_all; i++) {
        size_t bytes = ll_op_catalog_payload(core->cat.all[i]);
        longest = bytes > longest ? bytes : longest;
    }
    lladd_mutex_unlock(&core->cat.mutex);
    return longest;
}

void ll_op_catalog_encode(const struct ll_name *n, unsigned char *at)
{
    const struct lladd_field *redo = ll_op_catalog_fields(n, false);
    const struct lladd_field *undo = ll_op_catalog_fields(n, true);
    size_t name_len = strlen(n->name);
    lladd_put32(at, n->number);
    lladd_put32(at + 4, n->version);
    at[8] = n->kind;
    at[9] = (unsigned char)name_len;
    at[10] = (unsigned char)count_fields(redo);
    at[11] = (unsigned char)count_fields(undo);
    memcpy(at + HEAD, n->name, name_len);
    at += HEAD + name_len;
    put_fields(&at, redo);
    put_fields(&at, undo);
    lladd_put32(at, n->page_type ? n->page_type->number : n->page_type_number);
}

static int get_fields(const struct ll_env *env, const unsigned char **at, const unsigned char *end,
                      size_t n, struct lladd_field **out)
{
    if (n == 0)
        return 0;
    struct lladd_field *f = ll_alloc_zero(env, (n + 1) * sizeof *f);
    if (!f)
        return LLADD_NO_MEMORY;
    *out = f;
    for (size_t i = 0; i < n; i++) {
        if (end - *at < 2 || end - *at - 2 < (*at)[1] || (*at)[1] > NAME_MAX_LEN ||
            (*at)[0] == LLADD_FIELD_END || (*at)[0] > LLADD_FIELD_TEXT)
            return LLADD_BAD_RECORD;
        size_t len = (*at)[1];
        char *name = ll_alloc(env, len + 1);
        if (!name)
            return LLADD_NO_MEMORY;
        memcpy(name, *at + 2, len);
        name[len] = 0;
        f[i].type = (enum lladd_field_type)(*at)[0];
        f[i].name = name;
        *at += 2 + len;
    }
    return 0;
}

static int invalid(struct lladd_error *err)
{
    return ll_fail(err, LLADD_BAD_RECORD,
                   "invalid catalogue record: expected a name and its fields");
}

/* Decodes the fixed part; allocates nothing. */
static int peek(struct lladd_span s, struct ll_name *out, size_t *name_len, struct lladd_error *err)
{
    *name_len = 0;
    const unsigned char *p = s.data;
    if (s.len < 16 || s.len < 16u + p[9] || p[9] == 0 || p[9] > NAME_MAX_LEN)
        return invalid(err);
    memset(out, 0, sizeof *out);
    out->number = lladd_get32(p);
    out->version = lladd_get32(p + 4);
    out->kind = p[8];
    if (out->number == 0 || out->number > NUMBER_MAX || out->kind == 0 ||
        out->kind >= LL_NAME_KINDS)
        return invalid(err);
    for (size_t i = 0; i < p[9]; i++)
        if (p[12 + i] < 0x21 || p[12 + i] > 0x7e)
            return invalid(err);
    *name_len = p[9];
    return 0;
}

int ll_op_catalog_decode(const struct ll_env *env, struct lladd_span s, struct ll_name *out,
                         struct lladd_error *err)
{
    const unsigned char *p = s.data, *end = p + s.len;
    size_t name_len;
    int rc = peek(s, out, &name_len, err);
    if (rc)
        return rc;
    char *name = ll_alloc(env, name_len + 1);
    if (!name)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    memcpy(name, p + 12, name_len);
    name[name_len] = 0;
    out->name = name;
    out->learned = true;
    const unsigned char *at = p + 12 + name_len;
    rc = get_fields(env, &at, end, p[10], &out->redo_fields);
    if (!rc)
        rc = get_fields(env, &at, end, p[11], &out->undo_fields);
    if (!rc && (end - at < 4 || lladd_get32(at) > NUMBER_MAX))
        rc = LLADD_BAD_RECORD;
    if (rc) {
        ll_op_catalog_drop(env, out);
        return rc == LLADD_NO_MEMORY ? ll_fail(err, rc, "out of memory") : invalid(err);
    }
    out->page_type_number = lladd_get32(at);
    return 0;
}

/* Compares the fields in a catalogue record with the registered fields. If either side has no
 * fields, the sides match. *wrong: the number of the first field that differs, counted from 1; 0:
 * the sides match. */
static int compare_fields(const unsigned char **at, const unsigned char *end, size_t n,
                          const struct lladd_field *f, size_t *wrong)
{
    bool both = n && f && f->name;
    for (size_t i = 0; i < n; i++) {
        if (end - *at < 2 || end - *at - 2 < (*at)[1] || (*at)[1] > NAME_MAX_LEN)
            return LLADD_BAD_RECORD;
        size_t len = (*at)[1];
        if (both && !*wrong &&
            (!f->name || (*at)[0] != (unsigned char)f->type || strlen(f->name) != len ||
             memcmp(*at + 2, f->name, len) != 0))
            *wrong = i + 1;
        if (both && f->name)
            f++;
        *at += 2 + len;
    }
    if (both && !*wrong && f->name)
        *wrong = n + 1;
    return 0;
}

/* Fails if the fields in the log differ from the fields of the registered operation: the operation
 * would misread the bytes in the log. */
static int check_layout(const struct lladd_op *op, struct lladd_span s, lladd_lsn lsn,
                        struct lladd_error *err)
{
    const unsigned char *p = s.data, *at = p + HEAD + p[9], *end = p + s.len - TAIL;
    size_t redo = 0, undo = 0;
    int rc = compare_fields(&at, end, p[10], op->redo_fields, &redo);
    if (!rc)
        rc = compare_fields(&at, end, p[11], op->undo_fields, &undo);
    if (rc)
        return invalid(err);
    if (!redo && !undo)
        return 0;
    return ll_fail_lsn(err, LLADD_BAD_REGISTRATION, lsn,
                       "operation \"%s\" version %u: %s field %zu is not what the log has under "
                       "this name and version; a changed layout needs a new version",
                       op->name, op->version, redo ? "redo" : "undo", redo ? redo : undo);
}

static int learn(struct ll_core *core, struct lladd_span s, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_name head;
    size_t len;
    int rc = peek(s, &head, &len, err);
    if (rc)
        return rc;
    struct ll_name *known = find(core, head.kind, (const char *)s.data + 12, len, head.version);
    struct ll_name *there = ll_op_catalog_by_number(core, head.number);
    if ((known && known->number && known->number != head.number) || (there && there != known))
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lsn,
                           "LSN %llu: catalogue number %u is given twice",
                           (unsigned long long)lsn.v, head.number);
    if (known && known->desc && head.kind == LL_NAME_OP && !core->looks_only)
        rc = check_layout(known->desc, s, lsn, err);
    if (rc || (known && known->number))
        return rc;
    if (grow_numbers(core, head.number))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    if (!known) {
        known = ll_alloc_zero(&core->env, sizeof *known);
        if (!known)
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
        rc = ll_op_catalog_decode(&core->env, s, known, err);
        if (!rc && add_to_all(core, known)) {
            ll_op_catalog_drop(&core->env, known);
            rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory");
        }
        if (rc) {
            ll_free(&core->env, known);
            return rc;
        }
        known->number = 0;
        lladd_atomic_add64(&core->cat.log_bytes, ll_record_bound(s.len, 0));
    }
    known->first_used = lsn;
    set_number(core, known, head.number);
    return 0;
}

int ll_op_catalog_learn(struct ll_core *core, struct lladd_span s, lladd_lsn lsn,
                        struct lladd_error *err)
{
    lladd_mutex_lock(&core->cat.mutex);
    int rc = learn(core, s, lsn, err);
    lladd_mutex_unlock(&core->cat.mutex);
    return rc;
}

/* Logs that the name has the number. */
static int state_number(struct ll_core *core, struct ll_name *n, uint32_t number,
                        struct lladd_error *err)
{
    struct ll_op_catalog *cat = &core->cat;
    size_t len = ll_op_catalog_payload(n);
    if (len > cat->buf_size)
        return ll_fail(err, LLADD_BAD_REGISTRATION,
                       "the descriptor of \"%s\" has changed since it was registered", n->name);
    struct ll_name numbered = *n;
    numbered.number = number;
    ll_op_catalog_encode(&numbered, cat->buf);
    struct ll_record rec = {.kind = LL_REC_CATALOGUE,
                            .page = LLADD_NO_PAGE,
                            .op = number,
                            .redo = lladd_span_of(cat->buf, len)};
    int rc = ll_core_append(core, &rec, true, err);
    if (!rc)
        n->first_used = rec.lsn;
    return rc;
}

static int give_number(struct ll_core *core, struct ll_name *n, struct lladd_error *err)
{
    uint32_t number = core->cat.n_numbers + 1;
    if (number > NUMBER_MAX)
        return ll_fail(err, LLADD_TOO_LARGE, "the database knows %u names already", NUMBER_MAX);
    if (grow_numbers(core, number))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    int rc = state_number(core, n, number, err);
    if (!rc)
        set_number(core, n, number);
    return rc;
}

int ll_op_catalog_log_again(struct ll_core *core, struct ll_name *n, struct lladd_error *err)
{
    int rc = 0;
    lladd_mutex_lock(&core->cat.mutex);
    if (n->log_again && (rc = state_number(core, n, n->number, err)) == 0)
        lladd_atomic_store32(&n->log_again, 0);
    lladd_mutex_unlock(&core->cat.mutex);
    return rc;
}

int ll_op_catalog_number_slow(struct ll_core *core, struct ll_name *n, struct lladd_error *err)
{
    int rc = 0;
    if (n->page_type)
        rc = ll_op_catalog_number(core, n->page_type, err);
    if (rc)
        return rc;
    /* The mutex is held during the append. A number must not be used before its record has an LSN,
     * and two names must not get the same number. */
    lladd_mutex_lock(&core->cat.mutex);
    if (!n->number)
        rc = give_number(core, n, err);
    lladd_mutex_unlock(&core->cat.mutex);
    return rc;
}

int ll_op_catalog_tag(struct ll_core *core, const char *name, struct ll_name **out,
                      struct lladd_error *err)
{
    size_t len = strlen(name);
    if (len == 0 || len > NAME_MAX_LEN)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "a tag has 1 to %u bytes", NAME_MAX_LEN);
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != len)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "a tag consists of a-z, 0-9, '_', '.' and '-'");
    lladd_mutex_lock(&core->cat.mutex);
    struct ll_name *n = find(core, LL_NAME_TAG, name, len, 1);
    int rc = 0;
    if (!n) {
        n = ll_alloc_zero(&core->env, sizeof *n);
        char *copy = ll_strdup(&core->env, name);
        if (!n || !copy || add_to_all(core, n)) {
            ll_free(&core->env, n);
            ll_free(&core->env, copy);
            rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory");
        } else {
            n->kind = LL_NAME_TAG;
            n->version = 1;
            n->name = copy;
            n->learned = true;
            lladd_atomic_add64(&core->cat.log_bytes, ll_record_bound(NAME_MAX_LEN + 16, 0));
        }
    }
    lladd_mutex_unlock(&core->cat.mutex);
    if (!rc)
        rc = ll_op_catalog_number(core, n, err);
    if (!rc)
        *out = n;
    return rc;
}
