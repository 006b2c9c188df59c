#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_faults.sh - each fault in the table of docs/TESTING.md has a test, and each test that the
# table names is there.
#
# usage: check_faults.sh SOURCE_ROOT
set -eu

. "$(dirname "$0")/lib.sh"
cd "$1"
# What can be named: suite/test, and the names of programs and scripts.
{
    sed -n 's/^Test(\([a-z0-9_]*\), *\([a-z0-9_]*\).*/\1\/\2/p' tests/*.c
    sed -n "s/^ *test('\([a-z_]*\)'.*/\1/p" tests/meson.build
    ls tests/fuzz | sed -n 's/\.c$//p'
    ls tests/tool | sed -n 's/\.sh$//; s/^/tool_/p'
} | LC_ALL=C sort -u > "$tmp/there"

sed -n 's/^| \(F[0-9]*\) | .* | \(.*\) |$/\1 \2/p' docs/TESTING.md > "$tmp/rows"
while read -r id tests; do
    [ -n "$tests" ] || verdict "$id has no test" 1
    for name in $(printf '%s' "$tests" | tr -d '`,'); do
        check "$id: there is no test $name" grep -qxF "$name" "$tmp/there"
    done
done < "$tmp/rows"

# Each number once, and none left out.
n=101
while [ $n -le 240 ]; do
    check "F$n is not there once" [ "$(grep -c "^F$n " "$tmp/rows")" -eq 1 ]
    n=$((n + 1))
done

finish
