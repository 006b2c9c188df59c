/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c - when the second thread pays, by a clock that the test has. */
#include "stream/pace.h"
#include "support/expect.h"

#define MIB UINT64_C(1048576)

/* A reader alone that goes over `mib` MiB, one at a time: the source takes
 * `source` ns for each byte, it itself `reader`. */
static void read_alone(struct ahead_pace *p, uint64_t *now, uint64_t *at, unsigned mib,
                       double source, double reader)
{
    if (!p->since_ns)
        ahead_pace_begin(p, *now, *at);
    while (mib-- > 0) {
        for (int i = 0; i < AHEAD_PACE_SAMPLE; i++) {
            if (i == 0)
                ahead_pace_enter_source(p, *now);
            *now += (uint64_t)(source * (double)MIB / AHEAD_PACE_SAMPLE);
            if (i == 0)
                ahead_pace_leave_source(p, *now);
        }
        *now += (uint64_t)(reader * (double)MIB);
        *at += MIB;
    }
}

static bool wants_thread(double source, double reader)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1000, at = 0;

    read_alone(&p, &now, &at, 4, source, reader);
    return ahead_pace_wants_thread(&p, now, at, UINT64_MAX);
}

/* Stretches of 4 MiB with the thread there, until the answer is not `solo` any
 * more: how many, up to `most`. */
static unsigned stretches(struct ahead_pace *p, uint64_t *now, uint64_t *at, uint64_t *waited,
                          double ns_per_byte, double wait_share, bool solo, unsigned most)
{
    for (unsigned n = 1; n <= most; n++) {
        uint64_t ns = (uint64_t)(ns_per_byte * 4 * (double)MIB);

        *now += ns;
        *at += 4 * MIB;
        *waited += (uint64_t)(wait_share * (double)ns);
        expect_true(ahead_pace_is_due(p, *at, solo));
        if (ahead_pace_is_better_alone(p, *now, *at, *waited, solo) != solo)
            return n;
    }
    return most;
}

Test(pace, a_reader_that_does_nothing_with_the_bytes_needs_no_thread)
{
    expect_true(!wants_thread(0.1, 0.01));
    expect_true(!wants_thread(2, 0.01));
    expect_true(wants_thread(0.1, 0.15));
    expect_true(wants_thread(1, 0.1));
}

Test(pace, beside_a_slow_source_the_thread_always_comes)
{
    expect_true(wants_thread(20, 0.01));
    expect_true(wants_thread(1000, 0));
}

Test(pace, a_reader_that_begins_to_work_gets_the_thread_one_stretch_later)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0;

    for (int i = 0; i < 5; i++) {
        read_alone(&p, &now, &at, 4, 0.1, 0.01);
        expect_true(!ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
    }
    read_alone(&p, &now, &at, 4, 0.1, 0.2);
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
}

Test(pace, for_what_takes_less_than_the_start_of_a_thread_none_comes)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0;

    read_alone(&p, &now, &at, 4, 0.1, 0.1);
    expect_true(!ahead_pace_wants_thread(&p, now, at, 4 * MIB)); /* 0.8 ms */
    read_alone(&p, &now, &at, 4, 0.1, 0.1);
    expect_true(ahead_pace_wants_thread(&p, now, at, 6 * MIB)); /* 1.2 ms */

    p = (struct ahead_pace){ 0 };
    read_alone(&p, &now, &at, 4, 2, 0.1);
    expect_true(ahead_pace_wants_thread(&p, now, at, MIB));
}

Test(pace, of_an_unknown_rest_as_much_is_expected_as_was_read)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0;

    read_alone(&p, &now, &at, 4, 0.1, 0.1);
    expect_true(!ahead_pace_wants_thread(&p, now, at, UINT64_MAX)); /* 0.8 ms */
    read_alone(&p, &now, &at, 4, 0.1, 0.1);
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX)); /* 1.7 ms */
}

Test(pace, small_buffers_are_not_looked_after)
{
    expect_true(!ahead_pace_applies(17));
    expect_true(!ahead_pace_applies(65535));
    expect_true(ahead_pace_applies(65536));
}

Test(pace, while_the_thread_is_on_its_way_no_stretch_is_over)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0;

    read_alone(&p, &now, &at, 4, 0.1, 0.2);
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
    expect_true(!ahead_pace_is_due(&p, at + 64 * MIB, true));
    expect_true(ahead_pace_is_due(&p, at + 64 * MIB, false));
}

Test(pace, a_reader_that_waits_and_was_faster_alone_is_alone_again_and_tries_now_and_then)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0, waited = 0;
    unsigned alone;

    read_alone(&p, &now, &at, 4, 0.1, 0.06); /* 0.16 ns a byte */
    expect_true(ahead_pace_wants_thread(&p, now, at, 1024 * MIB));

    /* Three stretches that wait, behind the one that is timed from and the warm-up. */
    expect_u64(stretches(&p, &now, &at, &waited, 0.3, 0.8, false, 100), 5);

    /* Alone it is faster: for many stretches, then one trial. */
    alone = stretches(&p, &now, &at, &waited, 0.16, 0, true, 1000);
    expect_true(alone > 30 && alone < 200);
    expect_u64(stretches(&p, &now, &at, &waited, 0.3, 0.8, false, 100), 4);

    /* The reader has begun to work: at once together, and not soon alone. */
    expect_u64(stretches(&p, &now, &at, &waited, 0.9, 0, true, 1000), 1);
    expect_true(stretches(&p, &now, &at, &waited, 1.0, 0.8, false, 1000) > 30);
}

Test(pace, what_is_faster_together_stays_together)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0, waited = 0;

    read_alone(&p, &now, &at, 4, 0.4, 0.15);
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
    for (int i = 0; i < 5; i++) {
        /* One stretch alone in many, to see. */
        expect_true(stretches(&p, &now, &at, &waited, 0.41, 0.7, false, 1000) > 15);
        expect_u64(stretches(&p, &now, &at, &waited, 0.55, 0, true, 1000), 1);
    }
}

Test(pace, a_beginning_that_was_disturbed_is_not_believed_for_ever)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0, waited = 0;

    read_alone(&p, &now, &at, 4, 0.1, 1.0); /* as if it had been held up */
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
    expect_true(stretches(&p, &now, &at, &waited, 0.3, 0.8, false, 1000) < 30);
    expect_true(stretches(&p, &now, &at, &waited, 0.12, 0, true, 1000) > 30);
}

Test(pace, a_reader_that_hardly_waits_stays_together)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0, waited = 0;

    read_alone(&p, &now, &at, 4, 0.1, 0.06);
    expect_true(ahead_pace_wants_thread(&p, now, at, 1024 * MIB));
    expect_u64(stretches(&p, &now, &at, &waited, 0.3, 0.3, false, 1000), 1000);
}

Test(pace, one_stretch_that_was_disturbed_changes_nothing)
{
    struct ahead_pace p = { 0 };
    uint64_t now = 1, at = 0, waited = 0;

    read_alone(&p, &now, &at, 4, 0.1, 0.15);
    expect_true(ahead_pace_wants_thread(&p, now, at, UINT64_MAX));
    for (int i = 0; i < 20; i++) {
        expect_u64(stretches(&p, &now, &at, &waited, 0.16, 0.1, false, 3), 3);
        expect_u64(stretches(&p, &now, &at, &waited, 2.0, 0.9, false, 2), 2);
    }
}
