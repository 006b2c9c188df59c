/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - the small runner: one fork() per test, nothing that a sanitizer could object to.
 *
 * usage: test_x [-l] [PATTERN...]     patterns as "swap/?*", matched against suite/name
 *
 * The last line is "N passed, N failed".  Exits 1 if a test failed or none ran, 77 if all were
 * skipped.  The parent never starts a thread, so each child may. */
#include "support/expect.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77 };
enum { DEFAULT_TIMEOUT = 60 * TIME_SCALE }; /* seconds */

static struct plain_test *first, **tail = &first;
static unsigned passed, failed, skipped;
static const struct plain_test *here; /* in the child: the test that runs */

void plain_add(struct plain_test *test)
{
    *tail = test;
    tail = &test->next;
}

/* _exit(): whatever other threads are doing, and whoever called. */
void runner_fail_(struct expect_here at, const char *message)
{
    fprintf(stderr, "%s/%s: %s:%u: %s\n", here->suite, here->name, at.file, at.line, message);
    _exit(EXIT_FAILED);
}

void skip(const char *why)
{
    fprintf(stderr, "%s/%s: skipped: %s\n", here->suite, here->name, why);
    _exit(EXIT_SKIPPED);
}

/* In the child.  SIGALRM kills it when its time is up. */
_Noreturn static void run_here(const struct plain_test *test)
{
    double seconds = test->timeout > 0 ? test->timeout : DEFAULT_TIMEOUT;

    here = test;
    alarm(1 + (unsigned)(seconds * expect_time_scale_()));
    if (test->init)
        test->init();
    test->run();
    if (test->fini)
        test->fini();
    exit(0); /* not _exit(): leak checks run at exit */
}

/* NULL: passed.  Else why not. */
static const char *verdict(const struct plain_test *test, int status)
{
    static char text[64];

    if (WIFSIGNALED(status)) {
        if (WTERMSIG(status) == test->signal)
            return NULL;
        if (WTERMSIG(status) == SIGALRM)
            return "timed out";
        snprintf(text, sizeof text, "killed by signal %d", WTERMSIG(status));
        return text;
    }
    if (WEXITSTATUS(status) != 0) {
        snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
        return text;
    }
    return test->signal ? "ended, and should not have" : NULL;
}

static void run(const struct plain_test *test)
{
    const char *why = "not started";
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0)
        run_here(test);
    if (pid > 0 && waitpid(pid, &status, 0) == pid) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
            skipped++;
            return;
        }
        why = verdict(test, status);
    }
    if (why) {
        failed++;
        printf("%s/%s: FAILED: %s\n", test->suite, test->name, why);
    } else {
        passed++;
    }
}

static bool chosen(const struct plain_test *test, char **patterns)
{
    char name[256];

    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    for (char **p = patterns; *p; p++)
        if (fnmatch(*p, name, 0) == 0)
            return true;
    return !*patterns;
}

int main(int argc, char **argv)
{
    bool list = argc > 1 && strcmp(argv[1], "-l") == 0;

    for (struct plain_test *test = first; test; test = test->next) {
        if (!chosen(test, argv + 1 + list))
            continue;
        if (list)
            printf("%s/%s\n", test->suite, test->name);
        else
            run(test);
    }
    if (list)
        return 0;
    if (skipped)
        printf("%u skipped\n", skipped);
    printf("%u passed, %u failed\n", passed, failed);
    if (failed || passed + skipped == 0)
        return EXIT_FAILED;
    return passed ? 0 : EXIT_SKIPPED;
}
