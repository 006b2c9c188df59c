/* SPDX-License-Identifier: Apache-2.0 */
/* test_file.c - stdio over a stream: the same bytes, places and ends as over a file, and each fault
 * behind the last good byte. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/files.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/script.h"

#include <ahead/ahead.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* fopencookie() takes memory of libc: it fails for whoever asks for that. */
static bool no_file;
extern __typeof__(fopencookie) __real_fopencookie, __wrap_fopencookie;

FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    if (no_file) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_fopencookie(cookie, mode, functions);
}

static FILE *file_over(struct ahead_stream *s)
{
    FILE *f = NULL;

    expect_status(ahead_stdio_open(&f, s), AHEAD_OK);
    expect_true(f != NULL);
    return f;
}

static FILE *play(struct script *sc, const struct ahead_options *opt)
{
    return file_over(script_open(sc, opt));
}

static struct ahead_stream *stream_of_text(const char *text, const struct ahead_options *opt)
{
    struct ahead_source src;
    struct ahead_stream *s;

    expect_status(ahead_source_memory(&src, text, strlen(text)), AHEAD_OK);
    expect_status(ahead_open(&s, src, opt), AHEAD_OK);
    return s;
}

static void expect_closed(FILE *f, int os_errno)
{
    errno = 0;
    expect_int(fclose(f), os_errno ? EOF : 0);
    if (os_errno)
        expect_int(errno, os_errno);
}

/* The rest of the file is `len` bytes of the pattern from `from`. */
static void expect_pattern(FILE *f, uint64_t from, size_t len)
{
    uint8_t *got = malloc(len + 1);

    expect_size(fread(got, 1, len + 1, f), len);
    expect_size(pattern_match(got, from, len), len);
    free(got);
}

Test(file, getline_sees_each_line_whatever_the_buffer)
{
    for (size_t bytes = 1; bytes <= 9; bytes++) {
        FILE *f = file_over(stream_of_text("one\n\nthree is longer than a buffer\nno end",
                                           &(struct ahead_options){ .buffer_bytes = bytes }));
        char *line = NULL;
        size_t cap = 0;

        expect_int(getline(&line, &cap, f), 4);
        expect_str(line, "one\n");
        expect_int(getline(&line, &cap, f), 1);
        expect_int(getline(&line, &cap, f), 30);
        expect_str(line, "three is longer than a buffer\n");
        expect_int(getline(&line, &cap, f), 6);
        expect_str(line, "no end");
        expect_int(getline(&line, &cap, f), -1);
        expect_true(feof(f) && !ferror(f));
        free(line);
        expect_closed(f, 0);
    }
}

Test(file, fscanf_and_ungetc_work_as_ever)
{
    FILE *f = file_over(stream_of_text("12 -7 0x1f  word", NULL));
    int a, b, c;
    char word[8];

    expect_int(fscanf(f, "%d %d", &a, &b), 2);
    expect_int(fscanf(f, "%i", &c), 1);
    expect_int(a, 12);
    expect_int(b, -7);
    expect_int(c, 31);
    expect_int(ungetc('9', f), '9');
    expect_int(fscanf(f, "%d %7s", &a, word), 2);
    expect_int(a, 9);
    expect_str(word, "word");
    expect_int(getc(f), EOF);
    expect_true(feof(f));
    expect_closed(f, 0);
}

Test(file, bytes_are_the_same_in_every_mode)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(RANDOM(100000, 3000)), .seed = 7 };
        FILE *f;

        expect_note("mode %s", m->name);
        script_set_mode(&sc, m);
        f = play(&sc, &(struct ahead_options){ .buffer_bytes = 5000, .flags = m->flags });
        expect_pattern(f, 0, 100000);
        expect_true(feof(f) && !ferror(f));
        expect_closed(f, 0);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Each status of an ending, its errno, and that the bytes come first; clearerr() brings no other
 * ending about, and the close repeats it. */
Test(file, faults_come_behind_the_good_bytes)
{
    static const struct {
        struct step step;
        int os_errno;
    } faults[] = {
        { ERRNO(ENXIO), ENXIO },
        { STATUS(AHEAD_IO, 1, "no number"), EIO },
        { STATUS(AHEAD_TRUNCATED, 1, "cut"), EBADMSG },
        { STATUS(AHEAD_CORRUPT, 1, "bad"), EBADMSG },
        { STATUS(AHEAD_LIMIT, 1, "large"), EOVERFLOW },
        { STATUS(AHEAD_UNSUPPORTED, 1, "strange"), ENOTSUP },
        { STATUS(AHEAD_NOMEM, 1, "poor"), ENOMEM },
    };

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct step steps[] = { BYTES(10000), faults[i].step, END };
        struct script sc = { .step = steps };
        FILE *f = play(&sc, &(struct ahead_options){ .buffer_bytes = 512 });

        expect_note("errno %d", faults[i].os_errno);
        errno = 0;
        expect_pattern(f, 0, 10000);
        expect_int(errno, faults[i].os_errno);
        expect_true(ferror(f) && !feof(f));
        clearerr(f);
        errno = 0;
        expect_int(getc(f), EOF);
        expect_int(errno, faults[i].os_errno);
        expect_true(ferror(f));
        expect_closed(f, faults[i].os_errno);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(file, close_says_what_the_source_says)
{
    struct script sc = { .step = STEPS(BYTES(10)),
                         .close_status = AHEAD_IO,
                         .close_errno = ENOSPC };
    struct script odd = { .step = STEPS(BYTES(10)), .close_status = AHEAD_CORRUPT };
    FILE *f = play(&sc, NULL);

    expect_pattern(f, 0, 10);
    expect_closed(f, ENOSPC);
    expect_closed(play(&odd, NULL), EBADMSG);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_str(script_closing_verdict(&odd), "ok");
}

static struct script *stalling;

/* Once the source has given what it has, and blocks. */
static void *cancel_when_it_stalls(void *s)
{
    expect_eventually(atomic_load_explicit(&stalling->stalls, memory_order_relaxed) > 0);
    ahead_cancel(s);
    return NULL;
}

Test(file, cancel_wakes_a_reader_in_stdio)
{
    struct script sc = { .step = STEPS(BYTES(3), STALL, BYTES(3)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    FILE *f = file_over(s);
    pthread_t thread;

    stalling = &sc;
    expect_int(pthread_create(&thread, NULL, cancel_when_it_stalls, s), 0);
    errno = 0;
    expect_pattern(f, 0, 3);
    expect_int(errno, ECANCELED);
    expect_true(ferror(f) && !feof(f));
    pthread_join(thread, NULL);
    expect_int(ftell(f), 3);
    expect_closed(f, 0); /* whoever cancels knows */
    expect_str(script_closing_verdict(&sc), "ok");
}

/* Read to the end, however often the time limit runs out on the way. */
static size_t read_patiently(FILE *f, uint8_t *dst, size_t len)
{
    size_t got = 0;

    for (uint64_t start = now_ns(); !feof(f) && !too_late(start);) {
        errno = 0;
        got += fread(dst + got, 1, len - got, f);
        if (ferror(f))
            expect_int(errno, ETIMEDOUT);
        if (!feof(f))
            clearerr(f);
    }
    return got;
}

/* The limit can run out in any wait on a machine that is busy, so the reader waits only where it
 * is to run out, or goes on when it has. */
Test(file, time_limit_loses_nothing)
{
    struct script sc = { .step = STEPS(BYTES(3), STALL, BYTES(4)) };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .read_timeout_ms = 20, .flags = AHEAD_EAGER });
    FILE *f = file_over(s);
    uint8_t rest[8];

    expect_eventually(ahead_buffered(s) == 3);
    errno = 0;
    expect_pattern(f, 0, 3);
    expect_int(errno, ETIMEDOUT);
    expect_true(ferror(f) && !feof(f));
    script_release(&sc);
    clearerr(f);
    expect_size(read_patiently(f, rest, sizeof rest), 4);
    expect_size(pattern_match(rest, 3, 4), 4);
    expect_true(feof(f) && !ferror(f));
    expect_closed(f, 0);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* What a FILE over the same file says, from the same calls. */
Test(file, places_are_those_of_a_file)
{
    int fd = make_file(MANY);
    struct ahead_stream *s;
    FILE *f, *g = fopen(path, "r");
    uint64_t x = 1;

    expect_status(ahead_open(&s, open_fd(fd), &(struct ahead_options){ .buffer_bytes = 5000 }),
                  AHEAD_OK);
    f = file_over(s);
    expect_true(g != NULL);
    for (int i = 0; i < 3000; i++) {
        static const int whences[] = { SEEK_SET, SEEK_CUR, SEEK_END };
        int whence;
        long by;

        x = x * 6364136223846793005u + 1442695040888963407u;
        whence = whences[(x >> 33) % 3];
        by = (long)((x >> 36) % (i % 2 ? 300 : 2 * MANY)) - (i % 2 ? 150 : MANY);
        expect_note("step %d: %ld from %d", i, by, whence);
        expect_int(fseek(f, by, whence), fseek(g, by, whence));
        expect_int(ftell(f), ftell(g));
        for (unsigned k = (unsigned)(x >> 50) % 40; k > 0; k--)
            expect_int(getc(f), getc(g));
        expect_int(ftell(f), ftell(g));
        expect_int(feof(f), feof(g));
    }
    fclose(g);
    expect_closed(f, 0);
    remove_file(fd);
}

Test(file, size_by_the_usual_idiom)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_range(fd, 1000, 70000);
    struct ahead_stream *s;
    FILE *f;

    expect_status(ahead_open(&s, src, NULL), AHEAD_OK);
    f = file_over(s);
    expect_int(getc(f), pattern_byte(1000));
    expect_int(fseek(f, 0, SEEK_END), 0);
    expect_int(ftell(f), 70000);
    expect_int(getc(f), EOF);
    rewind(f);
    expect_int(ftell(f), 0);
    expect_pattern(f, 1000, 70000);
    expect_closed(f, 0);
    remove_file(fd);
}

/* As in front of a pipe: what the FILE has buffered stays where it is. */
Test(file, source_that_cannot_seek_is_told_as_a_pipe)
{
    struct script sc = { .step = STEPS(BYTES(60000)) };
    FILE *f = play(&sc, &(struct ahead_options){ .buffer_bytes = 4096 });

    expect_int(ftell(f), 0);
    for (int i = 0; i < 20000; i++)
        expect_int(getc(f), pattern_byte((uint64_t)i));
    expect_int(ftell(f), 20000);
    errno = 0;
    expect_int(fseek(f, 0, SEEK_SET), -1);
    expect_int(errno, ESPIPE);
    errno = 0;
    expect_int(fseek(f, 0, SEEK_END), -1);
    expect_int(errno, ESPIPE);
    errno = 0;
    expect_int(fseek(f, 50000, SEEK_SET), -1);
    expect_int(errno, ESPIPE);
    expect_int(ftell(f), 20000);
    expect_pattern(f, 20000, 40000);
    expect_closed(f, 0);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(file, seek_that_fails_says_why_and_moves_nothing)
{
    struct script sc = { .step = STEPS(BYTES(60000)), .has = HAS_SEEK, .refuse_seek = AHEAD_IO };
    FILE *f = play(&sc, &(struct ahead_options){ .buffer_bytes = 4096 });

    expect_int(getc(f), pattern_byte(0));
    errno = 0;
    expect_int(fseek(f, 59000, SEEK_SET), -1);
    expect_int(errno, EIO);
    errno = 0;
    expect_int(fseek(f, -2, SEEK_CUR), -1);
    expect_int(errno, EINVAL);
    errno = 0;
    expect_int(fseeko(f, INT64_MAX, SEEK_CUR), -1);
    expect_int(errno, EOVERFLOW);
    expect_pattern(f, 1, 59999);
    expect_closed(f, 0);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(file, seek_clears_the_end_and_a_fault)
{
    struct script sc = { .step = STEPS(BYTES(9000), ERRNO_ONCE(EIO), BYTES(1000)),
                         .has = HAS_SEEK };
    FILE *f = play(&sc, &(struct ahead_options){ .buffer_bytes = 512 });

    expect_pattern(f, 0, 9000);
    expect_true(ferror(f));
    clearerr(f);
    expect_int(fseek(f, 8000, SEEK_SET), 0);
    expect_pattern(f, 8000, 2000);
    expect_true(feof(f) && !ferror(f));
    expect_int(fseek(f, 10, SEEK_SET), 0);
    expect_true(!feof(f));
    expect_int(getc(f), pattern_byte(10));
    expect_closed(f, 0);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(file, goes_on_where_the_stream_was_read_to)
{
    struct ahead_stream *s = stream_of_text("0123456789", NULL);
    FILE *f;

    expect_status(ahead_skip(s, 4, NULL), AHEAD_OK);
    f = file_over(s);
    expect_int(ftell(f), 4);
    expect_int(getc(f), '4');
    rewind(f);
    expect_int(getc(f), '0');
    expect_closed(f, 0);
}

Test(file, cannot_be_written_to)
{
    FILE *f = file_over(stream_of_text("abc", NULL));

    errno = 0;
    expect_int(fputc('x', f), EOF);
    expect_int(errno, EBADF);
    clearerr(f);
    expect_int(getc(f), 'a');
    expect_int(fileno(f), -1);
    expect_closed(f, 0);
}

Test(file, stream_is_the_files_in_every_outcome)
{
    struct script sc[2] = { { .step = STEPS(BYTES(10)) }, { .step = STEPS(BYTES(10)) } };
    FILE *f = stdin;

    no_file = true;
    errno = 0;
    expect_status(ahead_stdio_open(&f, script_open(&sc[0], NULL)), AHEAD_NOMEM);
    no_file = false;
    expect_int(errno, ENOMEM);
    expect_true(f == NULL);
    expect_str(script_closing_verdict(&sc[0]), "ok");

    errno = 0;
    expect_status(ahead_stdio_open(NULL, script_open(&sc[1], NULL)), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_str(script_closing_verdict(&sc[1]), "ok");

    f = stdin;
    errno = 0;
    expect_status(ahead_stdio_open(&f, NULL), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_true(f == NULL);
}

/* exit() has stdio go back to what was not read: it must not wait, nor disturb the parent. */
Test(file, child_of_fork_leaves_it_alone)
{
    static struct ahead_stream *volatile kept; /* else LSan calls it a leak of the child */
    struct script sc = { .step = STEPS(BYTES(60000)), .has = HAS_SEEK };
    struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4096 });
    FILE *f = file_over(s);
    int status = 0;
    pid_t pid;

    expect_int(getc(f), pattern_byte(0));
    kept = s;
    pid = fork();
    if (pid == 0) {
        uint8_t rest[20000];

        errno = 0;
        /* What stdio had in its own buffer is there. */
        if (fread(rest, 1, sizeof rest, f) == sizeof rest || !ferror(f) || errno != EINVAL)
            _exit(1);
        exit(kept != s);
    }
    expect_true(pid > 0);
    expect_int(waitpid(pid, &status, 0), pid);
    expect_int(status, 0);
    expect_pattern(f, 1, 59999);
    expect_closed(f, 0);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* ---- how long a stream is ---- */

static void expect_long(struct ahead_stream *s, uint64_t want)
{
    uint64_t size = 12345, here = ahead_tell(s);

    expect_status(ahead_size(s, &size), AHEAD_OK);
    expect_u64(size, want);
    expect_u64(ahead_tell(s), here);
}

Test(size, is_the_same_wherever_the_reader_is)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
        int fd = make_file(MANY);
        struct ahead_stream *s;
        uint8_t byte;

        expect_status(ahead_open(&s, open_fd(fd),
                                 &(struct ahead_options){ .buffer_bytes = 5000, .flags = flags }),
                      AHEAD_OK);
        expect_long(s, MANY);
        for (uint64_t to = 0; to <= MANY; to += MANY / 7) {
            expect_status(ahead_skip(s, to - ahead_tell(s), NULL), AHEAD_OK);
            expect_long(s, MANY);
        }
        expect_status(ahead_skip(s, UINT64_MAX, NULL), AHEAD_EOF);
        expect_long(s, MANY);
        expect_status(ahead_read_u8(s, &byte), AHEAD_EOF);
        expect_status(ahead_seek(s, 2 * MANY), AHEAD_OK);
        expect_long(s, MANY);
        expect_status(ahead_read_u8(s, &byte), AHEAD_EOF);
        expect_long(s, MANY);
        expect_status(ahead_seek(s, MANY - 1), AHEAD_OK);
        expect_long(s, MANY);
        expect_status(ahead_read_u8(s, &byte), AHEAD_OK);
        expect_int(byte, pattern_byte(MANY - 1));
        expect_status(ahead_close(s), AHEAD_OK);
        remove_file(fd);
    }
}

/* A file of nothing says so: not more than procfs. */
Test(size, of_memory_and_of_nothing)
{
    struct ahead_stream *s = stream_of_text("0123456789", NULL);

    expect_long(s, 10);
    expect_status(ahead_skip(s, 7, NULL), AHEAD_OK);
    expect_long(s, 10);
    expect_status(ahead_close(s), AHEAD_OK);
    s = stream_of_text("", NULL);
    expect_long(s, 0);
    expect_status(ahead_close(s), AHEAD_OK);
}

Test(size, is_not_known_to_every_source)
{
    struct script mute = { .step = STEPS(BYTES(100)) };
    struct script broken = { .step = STEPS(BYTES(100), ERRNO(EIO), BYTES(900)),
                             .has = HAS_REMAINING };
    struct ahead_stream *s = script_open(&mute, NULL);
    uint64_t size = 12345;

    expect_status(ahead_size(s, &size), AHEAD_UNSUPPORTED);
    expect_true(ahead_error(s)->text[0]);
    expect_status(ahead_close(s), AHEAD_OK);

    s = script_open(&broken, NULL);
    expect_status(ahead_skip(s, 1000, NULL), AHEAD_IO);
    expect_status(ahead_size(s, &size), AHEAD_UNSUPPORTED);
    expect_status(ahead_error(s)->status, AHEAD_IO); /* the ending stays */

    expect_status(ahead_size(s, NULL), AHEAD_INVALID);
    expect_status(ahead_size(NULL, &size), AHEAD_INVALID);
    expect_u64(size, 12345);
    expect_status(ahead_close(s), AHEAD_IO);
}

Test(size, is_not_had_of_a_cancelled_stream)
{
    struct ahead_stream *s = stream_of_text("0123456789", NULL);
    uint64_t size;

    ahead_cancel(s);
    expect_status(ahead_size(s, &size), AHEAD_CANCELLED);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* ---- past the end: the source is asked at its start ---- */

struct homebody {
    uint64_t size, at;
    unsigned seeks;               /* how many it still does */
    struct ahead_stream *cancels; /* while it seeks; NULL: nothing */
};

static ssize_t homebody_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct homebody *h = ctx;
    size_t n = h->at < h->size ? (size_t)(h->size - h->at) : 0;

    (void)err;
    n = n < len ? n : len;
    memset(dst, 'x', n);
    h->at += n;
    return (ssize_t)n;
}

static enum ahead_status homebody_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct homebody *h = ctx;

    (void)err;
    if (h->seeks == 0)
        return AHEAD_UNSUPPORTED;
    h->seeks--;
    h->at = offset;
    ahead_cancel(h->cancels);
    return AHEAD_OK;
}

static uint64_t homebody_remaining(void *ctx)
{
    const struct homebody *h = ctx;

    return h->at < h->size ? h->size - h->at : 0;
}

static const struct ahead_source_ops homebody_ops = {
    .read = homebody_read,
    .seek = homebody_seek,
    .remaining = homebody_remaining,
};

static struct ahead_stream *past_the_end(struct homebody *h, const struct ahead_options *opt)
{
    struct ahead_stream *s;
    struct ahead_source src = { .ops = &homebody_ops, .ctx = h };

    expect_status(ahead_open(&s, src, opt), AHEAD_OK);
    expect_status(ahead_seek(s, 500), AHEAD_OK);
    return s;
}

Test(size, past_the_end_leaves_the_reader_there_if_a_cancel_comes_in_between)
{
    struct homebody h = { .size = 100, .seeks = 9 };
    struct ahead_stream *s = past_the_end(&h, NULL);

    h.cancels = s;
    expect_long(s, 100);
    expect_u64(h.seeks, 6); /* there, to the start and back */
    expect_u64(h.at, 500);
    expect_status(ahead_close(s), AHEAD_OK);
}

Test(size, past_the_end_leaves_the_reader_there_if_the_source_does_not_come_back)
{
    struct homebody h = { .size = 100, .seeks = 2 };
    struct ahead_stream *s = past_the_end(&h, NULL);
    uint64_t size = 12345;
    uint8_t byte;

    expect_status(ahead_size(s, &size), AHEAD_UNSUPPORTED);
    expect_u64(size, 12345);
    expect_u64(ahead_tell(s), 500);
    /* None from the start. */
    expect_status(ahead_read(s, &byte, 1, NULL), AHEAD_UNSUPPORTED);
    expect_u64(ahead_tell(s), 500);
    expect_status(ahead_size(s, &size), AHEAD_UNSUPPORTED);
    h.seeks = 1;
    expect_status(ahead_seek(s, 99), AHEAD_OK);
    expect_status(ahead_read(s, &byte, 1, NULL), AHEAD_OK);
    expect_status(ahead_close(s), AHEAD_OK);
}
