/* SPDX-License-Identifier: Apache-2.0 */
/* swap.h - two halves of pieces, and who may touch what when.
 *
 * A stream's memory is two *halves*.  A half holds *pieces*, one behind the
 * other from a page-aligned start; a piece is what one read or one claim gave.
 * Each piece belongs to whoever makes it until it is *published*, then to the
 * reader, until the reader gives the whole half back:
 *
 *     bytes          ready            tail             cap
 *       |--published---|--being made----|---free---------|--slack--|
 *       `- reader's    `- its makers'   `- of the next claim
 *
 * Pieces are published in the order of their claims, so what is published is
 * always one run from the start of the half.  The reader walks into it while
 * the rest is being made.  A half that takes no more claims is *closed*; the
 * reader has used it up when it is closed, nothing in it is pending, and all
 * of it has been read: then the halves are swapped.
 *
 * Guard words of shared fields:
 *
 *   immutable   set before the stream is shared, read by all
 *   reader      the reading thread only
 *   lock        any thread, holding `lock`
 *   holder      whoever has the token
 *
 * `lock` is a leaf: no function of the source, no callback and no allocation
 * is called while it is held; only a pool's lock comes below it.  tests/model has this protocol in Promela; the
 * names of its states are those used here. */
#ifndef AHEAD_STREAM_SWAP_H
#define AHEAD_STREAM_SWAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/source.h>
#include <ahead/stream.h>

#include "source/split.h"
#include "stream/pace.h"
#include "stream/pool.h"

enum {
    /* Pieces claimed and not yet published, in both halves together.  A
     * maker that is held up lets the others run this far ahead of it. */
    AHEAD_RING = 16
};

/* How long a reader sleeps, over a source that cannot be split, before it
 * takes what is published, however little: shorter, and the wake-ups of a
 * fast source cost more than they bring; longer, and a slow one is late
 * (bench_overlap, callback; bench_latency). */
#define AHEAD_PATIENCE_NS 300000

/* A reader that takes longer than this over a half is not held up by waking the
 * fill each time (bench_overlap, file, heavy). */
#define AHEAD_MAX_NAP_NS 1000000

/* The memory that a reader goes over again and again while it fills alone: it
 * stays in the core's own cache.  A decoder wants a few blocks in one piece, as
 * each refers to those before it (bench_overlap, callback and linked frames,
 * fleeting). */
#define AHEAD_SOLO_BYTES ((size_t)64 << 10)
#define AHEAD_SOLO_UNITS 4
#define AHEAD_MOST_SOLO_BYTES ((size_t)256 << 10)

struct ahead_half {
    uint8_t *bytes;   /* lock; written while the half is empty, by the token's holder */
    size_t cap;       /* lock; as bytes */
    size_t tail;      /* lock: bytes given out to makers, by the bounds of their claims */
    size_t ready;     /* lock: bytes published */
    unsigned claimed; /* lock: pieces claimed since it was empty; those of 0 bytes count */
    unsigned pending; /* lock: of these, not yet published */
    bool closed;      /* lock: a latch; nothing more is claimed here until it is empty */
};

/* A piece that has been claimed and not yet published. */
struct ahead_piece {
    struct ahead_note note;
    size_t off;           /* lock: its place in the half, by the bounds */
    size_t len;           /* lock: once made: how many bytes are good */
    unsigned half;        /* lock */
    enum ahead_status st; /* lock: once made: what make returned */
    bool made;            /* lock */
    bool settled;         /* lock: so it is not dropped, even if an ending kept it back */
};

/* What the second thread is doing. */
enum ahead_fill_state {
    AHEAD_FILL_NONE,    /* never started, or joined */
    AHEAD_FILL_RUNNING, /* it works, or sleeps until there is room */
    AHEAD_FILL_LEFT,    /* it has ended, and wants to be joined */
    AHEAD_FILL_NEVER    /* not wanted, or it could not be started: the reader fills */
};

/* How the second thread rests when there is nothing to claim.  A wake-up costs
 * the reader more than the making of a small piece, so the fill first naps for
 * about as long as the reader took to give a half back the last time, and
 * finds the room by itself; only then it sleeps, and wants to be woken. */
enum ahead_rest {
    AHEAD_REST_NONE,
    AHEAD_REST_NAP,  /* woken to leave, and by a reader that is about to sleep */
    AHEAD_REST_SLEEP /* woken by room, too */
};

/* What the reader sleeps for. */
enum ahead_wish {
    AHEAD_WISH_NONE,  /* it is awake */
    AHEAD_WISH_BYTES, /* something to read, the ending, or a claim to make */
    AHEAD_WISH_QUIET, /* no token, no makes, no settler: seek, swap_buffer */
    AHEAD_WISH_WHOLE, /* nothing pending in its own half: swap_buffer */
    AHEAD_WISH_LEFT   /* the second thread gone, no interrupt running: close */
};

struct ahead_swap {
    pthread_mutex_t lock;
    pthread_cond_t ready; /* the reader waits: see enum ahead_wish */
    pthread_cond_t room;  /* the second thread waits: a claim to make, or to leave */
    clockid_t clock;      /* immutable: of both conditions */

    bool split;     /* immutable: the source offers claim, make and settle */
    bool may_block; /* immutable: a claim can block for as long as a peer likes */
    bool delegate;  /* immutable: claims that may block are the second thread's (read timeout) */
    bool
        can_wait; /* immutable: but a reader can also wait for the source, with an eye on the clock */
    struct ahead_pool *pool; /* immutable: its threads fill; NULL: a second thread does */
    struct ahead_task task;  /* the pool's */
    bool eager; /* immutable: the second thread claims from the start, and after a seek */

    struct ahead_half half[2];
    unsigned active;      /* lock: the reader's half; only the reader writes it */
    unsigned filling;     /* lock: the half of the next claim */
    uint64_t cold_offset; /* lock: where the reader began alone: at open, at a seek, at a stretch */
    size_t taken;         /* lock: how far the reader's window reaches in its half; reader writes */

    struct ahead_piece ring[AHEAD_RING]; /* lock: piece number n is ring[n % AHEAD_RING] */
    uint64_t claims;                     /* lock: number of the next claim */
    uint64_t published;                  /* lock: number of the next piece to publish */
    uint64_t position;                   /* lock: where in the stream the published bytes end */
    uint64_t taken_offset;               /* lock: where in the stream the reader's window ends */
    size_t full_bytes;                   /* lock: of a whole buffer; 0: not chosen yet */
    size_t solo_bytes;                   /* lock: what a reader alone uses of it */
    size_t want;                         /* lock: bytes to ask for in the next claim; grows */

    bool token;          /* lock: somebody claims, reads, skips or seeks */
    unsigned token_half; /* lock: where the token's holder will put its piece */
    bool by_reader;      /* lock: the token's holder is, or was, the reader */
    bool reading;        /* lock: the token's holder writes there, by a read() */
    bool hold;           /* lock: the reader wants the token; the fill takes no new one */
    bool serial;         /* lock: the next step is a read(), once all else is published */
    bool in_order;       /* lock: so was the last one: linked blocks, the end of a file */
    unsigned makes[2];   /* lock: makes under way in each half */
    bool settling;       /* lock: somebody settles */

    bool pend;                 /* lock: an ending is known */
    uint64_t pend_claim;       /* lock: the claim that it came from; the earliest wins */
    uint64_t pend_published;   /* lock: it is due when so many pieces are published */
    struct ahead_error ending; /* lock: valid with pend */
    bool ended;                /* lock: it has been returned to the reader */

    bool cancelled;        /* lock: a latch */
    bool stop;             /* lock: a latch: close has begun */
    bool hooked;           /* lock: a latch: interrupt() has been called */
    unsigned hooks;        /* lock: callers inside interrupt() */
    pthread_t hook_thread; /* lock: the one that is, valid with `hooks` */
    bool orphan;           /* lock: close ran out of time; the second thread cleans up */

    enum ahead_fill_state fill; /* lock */
    bool queued;                /* lock: with a pool: a fill was asked for and has not begun */
    unsigned fills;             /* lock: with a pool: its threads that fill */
    bool nested;                /* lock: the reader is a pool's thread: another may never come */
    bool single;                /* lock: there is memory for one half only */
    bool warm;                  /* lock: the second thread was started */
    bool solo;                  /* lock: the reader fills alone, over again in one half */
    struct ahead_pace pace;     /* lock: see paced_locked() */
    enum ahead_rest rest;       /* lock: how it is asleep on `room` */
    uint64_t nap_ns;            /* lock: how long it naps at first; 0: not at all */
    uint64_t room_ns;           /* lock: when room came while it rested; 0: not yet */
    enum ahead_wish wish;       /* lock: what the reader sleeps for */
    uint64_t enough;            /* lock: ready bytes that grant it a QUIET, too */
    bool hungry;                /* lock: its patience is over: any byte wakes it */
    bool dry;                   /* lock: the source is about to block */

    uint64_t waits_seen;      /* lock: see ahead_swap_reader_had_to_wait() */
    struct ahead_stats stats; /* lock */
};

/* Where a claim will put its bytes. */
struct ahead_place {
    uint8_t *bytes; /* of the half; NULL: it has no memory yet */
    unsigned half;
    size_t off;        /* from the start of the half */
    size_t want, room; /* bytes to ask for; bytes that there are, maybe fewer */
    bool empty;        /* nothing has been claimed in this half yet */
    bool solo;         /* the reader fills alone, and needs little memory */
    bool alone;        /* the other half has no memory */
    bool serial;       /* it has to be a read() */
    unsigned turns;    /* pieces that this thread has made without a break */
    size_t awaited;    /* bytes that are published and did not wake the reader, who sleeps */
    bool left;         /* the reader's half was given back: nothing of it may be touched */
    bool takes;        /* the reader has nothing unread, and takes at once what it reads */
    bool taken;        /* it has: as with TURN_TAKEN */
};

/* What the reader is to do next. */
enum ahead_turn {
    AHEAD_TURN_READY, /* bytes are published behind its window: take them */
    AHEAD_TURN_TAKEN, /* the same where nothing is unread: *place has them, taken */
    AHEAD_TURN_ENDED, /* the ending is due */
    AHEAD_TURN_USED,  /* save what is unread, then ahead_swap_give_back() */
    AHEAD_TURN_CLAIM, /* it has the token: claim and make at *place */
    AHEAD_TURN_START, /* the second thread may be worth its while */
    AHEAD_TURN_WAIT,  /* nothing without sleeping, and that was not asked for */
    AHEAD_TURN_TIMEDOUT
};

/* How ahead_swap_next() is asked. */
struct ahead_ask {
    uint32_t timeout_ms; /* of each sleep; 0: none */
    bool poll;           /* neither sleep nor claim */
    bool partial;        /* bytes are unread: a clean end is not reached by them */
};

/* Set up lock and conditions; the rest of *sw is zero but for the immutable
 * fields.  AHEAD_OK, AHEAD_NOMEM. */
enum ahead_status ahead_swap_init(struct ahead_swap *sw);
void ahead_swap_destroy(struct ahead_swap *sw);

/* ---- the reader ---- */

/* Decide what is next, and sleep until there is something.  *place is filled
 * in with TURN_CLAIM, and with TURN_TAKEN: `room` bytes at bytes + off; its
 * `left` with all.  *ending is with TURN_ENDED. */
enum ahead_turn ahead_swap_next(struct ahead_swap *sw, struct ahead_ask ask,
                                struct ahead_place *place, struct ahead_error *ending);

/* Take up to `most` published bytes into the reader's window: how many.
 * *bytes is the start of its half, *from where they begin in it. */
size_t ahead_swap_take(struct ahead_swap *sw, size_t most, uint8_t **bytes, size_t *from);

/* The reader's half is used up, and what was unread in it has been saved. */
void ahead_swap_give_back(struct ahead_swap *sw);

/* Bytes published behind the reader's window, in both halves. */
size_t ahead_swap_ready_bytes(struct ahead_swap *sw);

/* The bytes that both halves hold at most; 0: they have no memory yet. */
size_t ahead_swap_buffer_bytes(struct ahead_swap *sw);

/* The size of a whole buffer; 0: it was not chosen yet. */
size_t ahead_swap_full_bytes(struct ahead_swap *sw);

/* The reader went back in front of an ending that it was given: it is due
 * again, and a cancel may come before it. */
void ahead_swap_unend(struct ahead_swap *sw);

/* Whether ahead_swap_cancel() was called. */
bool ahead_swap_cancelled(struct ahead_swap *sw);

/* With TURN_START: whether the second thread is worth its while, where the
 * source has `left` bytes (UINT64_MAX: not known).  Else it is asked again,
 * further on. */
bool ahead_swap_wants_thread(struct ahead_swap *sw, uint64_t left);

/* Let the second thread claim.  true: there is none, and the caller is to
 * start it (one that has left is to be joined first).  Over a source that
 * cannot be split the reader then goes on alone until the thread is there. */
bool ahead_swap_begin_start(struct ahead_swap *sw, bool *join);
/* It could not be started: the reader fills. */
void ahead_swap_start_failed(struct ahead_swap *sw);

/* Wait until no step of the source runs, and take the token; the fill takes no
 * new claim meanwhile.  AHEAD_OK; AHEAD_CANCELLED, AHEAD_TIMEDOUT, or AHEAD_LIMIT
 * when `enough` bytes were ready before that: nothing changed. */
enum ahead_status
ahead_swap_begin_seek(struct ahead_swap *sw, uint32_t timeout_ms, uint64_t enough);

/* Whether an ending is known already.  With the token held. */
bool ahead_swap_ending_known(struct ahead_swap *sw);

/* Whether one is, and it is not the end of the input.  With the token held. */
bool ahead_swap_failed(struct ahead_swap *sw);

/* Give the token back: the source has not moved. */
void ahead_swap_end_seek(struct ahead_swap *sw);

/* Give the token back: the source stands at `offset` now.  All that was
 * buffered is dropped, and so is the ending, but for a cancel; `ending`, if
 * not NULL, is the new one.  `discarded`: bytes that were read and nobody gets,
 * for the statistics. */
void ahead_swap_end_seek_moved(struct ahead_swap *sw, struct ahead_source src, uint64_t offset,
                               uint64_t discarded, const struct ahead_error *ending);

/* The source has failed where the reader is: `ending` instead of that which is
 * known, but for a cancel.  With the token held, which stays. */
void ahead_swap_end_with(struct ahead_swap *sw, const struct ahead_error *ending);

/* Close the reader's half where it stands, wait until all of it is published,
 * and replace its memory.  In: *bytes and *cap of the new memory; out: of the
 * old, with *end where its bytes end.  The reader's window has been taken; it
 * goes on with the other half.  AHEAD_OK; AHEAD_TIMEDOUT; AHEAD_UNSUPPORTED: a
 * read() writes into that half, and may be about to block. */
enum ahead_status ahead_swap_replace(struct ahead_swap *sw, uint32_t timeout_ms, uint8_t **bytes,
                                     size_t *cap, size_t *end);

/* Whether this thread is inside interrupt() of the source. */
bool ahead_swap_is_hooking(struct ahead_swap *sw);

/* Close: no claim begins from here on.  Interrupts the source if another
 * thread may be in it, and waits until the second thread has left, up to
 * timeout_ms (0: for ever).  AHEAD_FILL_RUNNING: it has not, and owns the
 * stream now; AHEAD_FILL_LEFT: it is to be joined. */
enum ahead_fill_state
ahead_swap_stop(struct ahead_swap *sw, struct ahead_source src, uint32_t timeout_ms);

/* Drop what was claimed and will not be published.  Nobody else is left. */
void ahead_swap_drop(struct ahead_swap *sw, struct ahead_source src);

/* ---- whoever makes pieces: the second thread, the reader ---- */

/* The second thread: wait for something to claim.  false: leave, and touch
 * nothing of the stream any more; unless *orphan: close gave up waiting, and
 * the thread is to clean up. */
bool ahead_swap_begin_fill(struct ahead_swap *sw, struct ahead_place *place, bool *orphan);

/* A thread of the pool: take a claim, if there is one by now.  false: there is
 * not; touch nothing of the stream any more, unless *orphan, as above. */
bool ahead_swap_begin_pool_fill(struct ahead_swap *sw, struct ahead_place *place, bool *orphan);

/* It is through.  Nothing of the stream may be touched any more, unless it
 * returns true: close gave up waiting, and the thread is to clean up. */
bool ahead_swap_end_pool_fill(struct ahead_swap *sw);

/* With the token held: there is no memory for a second half.  The reader's own
 * is filled again when it has been used up.  The token is free again. */
void ahead_swap_end_claim_single(struct ahead_swap *sw);

/* With the token held, at an empty half: whether the reader had to wait, or to
 * fill, since the last time that this was asked. */
bool ahead_swap_reader_had_to_wait(struct ahead_swap *sw);

/* With the token held: there may be memory for two halves again. */
void ahead_swap_end_single(struct ahead_swap *sw);

/* The second thread, just started, is there: true where the reader is alone.
 * Then place->half is the one that the reader stays out of, unless it is sought
 * about; its `bytes` NULL: it has no memory yet. */
bool ahead_swap_begin_warm_up(struct ahead_swap *sw, struct ahead_place *place);

/* The second thread fills from now on, unless the stream was sought.  If the
 * half is without memory, and the reader still out of it, it gets `bytes`, NULL
 * being none, as by ahead_swap_install(); false: they are the caller's still. */
bool ahead_swap_end_warm_up(struct ahead_swap *sw, struct ahead_place *place, uint8_t *bytes,
                            size_t cap, size_t full, size_t solo);

/* The ending was returned and the window is empty: take the memory of the
 * halves away.  false: somebody may still write to it. */
bool ahead_swap_take_memory(struct ahead_swap *sw, uint8_t *bytes[2], size_t cap[2]);

/* With the token held, and nobody else inside: take the memory of a half away. */
void ahead_swap_take_half(struct ahead_swap *sw, unsigned half, uint8_t **bytes, size_t *cap);

/* With the token held: give the half of *place memory.  `full`: a whole buffer
 * of this stream has so many bytes; `solo`: a reader alone uses so many. */
void ahead_swap_install(struct ahead_swap *sw, struct ahead_place *place, uint8_t *bytes,
                        size_t cap, size_t full, size_t solo);

/* Where a piece went that a claim came back with. */
enum ahead_placed {
    AHEAD_PLACED,         /* at *place, as number *number; the token is free again */
    AHEAD_PLACED_NOWHERE, /* drop it, an ending or a cancel came first; then
                           * ahead_swap_abandon_claim() */
    AHEAD_PLACED_MOVED    /* the reader took that half away: see to the memory of the half that
                           * *place says now, and call again */
};

/* The claim came back with a piece. */
enum ahead_placed ahead_swap_end_claim(struct ahead_swap *sw, struct ahead_place *place,
                                       const struct ahead_job *job, uint64_t *number);

/* A piece was made: `len` good bytes, err->status says how it went.  Settles
 * and publishes what is complete, in order.  `next` is NULL for the reader;
 * for the second thread the next claim is taken in the same section, so that
 * a fast reader does not get between two pieces: then true and *next. */
bool ahead_swap_end_make(struct ahead_swap *sw, struct ahead_source src, uint64_t number,
                         size_t len, const struct ahead_error *err, struct ahead_place *next);

/* The token's holder made a piece of len > 0 bytes at *place by read(), with
 * nothing else unpublished.  `next` as above.  A reader that `takes` has the
 * bytes in *place then, as with TURN_TAKEN, if nothing came in between. */
bool ahead_swap_end_read(struct ahead_swap *sw, struct ahead_place *place, size_t len,
                         struct ahead_place *next);

/* The claim came back without a piece; the token is free again. */
void ahead_swap_end_claim_no_room(struct ahead_swap *sw); /* this half closes short */
void ahead_swap_end_claim_serial(struct ahead_swap *sw);  /* a read() is to follow */
void ahead_swap_end_claim_ending(struct ahead_swap *sw, const struct ahead_error *ending);
void ahead_swap_abandon_claim(struct ahead_swap *sw); /* nothing was asked */

/* The source is about to block: a reader that sleeps gets what there is. */
void ahead_swap_going_dry(struct ahead_swap *sw);

/* Copy the figures, but for the bytes that were delivered. */
void ahead_swap_get_stats(struct ahead_swap *sw, struct ahead_stats *out);

/* Whether cancel or close has begun. */
bool ahead_swap_interrupted(struct ahead_swap *sw);

/* ---- any thread ---- */

/* End the stream with AHEAD_CANCELLED, unless an ending was returned already,
 * and call the source's interrupt() if nobody has. */
void ahead_swap_cancel(struct ahead_swap *sw, struct ahead_source src);

#endif
