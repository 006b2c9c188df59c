/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - the memory of a half, and buffers that change hands. */
#include "stream/buffer.h"

#include <ahead/stream.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Behind the slack, at any alignment. */
struct tag {
    uint64_t magic;
    uint8_t *bytes;
    struct ahead_buffer_owner *owner; /* NULL: whoever has the buffer */
};

#define TAG_MAGIC UINT64_C(0x6165686166666275)

/* Of the kernel, where it has such.  The first touch of 4 MiB in small pages
 * takes as long as reading 20 MiB from the page cache. */
#define HUGE_PAGE ((size_t)2 << 20)

/* Below this the call costs more than the memory is worth. */
#define UNBACK_BYTES ((size_t)32 << 10)

/* Memory of n bytes; in huge pages, as far as it fills them. */
static void *new_block(size_t n)
{
    bool huge = n > HUGE_PAGE - 2 * AHEAD_PAGE;
    void *block;

    if (huge && n < HUGE_PAGE)
        n = HUGE_PAGE; /* the default half is made for this */
    if (posix_memalign(&block, huge ? HUGE_PAGE : AHEAD_PAGE, n))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge) /* no harm if it is refused */
        madvise(block, n / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return block;
}

uint8_t *ahead_buffer_new_owned(size_t cap, struct ahead_buffer_owner *owner)
{
    struct tag tag = { .magic = TAG_MAGIC, .owner = owner };
    uint8_t *block = new_block(AHEAD_PAGE + cap + AHEAD_SLACK + sizeof tag);

    if (!block)
        return NULL;
    tag.bytes = block + AHEAD_PAGE;
    memcpy(tag.bytes + cap + AHEAD_SLACK, &tag, sizeof tag);
    return tag.bytes;
}

uint8_t *ahead_buffer_new(size_t cap)
{
    return ahead_buffer_new_owned(cap, NULL);
}

void ahead_buffer_touch(uint8_t *bytes, size_t cap)
{
    for (size_t i = 0; i < cap; i += AHEAD_PAGE)
        ((volatile uint8_t *)bytes)[i] = 0;
}

void ahead_buffer_unback(uint8_t *bytes, size_t cap)
{
#ifdef MADV_DONTNEED
    /* The system's pages may be larger than ours, and it rounds lengths up. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t front = (size_t)(0 - (uintptr_t)bytes) % page;

    if (bytes && cap >= UNBACK_BYTES && cap - front >= page)
        madvise(bytes + front, (cap - front) / page * page, MADV_DONTNEED);
#else
    (void)bytes;
    (void)cap;
#endif
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
