/* SPDX-License-Identifier: Apache-2.0 */
/* behind.h - two halves on their way out, and who may touch what when.
 *
 * A writer's memory is two *halves*.  The writing thread, the *producer*, holds
 * one and fills it without a lock:
 *
 *     bytes                   next            end
 *       |-------written--------|-----room------|--slack--|
 *
 * When it is full the producer *hands it over*: from then on it belongs to
 * whoever has the *token*, until the sink has taken its bytes.  Then it is free
 * again.  The halves take turns, so what reaches the sink is in order.  Both
 * may have been handed over: the producer holds none then, and waits for room.
 *
 *     free --take--> held --give--> full --write, by the token's holder--> free
 *
 * The token's holder is the only one in the sink.  That is the second thread;
 * or the producer, while there is no second thread, and for a flush that finds
 * it asleep.  What there is to do, in this order: write the full half whose
 * turn it is, flush, and once close has begun: finish, close the sink, leave.
 *
 * With a pool, the second thread is whichever of its threads runs the writer's
 * task.  The task is queued when there is something to do.  A producer who would
 * have to wait while it is still in the queue does the job itself: so a busy
 * pool degrades to writing synchronously, and writers that write into one
 * another cannot deadlock on a pool of one thread.  Where the pool's budget has
 * memory for one half only, the halves pass it on: the producer waits until it
 * has been written.
 *
 * There is one failure slot.  It is filled once, by whatever fails first:
 * sink, thread, cancel, or a close that ran out of time.  From then on nothing
 * more is written, and every wait but that of close is over.
 *
 * Guard words of shared fields:
 *
 *   immutable   set before the writer is shared, read by all
 *   producer    the writing thread only
 *   lock        any thread, holding `lock`
 *   holder      whoever has the token
 *
 * `lock` is a leaf, but for a pool's lock: no function of the sink, no callback
 * and no allocation is called while it is held. */
#ifndef AHEAD_WRITE_BEHIND_H
#define AHEAD_WRITE_BEHIND_H

#include <ahead/status.h>
#include <ahead/writer.h>

#include "stream/pool.h"
#include "write/outlet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct ahead_parcel {
    uint8_t *bytes;  /* producer, while it is not full; then holder; NULL: no memory */
    size_t cap;      /* as bytes */
    size_t borrowed; /* as bytes: of a pool's budget */
    size_t len;      /* as bytes */
    bool full;       /* lock: handed over, and not yet in the sink */
};

/* What the second thread is doing. */
enum ahead_behind_thread {
    AHEAD_BEHIND_NONE,    /* not started */
    AHEAD_BEHIND_IDLE,    /* with a pool: the task is not in its queue */
    AHEAD_BEHIND_QUEUED,  /* with a pool: the task is in its queue, or a thread about to come */
    AHEAD_BEHIND_RUNNING, /* it works, or sleeps until there is something to do */
    AHEAD_BEHIND_LEFT,    /* it has ended, and wants to be joined */
    AHEAD_BEHIND_NEVER    /* not wanted, or it could not be started */
};

/* What the producer sleeps for. */
enum ahead_behind_wish {
    AHEAD_BEHIND_AWAKE,   /* it does not */
    AHEAD_BEHIND_ROOM,    /* a free half, or a failure */
    AHEAD_BEHIND_DRAINED, /* both halves free, or a failure */
    AHEAD_BEHIND_FLUSHED, /* all that was handed over is flushed, or a failure */
    AHEAD_BEHIND_CLOSED   /* the sink is closed, and the second thread has left */
};

/* What the token's holder is to do. */
enum ahead_behind_job {
    AHEAD_JOB_NOTHING,
    AHEAD_JOB_WRITE,
    AHEAD_JOB_FLUSH,
    AHEAD_JOB_FINISH,
    AHEAD_JOB_CLOSE
};

struct ahead_behind {
    pthread_mutex_t lock;
    pthread_cond_t room; /* the producer waits: see enum ahead_behind_wish */
    pthread_cond_t work; /* the second thread waits: a job, or to leave */
    clockid_t clock;     /* immutable: of both conditions */

    struct ahead_pool *pool; /* immutable: its threads write; NULL: a second thread does */
    struct ahead_task task;  /* the pool's */

    bool delegate; /* lock: the producer is never in the sink if it can be helped */
    bool nested;   /* lock: the producer is a pool's thread: another may never come */
    bool waited;   /* lock: it had to wait or to write: see ahead_behind_had_to_wait() */

    struct ahead_parcel half[2];
    unsigned giving; /* lock: the half that is held, or is to be taken next; producer writes */
    unsigned taking; /* lock: the half that is to be written next */

    bool token;    /* lock: somebody is in the sink */
    bool flush;    /* lock: asked for, not yet done */
    bool finished; /* lock: a latch: finish() has returned AHEAD_OK */
    bool closed;   /* lock: a latch: close() has been, or is being called */

    uint64_t taken;             /* lock: bytes that the sink took */
    struct ahead_error failure; /* lock: written once; AHEAD_OK: none.  Then immutable */

    bool stop;      /* lock: a latch: close has begun */
    bool hooked;    /* lock: a latch: interrupt() has been called */
    unsigned hooks; /* lock: callers inside interrupt() */
    bool orphan;    /* lock: close ran out of time; the second thread cleans up */

    enum ahead_behind_thread thread; /* lock */
    bool thread_waits;               /* lock: asleep on `work` */
    enum ahead_behind_wish wish;     /* lock: what the producer sleeps for */

    struct ahead_writer_stats stats; /* lock */
};

/* How a call of the producer ended. */
enum ahead_behind_turn {
    AHEAD_BEHIND_GRANTED,
    AHEAD_BEHIND_WORK, /* the producer has the token: do *job, and ask again */
    AHEAD_BEHIND_FAILED,
    AHEAD_BEHIND_TIMEDOUT
};

/* Set up lock and conditions; the rest of *b is zero but for the immutable
 * fields.  AHEAD_OK, AHEAD_NOMEM. */
enum ahead_status ahead_behind_init(struct ahead_behind *b);
void ahead_behind_destroy(struct ahead_behind *b);

/* ---- the producer ---- */

/* Hand over the half that is held, with `len` bytes; 0: none is.  `flush`: and
 * ask for a flush behind it, which the producer waits for: if it is to do that
 * itself nobody is woken. */
void ahead_behind_give(struct ahead_behind *b, size_t len, bool flush);

/* Sleep until `wish` is granted, timeout_ms (0: no limit) has passed, or there
 * is a job for the producer. */
enum ahead_behind_turn ahead_behind_next(struct ahead_behind *b, enum ahead_behind_wish wish,
                                         uint32_t timeout_ms, enum ahead_behind_job *job);

/* Whether the second thread is to be started now.  true: the caller starts it. */
bool ahead_behind_begin_start(struct ahead_behind *b);
/* It could not be started: the producer writes. */
void ahead_behind_start_failed(struct ahead_behind *b);

/* The failure, or NULL. */
const struct ahead_error *ahead_behind_failure(struct ahead_behind *b);

/* Whether the producer had to wait or to write since this was asked last. */
bool ahead_behind_had_to_wait(struct ahead_behind *b);

/* Close: the half that is held has been handed over, and nothing follows it.
 * `timed`: close has a limit, and leaves the sink to others if it can; else the
 * producer may write, whatever limit its other calls have. */
void ahead_behind_stop(struct ahead_behind *b, bool timed);

/* Close ran out of time.  Fails with AHEAD_TIMEDOUT, unless there was a failure
 * already, and interrupts the sink.  true: the second thread has not left all
 * the same, and owns the writer now; the caller touches it no more, and *err
 * says how far it got. */
bool ahead_behind_abandon(struct ahead_behind *b, struct ahead_outlet *out, uint32_t timeout_ms,
                          struct ahead_error *err);

/* Whether there was a second thread, which has left. */
bool ahead_behind_must_join(struct ahead_behind *b);

/* ---- whoever has the token ---- */

/* The second thread: sleep until there is a job, and take the token.  false:
 * leave, and touch nothing of the writer any more; unless *orphan: clean up. */
bool ahead_behind_begin(struct ahead_behind *b, enum ahead_behind_job *job, bool *orphan);

/* A thread of the pool, in the writer's task: take the token, if there is a job.
 * `again`: it has done one, and makes way for others.  false: leave, as
 * above. */
bool ahead_behind_begin_task(struct ahead_behind *b, bool again, enum ahead_behind_job *job,
                             bool *orphan);

/* The half that is to be written.  With the token held. */
const struct ahead_parcel *ahead_behind_parcel(const struct ahead_behind *b);

/* The sink took `n` bytes more. */
void ahead_behind_took(struct ahead_behind *b, size_t n);

/* The job is done, err->status says how; the token is free again.  `wish`: what
 * the producer, if it was the holder, asks for next: nobody is woken for a job
 * that it is to do itself. */
void ahead_behind_end(struct ahead_behind *b, enum ahead_behind_job job,
                      const struct ahead_error *err, enum ahead_behind_wish wish);

/* The second thread has ended inside a function of the sink.  Returns whether
 * it is to clean up. */
bool ahead_behind_died(struct ahead_behind *b);

/* ---- any thread ---- */

/* Fail, unless something has already. */
void ahead_behind_fail(struct ahead_behind *b, const struct ahead_error *err);

/* Fail with AHEAD_CANCELLED, unless something has failed already, and interrupt
 * the sink if nobody has. */
void ahead_behind_cancel(struct ahead_behind *b, struct ahead_outlet *out);

uint64_t ahead_behind_taken(struct ahead_behind *b);
void ahead_behind_get_stats(struct ahead_behind *b, struct ahead_writer_stats *out);

#endif
