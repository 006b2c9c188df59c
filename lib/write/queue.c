/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - the hand-over of items from producers to the push thread: the only
 * file that locks a pusher.
 *
 * Every transition is one section under the lock; whoever changes what somebody
 * sleeps for wakes them, and nobody else. */
#include "write/queue.h"

#include "error.h"
#include "process.h"
#include "thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- predicates, all called locked ---- */

static bool failed_locked(const struct ahead_queue *q)
{
    return q->failure.status != AHEAD_OK;
}

/* What a producer is told instead of being served. */
static enum ahead_status refusal_locked(const struct ahead_queue *q)
{
    if (failed_locked(q))
        return q->failure.status;
    return q->closing ? AHEAD_INVALID : AHEAD_OK;
}

static bool slot_at_hand_locked(const struct ahead_queue *q)
{
    return q->idle_top || q->bare;
}

/* A producer inside may still bring an item. */
static bool thread_can_leave_locked(const struct ahead_queue *q)
{
    return q->closing && q->callers == 0 && !q->first;
}

static bool all_left_locked(const struct ahead_queue *q)
{
    return q->thread == AHEAD_QUEUE_LEFT && q->callers == 0;
}

/* ---- waking and sleeping ---- */

static void wake_thread_locked(struct ahead_queue *q)
{
    if (!q->thread_waits || !(q->first || thread_can_leave_locked(q)))
        return;
    q->thread_waits = false;
    q->stats.wakeups++;
    pthread_cond_signal(&q->work);
}

/* One that sleeps on `cond`, after one thing it sleeps for has come about. */
static void wake_one_locked(struct ahead_queue *q, pthread_cond_t *cond, unsigned waits)
{
    if (waits == 0)
        return;
    q->stats.wakeups++;
    pthread_cond_signal(cond);
}

static void wake_all_locked(struct ahead_queue *q, pthread_cond_t *cond, unsigned waits)
{
    if (waits == 0)
        return;
    q->stats.wakeups += waits;
    pthread_cond_broadcast(cond);
}

/* Those who would be refused now. */
static void wake_refused_locked(struct ahead_queue *q)
{
    wake_all_locked(q, &q->idle, q->idle_waits);
    wake_all_locked(q, &q->alone, q->alone_waits);
}

static void wake_settled_locked(struct ahead_queue *q)
{
    if (q->done < q->drain_at && !failed_locked(q) && !all_left_locked(q))
        return;
    q->drain_at = UINT64_MAX;
    wake_all_locked(q, &q->settled, q->settled_waits);
}

/* Before somebody sleeps for an item or a slot they give way to the other side,
 * so often at most: some ten microseconds on an idle machine.  What comes within
 * that time costs neither side a sleep and a wake-up, which take as long; what
 * comes later is waited for on the condition. */
enum { GIVE_WAYS = 24 };

/* Lets go of the lock for a moment.  false: that was often enough, *ways times. */
static bool give_way_locked(struct ahead_queue *q, unsigned *ways)
{
    if (*ways == GIVE_WAYS)
        return false;
    ++*ways;
    pthread_mutex_unlock(&q->lock);
    sched_yield();
    pthread_mutex_lock(&q->lock);
    return true;
}

/* Sleeps once, until `until` (0: for ever); the caller tests again.  Returns the
 * time. */
static uint64_t
sleep_locked(struct ahead_queue *q, pthread_cond_t *cond, unsigned *waits, uint64_t until)
{
    uint64_t now = ahead_thread_now_ns(q->clock), then;

    ++*waits;
    q->stats.producer_waits++;
    ahead_thread_sleep(cond, &q->lock, until);
    --*waits;
    then = ahead_thread_now_ns(q->clock);
    q->stats.producer_wait_ns += then - now;
    return then;
}

/* ---- slots, called locked ---- */

static struct ahead_slot *pop(struct ahead_slot **top)
{
    struct ahead_slot *s = *top;

    *top = s->next;
    return s;
}

static void push(struct ahead_slot **top, struct ahead_slot *s)
{
    s->next = *top;
    *top = s;
}

static void make_idle_locked(struct ahead_queue *q, struct ahead_slot *s)
{
    if (s->bytes) {
        s->state = AHEAD_SLOT_IDLE;
        push(&q->idle_top, s);
        ahead_buffer_poison(s->bytes, q->cap);
    } else {
        s->state = AHEAD_SLOT_BARE;
        push(&q->bare, s);
    }
    wake_one_locked(q, &q->idle, q->idle_waits);
}

static void give_locked(struct ahead_queue *q, struct ahead_slot *s)
{
    s->state = AHEAD_SLOT_GIVEN;
    push(&q->given, s);
}

/* The link that leads to the slot that was given out as `bytes`; NULL: none
 * was.  A foreign pointer is compared, never followed. */
static struct ahead_slot **find_given_locked(struct ahead_queue *q, const uint8_t *bytes)
{
    for (struct ahead_slot **link = &q->given; *link; link = &(*link)->next)
        if ((*link)->bytes == bytes)
            return link;
    return NULL;
}

static void accept_locked(struct ahead_queue *q, struct ahead_slot *s)
{
    s->state = AHEAD_SLOT_QUEUED;
    s->next = NULL;
    if (q->first)
        q->last->next = s;
    else
        q->first = s;
    q->last = s;
    if (!s->big)
        ahead_buffer_poison(s->bytes, q->cap);
    q->accepted++;
    q->stats.items++;
    q->stats.bytes += s->len;
    wake_thread_locked(q);
}

static void lose_locked(struct ahead_queue *q, struct ahead_slot *s)
{
    q->done++;
    q->stats.lost_items++;
    q->stats.lost_bytes += s->len;
    make_idle_locked(q, s);
}

/* Fills the failure slot, unless it is, drops what is queued, and wakes all. */
static void fail_locked(struct ahead_queue *q, const struct ahead_error *err)
{
    if (failed_locked(q))
        return;
    q->failure = *err;
    q->failure.offset = q->stats.pushed_bytes;
    while (q->first)
        lose_locked(q, pop(&q->first));
    wake_refused_locked(q);
    wake_settled_locked(q);
    wake_thread_locked(q);
}

/* The caller's way out. */
static void leave_locked(struct ahead_queue *q)
{
    q->callers--;
    wake_thread_locked(q);
    if (all_left_locked(q))
        wake_settled_locked(q);
}

/* Takes a slot that has a buffer; sleeps until there is one.  Lets go of the
 * lock for a while. */
static enum ahead_status take_locked(struct ahead_queue *q, struct ahead_slot **out)
{
    unsigned ways = 0;
    enum ahead_status st;
    struct ahead_slot *s;
    uint8_t *bytes;

    while (!(st = refusal_locked(q)) && !slot_at_hand_locked(q))
        if (!give_way_locked(q, &ways))
            sleep_locked(q, &q->idle, &q->idle_waits, 0);
    if (st)
        return st;
    s = pop(q->idle_top ? &q->idle_top : &q->bare);
    s->state = AHEAD_SLOT_TAKEN;
    if (s->bytes) {
        ahead_buffer_unpoison(s->bytes, q->cap);
    } else {
        pthread_mutex_unlock(&q->lock);
        bytes = ahead_buffer_new_owned(q->cap, &q->owner);
        pthread_mutex_lock(&q->lock);
        s->bytes = bytes;
        q->stats.buffers += bytes != NULL;
        st = bytes ? refusal_locked(q) : AHEAD_NOMEM;
    }
    if (st)
        make_idle_locked(q, s);
    else
        *out = s;
    return st;
}

/* ---- set-up ---- */

static void give_back(struct ahead_buffer_owner *owner, uint8_t *bytes)
{
    struct ahead_queue *q = (struct ahead_queue *)owner;
    struct ahead_slot **link;

    if (q->process != ahead_process())
        return;
    pthread_mutex_lock(&q->lock);
    link = find_given_locked(q, bytes);
    if (link) {
        q->outstanding--;
        make_idle_locked(q, pop(link));
    }
    pthread_mutex_unlock(&q->lock);
}

enum ahead_status ahead_queue_init(struct ahead_queue *q, unsigned slots, size_t cap)
{
    enum { CONDS = 4 };
    pthread_cond_t *const cond[CONDS] = { &q->work, &q->idle, &q->alone, &q->settled };
    unsigned made = 0;

    q->owner.give_back = give_back;
    q->process = ahead_process();
    q->slots = slots;
    q->cap = cap;
    q->drain_at = UINT64_MAX;
    q->thread = AHEAD_QUEUE_RUNNING;
    q->slot = calloc(slots, sizeof *q->slot);
    if (!q->slot)
        return AHEAD_NOMEM;
    if (ahead_thread_short_lock_init(&q->lock))
        goto err_slots;
    for (; made < CONDS; made++)
        if (ahead_thread_cond_init(cond[made], &q->clock))
            goto err_conds;
    for (unsigned i = slots; i-- > 0;)
        push(&q->bare, &q->slot[i]);
    return AHEAD_OK;

err_conds:
    while (made-- > 0)
        pthread_cond_destroy(cond[made]);
    pthread_mutex_destroy(&q->lock);
err_slots:
    free(q->slot);
    return AHEAD_NOMEM;
}

void ahead_queue_destroy(struct ahead_queue *q)
{
    for (unsigned i = 0; i < q->slots; i++) {
        ahead_buffer_delete(q->slot[i].bytes, q->cap);
        free(q->slot[i].big);
    }
    free(q->slot);
    if (q->process != ahead_process())
        return;
    pthread_cond_destroy(&q->settled);
    pthread_cond_destroy(&q->alone);
    pthread_cond_destroy(&q->idle);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}

/* ---- producers ---- */

/* Takes the right to bring the one big item.  Lets go of the lock for a while. */
static enum ahead_status take_alone_locked(struct ahead_queue *q)
{
    enum ahead_status st;

    while (!(st = refusal_locked(q)) && q->big)
        sleep_locked(q, &q->alone, &q->alone_waits, 0);
    if (!st)
        q->big = true;
    return st;
}

static void end_alone_locked(struct ahead_queue *q)
{
    q->big = false;
    wake_one_locked(q, &q->alone, q->alone_waits);
}

enum ahead_status ahead_queue_begin_copy(struct ahead_queue *q, bool big, struct ahead_slot **out)
{
    enum ahead_status st;

    pthread_mutex_lock(&q->lock);
    q->callers++;
    st = big ? take_alone_locked(q) : AHEAD_OK;
    if (!st) {
        st = take_locked(q, out);
        if (st && big)
            end_alone_locked(q);
    }
    if (st)
        leave_locked(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

enum ahead_status ahead_queue_end_copy(struct ahead_queue *q, struct ahead_slot *s)
{
    enum ahead_status st;

    pthread_mutex_lock(&q->lock);
    /* A close that has begun meanwhile waits for this caller. */
    st = q->failure.status;
    if (st) {
        make_idle_locked(q, s);
    } else {
        q->stats.copied_bytes += s->len;
        accept_locked(q, s);
    }
    leave_locked(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

void ahead_queue_abandon_copy(struct ahead_queue *q, struct ahead_slot *s)
{
    pthread_mutex_lock(&q->lock);
    end_alone_locked(q);
    make_idle_locked(q, s);
    leave_locked(q);
    pthread_mutex_unlock(&q->lock);
}

enum ahead_status ahead_queue_acquire(struct ahead_queue *q, uint8_t **bytes)
{
    struct ahead_slot *s;
    enum ahead_status st;

    pthread_mutex_lock(&q->lock);
    q->callers++;
    st = refusal_locked(q);
    if (!st && q->outstanding + 1 >= q->slots)
        st = AHEAD_LIMIT;
    if (!st) {
        q->outstanding++;
        st = take_locked(q, &s);
        if (st)
            q->outstanding--;
    }
    if (!st) {
        give_locked(q, s);
        *bytes = s->bytes;
    }
    leave_locked(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

enum ahead_status ahead_queue_swap(struct ahead_queue *q, uint64_t key, size_t len, uint8_t **bytes)
{
    struct ahead_slot *full, *empty, **link;
    enum ahead_status st;

    pthread_mutex_lock(&q->lock);
    q->callers++;
    st = find_given_locked(q, *bytes) ? take_locked(q, &empty) : AHEAD_INVALID;
    if (!st) {
        /* Looked for again: somebody else may have handed it in meanwhile. */
        link = find_given_locked(q, *bytes);
        if (link) {
            full = pop(link);
            full->key = key;
            full->len = len;
            give_locked(q, empty);
            *bytes = empty->bytes;
            accept_locked(q, full);
        } else {
            make_idle_locked(q, empty);
            st = AHEAD_INVALID;
        }
    }
    leave_locked(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

enum ahead_status ahead_queue_drain(struct ahead_queue *q)
{
    enum ahead_status st;
    uint64_t last;

    pthread_mutex_lock(&q->lock);
    q->callers++;
    last = q->accepted;
    while (!(st = q->failure.status) && q->done < last) {
        if (last < q->drain_at)
            q->drain_at = last;
        sleep_locked(q, &q->settled, &q->settled_waits, 0);
    }
    leave_locked(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

/* ---- the push thread ---- */

static struct ahead_slot *take_first_locked(struct ahead_queue *q)
{
    struct ahead_slot *s = q->pushing = q->first ? pop(&q->first) : NULL;

    if (s) {
        s->state = AHEAD_SLOT_PUSHING;
        ahead_buffer_unpoison(s->bytes, q->cap);
    }
    return s;
}

struct ahead_slot *ahead_queue_begin_push(struct ahead_queue *q, bool *orphan)
{
    unsigned ways = 0;
    struct ahead_slot *s;

    pthread_mutex_lock(&q->lock);
    while (!q->first && !thread_can_leave_locked(q)) {
        uint64_t now;

        if (give_way_locked(q, &ways))
            continue;
        now = ahead_thread_now_ns(q->clock);
        q->stats.thread_waits++;
        q->thread_waits = true;
        ahead_thread_sleep(&q->work, &q->lock, 0);
        q->thread_waits = false;
        q->stats.thread_wait_ns += ahead_thread_now_ns(q->clock) - now;
    }
    s = take_first_locked(q);
    if (!s) {
        *orphan = q->orphan;
        q->thread = AHEAD_QUEUE_LEFT;
        wake_settled_locked(q);
    }
    pthread_mutex_unlock(&q->lock);
    return s;
}

struct ahead_slot *ahead_queue_end_push(struct ahead_queue *q, const struct ahead_error *err)
{
    struct ahead_slot *s = q->pushing;
    uint8_t *big = s->big;

    s->big = NULL;
    free(big);
    pthread_mutex_lock(&q->lock);
    if (big)
        end_alone_locked(q);
    if (err->status) {
        lose_locked(q, s);
        fail_locked(q, err);
    } else {
        q->done++;
        q->stats.pushed_items++;
        q->stats.pushed_bytes += s->len;
        make_idle_locked(q, s);
    }
    wake_settled_locked(q);
    s = take_first_locked(q);
    pthread_mutex_unlock(&q->lock);
    return s;
}

bool ahead_queue_died(struct ahead_queue *q)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    bool orphan;

    ahead_error_set(&err, AHEAD_IO, AHEAD_NO_OFFSET, "the push function has ended its thread");
    pthread_mutex_lock(&q->lock);
    lose_locked(q, q->pushing);
    q->pushing = NULL;
    fail_locked(q, &err);
    while (q->orphan && q->callers > 0) {
        q->thread_waits = true;
        ahead_thread_sleep(&q->work, &q->lock, 0);
        q->thread_waits = false;
    }
    orphan = q->orphan;
    q->thread = AHEAD_QUEUE_LEFT;
    wake_settled_locked(q);
    pthread_mutex_unlock(&q->lock);
    return orphan;
}

/* ---- any thread ---- */

void ahead_queue_cancel(struct ahead_queue *q)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };

    ahead_error_set(&err, AHEAD_CANCELLED, AHEAD_NO_OFFSET, "the pusher was cancelled");
    pthread_mutex_lock(&q->lock);
    fail_locked(q, &err);
    pthread_mutex_unlock(&q->lock);
}

const struct ahead_error *ahead_queue_failure(struct ahead_queue *q)
{
    bool failed;

    pthread_mutex_lock(&q->lock);
    failed = failed_locked(q);
    pthread_mutex_unlock(&q->lock);
    return failed ? &q->failure : NULL;
}

void ahead_queue_get_stats(struct ahead_queue *q, struct ahead_pusher_stats *out)
{
    pthread_mutex_lock(&q->lock);
    *out = q->stats;
    pthread_mutex_unlock(&q->lock);
}

/* ---- close ---- */

/* Sleeps until everybody has left.  false: out of time. */
static bool wait_for_all_locked(struct ahead_queue *q, uint32_t timeout_ms)
{
    uint64_t now = ahead_thread_now_ns(q->clock);
    uint64_t deadline = timeout_ms ? now + timeout_ms * UINT64_C(1000000) : 0;

    while (!all_left_locked(q)) {
        if (deadline && now >= deadline)
            return false;
        now = sleep_locked(q, &q->settled, &q->settled_waits, deadline);
    }
    return true;
}

/* What close has to say, unless *err says it already.  A cancel that came too
 * late to lose anything is none. */
static void judge_locked(const struct ahead_queue *q, struct ahead_error *err)
{
    const struct ahead_pusher_stats *s = &q->stats;
    size_t len;

    if (!err->status && failed_locked(q) &&
        !(q->failure.status == AHEAD_CANCELLED && s->lost_items == 0))
        *err = q->failure;
    err->offset = s->pushed_bytes;
    len = strnlen(err->text, sizeof err->text);
    if (err->status)
        snprintf(err->text + len, sizeof err->text - len, "; of %llu items %llu were pushed",
                 (unsigned long long)s->items, (unsigned long long)s->pushed_items);
}

/* Whether close may begin; else *err says why not. */
static bool may_close_locked(const struct ahead_queue *q, struct ahead_error *err)
{
    if (q->closing)
        ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET, "close has begun already");
    else if (q->outstanding > 0)
        ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                        "of the buffers that were acquired %u are outstanding", q->outstanding);
    return !err->status;
}

/* Out of time: gives up what is queued, and leaves the pusher to its thread.
 * false: the thread has left already, and with it all but callers on their way
 * out. */
static bool abandon_locked(struct ahead_queue *q, uint32_t timeout_ms, struct ahead_error *err)
{
    struct ahead_error late = { .source_offset = AHEAD_NO_OFFSET };

    ahead_error_set(&late, AHEAD_TIMEDOUT, AHEAD_NO_OFFSET,
                    "the push function did not return within %u ms", timeout_ms);
    fail_locked(q, &late);
    q->orphan = q->thread == AHEAD_QUEUE_RUNNING;
    if (q->orphan)
        *err = late;
    else
        wait_for_all_locked(q, 0);
    return q->orphan;
}

enum ahead_queue_closing
ahead_queue_close(struct ahead_queue *q, uint32_t timeout_ms, struct ahead_error *err)
{
    enum ahead_queue_closing how = AHEAD_QUEUE_REFUSED;

    pthread_mutex_lock(&q->lock);
    if (may_close_locked(q, err)) {
        q->closing = true;
        wake_refused_locked(q);
        wake_thread_locked(q);
        how = wait_for_all_locked(q, timeout_ms) || !abandon_locked(q, timeout_ms, err)
                  ? AHEAD_QUEUE_CLOSED
                  : AHEAD_QUEUE_OWNED;
        judge_locked(q, err);
    }
    pthread_mutex_unlock(&q->lock);
    return how;
}
