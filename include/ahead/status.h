/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - how a call ended, and what went wrong where. */
#ifndef AHEAD_STATUS_H
#define AHEAD_STATUS_H

#include <stdint.h>

/* AHEAD_API marks what the shared library exports.  AHEAD_NODISCARD marks
 * functions whose status must be looked at.  AHEAD_INLINE marks functions that
 * are inlined from the header and have a real symbol in the library as well,
 * for callers who come through a foreign function interface. */
#if defined(__GNUC__)
#define AHEAD_API __attribute__((visibility("default")))
#define AHEAD_NODISCARD __attribute__((warn_unused_result))
#define AHEAD_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define AHEAD_API
#define AHEAD_NODISCARD
#define AHEAD_UNLIKELY(x) (x)
#endif
#ifndef AHEAD_INLINE
#define AHEAD_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers: major * 10000 + minor * 100 + patch. */
#define AHEAD_VERSION 100

/* The version of the library that is running, as "0.1.0".  Static, never
 * NULL.  Any thread. */
AHEAD_API const char *ahead_version(void);

/* How a call ended, and what can be done about it.
 *
 * EOF, TRUNCATED, CORRUPT, LIMIT, UNSUPPORTED, IO, NOMEM and CANCELLED of an
 * input are its ending: every byte before it has been delivered, and every
 * later call says the same again.  What a call says of its own value only (the
 * TRUNCATED of an integer that the end cuts short, the LIMIT of a peek) is no
 * ending, and a smaller request may still succeed. */
enum ahead_status {
    /* Done.  Zero, so that `if (st)` asks whether anything went wrong. */
    AHEAD_OK = 0,
    /* Nothing is left, and the end is where it should be. */
    AHEAD_EOF,
    /* The input stops inside a value, block or frame.  All bytes before the
     * cut have been delivered; those too few for the value stay unread. */
    AHEAD_TRUNCATED,
    /* The bytes arrived and are not what the format says.  Reading them again
     * would not help; `source_offset` says where to look. */
    AHEAD_CORRUPT,
    /* A length in the data is above a limit in the options, or a request is
     * above what the library holds in one piece.  Nothing was allocated for
     * it.  Raise the limit if you trust the input. */
    AHEAD_LIMIT,
    /* The operating system, or a source of yours, failed; `os_errno` says
     * how.  Opening the input anew may help. */
    AHEAD_IO,
    /* ahead_cancel() was called.  For good: open a new stream to go on. */
    AHEAD_CANCELLED,
    /* A time limit in the options ran out.  Nothing is lost: call again. */
    AHEAD_TIMEDOUT,
    /* Memory could not be had. */
    AHEAD_NOMEM,
    /* The call itself is wrong: NULL where something must be, an unknown
     * flag, a size above its maximum, a second reader.  Nothing changed. */
    AHEAD_INVALID,
    /* In order, but not to be had here: a seek in a pipe, a compression or a
     * dictionary that the library does not have. */
    AHEAD_UNSUPPORTED
};

/* The name of a status without its prefix, as "TRUNCATED"; "?" for a number
 * that is none.  Static, never NULL.  Any thread. */
AHEAD_API const char *ahead_status_name(enum ahead_status status);

/* What went wrong, where, and in words. */
struct ahead_error {
    enum ahead_status status;
    int os_errno;           /* of the system call that failed; 0: none did */
    uint64_t offset;        /* bytes delivered before it */
    uint64_t source_offset; /* in the encoded input, from its first byte; UINT64_MAX: none */
    char text[192];         /* one sentence without a full stop, never empty with a fault */
};

#ifdef __cplusplus
}
#endif
#endif
