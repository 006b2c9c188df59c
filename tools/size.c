/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - sizes, rates and times as people write and read them. */
#include "size.h"

#include <stdio.h>
#include <time.h>

/* As a power of two; 0 if it is no unit. */
static unsigned unit_shift(char unit)
{
    switch (unit) {
    case 'K': return 10;
    case 'M': return 20;
    case 'G': return 30;
    }
    return 0;
}

bool size_parse(const char *text, size_t len, uint64_t *bytes)
{
    unsigned shift = len > 0 ? unit_shift(text[len - 1]) : 0;
    uint64_t n = 0;

    len -= shift > 0;
    if (len == 0)
        return false;
    for (; len > 0; len--, text++) {
        unsigned digit = (unsigned)(unsigned char)*text - '0';

        if (digit > 9 || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    if (n > UINT64_MAX >> shift)
        return false;
    *bytes = n << shift;
    return true;
}

/* Of values from 1 on; those from 1000 have more. */
static const char *three_digits(char text[SIZE_TEXT], double value, const char *unit)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

    snprintf(text, SIZE_TEXT, "%.*f %s", decimals, value, unit);
    return text;
}

const char *size_format(char text[SIZE_TEXT], double bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t i = 0;

    if (bytes < 1023.5) {
        snprintf(text, SIZE_TEXT, "%.0f B", bytes);
        return text;
    }
    for (bytes /= 1024; bytes >= 1023.5 && i + 1 < sizeof units / sizeof *units; i++)
        bytes /= 1024;
    return three_digits(text, bytes, units[i]);
}

const char *time_format(char text[SIZE_TEXT], uint64_t ns)
{
    static const char *const units[] = { "us", "ms", "s" };
    double value = (double)ns / 1e3;
    size_t i = 0;

    if (ns < 1000) {
        snprintf(text, SIZE_TEXT, "%u ns", (unsigned)ns);
        return text;
    }
    for (; value >= 999.5 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1e3;
    return three_digits(text, value, units[i]);
}

const char *rate_format(char text[SIZE_TEXT], uint64_t bytes, uint64_t ns)
{
    char size[SIZE_TEXT] = "-";

    if (ns > 0)
        size_format(size, (double)bytes * 1e9 / (double)ns);
    snprintf(text, SIZE_TEXT, "%.20s%s", size, ns > 0 ? "/s" : "");
    return text;
}

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
