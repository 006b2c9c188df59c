/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - records of Spark's sorter spill, over any stream. */
#include <ahead/spill.h>

#include "error.h"
#include "format/parser.h"
#include "format/spill.h"

#include <ahead/read.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNT_BYTES = 4,
    HEADER_BYTES = 12, /* length and prefix */
    PREFIX_AT = 4
};

struct ahead_spill_reader {
    struct ahead_parser p;
    uint32_t max_record_bytes;
    bool compat;
    bool counted; /* `count` was read */
    uint32_t count;
};

/* A record is one piece of memory, header and all: with 32 bits of address that
 * is a limit, too. */
static uint32_t max_record_bytes(const struct ahead_spill_options *opt)
{
    uint64_t max = opt->max_record_bytes ? opt->max_record_bytes : INT32_MAX;

    if (max > AHEAD_ELEMENT_MAX_BYTES - HEADER_BYTES)
        max = AHEAD_ELEMENT_MAX_BYTES - HEADER_BYTES;
    return (uint32_t)max;
}

enum ahead_status ahead_spill_reader_open(struct ahead_spill_reader **out, struct ahead_stream *s,
                                          const struct ahead_spill_options *opt)
{
    static const struct ahead_spill_options defaults;
    struct ahead_spill_reader *r = out && s ? malloc(sizeof *r) : NULL;

    if (out)
        *out = r;
    if (!r) {
        (void)ahead_close(s);
        return ahead_fail_errno(out && s ? AHEAD_NOMEM : AHEAD_INVALID);
    }
    if (!opt)
        opt = &defaults;
    *r = (struct ahead_spill_reader){
        .max_record_bytes = max_record_bytes(opt),
        .compat = opt->compat,
    };
    ahead_parser_init(&r->p, s);
    return AHEAD_OK;
}

enum ahead_status ahead_spill_reader_close(struct ahead_spill_reader *r)
{
    enum ahead_status st = r ? ahead_parser_close(&r->p) : AHEAD_OK;

    free(r);
    return st;
}

const struct ahead_error *ahead_spill_error(const struct ahead_spill_reader *r)
{
    return ahead_parser_error(r ? &r->p : NULL);
}

uint64_t ahead_spill_reader_taken(const struct ahead_spill_reader *r, uint64_t *offset)
{
    *offset = r->p.offset;
    return r->p.taken;
}

/* ---- in words ---- */

/* Which record is next. */
struct place {
    char text[80];
};

static struct place place_of(const struct ahead_spill_reader *r)
{
    struct place at;

    snprintf(at.text, sizeof at.text, "record %" PRIu64 " of %" PRIu32 ", at byte %" PRIu64,
             r->p.taken + 1, r->count, r->p.offset);
    return at;
}

/* The next record cannot be had: a clean end, found where `needed` bytes should
 * be, is TRUNCATED here. */
static enum ahead_status
miss_record(struct ahead_spill_reader *r, enum ahead_status st, size_t needed)
{
    struct place at = place_of(r);

    if (st != AHEAD_EOF)
        return ahead_parser_pass(&r->p, st, at.text);
    return ahead_parser_fail(&r->p, AHEAD_TRUNCATED, AHEAD_NO_OFFSET,
                             "%s: the input ends after %zu of %zu bytes", at.text, r->p.found,
                             needed);
}

static enum ahead_status miss_count(struct ahead_spill_reader *r, enum ahead_status st)
{
    if (st != AHEAD_EOF)
        return ahead_parser_pass(&r->p, st, "the count of records");
    return ahead_parser_fail(&r->p, AHEAD_TRUNCATED, AHEAD_NO_OFFSET,
                             "the count of records: the input ends after %zu of %d bytes",
                             r->p.found, COUNT_BYTES);
}

/* ---- the count, the records, the end ---- */

static enum ahead_status read_count(struct ahead_spill_reader *r)
{
    const uint8_t *bytes;
    enum ahead_status st = ahead_parser_show(&r->p, COUNT_BYTES, &bytes);
    int32_t count;

    if (st)
        return miss_count(r, st);
    count = (int32_t)ahead_load_u32_be(bytes);
    if (count < 0)
        return ahead_parser_fail(&r->p, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                                 "the count of records is negative: %" PRId32, count);
    ahead_consume(r->p.stream, COUNT_BYTES);
    r->p.offset += COUNT_BYTES;
    r->count = (uint32_t)count;
    r->counted = true;
    return AHEAD_OK;
}

uint32_t ahead_spill_count(struct ahead_spill_reader *r)
{
    if (r && !r->counted && !r->p.ended)
        (void)read_count(r);
    return r && r->counted ? r->count : 0;
}

/* Behind the last record. */
static enum ahead_status read_end(struct ahead_spill_reader *r)
{
    enum ahead_status st = r->compat ? AHEAD_OK : ahead_finish(r->p.stream);
    char where[48];

    if (!st)
        return ahead_parser_fail(&r->p, AHEAD_EOF, AHEAD_NO_OFFSET, "end of the records");
    snprintf(where, sizeof where, "behind the last of %" PRIu32 " records", r->count);
    return ahead_parser_pass(&r->p, st, where);
}

/* Judge the header of the next record. */
static enum ahead_status read_header(struct ahead_spill_reader *r)
{
    const uint8_t *header;
    enum ahead_status st = ahead_parser_show(&r->p, HEADER_BYTES, &header);
    int32_t len;

    if (st)
        return miss_record(r, st, HEADER_BYTES);
    len = (int32_t)ahead_load_u32_be(header);
    if (len < 0)
        return ahead_parser_fail(&r->p, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                                 "%s: its length is negative: %" PRId32, place_of(r).text, len);
    if ((uint32_t)len > r->max_record_bytes)
        return ahead_parser_fail(&r->p, AHEAD_LIMIT, AHEAD_NO_OFFSET,
                                 "%s: its length of %" PRId32 " is above the limit of %" PRIu32,
                                 place_of(r).text, len, r->max_record_bytes);
    r->p.want = HEADER_BYTES + (size_t)len;
    return AHEAD_OK;
}

enum ahead_status ahead_spill_next(struct ahead_spill_reader *r, struct ahead_spill_record *rec)
{
    const uint8_t *bytes;
    enum ahead_status st;

    if (!r || !rec)
        return AHEAD_INVALID;
    if (r->p.ended)
        return r->p.error.status;
    if (!r->counted && (st = read_count(r)))
        return st;
    if (r->p.taken == r->count)
        return read_end(r);
    if (!r->p.want && (st = read_header(r)))
        return st;
    st = ahead_parser_take(&r->p, &bytes);
    if (st)
        return miss_record(r, st, r->p.want);
    rec->key_prefix = (int64_t)ahead_load_u64_be(bytes + PREFIX_AT);
    rec->data = bytes + HEADER_BYTES;
    rec->len = ahead_load_u32_be(bytes);
    return AHEAD_OK;
}
