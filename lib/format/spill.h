/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - what a merge has to know of its readers. */
#ifndef AHEAD_FORMAT_SPILL_H
#define AHEAD_FORMAT_SPILL_H

#include <ahead/spill.h>

/* How many records the reader has handed out, and where in its stream the last
 * of them ends. */
uint64_t ahead_spill_reader_taken(const struct ahead_spill_reader *r, uint64_t *offset);

#endif
