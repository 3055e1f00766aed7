/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_COMMON_WEATHER_H
#define LL_BENCH_COMMON_WEATHER_H
/* Readings of weather stations, with the columns of the Rose paper (section 5.1, table 3): all are
 * integers, and floating point numbers of two digits are multiplied by 100. A seed and a number of
 * tuples always give the same tuples. They are not the paper's data, which cannot be had.
 *
 * Each station has a position of its own and a reading every hour, one in ten up to ten minutes
 * late. From reading to reading the temperature changes by 0.30 at most. In one of three readings
 * the wind's direction changes by 20 degrees at most, in one of two its speed by 3 at most, and one
 * of eight has new conditions, one of forty texts. One reading in ten has a gust; the others have
 * the paper's -9999. */
#include <stddef.h>
#include <stdint.h>

enum {
    WEATHER_KEY = 12,
    WEATHER_VALUE = 32,
    WEATHER_TUPLE = WEATHER_KEY + WEATHER_VALUE,
    WEATHER_READINGS = 2000, /* of each station */
    WEATHER_COLUMNS = 7
};

/* The fields of a tuple: three of the key, and the columns of the value. */
struct weather_reading {
    int32_t longitude, latitude; /* hundredths of a degree */
    uint32_t time;               /* seconds since 1970 */
    uint64_t conditions;         /* twelve characters of five bits */
    int32_t station, elevation, temperature, wind_direction, wind_speed, gust;
};

/* A key is longitude, latitude and time, big-endian; the highest bit of the first two is inverted,
 * so that the order of bytes is that of the numbers. A value has the conditions as u64 and six i32,
 * little-endian. */
struct weather_tuple {
    unsigned char key[WEATHER_KEY], value[WEATHER_VALUE];
};

/* Makes n tuples in random order. NULL: no memory. Free with free(). */
struct weather_tuple *weather_tuples(size_t n, uint64_t seed);
struct weather_reading weather_reading(const struct weather_tuple *);

#endif
