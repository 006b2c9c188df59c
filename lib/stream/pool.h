/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - threads that run the tasks of many streams, and a budget of bytes.
 *
 * A stream submits its task when there is something to claim, a writer when
 * there is something to write; a thread of the pool takes it from the queue and
 * runs it.  The pool's lock comes below that of a stream: a task may be
 * submitted and withdrawn with the stream's lock held; the pool never takes a
 * stream's lock while it holds its own.  What is said of a stream here holds
 * for a writer, too. */
#ifndef AHEAD_STREAM_POOL_H
#define AHEAD_STREAM_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include <ahead/pool.h>

#include "source/split.h"

/* A thousand streams are not to take a thousand whole buffers at once: each
 * begins with so little (bench_merge). */
#define AHEAD_POOL_FIRST_BYTES ((size_t)64 << 10)

/* What a stream has in the queue: once at most. */
struct ahead_task {
    struct ahead_task *next, *prev; /* pool's lock; next is NULL: not queued */
    /* Runs on a thread of the pool, with that thread's scratch.  The task may
     * be gone when it returns. */
    void (*run)(struct ahead_task *task, struct ahead_job *job);
};

/* One more, one less stream that uses the pool. */
void ahead_pool_enter(struct ahead_pool *p);
void ahead_pool_leave(struct ahead_pool *p);

/* A child of fork() has neither the threads nor a lock that is sure to be free. */
bool ahead_pool_is_forked(const struct ahead_pool *p);

/* See to it that threads run.  false: not one could be started.  May allocate:
 * called without a lock. */
bool ahead_pool_start(struct ahead_pool *p);

/* Queue a task that is not queued; `urgent`: in front of the others.  Wakes
 * a thread, if one sleeps and none is on its way. */
void ahead_pool_submit(struct ahead_pool *p, struct ahead_task *task, bool urgent);

/* Take a task out of the queue.  false: it is not there (any more). */
bool ahead_pool_withdraw(struct ahead_pool *p, struct ahead_task *task);

/* Put a task that is still in the queue in front of the others. */
void ahead_pool_promote(struct ahead_pool *p, struct ahead_task *task);

/* Whether other tasks wait for a thread. */
bool ahead_pool_is_pressed(struct ahead_pool *p);

/* One more, one less stream that shares the budget: from its open on, whether
 * or not it holds any, until it has ended. */
void ahead_pool_begin_share(struct ahead_pool *p);
void ahead_pool_end_share(struct ahead_pool *p);

/* What there is of the budget for one of the two buffers of a stream. */
size_t ahead_pool_share_bytes(struct ahead_pool *p);

/* Take from the budget what one of the two buffers of a stream needs: `cap`
 * bytes, or as many as its share or the rest of the budget allow.  Returns how
 * many bytes the buffer may have; 0, and nothing is taken: not more than the
 * `have` bytes that it has.  *borrowed is to be returned, sooner or later. */
size_t ahead_pool_borrow(struct ahead_pool *p, size_t cap, size_t have, size_t *borrowed);
void ahead_pool_return(struct ahead_pool *p, size_t bytes);

/* Whether a buffer of so many borrowed bytes is more than a share by now, and
 * there is no whole share left for another stream. */
bool ahead_pool_wants_back(struct ahead_pool *p, size_t bytes);

/* Scratch of readers.  One that makes a piece itself needs it for the time of
 * that piece; a thousand streams are not to keep a thousand of them.  `job` has
 * none, and gets what lies about, if anything does; then it has some, and gives
 * it back. */
void ahead_pool_lend(struct ahead_pool *p, struct ahead_job *job);
void ahead_pool_take_back(struct ahead_pool *p, struct ahead_job *job);

/* Whether this thread is one of the pool's; one of any pool. */
bool ahead_pool_is_self(const struct ahead_pool *p);
bool ahead_pool_is_any(void);

#endif
