/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - everything that the library offers. */
#ifndef AHEAD_AHEAD_H
#define AHEAD_AHEAD_H

#include <ahead/pool.h>
#include <ahead/read.h>
#include <ahead/source.h>
#include <ahead/status.h>
#include <ahead/stream.h>

#endif
