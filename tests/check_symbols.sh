#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_symbols.sh - what the libraries export is what abi/symbols.txt says, and begins with ahead_.
#
# usage: check_symbols.sh [--update] SHARED_LIBRARY STATIC_LIBRARY
#
# --update writes the list instead: on purpose, in the commit that changes the interface.
set -eu
. "$(dirname "$0")/lib.sh"

update=false
if [ "$1" = --update ]; then
    update=true
    shift
fi
shared=$1 static=$2
list=$(dirname "$0")/abi/symbols.txt

# Names that others can link to: not undefined, not the version node.
names()
{
    awk 'NF >= 3 && $2 ~ /^[A-TV-Z]$/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        LC_ALL=C sort -u
}

nm -D --defined-only "$shared" > "$tmp/shared.nm"
nm -g --defined-only "$static" > "$tmp/static.nm"
names < "$tmp/shared.nm" > "$tmp/shared"
names < "$tmp/static.nm" > "$tmp/static"

if $update; then
    mkdir -p "$(dirname "$list")"
    cp "$tmp/shared" "$list"
    echo "$list: $(wc -l < "$list") symbols"
    exit
fi

# all_ours FILE: it has names, and each begins with ahead_.
all_ours()
{
    [ -s "$1" ] && ! grep -v '^ahead_' "$1"
}

rc=0; all_ours "$tmp/shared" || rc=1
verdict "the shared library exports what does not begin with ahead_, or nothing" $rc
rc=0; all_ours "$tmp/static" || rc=1
verdict "the static library defines what does not begin with ahead_, or nothing" $rc
rc=0; diff -u "$list" "$tmp/shared" || rc=1
verdict "the exported symbols differ from $list; if that is meant: $0 --update $shared $static" $rc

finish
