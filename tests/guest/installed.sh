#!/bin/sh
# A program that is built with the installed guest library, by pkg-config's file alone, is watched by the installed
# ddprove. Usage: installed.sh PREFIX TRAINER.C CC OUT
set -eu
prefix=$1 source=$2 cc=$3 out=$4
rm -rf "$out" && mkdir -p "$out"
file=$(find "$prefix" -name ddprove_guest.pc)
folder=$(dirname "$file")
# As pkg-config would say, which may not be installed.
flags=$(sed -n 's/^Cflags: //p; s/^Libs: //p' "$file" | tr '\n' ' ' | sed "s|\${libdir}|$folder/..|; s|\${includedir}|$prefix/include|")
examples=$(dirname "$(find "$prefix" -name star.h)")
# shellcheck disable=SC2086 # words
"$cc" -std=c17 -D_GNU_SOURCE "$source" "$examples/star.c" -I"$examples" -o "$out/trainer" $flags -Wl,-rpath,"$folder/.."
"$prefix/bin/ddprove" exec --ranks 3 -- "$out/trainer" 20
if "$prefix/bin/ddprove" exec --ranks 3 -- "$out/trainer" 20 count 1 5 2>"$out/said"; then
    echo "FAIL: a wrong count passes" && exit 1
fi
grep -q '^ddprove: MISMATCH.COUNT, rank 1' "$out/said" || { cat "$out/said" && exit 1; }
# The example in a second language, with the installed library.
example=$(find "$prefix" -name trainer.py)
[ -n "$example" ] || { echo "FAIL: no example is installed" && exit 1; }
if command -v python3 >/dev/null; then
    sh "$(dirname "$0")/python.sh" "$prefix/bin/ddprove" "$example" "$folder/../libddprove_guest.so.1"
fi
