/* SPDX-License-Identifier: Apache-2.0 */
/* push.c - the life of a pusher, what producers call, and the push thread. */
#include <ahead/push.h>

#include "error.h"
#include "process.h"
#include "thread.h"
#include "write/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)64 * 1024)
#define MAX_BUFFER_BYTES ((size_t)1 << 30)
enum { BUFFERS = 4, MAX_BUFFERS = 65536 };

struct ahead_pusher {
    /* immutable */
    ahead_push_fn fn;
    void *ctx;
    uint32_t close_timeout_ms;
    pthread_t thread;

    struct ahead_queue queue; /* see queue.h */
};

/* The pusher whose push thread this thread is. */
static _Thread_local const struct ahead_pusher *self_;

/* Whether a call may go on. */
static bool may_enter(const struct ahead_pusher *p)
{
    return p && p->queue.process == ahead_process() && self_ != p;
}

/* ---- the push thread ---- */

/* The next item, if there is one already. */
static const struct ahead_slot *push_item(struct ahead_pusher *p, const struct ahead_slot *s)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_status st;

    errno = 0;
    st = p->fn(p->ctx, s->key, s->big ? s->big : s->bytes, s->len, &err);
    if (st == AHEAD_IO && !err.status && errno)
        ahead_error_set_errno(&err, errno, AHEAD_NO_OFFSET, "pushing an item failed");
    err.status = st;
    if (st)
        ahead_error_make_failure(&err, "push function");
    return ahead_queue_end_push(&p->queue, &err);
}

static void destroy(struct ahead_pusher *p)
{
    ahead_queue_destroy(&p->queue);
    free(p);
}

/* The push function has ended the thread, by pthread_exit() or the like. */
static void died(void *arg)
{
    struct ahead_pusher *p = arg;

    if (ahead_queue_died(&p->queue))
        destroy(p);
}

static void *push_main(void *arg)
{
    struct ahead_pusher *p = arg;
    const struct ahead_slot *s;
    bool orphan = false;

    self_ = p;
    pthread_cleanup_push(died, p);
    while ((s = ahead_queue_begin_push(&p->queue, &orphan)))
        while (s)
            s = push_item(p, s);
    pthread_cleanup_pop(0);
    if (orphan)
        destroy(p);
    return NULL;
}

/* ---- open ---- */

static enum ahead_status create(struct ahead_pusher **out, ahead_push_fn fn, void *ctx,
                                const struct ahead_pusher_options *opt)
{
    struct ahead_pusher *p = calloc(1, sizeof *p);
    enum ahead_status st;
    int rc;

    if (!p)
        return AHEAD_NOMEM;
    p->fn = fn;
    p->ctx = ctx;
    p->close_timeout_ms = opt->close_timeout_ms;
    st = ahead_queue_init(&p->queue, opt->buffers ? opt->buffers : BUFFERS,
                          opt->buffer_bytes ? opt->buffer_bytes : BUFFER_BYTES);
    if (st) {
        free(p);
        return st;
    }
    rc = ahead_thread_start(&p->thread, opt->name ? opt->name : "ahead push", push_main, p);
    if (rc) {
        destroy(p);
        errno = rc;
        return AHEAD_IO;
    }
    *out = p;
    return AHEAD_OK;
}

enum ahead_status ahead_pusher_open(struct ahead_pusher **out, ahead_push_fn fn, void *ctx,
                                    const struct ahead_pusher_options *opt)
{
    static const struct ahead_pusher_options defaults;
    enum ahead_status st = AHEAD_INVALID;

    if (!opt)
        opt = &defaults;
    if (out)
        *out = NULL;
    if (out && fn && opt->buffers != 1 && opt->buffers <= MAX_BUFFERS &&
        opt->buffer_bytes <= MAX_BUFFER_BYTES)
        st = create(out, fn, ctx, opt);
    return ahead_fail_errno(st);
}

/* ---- producers ---- */

enum ahead_status ahead_pusher_acquire(struct ahead_pusher *p, struct ahead_buffer *b)
{
    enum ahead_status st;

    if (!b)
        return AHEAD_INVALID;
    *b = (struct ahead_buffer){ 0 };
    if (!may_enter(p))
        return AHEAD_INVALID;
    st = ahead_queue_acquire(&p->queue, &b->data);
    if (!st)
        b->cap = p->queue.cap;
    return st;
}

enum ahead_status
ahead_push_copy(struct ahead_pusher *p, uint64_t key, const void *data, size_t len)
{
    struct ahead_slot *s;
    enum ahead_status st;
    bool big;

    if (!may_enter(p) || (!data && len > 0))
        return AHEAD_INVALID;
    big = len > p->queue.cap;
    st = ahead_queue_begin_copy(&p->queue, big, &s);
    if (st)
        return st;
    if (big && !(s->big = malloc(len))) {
        ahead_queue_abandon_copy(&p->queue, s);
        return AHEAD_NOMEM;
    }
    s->key = key;
    s->len = len;
    if (len > 0)
        memcpy(big ? s->big : s->bytes, data, len);
    return ahead_queue_end_copy(&p->queue, s);
}

enum ahead_status ahead_push_swap(struct ahead_pusher *p, uint64_t key, struct ahead_buffer *b)
{
    enum ahead_status st;

    if (!may_enter(p) || !b || !b->data || b->cap != p->queue.cap || b->len > b->cap)
        return AHEAD_INVALID;
    st = ahead_queue_swap(&p->queue, key, b->len, &b->data);
    if (!st)
        b->len = 0;
    return st;
}

enum ahead_status ahead_pusher_drain(struct ahead_pusher *p)
{
    return may_enter(p) ? ahead_queue_drain(&p->queue) : AHEAD_INVALID;
}

/* ---- cancel and close ---- */

void ahead_pusher_cancel(struct ahead_pusher *p)
{
    if (p && p->queue.process == ahead_process())
        ahead_queue_cancel(&p->queue);
}

static enum ahead_status close_parent(struct ahead_pusher *p, struct ahead_error *err)
{
    pthread_t thread = p->thread;

    switch (ahead_queue_close(&p->queue, p->close_timeout_ms, err)) {
    case AHEAD_QUEUE_REFUSED: break;
    case AHEAD_QUEUE_OWNED: pthread_detach(thread); break;
    case AHEAD_QUEUE_CLOSED:
        pthread_join(thread, NULL);
        destroy(p);
        break;
    }
    return err->status;
}

enum ahead_status ahead_pusher_close_error(struct ahead_pusher *p, struct ahead_error *err)
{
    struct ahead_error ignored;

    if (!err)
        err = &ignored;
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    if (!p)
        return AHEAD_OK;
    if (self_ == p)
        return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                               "called inside the push function");
    if (p->queue.process == ahead_process())
        return close_parent(p, err);
    destroy(p);
    return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                           "the pusher belongs to the process that opened it");
}

enum ahead_status ahead_pusher_close(struct ahead_pusher *p)
{
    return ahead_pusher_close_error(p, NULL);
}

/* ---- what there is to know ---- */

const struct ahead_error *ahead_pusher_error(struct ahead_pusher *p)
{
    static const struct ahead_error none = { .source_offset = AHEAD_NO_OFFSET };
    static const struct ahead_error no_pusher = { .status = AHEAD_INVALID,
                                                  .source_offset = AHEAD_NO_OFFSET,
                                                  .text = "there is no pusher" };
    const struct ahead_error *failure;

    if (!p)
        return &no_pusher;
    failure = p->queue.process == ahead_process() ? ahead_queue_failure(&p->queue) : NULL;
    return failure ? failure : &none;
}

void ahead_pusher_get_stats(struct ahead_pusher *p, struct ahead_pusher_stats *out)
{
    if (!out)
        return;
    *out = (struct ahead_pusher_stats){ 0 };
    if (p && p->queue.process == ahead_process())
        ahead_queue_get_stats(&p->queue, out);
}
