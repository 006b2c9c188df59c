/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a few threads and a bounded memory for any number of streams and
 * writers. */
#ifndef AHEAD_POOL_H
#define AHEAD_POOL_H

#include <stdint.h>

#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ahead_pool;

/* How a pool is to be.  All zero is complete, and what NULL means. */
struct ahead_pool_options {
    unsigned threads;     /* 0: one for each core */
    uint64_t byte_budget; /* of all buffers together; 0: no limit */
    const char *name;     /* of the threads; copied; NULL: "ahead-pool" */
};

/* Open a pool.  Streams opened with it in their options are filled by its
 * threads instead of one of their own, and their buffers stay within its
 * budget: when that is used up they get smaller buffers, then only one, then
 * a few kilobytes beside the budget, but they never fail or wait for it.  Each
 * that has not ended has the same share; a buffer begins small, grows when the
 * reader had to wait, and is given back at the end, read or not closed yet.
 * What a decoder keeps of its input comes on top: a block, and an eighth of a
 * buffer.  ahead_get_stats() says what a stream has.
 *
 * Writers share both: the threads write behind them, and what is said of a
 * stream's buffers holds for theirs; they keep them until they are closed.  A
 * reader or writer whose turn in the pool has not come does the work itself, so
 * a busy pool degrades to synchronous calls, and streams and writers that use
 * one another cannot deadlock on a pool of one thread.
 *
 * Threads are started when there is work, up to `threads`.  One that cannot be
 * started is done without: readers fill.  AHEAD_OK; AHEAD_NOMEM; AHEAD_INVALID:
 * `out` is NULL, more than 1024 threads.  On failure *out is NULL and errno is
 * set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_pool_open(struct ahead_pool **out, const struct ahead_pool_options *opt);

/* Join the threads and free the pool.  AHEAD_INVALID, and nothing happens, as
 * long as a stream or writer uses it, and on one of its own threads.  In a child of
 * fork(), where the threads are not, it frees the memory.  NULL is fine. */
AHEAD_API enum ahead_status ahead_pool_close(struct ahead_pool *p);

/* What a pool holds.  Any thread. */
struct ahead_pool_stats {
    unsigned users;             /* streams, readers and writers */
    unsigned threads_started;   /* in all */
    uint64_t bytes, peak_bytes; /* of buffers within the budget, now and at most */
    uint64_t wakeups;           /* signals to a thread that slept */
};
AHEAD_API void ahead_pool_get_stats(struct ahead_pool *p, struct ahead_pool_stats *out);

#ifdef __cplusplus
}
#endif
#endif
