/* SPDX-License-Identifier: Apache-2.0 */
/* test_buffer.c - buffers that change hands: allocated, swapped for unread bytes, freed. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <string.h>

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* Give *b, get bytes from `pos` on, and spoil the memory that came.  Returns how many. */
static size_t expect_swapped(struct ahead_stream *s, struct ahead_buffer *b, uint64_t pos)
{
    /* What comes may be what was given: bytes at hand in a buffer that the
     * source writes into at this moment are copied. */
    expect_status(ahead_swap_buffer(s, b), AHEAD_OK);
    expect_true(b->len > 0);
    expect_true(b->cap >= b->len);
    expect_size(pattern_match(b->data, pos, b->len), b->len);
    expect_u64(ahead_tell(s), pos + b->len);
    memset(b->data, 0xbb, b->cap);
    return b->len;
}

Test(buffer, swaps_alone_read_a_stream_to_its_end)
{
    for (each_mode(m))
        for (each_size(b))
            for (int fault = 0; fault < 2; fault++) {
                struct script clean = { .step = STEPS(RANDOM(5000, 400)), .seed = *b };
                struct script faulty = { .step = STEPS(RANDOM(5000, 400), ERRNO(EIO)) };
                struct script *sc = fault ? &faulty : &clean;
                enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
                struct ahead_stream *s;
                struct ahead_buffer buf, was;
                uint64_t pos = 0;

                expect_note("%s, buffer %zu, fault %d", m->name, *b, fault);
                s = open_mode(sc, m, *b);
                expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
                expect_true(buf.data && buf.len == 0 && buf.cap >= *b);
                while (pos < 5000)
                    pos += expect_swapped(s, &buf, pos);
                was = buf;
                expect_status(ahead_swap_buffer(s, &buf), ending);
                expect_mem(&buf, &was, sizeof buf);
                expect_ending(s, ending, fault ? EIO : 0, 5000);
                ahead_buffer_free(&buf);
                expect_true(!buf.data && !buf.len && !buf.cap);
                expect_status(ahead_close(s), closes_with(ending));
                expect_str(script_closing_verdict(sc), "ok");
            }
}

/* Among other calls: bytes that lie in the seam or were gathered come too. */
Test(buffer, swaps_among_other_calls_lose_nothing)
{
    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(RANDOM(30000, 500)), .seed = *b };
            struct ahead_stream *s = open_mode(&sc, m, *b);
            struct ahead_buffer buf;
            uint64_t pos = 0, seed = *b, wide;
            const uint8_t *data;
            size_t len;

            expect_note("%s, buffer %zu", m->name, *b);
            expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
            while (pos < 29000) {
                switch (random_below(&seed, 5)) {
                case 0: pos += expect_swapped(s, &buf, pos); break;
                case 1:
                    expect_status(ahead_read_u64_le(s, &wide), AHEAD_OK);
                    expect_u64(wide, pattern_number(pos, 8));
                    pos += 8;
                    break;
                case 2:
                    expect_status(ahead_peek(s, 1 + random_below(&seed, 300), &data, &len),
                                  AHEAD_OK);
                    expect_size(pattern_match(data, pos, len), len);
                    break;
                case 3:
                    expect_pattern(s, pos, 3);
                    pos += 3;
                    break;
                case 4:
                    expect_status(ahead_skip(s, 11, NULL), AHEAD_OK);
                    pos += 11;
                    break;
                }
            }
            while (pos < 30000)
                pos += expect_swapped(s, &buf, pos);
            expect_ending(s, AHEAD_EOF, 0, 30000);
            ahead_buffer_free(&buf);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* It waits as read() does, for the first bytes and for no more. */
Test(buffer, a_swap_gives_what_there_is)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
        struct ahead_stream *s;
        struct ahead_buffer buf;

        if (m->split && m->flags & AHEAD_SYNC)
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
        if (!m->split && (m->flags & AHEAD_EAGER)) {
            /* The fill is inside a read() into the buffer: it cannot be had before. */
            expect_eventually(sc.stalls == 1);
            script_release(&sc);
        }
        expect_true(expect_swapped(s, &buf, 0) >= 10);
        if (m->split || !(m->flags & AHEAD_EAGER))
            script_release(&sc);
        while (ahead_tell(s) < 20)
            expect_swapped(s, &buf, ahead_tell(s));
        expect_ending(s, AHEAD_EOF, 0, 20);
        ahead_buffer_free(&buf);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* The size was chosen with the first buffer: nobody has to wait for a read that
 * blocks to learn it. */
Test(buffer, is_allocated_beside_a_blocked_read, .timeout = 20 * TIME_SCALE)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
        struct ahead_stream *s;
        struct ahead_buffer buf;

        if (!(m->flags & AHEAD_EAGER))
            continue; /* nobody reads */
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 0);
        expect_eventually(sc.stalls == 1);
        expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
        expect_true(buf.data && buf.cap >= 65536);
        script_release(&sc);
        expect_pattern(s, 0, 20);
        expect_ending(s, AHEAD_EOF, 0, 20);
        ahead_buffer_free(&buf);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A source that has no blocks is not asked for them, and not waited for: with a time limit
 * neither. */
Test(buffer, is_allocated_in_front_of_a_silent_source, .timeout = 20 * TIME_SCALE)
{
    static const unsigned has[] = { HAS_WAIT, HAS_WAIT | HAS_UNIT };

    for (size_t i = 0; i < 2; i++) {
        struct script sc = { .step = STEPS(STALL, BYTES(10)), .split = true, .has = has[i] };
        const struct ahead_options opt = { .read_timeout_ms = (uint32_t)(100 * time_scale()) };
        struct ahead_stream *s = script_open(&sc, &opt);
        struct ahead_buffer buf;
        enum ahead_status st = ahead_buffer_alloc(s, &buf);

        expect_status(st, i == 0 ? AHEAD_OK : AHEAD_TIMEDOUT);
        expect_true((buf.data != NULL) == (i == 0));
        script_release(&sc);
        expect_pattern_patiently(s, 0, 10);
        wait_patiently(s);
        expect_ending(s, AHEAD_EOF, 0, 10);
        ahead_buffer_free(&buf);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A stream on a pool whose budget is used up, so that it has memory for one half. */
static struct ahead_stream *open_poor(struct ahead_pool **pool, struct script *sc)
{
    struct ahead_stream *s;

    expect_status(
        ahead_pool_open(pool, &(struct ahead_pool_options){ .threads = 1, .byte_budget = 4096 }),
        AHEAD_OK);
    sc->split = true;
    s = script_open(sc, &(struct ahead_options){ .flags = AHEAD_EAGER, .pool = *pool });
    return s;
}

/* A claim that is out has nowhere to go but that half: so the bytes are copied,
 * into a buffer that may be smaller than what the claim will bring. */
Test(buffer, a_swap_with_one_half_leaves_a_claim_its_memory)
{
    struct script sc = { .step = STEPS(PIECES(6000, 1000), STALL, PIECES(4000, 1000)) };
    struct script other = { .step = NULL };
    struct ahead_pool *pool;
    struct ahead_stream *s = open_poor(&pool, &sc),
                        *t = script_open(&other, &(struct ahead_options){ .buffer_bytes = 64 });
    struct ahead_buffer buf, was;

    expect_status(ahead_buffer_alloc(t, &buf), AHEAD_OK);
    was = buf;
    expect_pattern(s, 0, 4001); /* one half and a byte: it is in use again */
    expect_eventually(sc.stalls == 1);
    expect_swapped(s, &buf, 4001);
    expect_true(buf.data == was.data);
    expect_size(buf.len, 64);
    script_release(&sc);
    expect_pattern(s, 4065, 5935);
    expect_ending(s, AHEAD_EOF, 0, 10000);
    ahead_buffer_free(&buf);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_status(ahead_close(t), AHEAD_OK);
    expect_status(ahead_pool_close(pool), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* The first half goes, the claim moves to the second, and the budget has nothing
 * for that: it gets memory all the same, as a stream always goes on. */
Test(buffer, a_swap_moves_a_claim_to_a_half_beside_the_budget)
{
    struct script sc = { .step = STEPS(PIECES(2000, 1000), STALL, PIECES(8000, 1000)) };
    struct ahead_pool *pool;
    struct ahead_stream *s = open_poor(&pool, &sc);
    struct ahead_buffer buf;
    uint64_t pos = 1;

    expect_pattern(s, 0, 1);
    expect_eventually(sc.stalls == 1);
    expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
    while (pos < 2000)
        pos += expect_swapped(s, &buf, pos);
    script_release(&sc);
    expect_pattern(s, 2000, 8000);
    expect_ending(s, AHEAD_EOF, 0, 10000);
    ahead_buffer_free(&buf);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_status(ahead_pool_close(pool), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* A seek afterwards cannot go back to bytes that are gone, unless the source does. */
Test(buffer, a_seek_after_a_swap_reads_from_the_source)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(1000, 100)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 300);
        struct ahead_buffer buf;

        expect_note("%s", m->name);
        expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
        for (int i = 0; i < 20; i++) {
            expect_status(ahead_seek(s, 40u * (unsigned)i), AHEAD_OK);
            expect_swapped(s, &buf, 40u * (unsigned)i);
            expect_status(ahead_seek(s, 10), AHEAD_OK);
            expect_pattern(s, 10, 60);
        }
        ahead_buffer_free(&buf);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Bytes move by pointer: what one stream gave, another can take. */
Test(buffer, of_one_stream_serves_another)
{
    struct script first = { .step = STEPS(PIECES(3000, 100)) };
    struct script second = { .step = STEPS(PIECES(3000, 100)), .pattern_at = 7777 };
    const struct ahead_options opt = { .buffer_bytes = 500 };
    struct ahead_stream *a = script_open(&first, &opt), *b = script_open(&second, &opt);
    struct ahead_buffer buf;
    uint64_t in_a = 0, in_b = 0;

    expect_status(ahead_buffer_alloc(a, &buf), AHEAD_OK);
    while (in_a < 3000 || in_b < 3000) {
        if (in_a < 3000)
            in_a += expect_swapped(a, &buf, in_a);
        if (in_b < 3000) {
            expect_status(ahead_swap_buffer(b, &buf), AHEAD_OK);
            expect_size(pattern_match(buf.data, 7777 + in_b, buf.len), buf.len);
            in_b += buf.len;
        }
    }
    expect_status(ahead_close(a), AHEAD_OK);
    expect_status(ahead_close(b), AHEAD_OK);
    ahead_buffer_free(&buf); /* it outlives both */
    expect_str(script_closing_verdict(&first), "ok");
    expect_str(script_closing_verdict(&second), "ok");
}

Test(buffer, is_freed_by_whoever_has_it)
{
    for (each_mode(m)) {
        struct leaks before = leaks_count();
        struct script sc = { .step = STEPS(PIECES(1000, 100)) };
        struct ahead_stream *s = open_mode(&sc, m, 300);
        struct ahead_buffer kept[3];

        expect_note("%s", m->name);
        for (int i = 0; i < 3; i++) {
            expect_status(ahead_buffer_alloc(s, &kept[i]), AHEAD_OK);
            if (i > 0)
                expect_swapped(s, &kept[i], ahead_tell(s));
        }
        expect_status(ahead_close(s), AHEAD_OK);
        for (int i = 0; i < 3; i++) {
            memset(kept[i].data, 1, kept[i].cap);
            ahead_buffer_free(&kept[i]);
            ahead_buffer_free(&kept[i]);
        }
        expect_no_leaks(before);
    }
}

Test(buffer, a_swap_after_a_cancel_keeps_the_caller_s)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(1000, 100)) };
        struct ahead_stream *s = open_mode(&sc, m, 300);
        struct ahead_buffer buf, was;
        enum ahead_status st;

        expect_note("%s", m->name);
        expect_status(ahead_buffer_alloc(s, &buf), AHEAD_OK);
        ahead_cancel(s);
        do { /* bytes that were at hand may come first */
            was = buf;
            st = ahead_swap_buffer(s, &buf);
        } while (!st);
        expect_status(st, AHEAD_CANCELLED);
        expect_mem(&buf, &was, sizeof buf);
        ahead_buffer_free(&buf);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}
