/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - a source over bytes that the caller keeps. */
#include <ahead/source.h>

#include "error.h"
#include "source/memory.h"
#include "source/split.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    const uint8_t *bytes; /* immutable */
    size_t len;           /* immutable */
    size_t pos;           /* holder of the token: first byte not yet given out */
};

/* The words of a note. */
enum { AT, LEN };

static size_t take(struct memory *m, size_t want)
{
    size_t n = want < m->len - m->pos ? want : m->len - m->pos;

    m->pos += n;
    return n;
}

static enum ahead_claim
memory_claim(void *ctx, struct ahead_job *job, size_t want, size_t room, struct ahead_error *err)
{
    struct memory *m = ctx;

    (void)room;
    job->note.word[AT] = m->pos;
    job->bound = take(m, want);
    job->note.word[LEN] = job->bound;
    if (job->bound)
        return AHEAD_CLAIM_PIECE;
    ahead_error_set(err, AHEAD_EOF, AHEAD_NO_OFFSET, "end of input");
    return AHEAD_CLAIM_ENDING;
}

static enum ahead_status
memory_make(void *ctx, struct ahead_job *job, uint8_t *dst, size_t *len, struct ahead_error *err)
{
    const struct memory *m = ctx;

    (void)err;
    *len = (size_t)job->note.word[LEN];
    memcpy(dst, m->bytes + job->note.word[AT], *len);
    return AHEAD_OK;
}

static ssize_t memory_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct memory *m = ctx;
    size_t at = m->pos;
    size_t n = take(m, len < SSIZE_MAX ? len : SSIZE_MAX);

    (void)err;
    if (n)
        memcpy(dst, m->bytes + at, n);
    return (ssize_t)n;
}

static enum ahead_status
memory_skip(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    (void)err;
    *skipped = take(ctx, n < SIZE_MAX ? (size_t)n : SIZE_MAX);
    return AHEAD_OK;
}

static enum ahead_status memory_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct memory *m = ctx;

    (void)err;
    m->pos = offset < m->len ? (size_t)offset : m->len;
    return AHEAD_OK;
}

static uint64_t memory_remaining(void *ctx)
{
    const struct memory *m = ctx;

    return m->len - m->pos;
}

static bool memory_ready(void *ctx)
{
    (void)ctx;
    return true;
}

static bool memory_may_block(void *ctx)
{
    (void)ctx;
    return false;
}

static bool memory_wait(void *ctx, uint32_t timeout_ms)
{
    (void)ctx;
    (void)timeout_ms;
    return true;
}

static enum ahead_status memory_close(void *ctx, struct ahead_error *err)
{
    (void)err;
    free(ctx);
    return AHEAD_OK;
}

static const struct ahead_split_ops memory_split = {
    .claim = memory_claim,
    .make = memory_make,
    .may_block = memory_may_block,
    .wait = memory_wait,
    .immediate = true,
};

static const struct ahead_source_ops memory_ops = {
    .read = memory_read,
    .skip = memory_skip,
    .seek = memory_seek,
    .remaining = memory_remaining,
    .ready = memory_ready,
    .close = memory_close,
    .split = &memory_split,
};

const uint8_t *ahead_source_memory_bytes(struct ahead_source src, size_t *len)
{
    const struct memory *m = src.ctx;

    if (src.ops != &memory_ops)
        return NULL;
    *len = m->len - m->pos;
    return m->bytes ? m->bytes + m->pos : (const uint8_t *)"";
}

enum ahead_status ahead_source_memory(struct ahead_source *out, const void *data, size_t len)
{
    struct memory *m;

    if (!out)
        return ahead_fail_errno(AHEAD_INVALID);
    *out = (struct ahead_source){ .ops = NULL };
    if (!data && len)
        return ahead_fail_errno(AHEAD_INVALID);
    m = malloc(sizeof *m);
    if (!m)
        return ahead_fail_errno(AHEAD_NOMEM);
    *m = (struct memory){ .bytes = data, .len = len };
    *out = (struct ahead_source){ .ops = &memory_ops, .ctx = m };
    return AHEAD_OK;
}
