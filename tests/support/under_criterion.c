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

/* Criterion itself prints the reason only when it is told to be verbose. */
void skip(const char *why)
{
    fprintf(stderr, "%s/%s: skipped: %s\n", criterion_current_test->category,
            criterion_current_test->name, why);
    criterion_skip_test("%s", why);
    _exit(1); /* not reached */
}

/* Criterion is content with a program in which nothing was run.  Tests that a filter left out
 * count as skipped here, so 77 is all that can be said of a filter that fits nothing.  Runs in
 * the runner, before its closing line. */
ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    if (stats->tests_passed + stats->tests_failed > 0)
        return;
    fputs("no test was run\n", stderr);
    _exit(stats->nb_tests > 0 ? 77 : 1);
}
