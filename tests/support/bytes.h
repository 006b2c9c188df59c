/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - inputs put together in memory, number by number, and streams over them. */
#ifndef TESTS_SUPPORT_BYTES_H
#define TESTS_SUPPORT_BYTES_H

#include <ahead/ahead.h>

#include "support/expect.h"
#include "support/pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* All zero: none yet.  Free `p`. */
struct bytes {
    uint8_t *p;
    size_t len, cap;
};

/* Room for n more. */
static inline uint8_t *bytes_reserve(struct bytes *b, size_t n)
{
    if (n >= b->cap - b->len) {
        b->cap = 2 * b->cap + n + 1;
        b->p = realloc(b->p, b->cap);
        expect_true(b->p);
    }
    return b->p + b->len;
}

static inline void bytes_add(struct bytes *b, const void *p, size_t n)
{
    uint8_t *to = bytes_reserve(b, n);

    if (n > 0)
        memcpy(to, p, n);
    b->len += n;
}

static inline void bytes_add_number(struct bytes *b, uint64_t v, unsigned width, bool big)
{
    uint8_t *to = bytes_reserve(b, width);

    for (unsigned i = 0; i < width; i++)
        to[big ? width - 1 - i : i] = (uint8_t)(v >> 8 * i);
    b->len += width;
}

static inline void bytes_add_zeros(struct bytes *b, size_t n)
{
    memset(bytes_reserve(b, n), 0, n);
    b->len += n;
}

/* n bytes of the pattern, from where they stand. */
static inline void bytes_add_pattern(struct bytes *b, size_t n)
{
    pattern_fill(bytes_reserve(b, n), b->len, n);
    b->len += n;
}

static inline struct ahead_stream *over_memory(const void *p, size_t len, size_t buffer_bytes)
{
    struct ahead_options opt = { .buffer_bytes = buffer_bytes };
    struct ahead_source src;
    struct ahead_stream *s;

    expect_status(ahead_source_memory(&src, p, len), AHEAD_OK);
    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    return s;
}

#endif
