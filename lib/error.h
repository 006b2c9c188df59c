/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - filling in a struct ahead_error where the failure is seen. */
#ifndef AHEAD_ERROR_H
#define AHEAD_ERROR_H

#include <ahead/status.h>

/* No place in the encoded input. */
#define AHEAD_NO_OFFSET UINT64_MAX

/* Nothing went wrong yet.  The rest of the text is left as it is: clearing it
 * takes as long as a small read. */
static inline void ahead_error_clear(struct ahead_error *err)
{
    err->status = AHEAD_OK;
    err->os_errno = 0;
    err->offset = 0;
    err->source_offset = AHEAD_NO_OFFSET;
    err->text[0] = 0;
}

/* Fill in status, place in the source and text; `offset` is left to the
 * stream.  Returns the status, so that a caller can say
 * `return ahead_error_set(...)`. */
enum ahead_status
ahead_error_set(struct ahead_error *err, enum ahead_status status, uint64_t source_offset,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same for AHEAD_IO, with the system's words behind `what`. */
enum ahead_status ahead_error_set_errno(struct ahead_error *err, int os_errno,
                                        uint64_t source_offset, const char *what);

/* What a function of the caller's, a `whose` one, failed with has to be an
 * ending with a text: OK, TIMEDOUT, INVALID and what is no status would let
 * somebody wait for what never comes.  They become AHEAD_IO. */
void ahead_error_make_ending(struct ahead_error *err, const char *whose);

/* The same for the way out, where an EOF is no failure either; an empty text is
 * filled in. */
void ahead_error_make_failure(struct ahead_error *err, const char *whose);

/* Set errno to match a constructor's status, and return the status.  AHEAD_IO
 * leaves errno as the system call set it. */
enum ahead_status ahead_fail_errno(enum ahead_status status);

#endif
