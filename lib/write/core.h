/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - a writer as the library sees it: the producer's part, what is fixed
 * at open, and what both sides share. */
#ifndef AHEAD_WRITE_CORE_H
#define AHEAD_WRITE_CORE_H

#include <ahead/writer.h>

#include "write/behind.h"
#include "write/outlet.h"

#include <pthread.h>
#include <sys/types.h>

struct ahead_writer_core {
    /* producer: all of this first part.  The window is in the half that is
     * held, which begins at `bytes`; NULL: none is held. */
    struct ahead_writer hot;
    uint8_t *bytes;
    uint64_t given;           /* bytes handed over */
    bool calling;             /* inside a function of the sink */
    bool told;                /* a call has returned the failure */
    struct ahead_error error; /* of the last call that did not return AHEAD_OK */
    pthread_t thread;         /* valid once it was started, without a pool */
    size_t grown_bytes;       /* on a pool: how large a half may be by now */

    /* immutable */
    size_t buffer_bytes; /* of a half, at most */
    uint32_t write_timeout_ms, close_timeout_ms;
    unsigned process; /* a child of fork() has no second thread, and no business here */
    char name[16];

    /* Both sides'.  What lies between is longer than a cache line, so that the
     * second thread never takes the line of `hot` away. */
    struct ahead_behind behind;
    struct ahead_outlet out; /* see outlet.h */
};

static inline struct ahead_writer_core *ahead_writer_core_of(const struct ahead_writer *w)
{
    return (struct ahead_writer_core *)w;
}

/* Say what a call has to say of its own, in words, unless the writer has
 * failed: then that is what there is to say.  Returns the status.  In a child of
 * fork() the lock may be held for ever, and is left alone. */
enum ahead_status
ahead_writer_core_fail(struct ahead_writer_core *c, enum ahead_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
