/* SPDX-License-Identifier: Apache-2.0 */
/* stress_schedule.c - the hand-over, step by step in random orders: reader, second thread, pool,
 * queue, cancel and close, against a reader of the whole input.
 *
 * AHEAD_SCHEDULE_SEED=SEED stress_schedule 'schedule/NAME' runs that one schedule. */
#include "stream/pace.h"
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/schedule.h"
#include "support/script.h"
#include "support/steps.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the scheduler itself: what is broken has to be found ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool told, asleep;

static void *tell(void *unused)
{
    pthread_mutex_lock(&lock);
    told = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    while (pthread_create(thread, NULL, run, arg))
        ; /* refused, as it is in some schedules */
}

static void be_told(void *unused)
{
    pthread_t thread;

    (void)unused;
    told = false;
    start(&thread, tell, NULL);
    pthread_mutex_lock(&lock);
    while (!told)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* F104: between the test and the sleep the lock is let go. */
static void be_told_too_early(void *unused)
{
    pthread_t thread;
    bool wait;

    (void)unused;
    told = false;
    start(&thread, tell, NULL);
    pthread_mutex_lock(&lock);
    wait = !told;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    if (wait)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* Wakes those only who said that they sleep, which is not yet so. */
static void *tell_sleepers(void *unused)
{
    pthread_mutex_lock(&lock);
    told = true;
    if (asleep)
        pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void be_told_unseen(void *unused)
{
    pthread_t thread;

    (void)unused;
    told = asleep = false;
    start(&thread, tell_sleepers, NULL);
    pthread_mutex_lock(&lock);
    while (!told)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void *lock_the_other_way(void *unused)
{
    pthread_mutex_lock(&other);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&other);
    return unused;
}

static void lock_two(void *unused)
{
    pthread_t thread;

    (void)unused;
    start(&thread, lock_the_other_way, NULL);
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&other);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void lock_twice(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

static void unlock_nothing(void *unused)
{
    (void)unused;
    pthread_mutex_unlock(&lock);
}

static void keep_a_lock(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
}

static void forget_a_thread(void *unused)
{
    pthread_t thread;

    (void)unused;
    start(&thread, tell, NULL);
}

static void yield_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        schedule_pause();
}

/* Whether some schedule of a few ends so; it does so again. */
static bool finds(void (*body)(void *arg), const char *what)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const char *verdict = schedule_run(seed, body, NULL);
        uint64_t trace = schedule_figures.trace;

        if (strcmp(verdict, what) != 0)
            continue;
        expect_str(schedule_run(seed, body, NULL), what);
        expect_u64(schedule_figures.trace, trace);
        return true;
    }
    return false;
}

Test(schedule, finds_what_is_broken_and_finds_it_again)
{
    schedule_is_quiet = true;
    expect_true(finds(be_told_too_early, "deadlock"));
    expect_true(finds(be_told_unseen, "deadlock"));
    expect_true(finds(lock_two, "deadlock"));
    expect_true(finds(lock_twice, "a lock is taken that its thread holds"));
    expect_true(finds(unlock_nothing, "a lock is let go of that its thread does not hold"));
    expect_true(finds(keep_a_lock, "a lock is left held"));
    expect_true(finds(forget_a_thread, "a thread is left behind"));
    expect_true(finds(yield_for_ever, "no end"));
}

Test(schedule, finds_nothing_where_nothing_is)
{
    for (uint64_t seed = 1; seed <= 2000; seed++)
        expect_str(schedule_run(seed, be_told, NULL), "ok");
}

static bool finds_in_search(void (*body)(void *arg), const char *what)
{
    uint64_t schedules;

    return strcmp(schedule_search(2, body, NULL, &schedules), what) == 0 && schedules < 1000;
}

Test(schedule, a_search_finds_it_too_and_ends)
{
    uint64_t none, two;

    schedule_is_quiet = true;
    expect_true(finds_in_search(be_told_too_early, "deadlock"));
    expect_true(finds_in_search(be_told_unseen, "deadlock"));
    expect_true(finds_in_search(lock_two, "deadlock"));
    expect_true(finds_in_search(forget_a_thread, "a thread is left behind"));
    expect_str(schedule_search(0, be_told, NULL, &none), "ok");
    expect_str(schedule_search(2, be_told, NULL, &two), "ok");
    expect_true(none >= 1 && two > none);
}

static void crash(void *unused)
{
    (void)unused;
    schedule_pause();
    abort();
}

/* What a process prints that crashes in this schedule, or in the first of a search. */
static void crash_and_say(bool in_search, char text[256])
{
    uint64_t unused;
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    expect_int(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        if (in_search)
            schedule_search(1, crash, NULL, &unused);
        else
            schedule_run(4711, crash, NULL);
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], text, 255);
    close(fds[0]);
    expect_true(n >= 0);
    text[n] = '\0';
    expect_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    expect_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

Test(schedule, a_crash_says_in_which_schedule_it_was)
{
    char text[256];

    crash_and_say(false, text);
    expect_true(strstr(text, "AHEAD_SCHEDULE_SEED=4711: crash"));
    crash_and_say(true, text);
    expect_true(strstr(text, "schedule 1 of the search: crash"));
}

/* ---- alone or together: by chance in every other schedule ---- */

static uint64_t pace_seed; /* 0: as the library likes */

bool __real_ahead_pace_applies(size_t buffer_bytes);
bool __real_ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                    uint64_t left);
bool __real_ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo);
bool __real_ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                       uint64_t wait_ns, bool solo);
bool __wrap_ahead_pace_applies(size_t buffer_bytes);
bool __wrap_ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                    uint64_t left);
bool __wrap_ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo);
bool __wrap_ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                       uint64_t wait_ns, bool solo);

bool __wrap_ahead_pace_applies(size_t buffer_bytes)
{
    return pace_seed ? buffer_bytes > 0 : __real_ahead_pace_applies(buffer_bytes);
}

bool __wrap_ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                    uint64_t left)
{
    return pace_seed ? random_below(&pace_seed, 3) > 0
                     : __real_ahead_pace_wants_thread(p, now_ns, offset, left);
}

bool __wrap_ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo)
{
    return pace_seed ? random_below(&pace_seed, 2) : __real_ahead_pace_is_due(p, offset, solo);
}

bool __wrap_ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                       uint64_t wait_ns, bool solo)
{
    return pace_seed ? random_below(&pace_seed, 2)
                     : __real_ahead_pace_is_better_alone(p, now_ns, offset, wait_ns, solo);
}

/* ---- rounds ---- */

struct life {
    void (*live)(uint64_t *seed);
    uint64_t seed;
};

static void live(void *arg)
{
    struct life *life = arg;
    uint64_t seed = ~life->seed;

    life->live(&seed);
}

static uint64_t run(void (*scenario)(uint64_t *seed), uint64_t seed)
{
    struct life life = { scenario, seed };

    expect_note("AHEAD_SCHEDULE_SEED=%" PRIu64, seed);
    pace_seed = seed % 2 ? pattern_word(seed) : 0;
    expect_str(schedule_run(seed, live, &life), "ok");
    return schedule_figures.steps;
}

/* So many schedules in any case, and more for as long as there is time. */
static void rounds(const char *what, void (*scenario)(uint64_t *seed), unsigned schedules)
{
    const char *one = getenv("AHEAD_SCHEDULE_SEED");
    uint64_t first = driver_seed() % 1000000000000u, seed = first, steps = 0;

    if (one) {
        steps = run(scenario, strtoull(one, NULL, 0));
        printf("%s: seed %s, %" PRIu64 " steps, %" PRIu64 " switches, %u threads, trace %016" PRIx64
               "\n",
               what, one, steps, schedule_figures.switches, schedule_figures.threads,
               schedule_figures.trace);
        return;
    }
    while (time_left() || seed < first + schedules / TIME_SCALE)
        steps += run(scenario, seed++);
    printf("%s: %" PRIu64 " schedules from seed %" PRIu64 ", %" PRIu64 " steps\n", what,
           seed - first, first, steps);
}

/* ---- scenarios ---- */

/* Those in which there is somebody beside the reader. */
static const struct mode *random_mode(uint64_t *seed)
{
    const struct mode *m;

    do
        m = &modes[random_below(seed, modes_len)];
    while (m->flags & AHEAD_SYNC);
    return m;
}

static size_t random_buffer(uint64_t *seed)
{
    static const size_t bounds[] = { 3, 10, 40, 200 };

    return 1 + (size_t)random_below(seed, bounds[random_below(seed, 4)]);
}

static void pause_here(struct script *sc, enum script_call call)
{
    (void)sc;
    (void)call;
    schedule_pause();
}

enum { RUNS = 4 };

/* A few runs of bytes, and an ending. */
static void random_script(struct script *sc, struct step steps[2 * RUNS + 2], uint64_t *seed,
                          struct expected *want)
{
    unsigned at = 0;

    for (uint64_t runs = random_below(seed, RUNS + 1); runs > 0; runs--) {
        uint64_t n = random_below(seed, 100);
        size_t piece = 1 + (size_t)random_below(seed, 30);

        want->length += n;
        steps[at++] = (struct step){
            .what = STEP_BYTES, .n = n, .piece = piece, .random = random_below(seed, 2)
        };
        if (random_below(seed, 8) == 0)
            steps[at++] = (struct step)ERRNO_TIMES(EINTR, 2);
    }
    want->ending = AHEAD_EOF;
    if (random_below(seed, 3) == 0) {
        want->ending = AHEAD_IO;
        want->os_errno = EIO;
        steps[at++] = (struct step)ERRNO(EIO);
    } else if (random_below(seed, 3) == 0) {
        want->ending = AHEAD_CORRUPT;
        steps[at++] = (struct step)STATUS(AHEAD_CORRUPT, 5, "a fault");
    }
    steps[at] = (struct step)END;
    *sc = (struct script){ .step = steps,
                           .seed = pattern_random(seed),
                           .has = (unsigned)random_below(seed, 64),
                           .remaining = random_below(seed, 3) ? 0 : random_below(seed, 300),
                           .ready = (unsigned)random_below(seed, 3),
                           .unit = (size_t)random_below(seed, 40),
                           .on_call = pause_here };
    want->seekable = sc->has & HAS_SEEK;
}

static void expect_closed(struct script *sc)
{
    expect_str(script_closing_verdict(sc), "ok");
}

/* Every call there is: bytes, positions and endings are those of the model. */
static void all_calls(uint64_t *seed)
{
    struct step steps[2 * RUNS + 2];
    struct expected want = { .length = 0 };
    const struct mode *m = random_mode(seed);
    enum ahead_status closed;
    struct ahead_stream *s;
    struct script sc;

    random_script(&sc, steps, seed, &want);
    script_set_mode(&sc, m);
    s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = random_buffer(seed), .flags = m->flags });
    drive(s, &want, *seed, 1 + (unsigned)random_below(seed, 30));
    closed = ahead_close(s);
    expect_true(closed == AHEAD_OK || closed == want.ending);
    expect_closed(&sc);
}

Test(schedule, calls_are_those_of_a_reader_of_the_whole, .timeout = 300 * TIME_SCALE)
{
    rounds("calls", all_calls, 25000);
}

/* Reads until the stream ends, or `most` bytes: how it ended. */
static enum ahead_status
read_on(struct ahead_stream *s, uint64_t *seed, uint64_t *pos, uint64_t most)
{
    uint64_t how = random_below(seed, 4), skipped;
    enum ahead_status st = AHEAD_OK;
    const uint8_t *data;
    uint8_t bytes[50];
    size_t got;

    for (; !st && *pos < most; *pos += got) {
        size_t want = 1 + (size_t)random_below(seed, sizeof bytes);

        got = 0;
        switch (how) {
        case 0:
            st = ahead_read(s, bytes, want, &got);
            expect_size(pattern_match(bytes, *pos, got), got);
            break;
        case 1:
            st = ahead_read_full(s, bytes, want, &got);
            expect_size(pattern_match(bytes, *pos, got), got);
            break;
        case 2:
            st = ahead_peek(s, want, &data, &got);
            expect_size(pattern_match(data, *pos, got), got);
            ahead_consume(s, got);
            break;
        default:
            st = ahead_skip(s, want, &skipped);
            got = (size_t)skipped;
            break;
        }
        if (st == AHEAD_TRUNCATED || st == AHEAD_TIMEDOUT)
            st = AHEAD_OK; /* the next call says more */
    }
    return st;
}

static void *cancel_main(void *s)
{
    ahead_cancel(s);
    return NULL;
}

/* F139, F141: a prefix, then CANCELLED or what came before it; also of a source
 * that is silent for ever. */
static void cancels(uint64_t *seed)
{
    const struct mode *m = random_mode(seed);
    uint64_t n = random_below(seed, 150), pos = 0, threads = 1 + random_below(seed, 2);
    bool silent = random_below(seed, 2), fault = random_below(seed, 2);
    struct step steps[] = { RANDOM(n, 20), STALL, ERRNO(EIO), END };
    struct script sc = {
        .step = steps, .seed = *seed, .has = (unsigned)random_below(seed, 64), .on_call = pause_here
    };
    struct ahead_stream *s;
    enum ahead_status st;
    pthread_t thread[2];

    if (!silent)
        steps[1] = (struct step)BYTES(0);
    if (!fault)
        steps[2] = (struct step)END;
    script_set_mode(&sc, m);
    s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = random_buffer(seed), .flags = m->flags });
    for (uint64_t i = 0; i < threads; i++)
        start(&thread[i], cancel_main, s);
    st = read_on(s, seed, &pos, UINT64_MAX);
    if (silent)
        expect_status(st, AHEAD_CANCELLED);
    else
        expect_true(st == AHEAD_CANCELLED || st == (fault ? AHEAD_IO : AHEAD_EOF));
    if (st != AHEAD_CANCELLED)
        expect_u64(pos, n);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    expect_ending(s, st, st == AHEAD_IO ? EIO : 0, pos);
    expect_status(ahead_close(s), closes_with(st));
    expect_closed(&sc);
}

Test(schedule, cancel_ends_every_reader, .timeout = 300 * TIME_SCALE)
{
    rounds("cancel", cancels, 25000);
}

/* F138, F143: wherever the reader leaves it, and the second thread; a cancel may
 * be under way before. */
static void closes(uint64_t *seed)
{
    const struct mode *m = random_mode(seed);
    uint64_t n = random_below(seed, 150), pos = 0;
    struct step steps[] = { RANDOM(n, 20), STALL, END };
    struct script sc = {
        .step = steps, .seed = *seed, .has = (unsigned)random_below(seed, 64), .on_call = pause_here
    };
    bool cancelled = random_below(seed, 4) == 0;
    struct ahead_stream *s;
    pthread_t thread;

    if (random_below(seed, 2))
        steps[1] = (struct step)END;
    script_set_mode(&sc, m);
    s = script_open(
        &sc, &(struct ahead_options){ .buffer_bytes = random_buffer(seed), .flags = m->flags });
    if (n > 0)
        read_on(s, seed, &pos, random_below(seed, n > 50 ? n - 50 : 1));
    if (cancelled)
        start(&thread, cancel_main, s);
    if (cancelled)
        pthread_join(thread, NULL);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_closed(&sc);
}

Test(schedule, close_leaves_nothing_from_anywhere, .timeout = 300 * TIME_SCALE)
{
    rounds("close", closes, 25000);
}

static void *release_main(void *sc)
{
    script_release(sc);
    return NULL;
}

/* F147: waits that are cut short lose nothing. */
static void waits_with_a_limit(uint64_t *seed)
{
    const struct mode *m = random_mode(seed);
    uint64_t n = random_below(seed, 100), more = random_below(seed, 100), pos = 0;
    struct step steps[] = { RANDOM(n, 20), STALL, RANDOM(more, 20), END };
    struct script sc = { .step = steps,
                         .seed = *seed,
                         .has = (unsigned)random_below(seed, 64) & ~(unsigned)HAS_SKIP,
                         .on_call = pause_here };
    struct ahead_stream *s;
    pthread_t thread;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = random_buffer(seed),
                                                  .flags = m->flags,
                                                  .read_timeout_ms = 1 });
    start(&thread, release_main, &sc);
    expect_status(read_on(s, seed, &pos, UINT64_MAX), AHEAD_EOF);
    expect_u64(pos, n + more);
    pthread_join(thread, NULL);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_closed(&sc);
}

Test(schedule, waits_with_a_limit_lose_nothing, .timeout = 300 * TIME_SCALE)
{
    rounds("limits", waits_with_a_limit, 15000);
}

/* F144: what close gave up on is cleaned up by the last one inside. */
static void closes_in_time(uint64_t *seed)
{
    const struct mode *m = random_mode(seed);
    uint64_t n = random_below(seed, 100), pos = 0;
    struct step steps[] = { RANDOM(n, 20), STALL, END };
    struct script sc = { .step = steps,
                         .seed = *seed,
                         .has = (unsigned)random_below(seed, 16),
                         .deaf = true,
                         .on_call = pause_here };
    enum ahead_status st;
    struct ahead_stream *s;
    pthread_t thread;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = random_buffer(seed),
                                                  .flags = m->flags,
                                                  .close_timeout_ms = 1 });
    if (n > 0)
        read_on(s, seed, &pos, random_below(seed, n > 50 ? n - 50 : 1));
    start(&thread, release_main, &sc);
    st = ahead_close(s);
    expect_true(st == AHEAD_OK || st == AHEAD_TIMEDOUT);
    pthread_join(thread, NULL);
    while (!script_count(&sc, CALL_CLOSE) || atomic_load(&sc.serial))
        sleep_us(10);
    expect_closed(&sc);
}

Test(schedule, close_with_a_limit_is_cleaned_up_behind, .timeout = 300 * TIME_SCALE)
{
    rounds("close in time", closes_in_time, 15000);
}

/* ---- a pool ---- */

static struct ahead_pool *pool;

/* One stream of a pool, perhaps read through another one. */
static void live_on_pool(uint64_t *seed)
{
    struct step steps[2 * RUNS + 2];
    struct expected want = { .length = 0 };
    const struct mode *m = random_mode(seed);
    struct ahead_options opt = { .buffer_bytes = random_buffer(seed),
                                 .flags = m->flags,
                                 .read_timeout_ms = random_below(seed, 4) ? 0 : 1,
                                 .pool = pool };
    enum ahead_status closed;
    struct ahead_source src;
    struct ahead_stream *s;
    struct script sc;
    uint64_t pos = 0;

    random_script(&sc, steps, seed, &want);
    script_set_mode(&sc, m);
    s = script_open(&sc, &opt);
    if (random_below(seed, 3) == 0) {
        opt.buffer_bytes = random_buffer(seed);
        expect_status(ahead_source_stream(&src, s), AHEAD_OK);
        expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    }
    if (opt.read_timeout_ms) {
        expect_status(read_on(s, seed, &pos, UINT64_MAX), want.ending);
        expect_u64(pos, want.length);
    } else {
        drive(s, &want, *seed, 1 + (unsigned)random_below(seed, 15));
    }
    if (random_below(seed, 4) == 0)
        ahead_cancel(s);
    closed = ahead_close(s);
    expect_true(closed == AHEAD_OK || closed == want.ending);
    expect_closed(&sc);
}

static void *live_on_pool_main(void *arg)
{
    live_on_pool(arg);
    return NULL;
}

/* F111, F159, F206: two readers, one or two threads, and sometimes no memory. */
static void pools(uint64_t *seed)
{
    struct ahead_pool_options opt = { .threads = 1 + (unsigned)random_below(seed, 2),
                                      .byte_budget = random_below(seed, 2) ? 0 : 20000 };
    uint64_t second = pattern_random(seed);
    struct ahead_pool_stats stats;
    pthread_t thread;

    expect_status(ahead_pool_open(&pool, &opt), AHEAD_OK);
    start(&thread, live_on_pool_main, &second);
    live_on_pool(seed);
    pthread_join(thread, NULL);
    ahead_pool_get_stats(pool, &stats);
    expect_u64(stats.bytes, 0);
    expect_int(stats.users, 0);
    expect_status(ahead_pool_close(pool), AHEAD_OK);
}

Test(schedule, streams_of_a_pool_keep_apart, .timeout = 300 * TIME_SCALE)
{
    rounds("pool", pools, 5000);
}

/* ---- a queue ---- */

enum { PRODUCERS = 2, ITEMS = 6, ITEM_BYTES = 24 };

/* What the push function saw. */
struct target {
    struct ahead_pusher *p;
    uint64_t fail_at; /* a call that fails; ITEMS * PRODUCERS: none */
    uint64_t calls, bytes;
    uint64_t next[PRODUCERS]; /* the items of each producer come in order */
};

static enum ahead_status
push(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    struct target *t = ctx;

    (void)err;
    schedule_pause();
    if (t->calls == t->fail_at) {
        errno = EIO;
        return AHEAD_IO;
    }
    t->calls++;
    t->bytes += len;
    expect_u64(key % ITEMS, t->next[key / ITEMS]++);
    expect_size(pattern_match(data, key, len), len);
    return AHEAD_OK;
}

struct producer {
    struct target *target;
    uint64_t number, seed, items, accepted, bytes;
    enum ahead_status st;
};

static void *produce(void *arg)
{
    struct producer *pr = arg;

    for (uint64_t i = 0; i < pr->items && !pr->st; i++) {
        uint64_t key = pr->number * ITEMS + i;
        size_t len = (size_t)random_below(&pr->seed, ITEM_BYTES + 1);
        uint8_t bytes[ITEM_BYTES];

        pattern_fill(bytes, key, len);
        pr->st = ahead_push_copy(pr->target->p, key, bytes, len);
        pr->accepted += !pr->st;
        pr->bytes += pr->st ? 0 : len;
        if (!pr->st && random_below(&pr->seed, 4) == 0)
            pr->st = ahead_pusher_drain(pr->target->p);
    }
    return NULL;
}

static void *cancel_pusher_main(void *p)
{
    ahead_pusher_cancel(p);
    return NULL;
}

static void expect_pushed(const struct target *t, const struct producer *pr, bool may_fail)
{
    struct ahead_pusher_stats stats;
    enum ahead_status st;

    st = ahead_pusher_drain(t->p);
    ahead_pusher_get_stats(t->p, &stats);
    expect_true(st == AHEAD_OK || may_fail);
    expect_u64(stats.items, pr[0].accepted + pr[1].accepted);
    expect_u64(stats.bytes, pr[0].bytes + pr[1].bytes);
    if (st == AHEAD_OK)
        expect_u64(t->calls, stats.items);
    st = ahead_pusher_close(t->p);
    expect_true(st == AHEAD_OK || may_fail);
    expect_true(t->calls <= stats.items && t->bytes <= stats.bytes);
    if (st == AHEAD_OK && !may_fail)
        expect_u64(t->bytes, stats.bytes);
}

/* F188: what was accepted is pushed in order, each item once, or an error says not. */
static void pushes(uint64_t *seed)
{
    bool fails = random_below(seed, 4) == 0, cancelled = random_below(seed, 4) == 0;
    struct target t = { .fail_at = fails ? random_below(seed, ITEMS) : ITEMS * PRODUCERS };
    struct ahead_pusher_options opt = { .buffer_bytes = 1 + (size_t)random_below(seed, ITEM_BYTES),
                                        .buffers = 2 + (unsigned)random_below(seed, 3) };
    struct producer pr[PRODUCERS];
    pthread_t thread[PRODUCERS + 1];
    enum ahead_status st;

    while ((st = ahead_pusher_open(&t.p, push, &t, &opt)) != AHEAD_OK)
        expect_status(st, AHEAD_IO); /* the thread was refused */
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pr[i] = (struct producer){ .target = &t,
                                   .number = i,
                                   .seed = pattern_random(seed),
                                   .items = random_below(seed, ITEMS + 1) };
        start(&thread[i], produce, &pr[i]);
    }
    if (cancelled)
        start(&thread[PRODUCERS], cancel_pusher_main, t.p);
    for (unsigned i = 0; i < PRODUCERS + (cancelled ? 1u : 0u); i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < PRODUCERS; i++)
        expect_true(pr[i].st == AHEAD_OK || (fails && pr[i].st == AHEAD_IO) ||
                    (cancelled && pr[i].st == AHEAD_CANCELLED));
    expect_pushed(&t, pr, fails || cancelled);
}

Test(schedule, a_queue_pushes_what_it_accepted, .timeout = 300 * TIME_SCALE)
{
    rounds("push", pushes, 15000);
}

/* ---- every way ---- */

/* Two swaps, and the ending; perhaps with a cancel beside it. */
static void read_a_little(void *cancels_too)
{
    struct script sc = { .step = STEPS(PIECES(5, 2)) };
    uint8_t bytes[8];
    struct ahead_stream *s;
    enum ahead_status st;
    pthread_t thread;
    size_t got;

    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 2, .flags = AHEAD_EAGER });
    if (cancels_too)
        start(&thread, cancel_main, s);
    st = ahead_read_full(s, bytes, sizeof bytes, &got);
    expect_size(pattern_match(bytes, 0, got), got);
    if (st == AHEAD_TRUNCATED)
        expect_size(got, 5);
    else
        expect_true(cancels_too && st == AHEAD_CANCELLED);
    if (cancels_too)
        pthread_join(thread, NULL);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_closed(&sc);
}

/* A skip too long for one buffer is not to wait for a source that is silent once
 * the second thread has read enough. */
static void skip_a_little(void *unused)
{
    struct script sc = { .step = STEPS(PIECES(6, 3), STALL), .has = HAS_SKIP };
    struct ahead_stream *s;
    uint64_t skipped;

    (void)unused;
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4, .flags = AHEAD_EAGER });
    expect_status(ahead_skip(s, 5, &skipped), AHEAD_OK);
    expect_u64(skipped, 5);
    expect_u64(ahead_tell(s), 5);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_closed(&sc);
}

Test(schedule, a_skip_does_not_wait_for_more_than_it_passes)
{
    uint64_t schedules;

    pace_seed = 0;
    expect_str(schedule_search(4, skip_a_little, NULL, &schedules), "ok");
    expect_true(schedules > 100);
}

static void search(const char *what, unsigned preemptions, void *cancels_too)
{
    uint64_t schedules;

    pace_seed = 0;
    expect_note("%s", what);
    expect_str(schedule_search(preemptions, read_a_little, cancels_too, &schedules), "ok");
    printf("%s: all %" PRIu64 " schedules of up to %u preemptions\n", what, schedules, preemptions);
    expect_true(schedules > 500);
}

Test(schedule, every_way_of_a_little, .timeout = 300 * TIME_SCALE)
{
    static char yes;

    search("search", 4, NULL);
    search("search with a cancel", 2, &yes);
}
