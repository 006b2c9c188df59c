/* SPDX-License-Identifier: Apache-2.0 */
/* spill_writer.c - writes the records of a Spark spill: a count, then so many
 * times length, key prefix and bytes. */
#include <ahead/spill.h>

#include "error.h"

#include <errno.h>
#include <stdlib.h>

struct ahead_spill_writer {
    struct ahead_writer *w;
    uint32_t count, put;
    bool failed; /* for good: `error` is that */
    struct ahead_error error;
};

/* Cancelled first: what is closed here must not be ended as if it were whole. */
static enum ahead_status refuse(struct ahead_writer *w, enum ahead_status st)
{
    int os_errno = ahead_writer_error(w)->os_errno;

    ahead_writer_cancel(w);
    ahead_writer_close(w);
    errno = os_errno;
    return ahead_fail_errno(st);
}

enum ahead_status
ahead_spill_writer_open(struct ahead_spill_writer **out, struct ahead_writer *w, uint32_t count)
{
    struct ahead_spill_writer *sw = NULL;
    enum ahead_status st = AHEAD_INVALID;

    if (out)
        *out = NULL;
    if (out && w && count <= INT32_MAX) {
        sw = malloc(sizeof *sw);
        st = sw ? ahead_write_u32_be(w, count) : AHEAD_NOMEM;
    }
    if (st) {
        free(sw);
        return refuse(w, st);
    }
    *sw = (struct ahead_spill_writer){ .w = w, .count = count };
    sw->error.source_offset = AHEAD_NO_OFFSET;
    *out = sw;
    return AHEAD_OK;
}

static enum ahead_status
put(struct ahead_writer *w, int64_t key_prefix, const void *data, uint32_t len)
{
    enum ahead_status st = ahead_write_u32_be(w, len);

    if (!st)
        st = ahead_write_i64_be(w, key_prefix);
    return st ? st : ahead_write(w, data, len);
}

/* Whether a record may follow; else what is wrong with the call. */
static enum ahead_status check(struct ahead_spill_writer *sw, const void *data, uint32_t len)
{
    if (len > INT32_MAX)
        ahead_error_set(&sw->error, AHEAD_INVALID, AHEAD_NO_OFFSET,
                        "a record of %lu bytes is above 2147483647", (unsigned long)len);
    else if (!data && len > 0)
        ahead_error_set(&sw->error, AHEAD_INVALID, AHEAD_NO_OFFSET,
                        "there is nothing where %lu bytes should be", (unsigned long)len);
    else if (sw->put == sw->count)
        ahead_error_set(&sw->error, AHEAD_INVALID, AHEAD_NO_OFFSET,
                        "all %lu records that were announced have been put",
                        (unsigned long)sw->count);
    else
        return AHEAD_OK;
    sw->error.offset = ahead_writer_tell(sw->w);
    return AHEAD_INVALID;
}

enum ahead_status
ahead_spill_put(struct ahead_spill_writer *sw, int64_t key_prefix, const void *data, uint32_t len)
{
    enum ahead_status st;
    uint64_t before;

    if (!sw)
        return AHEAD_INVALID;
    if (sw->failed)
        return sw->error.status;
    if ((st = check(sw, data, len)))
        return st;
    before = ahead_writer_tell(sw->w);
    st = put(sw->w, key_prefix, data, len);
    if (!st) {
        sw->put++;
        return AHEAD_OK;
    }
    sw->error = *ahead_writer_error(sw->w);
    sw->failed = st != AHEAD_TIMEDOUT || ahead_writer_tell(sw->w) != before;
    return st;
}

enum ahead_status ahead_spill_writer_close(struct ahead_spill_writer *sw)
{
    enum ahead_status st, closed;

    if (!sw)
        return AHEAD_OK;
    st = sw->failed ? sw->error.status : sw->put < sw->count ? AHEAD_TRUNCATED : AHEAD_OK;
    /* A record that was cut inside must not be followed by an end mark. */
    if (sw->failed)
        ahead_writer_cancel(sw->w);
    closed = ahead_writer_close(sw->w);
    free(sw);
    return closed && !(st && closed == AHEAD_CANCELLED) ? closed : st;
}

const struct ahead_error *ahead_spill_writer_error(const struct ahead_spill_writer *sw)
{
    static const struct ahead_error no_spill = { .status = AHEAD_INVALID,
                                                 .source_offset = AHEAD_NO_OFFSET,
                                                 .text = "there is no spill" };

    return sw ? &sw->error : &no_spill;
}
