/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - which process this is, told without a system call. */
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static atomic_uint forks = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool watched;

static void in_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch(void)
{
    watched = pthread_atfork(NULL, NULL, in_child) == 0;
}

unsigned ahead_process(void)
{
    pthread_once(&once, watch);
    return watched ? atomic_load_explicit(&forks, memory_order_relaxed) : (unsigned)getpid();
}
