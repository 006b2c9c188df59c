#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_man.sh - ahead(1) has each command and each option of the program, and is well-formed where
# mandoc is there to say so.
#
# usage: check_man.sh SOURCE_ROOT AHEAD
set -eu

page=$1/docs/man/ahead.1
ahead=$2
passed=0 failed=0

# has WHAT PATTERN
has()
{
    if grep -Eq -e "$2" "$page"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "man: FAILED: ahead.1 does not have $1"
    fi
}

commands=$("$ahead" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    has "the command $command" "^\\.Cm $command\$"
    for option in $("$ahead" "$command" --help | grep -o -e '--[a-z][a-z-]*' | sort -u); do
        has "$option of $command" "Fl -?${option#-}|[|] ${option#-}( |\$)"
    done
done

if command -v mandoc > /dev/null; then
    if mandoc -Tlint -Wwarning "$page"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
else
    echo "SKIPPED: mandoc is not installed"
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
