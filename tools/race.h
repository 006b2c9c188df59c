/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - several ways to do the same work, in turn, and how they compare. */
#ifndef AHEAD_TOOL_RACE_H
#define AHEAD_TOOL_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"

enum { RACE_WAYS = 8, RACE_ROUNDS = 99 };

/* What a way did once.  All have to come to the same. */
struct race_run {
    uint64_t bytes;
    uint64_t sum;
};

struct race_way {
    const char *name;                             /* a few words */
    bool (*run)(void *ctx, struct race_run *run); /* false: it failed, which it has reported */
    void *ctx;
};

/* One way, and the medians of its rounds. */
struct race_lane {
    const char *name;
    uint64_t wall_ns, cpu_ns;
};

struct race {
    struct race_lane lane[RACE_WAYS];
    size_t ways;
    unsigned rounds;
    struct race_run run; /* what all of them did */
};

/* Run every way once to warm up, then `rounds` (1 to RACE_ROUNDS) times, each
 * round beginning with another one.  `name` is what they work on.  false: one
 * failed, or came to something else; reported. */
bool race_run(struct race *r, const char *name, const struct race_way *ways, size_t n,
              unsigned rounds);

/* A line for each way, with a bar as long as it took. */
void race_print(const struct race *r);

/* The same as a member `ways` of an object. */
void race_json(const struct race *r, struct json *j);

/* Have gnuplot draw it, as SVG, into a file.  false: reported. */
bool race_plot(const struct race *r, const char *title, const char *path);

/* The value of --plot, which is the path of that.  false: it is none, reported
 * as usage. */
bool race_plot_to(const char *command, const char **path, const char *value);

#endif
