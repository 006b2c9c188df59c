/* SPDX-License-Identifier: Apache-2.0 */
/* behind.c - the hand-over of halves from the producer to the sink: the only
 * file that locks a writer.
 *
 * Every transition is one section under the lock, and ends by waking whoever
 * sleeps and can go on now (wake_locked), and nobody else. */
#include "write/behind.h"

#include "error.h"
#include "stream/buffer.h"
#include "thread.h"

/* ---- predicates, all called locked ---- */

static bool failed_locked(const struct ahead_behind *b)
{
    return b->failure.status != AHEAD_OK;
}

/* What is to be done in the sink next, by whoever takes the token. */
static enum ahead_behind_job next_job_locked(const struct ahead_behind *b)
{
    if (b->token)
        return AHEAD_JOB_NOTHING;
    if (!failed_locked(b)) {
        if (b->half[b->taking].full)
            return AHEAD_JOB_WRITE;
        if (b->flush)
            return AHEAD_JOB_FLUSH;
        if (b->stop && !b->finished)
            return AHEAD_JOB_FINISH;
    }
    /* interrupt() may not run beside or behind close(). */
    return b->stop && !b->closed && b->hooks == 0 ? AHEAD_JOB_CLOSE : AHEAD_JOB_NOTHING;
}

static bool all_closed_locked(const struct ahead_behind *b)
{
    return b->closed && !b->token;
}

/* Whether some thread is, or will be, in the writer's own loop or task. */
static bool is_away_locked(const struct ahead_behind *b)
{
    return b->thread == AHEAD_BEHIND_RUNNING || b->thread == AHEAD_BEHIND_QUEUED;
}

static bool wish_granted_locked(const struct ahead_behind *b, enum ahead_behind_wish wish)
{
    switch (wish) {
    case AHEAD_BEHIND_AWAKE: return false;
    case AHEAD_BEHIND_ROOM: return failed_locked(b) || !b->half[b->giving].full;
    case AHEAD_BEHIND_DRAINED: return failed_locked(b) || !(b->half[0].full || b->half[1].full);
    case AHEAD_BEHIND_FLUSHED: return failed_locked(b) || !b->flush;
    case AHEAD_BEHIND_CLOSED: return all_closed_locked(b) && !is_away_locked(b);
    }
    return false;
}

/* Whether the producer, while it waits for `wish`, is to take the token: when
 * there is no second thread, or a pool's has not come yet, or when waking it
 * would only cost two changes of thread, since the producer has to wait
 * anyway. */
static bool producer_can_work_locked(const struct ahead_behind *b, enum ahead_behind_wish wish)
{
    if (next_job_locked(b) == AHEAD_JOB_NOTHING)
        return false;
    switch (b->thread) {
    case AHEAD_BEHIND_NONE:
    case AHEAD_BEHIND_LEFT:
    case AHEAD_BEHIND_NEVER: return true;
    case AHEAD_BEHIND_IDLE:
    case AHEAD_BEHIND_QUEUED: return !b->delegate || b->nested;
    case AHEAD_BEHIND_RUNNING:
        return wish == AHEAD_BEHIND_FLUSHED && b->thread_waits && !b->delegate;
    }
    return false;
}

static bool thread_can_go_on_locked(const struct ahead_behind *b)
{
    return next_job_locked(b) != AHEAD_JOB_NOTHING || all_closed_locked(b);
}

/* ---- waking and sleeping ---- */

/* Has the pool's queue the task, if there is anything to do. */
static void call_pool_locked(struct ahead_behind *b)
{
    if (b->thread != AHEAD_BEHIND_IDLE || next_job_locked(b) == AHEAD_JOB_NOTHING)
        return;
    b->thread = AHEAD_BEHIND_QUEUED;
    ahead_pool_submit(b->pool, &b->task, b->wish != AHEAD_BEHIND_AWAKE);
}

static void wake_locked(struct ahead_behind *b)
{
    if (wish_granted_locked(b, b->wish) ||
        (b->wish != AHEAD_BEHIND_AWAKE && producer_can_work_locked(b, b->wish))) {
        b->wish = AHEAD_BEHIND_AWAKE;
        b->stats.wakeups++;
        pthread_cond_signal(&b->room);
    }
    if (b->thread_waits && thread_can_go_on_locked(b)) {
        b->thread_waits = false;
        b->stats.wakeups++;
        pthread_cond_signal(&b->work);
    }
    call_pool_locked(b);
}

/* The same, unless there is a job that the producer does itself, on its way to
 * `wish`. */
static void wake_but_for_locked(struct ahead_behind *b, enum ahead_behind_wish wish)
{
    if (wish == AHEAD_BEHIND_AWAKE || wish_granted_locked(b, wish) ||
        !producer_can_work_locked(b, wish))
        wake_locked(b);
}

/* The producer sleeps once for `wish`, until `until` (0: for ever); the caller
 * tests again.  Returns the time. */
static uint64_t producer_sleep_locked(struct ahead_behind *b, enum ahead_behind_wish wish,
                                      uint64_t now, uint64_t until)
{
    uint64_t then;

    b->wish = wish;
    if (b->thread == AHEAD_BEHIND_QUEUED)
        ahead_pool_promote(b->pool, &b->task);
    ahead_thread_sleep(&b->room, &b->lock, until);
    b->wish = AHEAD_BEHIND_AWAKE;
    then = ahead_thread_now_ns(b->clock);
    b->stats.producer_wait_ns += then - now;
    return then;
}

/* Takes the task out of the pool's queue, if it is still there. */
static void withdraw_locked(struct ahead_behind *b)
{
    if (b->thread == AHEAD_BEHIND_QUEUED && ahead_pool_withdraw(b->pool, &b->task))
        b->thread = AHEAD_BEHIND_IDLE;
}

static enum ahead_behind_job begin_job_locked(struct ahead_behind *b)
{
    enum ahead_behind_job job = next_job_locked(b);

    b->token = true;
    if (job == AHEAD_JOB_CLOSE)
        b->closed = true;
    return job;
}

/* ---- set-up ---- */

enum ahead_status ahead_behind_init(struct ahead_behind *b)
{
    if (pthread_mutex_init(&b->lock, NULL))
        return AHEAD_NOMEM;
    if (ahead_thread_cond_init(&b->room, &b->clock))
        goto err_lock;
    if (ahead_thread_cond_init(&b->work, &b->clock))
        goto err_room;
    return AHEAD_OK;

err_room:
    pthread_cond_destroy(&b->room);
err_lock:
    pthread_mutex_destroy(&b->lock);
    return AHEAD_NOMEM;
}

void ahead_behind_destroy(struct ahead_behind *b)
{
    pthread_cond_destroy(&b->work);
    pthread_cond_destroy(&b->room);
    pthread_mutex_destroy(&b->lock);
}

/* ---- failure, called locked ---- */

/* Fills the failure slot, unless it is.  What was handed over stays where it
 * is: nobody asks for it any more. */
static void fail_locked(struct ahead_behind *b, const struct ahead_error *err)
{
    if (failed_locked(b))
        return;
    b->failure = *err;
    b->failure.offset = b->taken;
    if (b->failure.source_offset == AHEAD_NO_OFFSET)
        b->failure.source_offset = b->taken;
    b->flush = false;
}

/* Makes a blocked call of the sink return, if nobody has.  Lets go of the lock
 * for a while; close() of the sink waits for `hooks`. */
static void hook_locked(struct ahead_behind *b, struct ahead_outlet *out)
{
    if (b->hooked || b->closed)
        return;
    b->hooked = true;
    b->hooks++;
    pthread_mutex_unlock(&b->lock);
    ahead_outlet_interrupt(out);
    pthread_mutex_lock(&b->lock);
    b->hooks--;
    wake_locked(b);
}

/* ---- the producer ---- */

void ahead_behind_give(struct ahead_behind *b, size_t len, bool flush)
{
    struct ahead_parcel *p;

    pthread_mutex_lock(&b->lock);
    b->nested = ahead_pool_is_any();
    p = &b->half[b->giving];
    if (len > 0) {
        p->len = len;
        p->full = true;
        b->giving = !b->giving;
        b->stats.swaps++;
        ahead_buffer_poison(p->bytes, len);
    }
    b->flush = (b->flush || flush) && !failed_locked(b);
    wake_but_for_locked(b, flush ? AHEAD_BEHIND_FLUSHED : AHEAD_BEHIND_AWAKE);
    pthread_mutex_unlock(&b->lock);
}

enum ahead_behind_turn ahead_behind_next(struct ahead_behind *b, enum ahead_behind_wish wish,
                                         uint32_t timeout_ms, enum ahead_behind_job *job)
{
    enum ahead_behind_turn turn = AHEAD_BEHIND_GRANTED;
    uint64_t now = 0, deadline = 0;

    pthread_mutex_lock(&b->lock);
    b->nested = ahead_pool_is_any();
    while (!wish_granted_locked(b, wish)) {
        b->waited = true;
        if (producer_can_work_locked(b, wish)) {
            turn = AHEAD_BEHIND_WORK;
            withdraw_locked(b);
            *job = begin_job_locked(b);
            break;
        }
        if (!now) {
            now = ahead_thread_now_ns(b->clock);
            deadline = timeout_ms ? now + timeout_ms * UINT64_C(1000000) : 0;
            b->stats.producer_waits++;
        }
        if (deadline && now >= deadline) {
            turn = AHEAD_BEHIND_TIMEDOUT;
            break;
        }
        now = producer_sleep_locked(b, wish, now, deadline);
    }
    if (turn == AHEAD_BEHIND_GRANTED && wish != AHEAD_BEHIND_CLOSED && failed_locked(b))
        turn = AHEAD_BEHIND_FAILED;
    pthread_mutex_unlock(&b->lock);
    return turn;
}

bool ahead_behind_begin_start(struct ahead_behind *b)
{
    bool start;

    pthread_mutex_lock(&b->lock);
    start = b->thread == AHEAD_BEHIND_NONE;
    if (start) {
        b->thread = b->pool ? AHEAD_BEHIND_IDLE : AHEAD_BEHIND_RUNNING;
        b->stats.threads_started = !b->pool;
    }
    pthread_mutex_unlock(&b->lock);
    return start;
}

void ahead_behind_start_failed(struct ahead_behind *b)
{
    pthread_mutex_lock(&b->lock);
    b->thread = AHEAD_BEHIND_NEVER;
    b->stats.threads_started = 0;
    pthread_mutex_unlock(&b->lock);
}

const struct ahead_error *ahead_behind_failure(struct ahead_behind *b)
{
    bool failed;

    pthread_mutex_lock(&b->lock);
    failed = failed_locked(b);
    pthread_mutex_unlock(&b->lock);
    return failed ? &b->failure : NULL;
}

bool ahead_behind_had_to_wait(struct ahead_behind *b)
{
    bool waited;

    pthread_mutex_lock(&b->lock);
    waited = b->waited;
    b->waited = false;
    pthread_mutex_unlock(&b->lock);
    return waited;
}

void ahead_behind_stop(struct ahead_behind *b, bool timed)
{
    pthread_mutex_lock(&b->lock);
    b->nested = ahead_pool_is_any();
    b->stop = true;
    b->delegate = timed;
    wake_locked(b);
    pthread_mutex_unlock(&b->lock);
}

bool ahead_behind_abandon(struct ahead_behind *b, struct ahead_outlet *out, uint32_t timeout_ms,
                          struct ahead_error *err)
{
    bool orphan;

    pthread_mutex_lock(&b->lock);
    ahead_error_set(err, AHEAD_TIMEDOUT, AHEAD_NO_OFFSET,
                    "the sink had taken %llu bytes when %u ms had passed",
                    (unsigned long long)b->taken, timeout_ms);
    fail_locked(b, err);
    wake_locked(b);
    hook_locked(b, out);
    /* A thread of the pool comes, if late. */
    orphan = is_away_locked(b) || (b->thread == AHEAD_BEHIND_IDLE && !all_closed_locked(b));
    b->orphan = orphan;
    err->offset = b->taken;
    pthread_mutex_unlock(&b->lock);
    return orphan;
}

bool ahead_behind_must_join(struct ahead_behind *b)
{
    bool left;

    pthread_mutex_lock(&b->lock);
    left = b->thread == AHEAD_BEHIND_LEFT;
    pthread_mutex_unlock(&b->lock);
    return left;
}

/* ---- whoever has the token ---- */

bool ahead_behind_begin(struct ahead_behind *b, enum ahead_behind_job *job, bool *orphan)
{
    bool work;

    pthread_mutex_lock(&b->lock);
    while (!thread_can_go_on_locked(b)) {
        uint64_t now = ahead_thread_now_ns(b->clock);

        b->stats.thread_waits++;
        b->thread_waits = true;
        ahead_thread_sleep(&b->work, &b->lock, 0);
        b->thread_waits = false;
        b->stats.thread_wait_ns += ahead_thread_now_ns(b->clock) - now;
    }
    work = !all_closed_locked(b);
    if (work) {
        *job = begin_job_locked(b);
    } else {
        *orphan = b->orphan;
        b->thread = AHEAD_BEHIND_LEFT;
        wake_locked(b);
    }
    pthread_mutex_unlock(&b->lock);
    return work;
}

bool ahead_behind_begin_task(struct ahead_behind *b, bool again, enum ahead_behind_job *job,
                             bool *orphan)
{
    bool work;

    pthread_mutex_lock(&b->lock);
    b->thread = AHEAD_BEHIND_RUNNING;
    work = next_job_locked(b) != AHEAD_JOB_NOTHING && !(again && ahead_pool_is_pressed(b->pool));
    if (work) {
        *job = begin_job_locked(b);
    } else {
        *orphan = b->orphan && all_closed_locked(b);
        b->thread = AHEAD_BEHIND_IDLE;
        wake_locked(b);
    }
    pthread_mutex_unlock(&b->lock);
    return work;
}

const struct ahead_parcel *ahead_behind_parcel(const struct ahead_behind *b)
{
    const struct ahead_parcel *p = &b->half[b->taking];

    ahead_buffer_unpoison(p->bytes, p->len);
    return p;
}

void ahead_behind_took(struct ahead_behind *b, size_t n)
{
    pthread_mutex_lock(&b->lock);
    b->taken += n;
    b->stats.sink_writes++;
    pthread_mutex_unlock(&b->lock);
}

void ahead_behind_end(struct ahead_behind *b, enum ahead_behind_job job,
                      const struct ahead_error *err, enum ahead_behind_wish wish)
{
    pthread_mutex_lock(&b->lock);
    b->token = false;
    switch (job) {
    case AHEAD_JOB_NOTHING:
    case AHEAD_JOB_CLOSE: break;
    case AHEAD_JOB_WRITE:
        ahead_buffer_poison(b->half[b->taking].bytes, b->half[b->taking].len);
        b->half[b->taking].full = false;
        b->taking = !b->taking;
        break;
    case AHEAD_JOB_FLUSH: b->flush = false; break;
    case AHEAD_JOB_FINISH: b->finished = true; break;
    }
    if (err->status)
        fail_locked(b, err);
    wake_but_for_locked(b, wish);
    pthread_mutex_unlock(&b->lock);
}

bool ahead_behind_died(struct ahead_behind *b)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    bool orphan;

    ahead_error_set(&err, AHEAD_IO, AHEAD_NO_OFFSET,
                    "the second thread ended inside a function of the sink");
    pthread_mutex_lock(&b->lock);
    b->token = false;
    fail_locked(b, &err);
    orphan = b->orphan;
    b->thread = b->pool ? AHEAD_BEHIND_NEVER : AHEAD_BEHIND_LEFT;
    wake_locked(b);
    pthread_mutex_unlock(&b->lock);
    return orphan;
}

/* ---- any thread ---- */

void ahead_behind_fail(struct ahead_behind *b, const struct ahead_error *err)
{
    pthread_mutex_lock(&b->lock);
    fail_locked(b, err);
    wake_locked(b);
    pthread_mutex_unlock(&b->lock);
}

void ahead_behind_cancel(struct ahead_behind *b, struct ahead_outlet *out)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };

    ahead_error_set(&err, AHEAD_CANCELLED, AHEAD_NO_OFFSET, "the writer was cancelled");
    pthread_mutex_lock(&b->lock);
    fail_locked(b, &err);
    wake_locked(b);
    hook_locked(b, out);
    pthread_mutex_unlock(&b->lock);
}

uint64_t ahead_behind_taken(struct ahead_behind *b)
{
    uint64_t taken;

    pthread_mutex_lock(&b->lock);
    taken = b->taken;
    pthread_mutex_unlock(&b->lock);
    return taken;
}

void ahead_behind_get_stats(struct ahead_behind *b, struct ahead_writer_stats *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->stats;
    pthread_mutex_unlock(&b->lock);
}
