/* SPDX-License-Identifier: Apache-2.0 */
/* comet.h - what the header of a Comet shuffle block says, and its body decoded. */
#ifndef AHEAD_TOOL_COMET_H
#define AHEAD_TOOL_COMET_H

#include <stdbool.h>
#include <stdint.h>

#include <ahead/frame.h>

struct comet_block {
    uint32_t fields;
    char tag[5]; /* as "LZ4_", without the flag: */
    bool offsets_as_lengths;
};

/* The frame is one that the reader of ahead_frame_comet gave. */
struct comet_block comet_look(const struct ahead_frame *f);

/* Bytes that grow; all zero is none. */
struct bytes {
    uint8_t *data;
    size_t len, cap;
};

/* Point *body to the body of the frame, decoded: NONE and LZ4_ are, others are
 * AHEAD_UNSUPPORTED.  It is the frame's, or lies in `room`, whose data is to be
 * freed.  A body that is cut or damaged is AHEAD_CORRUPT: the frame is whole,
 * so that more input would not mend it.  Above 2147483647 bytes, which is what
 * its writer can hold: AHEAD_LIMIT.  *err says what, with the frame's offset. */
enum ahead_status comet_decode(const struct ahead_frame *f, struct bytes *room,
                               const uint8_t **body, size_t *len, struct ahead_error *err);

#endif
