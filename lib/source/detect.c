/* SPDX-License-Identifier: Apache-2.0 */
/* detect.c - looks at the first bytes of an input, and makes the source that they call for. */
#include <ahead/lz4.h>

#include "error.h"
#include "source/decoder.h"
#include "source/input.h"
#include "source/magic.h"

#include <stdlib.h>
#include <string.h>

/* Plain bytes, the first of which have been read already and cannot be read
 * again; or nothing but a refusal. */
struct plain {
    struct ahead_input in;
    const char *refused; /* immutable: the format that is not decoded here, or NULL */
};

/* ---- plain bytes, some of them at hand ---- */

static ssize_t fail(struct ahead_error *err, const struct ahead_error *why)
{
    *err = *why;
    return why->status == AHEAD_EOF ? 0 : -1;
}

static ssize_t plain_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct plain *p = ctx;
    struct ahead_source inner = p->in.inner;
    size_t have = ahead_input_len(&p->in);

    if (!have && p->in.ending.status)
        return fail(err, &p->in.ending);
    if (!have)
        return inner.ops->read(inner.ctx, dst, len, err);
    if (len > have)
        len = have;
    memcpy(dst, ahead_input_bytes(&p->in), len);
    ahead_input_consume(&p->in, len);
    return (ssize_t)len;
}

static uint64_t plain_remaining(void *ctx)
{
    struct plain *p = ctx;
    struct ahead_source inner = p->in.inner;
    uint64_t have = ahead_input_len(&p->in);
    uint64_t behind = inner.ops->remaining ? inner.ops->remaining(inner.ctx) : UINT64_MAX;

    if (p->in.ending.status)
        return have;
    return behind > UINT64_MAX - have ? UINT64_MAX : behind + have;
}

static bool plain_ready(void *ctx)
{
    struct plain *p = ctx;

    return p->refused || ahead_input_len(&p->in) || ahead_input_ready(&p->in);
}

static void plain_interrupt(void *ctx)
{
    struct plain *p = ctx;

    ahead_input_interrupt(&p->in);
}

static enum ahead_status plain_close(void *ctx, struct ahead_error *err)
{
    struct plain *p = ctx;
    enum ahead_status st = ahead_input_close(&p->in, err);

    free(p);
    return st;
}

static bool plain_may_block(void *ctx)
{
    struct plain *p = ctx;

    return ahead_source_may_block(p->in.inner);
}

static bool plain_wait(void *ctx, uint32_t timeout_ms)
{
    struct plain *p = ctx;

    return p->refused || ahead_input_len(&p->in) || !ahead_input_can_wait(&p->in) ||
           ahead_input_wait(&p->in, timeout_ms);
}

static const struct ahead_split_ops plain_split = {
    .may_block = plain_may_block,
    .wait = plain_wait,
};

static const struct ahead_source_ops plain_ops = {
    .read = plain_read,
    .remaining = plain_remaining,
    .ready = plain_ready,
    .interrupt = plain_interrupt,
    .close = plain_close,
    .split = &plain_split,
};

/* ---- a format that is not decoded here ---- */

static ssize_t refused_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct plain *p = ctx;

    (void)dst;
    (void)len;
    ahead_error_set(err, AHEAD_UNSUPPORTED, 0, "this is %s, which is not decoded here", p->refused);
    return -1;
}

static const struct ahead_source_ops refused_ops = {
    .read = refused_read,
    .ready = plain_ready,
    .interrupt = plain_interrupt,
    .close = plain_close,
    .split = &plain_split,
};

/* ---- what it is ---- */

/* Read until the first bytes tell, or there are no more: *m, or NULL for what
 * has no magic.  AHEAD_NOMEM: nothing can be said. */
static enum ahead_status look(struct ahead_input *in, const struct ahead_magic **m)
{
    enum ahead_status st = AHEAD_OK;
    struct ahead_error err;
    bool open = true;

    while (!(*m = ahead_magic_find(ahead_input_bytes(in), ahead_input_len(in), &open)) && open) {
        st = ahead_input_more(in, AHEAD_MAGIC_BYTES, &err);
        if (st && st != AHEAD_TIMEDOUT)
            break;
    }
    return st == AHEAD_NOMEM ? st : AHEAD_OK;
}

/* The inner source itself, if it can go back to its start and stands at no
 * fault, which going back might hide. */
static bool give_back(struct ahead_source *out, struct ahead_input *in)
{
    struct ahead_error err;

    if (in->ending.status && in->ending.status != AHEAD_EOF)
        return false;
    if (ahead_input_rewind(in, &err))
        return false;
    free(in->buf);
    *out = in->inner;
    return true;
}

static enum ahead_status
open_plain(struct ahead_source *out, struct ahead_input *in, const char *refused)
{
    struct plain *p;
    struct ahead_error err;

    if (!refused && give_back(out, in))
        return AHEAD_OK;
    p = malloc(sizeof *p);
    if (!p) {
        ahead_input_close(in, &err);
        return ahead_fail_errno(AHEAD_NOMEM);
    }
    p->in = *in;
    p->refused = refused;
    *out = (struct ahead_source){ .ops = refused ? &refused_ops : &plain_ops, .ctx = p };
    return AHEAD_OK;
}

enum ahead_status ahead_source_detect(struct ahead_source *out, struct ahead_source inner,
                                      const struct ahead_lz4_options *opt, enum ahead_format *found)
{
    enum ahead_status st = ahead_decoder_check(out, inner, opt);
    const struct ahead_magic *m;
    enum ahead_format format;
    struct ahead_input in;
    struct ahead_error err;

    if (st)
        return st;
    ahead_input_init(&in, inner);
    st = look(&in, &m);
    if (st) {
        ahead_input_close(&in, &err);
        return ahead_fail_errno(st);
    }
    format = m ? m->format : AHEAD_FORMAT_PLAIN;
    if (found)
        *found = format;
    switch (format) {
    case AHEAD_FORMAT_LZ4_FRAME: return ahead_lz4_frame_init(out, &in, opt);
    case AHEAD_FORMAT_LZ4_BLOCK: return ahead_lz4_block_init(out, &in, opt);
    case AHEAD_FORMAT_PLAIN: break;
    }
    return open_plain(out, &in, m ? m->name : NULL);
}
