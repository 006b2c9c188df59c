#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shuffle.sh - `ahead spill` and `frames` in all their views; dictionaries, partitions, formats told.
#
# usage: shuffle.sh AHEAD JSON_CHECK DATA
set -eu
json_check=$(realpath "$2")
data=$(realpath "$3")
. "$(dirname "$0")/lib.sh"

for name in s-golden.spill s-plain.spill s-plain-cut.spill s-count-less.spill s-base.spill \
    c-flag-mixed.comet e-comet-zstd.comet e-comet-lz4.comet e-comet-lz4.index \
    e-spark-shuffle.lz4block e-spark-shuffle.index f-dict.bin f-dict-linked.lz4 f-hello.lz4; do
    cp "$data/$name" .
done
: > empty

# is_json WHAT: out is, on one line.
is_json()
{
    rc=0
    "$json_check" < out || rc=1
    verdict "$1 is JSON" $rc
    is "$1 is a line" "$(wc -l < out)" 1
}

# ---- spills ----

cat > wanted << 'END'
s-golden.spill: 2 of 2 records
  bytes     3, from 0 to 3 in a record
  prefixes  from -1 to 72623859790382856, not sorted
END
expect "a spill" 0 wanted "" -- spill s-golden.spill
tab=$(printf '\t')
printf '1\t72623859790382856\t3\t616263\n2\t-1\t0\t\n' > wanted
expect "a spill, dumped" 0 wanted "" -- spill --dump s-golden.spill
echo '{"file":"s-golden.spill","status":"EOF","count":2,"records":2,"bytes":3,"shortest_bytes":0,"longest_bytes":3,"least_prefix":-1,"greatest_prefix":72623859790382856,"sorted":false}' > wanted
expect "a spill as JSON" 0 wanted "" -- spill --json s-golden.spill
is_json "a spill"
printf '\0\0\0\0' > none
echo 'none: 0 of 0 records' > wanted
expect "no records" 0 wanted "" -- spill none
echo '{"file":"none","status":"EOF","count":0,"records":0,"bytes":0,"sorted":true}' > wanted
expect "no records as JSON" 0 wanted "" -- spill --json none
# Two records: prefix -1, then 0; no bytes.
printf '\0\0\0\2\0\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0\0\0\0\0' > sorted
cat > wanted << 'END'
sorted: 2 of 2 records
  bytes     0, from 0 to 0 in a record
  prefixes  from -1 to 0, sorted
END
expect "prefixes have a sign" 0 wanted "" -- spill sorted
tail -c +5 sorted > wanted
expect "a spill as it is" 0 wanted "" -- spill --raw sorted
expect "from standard input" 0 wanted "" -- spill --raw - < sorted
cat sorted none > trailing
run spill --raw trailing
is "bytes behind it: exit code" $code 1
same "bytes behind it: the records" out wanted
matches "bytes behind it: standard error" err '^ahead: trailing: CORRUPT, after 28 bytes: behind the last of 2 records'
expect "bytes behind it, as Spark reads" 0 wanted "" -- spill --compat --raw trailing
{
    run spill --compat --raw -
    cat > rest
} < trailing
same "what is behind it is left" rest none

run spill --raw s-plain.spill
cp out all
expect "a spill in LZ4Block, told by its first bytes" 0 all "" -- spill --raw s-base.spill
expect "a spill in LZ4Block, said to be" 0 all "" -- spill --raw --format lz4-block s-base.spill
run spill --raw --format lz4-block s-plain.spill
is "plain bytes said to be LZ4Block: exit code" $code 1
matches "plain bytes said to be LZ4Block: standard error" err \
    '^ahead: s-plain\.spill: CORRUPT at input byte 0, after 0 bytes: '
run spill --dump s-base.spill
is "a line for each record" "$(wc -l < out)" 40
is "with all of its bytes" "$(awk -F"$tab" 'length($4) != 2 * $3' out)" ""
run spill s-plain-cut.spill
is "a cut spill: exit code" $code 1
matches "a cut spill: its good records" out '^s-plain-cut\.spill: 7 of 40 records$'
is "a cut spill: one line" "$(wc -l < err)" 1
matches "a cut spill: standard error" err '^ahead: s-plain-cut\.spill: TRUNCATED, after [0-9]+ bytes: record 8 of 40'
expect "a missing spill" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- spill missing

# ---- frames ----

cat > wanted << 'END'
byte 0             3 fields  LZ4_, offsets as lengths  body of 467
byte 487           3 fields  LZ4_  body of 467
byte 974           3 fields  NONE, offsets as lengths  body of 785
c-flag-mixed.comet: 3 frames, 1719 bytes in their bodies
END
expect "frames" 0 wanted "" -- frames c-flag-mixed.comet
cp wanted listed
echo '{"file":"c-flag-mixed.comet","frames":[{"offset":0,"fields":3,"tag":"LZ4_","offsets_as_lengths":true,"body_bytes":467},{"offset":487,"fields":3,"tag":"LZ4_","offsets_as_lengths":false,"body_bytes":467},{"offset":974,"fields":3,"tag":"NONE","offsets_as_lengths":true,"body_bytes":785}],"status":"EOF","body_bytes":1719}' > wanted
expect "frames as JSON" 0 wanted "" -- frames --json c-flag-mixed.comet
is_json "frames"
echo '{"file":"empty","frames":[],"status":"EOF","body_bytes":0}' > wanted
expect "no frames as JSON" 0 wanted "" -- frames --json empty
tail -c +508 c-flag-mixed.comet | head -c 467 > wanted
expect "a frame of a range" 0 wanted "" -- frames --raw --range 487:487 c-flag-mixed.comet
"$program" cat wanted > decoded
expect "a frame, decoded" 0 decoded "" -- frames --decode --range 487:487 c-flag-mixed.comet
sed -n '2p' listed > wanted
echo 'c-flag-mixed.comet: 1 frames, 467 bytes in their bodies' >> wanted
expect "places are those in the file" 0 wanted "" -- frames --range 487:487 c-flag-mixed.comet
run frames --json --range 487:487 c-flag-mixed.comet
matches "places are those in the file, as JSON" out '"frames":\[\{"offset":487,'
run frames --decode c-flag-mixed.comet
is "frames with the flag, decoded: exit code" $code 0
is "frames with the flag, decoded: a note" "$(cat err)" \
    "ahead: c-flag-mixed.comet: 2 of 3 frames, the first at byte 0, have lengths where Arrow has offsets"
expect "a codec that is not here" 1 "" \
    "ahead: e-comet-zstd.comet: UNSUPPORTED at input byte 0, after 0 bytes: a ZSTD body cannot be decoded here" \
    -- frames --decode e-comet-zstd.comet
run frames --decode --raw e-comet-lz4.comet
cp out all
expect "--decode is raw" 0 all "" -- frames --decode e-comet-lz4.comet
run frames --fields 4 e-comet-lz4.comet
is "a field count that is met" $code 0
run frames --fields 5 e-comet-lz4.comet
is "a field count that is not" $code 1
matches "a field count that is not: standard error" err '^ahead: e-comet-lz4\.comet: CORRUPT at input byte 0, after 0 bytes: '
run frames --fields 5 --index e-comet-lz4.index --partition 2 e-comet-lz4.comet
at=$((0x$(od -An -tx1 -j 16 -N 8 e-comet-lz4.index | tr -d ' ')))
is "a fault in a partition: standard error" "$(cat err)" "ahead: e-comet-lz4.comet: CORRUPT at \
input byte $at, after 0 bytes: in the input from byte $at on: frame 1, at byte 0: it has 4 fields \
where 5 are expected"
: > parts
for i in 0 1 2 3; do
    run frames --decode --index e-comet-lz4.index --partition $i e-comet-lz4.comet
    is "partition $i of frames" $code 0
    cat out >> parts
done
same "the partitions are the whole" parts all

# ---- partitions ----

run cat e-spark-shuffle.lz4block
cp out all
: > parts
for i in 0 1 2 3 4 5 6 7 8; do
    for format in auto lz4-block; do
        run cat --format $format --index e-spark-shuffle.index --partition $i \
            e-spark-shuffle.lz4block
        is "partition $i as $format" $code 0
        same "partition $i as $format: standard error" err /dev/null
    done
    cat out >> parts
done
same "all partitions are the whole" parts all
expect "a partition that is not there" 2 "" \
    "ahead: cat: there is no partition 9: 'e-spark-shuffle.index' has 9, from 0; see ahead cat --help" \
    -- cat -o new --index e-spark-shuffle.index --partition 9 e-spark-shuffle.lz4block
is "then nothing was written" "$(ls new 2> /dev/null)" ""
cp out before
run cat --index e-spark-shuffle.index --partition 1 - < e-spark-shuffle.lz4block
cp out one
run cat --index e-spark-shuffle.index --partition 1 e-spark-shuffle.lz4block
same "a partition of standard input" out one
expect "an index that is not there" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- \
    cat --index missing --partition 0 e-spark-shuffle.lz4block
expect "a shuffle file that is not there" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- \
    cat --index e-spark-shuffle.index --partition 0 missing
expect "a shuffle file that is a directory" 1 "" \
    "ahead: .: IO, after 0 bytes: open: Is a directory" -- \
    cat --index e-spark-shuffle.index --partition 0 .

# broken_index NAME PLACE TEXT: the line for it; nothing is read.
broken_index()
{
    expect "$1" 1 "" "ahead: $data/$1: CORRUPT at input byte $2, after $2 bytes: $3" -- \
        cat --index "$data/$1" --partition 0 e-spark-shuffle.lz4block
}
broken_index e-index-cut.index 72 "an index of 77 bytes: no multiple of 8"
broken_index e-index-short.index 8 "an index of 8 bytes: fewer than two offsets"
broken_index e-index-back.index 32 "offset 4 of the index, 1, is below the one before it, 8526"
broken_index e-index-end.index 72 "the index ends at byte 14264 of a file of 14265"
broken_index e-index-first.index 0 "the first offset is 5, not 0"
broken_index e-index-neg.index 8 "offset 1 of the index, -1, is below the one before it, 0"
run cat --index "$data/e-index-past.index" --partition 6 e-spark-shuffle.lz4block
is "a partition that the file is too short for: exit code" $code 1
is "a partition that the file is too short for: its good bytes" "$(wc -c < out)" 5544
matches "a partition that the file is too short for: standard error" err \
    '^ahead: e-spark-shuffle\.lz4block: TRUNCATED at input byte [0-9]+, after 5544 bytes: '

# ---- ranges ----

printf 'Hello, World!' > hello
size=$(wc -c < f-hello.lz4)
{ printf 12345678; cat f-hello.lz4; printf xxxxxxxx; } > padded
expect "what is in the middle of a file" 0 hello "" -- cat --range "8:$size" padded
expect "its faults are told by their place in the file" 1 hello \
    "ahead: padded: CORRUPT at input byte $((8 + size)), after 13 bytes: in the input from byte 8\
 on: no LZ4 frame magic at input byte $size: expected 04224d18, found 78787878" -- \
    cat --range 8: padded
run stat --range 8: padded
matches "by stat as well" err "^ahead: padded: CORRUPT at input byte $((8 + size)), after 13 bytes:"
{ cat f-hello.lz4; printf xxxxxxxx; } > padded
expect "from the start there is no other place" 1 hello \
    "ahead: padded: CORRUPT at input byte $size, after 13 bytes: no LZ4 frame magic at input byte\
 $size: expected 04224d18, found 78787878" -- cat --range 0: padded
printf 'lo, World!' > wanted
expect "a range longer than its file" 1 wanted \
    "ahead: hello: TRUNCATED at input byte 13, after 10 bytes: in the input from byte 3 on: the\
 range is of 20 bytes, but the file ends after 10 of them" -- cat --range 3:20 hello

# ---- formats ----

expect "an LZ4 frame" 0 hello "" -- cat f-hello.lz4
cat f-hello.lz4 | {
    run cat
    is "an LZ4 frame in a pipe" "$(cat out)" 'Hello, World!'
    echo "$passed $failed" > counts
}
read -r passed failed < counts
expect "an LZ4 frame as it is" 0 f-hello.lz4 "" -- cat --format plain f-hello.lz4
cat hello hello > wanted
expect "each input has its own format" 0 wanted "" -- cat hello f-hello.lz4
run stat --json f-hello.lz4
matches "stat counts decoded bytes" out '"status":"EOF","bytes":13,'
{
    run cat
    cat > rest
} < f-hello.lz4
same "all of standard input was read" rest empty
head -c 20 f-hello.lz4 > cut
{
    run cat
    cat > rest
} < cut
is "a cut frame: exit code" $code 1
tail -c +8 cut > wanted
same "standard input is left at the fault" rest wanted
printf '\037\213\010' > gzip
expect "a format that is not decoded" 1 "" \
    "ahead: gzip: UNSUPPORTED at input byte 0, after 0 bytes: this is gzip, which is not decoded here" \
    -- cat gzip
expect "or as it is" 0 gzip "" -- cat --format plain gzip
run cat --format lz4-block empty
is "an empty file is no LZ4Block stream" $code 1
expect "Spark takes it for one" 0 "" "" -- cat --format lz4-block --compat empty

# ---- dictionaries ----

run cat --dict f-dict.bin f-dict-linked.lz4
is "a dictionary: exit code" $code 0
cp out wanted
{ megabytes 1 pad; cat pad f-dict.bin; } > long
expect "of a long one the end counts" 0 wanted "" -- cat --dict long f-dict-linked.lz4
run cat --dict pad f-dict-linked.lz4
is "another one will not do" $code 1
expect "a dictionary that is not there" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- \
    cat --dict missing f-dict-linked.lz4
expect "a dictionary that is a directory" 1 "" \
    "ahead: .: IO, after 0 bytes: open: Is a directory" -- cat --dict . f-dict-linked.lz4

finish
