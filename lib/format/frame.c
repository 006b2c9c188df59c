/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - length-prefixed frames by description, over any stream. */
#include <ahead/frame.h>

#include "error.h"
#include "format/parser.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct ahead_frame_reader {
    struct ahead_parser p;
    struct ahead_frame_format fmt; /* first_bytes is never 0 here */
    uint64_t least_length;         /* that min_length and the header allow */
};

/* ---- the description ---- */

/* The greatest number that the length field holds. */
static uint64_t field_max(const struct ahead_frame_format *fmt)
{
    return UINT64_MAX >> 8 * (8 - fmt->length_bytes);
}

/* A length that ends inside the header is no length, whatever min_length says. */
static uint64_t least_length(const struct ahead_frame_format *fmt)
{
    uint64_t header = fmt->header_bytes - fmt->length_counts_from;

    return fmt->min_length > header ? fmt->min_length : header;
}

static bool is_sound(const struct ahead_frame_format *fmt)
{
    uint32_t first = fmt->first_bytes ? fmt->first_bytes : fmt->header_bytes;

    if (fmt->header_bytes > AHEAD_FRAME_MAX_HEADER_BYTES)
        return false;
    if (first > fmt->header_bytes || fmt->length_counts_from > fmt->header_bytes)
        return false;
    if (fmt->length_bytes == 0 || fmt->length_bytes > 8 || fmt->length_bytes > first ||
        fmt->length_offset > first - fmt->length_bytes)
        return false;
    if (fmt->max_length && least_length(fmt) > fmt->max_length)
        return false;
    return least_length(fmt) <= field_max(fmt);
}

enum ahead_status ahead_frame_reader_open(struct ahead_frame_reader **out, struct ahead_stream *s,
                                          const struct ahead_frame_format *fmt)
{
    bool valid = out && s && fmt && is_sound(fmt);
    struct ahead_frame_reader *r = valid ? malloc(sizeof *r) : NULL;

    if (out)
        *out = r;
    if (!r) {
        (void)ahead_close(s);
        return ahead_fail_errno(valid ? AHEAD_NOMEM : AHEAD_INVALID);
    }
    *r = (struct ahead_frame_reader){ .fmt = *fmt, .least_length = least_length(fmt) };
    if (r->fmt.first_bytes == 0)
        r->fmt.first_bytes = fmt->header_bytes;
    ahead_parser_init(&r->p, s);
    return AHEAD_OK;
}

enum ahead_status ahead_frame_reader_close(struct ahead_frame_reader *r)
{
    enum ahead_status st = r ? ahead_parser_close(&r->p) : AHEAD_OK;

    free(r);
    return st;
}

const struct ahead_error *ahead_frame_error(const struct ahead_frame_reader *r)
{
    return ahead_parser_error(r ? &r->p : NULL);
}

/* ---- in words ---- */

/* Which frame is next. */
struct place {
    char text[80];
};

static struct place place_of(const struct ahead_frame_reader *r)
{
    struct place at;

    snprintf(at.text, sizeof at.text, "frame %" PRIu64 ", at byte %" PRIu64, r->p.taken + 1,
             r->p.offset);
    return at;
}

/* The next frame cannot be had: a clean end, found where `needed` bytes should
 * be, is TRUNCATED here unless it is in front of the frame. */
static enum ahead_status
miss_frame(struct ahead_frame_reader *r, enum ahead_status st, size_t needed)
{
    if (st != AHEAD_EOF)
        return ahead_parser_pass(&r->p, st, place_of(r).text);
    if (r->p.found == 0)
        return ahead_parser_fail(&r->p, AHEAD_EOF, AHEAD_NO_OFFSET, "end of the frames");
    return ahead_parser_fail(&r->p, AHEAD_TRUNCATED, r->p.offset,
                             "%s: the input ends after %zu of %zu bytes", place_of(r).text,
                             r->p.found, needed);
}

/* ---- the header ---- */

static uint64_t load_length(const struct ahead_frame_format *fmt, const uint8_t *header)
{
    const uint8_t *field = header + fmt->length_offset;
    uint64_t length = 0;

    for (uint32_t i = 0; i < fmt->length_bytes; i++)
        length = length << 8 | field[fmt->big_endian ? i : fmt->length_bytes - 1 - i];
    return length;
}

static enum ahead_status check(struct ahead_frame_reader *r, const uint8_t *header, uint32_t have)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st =
        r->fmt.check ? r->fmt.check(header, have, r->fmt.check_ctx, &err) : AHEAD_OK;

    if (!st)
        return AHEAD_OK;
    err.status = st;
    ahead_error_make_ending(&err, "check");
    return ahead_parser_fail(&r->p, err.status, r->p.offset, "%s: %s", place_of(r).text, err.text);
}

/* Judge what can be known from first_bytes, in the order of the rules: what the
 * format forbids comes before what the caller limits. */
static enum ahead_status judge_first(struct ahead_frame_reader *r, const uint8_t *header)
{
    uint64_t length = load_length(&r->fmt, header);
    uint64_t body = length - (r->fmt.header_bytes - r->fmt.length_counts_from);
    enum ahead_status st;

    if (length < r->least_length)
        return ahead_parser_fail(&r->p, AHEAD_CORRUPT, r->p.offset,
                                 "%s: its length of %" PRIu64 " is below the least, %" PRIu64,
                                 place_of(r).text, length, r->least_length);
    st = check(r, header, r->fmt.first_bytes);
    if (st)
        return st;
    if (r->fmt.max_length && length > r->fmt.max_length)
        return ahead_parser_fail(&r->p, AHEAD_LIMIT, r->p.offset,
                                 "%s: its length of %" PRIu64 " is above the limit of %" PRIu64,
                                 place_of(r).text, length, r->fmt.max_length);
    if (body > AHEAD_ELEMENT_MAX_BYTES - r->fmt.header_bytes)
        return ahead_parser_fail(&r->p, AHEAD_LIMIT, r->p.offset,
                                 "%s: its length of %" PRIu64 " is above what memory can hold",
                                 place_of(r).text, length);
    return AHEAD_OK;
}

static enum ahead_status read_header(struct ahead_frame_reader *r)
{
    const struct ahead_frame_format *fmt = &r->fmt;
    const uint8_t *header;
    enum ahead_status st = ahead_parser_show(&r->p, fmt->first_bytes, &header);

    if (st)
        return miss_frame(r, st, fmt->first_bytes);
    st = judge_first(r, header);
    if (!st && fmt->first_bytes < fmt->header_bytes) {
        st = ahead_parser_show(&r->p, fmt->header_bytes, &header);
        if (st)
            return miss_frame(r, st, fmt->header_bytes);
        st = check(r, header, fmt->header_bytes);
    }
    if (!st)
        r->p.want = (size_t)(load_length(fmt, header) + fmt->length_counts_from);
    return st;
}

enum ahead_status ahead_frame_next(struct ahead_frame_reader *r, struct ahead_frame *f)
{
    const uint8_t *bytes;
    uint64_t offset;
    size_t len;
    enum ahead_status st;

    if (!r || !f)
        return AHEAD_INVALID;
    if (r->p.ended)
        return r->p.error.status;
    if (!r->p.want && (st = read_header(r)))
        return st;
    offset = r->p.offset;
    len = r->p.want;
    st = ahead_parser_take(&r->p, &bytes);
    if (st)
        return miss_frame(r, st, len);
    *f = (struct ahead_frame){
        .header = bytes,
        .body = bytes + r->fmt.header_bytes,
        .body_len = len - r->fmt.header_bytes,
        .offset = offset,
    };
    return AHEAD_OK;
}
