/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - which side kept the other waiting. */
#include "verdict.h"

enum verdict verdict(const struct reading *r)
{
    uint64_t getting = r->elapsed_ns - r->work_ns;
    uint64_t against = r->stats.threads_started > 0 ? r->stats.fill_wait_ns : r->work_ns;
    uint64_t margin = r->elapsed_ns / 4;

    if (r->stats.bytes == 0)
        return VERDICT_NEITHER;
    if (getting > against && getting - against > margin)
        return VERDICT_SOURCE;
    if (against > getting && against - getting > margin)
        return VERDICT_READER;
    return VERDICT_NEITHER;
}

const char *verdict_name(enum verdict v)
{
    switch (v) {
    case VERDICT_NEITHER: return "neither";
    case VERDICT_SOURCE: return "source";
    case VERDICT_READER: return "reader";
    }
    return "?";
}
