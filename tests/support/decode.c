/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - a stream's part in a few lines, so that decoders can be tried without one. */
#include "support/decode.h"

#include "support/expect.h"
#include "support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the feed ---- */

static ssize_t feed_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct feed *f = ctx;
    size_t n = f->len - f->pos;

    f->reads++;
    if (f->reads == 1 || len < f->least_asked)
        f->least_asked = len;
    if (!n) {
        f->after_end++;
        if (f->error)
            *err = *f->error;
        errno = f->fault;
        return f->fault || f->error ? -1 : 0;
    }
    if (f->piece && n > f->piece)
        n = f->piece;
    if (f->random)
        n = 1 + (size_t)random_below(&f->seed, n);
    if (n > len)
        n = len;
    memcpy(dst, f->data + f->pos, n);
    f->pos += n;
    return (ssize_t)n;
}

static enum ahead_status
feed_skip(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    struct feed *f = ctx;

    *skipped = n < f->len - f->pos ? n : f->len - f->pos;
    f->pos += (size_t)*skipped;
    f->skipped += *skipped;
    if (*skipped == n || !f->fault)
        return AHEAD_OK;
    err->os_errno = f->fault;
    return err->status = AHEAD_IO;
}

static enum ahead_status feed_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct feed *f = ctx;

    (void)err;
    f->pos = offset < f->len ? (size_t)offset : f->len;
    f->after_end = 0;
    return AHEAD_OK;
}

static bool feed_ready(void *ctx)
{
    return !((struct feed *)ctx)->stingy;
}

static enum ahead_status feed_close(void *ctx, struct ahead_error *err)
{
    (void)err;
    ((struct feed *)ctx)->closed++;
    return AHEAD_OK;
}

static bool feed_may_block(void *ctx)
{
    return ((struct feed *)ctx)->stingy;
}

struct ahead_source feed_source(struct feed *f)
{
    static const struct ahead_split_ops split = { .may_block = feed_may_block };
    static const struct ahead_source_ops ops[2][2] = {
#define OPS(seek_, skip_)                                                                          \
    { .read = feed_read,                                                                           \
      .seek = seek_,                                                                               \
      .skip = skip_,                                                                               \
      .ready = feed_ready,                                                                         \
      .close = feed_close,                                                                         \
      .split = &split }
        { OPS(NULL, NULL), OPS(NULL, feed_skip) },
        { OPS(feed_seek, NULL), OPS(feed_seek, feed_skip) },
#undef OPS
    };

    return (struct ahead_source){ .ops = &ops[f->seeks][f->skips], .ctx = f };
}

/* ---- a stream's part ---- */

enum { SLOTS = 8, WORKERS = 3, MOST_RANDOM = 300000 };

struct slot {
    struct ahead_job job;
    struct ahead_error err;
    uint8_t *dst; /* exactly job.bound bytes */
    size_t len;
    enum ahead_status made;
    bool begun, ready;
};

struct engine {
    struct ahead_source src;
    struct decode how;
    struct decoded *out;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot slot[SLOTS]; /* of piece k: slot[k % SLOTS] */
    unsigned claimed, settled;
    bool token, settling;
    bool serial;        /* the next step is a read() */
    unsigned end_claim; /* from which claim the ending came */
    unsigned end_at;    /* it is due when so many pieces are settled */
    struct ahead_error end;
};

static size_t window(struct engine *e)
{
    static const size_t usual[] = { 1, 20, 100, 1000, 33000, 66000, MOST_RANDOM };
    size_t most;

    if (e->how.window)
        return e->how.window;
    most = usual[random_below(&e->how.seed, sizeof usual / sizeof usual[0])];
    return 1 + (size_t)random_below(&e->how.seed, most);
}

static void append(struct decoded *out, const void *bytes, size_t len)
{
    if (out->cap - out->len < len) {
        out->cap = 2 * (out->len + len);
        out->bytes = realloc(out->bytes, out->cap);
        expect_true(out->bytes);
    }
    if (len)
        memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

/* The ending of the earliest claim counts. */
static void record(struct engine *e, const struct ahead_error *err, unsigned claim, unsigned at)
{
    if (e->end.status && e->end_claim <= claim)
        return;
    e->end = *err;
    e->end_claim = claim;
    e->end_at = at;
}

static bool finished(const struct engine *e)
{
    return e->end.status && e->settled >= e->end_at;
}

static bool may_claim(const struct engine *e)
{
    return !e->token && !e->end.status &&
           (e->serial ? e->claimed == e->settled : e->claimed - e->settled < SLOTS);
}

static bool may_settle(const struct engine *e)
{
    return !e->settling && !finished(e) && e->settled < e->claimed &&
           e->slot[e->settled % SLOTS].ready;
}

/* read() with the token held and nothing unsettled. */
static void read_once(struct engine *e)
{
    struct ahead_error err = { .source_offset = UINT64_MAX };
    size_t len = window(e);
    uint8_t *dst = malloc(len);
    ssize_t n;

    pthread_mutex_unlock(&e->lock);
    errno = 0;
    n = e->src.ops->read(e->src.ctx, dst, len, &err);
    if (n < 0 && !err.status)
        err = (struct ahead_error){ .status = AHEAD_IO, .os_errno = errno, .text = "errno" };
    pthread_mutex_lock(&e->lock);
    e->out->reads++;
    e->serial = false;
    if (n > 0)
        append(e->out, dst, (size_t)n);
    else if (n == 0)
        err.status = AHEAD_EOF;
    if (n <= 0) {
        expect_true(err.status);
        record(e, &err, e->claimed, e->claimed);
    }
    free(dst);
}

/* claim() with the token held. */
static void claim_once(struct engine *e)
{
    struct slot *s = &e->slot[e->claimed % SLOTS];
    struct ahead_error err = { .source_offset = UINT64_MAX };
    size_t want = window(e);
    size_t room = e->how.room ? e->how.room : want;
    enum ahead_claim claim;

    pthread_mutex_unlock(&e->lock);
    claim = e->src.ops->split->claim(e->src.ctx, &s->job, want, room, &err);
    pthread_mutex_lock(&e->lock);
    switch (claim) {
    case AHEAD_CLAIM_PIECE:
        expect_true(s->job.bound <= room);
        s->dst = malloc(s->job.bound + !s->job.bound);
        s->begun = s->ready = false;
        e->claimed++;
        e->out->pieces++;
        break;
    case AHEAD_CLAIM_NO_ROOM:
    case AHEAD_CLAIM_READ: e->serial = true; break;
    case AHEAD_CLAIM_ENDING:
        expect_true(err.status);
        record(e, &err, e->claimed, e->claimed);
        break;
    }
}

static void make(struct engine *e, unsigned k)
{
    struct slot *s = &e->slot[k % SLOTS];

    s->begun = true;
    pthread_mutex_unlock(&e->lock);
    s->err = (struct ahead_error){ .source_offset = UINT64_MAX };
    s->made = e->src.ops->split->make(e->src.ctx, &s->job, s->dst, &s->len, &s->err);
    expect_true(s->len <= s->job.bound);
    pthread_mutex_lock(&e->lock);
    s->ready = true;
    if (s->made)
        record(e, &s->err, k, k + 1);
}

static void settle(struct engine *e)
{
    unsigned k = e->settled;
    struct slot *s = &e->slot[k % SLOTS];
    struct ahead_error err = { .source_offset = UINT64_MAX };
    size_t made_len = s->len;
    enum ahead_status st = AHEAD_OK;

    e->settling = true;
    pthread_mutex_unlock(&e->lock);
    if (e->src.ops->split->settle)
        st = e->src.ops->split->settle(e->src.ctx, &s->job.note, s->dst, &s->len, s->made, &err);
    pthread_mutex_lock(&e->lock);
    e->settling = false;
    expect_true(s->len <= made_len);
    append(e->out, s->dst, s->len);
    free(s->dst);
    s->dst = NULL;
    e->settled++;
    if (st && (!s->made || s->len < made_len)) {
        e->end.status = AHEAD_OK;
        record(e, &err, k, k + 1);
    }
}

/* One step of those that can be done now; false: none can. */
static bool step(struct engine *e, bool any_order)
{
    unsigned first = e->settled, n = e->claimed - e->settled;
    unsigned skip = any_order && n ? (unsigned)random_below(&e->how.seed, n) : 0;
    bool hold = any_order && random_below(&e->how.seed, 2);

    if (may_settle(e) && !hold) {
        settle(e);
        return true;
    }
    if (may_claim(e) && !hold) {
        bool serial = e->serial;

        e->token = true;
        if (serial)
            read_once(e);
        else
            claim_once(e);
        e->token = false;
        if (serial || any_order || e->end.status || e->serial)
            return true;
        make(e, e->claimed - 1); /* a thread makes what it claimed, at once */
        return true;
    }
    for (unsigned i = 0; any_order && i < n; i++) {
        unsigned k = first + (skip + i) % n;

        if (!e->slot[k % SLOTS].begun) {
            make(e, k);
            return true;
        }
    }
    return hold;
}

static void *work(void *arg)
{
    struct engine *e = arg;

    pthread_mutex_lock(&e->lock);
    while (!finished(e)) {
        if (!step(e, false))
            pthread_cond_wait(&e->changed, &e->lock);
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void by_threads(struct engine *e)
{
    pthread_t thread[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        expect_int(pthread_create(&thread[i], NULL, work, e), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        expect_int(pthread_join(thread[i], NULL), 0);
}

static void by_steps(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    while (!finished(e))
        expect_true(step(e, true));
    pthread_mutex_unlock(&e->lock);
}

static void by_read(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    while (!finished(e))
        read_once(e);
    pthread_mutex_unlock(&e->lock);
}

struct decoded decode_to_end(struct ahead_source src, struct decode how)
{
    struct decoded out = { .bytes = NULL };
    struct engine e = {
        .src = src,
        .how = how,
        .out = &out,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };

    expect_true(how.way == DECODE_READ || ahead_source_is_split(src));
    switch (how.way) {
    case DECODE_STEPS: by_steps(&e); break;
    case DECODE_THREADS: by_threads(&e); break;
    case DECODE_READ:
    case DECODE_WAYS: by_read(&e); break;
    }
    for (; e.settled < e.claimed; e.settled++) {
        if (src.ops->split->drop)
            src.ops->split->drop(src.ctx, &e.slot[e.settled % SLOTS].job.note);
        free(e.slot[e.settled % SLOTS].dst);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        free(e.slot[i].job.in);
        free(e.slot[i].job.block);
    }
    out.err = e.end;
    return out;
}

/* An ending that read() has come to is what it says again. */
static void expect_to_stay(struct ahead_source src, const struct ahead_error *was)
{
    struct ahead_error err = { .source_offset = UINT64_MAX };
    uint8_t byte;
    ssize_t n = src.ops->read(src.ctx, &byte, 1, &err);

    expect_int(n, was->status == AHEAD_EOF ? 0 : -1);
    if (n) {
        expect_status(err.status ? err.status : AHEAD_IO, was->status);
    }
    if (err.status) {
        expect_u64(err.source_offset, was->source_offset);
        expect_str(err.text, was->text);
    }
}

struct decoded decode_all(struct ahead_source src, struct decode how)
{
    struct decoded d = decode_to_end(src, how);
    struct ahead_error err;

    if (how.way == DECODE_READ)
        expect_to_stay(src, &d.err);
    expect_status(src.ops->close(src.ctx, &err), AHEAD_OK);
    return d;
}

void expect_decoded(struct decoded *d, enum ahead_status status, const void *bytes, size_t len,
                    uint64_t source_offset)
{
    expect_status(d->err.status, status);
    expect_size(d->len, len);
    if (len)
        expect_mem(d->bytes, bytes, len);
    if (source_offset != UINT64_MAX)
        expect_u64(d->err.source_offset, source_offset);
    if (status != AHEAD_EOF)
        expect_true(d->err.text[0]);
    free(d->bytes);
    d->bytes = NULL;
}

const struct decode decode_ways[] = {
    { .way = DECODE_READ, .window = 1 << 20 },
    { .way = DECODE_READ, .window = 1 },
    { .way = DECODE_READ, .window = 4096 },
    { .way = DECODE_READ },
    { .way = DECODE_STEPS, .window = 1 << 18, .room = 16 << 20 },
    { .way = DECODE_STEPS, .window = 100 },
    { .way = DECODE_STEPS },
    { .way = DECODE_STEPS, .window = 1, .room = 1 << 20 },
    { .way = DECODE_THREADS, .window = 1 << 18, .room = 16 << 20 },
    { .way = DECODE_THREADS },
};
const unsigned decode_ways_len = sizeof decode_ways / sizeof decode_ways[0];
