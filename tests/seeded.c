/* SPDX-License-Identifier: Apache-2.0 */
/* seeded.c - tests that must fail, and say why: check_runners.sh runs them under each runner.
 *
 * The comment in front of each is what must be found in the output; "passes" and "skipped" are
 * found in the counts. */
#include "support/expect.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* passes */
Test(seeded, passes)
{
    expect_status(AHEAD_OK, AHEAD_OK);
    expect_int(-1, -1);
    expect_u64(UINT64_MAX, UINT64_MAX);
    expect_size(sizeof(int), sizeof(int));
    expect_true(true);
    expect_mem("abc", "abc", 4);
    expect_mem(NULL, NULL, 0);
    expect_str("abc", "abc");
    expect_str(NULL, NULL);
}

/* passes */
Test(seeded, ends_as_it_must, .signal = SIGABRT)
{
    abort();
}

static int inits;

static void init(void)
{
    inits++;
}

static void fini(void)
{
    if (inits != 2)
        abort();
}

/* passes */
Test(seeded, is_run_between_init_and_fini, .init = init, .fini = fini)
{
    expect_int(inits++, 1);
}

/* skipped */
Test(seeded, skips)
{
    skip("for no reason");
}

/* got TRUNCATED, want OK [round 3] */
Test(seeded, status)
{
    expect_note("round %d", 3);
    expect_status(AHEAD_TRUNCATED, AHEAD_OK);
}

/* got -1, want 1 */
Test(seeded, integer)
{
    expect_note("not seen");
    expect_no_note();
    expect_int(-1, 1);
}

/* got 1 (0x1), want 18446744073709551615 (0xffffffffffffffff) */
Test(seeded, unsigned_integer)
{
    expect_u64(1, UINT64_MAX);
}

/* got 4 (0x4), want 8 (0x8) */
Test(seeded, size)
{
    expect_size(sizeof(int32_t), sizeof(int64_t));
}

/* 1 == 2: is not so */
Test(seeded, fact)
{
    expect_true(1 == 2);
}

/* byte 4 of 7: got 65 66 67 , want 78 66 67 */
Test(seeded, memory)
{
    expect_mem("abcdefg", "abcdxfg", 7);
}

/* got "abc", want "abd" */
Test(seeded, string)
{
    expect_str("abc", "abd");
}

/* got "abc", want "(NULL)" */
Test(seeded, no_string)
{
    expect_str("abc", NULL);
}

static void *fail_here(void *arg)
{
    expect_int(2, 3);
    return arg;
}

/* got 2, want 3 */
Test(seeded, second_thread)
{
    pthread_t thread;

    expect_int(pthread_create(&thread, NULL, fail_here, NULL), 0);
    pthread_join(thread, NULL);
}

/* imed out */
Test(seeded, hangs, .timeout = 1)
{
    for (;;)
        pause();
}

Test(seeded, crashes)
{
    kill(getpid(), SIGKILL); /* what no sanitizer turns into something else */
}

Test(seeded, does_not_end_as_it_must, .signal = SIGABRT)
{
    expect_true(true);
}

/* Fails if it is the body that goes on behind a failure. */
static void after_failure(void)
{
    if (inits)
        abort();
}

Test(seeded, ends_with_its_first_failure, .fini = after_failure)
{
    expect_true(false);
    inits = 1;
}
