#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage.sh - a wrong call is 2 and one line that says how to make it right; help fits a screen.
#
# usage: usage.sh AHEAD VERSION
set -eu
. "$(dirname "$0")/lib.sh"
version=$2

printf 'one\n' > one
mkfifo fifo

# wrong COMMAND TEXT -- ARGUMENT...: nothing but that line.  COMMAND may be empty.
wrong()
{
    line="ahead: ${1:+$1: }$2; see ahead ${1:+$1 }--help"
    shift 3
    expect "ahead $*" 2 "" "$line" -- "$@"
}

wrong "" "there is no command" --
wrong "" "there is no command 'frob'" -- frob one
wrong "" "there is no command '--frob'" -- --frob
for command in cat stat; do
    wrong $command "there is no option --frob" -- $command --frob one
    wrong $command "there is no option -x" -- $command -x one
    wrong $command "--buffer needs a value" -- $command one --buffer
    wrong $command "--sync=1 takes no value" -- $command --sync=1 one
    for size in "" 0 x 1T 1k -1 1.5M 1KK K 1025M 99999999999999999999; do
        wrong $command "--buffer takes a size from 1 to 1G, as 256K, not '$size'" -- \
            $command --buffer "$size" one
    done
    for range in "" 1 : :1 a:1 1:a 1:-1 1:1:1 9223372036854775807:1 16G:17179869183G \
        9223372036854775808: 8589934592G:0; do
        wrong $command "--range takes START:LEN or START:, as 1M:64K, not '$range'" -- \
            $command --range "$range" one
    done
    wrong $command "--range needs a file that can be sought, and 'fifo' is none" -- \
        $command --range 0:1 fifo
    wrong $command "--range needs a file that can be sought, and '-' is none" -- \
        $command --range 0:1 - < /dev/null
    for format in "" lz4 LZ4-FRAME gzip; do
        wrong $command "--format takes auto, plain, lz4-frame or lz4-block, not '$format'" -- \
            $command --format "$format" one
    done
    for size in "" 0 x 1025M; do
        wrong $command "--max-block takes a size from 1 to 1G, as 256K, not '$size'" -- \
            $command --max-block "$size" one
    done
    for id in "" 0 x 1K -1 4294967296; do
        wrong $command "--dict-id takes a number from 1 to 4294967295, not '$id'" -- \
            $command --dict one --dict-id "$id" one
    done
    wrong $command "--dict-id needs --dict" -- $command --dict-id 1 one
done
for command in cat stat frames; do
    for number in "" x 1K -1 2147483648; do
        wrong $command "--partition takes a number from 0 to 2147483647, not '$number'" -- \
            $command --index one --partition "$number" one
    done
    wrong $command "--index needs --partition" -- $command --index one one
    wrong $command "--partition needs --index" -- $command --partition 0 one
    wrong $command "--range and --index exclude each other" -- \
        $command --index one --partition 0 --range 0:1 one
    wrong $command "--index needs a file that can be sought, and 'fifo' is none" -- \
        $command --index one --partition 0 fifo
done
for command in cat stat frames; do
    wrong $command "--index is that of one FILE" -- $command --index one --partition 0 one one
done
for command in spill frames; do
    wrong $command "there is no option --buffer" -- $command --buffer 1K one
    wrong $command "there is no option -o" -- $command -o out one
    wrong $command "it takes FILEs, - for standard input" -- $command
done
for format in "" lz4-frame comet; do
    wrong spill "--format takes auto, plain or lz4-block, not '$format'" -- \
        spill --format "$format" one
done
for size in "" 0 2G; do
    wrong spill "--max-record takes a size from 1 to 2147483647, as 256K, not '$size'" -- \
        spill --max-record "$size" one
done
for views in "--json --raw" "--raw --dump" "--dump --json"; do
    wrong spill "--json, --dump and --raw exclude each other" -- spill $views one
done
for size in "" 3 2G; do
    wrong frames "--max-frame takes a size from 4 to 2147483647, as 256K, not '$size'" -- \
        frames --max-frame "$size" one
done
for number in "" x 1K -1 2147483648; do
    wrong frames "--fields takes a number from 0 to 2147483647, not '$number'" -- \
        frames --fields "$number" one
done
wrong frames "--json excludes --raw and --decode" -- frames --json --raw one
wrong frames "--json excludes --raw and --decode" -- frames --decode --json one
wrong merge "it needs -o OUT" -- merge one
wrong merge "it takes FILEs to be merged" -- merge -o out
for size in "" 0 16385G; do
    wrong merge "--budget takes a size from 1 to 16384G, as 256K, not '$size'" -- \
        merge --budget "$size" -o out one
done
for number in "" 0 1025 1K; do
    wrong merge "--threads takes a number from 1 to 1024, not '$number'" -- \
        merge --threads "$number" -o out one
done
for number in "" 1 1000001; do
    wrong merge "--open takes a number from 2 to 1000000, not '$number'" -- \
        merge --open "$number" -o out one
done
wrong merge "there is no option --json" -- merge --json -o out one
wrong cat "-o needs a value" -- cat one -o
wrong cat "there is no option --json" -- cat --json one
wrong stat "there is no option -o" -- stat -o out one
wrong stat "it takes FILEs, - for standard input" -- stat
wrong cat "--range needs a file that can be sought, and 'fifo' is none" -- \
    cat --range 0:1 -o new one fifo
is "nothing was written" "$(ls new 2> /dev/null)" ""

# What looks like an option and is none.
cp one ./--frob
expect "behind --" 0 one "" -- cat -- --frob

for command in "" cat stat spill frames merge bench demo; do
    run $command --help
    is "ahead $command --help: exit code" $code 0
    same "ahead $command --help: standard error" err /dev/null
    is "ahead $command --help fits a screen" \
        "$(awk 'length > 80 { wide++ } END { print (NR > 0 && NR <= 24 && !wide) }' out)" 1
    matches "ahead $command --help says how" out "^usage: ahead ${command:-COMMAND} "
done
for command in cat stat spill frames merge bench demo; do
    matches_help=$("$program" --help | grep -c "^  $command ") || true
    is "ahead --help lists $command" "$matches_help" 1
done
echo "ahead $version" > wanted
expect "the version" 0 wanted "" -- --version

finish
