/* SPDX-License-Identifier: Apache-2.0 */
/* test_source_open.c - sources over files are opened when they should be, close what is theirs
 * once, and leave nothing behind when they cannot be made. */
#include "support/expect.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/leaks.h"

#include <ahead/source.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* F231, F142 */
Test(source_open, wrong_calls_are_refused_and_what_was_given_is_closed)
{
    struct ahead_source src = { .ctx = path };
    int fd = make_file(100);

    expect_status(ahead_source_fd(&src, -1, 0), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_true(!src.ops && !src.ctx);
    expect_status(ahead_source_fd(&src, fd, 64), AHEAD_INVALID);
    expect_status(ahead_source_fd(&src, fd, AHEAD_FD_LAZY), AHEAD_INVALID);
    expect_status(ahead_source_fd(NULL, fd, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(&src, fd, 1, INT64_MAX, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(&src, fd, 1, UINT64_MAX - 1, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(&src, fd, (uint64_t)INT64_MAX + 1, 0, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(&src, fd, UINT64_MAX, UINT64_MAX, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(NULL, fd, 0, 1, 0), AHEAD_INVALID);
    expect_status(ahead_source_range(&src, -1, 0, 1, 0), AHEAD_INVALID);
    expect_status(ahead_source_path(&src, NULL), AHEAD_INVALID);
    expect_status(ahead_source_path(NULL, path), AHEAD_INVALID);
    expect_status(ahead_source_path_flags(&src, path, 128), AHEAD_INVALID);
    expect_true(is_open(fd));
    expect_status(ahead_source_range(&src, fd, 1, INT64_MAX - 1, 0), AHEAD_OK);
    expect_close(src);

    for (int i = 0; i < 3; i++) {
        int given = dup(fd);

        expect_status(i == 0   ? ahead_source_fd(&src, given, 64 | AHEAD_FD_CLOSE)
                      : i == 1 ? ahead_source_fd(NULL, given, AHEAD_FD_CLOSE)
                               : ahead_source_range(&src, given, 1, INT64_MAX, AHEAD_FD_CLOSE),
                      AHEAD_INVALID);
        expect_true(!is_open(given));
    }
    remove_file(fd);
}

Test(source_open, what_cannot_be_opened_says_why)
{
    struct ahead_source src;
    struct leaks before = leaks_count();
    int fd;

    expect_status(ahead_source_path(&src, "/nowhere/at all"), AHEAD_IO);
    expect_int(errno, ENOENT);
    expect_status(ahead_source_path(&src, ""), AHEAD_IO);
    expect_int(errno, ENOENT);
    expect_status(ahead_source_fd(&src, 1000, AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EBADF);
    expect_true(!src.ops && !src.ctx);
    expect_status(ahead_source_path(&src, "/tmp"), AHEAD_IO); /* F136 */
    expect_int(errno, EISDIR);
    fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    expect_status(ahead_source_fd(&src, fd, 0), AHEAD_IO);
    expect_int(errno, EISDIR);
    expect_status(ahead_source_range(&src, fd, 0, 1, AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EISDIR);
    expect_true(!is_open(fd));
    expect_no_leaks(before);
}

Test(source_open, descriptor_that_cannot_be_read_fails_at_the_first_read)
{
    int fd = make_file(100);
    int write_only = open(path, O_WRONLY);
    struct ahead_source src = open_fd(write_only);
    struct all a = steps_all(src, plain);

    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, EBADF);
    expect_size(a.len, 0);
    free(a.bytes);
    expect_close(src);
    close(write_only);
    remove_file(fd);
}

/* poll(2) would wait for ever. */
Test(source_open, wrong_end_of_a_pipe_is_refused)
{
    struct leaks before = leaks_count();
    struct ahead_source src;
    int fd[2];

    expect_int(pipe(fd), 0);
    expect_status(ahead_source_fd(&src, fd[1], 0), AHEAD_IO);
    expect_int(errno, EBADF);
    expect_true(!src.ops && is_open(fd[1]));
    expect_status(ahead_source_fd(&src, fd[1], AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EBADF);
    expect_true(!is_open(fd[1]));
    expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
    expect_close(src);
    expect_no_leaks(before);
}

/* F135 */
Test(source_open, descriptor_0_is_one_like_any_other)
{
    int saved = dup(0), fd = make_file(100);
    struct ahead_source src;

    close(0);
    expect_int(dup(fd), 0);
    src = open_fd(0);
    expect_rest(src, plain, 0, 100, AHEAD_EOF);
    expect_close(src);
    expect_true(is_open(0));

    close(0);
    expect_status(ahead_source_path(&src, path), AHEAD_OK);
    expect_true(is_open(0));
    expect_rest(src, plain, 0, 100, AHEAD_EOF);
    expect_close(src);
    expect_true(!is_open(0));
    expect_int(dup2(saved, 0), 0);
    close(saved);
    remove_file(fd);
}

/* F199 */
Test(source_open, no_descriptor_left_is_io_with_emfile)
{
    struct rlimit old, none;
    struct ahead_source src;
    int fd = make_file(100), pipe_fds[2];
    struct leaks before = leaks_count();

    expect_int(pipe(pipe_fds), 0);
    expect_int(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = old;
    none.rlim_cur = 0;
    expect_int(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_status(ahead_source_path(&src, path), AHEAD_IO);
    expect_int(errno, EMFILE);
    expect_status(ahead_source_fd(&src, pipe_fds[0], AHEAD_FD_CLOSE), AHEAD_IO);
    expect_int(errno, EMFILE);
    expect_int(setrlimit(RLIMIT_NOFILE, &old), 0);
    expect_true(!is_open(pipe_fds[0]));
    close(pipe_fds[1]);
    expect_no_leaks(before);
    expect_status(ahead_source_path(&src, path), AHEAD_OK);
    expect_rest(src, plain, 0, 100, AHEAD_EOF);
    expect_close(src);
    remove_file(fd);
}

/* F142, F213 */
Test(source_open, closes_what_is_its_own_once_and_reports_a_failure)
{
    int fd = make_file(100), given = dup(fd);
    struct ahead_source src = open_fd(given);
    struct ahead_error err;

    expect_close(src);
    expect_true(is_open(given));
    expect_status(ahead_source_fd(&src, given, AHEAD_FD_CLOSE), AHEAD_OK);
    expect_close(src);
    expect_true(!is_open(given));

    given = dup(fd);
    expect_status(ahead_source_fd(&src, given, AHEAD_FD_CLOSE), AHEAD_OK);
    close(given);
    expect_status(src.ops->close(src.ctx, &err), AHEAD_IO);
    expect_int(err.os_errno, EBADF);
    expect_true(says(&err, "close"));
    remove_file(fd);
}

/* F212 */
Test(source_open, own_descriptors_are_close_on_exec)
{
    int fd = make_file(100), null = dup(fd);
    struct ahead_source src;

    close(null); /* the number that comes next */
    expect_status(ahead_source_path(&src, path), AHEAD_OK);
    expect_int(fcntl(null, F_GETFD), FD_CLOEXEC);
    expect_close(src);
    remove_file(fd);
}

Test(source_open, lazy_path_is_opened_at_the_first_read)
{
    int fd = make_file(MANY);
    struct leaks before = leaks_count();
    char name[64];
    struct ahead_source src;

    strcpy(name, path);
    expect_status(ahead_source_path_flags(&src, name, AHEAD_FD_LAZY), AHEAD_OK);
    memset(name, 'x', strlen(name)); /* it was copied */
    expect_u64(leaks_count().descriptors, before.descriptors);
    expect_u64(src.ops->remaining(src.ctx), MANY);
    expect_true(ahead_source_is_split(src) && !ahead_source_may_block(src));
    expect_rest(src, plain, 0, MANY, AHEAD_EOF);
    expect_u64(leaks_count().descriptors, before.descriptors + 1);
    expect_close(src);
    expect_no_leaks(before);

    for (int i = 0; i < 3; i++) { /* never read, sought, skipped in */
        expect_status(ahead_source_path_flags(&src, path, AHEAD_FD_LAZY), AHEAD_OK);
        if (i == 1)
            expect_byte_at(src, 1000, pattern_byte(1000));
        if (i == 2)
            expect_u64(skip_of(src, UINT64_MAX, AHEAD_OK), MANY);
        expect_close(src);
        expect_no_leaks(before);
    }
    remove_file(fd);
}

Test(source_open, lazy_path_reports_at_the_first_read_what_fails)
{
    struct leaks before = leaks_count();
    struct ahead_source src;
    struct ahead_error err;
    struct all a;
    uint8_t byte;

    expect_status(ahead_source_path_flags(&src, "/nowhere/at all", AHEAD_FD_LAZY), AHEAD_OK);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, ENOENT);
    expect_true(says(&a.err, "/nowhere/at all") && says(&a.err, "No such file"));
    expect_int(src.ops->read(src.ctx, &byte, 1, &err), -1);
    expect_int(err.os_errno, ENOENT);
    expect_u64(skip_of(src, 10, AHEAD_IO), 0);
    expect_close(src);

    expect_status(ahead_source_path_flags(&src, "/tmp", AHEAD_FD_LAZY), AHEAD_OK);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, EISDIR);
    expect_close(src);

    expect_status(ahead_source_path_flags(&src, "/proc/version", AHEAD_FD_LAZY | AHEAD_FD_DIRECT),
                  AHEAD_OK);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_UNSUPPORTED);
    expect_true(says(&a.err, "O_DIRECT"));
    expect_close(src);
    expect_no_leaks(before);
}

Test(source_open, lazy_path_may_come_into_being_and_must_stay_a_file)
{
    int fd = make_file(100);
    struct ahead_source src;
    char away[80];
    struct all a;

    snprintf(away, sizeof away, "%s.away", path);
    expect_int(rename(path, away), 0);
    expect_status(ahead_source_path_flags(&src, path, AHEAD_FD_LAZY), AHEAD_OK);
    expect_int(rename(away, path), 0);
    expect_rest(src, plain, 0, 100, AHEAD_EOF);
    expect_close(src);

    expect_status(ahead_source_path_flags(&src, path, AHEAD_FD_LAZY), AHEAD_OK);
    unlink(path);
    expect_int(mkfifo(path, 0600), 0);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_UNSUPPORTED);
    a = steps_all(src, plain); /* the same again, and no read of a pipe */
    expect_status(a.end, AHEAD_UNSUPPORTED);
    expect_close(src);
    remove_file(fd);
}

/* F216: each allocation, descriptor and fstat in turn. */
Test(source_open, constructors_unwind_from_every_failing_step)
{
    const unsigned flags[] = { 0, AHEAD_FD_DIRECT, AHEAD_FD_LAZY };
    int fd = make_file(100);

    for (int i = 0; i < 3; i++) {
        bool failed = true;

        for (int step = 1; failed; step++) {
            struct ahead_source src = { .ctx = path };
            enum ahead_status st;

            fail_step(step);
            st = ahead_source_path_flags(&src, path, flags[i]);
            failed = fail_step(0);
            expect_note("flags %u, step %d", flags[i], step);
            if (failed) {
                expect_true(st == AHEAD_NOMEM || st == AHEAD_IO);
                expect_true(errno == ENOMEM || errno == EMFILE || errno == EIO || errno == ENFILE);
                expect_true(!src.ops && !src.ctx);
            } else {
                expect_true(step > 1);
                if (!st)
                    expect_close(src);
            }
            expect_int(live, 0);
        }
    }
    remove_file(fd);
}
