/* SPDX-License-Identifier: Apache-2.0 */
/* expect.c - compares, and says what was expected and what came instead. */
#include "support/expect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEM_SHOWN = 16 }; /* bytes of a difference that are printed */

static _Thread_local char note[256];

void expect_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
}

void expect_no_note(void)
{
    note[0] = '\0';
}

void expect_fail_(struct expect_here at, const char *format, ...)
{
    char message[1024];
    size_t len = (size_t)snprintf(message, sizeof message, "%s: ", at.text);
    va_list args;

    if (len > sizeof message / 2)
        len = sizeof message / 2; /* a long expression leaves room for the values */
    va_start(args, format);
    vsnprintf(message + len, sizeof message - len, format, args);
    va_end(args);
    len = strlen(message);
    if (note[0])
        snprintf(message + len, sizeof message - len, " [%s]", note);
    runner_fail_(at, message);
}

/* "0a ff ..": at most MEM_SHOWN bytes of p. */
static void to_hex(char hex[3 * MEM_SHOWN + 1], const unsigned char *p, size_t len)
{
    hex[0] = '\0';
    for (size_t i = 0; i < len && i < MEM_SHOWN; i++)
        sprintf(hex + 3 * i, "%02x ", p[i]);
}

void expect_mem_(struct expect_here at, const void *got, const void *want, size_t len)
{
    const unsigned char *g = got, *w = want;
    char g_hex[3 * MEM_SHOWN + 1], w_hex[3 * MEM_SHOWN + 1];
    size_t i = 0;

    if (len == 0)
        return;
    if (!got || !want)
        expect_fail_(at, "got %p, want %zu bytes at %p", got, len, want);
    while (i < len && g[i] == w[i])
        i++;
    if (i == len)
        return;
    to_hex(g_hex, g + i, len - i);
    to_hex(w_hex, w + i, len - i);
    expect_fail_(at, "byte %zu of %zu: got %s, want %s", i, len, g_hex, w_hex);
}

void expect_str_(struct expect_here at, const char *got, const char *want)
{
    if (got == want || (got && want && strcmp(got, want) == 0))
        return;
    expect_fail_(at, "got \"%s\", want \"%s\"", got ? got : "(NULL)", want ? want : "(NULL)");
}

/* A positive number from the environment. */
static double env_number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    double number = text ? strtod(text, NULL) : 0;

    return number > 0 ? number : otherwise;
}

double expect_time_scale_(void)
{
    return env_number("AHEAD_TIME_SCALE", 1);
}

bool time_left(void)
{
    static _Thread_local struct timespec start;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (start.tv_sec == 0 && start.tv_nsec == 0)
        start = now;
    return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 <
           env_number("AHEAD_STRESS_SECONDS", 1);
}
