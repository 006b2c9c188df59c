#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_abi.sh - a program that was linked against the library of abi/libahead.abi still runs.
#
# usage: check_abi.sh [--update] SHARED_LIBRARY INCLUDE_DIR
#
# --update writes the description instead: on purpose, in the commit that changes the interface.
# Needs abidw and abidiff of libabigail, and a library with debug information.
set -eu

update=false
if [ "$1" = --update ]; then
    update=true
    shift
fi
shared=$1 include=$2
known=$(dirname "$0")/abi/libahead.abi

if ! command -v abidiff > /dev/null; then
    echo "SKIPPED: abidiff is not installed"
    exit 77
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Only what the headers show, and nothing of where it was built.
describe()
{
    abidw --headers-dir "$include" --drop-private-types --no-corpus-path --no-comp-dir-path \
        --no-show-locs --type-id-style hash "$shared" | sed "s, path='[^']*lib/, path='lib/," > "$1"
}

describe "$tmp/now.abi"
grep -q "elf-symbol name='ahead_open'" "$tmp/now.abi" || {
    echo "abi: FAILED: $shared has no functions"
    echo "0 passed, 1 failed"
    exit 1
}
if $update; then
    cp "$tmp/now.abi" "$known"
    echo "$known: $(wc -l < "$known") lines"
    exit
fi
if [ "$(uname -m)" != x86_64 ]; then
    echo "SKIPPED: abi/libahead.abi is of x86_64"
    exit 77
fi

rc=0
abidiff "$known" "$tmp/now.abi" || rc=$?
if [ $rc -eq 0 ]; then
    echo "1 passed, 0 failed"
else
    echo "abi: FAILED: the interface has changed; if that is meant: $0 --update $shared $include"
    echo "0 passed, 1 failed"
    exit 1
fi
