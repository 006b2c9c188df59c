/* SPDX-License-Identifier: Apache-2.0 */
/* test_unwind.c - every call for a resource fails in turn, in open and in whole lives of a stream,
 * and nothing is left behind. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* F216: malloc, locks, conditions, threads and descriptors, one after the other. */
Test(unwind, open_from_every_failing_step)
{
    for (each_mode(m)) {
        bool failed = true;
        int steps = 0;

        for (int step = 1; failed; step++) {
            struct script sc = { .step = STEPS(PIECES(500, 30)) };
            struct ahead_source src;
            struct ahead_stream *s = NULL;
            enum ahead_status st;
            uint8_t bytes[500];
            size_t got = 0;

            expect_note("%s, step %d", m->name, step);
            script_set_mode(&sc, m);
            src = script_source(&sc);
            errno = 0;
            fail_step(step);
            st = ahead_open(&s, src,
                            &(struct ahead_options){ .buffer_bytes = 100, .flags = m->flags });
            failed = fail_step(0);
            steps = step;
            if (st) {
                expect_status(st, AHEAD_NOMEM);
                expect_int(errno, ENOMEM);
                expect_true(s == NULL);
            } else {
                /* Without a thread, if that was the step.  The memory of an eager one may
                 * have been the step, too. */
                st = ahead_read_full(s, bytes, sizeof bytes, &got);
                expect_size(pattern_match(bytes, 0, got), got);
                expect_status(st, st && m->flags & AHEAD_EAGER && failed ? AHEAD_NOMEM : AHEAD_OK);
                expect_status(ahead_close(s), st);
            }
            expect_str(script_closing_verdict(&sc), "ok");
            expect_int(live, 0);
        }
        expect_true(steps > 3); /* memory, a lock, two conditions at least */
    }
}

/* The same for what lies under a stream: descriptors, and memory of the sources. */
static enum ahead_status open_kind(int kind, int fd, struct ahead_stream **s)
{
    static const uint8_t bytes[100];
    struct ahead_source src;
    enum ahead_status st;

    *s = NULL;
    switch (kind) {
    case 0: return ahead_open_path(s, "/proc/self/exe", NULL);
    case 1: st = ahead_source_fd(&src, fd, 0); break;
    case 2: st = ahead_source_memory(&src, bytes, sizeof bytes); break;
    default:
        st = ahead_source_memory(&src, bytes, sizeof bytes);
        if (!st)
            st = ahead_open(s, src, NULL);
        if (!st)
            st = ahead_source_stream(&src, *s);
        *s = NULL; /* it belongs to the source now, or is closed */
        break;
    }
    return st ? st : ahead_open(s, src, NULL);
}

Test(unwind, open_over_the_library_s_own_sources_from_every_failing_step)
{
    for (int kind = 0; kind < 4; kind++) {
        struct leaks before = leaks_count();
        bool failed = true;
        int end[2];

        expect_int(pipe(end), 0);
        for (int step = 1; failed; step++) {
            int live_before = live;
            struct ahead_stream *s;
            enum ahead_status st;

            expect_note("kind %d, step %d", kind, step);
            fail_step(step);
            st = open_kind(kind, end[0], &s);
            failed = fail_step(0);
            expect_true(st ? s == NULL : s != NULL);
            expect_true(!st || st == AHEAD_NOMEM || st == AHEAD_IO);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_int(live, live_before);
        }
        close(end[0]);
        close(end[1]);
        expect_no_leaks(before);
    }
}

/* A life: reading, looking, skipping, seeking and swapping.  What fails says NOMEM
 * (IO for a descriptor), loses no byte that came before, and close ends it. */
static enum ahead_status live_once(struct ahead_stream *s, uint64_t *pos)
{
    struct ahead_buffer b = { .data = NULL };
    const uint8_t *data;
    uint8_t bytes[200];
    char text[64];
    size_t len;
    enum ahead_status st;

    st = ahead_read_full(s, bytes, 150, &len);
    expect_size(pattern_match(bytes, *pos, len), len);
    *pos += len;
    if (st)
        return st;
    st = ahead_peek(s, 900, &data, &len);
    if (st)
        return st;
    expect_size(pattern_match(data, *pos, len), len);
    ahead_consume(s, 40);
    *pos += 40;
    st = ahead_read_until(s, pattern_byte(*pos + 300), 0, &data, &len);
    if (st)
        return st;
    expect_size(pattern_match(data, *pos, len), len);
    *pos += len;
    st = ahead_read_utf(s, text, sizeof text, &len);
    if (st != AHEAD_LIMIT && st != AHEAD_CORRUPT && st != AHEAD_TRUNCATED)
        return st;
    st = ahead_seek(s, 2000);
    if (st)
        return st;
    *pos = 2000;
    st = ahead_buffer_alloc(s, &b);
    if (st)
        return st;
    st = ahead_swap_buffer(s, &b);
    if (!st) {
        expect_size(pattern_match(b.data, *pos, b.len), b.len);
        *pos += b.len;
    }
    ahead_buffer_free(&b);
    return st;
}

Test(unwind, a_whole_life_from_every_failing_step, .timeout = 120 * TIME_SCALE)
{
    for (each_mode(m)) {
        int failures = 0, quiet = 0;

        /* What happens first differs from run to run once there are threads: stop
         * when many steps in a row were beyond the last. */
        for (int step = 1; quiet < 5; step++) {
            struct script sc = { .step = STEPS(RANDOM(100000, 90)), .has = HAS_SEEK };
            struct ahead_source src;
            struct ahead_stream *s = NULL;
            enum ahead_status st, closed;
            uint64_t pos = 0;

            expect_note("%s, step %d", m->name, step);
            script_set_mode(&sc, m);
            src = script_source(&sc);
            fail_step(step);
            st = ahead_open(&s, src,
                            &(struct ahead_options){ .buffer_bytes = 200, .flags = m->flags });
            if (!st)
                st = live_once(s, &pos);
            if (s)
                expect_u64(ahead_tell(s), pos);
            closed = ahead_close(s);
            quiet = fail_step(0) ? 0 : quiet + 1;
            failures += st == AHEAD_NOMEM;
            expect_true(!st || st == AHEAD_NOMEM);
            expect_true(!closed || closed == AHEAD_NOMEM);
            expect_str(script_closing_verdict(&sc), "ok");
            expect_int(live, 0);
        }
        expect_true(failures > 3);
    }
}

/* A peek that finds no memory shows what is at hand, and can be tried again. */
Test(unwind, no_memory_for_a_peek_is_no_ending)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(5000, 50)) };
        struct ahead_stream *s;
        const uint8_t *data;
        size_t len = 0;
        enum ahead_status st;

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 200, .flags = m->flags });
        expect_pattern(s, 0, 500); /* both halves have their memory now */
        fail_always(FAILING_MEMORY, true);
        st = ahead_peek(s, 4000, &data, &len);
        fail_always(FAILING_MEMORY, false);
        expect_status(st, AHEAD_NOMEM);
        expect_size(pattern_match(data, 500, len), len);
        expect_u64(ahead_tell(s), 500);
        if (!m->split) { /* a split source may have needed memory itself, and ended */
            expect_status(ahead_peek(s, 4000, &data, &len), AHEAD_OK);
            expect_size(pattern_match(data, 500, len), len);
            expect_pattern(s, 500, 4500);
            expect_ending(s, AHEAD_EOF, 0, 5000);
            expect_status(ahead_close(s), AHEAD_OK);
        } else {
            ahead_close(s);
        }
        expect_str(script_closing_verdict(&sc), "ok");
    }
}
