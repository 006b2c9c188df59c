#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_example.sh - a program of examples/ does what it is shown for, and fails as it should.
#
# usage: check_example.sh NAME PROGRAM
#
# Each example has a function here of its name, with an x in front.
set -eu
. "$(dirname "$0")/lib.sh"

name=$1 program=$(realpath "$2") # meson says it from the build folder
root=$(realpath "$(dirname "$0")/..")
data=$root/tests/data
cd "$tmp"

# run RC STDOUT STDERR ARGUMENT...: the exit code, all of the output, a part of the complaint.
run()
{
    rc=$1 out=$2 err=$3
    shift 3
    got=0; "$program" "$@" > out 2> err || got=$?
    echo "$out" > want
    [ -n "$out" ] || : > want
    if [ "$got" -eq "$rc" ] && cmp -s out want &&
        if [ -n "$err" ]; then grep -qF -- "$err" err; else ! [ -s err ]; fi; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name: FAILED: $*: exit code $got, want $rc; output and complaint:"
        sed 's/^/    /' out err
    fi
}

x01_sum_i32()
{
    # 1, -1, 2147483647, 16909060, -2147483648
    printf '\0\0\0\1\377\377\377\377\177\377\377\377\1\2\3\4\200\0\0\0' > few
    run 0 "5 integers, sum 16909059" "" few
    : > empty
    run 0 "0 integers, sum 0" "" empty
    # More than any buffer, and something to be missed behind it.
    { head -c 16777216 /dev/zero; printf '\0\0\0\7'; } > many
    run 0 "4194305 integers, sum 7" "" many
    printf '\0\0\0\11\0\0' > cut
    run 1 "1 integers, sum 9" "cut: TRUNCATED, after 4 bytes" cut
    run 1 "" "missing: No such file or directory" missing
    mkdir folder
    run 1 "" "folder: Is a directory" folder
    run 2 "" "usage:"
}

x02_spark_spill()
{
    run 0 "1000 of 1000 records, 40000 bytes, the longest 40" "" "$data/e-spark-spill.spill"
    run 0 "1000 of 1000 records, 40000 bytes, the longest 40" "" "$data/e-spark-spill-plain.spill"
    run 1 "630 of 1000 records, 25200 bytes, the longest 40" \
        "TRUNCATED: record 631 of 1000, at byte 32764" "$data/e-spark-spill-cut.spill"
    run 1 "" "missing: No such file or directory" missing
}

# frame FILE: it as an LZ4 frame, in one block that is stored as it is.
frame()
{
    size=$(wc -c < "$1")
    printf '\004\042\115\030\140\100\202' # 64 KiB, independent, no checksums
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o\\%03o\\000\\200' $((size % 256)) $((size / 256)))"
    cat "$1"
    printf '\0\0\0\0'
}

x03_existing_parser()
{
    printf 'a,1\nb,2.5\nno value\nc,3' > few
    run 0 "3 lines, sum 6.5" "" few
    awk 'BEGIN { for (i = 1; i <= 4000; i++) printf "name%d,%d\n", i, i }' > table
    frame table > one
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat one; done > table.lz4
    run 0 "64000 lines, sum 1.28032e+08" "" table.lz4
    head -c -4 one > cut.lz4 # all of the block, without an end
    run 1 "4000 lines, sum 8.002e+06" "cut.lz4: Bad message" cut.lz4
    run 1 "" "missing: No such file or directory" missing
}

x04_gzip_source()
{
    awk 'BEGIN { for (i = 1; i <= 300000; i++) printf "line %d, %d\n", i, i * i % 7919 }' > text
    gzip -c text > text.gz
    run 0 "300000 lines, $(wc -c < text) bytes" "" text.gz
    # Members one behind the other, the last without an end of line.
    { cat text.gz; printf 'end' | gzip -c; } > two.gz
    run 0 "300001 lines, $(($(wc -c < text) + 3)) bytes" "" two.gz
    : > empty
    run 0 "0 lines, 0 bytes" "" empty
    # What can be had of a file that is cut is what gzip gets out of it, less a line without an end.
    head -c 500000 text.gz > cut.gz
    gzip -dc cut.gz > whole 2> /dev/null || :
    lines=$(wc -l < whole)
    run 1 "$lines lines, $(head -n "$lines" whole | wc -c) bytes" \
        "cut.gz: TRUNCATED, after $(wc -c < whole) bytes: gzip: the input ends in the middle" cut.gz
    run 1 "0 lines, 0 bytes" "text: CORRUPT, after 0 bytes: gzip: incorrect header check" text
    run 1 "" "missing: No such file or directory" missing

    # It is said to take less than 60 lines.
    lines=$(sed -n '/^\/\* ---- the source/,/^\/\* ---- its use/p' "$root/examples/$name.c" | wc -l)
    rc=0; [ "$lines" -gt 20 ] && [ "$lines" -lt 60 ] || rc=1
    verdict "the source takes $lines lines" $rc
}

x05_merge_spills()
{
    # A count, then records: length, prefix, bytes.
    printf '\0\0\0\2\0\0\0\1\377\377\377\377\377\377\377\377x\0\0\0\2\0\0\0\0\0\0\0\5xy' > a
    printf '\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\7' > b
    run 0 "-1 1 a
5 2 a
5 0 b
7 0 b" "" a b
    run 0 "" "" "$data/s-0-32k.spill"
    head -c 20 a > cut
    run 1 "-1 1 cut" "cut: TRUNCATED: input 0: record 2 of 2" cut b
    printf '\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\4' > unsorted
    run 1 "5 0 unsorted" "unsorted: CORRUPT: input 0" unsorted
    run 1 "" "missing: No such file or directory" a missing
    # Those of Spark: all records, in order.
    "$program" "$data/e-spark-spill.spill" "$data/e-spark-spill-plain.spill" > merged
    cut -d ' ' -f 1 merged > prefixes
    sort -n prefixes > sorted
    rc=0; [ "$(wc -l < merged)" -eq 2000 ] && cmp prefixes sorted || rc=1
    verdict "spills of Spark in order" $rc
}

x06_push_queue()
{
    awk 'BEGIN { for (i = 1; i <= 100000; i++) printf "line %d\n", i }' > text
    # Longer than a buffer, and a last one without an end.
    { head -c 70000 /dev/zero | tr '\0' x; printf '\nend'; } >> text
    run 0 "" "" text p0 p1 p2 p3
    # Nothing is lost or doubled, and a partition keeps the order.
    sort text > want
    for part in p0 p1 p2 p3; do sed '$a\' $part; done | sort > got
    rc=0; cmp got want || rc=1
    verdict "every line is somewhere" $rc
    for part in p0 p1 p2 p3; do
        rc=0; [ -s $part ] && grep '^line' $part | sort -c -k 2n || rc=1
        verdict "$part has lines, in order" $rc
    done
    [ ! -e /dev/full ] || run 1 "" "IO: " text p0 p1 p2 /dev/full
    run 1 "" "missing: No such file or directory" missing p0 p1 p2 p3
    run 2 "" "usage:"
}

# waits_for_input PID: it blocks signals, sleeps, and has no byte in front of it that it could read.
waits_for_input()
{
    grep -q '^SigBlk:.*4202$' "/proc/$1/status" && grep -q '^State:.S' "/proc/$1/status" &&
        [ -e "/proc/$1/task" ] && [ "$(ls "/proc/$1/task" | wc -l)" -ge 2 ]
}

x07_cancel_on_signal()
{
    printf 'hello' > five
    run 0 "EOF after 5 bytes" "" < five
    run 0 "EOF after 0 bytes" "" < /dev/null
    run 1 "" "standard input: Is a directory" < .
    mkfifo pipe
    for signal in INT TERM; do
        exec 3<> pipe # a writer, who says little
        printf 'hello' >&3
        # In the background a shell has SIGINT ignored, and then nobody can wait for it.
        env --default-signal=INT "$program" < pipe > out 2> err 3>&- &
        reader=$!
        tries=0
        until waits_for_input $reader || [ $tries -gt 500 ]; do
            tries=$((tries + 1))
            sleep 0.02
        done
        kill -$signal $reader
        rc=0; wait $reader || rc=$?
        exec 3>&-
        rc=$((rc != 0))
        [ "$(cat out err)" = "CANCELLED after 5 bytes" ] || rc=1
        verdict "SIG$signal: $(cat out err)" $rc
    done
}

"x$name"

finish
