#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# progress.sh - --progress: how far, how fast, how long still, and who waits for whom.
#
# usage: progress.sh AHEAD
set -eu
. "$(dirname "$0")/lib.sh"

size='[0-9.]+ ([KMG]i)?B'
ended="in [0-9.]+ (us|ms|s), $size/s"

megabytes 4 big
printf 'one\n' > one
mkfifo in out_fifo

# ---- how it ended ----

run cat --progress big
is "a file: exit code" $code 0
same "a file: its bytes" out big
matches "a file: how it ended" err "^4\.00 MiB $ended\$"
is "a file: nothing else" "$(wc -l < err)" 1
run stat --progress big
matches "stat: how it ended" err "^4\.00 MiB $ended\$"
run cat --progress one missing big
matches "several: the first" err "^one: 4 B $ended\$"
matches "several: the failure" err "^ahead: missing: IO, "
matches "several: the last" err "^big: 4\.00 MiB $ended\$"
is "several: nothing else" "$(wc -l < err)" 3
long=more_than_thirty_characters_a_name
cp one $long
run cat --progress $long one
matches "a long name is cut" err "^\.\.\.an_thirty_characters_a_name: 4 B $ended\$"
run cat big
same "nobody asked" err /dev/null
(printf x; sleep 2) > in &
run stat in
is "nobody asked, and it takes long: exit code" $code 0
same "nobody asked, and it takes long" err /dev/null

# ---- while it goes on ----

"$program" cat --progress in > out 2> err &
pid=$!
exec 3<> in
printf 'x' >&3
until_line err "^1 B  $size/s  waiting for input\$"
exec 3>&-
rc=0
wait $pid || rc=$?
is "a stalled input: exit code" $rc 0
matches "a stalled input: how it ended" err "^1 B $ended\$"

"$program" cat --progress big > out_fifo 2> err &
pid=$!
exec 4< out_fifo
head -c 1000000 <&4 > got
until_line err "^$size of 4\.00 MiB  [0-9]+ %  ETA 0:0[0-9]  $size/s  waiting for output\$"
cat <&4 >> got
exec 4<&-
rc=0
wait $pid || rc=$?
is "a stalled output: exit code" $rc 0
same "a stalled output: its bytes" got big

# ---- on a terminal ----

# on_terminal COMMAND: a shell's command, all of its descriptors on a terminal, what that shows in
# `screen`.
on_terminal()
{
    script -qec "$1" /dev/null < /dev/null | tr '\r' '\n' | sed 's/ *$//' > screen
}

if command -v script > /dev/null; then
    on_terminal "'$program' stat one"
    matches "what takes no time" screen '^one: 4 B in'
    is "is not worth a line" "$(grep -cE "^4 B $ended" screen)" 0
    on_terminal "(printf x; sleep 2) | '$program' stat -"
    matches "it is shown unasked" screen "^1 B  $size/s  waiting for input\$"
    matches "and how it ended" screen "^1 B $ended\$"
    on_terminal "(printf x; sleep 2) | '$program' cat -o new"
    matches "also when a file is written" screen "^1 B  $size/s  waiting for input\$"
    on_terminal "(printf x; sleep 2) | '$program' cat | cat"
    is "but not over another program's screen" "$(grep -c waiting screen)" 0
    on_terminal "stty cols 20; (printf x; sleep 2) | '$program' cat -o new"
    is "and it stays within the columns" "$(awk 'length > 19' screen)" ""
    matches "what there is room for" screen "^1 B  "
else
    echo "no script(1), no terminal: left out"
fi

finish
