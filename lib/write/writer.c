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

/* On a thread of a pool. */
static void behind_run(struct ahead_task *task, struct ahead_job *unused)
{
    struct ahead_writer_core *c =
        (struct ahead_writer_core *)((char *)task -
                                     offsetof(struct ahead_writer_core, behind.task));
    const struct ahead_writer_core *outer = self_;
    enum ahead_behind_job job;
    bool orphan = false;

    (void)unused;
    self_ = c;
    pthread_cleanup_push(died, c);
    for (bool again = false; ahead_behind_begin_task(&c->behind, again, &job, &orphan); again = true)
        do_job(c, job, AHEAD_BEHIND_AWAKE);
    pthread_cleanup_pop(0);
    if (orphan)
        clean_up(c);
    self_ = outer;
}

static void start(struct ahead_writer_core *c)
{
    bool started;

    if (!ahead_behind_begin_start(&c->behind))
        return;
    started = c->behind.pool ? ahead_pool_start(c->behind.pool)
                             : !ahead_thread_start(&c->thread, c->name, behind_main, c);
    if (!started)
        ahead_behind_start_failed(&c->behind);
}

/* ---- memory ---- */

static void set_memory(struct ahead_parcel *p, uint8_t *bytes, size_t cap, size_t borrowed)
{
    p->bytes = bytes;
    p->cap = cap;
    p->borrowed = borrowed;
}

static void release(struct ahead_writer_core *c, struct ahead_parcel *p)
{
    if (c->behind.pool)
        ahead_buffer_unback(p->bytes, p->cap);
    ahead_buffer_delete(p->bytes, p->cap);
    if (p->borrowed)
        ahead_pool_return(c->behind.pool, p->borrowed);
    set_memory(p, NULL, 0, 0);
}

/* How large a half is to be: on a pool it begins small, and grows when the
 * producer had to wait or to write. */
static size_t wanted_bytes(struct ahead_writer_core *c)
{
    if (!c->behind.pool)
        return c->buffer_bytes;
    if (!c->grown_bytes)
        c->grown_bytes = AHEAD_POOL_FIRST_BYTES;
    else if (ahead_behind_had_to_wait(&c->behind) && c->grown_bytes < c->buffer_bytes)
        c->grown_bytes *= 2;
    return c->grown_bytes < c->buffer_bytes ? c->grown_bytes : c->buffer_bytes;
}

/* Gives a free half memory, or more of it, or less when the pool wants some
 * back.  `least`: so many bytes in any case, beside the budget; 0: what is to
 * be had.  Returns whether it has any. */
static bool supply(struct ahead_writer_core *c, struct ahead_parcel *p, size_t least)
{
    struct ahead_pool *pool = c->behind.pool;
    size_t cap, borrowed = 0;
    uint8_t *bytes;

    if (p->borrowed && ahead_pool_wants_back(pool, p->borrowed))
        release(c, p);
    cap = wanted_bytes(c);
    if (p->cap >= cap)
        return true;
    if (pool)
        cap = ahead_pool_borrow(pool, cap, p->cap, &borrowed);
    if (cap < least)
        cap = least;
    bytes = cap > p->cap ? ahead_buffer_new(cap) : NULL;
    if (bytes) {
        release(c, p);
        set_memory(p, bytes, cap, borrowed);
    } else if (borrowed) {
        ahead_pool_return(pool, borrowed);
    }
    return p->bytes != NULL;
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

static enum ahead_status fail_without_memory(struct ahead_writer_core *c, size_t bytes)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };

    ahead_error_set(&err, AHEAD_NOMEM, AHEAD_NO_OFFSET, "no memory for a buffer of %zu bytes",
                    bytes);
    ahead_behind_fail(&c->behind, &err);
    return AHEAD_NOMEM;
}

/* For a half that there is no memory for: that of the other one, once it has
 * been written; if it has none either, a little beside the budget: a writer
 * always goes on. */
static enum ahead_status scrape(struct ahead_writer_core *c, struct ahead_parcel *p)
{
    struct ahead_parcel *other = &c->behind.half[!c->behind.giving];
    size_t least = c->buffer_bytes < AHEAD_PAGE ? c->buffer_bytes : AHEAD_PAGE;
    enum ahead_status st = AHEAD_OK;

    if (other->bytes) {
        st = wait_for(c, AHEAD_BEHIND_DRAINED, c->write_timeout_ms);
        if (!st) {
            set_memory(p, other->bytes, other->cap, other->borrowed);
            set_memory(other, NULL, 0, 0);
        }
    } else if (!supply(c, p, least)) {
        st = fail_without_memory(c, least);
    }
    return st;
}

/* Gets hold of the next half, which is free. */
static enum ahead_status hold(struct ahead_writer_core *c)
{
    struct ahead_parcel *p = &c->behind.half[c->behind.giving];
    enum ahead_status st = supply(c, p, 0) ? AHEAD_OK : scrape(c, p);

    if (st)
        return st;
    ahead_buffer_unpoison(p->bytes, p->cap + AHEAD_SLACK);
    c->bytes = c->hot.next = p->bytes;
    c->hot.end = p->bytes + p->cap;
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
    if (opt->pool && ahead_pool_is_forked(opt->pool))
        return AHEAD_INVALID;
    return AHEAD_OK;
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
    c->behind.pool = opt->pool;
    c->behind.task.run = behind_run;
    c->behind.thread = opt->flags & AHEAD_SYNC ? AHEAD_BEHIND_NEVER : AHEAD_BEHIND_NONE;
    st = ahead_behind_init(&c->behind);
    if (st) {
        free(c);
        return st;
    }
    if (opt->pool) {
        ahead_pool_enter(opt->pool);
        ahead_pool_begin_share(opt->pool);
    }
    *out = c;
    return AHEAD_OK;
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
    struct ahead_pool *pool = c->behind.pool;

    if (c->process != ahead_process()) {
        /* Of the lock and the pool nobody knows how the second thread left them. */
        for (unsigned i = 0; i < 2; i++)
            ahead_buffer_delete(c->behind.half[i].bytes, c->behind.half[i].cap);
        free(c);
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        release(c, &c->behind.half[i]);
    ahead_behind_destroy(&c->behind);
    free(c);
    if (pool) {
        ahead_pool_end_share(pool);
        ahead_pool_leave(pool);
    }
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
    const struct ahead_pool *pool = c->behind.pool;
    pthread_t thread = c->thread;

    if (!wait_for(c, AHEAD_BEHIND_CLOSED, c->close_timeout_ms))
        return true;
    if (!ahead_behind_abandon(&c->behind, &c->out, c->close_timeout_ms, err)) {
        wait_for(c, AHEAD_BEHIND_CLOSED, 0);
        return true;
    }
    if (!pool)
        pthread_detach(thread);
    return false;
}

static enum ahead_status close_parent(struct ahead_writer_core *c, struct ahead_error *err)
{
    if (c->close_timeout_ms)
        start(c);
    give(c, false);
    ahead_behind_stop(&c->behind, c->close_timeout_ms > 0);
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
    if (!w || c->process != ahead_process())
        return;
    ahead_behind_get_stats(&c->behind, out);
    out->buffer_bytes = c->behind.half[0].cap + c->behind.half[1].cap;
}
