/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c - claims, makes and settles pieces of a format; read() is the same in one. */
#include "source/decoder.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A piece while it is being put together: the first `len` bytes at hand. */
struct piece {
    struct ahead_note note;
    size_t len;
    size_t blocks; /* of these, for make; the others are trailers */
    size_t bound;
    bool begun; /* an element is in it */
};

/* Read more of the input, for an element that is cut. */
static enum ahead_status
read_more(struct ahead_decoder *d, const struct ahead_found *found, struct ahead_error *err)
{
    uint64_t passed;
    enum ahead_status st = found->skip ? ahead_input_pass(&d->in, found->skip, &passed, err)
                                       : ahead_input_more(&d->in, found->len, err);

    return st == AHEAD_EOF ? d->format->judge_end(d, err) : st;
}

/* There may be no end of these, and no byte to show for them. */
static enum ahead_status
pass(struct ahead_decoder *d, const struct ahead_found *found, struct ahead_error *err)
{
    enum ahead_status st = ahead_input_check(&d->in, err);

    if (!st)
        st = d->format->pass(d, found, err);
    if (!st)
        ahead_input_consume(&d->in, found->len);
    return st;
}

static bool is_serial(const struct ahead_decoder *d)
{
    return d->format->serial && d->format->serial(d);
}

/* Whether the piece takes one more block, of `bound` bytes at most. */
static bool has_room(const struct piece *p, size_t bound, size_t want, size_t room)
{
    if (!p->begun)
        return bound <= room;
    return p->bound <= want && bound <= want - p->bound;
}

static void add(struct ahead_decoder *d, struct piece *p, const struct ahead_found *found)
{
    if (!p->begun)
        p->note.word[AHEAD_NOTE_OFFSET] = d->in.offset;
    d->format->take(d, p->len, found, &p->note);
    p->begun = true;
    p->len += found->len;
    if (!found->trailer)
        p->blocks = p->len;
    p->bound += found->bound;
}

/* Put a piece together out of what is at hand.  Reads only for its first
 * element.  A fault behind a block is found again by the next call. */
static enum ahead_claim gather(struct ahead_decoder *d, struct piece *p, bool reading, size_t want,
                               size_t room, struct ahead_error *err)
{
    struct ahead_error fault;

    *p = (struct piece){ .begun = false };
    for (;;) {
        struct ahead_found found = { .len = 0 };
        enum ahead_element element;
        enum ahead_status st = AHEAD_OK;

        if (!reading && is_serial(d))
            return AHEAD_CLAIM_READ;
        element = d->format->look(d, p->len, &found, &fault);
        if (p->begun && (element != AHEAD_ELEMENT_BLOCK || found.alone))
            return AHEAD_CLAIM_PIECE;
        switch (element) {
        case AHEAD_ELEMENT_BLOCK:
            if (!has_room(p, found.bound, want, room))
                return p->begun ? AHEAD_CLAIM_PIECE : AHEAD_CLAIM_NO_ROOM;
            add(d, p, &found);
            if (found.alone || found.last)
                return AHEAD_CLAIM_PIECE;
            break;
        case AHEAD_ELEMENT_CUT: st = read_more(d, &found, &fault); break;
        case AHEAD_ELEMENT_PASS: st = pass(d, &found, &fault); break;
        case AHEAD_ELEMENT_FAULT: st = fault.status; break;
        }
        if (st) {
            *err = fault;
            return AHEAD_CLAIM_ENDING;
        }
    }
}

/* Give *err what reading came to, and say it again whenever asked: but for a
 * time that ran out, which is no ending. */
static enum ahead_status report(struct ahead_decoder *d, struct ahead_error *err)
{
    *err = d->ending;
    if (err->status == AHEAD_TIMEDOUT)
        d->ending.status = AHEAD_OK;
    return err->status;
}

static enum ahead_claim
decoder_claim(void *ctx, struct ahead_job *job, size_t want, size_t room, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    enum ahead_claim claim = AHEAD_CLAIM_ENDING;
    struct piece p;

    if (d->pending_len)
        return AHEAD_CLAIM_READ;
    if (!d->ending.status)
        claim = gather(d, &p, false, want, room, &d->ending);
    if (claim == AHEAD_CLAIM_PIECE) {
        job->note = p.note;
        job->bound = p.bound;
        if (ahead_input_give(&d->in, p.len, job, &job->note.word[AHEAD_NOTE_START], &d->ending))
            claim = AHEAD_CLAIM_ENDING;
        job->in_len = p.blocks;
    }
    if (claim == AHEAD_CLAIM_ENDING)
        report(d, err);
    return claim;
}

static enum ahead_status
decoder_make(void *ctx, struct ahead_job *job, uint8_t *dst, size_t *len, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    struct ahead_blocks blocks = {
        .bytes = ahead_input_given(&d->in, job, job->note.word[AHEAD_NOTE_START]),
        .len = job->in_len,
        .offset = job->note.word[AHEAD_NOTE_OFFSET],
    };

    return d->format->make(d, &job->note, blocks, dst, len, err);
}

static enum ahead_status
decoder_settle(void *ctx, const struct ahead_note *note, const uint8_t *bytes, size_t *len,
               enum ahead_status made, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;

    if (!d->format->settle)
        return AHEAD_OK;
    return d->format->settle(d, note, bytes, len, made, err);
}

/* ---- read(): the same steps, one after the other ---- */

/* Make and settle a piece where it lies in the input.  What comes of it is in
 * d->ending if it is a fault. */
static void make_here(struct ahead_decoder *d, const struct piece *p, uint8_t *dst, size_t *len)
{
    struct ahead_blocks blocks = {
        .bytes = ahead_input_bytes(&d->in),
        .len = p->blocks,
        .offset = d->in.offset,
    };
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status made;

    *len = 0;
    made = d->format->make(d, &p->note, blocks, dst, len, &err);
    if (made)
        d->ending = err;
    if (decoder_settle(d, &p->note, dst, len, made, &err))
        d->ending = err;
    ahead_input_consume(&d->in, p->len);
}

/* See to it that a block of `bytes` bytes, which have met their limit, has a
 * place here.  Grows in few steps, and not beyond that limit. */
static enum ahead_status grow_block(struct ahead_decoder *d, size_t bytes, struct ahead_error *err)
{
    size_t cap = 64 * 1024;

    if (d->block && d->block_cap >= bytes)
        return AHEAD_OK;
    while (cap < bytes)
        cap *= 2;
    if (cap > d->opt.max_block_bytes)
        cap = d->opt.max_block_bytes;
    free(d->block);
    d->block_cap = 0;
    d->block = malloc(cap);
    if (!d->block)
        return ahead_error_set(err, AHEAD_NOMEM, d->in.offset, "no memory for a block of %zu bytes",
                               bytes);
    d->block_cap = cap;
    return AHEAD_OK;
}

/* Decode the next block into memory of our own: `pending`, maybe empty. */
static void make_pending(struct ahead_decoder *d)
{
    enum ahead_claim claim;
    struct piece p;

    claim = gather(d, &p, true, 0, SIZE_MAX, &d->ending);
    if (claim == AHEAD_CLAIM_ENDING || grow_block(d, p.bound, &d->ending))
        return;
    make_here(d, &p, d->block, &d->pending_len);
    d->pending = d->block;
}

static size_t take_pending(struct ahead_decoder *d, void *dst, uint64_t len)
{
    size_t n = len < d->pending_len ? (size_t)len : d->pending_len;

    if (!n)
        return 0;
    if (dst)
        memcpy(dst, d->pending, n);
    d->pending += n;
    d->pending_len -= n;
    return n;
}

/* Decode into dst what fits there as a whole, or one block beside it. */
static size_t make_into(struct ahead_decoder *d, uint8_t *dst, size_t len)
{
    size_t n = 0;
    struct piece p;

    switch (gather(d, &p, true, len, len, &d->ending)) {
    case AHEAD_CLAIM_PIECE: make_here(d, &p, dst, &n); return n;
    case AHEAD_CLAIM_NO_ROOM: make_pending(d); return take_pending(d, dst, len);
    case AHEAD_CLAIM_READ:
    case AHEAD_CLAIM_ENDING: break;
    }
    return 0;
}

static ssize_t decoder_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    size_t n = take_pending(d, dst, len);

    while (!n && !d->ending.status)
        n = make_into(d, dst, len);
    if (n)
        return (ssize_t)n;
    return report(d, err) == AHEAD_EOF ? 0 : -1;
}

static enum ahead_status
decoder_skip(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    enum ahead_status st;

    *skipped = take_pending(d, NULL, n);
    while (*skipped < n && !d->ending.status) {
        make_pending(d);
        *skipped += take_pending(d, NULL, n - *skipped);
    }
    if (*skipped == n)
        return AHEAD_OK;
    st = report(d, err);
    return st == AHEAD_EOF ? AHEAD_OK : st;
}

static enum ahead_status decoder_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    enum ahead_status st;

    if (offset)
        return ahead_error_set(err, AHEAD_UNSUPPORTED, AHEAD_NO_OFFSET,
                               "a decoder can only go back to the start");
    st = ahead_input_rewind(&d->in, err);
    if (st)
        return st;
    d->pending_len = 0;
    d->ending.status = AHEAD_OK;
    d->format->reset(d);
    return AHEAD_OK;
}

/* What stands at the front of the input, behind all that can be passed over. */
static enum ahead_element look_ahead(struct ahead_decoder *d, struct ahead_found *found)
{
    struct ahead_error err;

    for (;;) {
        enum ahead_element element;

        *found = (struct ahead_found){ .len = 0 };
        element = d->format->look(d, 0, found, &err);
        if (element != AHEAD_ELEMENT_PASS || pass(d, found, &err))
            return element;
    }
}

/* Whether read() has something to say without a read of the input.  If not,
 * *found is what is cut. */
static bool at_hand(struct ahead_decoder *d, struct ahead_found *found)
{
    return d->pending_len || d->ending.status || look_ahead(d, found) != AHEAD_ELEMENT_CUT;
}

static bool decoder_ready(void *ctx)
{
    struct ahead_decoder *d = ctx;
    struct ahead_found found;

    return at_hand(d, &found) || ahead_input_ready(&d->in);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Takes what arrives until a block is whole: the input alone cannot tell. */
static bool decoder_wait(void *ctx, uint32_t timeout_ms)
{
    struct ahead_decoder *d = ctx;
    uint64_t deadline = now_ms() + timeout_ms;
    struct ahead_found found;
    struct ahead_error err;

    while (!at_hand(d, &found) && ahead_input_can_wait(&d->in)) {
        uint64_t now = now_ms();

        if (!ahead_input_wait(&d->in, now < deadline ? (uint32_t)(deadline - now) : 0))
            return false;
        if (ahead_input_more(&d->in, found.len, &err))
            return true; /* read() will meet the same */
    }
    return true;
}

/* Reads until a first header tells, or something else has come. */
static size_t decoder_unit(void *ctx)
{
    struct ahead_decoder *d = ctx;
    struct ahead_error err;
    size_t unit;

    while (!(unit = d->format->unit(d))) {
        struct ahead_found found = { .len = 0 };
        enum ahead_element element = d->format->look(d, 0, &found, &err);

        if (element == AHEAD_ELEMENT_CUT ? read_more(d, &found, &err)
                                         : element != AHEAD_ELEMENT_PASS || pass(d, &found, &err))
            return 0;
    }
    return unit;
}

static bool decoder_may_block(void *ctx)
{
    const struct ahead_decoder *d = ctx;

    return ahead_source_may_block(d->in.inner);
}

static void decoder_interrupt(void *ctx)
{
    struct ahead_decoder *d = ctx;

    ahead_input_interrupt(&d->in);
}

static enum ahead_status decoder_close(void *ctx, struct ahead_error *err)
{
    struct ahead_decoder *d = ctx;
    enum ahead_status st = ahead_input_close(&d->in, err);

    if (d->format->release)
        d->format->release(d);
    free(d->block);
    free(d);
    return st;
}

static void decoder_economize(void *ctx, size_t bytes)
{
    struct ahead_decoder *d = ctx;

    ahead_input_economize(&d->in, bytes);
}

static const struct ahead_split_ops decoder_split_ops = {
    .claim = decoder_claim,
    .make = decoder_make,
    .settle = decoder_settle,
    .may_block = decoder_may_block,
    .wait = decoder_wait,
    .economize = decoder_economize,
};

static const struct ahead_source_ops decoder_ops = {
    .read = decoder_read,
    .skip = decoder_skip,
    .seek = decoder_seek,
    .ready = decoder_ready,
    .interrupt = decoder_interrupt,
    .close = decoder_close,
    .unit = decoder_unit,
    .split = &decoder_split_ops,
};

void ahead_decoder_init(struct ahead_decoder *d, const struct ahead_decoder_format *format,
                        const struct ahead_input *in, const struct ahead_lz4_options *opt,
                        struct ahead_source *out)
{
    d->format = format;
    d->opt = opt ? *opt : (struct ahead_lz4_options){ .compat = false };
    if (!d->opt.max_block_bytes || d->opt.max_block_bytes > format->max_block_bytes)
        d->opt.max_block_bytes = format->max_block_bytes;
    d->in = *in;
    d->block = NULL;
    d->block_cap = 0;
    d->pending = NULL;
    d->pending_len = 0;
    d->ending = (struct ahead_error){ .status = AHEAD_OK };
    *out = (struct ahead_source){ .ops = &decoder_ops, .ctx = d };
}

enum ahead_status ahead_decoder_check(struct ahead_source *out, struct ahead_source inner,
                                      const struct ahead_lz4_options *opt)
{
    struct ahead_error err;

    if (out)
        *out = (struct ahead_source){ .ops = NULL };
    if (out && inner.ops && inner.ops->read && (!opt || opt->dict || !opt->dict_len))
        return AHEAD_OK;
    if (inner.ops && inner.ops->close)
        inner.ops->close(inner.ctx, &err);
    return ahead_fail_errno(AHEAD_INVALID);
}

enum ahead_status
ahead_decoder_open(struct ahead_source *out, struct ahead_source inner,
                   const struct ahead_lz4_options *opt, ahead_decoder_init_fn init)
{
    enum ahead_status st = ahead_decoder_check(out, inner, opt);
    struct ahead_input in;

    if (st)
        return st;
    ahead_input_init(&in, inner);
    return init(out, &in, opt);
}
