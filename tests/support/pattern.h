/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - test data whose every byte depends on its position, so that a lost, a doubled or a
 * foreign piece is seen. */
#ifndef TESTS_SUPPORT_PATTERN_H
#define TESTS_SUPPORT_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes 8 * k to 8 * k + 7, the first of them lowest: a mixer in the manner of
 * splitmix64, whose output has no period that a test could meet. */
static inline uint64_t pattern_word(uint64_t k)
{
    uint64_t x = (k + 1) * 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint8_t pattern_byte(uint64_t pos)
{
    return (uint8_t)(pattern_word(pos / 8) >> 8 * (pos % 8));
}

/* `bytes` of it from pos on as a number, the first of them lowest. */
static inline uint64_t pattern_number(uint64_t pos, unsigned bytes)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < bytes; i++)
        n |= (uint64_t)pattern_byte(pos + i) << 8 * i;
    return n;
}

static inline void pattern_fill(void *dst, uint64_t pos, size_t len)
{
    uint8_t *p = dst;

    while (len > 0) {
        uint64_t word = pattern_word(pos / 8) >> 8 * (pos % 8);
        size_t n = 8 - (size_t)(pos % 8);

        if (n > len)
            n = len;
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(word >> 8 * i);
        p += n;
        pos += n;
        len -= n;
    }
}

/* How many of the first bytes at `p` are the pattern's from `pos` on: len if all. */
static inline size_t pattern_match(const void *p, uint64_t pos, size_t len)
{
    const uint8_t *bytes = p;
    size_t i = 0;

    while (i < len) {
        uint64_t word = pattern_word((pos + i) / 8) >> 8 * ((pos + i) % 8);
        size_t n = 8 - (size_t)((pos + i) % 8);

        for (size_t k = 0; k < n && i < len; k++, i++)
            if (bytes[i] != (uint8_t)(word >> 8 * k))
                return i;
    }
    return len;
}

/* Numbers for tests that choose at random; the seed makes a run repeatable. */
static inline uint64_t pattern_random(uint64_t *seed)
{
    return pattern_word((*seed)++);
}

/* 0 to n - 1; n > 0. */
static inline uint64_t random_below(uint64_t *seed, uint64_t n)
{
    return pattern_random(seed) % n;
}

#endif
