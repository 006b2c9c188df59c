/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - a queue of tasks, the threads that run them, and a budget of bytes. */
#include "stream/pool.h"

#include "error.h"
#include "process.h"
#include "stream/buffer.h"
#include "thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_THREADS = 1024,
    SPARES = 8 /* scratch for so many readers at once is kept */
};

struct ahead_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;            /* a thread waits: a task, or stop */
    struct ahead_task head;         /* lock: of the queue, a ring; head.next is the first */
    unsigned idle;                  /* lock: threads that sleep, or were told not to */
    bool waking;                    /* lock: one of them was, and has not come yet */
    unsigned users;                 /* lock */
    unsigned sharers;               /* lock: of these, those that have not ended */
    bool stop;                      /* lock */
    struct ahead_pool_stats stats;  /* lock */
    struct ahead_job spare[SPARES]; /* lock */
    unsigned spares;                /* lock */

    pthread_mutex_t starting; /* one caller at a time starts threads */
    unsigned started;         /* starting: threads that run */
    bool tried;               /* starting: all of them, or as many as there could be */
    pthread_t *threads;       /* starting */

    unsigned wanted;  /* immutable */
    uint64_t budget;  /* immutable; UINT64_MAX: no limit */
    char name[16];    /* immutable */
    unsigned process; /* immutable: that it was opened in */
};

/* The pool that this thread belongs to. */
static _Thread_local const struct ahead_pool *self_;

bool ahead_pool_is_self(const struct ahead_pool *p)
{
    return self_ == p;
}

bool ahead_pool_is_any(void)
{
    return self_ != NULL;
}

bool ahead_pool_is_forked(const struct ahead_pool *p)
{
    return p->process != ahead_process();
}

/* ---- the queue, called locked ---- */

static bool empty_locked(const struct ahead_pool *p)
{
    return p->head.next == &p->head;
}

static void insert_locked(struct ahead_task *task, struct ahead_task *before)
{
    task->next = before;
    task->prev = before->prev;
    before->prev->next = task;
    before->prev = task;
}

static void remove_locked(struct ahead_task *task)
{
    task->next->prev = task->prev;
    task->prev->next = task->next;
    task->next = task->prev = NULL;
}

/* ---- threads ---- */

static void free_scratch(struct ahead_job *job)
{
    free(job->in);
    free(job->block);
}

/* Wakes one thread for the tasks that are queued.  It wakes the next if there
 * are more, so those that come until it runs cost no signal (bench_merge). */
static void wake_locked(struct ahead_pool *p)
{
    if (empty_locked(p) || p->waking || p->idle == 0)
        return;
    p->waking = true;
    p->stats.wakeups++;
    pthread_cond_signal(&p->work);
}

static void *pool_main(void *arg)
{
    struct ahead_pool *p = arg;
    struct ahead_job job = { .bound = 0 };

    self_ = p;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct ahead_task *task;

        while (empty_locked(p) && !p->stop) {
            p->idle++;
            pthread_cond_wait(&p->work, &p->lock);
            p->idle--;
            p->waking = false;
        }
        if (p->stop)
            break;
        task = p->head.next;
        remove_locked(task);
        wake_locked(p);
        pthread_mutex_unlock(&p->lock);
        task->run(task, &job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    free_scratch(&job);
    return NULL;
}

bool ahead_pool_start(struct ahead_pool *p)
{
    bool any;

    pthread_mutex_lock(&p->starting);
    while (!p->tried && p->started < p->wanted &&
           ahead_thread_start(&p->threads[p->started], p->name, pool_main, p) == 0)
        p->started++;
    p->tried = p->started > 0; /* none at all: the next stream tries again */
    any = p->started > 0;
    pthread_mutex_unlock(&p->starting);
    return any;
}

void ahead_pool_submit(struct ahead_pool *p, struct ahead_task *task, bool urgent)
{
    pthread_mutex_lock(&p->lock);
    insert_locked(task, urgent ? p->head.next : &p->head);
    wake_locked(p);
    pthread_mutex_unlock(&p->lock);
}

bool ahead_pool_withdraw(struct ahead_pool *p, struct ahead_task *task)
{
    bool queued;

    pthread_mutex_lock(&p->lock);
    queued = task->next != NULL;
    if (queued)
        remove_locked(task);
    pthread_mutex_unlock(&p->lock);
    return queued;
}

void ahead_pool_promote(struct ahead_pool *p, struct ahead_task *task)
{
    pthread_mutex_lock(&p->lock);
    if (task->next) {
        remove_locked(task);
        insert_locked(task, p->head.next);
    }
    pthread_mutex_unlock(&p->lock);
}

bool ahead_pool_is_pressed(struct ahead_pool *p)
{
    bool pressed;

    pthread_mutex_lock(&p->lock);
    pressed = !empty_locked(p);
    pthread_mutex_unlock(&p->lock);
    return pressed;
}

/* ---- bytes ---- */

static size_t whole_pages(uint64_t n)
{
    return (size_t)(n - n % AHEAD_PAGE);
}

/* Of one buffer: two for each stream, so that one that comes late finds some,
 * too. */
static uint64_t share_locked(const struct ahead_pool *p)
{
    uint64_t share = p->budget / 2 / (p->sharers ? p->sharers : 1);

    return share < AHEAD_PAGE ? AHEAD_PAGE : share;
}

void ahead_pool_begin_share(struct ahead_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->sharers++;
    pthread_mutex_unlock(&p->lock);
}

void ahead_pool_end_share(struct ahead_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->sharers--;
    pthread_mutex_unlock(&p->lock);
}

size_t ahead_pool_share_bytes(struct ahead_pool *p)
{
    uint64_t share;

    pthread_mutex_lock(&p->lock);
    share = share_locked(p);
    pthread_mutex_unlock(&p->lock);
    return share < SIZE_MAX ? (size_t)share : SIZE_MAX;
}

bool ahead_pool_wants_back(struct ahead_pool *p, size_t bytes)
{
    uint64_t share;
    bool wants;

    if (p->budget == UINT64_MAX)
        return false;
    pthread_mutex_lock(&p->lock);
    share = share_locked(p);
    wants = bytes > share && p->budget - p->stats.bytes < share;
    pthread_mutex_unlock(&p->lock);
    return wants;
}

/* Up to `want` bytes, whole pages, no more than a share. */
static size_t take(struct ahead_pool *p, uint64_t want)
{
    uint64_t share, left, n = want;

    pthread_mutex_lock(&p->lock);
    if (p->budget != UINT64_MAX) {
        share = share_locked(p);
        left = p->budget - p->stats.bytes;
        if (n > share)
            n = share;
        if (n > left)
            n = left;
        n = whole_pages(n);
    }
    p->stats.bytes += n;
    if (p->stats.peak_bytes < p->stats.bytes)
        p->stats.peak_bytes = p->stats.bytes;
    pthread_mutex_unlock(&p->lock);
    return (size_t)n;
}

/* A buffer has a page in front of it, which counts. */
size_t ahead_pool_borrow(struct ahead_pool *p, size_t cap, size_t have, size_t *borrowed)
{
    *borrowed = take(p, whole_pages(cap + AHEAD_PAGE - 1) + AHEAD_PAGE);
    if (*borrowed < 2 * AHEAD_PAGE || *borrowed - AHEAD_PAGE <= have) {
        ahead_pool_return(p, *borrowed);
        *borrowed = 0;
        return 0;
    }
    return cap < *borrowed - AHEAD_PAGE ? cap : *borrowed - AHEAD_PAGE;
}

void ahead_pool_return(struct ahead_pool *p, size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->stats.bytes -= bytes;
    pthread_mutex_unlock(&p->lock);
}

/* ---- scratch ---- */

/* Only the memory: what stands in it is of no use to anybody else. */
static struct ahead_job take_scratch(struct ahead_job *from)
{
    struct ahead_job job = {
        .in = from->in,
        .in_cap = from->in_cap,
        .block = from->block,
        .block_cap = from->block_cap,
    };

    *from = (struct ahead_job){ .bound = 0 };
    return job;
}

void ahead_pool_lend(struct ahead_pool *p, struct ahead_job *job)
{
    pthread_mutex_lock(&p->lock);
    if (p->spares > 0)
        *job = take_scratch(&p->spare[--p->spares]);
    pthread_mutex_unlock(&p->lock);
}

void ahead_pool_take_back(struct ahead_pool *p, struct ahead_job *job)
{
    struct ahead_job scratch = take_scratch(job);

    pthread_mutex_lock(&p->lock);
    if (p->spares < SPARES) {
        p->spare[p->spares++] = scratch;
        scratch = (struct ahead_job){ .bound = 0 };
    }
    pthread_mutex_unlock(&p->lock);
    free_scratch(&scratch);
}

/* ---- open and close ---- */

void ahead_pool_enter(struct ahead_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->users++;
    pthread_mutex_unlock(&p->lock);
}

void ahead_pool_leave(struct ahead_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->users--;
    pthread_mutex_unlock(&p->lock);
}

static unsigned cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

static enum ahead_status create(struct ahead_pool **out, const struct ahead_pool_options *opt)
{
    struct ahead_pool *p = calloc(1, sizeof *p);

    if (!p)
        return AHEAD_NOMEM;
    p->wanted = opt->threads ? opt->threads : cores();
    p->budget = opt->byte_budget ? opt->byte_budget : UINT64_MAX;
    p->process = ahead_process();
    p->head.next = p->head.prev = &p->head;
    strncpy(p->name, opt->name ? opt->name : "ahead-pool", sizeof p->name - 1);
    p->threads = calloc(p->wanted, sizeof *p->threads);
    if (!p->threads)
        goto err_pool;
    if (pthread_mutex_init(&p->lock, NULL))
        goto err_threads;
    if (pthread_mutex_init(&p->starting, NULL))
        goto err_lock;
    if (pthread_cond_init(&p->work, NULL))
        goto err_starting;
    *out = p;
    return AHEAD_OK;

err_starting:
    pthread_mutex_destroy(&p->starting);
err_lock:
    pthread_mutex_destroy(&p->lock);
err_threads:
    free(p->threads);
err_pool:
    free(p);
    return AHEAD_NOMEM;
}

enum ahead_status ahead_pool_open(struct ahead_pool **out, const struct ahead_pool_options *opt)
{
    static const struct ahead_pool_options defaults;

    if (!out)
        return ahead_fail_errno(AHEAD_INVALID);
    *out = NULL;
    if (!opt)
        opt = &defaults;
    if (opt->threads > MAX_THREADS)
        return ahead_fail_errno(AHEAD_INVALID);
    return ahead_fail_errno(create(out, opt));
}

static void free_memory(struct ahead_pool *p)
{
    while (p->spares > 0)
        free_scratch(&p->spare[--p->spares]);
    free(p->threads);
    free(p);
}

enum ahead_status ahead_pool_close(struct ahead_pool *p)
{
    bool stop;

    if (!p)
        return AHEAD_OK;
    if (ahead_pool_is_self(p))
        return AHEAD_INVALID;
    if (ahead_pool_is_forked(p)) { /* its streams know, and leave it alone */
        free_memory(p);
        return AHEAD_OK;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = stop = p->users == 0;
    if (stop)
        pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    if (!stop)
        return AHEAD_INVALID;
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->starting);
    pthread_mutex_destroy(&p->lock);
    free_memory(p);
    return AHEAD_OK;
}

void ahead_pool_get_stats(struct ahead_pool *p, struct ahead_pool_stats *out)
{
    *out = (struct ahead_pool_stats){ 0 };
    if (!p || ahead_pool_is_forked(p))
        return;
    pthread_mutex_lock(&p->starting);
    pthread_mutex_lock(&p->lock);
    *out = p->stats;
    out->users = p->users;
    out->threads_started = p->started;
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->starting);
}
