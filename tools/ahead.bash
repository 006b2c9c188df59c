# SPDX-License-Identifier: Apache-2.0
# ahead.bash - completion of ahead(1) for bash.  What there is, the program's own --help says; where
# nothing is said here, bash completes file names.

_ahead()
{
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-} word=${COMP_WORDS[COMP_CWORD]} choices=

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        choices="$("$program" --help 2> /dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p') --help --version"
    elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = --format ]; then
        choices="auto plain lz4-frame lz4-block"
    elif [ "${word:0:1}" = - ]; then
        choices=$("$program" "$command" --help 2> /dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u)
    fi
    [ -z "$choices" ] || mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -o default -F _ahead ahead
