/* SPDX-License-Identifier: Apache-2.0 */
/* textbook.h - read-ahead as it is usually written, to be compared with.
 *
 * Two buffers, a lock, a background fill that fills a whole buffer, and a
 * waiting flag that lets it return early; after an early return it idles until
 * the reader has woken up, swapped and asked for the next fill. */
#ifndef TEXTBOOK_H
#define TEXTBOOK_H

#include <ahead/source.h>

struct textbook;

/* Takes the source; two buffers of `bytes`. */
struct textbook *textbook_open(struct ahead_source src, size_t bytes);

/* Gives the buffer before back, and shows the next: how many bytes; 0: end. */
size_t textbook_next(struct textbook *t, const uint8_t **p);

/* Gives the source back, which is the caller's to close. */
struct ahead_source textbook_close(struct textbook *t);

#endif
