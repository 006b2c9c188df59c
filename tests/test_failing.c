/* SPDX-License-Identifier: Apache-2.0 */
/* test_failing.c - each wrapped call can be made to fail, and is counted until it was undone. */
#include "support/expect.h"
#include "support/failing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each acquires one thing, and returns 0 and how to undo it, or else the error. */
static void *volatile held; /* volatile: else a compiler may do without the allocation */
static int held_fd[2];
static pthread_mutex_t mutex;
static pthread_cond_t cond;
static pthread_t thread;

static int error_of(bool good)
{
    return good ? 0 : errno;
}

static int get_malloc(void)
{
    return error_of((held = malloc(9)));
}

static int get_calloc(void)
{
    return error_of((held = calloc(3, 3)));
}

static int get_realloc(void)
{
    return error_of((held = realloc(NULL, 9)));
}

static int get_memalign(void)
{
    void *p = NULL;
    int error = posix_memalign(&p, 64, 64);

    held = p;
    return error;
}

static int get_aligned(void)
{
    return error_of((held = aligned_alloc(64, 64)));
}

static int get_strdup(void)
{
    return error_of((held = strdup("nine byte")));
}

static int get_strndup(void)
{
    return error_of((held = strndup("nine byte", 4)));
}

static void put_memory(void)
{
    free(held);
}

static void *end_at_once(void *arg)
{
    return arg;
}

static int get_thread(void)
{
    return pthread_create(&thread, NULL, end_at_once, NULL);
}

static void put_thread(void)
{
    expect_int(pthread_join(thread, NULL), 0);
}

static int get_mutex(void)
{
    return pthread_mutex_init(&mutex, NULL);
}

static void put_mutex(void)
{
    expect_int(pthread_mutex_destroy(&mutex), 0);
}

static int get_cond(void)
{
    return pthread_cond_init(&cond, NULL);
}

static void put_cond(void)
{
    expect_int(pthread_cond_destroy(&cond), 0);
}

static int get_eventfd(void)
{
    return error_of((held_fd[0] = eventfd(0, EFD_CLOEXEC)) >= 0);
}

static int get_open(void)
{
    return error_of((held_fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
}

static void put_fd(void)
{
    expect_int(close(held_fd[0]), 0);
}

static int get_pipe(void)
{
    return error_of(pipe2(held_fd, O_CLOEXEC) == 0);
}

static void put_pipe(void)
{
    expect_int(close(held_fd[0]), 0);
    expect_int(close(held_fd[1]), 0);
}

static int get_stat(void)
{
    struct stat st;

    return error_of(fstat(0, &st) == 0);
}

static void put_nothing(void)
{
}

static const struct call {
    const char *name;
    int (*get)(void);
    void (*put)(void);
    enum failing_kind kind;
    int holds; /* how many things */
    int error;
} calls[] = {
    { "malloc", get_malloc, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "calloc", get_calloc, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "realloc", get_realloc, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "posix_memalign", get_memalign, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "aligned_alloc", get_aligned, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "strdup", get_strdup, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "strndup", get_strndup, put_memory, FAILING_MEMORY, 1, ENOMEM },
    { "pthread_create", get_thread, put_thread, FAILING_THREAD, 1, EAGAIN },
    { "pthread_mutex_init", get_mutex, put_mutex, FAILING_MUTEX, 1, ENOMEM },
    { "pthread_cond_init", get_cond, put_cond, FAILING_COND, 1, ENOMEM },
    { "eventfd", get_eventfd, put_fd, FAILING_DESCRIPTOR, 1, EMFILE },
    { "open", get_open, put_fd, FAILING_DESCRIPTOR, 1, EMFILE },
    { "pipe2", get_pipe, put_pipe, FAILING_DESCRIPTOR, 2, EMFILE },
    { "fstat", get_stat, put_nothing, FAILING_STAT, 0, EIO },
};
enum { CALLS = sizeof calls / sizeof *calls };

Test(failing, each_call_is_counted_until_undone)
{
    for (const struct call *c = calls; c < calls + CALLS; c++) {
        expect_note("%s", c->name);
        expect_int(c->get(), 0);
        expect_int(live, c->holds);
        expect_int(live_of(c->kind), c->holds);
        c->put();
        expect_int(live, 0);
        expect_int(live_of(c->kind), 0);
    }
}

Test(failing, each_call_fails_in_its_own_way)
{
    for (const struct call *c = calls; c < calls + CALLS; c++) {
        expect_note("%s", c->name);
        fail_step(1);
        expect_int(c->get(), c->error);
        expect_true(fail_step(0));
        expect_int(live, 0);
    }
}

Test(failing, nth_call_fails_and_no_other)
{
    for (int step = 1; step <= CALLS + 1; step++) {
        fail_step(step);
        for (int i = 0; i < CALLS; i++) {
            expect_note("step %d, %s", step, calls[i].name);
            expect_int(calls[i].get(), i + 1 == step ? calls[i].error : 0);
            if (i + 1 != step)
                calls[i].put();
        }
        expect_int(fail_step(0), step <= CALLS);
    }
    expect_int(live, 0);
}

Test(failing, kind_fails_until_told_otherwise)
{
    fail_always(FAILING_THREAD, true);
    expect_int(get_thread(), EAGAIN);
    expect_int(get_thread(), EAGAIN);
    expect_int(get_malloc(), 0);
    put_memory();
    fail_always(FAILING_THREAD, false);
    expect_int(get_thread(), 0);
    put_thread();
}

/* What realloc() could not enlarge is still there. */
Test(failing, realloc_of_something_holds_one_thing)
{
    void *more;

    expect_int(get_malloc(), 0);
    fail_step(1);
    more = realloc(held, 16);
    expect_true(fail_step(0));
    expect_true(more == NULL);
    expect_int(live, 1);
    more = realloc(held, 16);
    expect_true(more != NULL);
    expect_int(live, 1);
    free(more);
    expect_int(live, 0);
}
