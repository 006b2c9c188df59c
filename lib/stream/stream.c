/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - the life of a stream: open, cancel, close; buffers that change
 * hands; figures. */
#include "error.h"
#include "stream/buffer.h"
#include "stream/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- open ---- */

/* There is no error to ask for behind a close: errno is all that is left. */
static enum ahead_status close_source(struct ahead_source src)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st = AHEAD_OK;

    if (src.ops && src.ops->close)
        st = src.ops->close(src.ctx, &err);
    if (st && err.os_errno)
        errno = err.os_errno;
    return st;
}

static enum ahead_status check(struct ahead_source src, const struct ahead_options *opt)
{
    if (!src.ops || !src.ops->read)
        return AHEAD_INVALID;
    if (opt->flags & ~(unsigned)(AHEAD_EAGER | AHEAD_SYNC))
        return AHEAD_INVALID;
    if (opt->buffer_bytes > AHEAD_MAX_BUFFER_BYTES)
        return AHEAD_INVALID;
    if (opt->pool && ahead_pool_is_forked(opt->pool))
        return AHEAD_INVALID;
    return AHEAD_OK;
}

static enum ahead_status
create(struct ahead_core **out, struct ahead_source src, const struct ahead_options *opt)
{
    struct ahead_core *c;
    void *block;
    enum ahead_status st;
    bool sync = (opt->flags & AHEAD_SYNC) || ahead_source_is_immediate(src);

    if (posix_memalign(&block, AHEAD_CACHE_LINE, sizeof *c))
        return AHEAD_NOMEM;
    c = memset(block, 0, sizeof *c);
    c->src = src;
    c->buffer_bytes = opt->buffer_bytes;
    c->read_timeout_ms = opt->read_timeout_ms;
    c->close_timeout_ms = opt->close_timeout_ms;
    c->process = ahead_process();
    c->error.source_offset = AHEAD_NO_OFFSET;
    strncpy(c->name, opt->name ? opt->name : "ahead", sizeof c->name - 1);
    ahead_core_reset_window(c, 0);
    c->swap.split = ahead_source_is_split(src);
    c->swap.may_block = ahead_source_may_block(src);
    c->swap.delegate = opt->read_timeout_ms > 0;
    c->swap.can_wait = src.ops->split && src.ops->split->wait;
    c->swap.pool = opt->pool;
    c->swap.task.run = ahead_fill_run;
    c->swap.eager = (opt->flags & AHEAD_EAGER) && !sync;
    c->swap.fill = sync ? AHEAD_FILL_NEVER : AHEAD_FILL_NONE;
    st = ahead_swap_init(&c->swap);
    if (st) {
        free(c);
        return st;
    }
    if (c->swap.pool) {
        ahead_pool_enter(c->swap.pool);
        ahead_pool_begin_share(c->swap.pool);
        c->shares = true;
    }
    *out = c;
    return AHEAD_OK;
}

enum ahead_status
ahead_open(struct ahead_stream **out, struct ahead_source src, const struct ahead_options *opt)
{
    static const struct ahead_options defaults;
    struct ahead_core *c = NULL;
    enum ahead_status st;

    if (!opt)
        opt = &defaults;
    st = out ? check(src, opt) : AHEAD_INVALID;
    if (!st)
        st = create(&c, src, opt);
    if (out)
        *out = st ? NULL : &c->hot;
    if (st) {
        close_source(src);
        return ahead_fail_errno(st);
    }
    if (c->swap.eager)
        ahead_fill_start(c);
    return AHEAD_OK;
}

enum ahead_status
ahead_open_path(struct ahead_stream **out, const char *path, const struct ahead_options *opt)
{
    struct ahead_source src;
    enum ahead_status st;

    if (!out)
        return ahead_fail_errno(AHEAD_INVALID);
    *out = NULL;
    st = ahead_source_path(&src, path);
    return st ? st : ahead_open(out, src, opt);
}

/* ---- cancel and close ---- */

void ahead_cancel(struct ahead_stream *s)
{
    struct ahead_core *c = ahead_core_of(s);

    if (s && !ahead_core_forked(c))
        ahead_swap_cancel(&c->swap, c->src);
}

enum ahead_status ahead_core_destroy(struct ahead_core *c)
{
    enum ahead_status st;

    if (ahead_core_forked(c)) {
        /* The second thread may have been anywhere when the process forked:
         * the lock and what it was changing are left alone. */
        st = close_source(c->src);
        free(c->job.in);
        free(c->job.block);
        free(c->gather);
        free(c);
        return st;
    }
    ahead_swap_drop(&c->swap, c->src);
    st = close_source(c->src);
    for (unsigned i = 0; i < 2; i++)
        ahead_fill_delete_half(c, i, c->swap.half[i].bytes, c->swap.half[i].cap);
    ahead_swap_destroy(&c->swap);
    free(c->job.in);
    free(c->job.block);
    free(c->fill_job.in);
    free(c->fill_job.block);
    free(c->gather);
    if (c->shares)
        ahead_pool_end_share(c->swap.pool);
    if (c->swap.pool)
        ahead_pool_leave(c->swap.pool);
    free(c);
    return st;
}

/* What a read has reached and close repeats. */
static enum ahead_status fault(const struct ahead_core *c)
{
    if (!c->reached || c->error.status == AHEAD_EOF || c->error.status == AHEAD_CANCELLED)
        return AHEAD_OK;
    return c->error.status;
}

enum ahead_status ahead_close(struct ahead_stream *s)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status reached, closed;
    struct ahead_pool *pool;
    pthread_t thread;

    if (!s)
        return AHEAD_OK;
    if (ahead_fill_is_self(c) || c->calling || ahead_core_is_busy(c) ||
        (!ahead_core_forked(c) && ahead_swap_is_hooking(&c->swap)))
        return AHEAD_INVALID;
    c->calling = true; /* a function of the source may call this again */
    if (!ahead_core_forked(c)) {
        pool = c->swap.pool;
        thread = c->thread;
        switch (ahead_swap_stop(&c->swap, c->src, c->close_timeout_ms)) {
        case AHEAD_FILL_RUNNING: /* the stream is the thread's from here on */
            if (!pool)
                pthread_detach(thread);
            return AHEAD_TIMEDOUT;
        case AHEAD_FILL_LEFT: pthread_join(thread, NULL); break;
        case AHEAD_FILL_NONE:
        case AHEAD_FILL_NEVER: break;
        }
    }
    reached = fault(c);
    closed = ahead_core_destroy(c);
    return reached ? reached : closed;
}

/* ---- buffers that change hands ---- */

/* The size of a buffer, which was not chosen yet: the source may be asked for
 * its largest block, which only one may do at a time, and may read for that. */
static enum ahead_status choose(struct ahead_core *c, size_t *cap)
{
    enum ahead_status st = ahead_core_begin_seek(c);

    if (st)
        return st;
    c->calling = true;
    if (!c->src.ops->unit || ahead_core_source_in_time(c))
        *cap = ahead_fill_buffer_bytes(c);
    c->calling = false;
    ahead_swap_end_seek(&c->swap);
    return *cap ? AHEAD_OK : ahead_core_fail_timeout(c);
}

enum ahead_status ahead_buffer_alloc(struct ahead_stream *s, struct ahead_buffer *b)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st;
    size_t cap;

    if (!b)
        return AHEAD_INVALID;
    *b = (struct ahead_buffer){ 0 };
    if (!s || ahead_core_forked(c))
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    cap = c->buffer_bytes ? c->buffer_bytes : ahead_swap_full_bytes(&c->swap);
    if (!cap && (st = choose(c, &cap)))
        return st;
    b->data = ahead_buffer_new(cap);
    if (!b->data)
        return ahead_core_fail(c, AHEAD_NOMEM, "no memory for a buffer of %zu bytes", cap);
    b->cap = cap;
    return AHEAD_OK;
}

/* The bytes at hand are copied into the buffer that was given: a peek has
 * gathered them, or they are the few saved at a swap, or the source may be
 * about to block in a read() into the buffer where they lie. */
static void fill_given(struct ahead_core *c, struct ahead_buffer *b)
{
    b->len = ahead_core_unread(c) < b->cap ? ahead_core_unread(c) : b->cap;
    memcpy(b->data, c->hot.next, b->len);
    c->hot.next += b->len;
}

enum ahead_status ahead_swap_buffer(struct ahead_stream *s, struct ahead_buffer *b)
{
    struct ahead_core *c = ahead_core_of(s);
    enum ahead_status st;
    uint8_t *bytes, *next;
    size_t cap, end;

    if (!s)
        return AHEAD_INVALID;
    AHEAD_ENTER(c, AHEAD_INVALID);
    if (!b || !b->data || b->cap == 0 || !(bytes = ahead_buffer_find(b->data + b->cap)))
        return ahead_core_fail(c, AHEAD_INVALID, "no buffer was given for the one to be had");
    if (ahead_core_unread(c) == 0 && (st = ahead_core_more(c, 1)))
        return st;
    if (!c->in_half) {
        fill_given(c, b);
        return AHEAD_OK;
    }
    if (ahead_core_forked(c))
        return AHEAD_INVALID;
    cap = (size_t)(b->data + b->cap - bytes);
    st = ahead_swap_replace(&c->swap, c->read_timeout_ms, &bytes, &cap, &end);
    if (st == AHEAD_UNSUPPORTED) {
        fill_given(c, b);
        return AHEAD_OK;
    }
    if (st)
        return ahead_core_fail(c, st, "pieces of the buffer were not made in %u ms",
                               c->read_timeout_ms);
    ahead_buffer_unpoison(bytes, cap);
    next = bytes + (c->hot.next - (const uint8_t *)bytes);
    *b = (struct ahead_buffer){
        .data = next,
        .len = (size_t)(bytes + end - next),
        .cap = (size_t)(bytes + cap - next),
    };
    ahead_core_reset_window(c, ahead_tell(s) + b->len);
    return AHEAD_OK;
}

/* ---- figures ---- */

void ahead_get_stats(struct ahead_stream *s, struct ahead_stats *out)
{
    struct ahead_core *c = ahead_core_of(s);

    if (!out)
        return;
    *out = (struct ahead_stats){ 0 };
    if (!s || ahead_core_forked(c))
        return;
    ahead_swap_get_stats(&c->swap, out);
    ahead_core_count(c);
    out->bytes = c->counted;
}

#ifdef AHEAD_CHECKS
#include <stdatomic.h>

struct ahead_core *ahead_enter(struct ahead_core *c)
{
    if (atomic_fetch_add(&c->readers, 1) == 0)
        return c;
    atomic_fetch_sub(&c->readers, 1);
    return NULL;
}

void ahead_leave(struct ahead_core **c)
{
    if (*c)
        atomic_fetch_sub(&(*c)->readers, 1);
}
#endif
