/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - everything that the library offers. */
#ifndef AHEAD_AHEAD_H
#define AHEAD_AHEAD_H

#include <ahead/file.h>
#include <ahead/frame.h>
#include <ahead/index.h>
#include <ahead/lz4.h>
#include <ahead/pool.h>
#include <ahead/push.h>
#include <ahead/read.h>
#include <ahead/sink.h>
#include <ahead/source.h>
#include <ahead/spill.h>
#include <ahead/status.h>
#include <ahead/stream.h>
#include <ahead/writer.h>

#endif
