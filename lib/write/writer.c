/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - the life of a writer, the producer's slow path, and the second
 * thread. */
#include <ahead/writer.h>

#include "error.h"
#include "stream/buffer.h"
#include "process.h"
#include "thread.h"
#include "write/behind.h"
#include "write/core.h"
#include "write/outlet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As large as a half of a split stream: two of them and what an encoder needs
 * stay in the caches, and a wake-up for each costs nothing beside filling it. */
#define BUFFER_BYTES ((size_t)1 << 20)
#define MAX_BUFFER_BYTES ((size_t)1 << 30)

/* The writer whose second thread this thread is. */
static _Thread_local const struct ahead_writer_core *self_;

/* Where the window of a writer that holds no half points to. */
static uint8_t nowhere[1];

/* ---- the sink, by whoever has the token ---- */

static void write_half(struct ahead_writer_core *c, struct ahead_error *err)
{
    const struct ahead_parcel *p = ahead_behind_parcel(&c->behind);
    const uint8_t *bytes = p->bytes;

    for (size_t len = p->len, n; len > 0; len -= n, bytes += n) {
        n = ahead_outlet_write_some(&c->out, bytes, len, err);
        if (n == 0)
            return;
        ahead_behind_took(&c->behind, n);
    }
}

/* `wish`: see ahead_behind_end(). */
static void
do_job(struct ahead_writer_core *c, enum ahead_behind_job job, enum ahead_behind_wish wish)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };

    switch (job) {
    case AHEAD_JOB_NOTHING: break;
    case AHEAD_JOB_WRITE: write_half(c, &err); break;
    case AHEAD_JOB_FLUSH: ahead_outlet_flush(&c->out, &err); break;
    case AHEAD_JOB_FINISH: ahead_outlet_finish(&c->out, &err); break;
    case AHEAD_JOB_CLOSE: ahead_outlet_close(&c->out, &err); break;
    }
    ahead_behind_end(&c->behind, job, &err, wish);
}

/* ---- the second thread ---- */

static void destroy(struct ahead_writer_core *c);

/* Nobody is left but this thread: close has run out of time. */
static void clean_up(struct ahead_writer_core *c)
{
    enum ahead_behind_job job;

    while (ahead_behind_next(&c->behind, AHEAD_BEHIND_CLOSED, 0, &job) == AHEAD_BEHIND_WORK)
        do_job(c, job, AHEAD_BEHIND_CLOSED);
    destroy(c);
}

/* A function of the sink has ended the thread, by pthread_exit() or the like. */
static void died(void *arg)
{
    struct ahead_writer_core *c = arg;

    if (ahead_behind_died(&c->behind))
        clean_up(c);
}

static void *behind_main(void *arg)
{
    struct ahead_writer_core *c = arg;
    enum ahead_behind_job job;
    bool orphan = false;

    self_ = c;
    pthread_cleanup_push(died, c);
    while (ahead_behind_begin(&c->behind, &job, &orphan))
        do_job(c, job, AHEAD_BEHIND_AWAKE);
    pthread_cleanup_pop(0);
    if (orphan)
        clean_up(c);
    return NULL;
}

static void start(struct ahead_writer_core *c)
{
    if (ahead_behind_begin_start(&c->behind) &&
        ahead_thread_start(&c->thread, c->name, behind_main, c))
        ahead_behind_start_failed(&c->behind);
}

/* ---- the producer ---- */

static void hold_nothing(struct ahead_writer_core *c)
{
    c->bytes = NULL;
    c->hot.next = c->hot.end = nowhere;
}

static size_t held_bytes(const struct ahead_writer_core *c)
{
    return c->bytes ? (size_t)(c->hot.next - c->bytes) : 0;
}

enum ahead_status
ahead_writer_core_fail(struct ahead_writer_core *c, enum ahead_status st, const char *format, ...)
{
    va_list args;

    if (c->process != ahead_process() || ahead_behind_failure(&c->behind))
        return st;
    c->error = (struct ahead_error){ .status = st, .source_offset = AHEAD_NO_OFFSET };
    c->error.offset = ahead_writer_tell(&c->hot);
    va_start(args, format);
    vsnprintf(c->error.text, sizeof c->error.text, format, args);
    va_end(args);
    return st;
}

/* Whether a call of the producer may go on. */
static enum ahead_status enter(struct ahead_writer_core *c)
{
    if (c->process != ahead_process() || self_ == c)
        return AHEAD_INVALID;
    if (c->calling)
        return ahead_writer_core_fail(c, AHEAD_INVALID, "called inside a function of the sink");
    return AHEAD_OK;
}

/* Waits for `wish`, and works where the producer is to. */
static enum ahead_status
wait_for(struct ahead_writer_core *c, enum ahead_behind_wish wish, uint32_t timeout_ms)
{
    enum ahead_behind_turn turn;
    enum ahead_behind_job job = AHEAD_JOB_NOTHING;

    while ((turn = ahead_behind_next(&c->behind, wish, timeout_ms, &job)) == AHEAD_BEHIND_WORK) {
        c->calling = true;
        do_job(c, job, wish);
        c->calling = false;
    }
    switch (turn) {
    case AHEAD_BEHIND_WORK:
    case AHEAD_BEHIND_GRANTED: break;
    case AHEAD_BEHIND_FAILED: c->told = true; return ahead_behind_failure(&c->behind)->status;
    case AHEAD_BEHIND_TIMEDOUT:
        return ahead_writer_core_fail(c, AHEAD_TIMEDOUT, "the sink took too long: %u ms",
                                      timeout_ms);
    }
    return AHEAD_OK;
}

/* Hands the half that is held over, if there is anything in it. */
static void give(struct ahead_writer_core *c, bool flush)
{
    size_t len = held_bytes(c);

    if (len > 0) {
        c->given += len;
        hold_nothing(c);
    }
    ahead_behind_give(&c->behind, len, flush);
}

/* Gets hold of the next half, which is free. */
static enum ahead_status hold(struct ahead_writer_core *c)
{
    struct ahead_parcel *p = &c->behind.half[c->behind.giving];
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };

    if (!p->bytes)
        p->bytes = ahead_buffer_new(c->buffer_bytes);
    if (!p->bytes) {
        ahead_error_set(&err, AHEAD_NOMEM, AHEAD_NO_OFFSET, "no memory for a buffer of %zu bytes",
                        c->buffer_bytes);
        ahead_behind_fail(&c->behind, &err);
        return AHEAD_NOMEM;
    }
    ahead_buffer_unpoison(p->bytes, c->buffer_bytes + AHEAD_SLACK);
    c->bytes = c->hot.next = p->bytes;
    c->hot.end = p->bytes + c->buffer_bytes;
    return AHEAD_OK;
}

enum ahead_status ahead_make_room(struct ahead_writer *w)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);
    enum ahead_status st;

    if (!w)
        return AHEAD_INVALID;
    if ((st = enter(c)))
        return st;
    if (w->next < w->end)
        return AHEAD_OK;
    if (c->bytes) {
        start(c);
        give(c, false);
    }
    st = wait_for(c, AHEAD_BEHIND_ROOM, c->write_timeout_ms);
    return st ? st : hold(c);
}

enum ahead_status ahead_writer_flush(struct ahead_writer *w)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);
    enum ahead_status st;

    if (!w)
        return AHEAD_INVALID;
    if ((st = enter(c)))
        return st;
    if (c->write_timeout_ms)
        start(c);
    give(c, true);
    return wait_for(c, AHEAD_BEHIND_FLUSHED, c->write_timeout_ms);
}

/* ---- open ---- */

static enum ahead_status check(struct ahead_sink sink, const struct ahead_options *opt)
{
    if (!sink.ops || !sink.ops->write)
        return AHEAD_INVALID;
    if (opt->flags & ~(unsigned)(AHEAD_EAGER | AHEAD_SYNC))
        return AHEAD_INVALID;
    if (opt->buffer_bytes > MAX_BUFFER_BYTES)
        return AHEAD_INVALID;
    return opt->pool ? AHEAD_UNSUPPORTED : AHEAD_OK;
}

static enum ahead_status
create(struct ahead_writer_core **out, struct ahead_sink sink, const struct ahead_options *opt)
{
    struct ahead_writer_core *c = calloc(1, sizeof *c);
    enum ahead_status st;

    if (!c)
        return AHEAD_NOMEM;
    hold_nothing(c);
    ahead_outlet_init(&c->out, sink);
    c->buffer_bytes = opt->buffer_bytes ? opt->buffer_bytes : BUFFER_BYTES;
    c->write_timeout_ms = opt->read_timeout_ms;
    c->close_timeout_ms = opt->close_timeout_ms;
    c->process = ahead_process();
    c->error.source_offset = AHEAD_NO_OFFSET;
    strncpy(c->name, opt->name ? opt->name : "ahead", sizeof c->name - 1);
    c->behind.delegate = opt->read_timeout_ms > 0;
    c->behind.thread = opt->flags & AHEAD_SYNC ? AHEAD_BEHIND_NEVER : AHEAD_BEHIND_NONE;
    st = ahead_behind_init(&c->behind);
    if (st)
        free(c);
    else
        *out = c;
    return st;
}

enum ahead_status ahead_writer_open(struct ahead_writer **out, struct ahead_sink sink,
                                    const struct ahead_options *opt)
{
    static const struct ahead_options defaults;
    struct ahead_writer_core *c = NULL;
    enum ahead_status st;

    if (!opt)
        opt = &defaults;
    st = out ? check(sink, opt) : AHEAD_INVALID;
    if (!st)
        st = create(&c, sink, opt);
    if (out)
        *out = st ? NULL : &c->hot;
    if (st)
        return ahead_sink_refuse(NULL, sink, st);
    if (opt->flags & AHEAD_EAGER)
        start(c);
    return AHEAD_OK;
}

/* ---- cancel and close ---- */

void ahead_writer_cancel(struct ahead_writer *w)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);

    if (w && c->process == ahead_process())
        ahead_behind_cancel(&c->behind, &c->out);
}

static void destroy(struct ahead_writer_core *c)
{
    for (unsigned i = 0; i < 2; i++)
        ahead_buffer_delete(c->behind.half[i].bytes, c->buffer_bytes);
    if (c->process == ahead_process())
        ahead_behind_destroy(&c->behind);
    free(c);
}

/* What close has to say, when all is over. */
static struct ahead_error outcome(struct ahead_writer_core *c)
{
    const struct ahead_error *failure = ahead_behind_failure(&c->behind);
    const struct ahead_sink_ops *ops = c->out.sink.ops;
    uint64_t taken = ahead_behind_taken(&c->behind);
    struct ahead_error err = { .offset = taken, .source_offset = AHEAD_NO_OFFSET };
    /* A cancel that came too late to keep anything from the sink, or a caller
     * from going on. */
    bool whole = taken == c->given && !c->told && !ops->finish && !(ops->flush && c->out.dirty) &&
                 !c->out.failure.status;

    if (failure && !(failure->status == AHEAD_CANCELLED && whole)) {
        err = *failure;
        err.offset = taken;
    }
    return err;
}

/* Waits until the sink is closed.  false: the second thread owns the writer
 * now, and *err says how far it got. */
static bool finish(struct ahead_writer_core *c, struct ahead_error *err)
{
    pthread_t thread = c->thread;

    if (!wait_for(c, AHEAD_BEHIND_CLOSED, c->close_timeout_ms))
        return true;
    if (!ahead_behind_abandon(&c->behind, &c->out, c->close_timeout_ms, err)) {
        wait_for(c, AHEAD_BEHIND_CLOSED, 0);
        return true;
    }
    pthread_detach(thread);
    return false;
}

static enum ahead_status close_parent(struct ahead_writer_core *c, struct ahead_error *err)
{
    if (c->close_timeout_ms)
        start(c);
    give(c, false);
    ahead_behind_stop(&c->behind);
    if (!finish(c, err))
        return err->status;
    if (ahead_behind_must_join(&c->behind))
        pthread_join(c->thread, NULL);
    *err = outcome(c);
    destroy(c);
    return err->status;
}

enum ahead_status ahead_writer_close_error(struct ahead_writer *w, struct ahead_error *err)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);
    struct ahead_error ignored;

    if (!err)
        err = &ignored;
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    if (!w)
        return AHEAD_OK;
    if (self_ == c || c->calling)
        return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                               "called inside a function of the sink");
    if (c->process == ahead_process())
        return close_parent(c, err);
    destroy(c);
    return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                           "the writer belongs to the process that opened it");
}

enum ahead_status ahead_writer_close(struct ahead_writer *w)
{
    return ahead_writer_close_error(w, NULL);
}

/* ---- what there is to know ---- */

const struct ahead_error *ahead_writer_error(const struct ahead_writer *w)
{
    static const struct ahead_error no_writer = { .status = AHEAD_INVALID,
                                                  .source_offset = AHEAD_NO_OFFSET,
                                                  .text = "there is no writer" };
    struct ahead_writer_core *c = ahead_writer_core_of(w);
    const struct ahead_error *failure;

    if (!w)
        return &no_writer;
    failure = c->process == ahead_process() ? ahead_behind_failure(&c->behind) : NULL;
    return failure ? failure : &c->error;
}

uint64_t ahead_writer_tell(const struct ahead_writer *w)
{
    const struct ahead_writer_core *c = ahead_writer_core_of(w);

    return w ? c->given + held_bytes(c) : 0;
}

void ahead_writer_get_stats(struct ahead_writer *w, struct ahead_writer_stats *out)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);

    if (!out)
        return;
    *out = (struct ahead_writer_stats){ 0 };
    if (w && c->process == ahead_process())
        ahead_behind_get_stats(&c->behind, out);
}
