/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - sizes, rates and times as people write and read them. */
#ifndef AHEAD_TOOL_SIZE_H
#define AHEAD_TOOL_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The len characters at text: a number, and perhaps K, M or G (of 1024).
 * false: something else, or above UINT64_MAX. */
bool size_parse(const char *text, size_t len, uint64_t *bytes);

/* Room for any of the texts below. */
enum { SIZE_TEXT = 32 };

/* As "0 B", "1023 B", "1.00 KiB", "12.5 GiB", "1024 EiB".  Return `text`. */
const char *size_format(char text[SIZE_TEXT], double bytes);

/* As "250 ns", "1.30 ms", "12.5 s", "3600 s". */
const char *time_format(char text[SIZE_TEXT], uint64_t ns);

/* As "1.23 GiB/s"; "-" if no time has passed. */
const char *rate_format(char text[SIZE_TEXT], uint64_t bytes, uint64_t ns);

/* Now, on a clock that is never set. */
uint64_t now_ns(void);

#endif
