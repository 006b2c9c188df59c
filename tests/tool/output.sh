#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# output.sh - where `ahead cat` writes to: complete or reported, and never into what it reads.
#
# usage: output.sh AHEAD
set -eu
. "$(dirname "$0")/lib.sh"

megabytes 3 big
cp big copy
printf 'one\n' > one
printf '\0\0\0\2\0\0\0\3\1\2\3\4\5\6\7\10abc\0\0\0\0\377\377\377\377\377\377\377\377' > two
for i in 1 2 3; do
    printf '\17\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0NONEabc'
done > three
ln big hard_link
ln -s big symbolic_link

# ---- -o ----

expect "a new file" 0 "" "" -- cat -o new big
same "a new file has all" new big
expect "an old file" 0 "" "" -- cat big one -o new
cat big one > both
same "an old file is replaced" new both
expect "a shorter one" 0 "" "" -- cat -o new one
same "nothing is left of the old file" new one
expect "- is standard output" 0 one "" -- cat -o - one
expect "nothing can be opened" 1 "" \
    "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- cat -o new missing
same "then the old file stays" new one
expect "a directory" 1 "" "ahead: .: IO, after 0 bytes: open: Is a directory" -- cat -o . one

# ---- never an input ----

for name in big hard_link symbolic_link ./big; do
    expect "$name is read" 2 "" "ahead: cat: 'big' is the output as well; see ahead cat --help" -- \
        cat -o $name one big
    same "$name stays as it was" big copy
done
code=0
"$program" cat big one >> one 2> err || code=$?
is "standard output, appended to: exit code" $code 2
is "standard output, appended to" "$(cat one)" one
is "standard output, appended to: standard error" "$(cat err)" \
    "ahead: cat: 'one' is the output as well; see ahead cat --help"
code=0
"$program" cat < one >> one 2> err || code=$?
is "standard input and output: exit code" $code 2
for command in spill frames; do
    printf 'one\n' > one
    code=0
    "$program" $command --raw one >> one 2> err || code=$?
    is "$command, appended to what it reads: exit code" $code 2
    is "$command, appended to what it reads" "$(cat one)" one
done
expect "an input that only the output makes" 1 "" \
    "ahead: born: INVALID, after 0 bytes: this is the output as well" -- cat -o born one born one
cat one one > both
same "the others are written" born both
expect "a device may be both" 0 "" "" -- cat -o /dev/null /dev/null

# ---- several inputs ----

for call in "spill --raw two" "spill --dump two" "spill --json two" "frames --raw three" \
    "frames --decode three" "frames --json three"; do
    file=${call##* }
    "$program" $call > once
    cat once once > both
    expect "$call, twice" 0 both "" -- $call "$file"
    expect "$call, and what is missing" 1 both \
        "ahead: missing: IO, after 0 bytes: open: No such file or directory" -- \
        ${call% *} "$file" missing "$file"
done

# ---- outputs that fail ----

expect "a full device" 1 "" \
    "ahead: /dev/full: IO, after 0 bytes: write: No space left on device" -- \
    cat -o /dev/full big one
for command in "spill two" "spill --json two" "spill --dump two" "spill --raw two" "spill --help" \
    "frames three" "frames --json three" "frames --raw three" "frames --decode three" \
    "frames --help" "cat big" "cat --help" "stat big" "stat --json big" --help --version; do
    code=0
    "$program" $command > /dev/full 2> err || code=$?
    is "$command, full: exit code" $code 1
    is "$command, full: standard error" "$(cat err)" \
        "ahead: standard output: IO, after 0 bytes: write: No space left on device"
done
code=0
(
    trap '' XFSZ
    ulimit -f 8 # of 512 bytes
    "$program" cat -o limited big 2> err
) || code=$?
is "a limit: exit code" $code 1
is "a limit: standard error" "$(cat err)" "ahead: limited: IO, after $(stat -c %s limited) bytes: write: File too large"
head -c "$(stat -c %s limited)" big > part
same "a limit: the bytes that fit" limited part
is "a limit: some fit" "$([ -s limited ] && echo yes)" yes
code=0
"$program" cat one >&- 2> err || code=$?
is "a closed output: exit code" $code 1
is "a closed output: standard error" "$(cat err)" \
    "ahead: standard output: IO, after 0 bytes: write: Bad file descriptor"

# What is opened must not become standard error.
code=0
"$program" cat -o new one missing 2>&- || code=$?
is "no standard error: exit code" $code 1
same "no standard error: the output" new one

# ---- an output that takes a little at a time ----

mkfifo slow
cat slow > got &
exec 4> slow
dd if=/dev/null oflag=nonblock >&4 2> /dev/null # stays set for all who share it
code=0
"$program" cat big one >&4 2> err || code=$?
exec 4>&-
wait
is "an output that does not block: exit code" $code 0
same "an output that does not block: standard error" err /dev/null
cat big one > both
same "an output that does not block: its bytes" got both

# ---- a reader that goes away ----

{
    code=0
    "$program" cat big 2> err || code=$?
    echo $code > code
} | head -c 1 > /dev/null
is "a broken pipe: exit code" "$(cat code)" 141
same "a broken pipe is quiet" err /dev/null
(
    trap '' PIPE
    code=0
    "$program" cat big 2> err || code=$?
    echo $code > code
) | head -c 1 > /dev/null
is "a broken pipe, and SIGPIPE ignored: exit code" "$(cat code)" 141
same "a broken pipe, and SIGPIPE ignored, is quiet" err /dev/null
mkfifo fifo
for command in "stat one" "spill two" "spill --dump two" "spill --raw two" "frames --json many" \
    "frames many" "frames --raw many"; do
    if [ ! -e many ]; then
        for i in 1 2 3 4 5 6 7 8 9 10; do cat three three three three; done > few
        cat few few few few few few few few few few > many
    fi
    (
        trap '' PIPE
        exec 3<> fifo 4> fifo 3<&- # nobody reads it now
        code=0
        "$program" $command >&4 2> err || code=$?
        echo $code > code
    )
    is "a broken pipe of $command: exit code" "$(cat code)" 141
    same "a broken pipe of $command is quiet" err /dev/null
done

finish
