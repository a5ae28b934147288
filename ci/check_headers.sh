#!/bin/sh
# Every header compiles alone, as C17 and as C++17: embedders write C++ too.
set -eu
check() {
    flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -D_GNU_SOURCE -I. -Iharness/guest -include $1"
    # shellcheck disable=SC2086 # flags are words
    # A header of macros alone would leave the unit empty, which C forbids.
    echo 'struct empty;' | gcc -std=c17 -x c $flags - &&
        echo 'struct empty;' | g++ -std=c++17 -x c++ $flags -
}
if [ $# -eq 1 ]; then
    check "$1" || { echo "$1 does not compile alone" >&2; exit 1; }
    exit 0
fi
# The MPI adapter's own header needs an mpi.h, and is no header for others.
headers=$(git ls-files -- 'ddpcore/*.h' 'reference/*.h' 'harness/*.h' ':!harness/guest/mpi/*.h')
echo "$headers" | wc -l
echo "$headers" | xargs -n 1 -P "$(nproc)" sh "$0"
