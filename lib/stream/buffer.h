/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - the memory of a half: page-aligned, with room on both sides.
 *
 *     block          bytes (page-aligned)            + cap
 *       |---a page----|----------cap bytes------------|-slack-|-tag-|
 *
 * Unread bytes of the half before go in front; the slack is what lets a typed
 * read compare `next + 8 > end`; the tag tells a buffer of the library from any
 * other memory, and is found from where the buffer ends, wherever `data` is. */
#ifndef AHEAD_STREAM_BUFFER_H
#define AHEAD_STREAM_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define AHEAD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AHEAD_ASAN 1
#endif
#endif

#ifdef AHEAD_ASAN
#include <sanitizer/asan_interface.h>
#define ahead_buffer_poison(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define ahead_buffer_unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
/* Under the address sanitizer, bytes that belong to nobody may not be touched. */
#define ahead_buffer_poison(p, n) ((void)(p), (void)(n))
#define ahead_buffer_unpoison(p, n) ((void)(p), (void)(n))
#endif

/* Memory in front of each half, for unread bytes of the one before. */
enum { AHEAD_PAGE = 4096 };

/* Allocate memory for a half of cap bytes (> 0); NULL: not to be had.  Its
 * pages are not touched. */
uint8_t *ahead_buffer_new(size_t cap);

/* A buffer that belongs to something that lends it out.  ahead_buffer_free()
 * gives it back to its owner, and a stream does not take it. */
struct ahead_buffer_owner {
    void (*give_back)(struct ahead_buffer_owner *owner, uint8_t *bytes);
};
uint8_t *ahead_buffer_new_owned(size_t cap, struct ahead_buffer_owner *owner);

/* Have the system back all of it, before somebody waits for that. */
void ahead_buffer_touch(uint8_t *bytes, size_t cap);

/* What is in it is of no use any more: the system can have what backs it, which
 * free() may keep for a long time.  Little ones are left alone.  NULL is fine. */
void ahead_buffer_unback(uint8_t *bytes, size_t cap);

/* Free it.  NULL is fine. */
void ahead_buffer_delete(uint8_t *bytes, size_t cap);

/* The half of which [.., end) is the end: its `bytes`, NULL if that is not
 * memory from ahead_buffer_new().  Owned ones are not. */
uint8_t *ahead_buffer_find(const uint8_t *end);

#endif
