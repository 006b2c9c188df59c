/* SPDX-License-Identifier: Apache-2.0 */
/* test_push.c - what a push accepts is pushed, in order, or somebody is told.
 *
 * The F-numbers are those of the table of faults. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/leaks.h"
#include "support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call) expect_status(call, AHEAD_OK)

/* A push function that does what the test says.  Items are the pattern's bytes
 * from `key` on, and keys come in order, unless `any_key`. */
struct fake_push {
    unsigned us; /* how long a call takes */
    bool fails;  /* the call of item fail_at, from 0: */
    unsigned fail_at;
    enum ahead_status fail_status; /* returns this */
    int fail_errno;                /* and leaves this errno */
    const char *fail_text;
    bool dies;   /* or ends the thread */
    bool stalls; /* the call of item stall_at waits for release() */
    unsigned stall_at;
    bool any_key;
    void (*on_call)(struct fake_push *fp);
    void *user;

    /* What happened. */
    atomic_uint calls, stalled, wrong;
    atomic_ullong bytes;
    uint64_t next_key;
    const void *seen[16];
    bool released;
};

/* Of whatever stalls; made here, so that they do not count as held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void release(struct fake_push *fp)
{
    pthread_mutex_lock(&lock);
    fp->released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void stall(struct fake_push *fp)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&fp->stalled, 1);
    while (!fp->released)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static enum ahead_status
push(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    struct fake_push *fp = ctx;
    unsigned call = atomic_load(&fp->calls);

    if (fp->on_call)
        fp->on_call(fp);
    if (fp->us)
        sleep_us(fp->us);
    if (fp->stalls && call == fp->stall_at)
        stall(fp);
    if (!fp->any_key && key != fp->next_key)
        atomic_fetch_add(&fp->wrong, 1);
    fp->next_key = key + len;
    if (!data || pattern_match(data, key, len) != len)
        atomic_fetch_add(&fp->wrong, 1);
    fp->seen[call % 16] = data;
    atomic_fetch_add(&fp->calls, 1);
    if (fp->fails && call == fp->fail_at) {
        if (fp->dies)
            pthread_exit(NULL);
        if (fp->fail_text)
            strncpy(err->text, fp->fail_text, sizeof err->text - 1);
        errno = fp->fail_errno;
        return fp->fail_status;
    }
    atomic_fetch_add(&fp->bytes, len);
    return AHEAD_OK;
}

static struct ahead_pusher *open_push(struct fake_push *fp, const struct ahead_pusher_options *opt)
{
    struct ahead_pusher *p = NULL;

    OK(ahead_pusher_open(&p, push, fp, opt));
    return p;
}

static struct ahead_pusher_stats stats(struct ahead_pusher *p)
{
    struct ahead_pusher_stats s;

    ahead_pusher_get_stats(p, &s);
    return s;
}

/* Push `len` bytes of the pattern from *pos on by copy. */
static enum ahead_status copy(struct ahead_pusher *p, uint64_t *pos, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    enum ahead_status st;

    pattern_fill(bytes, *pos, len);
    st = ahead_push_copy(p, *pos, bytes, len);
    memset(bytes, 0, len); /* not needed any more */
    free(bytes);
    if (!st)
        *pos += len;
    return st;
}

/* ---- by swap ---- */

/* Celeborn's own case. */
Test(push, f192_thousand_buffers_by_swap)
{
    enum { BYTES = 4096 };
    struct ahead_pusher_options opt = { .buffer_bytes = BYTES };
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_buffer b, given;

    OK(ahead_pusher_acquire(p, &b));
    expect_size(b.cap, BYTES);
    expect_size(b.len, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        pattern_fill(b.data, i * BYTES, BYTES);
        b.len = BYTES;
        given = b;
        OK(ahead_push_swap(p, i * BYTES, &b));
        expect_true(b.data && b.data != given.data);
        expect_size(b.cap, BYTES);
        expect_size(b.len, 0);
        memset(b.data, 0xee, BYTES); /* at once, and seen by nobody */
    }
    OK(ahead_pusher_drain(p));
    expect_int(atomic_load(&fp.calls), 1000);
    expect_int(atomic_load(&fp.wrong), 0);
    expect_u64(stats(p).copied_bytes, 0);
    expect_u64(stats(p).pushed_bytes, 1000 * BYTES);
    ahead_buffer_free(&b);
    expect_true(!b.data && !b.cap);
    OK(ahead_pusher_close(p));
    expect_int(live, 0);
}

/* The push function sees the very memory that was filled. */
Test(push, swap_moves_no_byte)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = open_push(&fp, NULL);
    struct ahead_buffer b;

    OK(ahead_pusher_acquire(p, &b));
    for (unsigned i = 0; i < 8; i++) {
        const uint8_t *filled = b.data;

        pattern_fill(b.data, i * 10, 10);
        b.len = 10;
        OK(ahead_push_swap(p, i * 10, &b));
        OK(ahead_pusher_drain(p));
        expect_true(fp.seen[i] == filled);
    }
    ahead_buffer_free(&b);
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.wrong), 0);
}

Test(push, f191_only_its_own_buffers_and_each_once)
{
    struct fake_push fp = { .any_key = true };
    struct ahead_pusher_options opt = { .buffer_bytes = 100 };
    struct ahead_pusher *p = open_push(&fp, &opt), *other;
    struct fake_push fp2 = { .us = 0 };
    struct ahead_buffer b, stale, foreign, odd;
    uint8_t memory[100];

    other = open_push(&fp2, &opt);
    OK(ahead_pusher_acquire(p, &b));
    OK(ahead_pusher_acquire(other, &foreign));
    expect_status(ahead_push_swap(p, 0, &foreign), AHEAD_INVALID);
    expect_true(foreign.data != NULL);
    odd = (struct ahead_buffer){ .data = memory, .cap = 100 };
    expect_status(ahead_push_swap(p, 0, &odd), AHEAD_INVALID);
    expect_true(odd.data == memory);
    odd = b;
    odd.data++;
    odd.cap--;
    expect_status(ahead_push_swap(p, 0, &odd), AHEAD_INVALID);
    odd = b;
    odd.cap = 99;
    expect_status(ahead_push_swap(p, 0, &odd), AHEAD_INVALID);
    odd = b;
    odd.len = 101;
    expect_status(ahead_push_swap(p, 0, &odd), AHEAD_INVALID);
    odd = (struct ahead_buffer){ .data = NULL };
    expect_status(ahead_push_swap(p, 0, &odd), AHEAD_INVALID);
    expect_status(ahead_push_swap(p, 0, NULL), AHEAD_INVALID);
    expect_u64(stats(p).items, 0);

    stale = b;
    OK(ahead_push_swap(p, 0, &b)); /* an item of no bytes is one, too */
    expect_status(ahead_push_swap(p, 0, &stale), AHEAD_INVALID);
    OK(ahead_pusher_drain(p));
    expect_int(atomic_load(&fp.calls), 1);
    stale = b;
    ahead_buffer_free(&b);
    expect_status(ahead_push_swap(p, 0, &stale), AHEAD_INVALID);
    ahead_buffer_free(&foreign);
    OK(ahead_pusher_close(p));
    OK(ahead_pusher_close(other));
    expect_int(live, 0);
}

/* A stream must not take for its own what belongs to a pusher, or the other way
 * round: both would free it. */
Test(push, buffers_of_streams_and_pushers_do_not_mix)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher_options opt = { .buffer_bytes = 64 };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_buffer ours, streams;
    struct ahead_source src;
    struct ahead_stream *s;

    OK(ahead_source_memory(&src, "0123456789", 10));
    OK(ahead_open(&s, src, &(struct ahead_options){ .buffer_bytes = 64 }));
    OK(ahead_buffer_alloc(s, &streams));
    OK(ahead_pusher_acquire(p, &ours));
    expect_status(ahead_swap_buffer(s, &ours), AHEAD_INVALID);
    expect_status(ahead_push_swap(p, 0, &streams), AHEAD_INVALID);
    ahead_buffer_free(&streams);
    ahead_buffer_free(&ours);
    ahead_close(s);
    OK(ahead_pusher_close(p));
    expect_int(live, 0);
}

Test(push, one_buffer_always_stays)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher_options opt = { .buffer_bytes = 100, .buffers = 3 };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_buffer b[3];
    struct ahead_error err;
    uint64_t pos = 0;

    OK(ahead_pusher_acquire(p, &b[0]));
    OK(ahead_pusher_acquire(p, &b[1]));
    expect_status(ahead_pusher_acquire(p, &b[2]), AHEAD_LIMIT);
    expect_true(!b[2].data);
    for (unsigned i = 0; i < 20; i++)
        OK(copy(p, &pos, 10));
    expect_status(ahead_pusher_close_error(p, &err), AHEAD_INVALID);
    expect_true(strstr(err.text, "2 are outstanding"));
    ahead_buffer_free(&b[0]);
    OK(ahead_pusher_acquire(p, &b[2]));
    ahead_buffer_free(&b[1]);
    ahead_buffer_free(&b[2]);
    OK(copy(p, &pos, 10)); /* the close that was refused has changed nothing */
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 21);
    expect_int(atomic_load(&fp.wrong), 0);
}

Test(push, buffers_are_made_when_they_are_needed)
{
    struct fake_push fp = { .stalls = true };
    struct ahead_pusher_options opt = { .buffer_bytes = 100, .buffers = 10 };
    struct ahead_pusher *p = open_push(&fp, &opt);
    uint64_t pos = 0;

    expect_u64(stats(p).buffers, 0);
    for (unsigned i = 1; i <= 5; i++) {
        OK(copy(p, &pos, 10));
        expect_u64(stats(p).buffers, i);
    }
    release(&fp);
    OK(ahead_pusher_drain(p));
    OK(copy(p, &pos, 10));
    expect_u64(stats(p).buffers, 5);
    OK(ahead_pusher_close(p));
    expect_int(live, 0);
}

/* ---- by copy ---- */

Test(push, items_come_in_order_whatever_their_sizes)
{
    for (unsigned buffers = 2; buffers <= 5; buffers++) {
        struct ahead_pusher_options opt = { .buffer_bytes = 100, .buffers = buffers };
        struct fake_push fp = { .us = 0 };
        struct ahead_pusher *p = open_push(&fp, &opt);
        uint64_t pos = 0, seed = buffers;

        for (unsigned i = 0; i < 2000; i++)
            OK(copy(p, &pos, (size_t)random_below(&seed, i % 10 ? 100 : 1000)));
        OK(ahead_pusher_drain(p));
        expect_u64(atomic_load(&fp.bytes), pos);
        expect_u64(stats(p).copied_bytes, pos);
        OK(copy(p, &pos, 1));
        OK(ahead_pusher_close(p));
        expect_int(atomic_load(&fp.calls), 2001);
        expect_u64(atomic_load(&fp.bytes), pos);
        expect_int(atomic_load(&fp.wrong), 0);
        expect_int(live, 0);
    }
}

/* F233 */
Test(push, nothing_can_be_pushed_from_nowhere)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = open_push(&fp, NULL);

    OK(ahead_push_copy(p, 0, NULL, 0));
    expect_status(ahead_push_copy(p, 0, NULL, 1), AHEAD_INVALID);
    expect_status(ahead_pusher_acquire(p, NULL), AHEAD_INVALID);
    ahead_pusher_get_stats(p, NULL);
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 1);
    expect_int(atomic_load(&fp.wrong), 0);
}

struct producer {
    struct ahead_pusher *p;
    uint64_t pos;
    size_t len;
    unsigned items;
    enum ahead_status st;
    double ms;
    pthread_t thread;
};

static void *produce(void *arg)
{
    struct producer *pr = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < pr->items && !pr->st; i++)
        pr->st = copy(pr->p, &pr->pos, pr->len);
    pr->ms = ms_since(start);
    return NULL;
}

static void start(struct producer *pr, struct ahead_pusher *p, size_t len, unsigned items)
{
    *pr = (struct producer){ .p = p, .len = len, .items = items };
    expect_int(pthread_create(&pr->thread, NULL, produce, pr), 0);
}

/* One goes whole at a time, and the others behind it in order. */
Test(push, f193_giants_pass_alone_and_in_order)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 100, .buffers = 4 };
    struct fake_push fp = { .stalls = true };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct producer second;
    uint64_t pos = 0;

    OK(copy(p, &pos, 1000000));
    OK(copy(p, &pos, 100));
    expect_eventually(atomic_load(&fp.stalled) == 1);
    second = (struct producer){ .p = p, .pos = pos, .len = 101, .items = 1 };
    expect_int(pthread_create(&second.thread, NULL, produce, &second), 0);
    expect_eventually(stats(p).producer_waits == 1);
    expect_u64(stats(p).items, 2);
    release(&fp);
    expect_int(pthread_join(second.thread, NULL), 0);
    OK(second.st);
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 3);
    expect_u64(atomic_load(&fp.bytes), 1000201);
    expect_int(atomic_load(&fp.wrong), 0);
    expect_int(live, 0);
}

/* ---- waits ---- */

Test(push, full_queue_makes_the_producer_sleep)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10, .buffers = 3 };
    struct fake_push fp = { .stalls = true };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct producer pr;
    struct ahead_pusher_stats s;

    start(&pr, p, 10, 5);
    expect_eventually(stats(p).producer_waits == 1);
    s = stats(p);
    expect_u64(s.items, 3);
    sleep_us(20000);
    expect_u64(stats(p).producer_waits, 1); /* one sleep, no polling */
    release(&fp);
    expect_int(pthread_join(pr.thread, NULL), 0);
    OK(pr.st);
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 5);
    expect_int(atomic_load(&fp.wrong), 0);
}

/* F197: OK means that the function has had it. */
Test(push, f197_drain_and_close_wait_for_the_last_item, .timeout = 60 * TIME_SCALE)
{
    for (unsigned run = 0; run < 200; run++) {
        struct ahead_pusher_options opt = { .buffer_bytes = 10 };
        struct fake_push fp = { .us = 5000 };
        struct ahead_pusher *p = open_push(&fp, &opt);
        uint64_t pos = 0;

        OK(copy(p, &pos, 10));
        if (run % 2) {
            OK(ahead_pusher_drain(p));
            expect_int(atomic_load(&fp.calls), 1);
        }
        OK(copy(p, &pos, 10));
        OK(ahead_pusher_close(p));
        expect_int(atomic_load(&fp.calls), 2);
    }
}

static void *drain(void *arg)
{
    struct producer *pr = arg;
    uint64_t start = now_ns();

    pr->st = ahead_pusher_drain(pr->p);
    pr->ms = ms_since(start);
    return NULL;
}

/* A drain does not wait for what is pushed after it. */
Test(push, drain_waits_for_what_was_before_it_only)
{
    struct fake_push fp = { .us = 50000 };
    struct ahead_pusher *p = open_push(&fp, NULL);
    struct producer pr = { .p = p };
    uint64_t pos = 0;

    OK(copy(p, &pos, 10));
    expect_int(pthread_create(&pr.thread, NULL, drain, &pr), 0);
    expect_eventually(stats(p).producer_waits == 1);
    for (unsigned i = 0; i < 3; i++)
        OK(copy(p, &pos, 10));
    expect_int(pthread_join(pr.thread, NULL), 0);
    OK(pr.st);
    expect_true(atomic_load(&fp.calls) >= 1 && atomic_load(&fp.calls) < 4);
    OK(ahead_pusher_drain(p));
    expect_int(atomic_load(&fp.calls), 4);
    OK(ahead_pusher_close(p));
}

/* ---- failures ---- */

Test(push, f189_failure_is_told_by_every_later_call)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10 };
    struct fake_push fp = { .fails = true,
                            .fail_at = 2,
                            .fail_status = AHEAD_CORRUPT,
                            .fail_text = "partition 7 is gone" };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_buffer b, another;
    struct ahead_error err;
    uint64_t pos = 0;

    OK(ahead_pusher_acquire(p, &b));
    for (unsigned i = 0; i < 3; i++)
        OK(copy(p, &pos, 10));
    expect_status(ahead_pusher_drain(p), AHEAD_CORRUPT);
    expect_status(copy(p, &pos, 10), AHEAD_CORRUPT);
    expect_status(copy(p, &pos, 1000), AHEAD_CORRUPT);
    another = b;
    expect_status(ahead_push_swap(p, 0, &b), AHEAD_CORRUPT);
    expect_true(b.data == another.data); /* still the caller's */
    expect_status(ahead_pusher_acquire(p, &another), AHEAD_CORRUPT);
    expect_status(ahead_pusher_error(p)->status, AHEAD_CORRUPT);
    expect_u64(ahead_pusher_error(p)->offset, 20);
    expect_str(ahead_pusher_error(p)->text, "partition 7 is gone");
    expect_u64(stats(p).lost_items, 1);
    ahead_buffer_free(&b);
    expect_status(ahead_pusher_close_error(p, &err), AHEAD_CORRUPT);
    expect_u64(err.offset, 20);
    expect_true(strstr(err.text, "partition 7 is gone; of 3 items 2 were pushed"));
    expect_int(atomic_load(&fp.calls), 3);
    expect_int(live, 0);
}

Test(push, failure_has_words_whatever_the_function_left)
{
    static const struct {
        enum ahead_status returned;
        int os_errno;
        enum ahead_status status;
        const char *text;
    } cases[] = {
        { AHEAD_IO, ECONNRESET, AHEAD_IO, "pushing an item failed: Connection reset" },
        { AHEAD_LIMIT, 0, AHEAD_LIMIT, "the push function failed with status LIMIT" },
        { AHEAD_TIMEDOUT, 0, AHEAD_IO, "the push function failed with status TIMEDOUT" },
        { AHEAD_INVALID, 0, AHEAD_IO, "the push function failed with status INVALID" },
        { AHEAD_EOF, 0, AHEAD_IO, "the push function failed with status EOF" },
    };

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake_push fp = { .fails = true,
                                .fail_status = cases[i].returned,
                                .fail_errno = cases[i].os_errno };
        struct ahead_pusher *p = open_push(&fp, NULL);
        struct ahead_error err;
        uint64_t pos = 0;

        OK(copy(p, &pos, 10));
        expect_status(ahead_pusher_close_error(p, &err), cases[i].status);
        expect_int(err.os_errno, cases[i].os_errno);
        expect_true(strstr(err.text, cases[i].text));
        expect_u64(err.offset, 0);
    }
}

/* Producers by copy, producers of giants and a drain wait when it happens. */
static void f190(bool dies)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10, .buffers = 3 };
    struct fake_push fp = { .stalls = true,
                            .fails = true,
                            .fail_status = AHEAD_IO,
                            .dies = dies,
                            .fail_errno = EIO,
                            .any_key = true };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct producer pr[5];
    uint64_t start_ns, items;

    start(&pr[0], p, 1000, 1);
    expect_eventually(atomic_load(&fp.stalled) == 1);
    start(&pr[1], p, 10, 100);
    start(&pr[2], p, 10, 100);
    start(&pr[3], p, 1000, 1);
    pr[4] = (struct producer){ .p = p };
    expect_int(pthread_create(&pr[4].thread, NULL, drain, &pr[4]), 0);
    expect_eventually(stats(p).producer_waits >= 4);
    start_ns = now_ns();
    release(&fp);
    for (unsigned i = 0; i < 5; i++) {
        expect_int(pthread_join(pr[i].thread, NULL), 0);
        expect_status(pr[i].st, i ? AHEAD_IO : AHEAD_OK);
    }
    expect_within_ms(start_ns, 100);
    items = stats(p).items;
    expect_u64(items, 3);
    expect_u64(stats(p).lost_items, 3); /* accepted, and accounted for */
    expect_status(ahead_pusher_close(p), AHEAD_IO);
    expect_int(atomic_load(&fp.calls), 1);
    expect_int(live, 0);
}

Test(push, f190_failure_ends_every_wait)
{
    f190(false);
}

Test(push, f189_thread_that_dies_ends_every_wait)
{
    f190(true);
}

Test(push, f211_thread_that_cannot_be_started_is_refused_at_open)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = (struct ahead_pusher *)&fp;

    fail_always(FAILING_THREAD, true);
    expect_status(ahead_pusher_open(&p, push, &fp, NULL), AHEAD_IO);
    expect_int(errno, EAGAIN);
    expect_true(!p);
    fail_always(FAILING_THREAD, false);
    expect_int(live, 0);
}

/* A cancel does not hide why. */
Test(push, first_failure_is_the_one_that_is_told)
{
    struct fake_push fp = { .fails = true, .fail_status = AHEAD_CORRUPT };
    struct ahead_pusher *p = open_push(&fp, NULL);
    uint64_t pos = 0;

    OK(copy(p, &pos, 10));
    expect_status(ahead_pusher_drain(p), AHEAD_CORRUPT);
    ahead_pusher_cancel(p);
    expect_status(copy(p, &pos, 10), AHEAD_CORRUPT);
    expect_status(ahead_pusher_close(p), AHEAD_CORRUPT);
}

/* ---- cancel ---- */

static void *cancel_soon(void *arg)
{
    sleep_us(20000);
    ahead_pusher_cancel(arg);
    return NULL;
}

Test(push, cancel_wakes_whoever_sleeps)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10, .buffers = 3 };
    struct fake_push fp = { .stalls = true };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_error err;
    struct producer pr[2];
    pthread_t t;
    uint64_t start_ns = now_ns();

    start(&pr[0], p, 10, 100);
    pr[1] = (struct producer){ .p = p };
    expect_eventually(stats(p).producer_waits > 0);
    expect_int(pthread_create(&pr[1].thread, NULL, drain, &pr[1]), 0);
    expect_int(pthread_create(&t, NULL, cancel_soon, p), 0);
    for (unsigned i = 0; i < 2; i++) {
        expect_int(pthread_join(pr[i].thread, NULL), 0);
        expect_status(pr[i].st, AHEAD_CANCELLED);
    }
    expect_int(pthread_join(t, NULL), 0);
    expect_within_ms(start_ns, 120);
    expect_u64(stats(p).lost_items, 2);
    release(&fp); /* the call under way ends by itself, and counts */
    expect_status(ahead_pusher_close_error(p, &err), AHEAD_CANCELLED);
    expect_u64(err.offset, 10);
    expect_true(strstr(err.text, "of 3 items 1 were pushed"));
    expect_int(live, 0);
}

Test(push, cancel_that_comes_too_late_is_none)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = open_push(&fp, NULL);
    uint64_t pos = 0;

    OK(copy(p, &pos, 10));
    OK(ahead_pusher_drain(p));
    ahead_pusher_cancel(p);
    ahead_pusher_cancel(p);
    expect_status(copy(p, &pos, 10), AHEAD_CANCELLED);
    OK(ahead_pusher_close(p));
}

/* ---- close ---- */

static void close_in_vain(bool dies)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10, .close_timeout_ms = 50 };
    struct fake_push fp = {
        .stalls = true, .stall_at = 1, .fails = dies, .fail_at = 1, .dies = true
    };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct ahead_error err;
    uint64_t pos = 0, start_ns;

    for (unsigned i = 0; i < 3; i++)
        OK(copy(p, &pos, 10));
    expect_eventually(atomic_load(&fp.stalled) == 1);
    start_ns = now_ns();
    expect_status(ahead_pusher_close_error(p, &err), AHEAD_TIMEDOUT);
    expect_true(ms_since(start_ns) >= 50);
    expect_within_ms(start_ns, 150);
    expect_u64(err.offset, 10);
    expect_true(strstr(err.text, "50 ms; of 3 items 1 were pushed"));
    release(&fp);
    expect_eventually(live == 0); /* the push thread has cleaned up */
    expect_int(atomic_load(&fp.calls), 2);
}

Test(push, f197_close_gives_a_stuck_function_up_in_time)
{
    close_in_vain(false);
}

Test(push, thread_that_dies_after_a_timed_out_close_cleans_up)
{
    close_in_vain(true);
}

static void *close_it(void *arg)
{
    struct producer *pr = arg;

    pr->st = ahead_pusher_close(pr->p);
    return NULL;
}

/* F188: a push that meets a close is refused, or pushed. */
Test(push, push_that_meets_a_close_is_refused)
{
    struct ahead_pusher_options opt = { .buffer_bytes = 10, .buffers = 2 };
    struct fake_push fp = { .stalls = true, .any_key = true };
    struct ahead_pusher *p = open_push(&fp, &opt);
    struct producer closer = { .p = p }, pr[2];

    start(&pr[0], p, 10, 3);
    start(&pr[1], p, 10, 3);
    expect_eventually(stats(p).producer_waits == 2);
    expect_int(pthread_create(&closer.thread, NULL, close_it, &closer), 0);
    for (unsigned i = 0; i < 2; i++) {
        expect_int(pthread_join(pr[i].thread, NULL), 0);
        expect_status(pr[i].st, AHEAD_INVALID);
    }
    release(&fp);
    expect_int(pthread_join(closer.thread, NULL), 0);
    OK(closer.st);
    expect_u64(atomic_load(&fp.bytes), pr[0].pos + pr[1].pos);
    expect_int(live, 0);
}

static void call_self(struct fake_push *fp)
{
    struct ahead_pusher *p = fp->user;
    struct ahead_buffer b = { .cap = 10 };
    struct ahead_error err;

    expect_status(ahead_push_copy(p, 0, "x", 1), AHEAD_INVALID);
    expect_status(ahead_pusher_acquire(p, &b), AHEAD_INVALID);
    expect_status(ahead_pusher_drain(p), AHEAD_INVALID);
    expect_status(ahead_pusher_close_error(p, &err), AHEAD_INVALID);
    expect_true(strstr(err.text, "inside"));
    OK(ahead_pusher_error(p)->status);
    ahead_pusher_cancel(p);
}

Test(push, its_own_function_can_cancel_it_and_no_more)
{
    struct fake_push fp = { .on_call = call_self };
    struct ahead_pusher *p = open_push(&fp, NULL);
    uint64_t pos = 0;

    fp.user = p;
    OK(copy(p, &pos, 1));
    expect_status(ahead_pusher_drain(p), AHEAD_CANCELLED);
    OK(ahead_pusher_close(p)); /* the only item was pushed */
    expect_int(atomic_load(&fp.calls), 1);
}

/* F210 */
Test(push, belongs_to_the_process_that_opened_it)
{
    struct fake_push fp = { .us = 0 };
    struct ahead_pusher *p = open_push(&fp, NULL);
    struct ahead_buffer b;
    uint64_t pos = 0;
    int status;
    pid_t pid;

    OK(copy(p, &pos, 1));
    OK(ahead_pusher_acquire(p, &b));
    pid = fork();
    if (pid == 0) {
        alarm(5);
        if (ahead_push_copy(p, 0, "x", 1) != AHEAD_INVALID ||
            ahead_push_swap(p, 0, &b) != AHEAD_INVALID || ahead_pusher_drain(p) != AHEAD_INVALID)
            _exit(1);
        ahead_pusher_cancel(p);
        ahead_buffer_free(&b);
        _exit(ahead_pusher_close(p) == AHEAD_INVALID ? 42 : 2);
    }
    expect_true(pid > 0);
    expect_int(waitpid(pid, &status, 0), pid);
    expect_true(WIFEXITED(status));
    expect_int(WEXITSTATUS(status), 42);
    ahead_buffer_free(&b);
    OK(copy(p, &pos, 1));
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 2);
}

/* F231 */
Test(push, open_refuses_what_makes_no_sense)
{
    struct ahead_pusher_options one = { .buffers = 1 }, many = { .buffers = 65537 },
                                large = { .buffer_bytes = ((size_t)1 << 30) + 1 };
    struct ahead_pusher *p = (struct ahead_pusher *)&one;

    expect_status(ahead_pusher_open(&p, push, NULL, &one), AHEAD_INVALID);
    expect_true(!p);
    expect_int(errno, EINVAL);
    expect_status(ahead_pusher_open(&p, push, NULL, &many), AHEAD_INVALID);
    expect_status(ahead_pusher_open(&p, push, NULL, &large), AHEAD_INVALID);
    expect_status(ahead_pusher_open(&p, NULL, NULL, NULL), AHEAD_INVALID);
    expect_status(ahead_pusher_open(NULL, push, NULL, NULL), AHEAD_INVALID);
    OK(ahead_pusher_close(NULL));
    ahead_pusher_cancel(NULL);
    expect_status(ahead_pusher_error(NULL)->status, AHEAD_INVALID);
    expect_status(ahead_push_copy(NULL, 0, NULL, 0), AHEAD_INVALID);
    expect_status(ahead_pusher_drain(NULL), AHEAD_INVALID);
}

/* F216: also, a buffer that cannot be made leaves everything as it was. */
Test(push, unwinds_from_every_failing_step)
{
    static uint8_t bytes[300];
    bool failed = true;

    pattern_fill(bytes, 0, sizeof bytes);
    for (int step = 1; failed; step++) {
        struct ahead_pusher_options opt = { .buffer_bytes = 100 };
        struct fake_push fp = { .any_key = true };
        struct ahead_pusher *p = NULL;
        struct ahead_buffer b = { .data = NULL };
        unsigned accepted = 0;
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_pusher_open(&p, push, &fp, &opt);
        if (st) {
            expect_true(!p && (st == AHEAD_NOMEM || st == AHEAD_IO));
        } else {
            enum ahead_status each[4];

            each[0] = ahead_push_copy(p, 0, bytes, 100);
            each[1] = ahead_push_copy(p, 0, bytes, 300);
            each[2] = ahead_pusher_acquire(p, &b);
            each[3] = each[2] ? AHEAD_NOMEM : ahead_push_swap(p, 0, &b);
            failed = fail_step(0);
            for (unsigned i = 0; i < 4; i++) {
                if (each[i])
                    expect_status(each[i], AHEAD_NOMEM);
                else if (i != 2)
                    accepted++;
            }
            expect_true(accepted >= 1);
            if (!failed)
                expect_int(accepted, 3);
            ahead_buffer_free(&b);
            OK(ahead_pusher_close(p));
            expect_int(atomic_load(&fp.calls), accepted);
            expect_int(atomic_load(&fp.wrong), 0);
        }
        failed = fail_step(0) || failed;
        expect_int(live, 0);
    }
}

static void look_at_signals(struct fake_push *fp)
{
    sigset_t mask;

    (void)fp;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    expect_true(sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGTERM));
    expect_true(!sigismember(&mask, SIGPROF) && !sigismember(&mask, SIGSEGV));
}

/* F207 */
Test(push, its_thread_takes_no_signal_of_the_process)
{
    struct fake_push fp = { .on_call = look_at_signals };
    struct ahead_pusher *p = open_push(&fp, NULL);
    uint64_t pos = 0;

    OK(copy(p, &pos, 1));
    OK(ahead_pusher_close(p));
    expect_int(atomic_load(&fp.calls), 1);
}

/* F208 */
Test(push, leaves_signals_and_everything_else_alone)
{
    struct leaks before;
    sigset_t mask, after;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (unsigned i = 0; i < 50; i++) {
        struct fake_push fp = { .us = 0 };
        struct ahead_pusher *p;
        uint64_t pos = 0;

        if (i == 1)
            before = leaks_count();
        p = open_push(&fp, NULL);
        OK(copy(p, &pos, 1000));
        OK(copy(p, &pos, 100000));
        OK(ahead_pusher_close(p));
    }
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++)
        expect_int(sigismember(&mask, s), sigismember(&after, s));
    expect_no_leaks(before);
}
