/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far it is, on standard error, while it goes on. */
#ifndef AHEAD_TOOL_PROGRESS_H
#define AHEAD_TOOL_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum progress_show {
    PROGRESS_NOT,
    PROGRESS_LONG, /* on a terminal, of what takes more than a moment */
    PROGRESS_ASKED /* also into a file, and how it ended in any case */
};

/* What the reading thread is at. */
enum progress_side {
    PROGRESS_INPUT,  /* it gets bytes */
    PROGRESS_WORK,   /* it looks at them */
    PROGRESS_OUTPUT, /* it writes them */
    PROGRESS_SIDES
};

/* A thread of its own shows it, so that an input or an output that has stalled
 * is seen to have stalled. */
struct progress {
    enum progress_show show; /* immutable; PROGRESS_NOT: nothing below is set up */
    bool terminal;           /* immutable: one line that is written over */
    const char *name;        /* immutable: in front of each line; NULL: nothing */
    uint64_t total;          /* immutable: bytes; UINT64_MAX: not known */
    uint64_t began_ns;       /* immutable */
    pthread_t thread;        /* immutable */
    pthread_mutex_t lock;
    pthread_cond_t over;               /* the thread waits, in time for its next line */
    bool stop;                         /* lock */
    uint64_t bytes;                    /* lock */
    enum progress_side side;           /* lock */
    uint64_t since_ns;                 /* lock: when it turned to `side` */
    uint64_t spent_ns[PROGRESS_SIDES]; /* lock: on each side before that */
    bool drawn;                        /* the thread's: it has shown something */
};

/* Not asked for, it is shown to somebody at a terminal, unless the output goes
 * to a program that may have the screen.  out_fd -1: there is no output. */
enum progress_show progress_choose(bool asked, int out_fd);

/* `name`, if there is more than one input, is borrowed.  Where progress cannot
 * be shown it is not, and nothing fails for that. */
void progress_begin(struct progress *p, enum progress_show show, const char *name, uint64_t total);

/* The reading thread turns to `side`, with so many bytes behind it. */
void progress_at(struct progress *p, enum progress_side side, uint64_t bytes);

/* Show how it ended.  What is written next begins a line of its own. */
void progress_end(struct progress *p);

#endif
