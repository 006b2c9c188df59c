#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_install.sh - what is installed is whole, and a program finds it by pkg-config, by CMake and
# as a subproject of meson.
#
# usage: check_install.sh SOURCE_ROOT BUILD_ROOT MESON CC...
set -eu
. "$(dirname "$0")/lib.sh"

source=$1 build=$2 meson=$3
shift 3
cc=$*

# adds_up PROGRAM: it is the first example, and runs.
printf '\0\0\0\1\0\0\0\2' > "$tmp/two"
adds_up()
{
    [ "$(LD_LIBRARY_PATH=$lib "$1" "$tmp/two")" = "2 integers, sum 3" ]
}

DESTDIR=$tmp/root "$meson" install -C "$build" --no-rebuild --quiet > "$tmp/out" 2>&1 || {
    cat "$tmp/out"
    exit 1
}
lib=$(dirname "$(find "$tmp/root" -name libahead.so)")
include=$(dirname "$(find "$tmp/root" -path '*/ahead/ahead.h')")
prefix=$(dirname "$(dirname "$include")")

for file in "$source"/include/ahead/*; do
    check "header $file" cmp "$file" "$include/$(basename "$file")"
done
for file in "$source"/docs/man/*.[13]; do
    check "page $file" cmp "$file" "$prefix/share/man/man${file##*.}/$(basename "$file")"
done
missing=
while read -r name; do
    [ -e "$prefix/share/man/man3/$name.3" ] || missing="$missing $name"
done < "$source/tests/abi/symbols.txt"
check "no page by the name of$missing" [ -z "$missing" ]
for file in "$prefix/share/man/man3/ahead_stream.3" "$lib/libahead.a" "$prefix/share/bash-completion/completions/ahead"; do
    check "$file" test -f "$file"
done
check "the program runs" env LD_LIBRARY_PATH="$lib" "$prefix/bin/ahead" stat "$tmp/two"

version=$(sed -n 's/^Version: //p' "$lib/pkgconfig/ahead.pc")
grep -m 1 '^## ' "$source/NEWS.md" > "$tmp/news"
check "NEWS is of this version" grep -q "^## $version\( \|\$\)" "$tmp/news"
head -n 1 "$source/debian/changelog" > "$tmp/changelog"
check "the Debian packages have this version" grep -q "^libahead ($version)" "$tmp/changelog"
so=$(sed -n 's/^Package: libahead\([0-9][0-9]*\)$/\1/p' "$source/debian/control")
check "the library that they are named for" test -e "$lib/libahead.so.$so"
check "the version of its symbols" grep -qx "AHEAD_$so {" "$source/lib/ahead.map"
check "the version of its symbols, of the package" \
    grep -q "^libahead.so.$so libahead$so " "$source/debian/libahead$so.symbols"

# pkg-config; and the static library, with what it depends on.
PKG_CONFIG_LIBDIR=$lib/pkgconfig:$(pkg-config --variable pc_path pkg-config)
PKG_CONFIG_SYSROOT_DIR=
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs ahead)
check "a program by pkg-config" \
    $cc -O1 "$source/examples/01_sum_i32.c" -o "$tmp/by-pkg-config" $flags
check "... runs" adds_up "$tmp/by-pkg-config"
if command -v c++ > /dev/null; then
    cat > "$tmp/sum.cc" << 'END'
#include <ahead/ahead.hpp>
#include <iostream>

int main(int, char **argv)
{
    ahead::stream s(ahead::source::path(argv[1]));
    std::int64_t count = 0, sum = 0;

    for (std::int32_t v; s.read_i32_be(v); count++)
        sum += v;
    std::cout << count << " integers, sum " << sum << std::endl;
}
END
    check "a program in C++" c++ -std=c++17 -O1 "$tmp/sum.cc" -o "$tmp/by-c++" $flags
    check "... runs" adds_up "$tmp/by-c++"
else
    echo "SKIPPED: there is no C++ compiler"
fi
flags=$(pkg-config --define-variable=prefix="$prefix" --static --cflags --libs ahead |
    sed 's/-lahead/-l:libahead.a/')
check "a program with the static library" \
    $cc -O1 "$source/examples/01_sum_i32.c" -o "$tmp/static" $flags
lib=/nowhere check "... runs by itself" adds_up "$tmp/static"
lib=$(dirname "$(find "$tmp/root" -name libahead.so)")

# CMake.
if command -v cmake > /dev/null; then
    mkdir "$tmp/cmake"
    cp "$source/examples/01_sum_i32.c" "$tmp/cmake"
    cat > "$tmp/cmake/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(ahead 0.1 REQUIRED)
add_executable(shared 01_sum_i32.c)
target_link_libraries(shared ahead::ahead)
add_executable(static 01_sum_i32.c)
target_link_libraries(static ahead::static)
END
    check "CMake finds it" cmake -S "$tmp/cmake" -B "$tmp/cmake/build" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$1"
    check "CMake builds with it" cmake --build "$tmp/cmake/build"
    check "the shared one runs" adds_up "$tmp/cmake/build/shared"
    check "the static one runs" adds_up "$tmp/cmake/build/static"
    # As on a system whose /lib is a link to /usr/lib.
    mkdir "$tmp/merged"
    ln -s "$prefix/lib" "$tmp/merged/lib"
    check "CMake finds it by a link" cmake -S "$tmp/cmake" -B "$tmp/cmake/linked" \
        -DCMAKE_PREFIX_PATH="$tmp/merged" -DCMAKE_C_COMPILER="$1"
    check "CMake builds with it by a link" cmake --build "$tmp/cmake/linked"
    sed 's/ahead 0.1/ahead 9.1/' "$tmp/cmake/CMakeLists.txt" > "$tmp/CMakeLists.txt"
    mkdir "$tmp/cmake9"
    mv "$tmp/CMakeLists.txt" "$tmp/cmake9"
    check "CMake refuses another version" sh -c "! cmake -S '$tmp/cmake9' -B '$tmp/cmake9/build' \
        -DCMAKE_PREFIX_PATH='$prefix' && grep -q 0.1.0 '$tmp/said'"
else
    echo "SKIPPED: cmake is not installed"
fi

# A subproject: of another project only the library is needed.
mkdir -p "$tmp/super/subprojects"
ln -s "$(realpath "$source")" "$tmp/super/subprojects/ahead"
cp "$source/examples/01_sum_i32.c" "$tmp/super"
cat > "$tmp/super/meson.build" << 'END'
project('super', 'c')
executable('consumer', '01_sum_i32.c',
  dependencies: dependency('ahead', fallback: ['ahead', 'ahead_dep']))
END
PKG_CONFIG_LIBDIR=$(pkg-config --variable pc_path pkg-config | tr ':' '\n' | grep -v local | paste -sd :)
check "as a subproject: setup" env CC="$cc" "$meson" setup --wrap-mode=forcefallback \
    --buildtype=plain "$tmp/super/build" "$tmp/super"
check "as a subproject: build" "$meson" compile -C "$tmp/super/build" consumer
check "as a subproject: run" adds_up "$tmp/super/build/consumer"

finish
