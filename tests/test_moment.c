/* SPDX-License-Identifier: Apache-2.0 */
/* test_moment.c - a cancel that comes at any moment of a call is neither lost nor too much. */
#include "support/expect.h"
#include "support/moment.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

static void cancel(void *stream)
{
    ahead_cancel(stream);
}

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* A seek that takes an ending away: from then on the cancel, which has returned,
 * is what the stream ends with, and not the old ending over again.  If the seek
 * was too late, that stays. */
Test(moment, a_cancel_beside_a_seek_from_the_end_is_not_lost)
{
    static const uint64_t places[] = { 95, 0 }; /* at hand, and not */

    for (each_mode(m))
        for (size_t i = 0; i < 2; i++) {
            bool reached = true;

            for (unsigned n = 1; reached; n++) {
                struct script sc = { .step = STEPS(PIECES(100, 10)), .has = HAS_SEEK };
                struct ahead_stream *s = open_mode(&sc, m, 16);
                uint8_t bytes[100];
                size_t got = 0;
                enum ahead_status st;

                expect_note("%s, to %u, moment %u", m->name, (unsigned)places[i], n);
                expect_pattern(s, 0, 100);
                expect_ending(s, AHEAD_EOF, 0, 100);
                moment_set(n, cancel, s);
                st = ahead_seek(s, places[i]);
                reached = moment_set(0, NULL, NULL);
                if (st) {
                    expect_status(st, AHEAD_CANCELLED);
                    expect_ending(s, AHEAD_EOF, 0, 100);
                } else if (reached) {
                    expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_CANCELLED);
                    expect_size(pattern_match(bytes, places[i], got), got);
                    expect_ending(s, AHEAD_CANCELLED, 0, places[i] + got);
                } else {
                    expect_pattern(s, places[i], 100 - places[i]);
                }
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
        }
}

/* In the middle of a stream: bytes at hand may come, then nothing but the cancel. */
static enum ahead_status call(struct ahead_stream *s, unsigned which)
{
    const uint8_t *data;
    uint8_t bytes[40];
    size_t len;

    switch (which) {
    case 0: return ahead_read_full(s, bytes, sizeof bytes, &len);
    case 1: return ahead_peek(s, 40, &data, &len);
    case 2: return ahead_skip(s, 40, NULL);
    case 3: return ahead_skip(s, 70, NULL); /* farther than both buffers reach */
    case 4: return ahead_seek(s, 70);
    case 5: return ahead_read_until(s, pattern_byte(99), 0, &data, &len);
    default: return ahead_finish(s);
    }
}

Test(moment, a_cancel_in_the_middle_of_a_call_is_what_ends_the_stream)
{
    for (each_mode(m))
        for (unsigned which = 0; which < 7; which++) {
            bool reached = true;

            for (unsigned n = 1; reached && n < 60; n++) {
                struct script sc = { .step = STEPS(PIECES(100, 10)), .has = HAS_SEEK | HAS_SKIP };
                struct ahead_stream *s = open_mode(&sc, m, 16);
                uint8_t bytes[100];
                size_t got = 0;
                uint64_t pos;
                enum ahead_status st;

                expect_note("%s, call %u, moment %u", m->name, which, n);
                expect_pattern(s, 0, 5);
                moment_set(n, cancel, s);
                st = call(s, which);
                reached = moment_set(0, NULL, NULL);
                if (reached) {
                    expect_true(st == AHEAD_OK || st == AHEAD_CANCELLED ||
                                (which == 6 && st == AHEAD_CORRUPT));
                    pos = ahead_tell(s);
                    expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_CANCELLED);
                    expect_size(pattern_match(bytes, pos, got), got);
                    expect_ending(s, AHEAD_CANCELLED, 0, pos + got);
                }
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
        }
}
