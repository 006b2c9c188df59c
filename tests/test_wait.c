/* SPDX-License-Identifier: Apache-2.0 */
/* test_wait.c - what wakes whom, and when: bytes, time limits, cancel and close over sources that
 * are silent. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* Processor time of the whole process, in ms. */
static double cpu_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A reader on a thread of its own, for a test that does something beside it. */
struct reader {
    pthread_t thread;
    struct ahead_stream *s;
    size_t len; /* what it asks for, by read_full */
    uint8_t bytes[4096];
    size_t got;
    enum ahead_status st;
    atomic_bool done;
    uint64_t done_ns;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;

    r->st = ahead_read_full(r->s, r->bytes, r->len, &r->got);
    r->done_ns = now_ns();
    atomic_store(&r->done, true);
    return NULL;
}

static void reader_start(struct reader *r, struct ahead_stream *s, size_t len)
{
    *r = (struct reader){ .s = s, .len = len };
    expect_int(pthread_create(&r->thread, NULL, reader_main, r), 0);
}

static void reader_join(struct reader *r)
{
    expect_int(pthread_join(r->thread, NULL), 0);
}

/* Latency. */

/* A waiting reader gets what the source has delivered, though the fill sleeps in
 * the next read() and whatever ready() says: by state, not by time.  The
 * script never delivers more, so a reader that waited for it would hang. */
Test(latency, what_was_delivered_does_not_wait_for_more)
{
    static const size_t buffers[] = { 1, 7, 100, 4096, 1 << 20 };

    for (each_mode(m))
        for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++)
            for (unsigned ready = 0; ready < 4; ready++) {
                struct script sc = { .step = STEPS(BYTES(1), STALL, BYTES(10), STALL, BYTES(1),
                                                   STALL, PIECES(30, 3), STALL),
                                     .has = ready ? HAS_READY : 0,
                                     .ready = ready ? ready - 1 : 0 };
                struct ahead_stream *s = open_mode(&sc, m, buffers[b]);
                static const unsigned group[] = { 1, 10, 1, 30 };
                uint64_t pos = 0;

                expect_note("%s, buffer %zu, ready %u", m->name, buffers[b], ready);
                for (int i = 0; i < 4; i++) {
                    expect_pattern(s, pos, group[i]);
                    pos += group[i];
                    script_release(&sc);
                }
                expect_ending(s, AHEAD_EOF, 0, 42);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

/* The same when the reader already sleeps as the bytes come: within 1 ms, with
 * 1 MiB buffers, though the source says nothing, or lies.  The better quarter
 * is looked at, so that a busy machine does not matter. */
Test(latency, a_sleeping_reader_gets_bytes_within_a_millisecond, .timeout = 120 * TIME_SCALE)
{
    enum { ROUNDS = 25 };

    for (each_mode(m))
        for (unsigned ready = 0; ready < 4; ready++) {
            struct step steps[2 * ROUNDS + 1];
            struct script sc = { .step = steps,
                                 .has = ready ? HAS_READY : 0,
                                 .ready = ready ? ready - 1 : 0 };
            struct ahead_stream *s;
            double late[ROUNDS];

            for (int i = 0; i < ROUNDS; i++) {
                steps[2 * i] = (struct step)STALL;
                steps[2 * i + 1] = (struct step)BYTES(10);
            }
            steps[2 * ROUNDS] = (struct step)END;
            expect_note("%s, ready %u", m->name, ready);
            s = open_mode(&sc, m, 1 << 20);
            for (int i = 0; i < ROUNDS; i++) {
                struct reader r;
                uint64_t start;

                reader_start(&r, s, 10);
                expect_eventually(sc.stalls == (unsigned)i + 1);
                sleep_us(2000); /* so that it sleeps, whatever it naps first */
                start = now_ns();
                script_release(&sc);
                reader_join(&r);
                late[i] = (double)(r.done_ns - start) / 1e6;
                expect_status(r.st, AHEAD_OK);
                expect_size(pattern_match(r.bytes, 10u * (unsigned)i, 10), 10);
            }
            qsort(late, ROUNDS, sizeof *late, compare_double);
            expect_true(late[ROUNDS / 4] <= 1.0 * 3 * time_scale());
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F222: the same over a real pipe. */
Test(latency, a_pipe_that_trickles_is_read_group_by_group)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
        struct ahead_source src;
        struct ahead_stream *s;
        double late[50];
        int end[2];

        expect_note("flags %u", flags);
        expect_int(pipe(end), 0);
        expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(
            ahead_open(&s, src, &(struct ahead_options){ .buffer_bytes = 1 << 20, .flags = flags }),
            AHEAD_OK);
        for (int i = 0; i < 50; i++) {
            struct reader r;
            uint8_t ten[10];
            uint64_t start;

            pattern_fill(ten, 10u * (unsigned)i, 10);
            reader_start(&r, s, 10);
            sleep_us(3000);
            start = now_ns();
            expect_int(write(end[1], ten, 10), 10);
            reader_join(&r);
            late[i] = (double)(r.done_ns - start) / 1e6;
            expect_status(r.st, AHEAD_OK);
            expect_size(pattern_match(r.bytes, 10u * (unsigned)i, 10), 10);
        }
        qsort(late, 50, sizeof *late, compare_double);
        expect_true(late[12] <= 1.0 * 3 * time_scale());
        close(end[1]);
        expect_ending(s, AHEAD_EOF, 0, 500);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

/* F222: exactly one buffer and then silence; and one buffer and a bit. */
Test(latency, a_full_buffer_does_not_wait_for_the_next_read)
{
    for (each_mode(m))
        for (unsigned extra = 0; extra < 3; extra++) {
            struct script sc = { .step = STEPS(BYTES(64), BYTES(extra), STALL, BYTES(5)) };
            struct ahead_stream *s = open_mode(&sc, m, 64);

            expect_note("%s, %u more", m->name, extra);
            expect_pattern(s, 0, 64 + extra);
            script_release(&sc);
            expect_pattern(s, 64 + extra, 5);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F222: request and reply over a socket pair, larger than the buffer and smaller. */
static void *echo_main(void *arg)
{
    int fd = *(int *)arg;
    uint8_t bytes[300];

    for (;;) {
        size_t have = 0;

        while (have < 100) {
            ssize_t n = read(fd, bytes + have, 100 - have);

            if (n <= 0)
                return NULL;
            have += (size_t)n;
        }
        if (write(fd, bytes, 100) != 100)
            return NULL;
    }
}

Test(latency, request_and_reply_never_stall)
{
    static const size_t buffers[] = { 7, 100, 65536 };

    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++)
        for (size_t b = 0; b < 3; b++) {
            struct ahead_source src;
            struct ahead_stream *s;
            pthread_t echo;
            int end[2];

            expect_note("flags %u, buffer %zu", flags, buffers[b]);
            expect_int(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
            expect_int(pthread_create(&echo, NULL, echo_main, &end[1]), 0);
            expect_status(ahead_source_fd(&src, end[0], 0), AHEAD_OK);
            expect_status(
                ahead_open(&s, src,
                           &(struct ahead_options){ .buffer_bytes = buffers[b], .flags = flags }),
                AHEAD_OK);
            for (unsigned i = 0; i < 200; i++) {
                uint8_t request[100];

                pattern_fill(request, 100 * i, 100);
                expect_int(write(end[0], request, 100), 100);
                expect_pattern(s, 100 * i, 100);
            }
            expect_status(ahead_close(s), AHEAD_OK);
            close(end[0]);
            pthread_join(echo, NULL);
            close(end[1]);
        }
}

/* PROTOCOL: helping must not deadlock.  A source whose peer sends the next block
 * only when it has seen what the reader made of the one before. */
Test(latency, a_split_source_coupled_to_its_reader_does_not_deadlock)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(20, 10), STALL, PIECES(20, 10), STALL,
                                           PIECES(20, 10), STALL) };
        struct ahead_stream *s;

        if (!m->split)
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        for (uint64_t pos = 0; pos < 60; pos += 20) {
            expect_pattern(s, pos, 20);
            script_release(&sc);
        }
        expect_ending(s, AHEAD_EOF, 0, 60);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Cancel. */

/* Have `n` bytes at hand and read none of them.  A cancel leaves what is being
 * made behind, so what a reader gets in spite of one is certain only then. */
static void expect_at_hand(struct ahead_stream *s, size_t n)
{
    const uint8_t *data;
    size_t len;

    expect_status(ahead_peek(s, n, &data, &len), AHEAD_OK);
    expect_true(len >= n);
}

/* F107, F138, F139: in the wait, however deep it is. */
Test(cancel, frees_a_reader_that_waits_for_a_silent_source)
{
    for (each_mode(m))
        for (unsigned before = 0; before <= 10; before += 5) {
            struct script sc = { .step = STEPS(BYTES(before), STALL, BYTES(10)) };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            struct reader r;
            uint64_t start;

            expect_note("%s, %u before", m->name, before);
            expect_at_hand(s, before);
            reader_start(&r, s, 100);
            expect_eventually(sc.stalls == 1);
            sleep_us(2000);
            start = now_ns();
            ahead_cancel(s);
            reader_join(&r);
            expect_within_ms(start, 100);
            expect_status(r.st, AHEAD_CANCELLED);
            expect_size(r.got, before);
            expect_size(pattern_match(r.bytes, 0, before), before);
            expect_ending(s, AHEAD_CANCELLED, 0, before);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_within_ms(start, 200);
            expect_int(script_count(&sc, CALL_INTERRUPT), 1);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F119: whatever the source makes of its interruption. */
Test(cancel, is_the_only_ending_whatever_the_source_returns)
{
    static const int returns[] = { EINTR, EBADF, -1, EIO, EAGAIN };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof returns / sizeof *returns; i++) {
            struct script sc = { .step = STEPS(BYTES(5), STALL, BYTES(10)),
                                 .interrupted_errno = returns[i] };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            struct reader r;

            expect_note("%s, interrupted: %d", m->name, returns[i]);
            expect_at_hand(s, 5);
            reader_start(&r, s, 100);
            expect_eventually(sc.stalls == 1);
            ahead_cancel(s);
            reader_join(&r);
            expect_status(r.st, AHEAD_CANCELLED);
            expect_size(r.got, 5);
            expect_ending(s, AHEAD_CANCELLED, 0, 5);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F139: with nothing to wait for it ends the next call that would. */
Test(cancel, with_nobody_waiting_is_latched)
{
    for (each_mode(m))
        for (unsigned first = 0; first <= 30; first += 15) {
            struct script sc = { .step = STEPS(PIECES(30, 10), STALL, BYTES(10)) };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            uint8_t bytes[100];
            size_t got = 0;
            uint64_t start = now_ns();

            expect_note("%s, %u first", m->name, first);
            expect_pattern(s, 0, first);
            ahead_cancel(s);
            ahead_cancel(s);
            expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_CANCELLED);
            expect_true(first + got <= 30);
            expect_size(pattern_match(bytes, first, got), got);
            expect_ending(s, AHEAD_CANCELLED, 0, first + got);
            expect_within_ms(start, 500);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_true(script_count(&sc, CALL_INTERRUPT) <= 1);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F141: an ending that a call has returned stays as it is. */
Test(cancel, after_an_ending_changes_nothing)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(5), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 5);
        expect_ending(s, AHEAD_IO, EIO, 5);
        ahead_cancel(s);
        expect_ending(s, AHEAD_IO, EIO, 5);
        expect_status(ahead_close(s), AHEAD_IO);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* An ending that is known and was not returned yet gives way. */
Test(cancel, overrides_an_ending_that_nobody_has_seen)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(5), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);
        uint8_t bytes[10];
        size_t got;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 3);
        if (m->flags & AHEAD_EAGER)
            sleep_us(2000); /* the fill has met the fault by now */
        ahead_cancel(s);
        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_CANCELLED);
        expect_true(got <= 2);
        expect_ending(s, AHEAD_CANCELLED, 0, 3 + got);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F139: a tight loop over an endless source sees it within two buffers. */
static void *cancel_soon(void *arg)
{
    sleep_us(20000);
    ahead_cancel(arg);
    return NULL;
}

Test(cancel, is_seen_by_a_tight_loop)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES((uint64_t)1 << 60)) };
        struct ahead_stream *s = open_mode(&sc, m, 65536);
        struct ahead_cursor c;
        pthread_t thread;
        uint64_t start = now_ns();
        uint32_t v;
        enum ahead_status st;

        expect_note("%s", m->name);
        expect_int(pthread_create(&thread, NULL, cancel_soon, s), 0);
        c = ahead_cursor_begin(s);
        while (!(st = ahead_cursor_read_u32_be(&c, &v)))
            ;
        ahead_cursor_end(&c);
        expect_status(st, AHEAD_CANCELLED);
        expect_within_ms(start, 200);
        pthread_join(thread, NULL);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F234: from four threads at once, during reads. */
static void *cancel_often(void *arg)
{
    for (int i = 0; i < 50; i++)
        ahead_cancel(arg);
    return NULL;
}

Test(cancel, from_many_threads_is_one)
{
    for (each_mode(m))
        for (int round = 0; round < 20; round++) {
            struct script sc = { .step = STEPS(PIECES(100000, 100), STALL) };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            pthread_t threads[4];
            uint64_t pos;
            uint8_t bytes[1000];
            size_t got;
            enum ahead_status st;

            expect_note("%s, round %d", m->name, round);
            for (int i = 0; i < 4; i++)
                expect_int(pthread_create(&threads[i], NULL, cancel_often, s), 0);
            for (pos = 0; !(st = ahead_read(s, bytes, sizeof bytes, &got)); pos += got)
                expect_size(pattern_match(bytes, pos, got), got);
            expect_status(st, AHEAD_CANCELLED);
            for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
            expect_ending(s, AHEAD_CANCELLED, 0, pos);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_int(script_count(&sc, CALL_INTERRUPT), 1);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F138: over what cancel was made for. */
Test(cancel, frees_a_reader_of_a_silent_pipe_or_socket)
{
    for (int kind = 0; kind < 2; kind++)
        for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
            struct leaks before = leaks_count();
            struct ahead_source src;
            struct ahead_stream *s;
            struct reader r;
            uint64_t start;
            int end[2];

            expect_note("kind %d, flags %u", kind, flags);
            expect_int(kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, end) : pipe(end), 0);
            expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
            expect_status(ahead_open(&s, src, &(struct ahead_options){ .flags = flags }), AHEAD_OK);
            expect_int(write(end[1], "abc", 3), 3);
            expect_at_hand(s, 3);
            reader_start(&r, s, 10);
            sleep_us(20000);
            expect_true(!atomic_load(&r.done));
            start = now_ns();
            ahead_cancel(s);
            reader_join(&r);
            expect_within_ms(start, 100);
            expect_status(r.st, AHEAD_CANCELLED);
            expect_size(r.got, 3);
            expect_mem(r.bytes, "abc", 3);
            expect_status(ahead_close(s), AHEAD_OK);
            close(end[1]);
            expect_no_leaks(before);
        }
}

/* Close. */

/* F137, F138, F143: while the fill is inside the source. */
Test(close, frees_a_fill_that_waits_for_a_silent_source)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
        struct ahead_stream *s;
        uint64_t start;
        unsigned asked;

        if (!(m->flags & AHEAD_EAGER))
            continue; /* else nobody is there */
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_eventually(sc.stalls == 1);
        start = now_ns();
        expect_status(ahead_close(s), AHEAD_OK);
        expect_within_ms(start, 100);
        expect_int(script_count(&sc, CALL_INTERRUPT), 1);
        asked = script_asked(&sc);
        sleep_us(20000);
        expect_int(script_asked(&sc), asked);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(close, frees_a_fill_that_waits_for_a_silent_pipe)
{
    for (int started = 0; started < 2; started++) {
        struct leaks before = leaks_count();
        struct ahead_source src;
        struct ahead_stream *s;
        uint64_t start;
        int end[2];
        uint8_t sent[20];

        expect_note("started %d", started);
        pattern_fill(sent, 0, 20);
        expect_int(pipe(end), 0);
        expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(ahead_open(&s, src,
                                 &(struct ahead_options){ .buffer_bytes = 8,
                                                          .flags = started ? AHEAD_EAGER : 0 }),
                      AHEAD_OK);
        expect_int(write(end[1], sent, 20), 20);
        expect_pattern(s, 0, 20);
        sleep_us(10000);
        start = now_ns();
        expect_status(ahead_close(s), AHEAD_OK);
        expect_within_ms(start, 100);
        close(end[1]);
        expect_no_leaks(before);
    }
}

/* F143: no byte is taken that two buffers and a read would not hold. */
Test(close, leaves_the_rest_of_an_endless_source_alone)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES((uint64_t)1 << 60, 1000)) };
        struct ahead_stream *s = open_mode(&sc, m, 4000);
        uint64_t start;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 1);
        sleep_us(5000);
        start = now_ns();
        expect_status(ahead_close(s), AHEAD_OK);
        expect_within_ms(start, 200);
        expect_true(sc.pos <= 2 * 4000 + 1000);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F144: a source that is deaf.  Past the limit the fill owns the stream. */
Test(close, gives_up_after_its_time_limit)
{
    for (each_mode(m)) {
        static struct script all[16];
        struct script *sc = &all[m - modes];
        struct ahead_stream *s;
        uint64_t start;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        sc->step = STEPS(BYTES(10), STALL, BYTES(10));
        sc->deaf = true;
        script_set_mode(sc, m);
        s = script_open(sc, &(struct ahead_options){
                                .buffer_bytes = 64, .flags = m->flags, .close_timeout_ms = 50 });
        expect_eventually(sc->stalls == 1);
        start = now_ns();
        expect_status(ahead_close(s), AHEAD_TIMEDOUT);
        expect_true(ms_since(start) >= 49);
        expect_within_ms(start, 100);
        expect_int(script_count(sc, CALL_CLOSE), 0);
        sleep_us(10000);
        expect_int(script_count(sc, CALL_CLOSE), 0);
        script_release(sc);
        expect_eventually(atomic_load(&sc->closed));
        expect_str(script_closing_verdict(sc), "ok");
    }
}

/* Time limits. */

/* A byte that the first n of the pattern do not have. */
static uint8_t absent_byte(size_t n)
{
    uint8_t bytes[64], byte = 0;

    pattern_fill(bytes, 0, n);
    while (memchr(bytes, byte, n))
        byte++;
    return byte;
}

/* F145, F147: TIMEDOUT in time, at little cost, and nothing is lost. */
Test(timeout, ends_a_wait_and_loses_nothing, .timeout = 120 * TIME_SCALE)
{
    static const uint32_t limits[] = { 1, 5, 50, 999, 1001 };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(20)), .has = HAS_WAIT };
            const uint32_t limit = limits[i];
            struct ahead_stream *s;
            uint8_t bytes[40];
            uint64_t start, wide, skipped;
            const uint8_t *data;
            const uint8_t absent = absent_byte(30);
            size_t got = 0;
            double cpu;

            if (limit > 900 && m != modes && m != modes + 3)
                continue;
            expect_note("%s, limit %u ms", m->name, (unsigned)limit);
            script_set_mode(&sc, m);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64,
                                                          .flags = m->flags,
                                                          .read_timeout_ms = limit });
            if (limit < 50)
                expect_eventually(ahead_peek(s, 6, &data, &got) == AHEAD_OK);
            expect_pattern(s, 0, 6);
            start = now_ns();
            cpu = cpu_ms();
            expect_status(ahead_read_u64_be(s, &wide), AHEAD_TIMEDOUT);
            expect_true(ms_since(start) >= limit * 0.98 - 0.5);
            expect_within_ms(start, limit + 50);
            /* Asleep, and not asking again and again; the host takes its share. */
            expect_true(cpu_ms() - cpu < (10 + limit * 0.4) * time_scale());
            expect_status(ahead_error(s)->status, AHEAD_TIMEDOUT);
            expect_true(ahead_error(s)->text[0] != '\0');
            expect_u64(ahead_tell(s), 6);
            if (limit < 900) {
                expect_status(ahead_peek(s, 5, &data, &got), AHEAD_TIMEDOUT);
                expect_size(got, 4);
                expect_size(pattern_match(data, 6, 4), 4);
                expect_status(ahead_read_until(s, absent, 0, &data, &got), AHEAD_TIMEDOUT);
                expect_u64(ahead_tell(s), 6);
                expect_status(ahead_read_full(s, bytes, 3, &got), AHEAD_OK);
                expect_status(ahead_skip(s, 10, &skipped), AHEAD_TIMEDOUT);
                expect_u64(skipped, 1);
                expect_u64(ahead_tell(s), 10);
                expect_status(ahead_read(s, bytes, 10, &got), AHEAD_TIMEDOUT);
                expect_size(got, 0);
                expect_status(ahead_read_full(s, bytes, 10, &got), AHEAD_TIMEDOUT);
                expect_size(got, 0);
                expect_status(ahead_finish(s), AHEAD_TIMEDOUT);
            } else {
                expect_pattern(s, 6, 4);
            }
            script_release(&sc);
            expect_pattern_patiently(s, 10, 20);
            wait_patiently(s);
            expect_ending(s, AHEAD_EOF, 0, 30);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F145: a limit that ends in the next second, from everywhere in this one; all at
 * once, as they sleep.  And two that in nanoseconds are above 32 bits, the first by
 * a little: they are not waited for, but are there until the cancel. */
enum { PHASES = 20, PHASE_LIMITS = 4, LONG_LIMITS = 2 };

struct timed {
    struct reader r;
    struct script sc;
    uint64_t at_ns; /* when it begins to wait */
    uint32_t limit;
    double took_ms;
};

static void *timed_main(void *arg)
{
    struct timed *t = arg;
    uint64_t now = now_ns();

    sleep_us(t->at_ns > now ? (t->at_ns - now) / 1000 : 0);
    now = now_ns();
    reader_main(&t->r);
    t->took_ms = (double)(t->r.done_ns - now) / 1e6;
    return NULL;
}

static void timed_start(struct timed *t, uint32_t limit, uint64_t at_ns)
{
    static const struct step silent[] = { STALL, END };

    t->sc = (struct script){ .step = silent };
    t->r = (struct reader){ .len = 10 };
    t->at_ns = at_ns;
    t->limit = limit;
    t->r.s = script_open(&t->sc,
                         &(struct ahead_options){ .buffer_bytes = 64, .read_timeout_ms = limit });
    expect_int(pthread_create(&t->r.thread, NULL, timed_main, t), 0);
}

Test(timeout, is_kept_at_every_phase_of_the_second)
{
    static const uint32_t limits[PHASE_LIMITS] = { 1, 999, 1000, 1001 };
    static struct timed timed[PHASES * PHASE_LIMITS], longer[LONG_LIMITS];
    uint64_t start = now_ns() / 1000000000u * 1000000000u + 1000000000u;
    double cpu;

    for (unsigned i = 0; i < PHASES * PHASE_LIMITS; i++)
        timed_start(&timed[i], limits[i % PHASE_LIMITS],
                    start + i / PHASE_LIMITS * (1000000000u / PHASES));
    timed_start(&longer[0], 4295, start);
    timed_start(&longer[1], 19999, start);
    cpu = cpu_ms();
    for (unsigned i = 0; i < PHASES * PHASE_LIMITS; i++) {
        struct timed *t = &timed[i];

        expect_note("limit %u ms, phase %u", (unsigned)t->limit, i / PHASE_LIMITS);
        reader_join(&t->r);
        expect_status(t->r.st, AHEAD_TIMEDOUT);
        expect_true(t->took_ms >= t->limit - 0.5);
        expect_true(t->took_ms <= t->limit + 50.0 * 3 * time_scale());
        expect_status(ahead_close(t->r.s), AHEAD_OK);
        expect_str(script_closing_verdict(&t->sc), "ok");
    }
    for (unsigned i = 0; i < LONG_LIMITS; i++) {
        expect_note("limit %u ms", (unsigned)longer[i].limit);
        ahead_cancel(longer[i].r.s);
        reader_join(&longer[i].r);
        expect_status(longer[i].r.st, AHEAD_CANCELLED);
        expect_status(ahead_close(longer[i].r.s), AHEAD_OK);
    }
    expect_true(cpu_ms() - cpu < 5.0 * PHASES * PHASE_LIMITS * time_scale());
}

/* F147: read_full says how many came before its time was over. */
Test(timeout, of_read_full_counts_what_was_stored)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(20)), .has = HAS_WAIT };
        struct ahead_stream *s;
        uint8_t bytes[30];
        size_t got = 0, more = 0;

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){
                                 .buffer_bytes = 64, .flags = m->flags, .read_timeout_ms = 30 });
        wait_patiently(s);
        expect_status(ahead_read_full(s, bytes, 30, &got), AHEAD_TIMEDOUT);
        expect_size(got, 10);
        expect_u64(ahead_tell(s), 10);
        script_release(&sc);
        while (ahead_read_full(s, bytes + got, 30 - got, &more) == AHEAD_TIMEDOUT)
            got += more;
        expect_size(got + more, 30);
        expect_size(pattern_match(bytes, 0, 30), 30);
        wait_patiently(s);
        expect_ending(s, AHEAD_EOF, 0, 30);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

/* With a limit, even the first read() of a source that may block is not the
 * reader's: else nobody could watch the time. */
Test(timeout, holds_for_the_first_byte_too)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(STALL, BYTES(20)) };
        struct ahead_stream *s;
        uint8_t byte = 0;
        uint64_t start;

        if (m->flags & AHEAD_SYNC)
            continue; /* callbacks are waited for */
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){
                                 .buffer_bytes = 64, .flags = m->flags, .read_timeout_ms = 20 });
        start = now_ns();
        expect_status(ahead_read_u8(s, &byte), AHEAD_TIMEDOUT);
        expect_within_ms(start, 70);
        script_release(&sc);
        expect_pattern_patiently(s, 0, 20);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* With AHEAD_SYNC it holds for a pipe. */
Test(timeout, holds_for_a_pipe_in_every_mode)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
        struct ahead_source src;
        struct ahead_stream *s;
        uint64_t start;
        uint32_t v = 0;
        int end[2];

        expect_note("flags %u", flags);
        expect_int(pipe(end), 0);
        expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(
            ahead_open(&s, src, &(struct ahead_options){ .flags = flags, .read_timeout_ms = 20 }),
            AHEAD_OK);
        for (int i = 0; i < 3; i++) {
            start = now_ns();
            expect_status(ahead_read_u32_be(s, &v), AHEAD_TIMEDOUT);
            expect_true(ms_since(start) >= 19);
            expect_within_ms(start, 70);
        }
        expect_int(write(end[1], "\0\0", 2), 2);
        expect_status(ahead_read_u32_be(s, &v), AHEAD_TIMEDOUT);
        expect_u64(ahead_tell(s), 0);
        expect_int(write(end[1], "\1\2", 2), 2);
        expect_eventually(ahead_read_u32_be(s, &v) == AHEAD_OK);
        expect_u64(v, 0x0102);
        close(end[1]);
        wait_patiently(s);
        expect_ending(s, AHEAD_EOF, 0, 4);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

/* F154: a seek that cannot go on in time changes nothing. */
Test(timeout, of_a_seek_changes_nothing)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, PIECES(1000, 50)), .has = HAS_SEEK };
        struct ahead_stream *s;
        uint8_t byte = 0;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){
                                 .buffer_bytes = 64, .flags = m->flags, .read_timeout_ms = 20 });
        expect_eventually(sc.stalls == 1);
        expect_pattern(s, 0, 5);
        expect_status(ahead_seek(s, 900), AHEAD_TIMEDOUT);
        expect_u64(ahead_tell(s), 5);
        expect_pattern(s, 5, 5);
        expect_status(ahead_seek(s, 900), AHEAD_TIMEDOUT);
        expect_status(ahead_read_u8(s, &byte), AHEAD_TIMEDOUT);
        script_release(&sc);
        expect_pattern_patiently(s, 10, 101);
        expect_eventually(ahead_seek(s, 900) == AHEAD_OK);
        expect_pattern_patiently(s, 900, 110);
        wait_patiently(s);
        expect_ending(s, AHEAD_EOF, 0, 1010);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F107: cancel ends a seek that waits, too. */
static void *seek_main(void *arg)
{
    struct reader *r = arg;

    r->st = ahead_seek(r->s, 900);
    return NULL;
}

Test(cancel, frees_a_seek_that_waits)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, PIECES(1000, 50)), .has = HAS_SEEK };
        struct ahead_stream *s;
        struct reader r;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_eventually(sc.stalls == 1);
        r = (struct reader){ .s = s };
        expect_int(pthread_create(&r.thread, NULL, seek_main, &r), 0);
        sleep_us(3000);
        ahead_cancel(s);
        reader_join(&r);
        expect_status(r.st, AHEAD_CANCELLED);
        expect_u64(ahead_tell(s), 0);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F146: a clock that is set back, or forward, changes no wait. */
static uint64_t monotonic_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

Test(timeout, runs_by_a_clock_that_nobody_sets)
{
    pthread_cond_t cond;
    clockid_t clock = CLOCK_REALTIME;
    uint64_t before = monotonic_ns(), now;

    expect_int(ahead_thread_cond_init(&cond, &clock), 0);
    pthread_cond_destroy(&cond);
    expect_int(clock, CLOCK_MONOTONIC);
    now = ahead_thread_now_ns(clock);
    expect_true(before <= now && now <= monotonic_ns());
}
