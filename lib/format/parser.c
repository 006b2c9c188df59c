/* SPDX-License-Identifier: Apache-2.0 */
/* parser.c - elements of a stream, each in one piece of memory. */
#include "format/parser.h"

#include "error.h"

#include <ahead/read.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Up to this size the stream gathers an element that does not lie in one piece;
 * it is the first step of the parser's own memory as well. */
#define STEP_BYTES ((size_t)1 << 20)

/* What a peek can show at most. */
#define SHOW_BYTES ((size_t)64 << 20)

void ahead_parser_init(struct ahead_parser *p, struct ahead_stream *s)
{
    *p = (struct ahead_parser){
        .stream = s,
        .offset = ahead_tell(s),
        .error = { .source_offset = AHEAD_NO_OFFSET },
    };
}

enum ahead_status ahead_parser_close(struct ahead_parser *p)
{
    enum ahead_status st = p->ended ? p->error.status : AHEAD_OK;
    enum ahead_status closed = ahead_close(p->stream);

    free(p->own);
    if (st == AHEAD_OK || st == AHEAD_EOF || st == AHEAD_CANCELLED)
        return closed;
    if (st == AHEAD_IO)
        errno = p->error.os_errno;
    return st;
}

/* The stream has given `found` of the bytes that were asked for, and `st`.  Of
 * its own, TRUNCATED means a clean end in between; of the layer below, a cut.
 * Behind the last byte it says which: EOF, or that fault. */
static enum ahead_status came_short(struct ahead_parser *p, enum ahead_status st, size_t found)
{
    const uint8_t *rest;
    size_t len;

    p->found = found;
    if (st != AHEAD_TRUNCATED)
        return st;
    p->stream->next = p->stream->end;
    return ahead_peek(p->stream, 1, &rest, &len);
}

static size_t at_hand(const struct ahead_stream *s)
{
    return (size_t)(s->end - s->next);
}

const struct ahead_error *ahead_parser_error(const struct ahead_parser *p)
{
    static const struct ahead_error none = {
        .status = AHEAD_INVALID,
        .source_offset = AHEAD_NO_OFFSET,
        .text = "there is no reader",
    };

    return p ? &p->error : &none;
}

enum ahead_status ahead_parser_show(struct ahead_parser *p, size_t n, const uint8_t **bytes)
{
    enum ahead_status st;
    size_t len = 0;

    *bytes = p->stream->next;
    if (n <= at_hand(p->stream))
        return AHEAD_OK;
    st = ahead_peek(p->stream, n, bytes, &len);
    return st ? came_short(p, st, len) : AHEAD_OK;
}

/* Whether the stream is to show the element: a small one, or one that has
 * arrived, which it need not copy unless a buffer ends inside.  Not one that was
 * begun otherwise, though: what has arrived is the rest, and what follows. */
static bool is_shown(const struct ahead_parser *p)
{
    if (p->have > 0)
        return false;
    return p->want <= STEP_BYTES || (p->want <= SHOW_BYTES && p->want <= ahead_buffered(p->stream));
}

/* Room for one byte more: twice what there is, but no more than is wanted. */
static bool grow(struct ahead_parser *p)
{
    size_t cap = p->own_cap < STEP_BYTES ? STEP_BYTES : 2 * p->own_cap;
    uint8_t *own;

    if (cap > p->want)
        cap = p->want;
    own = realloc(p->own, cap);
    if (!own)
        return false;
    p->own = own;
    p->own_cap = cap;
    return true;
}

static enum ahead_status gather(struct ahead_parser *p)
{
    while (p->have < p->want) {
        enum ahead_status st;
        size_t n, got;

        if (p->have == p->own_cap && !grow(p))
            return AHEAD_NOMEM;
        n = (p->own_cap < p->want ? p->own_cap : p->want) - p->have;
        st = ahead_read_full(p->stream, p->own + p->have, n, &got);
        p->have += got;
        if (st)
            return came_short(p, st, p->have);
    }
    return AHEAD_OK;
}

enum ahead_status ahead_parser_take(struct ahead_parser *p, const uint8_t **bytes)
{
    enum ahead_status st;

    if (is_shown(p)) {
        st = ahead_parser_show(p, p->want, bytes);
        if (st)
            return st;
        p->stream->next += p->want;
    } else {
        st = gather(p);
        if (st)
            return st;
        *bytes = p->own;
        p->have = 0;
    }
    p->offset += p->want;
    p->want = 0;
    p->taken++;
    return AHEAD_OK;
}

enum ahead_status ahead_parser_fail(struct ahead_parser *p, enum ahead_status st,
                                    uint64_t source_offset, const char *format, ...)
{
    va_list args;

    p->ended = true;
    p->error = (struct ahead_error){
        .status = st,
        .offset = p->offset,
        .source_offset = source_offset,
    };
    va_start(args, format);
    vsnprintf(p->error.text, sizeof p->error.text, format, args);
    va_end(args);
    return st;
}

/* What there is to say of a status that the stream has nothing to say of. */
static struct ahead_error unsaid(enum ahead_status st)
{
    struct ahead_error err;

    ahead_error_set(&err, st, AHEAD_NO_OFFSET, "%s",
                    st == AHEAD_NOMEM ? "no memory to hold it in one piece"
                                      : ahead_status_name(st));
    return err;
}

enum ahead_status ahead_parser_pass(struct ahead_parser *p, enum ahead_status st, const char *where)
{
    struct ahead_error below = *ahead_error(p->stream);

    if (below.status != st)
        below = unsaid(st);
    ahead_parser_fail(p, st, below.source_offset, "%s: %s", where, below.text);
    p->error.os_errno = below.os_errno;
    p->ended = st != AHEAD_TIMEDOUT && st != AHEAD_INVALID;
    return st;
}
