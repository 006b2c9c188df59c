/* SPDX-License-Identifier: Apache-2.0 */
/* under_criterion.c - the expectations of expect.h as Criterion's. */
#include "support/expect.h"

#include <criterion/hooks.h>

#include <stdio.h>
#include <unistd.h>

void runner_fail_(struct expect_here at, const char *message)
{
    struct criterion_assert_stats stats = {
        .passed = false, .file = at.file, .line = at.line, .message = message
    };

    criterion_send_assert(&stats);
    criterion_abort_test();
    _exit(1); /* not reached */
}

void skip(const char *why)
{
    criterion_skip_test("%s", why);
    _exit(1); /* not reached */
}

/* Criterion is content with a program that runs nothing, or a filter that fits nothing.  The
 * hook runs in the runner, behind its closing line. */
ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    if (stats->tests_passed + stats->tests_failed + stats->tests_skipped > 0)
        return;
    fputs("no test was run\n", stderr);
    _exit(1);
}
