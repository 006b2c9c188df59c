#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_readme.sh - README shows every program of examples/, and quotes word for word.
#
# A quotation is a comment `<!-- examples/NAME -->` on a line of its own, and the next fenced block.
#
# usage: check_readme.sh SOURCE_ROOT
set -eu

. "$(dirname "$0")/lib.sh"
cd "$1"
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
    check "the quotation of $file differs" diff -u "$file" "$tmp/quoted"
done

# Each example is a program to be read, so each is quoted, or there is a link to it.
for file in examples/*.c; do
    check "$file is neither quoted nor linked to" \
        grep -qF -e "<!-- $file -->" -e "]($file)" README.md
done

finish
