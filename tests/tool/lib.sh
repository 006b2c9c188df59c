# SPDX-License-Identifier: Apache-2.0
# lib.sh - what the scripts here share.  Sourced by sh; $1 is the program to be tested.

. "$(dirname "$0")/../lib.sh"
program=$(realpath "$1")
LC_ALL=C
export LC_ALL

cd "$tmp"

# is WHAT GOT WANTED
is()
{
    rc=0
    [ "$2" = "$3" ] || rc=1
    verdict "$1" $rc
    [ $rc -eq 0 ] || printf '  got    %s\n  wanted %s\n' "$2" "$3"
}

# same WHAT FILE WANTED: two files of the same bytes.
same()
{
    rc=0
    cmp "$2" "$3" || rc=1
    verdict "$1" $rc
}

# matches WHAT FILE REGEX: a line of the file does.
matches()
{
    rc=0
    grep -Eq "$3" "$2" || rc=1
    verdict "$1" $rc
    [ $rc -eq 0 ] || { echo "  no line matches $3"; sed 's/^/  /' "$2"; }
}

# run ARGUMENT...: the program, its output in out and err, its exit code in $code.
run()
{
    code=0
    "$program" "$@" > out 2> err || code=$?
}

# expect WHAT CODE FILE ERR -- ARGUMENT...: it ends with CODE, says what lies in FILE (empty: says
# nothing), and on standard error the line ERR (empty: nothing).
expect()
{
    what=$1 wanted_code=$2 wanted_out=$3 wanted_err=$4
    shift 5
    run "$@"
    is "$what: exit code" "$code" "$wanted_code"
    same "$what: output" out "${wanted_out:-/dev/null}"
    if [ -n "$wanted_err" ]; then printf '%s\n' "$wanted_err"; fi > wanted_err
    rc=0
    diff wanted_err err || rc=1
    verdict "$what: standard error" $rc
}

# until_line FILE REGEX: wait for such a line; 20 seconds, then it will not come.
until_line()
{
    tries=0
    until grep -Eq "$2" "$1" 2> /dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ]; then
            verdict "a line that matches $2" 1
            sed 's/^/  /' "$1"
            return
        fi
        sleep 0.1
    done
    verdict "a line that matches $2" 0
}

# megabytes N FILE: so much that does not repeat for a long time.
megabytes()
{
    seq 1000000 9999999 | head -c "$(($1 << 20))" > "$2"
}
