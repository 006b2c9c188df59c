/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - a stream as the library sees it: the reader's part, what is fixed at
 * open, and the swap that both sides share. */
#ifndef AHEAD_STREAM_CORE_H
#define AHEAD_STREAM_CORE_H

#include <ahead/source.h>
#include <ahead/stream.h>

#include "process.h"
#include "source/split.h"
#include "stream/swap.h"

#include <pthread.h>
#include <stdalign.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    /* As many unread bytes are kept in the stream itself at a swap; what is
     * more, a peek has asked for, and it goes to the gather buffer. */
    AHEAD_SEAM = 16,
    AHEAD_CACHE_LINE = 64
};

/* The greatest buffer, and the most that a peek gathers unless buffers are
 * larger. */
#define AHEAD_MAX_BUFFER_BYTES ((size_t)1 << 30)
#define AHEAD_MAX_GATHER_BYTES ((size_t)64 << 20)

struct ahead_core {
    /* reader: all of this first part.
     *
     * The window [hot.next, hot.end) is what the reader can have without a
     * lock.  It lies in the active half (`in_half`), so that it can grow
     * where it is; or beside it, in the seam or the gather buffer, with
     * bytes that were unread at a swap.  Either way, the byte at offset
     * `end_offset - k` is at hot.end - k down to `low`, and if the half has
     * it, at (half.bytes + taken) - k too. */
    struct ahead_stream hot;
    const uint8_t *low;
    uint64_t end_offset; /* of hot.end in the stream */
    bool in_half;
    bool calling; /* inside a function of the source */
    bool reached; /* an ending was returned; `error` is that */
    uint8_t seam[AHEAD_SEAM + AHEAD_SLACK];
    uint8_t *gather;
    size_t gather_cap;
    uint64_t counted; /* bytes delivered up to `counted_offset` */
    uint64_t counted_offset;
    struct ahead_error error;
    struct ahead_job job;
    pthread_t thread; /* valid while swap.fill is RUNNING or LEFT */

    /* immutable */
    struct ahead_source src;
    size_t buffer_bytes; /* 0: to be chosen */
    uint32_t read_timeout_ms, close_timeout_ms;
    unsigned flags;
    unsigned process; /* a child of fork() has no second thread */
    char name[16];

    /* fill: the second thread's own. */
    alignas(AHEAD_CACHE_LINE) struct ahead_job fill_job;
    size_t chosen_bytes; /* holder: buffer_bytes once it is chosen */
    size_t unit_bytes;   /* holder: the source's largest block, then; 0: it has none */
    size_t second_bytes; /* what the half is to have that the second thread begins with */
    size_t grown_bytes;  /* holder: on a pool, how large a half may be by now */
    size_t borrowed[2];  /* holder: what each half has of the pool's budget */
    bool shares;         /* holder: the pool counts on it when it divides the budget */

    alignas(AHEAD_CACHE_LINE) struct ahead_swap swap;

#ifdef AHEAD_CHECKS
    _Atomic int readers; /* inside a call; a second one is refused */
#endif
};

static inline struct ahead_core *ahead_core_of(const struct ahead_stream *s)
{
    return (struct ahead_core *)s;
}

/* A child of fork() has neither the second thread nor a lock that is sure to
 * be free: it reads what is at hand, and may close. */
static inline bool ahead_core_forked(const struct ahead_core *c)
{
    return c->process != ahead_process();
}

/* In a build with `checks`, ENTER refuses a second reader with AHEAD_INVALID
 * for as long as the calling function runs. */
#ifdef AHEAD_CHECKS
struct ahead_core *ahead_enter(struct ahead_core *c);
void ahead_leave(struct ahead_core **c);
#define AHEAD_ENTER(core, refused)                                                                 \
    __attribute__((cleanup(ahead_leave))) struct ahead_core *entered_ = ahead_enter(core);         \
                                                                                                   \
    if (!entered_)                                                                                 \
    return (refused)
#else
#define AHEAD_ENTER(core, refused) ((void)(core))
#endif

/* Whether another thread is inside a call; known in a build with `checks`. */
static inline bool ahead_core_is_busy(const struct ahead_core *c)
{
#ifdef AHEAD_CHECKS
    return c->readers > 0;
#else
    (void)c;
    return false;
#endif
}

/* cursor.c: the one slow path under every read. */

/* Make the window larger by one byte at least, with `want` in mind: waits,
 * fills, swaps.  On any other status than AHEAD_OK it is as it was. */
enum ahead_status ahead_core_more(struct ahead_core *c, size_t want);

/* Say what a call has to say of its own value, in words.  Returns the status. */
enum ahead_status ahead_core_fail(struct ahead_core *c, enum ahead_status st, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));

/* The same for a call that found fewer bytes than it needs, when `st` is what
 * came behind them: TRUNCATED at a clean end, EOF if there was not one. */
enum ahead_status ahead_core_short(struct ahead_core *c, enum ahead_status st, size_t needed);

/* The same for a wait that took longer than the caller's limit. */
enum ahead_status ahead_core_fail_timeout(struct ahead_core *c);

/* With the token held by the reader, nobody else can watch the clock: has the
 * source wait for bytes, if it can.  false: the time is over. */
bool ahead_core_source_in_time(struct ahead_core *c);

/* As the public ones, for a caller that has entered. */
enum ahead_status ahead_core_need(struct ahead_core *c, size_t n);
enum ahead_status
ahead_core_peek(struct ahead_core *c, size_t want, const uint8_t **data, size_t *len);

static inline size_t ahead_core_unread(const struct ahead_core *c)
{
    return (size_t)(c->hot.end - c->hot.next);
}

/* ahead_swap_begin_seek() in the time that a wait of the reader has, and in
 * words. */
enum ahead_status ahead_core_begin_seek(struct ahead_core *c);

/* Point the window at no bytes, at `offset`. */
void ahead_core_reset_window(struct ahead_core *c, uint64_t offset);

/* Count what was delivered so far. */
void ahead_core_count(struct ahead_core *c);

/* fill.c: claim and make. */

/* Claims and makes one piece at *place; the caller has the token.  `next` as
 * for ahead_swap_end_make(). */
bool ahead_fill_piece(struct ahead_core *c, struct ahead_job *job, struct ahead_place *place,
                      struct ahead_place *next);

/* What the source has left; UINT64_MAX: it does not say.  With the token, or as
 * the only one in the source. */
uint64_t ahead_fill_remaining(struct ahead_core *c);

/* Start the second thread, or let it loose.  Reading thread. */
void ahead_fill_start(struct ahead_core *c);

/* Whether this thread is the second thread of `c`. */
bool ahead_fill_is_self(const struct ahead_core *c);

/* The size of one buffer; asks the source for its largest block at first.
 * Nobody else may be in the source. */
size_t ahead_fill_buffer_bytes(struct ahead_core *c);

/* Delete the memory of a half, and return what it had of the budget. */
void ahead_fill_delete_half(struct ahead_core *c, unsigned half, uint8_t *bytes, size_t cap);

/* The task of a stream on a pool. */
void ahead_fill_run(struct ahead_task *task, struct ahead_job *job);

/* With the token held, and nobody else inside: bytes were read in vain, so less
 * is to be read ahead.  The halves are about to be emptied. */
void ahead_fill_shrink(struct ahead_core *c);

/* The stream has ended and nothing is unread: give the memory of its halves
 * back to the pool, if nobody writes to it. */
void ahead_fill_release(struct ahead_core *c);

/* stream.c: close the source and free everything. */
enum ahead_status ahead_core_destroy(struct ahead_core *c);

#endif
