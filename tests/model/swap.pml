/* SPDX-License-Identifier: Apache-2.0
 *
 * swap.pml - how reader and fills hand pieces over, as lib/stream/swap.c does it.
 *
 * state.pml has what they share and the predicates, piece.pml the way of one piece, this file the
 * threads.  An atomic block is one critical section, or one call of the source together with the
 * critical section behind it; each inline has the name of the C function that it stands for, or
 * has it beside it (less "ahead_swap_").  `check` runs all of it; README.md says what is modelled,
 * what is not, and how to read a trail.
 *
 * A configuration is a list of -D:
 *   SPLIT      the source can be split: claim, make, settle.  Else it has read() alone
 *   N          claims between open, or a seek, and the latest end of the source
 *   CAP PIECE  bytes of a half; the largest bound of a piece
 *   RING       pieces that may be claimed and not published, over both halves
 *   FILLS      fill threads (two: as a helper of a pool would be)
 *   ZERO SHORT a bound may be 0; a make may give fewer bytes than its bound, 0 too
 *   MAKE_FAILS SETTLE_FAILS  with any number of good bytes in front
 *   SERIAL     a claim may answer that a read() is to follow (the end of a file, a huge block)
 *   COUPLED    claiming blocks until all that came before has been used up by the reader
 *   SILENT     the source may fall silent for good: only source.interrupt ends that claim
 *   CANCEL EARLY_CLOSE SEEKS SWAPS  what is called, besides read
 *   CLOSE_TIMEOUT  close may run out of time and leave the rest to the last fill
 *   EAGER TIMEOUT  AHEAD_EAGER; read_timeout_ms over a source that may block
 *   NO_THREAD  the thread may not start
 *   POOL       fills are threads of a pool, which may never come
 *   SINGLE     the pool may have no memory for a second half
 *   FLOOR      the signal of a publication may be held back; the reader's first sleep is timed
 *   PACE       the reader goes on alone, or comes to be alone again, when it seems to be faster
 *   NAP        a fill without work naps before it sleeps
 *   SPURIOUS   sleepers wake without a signal
 *   WITNESS    says which situations were reached
 *   LIVE       adds the liveness property
 *   BROKEN_x   one rule left out: the check must fail */

/* Says once that a situation was reached, so that nothing is proved of an empty set. */
#ifdef WITNESS
#define witness(seen, name) \
    if \
    :: (seen) -> c_code { static int said; if (!said++) printf("reached: " #name "\n"); } \
    :: else \
    fi
#else
#define witness(seen, name) skip
#endif

#include "state.pml"
#include "piece.pml"

/* ---- The second thread: fill_main, in fill.c ---- */

/* The one who finishes the stream. */
inline destroy()                                       /* ahead_core_destroy */
{
    assert(!src_closed && !token && makes[0] + makes[1] == 0 && !settling);
    drop_rest();
    src_closed = 1;
    freed = 1
}

#if FILLS > 1
#define OTHERS alive[1 - me]
#else
#define OTHERS false
#endif

inline leave()                                         /* begin_fill, its end */
{
    alive[me] = 0;
    if
    :: OTHERS -> wake_locked()
    :: !OTHERS && !orphan ->
#ifdef BROKEN_leaves_unnoticed
        fill_state = (stop -> fill_left : fill_state);
#else
        fill_state = fill_left;
#endif
        wake_locked()
    :: !OTHERS && orphan ->
        hooks == 0;
        witness(true, last_fill_destroys);
        fill_state = fill_left;
        destroy()
    fi
}

#ifdef POOL
inline leave_pool()                                    /* is_orphan_locked, and what follows */
{
    if
    :: orphan && fills == 0 && !queued ->
        hooks == 0;
        witness(true, last_fill_destroys);
        destroy()
    :: else
    fi
}

/* A thread of a pool: fills while it can claim, or has its turn; wake_locked() queues the stream
 * again.  Several may fill one stream. */
proctype fill(byte me)                                 /* ahead_fill_run */
{
    byte key, bound, off; bit asked, settles, again, is_reader;
    mtype what = no_ending;

end_idle:
    atomic { queued && !picked && !busy -> picked = 1 };
    atomic {                                           /* ahead_swap_begin_pool_fill */
        queued = 0; picked = 0;
        if
        :: FCLAIM -> begin_claim_locked(); wake_locked(); fills++
        :: else -> wake_locked(); leave_pool(); goto end_idle
        fi
    };
more:
    one_piece();
    if
    :: again -> again = 0; goto more
    :: atomic { !again ->                              /* ahead_swap_end_pool_fill */
            fills--;
            if
            :: orphan -> skip
            :: else -> wake_locked()
            fi;
            leave_pool();
            goto end_idle
        }
    fi
}
#else
proctype fill(byte me)
{
    byte key, bound, off; bit asked, settles, again, is_reader;
    mtype what = no_ending;

end_none:
    alive[me];
#ifndef SPLIT
    atomic {                                           /* warm_up, then ahead_swap_end_warm_up */
        if
        :: warm -> end_solo_locked()
        :: else
        fi
    };
#endif
more:
    if
    :: again -> again = 0; one_piece()
    :: atomic { !again && (stop || PEND) -> leave(); goto end_none }
    :: atomic { !again && !stop && FCLAIM -> begin_claim_locked(); wake_locked() }; /* begin_fill */
        one_piece()
    :: atomic { !again && !FWORK ->                    /* fill_rest_locked */
            witness(OUTSTANDING == RING && !token && !closed[filling], fill_waits_for_a_full_ring);
#ifdef BROKEN_fill_flag_untested
        };
        atomic {
#endif
            rest[me] = 1;
#ifdef NAP
            if
            :: nap[me] = 1
            :: skip
            fi
#endif
        };
        if
        :: !rest[me]
#ifdef NAP
        :: atomic { nap[me] -> rest[me] = 0; nap[me] = 0 }
#endif
#ifdef SPURIOUS
        :: atomic { rest[me] -> rest[me] = 0; nap[me] = 0 }
#endif
        fi
    fi;
    goto more
}
#endif

/* ---- The reader ---- */

inline start()                                         /* ahead_fill_start */
{
    witness(fill_state == fill_left, thread_restarted);
    warm = 1;
    if
    :: fill_state == fill_none || fill_state == fill_left ->
        if
        :: fill_state = fill_running;
#ifdef POOL
            end_solo_locked()
#else
            alive[0] = 1; alive[FILLS - 1] = 1;
            if
            :: split || delegate -> end_solo_locked()
            :: else                                    /* the fill does, when it is there */
            fi
#endif
#ifdef NO_THREAD
        :: fill_state = fill_never; solo = 1
#endif
        fi
    :: else -> end_solo_locked()
    fi;
    wake_locked()
}

/* ahead_swap_wants_thread: what is left, or the reader has to do, may be too little.  */
inline start_or_not()
{
    if
#ifdef PACE
    :: !delegate -> cold_offset = position
#endif
    :: true -> start()                                 /* an else in front would be that of this if, too */
    fi
}

inline keep_pace_locked()
{
#ifdef PACE
    if
    :: PACED -> end_solo_locked()
    :: PACED -> solo = 1
    :: true
    fi
#else
    skip
#endif
}

/* Test, wish and sleep are one section; the test is the guard of the caller. */
inline fall_asleep(w)                                  /* reader_sleep_locked */
{
    witness(w == whole, swap_waits_for_makes);
    witness(w == quiet && settling, seek_waits_for_settler);
    witness(w == quiet && makes[0] + makes[1] > 0, seek_waits_for_make);
    witness(w == left && !INSIDE, close_waits_for_hook);
#ifndef BROKEN_nap_goes_on
    if
    :: rest[0] && nap[0] && FCLAIM -> rest[0] = 0; nap[0] = 0
    :: else
    fi;
#endif
    wish = w
}

/* late: its patience, or its time, is over. */
inline wake_up()
{
    if
    :: wish == no_wish
#if defined(FLOOR) && !defined(BROKEN_floor_without_patience)
    :: atomic { wish == bytes && !hungry ->
            witness(READY, patience_runs_out);
            wish = no_wish; late = 1
        }
#endif
#ifdef TIMEOUT
    :: atomic { wish == bytes || wish == quiet || wish == whole -> wish = no_wish; late = 1 }
#endif
#ifdef CLOSE_TIMEOUT
    :: atomic { wish == left && INSIDE -> wish = no_wish; late = 1 }
#endif
#ifdef SPURIOUS
    :: atomic { wish != no_wish -> wish = no_wish }
#endif
    fi
}

inline use_window()                                    /* no lock */
{
    do
    :: cur < taken ->
        assert(CELL(active_half, cur) == SEEN(consumed));
        CELL(active_half, cur) = 0;
        cur++
    :: else -> break
    od
}

inline take()                                          /* ahead_swap_take */
{
    taken_offset = taken_offset + (ready[active_half] - taken);
    taken = ready[active_half]
}

inline give_back()                                     /* ahead_swap_give_back */
{
    i = 0;
    do
    :: i < CAP -> assert(CELL(active_half, i) == 0); i++    /* every byte was used */
    :: else -> break
    od;
    leave_half_locked();
    keep_pace_locked()
}

inline record_cancel_locked()
{
    pend = by_cancel; pend_claim = 0; pend_published = published
}

inline end_seek_moved()                                /* ahead_swap_end_seek_moved */
{
    witness(OUTSTANDING > 0, seek_drops_made);
    drop_rest();
    empty_half_locked(0); forget_bytes(0);
    empty_half_locked(1); forget_bytes(1);
    filling = active_half;
    taken = 0; cur = 0;
    moves++;
    position = 16 * moves; taken_offset = position; cold_offset = position;
    serial = 0; in_order = 0;
    warm = 0; solo = 1;
    pend = no_ending; pend_claim = 0; pend_published = 255; ended = 0;
    base = claims; true_end = no_ending; true_claim = 255;
    if
#ifndef BROKEN_seek_forgets_cancel
    :: cancelled -> record_cancel_locked()
#endif
    :: else
    fi
}

inline interrupt()                         /* hook_locked: outside of the lock, and back */
{
    assert(!src_closed);
#ifdef BROKEN_interrupt_not_latched
    intr = stuck;
#else
    intr = 1;
#endif
    hooks--;
    wake_locked()
}

/* Out of time: a fill that is left will clean up. */
#ifdef BROKEN_close_leaves_to_nobody
#define GIVE_UP late
#else
#define GIVE_UP (late && INSIDE)
#endif

#define ASKS (cur == taken && !ended)

proctype reader()
{
    byte key, bound, off; bit asked, settles, again, late, starts, is_reader = 1;
    mtype what = no_ending;

#ifdef EAGER
    atomic { start() };
#endif
next:
    if
    :: atomic { cur < taken -> use_window() }

    /* ahead_swap_next: what to do with nothing at hand, in this order */
    :: atomic { ASKS && START -> start_or_not() }
    :: atomic { ASKS && !START && READY ->
            take();
            late = 0; hungry = 0;
#ifdef BROKEN_give_back_early
            if
            :: closed[active_half] && pending[active_half] == 0 -> empty_half_locked(active_half)
            :: else
            fi;
#endif
            wake_locked()
        }
    :: atomic { ASKS && !START && !READY && ATEND ->
            ended = 1;
            assert(pend == by_cancel -> cancelled :
                   pend == true_end && pend_claim == true_claim &&
                   published == true_claim + (true_end == make_failed || true_end == settle_failed))
        }
    :: atomic { ASKS && !START && !READY && !ATEND && USED ->
            give_back();
#ifndef BROKEN_give_back_without_signal
            wake_locked()
#endif
        }
    :: atomic { ASKS && !START && !READY && !ATEND && !USED && RCLAIM -> begin_claim_locked() };
        one_piece()
    :: atomic { ASKS && !START && !READY && !ATEND && !USED && !RCLAIM ->
            hungry = late;
#ifdef BROKEN_reader_flag_untested
        };
        atomic {
#endif
            fall_asleep(bytes)
        };
        wake_up()

#if SEEKS > 0
    :: seeks < SEEKS && !cancelled -> goto seek
#endif
#if SWAPS > 0
    :: cur < taken && swaps < SWAPS -> goto swap
#endif
#ifdef EARLY_CLOSE
    :: goto close
#else
    :: ended -> goto close
#endif
    fi;
    goto next;

#if SEEKS > 0
seek:
    seeks++; late = 0;
    hold = 1;                                          /* ahead_swap_begin_seek */
seek_again:
    if
    :: atomic { cancelled || (!QUIET && late) -> hold = 0; late = 0; wake_locked(); goto next }
    :: atomic { !cancelled && QUIET -> token = 1; reading = 0; late = 0; wake_locked() }
    :: atomic { !cancelled && !QUIET && !late -> fall_asleep(quiet) };
        wake_up();
        goto seek_again
    fi;
    atomic {                                           /* source.seek, then */
        assert(!src_closed && token);
        if
        :: true ->                         /* refused: ahead_swap_end_seek */
            witness(OUTSTANDING > 0 || READY, refused_seek_loses_nothing)
        :: true -> end_seek_moved()
        fi;
        token = 0; hold = 0;
        wake_locked();
#ifdef EAGER
        starts = !warm                     /* it has moved */
#else
        goto next
#endif
    };
#ifdef EAGER
    if
    :: starts -> atomic { starts = 0; start() }
    :: else
    fi;
    goto next;
#endif
#endif

#if SWAPS > 0
swap:                                                  /* ahead_swap_replace */
    atomic {
        swaps++; late = 0;
        if
#ifndef BROKEN_swap_during_read
        :: BEING_READ || BEING_ASKED -> witness(reading, swap_refused_beside_a_read); goto next
        :: !BEING_READ && !BEING_ASKED && !closed[active_half] -> close_filling_locked()
#else
        :: !closed[active_half] -> close_filling_locked()
#endif
        :: else
        fi
    };
swap_again:
    if
    :: atomic { WHOLE_HALF ->
            witness(pending[active_half] > 0, swap_at_an_ending);
            take();
            use_window();
            forget_bytes(active_half);
            given[active_half] = 1;
            leave_half_locked();
            late = 0;
            wake_locked();
            goto next
        }
    :: atomic { !WHOLE_HALF && late -> late = 0; wake_locked(); goto next }
    :: atomic { !WHOLE_HALF && !late -> fall_asleep(whole) };
        wake_up();
        goto swap_again
    fi;
#endif

close:                                                 /* ahead_swap_stop */
    atomic {
        stop = 1; late = 0;
#ifdef POOL
        queued = (picked -> queued : 0);               /* ahead_pool_withdraw */
#endif
#ifndef BROKEN_close_leaves_fills_asleep
        wake_locked();
#endif
        if
        :: hooked || !INSIDE -> goto wait
        :: else -> hooked = 1; hooks++
        fi
    };
    atomic { interrupt() };
wait:
    if
    :: atomic { LEFT -> destroy(); returned = 1 }
    :: atomic { !LEFT && GIVE_UP -> orphan = 1; returned = 1 }
    :: atomic { !LEFT && !GIVE_UP -> fall_asleep(left) };
        wake_up();
        goto wait
    fi
}

/* ---- Any thread ---- */

#ifdef CANCEL
inline cancel()                                        /* ahead_swap_cancel */
{
    if
    :: !ended -> record_cancel_locked()
    :: else
    fi;
    cancelled = 1;
    calls = !hooked;
    hooks = hooks + calls;
    hooked = 1;
#ifndef BROKEN_cancel_without_signal
    wake_locked()
#endif
}

proctype canceller()
{
    bit calls;

end_never:
    if
#ifndef SILENT
    :: goto done                           /* never comes; who needs it is stuck, and pan says so */
#endif
    :: atomic { !returned -> cancel() };
        if
        :: calls -> atomic { interrupt() }
        :: else
        fi
    fi;
done: skip
}
#endif

/* ---- What holds whenever nobody has the lock ---- */

#define ASLEEP(f) (rest[f] && !nap[f])
#define ALL_ASLEEP (ASLEEP(0) && (FILLS == 1 || ASLEEP(FILLS - 1) || !alive[FILLS - 1]))

proctype monitor()
{
end_well:
    if
    :: wish != no_wish && GRANTED && !(wish == bytes && READY && MAY_DELAY) ->
        assert(false)                      /* the reader sleeps and could go on */
    :: ALL_ASLEEP && FWORK ->
        assert(false)                      /* fills sleep, and there is work for one */
    :: nap[0] && (stop || PEND || (FCLAIM && wish == bytes)) ->
        assert(false)                      /* the reader sleeps, and the fill naps */
    :: SETTLE ->
        assert(false)                      /* a made piece that nobody settles */
#ifdef POOL
    :: fill_state == fill_running && FCLAIM && !queued ->
        assert(false)                      /* work, and the pool does not know */
#else
    :: !HELPS && fill_state == fill_running && RCLAIM && FCLAIM ->
        assert(false)                      /* both may read an unsplit source */
#endif
    :: ready[0] > tail[0] || tail[0] > CAP || ready[1] > tail[1] || tail[1] > CAP ->
        assert(false)
    :: !freed && (OUTSTANDING > RING || pending[0] + pending[1] > OUTSTANDING) ->
        assert(false)
    fi
}

init
{
    atomic {
#ifndef SINGLE
        has_memory[0] = 1; has_memory[1] = 1;
#endif
#ifdef POOL
        if
        :: busy = 1
        :: skip
        fi;
#endif
        run monitor();
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
ltl ends { <> src_closed }
#endif
