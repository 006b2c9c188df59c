/* SPDX-License-Identifier: Apache-2.0 */
/* test_source_pipe.c - sources over pipes, sockets, terminals and devices are exact however bytes
 * come, and interrupt() ends every wait. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/steps.h"
#include "support/syscalls.h"

#include <ahead/source.h>

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

/* A source and the other end of what it reads. */
struct link {
    struct ahead_source src;
    int fd, peer;
};

enum kind { PIPE, SOCKET, TERMINAL, KINDS };
static const char *const kind_names[] = { "pipe", "socket", "terminal" };

static void make_raw(int fd)
{
    struct termios t;

    expect_int(tcgetattr(fd, &t), 0);
    cfmakeraw(&t);
    expect_int(tcsetattr(fd, TCSANOW, &t), 0);
}

static struct link open_link(enum kind kind)
{
    struct link l;
    int fds[2];

    if (kind == PIPE)
        expect_int(pipe(fds), 0);
    else if (kind == SOCKET)
        expect_int(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    else
        expect_int(openpty(&fds[1], &fds[0], NULL, NULL, NULL), 0);
    if (kind == TERMINAL)
        make_raw(fds[0]);
    l.fd = fds[0];
    l.peer = fds[1];
    expect_status(ahead_source_fd(&l.src, l.fd, 0), AHEAD_OK);
    return l;
}

static void close_link(struct link *l)
{
    expect_close(l->src);
    close(l->fd);
    if (l->peer >= 0)
        close(l->peer);
}

static void send_pattern(int fd, uint64_t pos, size_t len)
{
    uint8_t bytes[4096];

    while (len > 0) {
        size_t n = len < sizeof bytes ? len : sizeof bytes;
        ssize_t sent;

        pattern_fill(bytes, pos, n);
        sent = write(fd, bytes, n);
        if (sent < 0)
            expect_true(errno == EINTR || errno == EAGAIN);
        if (sent > 0) {
            pos += (uint64_t)sent;
            len -= (size_t)sent;
        }
    }
}

static void expect_read(struct ahead_source src, uint64_t pos, size_t len)
{
    struct ahead_error err = { .text = "" };
    uint8_t got[256];

    expect_int(src.ops->read(src.ctx, got, sizeof got, &err), (intmax_t)len);
    expect_size(pattern_match(got, pos, len), len);
}

static void expect_interrupted(struct ahead_source src)
{
    struct ahead_error err = { .text = "" };
    uint8_t byte;

    errno = 0;
    expect_int(src.ops->read(src.ctx, &byte, 1, &err), -1);
    expect_int(errno, ECANCELED);
    expect_status(err.status, AHEAD_IO);
    expect_int(err.os_errno, ECANCELED);
}

/* What a thread writes: `pieces` of 1 to `most` bytes, `gap_us` apart. */
struct writer {
    int fd;
    size_t len, most;
    uint64_t gap_us;
};

static void *write_pieces(void *arg)
{
    struct writer *w = arg;
    uint64_t seed = 3, pos = 0;

    while (pos < w->len) {
        size_t n = 1 + random_below(&seed, w->most);

        if (n > w->len - pos)
            n = w->len - pos;
        send_pattern(w->fd, pos, n);
        pos += n;
        if (w->gap_us)
            sleep_us(w->gap_us);
    }
    close(w->fd);
    return NULL;
}

static struct all read_all_from(struct link *l, struct writer w, size_t want)
{
    pthread_t thread;
    struct all a;

    w.fd = l->peer;
    l->peer = -1;
    expect_int(pthread_create(&thread, NULL, write_pieces, &w), 0);
    a = steps_all(l->src, (struct steps){ .want = want });
    expect_int(pthread_join(thread, NULL), 0);
    return a;
}

static void expect_pattern(struct all *a, size_t len)
{
    expect_status(a->end, AHEAD_EOF);
    expect_size(a->len, len);
    expect_size(pattern_match(a->bytes, 0, len), len);
    free(a->bytes);
}

/* F124 */
Test(source_pipe, pieces_of_any_size_are_the_bytes_and_then_eof)
{
    const size_t most[] = { 7, 5000, 100000 };

    for (int i = 0; i < 3 * 2; i++) {
        struct link l = open_link(i % 2 ? SOCKET : PIPE);
        struct all a;

        expect_note("%s, up to %zu bytes", kind_names[i % 2], most[i / 2]);
        a = read_all_from(&l, (struct writer){ .len = 100000, .most = most[i / 2] }, 65536);
        expect_pattern(&a, 100000);
        close_link(&l);
    }
}

static void no_handler(int signal)
{
    (void)signal;
}

static atomic_bool enough;

static void *disturb(void *arg)
{
    while (!enough) {
        pthread_kill(*(pthread_t *)arg, SIGUSR1);
        sleep_us(1000);
    }
    return NULL;
}

static pthread_t start_disturbing(void)
{
    static pthread_t self;
    struct sigaction act = { .sa_handler = no_handler }; /* no SA_RESTART */
    pthread_t thread;

    self = pthread_self();
    expect_int(sigaction(SIGUSR1, &act, NULL), 0);
    expect_int(pthread_create(&thread, NULL, disturb, &self), 0);
    return thread;
}

static void stop_disturbing(pthread_t thread)
{
    enough = true;
    expect_int(pthread_join(thread, NULL), 0);
}

/* F125 */
Test(source_pipe, signals_change_nothing)
{
    pthread_t disturber = start_disturbing();

    for (int i = 0; i < 2; i++) {
        struct link l = open_link(i ? SOCKET : PIPE);
        struct all a =
            read_all_from(&l, (struct writer){ .len = 200, .most = 20, .gap_us = 30000 }, 65536);

        expect_pattern(&a, 200);
        close_link(&l);
    }
    stop_disturbing(disturber);
}

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* F126: the flags stay; waiting is no work. */
Test(source_pipe, non_blocking_descriptor_is_waited_for)
{
    for (int kind = PIPE; kind <= SOCKET; kind++) {
        struct link l = open_link((enum kind)kind);
        int flags;
        double cpu;
        struct all a;

        expect_int(fcntl(l.fd, F_SETFL, fcntl(l.fd, F_GETFL) | O_NONBLOCK), 0);
        flags = fcntl(l.fd, F_GETFL);
        syscalls.reads = syscalls.polls = 0;
        cpu = cpu_ms();
        a = read_all_from(&l, (struct writer){ .len = 100, .most = 1, .gap_us = 10000 }, 65536);
        expect_pattern(&a, 100);
        expect_true(cpu_ms() - cpu < 50 * time_scale());
        expect_true(syscalls.reads <= 101); /* none in vain */
        expect_int(syscalls.polls, syscalls.reads);
        expect_int(fcntl(l.fd, F_GETFL), flags);
        close_link(&l);
    }
}

static struct link broken;

static void *send_later(void *arg)
{
    (void)arg;
    sleep_us(50000);
    broken.src.ops->interrupt(broken.src.ctx);
    return NULL;
}

/* F138, F139 */
/* A moment longer, for what comes, what has ended and an interrupt. */
Test(source_pipe, lingers_for_news_only)
{
    for (int kind = PIPE; kind <= SOCKET; kind++) {
        struct link l = open_link((enum kind)kind);

        expect_note("%s", kind_names[kind]);
        expect_true(!l.src.ops->split->linger(l.src.ctx));
        send_pattern(l.peer, 0, 10);
        expect_true(l.src.ops->split->linger(l.src.ctx));
        expect_read(l.src, 0, 10);
        expect_true(!l.src.ops->split->linger(l.src.ctx));
        l.src.ops->interrupt(l.src.ctx);
        expect_true(l.src.ops->split->linger(l.src.ctx));
        close_link(&l);
    }
}

Test(source_pipe, interrupt_ends_a_read_that_waits)
{
    for (int kind = 0; kind < KINDS; kind++) {
        pthread_t thread;
        uint64_t start;

        expect_note("%s", kind_names[kind]);
        broken = open_link((enum kind)kind);
        expect_int(pthread_create(&thread, NULL, send_later, NULL), 0);
        start = now_ns();
        expect_interrupted(broken.src);
        expect_within_ms(start, 150);
        expect_int(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 3; i++)
            expect_interrupted(broken.src);
        close_link(&broken);
    }
}

Test(source_pipe, interrupt_before_a_read_ends_it_and_all_later_ones)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct link l = open_link((enum kind)kind);
        struct ahead_source src = l.src;

        expect_note("%s", kind_names[kind]);
        send_pattern(l.peer, 0, 10);
        expect_eventually(src.ops->ready(src.ctx));
        expect_read(src, 0, 10);
        send_pattern(l.peer, 10, 10);
        for (int i = 0; i < 1000; i++)
            src.ops->interrupt(src.ctx);
        for (int i = 0; i < 1000; i++)
            expect_interrupted(src);
        expect_true(src.ops->split->wait(src.ctx, 10000 * 1000));
        close_link(&l);
    }
}

static atomic_bool waits_now;

static void *interrupt_at_once(void *arg)
{
    struct link *l = arg;

    while (!waits_now)
        ;
    l->src.ops->interrupt(l->src.ctx);
    return NULL;
}

/* F139: none is lost, whenever it comes. */
Test(source_pipe, interrupt_races_against_the_read_and_always_ends_it)
{
    for (int i = 0; i < 500; i++) {
        struct link l = open_link(i % 2 ? SOCKET : PIPE);
        pthread_t thread;

        waits_now = false;
        expect_int(pthread_create(&thread, NULL, interrupt_at_once, &l), 0);
        waits_now = true;
        expect_interrupted(l.src);
        expect_int(pthread_join(thread, NULL), 0);
        close_link(&l);
    }
}

/* F239 */
Test(source_pipe, wake_up_does_without_eventfd)
{
    struct leaks before = leaks_count();
    struct link l;
    int fds[2];

    expect_int(pipe(fds), 0);
    l.fd = fds[0];
    l.peer = fds[1];
    for (int step = 1; step < 5; step++) {
        bool reached;
        enum ahead_status st;

        fail_step(step);
        st = ahead_source_fd(&l.src, fds[0], 0);
        reached = fail_step(0);
        if (st)
            continue;
        if (!reached)
            break;
        expect_int(live_of(FAILING_DESCRIPTOR), 2); /* of pipe2 */
        send_pattern(l.peer, 0, 10);
        expect_read(l.src, 0, 10);
        for (int i = 0; i < 100000; i++)
            l.src.ops->interrupt(l.src.ctx);
        expect_interrupted(l.src);
        expect_interrupted(l.src);
        close_link(&l);
        expect_int(live_of(FAILING_DESCRIPTOR), 0);
        expect_no_leaks(before);
        return;
    }
    expect_true(!"eventfd failed and pipe2 stood in");
}

static ssize_t preadv2_refused(int fd, void *dst, size_t len, int flags)
{
    (void)fd, (void)dst, (void)len, (void)flags;
    errno = EOPNOTSUPP;
    return -1;
}

Test(source_pipe, pipe_that_cannot_be_read_without_blocking_is_read_all_the_same)
{
    struct link l = open_link(PIPE);
    struct all a;

    on_preadv2 = preadv2_refused;
    a = read_all_from(&l, (struct writer){ .len = 1000, .most = 10, .gap_us = 100 }, 64);
    expect_pattern(&a, 1000);
    close_link(&l);
}

static int poll_refused(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    (void)fds, (void)n, (void)timeout_ms;
    errno = EPERM;
    return -1;
}

Test(source_pipe, descriptor_without_poll_is_read_all_the_same)
{
    struct link l = open_link(PIPE);

    on_poll = poll_refused;
    send_pattern(l.peer, 0, 10);
    expect_read(l.src, 0, 10);
    close_link(&l);
}

static unsigned polls_without_memory;

static int poll_without_memory(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (polls_without_memory == 0)
        return real_poll(fds, n, timeout_ms);
    polls_without_memory--;
    errno = ENOMEM;
    return -1;
}

/* A poll that could not look is no reason to read, which would find the end of a
 * FIFO whose writer is still to come. */
Test(source_pipe, poll_without_memory_is_asked_again)
{
    char path[] = "/tmp/test_source_pipe.XXXXXX";
    struct link l = { .peer = -1 };
    struct ahead_error err = { .status = AHEAD_OK };
    uint8_t byte;

    close(mkstemp(path));
    unlink(path);
    expect_int(mkfifo(path, 0600), 0);
    expect_status(ahead_source_path_flags(&l.src, path, AHEAD_FD_LAZY), AHEAD_OK);
    on_poll = poll_without_memory;
    polls_without_memory = 1000;
    expect_int(l.src.ops->read(l.src.ctx, &byte, 1, &err), -1);
    expect_int(errno, EAGAIN);
    expect_status(err.status, AHEAD_OK);
    l.peer = open(path, O_WRONLY);
    expect_true(l.peer >= 0);
    polls_without_memory = 3;
    send_pattern(l.peer, 0, 10);
    expect_read(l.src, 0, 10);
    close(l.peer);
    expect_close(l.src);
    unlink(path);
}

static int poll_lies(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    (void)n, (void)timeout_ms;
    fds[0].revents = POLLIN;
    fds[1].revents = 0;
    return 1;
}

/* Somebody else took the bytes, or the kernel was wrong: the descriptor blocks,
 * the read must not, and must not spin either. */
Test(source_pipe, read_does_not_block_when_poll_was_wrong, .timeout = 10 * TIME_SCALE)
{
    for (int kind = PIPE; kind <= SOCKET; kind++) {
        struct link l = open_link((enum kind)kind);
        struct ahead_error err = { .status = AHEAD_OK };
        uint8_t byte;

        on_poll = poll_lies;
        syscalls.reads = 0;
        expect_int(l.src.ops->read(l.src.ctx, &byte, 1, &err), -1);
        expect_int(errno, EAGAIN);
        expect_status(err.status, AHEAD_OK);
        expect_true(syscalls.reads > 1 && syscalls.reads < 100);
        on_poll = NULL;
        send_pattern(l.peer, 0, 10);
        expect_read(l.src, 0, 10);
        close_link(&l);
    }
}

Test(source_pipe, wait_ends_with_bytes_or_the_end_or_its_time)
{
    struct link l = open_link(PIPE);
    const struct ahead_split_ops *split = l.src.ops->split;
    const uint32_t times[] = { 0, 1, 50 };

    for (int i = 0; i < 3; i++) {
        uint64_t start = now_ns();

        expect_true(!split->wait(l.src.ctx, times[i]));
        expect_true(ms_since(start) >= times[i]);
        expect_within_ms(start, times[i] + 30);
    }
    send_pattern(l.peer, 0, 10);
    expect_true(split->wait(l.src.ctx, UINT32_MAX));
    expect_read(l.src, 0, 10);
    expect_true(!split->wait(l.src.ctx, 1));
    close(l.peer);
    l.peer = -1;
    expect_true(split->wait(l.src.ctx, 100000));
    close_link(&l);
}

/* F145: neither shorter nor longer, and no spinning. */
Test(source_pipe, wait_is_not_cut_short_by_signals)
{
    struct link l = open_link(PIPE);
    pthread_t disturber = start_disturbing();
    uint64_t start = now_ns();

    expect_true(!l.src.ops->split->wait(l.src.ctx, 200));
    expect_true(ms_since(start) >= 200);
    expect_within_ms(start, 250);
    stop_disturbing(disturber);
    expect_true(syscalls.polls < 1000);
    close_link(&l);
}

Test(source_pipe, ready_knows_without_waiting)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct link l = open_link((enum kind)kind);
        struct ahead_error err;
        uint8_t byte;

        expect_note("%s", kind_names[kind]);
        expect_true(!l.src.ops->ready(l.src.ctx));
        send_pattern(l.peer, 0, 3);
        expect_eventually(l.src.ops->ready(l.src.ctx));
        expect_int(l.src.ops->read(l.src.ctx, &byte, 1, &err), 1);
        expect_true(l.src.ops->ready(l.src.ctx));
        expect_read(l.src, 1, 2);
        syscalls.polls = 0;
        expect_true(!l.src.ops->ready(l.src.ctx)); /* it came up short: no need to ask */
        expect_int(syscalls.polls, 0);
        close_link(&l);
    }
}

/* F130: nothing positional is tried. */
Test(source_pipe, can_neither_seek_nor_skip_nor_be_claimed)
{
    struct link l = open_link(PIPE);

    expect_true(!l.src.ops->seek && !l.src.ops->skip && !l.src.ops->remaining);
    expect_true(!ahead_source_is_split(l.src) && ahead_source_may_block(l.src));
    send_pattern(l.peer, 0, 10);
    expect_read(l.src, 0, 10);
    expect_int(syscalls.preads, 0);
    close_link(&l);
}

/* A file of no bytes for now: the writer is still to come. */
Test(source_pipe, fifo_without_a_writer_has_not_ended)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        char path[] = "/tmp/test_source_pipe.XXXXXX";
        struct link l = { .peer = -1 };
        int fd = mkstemp(path);

        close(fd);
        unlink(path);
        expect_int(mkfifo(path, 0600), 0);
        if (lazy) {
            expect_status(ahead_source_path_flags(&l.src, path, AHEAD_FD_LAZY), AHEAD_OK);
            expect_true(!l.src.ops->ready(l.src.ctx));
        } else {
            fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
            expect_status(ahead_source_fd(&l.src, fd, AHEAD_FD_CLOSE), AHEAD_OK);
        }
        expect_true(!l.src.ops->split->wait(l.src.ctx, 20));
        l.peer = open(path, O_WRONLY);
        expect_true(l.peer >= 0);
        send_pattern(l.peer, 0, 10);
        expect_read(l.src, 0, 10);
        close(l.peer);
        expect_true(l.src.ops->split->wait(l.src.ctx, 1000));
        expect_read(l.src, 10, 0);
        expect_close(l.src);
        unlink(path);
    }
}

static void *open_to_write(void *path)
{
    int fd;

    sleep_us(100000);
    fd = open(path, O_WRONLY);
    send_pattern(fd, 0, 10);
    close(fd);
    return NULL;
}

/* F125: of open(2), which waits for the writer. */
Test(source_pipe, opening_a_fifo_is_not_ended_by_signals)
{
    char path[] = "/tmp/test_source_pipe.XXXXXX";
    pthread_t disturber, writer;
    struct ahead_source src;

    close(mkstemp(path));
    unlink(path);
    expect_int(mkfifo(path, 0600), 0);
    disturber = start_disturbing();
    expect_int(pthread_create(&writer, NULL, open_to_write, path), 0);
    expect_status(ahead_source_path(&src, path), AHEAD_OK);
    expect_read(src, 0, 10);
    expect_read(src, 10, 0);
    expect_int(pthread_join(writer, NULL), 0);
    stop_disturbing(disturber);
    expect_close(src);
    unlink(path);
}

Test(source_pipe, lazy_fifo_waits_for_its_writer_and_can_be_interrupted)
{
    char path[] = "/tmp/test_source_pipe.XXXXXX";
    pthread_t thread;

    close(mkstemp(path));
    unlink(path);
    expect_int(mkfifo(path, 0600), 0);
    expect_status(ahead_source_path_flags(&broken.src, path, AHEAD_FD_LAZY), AHEAD_OK);
    expect_int(pthread_create(&thread, NULL, send_later, NULL), 0);
    expect_interrupted(broken.src);
    expect_int(pthread_join(thread, NULL), 0);
    expect_close(broken.src);

    expect_status(ahead_source_path_flags(&broken.src, path, AHEAD_FD_LAZY), AHEAD_OK);
    unlink(path);
    expect_true(broken.src.ops->split->wait(broken.src.ctx, 1000)); /* a read says what is wrong */
    {
        struct all a = steps_all(broken.src, (struct steps){ .want = 10 });

        expect_status(a.end, AHEAD_IO);
        expect_int(a.err.os_errno, ENOENT);
        free(a.bytes);
    }
    expect_close(broken.src);
}

Test(source_pipe, hung_up_terminal_is_io)
{
    struct ahead_source src;
    struct all a;
    int master, slave;

    expect_int(openpty(&master, &slave, NULL, NULL, NULL), 0);
    make_raw(slave);
    expect_status(ahead_source_fd(&src, master, AHEAD_FD_CLOSE), AHEAD_OK);
    send_pattern(slave, 0, 10);
    close(slave);
    a = steps_all(src, (struct steps){ .want = 100 });
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, EIO);
    expect_size(a.len, 10);
    expect_u64(a.err.source_offset, 10);
    expect_true(strstr(a.err.text, "read of 100 bytes at offset 10: Input/output error") != NULL);
    free(a.bytes);
    expect_close(src);
}

Test(source_pipe, reset_connection_is_io)
{
    struct link l = open_link(SOCKET);
    struct all a;

    send_pattern(l.fd, 0, 1); /* the peer never reads it */
    close(l.peer);
    l.peer = -1;
    a = steps_all(l.src, (struct steps){ .want = 100 });
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, ECONNRESET);
    free(a.bytes);
    close_link(&l);
}

Test(source_pipe, devices_are_read_in_order)
{
    struct ahead_source src;
    struct ahead_error err;
    uint8_t bytes[100] = { 1 };
    struct all a;

    expect_status(ahead_source_path(&src, "/dev/null"), AHEAD_OK);
    a = steps_all(src, (struct steps){ .want = 10 });
    expect_status(a.end, AHEAD_EOF);
    expect_size(a.len, 0);
    free(a.bytes);
    expect_close(src);
    expect_status(ahead_source_path(&src, "/dev/zero"), AHEAD_OK);
    expect_int(src.ops->read(src.ctx, bytes, 100, &err), 100);
    expect_int(bytes[0], 0);
    expect_close(src);
}

Test(source_pipe, no_call_asks_for_more_than_1_gib)
{
    struct link l = open_link(PIPE);
    struct ahead_error err;
    size_t huge = (size_t)5 << 28;
    uint8_t *room = mmap(NULL, huge, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    expect_true(room != MAP_FAILED);
    send_pattern(l.peer, 0, 10);
    expect_int(l.src.ops->read(l.src.ctx, room, huge, &err), 10);
    expect_u64(syscalls.longest, 1 << 30);
    munmap(room, huge);
    close_link(&l);
}

Test(source_pipe, hints_and_ranges_are_unsupported)
{
    const unsigned hints[] = { AHEAD_FD_SEQUENTIAL, AHEAD_FD_WILLNEED, AHEAD_FD_DROP_BEHIND,
                               AHEAD_FD_DIRECT };
    struct leaks before = leaks_count();
    struct ahead_source src;
    int fds[2];

    for (int i = 0; i < 5; i++) {
        expect_int(pipe(fds), 0);
        expect_status(i < 4 ? ahead_source_fd(&src, fds[0], hints[i] | AHEAD_FD_CLOSE)
                            : ahead_source_range(&src, fds[0], 0, 10, AHEAD_FD_CLOSE),
                      AHEAD_UNSUPPORTED);
        expect_int(errno, ENOTSUP);
        expect_true(!src.ops && !src.ctx);
        close(fds[1]);
        expect_no_leaks(before);
    }
}

/* F212 */
Test(source_pipe, wake_up_is_close_on_exec)
{
    enum { MOST = 256 };
    bool before[MOST];
    struct ahead_source src;
    unsigned found = 0;
    int fds[2];

    expect_int(pipe(fds), 0);
    for (int fd = 0; fd < MOST; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    expect_status(ahead_source_fd(&src, fds[0], AHEAD_FD_CLOSE), AHEAD_OK);
    for (int fd = 0; fd < MOST; fd++) {
        if (before[fd] || fcntl(fd, F_GETFD) < 0)
            continue;
        expect_int(fcntl(fd, F_GETFD), FD_CLOEXEC);
        found++;
    }
    expect_int(found, 1);
    expect_close(src);
    close(fds[1]);
}

/* F142, F216 */
Test(source_pipe, constructor_unwinds_from_every_failing_step)
{
    struct leaks before = leaks_count();
    enum ahead_status st = AHEAD_IO;
    bool failed = true;

    fail_always(FAILING_DESCRIPTOR, true);
    for (int round = 0; round < 2; round++, failed = true) {
        for (int step = 1; failed; step++) {
            struct ahead_source src;
            int fds[2];

            expect_int(pipe(fds), 0); /* not wrapped */
            fail_step(step);
            st = ahead_source_fd(&src, fds[0], AHEAD_FD_CLOSE);
            failed = fail_step(0);
            if (st)
                expect_true(!src.ops && !src.ctx && (st == AHEAD_NOMEM || st == AHEAD_IO));
            else
                expect_close(src);
            close(fds[1]);
            expect_int(live, 0);
            expect_no_leaks(before);
        }
        expect_status(st, round ? AHEAD_OK : AHEAD_IO);
        fail_always(FAILING_DESCRIPTOR, false);
    }
}
