/* SPDX-License-Identifier: Apache-2.0 */
/* sink_memory.c - a sink that collects in memory. */
#include <ahead/sink.h>

#include "error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    uint8_t **data; /* immutable; what it points to: holder */
    size_t *len;    /* as data */
    size_t cap;     /* holder */
};

enum { FIRST_BYTES = 256 };

/* Room for n > 0 bytes more, twice as much each time. */
static bool reserve(struct memory *m, size_t n)
{
    size_t cap = m->cap ? m->cap : FIRST_BYTES;
    uint8_t *grown;

    if (n > SIZE_MAX / 2 - *m->len)
        return false;
    while (cap - *m->len < n)
        cap *= 2;
    if (cap == m->cap)
        return true;
    grown = realloc(*m->data, cap);
    if (!grown)
        return false;
    *m->data = grown;
    m->cap = cap;
    return true;
}

static ssize_t memory_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct memory *m = ctx;

    if (len > SSIZE_MAX)
        len = SSIZE_MAX;
    if (!reserve(m, len)) {
        ahead_error_set(err, AHEAD_NOMEM, *m->len, "no memory for %zu bytes behind %zu", len,
                        *m->len);
        return -1;
    }
    memcpy(*m->data + *m->len, src, len);
    *m->len += len;
    return (ssize_t)len;
}

static enum ahead_status memory_close(void *ctx, struct ahead_error *err)
{
    (void)err;
    free(ctx);
    return AHEAD_OK;
}

static const struct ahead_sink_ops memory_ops = {
    .write = memory_write,
    .close = memory_close,
};

enum ahead_status ahead_sink_memory(struct ahead_sink *out, uint8_t **data, size_t *len)
{
    struct memory *m;

    if (!out)
        return ahead_fail_errno(AHEAD_INVALID);
    *out = (struct ahead_sink){ .ops = NULL };
    if (!data || !len)
        return ahead_fail_errno(AHEAD_INVALID);
    m = malloc(sizeof *m);
    if (!m)
        return ahead_fail_errno(AHEAD_NOMEM);
    *data = NULL;
    *len = 0;
    *m = (struct memory){ .data = data, .len = len };
    *out = (struct ahead_sink){ .ops = &memory_ops, .ctx = m };
    return AHEAD_OK;
}
