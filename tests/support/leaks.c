/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.c - counts threads, descriptors and mappings in /proc/self. */
#include "support/leaks.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct timespec one_ms = { .tv_nsec = 1000 * 1000 };

/* The entries of a folder, "." and ".." excepted.  A number that cannot be had must not look
 * like "nothing leaked". */
static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned n = 0;

    if (!dir)
        expect_fail_(EXPECT_HERE_(path), "cannot be read");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

/* Whether a line goes on where the one before it has ended, with the same rights
 * and of the same file.  Memory that malloc() keeps is in several pieces once
 * huge pages were asked for in a part of it, and stays so. */
static bool goes_on(const char *line, const char *before)
{
    unsigned long start, end, last_start, last_end;
    int at = 0, last_at = 0;

    return sscanf(line, "%lx-%lx%n", &start, &end, &at) == 2 &&
           sscanf(before, "%lx-%lx%n", &last_start, &last_end, &last_at) == 2 &&
           start == last_end && strncmp(line + at, before + last_at, 5) == 0 &&
           strcmp(line + at + 5 + strcspn(line + at + 5, "[/\n"),
                  before + last_at + 5 + strcspn(before + last_at + 5, "[/\n")) == 0;
}

/* How many mappings there are, and whether they are the program's own affair. */
static unsigned count_mappings(bool *foreign)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096 + 128], before[sizeof line] = "";
    unsigned n = 0;

    if (!maps)
        expect_fail_(EXPECT_HERE_("/proc/self/maps"), "cannot be read");
    while (fgets(line, sizeof line, maps)) {
        n += !goes_on(line, before);
        memcpy(before, line, sizeof line);
        if (strstr(line, "/valgrind/"))
            *foreign = true;
    }
    fclose(maps);
    return n;
}

static void *own_tid(void *tid)
{
    *(pid_t *)tid = gettid();
    return NULL;
}

/* The first thread makes glibc keep a stack and an arena, and TSan start a
 * thread of its own: let that happen before anything is counted, and wait until
 * the thread is gone from the kernel too, not only joined. */
static void have_had_a_thread(void)
{
    static bool done;
    pthread_t thread;
    char task[64];
    pid_t tid;

    if (done)
        return;
    if (pthread_create(&thread, NULL, own_tid, &tid) || pthread_join(thread, NULL))
        expect_fail_(EXPECT_HERE_("a thread"), "cannot be had");
    snprintf(task, sizeof task, "/proc/self/task/%ld", (long)tid);
    while (access(task, F_OK) == 0)
        nanosleep(&one_ms, NULL);
    done = true;
}

struct leaks leaks_count(void)
{
    bool foreign = false;

    have_had_a_thread();
    return (struct leaks){
        .threads = count_entries("/proc/self/task"),
        .descriptors = count_entries("/proc/self/fd") - 1, /* opendir()'s own */
        .mappings = count_mappings(&foreign),
    };
}

static bool mappings_grew(struct leaks before)
{
    bool foreign = TIME_SCALE > 1; /* a sanitizer */
    unsigned now = count_mappings(&foreign);

    return !foreign && now > before.mappings + LEAKS_MAPPINGS;
}

void expect_no_leaks_(struct expect_here at, struct leaks before)
{
    struct leaks now = leaks_count();

    for (double left = 1000 * time_scale(); left > 0 && now.threads > before.threads; left--) {
        nanosleep(&one_ms, NULL);
        now = leaks_count();
    }
    if (now.threads > before.threads)
        expect_fail_(at, "%u threads, now %u", before.threads, now.threads);
    if (now.descriptors != before.descriptors)
        expect_fail_(at, "%u descriptors, now %u", before.descriptors, now.descriptors);
    if (mappings_grew(before))
        expect_fail_(at, "%u mappings, now %u", before.mappings, now.mappings);
}
