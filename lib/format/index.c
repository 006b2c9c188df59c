/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - the offsets of a shuffle file's partitions, read and checked. */
#include <ahead/index.h>

#include "error.h"

#include <ahead/read.h>
#include <ahead/stream.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    OFFSET_BYTES = 8,
    FIRST_CAP = 4096 /* bytes: more partitions than most jobs have */
};

/* The file as it is.  Once it is open, `len` is a multiple of 8, from 16 on. */
struct ahead_index {
    size_t len, cap; /* of bytes */
    uint8_t bytes[];
};

/* Offset number i.  A negative one is above INT64_MAX here. */
static uint64_t offset_at(const struct ahead_index *x, size_t i)
{
    return ahead_load_u64_be(x->bytes + i * OFFSET_BYTES);
}

/* Room for more bytes; for the first ones if *x is NULL. */
static bool grow(struct ahead_index **x)
{
    size_t len = *x ? (*x)->len : 0, cap = *x ? 2 * (*x)->cap : FIRST_CAP;
    struct ahead_index *more;

    if (cap > PTRDIFF_MAX - sizeof *more)
        return false;
    more = realloc(*x, sizeof *more + cap);
    if (!more)
        return false;
    more->len = len;
    more->cap = cap;
    *x = more;
    return true;
}

/* Each offset is judged against the one in front of it, and that of none is 0. */
static enum ahead_status
check_offset(const struct ahead_index *x, size_t i, struct ahead_error *err)
{
    uint64_t before = i ? offset_at(x, i - 1) : 0, at = offset_at(x, i);

    if (i == 0 && at != 0)
        return ahead_error_set(err, AHEAD_CORRUPT, 0, "the first offset is %" PRId64 ", not 0",
                               (int64_t)at);
    if (at < before || at > INT64_MAX)
        return ahead_error_set(err, AHEAD_CORRUPT, (uint64_t)i * OFFSET_BYTES,
                               "offset %zu of the index, %" PRId64
                               ", is below the one before it, %" PRIu64,
                               i, (int64_t)at, before);
    return AHEAD_OK;
}

/* Nothing is decoded: a place in the index is one in its bytes. */
static enum ahead_status placed(enum ahead_status st, struct ahead_error *err)
{
    if (st)
        err->offset = err->source_offset;
    return st;
}

/* Offsets are judged as they arrive: what is no index is not read to its end. */
static enum ahead_status
read_offsets(struct ahead_index **x, struct ahead_stream *s, struct ahead_error *err)
{
    enum ahead_status st, judged = AHEAD_OK;
    size_t i = 0, got;

    do {
        if ((*x)->len == (*x)->cap && !grow(x))
            return ahead_error_set(err, AHEAD_NOMEM, AHEAD_NO_OFFSET,
                                   "no memory for an index of more than %zu bytes", (*x)->len);
        st = ahead_read(s, (*x)->bytes + (*x)->len, (*x)->cap - (*x)->len, &got);
        (*x)->len += got;
        for (; i < (*x)->len / OFFSET_BYTES && !judged; i++)
            judged = placed(check_offset(*x, i, err), err);
    } while (!st && !judged);
    if (judged || st == AHEAD_EOF)
        return judged;
    *err = *ahead_error(s);
    return st;
}

static enum ahead_status
check_end(const struct ahead_index *x, uint64_t data_bytes, struct ahead_error *err)
{
    size_t last = ahead_index_partitions(x);

    if (x->len % OFFSET_BYTES)
        return ahead_error_set(err, AHEAD_CORRUPT, x->len - x->len % OFFSET_BYTES,
                               "an index of %zu bytes: no multiple of 8", x->len);
    if (x->len < 2 * OFFSET_BYTES)
        return ahead_error_set(err, AHEAD_CORRUPT, x->len,
                               "an index of %zu bytes: fewer than two offsets", x->len);
    if (offset_at(x, last) < data_bytes)
        return ahead_error_set(err, AHEAD_CORRUPT, (uint64_t)last * OFFSET_BYTES,
                               "the index ends at byte %" PRIu64 " of a file of %" PRIu64,
                               offset_at(x, last), data_bytes);
    return AHEAD_OK;
}

/* Opens, reads and closes. */
static enum ahead_status
load(struct ahead_index **x, struct ahead_source index, struct ahead_error *err)
{
    const struct ahead_options opt = { .flags = AHEAD_SYNC };
    struct ahead_stream *s = NULL;
    enum ahead_status st = ahead_open(&s, index, &opt);

    if (st) {
        ahead_error_set(err, st, AHEAD_NO_OFFSET, "the index cannot be opened: %s",
                        ahead_status_name(st));
        return st;
    }
    if (grow(x)) {
        st = read_offsets(x, s, err);
    } else {
        st = AHEAD_NOMEM;
        ahead_error_set(err, st, AHEAD_NO_OFFSET, "no memory for an index");
    }
    (void)ahead_close(s); /* it repeats the status, or has nothing to add to the bytes */
    return st;
}

enum ahead_status ahead_index_open(struct ahead_index **out, struct ahead_source index,
                                   uint64_t data_bytes, struct ahead_error *err)
{
    struct ahead_index *x = NULL;
    struct ahead_error unwanted;
    enum ahead_status st;

    if (!err)
        err = &unwanted;
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    if (!out) {
        ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET, "there is no place for the index");
        return ahead_open(NULL, index, NULL); /* which refuses, and closes it */
    }
    *out = NULL;
    st = load(&x, index, err);
    if (!st)
        st = placed(check_end(x, data_bytes, err), err);
    if (st) {
        free(x);
        errno = err->os_errno;
        return ahead_fail_errno(st);
    }
    *out = x;
    return AHEAD_OK;
}

size_t ahead_index_partitions(const struct ahead_index *x)
{
    return x ? x->len / OFFSET_BYTES - 1 : 0;
}

enum ahead_status
ahead_index_range(const struct ahead_index *x, size_t partition, uint64_t *offset, uint64_t *length)
{
    if (!x || partition >= ahead_index_partitions(x) || !offset || !length)
        return AHEAD_INVALID;
    *offset = offset_at(x, partition);
    *length = offset_at(x, partition + 1) - *offset;
    return AHEAD_OK;
}

void ahead_index_close(struct ahead_index *x)
{
    free(x);
}
