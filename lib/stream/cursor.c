/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.c - the reader's side: the one slow path under every read, and all
 * calls that move or show the window. */
#include "error.h"
#include "stream/buffer.h"
#include "stream/core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what went wrong ---- */

enum ahead_status
ahead_core_fail(struct ahead_core *c, enum ahead_status st, const char *format, ...)
{
    va_list args;

    if (c->reached)
        return st;
    c->error = (struct ahead_error){
        .status = st,
        .offset = ahead_tell(&c->hot),
        .source_offset = AHEAD_NO_OFFSET,
    };
    va_start(args, format);
    vsnprintf(c->error.text, sizeof c->error.text, format, args);
    va_end(args);
    return st;
}

enum ahead_status ahead_core_short(struct ahead_core *c, enum ahead_status st, size_t needed)
{
    if (st != AHEAD_EOF || ahead_core_unread(c) == 0)
        return st;
    return ahead_core_fail(c, AHEAD_TRUNCATED, "the input ends after %zu of %zu bytes",
                           ahead_core_unread(c), needed);
}

enum ahead_status ahead_core_fail_timeout(struct ahead_core *c)
{
    return ahead_core_fail(c, AHEAD_TIMEDOUT, "no byte within %u ms", c->read_timeout_ms);
}

static enum ahead_status fail_forked(struct ahead_core *c)
{
    return ahead_core_fail(c, AHEAD_INVALID,
                           "the stream was opened in another process, before a fork");
}

/* ---- the window ---- */

void ahead_core_reset_window(struct ahead_core *c, uint64_t offset)
{
    c->hot.next = c->hot.end = c->low = c->seam;
    c->end_offset = offset;
    c->in_half = false;
}

/* Room for n more bytes behind the window, which is in the gather buffer
 * afterwards.  false: no memory. */
static bool reserve_gather(struct ahead_core *c, size_t n)
{
    size_t unread = ahead_core_unread(c);
    uint8_t *old = c->gather;
    bool inside = old && c->hot.next >= old && c->hot.next <= old + c->gather_cap;

    if (inside && n <= (size_t)(old + c->gather_cap - c->hot.end))
        return true;
    if (!old || unread + n > c->gather_cap) {
        size_t cap = c->gather_cap * 2 > unread + n ? c->gather_cap * 2 : unread + n;
        uint8_t *gather;

        if (cap < AHEAD_PAGE)
            cap = AHEAD_PAGE;
        gather = malloc(cap + AHEAD_SLACK);
        if (!gather)
            return false;
        c->gather = gather;
        c->gather_cap = cap;
    }
    memmove(c->gather, c->hot.next, unread);
    if (c->gather != old)
        free(old);
    c->hot.next = c->low = c->gather;
    c->hot.end = c->gather + unread;
    c->in_half = false;
    return true;
}

/* Before a half is given back: move what is unread out of it. */
static bool save_unread(struct ahead_core *c)
{
    size_t unread = ahead_core_unread(c);

    if (!c->in_half)
        return true;
    if (unread > AHEAD_SEAM)
        return reserve_gather(c, 0);
    memcpy(c->seam, c->hot.next, unread);
    c->hot.next = c->low = c->seam;
    c->hot.end = c->seam + unread;
    c->in_half = false;
    return true;
}

/* Grow the window by published bytes.  One that lies beside the half moves
 * into it, its bytes in front of the new ones: those that the half has are in
 * their place already, the others go in front of its start.  Only when they
 * do not fit there are bytes gathered.  false: no memory. */
static bool extend(struct ahead_core *c, size_t want)
{
    size_t unread = ahead_core_unread(c), missing, from, n;
    uint8_t *bytes;

    if (c->in_half) {
        n = ahead_swap_take(&c->swap, SIZE_MAX, &bytes, &from);
    } else {
        ahead_swap_take(&c->swap, 0, &bytes, &from);
        missing = unread > from ? unread - from : 0;
        if (missing > AHEAD_PAGE) {
            n = want > unread ? want - unread : 1;
            if (n > ahead_swap_ready_bytes(&c->swap))
                n = ahead_swap_ready_bytes(&c->swap);
            if (!reserve_gather(c, n))
                return false;
            n = ahead_swap_take(&c->swap, n, &bytes, &from);
            memcpy((uint8_t *)c->hot.end, bytes + from, n);
        } else {
            if (missing > 0)
                memcpy(bytes - missing, c->hot.next, missing);
            c->hot.next = bytes + from - unread;
            c->hot.end = bytes + from;
            c->low = bytes - missing;
            c->in_half = true;
            n = ahead_swap_take(&c->swap, SIZE_MAX, &bytes, &from);
        }
    }
    c->hot.end += n;
    c->end_offset += n;
    return true;
}

bool ahead_core_source_in_time(struct ahead_core *c)
{
    const struct ahead_split_ops *split = c->src.ops->split;

    if (!c->read_timeout_ms || !c->swap.may_block || !split || !split->wait)
        return true;
    return split->wait(c->src.ctx, c->read_timeout_ms);
}

/* Point the window, in which nothing is unread, at the bytes that were taken. */
static void show_taken(struct ahead_core *c, const struct ahead_place *place)
{
    c->low = place->bytes;
    c->hot.next = place->bytes + place->off;
    c->hot.end = c->hot.next + place->room;
    c->end_offset += place->room;
    c->in_half = true;
}

/* The reader claims and makes a piece. */
static void make_piece(struct ahead_core *c, struct ahead_place *place)
{
    struct ahead_pool *lender = c->swap.split ? c->swap.pool : NULL;

    if (lender)
        ahead_pool_lend(lender, &c->job);
    ahead_fill_piece(c, &c->job, place, NULL);
    if (lender)
        ahead_pool_take_back(lender, &c->job);
}

static enum ahead_status advance(struct ahead_core *c, size_t want, bool poll)
{
    struct ahead_ask ask = { .timeout_ms = c->read_timeout_ms, .poll = poll };
    struct ahead_place place;
    struct ahead_error ending;
    enum ahead_turn turn;

    if (ahead_core_forked(c))
        return fail_forked(c);
    ask.partial = ahead_core_unread(c) > 0;
    for (;;) {
        turn = ahead_swap_next(&c->swap, ask, &place, &ending);
        if (place.left)
            ahead_core_reset_window(c, c->end_offset);
        switch (turn) {
        case AHEAD_TURN_TAKEN: show_taken(c, &place); return AHEAD_OK;
        case AHEAD_TURN_READY:
            if (!extend(c, want))
                return ahead_core_fail(c, AHEAD_NOMEM, "no memory to gather %zu bytes", want);
            return AHEAD_OK;
        case AHEAD_TURN_ENDED:
            if (ending.status != AHEAD_EOF || !ask.partial) {
                c->error = ending;
                c->reached = true;
                if (!ask.partial && c->swap.pool) {
                    ahead_core_reset_window(c, c->end_offset);
                    ahead_fill_release(c);
                }
            }
            return ending.status;
        case AHEAD_TURN_USED:
            if (!save_unread(c))
                return ahead_core_fail(c, AHEAD_NOMEM, "no memory to gather %zu bytes", want);
            ahead_swap_give_back(&c->swap);
            break;
        case AHEAD_TURN_CLAIM:
            c->calling = true;
            if (ahead_core_source_in_time(c)) {
                make_piece(c, &place);
                c->calling = false;
                if (!place.taken)
                    break;
                show_taken(c, &place);
                return AHEAD_OK;
            }
            c->calling = false;
            ahead_swap_abandon_claim(&c->swap);
            return ahead_core_fail_timeout(c);
        case AHEAD_TURN_START:
            /* Nobody else is in the source yet. */
            if (ahead_swap_wants_thread(&c->swap, ahead_fill_remaining(c)))
                ahead_fill_start(c);
            break;
        case AHEAD_TURN_WAIT: return AHEAD_TIMEDOUT;
        case AHEAD_TURN_TIMEDOUT: return ahead_core_fail_timeout(c);
        }
    }
}

enum ahead_status ahead_core_more(struct ahead_core *c, size_t want)
{
    return advance(c, want, false);
}

enum ahead_status ahead_core_need(struct ahead_core *c, size_t n)
{
    while (ahead_core_unread(c) < n) {
        enum ahead_status st = ahead_core_more(c, n);

        if (st)
            return ahead_core_short(c, st, n);
    }
    return AHEAD_OK;
}

enum ahead_status ahead_need(struct ahead_stream *s, size_t n)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (n > AHEAD_SEAM)
        return ahead_core_fail(c, AHEAD_INVALID, "%zu bytes are more than a typed read has", n);
    return ahead_core_need(c, n);
}

/* ---- read, peek, consume ---- */

/* The status of a request for nothing: OK, or the ending if it was reached. */
static enum ahead_status nothing(const struct ahead_core *c)
{
    return c->reached && ahead_core_unread(c) == 0 ? c->error.status : AHEAD_OK;
}

/* Copies up to len bytes of the window out and consumes them. */
static size_t copy_out(struct ahead_core *c, void *dst, size_t len)
{
    size_t n = ahead_core_unread(c);

    if (n > len)
        n = len;
    if (n > 0)
        memcpy(dst, c->hot.next, n);
    c->hot.next += n;
    return n;
}

enum ahead_status ahead_read(struct ahead_stream *s, void *dst, size_t len, size_t *got)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st = AHEAD_OK;

    if (got)
        *got = 0;
    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (len == 0)
        return nothing(c);
    if (!dst)
        return ahead_core_fail(c, AHEAD_INVALID, "a read of %zu bytes to NULL", len);
    if (ahead_core_unread(c) == 0)
        st = ahead_core_more(c, 1);
    if (!st) {
        len = copy_out(c, dst, len);
        if (got)
            *got = len;
    }
    return st;
}

enum ahead_status ahead_read_full(struct ahead_stream *s, void *dst, size_t len, size_t *got)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st = AHEAD_OK;
    size_t done = 0;

    if (got)
        *got = 0;
    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (len == 0)
        return nothing(c);
    if (!dst)
        return ahead_core_fail(c, AHEAD_INVALID, "a read of %zu bytes to NULL", len);
    while (done < len) {
        if (ahead_core_unread(c) == 0 && (st = ahead_core_more(c, 1)))
            break;
        done += copy_out(c, (uint8_t *)dst + done, len - done);
    }
    if (got)
        *got = done;
    if (st == AHEAD_EOF && done > 0)
        return ahead_core_fail(c, AHEAD_TRUNCATED, "the input ends after %zu of %zu bytes", done,
                               len);
    return st;
}

enum ahead_status
ahead_core_peek(struct ahead_core *c, size_t want, const uint8_t **data, size_t *len)
{
    size_t limit = AHEAD_MAX_GATHER_BYTES;
    enum ahead_status st = AHEAD_OK;

    if (limit < c->buffer_bytes)
        limit = c->buffer_bytes;
    if (want > limit)
        st = ahead_core_fail(c, AHEAD_LIMIT, "a peek of %zu bytes is above the limit of %zu", want,
                             limit);
    else if (want == 0 && ahead_core_unread(c) == 0 && !c->reached)
        (void)advance(c, 0, true);
    while (!st && ahead_core_unread(c) < want)
        if ((st = ahead_core_more(c, want)))
            st = ahead_core_short(c, st, want);
    if (want == 0)
        st = nothing(c);
    *data = c->hot.next;
    *len = ahead_core_unread(c);
    return st;
}

enum ahead_status ahead_peek(struct ahead_stream *s, size_t want, const uint8_t **data, size_t *len)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (!data || !len)
        return ahead_core_fail(c, AHEAD_INVALID, "a peek has to say where and how much");
    return ahead_core_peek(c, want, data, len);
}

void ahead_consume(struct ahead_stream *s, size_t n)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!s)
        return;
    if (n > ahead_core_unread(c)) {
#ifdef AHEAD_CHECKS
        fprintf(stderr, "libahead: ahead_consume(%zu) with %zu bytes at hand\n", n,
                ahead_core_unread(c));
        abort();
#endif
        n = ahead_core_unread(c);
    }
    s->next += n;
}

/* ---- where the reader is ---- */

uint64_t ahead_tell(const struct ahead_stream *s)
{
    const struct ahead_core *c = (const struct ahead_core *)s;

    return s ? c->end_offset - ahead_core_unread(c) : 0;
}

size_t ahead_buffered(struct ahead_stream *s)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!s)
        return 0;
    return ahead_core_unread(c) + (ahead_core_forked(c) ? 0 : ahead_swap_ready_bytes(&c->swap));
}

enum ahead_status ahead_finish(struct ahead_stream *s)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st;

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    st = ahead_core_need(c, 1);
    if (st == AHEAD_EOF)
        return AHEAD_OK;
    if (st)
        return st;
    return ahead_core_fail(c, AHEAD_CORRUPT, "%zu bytes or more follow where the end should be",
                           ahead_buffered(s));
}

const struct ahead_error *ahead_error(const struct ahead_stream *s)
{
    static const struct ahead_error none = {
        .status = AHEAD_INVALID,
        .source_offset = AHEAD_NO_OFFSET,
        .text = "there is no stream",
    };

    return s ? &((const struct ahead_core *)s)->error : &none;
}

void ahead_core_count(struct ahead_core *c)
{
    uint64_t offset = ahead_tell(&c->hot);

    c->counted += offset - c->counted_offset;
    c->counted_offset = offset;
}

/* ---- skip and seek ---- */

/* Moves the window to `offset` if that lies in the bytes at hand. */
static bool seek_at_hand(struct ahead_core *c, uint64_t offset)
{
    uint64_t behind = (uint64_t)(c->hot.end - c->low);

    if (offset <= c->end_offset && c->end_offset - offset <= behind) {
        c->hot.next = c->hot.end - (c->end_offset - offset);
        return true;
    }
    if (offset < c->end_offset || ahead_core_forked(c) ||
        offset - c->end_offset > ahead_swap_ready_bytes(&c->swap))
        return false;
    while (offset > c->end_offset) {
        c->hot.next = c->hot.end;
        if (advance(c, 1, true)) /* never: the bytes are there */
            return false;
    }
    c->hot.next = c->hot.end - (c->end_offset - offset);
    return true;
}

/* Whether the reader asks to go where it has met a fault, by a source that may
 * have got over it. */
static bool tries_again(struct ahead_core *c, uint64_t offset)
{
    return c->reached && offset == c->end_offset && c->src.ops->seek && ahead_swap_failed(&c->swap);
}

/* The source has refused to go to `offset`. */
static enum ahead_status
fail_seek(struct ahead_core *c, enum ahead_status st, uint64_t offset, struct ahead_error *err)
{
    if (c->reached)
        return st;
    err->status = st;
    err->offset = ahead_tell(&c->hot);
    if (!err->text[0])
        snprintf(err->text, sizeof err->text, "the source refused to go to offset %llu",
                 (unsigned long long)offset);
    c->error = *err;
    return st;
}

/* Has the source moved, with nobody else in it. */
static enum ahead_status seek_source(struct ahead_core *c, uint64_t offset)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st;
    uint64_t discarded;

    c->calling = true;
    st = c->src.ops->seek(c->src.ctx, offset, &err);
    c->calling = false;
    if (st) {
        ahead_swap_end_seek(&c->swap);
        return fail_seek(c, st, offset, &err);
    }
    discarded = ahead_core_unread(c) + ahead_swap_ready_bytes(&c->swap);
    ahead_core_reset_window(c, offset);
    ahead_fill_shrink(c);
    ahead_swap_end_seek_moved(&c->swap, c->src, offset, discarded, NULL);
    if (c->swap.eager)
        ahead_fill_start(c);
    return AHEAD_OK;
}

enum ahead_status ahead_core_begin_seek(struct ahead_core *c)
{
    enum ahead_status st = ahead_swap_begin_seek(&c->swap, c->read_timeout_ms, UINT64_MAX);

    if (st == AHEAD_TIMEDOUT)
        return ahead_core_fail_timeout(c);
    if (st)
        return ahead_core_fail(c, st, "the stream was cancelled");
    return AHEAD_OK;
}

static enum ahead_status core_seek(struct ahead_core *c, uint64_t offset)
{
    enum ahead_status st;

    if (ahead_core_forked(c))
        return fail_forked(c);
    if (ahead_swap_cancelled(&c->swap))
        return ahead_core_fail(c, AHEAD_CANCELLED, "the stream was cancelled");
    if (!tries_again(c, offset) && seek_at_hand(c, offset))
        return AHEAD_OK;
    if (!c->src.ops->seek)
        return ahead_core_fail(c, AHEAD_UNSUPPORTED,
                               "this source cannot go to offset %llu, which is not at hand",
                               (unsigned long long)offset);
    st = ahead_core_begin_seek(c);
    return st ? st : seek_source(c, offset);
}

static enum ahead_status seek_to(struct ahead_core *c, uint64_t offset)
{
    enum ahead_status st;

    ahead_core_count(c);
    st = core_seek(c, offset);
    c->counted_offset = ahead_tell(&c->hot);
    if (!st && c->reached) {
        /* Behind bytes at hand the same ending comes again. */
        ahead_swap_unend(&c->swap);
        c->reached = false;
    }
    if (!st)
        c->error = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    return st;
}

enum ahead_status ahead_seek(struct ahead_stream *s, uint64_t offset)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    return seek_to(c, offset);
}

/* With nothing left and nothing at hand, a seek may have gone past the end: the
 * source is asked at its start, and nothing is lost by that. */
static bool may_be_past_the_end(const struct ahead_core *c, uint64_t here, uint64_t left)
{
    return left == 0 && here == c->end_offset && c->low == c->hot.end && c->src.ops->seek;
}

/* Has the source go to its start, where *left is what it has in all, and back
 * to *here, which is where the reader is: the position stays also where a time
 * limit or a cancel comes in between.  A source that does not go back has ended
 * there. */
static enum ahead_status ask_at_start(struct ahead_core *c, uint64_t *here, uint64_t *left)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st = c->src.ops->seek(c->src.ctx, 0, &err);

    if (st)
        return fail_seek(c, st, 0, &err);
    *left = c->src.ops->remaining(c->src.ctx);
    st = c->src.ops->seek(c->src.ctx, *here, &err);
    if (st) {
        c->reached = false;
        fail_seek(c, st, *here, &err);
        ahead_error_make_failure(&err, "source");
        ahead_swap_end_with(&c->swap, &err);
    }
    *here = 0;
    return st;
}

/* The source has *left bytes behind *here, which is the end of what it has given,
 * or its start; it stands still only with nobody else in it. */
static enum ahead_status ask_remaining(struct ahead_core *c, uint64_t *here, uint64_t *left)
{
    enum ahead_status st = ahead_core_begin_seek(c);

    if (st)
        return st;
    *here = c->end_offset + ahead_swap_ready_bytes(&c->swap);
    c->calling = true;
    *left = c->src.ops->remaining(c->src.ctx);
    /* What was claimed behind a fault is gone, and the source stands behind it. */
    if (ahead_swap_failed(&c->swap))
        *left = UINT64_MAX;
    else if (may_be_past_the_end(c, *here, *left))
        st = ask_at_start(c, here, left);
    c->calling = false;
    ahead_swap_end_seek(&c->swap);
    return st;
}

enum ahead_status ahead_size(struct ahead_stream *s, uint64_t *size)
{
    struct ahead_core *c = ahead_core_of(s);
    uint64_t here = 0, left = UINT64_MAX;
    enum ahead_status st = AHEAD_OK;

    if (!s || !size)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (ahead_core_forked(c))
        return fail_forked(c);
    if (c->src.ops->remaining)
        st = ask_remaining(c, &here, &left);
    if (st)
        return st;
    if (left > UINT64_MAX - 1 - here)
        return ahead_core_fail(c, AHEAD_UNSUPPORTED, "the source does not say how long it is");
    *size = here + left;
    return AHEAD_OK;
}

/* Consumes up to n bytes of the window: how many. */
static uint64_t skip_window(struct ahead_core *c, uint64_t n)
{
    size_t unread = ahead_core_unread(c);

    if (n > unread)
        n = unread;
    c->hot.next += n;
    return n;
}

/* Lets the source skip what is left of n bytes behind those that are published
 * already, if there is anything left.  *passed is added to. */
static enum ahead_status skip_source(struct ahead_core *c, uint64_t n, uint64_t *passed)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st = ahead_swap_begin_seek(&c->swap, c->read_timeout_ms, n);
    uint64_t ready, skipped = 0;

    if (st) /* bytes at hand come first */
        return AHEAD_OK;
    ready = ahead_swap_ready_bytes(&c->swap);
    if (ready >= n || ahead_swap_ending_known(&c->swap)) {
        ahead_swap_end_seek(&c->swap);
        return AHEAD_OK;
    }
    c->calling = true;
    st = c->src.ops->skip(c->src.ctx, n - ready, &skipped, &err);
    c->calling = false;
    err.status = st;
    if (st)
        ahead_error_make_ending(&err, "source");
    if (skipped > n - ready)
        skipped = n - ready;
    *passed += ready + skipped;
    ahead_core_reset_window(c, c->end_offset + ready + skipped);
    ahead_swap_end_seek_moved(&c->swap, c->src, c->end_offset, 0, st ? &err : NULL);
    if (c->swap.eager)
        ahead_fill_start(c);
    return AHEAD_OK;
}

/* Whether the source is to be asked to skip: not where it may block and only
 * the second thread is to wait for it. */
static bool may_skip(const struct ahead_core *c)
{
    return c->src.ops->skip && !ahead_core_forked(c) && !(c->swap.delegate && c->swap.may_block);
}

enum ahead_status ahead_skip(struct ahead_stream *s, uint64_t n, uint64_t *skipped)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st = AHEAD_OK;
    uint64_t passed = 0, far;

    if (skipped)
        *skipped = 0;
    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (n == 0)
        return nothing(c);
    far = may_skip(c) ? 0 : UINT64_MAX;
    while (!st && (passed += skip_window(c, n - passed)) < n) {
        /* What is nearly at hand is passed over; once is enough to ask. */
        if (far == 0 && n - passed > ahead_swap_buffer_bytes(&c->swap)) {
            far = UINT64_MAX;
            st = skip_source(c, n - passed, &passed);
        } else {
            st = ahead_core_more(c, 1);
        }
    }
    if (skipped)
        *skipped = passed;
    return st;
}
