/* SPDX-License-Identifier: Apache-2.0 */
/* test_script.c - the scripted sources do what they are told, and notice a caller who breaks a rule. */
#include "support/expect.h"
#include "support/pattern.h"
#include "support/script.h"
#include "support/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a caller without threads or buffers gets out of a source. */
struct played {
    uint8_t bytes[4096];
    size_t len;
    struct ahead_error err; /* of the ending */
};

static struct ahead_error clean(void)
{
    return (struct ahead_error){ .source_offset = UINT64_MAX };
}

/* One read() into the rest of *p.  False: the ending. */
static bool play_read(struct ahead_source src, struct played *p, size_t len)
{
    ssize_t n;

    p->err = clean();
    errno = 0;
    n = src.ops->read(src.ctx, p->bytes + p->len, len, &p->err);
    if (n > 0) {
        p->len += (size_t)n;
        return true;
    }
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n == 0)
        p->err.status = AHEAD_EOF;
    else if (!p->err.status)
        p->err.status = AHEAD_IO, p->err.os_errno = errno;
    return false;
}

/* One piece, in a place of `room` bytes.  False: the ending. */
static bool play_piece(struct ahead_source src, struct played *p, struct ahead_job *job,
                       size_t want, size_t room)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_error err = clean();
    enum ahead_status made, st;
    size_t len = 0;

    switch (split->claim(src.ctx, job, want, room, &err)) {
    case AHEAD_CLAIM_NO_ROOM:
    case AHEAD_CLAIM_READ: return play_read(src, p, room);
    case AHEAD_CLAIM_ENDING: p->err = err; return false;
    case AHEAD_CLAIM_PIECE: break;
    }
    made = split->make(src.ctx, job, p->bytes + p->len, &len, &err);
    st = split->settle(src.ctx, &job->note, p->bytes + p->len, &len, made, &err);
    p->len += len;
    p->err = err;
    return !made && !st;
}

static void play_all(struct ahead_source src, struct played *p, size_t room)
{
    struct ahead_job job = { .in = NULL };
    struct ahead_error err = clean();
    bool more;

    p->len = 0;
    do
        more = ahead_source_is_split(src) ? play_piece(src, p, &job, room > 8 ? 8 : room, room)
                                          : play_read(src, p, room);
    while (more);
    free(job.in);
    expect_status(src.ops->close(src.ctx, &err), AHEAD_OK);
}

Test(script, plays_the_same_bytes_and_ending_in_every_mode)
{
    struct played p;

    for (each_mode(m)) {
        for (size_t room = 1; room <= 40; room++) {
            struct script sc = { .step = STEPS(BYTES(8), PIECES(40, 7), ERRNO_TIMES(EAGAIN, 3),
                                               RANDOM(100, 9), STATUS(AHEAD_CORRUPT, 77, "bad")) };

            expect_note("%s, room for %zu", m->name, room);
            script_set_mode(&sc, m);
            sc.stagger_us = 0; /* there is one thread only */
            play_all(script_source(&sc), &p, room);
            expect_size(p.len, 148);
            expect_size(pattern_match(p.bytes, 0, p.len), p.len);
            expect_status(p.err.status, AHEAD_CORRUPT);
            expect_u64(p.err.source_offset, 77);
            expect_str(p.err.text, "bad");
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
}

Test(script, plays_bytes_that_the_test_gave)
{
    const uint8_t data[] = { 1, 2, 3, 4, 5 };
    struct script sc = { .step = STEPS(PIECES(5, 2)), .data = data };
    struct played p;

    play_all(script_source(&sc), &p, 16);
    expect_size(p.len, 5);
    expect_mem(p.bytes, data, 5);
    expect_status(p.err.status, AHEAD_EOF);
    expect_int(script_count(&sc, CALL_READ), 4);
}

/* steps.h is not kept asking by a block that is larger than its claims. */
Test(script, is_taken_through_its_steps_whatever_the_size_of_a_block)
{
    for (size_t want = 1; want <= 20; want++)
        for (unsigned batch = 1; batch <= STEPS_BATCH; batch++) {
            struct script sc = { .step = STEPS(PIECES(50, 10), PIECES(50, 15), PIECES(9, 3)),
                                 .split = true };
            struct ahead_source src = script_source(&sc);
            struct all a;

            expect_note("claims of %zu, %u at a time", want, batch);
            a = steps_all(src, (struct steps){ .want = want, .batch = batch });
            expect_status(a.end, AHEAD_EOF);
            expect_size(a.len, 109);
            expect_size(pattern_match(a.bytes, 0, a.len), a.len);
            expect_true(want >= 15 ? a.reads == 0 : a.reads > 0);
            free(a.bytes);
            expect_close(src);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

Test(script, goes_on_from_any_place_after_a_seek)
{
    for (unsigned split = 0; split < 2; split++) {
        for (uint64_t at = 0; at < 70; at++) {
            struct script sc = { .step = STEPS(BYTES(10), PIECES(50, 7)),
                                 .has = HAS_SEEK,
                                 .split = split };
            struct ahead_source src = script_source(&sc);
            struct ahead_error err = clean();
            struct played p;

            expect_note("split %u, seek to %ju", split, (uintmax_t)at);
            expect_status(src.ops->seek(src.ctx, at, &err), AHEAD_OK);
            play_all(src, &p, 16);
            expect_size(p.len, at < 60 ? 60 - at : 0);
            expect_size(pattern_match(p.bytes, at, p.len), p.len);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
}

Test(script, fails_once_and_is_well_after_a_seek)
{
    for (unsigned fault = FAULT_CLAIM; fault <= FAULT_READ; fault++) {
        struct script sc = { .step = STEPS(BYTES(10), ERRNO_ONCE(EIO), BYTES(10)),
                             .has = HAS_SEEK,
                             .split = true,
                             .fault = fault };
        struct ahead_source src = script_source(&sc);
        struct ahead_job job = { .in = NULL };
        struct ahead_error err = clean();
        struct played p = { .len = 0 };

        while (play_piece(src, &p, &job, 16, 16))
            ;
        expect_size(p.len, 10);
        expect_int(p.err.os_errno, EIO);
        expect_status(src.ops->seek(src.ctx, 5, &err), AHEAD_OK);
        free(job.in);
        play_all(src, &p, 16);
        expect_size(p.len, 15);
        expect_size(pattern_match(p.bytes, 5, p.len), p.len);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* What breaks the rules, each in a source that has just been made. */
static void read_after_end(struct ahead_source src)
{
    struct played p = { .len = 0 };

    while (play_read(src, &p, 16))
        ;
    play_read(src, &p, 16);
}

static void use_after_close(struct ahead_source src)
{
    struct ahead_error err = clean();
    struct played p = { .len = 0 };

    src.ops->close(src.ctx, &err);
    play_read(src, &p, 16);
}

static void close_twice(struct ahead_source src)
{
    struct ahead_error err = clean();

    src.ops->close(src.ctx, &err);
    src.ops->close(src.ctx, &err);
}

static void read_nothing(struct ahead_source src)
{
    struct played p = { .len = 0 };

    play_read(src, &p, 0);
}

static void pass_a_used_error(struct ahead_source src)
{
    struct ahead_error err = { .status = AHEAD_IO, .source_offset = UINT64_MAX };
    uint8_t b[4];

    (void)!src.ops->read(src.ctx, b, sizeof b, &err);
}

/* Two pieces are claimed and made; what then? */
static void
with_two_pieces(struct ahead_source src, int settle_first, int settle_then, int make, int drop)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_job job[2] = { { .in = NULL }, { .in = NULL } };
    uint8_t bytes[2][16];
    size_t len[2] = { 0, 0 };
    int settle[2] = { settle_first, settle_then };

    for (int i = 0; i < 2; i++) {
        struct ahead_error err = clean();

        split->claim(src.ctx, &job[i], 4, 16, &err);
        split->make(src.ctx, &job[i], bytes[i], &len[i], &err);
    }
    for (int i = 0; i < 2; i++) {
        struct ahead_error err = clean();
        int k = settle[i];

        if (k >= 0)
            split->settle(src.ctx, &job[k].note, bytes[k], &len[k], AHEAD_OK, &err);
    }
    if (make >= 0) {
        struct ahead_error err = clean();

        split->make(src.ctx, &job[make], bytes[make], &len[make], &err);
    }
    if (drop >= 0)
        split->drop(src.ctx, &job[drop].note);
    free(job[0].in);
    free(job[1].in);
}

static void keep_the_rules(struct ahead_source src)
{
    struct ahead_error err = clean();

    with_two_pieces(src, 0, -1, -1, 1);
    src.ops->close(src.ctx, &err);
}

static void settle_out_of_order(struct ahead_source src)
{
    with_two_pieces(src, 1, 0, -1, -1);
}

static void settle_twice(struct ahead_source src)
{
    with_two_pieces(src, 0, 0, -1, -1);
}

static void make_again(struct ahead_source src)
{
    with_two_pieces(src, 0, 1, 1, -1);
}

static void drop_what_was_settled(struct ahead_source src)
{
    with_two_pieces(src, 0, 1, -1, 1);
}

static void forget_a_piece(struct ahead_source src)
{
    struct ahead_error err = clean();

    with_two_pieces(src, 0, -1, -1, -1);
    src.ops->close(src.ctx, &err);
}

static void show_settle_other_bytes(struct ahead_source src)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_job job = { .in = NULL };
    struct ahead_error err = clean();
    uint8_t bytes[16];
    size_t len = 0;

    split->claim(src.ctx, &job, 4, 16, &err);
    split->make(src.ctx, &job, bytes, &len, &err);
    bytes[2] ^= 1;
    split->settle(src.ctx, &job.note, bytes, &len, AHEAD_OK, &err);
    free(job.in);
}

static void mix_up_notes(struct ahead_source src)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_job job = { .in = NULL };
    struct ahead_error err = clean();
    uint8_t bytes[16];
    size_t len = 0;

    split->claim(src.ctx, &job, 4, 16, &err);
    job.note.word[1]++;
    split->make(src.ctx, &job, bytes, &len, &err);
    free(job.in);
}

static void claim_after_end(struct ahead_source src)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_job job = { .in = NULL };
    struct ahead_error err = clean();

    while (split->claim(src.ctx, &job, 4, 16, &err) == AHEAD_CLAIM_PIECE) {
        split->drop(src.ctx, &job.note);
        err = clean();
    }
    err = clean();
    split->claim(src.ctx, &job, 4, 16, &err);
    free(job.in);
}

Test(script, notices_who_breaks_a_rule)
{
    static const struct {
        void (*what)(struct ahead_source src);
        const char *verdict;
    } cases[] = { { keep_the_rules, "ok" },
                  { read_after_end, "read after the ending" },
                  { claim_after_end, "claim after the ending" },
                  { use_after_close, "called after close" },
                  { close_twice, "called after close" },
                  { read_nothing, "a read of 0 bytes, or of more than 1 GiB" },
                  { pass_a_used_error, "*err was not clean on entry" },
                  { settle_out_of_order, "settled out of order" },
                  { settle_twice, "settled twice, unmade, or after a drop" },
                  { make_again, "made twice, or after its end" },
                  { drop_what_was_settled, "dropped twice, while it is made, or after a settle" },
                  { forget_a_piece, "a piece was neither settled nor dropped, or both" },
                  { show_settle_other_bytes, "settle was shown other bytes than make had written" },
                  { mix_up_notes, "a piece's note was changed" } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script sc = { .step = STEPS(PIECES(20, 4)), .split = true };

        expect_note("case %zu", i);
        cases[i].what(script_source(&sc));
        if (script_count(&sc, CALL_CLOSE))
            expect_str(script_closing_verdict(&sc), cases[i].verdict);
        else
            expect_str(script_verdict(&sc), cases[i].verdict);
    }
}
