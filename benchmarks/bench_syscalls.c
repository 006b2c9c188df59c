/* SPDX-License-Identifier: Apache-2.0 */
/* bench_syscalls.c - which system calls it takes to read a file through: all of them, of all
 * threads, counted by the kernel's own tracer (after apache/datafusion-comet#6805, where a reader
 * asked for the file's size before each read).
 *
 * AHEAD_BENCH_MIB (1024) is the size of the input.  What is counted is done in a
 * process of its own; tracing it makes it slow, so nothing is timed. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 512, PIECE = 256 * 1024 };

/* ---- what is counted ---- */

static void by_read(const char *path)
{
    static uint8_t piece[PIECE];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    while (read(fd, piece, PIECE) > 0)
        ;
    close(fd);
}

static void read_through(struct ahead_source src)
{
    struct ahead_stream *s;
    int32_t v;

    if (ahead_open(&s, src, NULL))
        _exit(2);
    while (!ahead_read_i32_be(s, &v))
        ;
    if (ahead_close(s))
        _exit(3);
}

static void by_stream(const char *path)
{
    struct ahead_source src;

    if (ahead_source_path(&src, path))
        _exit(2);
    read_through(src);
}

static void by_block(const char *path)
{
    struct ahead_source src;

    if (ahead_source_path(&src, path) || ahead_source_lz4_block(&src, src, NULL))
        _exit(2);
    read_through(src);
}

static void by_frame(const char *path)
{
    struct ahead_source src;

    if (ahead_source_path(&src, path) || ahead_source_lz4_frame(&src, src, NULL))
        _exit(2);
    read_through(src);
}

/* ---- the counting ---- */

static pid_t start(void (*run)(const char *), const char *path)
{
    pid_t child = fork();

    cr_assert(child >= 0);
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        run(path);
        _exit(0);
    }
    return child;
}

/* Runs it to its end; count[n] is how often call number n was made.  false:
 * tracing is not permitted here. */
static bool count_calls(void (*run)(const char *), const char *path, unsigned long count[CALLS])
{
    pid_t child = start(run, path), who;
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    int status;

    memset(count, 0, CALLS * sizeof *count);
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL, options)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return false;
    }
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    while ((who = waitpid(-1, &status, __WALL)) > 0) {
        struct __ptrace_syscall_info info;
        long deliver = 0;

        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (who != child)
                continue;
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "it failed with %#x", status);
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, who, sizeof info, &info) > 0 &&
                info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr < CALLS)
                count[info.entry.nr]++;
        } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
            deliver = WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, who, NULL, deliver);
    }
    return true;
}

static const struct {
    long number;
    const char *name;
} names[] = {
    { SYS_read, "read" },       { SYS_pread64, "pread" },   { SYS_preadv, "preadv" },
    { SYS_preadv2, "preadv2" }, { SYS_lseek, "lseek" },     { SYS_fstat, "fstat" },
    { SYS_futex, "futex" },     { SYS_poll, "poll" },       { SYS_ppoll, "ppoll" },
    { SYS_mmap, "mmap" },       { SYS_munmap, "munmap" },   { SYS_madvise, "madvise" },
    { SYS_fadvise64, "fadvise" }, { SYS_newfstatat, "fstatat" }, { SYS_statx, "statx" },
};

enum { NAMES = sizeof names / sizeof *names };

/* How often one that only asks about the file was called. */
static unsigned long questions(const unsigned long count[CALLS])
{
    return count[SYS_fstat] + count[SYS_newfstatat] + count[SYS_statx] + count[SYS_lseek] +
           count[SYS_poll] + count[SYS_ppoll];
}

static bool show(const char *name, void (*run)(const char *), const struct bench_file *f)
{
    static unsigned long count[CALLS];
    unsigned long all = 0;
    double gib = (double)f->bytes / (1 << 30);
    struct figure per_gib;

    if (!count_calls(run, f->path, count)) {
        printf("SKIPPED: no process may trace another here\n");
        return false;
    }
    for (int i = 0; i < CALLS; i++)
        all += count[i];
    per_gib.low = per_gib.median = per_gib.high = (double)all / gib;
    printf("%-10s %7.0f a GiB, pieces of 256 KiB are 4096; asked about the file %lu times;",
           name, per_gib.median, questions(count));
    for (int i = 0; i < NAMES; i++)
        if (count[names[i].number])
            printf(" %s %lu", names[i].name, count[names[i].number]);
    printf("\n");
    fflush(stdout);
    record("syscalls", name, "a GiB", per_gib, "calls");
    return true;
}

Test(syscalls, to_read_a_file_through)
{
    uint64_t bytes = size_from_env("AHEAD_BENCH_MIB", 1024) << 20;
    struct bench_file plain = make_file(bytes);
    struct bench_file block = make_encoded(bytes, AHEAD_FORMAT_LZ4_BLOCK, NULL);
    struct bench_file frame =
        make_encoded(bytes, AHEAD_FORMAT_LZ4_FRAME,
                     &(struct ahead_lz4_encode_options){ .independent_blocks = true });

    print_machine();
    if (show("read(2)", by_read, &plain)) {
        show("stream", by_stream, &plain);
        show("LZ4Block", by_block, &block);
        show("LZ4 frame", by_frame, &frame);
    }
    remove_file(&plain);
    remove_file(&block);
    remove_file(&frame);
}
