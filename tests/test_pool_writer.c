/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool_writer.c - writers on a pool: its threads write behind them, within its budget. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/fake_sink.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define OK(call) expect_status(call, AHEAD_OK)

static struct ahead_pool *open_pool(unsigned threads, uint64_t budget)
{
    struct ahead_pool *p = NULL;
    struct ahead_pool_options opt = { .threads = threads, .byte_budget = budget };

    OK(ahead_pool_open(&p, &opt));
    return p;
}

static struct ahead_pool_stats pool_stats(struct ahead_pool *p)
{
    struct ahead_pool_stats stats;

    ahead_pool_get_stats(p, &stats);
    return stats;
}

/* Nothing is lent any more, and it can be closed. */
static void close_pool(struct ahead_pool *p)
{
    expect_u64(pool_stats(p).bytes, 0);
    expect_int(pool_stats(p).users, 0);
    OK(ahead_pool_close(p));
}

static struct ahead_writer_stats stats(struct ahead_writer *w)
{
    struct ahead_writer_stats stats;

    ahead_writer_get_stats(w, &stats);
    return stats;
}

/* The next n bytes of the pattern. */
static enum ahead_status write_on(struct ahead_writer *w, size_t n)
{
    uint8_t bytes[4096];
    enum ahead_status st = AHEAD_OK;

    for (size_t len; !st && n > 0; n -= len) {
        len = n < sizeof bytes ? n : sizeof bytes;
        pattern_fill(bytes, ahead_writer_tell(w), len);
        st = ahead_write(w, bytes, len);
    }
    return st;
}

/* One thread, kept in a sink until it is let go: what else is on the pool finds it busy. */
struct busy {
    struct fake_sink fs;
    struct ahead_writer *w;
};

static void keep_busy(struct busy *b, struct ahead_pool *p)
{
    struct ahead_options opt = { .buffer_bytes = 8, .pool = p };

    *b = (struct busy){ .fs = { .stalls = true } };
    b->w = fake_open(&b->fs, &opt);
    OK(write_on(b->w, 9)); /* more than one buffer: the pool is told */
    expect_eventually(atomic_load(&b->fs.stalled) == 1);
}

static void let_go(struct busy *b)
{
    fake_release(&b->fs);
    OK(ahead_writer_close(b->w));
    expect_fake(&b->fs, 9);
}

Test(pool_writer, small_output_needs_no_thread)
{
    struct ahead_pool *p = open_pool(2, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);

    expect_int(pool_stats(p).users, 1);
    OK(write_on(w, 100));
    OK(ahead_writer_close(w));
    expect_int(pool_stats(p).threads_started, 0);
    expect_fake(&fs, 100);
    close_pool(p);
}

Test(pool_writer, pool_writes_behind_a_sink_that_is_stuck)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p };
    struct fake_sink fs = { .stalls = true };
    struct ahead_writer *w = fake_open(&fs, &opt);

    OK(write_on(w, 200));
    expect_eventually(atomic_load(&fs.stalled) == 1);
    expect_u64(stats(w).producer_waits, 0);
    expect_u64(stats(w).threads_started, 0);
    expect_int(pool_stats(p).threads_started, 1);
    expect_status(ahead_pool_close(p), AHEAD_INVALID);
    fake_release(&fs);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 200);
    close_pool(p);
}

/* A pool whose threads are all somewhere else is no reason to wait. */
Test(pool_writer, producer_writes_while_the_pool_is_busy)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct busy busy;

    keep_busy(&busy, p);
    for (unsigned limits = 0; limits < 2; limits++) {
        struct ahead_options opt = { .buffer_bytes = 100,
                                     .pool = p,
                                     .close_timeout_ms = limits ? 50 : 0 };
        struct fake_sink fs = { .most = 0 };
        struct ahead_writer *w = fake_open(&fs, &opt);

        OK(write_on(w, 950));
        expect_true(atomic_load(&fs.taken) >= 700);
        OK(ahead_writer_flush(w));
        expect_size(fs.flushed, 950);
        OK(write_on(w, 30));
        /* With a limit, close leaves the sink to a thread, which does not come. */
        expect_status(ahead_writer_close(w), limits ? AHEAD_TIMEDOUT : AHEAD_OK);
        if (limits) {
            let_go(&busy);
            expect_eventually(fake_closed(&fs));
            expect_eventually(pool_stats(p).users == 0);
        }
        expect_fake(&fs, limits ? 950 : 980);
    }
    close_pool(p);
}

/* It writes what it needs to go on, and no more: the pool comes for the rest. */
Test(pool_writer, what_the_producer_leaves_is_written)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w;
    struct busy busy;

    keep_busy(&busy, p);
    w = fake_open(&fs, &opt);
    OK(write_on(w, 250));
    expect_u64(atomic_load(&fs.taken), 100);
    let_go(&busy);
    expect_eventually(atomic_load(&fs.taken) == 200);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 250);
    close_pool(p);
}

/* With a limit the producer stays out of the sink, also while no thread comes. */
Test(pool_writer, a_time_limit_holds_while_no_thread_comes)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p, .read_timeout_ms = 20 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w;
    struct busy busy;

    keep_busy(&busy, p);
    w = fake_open(&fs, &opt);
    OK(write_on(w, 200));
    expect_status(ahead_write_u8(w, pattern_byte(200)), AHEAD_TIMEDOUT);
    expect_status(ahead_writer_flush(w), AHEAD_TIMEDOUT);
    expect_u64(ahead_writer_tell(w), 200);
    expect_int(atomic_load(&fs.writes), 0);
    let_go(&busy);
    expect_eventually(atomic_load(&fs.taken) == 200);
    OK(write_on(w, 1));
    OK(ahead_writer_close(w));
    expect_fake(&fs, 201);
    close_pool(p);
}

Test(pool_writer, close_runs_out_of_time)
{
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct ahead_pool *p = open_pool(1, MIB);
        struct ahead_options opt = { .buffer_bytes = 50, .pool = p, .close_timeout_ms = 50 };
        /* Slow to close, so that the close of the writer has returned before. */
        struct fake_sink fs = { .stalls = true, .stall_at = 20, .deaf = deaf, .close_us = 50000 };
        struct ahead_writer *w = fake_open(&fs, &opt);
        struct ahead_error err;

        OK(write_on(w, 60));
        expect_eventually(atomic_load(&fs.stalled) == 1);
        expect_status(ahead_writer_close_error(w, &err), AHEAD_TIMEDOUT);
        expect_u64(err.offset, 20);
        expect_int(pool_stats(p).users, 1); /* it is the thread's now */
        expect_status(ahead_pool_close(p), AHEAD_INVALID);
        fake_release(&fs);
        expect_eventually(fake_closed(&fs));
        expect_eventually(pool_stats(p).users == 0);
        expect_fake(&fs, deaf ? 50 : 20);
        close_pool(p);
    }
}

Test(pool_writer, without_threads_producers_write)
{
    struct ahead_pool *p = open_pool(2, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p, .close_timeout_ms = 1000 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);

    fail_always(FAILING_THREAD, true);
    OK(write_on(w, 990));
    OK(ahead_writer_close(w));
    fail_always(FAILING_THREAD, false);
    expect_fake(&fs, 990);
    close_pool(p);
}

Test(pool_writer, a_failure_is_told)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p };
    struct fake_sink fs = { .fails = true, .fail_at = 250, .fail_errno = ENOSPC };
    struct ahead_writer *w = fake_open(&fs, &opt);
    struct ahead_error err;
    enum ahead_status st = AHEAD_OK;

    for (unsigned i = 0; i < 100 && !st; i++)
        st = write_on(w, 50);
    expect_status(st, AHEAD_IO);
    expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
    expect_u64(err.offset, 250);
    expect_int(err.os_errno, ENOSPC);
    expect_fake(&fs, 250);
    close_pool(p);
}

/* A thread that a sink ends is lost to the pool; the writer fails and can be closed. */
Test(pool_writer, thread_that_dies_is_a_failure)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 8, .pool = p, .read_timeout_ms = 60000 };
    struct fake_sink fs = { .fails = true, .dies = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    enum ahead_status st = AHEAD_OK;

    while (!st)
        st = write_on(w, 8);
    expect_status(st, AHEAD_IO);
    expect_status(ahead_writer_close(w), AHEAD_IO);
    expect_fake(&fs, 0);
    close_pool(p);
}

static void *cancel_it(void *w)
{
    ahead_writer_cancel(w);
    return NULL;
}

Test(pool_writer, cancel_wakes_and_drops)
{
    for (unsigned busy_pool = 0; busy_pool < 2; busy_pool++) {
        struct ahead_pool *p = open_pool(1, 0);
        struct ahead_options opt = { .buffer_bytes = 8,
                                     .pool = p,
                                     .read_timeout_ms = busy_pool ? 60000 : 0 };
        struct fake_sink fs = { .stalls = true, .has_finish = true };
        struct busy busy;
        struct ahead_writer *w;
        pthread_t thread;

        if (busy_pool)
            keep_busy(&busy, p);
        w = fake_open(&fs, &opt);
        OK(write_on(w, 16));
        expect_int(pthread_create(&thread, NULL, cancel_it, w), 0);
        expect_status(write_on(w, 1), AHEAD_CANCELLED);
        pthread_join(thread, NULL);
        expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
        expect_fake(&fs, 0);
        if (busy_pool)
            let_go(&busy);
        close_pool(p);
    }
}

/* ---- many, and within one another ---- */

/* F198, F199 */
Test(pool_writer, a_hundred_writers_on_two_threads, .timeout = 100 * TIME_SCALE)
{
    enum { N = 100, EACH = 20000 };
    static struct fake_sink fs[N];
    static struct ahead_writer *w[N];
    struct ahead_pool *p = open_pool(2, MIB);
    struct ahead_options opt = { .buffer_bytes = 1000, .pool = p };

    for (unsigned i = 0; i < N; i++) {
        fs[i] = (struct fake_sink){ .most = 300, .random = true, .seed = i };
        w[i] = fake_open(&fs[i], &opt);
    }
    for (unsigned at = 0; at < EACH; at += 500)
        for (unsigned i = 0; i < N; i++)
            OK(write_on(w[i], 500));
    for (unsigned i = 0; i < N; i++) {
        OK(ahead_writer_close(w[i]));
        expect_fake(&fs[i], EACH);
    }
    expect_int(pool_stats(p).threads_started, 2);
    close_pool(p);
}

/* F202: a sink that writes to another writer of the pool. */
static ssize_t pass_on(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    enum ahead_status st = ahead_write(ctx, src, len);

    if (st)
        *err = *ahead_writer_error(ctx);
    return st ? -1 : (ssize_t)len;
}

static enum ahead_status close_inner(void *ctx, struct ahead_error *err)
{
    return ahead_writer_close_error(ctx, err);
}

Test(pool_writer, stacks_three_deep_on_one_thread, .timeout = 100 * TIME_SCALE)
{
    static const struct ahead_sink_ops ops = { .write = pass_on, .close = close_inner };

    for (unsigned limit = 0; limit < 2; limit++) {
        struct ahead_pool *p = open_pool(1, 64 * KIB);
        struct ahead_options opt = { .buffer_bytes = 700,
                                     .pool = p,
                                     .read_timeout_ms = limit ? 60000 : 0,
                                     .close_timeout_ms = limit ? 60000 : 0 };
        struct fake_sink fs = { .most = 100, .random = true };
        struct ahead_writer *w = fake_open(&fs, &opt);
        uint64_t start = now_ns();

        for (unsigned depth = 1; depth < 3; depth++) {
            struct ahead_sink sink = { .ops = &ops, .ctx = w };

            opt.buffer_bytes -= 200;
            OK(ahead_writer_open(&w, sink, &opt));
        }
        OK(write_on(w, 100000));
        OK(ahead_writer_flush(w));
        OK(write_on(w, 10000));
        OK(ahead_writer_close(w));
        expect_within_ms(start, 5000);
        expect_fake(&fs, 110000);
        close_pool(p);
    }
}

/* A reader and a writer that copy, both on one thread. */
Test(pool_writer, is_shared_by_readers_and_writers)
{
    struct script sc = { .step = STEPS(RANDOM(100000, 300)), .seed = 7 };
    struct ahead_pool *p = open_pool(1, 32 * KIB);
    struct ahead_options opt = { .buffer_bytes = 3000, .pool = p };
    struct ahead_stream *s = script_open(&sc, &opt);
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint8_t bytes[777];
    size_t got;
    enum ahead_status st;

    expect_int(pool_stats(p).users, 2);
    do {
        st = ahead_read(s, bytes, sizeof bytes, &got);
        OK(ahead_write(w, bytes, got));
    } while (!st);
    expect_status(st, AHEAD_EOF);
    expect_true(pool_stats(p).peak_bytes <= 32 * KIB);
    OK(ahead_writer_close(w));
    OK(ahead_close(s));
    expect_str(script_closing_verdict(&sc), "ok");
    expect_fake(&fs, 100000);
    close_pool(p);
}

/* ---- the budget ---- */

/* F200: what is lent is counted, and never more than there is. */
Test(pool_writer, the_budget_is_never_exceeded, .timeout = 100 * TIME_SCALE)
{
    enum { N = 12 };
    static const uint64_t budgets[] = { 4096, 8192, 20000, 64 * KIB, 300 * KIB, 2 * MIB };

    for (unsigned b = 0; b < sizeof budgets / sizeof *budgets; b++) {
        struct ahead_pool *p = open_pool(2, budgets[b]);
        struct ahead_options opt = { .pool = p };
        struct fake_sink fs[N];
        struct ahead_writer *w[N];

        expect_note("budget of %llu", (unsigned long long)budgets[b]);
        for (unsigned i = 0; i < N; i++) {
            fs[i] = (struct fake_sink){ .most = 0 };
            w[i] = fake_open(&fs[i], &opt);
        }
        for (unsigned round = 0; round < 10; round++)
            for (unsigned i = 0; i < N; i++) {
                OK(write_on(w[i], 30000));
                expect_true(pool_stats(p).bytes <= budgets[b]);
            }
        expect_true(pool_stats(p).peak_bytes <= budgets[b]);
        for (unsigned i = 0; i < N; i++) {
            OK(ahead_writer_close(w[i]));
            expect_fake(&fs[i], 300000);
        }
        close_pool(p);
    }
}

/* Memory for one half: the producer waits for it to be written, and goes on. */
Test(pool_writer, goes_on_with_one_half_and_with_none)
{
    static const uint64_t budgets[] = { 4096, 3 * 4096 };
    static const uint64_t has[] = { 4096, 4096 };

    for (unsigned b = 0; b < 2; b++) {
        struct ahead_pool *p = open_pool(1, budgets[b]);
        struct ahead_options opt = { .pool = p };
        struct fake_sink fs = { .most = 1000 };
        struct ahead_writer *w = fake_open(&fs, &opt);

        OK(write_on(w, 100000));
        expect_u64(stats(w).buffer_bytes, has[b]);
        expect_true(stats(w).swaps > 20);
        OK(ahead_writer_close(w));
        expect_fake(&fs, 100000);
        expect_true(pool_stats(p).peak_bytes <= budgets[b]);
        close_pool(p);
    }
}

/* The other half's memory is not to be had while a stuck sink reads it. */
Test(pool_writer, with_one_half_a_wait_for_it_is_bounded)
{
    struct ahead_pool *p = open_pool(1, 4096);
    struct ahead_options opt = { .pool = p, .read_timeout_ms = 20 };
    struct fake_sink fs = { .stalls = true };
    struct ahead_writer *w = fake_open(&fs, &opt);

    OK(write_on(w, 4096));
    expect_status(ahead_write_u8(w, pattern_byte(4096)), AHEAD_TIMEDOUT);
    expect_status(ahead_write_u8(w, pattern_byte(4096)), AHEAD_TIMEDOUT);
    fake_release(&fs);
    expect_eventually(atomic_load(&fs.taken) == 4096);
    OK(write_on(w, 5000));
    OK(ahead_writer_close(w));
    expect_fake(&fs, 9096);
    close_pool(p);
}

/* Without a pool, too, a second half that is not to be had is done without. */
Test(pool_writer, a_writer_goes_on_without_memory_for_a_second_half)
{
    struct ahead_options opt = { .buffer_bytes = 64 };
    struct fake_sink fs = { .bytes = malloc(1000), .cap = 1000 };
    struct ahead_writer *w = fake_open(&fs, &opt);

    OK(write_on(w, 64));
    fail_always(FAILING_MEMORY, true);
    OK(write_on(w, 500));
    expect_u64(stats(w).buffer_bytes, 64);
    fail_always(FAILING_MEMORY, false);
    OK(write_on(w, 100));
    expect_u64(stats(w).buffer_bytes, 128);
    OK(ahead_writer_close(w));
    expect_size(fs.len, 664);
    expect_fake(&fs, 664);
}

/* F201: a buffer begins small, and grows for a producer that has to wait. */
Test(pool_writer, grows_only_for_a_producer_that_waits)
{
    struct ahead_pool *p = open_pool(1, 64 * MIB);
    struct ahead_options opt = { .pool = p };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t small;

    for (unsigned i = 0; i < 10; i++) {
        OK(write_on(w, 64 * KIB));
        expect_eventually(atomic_load(&fs.taken) == i * 64 * KIB);
    }
    small = stats(w).buffer_bytes;
    expect_u64(small, 128 * KIB);
    fs.write_us = 3000;
    OK(write_on(w, 4 * MIB));
    expect_true(stats(w).buffer_bytes > small);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 640 * KIB + 4 * MIB);
    close_pool(p);
}

/* Those who come late find something, and those who had all give some back. */
Test(pool_writer, shares_are_fair)
{
    struct ahead_pool *p = open_pool(1, 256 * KIB);
    struct ahead_options opt = { .pool = p };
    struct fake_sink fs[4] = { { .most = 0 } };
    struct ahead_writer *w[4];

    w[0] = fake_open(&fs[0], &opt);
    OK(write_on(w[0], MIB));
    expect_true(stats(w[0]).buffer_bytes > 100 * KIB);
    for (unsigned i = 1; i < 4; i++)
        w[i] = fake_open(&fs[i], &opt);
    for (unsigned round = 0; round < 40; round++)
        for (unsigned i = 0; i < 4; i++)
            OK(write_on(w[i], 30000));
    for (unsigned i = 0; i < 4; i++) {
        expect_true(stats(w[i]).buffer_bytes <= 64 * KIB);
        expect_true(stats(w[i]).buffer_bytes >= 24 * KIB);
    }
    for (unsigned i = 0; i < 4; i++) {
        OK(ahead_writer_close(w[i]));
        expect_fake(&fs[i], 1200000 + (i == 0) * MIB);
    }
    fs[0] = (struct fake_sink){ .most = 0 };
    w[0] = fake_open(&fs[0], &opt);
    OK(write_on(w[0], MIB));
    expect_true(stats(w[0]).buffer_bytes > 100 * KIB); /* alone again */
    OK(ahead_writer_close(w[0]));
    expect_fake(&fs[0], MIB);
    close_pool(p);
}

/* ---- the process ---- */

static int in_child(struct ahead_pool *p, struct ahead_writer *w)
{
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *other;

    if (ahead_writer_open(&other, fake_sink(&fs), &(struct ahead_options){ .pool = p }) != AHEAD_INVALID)
        return 1;
    if (ahead_writer_close(w) != AHEAD_INVALID)
        return 2;
    return ahead_pool_close(p) == AHEAD_OK ? 0 : 3;
}

/* F215 */
Test(pool_writer, a_child_of_fork_can_let_go_of_it)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_options opt = { .buffer_bytes = 100, .pool = p };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    pid_t pid;
    int status;

    OK(write_on(w, 250));
    pid = fork();
    if (pid == 0)
        _exit(in_child(p, w));
    expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    expect_true(WIFEXITED(status));
    expect_int(WEXITSTATUS(status), 0);
    OK(write_on(w, 250));
    OK(ahead_writer_close(w));
    expect_fake(&fs, 500);
    close_pool(p);
}

/* F216 */
Test(pool_writer, unwinds_from_every_failing_step)
{
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct ahead_pool *p = open_pool(1, 64 * KIB);
        struct ahead_options opt = { .buffer_bytes = 64, .pool = p };
        struct fake_sink fs = { .bytes = malloc(1000), .cap = 1000 }; /* its own do not fail */
        struct ahead_writer *w;
        struct ahead_sink sink = fake_sink(&fs);
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_writer_open(&w, sink, &opt);
        if (!st) {
            st = write_on(w, 500);
            if (!st)
                st = ahead_writer_close(w);
            else
                expect_status(ahead_writer_close(w), st);
        }
        failed = fail_step(0);
        expect_status(st, failed && st ? AHEAD_NOMEM : AHEAD_OK);
        expect_true(st || fs.len == 500);
        expect_fake(&fs, fs.len);
        close_pool(p);
        expect_int(live, 0);
    }
}

Test(pool_writer, leaves_nothing_behind)
{
    struct leaks before;

    for (unsigned i = 0; i < 20; i++) {
        struct ahead_pool *p = open_pool(2, 64 * KIB);
        struct ahead_options opt = { .buffer_bytes = 1000, .pool = p };
        struct fake_sink fs = { .most = 0 };
        struct ahead_writer *w = fake_open(&fs, &opt);

        OK(write_on(w, 10000));
        OK(ahead_writer_close(w));
        expect_fake(&fs, 10000);
        close_pool(p);
        if (i == 9)
            before = leaks_count();
    }
    expect_no_leaks(before);
}
