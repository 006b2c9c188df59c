/* SPDX-License-Identifier: Apache-2.0 */
/* test_warm_up.c - what the reader does while the second thread prepares its half. */
#include "stream/buffer.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/reading.h"
#include "support/script.h"

#include <semaphore.h>

/* In the place of that in buffer.c, by --wrap: the next warm-up waits to be let go on. */
void __real_ahead_buffer_touch(uint8_t *bytes, size_t cap);
void __wrap_ahead_buffer_touch(uint8_t *bytes, size_t cap);

static atomic_bool holds, held;
static sem_t let_go;

void __wrap_ahead_buffer_touch(uint8_t *bytes, size_t cap)
{
    __real_ahead_buffer_touch(bytes, cap);
    if (!atomic_exchange(&holds, false))
        return;
    atomic_store(&held, true);
    while (sem_wait(&let_go))
        continue;
}

/* A stream with the second thread in its warm-up, and buffers that are not looked after by the
 * clock. */
static struct ahead_stream *open_held(struct script *sc, const struct ahead_options *opt)
{
    struct ahead_stream *s = script_open(sc, opt);

    sem_init(&let_go, 0, 0);
    atomic_store(&held, false);
    atomic_store(&holds, true);
    expect_pattern(s, 0, 81920); /* what the second read of a whole buffer brought, and more */
    expect_eventually(atomic_load(&held));
    return s;
}

static bool rests(struct ahead_stream *s)
{
    struct ahead_stats stats;

    ahead_get_stats(s, &stats);
    return stats.fill_waits > 0;
}

/* The stream is sought, the thread let loose in absence while bytes wait in the closed half, that
 * half given back, and the stream sought once more: the reader is alone in the half that the
 * thread prepares, and keeps its own memory there. */
Test(warm_up, ends_in_vain_where_the_reader_came_to_that_half)
{
    struct script sc = { .step = STEPS(BYTES(300000), PIECES(100000, 100)), .has = HAS_SEEK };
    struct ahead_stream *s = open_held(&sc, &(struct ahead_options){ .buffer_bytes = 32768 });
    const uint8_t *data;
    size_t len;

    expect_status(ahead_seek(s, 200000), AHEAD_OK);
    expect_pattern(s, 200000, 32768 - 5000);
    expect_status(ahead_peek(s, 6000, &data, &len), AHEAD_OK); /* 1000 bytes of the next round */
    expect_size(len, 6000);
    ahead_consume(s, len);
    expect_status(ahead_peek(s, 0, &data, &len), AHEAD_OK);
    expect_size(len, 31768);
    ahead_consume(s, len);
    expect_status(ahead_peek(s, 0, &data, &len), AHEAD_OK); /* gives the half back */
    expect_size(len, 0);
    expect_status(ahead_seek(s, 300000), AHEAD_OK);
    expect_pattern(s, 300000, 150);
    sem_post(&let_go);
    expect_eventually(rests(s));
    expect_status(ahead_peek(s, 130, &data, &len), AHEAD_OK); /* 50 from before, and more */
    expect_size(pattern_match(data, 300150, len), len);
    expect_status(ahead_seek(s, 300000), AHEAD_OK);
    expect_pattern(s, 300000, 100000);
    expect_ending(s, AHEAD_EOF, 0, 400000);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* A close that has not the time to wait leaves all to the thread (LSan). */
Test(warm_up, may_outlive_a_close)
{
    struct script sc = { .step = STEPS(BYTES(300000)) };
    struct ahead_stream *s =
        open_held(&sc, &(struct ahead_options){ .buffer_bytes = 32768, .close_timeout_ms = 5 });

    expect_status(ahead_close(s), AHEAD_TIMEDOUT);
    expect_int(sc.calls[CALL_CLOSE], 0);
    sem_post(&let_go);
    expect_eventually(sc.calls[CALL_CLOSE] == 1);
    expect_str(script_closing_verdict(&sc), "ok");
}
