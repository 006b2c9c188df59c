/* SPDX-License-Identifier: Apache-2.0 */
/* test_process.c - what a stream does to its process: threads, signals, descriptors, fork, exit. */
#include "stream/core.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/sanitizers.h"
#include "support/script.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A line of /proc/self/task/TID/FILE that begins with `key`, without it. */
static bool task_line(const char *tid, const char *file, const char *key, char line[256])
{
    char path[300];
    FILE *f;
    bool found = false;

    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, file);
    f = fopen(path, "r");
    while (f && !found && fgets(line, 256, f))
        found = strncmp(line, key, strlen(key)) == 0;
    if (f)
        fclose(f);
    if (found)
        memmove(line, line + strlen(key), strlen(line) - strlen(key) + 1);
    line[strcspn(line, "\n")] = '\0';
    return found;
}

/* The thread of this name: its number as text.  false: there is none. */
static bool find_thread(const char *name, char tid[16])
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    char line[256];
    bool found = false;

    expect_true(dir != NULL);
    while (!found && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && task_line(entry->d_name, "comm", "", line) &&
            strcmp(line, name) == 0) {
            snprintf(tid, 16, "%.15s", entry->d_name);
            found = true;
        }
    closedir(dir);
    return found;
}

/* A stream whose second thread is inside the source. */
static struct ahead_stream *open_blocked(struct script *sc, const char *name)
{
    struct ahead_stream *s;

    sc->step = STEPS(BYTES(10), STALL, BYTES(10));
    s = script_open(
        sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = AHEAD_EAGER, .name = name });
    expect_eventually(sc->stalls == 1);
    return s;
}

Test(process, the_second_thread_has_a_name)
{
    static const char *const names[][2] = { { NULL, "ahead" },
                                            { "spill", "spill" },
                                            { "a name of many letters", "a name of many " } };

    for (size_t i = 0; i < 3; i++) {
        struct script sc = { .step = NULL };
        struct ahead_stream *s = open_blocked(&sc, names[i][0]);
        char tid[16];

        expect_note("name %zu", i);
        expect_eventually(find_thread(names[i][1], tid));
        expect_status(ahead_close(s), AHEAD_OK);
        expect_true(!find_thread(names[i][1], tid));
    }
}

/* F207: all signals but the synchronous ones and that of profilers. */
Test(process, the_second_thread_blocks_signals)
{
    static const int open_ones[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF };
    static const int blocked[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                   SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE };
    struct script sc = { .step = NULL };
    struct ahead_stream *s = open_blocked(&sc, NULL);
    char tid[16], line[256];
    unsigned long long mask;

    expect_eventually(find_thread("ahead", tid));
    expect_true(task_line(tid, "status", "SigBlk:", line));
    mask = strtoull(line, NULL, 16);
    for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++) {
        expect_note("signal %d", open_ones[i]);
        expect_true(!(mask >> (open_ones[i] - 1) & 1));
    }
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++) {
        expect_note("signal %d", blocked[i]);
        expect_true(mask >> (blocked[i] - 1) & 1);
    }
    expect_status(ahead_close(s), AHEAD_OK);
}

static atomic_uint handled, handled_elsewhere;
static pid_t main_tid;

static void on_signal(int sig)
{
    (void)sig;
    atomic_fetch_add(&handled, 1);
    if ((pid_t)syscall(SYS_gettid) != main_tid)
        atomic_fetch_add(&handled_elsewhere, 1);
}

Test(process, signals_are_handled_on_the_application_s_threads)
{
    static const int signals[] = { SIGUSR1, SIGINT, SIGTERM };
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    struct script sc = { .step = STEPS(PIECES((uint64_t)1 << 50, 100)) };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 300, .flags = AHEAD_EAGER });

    main_tid = (pid_t)syscall(SYS_gettid);
    for (size_t i = 0; i < 3; i++)
        expect_int(sigaction(signals[i], &act, NULL), 0);
    for (unsigned i = 0; i < 3000; i++) {
        expect_int(kill(getpid(), signals[i % 3]), 0);
        expect_pattern(s, 100 * i, 100);
    }
    expect_true(atomic_load(&handled) > 0);
    expect_u64(atomic_load(&handled_elsewhere), 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* F208: mask and dispositions are the caller's. */
struct signals {
    sigset_t mask;
    struct sigaction act[65];
};

static void look_at_signals(struct signals *sig)
{
    memset(sig, 0, sizeof *sig);
    pthread_sigmask(SIG_SETMASK, NULL, &sig->mask);
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &sig->act[i]);
}

static void expect_same_signals(const struct signals *before)
{
    struct signals now;

    look_at_signals(&now);
    for (int i = 1; i < 65; i++) {
        expect_int(sigismember(&now.mask, i), sigismember(&before->mask, i));
        expect_true(now.act[i].sa_handler == before->act[i].sa_handler);
        expect_int(now.act[i].sa_flags, before->act[i].sa_flags);
    }
}

Test(process, mask_and_dispositions_stay_the_caller_s)
{
    struct signals before;
    sigset_t some;

    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    for (int fails = 0; fails < 2; fails++)
        for (each_mode(m)) {
            struct script sc = { .step = STEPS(PIECES(1000, 90), ERRNO(EIO)) };
            struct ahead_stream *s;

            expect_note("%s, no thread %d", m->name, fails);
            fail_always(FAILING_THREAD, fails);
            script_set_mode(&sc, m);
            look_at_signals(&before);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = m->flags });
            expect_same_signals(&before);
            expect_pattern(s, 0, 1000);
            expect_same_signals(&before);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_same_signals(&before);
            fail_always(FAILING_THREAD, false);
        }
}

/* F210.  In the child: 0 if all is well, else which step was not. */
static int in_child(struct ahead_stream *parents, uint64_t at)
{
    struct script sc = { .step = STEPS(PIECES(5000, 100)) };
    struct ahead_stream *s;
    uint8_t bytes[5000];
    size_t got = 0;
    enum ahead_status st;

    alarm(5);
    st = ahead_read_full(parents, bytes, 100, &got);
    if (st != AHEAD_INVALID && (st || pattern_match(bytes, at, 100) != 100))
        return 1;
    if (st == AHEAD_INVALID && ahead_error(parents)->text[0] == '\0')
        return 2;
    ahead_cancel(parents);
    ahead_close(parents);
    if (ahead_open(&s, script_source(&sc), &(struct ahead_options){ .buffer_bytes = 300 }))
        return 3;
    if (ahead_read_full(s, bytes, 5000, NULL) || pattern_match(bytes, 0, 5000) != 5000)
        return 4;
    if (ahead_close(s) || strcmp(script_closing_verdict(&sc), "ok") != 0)
        return 5;
    return 0;
}

Test(process, a_child_of_fork_can_tell_and_can_use_streams_of_its_own)
{
#if UNDER_TSAN && !defined(__clang__)
    /* The child's new thread gets the stack of one that the fork left behind. */
    skip("gcc's thread sanitizer takes the child's thread for one of the parent");
#endif
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(5000, 100)) };
        struct ahead_stream *s;
        pid_t pid;
        int status;

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 300, .flags = m->flags });
        expect_pattern(s, 0, 1250);
        pid = fork();
        if (pid == 0)
            _exit(in_child(s, 1250));
        expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        expect_true(WIFEXITED(status));
        expect_int(WEXITSTATUS(status), 0);
        expect_pattern(s, 1250, 3750);
        expect_ending(s, AHEAD_EOF, 0, 5000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* The fork comes while another thread has the stream's lock and is making a
 * piece.  0 if all is well, else which call was not; SIGALRM if one hangs. */
static int calls_in_child(struct ahead_stream *s)
{
    struct ahead_stats stats;
    struct ahead_buffer buf = { 0 };
    const uint8_t *data;
    uint8_t bytes[200];
    size_t len;

    alarm(10);
    if (ahead_buffered(s) != 99)
        return 1;
    if (ahead_finish(s) != AHEAD_CORRUPT)
        return 2;
    if (ahead_peek(s, 99, &data, &len) || len != 99)
        return 3;
    if (ahead_seek(s, 5000) != AHEAD_INVALID || ahead_buffer_alloc(s, &buf) != AHEAD_INVALID)
        return 4;
    if (ahead_read_full(s, bytes, sizeof bytes, &len) != AHEAD_INVALID || len != 99 ||
        pattern_match(bytes, 1, 99) != 99)
        return 5;
    if (ahead_finish(s) != AHEAD_INVALID || ahead_skip(s, 1, NULL) != AHEAD_INVALID)
        return 6;
    ahead_get_stats(s, &stats);
    ahead_cancel(s);
    (void)ahead_close(s);
    return 0;
}

Test(process, a_child_of_fork_waits_for_no_lock)
{
    struct script sc = { .step = STEPS(PIECES(5000, 100)),
                         .has = HAS_SEEK | HAS_SKIP,
                         .split = true,
                         .hold_make = 2 };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 300, .flags = AHEAD_EAGER });
    pthread_mutex_t *lock = &ahead_core_of(s)->swap.lock;
    pid_t pid;
    int status;

    /* In this order, or the reader could be the one that makes the second piece. */
    expect_eventually(sc.held == 1);
    expect_pattern(s, 0, 1);
    fflush(NULL);
    expect_int(pthread_mutex_lock(lock), 0);
    pid = fork();
    if (pid == 0)
        _exit(calls_in_child(s));
    expect_int(pthread_mutex_unlock(lock), 0);
    expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    expect_true(WIFEXITED(status));
    expect_int(WEXITSTATUS(status), 0);
    script_let_make(&sc);
    expect_pattern(s, 1, 4999);
    expect_ending(s, AHEAD_EOF, 0, 5000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* F211: always, and at the first try only. */
Test(process, without_a_thread_reading_is_synchronous)
{
    for (each_mode(m))
        for (int timeout = 0; timeout < 2; timeout++) {
            struct script sc = { .step = STEPS(RANDOM(20000, 900)) };
            struct ahead_stream *s;
            struct ahead_stats stats;

            expect_note("%s, timeout %d", m->name, timeout);
            fail_always(FAILING_THREAD, true);
            script_set_mode(&sc, m);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1000,
                                                          .flags = m->flags,
                                                          .read_timeout_ms = timeout * 1000 });
            expect_pattern(s, 0, 20000);
            expect_ending(s, AHEAD_EOF, 0, 20000);
            ahead_get_stats(s, &stats);
            expect_u64(stats.threads_started, 0);
            expect_true(stats.sync_fills > 0);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
            fail_always(FAILING_THREAD, false);
            expect_int(live_of(FAILING_THREAD), 0);
        }
}

Test(process, a_seek_without_a_thread_works_too)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(20000, 100)), .has = HAS_SEEK | HAS_SKIP };
        struct ahead_stream *s;
        uint64_t seed = 5;

        expect_note("%s", m->name);
        fail_always(FAILING_THREAD, true);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 300, .flags = m->flags });
        for (int i = 0; i < 50; i++) {
            uint64_t to = random_below(&seed, 19000);

            expect_status(ahead_seek(s, to), AHEAD_OK);
            expect_pattern(s, to, 400);
            expect_status(ahead_skip(s, 333, NULL), AHEAD_OK);
        }
        fail_always(FAILING_THREAD, false);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F212: what the library opens is close-on-exec. */
static void expect_cloexec(bool was_open[256])
{
    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);

        expect_note("descriptor %d", fd);
        if (flags >= 0 && !was_open[fd])
            expect_true(flags & FD_CLOEXEC);
    }
}

Test(process, descriptors_are_close_on_exec)
{
    bool was_open[256];
    struct ahead_source src;
    struct ahead_stream *file, *piped;
    int end[2];

    expect_int(pipe(end), 0);
    for (int fd = 0; fd < 256; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    expect_status(ahead_open_path(&file, "/proc/self/exe", NULL), AHEAD_OK);
    expect_status(ahead_source_fd(&src, end[0], 0), AHEAD_OK);
    expect_status(ahead_open(&piped, src, &(struct ahead_options){ .flags = AHEAD_EAGER }),
                  AHEAD_OK);
    expect_status(ahead_skip(file, 1, NULL), AHEAD_OK);
    expect_cloexec(was_open);
    expect_no_note();
    expect_status(ahead_close(file), AHEAD_OK);
    expect_status(ahead_close(piped), AHEAD_OK);
    close(end[0]);
    close(end[1]);
}

/* F214: exit with streams that are blocked, filling and idle. */
_Noreturn static void exit_with_streams(int told)
{
    enum { N = 60 };
    static struct script sc[N];
    static struct ahead_stream *s[N]; /* reachable, so no leak */
    static const struct step blocked[] = { BYTES(10), STALL, END };
    static const struct step endless[] = { PIECES((uint64_t)1 << 60, 1000), END };
    uint64_t start;
    uint8_t byte;

    for (unsigned i = 0; i < N; i++) {
        sc[i].step = i % 3 ? endless : blocked;
        sc[i].split = i % 2;
        if (ahead_open(&s[i], script_source(&sc[i]),
                       &(struct ahead_options){ .buffer_bytes = i % 3 == 1 ? 1 << 16 : 64,
                                                .flags = AHEAD_EAGER }))
            _exit(1);
        if (i % 3 == 2 && ahead_read_u8(s[i], &byte))
            _exit(2);
    }
    start = now_ns();
    if (write(told, &start, sizeof start) != sizeof start)
        _exit(3);
    exit(7);
}

Test(process, exit_with_live_streams_keeps_its_status)
{
    for (int round = 0; round < 10; round++) {
        uint64_t start = 0;
        int status, tell[2];
        pid_t pid;

        fflush(NULL);
        expect_int(pipe(tell), 0);
        pid = fork();
        if (pid == 0)
            exit_with_streams(tell[1]);
        expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        expect_true(WIFEXITED(status));
        expect_int(WEXITSTATUS(status), 7);
        expect_int(read(tell[0], &start, sizeof start), sizeof start);
        expect_within_ms(start, 300);
        close(tell[0]);
        close(tell[1]);
    }
}

#if !UNDER_ASAN && !UNDER_TSAN
/* F215: how deep the second thread's stack is where it calls the source. */
static atomic_size_t deepest, stack_bytes;

static void look_at_stack(struct script *sc, enum script_call call)
{
    pthread_attr_t attr;
    char *low = NULL, *here = (char *)__builtin_frame_address(0);
    size_t size = 0, depth;

    (void)call;
    if (pthread_equal(pthread_self(), *(pthread_t *)sc->user))
        return;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, (void **)&low, &size);
    pthread_attr_destroy(&attr);
    depth = (size_t)(low + size - here);
    if (depth > atomic_load(&deepest))
        atomic_store(&deepest, depth);
    atomic_store(&stack_bytes, size);
}

Test(process, the_second_thread_needs_little_stack)
{
    for (each_mode(m)) {
        pthread_t self = pthread_self();
        struct script sc = { .step = STEPS(RANDOM(100000, 900)),
                             .on_call = look_at_stack,
                             .user = &self };
        struct ahead_stream *s;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 5000, .flags = m->flags });
        expect_pattern(s, 0, 100000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_true(atomic_load(&deepest) > 0 && atomic_load(&deepest) < 16 * 1024);
        expect_true(atomic_load(&stack_bytes) <= 256 * 1024);
    }
}

/* An idle stream does not poll (F228). */
Test(process, a_stream_with_full_buffers_sleeps)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES((uint64_t)1 << 50, 100)) };
        struct ahead_stream *s;
        char tid[16], line[256];
        long before, after;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1000, .flags = m->flags });
        expect_pattern(s, 0, 5000);
        expect_true(find_thread("ahead", tid));
        sleep_us(100000);
        expect_true(task_line(tid, "status", "voluntary_ctxt_switches:", line));
        before = strtol(line, NULL, 10);
        sleep_us(300000);
        expect_true(task_line(tid, "status", "voluntary_ctxt_switches:", line));
        after = strtol(line, NULL, 10);
        expect_true(after - before <= 2);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}
#endif

/* Promise 6: 200 streams leave nothing behind. */
Test(process, many_streams_leave_nothing_behind)
{
    struct leaks before;

    for (int round = 0; round < 2; round++) {
        if (round == 1)
            before = leaks_count();
        for (each_mode(m))
            for (unsigned i = 0; i < 20; i++) {
                struct script sc = { .step = STEPS(PIECES(2000, 90)) };
                struct ahead_stream *s;
                uint8_t bytes[2000];

                script_set_mode(&sc, m);
                s = script_open(&sc,
                                &(struct ahead_options){ .buffer_bytes = 100, .flags = m->flags });
                (void)!ahead_read_full(s, bytes, 100 * i, NULL);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
        if (round == 1)
            expect_no_leaks(before);
    }
    expect_int(live, 0);
}
