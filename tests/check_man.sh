#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_man.sh - ahead(1) has each command and each option of the program; the pages of section 3 have
# each function, and none that is not there; all are well-formed where mandoc is there to say so.
#
# usage: check_man.sh SOURCE_ROOT AHEAD PAGE...
#
# Each PAGE is made from a header.
set -eu
. "$(dirname "$0")/lib.sh"

root=$1 ahead=$2
shift 2
page=$root/docs/man/ahead.1
overview=$root/docs/man/libahead.3

commands=$("$ahead" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    check "ahead.1 does not have $command" grep -q "^\\.Cm $command\$" "$page"
    for option in $("$ahead" "$command" --help | grep -o -e '--[a-z][a-z-]*' | sort -u); do
        check "ahead.1 does not have $option of $command" \
            grep -Eq -e "Fl -?${option#-}|[|] ${option#-}( |\$)" "$page"
    done
done

# What is exported, and what the pages are about: the same, each in one page.
symbols=$root/tests/abi/symbols.txt
sed -n 's/^\.Nm \([^ ]*\).*/\1/p' "$@" | LC_ALL=C sort > "$tmp/named"
check "functions without a page, or names without a function" diff "$symbols" "$tmp/named"
sed -n 's/^\.Fo \(.*\)/\1/p; s/^\.Vt ".* \(.*\)"/\1/p' "$@" | LC_ALL=C sort > "$tmp/prototypes"
check "functions without a prototype, or the other way round" diff "$symbols" "$tmp/prototypes"

# A function that is spoken of exists, or is a function of a table or of the system.
sed -n 's/^\.Fn[ (]* \(ahead_[a-z0-9_]*\).*/\1/p' "$@" "$overview" | LC_ALL=C sort -u > "$tmp/said"
LC_ALL=C comm -23 "$tmp/said" "$symbols" > "$tmp/unknown"
check "functions that are not there: $(paste -sd ' ' "$tmp/unknown")" test ! -s "$tmp/unknown"

# No page is missing in the overview, and no link leads nowhere.
printf '%s\n' "$@" ahead.1 libahead.3 | sed 's,.*/,,; s/\./ /' | LC_ALL=C sort -u > "$tmp/pages"
for name in "$@"; do
    name=$(basename "$name" .3)
    check "libahead.3 does not have $name" grep -qx "\\.It Xr $name 3" "$overview"
done
sed -n 's/^\.\(It \)*Xr \([^ ]*ahead[^ ]* [13]\).*/\2/p' "$@" "$overview" "$page" |
    LC_ALL=C sort -u > "$tmp/links"
LC_ALL=C comm -23 "$tmp/links" "$tmp/pages" > "$tmp/unknown"
check "pages that are not there: $(paste -sd ' ' "$tmp/unknown")" test ! -s "$tmp/unknown"

# Pages that are not installed are not found; which of ours there are is looked at above.
lint()
{
    ! mandoc -Tlint -Wstyle "$1" 2> /dev/null | grep -v 'referenced manual not found'
}

if command -v mandoc > /dev/null; then
    for file in "$page" "$overview" "$@"; do
        check "$file is not well-formed" lint "$file"
    done
else
    echo "SKIPPED: mandoc is not installed"
fi

finish
