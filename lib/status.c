/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - names of statuses, the version, and how faults are put in words. */
#include <ahead/status.h>

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ahead_version(void)
{
    return AHEAD_VERSION_STRING; /* from the build */
}

const char *ahead_status_name(enum ahead_status status)
{
    switch (status) {
    case AHEAD_OK: return "OK";
    case AHEAD_EOF: return "EOF";
    case AHEAD_TRUNCATED: return "TRUNCATED";
    case AHEAD_CORRUPT: return "CORRUPT";
    case AHEAD_LIMIT: return "LIMIT";
    case AHEAD_IO: return "IO";
    case AHEAD_CANCELLED: return "CANCELLED";
    case AHEAD_TIMEDOUT: return "TIMEDOUT";
    case AHEAD_NOMEM: return "NOMEM";
    case AHEAD_INVALID: return "INVALID";
    case AHEAD_UNSUPPORTED: return "UNSUPPORTED";
    }
    return "?";
}

enum ahead_status ahead_error_set(struct ahead_error *err, enum ahead_status status,
                                  uint64_t source_offset, const char *format, ...)
{
    va_list args;

    err->status = status;
    err->os_errno = 0;
    err->source_offset = source_offset;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return status;
}

enum ahead_status ahead_error_set_errno(struct ahead_error *err, int os_errno,
                                        uint64_t source_offset, const char *what)
{
    char reason[96];

    /* The GNU form of strerror_r() may return a string of its own. */
    snprintf(reason, sizeof reason, "error %d", os_errno);
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *text = strerror_r(os_errno, reason, sizeof reason);
#else
    const char *text = strerror_r(os_errno, reason, sizeof reason) ? reason : reason;
#endif
    err->status = AHEAD_IO;
    err->os_errno = os_errno;
    err->source_offset = source_offset;
    snprintf(err->text, sizeof err->text, "%s: %s", what, text);
    return AHEAD_IO;
}

static void say_status(struct ahead_error *err, const char *whose)
{
    snprintf(err->text, sizeof err->text, "the %s failed with status %s", whose,
             ahead_status_name(err->status));
}

static void turn_into_io(struct ahead_error *err, const char *whose)
{
    say_status(err, whose);
    err->status = AHEAD_IO;
    err->os_errno = 0;
}

void ahead_error_make_ending(struct ahead_error *err, const char *whose)
{
    if (err->status == AHEAD_OK || err->status == AHEAD_TIMEDOUT || err->status == AHEAD_INVALID)
        turn_into_io(err, whose);
}

void ahead_error_make_failure(struct ahead_error *err, const char *whose)
{
    if (err->status == AHEAD_EOF)
        turn_into_io(err, whose);
    ahead_error_make_ending(err, whose);
    if (!err->text[0])
        say_status(err, whose);
}

enum ahead_status ahead_fail_errno(enum ahead_status status)
{
    switch (status) {
    case AHEAD_NOMEM: errno = ENOMEM; break;
    case AHEAD_INVALID: errno = EINVAL; break;
    case AHEAD_UNSUPPORTED: errno = ENOTSUP; break;
    case AHEAD_LIMIT: errno = EOVERFLOW; break;
    case AHEAD_CANCELLED: errno = ECANCELED; break;
    case AHEAD_TIMEDOUT: errno = ETIMEDOUT; break;
    case AHEAD_TRUNCATED:
    case AHEAD_CORRUPT: errno = EBADMSG; break;
    case AHEAD_IO: /* the system call has set it */
    case AHEAD_EOF:
    case AHEAD_OK: break;
    }
    return status;
}
