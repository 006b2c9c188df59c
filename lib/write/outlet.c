/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.c - a sink and its rules: whole writes, and nothing after a failure. */
#include "write/outlet.h"

#include "error.h"
#include "thread.h"

#include <errno.h>

void ahead_outlet_init(struct ahead_outlet *o, struct ahead_sink sink)
{
    o->sink = sink;
    atomic_init(&o->interrupted, false);
}

static bool is_interrupted(struct ahead_outlet *o)
{
    return atomic_load(&o->interrupted);
}

static struct ahead_error no_error(void)
{
    return (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
}

bool ahead_outlet_has_failed(const struct ahead_outlet *o, struct ahead_error *err)
{
    *err = o->failure.status ? o->failure : no_error();
    return err->status;
}

enum ahead_status ahead_outlet_fail(struct ahead_outlet *o, struct ahead_error *err)
{
    /* What fails after an interrupt fails because of it. */
    if (is_interrupted(o))
        ahead_error_set(err, AHEAD_CANCELLED, AHEAD_NO_OFFSET, "the output was cancelled");
    else
        ahead_error_make_failure(err, "sink");
    if (err->source_offset == AHEAD_NO_OFFSET)
        err->source_offset = o->taken;
    o->failure = *err;
    return err->status;
}

size_t ahead_outlet_write_some(struct ahead_outlet *o, const void *src, size_t len,
                               struct ahead_error *err)
{
    unsigned naps = 0;

    if (ahead_outlet_has_failed(o, err))
        return 0;
    while (!is_interrupted(o)) {
        ssize_t n;
        int os_errno;

        *err = no_error();
        errno = 0;
        n = o->sink.ops->write(o->sink.ctx, src, len, err);
        os_errno = n < 0 ? errno : EAGAIN;
        if (n > 0 && (size_t)n <= len) {
            o->taken += (uint64_t)n;
            o->dirty = true;
            return (size_t)n;
        }
        if (n > 0) {
            ahead_error_set(err, AHEAD_IO, AHEAD_NO_OFFSET,
                            "the sink says it took %zd bytes where it was given %zu", n, len);
            break;
        }
        if (n < 0 && err->status)
            break;
        if (os_errno == EINTR)
            continue;
        if ((os_errno == EAGAIN || os_errno == EWOULDBLOCK) && ahead_thread_nap(&naps))
            continue;
        if (n == 0)
            ahead_error_set(err, AHEAD_IO, AHEAD_NO_OFFSET,
                            "the sink took nothing of %zu bytes, time and again", len);
        else
            ahead_error_set_errno(err, os_errno, err->source_offset, "writing to the sink failed");
        break;
    }
    ahead_outlet_fail(o, err);
    return 0;
}

enum ahead_status
ahead_outlet_write(struct ahead_outlet *o, const void *src, size_t len, struct ahead_error *err)
{
    const uint8_t *p = src;

    while (len > 0) {
        size_t n = ahead_outlet_write_some(o, p, len, err);

        if (n == 0)
            return err->status;
        p += n;
        len -= n;
    }
    return AHEAD_OK;
}

/* Runs flush() or finish(). */
static enum ahead_status
run(struct ahead_outlet *o, enum ahead_status (*step)(void *, struct ahead_error *),
    struct ahead_error *err)
{
    enum ahead_status st = AHEAD_CANCELLED;

    if (!is_interrupted(o))
        st = step(o->sink.ctx, err);
    if (st) {
        err->status = st;
        return ahead_outlet_fail(o, err);
    }
    o->dirty = false;
    return AHEAD_OK;
}

enum ahead_status ahead_outlet_flush(struct ahead_outlet *o, struct ahead_error *err)
{
    if (ahead_outlet_has_failed(o, err))
        return err->status;
    if (!o->dirty || !o->sink.ops->flush)
        return AHEAD_OK;
    return run(o, o->sink.ops->flush, err);
}

enum ahead_status ahead_outlet_finish(struct ahead_outlet *o, struct ahead_error *err)
{
    if (!o->sink.ops->finish)
        return ahead_outlet_flush(o, err);
    if (ahead_outlet_has_failed(o, err))
        return err->status;
    return run(o, o->sink.ops->finish, err);
}

void ahead_outlet_interrupt(struct ahead_outlet *o)
{
    if (!atomic_exchange(&o->interrupted, true) && o->sink.ops->interrupt)
        o->sink.ops->interrupt(o->sink.ctx);
}

enum ahead_status ahead_outlet_close(struct ahead_outlet *o, struct ahead_error *err)
{
    enum ahead_status st = AHEAD_OK;

    *err = no_error();
    if (o->sink.ops && o->sink.ops->close)
        st = o->sink.ops->close(o->sink.ctx, err);
    if (st) {
        err->status = st;
        ahead_outlet_fail(o, err);
    }
    return err->status;
}

enum ahead_status
ahead_sink_refuse(struct ahead_sink *out, struct ahead_sink inner, enum ahead_status st)
{
    struct ahead_outlet unused = { .sink = inner };
    struct ahead_error ignored;

    ahead_outlet_close(&unused, &ignored);
    if (out)
        *out = (struct ahead_sink){ .ops = NULL };
    return ahead_fail_errno(st);
}
