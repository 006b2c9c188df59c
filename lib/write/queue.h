/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - a pusher's buffers, and who may touch what when.
 *
 * A pusher has a fixed number of *slots*, each with a buffer.  A slot is in
 * exactly one state, and its buffer belongs to whom the state names:
 *
 *     bare    nobody: it has no buffer yet
 *     idle    nobody
 *     taken   a producer inside a call, which copies into it, or makes it
 *     given   the caller, from acquire or swap until swap or a free
 *     queued  nobody: it is full, and waits for its turn
 *     pushing the push thread
 *
 *     bare -> taken -> idle <-> taken -> queued -> pushing -> idle
 *                               taken -> given  -> queued
 *
 * Swap is given -> queued and taken -> given in one section: two pointers
 * change hands, and no byte is copied.  One slot at least is never given, so
 * whoever waits for an idle one waits for the push thread, not for a caller.
 *
 * There is one failure slot.  It is filled once, by whatever fails first: the
 * push function, its thread, cancel, or a close that ran out of time.  From
 * then on what is queued is lost (and counted), nothing is accepted, and every
 * wait is over but that of close for the push thread.
 *
 * Guard words of shared fields: *immutable*, set before the queue is shared;
 * *lock*, any thread that holds `lock`; *owner*, whom the state names.
 *
 * `lock` is a leaf: no push function, no callback, no allocation and no copy
 * of bytes happens while it is held. */
#ifndef AHEAD_WRITE_QUEUE_H
#define AHEAD_WRITE_QUEUE_H

#include <ahead/push.h>
#include <ahead/status.h>

#include "stream/buffer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum ahead_slot_state {
    AHEAD_SLOT_BARE,
    AHEAD_SLOT_IDLE,
    AHEAD_SLOT_TAKEN,
    AHEAD_SLOT_GIVEN,
    AHEAD_SLOT_QUEUED,
    AHEAD_SLOT_PUSHING
};

struct ahead_slot {
    uint8_t *bytes;              /* lock: NULL while bare; what it points to: owner */
    uint8_t *big;                /* owner: an item longer than a buffer; NULL: it is in `bytes` */
    size_t len;                  /* owner: of the item */
    uint64_t key;                /* owner: of the item */
    enum ahead_slot_state state; /* lock */
    struct ahead_slot *next;     /* lock: in the list of its state, if that has one */
};

/* What the push thread is doing. */
enum ahead_queue_thread {
    AHEAD_QUEUE_RUNNING, /* it pushes, or sleeps until there is something to push */
    AHEAD_QUEUE_LEFT     /* it has ended, and wants to be joined */
};

struct ahead_queue {
    struct ahead_buffer_owner owner; /* immutable: of the buffers */
    unsigned process;                /* immutable: in a child of fork() the locks mean nothing */

    pthread_mutex_t lock;
    pthread_cond_t work;    /* the push thread waits: an item, or to leave */
    pthread_cond_t idle;    /* producers wait: a slot to take, or to be refused */
    pthread_cond_t alone;   /* producers wait: no big item, or to be refused */
    pthread_cond_t settled; /* drains wait for their item, close for all to have left */
    clockid_t clock;        /* immutable: of all four */
    bool thread_waits;      /* lock: asleep on `work` */
    unsigned idle_waits;    /* lock: asleep on `idle` */
    unsigned alone_waits;   /* lock: asleep on `alone` */
    unsigned settled_waits; /* lock: asleep on `settled` */

    size_t cap;              /* immutable: bytes of a buffer */
    unsigned slots;          /* immutable */
    struct ahead_slot *slot; /* immutable: all of them */

    struct ahead_slot *bare;         /* lock: a stack */
    struct ahead_slot *idle_top;     /* lock: a stack: the warmest first */
    struct ahead_slot *given;        /* lock: a list, in no order */
    struct ahead_slot *first, *last; /* lock: the queue; `last` counts if `first` is not NULL */
    struct ahead_slot *pushing;      /* lock: what the push thread has; NULL: nothing */
    unsigned outstanding;            /* lock: slots given, or to be given by who waits in acquire */
    bool big;                        /* lock: an item longer than a buffer is on its way */

    uint64_t accepted; /* lock: number of the last item that was accepted, from 1 */
    uint64_t done;     /* lock: number of the last item that was pushed or lost */
    uint64_t drain_at; /* lock: the lowest number that a drain waits for; UINT64_MAX: none does */
    unsigned callers;  /* lock: inside acquire, push and drain */

    struct ahead_error failure;     /* lock: written once; AHEAD_OK: none.  Then immutable */
    bool closing;                   /* lock: a latch: close has begun */
    bool orphan;                    /* lock: close ran out of time; the push thread cleans up */
    enum ahead_queue_thread thread; /* lock */

    struct ahead_pusher_stats stats; /* lock */
};

/* Set up locks and slots; *q is all zero before.  AHEAD_OK, AHEAD_NOMEM. */
enum ahead_status ahead_queue_init(struct ahead_queue *q, unsigned slots, size_t cap);

/* Free everything.  Nobody else is left. */
void ahead_queue_destroy(struct ahead_queue *q);

/* ---- producers, any thread ---- */

/* Take an idle slot, making its buffer if it has none; sleeps until there is
 * one.  `big`: an item longer than a buffer is to follow, and waits for the one
 * before.  The caller is inside until end_copy().  On failure nothing is taken
 * and the caller is out. */
enum ahead_status ahead_queue_begin_copy(struct ahead_queue *q, bool big, struct ahead_slot **out);

/* Queue the slot, whose item the caller has filled in.  On failure it is idle
 * again. */
enum ahead_status ahead_queue_end_copy(struct ahead_queue *q, struct ahead_slot *s);

/* The caller could not fill it in. */
void ahead_queue_abandon_copy(struct ahead_queue *q, struct ahead_slot *s);

/* Take an idle slot for the caller. */
enum ahead_status ahead_queue_acquire(struct ahead_queue *q, uint8_t **bytes);

/* Queue the slot of *bytes with an item of `len` bytes and give the caller
 * another: *bytes.  On failure nothing has changed. */
enum ahead_status
ahead_queue_swap(struct ahead_queue *q, uint64_t key, size_t len, uint8_t **bytes);

/* Sleep until all that is accepted now is done. */
enum ahead_status ahead_queue_drain(struct ahead_queue *q);

/* ---- the push thread ---- */

/* Sleep until there is an item.  NULL: leave, and touch nothing of the pusher
 * any more; unless *orphan: clean up. */
struct ahead_slot *ahead_queue_begin_push(struct ahead_queue *q, bool *orphan);

/* The push function has returned; *err says how.  The next item, if there is one
 * already, is taken in the same section; NULL: begin anew. */
struct ahead_slot *ahead_queue_end_push(struct ahead_queue *q, const struct ahead_error *err);

/* The push function has ended the thread.  Returns whether it is to clean up. */
bool ahead_queue_died(struct ahead_queue *q);

/* ---- any thread ---- */

void ahead_queue_cancel(struct ahead_queue *q);

/* The failure, or NULL. */
const struct ahead_error *ahead_queue_failure(struct ahead_queue *q);

void ahead_queue_get_stats(struct ahead_queue *q, struct ahead_pusher_stats *out);

/* ---- close ---- */

/* How a close goes on. */
enum ahead_queue_closing {
    AHEAD_QUEUE_REFUSED, /* a buffer is outstanding, or another close has begun */
    AHEAD_QUEUE_OWNED,   /* out of time: the push thread owns the pusher now */
    AHEAD_QUEUE_CLOSED   /* all have left: join the thread */
};

/* Refuse producers, and sleep until all that was accepted is done and everybody
 * has left, up to timeout_ms (0: for ever).  *err is what close has to say. */
enum ahead_queue_closing
ahead_queue_close(struct ahead_queue *q, uint32_t timeout_ms, struct ahead_error *err);

#endif
