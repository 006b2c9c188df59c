# SPDX-License-Identifier: Apache-2.0
# lib.sh - what the scripts here share.  Sourced by bash, in the root of the project.

# Where everything is built; each stage of scripts/test has a folder below it.
out=${AHEAD_BUILD:-build}

# Debian's names of what it takes to build the library and the tool.
build_packages="gcc libc6-dev meson ninja-build pkg-config liblz4-dev libxxhash-dev"

die()
{
    echo "${0##*/}: $*" >&2
    exit 1
}

# need PACKAGE...: have these packages installed.  On a system without apt it is up to the user;
# what is missing then shows when it is called.
need()
{
    local missing=() as_root=()

    command -v apt-get > /dev/null || return 0
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo > /dev/null || die "as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

# configure FOLDER OPTION...: a build folder with these options, new or not.  The compiler is that
# of the environment (CC, CXX).
configure()
{
    local folder=$1 again=()

    shift
    [ ! -e "$folder/build.ninja" ] || again=(--reconfigure)
    meson setup "${again[@]}" "$folder" "$@"
}
