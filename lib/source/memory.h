/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - looking at what a source over memory holds, without copying it. */
#ifndef AHEAD_SOURCE_MEMORY_H
#define AHEAD_SOURCE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <ahead/source.h>

/* The bytes that `src` still has, *len of them, if it comes from
 * ahead_source_memory(); else NULL.  They stay the caller's, and valid until
 * the source is closed.  Takes nothing. */
const uint8_t *ahead_source_memory_bytes(struct ahead_source src, size_t *len);

#endif
