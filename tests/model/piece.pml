/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.pml - the way of a piece: claimed, made, settled, published.
 *
 * Locals of whoever makes it: key, bound, off, asked (the half that was asked for), what, settles,
 * again (it has the token once more), is_reader. */

hidden byte i, good, bad;

/* ---- Waking ---- */

inline wake_locked()
{
    if
#ifdef BROKEN_ending_not_awaited
    :: GRANTED && !(wish == bytes && ATEND && !READY) -> wish = no_wish
#else
    :: GRANTED -> wish = no_wish
#endif
    :: GRANTED && wish == bytes && READY && MAY_DELAY -> witness(true, signal_held_back)
    :: else
    fi;
    if
    :: rest[0] && (stop || PEND || (!nap[0] && FCLAIM)) -> rest[0] = 0; nap[0] = 0
#if FILLS > 1
    :: rest[1] && (stop || PEND || (!nap[1] && FCLAIM)) -> rest[1] = 0; nap[1] = 0
#endif
    :: else
    fi;
#ifdef POOL
    if
    :: !queued && fill_state == fill_running && FCLAIM -> queued = 1
    :: else
    fi;
#endif
    assert(!freed)
}

/* ---- Halves ---- */

inline empty_half_locked(h)
{
    assert(writers[h] == 0);               /* no memory of a running make changes hands */
    claimed[h] = 0; pending[h] = 0; tail[h] = 0; ready[h] = 0; closed[h] = 0
}

inline forget_bytes(h)
{
    i = 0;
    do
    :: i < CAP -> CELL(h, i) = 0; i++
    :: else -> break
    od
}

inline close_filling_locked()
{
    closed[filling] = 1;
    if
    :: !STAYS -> filling = !filling
    :: else
    fi
}

inline end_solo_locked()
{
#ifndef BROKEN_solo_half
    if
    :: solo && !single && STAYS && closed[filling] ->
        witness(true, alone_no_more_in_a_closed_half);
        filling = !filling
    :: else
    fi;
#endif
    solo = 0
}

inline end_order_locked()
{
    if
    :: in_order && warm -> witness(solo, alone_no_more_for_pieces); end_solo_locked()
    :: else
    fi;
    in_order = 0
}

inline leave_half_locked()
{
    empty_half_locked(active_half);
    if
    :: !STAYS -> active_half = !active_half
    :: else
    fi;
    taken = 0; cur = 0
}

/* ---- Endings ---- */

inline record_locked(e, claim, after, tighter)
{
    if
    :: cancelled || ended
#if defined(BROKEN_first_ending_wins)
    :: !(cancelled || ended) && !PEND ->
#elif defined(BROKEN_last_ending_wins)
    :: !(cancelled || ended) ->
#else
    :: !(cancelled || ended) && (!PEND || claim < pend_claim || (claim == pend_claim && tighter)) ->
#endif
        witness(PEND && claim < pend_claim, earlier_claim_fails_later);
        witness(PEND && claim == pend_claim, settle_cuts_its_make);
        pend = e; pend_claim = claim; pend_published = after
    :: else
    fi
}

/* What happened in truth, kept apart from what the protocol makes of it. */
inline happened(e, claim, tighter)
{
    if
    :: claim < true_claim || (claim == true_claim && tighter) -> true_end = e; true_claim = claim
    :: else
    fi
}

/* ---- The ring ---- */

inline clear_slot(s)
{
    ring[s].key = 0; ring[s].off = 0; ring[s].good_len = 0;
    ring[s].half = 0; ring[s].used = 0; ring[s].made = 0
}

inline add_piece_locked(h, at, room)
{
    assert(!SLOT(claims).used);
    SLOT(claims).key = claims;
    SLOT(claims).half = h;
    SLOT(claims).off = at;
    SLOT(claims).used = 1;
    claims++;
    tail[h] = tail[h] + room;
#ifdef BROKEN_empty_piece_not_counted
    claimed[h] = claimed[h] + (room > 0);
    pending[h] = pending[h] + (room > 0);
#else
    claimed[h]++;
    pending[h]++;
#endif
    if
    :: tail[h] == CAP -> close_filling_locked()
    :: else
    fi
}

inline publish_locked()
{
    assert(NEXT.key == published && NEXT.used && NEXT.made);
    i = NEXT.half;
    position = position + NEXT.good_len;
    ready[i] = ready[i] + NEXT.good_len;
#ifdef BROKEN_empty_piece_not_counted
    pending[i] = (pending[i] > 0 -> pending[i] - 1 : 0);
#else
    pending[i]--;
#endif
    clear_slot(published % RING);
    published++;
    witness(!closed[i] && pending[i] == 0 && tail[i] > ready[i], tail_goes_back);
    witness(claimed[i] > RING, more_pieces_in_a_half_than_in_the_ring);
    if
#if defined(BROKEN_tail_back_early)
    :: !closed[i] -> tail[i] = ready[i]
#elif defined(BROKEN_closed_computed_anew)
    :: pending[i] == 0 -> tail[i] = ready[i]; closed[i] = (tail[i] == CAP)
#else
    :: !closed[i] && pending[i] == 0 -> tail[i] = ready[i]
#endif
    :: else
    fi
}

/* Each piece ends in exactly one of settle and drop: what was made and will not be settled is
 * dropped when the source has moved, or is to be closed. */
inline drop_rest()                                     /* ahead_swap_drop */
{
    i = 0;
    do
    :: i < RING -> assert(!ring[i].used || ring[i].made); clear_slot(i); i++
    :: else -> break
    od;
    published = claims
}

/* ---- The token ---- */

inline begin_claim_locked()
{
    witness(is_reader && split && FILL_WORKS && OUTSTANDING > 0, reader_helps);
    witness(is_reader && !split && fill_state == fill_running && !warm, reader_claims_while_cold);
    witness(is_reader && queued && fills == 0, fill_stolen);
    witness(is_reader && PACED && solo, reader_alone);
    token = 1;
    token_half = filling;
    reading = (!split || serial);
    asked = filling;
    given[asked] = 0;
    off = tail[filling];
    assert(off < CAP);
    writers[asked] = writers[asked] + reading
}

/* The end of a maker's section.  A fill takes the next claim before it wakes anybody: else the
 * reader would be woken for a token that is gone when it comes. */
inline end_section_locked()
{
    if
    :: !is_reader && !settles && FCLAIM -> begin_claim_locked(); again = 1
#ifdef POOL
    :: !is_reader && !settles && FCLAIM                /* it has had its turn: others wait */
#endif
    :: else
    fi;
    wake_locked()
}

/* ---- What the source does, outside of the lock ---- */

inline blocks_until_interrupted()
{
    stuck = 1; intr; stuck = 0; what = interrupted
}

/* source.claim, or source.read: what comes next, up to the space behind `off`. */
inline ask_source()
{
    assert(!src_closed && token);
#ifdef COUPLED
    (intr || (OUTSTANDING == 0 && consumed == position));
#endif
    if
    :: intr -> what = interrupted
#ifdef SILENT
    :: !intr -> blocks_until_interrupted()
#endif
    :: claims - base < N -> what = piece; bound = 1
    :: claims - base < N && PIECE > 1 && CAP - off > 1 -> what = piece; bound = 2
#ifdef ZERO
    :: claims - base < N && !reading -> what = piece; bound = 0
#endif
#ifdef SPLIT
    :: claims - base < N && !reading && CAP - off < PIECE -> what = no_room
#endif
#ifdef SERIAL
    :: claims - base < N && !reading -> what = read_instead
#endif
    :: what = at_end
    :: what = claim_failed
    fi
}

inline write_bytes(k, n)
{
    i = 0;
    do
    :: i < n ->
        assert(CELL(asked, off + i) == 0); /* nobody's byte is overwritten */
        CELL(asked, off + i) = MADE(k, i);
        i++
    :: else -> break
    od
}

/* source.make: good bytes, also in front of a fault. */
inline make()
{
    assert(!src_closed);
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
    write_bytes(key, good)
}

/* source.settle, and the bytes of the piece go down to where those before it end. */
inline settle()
{
    assert(!src_closed && settling);
    assert(pending[NEXT.half] > 0);        /* the half is still the one that it was made for */
    bad = 0;
    good = NEXT.good_len;
#ifdef SETTLE_FAILS
    if
    :: skip
    :: bad = 1;
        select(good : 0 .. NEXT.good_len);
        happened(settle_failed, published, good < NEXT.good_len)
    fi;
#endif
    move_down(good)
}

inline move_down(keep)
{
    i = 0;
    do
    :: i < NEXT.good_len ->
        assert(CELL(NEXT.half, NEXT.off + i) == MADE(published, i));
        CELL(NEXT.half, NEXT.off + i) = 0;
        if
        :: i < keep ->
            assert(CELL(NEXT.half, ready[NEXT.half] + i) == 0);
            CELL(NEXT.half, ready[NEXT.half] + i) = SEEN(position + i)
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* ---- Back under the lock ---- */

inline end_claim_ending()                              /* ahead_swap_end_claim_ending */
{
    if
    :: what == interrupted -> assert(PEND || stop)     /* the reason is known already */
    :: else ->
        happened(what, claims, false);
        record_locked(what, claims, claims, false)
    fi
}

inline end_claim()                         /* ahead_swap_end_claim, and its kin for other answers */
{
    if
    :: what == piece && (PEND || stop) ->
        witness(PEND && !cancelled, dropped_unmade);
        what = to_drop; bound = 0; key = moves;
#ifdef BROKEN_drop_without_token
        token = 0
#endif
    :: what == piece && !PEND && !stop && asked != filling ->
        witness(true, half_closed_under_claim);
        asked = filling; token_half = filling; what = moved; /* comes again, with memory for it */
        has_memory[asked] = 1; given[asked] = 0
    :: what == piece && !PEND && !stop && asked == filling ->
        off = tail[asked];                 /* it may have gone back meanwhile */
        assert(!given[asked]);             /* the memory is what it was asked for */
        assert(off + bound <= CAP);
        key = claims;
        makes[asked]++; writers[asked]++;
        token = 0;
        end_order_locked();
        add_piece_locked(asked, off, bound)
    :: what == no_room ->
        token = 0;
        if                                 /* swap_buffer may have taken that half */
        :: !PEND && filling == asked -> close_filling_locked()
        :: else
        fi
    :: what == read_instead -> token = 0; serial = 1; in_order = 1
    :: else -> token = 0; end_claim_ending()
    fi;
    if
#ifdef BROKEN_no_signal_on_end
    :: what == at_end
#endif
#ifdef BROKEN_token_without_signal
    :: what == piece
#endif
    :: else -> wake_locked()
    fi
}

/* source.drop, then ahead_swap_abandon_claim: a seek comes only after it. */
inline drop_unmade()
{
    assert(!src_closed && key == moves);
#ifndef BROKEN_drop_without_token
    token = 0;
#endif
    key = 0; off = 0; asked = 0; what = no_ending;
    wake_locked()
}

inline end_make()                                      /* ahead_swap_end_make */
{
    makes[asked]--; writers[asked]--;
    SLOT(key).good_len = good;
    SLOT(key).made = 1;
    if
#ifdef BROKEN_failed_make_ends_at_once
    :: bad -> record_locked(make_failed, key, published, false)
#else
    :: bad -> record_locked(make_failed, key, key + 1, false)
#endif
    :: else
    fi;
    key = 0; bound = 0; off = 0; asked = 0; what = no_ending;
    pass_locked()
}

/* Whoever ends a make or a settle looks for the next to settle. */
inline pass_locked()
{
    if
#if defined(BROKEN_two_settlers)
    :: NEXT_MADE ->
#elif defined(BROKEN_seek_stops_settler)
    :: SETTLE && !hold ->
#else
    :: SETTLE ->
#endif
        witness(settles, settler_loops);
        settling = 1; settles = 1
    :: else -> settles = 0
    fi;
#ifdef BROKEN_settler_signals_last
    if :: settles :: else -> end_section_locked() fi
#else
    end_section_locked()
#endif
}

inline end_settle()                                    /* settle_locked, its second half */
{
    settling = 0;
    if
#ifdef BROKEN_settle_loses_to_make
    :: bad -> record_locked(settle_failed, published, published + 1, false)
#else
    :: bad -> record_locked(settle_failed, published, published + 1, good < NEXT.good_len)
#endif
    :: else
    fi;
    NEXT.good_len = good;
    if
#ifdef BROKEN_no_second_test
    :: true -> publish_locked()
#else
    :: published < pend_published -> publish_locked()
#endif
    :: else -> witness(cancelled, cancel_beats_settler)
    fi;
#ifdef BROKEN_settler_does_not_loop
    settles = 0; end_section_locked()
#else
    pass_locked()
#endif
}

/* A read() comes back, with all else published: claimed, made, published, token, in one section. */
inline end_read()                                      /* ahead_swap_end_read */
{
    writers[asked]--;
    write_bytes(claims, bound);
    token = 0; reading = 0; serial = 0;
    if
    :: !PEND && !stop ->
        assert(asked == filling && !closed[asked] && off == tail[asked]);
        SLOT(claims).good_len = bound;
        SLOT(claims).made = 1;
        add_piece_locked(asked, off, bound);
        move_down(bound);
        publish_locked()
    :: else                                /* lost; nobody looks before the half is emptied */
    fi;
    key = 0; bound = 0; off = 0; asked = 0; what = no_ending;
    end_section_locked()
}

inline end_read_ending()
{
    writers[asked]--;
    token = 0; reading = 0;
    end_claim_ending();
    if
#ifdef BROKEN_no_signal_on_end
    :: what == at_end
#endif
    :: else -> wake_locked()
    fi;
    off = 0; asked = 0; what = no_ending
}

/* prepare_half, in fill.c: memory at the first claim in a half.  A pool may have none for a second
 * one; later, at an empty half, it may have some again. */
inline prepare_half()
{
    if
    :: has_memory[asked] && single && claimed[asked] == 0 && !has_memory[!asked] ->
        single = 0                                     /* ahead_swap_end_single */
    :: !has_memory[asked] -> has_memory[asked] = 1
    :: !has_memory[asked] && has_memory[!asked] ->     /* ahead_swap_end_claim_single */
        witness(!has_memory[active_half], reader_waited_for_a_half_without_memory);
        writers[asked] = writers[asked] - reading;
        single = 1;
        active_half = (has_memory[active_half] -> active_half : !active_half);
        filling = active_half;
        token = 0; reading = 0; off = 0; asked = 0; what = no_memory;
        wake_locked()
    :: has_memory[asked]
    fi
}

inline one_piece()                                     /* ahead_fill_piece, in fill.c */
{
#ifdef SINGLE
    atomic { prepare_half() };
#endif
    if
    :: what == no_memory -> what = no_ending
    :: what != no_memory && reading ->
        atomic {
            ask_source();
            if
            :: what == piece -> end_read()
            :: else -> end_read_ending()
            fi
        }
#ifdef SPLIT
    :: what != no_memory && !reading ->
        atomic { ask_source(); end_claim() };
        if
        :: what == moved -> atomic { what = piece; end_claim() }
        :: else
        fi;
        if
        :: what == piece -> atomic { make(); end_make() }
        :: what == to_drop -> atomic { drop_unmade() }
        :: else -> off = 0; asked = 0; what = no_ending
        fi;
        do
        :: settles -> atomic { settle(); end_settle() }
        :: else -> break
        od
#endif
    fi
}
