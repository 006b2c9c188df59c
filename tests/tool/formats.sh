#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# formats.sh - every file of tests/data through `ahead`, and what its manifest says of it.
#
# usage: formats.sh AHEAD JSON_CHECK DATA
set -eu
json_check=$(realpath "$2")
data=$(realpath "$3")
. "$(dirname "$0")/lib.sh"
cd "$data" # names as the manifest has them
out=$tmp/out err=$tmp/err

# option KEY: its value in $options; empty: it is not there.
option()
{
    case ",$options" in
    *",$1="*)
        value=",$options"
        value=${value#*",$1="}
        value=${value%%,*}
        ;;
    *) value= ;;
    esac
}

# add_option KEY NAME: the row's option KEY is option NAME of the program.
add_option()
{
    option "$1"
    [ -z "$value" ] || arguments="$arguments $2 $value"
}

# arguments_of_row: the command of the row in $arguments; its file comes behind it.
arguments_of_row()
{
    case $format in
    plain | lz4-frame | lz4-block)
        arguments="cat --format $format"
        add_option max_block --max-block
        add_option dict --dict
        add_option dict_id --dict-id
        ;;
    spill)
        option inner
        arguments="spill --raw --format ${value:-lz4-block}"
        add_option max_record --max-record
        ;;
    comet)
        option decode
        arguments="frames --raw${value:+ --decode}"
        add_option fields --fields
        add_option max_frame --max-frame
        ;;
    esac
    add_option index --index
    add_option partition --partition
}

# judge_line: whether the line on standard error is that of the row.  What was delivered is
# counted in bytes of the stream, headers and all: only for cat are they those of the output.
# An index that is wrong is the file at fault, after some bytes of its own.
judge_line()
{
    place= after='*' name=$file
    [ "$offset" = - ] || place=" at input byte $offset"
    [ "${arguments%% *}" != cat ] || after=$bytes
    option index
    [ -z "$value" ] || place=' at input byte *'
    [ -z "$value" ] || [ "$status" != CORRUPT ] || name=$value after='*'
    line=
    read -r line < "$err" || true
    [ "$(wc -l < "$err")" -eq 1 ] || return 1
    case $line in
    "ahead: $name: $status"$place", after "$after" bytes: "?*) return 0 ;;
    esac
    return 1
}

# judge: whether the last command has done what the row says.
judge()
{
    sum=$(sha256sum < "$out")
    [ "$(wc -c < "$out")" -eq "$bytes" ] || return 1
    [ "${sum%% *}" = "$sha256" ] || return 1
    if [ "$status" = EOF ]; then
        [ $code -eq 0 ] || return 1
        [ ! -s "$err" ] || grep -q 'frames, the first at byte .* have lengths' "$err" || return 1
    else
        [ $code -eq 1 ] || return 1
        judge_line || return 1
    fi
}

# try ARGUMENT...: the program, and the row's verdict.
try()
{
    code=0
    "$program" "$@" > "$out" 2> "$err" || code=$?
    rc=0
    judge || rc=1
    verdict "ahead $*: $status, $bytes bytes, offset $offset: $note" $rc
    [ $rc -eq 0 ] || sed "s/^/  exit code $code: /" "$err"
}

# member NAME: the value of a member in $out.
member()
{
    sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

# elements COUNT ARGUMENT...: as JSON, so many records or frames.
elements()
{
    wanted=$1
    shift
    "$program" "$@" > "$out" 2> "$err" || true
    rc=0
    "$json_check" < "$out" || rc=1
    [ "$(member status)" = "$status" ] || rc=1
    case $1 in
    spill) [ "$(member records)" = "$wanted" ] || rc=1 ;;
    frames) [ "$(grep -o '"offset":' "$out" | wc -l)" -eq "$wanted" ] || rc=1 ;;
    esac
    verdict "ahead $*: $status and $wanted elements as JSON" $rc
}

# A row in one mode; $arguments are its command.
try_mode()
{
    try $arguments "$file"
    case $arguments in
    spill*) elements "${note##*records=}" spill --json ${arguments#* --raw} "$file" ;;
    *--decode*) ;;
    frames*) elements "${note##*frames=}" frames --json ${arguments#* --raw} "$file" ;;
    esac
}

# What is sound is told by its first bytes, and counted by stat.
try_sound()
{
    automatic=${arguments#*--format }
    automatic=${automatic#* }
    [ "$automatic" != "$format" ] || automatic=
    try cat $automatic "$file"
    "$program" stat --json $automatic "$file" > "$out" 2> "$err" || true
    is "ahead stat $automatic $file: bytes" "$(member bytes)" "$bytes"
}

# The decoder of the format's authors.
try_lz4()
{
    option dict
    rc=0
    lz4 -dc ${value:+-D "$value"} "$file" > "$tmp/lz4_out" 2> "$err" || rc=1
    "$program" cat ${value:+--dict "$value"} "$file" > "$out" || rc=1
    cmp "$tmp/lz4_out" "$out" || rc=1
    verdict "ahead cat $file is lz4 -dc $file" $rc
    compared=$((compared + 1))
}

have_lz4=$(command -v lz4) || echo "skipped: to compare with lz4, which is not installed"
compared=0 rows=0
tab=$(printf '\t')
while IFS=$tab read -r file format mode status bytes sha256 offset options note; do
    [ "$file" != file ] || continue
    rows=$((rows + 1))
    arguments_of_row
    case $format,$mode in
    plain,* | comet,*) try_mode ;;
    *,compat)
        arguments="$arguments --compat"
        try_mode
        ;;
    *)
        try_mode
        if [ "$status" = EOF ] && [ "$format" != spill ]; then
            try_sound
            [ "$format,${have_lz4:+yes}" != lz4-frame,yes ] || try_lz4
        fi
        # Without a row of its own, compat gives the same.
        if ! grep -q "^$file$tab$format${tab}compat$tab.*$tab$options$tab" MANIFEST.tsv; then
            arguments="$arguments --compat"
            try_mode
        fi
        ;;
    esac
done < MANIFEST.tsv
is "rows of all formats were tried" "$([ $rows -ge 421 ] && echo yes)" yes
[ -z "$have_lz4" ] || is "files were compared with lz4" "$([ $compared -ge 50 ] && echo yes)" yes

cd "$tmp"
finish
