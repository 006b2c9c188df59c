/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.h - what a way of doing something takes of the machine while it lasts. */
#ifndef FOOTPRINT_H
#define FOOTPRINT_H

#include <stdint.h>

struct footprint {
    unsigned threads; /* most at a time, the first one included */
    double grown_mib; /* resident memory, its peak above where it began */
};

/* Run it in a process of its own, which the parent watches. */
struct footprint footprint_of(uint64_t (*run)(void *ctx), void *ctx);

#endif
