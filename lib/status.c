/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - names of statuses, the version, and how faults are put in words. */
#include <ahead/status.h>

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
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
    const char *text;

    snprintf(reason, sizeof reason, "error %d", os_errno);
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    text = strerror_r(os_errno, reason, sizeof reason); /* may be a string of its own */
#else
    (void)strerror_r(os_errno, reason, sizeof reason);
    text = reason;
#endif
    err->status = AHEAD_IO;
    err->os_errno = os_errno;
    err->source_offset = source_offset;
    snprintf(err->text, sizeof err->text, "%s: %s", what, text);
    return AHEAD_IO;
}

static bool is_ending(enum ahead_status st)
{
    switch (st) {
    case AHEAD_EOF:
    case AHEAD_TRUNCATED:
    case AHEAD_CORRUPT:
    case AHEAD_LIMIT:
    case AHEAD_IO:
    case AHEAD_CANCELLED:
    case AHEAD_NOMEM:
    case AHEAD_UNSUPPORTED: return true;
    case AHEAD_OK:
    case AHEAD_TIMEDOUT:
    case AHEAD_INVALID: break;
    }
    return false;
}

void ahead_error_make_ending(struct ahead_error *err, const char *whose)
{
    enum ahead_status st = err->status;
    int os_errno = err->os_errno;

    err->text[sizeof err->text - 1] = '\0';
    if (is_ending(st) && err->text[0])
        return;
    ahead_error_set(err, is_ending(st) ? st : AHEAD_IO, err->source_offset,
                    "the %s failed with status %s", whose, ahead_status_name(st));
    err->os_errno = os_errno;
}

void ahead_error_make_failure(struct ahead_error *err, const char *whose)
{
    if (err->status == AHEAD_EOF)
        ahead_error_set(err, AHEAD_IO, err->source_offset, "the %s failed with status %s", whose,
                        ahead_status_name(AHEAD_EOF));
    ahead_error_make_ending(err, whose);
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
