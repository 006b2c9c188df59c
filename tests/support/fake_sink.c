/* SPDX-License-Identifier: Apache-2.0 */
/* fake_sink.c - a sink that does exactly what a test says, and keeps what it took. */
#include "support/fake_sink.h"

#include "support/clock.h"
#include "support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of all of them: one that dies with its sink could be destroyed while the thread
 * that closed the sink is still on its way out of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void breaks(struct fake_sink *fs, const char *rule)
{
    const char *none = NULL;

    atomic_compare_exchange_strong(&fs->broken, &none, rule);
}

static void enter(struct fake_sink *fs)
{
    if (atomic_exchange_explicit(&fs->inside, true, memory_order_relaxed))
        breaks(fs, "two calls at once");
    if (atomic_load_explicit(&fs->closes, memory_order_relaxed))
        breaks(fs, "called after its close");
    if (fs->on_call)
        fs->on_call(fs);
}

static void leave(struct fake_sink *fs)
{
    atomic_store_explicit(&fs->inside, false, memory_order_relaxed);
}

static void stall(struct fake_sink *fs)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&fs->stalled, 1);
    while (!fs->released && !(fs->interrupted && !fs->deaf))
        pthread_cond_wait(&changed, &lock);
    fs->stalls = false;
    pthread_mutex_unlock(&lock);
}

static bool is_interrupted(struct fake_sink *fs)
{
    bool interrupted;

    pthread_mutex_lock(&lock);
    interrupted = fs->interrupted && !fs->deaf;
    pthread_mutex_unlock(&lock);
    return interrupted;
}

static ssize_t fail(struct fake_sink *fs, struct ahead_error *err)
{
    fs->failed = true;
    if (fs->dies) {
        leave(fs);
        pthread_exit(NULL);
    }
    errno = fs->fail_errno;
    if (!fs->fail_errno) {
        err->status = fs->fail_status;
        err->source_offset = fs->fail_where;
        if (fs->fail_text)
            strncpy(err->text, fs->fail_text, sizeof err->text - 1);
    }
    return -1;
}

static void keep(struct fake_sink *fs, const uint8_t *src, size_t n)
{
    if (fs->cap - fs->len < n) {
        fs->cap = 2 * (fs->len + n);
        fs->bytes = realloc(fs->bytes, fs->cap);
        expect_true(fs->bytes);
    }
    memcpy(fs->bytes + fs->len, src, n);
    fs->len += n;
    atomic_fetch_add_explicit(&fs->taken, n, memory_order_relaxed);
}

/* 0: go on; else what to return. */
static int hiccup(struct fake_sink *fs)
{
    if (!fs->hiccups || fs->hiccup++ % 4 == 3)
        return 0;
    errno = fs->hiccup % 4 == 1 ? EINTR : EAGAIN;
    return fs->hiccup % 4 == 3 ? 1 : -1;
}

static size_t size_of_write(struct fake_sink *fs, size_t len)
{
    size_t n = fs->most && fs->most < len ? fs->most : len;

    if (fs->random && n > 1)
        n = 1 + (size_t)random_below(&fs->seed, n);
    if (fs->fails && fs->fail_at - fs->len < n)
        n = (size_t)(fs->fail_at - fs->len);
    if (fs->stalls && fs->stall_at - fs->len < n)
        n = (size_t)(fs->stall_at - fs->len);
    return n;
}

static ssize_t
write_some(struct fake_sink *fs, const void *src, size_t len, struct ahead_error *err)
{
    int turn;

    if (fs->failed)
        breaks(fs, "written to after it failed");
    if (len == 0)
        breaks(fs, "asked to write nothing");
    if (fs->write_us)
        sleep_us(fs->write_us);
    if (fs->zeros)
        return 0;
    if ((turn = hiccup(fs)))
        return turn < 0 ? -1 : 0;
    if (fs->stalls && fs->len >= fs->stall_at)
        stall(fs);
    if (is_interrupted(fs)) {
        fs->failed = true;
        errno = ECANCELED;
        return -1;
    }
    if (fs->fails && fs->len >= fs->fail_at)
        return fail(fs, err);
    len = size_of_write(fs, len);
    keep(fs, src, len);
    return (ssize_t)(len + fs->over);
}

static ssize_t fake_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct fake_sink *fs = ctx;
    int saved;
    ssize_t n;

    enter(fs);
    atomic_fetch_add_explicit(&fs->writes, 1, memory_order_relaxed);
    n = write_some(fs, src, len, err);
    saved = errno;
    leave(fs);
    errno = saved;
    return n;
}

static enum ahead_status step(struct fake_sink *fs, atomic_uint *count, enum ahead_status st)
{
    enter(fs);
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    if (fs->failed)
        breaks(fs, "flushed after it failed");
    fs->flushed = fs->len;
    fs->failed = st != AHEAD_OK;
    leave(fs);
    return st;
}

static enum ahead_status fake_flush(void *ctx, struct ahead_error *err)
{
    struct fake_sink *fs = ctx;

    (void)err;
    return step(fs, &fs->flushes, fs->flush_status);
}

static enum ahead_status fake_finish(void *ctx, struct ahead_error *err)
{
    struct fake_sink *fs = ctx;

    (void)err;
    return step(fs, &fs->finishes, fs->finish_status);
}

static void fake_interrupt(void *ctx)
{
    struct fake_sink *fs = ctx;

    if (atomic_load_explicit(&fs->closes, memory_order_relaxed))
        breaks(fs, "interrupted after its close");
    atomic_fetch_add_explicit(&fs->interrupts, 1, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    fs->interrupted = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static enum ahead_status fake_close(void *ctx, struct ahead_error *err)
{
    struct fake_sink *fs = ctx;
    enum ahead_status st = fs->close_status;

    (void)err;
    enter(fs);
    if (fs->close_us)
        sleep_us((uint64_t)fs->close_us);
    leave(fs);
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&fs->closes, 1);
    fs->closed = true; /* the last touch: the test may end now */
    pthread_mutex_unlock(&lock);
    return st;
}

struct ahead_sink fake_sink(struct fake_sink *fs)
{
    /* The four tables that there can be. */
    static const struct ahead_sink_ops ops[2][2] = {
        {
            { .write = fake_write,
              .flush = fake_flush,
              .interrupt = fake_interrupt,
              .close = fake_close },
            { .write = fake_write,
              .flush = fake_flush,
              .interrupt = fake_interrupt,
              .close = fake_close,
              .finish = fake_finish },
        },
        {
            { .write = fake_write, .flush = fake_flush, .close = fake_close },
            { .write = fake_write,
              .flush = fake_flush,
              .close = fake_close,
              .finish = fake_finish },
        },
    };

    return (struct ahead_sink){ .ops = &ops[fs->lacks_interrupt][fs->has_finish], .ctx = fs };
}

struct ahead_writer *fake_open(struct fake_sink *fs, const struct ahead_options *opt)
{
    struct ahead_writer *w = NULL;

    expect_status(ahead_writer_open(&w, fake_sink(fs), opt), AHEAD_OK);
    return w;
}

void fake_release(struct fake_sink *fs)
{
    pthread_mutex_lock(&lock);
    fs->released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool fake_closed(struct fake_sink *fs)
{
    bool closed;

    pthread_mutex_lock(&lock);
    closed = fs->closed;
    pthread_mutex_unlock(&lock);
    return closed;
}

void expect_fake_(struct expect_here at, struct fake_sink *fs, uint64_t len)
{
    const char *broken = atomic_load(&fs->broken);

    if (broken)
        expect_fail_(at, "the sink was %s", broken);
    if (atomic_load(&fs->closes) != 1)
        expect_fail_(at, "closed %u times", atomic_load(&fs->closes));
    if (fs->len != len)
        expect_fail_(at, "took %zu bytes, want %llu", fs->len, (unsigned long long)len);
    if (pattern_match(fs->bytes, 0, fs->len) != fs->len)
        expect_fail_(at, "byte %zu is not the pattern's", pattern_match(fs->bytes, 0, fs->len));
    free(fs->bytes);
}
