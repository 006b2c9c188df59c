/* SPDX-License-Identifier: Apache-2.0 */
/* test_inject.c - one fault at each call of a life: every function that can fail, in every way in
 * which it plausibly does, for streams, readers, writers and queues of each kind.
 *
 * A scenario is played again and again, until it has passed untouched: with the
 * first fault of its first call, with the second, and so on.  Whatever was done,
 * the status is OK (it was got round) or says what it was; the bytes up to there
 * are right and whole; what was held is released; and where the fault is gone and
 * the kind can seek, reading goes on behind it. */
#include <ahead/ahead.h>

#include "support/bytes.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/inject.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/sanitizers.h"
#include "support/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 12000, /* of the pattern, in every input */
    START = 100,   /* of the range, in the file */
    BUFFER = 2500,
    BLOCK = 2048, /* of LZ4Block */
    QUIET = 3     /* lives without a fault until all points are through: threads vary */
};

/* How a life is led. */
struct course {
    unsigned flags; /* of the stream or writer */
    bool cancels;   /* in the middle */
};

static const struct course courses[] = { { .flags = AHEAD_SYNC },
                                         { .flags = 0 },
                                         { .flags = AHEAD_EAGER, .cancels = true } };

/* What came of a life: the first status that was neither OK nor EOF. */
struct told {
    enum ahead_status st;
    int os_errno;
};

struct scenario {
    const char *name;
    void (*make)(void);    /* once: the file at `path` */
    void (*prepare)(void); /* not under test; before each life */
    void (*live)(const struct scenario *sc, const struct course *c, struct told *told);
    void (*finish)(void); /* not under test; after each life */
    enum ahead_status (*open)(struct ahead_stream **out, const struct ahead_options *opt);
    bool seeks;
    bool raw;   /* its bytes are the file's, from START on: places can be compared */
    bool piped; /* its bytes are those that the calls have given, in order */
    enum ahead_status (*open_sink)(struct ahead_sink *out);
    bool needs_thread, needs_direct;
};

/* The life before, for what is checked afterwards. */
static struct inject_fault last;
static struct told last_told;

static char path[64]; /* of the input, or the output */
static int fd;

/* ---- the driver ---- */

/* Counts of all tests: they run in processes of their own. */
struct counts {
    atomic_uint points[INJECT_KINDS], faults, scenarios;
};
static struct counts *total;

__attribute__((constructor)) static void share_counts(void)
{
    total = mmap(NULL, sizeof *total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (total == MAP_FAILED)
        abort();
}

static const char *const kinds[INJECT_KINDS] = { "memory", "lock", "thread", "descriptor",
                                                 "system call" };

static void print_counts(const char *name, const unsigned points[INJECT_KINDS], unsigned faults)
{
    unsigned sum = 0;

    for (int i = 0; i < INJECT_KINDS; i++)
        sum += points[i];
    printf("%-26s %5u points:", name, sum);
    for (int i = 0; i < INJECT_KINDS; i++)
        printf(" %5u %s%s", points[i], kinds[i], i + 1 < INJECT_KINDS ? "," : "");
    printf("; %u faults\n", faults);
}

/* Whether a fault may be told so. */
static bool is_right(const struct scenario *sc, const struct inject_fault *f, const struct told *t)
{
    bool as_itself = t->st == AHEAD_IO && t->os_errno == f->error;

    if (t->st == AHEAD_OK)
        return true;
    if (f->what != INJECT_DONE || f->hidden)
        return false;
    switch (f->kind) {
    case INJECT_MEMORY: return t->st == AHEAD_NOMEM;
    case INJECT_LOCK: return t->st == AHEAD_NOMEM || (sc->needs_thread && as_itself);
    case INJECT_THREAD: return sc->needs_thread && as_itself;
    case INJECT_DESCRIPTOR:
    case INJECT_CALL:
    case INJECT_KINDS: break;
    }
    if (strcmp(f->call, "lseek64") == 0) /* it cannot be sought, then */
        return t->st == AHEAD_UNSUPPORTED;
    return as_itself;
}

static void note(const struct scenario *sc, unsigned course, unsigned point, unsigned way)
{
    expect_note("%s, course %u, point %u, way %u", sc->name, course, point, way);
    if (getenv("INJECT_VERBOSE"))
        fprintf(stderr, "%s, course %u, point %u, way %u\n", sc->name, course, point, way);
}

/* One life; false: it was untouched. */
static bool live_once(const struct scenario *sc, unsigned course, unsigned point, unsigned way)
{
    int before;

    last_told = (struct told){ .st = AHEAD_OK };
    note(sc, course, point, way);
    before = live;
    if (sc->prepare)
        sc->prepare();
    inject_arm(point, way);
    sc->live(sc, &courses[course], &last_told);
    last = inject_disarm();
    if (last.what != INJECT_NO_POINT)
        expect_note("%s, course %u, point %u: %s fails with %d%s", sc->name, course, point,
                    last.call, last.error, last.lasting ? " for good" : "");
    if (!is_right(sc, &last, &last_told))
        expect_fail_(EXPECT_HERE_("the status"), "got %s, errno %d",
                     ahead_status_name(last_told.st), last_told.os_errno);
    if (sc->finish)
        sc->finish();
    expect_int(live, before);
    return last.what != INJECT_NO_POINT;
}

/* All ways of a point; how many, and of which kind it is. */
static unsigned live_point(const struct scenario *sc, unsigned course, unsigned point,
                           unsigned points[INJECT_KINDS])
{
    unsigned faults = 0;

    while (live_once(sc, course, point, faults) && last.what == INJECT_DONE)
        faults++;
    if (last.what != INJECT_NO_POINT)
        points[last.kind]++;
    return faults;
}

/* Whether files can be read with O_DIRECT here. */
static bool has_direct(void)
{
    char name[] = "/tmp/test_ahead.XXXXXX";
    int file = mkstemp(name);
    struct ahead_source src;
    enum ahead_status st = ahead_source_fd(&src, file, AHEAD_FD_CLOSE | AHEAD_FD_DIRECT);

    unlink(name);
    if (!st)
        src.ops->close(src.ctx, &(struct ahead_error){ 0 });
    return st != AHEAD_UNSUPPORTED;
}

static void play(const struct scenario *sc)
{
    unsigned points[INJECT_KINDS] = { 0 }, faults = 0, sum = 0;
    struct leaks before = leaks_count();

    if (sc->needs_direct && !has_direct())
        skip("this file system has no O_DIRECT");
    if (sc->make)
        sc->make();
    live_once(sc, 0, 0, 0);
    for (unsigned course = 0; course < sizeof courses / sizeof *courses; course++) {
        unsigned quiet = 0;

        for (unsigned point = 1; quiet < QUIET; point++) {
            unsigned n = live_point(sc, course, point, points);

            faults += n;
            quiet = n ? 0 : quiet + 1;
        }
    }
    if (sc->make)
        unlink(path);
    expect_no_leaks(before);
    for (int i = 0; i < INJECT_KINDS; i++) {
        sum += points[i];
        atomic_fetch_add(&total->points[i], points[i]);
    }
    expect_true(sum > 0 && faults > sum);
    atomic_fetch_add(&total->faults, faults);
    atomic_fetch_add(&total->scenarios, 1);
    print_counts(sc->name, points, faults);
}

/* SCENARIO(name, ...) is a test of its own. */
#define SCENARIO(name_, ...)                                                                       \
    Test(inject, name_, .timeout = 20 * TIME_SCALE)                                                \
    {                                                                                              \
        play(&(struct scenario){ .name = #name_, __VA_ARGS__ });                                   \
    }

/* Takes the status of a call down; true: it is neither OK nor EOF. */
static bool tell(struct told *told, enum ahead_status st, int os_errno)
{
    if (st == AHEAD_OK || st == AHEAD_EOF)
        return false;
    if (told->st == AHEAD_OK)
        *told = (struct told){ .st = st, .os_errno = os_errno };
    return true;
}

/* The same for one that leaves errno, which was 0 before. */
static bool tell_with_errno(struct told *told, enum ahead_status st)
{
    return tell(told, st, errno);
}

/* ---- a stream's life ---- */

/* Bytes that are the pattern's at the position. */
static void expect_here(struct ahead_stream *s, const void *bytes, uint64_t pos, size_t len)
{
    expect_size(pattern_match(bytes, pos, len), len);
    expect_true(!s || ahead_tell(s) >= pos);
}

static bool failed_by(struct told *told, struct ahead_stream *s, enum ahead_status st)
{
    return tell(told, st, ahead_error(s)->os_errno);
}

/* Reads on up to `end`, or to what comes first. */
static bool read_to(struct told *told, struct ahead_stream *s, uint64_t end)
{
    uint8_t bytes[1000];

    while (ahead_tell(s) < end) {
        uint64_t pos = ahead_tell(s);
        size_t want = end - pos < sizeof bytes ? (size_t)(end - pos) : sizeof bytes, got;
        enum ahead_status st = ahead_read(s, bytes, want, &got);

        expect_here(s, bytes, pos, got);
        expect_u64(ahead_tell(s), pos + got);
        if (st == AHEAD_EOF)
            expect_u64(pos, end);
        if (failed_by(told, s, st))
            return false;
    }
    return true;
}

/* What has to be there has been read: the end comes, and comes again. */
static bool read_end(struct told *told, struct ahead_stream *s)
{
    for (int i = 0; i < 2; i++) {
        uint8_t byte;
        enum ahead_status st = ahead_read(s, &byte, 1, NULL);

        if (failed_by(told, s, st))
            return false;
        expect_status(st, AHEAD_EOF);
        expect_u64(ahead_tell(s), BYTES);
    }
    return true;
}

/* Looks further than a buffer reaches. */
static bool peek_far(struct told *told, struct ahead_stream *s)
{
    const uint8_t *data;
    size_t len;
    enum ahead_status st = ahead_peek(s, BUFFER + 1000, &data, &len);

    expect_here(s, data, ahead_tell(s), len);
    if (st == AHEAD_OK)
        ahead_consume(s, 700);
    return !failed_by(told, s, st);
}

static bool swap_one(struct told *told, struct ahead_stream *s)
{
    uint64_t pos = ahead_tell(s);
    struct ahead_buffer b;
    enum ahead_status st = ahead_buffer_alloc(s, &b);

    if (failed_by(told, s, st))
        return false;
    st = ahead_swap_buffer(s, &b);
    if (st == AHEAD_OK)
        expect_here(s, b.data, pos, b.len);
    ahead_buffer_free(&b);
    return !failed_by(told, s, st);
}

static bool skip_some(struct told *told, struct ahead_stream *s, uint64_t n)
{
    uint64_t pos = ahead_tell(s), skipped;
    enum ahead_status st = ahead_skip(s, n, &skipped);

    expect_u64(ahead_tell(s), pos + skipped);
    return !failed_by(told, s, st);
}

static bool seek_to(struct told *told, struct ahead_stream *s, uint64_t to)
{
    uint64_t pos = ahead_tell(s);
    enum ahead_status st = ahead_seek(s, to);

    expect_u64(ahead_tell(s), st ? pos : to);
    return !failed_by(told, s, st);
}

/* A cancel ends it: what is at hand, then CANCELLED. */
static void cancel(struct told *told, struct ahead_stream *s)
{
    uint8_t bytes[500];
    enum ahead_status st = AHEAD_OK;

    ahead_cancel(s);
    while (!st) {
        uint64_t pos = ahead_tell(s);
        size_t got;

        st = ahead_read(s, bytes, sizeof bytes, &got);
        expect_here(s, bytes, pos, got);
    }
    if (st != AHEAD_CANCELLED) {
        expect_true(st != AHEAD_EOF);
        failed_by(told, s, st);
    }
}

/* false: something was told. */
static bool
walk(const struct scenario *sc, const struct course *c, struct ahead_stream *s, struct told *told)
{
    if (!read_to(told, s, 3000) || !peek_far(told, s) || !swap_one(told, s) ||
        !skip_some(told, s, 100))
        return false;
    if (sc->seeks && (!seek_to(told, s, 150) || !read_to(told, s, 300) ||
                      !skip_some(told, s, 6000) || !read_to(told, s, 7000)))
        return false;
    if (c->cancels) {
        cancel(told, s);
        return false;
    }
    return read_to(told, s, BYTES) && read_end(told, s);
}

/* Behind what was told everything up to the fault can be read, and no byte is missing in front of
 * it; what was no ending (want of memory for a peek) goes by.  The fault itself is gone by now, and
 * who can seek reads on from its place. */
static void expect_no_gap(const struct scenario *sc, struct ahead_stream *s)
{
    struct inject_fault f = inject_disarm();
    const struct ahead_error *err = ahead_error(s);
    struct told after = { .st = AHEAD_OK };

    if (read_to(&after, s, BYTES) && read_end(&after, s))
        return;
    expect_status(after.st, err->status);
    expect_true(err->text[0] != '\0');
    expect_u64(err->offset, ahead_tell(s));
    if (sc->raw && f.at >= 0 && !f.lasting)
        expect_u64(ahead_tell(s), (uint64_t)f.at - START);
    if (sc->piped)
        expect_u64(ahead_tell(s), inject_given());
    if (!sc->seeks || after.st == AHEAD_UNSUPPORTED)
        return;
    /* Streams below may each have met what went on, and tell it one by one. */
    for (int seeks = f.lasting ? 4 : 1; seeks && after.st != AHEAD_OK; seeks--) {
        after.st = AHEAD_OK;
        expect_status(ahead_seek(s, ahead_tell(s)), AHEAD_OK);
        if (read_to(&after, s, BYTES))
            read_end(&after, s);
    }
    expect_status(after.st, AHEAD_OK);
}

static void live_stream(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER, .flags = c->flags };
    struct ahead_stream *s;

    errno = 0;
    if (tell_with_errno(told, sc->open(&s, &opt))) {
        expect_true(!s);
        return;
    }
    if (!walk(sc, c, s, told) && !c->cancels)
        expect_no_gap(sc, s);
    errno = 0;
    tell_with_errno(told, ahead_close(s));
}

/* ---- kinds of streams ---- */

static int make_temporary(void)
{
    int file;

    snprintf(path, sizeof path, "/tmp/test_ahead.XXXXXX");
    file = mkstemp(path);
    expect_true(file >= 0);
    return file;
}

static void put_all(int to, const void *bytes, size_t len)
{
    expect_int(write(to, bytes, len), (intmax_t)len);
}

static off_t begin; /* where in the file a life begins */

static void make_file_of(const void *bytes, size_t len, off_t at)
{
    int file = make_temporary();

    put_all(file, bytes, len);
    close(file);
    begin = at;
}

/* The pattern, START bytes into the file. */
static void make_file(void)
{
    uint8_t bytes[START + BYTES] = { 0 };

    pattern_fill(bytes + START, 0, BYTES);
    make_file_of(bytes, sizeof bytes, START);
}

/* Nothing but the pattern. */
static void make_named_file(void)
{
    uint8_t bytes[BYTES];

    pattern_fill(bytes, 0, BYTES);
    make_file_of(bytes, sizeof bytes, 0);
}

static void open_file(void)
{
    fd = open(path, O_RDONLY | O_CLOEXEC);
    expect_true(fd >= 0);
    expect_int(lseek(fd, begin, SEEK_SET), begin);
}

static void close_fd(void)
{
    close(fd);
}

#define FILE_OF(make_) .make = (make_), .prepare = open_file, .finish = close_fd

static enum ahead_status open_over(enum ahead_status st, const struct ahead_source *src,
                                   struct ahead_stream **out, const struct ahead_options *opt)
{
    *out = NULL;
    return st ? st : ahead_open(out, *src, opt);
}

#define FILE_LIFE .live = live_stream, .seeks = true
#define OPEN_FILE FILE_OF(make_file), FILE_LIFE
#define NAMED_FILE .make = make_named_file, FILE_LIFE

static enum ahead_status open_fd(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_fd(&src, fd, 0), &src, out, opt);
}
SCENARIO(file_by_fd, OPEN_FILE, .raw = true, .open = open_fd)

/* The descriptor becomes the source's. */
static enum ahead_status open_own_fd(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_fd(&src, fd, AHEAD_FD_CLOSE), &src, out, opt);
}
SCENARIO(file_by_own_fd, .make = make_file, .prepare = open_file, FILE_LIFE, .raw = true,
         .open = open_own_fd)

static enum ahead_status open_range(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_range(&src, fd, START, BYTES, 0), &src, out, opt);
}
SCENARIO(file_range, OPEN_FILE, .raw = true, .open = open_range)

static enum ahead_status open_hinted(struct ahead_stream **out, const struct ahead_options *opt)
{
    const unsigned hints = AHEAD_FD_SEQUENTIAL | AHEAD_FD_WILLNEED | AHEAD_FD_DROP_BEHIND;
    struct ahead_source src;

    return open_over(ahead_source_fd(&src, fd, hints), &src, out, opt);
}
SCENARIO(file_with_hints, OPEN_FILE, .raw = true, .open = open_hinted)

static enum ahead_status open_direct(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_range(&src, fd, START, BYTES, AHEAD_FD_DIRECT), &src, out, opt);
}
SCENARIO(file_direct, OPEN_FILE, .needs_direct = true, .open = open_direct)

static enum ahead_status open_path(struct ahead_stream **out, const struct ahead_options *opt)
{
    return ahead_open_path(out, path, opt);
}
SCENARIO(file_by_path, NAMED_FILE, .open = open_path)

/* The library chooses the buffer, and all fits in. */
static enum ahead_status open_small(struct ahead_stream **out, const struct ahead_options *opt)
{
    return ahead_open_path(out, path, &(struct ahead_options){ .flags = opt->flags });
}
SCENARIO(file_small, NAMED_FILE, .open = open_small)

static enum ahead_status open_lazy(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_path_flags(&src, path, AHEAD_FD_LAZY), &src, out, opt);
}
SCENARIO(file_lazy, NAMED_FILE, .open = open_lazy)

static enum ahead_status
open_lazy_direct(struct ahead_stream **out, const struct ahead_options *opt)
{
    const unsigned flags = AHEAD_FD_LAZY | AHEAD_FD_DIRECT;
    struct ahead_source src;

    return open_over(ahead_source_path_flags(&src, path, flags), &src, out, opt);
}
SCENARIO(file_lazy_direct, NAMED_FILE, .needs_direct = true, .open = open_lazy_direct)

/* Everything is in it, and nobody else has an end of it. */
static void fill_pipe(int from, int to)
{
    uint8_t bytes[BYTES];

    pattern_fill(bytes, 0, BYTES);
    fd = from;
    put_all(to, bytes, BYTES);
    close(to);
}

static void make_pipe(void)
{
    int end[2];

    expect_int(pipe(end), 0);
    fill_pipe(end[0], end[1]);
}

static void make_socket(void)
{
    int end[2];

    expect_int(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
    fill_pipe(end[0], end[1]);
}

SCENARIO(pipe, .prepare = make_pipe, .finish = close_fd, .live = live_stream, .piped = true,
         .open = open_fd)
SCENARIO(socket, .prepare = make_socket, .finish = close_fd, .live = live_stream, .piped = true,
         .open = open_fd)

/* A FIFO that is opened at the first read, when its writer has come. */
static void make_fifo(void)
{
    close(make_temporary());
    expect_int(unlink(path), 0);
    expect_int(mkfifo(path, 0600), 0);
}

static void fill_fifo(void)
{
    uint8_t bytes[BYTES];

    fd = open(path, O_RDWR);
    expect_true(fd >= 0);
    pattern_fill(bytes, 0, BYTES);
    put_all(fd, bytes, BYTES);
}

/* It never ends: its writer stays. */
static void live_fifo(const struct scenario *sc, const struct course *c, struct told *told)
{
    live_stream(sc, &(struct course){ .flags = c->flags, .cancels = true }, told);
}
SCENARIO(fifo_lazy, .make = make_fifo, .prepare = fill_fifo, .finish = close_fd, .live = live_fifo,
         .open = open_lazy)

static uint8_t pattern[BYTES];

static void make_pattern(void)
{
    pattern_fill(pattern, 0, BYTES);
}

static enum ahead_status open_memory(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;

    return open_over(ahead_source_memory(&src, pattern, BYTES), &src, out, opt);
}
SCENARIO(memory, .prepare = make_pattern, .live = live_stream, .seeks = true, .open = open_memory)

/* ---- callbacks ---- */

static struct script script;

static void make_script(void)
{
    static const struct step steps[] = { PIECES(BYTES, 900), END };

    script = (struct script){ .step = steps, .has = HAS_SEEK | HAS_SKIP };
}

static void make_split_script(void)
{
    make_script();
    script.split = true;
}

static enum ahead_status open_script(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src = script_source(&script);

    return open_over(AHEAD_OK, &src, out, opt);
}

static void judge_script(void)
{
    expect_str(script_closing_verdict(&script), "ok");
}
SCENARIO(callback, .prepare = make_script, .finish = judge_script, .live = live_stream,
         .seeks = true, .open = open_script)
SCENARIO(callback_split, .prepare = make_split_script, .finish = judge_script, .live = live_stream,
         .seeks = true, .open = open_script)

static enum ahead_status open_nested(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_stream *inner;
    struct ahead_source src;
    enum ahead_status st = open_fd(&inner, opt);

    *out = NULL;
    if (st)
        return st;
    return open_over(ahead_source_stream(&src, inner), &src, out, opt);
}
SCENARIO(nested, OPEN_FILE, .open = open_nested)

/* ---- decoders: over a file that the library's own encoders wrote ---- */

typedef enum ahead_status
encode(struct ahead_sink *out, struct ahead_sink inner, const struct ahead_lz4_encode_options *opt);

/* A file of the pattern, which does not compress: it is as long as that, in four pieces. */
static void make_encoded(encode *encoder, struct ahead_lz4_encode_options opt)
{
    struct ahead_sink sink;
    struct ahead_writer *w;

    make_pattern();
    close(make_temporary());
    begin = 0;
    expect_status(ahead_sink_path(&sink, path), AHEAD_OK);
    expect_status(encoder(&sink, sink, &opt), AHEAD_OK);
    expect_status(ahead_writer_open(&w, sink, NULL), AHEAD_OK);
    for (int i = 0; i < 4; i++) {
        expect_status(ahead_write(w, pattern + BYTES / 4 * i, BYTES / 4), AHEAD_OK);
        expect_status(ahead_writer_flush(w), AHEAD_OK);
    }
    expect_status(ahead_writer_close(w), AHEAD_OK);
}

static void make_lz4_block(void)
{
    make_encoded(ahead_sink_lz4_block, (struct ahead_lz4_encode_options){ .block_bytes = BLOCK });
}

static void make_linked(void)
{
    make_encoded(ahead_sink_lz4_frame, (struct ahead_lz4_encode_options){ .content_size = BYTES });
}

static void make_independent(void)
{
    make_encoded(ahead_sink_lz4_frame, (struct ahead_lz4_encode_options){
                                           .independent_blocks = true, .block_checksums = true });
}

/* It is read from its file, by a decoder around it. */
static enum ahead_status open_lz4_block(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;
    enum ahead_status st = ahead_source_path(&src, path);

    return open_over(st ? st : ahead_source_lz4_block(&src, src, NULL), &src, out, opt);
}

static enum ahead_status open_lz4_frame(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;
    enum ahead_status st = ahead_source_fd(&src, fd, 0);

    return open_over(st ? st : ahead_source_lz4_frame(&src, src, NULL), &src, out, opt);
}

static enum ahead_status open_detected(struct ahead_stream **out, const struct ahead_options *opt)
{
    struct ahead_source src;
    enum ahead_format found;
    enum ahead_status st = ahead_source_fd(&src, fd, 0);

    return open_over(st ? st : ahead_source_detect(&src, src, NULL, &found), &src, out, opt);
}

SCENARIO(lz4_block, FILE_OF(make_lz4_block), .live = live_stream, .open = open_lz4_block)
SCENARIO(lz4_frame_linked, FILE_OF(make_linked), .live = live_stream, .open = open_lz4_frame)
SCENARIO(lz4_frame_independent, FILE_OF(make_independent), .live = live_stream,
         .open = open_lz4_frame)
SCENARIO(lz4_detected, FILE_OF(make_linked), .live = live_stream, .open = open_detected)

/* ---- formats ---- */

enum { RECORDS = 12, RECORD = 900 };

/* The bytes of the n-th record or frame. */
static void fill_record(uint8_t bytes[RECORD], unsigned n)
{
    pattern_fill(bytes, n * 1000, RECORD);
}

static void expect_record(const uint8_t *data, size_t len, unsigned n)
{
    expect_size(len, RECORD);
    expect_size(pattern_match(data, n * 1000, len), len);
}

static enum ahead_status put_records(struct ahead_spill_writer *w)
{
    uint8_t bytes[RECORD];
    enum ahead_status st = AHEAD_OK;

    for (unsigned i = 0; !st && i < RECORDS; i++) {
        fill_record(bytes, i);
        st = ahead_spill_put(w, i, bytes, RECORD);
    }
    return st;
}

/* A spill, as Spark leaves it: in LZ4Block. */
static void make_spill(void)
{
    const struct ahead_lz4_encode_options opt = { .block_bytes = BLOCK };
    struct ahead_sink sink;
    struct ahead_writer *w;
    struct ahead_spill_writer *sw;

    close(make_temporary());
    begin = 0;
    expect_status(ahead_sink_path(&sink, path), AHEAD_OK);
    expect_status(ahead_sink_lz4_block(&sink, sink, &opt), AHEAD_OK);
    expect_status(ahead_writer_open(&w, sink, NULL), AHEAD_OK);
    expect_status(ahead_spill_writer_open(&sw, w, RECORDS), AHEAD_OK);
    expect_status(put_records(sw), AHEAD_OK);
    expect_status(ahead_spill_writer_close(sw), AHEAD_OK);
}

static enum ahead_status open_spill(struct ahead_spill_reader **out, unsigned flags)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER, .flags = flags };
    struct ahead_stream *s;
    enum ahead_status st = open_lz4_block(&s, &opt);

    *out = NULL;
    return st ? st : ahead_spill_reader_open(out, s, NULL);
}

static void live_spill(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_spill_reader *r;
    struct ahead_spill_record rec;
    enum ahead_status st;
    unsigned n = 0;

    (void)sc;
    errno = 0;
    st = open_spill(&r, c->flags);
    if (tell_with_errno(told, st))
        return;
    while (!(st = ahead_spill_next(r, &rec)) && !(c->cancels && n == RECORDS / 2)) {
        expect_int(rec.key_prefix, n);
        expect_record(rec.data, rec.len, n++);
    }
    if (st == AHEAD_EOF)
        expect_int(n, RECORDS);
    tell(told, st, ahead_spill_error(r)->os_errno);
    errno = 0;
    tell_with_errno(told, ahead_spill_reader_close(r));
}
SCENARIO(spill_reader, FILE_OF(make_spill), .live = live_spill)

/* Every input is the same file. */
static void live_merge(const struct scenario *sc, const struct course *c, struct told *told)
{
    enum { INPUTS = 3 };
    struct ahead_spill_reader *r[INPUTS];
    struct ahead_spill_merge *m;
    struct ahead_spill_record rec;
    enum ahead_status st;
    size_t n = 0, from;

    (void)sc;
    for (size_t i = 0; i < INPUTS; i++) {
        errno = 0;
        if (tell_with_errno(told, open_spill(&r[i], c->flags))) {
            while (i--)
                ahead_spill_reader_close(r[i]);
            return;
        }
    }
    errno = 0;
    if (tell_with_errno(told, ahead_spill_merge_open(&m, r, INPUTS, NULL, NULL)))
        return;
    while (!(st = ahead_spill_merge_next(m, &rec, &from)) && !(c->cancels && n == RECORDS)) {
        expect_record(rec.data, rec.len, (unsigned)(n / INPUTS));
        expect_size(from, n % INPUTS);
        n++;
    }
    if (st == AHEAD_EOF)
        expect_size(n, RECORDS * INPUTS);
    tell(told, st, ahead_spill_merge_error(m)->os_errno);
    errno = 0;
    tell_with_errno(told, ahead_spill_merge_close(m));
}
SCENARIO(merge, FILE_OF(make_spill), .live = live_merge)

/* Comet's blocks, stored. */
static void make_comet(void)
{
    struct bytes b = { 0 };
    uint8_t body[RECORD];

    for (unsigned i = 0; i < RECORDS; i++) {
        fill_record(body, i);
        bytes_add_number(&b, 8 + 4 + RECORD, 8, false);
        bytes_add_number(&b, 3, 8, false);
        bytes_add(&b, "NONE", 4);
        bytes_add(&b, body, RECORD);
    }
    make_file_of(b.p, b.len, 0);
    free(b.p);
}

/* false: the last one. */
static bool next_frame(struct ahead_frame_reader *r, unsigned n, uint8_t **out, struct told *told)
{
    struct ahead_frame f;
    struct ahead_error err;
    size_t len;
    enum ahead_status st = ahead_frame_next(r, &f);

    if (st == AHEAD_EOF)
        expect_int(n, RECORDS);
    if (tell(told, st, ahead_frame_error(r)->os_errno) || st == AHEAD_EOF)
        return false;
    expect_record(f.body, f.body_len, n);
    st = ahead_frame_comet_decode(&f, 0, out, &len, &err);
    if (tell(told, st, err.os_errno))
        return false;
    expect_record(*out, len, n);
    return true;
}

static void live_comet(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER, .flags = c->flags };
    struct ahead_frame_reader *r = NULL;
    struct ahead_stream *s;
    uint8_t *out = NULL;
    enum ahead_status st;

    (void)sc;
    errno = 0;
    st = open_fd(&s, &opt);
    if (!st)
        st = ahead_frame_reader_open(&r, s, &ahead_frame_comet);
    if (tell_with_errno(told, st))
        return;
    for (unsigned n = 0; !(c->cancels && n == RECORDS / 2) && next_frame(r, n, &out, told);)
        n++;
    free(out);
    errno = 0;
    tell_with_errno(told, ahead_frame_reader_close(r));
}
SCENARIO(comet_reader, FILE_OF(make_comet), .live = live_comet)

/* An index of as many partitions as make it grow. */
static void make_index(void)
{
    struct bytes b = { 0 };

    for (unsigned i = 0; i <= 1500; i++)
        bytes_add_number(&b, 10 * i, 8, true);
    make_file_of(b.p, b.len, 0);
    free(b.p);
}

static void live_index(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_index *x = NULL;
    struct ahead_source src;
    struct ahead_error err;
    uint64_t offset, length;
    enum ahead_status st;

    (void)sc, (void)c;
    errno = 0;
    st = ahead_source_fd(&src, fd, 0);
    if (tell_with_errno(told, st))
        return;
    st = ahead_index_open(&x, src, 15000, &err);
    if (tell(told, st, err.os_errno)) {
        expect_true(!x);
        return;
    }
    expect_size(ahead_index_partitions(x), 1500);
    expect_status(ahead_index_range(x, 1499, &offset, &length), AHEAD_OK);
    expect_u64(offset, 14990);
    ahead_index_close(x);
}
SCENARIO(index, FILE_OF(make_index), .live = live_index)

/* What errno stands for, behind a FILE. */
static bool tell_errno(struct told *told, int os_errno)
{
    bool no_memory = os_errno == ENOMEM && inject_disarm().kind <= INJECT_LOCK;

    return tell(told, no_memory ? AHEAD_NOMEM : AHEAD_IO, os_errno);
}

static void live_stdio(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER, .flags = c->flags };
    struct ahead_stream *s;
    FILE *f = NULL;
    uint8_t bytes[500];
    uint64_t pos = 0;
    size_t n;
    enum ahead_status st;

    (void)sc;
    errno = 0;
    st = open_fd(&s, &opt);
    if (!st)
        st = ahead_stdio_open(&f, s);
    if (tell_with_errno(told, st))
        return;
    errno = 0;
    while (!(c->cancels && pos > BYTES / 2) && (n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        expect_here(NULL, bytes, pos, n);
        pos += n;
    }
    if (ferror(f))
        tell_errno(told, errno);
    else if (!c->cancels)
        expect_u64(pos, BYTES);
    errno = 0;
    if (fclose(f))
        tell_errno(told, errno);
}
SCENARIO(stdio, FILE_OF(make_file), .live = live_stdio)

/* ---- pools ---- */

enum { STREAMS = 3 };

static void close_streams(struct told *told, struct ahead_stream *s[STREAMS], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        errno = 0;
        tell_with_errno(told, ahead_close(s[i]));
    }
}

/* Streams over one file, read in turns, within a budget that is not enough for all. */
static void live_on_pool(struct told *told, const struct course *c, struct ahead_pool *pool)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER,
                                 .pool = pool,
                                 .flags = c->flags & AHEAD_EAGER };
    struct ahead_stream *s[STREAMS];
    bool good = true;

    for (size_t i = 0; i < STREAMS; i++) {
        errno = 0;
        if (tell_with_errno(told, open_range(&s[i], &opt))) {
            close_streams(told, s, i);
            return;
        }
    }
    for (uint64_t to = 4000; good && to <= BYTES; to += 4000)
        for (size_t i = 0; good && i < STREAMS; i++)
            good = read_to(told, s[i], to);
    if (good && c->cancels) {
        good = seek_to(told, s[1], 0);
        ahead_cancel(s[0]);
    }
    for (size_t i = 0; good && i < STREAMS; i++)
        if (!c->cancels)
            good = read_end(told, s[i]);
    close_streams(told, s, STREAMS);
}

static void live_pool(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_pool_options opt = { .threads = c->cancels ? 0 : 2, .byte_budget = 8 * BUFFER };
    struct ahead_pool_stats stats;
    struct ahead_pool *pool;

    (void)sc;
    errno = 0;
    if (tell_with_errno(told, ahead_pool_open(&pool, &opt))) {
        expect_true(!pool);
        return;
    }
    live_on_pool(told, c, pool);
    ahead_pool_get_stats(pool, &stats);
    expect_int(stats.users, 0);
    expect_true(stats.bytes == 0 && stats.peak_bytes <= opt.byte_budget);
    expect_status(ahead_pool_close(pool), AHEAD_OK);
}
SCENARIO(pool, FILE_OF(make_file), .live = live_pool)

/* ---- pushing ---- */

/* What the push thread got, item by item. */
static struct {
    unsigned keys;
    uint64_t bytes;
} pushed;

static enum ahead_status
push_item(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    (void)ctx, (void)err;
    expect_u64(key, pushed.keys++);
    expect_size(pattern_match(data, pushed.bytes, len), len);
    pushed.bytes += len;
    return AHEAD_OK;
}

/* Nothing was accepted if no memory could be had: so it can be tried again. */
static void live_push(const struct scenario *sc, const struct course *c, struct told *told)
{
    static const size_t item[] = { 300, 0, 900, 5000 /* above a buffer */, 700 };
    struct ahead_pusher_options opt = { .buffer_bytes = 1000, .buffers = 3 };
    struct ahead_pusher *p;
    struct ahead_buffer b;
    uint8_t bytes[5000];
    uint64_t pos = 0, key = 0;
    enum ahead_status st = AHEAD_OK, closed;

    (void)sc;
    pushed.keys = 0;
    pushed.bytes = 0;
    errno = 0;
    if (tell_with_errno(told, ahead_pusher_open(&p, push_item, NULL, &opt))) {
        expect_true(!p);
        return;
    }
    for (size_t i = 0; i < sizeof item / sizeof *item; i++) {
        pattern_fill(bytes, pos, item[i]);
        st = ahead_push_copy(p, key, bytes, item[i]);
        if (st == AHEAD_NOMEM) {
            tell(told, st, 0);
            inject_disarm();
            st = ahead_push_copy(p, key, bytes, item[i]);
        }
        expect_status(st, AHEAD_OK);
        key++;
        pos += item[i];
    }
    if (!tell(told, ahead_pusher_acquire(p, &b), 0)) {
        pattern_fill(b.data, pos, 1000);
        b.len = 1000;
        if (!tell(told, ahead_push_swap(p, key, &b), 0))
            pos += 1000;
        ahead_buffer_free(&b);
    }
    if (c->cancels)
        ahead_pusher_cancel(p);
    else
        tell(told, ahead_pusher_drain(p), 0);
    closed = ahead_pusher_close(p);
    expect_true(closed == AHEAD_OK || (c->cancels && closed == AHEAD_CANCELLED));
    if (!closed)
        expect_u64(pushed.bytes, pos);
}
SCENARIO(push_queue, .live = live_push, .needs_thread = true)

/* ---- writing ---- */

static uint8_t *written; /* by the sink over memory */
static size_t written_len;
static int back;       /* where the output is read back from */
static uint64_t taken; /* bytes that the last sink took, as the close says; or UINT64_MAX */
static uint8_t whole[2 * BYTES]; /* what the first life, an untouched one, wrote */
static size_t whole_len;
static bool cancelled;

static void make_output(void)
{
    make_pattern();
    fd = make_temporary();
    back = open(path, O_RDONLY);
    expect_true(back >= 0);
}

static void make_named_output(void)
{
    make_output();
    close(fd);
    fd = -1;
}

static void make_output_pipe(void)
{
    int end[2];

    make_pattern();
    expect_int(pipe(end), 0);
    back = end[0];
    fd = end[1];
}

static void make_output_socket(void)
{
    int end[2];

    make_pattern();
    expect_int(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
    /* Many short writes take much more room than they have bytes. */
    expect_int(setsockopt(end[1], SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 20 }, sizeof(int)), 0);
    back = end[0];
    fd = end[1];
}

/* What has arrived is the front of the whole, as much as is said, and all of it if all is well. */
static void judge_output(const struct bytes *got)
{
    if (!whole_len) {
        expect_true(got->len > 0 && got->len < sizeof whole);
        memcpy(whole, got->p, whole_len = got->len);
    }
    expect_true(got->len <= whole_len);
    expect_mem(got->p, whole, got->len);
    if (last_told.st == AHEAD_OK && !cancelled)
        expect_size(got->len, whole_len);
    if (taken != UINT64_MAX)
        expect_u64(taken, got->len);
}

static void read_back(void)
{
    struct bytes got = { 0 };
    ssize_t n = 1;

    if (fd >= 0)
        close(fd);
    while (n > 0) {
        n = read(back, bytes_reserve(&got, 4096), 4096);
        expect_true(n >= 0);
        got.len += (size_t)n;
    }
    close(back);
    judge_output(&got);
    free(got.p);
}

static void read_file_back(void)
{
    read_back();
    unlink(path);
}

static void look_into_memory(void)
{
    struct bytes got = { .p = written, .len = written ? written_len : 0 };

    judge_output(&got);
    free(written);
}

static enum ahead_status open_memory_sink(struct ahead_sink *out)
{
    return ahead_sink_memory(out, &written, &written_len);
}

static enum ahead_status open_fd_sink(struct ahead_sink *out)
{
    return ahead_sink_fd(out, fd, 0);
}

static enum ahead_status open_path_sink(struct ahead_sink *out)
{
    return ahead_sink_path(out, path);
}

static enum ahead_status open_lz4_block_sink(struct ahead_sink *out)
{
    const struct ahead_lz4_encode_options opt = { .block_bytes = BLOCK };
    struct ahead_sink inner;
    enum ahead_status st = ahead_sink_fd(&inner, fd, 0);

    return st ? st : ahead_sink_lz4_block(out, inner, &opt);
}

static enum ahead_status open_lz4_frame_sink(struct ahead_sink *out)
{
    const struct ahead_lz4_encode_options opt = { .independent_blocks = true };
    struct ahead_sink inner;
    enum ahead_status st = ahead_sink_fd(&inner, fd, 0);

    return st ? st : ahead_sink_lz4_frame(out, inner, &opt);
}

static enum ahead_status write_all(struct ahead_writer *w)
{
    enum ahead_status st = AHEAD_OK;

    for (size_t at = 0; !st && at < BYTES; at += 800) {
        st = ahead_write(w, pattern + at, 800);
        if (!st && at == 5600)
            st = ahead_writer_flush(w);
    }
    return st;
}

/* The writer's close alone is enough to know. */
static void close_writer(struct told *told, const struct course *c, struct ahead_writer *w)
{
    struct ahead_error err;
    enum ahead_status st;

    if (c->cancels)
        ahead_writer_cancel(w);
    st = ahead_writer_close_error(w, &err);
    expect_status(err.status, st);
    if (st == AHEAD_CANCELLED && c->cancels)
        return;
    if (tell(told, st, err.os_errno) && st == AHEAD_IO)
        taken = err.source_offset;
}

static struct ahead_pool *writers_pool; /* NULL: a thread of its own */

static enum ahead_status
open_writer(const struct scenario *sc, const struct course *c, struct ahead_writer **w)
{
    struct ahead_options opt = { .buffer_bytes = BUFFER, .flags = c->flags, .pool = writers_pool };
    struct ahead_sink sink;
    enum ahead_status st;

    written = NULL;
    taken = UINT64_MAX;
    cancelled = c->cancels;
    errno = 0;
    st = sc->open_sink(&sink);
    return st ? st : ahead_writer_open(w, sink, &opt);
}

static void live_writer(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_writer *w = NULL;
    enum ahead_status st = open_writer(sc, c, &w);

    if (tell_with_errno(told, st)) {
        expect_true(!w);
        return;
    }
    st = write_all(w);
    tell(told, st, ahead_writer_error(w)->os_errno);
    close_writer(told, c, w);
}
SCENARIO(write_memory, .prepare = make_pattern, .finish = look_into_memory, .live = live_writer,
         .open_sink = open_memory_sink)
SCENARIO(write_file, .prepare = make_output, .finish = read_file_back, .live = live_writer,
         .open_sink = open_fd_sink)
SCENARIO(write_file_by_path, .prepare = make_named_output, .finish = read_file_back,
         .live = live_writer, .open_sink = open_path_sink)
SCENARIO(write_pipe, .prepare = make_output_pipe, .finish = read_back, .live = live_writer,
         .open_sink = open_fd_sink)
SCENARIO(write_socket, .prepare = make_output_socket, .finish = read_back, .live = live_writer,
         .open_sink = open_fd_sink)
SCENARIO(write_lz4_block, .prepare = make_output, .finish = read_file_back, .live = live_writer,
         .open_sink = open_lz4_block_sink)
SCENARIO(write_lz4_frame, .prepare = make_output, .finish = read_file_back, .live = live_writer,
         .open_sink = open_lz4_frame_sink)

static void
live_writer_on_pool(const struct scenario *sc, const struct course *c, struct told *told)
{
    const struct ahead_pool_options opt = { .threads = 1 };

    taken = UINT64_MAX;
    errno = 0;
    if (tell_with_errno(told, ahead_pool_open(&writers_pool, &opt)))
        return;
    live_writer(sc, c, told);
    expect_status(ahead_pool_close(writers_pool), AHEAD_OK);
}
SCENARIO(write_on_pool, .prepare = make_output, .finish = read_file_back,
         .live = live_writer_on_pool, .open_sink = open_fd_sink)

static void live_spill_writer(const struct scenario *sc, const struct course *c, struct told *told)
{
    struct ahead_spill_writer *sw = NULL;
    struct ahead_writer *w = NULL;
    enum ahead_status st = open_writer(sc, c, &w);

    if (!st)
        st = ahead_spill_writer_open(&sw, w, RECORDS);
    if (tell_with_errno(told, st)) {
        expect_true(!sw);
        return;
    }
    st = put_records(sw);
    tell(told, st, ahead_spill_writer_error(sw)->os_errno);
    tell(told, ahead_spill_writer_close(sw), inject_disarm().error); /* it says no more */
}
SCENARIO(write_spill, .prepare = make_output, .finish = read_file_back, .live = live_spill_writer,
         .open_sink = open_lz4_block_sink)

/* ---- in all ---- */

/* What fork() leaves is known without pthread_atfork(), too.  In a process of its own, as that is
 * called once in each.  false: it was not the call in this place. */
static bool lives_without_atfork(unsigned point)
{
    struct ahead_stream *s = NULL;
    struct inject_fault f;
    uint8_t byte;
    pid_t child;
    int status;

    inject_arm(point, 0);
    if (open_memory(&s, NULL))
        s = NULL;
    f = inject_disarm();
    if (f.what != INJECT_DONE || strcmp(f.call, "pthread_atfork") != 0) {
        ahead_close(s);
        return false;
    }
    expect_true(s);
    expect_status(ahead_read(s, &byte, 1, NULL), AHEAD_OK);
    child = fork();
    if (child == 0)
        _exit(ahead_read_full(s, (uint8_t[BYTES]){ 0 }, BYTES, NULL));
    expect_int(waitpid(child, &status, 0), child);
    expect_int(WEXITSTATUS(status), AHEAD_INVALID);
    expect_status(ahead_close(s), AHEAD_OK);
    return true;
}

Test(inject, without_a_handler_of_forks)
{
    enum { DONE = 3 };
    int status = 0;

    if (UNDER_TSAN)
        skip("the sanitizer calls pthread_atfork() itself");
    make_pattern();
    for (unsigned point = 1; WEXITSTATUS(status) != DONE; point++) {
        pid_t child = fork();

        expect_note("point %u", point);
        expect_true(point < 20);
        if (child == 0)
            _exit(lives_without_atfork(point) ? DONE : 0);
        expect_int(waitpid(child, &status, 0), child);
        expect_true(WIFEXITED(status) && (WEXITSTATUS(status) == DONE || !WEXITSTATUS(status)));
    }
}

/* Not before the others: the plain runner goes by their order. */
Test(inject, points_of_every_kind)
{
    unsigned points[INJECT_KINDS];

    if (!total->scenarios)
        skip("no scenario was played");
    for (int i = 0; i < INJECT_KINDS; i++) {
        points[i] = total->points[i];
        if (total->scenarios > 30)
            expect_true(points[i] > 0);
    }
    print_counts("in all", points, total->faults);
}
