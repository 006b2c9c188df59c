#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_readme.sh - README shows every program of examples/, and quotes word for word.
#
# A quotation is a comment `<!-- examples/NAME -->` on a line of its own, and the next fenced block.
#
# usage: check_readme.sh SOURCE_ROOT
set -eu

cd "$1"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

fail()
{
    failed=$((failed + 1))
    echo "readme: FAILED: $1"
}

# The fenced block behind the comment that names a file.
quotation()
{
    awk -v comment="<!-- $1 -->" '
        $0 == comment { named = 1; next }
        named && !inside && /^```/ { inside = 1; next }
        inside && /^```/ { exit }
        inside { print }' README.md
}

for file in $(sed -n 's/^<!-- \(examples\/[^ ]*\) -->$/\1/p' README.md); do
    quotation "$file" > "$tmp/quoted"
    if diff -u "$file" "$tmp/quoted"; then
        passed=$((passed + 1))
    else
        fail "the quotation of $file differs"
    fi
done

# Each example is a program to be read, so each is quoted, or there is a link to it.
for file in examples/*.c; do
    [ -e "$file" ] || continue
    grep -qxF "<!-- $file -->" README.md || grep -qF "]($file)" README.md ||
        fail "$file is neither quoted nor linked to"
done

# Before there is an example the README has nothing to quote.
if [ $((passed + failed)) -eq 0 ]; then
    if ls examples/*.c > /dev/null 2>&1; then
        fail "no quotation was found"
    else
        passed=1
    fi
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
