/* SPDX-License-Identifier: Apache-2.0 */
/* test_split.c - pieces that several threads make at once, out of order, late, or in vain. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <string.h>

/* A reader on a thread of its own; the test works the script beside it. */
struct reader {
    pthread_t thread;
    struct ahead_stream *s;
    size_t len;
    uint8_t bytes[4096];
    size_t got;
    enum ahead_status st;
    atomic_bool done;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;

    r->st = ahead_read_full(r->s, r->bytes, r->len, &r->got);
    atomic_store(&r->done, true);
    return NULL;
}

static void reader_start(struct reader *r, struct ahead_stream *s, size_t len)
{
    *r = (struct reader){ .s = s, .len = len };
    expect_int(pthread_create(&r->thread, NULL, reader_main, r), 0);
}

/* Open eagerly, and wait until the second thread holds the first piece. */
static struct ahead_stream *open_held(struct script *sc, const struct ahead_options *opt)
{
    struct ahead_options eager = opt ? *opt : (struct ahead_options){ .buffer_bytes = 1000 };
    struct ahead_stream *s;

    eager.flags = AHEAD_EAGER;
    sc->split = true;
    sc->hold_make = 1;
    s = script_open(sc, &eager);
    expect_eventually(sc->held == 1);
    return s;
}

/* A reader with nothing ready makes the next pieces itself, and gets the bytes
 * in their order when the first one is there at last. */
Test(split, what_is_made_out_of_order_is_read_in_order)
{
    struct script sc = { .step = STEPS(PIECES(600, 100)), .bound_extra = 7 };
    struct ahead_stream *s = open_held(&sc, NULL);
    struct ahead_stats stats;
    struct reader r;

    reader_start(&r, s, 600);
    expect_eventually(script_count(&sc, CALL_MAKE) >= 6);
    sleep_us(5000);
    expect_true(!atomic_load(&r.done));
    expect_int(script_count(&sc, CALL_SETTLE), 0);
    script_let_make(&sc);
    pthread_join(r.thread, NULL);
    expect_status(r.st, AHEAD_OK);
    expect_size(pattern_match(r.bytes, 0, 600), 600);
    ahead_get_stats(s, &stats);
    expect_true(stats.helped_pieces >= 5);
    expect_ending(s, AHEAD_EOF, 0, 600);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* One maker that is held up does not let the others run ahead without limit. */
Test(split, a_maker_that_is_held_up_bounds_the_others)
{
    struct script sc = { .step = STEPS(PIECES(1000000, 10)) };
    struct ahead_stream *s = open_held(&sc, &(struct ahead_options){ .buffer_bytes = 500 });
    struct reader r;
    unsigned before;

    reader_start(&r, s, 2000);
    do {
        before = script_count(&sc, CALL_CLAIM);
        sleep_us(10000);
    } while (script_count(&sc, CALL_CLAIM) != before);
    expect_true(before * 10 <= 1000);
    script_let_make(&sc);
    pthread_join(r.thread, NULL);
    expect_status(r.st, AHEAD_OK);
    expect_size(pattern_match(r.bytes, 0, 2000), 2000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* Most makes end in the wrong order; the test sees to it that some did. */
Test(split, makes_that_end_in_the_wrong_order_lose_nothing)
{
    for (size_t b = 64; b <= 4096; b *= 4) {
        struct script sc = { .step = STEPS(RANDOM(100000, 300)),
                             .split = true,
                             .bound_extra = 9,
                             .stagger_us = 300,
                             .seed = b };
        struct ahead_stream *s =
            script_open(&sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_EAGER });

        expect_note("buffer %zu", b);
        expect_pattern(s, 0, 100000);
        expect_ending(s, AHEAD_EOF, 0, 100000);
        expect_true(b < 1000 || sc.out_of_order > 0);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A make fails after a later claim has met the end: the earlier claim's ending
 * counts, and what lies behind it is dropped. */
Test(split, the_ending_of_the_earliest_claim_wins)
{
    for (unsigned fault = FAULT_MAKE; fault <= FAULT_BOTH; fault++)
        for (unsigned garbage = 0; garbage <= 6; garbage += 3) {
            struct script sc = { .step = STEPS(PIECES(100, 100),
                                               STATUS(AHEAD_LIMIT, 33, "in the first")),
                                 .fault = fault,
                                 .garbage = garbage,
                                 .bound_extra = 11 };
            struct ahead_stream *s;
            struct reader r;

            if (fault == FAULT_READ)
                continue; /* has nothing to do with makes */
            expect_note("fault %u, garbage %u", fault, garbage);
            s = open_held(&sc, NULL);
            reader_start(&r, s, 1000);
            /* All of the garbage, and the wrong end behind it. */
            expect_eventually(script_count(&sc, CALL_CLAIM) == garbage + 2);
            expect_eventually(script_count(&sc, CALL_MAKE) == garbage + 1);
            script_let_make(&sc);
            pthread_join(r.thread, NULL);
            expect_status(r.st, AHEAD_LIMIT);
            expect_size(r.got, 100);
            expect_size(pattern_match(r.bytes, 0, 100), 100);
            expect_ending(s, AHEAD_LIMIT, 0, 100);
            expect_str(ahead_error(s)->text, "in the first");
            expect_u64(ahead_error(s)->source_offset, 33);
            expect_status(ahead_close(s), AHEAD_LIMIT);
            expect_int(script_count(&sc, CALL_DROP), garbage);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* Settle cuts shorter than the make's own failure, and its word counts. */
Test(split, settle_overrules_make_when_it_leaves_less)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
        struct script sc = { .step = STEPS(PIECES(300, 60), STATUS(AHEAD_TRUNCATED, 9, "settled")),
                             .split = true,
                             .fault = FAULT_BOTH,
                             .bound_extra = 20 };
        struct ahead_stream *s =
            script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4000, .flags = flags });

        expect_note("flags %u", flags);
        expect_pattern(s, 0, 300);
        expect_ending(s, AHEAD_TRUNCATED, 0, 300);
        expect_str(ahead_error(s)->text, "settled");
        expect_status(ahead_close(s), AHEAD_TRUNCATED);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Blocks that no half can hold are read, those that still fit are not. */
Test(split, a_block_above_the_buffer_is_read_instead)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++)
        for (size_t block = 60; block <= 70; block++) {
            struct script sc = { .step = STEPS(PIECES(20 * block, block)), .split = true };
            struct ahead_stream *s =
                script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = flags });

            expect_note("flags %u, blocks of %zu", flags, block);
            expect_pattern(s, 0, 20 * block);
            expect_ending(s, AHEAD_EOF, 0, 20 * block);
            if (block > 64) {
                expect_int(script_count(&sc, CALL_MAKE), 0);
                expect_true(script_count(&sc, CALL_READ) >= 40);
            } else {
                expect_int(script_count(&sc, CALL_MAKE), 20);
                expect_int(script_count(&sc, CALL_READ), 0);
            }
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* Large and small ones in turn: halves close short, read() and pieces take turns. */
Test(split, blocks_of_all_sizes_take_turns)
{
    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(PIECES(1000, 10), PIECES(2000, 1000), RANDOM(900, 7),
                                               PIECES(333, 333), RANDOM(4000, 500), BYTES(3000)),
                                 .seed = *b };
            struct ahead_stream *s;

            expect_note("%s, buffer %zu", m->name, *b);
            script_set_mode(&sc, m);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = *b, .flags = m->flags });
            expect_pattern_by(s, 0, 11233, 97);
            expect_ending(s, AHEAD_EOF, 0, 11233);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* "Only read() can tell": in the middle, and again and again. */
Test(split, a_claim_that_asks_for_a_read_gets_one)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 256; b *= 4) {
            struct script sc = { .step = STEPS(PIECES(50, 10), ERRNO_TIMES(EINTR, 2), PIECES(50, 3),
                                               ERRNO_TIMES(EAGAIN, 1), PIECES(50, 25),
                                               ERRNO_TIMES(EINTR, 1)) };
            struct ahead_stream *s;

            expect_note("%s, buffer %zu", m->name, b);
            script_set_mode(&sc, m);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = b, .flags = m->flags });
            expect_pattern(s, 0, 150);
            expect_ending(s, AHEAD_EOF, 0, 150);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* While a piece is being made by the second thread. */
Test(split, cancel_does_not_wait_for_a_make)
{
    struct script sc = { .step = STEPS(PIECES(500, 100)) };
    struct ahead_stream *s = open_held(&sc, NULL);
    struct reader r;
    uint64_t start;

    reader_start(&r, s, 500);
    expect_eventually(script_count(&sc, CALL_MAKE) >= 5);
    sleep_us(2000);
    start = now_ns();
    ahead_cancel(s);
    pthread_join(r.thread, NULL);
    expect_within_ms(start, 100);
    expect_status(r.st, AHEAD_CANCELLED);
    expect_size(r.got, 0);
    script_let_make(&sc);
    expect_ending(s, AHEAD_CANCELLED, 0, 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* What is claimed when the ending is there already is dropped, and not made first. */
Test(split, a_piece_that_comes_behind_a_cancel_is_dropped_unmade)
{
    struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)), .split = true, .deaf = true };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = AHEAD_EAGER });

    expect_eventually(sc.stalls == 1);
    ahead_cancel(s);
    script_release(&sc);
    expect_eventually(script_count(&sc, CALL_DROP) == 1);
    expect_int(script_count(&sc, CALL_MAKE), 1);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_int(script_count(&sc, CALL_MAKE), 1);
    expect_str(script_closing_verdict(&sc), "ok");
}

static void *let_soon(void *arg)
{
    sleep_us(20000);
    script_let_make(arg);
    return NULL;
}

Test(split, close_waits_for_a_make)
{
    struct script sc = { .step = STEPS(PIECES(500, 100)) };
    struct ahead_stream *s = open_held(&sc, NULL);
    pthread_t thread;
    uint64_t start = now_ns();

    expect_int(pthread_create(&thread, NULL, let_soon, &sc), 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_true(ms_since(start) >= 19);
    pthread_join(thread, NULL);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(split, close_out_of_time_leaves_a_make_to_its_thread)
{
    static struct script sc;
    struct ahead_stream *s;

    sc.step = STEPS(PIECES(500, 100));
    s = open_held(&sc, &(struct ahead_options){ .buffer_bytes = 1000, .close_timeout_ms = 20 });
    expect_status(ahead_close(s), AHEAD_TIMEDOUT);
    expect_int(script_count(&sc, CALL_CLOSE), 0);
    script_let_make(&sc);
    expect_eventually(atomic_load(&sc.closed));
    expect_str(script_closing_verdict(&sc), "ok");
}

/* A make under way has its memory until it ends, whatever a seek wants. */
Test(split, seek_waits_for_a_make)
{
    struct script sc = { .step = STEPS(PIECES(5000, 100)), .has = HAS_SEEK };
    struct ahead_stream *s = open_held(&sc, NULL);
    pthread_t thread;
    uint64_t start = now_ns();

    expect_int(pthread_create(&thread, NULL, let_soon, &sc), 0);
    expect_status(ahead_seek(s, 3000), AHEAD_OK);
    expect_true(ms_since(start) >= 19);
    pthread_join(thread, NULL);
    expect_pattern(s, 3000, 2000);
    expect_ending(s, AHEAD_EOF, 0, 5000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* The claim that is out when the ending comes is dropped before a seek gets to
 * the source.  Piece 1 is held on the second thread; the reader makes piece 2,
 * which is faulty, and meanwhile the second thread goes into its next claim. */
struct late_claim {
    pthread_t reader;
    atomic_bool inside, go_on;
};

static void steer_late_claim(struct script *sc, enum script_call call)
{
    struct late_claim *late = sc->user;
    bool reader = pthread_equal(pthread_self(), late->reader);

    if (call == CALL_MAKE && reader) {
        script_let_make(sc);
        expect_eventually(atomic_load(&late->inside));
    } else if (call == CALL_CLAIM && !reader && script_count(sc, CALL_CLAIM) > 1) {
        atomic_store(&late->inside, true);
        expect_eventually(atomic_load(&late->go_on));
    } else if (call == CALL_DROP && !reader) {
        sleep_us(20000);
    }
}

Test(split, a_seek_waits_for_a_late_claim_to_be_dropped)
{
    struct late_claim late = { .reader = pthread_self() };
    struct script sc = { .step = STEPS(PIECES(200, 100), ERRNO_ONCE(EIO), PIECES(300, 100)),
                         .has = HAS_SEEK,
                         .fault = FAULT_MAKE,
                         .garbage = 1,
                         .on_call = steer_late_claim,
                         .user = &late };
    struct ahead_stream *s = open_held(&sc, NULL);

    expect_pattern(s, 0, 200);
    expect_ending(s, AHEAD_IO, EIO, 200);
    expect_int(script_count(&sc, CALL_DROP), 0);
    atomic_store(&late.go_on, true);
    expect_status(ahead_seek(s, 50000), AHEAD_OK);
    expect_int(script_count(&sc, CALL_DROP), 1);
    expect_status(ahead_seek(s, 0), AHEAD_OK);
    expect_pattern(s, 0, 500);
    expect_ending(s, AHEAD_EOF, 0, 500);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* A reader that sleeps has a piece as soon as it is published, though the same
 * thread is settling the next one, which may take long. */
static void settle_when_the_reader_is_done(struct script *sc, enum script_call call)
{
    struct reader *r = sc->user;

    if (call == CALL_SETTLE && script_count(sc, CALL_SETTLE) == 2)
        expect_eventually(atomic_load(&r->done));
}

Test(split, a_piece_is_read_while_the_next_is_settled)
{
    static struct reader r;
    struct script sc = { .step = STEPS(PIECES(600, 100)),
                         .on_call = settle_when_the_reader_is_done,
                         .user = &r };
    struct ahead_stream *s = open_held(&sc, NULL);

    reader_start(&r, s, 100);
    expect_eventually(script_count(&sc, CALL_MAKE) >= 6); /* all but the first are made */
    sleep_us(5000);
    script_let_make(&sc);
    pthread_join(r.thread, NULL);
    expect_status(r.st, AHEAD_OK);
    expect_size(pattern_match(r.bytes, 0, 100), 100);
    expect_pattern(s, 100, 500);
    expect_ending(s, AHEAD_EOF, 0, 600);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* A seek that waits and is then refused leaves everything to be read. */
Test(split, a_refused_seek_among_makes_changes_nothing)
{
    struct script sc = { .step = STEPS(PIECES(5000, 100)),
                         .has = HAS_SEEK,
                         .refuse_seek = AHEAD_UNSUPPORTED };
    struct ahead_stream *s = open_held(&sc, NULL);
    pthread_t thread;

    expect_int(pthread_create(&thread, NULL, let_soon, &sc), 0);
    expect_status(ahead_seek(s, 3000), AHEAD_UNSUPPORTED);
    pthread_join(thread, NULL);
    expect_u64(ahead_tell(s), 0);
    expect_pattern(s, 0, 5000);
    expect_ending(s, AHEAD_EOF, 0, 5000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(split, a_time_limit_counts_while_another_makes)
{
    struct script sc = { .step = STEPS(PIECES(500, 100)) };
    struct ahead_stream *s =
        open_held(&sc, &(struct ahead_options){ .buffer_bytes = 1000, .read_timeout_ms = 20 });
    uint64_t start = now_ns();
    uint32_t v;

    expect_status(ahead_read_u32_be(s, &v), AHEAD_TIMEDOUT);
    expect_true(ms_since(start) >= 19);
    expect_within_ms(start, 70);
    script_let_make(&sc);
    expect_pattern_patiently(s, 0, 500);
    wait_patiently(s);
    expect_ending(s, AHEAD_EOF, 0, 500);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* Two makers take half the time of one; here only that both do make. */
Test(split, both_sides_make_when_makes_take_long)
{
    struct script sc = { .step = STEPS(PIECES(40000, 400)), .split = true, .make_us = 200 };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4000, .flags = AHEAD_EAGER });
    struct ahead_stats stats;

    expect_pattern(s, 0, 40000);
    ahead_get_stats(s, &stats);
    expect_true(stats.helped_pieces >= 10);
    expect_true(stats.helped_pieces <= 90);
    expect_ending(s, AHEAD_EOF, 0, 40000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* Pieces of no bytes only, then the end; with bounds, and without. */
Test(split, pieces_of_no_bytes_lead_to_the_end)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++)
        for (size_t extra = 0; extra <= 8; extra += 4)
            for (unsigned fault = FAULT_CLAIM; fault <= FAULT_READ; fault++) {
                struct script sc = { .step = STEPS(PIECES(1, 1), ERRNO(EIO)),
                                     .split = true,
                                     .hollow = true,
                                     .bound_extra = extra,
                                     .fault = fault };
                struct ahead_stream *s =
                    script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16, .flags = flags });

                expect_note("flags %u, bounds %zu, fault %u", flags, extra, fault);
                expect_pattern(s, 0, 1);
                expect_ending(s, AHEAD_IO, EIO, 1);
                expect_status(ahead_close(s), AHEAD_IO);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}
