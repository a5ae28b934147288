#!/bin/sh
# What `ddprove new guest` of an installation writes is a project that builds with it, and whose tests pass.
# Usage: new_guest.sh PREFIX OUT CMAKE CTEST GENERATOR CC
set -eu
prefix=$1 out=$2 cmake=$3 ctest=$4 generator=$5 cc=$6
rm -rf "$out" && mkdir -p "$out" && cd "$out"
"$prefix/bin/ddprove" new guest project >said
grep -q '^next: cmake -S project' said
"$cmake" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" -S project -B build >configured
"$cmake" --build build >built
"$ctest" --test-dir build --no-tests=error --output-on-failure >tested || { cat tested && exit 1; }
grep -q '100% tests passed, 0 tests failed out of 4' tested || { cat tested && exit 1; }
# Nothing is overwritten, and nothing else can be made.
refused() { # WORDS ARGUMENTS...
    words=$1 code=0
    shift
    "$prefix/bin/ddprove" new "$@" >said 2>&1 || code=$?
    { [ "$code" -eq 2 ] && grep -q "$words" said; } || { echo "FAIL new $*: exit $code: $(cat said)" && exit 1; }
}
refused "is there already" guest project
refused "say what" guest
refused "say what" trainer other
refused "say what"
