/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c - a few threads and a bounded memory for any number of streams. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/sanitizers.h"
#include "support/script.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* What belongs to a stream beside its buffers. */
enum { STREAM_BYTES = 12 * 1024 };

static struct ahead_pool *open_pool(unsigned threads, uint64_t budget)
{
    struct ahead_pool *p = NULL;
    struct ahead_pool_options opt = { .threads = threads, .byte_budget = budget };

    expect_status(ahead_pool_open(&p, &opt), AHEAD_OK);
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
    expect_status(ahead_pool_close(p), AHEAD_OK);
}

static struct ahead_stats stats_of(struct ahead_stream *s)
{
    struct ahead_stats stats;

    ahead_get_stats(s, &stats);
    return stats;
}

/* One of many streams: where it is in its part of the pattern. */
struct one {
    struct ahead_stream *s;
    uint64_t from, at, len;
};

/* Streams over parts of one file, `each` bytes long, one behind the other. */
static void
open_parts(struct one *all, unsigned n, int fd, size_t each, const struct ahead_options *opt)
{
    for (unsigned i = 0; i < n; i++) {
        all[i] = (struct one){ .from = i * (uint64_t)each, .len = each };
        expect_status(ahead_open(&all[i].s, open_range(fd, all[i].from, each), opt), AHEAD_OK);
    }
}

/* The next n bytes, or what there is, are right. */
static void read_on(struct one *o, uint64_t n)
{
    if (n > o->len - o->at)
        n = o->len - o->at;
    expect_pattern(o->s, o->from + o->at, n);
    o->at += n;
}

static void close_all(struct one *all, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        expect_size(all[i].at, all[i].len);
        expect_status(ahead_finish(all[i].s), AHEAD_OK);
        expect_status(ahead_close(all[i].s), AHEAD_OK);
    }
}

/* Scripts of streams that are opened in a loop or a function of their own. */
static const struct step steady[] = { PIECES((uint64_t)1 << 40, 100), END };
static const struct step slow[] = { PIECES((uint64_t)1 << 40, 4096), END };
static const struct step short_one[] = { PIECES(1000, 50), END };
static const struct step short_and_bad[] = { PIECES(1000, 50), ERRNO(EIO), END };
static const struct step random_and_bad[] = { RANDOM(6000, 90), ERRNO(EIO), END };
static const struct step silent_first[] = { STALL, BYTES(100), END };
static const struct step random_20000[] = { RANDOM(20000, 300), END };
static const struct step a_hundred[] = { BYTES(100), END };
static const struct step ten_by_ten[] = { PIECES(10000, 10), END };

/* ---- the calls ---- */

Test(pool, wrong_calls_are_refused)
{
    struct ahead_pool_stats stats = { .users = 1, .bytes = 1 };
    struct ahead_pool *p = (struct ahead_pool *)&stats;

    errno = 0;
    expect_status(ahead_pool_open(NULL, NULL), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_status(ahead_pool_open(&p, &(struct ahead_pool_options){ .threads = 1025 }),
                  AHEAD_INVALID);
    expect_true(!p);
    expect_status(ahead_pool_close(NULL), AHEAD_OK);
    ahead_pool_get_stats(NULL, &stats);
    expect_int(stats.users, 0);
    expect_u64(stats.bytes, 0);
}

Test(pool, defaults_are_a_thread_for_each_core_once_there_is_work)
{
    struct script sc = { .step = STEPS(PIECES(100000, 100)) };
    struct ahead_pool *p;
    struct ahead_stream *s;

    expect_status(ahead_pool_open(&p, NULL), AHEAD_OK);
    expect_int(pool_stats(p).threads_started, 0);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1000, .pool = p });
    expect_pattern(s, 0, 900);
    expect_int(pool_stats(p).threads_started, 0); /* all of it was in the first buffer */
    expect_pattern(s, 900, 99100);
    expect_int(pool_stats(p).threads_started, sysconf(_SC_NPROCESSORS_ONLN));
    expect_ending(s, AHEAD_EOF, 0, 100000);
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
}

/* F198: and at each step the pool can do without. */
Test(pool, unwinds_from_every_failing_step)
{
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct script sc = { .step = STEPS(RANDOM(5000, 90)), .seed = (uint64_t)step };
        struct ahead_pool *p = NULL;
        struct ahead_stream *s = NULL;
        enum ahead_status st;
        uint8_t bytes[5000];
        size_t got;

        fail_step(step);
        st = ahead_pool_open(&p, &(struct ahead_pool_options){ .threads = 3 });
        if (!st)
            st = ahead_open(&s, script_source(&sc),
                            &(struct ahead_options){ .buffer_bytes = 64, .pool = p });
        if (!st)
            st = ahead_read_full(s, bytes, sizeof bytes, &got);
        failed = fail_step(0);
        expect_note("step %d", step);
        if (st)
            expect_status(st, AHEAD_NOMEM);
        else
            expect_size(pattern_match(bytes, 0, sizeof bytes), sizeof bytes);
        ahead_close(s);
        expect_status(ahead_pool_close(p), AHEAD_OK);
        expect_int(live, 0);
    }
}

Test(pool, without_threads_streams_read_for_themselves)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(RANDOM(20000, 900)) };
        struct ahead_pool *p = open_pool(2, 0);
        struct ahead_stream *s;

        expect_note("%s", m->name);
        fail_always(FAILING_THREAD, true);
        script_set_mode(&sc, m);
        s = script_open(
            &sc, &(struct ahead_options){ .buffer_bytes = 1000, .flags = m->flags, .pool = p });
        expect_pattern(s, 0, 20000);
        expect_ending(s, AHEAD_EOF, 0, 20000);
        expect_int(pool_stats(p).threads_started, 0);
        fail_always(FAILING_THREAD, false);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        close_pool(p);
    }
}

/* F204: refused while a stream lives, and then everything goes. */
Test(pool, cannot_be_closed_under_a_stream)
{
    struct leaks before = leaks_count();
    int held = live;
    struct script sc = { .step = STEPS(PIECES(10000, 100)) };
    struct ahead_pool *p = open_pool(3, 0);
    struct ahead_stream *s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = 500, .flags = AHEAD_EAGER, .pool = p });

    expect_status(ahead_pool_close(p), AHEAD_INVALID);
    expect_pattern(s, 0, 5000);
    expect_status(ahead_pool_close(p), AHEAD_INVALID);
    expect_pattern(s, 5000, 5000);
    expect_ending(s, AHEAD_EOF, 0, 10000);
    expect_status(ahead_pool_close(p), AHEAD_INVALID);
    expect_int(pool_stats(p).users, 1);
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
    expect_no_leaks(before);
    expect_int(live, held);
}

static void close_its_pool(struct script *sc, enum script_call call)
{
    if (call == CALL_READ || call == CALL_CLOSE)
        expect_status(ahead_pool_close(sc->user), AHEAD_INVALID);
}

Test(pool, cannot_be_closed_by_a_source)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct script sc = { .step = STEPS(PIECES(3000, 100)), .on_call = close_its_pool, .user = p };
    struct ahead_stream *s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = 500, .flags = AHEAD_EAGER, .pool = p });

    expect_pattern(s, 0, 3000);
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
}

/* F210 */
static int in_child(struct ahead_pool *p, struct ahead_stream *s)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *late;

    alarm(5);
    if (ahead_open(&late, script_source(&sc), &(struct ahead_options){ .pool = p }) !=
        AHEAD_INVALID)
        return 1;
    if (strcmp(script_closing_verdict(&sc), "ok") != 0)
        return 2;
    if (pool_stats(p).users != 0)
        return 3;
    ahead_close(s);
    return ahead_pool_close(p) == AHEAD_OK ? 0 : 4;
}

Test(pool, a_child_of_fork_can_let_go_of_it)
{
    struct script sc = { .step = STEPS(PIECES(5000, 100)) };
    struct ahead_pool *p = open_pool(2, 0);
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 300, .pool = p });
    pid_t pid;
    int status;

    expect_pattern(s, 0, 1250);
    pid = fork();
    if (pid == 0)
        _exit(in_child(p, s));
    expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    expect_true(WIFEXITED(status));
    expect_int(WEXITSTATUS(status), 0);
    expect_pattern(s, 1250, 3750);
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
}

/* ---- many ---- */

enum { THOUSAND = 1000 };

/* F199: two threads, however many streams; each byte in its place. */
Test(pool, a_thousand_streams_on_two_threads, .timeout = 100 * TIME_SCALE)
{
    enum { EACH = 3000 };
    static struct one all[THOUSAND];
    struct leaks before = leaks_count();
    int fd = make_file(THOUSAND * EACH);
    struct ahead_pool *p = open_pool(2, 0);

    open_parts(all, THOUSAND, fd, EACH, &(struct ahead_options){ .buffer_bytes = 500, .pool = p });
    for (unsigned at = 0; at < EACH; at += 4)
        for (unsigned i = 0; i < THOUSAND; i++) {
            uint64_t pos = all[i].from + at;
            uint32_t v;

            expect_status(ahead_read_u32_le(all[i].s, &v), AHEAD_OK);
            expect_u64(v, (uint32_t)(pattern_word(pos / 8) >> 8 * (pos % 8)));
            all[i].at += 4;
        }
    expect_int(pool_stats(p).threads_started, 2);
    expect_int(pool_stats(p).users, THOUSAND);
    expect_int(leaks_count().threads, before.threads + 2);
    close_all(all, THOUSAND);
    close_pool(p);
    remove_file(fd);
    expect_no_leaks(before);
}

/* F198: what has been read to its end holds no thread and no memory, closed or not. */
Test(pool, streams_at_their_end_hold_nothing)
{
    enum { N = 100 };
    struct leaks before = leaks_count();
    struct ahead_stream *s[2 * N];
    static struct script sc[2 * N];
    struct ahead_pool *p = open_pool(2, 0);
    uint64_t start;

    for (unsigned i = 0; i < 2 * N; i++) { /* every other one has a thread of its own */
        struct ahead_options opt = { .buffer_bytes = 100, .pool = i % 2 ? p : NULL };

        if (i % 4 < 2)
            sc[i].step = short_one;
        else
            sc[i].step = short_and_bad;
        s[i] = script_open(&sc[i], &opt);
        expect_pattern(s[i], 0, 1000);
        expect_status(ahead_finish(s[i]), i % 4 < 2 ? AHEAD_OK : AHEAD_IO);
    }
    start = now_ns();
    expect_eventually(leaks_count().threads == before.threads + 2);
    expect_within_ms(start, 200);
    expect_u64(pool_stats(p).bytes, 0);
    for (unsigned i = 0; i < 2 * N; i++)
        expect_status(ahead_close(s[i]), i % 4 < 2 ? AHEAD_OK : AHEAD_IO);
    close_pool(p);
    expect_eventually(leaks_count().threads == before.threads);
}

/* F198: the one thread fills them all, and then sleeps. */
Test(pool, streams_with_full_buffers_hold_no_thread)
{
    enum { N = 50 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    struct ahead_pool *p = open_pool(1, 0);
    uint64_t calls = 0, later = 0;

    for (unsigned i = 0; i < N; i++) {
        sc[i].step = steady;
        sc[i].split = i % 2;
        s[i] = script_open(&sc[i], &(struct ahead_options){
                                       .buffer_bytes = 1000, .flags = AHEAD_EAGER, .pool = p });
    }
    for (unsigned i = 0; i < N; i++)
        expect_eventually(ahead_buffered(s[i]) == 2000);
    for (unsigned i = 0; i < N; i++)
        calls += script_asked(&sc[i]);
    sleep_us(20000);
    for (unsigned i = 0; i < N; i++)
        later += script_asked(&sc[i]);
    expect_u64(later, calls);
    for (unsigned i = 0; i < N; i++) {
        expect_pattern(s[i], 0, 5000);
        expect_status(ahead_close(s[i]), AHEAD_OK);
        expect_str(script_closing_verdict(&sc[i]), "ok");
    }
    close_pool(p);
}

/* F199: a descriptor each, from the first read on; want of one ends the stream concerned alone. */
Test(pool, files_are_opened_when_they_are_read)
{
    enum { N = 400, LIMIT = 100 };
    struct ahead_stream *s[N];
    struct rlimit limit = { .rlim_cur = LIMIT, .rlim_max = LIMIT };
    struct leaks before = leaks_count();
    int fd = make_file(5000);
    struct ahead_pool *p = open_pool(4, 0);
    struct ahead_options opt = { .buffer_bytes = 1000, .pool = p };
    struct ahead_source src;
    unsigned good = 0;

    expect_int(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned i = 0; i < N; i++) {
        expect_status(ahead_source_path_flags(&src, path, AHEAD_FD_LAZY), AHEAD_OK);
        expect_status(ahead_open(&s[i], src, &opt), AHEAD_OK);
    }
    while (good < N && !ahead_need(s[good], 1))
        good++;
    expect_true(good > LIMIT / 2 && good < LIMIT);
    for (unsigned i = good; i < N - 1; i++) {
        expect_status(ahead_need(s[i], 1), AHEAD_IO);
        expect_int(ahead_error(s[i])->os_errno, EMFILE);
    }
    for (unsigned i = 0; i < good; i++)
        expect_pattern(s[i], 0, 5000);
    expect_status(ahead_close(s[0]), AHEAD_OK);
    expect_true(leaks_count().threads <= before.threads + 4); /* with the descriptor of that one */
    expect_pattern(s[N - 1], 0, 5000);
    for (unsigned i = 1; i < N; i++)
        expect_status(ahead_close(s[i]), i < good || i == N - 1 ? AHEAD_OK : AHEAD_IO);
    remove_file(fd);
    close_pool(p);
}

/* ---- streams on streams ---- */

/* Three streams on one another, all on the pool. */
static struct ahead_stream *open_stack(struct ahead_source src, struct ahead_options opt)
{
    struct ahead_stream *s;

    for (int i = 0; i < 2; i++) {
        expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
        expect_status(ahead_source_stream(&src, s), AHEAD_OK);
        opt.buffer_bytes += 17;
    }
    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    return s;
}

/* With a time limit, too: the thread that fills the outer stream is the reader of the inner one,
 * and must not leave to another thread what no other will do. */
Test(pool, stacks_three_deep_on_one_thread, .timeout = 100 * TIME_SCALE)
{
    for (each_mode(m))
        for (unsigned timed = 0; timed < 2; timed++) {
            struct script sc = { .step = STEPS(RANDOM(20000, 90)) };
            struct ahead_pool *p = open_pool(1, 0);
            struct ahead_options opt = { .buffer_bytes = 200,
                                         .flags = m->flags,
                                         .pool = p,
                                         .read_timeout_ms = timed ? 20000 : 0 };
            struct ahead_stream *s;

            expect_note("%s, timed %u", m->name, timed);
            script_set_mode(&sc, m);
            s = open_stack(script_source(&sc), opt);
            expect_pattern(s, 0, 20000);
            expect_ending(s, AHEAD_EOF, 0, 20000);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
            close_pool(p);
        }
}

Test(pool, many_stacks_on_one_thread, .timeout = 100 * TIME_SCALE)
{
    enum { N = 40 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    struct ahead_pool *p = open_pool(1, 64 * KIB);

    for (unsigned i = 0; i < N; i++) {
        sc[i].step = random_and_bad;
        sc[i].seed = i;
        sc[i].split = i % 2;
        s[i] =
            open_stack(script_source(&sc[i]),
                       (struct ahead_options){
                           .buffer_bytes = 200 + i, .flags = i % 3 ? 0 : AHEAD_EAGER, .pool = p });
    }
    for (unsigned at = 0; at < 6000; at += 40)
        for (unsigned i = 0; i < N; i++)
            expect_pattern(s[i], at, 40);
    for (unsigned i = 0; i < N; i++) {
        expect_ending(s[i], AHEAD_IO, EIO, 6000);
        expect_status(ahead_close(s[i]), AHEAD_IO);
        expect_str(script_closing_verdict(&sc[i]), "ok");
    }
    close_pool(p);
}

/* ---- close, in every state ---- */

/* A stream that keeps the pool's only thread. */
static struct ahead_stream *occupy(struct ahead_pool *p, struct script *sc)
{
    struct ahead_stream *s;

    sc->step = silent_first;
    s = script_open(sc, &(struct ahead_options){ .flags = AHEAD_EAGER, .pool = p });
    expect_eventually(sc->stalls == 1);
    return s;
}

static void release(struct ahead_stream *s, struct script *sc)
{
    script_release(sc);
    expect_pattern(s, 0, 100);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(sc), "ok");
}

Test(pool, close_while_the_fill_is_queued)
{
    for (each_mode(m)) {
        struct ahead_pool *p = open_pool(1, 0);
        struct script busy = { .has = 0 }, sc = { .step = STEPS(PIECES(1000, 10)) };
        struct ahead_stream *other = occupy(p, &busy), *s;

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(
            &sc, &(struct ahead_options){ .buffer_bytes = 100, .flags = AHEAD_EAGER, .pool = p });
        expect_status(ahead_close(s), AHEAD_OK);
        expect_int(script_asked(&sc), 0);
        expect_str(script_closing_verdict(&sc), "ok");
        release(other, &busy);
        close_pool(p);
    }
}

static void *let_make_later(void *arg)
{
    sleep_us(20000);
    script_let_make(arg);
    return NULL;
}

/* Its buffer is not freed, nor its source closed, before the make has ended. */
Test(pool, close_while_a_fill_runs)
{
    struct script sc = { .step = STEPS(PIECES(1000, 50)), .split = true, .hold_make = 1 };
    struct ahead_pool *p = open_pool(3, 0);
    struct ahead_stream *s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = 500, .flags = AHEAD_EAGER, .pool = p });
    pthread_t thread;

    expect_eventually(sc.held == 1);
    expect_int(pthread_create(&thread, NULL, let_make_later, &sc), 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    pthread_join(thread, NULL);
    close_pool(p);
}

Test(pool, close_while_the_source_is_blocked)
{
    for (unsigned split = 0; split < 2; split++) {
        struct script sc = { .step = STEPS(BYTES(10), STALL), .split = split };
        struct ahead_pool *p = open_pool(1, 0);
        struct ahead_stream *s = script_open(
            &sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = AHEAD_EAGER, .pool = p });

        expect_eventually(sc.stalls == 1);
        expect_pattern(s, 0, 10);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        close_pool(p);
    }
}

/* The pool outlives the stream that close gave up on, which is freed by the pool's thread. */
Test(pool, close_runs_out_of_time)
{
    struct leaks before = leaks_count();
    int held = live;
    struct script sc = { .step = STEPS(STALL, BYTES(10)), .deaf = true };
    struct ahead_pool *p = open_pool(2, 0);
    struct ahead_options opt = {
        .buffer_bytes = 64, .flags = AHEAD_EAGER, .pool = p, .close_timeout_ms = 20
    };
    struct ahead_stream *s = script_open(&sc, &opt);
    uint64_t start;

    expect_eventually(sc.stalls == 1);
    start = now_ns();
    expect_status(ahead_close(s), AHEAD_TIMEDOUT);
    expect_within_ms(start, 100);
    expect_status(ahead_pool_close(p), AHEAD_INVALID);
    script_release(&sc);
    expect_eventually(pool_stats(p).users == 0);
    close_pool(p);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_no_leaks(before);
    expect_int(live, held);
}

struct waiting {
    struct ahead_stream *s;
    enum ahead_status st;
};

static void *wait_for_bytes(void *arg)
{
    struct waiting *w = arg;

    w->st = ahead_need(w->s, 1);
    return NULL;
}

Test(pool, cancel_wakes_a_reader_that_waits)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(STALL, BYTES(10)) };
        struct waiting w = { .st = AHEAD_OK };
        struct ahead_pool *p;
        pthread_t thread;

        if (m->flags & AHEAD_SYNC)
            continue;
        expect_note("%s", m->name);
        p = open_pool(1, 0);
        script_set_mode(&sc, m);
        w.s = script_open(
            &sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = m->flags, .pool = p });
        expect_int(pthread_create(&thread, NULL, wait_for_bytes, &w), 0);
        expect_eventually(sc.stalls == 1);
        ahead_cancel(w.s);
        pthread_join(thread, NULL);
        expect_status(w.st, AHEAD_CANCELLED);
        expect_status(ahead_close(w.s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        close_pool(p);
    }
}

/* F206: what happens to one does not happen to the others. */
Test(pool, others_go_on_when_streams_are_cancelled_or_closed, .timeout = 100 * TIME_SCALE)
{
    enum { N = 64, EACH = 20000 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    struct ahead_pool *p = open_pool(2, MIB);
    uint64_t seed = 206, start;

    for (unsigned i = 0; i < N; i++) {
        sc[i].step = random_20000;
        sc[i].seed = i;
        script_set_mode(&sc[i], &modes[i % modes_len]);
        s[i] = script_open(&sc[i], &(struct ahead_options){ .buffer_bytes = 1000,
                                                            .flags = modes[i % modes_len].flags,
                                                            .pool = p });
    }
    for (unsigned at = 0; at < EACH; at += 500)
        for (unsigned i = 0; i < N; i++) {
            if (!s[i])
                continue;
            start = now_ns();
            expect_note("stream %u at %u", i, at);
            expect_pattern(s[i], at, 500);
            expect_within_ms(start, 100);
            if (i % 2 || random_below(&seed, 20) > 0)
                continue;
            if (i % 4)
                ahead_cancel(s[i]);
            expect_status(ahead_close(s[i]), AHEAD_OK);
            expect_str(script_closing_verdict(&sc[i]), "ok");
            s[i] = NULL;
        }
    for (unsigned i = 0; i < N; i++) {
        if (!s[i])
            continue;
        expect_ending(s[i], AHEAD_EOF, 0, EACH);
        expect_status(ahead_close(s[i]), AHEAD_OK);
        expect_str(script_closing_verdict(&sc[i]), "ok");
    }
    close_pool(p);
}

/* ---- whose turn it is ---- */

/* F205: both threads are in sources that have nothing to say. */
Test(pool, silent_sources_starve_nobody)
{
    enum { N = 10, EACH = 1 << 20 };
    struct one all[N];
    struct ahead_stream *silent[2];
    struct ahead_source src;
    struct ahead_pool *p = open_pool(2, 0);
    int fd = make_file(N * EACH), end[2][2];
    uint64_t start;

    for (unsigned i = 0; i < 2; i++) {
        expect_int(pipe(end[i]), 0);
        expect_status(ahead_source_fd(&src, end[i][0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(
            ahead_open(&silent[i], src, &(struct ahead_options){ .flags = AHEAD_EAGER, .pool = p }),
            AHEAD_OK);
    }
    sleep_us(10000); /* if the threads are not in there yet the test is an easier one */
    start = now_ns();
    for (unsigned timed = 0; timed < 2; timed++) {
        open_parts(all, N, fd, EACH,
                   &(struct ahead_options){ .pool = p, .read_timeout_ms = timed ? 5000 : 0 });
        for (unsigned at = 0; at < EACH; at += 64 * 1024)
            for (unsigned i = 0; i < N; i++)
                read_on(&all[i], 64 * 1024);
        close_all(all, N);
    }
    expect_within_ms(start, 1000);
    for (unsigned i = 0; i < 2; i++) {
        expect_status(ahead_close(silent[i]), AHEAD_OK);
        close(end[i][1]);
    }
    close_pool(p);
    remove_file(fd);
}

/* The pool's threads do not come, and a reader with a time limit can wait for a pipe itself. */
Test(pool, a_time_limit_holds_while_no_thread_comes)
{
    struct ahead_pool *p = open_pool(1, 0);
    struct script busy = { .has = 0 };
    struct ahead_stream *other = occupy(p, &busy), *s;
    struct ahead_source src;
    int end[2];
    uint64_t start;

    expect_int(pipe(end), 0);
    expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
    expect_status(ahead_open(&s, src, &(struct ahead_options){ .pool = p, .read_timeout_ms = 50 }),
                  AHEAD_OK);
    start = now_ns();
    expect_status(ahead_need(s, 1), AHEAD_TIMEDOUT);
    expect_true(ms_since(start) >= 49);
    expect_within_ms(start, 200);
    expect_int(write(end[1], "\x7c", 1), 1);
    start = now_ns();
    expect_status(ahead_need(s, 1), AHEAD_OK);
    expect_within_ms(start, 20);
    close(end[1]);
    expect_status(ahead_close(s), AHEAD_OK);
    release(other, &busy);
    close_pool(p);
}

/* In which order the streams' sources are asked for the first time. */
static atomic_uint asked;
static atomic_uint order[16];

static void note_order(struct script *sc, enum script_call call)
{
    if ((call == CALL_READ || call == CALL_CLAIM) && script_asked(sc) == 1)
        atomic_store(&order[atomic_fetch_add(&asked, 1)], (unsigned)(uintptr_t)sc->user);
}

/* A time limit makes the reader leave the first read to the pool. */
Test(pool, the_fill_that_a_reader_waits_for_goes_first)
{
    enum { N = 8, AWAITED = 5 };
    struct ahead_pool *p = open_pool(1, 0);
    struct script busy = { .has = 0 };
    static struct script sc[N];
    struct ahead_stream *other = occupy(p, &busy), *s[N];
    struct waiting w;
    pthread_t thread;

    for (uintptr_t i = 0; i < N; i++) {
        sc[i] = (struct script){ .step = a_hundred, .on_call = note_order, .user = (void *)i };
        s[i] = script_open(&sc[i], &(struct ahead_options){
                                       .flags = AHEAD_EAGER, .pool = p, .read_timeout_ms = 20000 });
    }
    w = (struct waiting){ .s = s[AWAITED] };
    expect_int(pthread_create(&thread, NULL, wait_for_bytes, &w), 0);
    expect_eventually(stats_of(s[AWAITED]).reader_waits == 1);
    script_release(&busy);
    pthread_join(thread, NULL);
    expect_status(w.st, AHEAD_OK);
    expect_eventually(asked == N);
    for (unsigned i = 0; i < N; i++)
        expect_eventually(ahead_buffered(s[i]) == 100);
    expect_int(order[0], AWAITED);
    for (unsigned i = 1; i < N; i++)
        expect_int(order[i], i <= AWAITED ? i - 1 : i);
    for (unsigned i = 0; i < N; i++)
        expect_status(ahead_close(s[i]), AHEAD_OK);
    expect_pattern(other, 0, 100);
    expect_status(ahead_close(other), AHEAD_OK);
    close_pool(p);
}

enum { TAKERS = 4, PIECES_EACH = 500 };

static struct script taker[TAKERS];
static atomic_uint widest; /* how far the first one was ahead of the last, in pieces */

static void note_spread(struct script *sc, enum script_call call)
{
    unsigned least = UINT32_MAX, most = 0;

    (void)sc;
    if (call != CALL_READ && call != CALL_CLAIM)
        return;
    for (unsigned i = 0; i < TAKERS; i++) {
        unsigned n = script_asked(&taker[i]);

        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    if (least < PIECES_EACH && most - least > atomic_load(&widest))
        atomic_store(&widest, most - least);
}

/* The thread makes a few pieces for the one, then for the other. */
Test(pool, a_fill_gives_way_to_others)
{
    for (unsigned split = 0; split < 2; split++) {
        struct ahead_pool *p = open_pool(1, 0);
        struct script busy = { .has = 0 };
        struct ahead_stream *other = occupy(p, &busy), *s[TAKERS];

        atomic_store(&widest, 0);
        for (unsigned i = 0; i < TAKERS; i++) {
            taker[i] =
                (struct script){ .step = ten_by_ten, .split = split, .on_call = note_spread };
            s[i] = script_open(&taker[i], &(struct ahead_options){ .buffer_bytes = 5 * PIECES_EACH,
                                                                   .flags = AHEAD_EAGER,
                                                                   .pool = p });
        }
        script_release(&busy);
        for (unsigned i = 0; i < TAKERS; i++)
            expect_eventually(ahead_buffered(s[i]) > 9 * PIECES_EACH);
        expect_note("split %u: %u ahead", split, widest);
        expect_true(widest > 0 && widest <= 8);
        for (unsigned i = 0; i < TAKERS; i++) {
            expect_pattern(s[i], 0, 20 * PIECES_EACH);
            expect_status(ahead_close(s[i]), AHEAD_OK);
            expect_str(script_closing_verdict(&taker[i]), "ok");
        }
        expect_pattern(other, 0, 100);
        expect_status(ahead_close(other), AHEAD_OK);
        close_pool(p);
    }
}

/* ---- several makers ---- */

enum { PIECE_MS = 2, PIECES_OF_ONE = 160, PIECES_OF_A_BUFFER = 8 };

/* How long it takes to read what a slow decoder makes, in ms. */
static double decode_on(unsigned threads)
{
    struct script sc = { .step = STEPS(PIECES(PIECES_OF_ONE * 1000, 1000)),
                         .split = true,
                         .make_us = PIECE_MS * 1000 };
    struct ahead_options opt = { .buffer_bytes = PIECES_OF_A_BUFFER * 1000 };
    struct ahead_stream *s;
    uint64_t start;
    double ms;

    opt.pool = open_pool(threads, 0);
    s = script_open(&sc, &opt);
    start = now_ns();
    expect_pattern(s, 0, PIECES_OF_ONE * 1000);
    ms = ms_since(start);
    expect_ending(s, AHEAD_EOF, 0, PIECES_OF_ONE * 1000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    close_pool(opt.pool);
    return ms;
}

/* The first buffer is the reader's alone; then it is one more. */
Test(pool, threads_of_a_pool_make_pieces_of_one_stream)
{
    static const unsigned threads[] = { 1, 2, 4, 8 };
    const double alone = PIECES_OF_A_BUFFER * PIECE_MS;

    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        double best = alone + (PIECES_OF_ONE * PIECE_MS - alone) / (1 + threads[i]);
        double ms = decode_on(threads[i]);

        expect_true(ms >= 0.9 * best);
        if (UNDER_TSAN || UNDER_ASAN || time_scale() > 1)
            continue; /* there it is the tool that takes the time */
        for (unsigned tries = 0; tries < 10 && ms > 1.5 * best; tries++)
            ms = decode_on(threads[i]); /* others use the machine, too */
        expect_note("%u threads: %.0f ms, %.0f at best", threads[i], ms, best);
        expect_true(ms <= 1.5 * best);
    }
}

/* ---- memory ---- */

/* F201: an open stream has nothing yet. */
Test(pool, an_open_stream_costs_little)
{
    enum { N = 100 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    struct ahead_pool *p = open_pool(1, 0);
    size_t before = live_bytes;

    for (unsigned i = 0; i < N; i++)
        s[i] = script_open(&sc[i], &(struct ahead_options){ .buffer_bytes = MIB, .pool = p });
    expect_true(live_bytes - before < N * 4 * KIB);
    expect_u64(stats_of(s[0]).buffers, 0);
    expect_u64(pool_stats(p).bytes, 0);
    for (unsigned i = 0; i < N; i++)
        expect_status(ahead_close(s[i]), AHEAD_OK);
    close_pool(p);
}

/* F201: what is left of the source is no more than that. */
Test(pool, a_small_source_gets_one_small_buffer)
{
    static const size_t sizes_[] = { 1, 4096, 4097, 60000 };

    for (size_t i = 0; i < sizeof sizes_ / sizeof *sizes_; i++) {
        size_t size = sizes_[i], pages = (size + 4095) / 4096 * 4096;
        int fd = make_file(size);
        struct ahead_pool *p = open_pool(1, 0);
        struct ahead_stream *s;

        expect_note("%zu bytes", size);
        expect_status(ahead_open(&s, open_fd(fd), &(struct ahead_options){ .pool = p }), AHEAD_OK);
        expect_status(ahead_need(s, 1), AHEAD_OK);
        expect_u64(stats_of(s).buffers, 1);
        expect_size(stats_of(s).buffer_bytes, pages);
        expect_u64(pool_stats(p).bytes, pages + 4096); /* and the page in front */
        expect_pattern(s, 0, size);
        expect_status(ahead_finish(s), AHEAD_OK);
        expect_u64(pool_stats(p).bytes, 0);
        expect_status(ahead_close(s), AHEAD_OK);
        close_pool(p);
        remove_file(fd);
    }
}

/* F200: 300 streams that would like two times 1 MiB. */
Test(pool, the_budget_is_never_exceeded, .timeout = 100 * TIME_SCALE)
{
    enum { N = 300, EACH = 150000 };
    static const size_t budgets[] = { 32 << 20, 8 << 20, 1 << 20, 1 };
    static struct one all[N];
    int fd = make_file(N * EACH);
    uint64_t seed = 200;

    for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
        struct ahead_pool *p = open_pool(2, budgets[b]);
        size_t before = live_bytes;
        unsigned left = N;

        most_bytes = before;
        open_parts(all, N, fd, EACH, &(struct ahead_options){ .buffer_bytes = MIB, .pool = p });
        while (left > 0) {
            struct one *o = &all[random_below(&seed, N)];

            left -= o->at < o->len && o->len - o->at <= 9000;
            read_on(o, 9000);
        }
        expect_note("budget of %zu", budgets[b]);
        expect_true(pool_stats(p).peak_bytes <= budgets[b]);
        expect_true(b > 1 || pool_stats(p).peak_bytes >= budgets[b] / 4);
        if (!UNDER_ASAN)
            expect_true(most_bytes - before <= budgets[b] + MIB + N * (size_t)STREAM_BYTES);
        close_all(all, N);
        close_pool(p);
    }
    remove_file(fd);
}

/* A file of `len` bytes of the pattern as LZ4Block, in blocks of 32 KiB that do not pack. */
static int make_lz4_file(size_t len)
{
    uint8_t *bytes = malloc(len);
    struct ahead_writer *w;
    struct ahead_sink sink;
    int fd = make_file(0);

    expect_true(bytes != NULL);
    pattern_fill(bytes, 0, len);
    expect_status(ahead_sink_fd(&sink, fd, 0), AHEAD_OK);
    expect_status(ahead_sink_lz4_block(&sink, sink, NULL), AHEAD_OK);
    expect_status(ahead_writer_open(&w, sink, NULL), AHEAD_OK);
    expect_status(ahead_write(w, bytes, len), AHEAD_OK);
    expect_status(ahead_writer_close(w), AHEAD_OK);
    expect_int(lseek(fd, 0, SEEK_SET), 0);
    free(bytes);
    return fd;
}

/* F200: what decoders keep of their input comes on top: a block, and a little. */
Test(pool, decoders_of_many_streams_keep_little, .timeout = 100 * TIME_SCALE)
{
    enum { N = 100, LEN = 200000 };
    static struct one all[N];
    const size_t budget = 16 * MIB, each = 64 * KIB;
    int fd = make_lz4_file(LEN);
    size_t before = live_bytes;
    struct ahead_options opt = { .pool = open_pool(2, budget) };
    struct ahead_source src;

    most_bytes = before;
    for (unsigned i = 0; i < N; i++) {
        src = open_fd(fd);
        expect_status(ahead_source_lz4_block(&src, src, NULL), AHEAD_OK);
        all[i] = (struct one){ .len = LEN };
        expect_status(ahead_open(&all[i].s, src, &opt), AHEAD_OK);
    }
    for (unsigned at = 0; at < LEN; at += 5000)
        for (unsigned i = 0; i < N; i++)
            read_on(&all[i], 5000);
    expect_true(pool_stats(opt.pool).peak_bytes <= budget);
    expect_note("%zu KiB for each", (most_bytes - before - budget) / N / KIB);
    if (!UNDER_ASAN)
        expect_true(most_bytes - before <= budget + N * each + MIB);
    close_all(all, N);
    close_pool(opt.pool);
    remove_file(fd);
}

/* F202: two buffers, smaller ones, one, and none: nobody waits for memory, or fails. */
Test(pool, a_stream_degrades_and_goes_on)
{
    static const struct {
        size_t budget, buffers, most;
    } budgets[] = {
        { 2 * (64 + 4) * 1024, 2, 2 * 64 * 1024 },
        { 80 * 1024, 2, 2 * 36 * 1024 },
        { 16 * 1024, 2, 2 * 4096 },
        { 12 * 1024, 1, 4096 },
        { 4096, 1, 4096 },
        { 1, 1, 4096 },
    };
    enum { LEN = 1 << 20 };
    int fd = make_file(LEN);

    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
            struct ahead_pool *p = open_pool(1, budgets[i].budget);
            struct ahead_options opt = { .flags = flags, .pool = p };
            struct ahead_stream *s;

            if (flags > AHEAD_SYNC)
                continue;
            expect_note("budget of %zu, flags %u", budgets[i].budget, flags);
            expect_status(ahead_open(&s, open_fd(fd), &opt), AHEAD_OK);
            expect_pattern_by(s, 0, LEN - 10000, 1000);
            expect_true(stats_of(s).buffers <= budgets[i].buffers);
            expect_true(flags || stats_of(s).buffers == budgets[i].buffers);
            expect_true(stats_of(s).buffer_bytes <= budgets[i].most);
            expect_true(budgets[i].buffers > 1 || stats_of(s).sync_fills > 0);
            expect_pattern(s, LEN - 10000, 10000);
            expect_ending(s, AHEAD_EOF, 0, LEN);
            expect_true(pool_stats(p).peak_bytes <= budgets[i].budget);
            expect_status(ahead_close(s), AHEAD_OK);
            close_pool(p);
        }
    remove_file(fd);
}

/* A stream of pieces that it takes long to make, so that its reader has to wait. */
static struct ahead_stream *open_slow(struct script *sc, struct ahead_pool *p)
{
    sc->step = slow;
    sc->has = HAS_SEEK;
    return script_open(sc, &(struct ahead_options){ .buffer_bytes = MIB, .pool = p });
}

/* The one that came first had it all; those that come later find their share. */
Test(pool, shares_are_fair)
{
    enum { N = 8 };
    static struct script sc[N];
    struct ahead_stream *s[N];
    struct ahead_pool *p = open_pool(1, 2 * MIB);
    uint64_t at = 0, held[N], share = 2 * MIB / N;

    s[0] = open_slow(&sc[0], p);
    while (stats_of(s[0]).buffer_bytes < MIB) {
        expect_pattern(s[0], at, 8192);
        at += 8192;
        expect_true(at < 100 * MIB);
    }
    for (unsigned i = 1; i < N; i++)
        s[i] = open_slow(&sc[i], p);
    for (unsigned turn = 0; turn < 200; turn++)
        for (unsigned i = 0; i < N; i++)
            expect_pattern(s[i], (i ? 0 : at) + turn * 16384, 16384);
    for (unsigned i = 0; i < N; i++) {
        held[i] = stats_of(s[i]).buffer_bytes;
        expect_note("stream %u holds %ju of %ju", i, (uintmax_t)held[i], (uintmax_t)share);
        expect_true(held[i] <= share);
        expect_true(held[i] >= share / 3);
    }
    expect_true(pool_stats(p).peak_bytes <= 2 * MIB);
    for (unsigned i = 0; i < N; i++) {
        expect_status(ahead_close(s[i]), AHEAD_OK);
        expect_str(script_closing_verdict(&sc[i]), "ok");
    }
    close_pool(p);
}

/* A reader that never has to wait is content with the first buffers. */
Test(pool, a_stream_grows_only_for_a_reader_that_waits)
{
    struct script sc = { .step = STEPS(PIECES((uint64_t)1 << 40, 4096)), .split = true };
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_stream *s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = MIB, .flags = AHEAD_EAGER, .pool = p });
    uint64_t at = 0;

    for (unsigned i = 0; i < 40; i++) {
        expect_eventually(ahead_buffered(s) >= 64 * KIB);
        expect_pattern(s, at, 8192);
        at += 8192;
    }
    expect_size(stats_of(s).buffer_bytes, 128 * KIB);
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
}

/* Each seek throws away what was read ahead. */
Test(pool, a_stream_shrinks_when_bytes_are_discarded)
{
    struct script sc = { .has = 0 };
    struct ahead_pool *p = open_pool(1, 0);
    struct ahead_stream *s = open_slow(&sc, p);
    uint64_t at = 0;

    while (stats_of(s).buffer_bytes < 2 * MIB) {
        expect_pattern(s, at, 64 * KIB);
        at += 64 * KIB;
        expect_true(at < 400 * MIB);
    }
    for (unsigned i = 1; i <= 10; i++) {
        at = i * (uint64_t)100 * MIB;
        expect_status(ahead_seek(s, at), AHEAD_OK);
        expect_pattern(s, at, 100);
    }
    expect_true(stats_of(s).discarded_bytes > 0);
    expect_size(stats_of(s).buffer_bytes, stats_of(s).buffers * 64 * KIB);
    expect_u64(pool_stats(p).bytes, stats_of(s).buffer_bytes + stats_of(s).buffers * 4096);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    close_pool(p);
}

/* An ended stream that goes back gets memory again, and shares again. */
Test(pool, a_stream_that_goes_back_from_its_end_shares_again)
{
    int fd = make_file(300000);
    struct ahead_pool *p = open_pool(1, MIB);
    struct ahead_stream *s;

    expect_status(ahead_open(&s, open_fd(fd), &(struct ahead_options){ .pool = p }), AHEAD_OK);
    for (unsigned i = 0; i < 5; i++) {
        expect_pattern(s, 0, 300000);
        expect_ending(s, AHEAD_EOF, 0, 300000);
        expect_u64(pool_stats(p).bytes, 0);
        expect_u64(stats_of(s).buffers, 0);
        expect_status(ahead_seek(s, 0), AHEAD_OK);
    }
    expect_status(ahead_close(s), AHEAD_OK);
    close_pool(p);
    remove_file(fd);
}

/* F203: nothing stays behind, however they end. */
Test(pool, lives_on_one_pool_leave_nothing, .timeout = 100 * TIME_SCALE)
{
    struct ahead_pool *p = open_pool(2, 100 * KIB);
    uint64_t seed = 203;
    int held = 0;

    for (unsigned i = 0; i < 2000; i++) {
        struct script sc = { .step = STEPS(RANDOM(3000, 100)), .seed = i, .has = HAS_SEEK };
        struct ahead_stream *s;

        script_set_mode(&sc, &modes[i % modes_len]);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 500),
                                                      .flags = modes[i % modes_len].flags,
                                                      .pool = p });
        expect_pattern(s, 0, random_below(&seed, 2) ? random_below(&seed, 3000) : 0);
        if (random_below(&seed, 2))
            ahead_cancel(s);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        expect_u64(pool_stats(p).bytes, 0);
        if (i == 1000) /* by then the threads have what scratch they need */
            held = live_of(FAILING_MEMORY);
        if (i > 1000)
            expect_true(live_of(FAILING_MEMORY) <= held + 10);
    }
    expect_true(pool_stats(p).peak_bytes <= 100 * KIB);
    close_pool(p);
    expect_int(live, 0);
}
