#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_faults.sh - each fault in the table of docs/TESTING.md has a test, and each test that the
# table names is there.
#
# usage: check_faults.sh SOURCE_ROOT
set -eu

cd "$1"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

fail()
{
    failed=$((failed + 1))
    echo "faults: FAILED: $1"
}

# What can be named: suite/test, and the names of programs and scripts.
{
    sed -n 's/^Test(\([a-z0-9_]*\), *\([a-z0-9_]*\).*/\1\/\2/p' tests/*.c
    sed -n "s/^ *test('\([a-z_]*\)'.*/\1/p" tests/meson.build
    ls tests/fuzz | sed -n 's/\.c$//p'
    ls tests/tool | sed -n 's/\.sh$//; s/^/tool_/p'
} | LC_ALL=C sort -u > "$tmp/there"

sed -n 's/^| \(F[0-9]*\) | .* | \(.*\) |$/\1 \2/p' docs/TESTING.md > "$tmp/rows"
while read -r id tests; do
    [ -n "$tests" ] || fail "$id has no test"
    for name in $(printf '%s' "$tests" | tr -d '`,'); do
        if grep -qxF "$name" "$tmp/there"; then
            passed=$((passed + 1))
        else
            fail "$id: there is no test $name"
        fi
    done
done < "$tmp/rows"

# Each number once, and none left out.
n=101
while [ $n -le 240 ]; do
    if [ "$(grep -c "^F$n " "$tmp/rows")" -eq 1 ]; then
        passed=$((passed + 1))
    else
        fail "F$n is not there once"
    fi
    n=$((n + 1))
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
