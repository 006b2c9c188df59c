#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# race.sh - `ahead bench` and `ahead demo`: every way comes to the same, and what fails says so.
#
# usage: race.sh AHEAD JSON_CHECK
set -eu
json_check=$(realpath "$2")
. "$(dirname "$0")/lib.sh"

megabytes 3 big
printf 'seven b' > odd
: > empty
mkfifo fifo

# ---- bench ----

for file in big odd empty; do
    run bench --rounds 2 "$file"
    is "bench $file: exit code" $code 0
    same "bench $file: standard error" err /dev/null
    for way in 'one thread' 'reading ahead' 'read\(2\)' 'mapping' 'getc_unlocked'; do
        matches "bench $file has $way" out "^  $way +[0-9.]+ [mnu]?s "
    done
done
run bench --rounds 2 --json big
is "bench --json: exit code" $code 0
rc=0; "$json_check" < out || rc=1
verdict "bench --json is JSON" $rc
matches "bench --json: bytes" out '"bytes":3145728,"rounds":2,"ways":\[\{"way":"one thread","elapsed_ns":[0-9]+,'

# Of a part, and of what is decoded, there are two ways.
run bench --rounds 1 --range 5:1001 big
is "bench of a range: exit code" $code 0
is "bench of a range: ways" "$(grep -c CPU out)" 2
run demo --rounds 1 --size 1M .
is "nothing is left of a demo" "$(echo ahead-demo-*)" 'ahead-demo-*'

expect_usage() # WORDS ARGUMENT...
{
    words=$1
    shift
    run "$@"
    is "$*: exit code" $code 2
    matches "$*: says why" err "$words"
}
expect_usage 'takes one FILE' bench
expect_usage 'takes one FILE' bench big odd
expect_usage 'cannot be' bench -
expect_usage 'one of the ways' bench --sync big
expect_usage '1 to 99' bench --rounds 0 big
expect_usage '1 to 99' bench --rounds 100 big
expect_usage 'one DIR' demo . .
expect_usage '1M to 16G' demo --size 1K
run bench missing
is "bench of nothing: exit code" $code 1
matches "bench of nothing: says so" err '^ahead: missing: .*No such file'
"$program" bench fifo 2> err & pid=$!
: > fifo
rc=0; wait $pid || rc=$?
is "bench of a pipe: exit code" $rc 1
matches "bench of a pipe: says why" err 'no regular file'

# A fault in the file is one line, and ends it.
printf 'LZ4Block\026' > bad
run bench bad
is "bench of a bad file: exit code" $code 1
is "bench of a bad file: lines" "$(wc -l < err)" 1
matches "bench of a bad file: says why" err '^ahead: bad: TRUNCATED '

# ---- demo ----

run demo --rounds 1 --size 2M .
is "demo: exit code" $code 0
same "demo: standard error" err /dev/null
for way in 'write, alone' 'write behind' 'read, alone' 'read ahead'; do
    matches "demo has '$way'" out "^  $way +[0-9.]+ [mnu]?s "
done
matches "demo says what reading ahead saved" out 'Reading ahead saved'
run demo --rounds 1 --size 1M no/such/folder
is "demo in no folder: exit code" $code 1
matches "demo in no folder: says so" err '^ahead: no/such/folder: .*No such file'
run demo --rounds 1 --size 1M "$(printf '%04200d' 0)"
is "demo in a folder of too many letters: exit code" $code 1
matches "demo in a folder of too many letters: says so" err 'too long$'
code=0
(ulimit -f 1; trap '' XFSZ; exec "$program" demo --rounds 1 --size 1M . > out 2> err) || code=$?
is "demo without room: exit code" $code 1
matches "demo without room: says why" err '^ahead: \.: IO.*: write.*File too large$'
"$program" demo --rounds 99 . > out 2> err & pid=$!
while kill -0 $pid && ! find /proc/$pid/fd -lname '*ahead-demo-*' -exec test -s {} \; -print 2> /dev/null |
    grep -q .; do :; done
kill $pid
rc=0; wait $pid || rc=$?
is "demo that is ended: exit code" $rc 143
is "nothing is left of a demo that is ended" "$(echo ahead-demo-*)" 'ahead-demo-*'

# ---- plots ----

run bench --rounds 1 --plot p.svg big
if command -v gnuplot > /dev/null; then
    is "bench --plot: exit code" $code 0
    matches "a plot is SVG" p.svg '<svg'
    run demo --rounds 1 --size 1M --plot "it's.svg" .
    is "demo --plot: exit code" $code 0
    matches "a demo's plot has its ways" "it's.svg" 'read ahead'
else
    echo "SKIPPED: plots, as gnuplot is not installed"
fi
run bench --rounds 1 --plot no/such/p.svg big
is "a plot to nowhere: exit code" $code 1
is "a plot to nowhere: lines" "$(wc -l < err)" 1
expect_usage 'takes a file' bench --plot - big
expect_usage 'takes a file' demo --plot - .
cp big input
expect_usage 'is the output as well' bench --plot input input
same "a plot does not replace what was read" input big
code=0
PATH=/nowhere "$program" bench --rounds 1 --plot none.svg odd > out 2> err || code=$?
is "no gnuplot: exit code" $code 1
matches "no gnuplot: says so" err '^ahead: none.svg: .*gnuplot, which is not installed$'
is "no gnuplot: lines" "$(wc -l < err)" 1
is "no gnuplot: no file" "$(ls none.svg 2> /dev/null)" ""

finish
