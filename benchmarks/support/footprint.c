/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.c - a child runs it, the parent reads /proc/PID/status now and then. */
#include "support/footprint.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A number of a process, in the units of that file. */
static unsigned long number_of(pid_t pid, const char *key)
{
    char path[64], line[256];
    unsigned long n = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            n = strtoul(line + strlen(key), NULL, 10);
    if (f)
        fclose(f);
    return n;
}

/* The peak counts from now on. */
static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    malloc_trim(0);
    if (fd < 0 || write(fd, "5", 1) != 1)
        _exit(1);
    close(fd);
}

/* In the child. */
_Noreturn static void run_here(uint64_t (*run)(void *ctx), void *ctx, int out)
{
    unsigned long before, grown;

    reset_peak();
    before = number_of(getpid(), "VmRSS:");
    run(ctx);
    grown = number_of(getpid(), "VmHWM:") - before;
    _exit(write(out, &grown, sizeof grown) == sizeof grown ? 0 : 1);
}

struct footprint footprint_of(uint64_t (*run)(void *ctx), void *ctx)
{
    const struct timespec a_while = { .tv_nsec = 1000000 };
    struct footprint f = { .threads = 0 };
    unsigned long grown = 0;
    int status, end[2];
    pid_t pid;

    fflush(NULL);
    cr_assert(pipe(end) == 0);
    pid = fork();
    if (pid == 0)
        run_here(run, ctx, end[1]);
    cr_assert(pid > 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        unsigned threads = (unsigned)number_of(pid, "Threads:");

        if (f.threads < threads)
            f.threads = threads;
        nanosleep(&a_while, NULL);
    }
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert(read(end[0], &grown, sizeof grown) == sizeof grown);
    close(end[0]);
    close(end[1]);
    f.grown_mib = (double)grown / 1024;
    return f;
}
