/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - the commands of `ahead`, one file each, and how they end. */
#ifndef AHEAD_TOOL_H
#define AHEAD_TOOL_H

enum exit_code {
    EXIT_WELL = 0,
    EXIT_FAILED = 1, /* an input or the output failed; stderr has a line for each */
    EXIT_USAGE = 2   /* a wrong call; nothing was read or written */
};

/* A command parses its options, does its work and returns an exit code.
 * argv[0] is its name.  What it has left in stdout is flushed by main(). */
int cat_main(int argc, char **argv);
int stat_main(int argc, char **argv);
int spill_main(int argc, char **argv);
int frames_main(int argc, char **argv);
int merge_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int demo_main(int argc, char **argv);

#endif
