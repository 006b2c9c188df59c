/* SPDX-License-Identifier: Apache-2.0 */
/* wake.h - a descriptor that ends a poll(2), now and for ever after. */
#ifndef AHEAD_SOURCE_WAKE_H
#define AHEAD_SOURCE_WAKE_H

struct ahead_wake {
    int poll_fd; /* readable once it was rung */
    int ring_fd;
};

/* An eventfd, or a pipe where those are refused; close-on-exec, non-blocking.
 * 0, or -1 with errno. */
int ahead_wake_init(struct ahead_wake *w);

/* Any thread, any number of times.  Leaves errno as it was. */
void ahead_wake_ring(const struct ahead_wake *w);

void ahead_wake_destroy(struct ahead_wake *w);

#endif
