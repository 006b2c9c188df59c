/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - whether the second thread pays.
 *
 * The constants were chosen by bench_small, and by bench_overlap: its callback
 * with a fleeting and with a light reader. */
#include "stream/pace.h"

/* Beside a source that takes longer over a byte no hand-over is ever seen. */
#define FAST_NS_PER_BYTE 5.0

/* What a byte costs that is written by one core and read by another: a reader
 * that takes less time over it has nothing to gain. */
#define HAND_OVER_NS_PER_BYTE 0.05

/* Half of this is what the second thread can save at best, and what it costs:
 * thread, memory and the first hand-over. */
#define WORTH_NS 1000000

/* A stretch done the wrong way costs one or two more: in so many it is of no
 * account. */
#define PATIENCE 64

/* The first one together has the start of the thread in it, and new memory; and
 * of the next ones, one may be an accident. */
#define WARM_UP 1
#define STRETCHES_THAT_WAIT 3

/* Of a reader that waits so long it is found out again what it is alone: the
 * beginning, from which that is known, may have been disturbed. */
#define STRETCHES_TO_ASK 16

/* Of buffers below that, one is soon gone over. */
#define LEAST_BUFFER_BYTES ((size_t)64 << 10)

/* Shorter ones are at the mercy of the system's scheduler. */
#define STRETCH_BYTES ((uint64_t)4 << 20)

bool ahead_pace_applies(size_t buffer_bytes)
{
    return buffer_bytes >= LEAST_BUFFER_BYTES;
}

static void begin_stretch(struct ahead_pace *p, uint64_t now_ns, uint64_t offset)
{
    p->since_ns = now_ns;
    p->since_offset = offset;
    p->source_ns = 0;
}

static double ns_per_byte(const struct ahead_pace *p, uint64_t now_ns, uint64_t offset)
{
    uint64_t bytes = offset - p->since_offset;

    return bytes ? (double)(now_ns - p->since_ns) / (double)bytes : 0;
}

void ahead_pace_begin(struct ahead_pace *p, uint64_t now_ns, uint64_t offset)
{
    begin_stretch(p, now_ns, offset);
}

void ahead_pace_enter_source(struct ahead_pace *p, uint64_t now_ns)
{
    p->claim_ns = now_ns;
}

void ahead_pace_leave_source(struct ahead_pace *p, uint64_t now_ns)
{
    p->source_ns += AHEAD_PACE_SAMPLE * (now_ns - p->claim_ns);
    p->claim_ns = 0;
}

bool ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset, uint64_t left)
{
    uint64_t ns = now_ns - p->since_ns, source = p->source_ns < ns ? p->source_ns : ns;
    double reader;

    p->alone = ns_per_byte(p, now_ns, offset);
    reader = ns_per_byte(p, now_ns - source, offset);
    if (left == UINT64_MAX)
        left = offset; /* of what has no known end, as much is to be expected as there was */
    if ((double)left * p->alone < WORTH_NS ||
        (p->alone < FAST_NS_PER_BYTE && reader < HAND_OVER_NS_PER_BYTE)) {
        begin_stretch(p, now_ns, offset);
        return false;
    }
    p->since_ns = 0;
    p->patience = WARM_UP + 1;
    return true;
}

bool ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo)
{
    if (solo && p->together == 0)
        return false;
    return !p->since_ns || offset - p->since_offset >= STRETCH_BYTES;
}

/* Alone for as long as that is faster, but for a trial now and then. */
static bool stays_alone(struct ahead_pace *p, double rate)
{
    p->alone = rate;
    if (rate > p->together) {
        p->patience = PATIENCE;
        return false;
    }
    if (p->patience > 0)
        return true;
    p->patience = WARM_UP + 1;
    return false;
}

static bool becomes_alone(struct ahead_pace *p, double rate, bool waits)
{
    unsigned most = rate > p->alone ? STRETCHES_THAT_WAIT : STRETCHES_TO_ASK;

    if (!waits || p->patience > 0 || rate >= FAST_NS_PER_BYTE) {
        p->waiting = 0;
        return false;
    }
    if (++p->waiting < most)
        return false;
    p->waiting = 0;
    p->together = rate;
    p->patience = PATIENCE;
    return true;
}

bool ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                uint64_t wait_ns, bool solo)
{
    double rate = ns_per_byte(p, now_ns, offset);
    bool waits = 2 * (wait_ns - p->since_wait_ns) > now_ns - p->since_ns;
    bool began = p->since_ns > 0;

    p->since_wait_ns = wait_ns;
    begin_stretch(p, now_ns, offset);
    if (!began)
        return solo;
    if (p->patience > 0)
        p->patience--;
    return solo ? stays_alone(p, rate) : becomes_alone(p, rate, waits);
}
