/* SPDX-License-Identifier: Apache-2.0 */
/* test_source_memory.c - a source over memory gives exactly its bytes, by every way. */
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/steps.h"

#include <ahead/source.h>

#include <errno.h>

enum { BYTES = 10000 };

static uint8_t data[BYTES];

static struct ahead_source open_pattern(size_t len)
{
    struct ahead_source src;

    pattern_fill(data, 0, len);
    expect_status(ahead_source_memory(&src, data, len), AHEAD_OK);
    return src;
}

static uint8_t read_byte(struct ahead_source src)
{
    struct ahead_error err;
    uint8_t byte;

    expect_int(src.ops->read(src.ctx, &byte, 1, &err), 1);
    return byte;
}

Test(source_memory, pieces_made_in_any_order_are_the_bytes)
{
    const size_t wants[] = { 1, 7, 4096, BYTES - 1, BYTES, BYTES + 1 };

    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        struct ahead_source src = open_pattern(BYTES);
        struct all a = steps_all(src, (struct steps){ .want = wants[i], .batch = 3 });

        expect_note("claims of %zu bytes", wants[i]);
        expect_status(a.end, AHEAD_EOF);
        expect_size(a.len, BYTES);
        expect_mem(a.bytes, data, BYTES);
        expect_size(a.pieces, (BYTES + wants[i] - 1) / wants[i]);
        expect_int(a.reads, 0);
        free(a.bytes);
        expect_close(src);
    }
}

Test(source_memory, reads_are_the_bytes_and_then_the_end)
{
    struct ahead_source src = open_pattern(100);
    struct ahead_error err;
    uint8_t got[128];

    expect_int(src.ops->read(src.ctx, got, 64, &err), 64);
    expect_int(src.ops->read(src.ctx, got + 64, 64, &err), 36);
    expect_mem(got, data, 100);
    for (int i = 0; i < 3; i++)
        expect_int(src.ops->read(src.ctx, got, 64, &err), 0);
    expect_close(src);
}

Test(source_memory, claims_and_reads_go_on_where_the_other_stopped)
{
    struct ahead_source src = open_pattern(100);
    struct ahead_job job = { .bound = 0 };
    struct ahead_error err;

    expect_int(read_byte(src), data[0]);
    expect_int(src.ops->split->claim(src.ctx, &job, 10, 10, &err), AHEAD_CLAIM_PIECE);
    expect_size(job.bound, 10);
    expect_int(read_byte(src), data[11]);
    expect_close(src);
}

Test(source_memory, empty_input_needs_no_memory)
{
    struct ahead_source src;
    struct all a;

    expect_status(ahead_source_memory(&src, NULL, 0), AHEAD_OK);
    expect_u64(src.ops->remaining(src.ctx), 0);
    a = steps_all(src, (struct steps){ .want = 10, .batch = 1 });
    expect_status(a.end, AHEAD_EOF);
    expect_size(a.len, 0);
    expect_close(src);
}

Test(source_memory, seek_goes_anywhere_and_past_the_end_is_the_end)
{
    struct ahead_source src = open_pattern(100);
    const uint64_t past[] = { 100, 101, INT64_MAX, UINT64_MAX };
    struct ahead_error err;
    uint8_t byte;

    for (uint64_t at = 100; at-- > 0;) {
        expect_status(src.ops->seek(src.ctx, at, &err), AHEAD_OK);
        expect_u64(src.ops->remaining(src.ctx), 100 - at);
        expect_int(read_byte(src), data[at]);
    }
    for (size_t i = 0; i < 4; i++) {
        expect_status(src.ops->seek(src.ctx, past[i], &err), AHEAD_OK);
        expect_int(src.ops->read(src.ctx, &byte, 1, &err), 0);
    }
    expect_close(src);
}

Test(source_memory, skip_passes_what_is_there)
{
    struct ahead_source src = open_pattern(100);
    struct ahead_error err;
    uint64_t skipped;

    expect_status(src.ops->skip(src.ctx, 0, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 0);
    expect_status(src.ops->skip(src.ctx, 40, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 40);
    expect_int(read_byte(src), data[40]);
    expect_status(src.ops->skip(src.ctx, UINT64_MAX, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, 59);
    expect_u64(src.ops->remaining(src.ctx), 0);
    expect_close(src);
}

Test(source_memory, never_blocks_and_is_known)
{
    struct ahead_source src = open_pattern(1);

    expect_true(!ahead_source_may_block(src));
    expect_true(src.ops->ready(src.ctx));
    expect_true(src.ops->split->wait(src.ctx, 0));
    expect_true(ahead_source_is_immediate(src));
    expect_close(src);
}

Test(source_memory, wrong_calls_are_refused)
{
    struct ahead_source src = { .ctx = data };

    errno = 0;
    expect_status(ahead_source_memory(NULL, data, 1), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_status(ahead_source_memory(&src, NULL, 1), AHEAD_INVALID);
    expect_true(!src.ops && !src.ctx);
}
