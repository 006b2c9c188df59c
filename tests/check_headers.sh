#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_headers.sh - each public header alone, twice over, as C11 and as C++17 (.hpp: that alone), for
# strict users.
#
# usage: check_headers.sh INCLUDE_DIR CC... -- CXX...
set -eu

. "$(dirname "$0")/lib.sh"
include=$1
shift
cc=
while [ "$1" != -- ]; do cc="$cc $1"; shift; done
shift
cxx=$*

for header in "$include"/ahead/*.h; do
    name=ahead/$(basename "$header")
    {
        echo '#undef _GNU_SOURCE'
        echo "#include <$name>"
        echo "#include <$name>" # its guard
    } > "$tmp/alone.c"
    strict="-O2 -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -pedantic -Werror -I$include \
        -c -o $tmp/alone.o"
    check "$name as C11" $cc -std=c11 $strict -x c "$tmp/alone.c"
    check "$name as C++17" $cxx -std=c++17 $strict -x c++ "$tmp/alone.c"
    [ "$name" = ahead/ahead.h ] ||
        check "$name is in ahead.h" grep -q "^#include <$name>" "$include/ahead/ahead.h"
done

for header in "$include"/ahead/*.hpp; do
    name=ahead/$(basename "$header")
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" > "$tmp/alone.cc"
    check "$name as C++17" $cxx -std=c++17 $strict "$tmp/alone.cc"
done

finish
