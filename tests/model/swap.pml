/* SPDX-License-Identifier: Apache-2.0
 *
 * swap.pml - how reader and fills hand pieces over, as lib/stream/swap.c does it.
 *
 * Every atomic block is one critical section, or one call of the source together with the
 * critical section behind it.  The C function stands beside each inline.  README.md says what is
 * modelled, what is not, and how to read a trail; `check` runs all of it.
 *
 * Configuration (-D):
 *   SPLIT      the source can be split: claim, make, settle.  Else it has read() alone
 *   N          claims between open, or a seek, and the latest end of the source
 *   CAP PIECE  bytes of a half; the largest bound of a piece
 *   RING       pieces that may be claimed and not published, over both halves
 *   FILLS      fill threads (two: a helper of a pool)
 *   ZERO SHORT a bound may be 0; a make may give fewer bytes than its bound, 0 too
 *   MAKE_FAILS SETTLE_FAILS  with any number of good bytes in front
 *   WHOLE      a claim may answer "read() this one" (the end of a file, a block too large)
 *   COUPLED    claiming blocks until all that came before has been used up by the reader
 *   SILENT     the source may fall silent for good: only source.interrupt ends that claim
 *   CANCEL EARLY_CLOSE SEEKS=n SWAPS=n   what is called, besides read
 *   CLOSE_TIMEOUT  close may run out of time and leave the rest to the last fill
 *   EAGER TIMEOUT  AHEAD_EAGER; read_timeout_ms over a source that may block
 *   NO_THREAD  the thread may not start
 *   POOL       the fill is a job of a pool, which may never get to it
 *   FLOOR      the signal of a publication may be held back; the reader's first sleep is timed
 *   HURRY      a reader that has bytes does not loop as settler
 *   SPURIOUS   sleepers wake without a signal
 *   LIVE       adds the liveness property
 *   BROKEN_x   one rule left out: the check must fail */

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
#define IS_SPLIT true
#else
#define IS_SPLIT false
#endif
#if defined(COUPLED) || defined(SILENT) || defined(TIMEOUT)
#define CAN_BLOCK true
#else
#define CAN_BLOCK false
#endif

/* endings; what came back from a claim; where the reader sleeps; the thread */
mtype = { no_ending, at_end, claim_failed, make_failed, settle_failed, by_cancel,
          got_piece, got_read, no_fit, interrupted,
          up, in_read, in_seek, before_swap, in_swap, in_close,
          none, queued, running, exited, no_start };

/* ---- State of the protocol, all of it under the lock unless said otherwise ---- */

typedef piece {
    byte key;      /* the index of its claim */
    bit half;
    byte off;      /* where it lies, by the bounds of those before it */
    byte got;      /* good bytes that its make gave */
    bit taken;     /* claimed, not yet published */
    bit made
};

piece ring[RING];  /* the outstanding pieces of both halves, by key % RING */
byte claims;       /* key of the next claim */
byte pub;          /* key of the next piece to publish */
byte pubpos;       /* position behind what is published */

byte n[2];         /* pieces claimed since the half was empty, those of 0 bytes too */
byte unpub[2];     /* of these, not published */
byte tail[2];      /* sum of the bounds claimed */
byte pe[2];        /* end of what is published, pe <= tail */
bit closed[2];     /* a latch: nothing more is claimed here until the half comes back */
bit fh;            /* the half of the next claim; flips in the moment in which it closes */
bit first;         /* the half in which filling began, at open or at the last seek */
bit warm;          /* a fill may claim: set by what starts the thread, cleared by a seek */

bit tok;           /* one caller at a time claims, reads, or seeks */
bit reading;       /* ... and it is a whole read() over a split source */
bit hold;          /* a seek waits for the token: fills take no new one */
byte infl;         /* makes under way */
bit stl;           /* somebody settles */

mtype pend = no_ending;
byte pkey, pn = 255; /* the claim it came from; how many claims are published before it */
bit ended;         /* it has been returned to the reader */
bit cancelled, stop, hook;
byte icalls;       /* callers inside source.interrupt */
bit orphan;        /* close ran out of time */

mtype rwait = up;  /* the reader sleeps, and where */
bit timed;         /* ... for its patience only */
bit fwait[FILLS];
bit alive[FILLS];
mtype thr = none;

bit ah;            /* reader: its half */
byte cur, lim;     /* reader, no lock: next byte, end */
byte consumed;     /* reader, no lock: position */

/* ---- What the source and the memory are; none of it is a field of the stream ---- */

byte mem[2 * CAP]; /* 0: nothing; MADE(key, i): byte i of a piece; SEEN(p): the byte of position p */
#define CELL(h, i) mem[(h) * CAP + (i)]
#define MADE(k, i) (1 + (k) * PIECE + (i))
#define SEEN(p) (128 + (p))
byte writers[2];   /* makes that may still write into the half */
bit intr;          /* source.interrupt was called: a latch */
bit asleep;        /* somebody is blocked in the source for good */
byte base;         /* claims before the last seek */
bit sclosed, freed, returned; /* the source is closed, the stream freed, close has returned */
mtype true_end = no_ending;
byte true_key = 255; /* the ending that the reader must get, and the claim it comes from */
byte seeks, swaps;
#ifdef POOL
bit busy;          /* the pool never gets to this stream */
#endif

/* ---- Predicates ---- */

#define PEND (pend != no_ending)
#define OUTSTANDING (claims - pub)
#define SLOT(k) ring[(k) % RING]
#define NEXT SLOT(pub)
#define FIRST_MADE (OUTSTANDING > 0 && NEXT.made)

#ifdef BROKEN_ring_overrun
#define ROOM (!closed[fh])
#else
#define ROOM (!closed[fh] && OUTSTANDING < RING)
#endif

#define READY (cur < pe[ah])

#ifdef BROKEN_used_with_unpublished
#define USED (closed[ah] && cur == pe[ah])
#else
#define USED (closed[ah] && cur == pe[ah] && unpub[ah] == 0)
#endif

#define ATEND (PEND && pub == pn && consumed == pubpos)

#define SETTLE (!stl && !stop && FIRST_MADE && pub < pn)

#ifdef BROKEN_claim_beside_makes
#define NBL true
#elif defined(BROKEN_nbl_by_makes)
#define NBL (!CAN_BLOCK || infl == 0)
#else
#define NBL (!CAN_BLOCK || OUTSTANDING == 0)
#endif

/* An unsplit source belongs to the fill from the moment in which it is warm. */
#ifdef BROKEN_cold_reader
#define READER_MAY (IS_SPLIT || thr != running)
#elif defined(TIMEOUT)
#define READER_MAY (thr == no_start)
#else
#define READER_MAY (IS_SPLIT || thr != running || !warm)
#endif
#define RCLAIM (!tok && !PEND && ROOM && NBL && READER_MAY)
#ifdef BROKEN_cold_fill
#define WARM true
#else
#define WARM warm
#endif
#define FCLAIM (!tok && !PEND && !stop && !hold && ROOM && WARM)
#define FWORK (stop || PEND || FCLAIM)     /* what ends the sleep of a fill */

#ifdef BROKEN_seek_beside_makes
#define SPRED (!tok && !stl)
#elif defined(BROKEN_seek_beside_settler)
#define SPRED (!tok && infl == 0)
#else
#define SPRED (!tok && infl == 0 && !stl)
#endif

/* The half can change hands where it stands: nobody writes into it any more. */
#ifdef BROKEN_swap_beside_makes
#define LEAVES (unpub[ah] == 0 || (PEND && pub == pn))
#else
#define LEAVES (unpub[ah] == 0 || (PEND && pub == pn && infl == 0 && !stl))
#endif
#ifdef BROKEN_swap_during_read
#define SWAP_MAY true
#else
#define SWAP_MAY (!(IS_SPLIT -> reading : tok))
#endif

#ifdef BROKEN_close_ignores_hook
#define GONE (thr != running)
#else
#define GONE (thr != running && icalls == 0)
#endif

#define AWAKE ((rwait == in_read && (READY || ATEND || USED || RCLAIM)) || \
               (rwait == in_seek && (SPRED || cancelled)) || \
               (rwait == before_swap && SWAP_MAY) || \
               (rwait == in_swap && LEAVES) || \
               (rwait == in_close && GONE))
#ifdef BROKEN_ending_not_awaited
#define SIGNALLED (AWAKE && !(rwait == in_read && ATEND && !READY))
#else
#define SIGNALLED AWAKE
#endif

/* The floor: these bytes may wait for more.  Never when the half closed or an ending is known. */
#ifdef FLOOR
#define MAY_DELAY (timed && rwait == in_read && READY && !closed[ah] && !PEND && !RCLAIM)
#else
#define MAY_DELAY false
#endif

#define ALL_ASLEEP (fwait[0] && (FILLS == 1 || fwait[FILLS - 1] || !alive[FILLS - 1]))

hidden byte i, good;
hidden byte bad;

/* A reader that has bytes may leave the settling for later (its slow path comes back to it). */
#ifdef HURRY
#define READER_HURRIES (is_reader && READY)
#define LEFT_FOR_LATER (rwait == up || rwait == in_seek)
#define LEFT SETTLE
#else
#define READER_HURRIES false
#define LEFT_FOR_LATER false
#define LEFT false
#endif

/* Says once that a situation was reached, so that nothing is proved of an empty set. */
#ifdef WITNESS
#define witness(seen, name) if :: (seen) -> c_code { static int said; if (!said++) printf("reached: " #name "\n"); } :: else fi
#else
#define witness(seen, name) skip
#endif

/* ---- Under the lock ---- */

inline wake_locked()                       /* wake_locked */
{
    if
    :: rwait != up && SIGNALLED -> rwait = up
    :: rwait != up && SIGNALLED && MAY_DELAY -> witness(true, signal_held_back)
    :: else
    fi;
    if
    :: fwait[0] && FWORK -> fwait[0] = 0
#if FILLS > 1
    :: fwait[1] && FWORK -> fwait[1] = 0
#endif
    :: else
    fi;
#ifdef POOL
    if
    :: thr == none && FCLAIM && !stop -> thr = queued
    :: else
    fi;
#endif
}

/* What holds whenever the lock is let go. */
inline unlocked()
{
    assert(!freed);
    assert(rwait == up || !AWAKE || MAY_DELAY);        /* no reader asleep that could go on */
    assert(!(ALL_ASLEEP && FWORK));                    /* no fills asleep with work to do */
    assert(!SETTLE || LEFT_FOR_LATER);                 /* no made piece that nobody settles */
    assert(IS_SPLIT || thr != running || !(RCLAIM && FCLAIM));     /* one taker of the token */
    assert(pe[0] <= tail[0] && tail[0] <= CAP && pe[1] <= tail[1] && tail[1] <= CAP);
    assert(OUTSTANDING <= RING && unpub[0] + unpub[1] <= OUTSTANDING);
}

inline record_locked(e, k, place, fewer)          /* record_locked */
{
    if
    :: cancelled || ended
#ifdef BROKEN_first_ending_wins
    :: else -> if :: !PEND -> pend = e; pkey = k; pn = place :: else fi
#elif defined(BROKEN_last_ending_wins)
    :: else -> pend = e; pkey = k; pn = place
#else
    :: else ->
        if
        :: !PEND || k < pkey || (k == pkey && fewer) ->
            witness(PEND && k < pkey, earlier_claim_fails_later);
            witness(PEND && k == pkey, settle_cuts_its_make);
            pend = e; pkey = k; pn = place
        :: else
        fi
#endif
    fi
}

/* What really happened, kept apart from what the protocol makes of it. */
inline happened(e, k, fewer)
{
    if
    :: k < true_key || (k == true_key && fewer) -> true_end = e; true_key = k
    :: else
    fi
}

inline latch_locked(h)                                 /* close_half_locked */
{
    closed[h] = 1;
    if
    :: fh == h -> fh = 1 - fh
    :: else
    fi
}

inline empty_locked(h)                                 /* empty_locked */
{
    assert(writers[h] == 0);               /* no memory of a running make changes hands */
    n[h] = 0; unpub[h] = 0; tail[h] = 0; pe[h] = 0; closed[h] = 0
}

inline forget(h)
{
    i = 0;
    do
    :: i < CAP -> CELL(h, i) = 0; i++
    :: else -> break
    od
}

inline clear_slot(s)
{
    ring[s].key = 0; ring[s].half = 0; ring[s].off = 0; ring[s].got = 0;
    ring[s].taken = 0; ring[s].made = 0
}

/* Each piece ends in exactly one of settle and drop.  What is made and will not be settled is
 * dropped when the stream is rewound or freed. */
inline drop_rest()
{
    i = 0;
    do
    :: i < RING ->
        assert(!ring[i].taken || ring[i].made);
        clear_slot(i);
        i++
    :: else -> break
    od
}

inline enter(h, at, bytes)                             /* a piece enters the ring */
{
    assert(!SLOT(claims).taken);
    SLOT(claims).key = claims; SLOT(claims).half = h; SLOT(claims).off = at;
    SLOT(claims).taken = 1;
    tail[h] = at + bytes;
    assert(tail[h] <= CAP);
#ifdef BROKEN_empty_piece_not_counted
    n[h] = n[h] + (bytes > 0); unpub[h] = unpub[h] + (bytes > 0);
#else
    n[h]++; unpub[h]++;
#endif
    claims++;
    if
    :: tail[h] == CAP -> latch_locked(h)
    :: else
    fi
}

/* The bytes of the next piece go down to where those before it end. */
inline move_down(keep)
{
    i = 0;
    do
    :: i < NEXT.got ->
        assert(CELL(NEXT.half, NEXT.off + i) == MADE(pub, i));
        CELL(NEXT.half, NEXT.off + i) = 0;
        if
        :: i < keep ->
            assert(CELL(NEXT.half, pe[NEXT.half] + i) == 0);
            CELL(NEXT.half, pe[NEXT.half] + i) = SEEN(pubpos + i)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline publish_locked()                                /* publish_locked */
{
    assert(NEXT.key == pub && NEXT.taken && NEXT.made);
    i = NEXT.half;
#ifdef BROKEN_empty_piece_not_counted
    unpub[i] = (unpub[i] > 0 -> unpub[i] - 1 : 0);
#else
    unpub[i]--;
#endif
    pe[i] = pe[i] + NEXT.got;
    pubpos = pubpos + NEXT.got;
    clear_slot(pub % RING);
    pub++;
    witness(!closed[i] && unpub[i] == 0 && tail[i] > pe[i], tail_taken_back);
    witness(n[i] > RING, more_pieces_in_a_half_than_in_the_ring);
    if                                     /* an open half with nothing under way is compact */
#ifdef BROKEN_tail_back_early
    :: !closed[i] -> tail[i] = pe[i]
#elif defined(BROKEN_closed_computed_anew)
    :: unpub[i] == 0 -> tail[i] = pe[i]; closed[i] = (tail[i] == CAP)
#else
    :: !closed[i] && unpub[i] == 0 -> tail[i] = pe[i]
#endif
    :: else
    fi
}

inline pass_locked()                       /* settle_locked, its head: who settles next */
{
    if
#ifdef BROKEN_two_settlers
    :: !stop && FIRST_MADE && pub < pn
#elif defined(BROKEN_seek_stops_settler)
    :: SETTLE && !hold
#else
    :: SETTLE && !READER_HURRIES
#endif
        ->
        witness(settling, settler_loops);
        stl = 1; settling = 1
    :: else -> settling = 0
    fi
}

/* The reader has put bytes into a second half: from here on a fill pays. */
inline warm_locked(h, bytes)
{
    if
#ifndef TIMEOUT
    :: is_reader && bytes > 0 && h != first && !PEND ->
        warm = 1;
        starts = (thr == none || thr == exited)
#endif
    :: else
    fi
}

/* ---- One piece, for reader and fill alike.  Locals of the caller: key, bound, off, asked (the half
 *      that was asked for), what, settling, is_reader, starts ---- */

inline begin_fill()                                    /* ahead_swap_begin_fill */
{
    witness(is_reader && IS_SPLIT && thr == running && OUTSTANDING > 0, reader_helps);
    witness(is_reader && !IS_SPLIT && thr == running, reader_claims_while_cold);
    witness(is_reader && thr == queued, fill_stolen);
    tok = 1;
    asked = fh;
    off = tail[fh];
    assert(off < CAP);
    writers[asked] = writers[asked] + !IS_SPLIT
}

/* source.claim, or source.read of an unsplit source, outside of the lock; the token is held. */
inline source_claim()
{
    assert(!sclosed && tok);
#ifdef COUPLED
    (intr || (OUTSTANDING == 0 && consumed == pubpos));
#endif
    if
    :: intr -> what = interrupted
#ifdef SILENT
    :: !intr -> asleep = 1; intr; asleep = 0; what = interrupted
#endif
    :: claims - base < N -> what = got_piece; bound = 1
    :: claims - base < N && PIECE > 1 && CAP - off > 1 -> what = got_piece; bound = 2
#ifdef ZERO
    :: claims - base < N -> what = got_piece; bound = 0
#endif
#ifdef SPLIT
    :: claims - base < N && CAP - off < PIECE -> what = no_fit
#endif
#ifdef WHOLE
    :: claims - base < N -> what = got_read
#endif
    :: what = at_end
    :: what = claim_failed
    fi
}

inline an_ending()
{
    if
    :: what == at_end || what == claim_failed ->
        happened(what, claims, false);
        record_locked(what, claims, claims, false)
    :: what == interrupted -> assert(PEND || stop)
    fi
}

inline end_claim()                                     /* ahead_swap_end_claim */
{
    if
    :: what == got_piece && (PEND || stop) ->                         /* dropped unmade */
        witness(PEND && !cancelled, dropped_unmade);
        what = no_ending; bound = 0
    :: what == got_piece && !PEND ->
        key = claims;
        asked = fh;
        off = tail[fh];
        writers[asked]++;
        infl++;
        enter(asked, off, bound)
    :: what == no_fit ->
        witness(asked != fh, half_closed_under_claim);
        if                                 /* swap_buffer may have closed it meanwhile */
        :: asked == fh && !closed[fh] -> assert(n[fh] > 0); latch_locked(fh)
        :: else
        fi
    :: what == got_read && asked == fh && !PEND ->
        reading = 1;
        off = tail[asked];                 /* noted: tail may go back while the read runs */
        writers[asked]++
    :: what == got_read && (asked != fh || PEND || stop) -> what = no_ending
    :: else -> an_ending()
    fi;
    tok = reading;
    if
#ifdef BROKEN_no_signal_on_end
    :: what == at_end
#endif
#ifdef BROKEN_token_without_signal
    :: what == got_piece
#endif
    :: else -> wake_locked()
    fi;
    unlocked()
}

/* source.make, outside of the lock: good bytes into the place of the piece. */
inline source_make()
{
    assert(!sclosed);
    bad = 0;
    good = bound;
#ifdef SHORT
    select(good : 0 .. bound);
#endif
#ifdef MAKE_FAILS
    if
    :: skip
    :: bad = 1; select(good : 0 .. bound); happened(make_failed, key, false)
    fi;
#endif
    write(key, asked, off, good)
}

inline write(k, h, at, bytes)
{
    i = 0;
    do
    :: i < bytes ->
        assert(CELL(h, at + i) == 0);      /* nobody's byte is overwritten */
        CELL(h, at + i) = MADE(k, i);
        i++
    :: else -> break
    od
}

inline end_make()                                      /* ahead_swap_end_make */
{
    infl--;
    writers[asked]--;
    SLOT(key).got = good;
    SLOT(key).made = 1;
    if
#ifdef BROKEN_failed_make_ends_at_once
    :: bad -> record_locked(make_failed, key, pub, false)
#else
    :: bad -> record_locked(make_failed, key, key + 1, false)
#endif
    :: else
    fi;
    warm_locked(asked, good);
    key = 0; bound = 0;
    pass_locked();
    wake_locked();
    unlocked()
}

/* source.settle outside of the lock, and what follows it under the lock. */
inline settle_and_publish()                            /* settle_locked */
{
    assert(!sclosed && stl);
    bad = 0;
    good = NEXT.got;
#ifdef SETTLE_FAILS
    if
    :: skip
    :: bad = 1; select(good : 0 .. NEXT.got); happened(settle_failed, pub, good < NEXT.got)
    fi;
#endif
    move_down(good);
    stl = 0;
    if
#ifdef BROKEN_settle_loses_to_make
    :: bad -> record_locked(settle_failed, pub, pub + 1, false)
#else
    :: bad -> record_locked(settle_failed, pub, pub + 1, good < NEXT.got)
#endif
    :: else
    fi;
    NEXT.got = good;
    if
#ifdef BROKEN_no_second_test
    :: true
#else
    :: pub < pn
#endif
        -> publish_locked()
    :: else ->                             /* a cancel came: nothing is published behind it */
        witness(cancelled, cancel_beats_settler)
    fi;
#ifdef BROKEN_settler_does_not_loop
    settling = 0;
#else
    pass_locked();
#endif
    wake_locked();
    unlocked()
}

/* A whole read(): what it gave is claimed and made in one section. */
inline end_read()                                      /* ahead_swap_end_read */
{
    witness(IS_SPLIT && off > tail[asked], read_behind_the_tail);
    writers[asked]--;
    write(claims, asked, off, bound);
    if
    :: PEND || stop                        /* dropped: the half is emptied before it is used again */
    :: !PEND ->
        assert(asked == fh && !closed[fh]);
        SLOT(claims).got = bound;
        SLOT(claims).made = 1;
        enter(asked, off, bound);
        warm_locked(asked, bound)
    fi;
    bound = 0
}

inline settle_all()
{
    do
    :: settling -> atomic { settle_and_publish() }
    :: else -> break
    od
}

#ifdef SPLIT
inline one_piece()
{
    atomic { source_claim(); end_claim() };
    if
    :: what == got_piece ->
        atomic { source_make(); end_make() }
#ifdef WHOLE
    :: what == got_read ->
        atomic {                           /* source.read, outside of the lock, and end_read */
            assert(!sclosed && tok);
            select(bound : 1 .. (CAP - off < PIECE -> CAP - off : PIECE));
            end_read();
            tok = 0; reading = 0;
            pass_locked();
            wake_locked();
            unlocked()
        }
#endif
    :: else
    fi;
    settle_all();
    what = no_ending; off = 0; asked = 0
}
#else
/* Unsplit: what was read is published and the token released in the same section. */
inline one_piece()
{
    atomic {
        source_claim();
        if
        :: what == got_piece ->
            end_read();
            if
            :: OUTSTANDING > 0 -> move_down(NEXT.got); publish_locked()
            :: else
            fi
        :: else -> writers[asked]--; an_ending()
        fi;
        tok = 0;
        if
#ifdef BROKEN_no_signal_on_end
        :: what == at_end
#endif
        :: else -> wake_locked()
        fi;
        unlocked();
        what = no_ending; off = 0; asked = 0
    }
}
#endif

/* ---- The threads ---- */

/* The one who finishes the stream. */
inline close_source()
{
    assert(!sclosed && !tok && infl == 0 && !stl);
    drop_rest();
    sclosed = 1;
    freed = 1
}

#if FILLS > 1
#define OTHERS alive[1 - me]
#else
#define OTHERS false
#endif

inline leave()                                         /* ahead_swap_leave */
{
    alive[me] = 0;
    if
    :: OTHERS -> wake_locked(); unlocked()
    :: else ->
#ifdef BROKEN_leaves_unnoticed
        thr = (stop -> exited : thr);
#else
        thr = exited;
#endif
        wake_locked();
        unlocked();
        if
        :: orphan -> icalls == 0; witness(true, last_fill_closes); close_source()
        :: else
        fi
    fi
}

#ifdef POOL
/* A job: runs while it can claim, then ends; wake_locked() queues it again. */
proctype fill(byte me)
{
    byte key, bound, off; bit asked, settling, starts, is_reader;
    mtype what = no_ending;

end_idle:
    atomic { thr == queued && !busy -> thr = running };
    do
    :: atomic { FCLAIM -> begin_fill(); unlocked() };
        one_piece()
    :: atomic { !FCLAIM -> thr = none; wake_locked(); unlocked(); goto end_idle }
    od
}
#else
proctype fill(byte me)                                 /* fill_main, in fill.c */
{
    byte key, bound, off; bit asked, settling, starts, is_reader;
    mtype what = no_ending;

end_none:
    alive[me];
more:
    if
    :: atomic { stop || PEND -> leave(); goto end_none }
    :: atomic { !stop && FCLAIM -> begin_fill(); unlocked() };
        one_piece()
    :: atomic { !stop && !PEND && !FCLAIM ->
            witness(!tok && !hold && warm && !closed[fh], fill_waits_for_a_full_ring);
#ifdef BROKEN_fill_flag_untested
        };
        atomic { fwait[me] = 1
#else
            fwait[me] = 1;
            unlocked()
#endif
        };
        if
        :: !fwait[me]
#ifdef SPURIOUS
        :: atomic { fwait[me] -> fwait[me] = 0 }
#endif
        fi
    fi;
    goto more
}
#endif

inline start_thread()                                  /* ahead_swap_start */
{
    starts = 0;
    witness(thr == exited, thread_restarted);
#ifndef POOL
    if
    :: thr = running; alive[0] = 1; alive[FILLS - 1] = 1
#ifdef NO_THREAD
    :: thr = no_start
#endif
    fi
#endif
}

inline fall_asleep(where, patient)                     /* ahead_swap_reader_wait */
{
    witness(where == before_swap, swap_waits_for_a_read);
    witness(where == in_swap, swap_waits_for_makes);
    witness(where == in_seek && stl, seek_waits_for_settler);
    witness(where == in_seek && infl > 0, seek_waits_for_make);
    witness(where == in_close && thr != running, close_waits_for_hook);
    rwait = where;
    timed = patient;
    unlocked()
}

inline wake_up()
{
    if
    :: atomic { rwait == up -> timed = 0 }
#if defined(FLOOR) && !defined(BROKEN_floor_without_patience)
    :: atomic { timed ->
            witness(READY, patience_runs_out);
            rwait = up; timed = 0; late = 1
        }
#endif
#if defined(SPURIOUS) || defined(TIMEOUT)
    :: atomic { rwait == in_read -> rwait = up; timed = 0 }
#endif
#ifdef SPURIOUS
    :: atomic { rwait != up && rwait != in_read -> rwait = up }
#endif
#ifdef CLOSE_TIMEOUT
    :: atomic { rwait == in_close && thr == running -> rwait = up; late = 1 }
#endif
    fi
}

inline use_up()                            /* the reader's own bytes, no lock */
{
    do
    :: cur < lim ->
        assert(CELL(ah, cur) == SEEN(consumed));
        CELL(ah, cur) = 0;
        cur++; consumed++
    :: else -> break
    od
}

inline next_half()
{
    ah = 1 - ah; cur = 0; lim = 0
}

inline give_back()                                     /* ahead_swap_give_back */
{
    i = 0;
    do
    :: i < CAP -> assert(CELL(ah, i) == 0); i++        /* every byte was used up */
    :: else -> break
    od;
    empty_locked(ah);
    next_half()
}

inline end_seek()                                      /* ahead_swap_end_seek */
{
    witness(OUTSTANDING > 0, seek_drops_made);
    drop_rest();
    empty_locked(0); forget(0);
    empty_locked(1); forget(1);
    fh = ah; first = ah;
    cur = 0; lim = 0;
    pub = claims; base = claims;
    pubpos = 16 * seeks; consumed = pubpos;
    pend = no_ending; pkey = 0; pn = 255; ended = 0;
    true_end = no_ending; true_key = 255;
#ifdef EAGER
    warm = 1;
#else
    warm = 0;
#endif
}

inline interrupt_source()                  /* source.interrupt, without the lock, and back */
{
    assert(!sclosed);
#ifdef BROKEN_interrupt_not_latched
    intr = asleep;
#else
    intr = 1;
#endif
    icalls--;
    wake_locked();
    unlocked()
}

proctype reader()
{
    byte key, bound, off; bit asked, settling, starts, is_reader = 1, late;
    mtype what = no_ending;

#ifdef EAGER
    atomic { warm = 1; start_thread() };
#endif
next:
    if
    :: atomic { cur < lim -> use_up() }; goto next

    /* ahead_swap_reader_wait: what to do with nothing at hand, in this order */
    :: atomic { cur == lim && !ended && READY ->
            lim = pe[ah]; late = 0;
#ifdef BROKEN_give_back_early
            if :: closed[ah] && unpub[ah] == 0 -> empty_locked(ah); wake_locked() :: else fi;
#endif
            unlocked()
        }; goto next
    :: atomic { cur == lim && !ended && !READY && ATEND ->
            ended = 1;
            assert(pend == by_cancel -> cancelled :
                   pend == true_end && pkey == true_key &&
                   pub == true_key + (true_end == make_failed || true_end == settle_failed));
            unlocked()
        }; goto next
    :: atomic { cur == lim && !ended && !READY && !ATEND && USED ->
            give_back();
#ifndef BROKEN_give_back_without_signal
            wake_locked();
#endif
            unlocked()
        }; goto next
#ifdef HURRY
    :: atomic { cur == lim && !ended && !READY && !ATEND && !USED && SETTLE -> stl = 1; settling = 1; unlocked() };
        settle_all();
        goto next
#endif
    :: atomic { cur == lim && !ended && !READY && !ATEND && !USED && !LEFT && RCLAIM -> begin_fill(); unlocked() };
        one_piece();
        if
        :: starts -> atomic { start_thread() }
        :: else
        fi;
        goto next
    :: atomic { cur == lim && !ended && !READY && !ATEND && !USED && !LEFT && !RCLAIM ->
#ifdef TIMEOUT
            if
            :: !warm -> warm = 1; if :: thr == none || thr == exited -> start_thread() :: else fi; wake_locked(); unlocked(); goto next
            :: else
            fi;
#endif
#ifdef BROKEN_reader_flag_untested
            skip
        };
        atomic {                           /* as fall_asleep(), without the test */
            rwait = in_read
#else
#ifdef FLOOR
            fall_asleep(in_read, !late)
#else
            fall_asleep(in_read, false)
#endif
#endif
        };
        wake_up();
        goto next

#if SEEKS > 0
    :: seeks < SEEKS && !cancelled -> goto seek
#endif
#if SWAPS > 0
    :: cur < lim && swaps < SWAPS -> goto swap
#endif
#ifndef EARLY_CLOSE
    :: ended -> goto close
#else
    :: goto close
#endif
    fi;

#if SEEKS > 0
seek:                                                  /* ahead_swap_begin_seek */
    seeks++;
seek_again:
    hold = 1;
    if
    :: atomic { cancelled -> hold = 0; wake_locked(); unlocked(); goto next }
    :: atomic { !cancelled && SPRED -> tok = 1; unlocked() }
    :: atomic { !cancelled && !SPRED -> fall_asleep(in_seek, false) };
        wake_up();
        goto seek_again
    fi;
    atomic {                               /* source.seek, without the lock */
        assert(!sclosed && tok);
        if
        :: skip ->                         /* refused */
            witness(OUTSTANDING > 0 || READY, refused_seek_loses_nothing)
#ifdef BROKEN_seek_forgets_cancel
        :: end_seek()
#else
        :: !cancelled -> end_seek()
#endif
        fi;
        tok = 0; hold = 0;
        wake_locked();
        unlocked();
        goto next
    };
#endif
#if SWAPS > 0
swap:                                                  /* ahead_swap_take */
    swaps++;
swap_again:
    if
    :: atomic { SWAP_MAY ->
            if
            :: !closed[ah] -> latch_locked(ah)
            :: else
            fi;
            wake_locked();
            unlocked()
        }
    :: atomic { !SWAP_MAY -> fall_asleep(before_swap, false) };
        wake_up();
        goto swap_again
    fi;
leave_again:
    if
    :: atomic { LEAVES ->
            witness(unpub[ah] > 0, swap_at_an_ending);
            lim = pe[ah];
            use_up();
            forget(ah);
            empty_locked(ah);
            next_half();
            wake_locked();
            unlocked();
            goto next
        }
    :: atomic { !LEAVES && LEFT -> stl = 1; settling = 1; unlocked() };
        settle_all()
    :: atomic { !LEAVES && !LEFT -> fall_asleep(in_swap, false) };
        wake_up()
    fi;
    goto leave_again;
#endif

close:                                                 /* ahead_swap_stop */
    atomic {
        stop = 1;
#ifdef POOL
        thr = (thr == queued -> none : thr);
#endif
#ifndef BROKEN_close_leaves_fills_asleep
        wake_locked();
#endif
        if
        :: hook -> unlocked()
        :: else -> hook = 1; icalls++; unlocked(); goto interrupt
        fi
    };
    goto wait;
interrupt:
    atomic { interrupt_source(); goto wait };
wait:
    late = 0;
wait_again:
    if
    :: atomic { GONE -> close_source(); returned = 1 }
    :: atomic { !GONE && late && thr == running -> orphan = 1; returned = 1; unlocked() }
    :: atomic { !GONE && !(late && thr == running) -> fall_asleep(in_close, false) };
        wake_up();
        goto wait_again
    fi
}

#ifdef CANCEL
inline cancel_locked()                                 /* ahead_swap_cancel */
{
    cancelled = 1;
    if
    :: !ended -> pend = by_cancel; pkey = pub; pn = pub
    :: else
    fi;
    calls = !hook;
    icalls = icalls + calls;
    hook = 1;
#ifndef BROKEN_cancel_without_signal
    wake_locked();
#endif
    unlocked()
}

proctype canceller()
{
    bit calls;

end_never:
    if
#ifndef SILENT
    :: goto done                           /* never comes: who waits for it is stuck, and pan says so */
#endif
    :: atomic { !returned -> cancel_locked() };
        if
        :: calls -> atomic { interrupt_source() }
        :: else
        fi
    fi;
done: skip
}
#endif

init
{
    atomic {
#ifdef POOL
        if
        :: busy = 1
        :: skip
        fi;
#endif
        run fill(0);
#if FILLS > 1
        run fill(1);
#endif
#ifdef CANCEL
        run canceller();
#endif
        run reader()
    }
}

#ifdef LIVE
ltl ends { <> sclosed }
#endif
