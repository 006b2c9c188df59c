#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cat.sh - `ahead cat`: every byte, every failure in its line, and the rest all the same.
#
# usage: cat.sh AHEAD
set -eu
. "$(dirname "$0")/lib.sh"

megabytes 5 big
printf 'one\n' > one
printf 'two\n' > two
: > empty
cat one two > one_two
mkdir directory
mkfifo fifo

# ---- bytes ----

expect "a file" 0 big "" -- cat big
expect "a small file" 0 one "" -- cat one
expect "an empty file" 0 "" "" -- cat empty
expect "files behind each other" 0 one_two "" -- cat one empty two
for size in 1 7 4K 1M; do
    expect "a buffer of $size" 0 one "" -- cat --buffer $size one
done
expect "a small buffer" 0 big "" -- cat --buffer 4097 big
expect "no second thread" 0 big "" -- cat --sync big
cat /proc/version > version
expect "a file whose size says nothing" 0 version "" -- cat /proc/version

cat big > fifo &
expect "a pipe as a file" 0 big "" -- cat fifo
cat big > fifo &
expect "a pipe as standard input" 0 big "" -- cat < fifo
cat two > fifo &
expect "a pipe among files" 0 one_two "" -- cat one - < fifo
expect "standard input is read once" 0 one "" -- cat - - < one
{
    run cat
    run cat
} < one
same "standard input is left where the reading ended" out empty
{
    dd bs=1 count=2 of=/dev/null 2> /dev/null
    run cat
} < one
printf 'e\n' > rest
same "standard input is read from where it stands" out rest

# ---- ranges ----

tail -c +1001 big | head -c 3000000 > part
expect "a range" 0 part "" -- cat --range 1000:3000000 big
tail -c +2097153 big | head -c 65536 > part
expect "a range with units" 0 part "" -- cat --range 2M:64K big
tail -c +5000001 big > part
expect "a range to the end" 0 part "" -- cat --range 5000000: big
expect "a range of nothing" 0 "" "" -- cat --range 5:0 big
expect "a range that begins behind the end" 0 "" "" -- cat --range 6M: big
printf 'ne' > part
expect "a range of standard input" 0 part "" -- cat --range 1:2 - < one
tail -c 3 big > part
expect "a range that the file does not have" 1 part \
    "ahead: big: TRUNCATED at input byte 5242880, after 3 bytes: in the input from byte 5242877 on: the range is of 5 bytes, but the file ends after 3 of them" \
    -- cat --range 5242877:5 big

# ---- inputs that fail ----

expect "a missing file, and the others" 1 one_two \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- cat one missing two
expect "a directory, and the others" 1 one_two \
    "ahead: directory: IO, after 0 bytes: open: Is a directory" -- cat one directory two
expect "a directory as standard input" 1 "" \
    "ahead: -: IO, after 0 bytes: open: Is a directory" -- cat < directory
run cat /proc/self/mem one
is "a read that fails: exit code" $code 1
same "a read that fails: the next file" out one
matches "a read that fails: standard error" err \
    '^ahead: /proc/self/mem: IO at input byte 0, after 0 bytes: read of [0-9]+ bytes at offset 0: Input/output error$'
expect "a name that is not printable" 1 "" \
    'ahead: a\012b\033[m: IO, after 0 bytes: open: No such file or directory' -- \
    cat "$(printf 'a\nb\033[m')"
run cat - one <&-
is "standard input that is closed: exit code" $code 1
same "standard input that is closed: the next file" out one
matches "standard input that is closed: standard error" err \
    '^ahead: -: IO, after 0 bytes: open: Bad file descriptor$'

finish
