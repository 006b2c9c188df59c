/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c - opening, reading, counting and closing a stream, and calling it wrongly. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/sanitizers.h"
#include "support/script.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* A file of n bytes of the pattern, which has no name any more. */
static int pattern_file(size_t n)
{
    char name[] = "/tmp/ahead-test-XXXXXX";
    int fd = mkstemp(name);
    uint8_t *bytes = malloc(n + 1);

    expect_true(fd >= 0 && bytes);
    unlink(name);
    pattern_fill(bytes, 0, n);
    expect_int(pwrite(fd, bytes, n, 0), (intmax_t)n);
    free(bytes);
    return fd;
}

/* Opening. */

/* F231: what was owned is closed once, and nothing is left. */
Test(open, refuses_what_is_wrong_and_closes_the_source)
{
    static const struct ahead_options bad[] = { { .flags = 4 },
                                                { .flags = 1u << 31 },
                                                { .flags = AHEAD_EAGER | 64 },
                                                { .buffer_bytes = ((size_t)1 << 30) + 1 },
                                                { .buffer_bytes = SIZE_MAX } };
    struct leaks before = leaks_count();

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct script sc = { .step = STEPS(BYTES(4)) };
        struct ahead_stream *s = (struct ahead_stream *)&sc;

        expect_note("options %zu", i);
        errno = 0;
        expect_status(ahead_open(&s, script_source(&sc), &bad[i]), AHEAD_INVALID);
        expect_true(s == NULL);
        expect_int(errno, EINVAL);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    {
        struct script sc = { .step = NULL };

        errno = 0;
        expect_status(ahead_open(NULL, script_source(&sc), NULL), AHEAD_INVALID);
        expect_int(errno, EINVAL);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    {
        struct script sc = { .step = NULL };
        struct ahead_source src = script_source(&sc);
        struct ahead_stream *s = (struct ahead_stream *)&sc;

        sc.ops.read = NULL;
        expect_status(ahead_open(&s, src, NULL), AHEAD_INVALID);
        expect_true(s == NULL);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    {
        struct ahead_stream *s = (struct ahead_stream *)&before;

        expect_status(ahead_open(&s, (struct ahead_source){ .ops = NULL }, NULL), AHEAD_INVALID);
        expect_true(s == NULL);
    }
    expect_no_leaks(before);
}

/* F103: 0 means the default, and no options mean all zero. */
Test(open, takes_no_options_for_the_defaults)
{
    static const struct ahead_options zero;

    for (int null = 0; null < 2; null++) {
        struct script sc = { .step = STEPS(RANDOM(300000, 70000)) };
        struct ahead_stream *s = script_open(&sc, null ? NULL : &zero);

        expect_pattern(s, 0, 300000);
        expect_ending(s, AHEAD_EOF, 0, 300000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(open, does_not_wait_and_asks_for_nothing)
{
    struct script sc = { .step = STEPS(STALL, BYTES(4)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    struct ahead_stats stats;

    expect_int(script_asked(&sc), 0);
    ahead_get_stats(s, &stats);
    expect_u64(stats.threads_started, 0);
    expect_u64(stats.source_reads, 0);
    expect_size(ahead_buffered(s), 0);
    expect_true(s->next && s->next == s->end);
    expect_status(ahead_error(s)->status, AHEAD_OK);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(open, eagerly_fills_before_anybody_asks)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(1000, 50)) };
        struct ahead_stream *s;
        struct ahead_stats stats;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 200);
        expect_eventually(ahead_buffered(s) >= 200 - 50);
        ahead_get_stats(s, &stats);
        expect_u64(stats.threads_started, 1);
        expect_pattern(s, 0, 1000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(open, of_a_path_that_is_not_there_says_why)
{
    struct ahead_stream *s = (struct ahead_stream *)&s;
    struct leaks before = leaks_count();

    errno = 0;
    expect_status(ahead_open_path(&s, "/nonexistent/file", NULL), AHEAD_IO);
    expect_int(errno, ENOENT);
    expect_true(s == NULL);
    expect_status(ahead_open_path(&s, NULL, NULL), AHEAD_INVALID);
    expect_status(ahead_open_path(NULL, "/dev/null", NULL), AHEAD_INVALID);
    expect_status(ahead_open_path(&s, "/dev/null", &(struct ahead_options){ .flags = 32 }),
                  AHEAD_INVALID);
    expect_true(s == NULL);
    expect_no_leaks(before);
}

/* Reading. */

/* read() is as read(2): it does not wait for more than there is. */
Test(read, is_short_rather_than_late)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(3), STALL, BYTES(4)) };
        struct ahead_stream *s;
        uint8_t bytes[100];
        size_t got = 0;

        if (m->flags & AHEAD_SYNC && m->split)
            continue; /* whether a claim takes less than there is, is for the source to say */
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_status(ahead_read(s, bytes, sizeof bytes, &got), AHEAD_OK);
        expect_size(got, 3);
        expect_size(pattern_match(bytes, 0, 3), 3);
        script_release(&sc);
        expect_status(ahead_read(s, bytes, sizeof bytes, &got), AHEAD_OK);
        expect_size(got, 4);
        expect_size(pattern_match(bytes, 3, 4), 4);
        expect_ending(s, AHEAD_EOF, 0, 7);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F160: nothing is written behind what was asked for. */
Test(read, stays_within_its_bounds)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    expect_true(map != MAP_FAILED);
    expect_int(mprotect(map + page, page, PROT_NONE), 0);
    for (size_t n = 0; n <= 600; n++) {
        struct script sc = { .step = STEPS(RANDOM(2000, 90)), .seed = n };
        struct ahead_stream *s =
            script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = AHEAD_SYNC });
        uint8_t *dst = map + page - n;
        size_t got;

        expect_note("%zu bytes", n);
        expect_status(ahead_read(s, dst, n, &got), AHEAD_OK);
        expect_size(pattern_match(dst, 0, got), got);
        expect_status(ahead_skip(s, n - got, NULL), AHEAD_OK);
        expect_status(ahead_read_full(s, dst, n, &got), AHEAD_OK);
        expect_size(pattern_match(dst, n, n), n);
        expect_status(ahead_read_array(s, map + page - n / 4 * 4, n / 4, 4, false, &got), AHEAD_OK);
        expect_status(ahead_close(s), AHEAD_OK);
    }
    munmap(map, 2 * page);
}

/* F232, F233: nothing is read, nobody waits, nothing changes. */
Test(read, of_no_bytes_does_nothing)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(8), STALL, BYTES(8)) };
        struct ahead_stream *s;
        uint64_t skipped = 9, start = now_ns();
        size_t got = 9;

        if (m->flags & AHEAD_EAGER)
            continue; /* the source is asked anyway */
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 8);
        for (int at = 0; at <= 8; at += 8) {
            unsigned asked = script_asked(&sc);

            expect_pattern(s, 0, (uint64_t)at);
            asked = script_asked(&sc);
            expect_status(ahead_read(s, NULL, 0, &got), AHEAD_OK);
            expect_size(got, 0);
            expect_status(ahead_read_full(s, NULL, 0, NULL), AHEAD_OK);
            expect_status(ahead_skip(s, 0, &skipped), AHEAD_OK);
            expect_u64(skipped, 0);
            expect_status(ahead_read_u32_be_array(s, NULL, 0, &got), AHEAD_OK);
            expect_status(ahead_need(s, 0), AHEAD_OK);
            expect_u64(ahead_tell(s), (uint64_t)at);
            if (m->flags & AHEAD_SYNC)
                expect_int(script_asked(&sc), asked);
        }
        expect_within_ms(start, 1000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F232: after an ending they say that. */
Test(read, of_no_bytes_after_an_ending_says_which)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(8), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 8);
        const uint8_t *data;
        uint8_t byte;
        size_t len;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 8);
        expect_status(ahead_read_u8(s, &byte), AHEAD_IO);
        expect_status(ahead_read(s, &byte, 0, NULL), AHEAD_IO);
        expect_status(ahead_read_full(s, &byte, 0, NULL), AHEAD_IO);
        expect_status(ahead_skip(s, 0, NULL), AHEAD_IO);
        expect_status(ahead_peek(s, 0, &data, &len), AHEAD_IO);
        expect_size(len, 0);
        expect_status(ahead_close(s), AHEAD_IO);
    }
}

/* F231, F233, F240: NULL where something must be is INVALID, and no crash. */
Test(stream, wrong_calls_are_refused_and_change_nothing)
{
    struct script sc = { .step = STEPS(BYTES(20)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    struct ahead_buffer b = { .data = NULL }, zero = { .data = NULL };
    uint8_t byte;
    size_t got;

    expect_status(ahead_read(NULL, &byte, 1, &got), AHEAD_INVALID);
    expect_status(ahead_read(s, NULL, 1, &got), AHEAD_INVALID);
    expect_size(got, 0);
    expect_status(ahead_read_full(NULL, &byte, 1, &got), AHEAD_INVALID);
    expect_status(ahead_read_full(s, NULL, 1, &got), AHEAD_INVALID);
    expect_size(got, 0);
    expect_status(ahead_finish(NULL), AHEAD_INVALID);
    expect_status(ahead_buffer_alloc(NULL, &b), AHEAD_INVALID);
    expect_status(ahead_buffer_alloc(s, NULL), AHEAD_INVALID);
    expect_status(ahead_swap_buffer(NULL, &b), AHEAD_INVALID);
    expect_status(ahead_swap_buffer(s, NULL), AHEAD_INVALID);
    expect_status(ahead_swap_buffer(s, &b), AHEAD_INVALID);
    expect_mem(&b, &zero, sizeof b);
    expect_status(ahead_error(NULL)->status, AHEAD_INVALID);
    expect_size(ahead_buffered(NULL), 0);
    expect_status(ahead_close(NULL), AHEAD_OK);
    ahead_cancel(NULL);
    ahead_buffer_free(NULL);
    ahead_buffer_free(&b);
    expect_u64(ahead_tell(s), 0);
    expect_pattern(s, 0, 20);
    expect_ending(s, AHEAD_EOF, 0, 20);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* Small is free. */

static void expect_no_thread(struct ahead_stream *s, uint64_t n)
{
    struct ahead_stats stats;

    expect_pattern(s, 0, n);
    expect_ending(s, AHEAD_EOF, 0, n);
    ahead_get_stats(s, &stats);
    expect_u64(stats.threads_started, 0);
    expect_u64(stats.reader_waits, 0);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* A source that ends within the first buffer, or with it, however small its pieces. */
Test(small, is_read_without_a_thread)
{
    static const size_t lengths[] = { 0, 1, 100, 4095, 4096 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        const struct ahead_options opt = { .buffer_bytes = 4096 };
        struct ahead_source src;
        struct ahead_stream *s;

        for (each_mode(m)) {
            struct script sc = { .step = STEPS(BYTES(n)) };
            struct script pieces = { .step = STEPS(PIECES(n, 60)) };

            if (m->flags & AHEAD_EAGER)
                continue;
            expect_note("%s, %zu bytes", m->name, n);
            script_set_mode(&sc, m);
            script_set_mode(&pieces, m);
            expect_no_thread(script_open(&sc, &opt), n);
            expect_no_thread(script_open(&pieces, &opt), n);
            expect_str(script_closing_verdict(&pieces), "ok");
        }
        expect_note("file of %zu bytes", n);
        expect_status(ahead_source_fd(&src, pattern_file(n), AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
        expect_no_thread(s, n);
        expect_status(ahead_source_fd(&src, pattern_file(n), AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(ahead_open(&s, src, NULL), AHEAD_OK);
        expect_no_thread(s, n);
    }
}

Test(small, memory_of_any_size_is_read_without_a_thread)
{
    enum { LENGTH = 3000000 };
    uint8_t *bytes = malloc(LENGTH);
    struct ahead_source src;
    struct ahead_stream *s;

    expect_true(bytes != NULL);
    pattern_fill(bytes, 0, LENGTH);
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
        expect_note("flags %u", flags);
        expect_status(ahead_source_memory(&src, bytes, LENGTH), AHEAD_OK);
        expect_status(
            ahead_open(&s, src, &(struct ahead_options){ .buffer_bytes = 5000, .flags = flags }),
            AHEAD_OK);
        expect_no_thread(s, LENGTH);
    }
    free(bytes);
}

/* A stream that goes on does start one, and only one. */
Test(small, what_is_not_small_has_one_thread)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(100000, 1000)) };
        struct ahead_stream *s = open_mode(&sc, m, 4096);
        struct ahead_stats stats;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 100000);
        ahead_get_stats(s, &stats);
        expect_u64(stats.threads_started, m->flags & AHEAD_SYNC ? 0 : 1);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F201: what is known to be small gets no more than it needs. */
Test(small, a_known_rest_bounds_the_buffer)
{
    struct script sc = { .step = STEPS(BYTES(5000)), .has = HAS_REMAINING };
    struct ahead_stream *s = script_open(&sc, NULL);
    struct ahead_buffer b;

    expect_status(ahead_buffer_alloc(s, &b), AHEAD_OK);
    expect_status(ahead_swap_buffer(s, &b), AHEAD_OK);
    expect_size(b.len, 5000);
    expect_true(b.cap <= 8192);
    ahead_buffer_free(&b);
    expect_ending(s, AHEAD_EOF, 0, 5000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* remaining() is a hint, whatever it says. */
Test(small, a_wrong_hint_costs_no_byte)
{
    static const uint64_t says[] = { 1, 99, 100000, (uint64_t)1 << 40, UINT64_MAX - 1, UINT64_MAX };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
            struct script sc = { .step = STEPS(RANDOM(20000, 500)),
                                 .has = HAS_REMAINING | HAS_UNIT,
                                 .remaining = says[i],
                                 .unit = i * 100 };
            struct ahead_stream *s = open_mode(&sc, m, i % 2 ? 1000 : 0);

            expect_note("%s, says %ju", m->name, (uintmax_t)says[i]);
            expect_pattern(s, 0, 20000);
            expect_ending(s, AHEAD_EOF, 0, 20000);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* A default buffer holds the largest block. */
Test(small, a_default_buffer_holds_the_unit)
{
    struct script sc = { .step = STEPS(BYTES(10)), .has = HAS_UNIT, .unit = 6 << 20 };
    struct ahead_stream *s = script_open(&sc, NULL);
    struct ahead_buffer b;

    expect_status(ahead_buffer_alloc(s, &b), AHEAD_OK);
    expect_true(b.cap >= 6 << 20);
    expect_size(b.len, 0);
    ahead_buffer_free(&b);
    expect_pattern(s, 0, 10);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

#if !UNDER_ASAN && !UNDER_TSAN
/* F201: an open stream costs little until its first read. */
Test(small, an_unread_stream_costs_less_than_4_kib)
{
    enum { N = 200 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    size_t before;

    s[0] = script_open(&sc[0], NULL);
    before = mallinfo2().uordblks;
    for (int i = 1; i < N; i++)
        s[i] = script_open(&sc[i], NULL);
    expect_true((mallinfo2().uordblks - before) / (N - 1) < 4096);
    for (int i = 0; i < N; i++)
        expect_status(ahead_close(s[i]), AHEAD_OK);
}

/* F226: of the largest buffer only what is used is touched. */
Test(small, a_gib_of_buffer_is_not_touched)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *s;
    FILE *statm;
    long size, resident;

    mallopt(M_PERTURB, 0); /* meson has malloc() write to all that it gives */
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = (size_t)1 << 30 });
    expect_pattern(s, 0, 10);
    statm = fopen("/proc/self/statm", "r");
    expect_true(statm != NULL);
    expect_int(fscanf(statm, "%ld %ld", &size, &resident), 2);
    fclose(statm);
    expect_true(resident * sysconf(_SC_PAGESIZE) < 32 << 20);
    expect_ending(s, AHEAD_EOF, 0, 10);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}
#endif

/* What is at hand. */

/* F122: never blocks, never asks, and so many bytes come without waiting. */
Test(buffered, says_what_can_be_read_without_waiting)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(90, 15), STALL, BYTES(5)) };
        struct ahead_stream *s;
        uint64_t start;
        size_t n;

        expect_note("%s", m->name);
        s = open_mode(&sc, m, 200);
        expect_pattern(s, 0, 1);
        if (!(m->flags & AHEAD_SYNC)) {
            /* Let the fill bring all there is, and then block. */
            if (m->flags & AHEAD_EAGER) {
                expect_eventually(sc.stalls == 1);
                expect_eventually(ahead_buffered(s) == 89);
            }
        }
        start = now_ns();
        n = ahead_buffered(s);
        expect_within_ms(start, 10);
        expect_true(n <= 89);
        expect_pattern(s, 1, n);
        expect_within_ms(start, 100);
        expect_true(ahead_tell(s) == 1 + n);
        script_release(&sc);
        expect_pattern(s, 1 + n, 94 - n);
        expect_ending(s, AHEAD_EOF, 0, 95);
        expect_size(ahead_buffered(s), 0);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Counting. */

Test(stats, are_what_happened)
{
    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(RANDOM(30000, 3000)), .seed = *b };
            struct ahead_stream *s = open_mode(&sc, m, *b);
            struct ahead_stats stats;

            expect_note("%s, buffer %zu", m->name, *b);
            for (uint64_t pos = 0; pos < 30000; pos += 3000) {
                expect_pattern(s, pos, 3000);
                ahead_get_stats(s, &stats);
                expect_u64(stats.bytes, pos + 3000);
            }
            expect_ending(s, AHEAD_EOF, 0, 30000);
            ahead_get_stats(s, &stats);
            expect_u64(stats.bytes, 30000);
            expect_true(stats.source_reads > 0);
            expect_true(stats.source_reads <=
                        script_count(&sc, CALL_READ) + script_count(&sc, CALL_CLAIM));
            expect_true(stats.swaps + 1 >= 30000 / *b);
            expect_true(stats.swaps <= stats.fills);
            expect_u64(stats.discarded_bytes, 0);
            expect_true(stats.threads_started <= 1);
            expect_true(stats.reader_wait_ns == 0 || stats.reader_waits > 0);
            expect_true(stats.fill_wait_ns == 0 || stats.fill_waits > 0);
            if (m->flags & AHEAD_SYNC) {
                expect_u64(stats.threads_started + stats.reader_waits + stats.fill_waits, 0);
                expect_u64(stats.wakeups + stats.helped_pieces + stats.early_returns, 0);
                expect_u64(stats.sync_fills, stats.source_reads);
            }
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* The pages of a buffer are used in full, however small the pieces (F218). */
Test(stats, small_pieces_make_full_buffers)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(2000000, 100)) };
        struct ahead_stream *s;
        struct ahead_stats stats;

        if (m->stagger_us)
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 65536);
        for (uint64_t pos = 0; pos < 2000000; pos += 50000) {
            expect_pattern(s, pos, 50000);
            sleep_us(200); /* a slow reader */
        }
        ahead_get_stats(s, &stats);
        expect_true(stats.swaps <= (uint64_t)(2000000 / (0.95 * 65536) + 2));
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Closing. */

/* F142: once, after whatever has happened. */
Test(close, closes_the_source_once_in_every_state)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 256; b *= 4)
            for (uint64_t n = 0; n <= 100; n += 20) {
                struct script sc = { .step = STEPS(PIECES(80, 7)) };
                struct ahead_stream *s = open_mode(&sc, m, b);
                uint8_t bytes[100];

                expect_note("%s, buffer %zu, %ju read", m->name, b, (uintmax_t)n);
                (void)!ahead_read_full(s, bytes, n, NULL);
                if (n == 60)
                    ahead_cancel(s);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

Test(close, does_without_the_hooks_that_a_source_may_lack)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(800, 7)), .has = LACKS_INTERRUPT | LACKS_CLOSE };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 300);
        ahead_cancel(s);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F106: the source fails when both buffers are full. */
Test(close, returns_although_the_source_failed_behind_full_buffers)
{
    for (each_mode(m))
        for (int reads = 0; reads < 2; reads++) {
            struct script sc = { .step = STEPS(PIECES(128, 16), ERRNO(EIO)) };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            uint64_t start;

            expect_note("%s, reads %d", m->name, reads);
            if (m->flags & AHEAD_EAGER)
                expect_eventually(ahead_buffered(s) >= 64);
            if (reads) {
                expect_pattern(s, 0, 128);
                expect_ending(s, AHEAD_IO, EIO, 128);
            }
            start = now_ns();
            expect_status(ahead_close(s), reads ? AHEAD_IO : AHEAD_OK);
            expect_within_ms(start, 200);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F110: from inside a function of the stream's own source. */
static enum ahead_status closed_inside;
static atomic_uint closed_inside_calls;

static void close_from_inside(struct script *sc, enum script_call call)
{
    struct ahead_stream *s = sc->user;

    if (call != CALL_READ && call != CALL_CLAIM && call != CALL_MAKE && call != CALL_SKIP &&
        call != CALL_SEEK)
        return;
    if (s) {
        closed_inside = ahead_close(s);
        closed_inside_calls++;
        sc->user = NULL;
    }
}

Test(close, from_inside_the_source_is_refused)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(500, 10)), .on_call = close_from_inside };
        struct ahead_stream *s;

        if (m->flags & AHEAD_EAGER)
            continue; /* `user` would be set too late */
        expect_note("%s", m->name);
        closed_inside_calls = 0;
        s = open_mode(&sc, m, 16);
        sc.user = s;
        expect_pattern(s, 0, 500);
        expect_u64(closed_inside_calls, 1);
        expect_status(closed_inside, AHEAD_INVALID);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* The same inside the functions that close itself calls, on whichever thread, and
 * inside those that a cancel calls. */
static void close_from_hook(struct script *sc, enum script_call call)
{
    struct ahead_stream *s;

    if (call != CALL_INTERRUPT && call != CALL_CLOSE)
        return;
    s = sc->user;
    if (s) {
        sc->user = NULL; /* once, or it would never end */
        closed_inside = ahead_close(s);
        closed_inside_calls++;
    }
}

Test(close, from_inside_interrupt_or_close_is_refused, .timeout = 20 * TIME_SCALE)
{
    for (each_mode(m))
        for (int hook = 0; hook < 3; hook++) {
            struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)),
                                 .on_call = close_from_hook };
            struct ahead_stream *s;

            if (hook == 0 && !(m->flags & AHEAD_EAGER))
                continue; /* nobody is there to be interrupted */
            expect_note("%s, hook %d", m->name, hook);
            closed_inside_calls = 0;
            s = open_mode(&sc, m, 64);
            if (hook < 2 && m->flags & AHEAD_EAGER)
                expect_eventually(sc.stalls == 1);
            if (hook == 1)
                ahead_cancel(s); /* so that only close() of the source is left */
            sc.user = s;
            if (hook == 2)
                ahead_cancel(s);
            else
                expect_status(ahead_close(s), AHEAD_OK);
            expect_u64(closed_inside_calls, 1);
            expect_status(closed_inside, AHEAD_INVALID);
            if (hook == 2)
                expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F234: any number of times, in any state, from inside as well. */
static void cancel_from_inside(struct script *sc, enum script_call call)
{
    if (call == CALL_READ || call == CALL_CLAIM || call == CALL_INTERRUPT)
        ahead_cancel(sc->user);
}

Test(cancel, from_inside_the_source_ends_the_stream)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(500, 10)), .on_call = cancel_from_inside };
        struct ahead_stream *s;
        uint8_t bytes[500];
        size_t got = 0;

        if (m->flags & AHEAD_EAGER)
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 16);
        sc.user = s;
        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_CANCELLED);
        expect_size(pattern_match(bytes, 0, got), got);
        expect_ending(s, AHEAD_CANCELLED, 0, got);
        sc.user = NULL;
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* In a build with checks a second thread inside a call is refused (F229). */
#ifdef AHEAD_CHECKS
static void *read_too(void *arg)
{
    static enum ahead_status st;
    uint8_t byte;

    st = ahead_read(arg, &byte, 1, NULL);
    return &st;
}

Test(stream, a_second_reader_is_refused_in_a_checked_build)
{
    struct script sc = { .step = STEPS(STALL, BYTES(4)) };
    struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16 });
    pthread_t first;
    void *result;
    uint8_t byte;

    expect_int(pthread_create(&first, NULL, read_too, s), 0);
    expect_eventually(sc.stalls == 1);
    expect_status(ahead_read(s, &byte, 1, NULL), AHEAD_INVALID);
    script_release(&sc);
    expect_int(pthread_join(first, &result), 0);
    expect_status(*(enum ahead_status *)result, AHEAD_OK);
    expect_pattern(s, 1, 3);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}
#endif
