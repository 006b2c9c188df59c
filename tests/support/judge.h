/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - what a reader of spills, of Comet's frames and of an index must answer: the rules of
 * the formats again, over bytes in memory, one after the other, and nothing of the library's. */
#ifndef TESTS_SUPPORT_JUDGE_H
#define TESTS_SUPPORT_JUDGE_H

#include <ahead/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct judged {
    enum ahead_status status; /* the last one */
    uint64_t elements;        /* records or frames in front of it */
    size_t whole;             /* where the last of them ends */
};

static inline uint64_t judge_number(const uint8_t *p, unsigned width, bool big)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < width; i++)
        v += (uint64_t)p[big ? width - 1 - i : i] << 8 * i;
    return v;
}

/* The input stops here, with `end` behind it, where it may not stop. */
static inline struct judged judge_cut(struct judged j, enum ahead_status end)
{
    j.status = end == AHEAD_EOF ? AHEAD_TRUNCATED : end;
    return j;
}

static inline struct judged judge_as(struct judged j, enum ahead_status status)
{
    j.status = status;
    return j;
}

/* n bytes of a spill, then `end`: AHEAD_EOF, or the fault of the layer below. */
static inline struct judged
judge_spill(const uint8_t *p, size_t n, enum ahead_status end, bool compat, uint32_t max_record)
{
    struct judged j = { .whole = 0 };
    uint64_t count;

    if (n < 4)
        return judge_cut(j, end);
    count = judge_number(p, 4, true);
    if (count >> 31)
        return judge_as(j, AHEAD_CORRUPT);
    for (j.whole = 4; j.elements < count; j.elements++) {
        size_t left = n - j.whole;
        uint64_t len;

        if (left < 12)
            return judge_cut(j, end);
        len = judge_number(p + j.whole, 4, true);
        if (len >> 31)
            return judge_as(j, AHEAD_CORRUPT);
        if (len > max_record)
            return judge_as(j, AHEAD_LIMIT);
        if (left - 12 < len)
            return judge_cut(j, end);
        j.whole += 12 + (size_t)len;
    }
    if (compat)
        return judge_as(j, AHEAD_EOF);
    return judge_as(j, n > j.whole ? AHEAD_CORRUPT : end);
}

static inline bool judge_tag(const uint8_t *tag)
{
    char plain[5] = { (char)(tag[0] & 0x7f), (char)tag[1], (char)tag[2], (char)tag[3], 0 };

    return !strcmp(plain, "NONE") || !strcmp(plain, "LZ4_") || !strcmp(plain, "ZSTD") ||
           !strcmp(plain, "SNAP");
}

/* n bytes of Comet's frames, then `end`.  fields < 0: any number; max_frame: of
 * tag and body. */
static inline struct judged
judge_comet(const uint8_t *p, size_t n, enum ahead_status end, int64_t fields, uint64_t max_frame)
{
    struct judged j = { .whole = 0 };

    for (; j.whole < n; j.elements++) {
        const uint8_t *f = p + j.whole;
        size_t left = n - j.whole;
        int64_t length, count;

        if (left < 16)
            return judge_cut(j, end);
        length = (int64_t)judge_number(f, 8, false);
        count = (int64_t)judge_number(f + 8, 8, false);
        if (length < 12 || length - 8 > INT32_MAX)
            return judge_as(j, AHEAD_CORRUPT);
        if (count < 0 || count > INT32_MAX || (fields >= 0 && count != fields))
            return judge_as(j, AHEAD_CORRUPT);
        if ((uint64_t)length - 8 > max_frame)
            return judge_as(j, AHEAD_LIMIT);
        if (left < 20)
            return judge_cut(j, end);
        if (!judge_tag(f + 16))
            return judge_as(j, AHEAD_CORRUPT);
        if (left - 8 < (uint64_t)length)
            return judge_cut(j, end);
        j.whole += 8 + (size_t)length;
    }
    return judge_as(j, end);
}

/* n bytes of an index of a data file: AHEAD_OK or AHEAD_CORRUPT. */
static inline enum ahead_status judge_index(const uint8_t *p, size_t n, uint64_t data_bytes)
{
    int64_t before = 0;

    if (n % 8 || n < 16)
        return AHEAD_CORRUPT;
    for (size_t i = 0; i < n; i += 8) {
        int64_t at = (int64_t)judge_number(p + i, 8, true);

        if (at < before || (i == 0 && at != 0))
            return AHEAD_CORRUPT;
        before = at;
    }
    return (uint64_t)before < data_bytes ? AHEAD_CORRUPT : AHEAD_OK;
}

#endif
