# SPDX-License-Identifier: Apache-2.0
# lib.sh - what the scripts of tests/ and tests/tool/ share: a count, and a folder that goes away.
# Sourced by sh.

passed=0 failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# verdict WHAT RC: count.
verdict()
{
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "${0##*/}: FAILED: $1"
    fi
}

# check WHAT COMMAND...: the same of a command; what it says is shown if it fails.
check()
{
    what=$1
    shift
    rc=0
    "$@" > "$tmp/said" 2>&1 || rc=$?
    verdict "$what" $rc
    [ $rc -eq 0 ] || sed 's/^/    /' "$tmp/said"
}

# What the last command of a script is: the count, and whether it is good.
finish()
{
    echo "$passed passed, $failed failed"
    [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
}
