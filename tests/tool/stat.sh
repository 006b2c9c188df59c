#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stat.sh - `ahead stat`: figures that add up, for people and for programs.
#
# usage: stat.sh AHEAD JSON_CHECK
set -eu
json_check=$(realpath "$2")
. "$(dirname "$0")/lib.sh"

megabytes 5 big
printf 'one\n' > one
: > empty
mkfifo fifo

# The checker is to be trusted.
for good in '{}' '{"a":1,"b":"\u00e9\"\\x"}' '[1,-2.5e3,true,null,{"a":[]}]'; do
    rc=0; printf '%s\n' "$good" | "$json_check" > /dev/null || rc=1
    verdict "$good is JSON" $rc
done
for bad in '' '{' '{"a":1,}' '{"a" 1}' '{a:1}' '{"a":01}' '{"a":"\x"}' '[1 2]' '{} {}' \
    "$(printf '"a\tb"')" "$(printf '"\377"')" "$(printf '"\300\200"')" '{"a":nan}' '"a'; do
    rc=0; printf '%s\n' "$bad" | "$json_check" > /dev/null 2>&1 && rc=1
    verdict "$bad is no JSON" $rc
done

# json NAME: the value of a member in out.
json()
{
    sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" out
}

# as_json WHAT ARGUMENT...: it succeeds and is JSON, on one line.
as_json()
{
    what=$1
    shift
    run stat --json "$@"
    is "$what: exit code" $code 0
    same "$what: standard error" err /dev/null
    rc=0
    "$json_check" < out || rc=1
    verdict "$what is JSON" $rc
    is "$what is a line" "$(wc -l < out)" 1
}

# ---- figures ----

# Small buffers: else a file that is read in a millisecond needs no second thread.
as_json "a file" --buffer 32K big
is "its bytes" "$(json bytes)" 5242880
is "its end" "$(json status)" EOF
is "its second thread" "$(json threads_started)" 1
is "its buffers" "$(json fills)" 160
is "its reads" "$([ "$(json source_reads)" -ge 160 ] && echo yes)" yes
is "its time" "$(($(json elapsed_ns) - $(json reader_work_ns) - $(json reader_getting_ns)))" 0
is "it took time" "$([ "$(json reader_work_ns)" -gt 0 ] && echo yes)" yes
as_json "no second thread" --sync big
is "then none was started" "$(json threads_started)" 0
is "then nobody was helped" "$(json helped_pieces)" 0
is "and all is read" "$(json bytes)" 5242880
as_json "a small file" one
is "it starts no thread" "$(json threads_started)" 0
is "its bytes are counted" "$(json bytes)" 4
as_json "an empty file" empty
is "it has no bottleneck" "$(json bottleneck)" neither
as_json "a range" --range 1M:2M big
is "its length is counted" "$(json bytes)" 2097152
(sleep 0.3; cat one) > fifo &
as_json "a slow pipe" fifo
is "its bottleneck is the source" "$(json bottleneck)" source
(sleep 0.3; cat big) > fifo &
as_json "a slow pipe as standard input" - < fifo
is "it is read through" "$(json bytes)" 5242880

name=$(printf 'a"b\\c\td\377e\303\251')
cp one "$name"
as_json "a name of all kinds" "$name"
matches "it is a string" out "$(printf '^\\{"file":"a\\\\"b\\\\\\\\c\\\\u0009d\\\\ufffde\303\251",')"

# ---- for people ----

run stat --buffer 32K big
is "as text: exit code" $code 0
matches "as text: size and rate" out \
    '^big: 5\.00 MiB in [0-9.]+ (us|ms|s), [0-9.]+ [KMG]iB/s$'
matches "as text: the reader's work" out \
    '^  reader         [0-9.]+ (us|ms|s) adding up the bytes \([0-9.]+ [KMG]iB/s\), [0-9.]+ (us|ms|s) getting them$'
matches "as text: the reader's waits" out '^  reader         waited [0-9]+ times, [0-9.]+ (ns|us|ms|s) in all$'
matches "as text: the second thread" out '^  second thread  waited [0-9]+ times, [0-9.]+ (ns|us|ms|s) in all$'
matches "as text: reads" out '^  source         [0-9]+ reads, [0-9]+ of them by the reader, to help$'
matches "as text: buffers" out '^  buffers        [0-9]+ filled, [0-9]+ used up, [0-9]+ early returns$'
matches "as text: the verdict" out '^  bottleneck     (neither|the source|the reader); '
is "it fits a screen" "$(awk 'length > 80' out)" ""
run stat --sync big
matches "without a second thread" out '^  second thread  not started$'
run stat empty
matches "an empty file" out '^empty: 0 B in '
matches "an empty file's verdict" out '^  bottleneck     neither; nothing was read$'

# ---- several files ----

run stat --json big missing - empty < one
is "several: exit code" $code 1
is "several: a line for each that could be opened" \
    "$(sed 's/^{"file":"\([^"]*\)","status":"EOF","bytes":\([0-9]*\),.*}$/\1 \2/' out | paste -sd ,)" \
    "big 5242880,- 4,empty 0"
rc=0; while read -r line; do printf '%s\n' "$line" | "$json_check" || rc=1; done < out
verdict "several: each line is JSON" $rc
is "several: standard error" "$(cat err)" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory"
run stat --progress one big
is "several: progress has their names" "$(sed 's/: .*//' err | paste -sd ,)" one,big

# ---- inputs that fail ----

expect "a missing file" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- stat missing
run stat --json --range 5242877:5 big
is "a cut range: exit code" $code 1
is "a cut range: what it had" "$(json bytes)" 3
is "a cut range: its end" "$(json status)" TRUNCATED
is "a cut range: standard error" "$(cat err)" \
    "ahead: big: TRUNCATED at input byte 5242880, after 3 bytes: in the input from byte 5242877 on: the range is of 5 bytes, but the file ends after 3 of them"

finish
