/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - knowing a source over memory, for which no thread is worth it. */
#ifndef AHEAD_SOURCE_MEMORY_H
#define AHEAD_SOURCE_MEMORY_H

#include <stdbool.h>

#include <ahead/source.h>

/* Whether `src` comes from ahead_source_memory(). */
bool ahead_source_is_memory(struct ahead_source src);

#endif
