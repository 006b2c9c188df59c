/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - one line on standard error for each failure. */
#include "report.h"

#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A line is a line, and a terminal obeys nobody's file names. */
static void put_printable(const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte < 0x20 || byte == 0x7f)
            fprintf(stderr, "\\%03o", byte);
        else
            putc(byte, stderr);
    }
}

void report_error(const char *name, const struct ahead_error *err)
{
    flockfile(stderr);
    fputs("ahead: ", stderr);
    put_printable(name);
    fprintf(stderr, ": %s", ahead_status_name(err->status));
    if (err->source_offset != UINT64_MAX)
        fprintf(stderr, " at input byte %" PRIu64, err->source_offset);
    fprintf(stderr, ", after %" PRIu64 " bytes: ", err->offset);
    put_printable(err->text);
    putc('\n', stderr);
    funlockfile(stderr);
}

void report_errno(const char *name, enum ahead_status status, uint64_t bytes, const char *what)
{
    struct ahead_error err = {
        .status = status,
        .os_errno = errno,
        .offset = bytes,
        .source_offset = UINT64_MAX,
    };
    char room[96];

    snprintf(err.text, sizeof err.text, "%s: %s", what,
             strerror_r(err.os_errno, room, sizeof room));
    report_error(name, &err);
}

void report_note(const char *name, const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    fputs("ahead: ", stderr);
    put_printable(name);
    fputs(": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    putc('\n', stderr);
    funlockfile(stderr);
}

int report_usage(const char *command, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    flockfile(stderr);
    fprintf(stderr, "ahead: %s%s", command ? command : "", command ? ": " : "");
    put_printable(text);
    fprintf(stderr, "; see ahead %s%s--help\n", command ? command : "", command ? " " : "");
    funlockfile(stderr);
    return EXIT_USAGE;
}

void end_broken_pipe(void)
{
    _exit(128 + SIGPIPE);
}
