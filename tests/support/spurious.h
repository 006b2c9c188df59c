/* SPDX-License-Identifier: Apache-2.0 */
/* spurious.h - how often a wait on a condition ended for no reason, in programs whose waits go
 * through spurious.c. */
#ifndef TESTS_SUPPORT_SPURIOUS_H
#define TESTS_SUPPORT_SPURIOUS_H

#include <stdatomic.h>

extern atomic_ulong spurious_wakeups;

#endif
