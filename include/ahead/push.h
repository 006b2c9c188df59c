/* SPDX-License-Identifier: Apache-2.0 */
/* push.h - a bounded hand-off to a push thread, by copy or by swap.
 *
 * A pusher has a few buffers of equal size and a thread that calls one function
 * with one item at a time, in the order in which the items were accepted.  A
 * producer copies an item in, or gives its full buffer away and gets an empty
 * one for it, without a byte being copied:
 *
 *     struct ahead_buffer b;
 *     enum ahead_status st = ahead_pusher_acquire(p, &b);
 *
 *     while (!st && (b.len = fill(b.data, b.cap)) > 0)
 *         st = ahead_push_swap(p, partition, &b);
 *     ahead_buffer_free(&b);
 *     st = ahead_pusher_close(p);
 *
 * What a push accepted with AHEAD_OK is pushed, or the next push, acquire,
 * drain and the close say what went wrong: nothing is dropped silently.
 *
 * Threads: push, acquire, drain, cancel and ahead_buffer_free() may be called
 * from any thread, several at once; none may begin after close has returned.
 * In a child of fork() a pusher is AHEAD_INVALID, and its close only frees
 * memory. */
#ifndef AHEAD_PUSH_H
#define AHEAD_PUSH_H

#include <stddef.h>
#include <stdint.h>

#include <ahead/status.h>
#include <ahead/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ahead_pusher;

/* Push one item: `len` bytes at `data` (never NULL), valid until it returns.
 * Runs on the push thread, one call at a time, in order.  Any status but
 * AHEAD_OK is a failure of the pusher: it is not called again, and what waits
 * is dropped and counted.  *err may be filled in; left zero, AHEAD_IO means
 * errno.  AHEAD_EOF, AHEAD_TIMEDOUT and AHEAD_INVALID become AHEAD_IO.  It may
 * call nothing of its own pusher (AHEAD_INVALID) but cancel, error and
 * statistics.  Ending the thread inside of it is a failure too. */
typedef enum ahead_status (*ahead_push_fn)(void *ctx, uint64_t key, const void *data, size_t len,
                                           struct ahead_error *err);

/* How a pusher is to be.  All zero is complete, and what NULL means. */
struct ahead_pusher_options {
    size_t buffer_bytes;       /* each; up to 1 GiB; 0: 64 KiB */
    unsigned buffers;          /* 2 to 65536; 0: 4; made when they are first needed */
    uint32_t close_timeout_ms; /* bounds the wait of close; 0: no limit */
    const char *name;          /* of the push thread; copied; NULL: "ahead push" */
};

/* Open a pusher and start its thread.  `fn` and `ctx` must work until close has
 * returned (or, after AHEAD_TIMEDOUT, for as long as the call takes that close
 * did not wait for).  `opt` is copied; NULL means defaults.
 *
 * AHEAD_OK; AHEAD_INVALID: `out` or `fn` is NULL, a number is out of range;
 * AHEAD_NOMEM; AHEAD_IO, with errno EAGAIN: the thread could not be started.
 * On failure *out is NULL and errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_pusher_open(struct ahead_pusher **out, ahead_push_fn fn, void *ctx,
                  const struct ahead_pusher_options *opt);

/* Get an empty buffer to be filled and pushed by swap.  Waits until one is idle.
 * It is the caller's until it is pushed, or given back by ahead_buffer_free().
 *
 * AHEAD_OK; AHEAD_LIMIT: one buffer has to stay, idle or on its way, and this
 * would be the last; the failure; AHEAD_NOMEM; AHEAD_INVALID: close has begun.
 * On failure *b is zero. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_pusher_acquire(struct ahead_pusher *p, struct ahead_buffer *b);

/* Push a copy of len bytes, which may be 0 (then data may be NULL).  Waits until
 * a buffer is idle.  An item longer than a buffer goes whole, in memory of its
 * own, one such item at a time.
 *
 * AHEAD_OK: accepted, `data` is not needed any more.  Otherwise nothing was
 * accepted: the failure; AHEAD_NOMEM; AHEAD_INVALID: close has begun. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_push_copy(struct ahead_pusher *p, uint64_t key, const void *data, size_t len);

/* Push the b->len bytes in the buffer *b, and get another one for it: *b is now
 * a different buffer of the same size, with len 0, that may be written to at
 * once.  Nothing is copied.  Waits until a buffer is idle.
 *
 * AHEAD_OK.  On any other status *b is unchanged, still the caller's, and
 * nothing was accepted: the failure; AHEAD_NOMEM; AHEAD_INVALID: close has
 * begun, len is above cap, or *b is not a buffer that this pusher has given
 * out and not got back: memory of somebody else, another size or start. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_push_swap(struct ahead_pusher *p, uint64_t key, struct ahead_buffer *b);

/* Wait until everything that was accepted before this call has been pushed.
 * AHEAD_OK; the failure; AHEAD_INVALID. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_pusher_drain(struct ahead_pusher *p);

/* Push what was accepted, end the thread, free everything.
 *
 * From its beginning on a push is refused; callers inside are waited for, and
 * so is the push function; with close_timeout_ms set not longer than that: then
 * the status is AHEAD_TIMEDOUT, what waits is dropped, and the push thread
 * frees the pusher when the function returns.
 *
 * Returns the first failure: AHEAD_OK if and only if everything that was
 * accepted has been pushed.  AHEAD_INVALID, and nothing happens: an acquired
 * buffer is still outstanding, or it is called inside the push function.  The
 * pusher must not be used afterwards otherwise.  NULL is fine: AHEAD_OK. */
AHEAD_API enum ahead_status ahead_pusher_close(struct ahead_pusher *p);

/* The same.  *err (may be NULL) is filled in for every status: `offset` is the
 * number of bytes that were pushed, and the text says what was not. */
AHEAD_API enum ahead_status
ahead_pusher_close_error(struct ahead_pusher *p, struct ahead_error *err);

/* Give up, for good.  Any thread, any number of times.  Never waits.  Whoever
 * sleeps wakes up, what waits is dropped, and from now on every call says
 * AHEAD_CANCELLED; so does the close, unless everything that was accepted had
 * been pushed.  A call of the push function that is under way is left to end by
 * itself.  NULL is fine. */
AHEAD_API void ahead_pusher_cancel(struct ahead_pusher *p);

/* The failure; status AHEAD_OK if there was none.  `offset` is the number of
 * bytes that had been pushed.  Valid until close; never NULL (for a NULL
 * pusher: AHEAD_INVALID).  Any thread. */
AHEAD_API const struct ahead_error *ahead_pusher_error(struct ahead_pusher *p);

/* What a pusher has done so far.  Items that were accepted are pushed, lost, or
 * on their way. */
struct ahead_pusher_stats {
    uint64_t items, bytes; /* accepted */
    uint64_t pushed_items, pushed_bytes;
    uint64_t lost_items, lost_bytes; /* dropped, or refused by the push function */
    uint64_t copied_bytes;           /* by ahead_push_copy() */
    uint64_t buffers;                /* that were made so far */
    uint64_t producer_waits;         /* times that a caller slept, drain and close included */
    uint64_t producer_wait_ns;
    uint64_t thread_waits; /* times the push thread slept */
    uint64_t thread_wait_ns;
    uint64_t wakeups; /* signals sent to somebody who slept */
};

/* Copy the figures.  Any thread.  Never blocks. */
AHEAD_API void ahead_pusher_get_stats(struct ahead_pusher *p, struct ahead_pusher_stats *out);

#ifdef __cplusplus
}
#endif
#endif
