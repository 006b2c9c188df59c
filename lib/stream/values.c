/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - what read.h reads that is not one fixed-width value: arrays,
 * numbers of variable length, strings, lines. */
#include <ahead/read.h>

#include "encoding.h"
#include "stream/buffer.h"
#include "stream/core.h"

#include <string.h>

/* ---- arrays ---- */

enum ahead_status ahead_read_array(struct ahead_stream *s, void *dst, size_t n, size_t width,
                                   bool big_endian, size_t *got)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st = AHEAD_OK;
    size_t done = 0;

    if (got)
        *got = 0;
    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if ((!dst && n > 0) || (width != 2 && width != 4 && width != 8) || n > SIZE_MAX / width)
        return ahead_core_fail(c, AHEAD_INVALID, "an array of %zu values of %zu bytes at %p", n,
                               width, dst);
    if (n == 0)
        return c->reached && ahead_core_unread(c) == 0 ? c->error.status : AHEAD_OK;
    while (done < n) {
        size_t k = ahead_core_unread(c) / width;
        uint8_t *to = (uint8_t *)dst + done * width;

        if (k == 0) {
            if ((st = ahead_core_need(c, width)))
                break;
            continue;
        }
        if (k > n - done)
            k = n - done;
        ahead_encoding_copy(to, s->next, k, width, big_endian);
        s->next += k * width;
        done += k;
    }
    if (got)
        *got = done;
    if (st == AHEAD_EOF && done > 0)
        return ahead_core_fail(c, AHEAD_TRUNCATED, "the input ends after %zu of %zu values", done,
                               n);
    return st;
}

/* ---- numbers of variable length ---- */

enum ahead_status ahead_read_varint(struct ahead_stream *s, unsigned bits, uint64_t *v)
{
    struct ahead_core *c = ahead_core_of(s);
    uint64_t value = 0;
    enum ahead_status st;

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (!v || (bits != 32 && bits != 64))
        return ahead_core_fail(c, AHEAD_INVALID, "a number of %u bits to %p", bits, (void *)v);
    for (unsigned shift = 0; shift < bits; shift += 7) {
        unsigned i = shift / 7;
        uint8_t byte;

        if ((st = ahead_core_need(c, i + 1)))
            return st;
        byte = s->next[i];
        if (bits - shift < 7 && (byte & 0x7f) >> (bits - shift))
            return ahead_core_fail(c, AHEAD_CORRUPT,
                                   "a number of variable length has more than %u bits", bits);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            s->next += i + 1;
            *v = value;
            return AHEAD_OK;
        }
    }
    return ahead_core_fail(c, AHEAD_CORRUPT, "a number of variable length has more than %u bytes",
                           (bits + 6) / 7);
}

/* ---- strings ---- */

enum ahead_status ahead_read_utf(struct ahead_stream *s, char *dst, size_t cap, size_t *len)
{
    struct ahead_core *c = ahead_core_of(s);
    const uint8_t *p;
    size_t n, have, bad;
    enum ahead_status st;

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (!len || (!dst && cap > 0))
        return ahead_core_fail(c, AHEAD_INVALID, "a string has to say where and how long");
    *len = 0;
    if ((st = ahead_core_need(c, 2)))
        return st;
    n = ahead_load_u16_be(s->next);
    if (n > cap) {
        *len = n;
        return ahead_core_fail(c, AHEAD_LIMIT, "a string of %zu bytes does not fit into %zu", n,
                               cap);
    }
    if ((st = ahead_core_peek(c, 2 + n, &p, &have)))
        return st == AHEAD_EOF ? AHEAD_TRUNCATED : st;
    if (!ahead_encoding_is_modified_utf8(p + 2, n, &bad))
        return ahead_core_fail(c, AHEAD_CORRUPT,
                               "byte %zu of a string of %zu bytes is not modified UTF-8", bad, n);
    if (n > 0)
        memcpy(dst, p + 2, n);
    *len = n;
    s->next += 2 + n;
    return AHEAD_OK;
}

/* ---- lines and the like ---- */

enum ahead_status ahead_read_until(struct ahead_stream *s, uint8_t delim, size_t max,
                                   const uint8_t **data, size_t *len)
{
    struct ahead_core *c = ahead_core_of(s);
    size_t seen = 0, have;
    const uint8_t *found = NULL;
    enum ahead_status st = AHEAD_OK;

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (!data || !len)
        return ahead_core_fail(c, AHEAD_INVALID, "a line has to say where and how long");
    *data = NULL;
    *len = 0;
    if (max == 0)
        max = AHEAD_MAX_GATHER_BYTES;
    for (;;) {
        have = ahead_core_unread(c) < max ? ahead_core_unread(c) : max;
        found = memchr(s->next + seen, delim, have - seen);
        if (found || st)
            break;
        if (have == max)
            return ahead_core_fail(c, AHEAD_LIMIT, "no byte 0x%02x within %zu bytes", delim, max);
        seen = have;
        /* Twice as much each time, so that gathering a long line is linear. */
        st = ahead_core_more(c, 2 * have + AHEAD_PAGE);
    }
    if (st && (st != AHEAD_EOF || have == 0))
        return st;
    *data = s->next;
    *len = found ? (size_t)(found - s->next) + 1 : have;
    s->next += *len;
    if (!st)
        return AHEAD_OK;
    return ahead_core_fail(c, AHEAD_TRUNCATED, "the input ends without a byte 0x%02x", delim);
}
