/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `ahead`: which command is it? */
#include "report.h"
#include "tool.h"

#include <ahead/status.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
} commands[] = {
    { "cat", cat_main, "write what files hold, decoded, one behind the other" },
    { "stat", stat_main, "read a file through: rates, waits, which side was the bottleneck" },
    { "spill", spill_main, "the records of a spill of Apache Spark, checked" },
    { "frames", frames_main, "the shuffle blocks of DataFusion Comet, checked" },
    { "merge", merge_main, "sorted spills into one" },
    { "bench", bench_main, "one file, read by each strategy side by side" },
    { "demo", demo_main, "write a spill, read it each way, show what read-ahead saved" },
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void)
{
    puts("usage: ahead COMMAND [OPTION...] [FILE...]\n"
         "\n"
         "Read files and pipes ahead of whoever reads them: a second thread fills one\n"
         "buffer while the other one is used.\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-7s %s\n", commands[i].name, commands[i].summary);
    puts("\n"
         "ahead COMMAND --help says more.  ahead --version says which one this is.");
    return EXIT_WELL;
}

static int version(void)
{
    printf("ahead %s\n", ahead_version());
    return EXIT_WELL;
}

static int run(int argc, char **argv)
{
    if (argc < 1 || !argv[0])
        return report_usage(NULL, "there is no command");
    if (strcmp(argv[0], "--help") == 0)
        return help();
    if (strcmp(argv[0], "--version") == 0)
        return version();
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].main(argc, argv);
    return report_usage(NULL, "there is no command '%s'", argv[0]);
}

/* A file that is opened must not become standard output or error, where others
 * write.  Each that is missing becomes something that cannot be used. */
static bool hold_standard_fds(void)
{
    static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            return false;
    return true;
}

/* What was printed is only then said when it has been written. */
static int flush_stdout(int code)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    if (errno == EPIPE)
        end_broken_pipe();
    if (errno == 0) /* it was an earlier write */
        errno = EIO;
    report_errno("standard output", AHEAD_IO, 0, "write");
    return code > EXIT_FAILED ? code : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    if (!hold_standard_fds())
        return EXIT_FAILED;
    return flush_stdout(run(argc - 1, argv + 1));
}
