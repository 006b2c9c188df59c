#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_example.sh - a program of examples/ does what it is shown for, and fails as it should.
#
# usage: check_example.sh NAME PROGRAM
#
# Each example has a function here of its name, with an x in front.
set -eu

name=$1 program=$(realpath "$2") # meson says it from the build folder
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
passed=0 failed=0

# run RC STDOUT STDERR ARGUMENT...: the exit code, all of the output, a part of the complaint.
run()
{
    rc=$1 out=$2 err=$3
    shift 3
    got=0; "$program" "$@" > out 2> err || got=$?
    echo "$out" > want
    [ -n "$out" ] || : > want
    if [ "$got" -eq "$rc" ] && cmp -s out want &&
        if [ -n "$err" ]; then grep -qF -- "$err" err; else ! [ -s err ]; fi; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: FAILED: $*: exit code $got, want $rc; output and complaint:"
        sed 's/^/    /' out err
    fi
}

x01_sum_i32()
{
    # 1, -1, 2147483647, 16909060, -2147483648
    printf '\0\0\0\1\377\377\377\377\177\377\377\377\1\2\3\4\200\0\0\0' > few
    run 0 "5 integers, sum 16909059" "" few
    : > empty
    run 0 "0 integers, sum 0" "" empty
    # More than any buffer, and something to be missed behind it.
    { head -c 16777216 /dev/zero; printf '\0\0\0\7'; } > many
    run 0 "4194305 integers, sum 7" "" many
    printf '\0\0\0\11\0\0' > cut
    run 1 "1 integers, sum 9" "cut: TRUNCATED, after 4 bytes" cut
    run 1 "" "missing: No such file or directory" missing
    mkdir folder
    run 1 "" "folder: Is a directory" folder
    run 2 "" "usage:"
}

"x$name"

echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
