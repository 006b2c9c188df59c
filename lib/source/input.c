/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - reads the inner source of a decoder in large requests. */
#include "source/input.h"

#include "error.h"
#include "source/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PAGE = 4096,
    /* The naps of a source that says "again" double up to this, about two
     * seconds in all. */
    LONGEST_NAP_MS = 64,
    NAPS_MS = 2000
};

/* At the start of the inner source. */
static void begin(struct ahead_input *in)
{
    in->pos = in->end = 0;
    in->offset = 0;
    in->ending.status = AHEAD_OK;
    in->lent = ahead_source_memory_bytes(in->inner, &in->end);
    if (in->lent)
        ahead_error_set(&in->ending, AHEAD_EOF, in->end, "the end");
}

void ahead_input_init(struct ahead_input *in, struct ahead_source inner)
{
    *in = (struct ahead_input){ .inner = inner, .request = AHEAD_INPUT_BYTES };
    atomic_init(&in->interrupted, false);
    begin(in);
}

enum ahead_status ahead_input_close(struct ahead_input *in, struct ahead_error *err)
{
    struct ahead_source inner = in->inner;

    free(in->buf);
    return inner.ops->close ? inner.ops->close(inner.ctx, err) : AHEAD_OK;
}

void ahead_input_economize(struct ahead_input *in, size_t bytes)
{
    in->request = bytes < PAGE ? PAGE : bytes > AHEAD_INPUT_BYTES ? AHEAD_INPUT_BYTES : bytes;
}

/* Where bytes have to start so that what is read behind `have` of them begins
 * on a page: the kernel then copies up to twice as fast. */
static size_t aligned_start(const uint8_t *buf, size_t have)
{
    return (size_t)(0 - ((uintptr_t)buf + have)) % PAGE;
}

/* Move what is at hand to `buf`, which becomes the input's own. */
static void move_to(struct ahead_input *in, uint8_t *buf, size_t cap)
{
    size_t have = ahead_input_len(in);
    size_t start = aligned_start(buf, have);

    if (have)
        memmove(buf + start, ahead_input_bytes(in), have);
    if (buf != in->buf)
        free(in->buf);
    in->buf = buf;
    in->cap = cap;
    in->pos = start;
    in->end = start + have;
}

/* The capacity in which `need` bytes have their place, `have` of which are
 * there already, and the rest can be asked for in one request.  No more than
 * that: with the place that is decoded to, and the history, it has to stay in
 * the private cache of a core.  Where it does not, reading 64 KiB more at a
 * time costs a third of the decoding. */
static size_t cap_for(const struct ahead_input *in, size_t need, size_t have)
{
    return (need > have ? need : have) + in->request + PAGE;
}

/* Whether the input's memory is to be exchanged for less. */
static bool is_too_much(const struct ahead_input *in, size_t cap)
{
    return in->request < AHEAD_INPUT_BYTES && in->cap / 2 > cap;
}

static enum ahead_status no_memory(struct ahead_error *err, uint64_t offset, size_t bytes)
{
    return ahead_error_set(err, AHEAD_NOMEM, offset, "no memory for %zu bytes of input", bytes);
}

/* Make room for an element of `need` bytes, and for one request. */
static enum ahead_status make_room(struct ahead_input *in, size_t need, struct ahead_error *err)
{
    size_t cap = cap_for(in, need, ahead_input_len(in));
    uint8_t *buf;

    if (in->end > in->pos && in->cap - in->end >= in->request && in->cap - in->pos >= need)
        return AHEAD_OK;
    if (in->cap >= cap && !is_too_much(in, cap)) {
        move_to(in, in->buf, in->cap);
        return AHEAD_OK;
    }
    buf = malloc(cap);
    if (!buf)
        return no_memory(err, in->offset, cap);
    move_to(in, buf, cap);
    return AHEAD_OK;
}

static void nap(unsigned ms)
{
    struct timespec t = { .tv_nsec = (long)ms * 1000000 };

    nanosleep(&t, NULL);
}

static bool interrupted(const struct ahead_input *in)
{
    return atomic_load_explicit(&in->interrupted, memory_order_relaxed);
}

/* One read of the inner source, repeated after EINTR at once and after EAGAIN
 * a while later.  As read(2), but errno is returned in *e. */
static ssize_t
read_patiently(struct ahead_input *in, uint8_t *dst, size_t len, struct ahead_error *err, int *e)
{
    unsigned slept_ms = 0;

    for (unsigned nap_ms = 1;; nap_ms = nap_ms < LONGEST_NAP_MS ? 2 * nap_ms : nap_ms) {
        ssize_t n;

        do {
            *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
            errno = 0;
            n = in->inner.ops->read(in->inner.ctx, dst, len, err);
            *e = errno;
        } while (n < 0 && !err->status && *e == EINTR && !interrupted(in));
        if (n >= 0 || err->status || (*e != EAGAIN && *e != EWOULDBLOCK))
            return n;
        if (slept_ms >= NAPS_MS || interrupted(in))
            return n;
        nap(nap_ms);
        slept_ms += nap_ms;
    }
}

/* Put a failed read of the inner source into *err: its own words where it had
 * some, and where it was if it did not say so. */
static void describe(const struct ahead_input *in, ssize_t n, int e, struct ahead_error *err)
{
    uint64_t offset = in->offset + ahead_input_len(in);

    if (n > 0)
        ahead_error_set(err, AHEAD_IO, offset, "read() of a source returned more than asked for");
    else if (n == 0)
        ahead_error_set(err, AHEAD_EOF, offset, "the end");
    else if (!err->status)
        ahead_error_set_errno(err, e, offset, "read");
    else if (err->source_offset == AHEAD_NO_OFFSET)
        err->source_offset = offset;
    if (!err->text[0])
        ahead_error_set(err, err->status, err->source_offset, "the source failed: %s",
                        ahead_status_name(err->status));
}

enum ahead_status ahead_input_check(const struct ahead_input *in, struct ahead_error *err)
{
    if (!interrupted(in))
        return AHEAD_OK;
    return ahead_error_set_errno(err, ECANCELED, in->offset, "read");
}

enum ahead_status ahead_input_more(struct ahead_input *in, size_t need, struct ahead_error *err)
{
    enum ahead_status st;
    size_t room;
    ssize_t n;
    int e;

    if (in->ending.status) {
        *err = in->ending;
        return err->status;
    }
    st = ahead_input_check(in, err);
    if (st)
        return st;
    st = make_room(in, need, err);
    if (st)
        return st;
    room = in->cap - in->end;
    room -= room % PAGE; /* the place in a file stays on a page, too */
    n = read_patiently(in, in->buf + in->end, room, err, &e);
    if (n > 0 && (size_t)n <= room) {
        in->end += (size_t)n;
        return err->status = AHEAD_OK;
    }
    describe(in, n, e, err);
    if (err->status != AHEAD_TIMEDOUT)
        in->ending = *err;
    return err->status;
}

/* Let the inner source pass over n bytes behind those at hand, none of which
 * is left. */
static enum ahead_status
skip_inner(struct ahead_input *in, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    enum ahead_status st;

    *skipped = 0;
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    st = in->inner.ops->skip(in->inner.ctx, n, skipped, err);
    in->offset += *skipped;
    if (!st && *skipped == n)
        return err->status = AHEAD_OK;
    if (st && !err->status)
        err->status = st;
    describe(in, st ? -1 : 0, 0, err);
    if (err->status != AHEAD_TIMEDOUT)
        in->ending = *err;
    return err->status;
}

enum ahead_status
ahead_input_pass(struct ahead_input *in, uint64_t n, uint64_t *passed, struct ahead_error *err)
{
    enum ahead_status st = AHEAD_OK;

    *passed = 0;
    while (!st && *passed < n) {
        uint64_t step = n - *passed;

        if (ahead_input_len(in)) {
            if (step > ahead_input_len(in))
                step = ahead_input_len(in);
            ahead_input_consume(in, (size_t)step);
        } else if (in->inner.ops->skip && step > AHEAD_INPUT_BYTES && !in->ending.status) {
            st = skip_inner(in, step, &step, err);
        } else {
            st = ahead_input_more(in, 1, err);
            step = 0;
        }
        *passed += step;
    }
    return st;
}

/* See to it that job->in holds `cap` bytes; what it held is lost. */
static enum ahead_status
grow_job(struct ahead_job *job, size_t cap, uint64_t offset, struct ahead_error *err)
{
    uint8_t *bytes;

    if (job->in_cap >= cap)
        return AHEAD_OK;
    bytes = malloc(cap);
    if (!bytes)
        return no_memory(err, offset, cap);
    free(job->in);
    job->in = bytes;
    job->in_cap = cap;
    return AHEAD_OK;
}

/* Copy the first n bytes to the job. */
static enum ahead_status give_copy(struct ahead_input *in, size_t n, struct ahead_job *job,
                                   uint64_t *start, struct ahead_error *err)
{
    enum ahead_status st = grow_job(job, cap_for(in, n, 0), in->offset, err);

    if (st)
        return st;
    memcpy(job->in, ahead_input_bytes(in), n);
    *start = 0;
    ahead_input_consume(in, n);
    return AHEAD_OK;
}

/* Exchange the whole buffer for the job's, and copy what stands behind the
 * first n bytes. */
static enum ahead_status give_buffer(struct ahead_input *in, size_t n, struct ahead_job *job,
                                     uint64_t *start, struct ahead_error *err)
{
    size_t rest = ahead_input_len(in) - n;
    enum ahead_status st = grow_job(job, cap_for(in, rest, 0), in->offset, err);
    uint8_t *buf = in->buf;
    size_t cap = in->cap;

    if (st)
        return st;
    *start = in->pos;
    in->buf = job->in;
    in->cap = job->in_cap;
    in->pos = aligned_start(in->buf, rest);
    in->end = in->pos + rest;
    in->offset += n;
    memcpy(in->buf + in->pos, buf + *start + n, rest);
    job->in = buf;
    job->in_cap = cap;
    return AHEAD_OK;
}

enum ahead_status ahead_input_give(struct ahead_input *in, size_t n, struct ahead_job *job,
                                   uint64_t *start, struct ahead_error *err)
{
    job->in_len = n;
    *start = in->pos;
    if (in->lent) {
        ahead_input_consume(in, n);
        return AHEAD_OK;
    }
    if (ahead_input_len(in) - n < n)
        return give_buffer(in, n, job, start, err);
    return give_copy(in, n, job, start, err);
}

enum ahead_status ahead_input_rewind(struct ahead_input *in, struct ahead_error *err)
{
    const struct ahead_source_ops *ops = in->inner.ops;
    enum ahead_status st;

    if (!ops->seek)
        return ahead_error_set(err, AHEAD_UNSUPPORTED, AHEAD_NO_OFFSET,
                               "the input cannot be read again from its start");
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    st = ops->seek(in->inner.ctx, 0, err);
    if (st && !err->status)
        ahead_error_set(err, st, AHEAD_NO_OFFSET, "the input did not go back to its start");
    if (st)
        return st;
    begin(in);
    return AHEAD_OK;
}

bool ahead_input_ready(const struct ahead_input *in)
{
    const struct ahead_source_ops *ops = in->inner.ops;

    return in->ending.status || (ops->ready && ops->ready(in->inner.ctx));
}

bool ahead_input_can_wait(const struct ahead_input *in)
{
    const struct ahead_split_ops *split = in->inner.ops->split;

    return !in->ending.status && !interrupted(in) && split && split->wait;
}

bool ahead_input_wait(const struct ahead_input *in, uint32_t timeout_ms)
{
    return in->inner.ops->split->wait(in->inner.ctx, timeout_ms);
}

void ahead_input_interrupt(struct ahead_input *in)
{
    atomic_store_explicit(&in->interrupted, true, memory_order_relaxed);
    if (in->inner.ops->interrupt)
        in->inner.ops->interrupt(in->inner.ctx);
}
