/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - which side kept the other waiting. */
#ifndef AHEAD_TOOL_VERDICT_H
#define AHEAD_TOOL_VERDICT_H

#include <stdint.h>

#include <ahead/stream.h>

enum verdict { VERDICT_NEITHER, VERDICT_SOURCE, VERDICT_READER };

/* What reading an input through has shown. */
struct reading {
    uint64_t elapsed_ns;
    uint64_t work_ns; /* of these, the reader was busy with the bytes; else it got them */
    struct ahead_stats stats;
};

/* The source, if the reader spent a quarter of the time more on getting bytes
 * (asleep, or making pieces itself) than the second thread on waiting for
 * room; the reader, if it is the other way round.  A reader without a second
 * thread gets all bytes itself: then that is weighed against its work.  Where
 * nothing was read, neither. */
enum verdict verdict(const struct reading *r);

/* As "source". */
const char *verdict_name(enum verdict v);

#endif
