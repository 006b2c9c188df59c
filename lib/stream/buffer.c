/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - the memory of a half, and buffers that change hands. */
#include "stream/buffer.h"

#include <ahead/stream.h>

#include "stream/swap.h"

#include <stdlib.h>
#include <string.h>

/* Behind the slack, at any alignment. */
struct tag {
    uint64_t magic;
    uint8_t *bytes;
    struct ahead_buffer_owner *owner; /* NULL: whoever has the buffer */
};

#define TAG_MAGIC UINT64_C(0x6165686166666275)

uint8_t *ahead_buffer_new_owned(size_t cap, struct ahead_buffer_owner *owner)
{
    struct tag tag = { .magic = TAG_MAGIC, .owner = owner };
    void *block;

    if (posix_memalign(&block, AHEAD_PAGE, AHEAD_PAGE + cap + AHEAD_SLACK + sizeof tag))
        return NULL;
    tag.bytes = (uint8_t *)block + AHEAD_PAGE;
    memcpy(tag.bytes + cap + AHEAD_SLACK, &tag, sizeof tag);
    return tag.bytes;
}

uint8_t *ahead_buffer_new(size_t cap)
{
    return ahead_buffer_new_owned(cap, NULL);
}

void ahead_buffer_delete(uint8_t *bytes, size_t cap)
{
    if (!bytes)
        return;
    ahead_buffer_unpoison(bytes, cap);
    /* A copy of the pointer that lives on must not be taken for a buffer. */
    memset(bytes + cap + AHEAD_SLACK, 0, sizeof(struct tag));
    free(bytes - AHEAD_PAGE);
}

/* The tag of the buffer of which [.., end) is the end.  All zero: it is none. */
static struct tag tag_at(const uint8_t *end)
{
    struct tag tag;

    memcpy(&tag, end + AHEAD_SLACK, sizeof tag);
    return tag.magic == TAG_MAGIC ? tag : (struct tag){ 0 };
}

uint8_t *ahead_buffer_find(const uint8_t *end)
{
    struct tag tag = tag_at(end);

    return tag.owner ? NULL : tag.bytes;
}

void ahead_buffer_free(struct ahead_buffer *b)
{
    struct tag tag;

    if (!b || !b->data)
        return;
    tag = tag_at(b->data + b->cap);
    if (tag.owner)
        tag.owner->give_back(tag.owner, tag.bytes);
    else
        ahead_buffer_delete(tag.bytes, tag.bytes ? (size_t)(b->data + b->cap - tag.bytes) : 0);
    *b = (struct ahead_buffer){ 0 };
}
