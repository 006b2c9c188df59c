/* SPDX-License-Identifier: Apache-2.0 */
/* test_leaks.c - the counter of leaks sees each kind of leak. */
#include "support/leaks.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

static void *wait_for(void *semaphore)
{
    while (sem_wait(semaphore))
        ;
    return NULL;
}

Test(leaks, thread_is_seen_until_it_was_joined)
{
    struct leaks before = leaks_count();
    pthread_t thread;
    sem_t go;

    expect_int(sem_init(&go, 0, 0), 0);
    expect_int(pthread_create(&thread, NULL, wait_for, &go), 0);
    expect_u64(leaks_count().threads, before.threads + 1);
    expect_int(sem_post(&go), 0);
    expect_int(pthread_join(thread, NULL), 0);
    expect_no_leaks(before);
    sem_destroy(&go);
}

Test(leaks, descriptor_is_seen_until_it_was_closed)
{
    struct leaks before = leaks_count();
    int fd = dup(0);

    expect_true(fd >= 0);
    expect_u64(leaks_count().descriptors, before.descriptors + 1);
    close(fd);
    expect_no_leaks(before);
}

/* Every second page, so that the kernel cannot join them. */
Test(leaks, mapping_is_seen_until_it_was_unmapped)
{
    enum { PAGES = 4 * LEAKS_MAPPINGS };
    struct leaks before = leaks_count();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    expect_true(p != MAP_FAILED);
    for (size_t i = 0; i < PAGES; i += 2)
        expect_int(mprotect(p + i * page, page, PROT_READ), 0);
    expect_true(leaks_count().mappings > before.mappings + LEAKS_MAPPINGS);
    expect_int(munmap(p, PAGES * page), 0);
    expect_no_leaks(before);
}
