/* SPDX-License-Identifier: Apache-2.0 */
/* test_source_nested.c - a stream as the source of another: nothing is lost between the two, and
 * every ending passes through as it is. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/script.h"

#include <ahead/ahead.h>

#include <errno.h>
#include <pthread.h>

static struct ahead_source nest(struct ahead_stream *inner)
{
    struct ahead_source src;

    expect_status(ahead_source_stream(&src, inner), AHEAD_OK);
    return src;
}

/* A stream over `sc`, in a source. */
static struct ahead_source nest_script(struct script *sc, const struct ahead_options *opt)
{
    return nest(script_open(sc, opt));
}

static struct ahead_error close_source(struct ahead_source src, enum ahead_status want)
{
    struct ahead_error err = { .text = "" };

    expect_status(src.ops->close(src.ctx, &err), want);
    return err;
}

/* Reads exactly len bytes of the pattern. */
static void expect_bytes(struct ahead_source src, uint64_t pos, size_t len)
{
    struct ahead_error err;
    uint8_t got[64];

    while (len > 0) {
        ssize_t n = src.ops->read(src.ctx, got, len < sizeof got ? len : sizeof got, &err);

        expect_true(n > 0 && (size_t)n <= len);
        expect_size(pattern_match(got, pos, (size_t)n), (size_t)n);
        pos += (uint64_t)n;
        len -= (size_t)n;
    }
}

static ssize_t read_one(struct ahead_source src, struct ahead_error *err)
{
    uint8_t byte;

    *err = (struct ahead_error){ .source_offset = UINT64_MAX };
    return src.ops->read(src.ctx, &byte, 1, err);
}

Test(source_nested, bytes_and_the_end_pass_through)
{
    struct script sc = { .step = STEPS(RANDOM(1000, 40)) };
    struct ahead_source src = nest_script(&sc, &(struct ahead_options){ .buffer_bytes = 64 });
    struct ahead_error err;

    expect_bytes(src, 0, 1000);
    for (int i = 0; i < 3; i++)
        expect_int(read_one(src, &err), 0);
    close_source(src, AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(source_nested, goes_on_where_the_inner_stream_was_read_to)
{
    struct script sc = { .step = STEPS(BYTES(100)) };
    struct ahead_stream *inner = script_open(&sc, NULL);
    struct ahead_source src;

    expect_status(ahead_skip(inner, 30, NULL), AHEAD_OK);
    src = nest(inner);
    expect_true(src.ops->ready(src.ctx));
    expect_bytes(src, 30, 70);
    expect_true(!src.ops->ready(src.ctx));
    close_source(src, AHEAD_OK);
}

Test(source_nested, faults_pass_with_all_that_was_said)
{
    struct script sc = { .step = STEPS(BYTES(10), STATUS(AHEAD_CORRUPT, 77, "deep")) };
    struct script io = { .step = STEPS(BYTES(10), ERRNO(ENXIO)) };
    struct ahead_source src = nest_script(&sc, NULL);
    struct ahead_error err;

    expect_bytes(src, 0, 10);
    for (int i = 0; i < 3; i++) {
        errno = EINTR; /* would ask for another try */
        expect_int(read_one(src, &err), -1);
        expect_int(errno, 0);
        expect_status(err.status, AHEAD_CORRUPT);
        expect_u64(err.source_offset, 77);
        expect_u64(err.offset, 10);
        expect_str(err.text, "deep");
    }
    close_source(src, AHEAD_OK); /* who was told is the outer stream */

    src = nest_script(&io, NULL);
    expect_bytes(src, 0, 10);
    errno = 0;
    expect_int(read_one(src, &err), -1);
    expect_int(errno, ENXIO);
    expect_status(err.status, AHEAD_IO);
    expect_int(err.os_errno, ENXIO);
    expect_true(err.text[0]);
    close_source(src, AHEAD_OK);
}

/* The fill met the fault, the reader did not: close judges as over any source. */
Test(source_nested, fault_that_the_outer_reader_never_met_is_not_told_at_close)
{
    struct script sc = { .step = STEPS(BYTES(10), STATUS(AHEAD_CORRUPT, 77, "deep")) };
    struct ahead_stream *outer;
    uint8_t byte;

    expect_status(ahead_open(&outer, nest_script(&sc, NULL),
                             &(struct ahead_options){ .buffer_bytes = 4096, .flags = AHEAD_EAGER }),
                  AHEAD_OK);
    expect_eventually(ahead_buffered(outer) == 10);
    expect_status(ahead_read(outer, &byte, 1, NULL), AHEAD_OK);
    expect_eventually(script_asked(&sc) >= 2);
    sleep_us(20000); /* for the fault to come through */
    expect_status(ahead_close(outer), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(source_nested, failing_close_is_told_once_by_the_outer_one)
{
    struct script sc = { .step = STEPS(BYTES(10)),
                         .close_status = AHEAD_IO,
                         .close_errno = EDQUOT };
    struct ahead_source src = nest_script(&sc, NULL);
    struct ahead_error err;

    expect_bytes(src, 0, 10);
    expect_int(read_one(src, &err), 0);
    err = close_source(src, AHEAD_IO);
    expect_status(err.status, AHEAD_IO);
    expect_true(err.text[0]);
    expect_u64(err.source_offset, UINT64_MAX);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(source_nested, skip_and_seek_are_those_of_the_inner_stream)
{
    struct script sc = { .step = STEPS(BYTES(100), STATUS(AHEAD_TRUNCATED, 7, "cut")),
                         .has = HAS_SEEK,
                         .close_status = AHEAD_IO,
                         .close_errno = EDQUOT };
    struct ahead_source src = nest_script(&sc, &(struct ahead_options){ .buffer_bytes = 16 });
    struct ahead_error err;
    uint64_t skipped;

    expect_status(src.ops->skip(src.ctx, 40, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 40);
    expect_bytes(src, 40, 5);
    expect_status(src.ops->skip(src.ctx, 100, &skipped, &err), AHEAD_TRUNCATED);
    expect_u64(skipped, 55);
    expect_str(err.text, "cut");
    expect_status(src.ops->seek(src.ctx, 10, &err), AHEAD_OK);
    expect_bytes(src, 10, 90);
    close_source(src, AHEAD_IO); /* the fault is none any more, and hides nothing */
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(source_nested, skip_past_the_end_says_how_far)
{
    struct script sc = { .step = STEPS(BYTES(100)) };
    struct ahead_source src = nest_script(&sc, NULL);
    struct ahead_error err;
    uint64_t skipped;

    expect_status(src.ops->skip(src.ctx, 101, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 100);
    expect_int(read_one(src, &err), 0);
    close_source(src, AHEAD_OK);
}

Test(source_nested, refused_seek_changes_nothing)
{
    struct script sc = { .step = STEPS(BYTES(100)) };
    struct ahead_source src = nest_script(&sc, &(struct ahead_options){ .buffer_bytes = 16 });
    struct ahead_error err = { .text = "" };

    expect_bytes(src, 0, 20);
    expect_status(src.ops->seek(src.ctx, 99, &err), AHEAD_UNSUPPORTED);
    expect_status(err.status, AHEAD_UNSUPPORTED);
    expect_bytes(src, 20, 80);
    close_source(src, AHEAD_OK);
}

/* The limit of the inner stream is for its reader, which does not give up. */
Test(source_nested, time_limit_of_the_inner_stream_ends_nothing)
{
    struct script sc = { .step = STEPS(BYTES(10), SLEEP_MS(100), BYTES(10), SLEEP_MS(100)) };
    struct ahead_source src = nest_script(&sc, &(struct ahead_options){ .read_timeout_ms = 10 });
    struct ahead_error err;
    uint64_t skipped;

    expect_bytes(src, 0, 5);
    expect_status(src.ops->skip(src.ctx, 10, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 10);
    expect_bytes(src, 15, 5);
    expect_int(read_one(src, &err), 0);
    close_source(src, AHEAD_OK);
}

/* Nor of its seek, which waits until the fill is out of the source. */
Test(source_nested, time_limit_of_the_inner_stream_ends_no_seek)
{
    struct script sc = { .step = STEPS(BYTES(10), SLEEP_MS(100), PIECES(1000, 100)),
                         .has = HAS_SEEK };
    struct ahead_source src = nest_script(
        &sc, &(struct ahead_options){
                 .buffer_bytes = 64, .flags = AHEAD_EAGER, .read_timeout_ms = 5 });
    struct ahead_error err = { .source_offset = UINT64_MAX };

    expect_bytes(src, 0, 10);
    expect_status(src.ops->seek(src.ctx, 800, &err), AHEAD_OK);
    expect_bytes(src, 800, 210);
    expect_int(read_one(src, &err), 0);
    close_source(src, AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

static void *interrupt_later(void *arg)
{
    struct ahead_source *src = arg;

    sleep_us(50000);
    src->ops->interrupt(src->ctx);
    return NULL;
}

Test(source_nested, interrupt_ends_a_read_that_waits_and_all_later_ones)
{
    const uint32_t limits[] = { 0, 10 };

    for (int i = 0; i < 2; i++) {
        struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
        struct ahead_source src =
            nest_script(&sc, &(struct ahead_options){ .read_timeout_ms = limits[i] });
        struct ahead_error err;
        pthread_t thread;
        uint64_t start;

        expect_bytes(src, 0, 10);
        expect_int(pthread_create(&thread, NULL, interrupt_later, &src), 0);
        start = now_ns();
        for (int k = 0; k < 3; k++) {
            expect_int(read_one(src, &err), -1);
            expect_status(err.status, AHEAD_CANCELLED);
        }
        expect_within_ms(start, 150);
        expect_int(pthread_join(thread, NULL), 0);
        close_source(src, AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

static void *cancel_later(void *stream)
{
    sleep_us(50000);
    ahead_cancel(stream);
    return NULL;
}

/* Cancelled at the top, blocked at the bottom. */
Test(source_nested, cancel_gets_through_three_streams)
{
    struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    pthread_t thread;
    uint8_t got[10];
    uint64_t start;

    for (int level = 0; level < 2; level++)
        expect_status(ahead_open(&s, nest(s), NULL), AHEAD_OK);
    expect_status(ahead_read_full(s, got, 10, NULL), AHEAD_OK);
    expect_int(pthread_create(&thread, NULL, cancel_later, s), 0);
    start = now_ns();
    expect_status(ahead_read(s, got, 1, NULL), AHEAD_CANCELLED);
    expect_within_ms(start, 150);
    expect_int(pthread_join(thread, NULL), 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(source_nested, wrong_calls_close_the_stream)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_source src = { .ctx = &sc };

    expect_status(ahead_source_stream(NULL, script_open(&sc, NULL)), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_status(ahead_source_stream(&src, NULL), AHEAD_INVALID);
    expect_true(!src.ops && !src.ctx);
}

/* F216 */
Test(source_nested, without_memory_the_stream_is_closed)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_source src = { .ctx = &sc };
    struct ahead_stream *inner = script_open(&sc, NULL);

    fail_step(1);
    expect_status(ahead_source_stream(&src, inner), AHEAD_NOMEM);
    expect_true(fail_step(0));
    expect_int(errno, ENOMEM);
    expect_true(!src.ops && !src.ctx);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_int(live, 0);
}
