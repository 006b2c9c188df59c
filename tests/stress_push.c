/* SPDX-License-Identifier: Apache-2.0 */
/* stress_push.c - producers of every kind on one pusher, with drains, failures, cancels and closes
 * at any moment: what was accepted is pushed, or counted as lost; nothing else is. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCERS = 4, BYTES = 256 };

/* What the push function does, and saw.  Its plain fields are the push thread's. */
struct target {
    bool fails, dies;
    unsigned fail_at;
    unsigned us;
    unsigned calls;
    uint64_t bytes;
    uint64_t next[PRODUCERS]; /* items of each producer come in order */
    bool wrong;
};

/* The key: producer, number of its item. */
static uint64_t key_of(unsigned producer, uint64_t number)
{
    return (uint64_t)producer << 32 | number;
}

static enum ahead_status
push(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    struct target *t = ctx;
    unsigned producer = (unsigned)(key >> 32);

    (void)err;
    if (t->us)
        sleep_us(t->us);
    if (t->fails && t->calls == t->fail_at) {
        if (t->dies)
            pthread_exit(NULL);
        errno = EIO;
        return AHEAD_IO;
    }
    t->calls++;
    t->bytes += len;
    if (producer >= PRODUCERS || (uint32_t)key != t->next[producer]++ ||
        pattern_match(data, key, len) != len)
        t->wrong = true;
    return AHEAD_OK;
}

struct producer {
    struct ahead_pusher *p;
    unsigned number;
    uint64_t seed;
    uint64_t items;           /* at most */
    uint64_t accepted, bytes; /* what was */
    enum ahead_status st;
    pthread_t thread;
};

static enum ahead_status put(struct producer *pr, struct ahead_buffer *b, uint64_t key, size_t len)
{
    uint8_t bytes[BYTES * 4];

    if (b->data && random_below(&pr->seed, 2)) {
        pattern_fill(b->data, key, len % (BYTES + 1));
        b->len = len % (BYTES + 1);
        pr->bytes += b->len;
        return ahead_push_swap(pr->p, key, b);
    }
    pattern_fill(bytes, key, len);
    pr->bytes += len;
    return ahead_push_copy(pr->p, key, bytes, len);
}

static void *produce(void *arg)
{
    struct producer *pr = arg;
    struct ahead_buffer b = { .data = NULL };
    enum ahead_status st;

    st = ahead_pusher_acquire(pr->p, &b);
    pr->st = st == AHEAD_LIMIT ? AHEAD_OK : st; /* by copy only, then */
    for (uint64_t i = 0; i < pr->items && !pr->st; i++) {
        uint64_t before = pr->bytes;
        size_t len =
            (size_t)random_below(&pr->seed, random_below(&pr->seed, 8) ? BYTES : BYTES * 4);

        pr->st = put(pr, &b, key_of(pr->number, i), len);
        if (pr->st)
            pr->bytes = before;
        else
            pr->accepted++;
        if (!pr->st && random_below(&pr->seed, 64) == 0)
            pr->st = ahead_pusher_drain(pr->p);
    }
    ahead_buffer_free(&b);
    return NULL;
}

struct canceller {
    struct ahead_pusher *p;
    uint64_t after_us;
};

static void *cancel_later(void *arg)
{
    const struct canceller *c = arg;

    sleep_us(c->after_us);
    ahead_pusher_cancel(c->p);
    return NULL;
}

static void check(struct ahead_pusher_stats s, const struct producer *pr, const struct target *t,
                  enum ahead_status st)
{
    uint64_t items = 0, bytes = 0;

    for (unsigned i = 0; i < PRODUCERS; i++) {
        items += pr[i].accepted;
        bytes += pr[i].bytes;
    }
    expect_true(!t->wrong);
    expect_u64(s.items, items); /* F188 */
    expect_u64(s.bytes, bytes);
    expect_u64(s.pushed_items + s.lost_items, items);
    expect_u64(s.pushed_bytes + s.lost_bytes, bytes);
    expect_u64(t->calls, s.pushed_items);
    expect_u64(t->bytes, s.pushed_bytes);
    if (st == AHEAD_OK)
        expect_u64(s.lost_items, 0);
}

static void push_all(uint64_t seed)
{
    struct target t = { .fails = random_below(&seed, 3) == 0,
                        .dies = random_below(&seed, 4) == 0,
                        .fail_at = (unsigned)random_below(&seed, 400),
                        .us = random_below(&seed, 8) ? 0 : 20 };
    struct ahead_pusher_options opt = { .buffer_bytes = BYTES,
                                        .buffers = 2 + (unsigned)random_below(&seed, 7) };
    struct producer pr[PRODUCERS];
    struct ahead_pusher_stats s;
    struct canceller c = { .after_us = random_below(&seed, 3000) };
    struct ahead_error err;
    bool cancels = random_below(&seed, 3) == 0;
    pthread_t thread;

    expect_status(ahead_pusher_open(&c.p, push, &t, &opt), AHEAD_OK);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pr[i] = (struct producer){
            .p = c.p, .number = i, .seed = pattern_random(&seed), .items = random_below(&seed, 300)
        };
        expect_int(pthread_create(&pr[i].thread, NULL, produce, &pr[i]), 0);
    }
    if (cancels)
        expect_int(pthread_create(&thread, NULL, cancel_later, &c), 0);
    for (unsigned i = 0; i < PRODUCERS; i++)
        expect_int(pthread_join(pr[i].thread, NULL), 0);
    if (cancels)
        expect_int(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < PRODUCERS; i++)
        expect_true(pr[i].st == AHEAD_OK || (t.fails && pr[i].st == AHEAD_IO) ||
                    (cancels && pr[i].st == AHEAD_CANCELLED));
    /* Only a drain of an item that is under way can say when that has ended. */
    while (ahead_pusher_drain(c.p) &&
           (ahead_pusher_get_stats(c.p, &s), s.pushed_items + s.lost_items < s.items))
        sleep_us(100);
    ahead_pusher_get_stats(c.p, &s);
    check(s, pr, &t, ahead_pusher_close_error(c.p, &err));
    expect_u64(err.offset, s.pushed_bytes);
}

static void rounds(void (*round)(uint64_t seed))
{
    uint64_t seed = driver_seed(), first = seed;
    struct leaks before;

    for (unsigned i = 0; i < 10; i++) /* until the runtime has what it keeps for threads */
        round(seed++);
    before = leaks_count();
    while (time_left()) {
        expect_note("AHEAD_STRESS_SEED=%" PRIu64, seed);
        round(seed++);
    }
    expect_no_leaks(before);
    printf("%" PRIu64 " rounds from seed %" PRIu64 "\n", seed - first, first);
}

Test(stress_push, what_was_accepted_is_pushed_or_counted, .timeout = 300 * TIME_SCALE)
{
    rounds(push_all);
}

/* F188: producers sleep inside when close begins.  Each is refused, or what it
 * brought is pushed. */
struct meeting {
    struct producer pr[PRODUCERS];
    atomic_bool open; /* the push function goes on */
    unsigned pushed;
};

static enum ahead_status
push_when_open(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    struct meeting *m = ctx;

    (void)key;
    (void)data;
    (void)len;
    (void)err;
    while (!atomic_load(&m->open))
        sleep_us(10);
    m->pushed++;
    return AHEAD_OK;
}

static void *copy_once(void *arg)
{
    struct producer *pr = arg;

    pr->st = ahead_push_copy(pr->p, 0, "x", 1);
    return NULL;
}

static void meet(uint64_t seed)
{
    struct meeting m = { .pushed = 0 };
    struct ahead_pusher_options opt = { .buffer_bytes = BYTES, .buffers = 2 };
    struct ahead_pusher_stats s;
    struct ahead_pusher *p;
    unsigned accepted = 2;

    expect_status(ahead_pusher_open(&p, push_when_open, &m, &opt), AHEAD_OK);
    for (unsigned i = 0; i < 2; i++)
        expect_status(ahead_push_copy(p, 0, "x", 1), AHEAD_OK);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        m.pr[i] = (struct producer){ .p = p };
        expect_int(pthread_create(&m.pr[i].thread, NULL, copy_once, &m.pr[i]), 0);
    }
    expect_eventually((ahead_pusher_get_stats(p, &s), s.producer_waits == PRODUCERS));
    atomic_store(&m.open, true);
    if (random_below(&seed, 2))
        sleep_us(random_below(&seed, 200));
    expect_status(ahead_pusher_close(p), AHEAD_OK);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        expect_int(pthread_join(m.pr[i].thread, NULL), 0);
        expect_true(m.pr[i].st == AHEAD_OK || m.pr[i].st == AHEAD_INVALID);
        accepted += m.pr[i].st == AHEAD_OK;
    }
    expect_int(m.pushed, accepted);
}

Test(stress_push, close_meets_producers, .timeout = 300 * TIME_SCALE)
{
    rounds(meet);
}
