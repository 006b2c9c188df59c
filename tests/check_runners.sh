#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_runners.sh - what is broken fails under each runner, and says why.
#
# usage: check_runners.sh SEEDED_C PROGRAM...
#
# Each program is seeded.c under some runner.
set -eu
. "$(dirname "$0")/lib.sh"

source=$1
shift

# judge WHAT RC: and what the program said, if that is bad.
judge()
{
    verdict "$1" "$2"
    [ "$2" -eq 0 ] || sed 's/^/    /' "$tmp/out"
}

# counts PASSED FAILED: the closing line, in Criterion's words or in ours.
counts()
{
    grep -qxF "$1 passed, $2 failed" "$tmp/out" ||
        grep -qF "Passing: $1 | Failing: $2 |" "$tmp/out"
}

tests=$(grep -c '^Test(' "$source")
good=$(grep -c '^/\* passes \*/$' "$source")
skipped=$(grep -c '^/\* skipped \*/$' "$source")

for program in "$@"; do
    name=$(basename "$program")

    rc=0; "$program" > "$tmp/out" 2>&1 || rc=$?
    judge "$name: exit code $rc" $((rc != 1))
    rc=0; counts "$good" $((tests - good - skipped)) || rc=1
    judge "$name: the counts" $rc
    rc=0; grep -q "for no reason" "$tmp/out" || rc=1
    judge "$name: why one was skipped" $rc
    sed -n 's,^/\* \(.*\(got \|is not so\|imed out\).*\) \*/$,\1,p' "$source" > "$tmp/want"
    while read -r line; do
        rc=0; grep -qF "$line" "$tmp/out" || rc=1
        judge "$name: $line" $rc
    done < "$tmp/want"

    # A program in which nothing was run is no success.
    case $name in *_plain) none=no/such ;; *) none=--filter=no/such ;; esac
    rc=0; "$program" "$none" > "$tmp/out" 2>&1 || rc=$?
    judge "$name: exit code $rc where no test was run" $((rc == 0))
done

finish
