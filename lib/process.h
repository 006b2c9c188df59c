/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - which process this is, told without a system call. */
#ifndef AHEAD_PROCESS_H
#define AHEAD_PROCESS_H

/* A number that is another one in a child of fork(): of our threads the child
 * has none, and of our locks none that is sure to be free. */
unsigned ahead_process(void);

#endif
