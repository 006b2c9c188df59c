/* SPDX-License-Identifier: Apache-2.0 */
/* test_sink.c - sinks over descriptors, paths and memory.
 *
 * The F-numbers are those of the table of faults. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define OK(call) expect_status(call, AHEAD_OK)

static struct ahead_writer *open_fd(int fd, unsigned flags, size_t buffer_bytes)
{
    struct ahead_options opt = { .buffer_bytes = buffer_bytes, .flags = flags };
    struct ahead_sink sink;
    struct ahead_writer *w;

    OK(ahead_sink_fd(&sink, fd, AHEAD_FD_CLOSE));
    OK(ahead_writer_open(&w, sink, &opt));
    return w;
}

/* Write up to `len` bytes of the pattern in pieces. */
static enum ahead_status write_pattern(struct ahead_writer *w, uint64_t len)
{
    uint8_t piece[1000];
    enum ahead_status st = AHEAD_OK;

    for (uint64_t pos = 0; pos < len && !st; pos += sizeof piece) {
        size_t n = len - pos < sizeof piece ? (size_t)(len - pos) : sizeof piece;

        pattern_fill(piece, pos, n);
        st = ahead_write(w, piece, n);
    }
    return st;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* ---- files ---- */

static char *temporary(void)
{
    char *path = strdup("/tmp/ahead-test-XXXXXX");
    int fd = mkstemp(path);

    expect_true(fd >= 0);
    close(fd);
    return path;
}

static void expect_file(const char *path, uint64_t from, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t got = 0;
    ssize_t n;

    expect_true(fd >= 0);
    while ((n = read(fd, bytes + got, len + 1 - got)) > 0)
        got += (size_t)n;
    close(fd);
    expect_size(got, len);
    expect_size(pattern_match(bytes, from, len), len);
    free(bytes);
}

Test(sink, path_is_made_or_cut)
{
    char *path = temporary();

    for (unsigned round = 0; round < 3; round++) {
        size_t len = round == 0 ? 5000 : round == 1 ? 100 : 0;
        struct ahead_sink sink;
        struct ahead_writer *w;

        if (round == 2)
            unlink(path);
        OK(ahead_sink_path(&sink, path));
        OK(ahead_writer_open(&w, sink, NULL));
        OK(write_pattern(w, len));
        OK(ahead_writer_close(w));
        expect_file(path, 0, len);
    }
    unlink(path);
    free(path);
}

Test(sink, fd_is_written_from_where_it_stands_and_stays_open)
{
    char *path = temporary();
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct ahead_sink sink;
    struct ahead_writer *w;

    expect_true(write(fd, "abc", 3) == 3);
    OK(ahead_sink_fd(&sink, fd, 0));
    OK(ahead_writer_open(&w, sink, &(struct ahead_options){ .buffer_bytes = 64 }));
    OK(write_pattern(w, 1000));
    OK(ahead_writer_close(w));
    expect_true(is_open(fd));
    expect_int(lseek(fd, 0, SEEK_CUR), 1003);
    close(fd);
    unlink(path);
    free(path);
}

Test(sink, f213_fd_is_closed_once)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    OK(ahead_writer_close(open_fd(fd, 0, 64)));
    expect_true(!is_open(fd));
}

/* F195 with a device that is full. */
Test(sink, f195_no_space_is_told_by_flush_and_close)
{
    for (unsigned sync = 0; sync < 2; sync++) {
        struct ahead_writer *w =
            open_fd(open("/dev/full", O_WRONLY | O_CLOEXEC), sync ? AHEAD_SYNC : AHEAD_EAGER, 64);
        struct ahead_error err;
        enum ahead_status st = write_pattern(w, 1000);

        expect_status(st, AHEAD_IO);
        expect_status(ahead_writer_flush(w), AHEAD_IO);
        expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
        expect_int(err.os_errno, ENOSPC);
        expect_u64(err.offset, 0);
        expect_true(strstr(err.text, "write of 64 bytes at offset 0"));
    }
}

/* A file that may not grow: EFBIG with its offset, and no SIGXFSZ. */
Test(sink, f196_output_is_as_long_as_the_failure_says)
{
    for (unsigned sync = 0; sync < 2; sync++) {
        char *path = temporary();
        struct rlimit before, limit;
        struct ahead_error err;
        struct ahead_writer *w;

        getrlimit(RLIMIT_FSIZE, &before);
        limit = before;
        limit.rlim_cur = 777;
        expect_int(setrlimit(RLIMIT_FSIZE, &limit), 0);
        w = open_fd(open(path, O_WRONLY | O_CLOEXEC), sync ? AHEAD_SYNC : 0, 64);
        expect_status(write_pattern(w, 100000), AHEAD_IO);
        expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
        setrlimit(RLIMIT_FSIZE, &before);
        expect_int(err.os_errno, EFBIG);
        expect_u64(err.offset, 777);
        expect_u64(err.source_offset, 777);
        expect_file(path, 0, 777);
        unlink(path);
        free(path);
    }
}

/* ---- pipes and sockets ---- */

/* A system without pwritev2(2), or a pipe that does not take it (F239): the
 * linker sends the library's calls here. */
static bool refuses_pwritev2;
ssize_t __real_pwritev64v2(int fd, const struct iovec *from, int n, off_t at, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *from, int n, off_t at, int flags);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *from, int n, off_t at, int flags)
{
    if (!refuses_pwritev2)
        return __real_pwritev64v2(fd, from, n, at, flags);
    errno = EOPNOTSUPP;
    return -1;
}

enum kind { PIPE, PIPE_NONBLOCK, OLD_PIPE, SOCKET, SOCKET_NONBLOCK, KINDS };

static void make_pair(enum kind kind, int fd[2])
{
    refuses_pwritev2 = kind == OLD_PIPE;
    expect_int(kind < SOCKET ? pipe2(fd, O_CLOEXEC)
                             : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd),
               0);
    if (kind == PIPE_NONBLOCK || kind == SOCKET_NONBLOCK)
        fcntl(fd[1], F_SETFL, O_WRONLY | O_NONBLOCK);
}

struct peer {
    int fd;
    uint64_t read; /* bytes, until the end */
    bool right;
};

/* Reads to the end, now fast, now slowly. */
static void *read_all(void *arg)
{
    struct peer *p = arg;
    uint8_t bytes[3001];
    uint64_t seed = 1;
    ssize_t n;

    p->right = true;
    while ((n = read(p->fd, bytes, 1 + (size_t)random_below(&seed, sizeof bytes))) > 0) {
        if (pattern_match(bytes, p->read, (size_t)n) != (size_t)n)
            p->right = false;
        p->read += (uint64_t)n;
        if (random_below(&seed, 100) == 0)
            sleep_us(1000);
    }
    close(p->fd);
    return NULL;
}

Test(sink, pipes_and_sockets_get_every_byte)
{
    for (enum kind k = PIPE; k < KINDS; k++) {
        for (unsigned sync = 0; sync < 2; sync++) {
            int fd[2];
            struct peer peer = { 0 };
            struct ahead_writer *w;
            pthread_t t;

            make_pair(k, fd);
            peer.fd = fd[0];
            expect_int(pthread_create(&t, NULL, read_all, &peer), 0);
            w = open_fd(fd[1], sync ? AHEAD_SYNC : 0, 100000);
            OK(write_pattern(w, 1000000));
            OK(ahead_writer_close(w));
            expect_int(pthread_join(t, NULL), 0);
            expect_u64(peer.read, 1000000);
            expect_true(peer.right);
        }
    }
}

/* The signals that a failing write could leave behind. */
static bool signal_is_pending(void)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ);
}

/* The default disposition would kill this test. */
Test(sink, f209_reader_that_has_gone_is_epipe_and_no_signal)
{
    expect_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    for (enum kind k = PIPE; k < KINDS; k++) {
        for (unsigned sync = 0; sync < 2; sync++) {
            int fd[2];
            struct ahead_error err;
            struct ahead_writer *w;
            sigset_t before, after;

            pthread_sigmask(SIG_SETMASK, NULL, &before);
            make_pair(k, fd);
            w = open_fd(fd[1], sync ? AHEAD_SYNC : AHEAD_EAGER, 64);
            OK(write_pattern(w, 64));
            OK(ahead_writer_flush(w));
            close(fd[0]);
            expect_status(write_pattern(w, 10000), AHEAD_IO);
            expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
            expect_int(err.os_errno, EPIPE);
            expect_u64(err.offset, 64);
            expect_true(!signal_is_pending());
            pthread_sigmask(SIG_SETMASK, NULL, &after);
            expect_int(sigismember(&after, SIGPIPE), sigismember(&before, SIGPIPE));
        }
    }
}

/* The process's own pending signal is not taken away. */
Test(sink, f209_signal_that_was_pending_stays)
{
    int fd[2];
    struct ahead_writer *w;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    make_pair(PIPE, fd);
    close(fd[0]);
    w = open_fd(fd[1], AHEAD_SYNC, 64);
    expect_status(write_pattern(w, 10000), AHEAD_IO);
    ahead_writer_close(w);
    expect_true(signal_is_pending());
}

static void *cancel_soon(void *arg)
{
    sleep_us(20000);
    ahead_writer_cancel(arg);
    return NULL;
}

Test(sink, cancel_gets_through_to_a_full_pipe)
{
    for (enum kind k = PIPE; k < KINDS; k++) {
        for (unsigned sync = 0; sync < 2; sync++) {
            int fd[2];
            struct ahead_writer *w;
            pthread_t t;
            uint64_t start = now_ns();

            make_pair(k, fd);
            w = open_fd(fd[1], sync ? AHEAD_SYNC : 0, 100000);
            expect_int(pthread_create(&t, NULL, cancel_soon, w), 0);
            expect_status(write_pattern(w, 10000000), AHEAD_CANCELLED);
            expect_int(pthread_join(t, NULL), 0);
            expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
            expect_within_ms(start, 150);
            expect_true(!is_open(fd[1]));
            close(fd[0]);
        }
    }
}

Test(sink, close_gives_a_full_pipe_up_in_time)
{
    struct ahead_options opt = { .buffer_bytes = 1 << 20, .close_timeout_ms = 50 };
    int fd[2];
    struct ahead_sink sink;
    struct ahead_writer *w;
    struct ahead_error err;
    uint64_t start;

    make_pair(PIPE, fd);
    OK(ahead_sink_fd(&sink, fd[1], AHEAD_FD_CLOSE));
    OK(ahead_writer_open(&w, sink, &opt));
    OK(write_pattern(w, 1 << 20));
    start = now_ns();
    expect_status(ahead_writer_close_error(w, &err), AHEAD_TIMEDOUT);
    expect_within_ms(start, 100);
    expect_true(err.offset > 0 && err.offset < 1 << 20);
    expect_eventually(!is_open(fd[1])); /* interrupted: its thread has gone */
    close(fd[0]);
}

static void *drain_soon(void *arg)
{
    struct peer *p = arg;

    sleep_us(30000);
    return read_all(p);
}

/* Its flags are left as they are, and it is waited for. */
Test(sink, non_blocking_descriptor_is_waited_for)
{
    int fd[2];
    struct peer peer = { 0 };
    struct ahead_writer *w;
    pthread_t t;

    make_pair(PIPE_NONBLOCK, fd);
    peer.fd = fd[0];
    w = open_fd(fd[1], AHEAD_SYNC, 1 << 20);
    expect_int(pthread_create(&t, NULL, drain_soon, &peer), 0);
    OK(write_pattern(w, 1 << 20));
    OK(ahead_writer_flush(w));
    expect_true(fcntl(fd[1], F_GETFL) & O_NONBLOCK);
    OK(ahead_writer_close(w));
    expect_int(pthread_join(t, NULL), 0);
    expect_u64(peer.read, 1 << 20);
}

/* ---- memory ---- */

Test(sink, memory_grows_and_shows_what_it_has)
{
    struct ahead_sink sink;
    struct ahead_writer *w;
    uint8_t *data = (uint8_t *)&sink;
    size_t len = 99;

    OK(ahead_sink_memory(&sink, &data, &len));
    expect_true(!data);
    expect_size(len, 0);
    OK(ahead_writer_open(&w, sink, &(struct ahead_options){ .buffer_bytes = 64 }));
    OK(write_pattern(w, 1000));
    OK(ahead_writer_flush(w));
    expect_size(len, 1000);
    expect_size(pattern_match(data, 0, len), len);
    OK(ahead_writer_close(w));
    expect_size(len, 1000);
    free(data);
}

Test(sink, memory_that_is_not_to_be_had_is_nomem)
{
    struct ahead_sink sink;
    struct ahead_error err = { .status = AHEAD_OK };
    uint8_t *data, block[1000];
    size_t len;

    pattern_fill(block, 0, sizeof block);
    OK(ahead_sink_memory(&sink, &data, &len));
    expect_int(sink.ops->write(sink.ctx, block, 100, &err), 100);
    fail_always(FAILING_MEMORY, true);
    expect_int(sink.ops->write(sink.ctx, block, 1000, &err), -1);
    expect_status(err.status, AHEAD_NOMEM);
    expect_u64(err.source_offset, 100);
    errno = 0;
    expect_int(sink.ops->write(sink.ctx, block, SIZE_MAX / 2, &err), -1);
    fail_always(FAILING_MEMORY, false);
    OK(sink.ops->close(sink.ctx, &err));
    expect_size(len, 100);
    expect_size(pattern_match(data, 0, len), len);
    free(data);
    expect_int(live, 0);
}

/* ---- what cannot be ---- */

/* F231 */
/* F131, of a write: to a device, which looks at no byte of it. */
Test(sink, no_call_asks_for_more_than_1_gib)
{
    const size_t huge = ((size_t)1 << 30) + 4096;
    void *bytes = mmap(NULL, huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ahead_error err;
    struct ahead_sink sink;

    expect_true(bytes != MAP_FAILED);
    expect_status(ahead_sink_path(&sink, "/dev/null"), AHEAD_OK);
    expect_int(sink.ops->write(sink.ctx, bytes, huge, &err), 1 << 30);
    expect_status(sink.ops->close(sink.ctx, &err), AHEAD_OK);
    munmap(bytes, huge);
}

Test(sink, constructors_refuse_what_makes_no_sense)
{
    struct ahead_sink sink = { .ctx = &sink };
    uint8_t *data;
    size_t len;
    int fd;

    expect_status(ahead_sink_fd(&sink, -1, 0), AHEAD_INVALID);
    expect_true(!sink.ops && !sink.ctx);
    expect_int(errno, EINVAL);
    expect_status(ahead_sink_fd(NULL, 1, 0), AHEAD_INVALID);
    expect_status(ahead_sink_fd(&sink, 1, 1024), AHEAD_INVALID);
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    expect_status(ahead_sink_fd(&sink, fd, AHEAD_FD_CLOSE | AHEAD_FD_LAZY), AHEAD_INVALID);
    expect_true(!is_open(fd)); /* it was the sink's */
    expect_status(ahead_sink_fd(&sink, fd, AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EBADF);
    fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    expect_status(ahead_sink_fd(&sink, fd, AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EISDIR);
    expect_true(!is_open(fd));
    expect_status(ahead_sink_path(&sink, NULL), AHEAD_INVALID);
    expect_status(ahead_sink_path(NULL, "/dev/null"), AHEAD_INVALID);
    expect_status(ahead_sink_path(&sink, "/nonexistent/x"), AHEAD_IO);
    expect_int(errno, ENOENT);
    expect_status(ahead_sink_memory(NULL, &data, &len), AHEAD_INVALID);
    expect_status(ahead_sink_memory(&sink, NULL, &len), AHEAD_INVALID);
    expect_status(ahead_sink_memory(&sink, &data, NULL), AHEAD_INVALID);
}

Test(sink, descriptor_that_cannot_be_written_says_so)
{
    struct ahead_writer *w = open_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), AHEAD_SYNC, 64);
    struct ahead_error err;
    struct ahead_sink sink;
    int fd[2];

    OK(ahead_write(w, "abc", 3));
    expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
    expect_int(err.os_errno, EBADF);

    /* What poll(2) would wait for, perhaps for ever. */
    expect_int(pipe(fd), 0);
    expect_status(ahead_sink_fd(&sink, fd[0], 0), AHEAD_IO);
    expect_int(errno, EBADF);
    expect_true(!sink.ops && fcntl(fd[0], F_GETFD) >= 0);
    expect_status(ahead_sink_fd(&sink, fd[0], AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EBADF);
    expect_true(fcntl(fd[0], F_GETFD) < 0);
    OK(ahead_sink_fd(&sink, fd[1], AHEAD_FD_CLOSE));
    OK(sink.ops->close(sink.ctx, &err));
}

/* F216 */
Test(sink, constructors_unwind_from_every_failing_step)
{
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct ahead_sink sink[3] = { { .ops = NULL } };
        struct ahead_error err;
        enum ahead_status st[3];
        uint8_t *data;
        size_t len;
        int fd[2];

        expect_int(pipe(fd), 0);
        fail_step(step);
        st[0] = ahead_sink_fd(&sink[0], fd[1], AHEAD_FD_CLOSE);
        st[1] = ahead_sink_path(&sink[1], "/dev/null");
        st[2] = ahead_sink_memory(&sink[2], &data, &len);
        failed = fail_step(0);
        for (unsigned i = 0; i < 3; i++) {
            if (st[i])
                expect_true(!sink[i].ops && (st[i] == AHEAD_NOMEM || st[i] == AHEAD_IO));
            else
                OK(sink[i].ops->close(sink[i].ctx, &err));
        }
        expect_true(!is_open(fd[1]));
        close(fd[0]);
        expect_int(live, 0);
    }
}
