/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - one line on standard error for each failure. */
#ifndef AHEAD_TOOL_REPORT_H
#define AHEAD_TOOL_REPORT_H

#include <stdint.h>

#include <ahead/status.h>

/* `ahead: NAME: STATUS at input byte N, after M bytes: TEXT`. */
void report_error(const char *name, const struct ahead_error *err);

/* The same for a system call of ours: `bytes` in, with errno's words behind
 * `what`. */
void report_errno(const char *name, enum ahead_status status, uint64_t bytes, const char *what);

/* `ahead: NAME: ...`, which is no failure. */
void report_note(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `ahead: COMMAND: ...; see ahead COMMAND --help`, without the command if it
 * is NULL.  Returns EXIT_USAGE. */
int report_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The reader of our output has gone, and whoever started us has SIGPIPE
 * ignored: end with the exit code that a shell shows for that signal, and
 * without a word. */
_Noreturn void end_broken_pipe(void);

#endif
