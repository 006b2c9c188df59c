#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# merge.sh - `ahead merge`: what sort(1) says, in one pass and in many; and what it leaves when it fails.
#
# usage: merge.sh AHEAD DATA
set -eu
data=$(realpath "$2")
. "$(dirname "$0")/lib.sh"

# spill BYTE PREFIX...: a plain spill of records that hold BYTE, each with one of these prefixes, 0
# to 255.
spill()
{
    byte=$1
    shift
    {
        printf '\0\0%b' "$(printf '\\0%o\\0%o' $(($# / 256)) $(($# % 256)))"
        for prefix; do
            printf '\0\0\0\1\0\0\0\0\0\0\0%b' "$(printf '\\0%o\\0%o' "$prefix" "$byte")"
        done
    }
}

# sorted FILE...: their records, by prefix, those of the same one in the order of the files.
sorted()
{
    for file; do
        "$program" spill --dump "$file" | cut -f 2-
    done | sort -s -n -k 1,1
}

# merges WHAT WANTED FILE... with $options: into that, in LZ4Block.
merges()
{
    what=$1 wanted=$2
    shift 2
    rm -f merged
    run merge $options -o merged "$@"
    is "$what: exit code" $code 0
    same "$what: standard output" out /dev/null
    same "$what: standard error" err /dev/null
    is "$what: LZ4Block" "$(head -c 8 merged)" LZ4Block
    "$program" spill --dump merged | cut -f 2- > got
    same "$what" got "$wanted"
}

# A third of them in LZ4Block, some empty, with many equal prefixes.
files=
for i in $(seq 1 60); do
    prefixes=$(awk -v i="$i" 'BEGIN { srand(i); n = i % 7; for (k = p = 0; k < n; k++)
        print p += int(rand() * 30) }')
    spill "$i" $prefixes > "in$i"
    files="$files in$i"
done
options=
for i in 3 6 9 30 33 57; do
    "$program" merge -o packed "in$i"
    mv packed "in$i"
done

sorted in1 > wanted
merges "one file" wanted in1
sorted in6 in5 > wanted
merges "two files" wanted in6 in5
sorted in6 in6 > wanted
merges "a file with itself" wanted in6 in6
sorted $files > all
merges "sixty files" all $files
for open in 2 3 4 8 30 59 60 61; do
    for buffer in "" "--buffer 64"; do
        options="--open $open $buffer --threads 2 --budget 100K"
        merges "sixty files, $options" all $files
    done
done
options="--budget 1"
merges "no memory to speak of" all $files
mkdir folder
run merge --open 2 -o folder/merged $files
"$program" spill --dump folder/merged | cut -f 2- > got
same "in a folder" got all
is "no other file was left there" "$(ls -A folder)" merged
run merge -o - in6 in5
same "to standard output: standard error" err /dev/null
cp out piped
"$program" merge -o merged in6 in5
same "to standard output" piped merged
run merge -o merged - in5 < in6
same "from standard input" merged piped
run merge -o merged "$data/e-spark-spill.spill"
is "a spill of Spark: exit code" $code 0
sorted "$data/e-spark-spill.spill" > wanted
"$program" spill --dump merged | cut -f 2- > got
same "a spill of Spark" got wanted

# ---- what fails ----

# fails WHAT LINE -- ARGUMENT...: with that line, and leaves no file but perhaps OUT.
fails()
{
    what=$1 line=$2
    shift 3
    ls -A > before
    run merge -o bad "$@"
    is "$what: exit code" $code 1
    matches "$what: standard error" err "^$line"
    is "$what: one line" "$(wc -l < err)" 1
    rm -f bad
    ls -A > after
    same "$what: nothing is left" after before
}
touch before after

spill 7 1 2 3 4 > good
head -c 40 good > cut
spill 7 3 2 > unsorted
cat good in1 > trailing
for open in 2 256; do
    options="--open $open"
    fails "a missing file" "ahead: missing: IO, after 0 bytes: open: No such file" -- \
        $options good in5 missing
    fails "a cut file" "ahead: cut: TRUNCATED, after 30 bytes: record 3 of 4" -- \
        $options good cut in5
    fails "an unsorted file" "ahead: unsorted: CORRUPT, after 17 bytes: record 2, at byte 17: not sorted" -- \
        $options good in5 unsorted
    fails "bytes behind the records" "ahead: trailing: CORRUPT, after 56 bytes: behind the last" -- \
        $options trailing in5 in6
    fails "no spill at all" "ahead: text: TRUNCATED, after 4 bytes: record 1 of" -- \
        $options good in5 "$(echo 'a text is no spill' > text; echo text)"
done
rm -f text
run merge -o kept good cut
is "the records in front of it are there" \
    "$("$program" spill --dump kept 2> /dev/null | cut -f 2,4 | tr '\n\t' ' -')" "1-07 1-07 2-07 2-07 "
if [ -e /dev/full ]; then
    run merge -o /dev/full $files
    is "no space: exit code" $code 1
    matches "no space: standard error" err '^ahead: /dev/full: IO, after [0-9]+ bytes: .*No space'
fi
cp good out_too
for name in out_too ./out_too; do
    expect "the output is an input" 2 "" \
        "ahead: merge: 'out_too' is the output as well; see ahead merge --help" -- \
        merge -o $name good out_too
done
same "it is as it was" out_too good

expect "standard input twice" 2 "" \
    "ahead: merge: standard input, -, is there 2 times; see ahead merge --help" -- \
    merge -o twice - in5 -
is "nothing was written of it" "$(ls twice 2> /dev/null)" ""

# 2 times 1200000000 records: more than there is a number for.
printf '\107\206\214\0' > huge
printf 'kept' > before
cp before large
run merge -o large huge huge
is "too many records: exit code" $code 1
matches "too many records" err '^ahead: large: LIMIT, after 0 bytes: 2400000000 records are more'
same "then OUT is as it was" large before

# Nobody reads it.
(trap '' PIPE; "$program" merge -o - $files 2> err_pipe || echo $? > pipe_code) | true
is "a broken pipe is no failure to be told" "$(cat err_pipe)" ""

# Killed in the middle: its files have no names.
mkfifo never
(cd folder && exec "$program" merge --open 2 -o late ../in1 ../in2 ../never) &
pid=$!
sleep 0.3
kill -9 $pid
wait $pid 2> /dev/null || true
is "killed, it leaves nothing" "$(ls -A folder)" merged

finish
