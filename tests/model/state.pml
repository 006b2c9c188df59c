/* SPDX-License-Identifier: Apache-2.0
 *
 * state.pml - what reader and makers share, and what may happen when.
 *
 * The names are those of struct ahead_swap; the predicates stand beside their C functions. */

#ifndef N
#define N 3
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef PIECE
#define PIECE 1
#endif
#ifndef RING
#define RING 2
#endif
#ifndef FILLS
#define FILLS 1
#endif
#ifndef SEEKS
#define SEEKS 0
#endif
#ifndef SWAPS
#define SWAPS 0
#endif
#ifdef SPLIT
#define split true
#else
#define split false
#endif
#if defined(COUPLED) || defined(SILENT) || defined(TIMEOUT)
#define may_block true
#else
#define may_block false
#endif
#ifdef TIMEOUT
#define delegate true
#else
#define delegate false
#endif

mtype = { no_ending, at_end, claim_failed, make_failed, settle_failed, by_cancel };
/* what comes of a claim, besides */
mtype = { piece, moved, to_drop, read_instead, no_room, no_memory, interrupted };
mtype = { no_wish, bytes, quiet, whole, left };                 /* enum ahead_wish */
mtype = { fill_none, fill_running, fill_left, fill_never };    /* enum ahead_fill_state */

/* ---- Under the lock ---- */

byte claimed[2];     /* of each half: pieces claimed since it was empty; those of 0 bytes count */
byte pending[2];     /* of these, not published */
byte tail[2];        /* bytes given out to makers, by the bounds */
byte ready[2];       /* bytes published; ready <= tail */
bit closed[2];       /* a latch: nothing more is claimed here until it is empty */
bit active_half;          /* the reader's half */
bit filling;         /* the half of the next claim; flips in the moment that it closes */
byte taken;          /* how far the reader's window reaches in its half */

typedef slot { byte key, off, good_len; bit half, used, made };
slot ring[RING];     /* what is claimed and not published, by its number % RING */
byte claims;         /* number of the next claim */
byte published;      /* number of the next piece to publish */
byte position;       /* where in the stream the published bytes end */
byte taken_offset;   /* where in the stream the reader's window ends */
byte cold_offset;    /* where the reader began alone */

bit token;           /* one at a time claims, reads, or seeks */
bit reading;         /* its holder reads into the half token_half: a read() writes in any place */
bit token_half;
bit hold;            /* the reader wants the token: a fill takes no new one */
bit serial;          /* a split source wants a read(), once all else is published */
bit in_order;        /* so it did the last time */
byte makes[2];       /* makes under way in each half */
bit settling;        /* somebody settles */

mtype pend = no_ending;
byte pend_claim;     /* the claim that it came from: the earliest wins */
byte pend_published = 255; /* it is due when so many pieces are published */
bit ended;           /* it has been returned to the reader */
bit cancelled, stop, hooked; /* latches */
byte hooks;          /* callers inside source.interrupt */
bit orphan;          /* close ran out of time */

mtype fill_state = fill_none;
bit warm;            /* a fill was started; cleared by a seek */
#ifdef EAGER
bit solo;
#else
bit solo = 1;        /* the reader fills alone, over again in one half */
#endif
bit rest[FILLS];     /* this fill sleeps */
bit nap[FILLS];      /* ... and will wake by itself */
bit alive[FILLS];    /* its thread runs (two: the stream and a helper of a pool) */
bit queued;          /* on a pool: it has been asked for a thread, which has not come yet */
byte fills;          /* on a pool: threads that fill this stream */
bit single;          /* there is memory for one half only */
bit has_memory[2];
mtype wish = no_wish; /* what the reader sleeps for */
bit hungry;          /* its patience is over: any byte wakes it */

/* ---- The reader's own ---- */

byte cur;            /* next byte of its window, which ends at `taken` */
#define consumed (taken_offset - (taken - cur))

/* ---- Not of the stream: the memory, the source, what the check has to know ---- */

byte mem[2 * CAP];   /* 0: nothing; MADE: a byte of a piece; SEEN: the byte of a position */
#define CELL(h, i) mem[(h) * CAP + (i)]
#define MADE(key, i) (1 + (key) * PIECE + (i))
#define SEEN(pos) (128 + (pos))
byte writers[2];     /* who may still write into the half */
bit intr;            /* source.interrupt was called: a latch */
bit stuck;           /* somebody is blocked in the source for good */
byte base;           /* claims before the last seek */
bit given[2];        /* the half went to the caller of swap_buffer, and came back as another */
byte moves;          /* how often a seek has moved the source */
mtype true_end = no_ending;
byte true_claim = 255; /* the ending that the reader must get, and the claim it comes from */
bit src_closed, freed, returned; /* the source is closed, the stream freed, close is back */
byte seeks, swaps;
#ifdef POOL
bit busy;            /* the pool never gets to this stream */
bit picked;          /* a thread of the pool has taken it off the queue */
#endif

/* ---- Predicates ---- */

#define PEND (pend != no_ending)
#define OUTSTANDING (claims - published)
#define SLOT(k) ring[(k) % RING]
#define NEXT SLOT(published)

/* all_published_locked */
#define ALL_PUBLISHED (claims == published && !settling)

/* quiet_locked: a seek may go on */
#if defined(BROKEN_seek_beside_makes)
#define QUIET (!token && !settling)
#elif defined(BROKEN_seek_beside_settler)
#define QUIET (!token && makes[0] + makes[1] == 0)
#else
#define QUIET (!token && !settling && makes[0] + makes[1] == 0)
#endif

/* claimable_locked, whoever claims */
#ifdef BROKEN_ring_overrun
#define ROOM (!closed[filling])
#else
#define ROOM (!closed[filling] && OUTSTANDING < RING)
#endif
#ifdef BROKEN_serial_beside_makes
#define CLAIMABLE (!token && !PEND && !stop && ROOM)
#else
#define CLAIMABLE (!token && !PEND && !stop && ROOM && (!serial || ALL_PUBLISHED))
#endif

/* fill_works_locked, fill_can_claim_locked: an unsplit source is the fill's once that is warm, and
 * the reader's while that is alone */
#if defined(BROKEN_cold_reader)
#define FILL_WORKS (fill_state == fill_running)
#elif defined(BROKEN_solo_reader)
#define FILL_WORKS (fill_state == fill_running && warm)
#elif defined(POOL)
#define FILL_WORKS (fills > 0)
#else
#define FILL_WORKS (fill_state == fill_running && warm && !solo)
#endif
#ifdef BROKEN_cold_fill
#define FCLAIM (!hold && CLAIMABLE)
#elif defined(BROKEN_solo_fill)
#define FCLAIM (warm && !hold && CLAIMABLE)
#else
#define FCLAIM (warm && !solo && !hold && CLAIMABLE)
#endif

/* helps_locked: the reader makes pieces beside the fill */
#define HELPS (split && !in_order)

/* reader_can_claim_locked: not beside unpublished pieces, if the claim can block */
#if defined(BROKEN_claim_beside_makes)
#define NBL true
#elif defined(BROKEN_nbl_by_makes)
#define NBL (makes[0] + makes[1] == 0)
#else
#define NBL ALL_PUBLISHED
#endif
#define RCLAIM (CLAIMABLE && (HELPS || !FILL_WORKS) && \
                (!may_block || fill_state == fill_never || (!delegate && NBL)))

/* unread_locked, ending_due_locked, used_up_locked */
#define READY (taken < ready[active_half])
#define ATEND (PEND && published == pend_published && taken_offset == position)
#ifdef BROKEN_used_with_pending
#define USED (closed[active_half] && taken == ready[active_half])
#else
#define USED (closed[active_half] && pending[active_half] == 0 && taken == ready[active_half])
#endif

/* start_due_locked: at the first bytes beyond one half, or when only a fill may wait */
#define START (!warm && !PEND && fill_state != fill_never && \
               ((delegate && may_block) || position - cold_offset > CAP))

/* fill_is_inside_locked: whether another than the reader may be in the source */
#ifdef POOL
#define INSIDE (queued || fills > 0)
#else
#define INSIDE (fill_state == fill_running)
#endif

/* Whether the next piece is to be settled; the loop of ahead_swap_end_make. */
#define NEXT_MADE (!stop && OUTSTANDING > 0 && published < pend_published && NEXT.made)
#define SETTLE (!settling && NEXT_MADE)

/* being_read_locked: a read() writes into the reader's half */
#define BEING_READ (token && reading && token_half == active_half)

/* In a stream with one half a claim on its way has no other half to go to. */
#ifdef BROKEN_swap_beside_a_claim
#define BEING_ASKED false
#else
#define BEING_ASKED (token && single && token_half == active_half)
#endif

/* The reader's half may change hands: nobody writes into it any more. */
#if defined(BROKEN_swap_beside_makes)
#define UNDER_WAY settling
#elif defined(BROKEN_swap_beside_settler)
#define UNDER_WAY (makes[active_half] > 0)
#else
#define UNDER_WAY (makes[active_half] > 0 || settling)
#endif
#define WHOLE_HALF (!UNDER_WAY && \
                    (pending[active_half] == 0 || (PEND && published == pend_published)))

#ifdef BROKEN_close_ignores_hook
#define LEFT (!INSIDE)
#else
#define LEFT (!INSIDE && hooks == 0)
#endif

/* worth_waking_locked: `dry` and the half buffer are left to chance, as a source may lie */
#ifdef FLOOR
#define MAY_DELAY (!HELPS && !hungry && !solo && !PEND && !closed[active_half])
#else
#define MAY_DELAY false
#endif

/* stays_locked: a reader alone uses its half over again */
#define STAYS (single || (solo && filling == active_half && claimed[!active_half] == 0))

/* paced_locked, and that there is a fill to compare with */
#define PACED (!HELPS && !delegate && warm && fill_state == fill_running && !PEND)

/* wish_granted_locked */
#define GRANTED ((wish == bytes && (READY || ATEND || USED || RCLAIM)) || \
                 (wish == quiet && (QUIET || cancelled)) || \
                 (wish == whole && WHOLE_HALF) || \
                 (wish == left && LEFT))

/* fill_may_go_on_locked */
#define FWORK (stop || PEND || FCLAIM)
