/* SPDX-License-Identifier: Apache-2.0 */
/* inline.c - a real symbol for every inline function of the public headers. */
#include <ahead/status.h>

#undef AHEAD_INLINE
#define AHEAD_INLINE AHEAD_API

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif

#include <ahead/ahead.h>
