/* SPDX-License-Identifier: Apache-2.0 */
/* parser.h - what the readers of records and of frames share: elements of a
 * stream, each in one piece of memory, and an ending that stays.
 *
 * An *element* is a header and the bytes that it announces.  A parser shows the
 * header, judges it, says how long the element is, and takes it:
 *
 *     ahead_parser_show(p, HEADER, &header)      may be asked again
 *     p->want = HEADER + length from the header
 *     ahead_parser_take(p, &element)             until it is taken, p->want stays
 *
 * An element that lies in one piece of the stream's memory is handed out where
 * it lies.  One that does not is gathered by the stream if it is small, else in
 * memory of the parser's own, which grows as the bytes arrive: what a header
 * says never costs more than twice what has come, or 1 MiB. */
#ifndef AHEAD_FORMAT_PARSER_H
#define AHEAD_FORMAT_PARSER_H

#include <ahead/status.h>
#include <ahead/stream.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ahead_parser {
    struct ahead_stream *stream;
    uint64_t taken;  /* elements taken so far */
    uint64_t offset; /* in the stream: behind the last whole one */
    size_t want;     /* bytes of the element under way; 0: not known yet */
    size_t found;    /* after AHEAD_EOF: so many bytes were there */
    uint8_t *own;    /* memory for elements that the stream does not show */
    size_t own_cap;
    size_t have; /* bytes of the element under way that are in `own` already */
    bool ended;  /* `error` is the ending */
    struct ahead_error error;
};

/* The most that an element can take. */
#define AHEAD_ELEMENT_MAX_BYTES ((size_t)PTRDIFF_MAX)

/* The stream is the parser's from here on. */
void ahead_parser_init(struct ahead_parser *p, struct ahead_stream *s);

/* Free the memory and close the stream.  Returns the fault that was met, else
 * the status of the stream's close. */
enum ahead_status ahead_parser_close(struct ahead_parser *p);

/* What went wrong; that there is no reader, for NULL.  Never NULL. */
const struct ahead_error *ahead_parser_error(const struct ahead_parser *p);

/* Point *bytes to the next n bytes, a header's, which stay unread.  AHEAD_OK;
 * AHEAD_EOF: a clean end behind `found` < n of them; else the fault of the
 * layer below, AHEAD_TIMEDOUT or AHEAD_INVALID.  What it is to be called is
 * left to the caller: see ahead_parser_fail() and ahead_parser_pass(). */
enum ahead_status ahead_parser_show(struct ahead_parser *p, size_t n, const uint8_t **bytes);

/* Point *bytes to the `want` bytes of the next element, which are consumed and
 * stay valid until the parser or the stream is used again.  As above, and
 * AHEAD_NOMEM; after AHEAD_TIMEDOUT it goes on where it was. */
enum ahead_status ahead_parser_take(struct ahead_parser *p, const uint8_t **bytes);

/* End with a fault of the elements themselves, in words; `error.offset` is
 * p->offset.  Returns the status. */
enum ahead_status
ahead_parser_fail(struct ahead_parser *p, enum ahead_status st, uint64_t source_offset,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What the stream said, with `where` in front of its words: an ending unless
 * the call can be made again.  Returns the status. */
enum ahead_status
ahead_parser_pass(struct ahead_parser *p, enum ahead_status st, const char *where);

#endif
