#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# completion.sh - what bash offers behind `ahead`.
#
# usage: completion.sh AHEAD COMPLETION
set -eu

if ! command -v bash > /dev/null; then
    echo "SKIPPED: bash is not installed"
    exit 77
fi
. "$(dirname "$0")/../lib.sh"
ahead=$(realpath "$1") completion=$2

# offers CHOICES WORD...: behind these words, the last of which is being typed.
offers()
{
    want=$1
    shift
    # shellcheck disable=SC2016
    got=$(bash -euc '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _ahead; echo "${COMPREPLY[@]-}"' \
        bash "$completion" "$ahead" "$@")
    rc=0
    [ "$got" = "$want" ] || rc=1
    verdict "ahead $*: got '$got', want '$want'" $rc
}

offers "cat" c
offers "stat spill" s
offers "--help --version" --
offers "--partition --progress" cat --p
offers "--range" stat --json --ra
offers "lz4-frame lz4-block" cat --format lz
offers "" cat some-file
offers "" nonsense --x

# Each command, and each of its options.
for command in $("$ahead" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    offers "$command" "$command"
    for option in $("$ahead" "$command" --help | sed -n 's/^  \(--[a-z-]*\) .*/\1/p'); do
        # shellcheck disable=SC2016
        offers "$("$ahead" "$command" --help | grep -o -e "$option[a-z-]*" | sort -u | paste -sd ' ')" \
            "$command" "$option"
    done
done

finish && [ "$passed" -gt 20 ]
