/* SPDX-License-Identifier: BSD-2-Clause */
/* Point lookups and lookups by place, for any class. */
#include "operations/dtables/core/dtable.h"

int lladd_dtable_find(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                      struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                      struct lladd_error *err)
{
    while (!t->kind->find)
        t = t->base;
    return t->kind->find(t, key, pin, place, exact, err);
}

static int decoded(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                   struct lladd_error *err)
{
    if (!t->kind->decode || value->state != LLADD_DTABLE_FOUND)
        return 0;
    return t->kind->decode(t, key, pin, value, err);
}

int ll_dtable__at(const struct lladd_dtable *t, uint64_t place, struct lladd_dtable_pin *pin,
                  struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    struct lladd_dtable_key own;
    if (t->kind->at)
        return t->kind->at(t, place, pin, key, value, err);
    if (!key && value && t->kind->decode)
        key = &own;
    int rc = ll_dtable__at(t->base, place, pin, key, value, err);
    return rc || !value ? rc : decoded(t, key, pin, value, err);
}

/* Looks the key up by place, if the class has `find`; otherwise asks the base. */
int lladd_dtable_ask_anyhow(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                            struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                            struct lladd_error *err)
{
    out->state = LLADD_DTABLE_ABSENT;
    if (!t->kind->find) {
        int rc = lladd_dtable_ask(t->base, key, pin, out, err);
        return rc ? rc : decoded(t, key, pin, out, err);
    }
    uint64_t place;
    bool exact;
    int rc = t->kind->find(t, key, pin, &place, &exact, err);
    if (rc || !exact)
        return rc;
    return ll_dtable__at(t, place, pin, NULL, out, err);
}

int lladd_dtable_lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                        struct lladd_error *err)
{
    TRY(ll_dtable__here(t, err));
    TRY(lladd_dtable_check_key(&t->order, key, err));
    return lladd_dtable_ask(t, key, pin, out, err);
}

int lladd_dtable_get(const struct lladd_dtable *t, const struct lladd_dtable_key *key, void *buf,
                     size_t size, size_t *len, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value value;
    int rc = lladd_dtable_lookup(t, key, &pin, &value, err);
    if (!rc && value.state != LLADD_DTABLE_FOUND) {
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "there is no such key");
    } else if (!rc) {
        lladd_copy(buf, value.bytes.data, value.bytes.len < size ? value.bytes.len : size);
        if (len)
            *len = value.bytes.len;
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

int lladd_dtable_interval_at(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                            struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                            struct lladd_error *err)
{
    int rc = ll_dtable__here(t, err);
    if (!rc && key)
        rc = lladd_dtable_check_key(&t->order, key, err);
    *out = (struct lladd_dtable_interval){.deleted = false};
    if (rc || t->ranges == 0)
        return rc;
    while (!t->kind->interval)
        t = t->base;
    return t->kind->interval(t, key, pins, out, err);
}

enum lladd_dtable_type lladd_dtable_key_type(const struct lladd_dtable *t)
{
    return t->order.type;
}

int lladd_dtable_copy(const struct lladd_dtable *t, uint64_t place, size_t n, unsigned char *out,
                      size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    *width = *got = 0;
    if (!t->kind->copy || !t->has_places || place >= t->places)
        return 0;
    n = n < t->places - place ? n : (size_t)(t->places - place);
    return n ? t->kind->copy(t, place, n, out, room, width, got, err) : 0;
}

bool lladd_dtable_places(const struct lladd_dtable *t, uint64_t *n)
{
    *n = t->has_places ? t->places : 0;
    return t->has_places;
}

int lladd_dtable_at(const struct lladd_dtable *t, uint64_t place, struct lladd_dtable_pin *pin,
                    struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                    struct lladd_error *err)
{
    TRY(ll_dtable__here(t, err));
    if (!t->has_places)
        return lladd_error_set(err, LLADD_BAD_STATE, "rows of a %s have no places", t->kind->name);
    if (place >= t->places)
        return lladd_error_set(err, LLADD_OUT_OF_RANGE,
                               "there is no place %llu: the places are the numbers below %llu",
                               (unsigned long long)place, (unsigned long long)t->places);
    return ll_dtable__at(t, place, pin, key, value, err);
}
