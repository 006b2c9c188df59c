/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.h - a sink and its rules: whole writes, and nothing after a failure.
 *
 * Whoever owns a sink, the writer or an encoder, reaches it through an outlet.
 * Guard words: immutable; holder, the one thread that may be in the sink now;
 * any, beside it. */
#ifndef AHEAD_WRITE_OUTLET_H
#define AHEAD_WRITE_OUTLET_H

#include <ahead/sink.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ahead_outlet {
    struct ahead_sink sink;     /* immutable */
    uint64_t taken;             /* holder: bytes that the sink took */
    bool dirty;                 /* holder: some of them since its last flush */
    struct ahead_error failure; /* holder: the first one; AHEAD_OK: none */
    atomic_bool interrupted;    /* any: a latch */
};

/* Take over a sink.  *o is all zero before. */
void ahead_outlet_init(struct ahead_outlet *o, struct ahead_sink sink);

/* One write of the sink, tried again where that is due: how many bytes it
 * took, > 0.  0: it failed; *err is filled in but for `offset`, and every later
 * call says the same; AHEAD_CANCELLED after an interrupt.  Waits for the sink. */
size_t ahead_outlet_write_some(struct ahead_outlet *o, const void *src, size_t len,
                               struct ahead_error *err);

/* As many writes as it takes.  On failure o->taken says how far they got. */
enum ahead_status
ahead_outlet_write(struct ahead_outlet *o, const void *src, size_t len, struct ahead_error *err);

/* Flush, if anything was written since the last one. */
enum ahead_status ahead_outlet_flush(struct ahead_outlet *o, struct ahead_error *err);

/* The output is whole.  Called once, unless there was a failure. */
enum ahead_status ahead_outlet_finish(struct ahead_outlet *o, struct ahead_error *err);

/* Fail for good, for a reason of the outlet's owner: an encoder, of which the
 * sink is to get nothing more.  err->status says which.  Returns the status. */
enum ahead_status ahead_outlet_fail(struct ahead_outlet *o, struct ahead_error *err);

/* Whether there was a failure; *err is that. */
bool ahead_outlet_has_failed(const struct ahead_outlet *o, struct ahead_error *err);

/* End what runs in the sink now or later.  Any thread, any number of times,
 * but not beside ahead_outlet_close(). */
void ahead_outlet_interrupt(struct ahead_outlet *o);

/* A constructor that takes over `inner` gives up: closes it, zeroes *out (which
 * may be NULL), sets errno, and returns the status. */
enum ahead_status
ahead_sink_refuse(struct ahead_sink *out, struct ahead_sink inner, enum ahead_status st);

/* Close the sink, once, and say what its close() said. */
enum ahead_status ahead_outlet_close(struct ahead_outlet *o, struct ahead_error *err);

#endif
