/* SPDX-License-Identifier: BSD-2-Clause */
/* Generates readings of weather stations; see common_weather.h. */
#include "common_weather.h"

#include "common.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

#define SIGN UINT32_C(0x80000000)
enum { TEXTS = 40, WIDE = 36000, HIGH = 18000, HOUR = 3600, LATE = 600, NONE = -9999 };
/* May 2007, as in the paper. */
#define BEGIN UINT32_C(1178000000)
/* Has no divisor in common with WIDE * HIGH, so no two stations have the same position. */
#define STRIDE UINT64_C(393342743)

struct source {
    uint64_t seed;
    uint64_t texts[TEXTS];
};

static uint32_t below(struct source *s, uint32_t n)
{
    return (uint32_t)((bench_random(&s->seed) >> 32) * n >> 32);
}

static struct weather_reading first_of(struct source *s, uint32_t station)
{
    uint64_t place = (station + 1) * STRIDE % ((uint64_t)WIDE * HIGH);
    return (struct weather_reading){
        .longitude = (int32_t)(place / HIGH) - WIDE / 2,
        .latitude = (int32_t)(place % HIGH) - HIGH / 2,
        .time = BEGIN + below(s, LATE),
        .conditions = s->texts[0],
        .station = (int32_t)station,
        .elevation = (int32_t)below(s, 2000),
        .temperature = 1500,
        .wind_direction = 180,
        .wind_speed = 10,
        .gust = NONE,
    };
}

static void go_on(struct source *s, struct weather_reading *r)
{
    r->time += HOUR + (below(s, 10) == 0 ? below(s, LATE) : 0);
    r->temperature += (int32_t)below(s, 61) - 30;
    if (below(s, 3) == 0)
        r->wind_direction = (r->wind_direction + 10 * (int32_t)below(s, 5) - 20 + 360) % 360;
    if (below(s, 2) == 0)
        r->wind_speed += (int32_t)below(s, 7) - 3;
    r->wind_speed = r->wind_speed < 0 ? 0 : r->wind_speed;
    if (below(s, 8) == 0)
        r->conditions = s->texts[below(s, TEXTS)];
    r->gust = below(s, 10) == 0 ? 2 * r->wind_speed + (int32_t)below(s, 20) : NONE;
}

static void put_big(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (24 - 8 * i));
}

static uint32_t get_big(const unsigned char *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void pack(const struct weather_reading *r, struct weather_tuple *t)
{
    const int32_t columns[] = {r->station,        r->elevation,  r->temperature,
                               r->wind_direction, r->wind_speed, r->gust};
    put_big(t->key, (uint32_t)r->longitude ^ SIGN);
    put_big(t->key + 4, (uint32_t)r->latitude ^ SIGN);
    put_big(t->key + 8, r->time);
    lladd_put64(t->value, r->conditions);
    for (int i = 0; i < WEATHER_COLUMNS - 1; i++)
        lladd_put32(t->value + 8 + 4 * i, (uint32_t)columns[i]);
}

struct weather_reading weather_reading(const struct weather_tuple *t)
{
    int32_t columns[WEATHER_COLUMNS - 1];
    for (int i = 0; i < WEATHER_COLUMNS - 1; i++)
        columns[i] = (int32_t)lladd_get32(t->value + 8 + 4 * i);
    return (struct weather_reading){
        .longitude = (int32_t)(get_big(t->key) ^ SIGN),
        .latitude = (int32_t)(get_big(t->key + 4) ^ SIGN),
        .time = get_big(t->key + 8),
        .conditions = lladd_get64(t->value),
        .station = columns[0],
        .elevation = columns[1],
        .temperature = columns[2],
        .wind_direction = columns[3],
        .wind_speed = columns[4],
        .gust = columns[5],
    };
}

static void shuffle(struct source *s, struct weather_tuple *t, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)(bench_random(&s->seed) % i);
        struct weather_tuple x = t[i - 1];
        t[i - 1] = t[other];
        t[other] = x;
    }
}

struct weather_tuple *weather_tuples(size_t n, uint64_t seed)
{
    struct source s = {.seed = seed};
    struct weather_reading now = {.time = 0};
    struct weather_tuple *t = malloc((n ? n : 1) * sizeof *t);
    for (int i = 0; i < TEXTS; i++)
        s.texts[i] = bench_random(&s.seed) >> 4;
    for (size_t i = 0; t && i < n; i++) {
        if (i % WEATHER_READINGS == 0)
            now = first_of(&s, (uint32_t)(i / WEATHER_READINGS));
        else
            go_on(&s, &now);
        pack(&now, &t[i]);
    }
    if (t)
        shuffle(&s, t, n);
    return t;
}
