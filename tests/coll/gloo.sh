#!/bin/sh
# Gloo's all-reduces under the checks of collectives that can only be run: right, and the trees show which algorithm ran.
# Usage: gloo.sh DDPROVE HEADERS OUT CXX
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/../cli/checks.sh"
ddprove=$1
headers=$2
cxx=$4
rm -rf "$3"
mkdir -p "$3" && cd "$3" || exit 1
echo '#include <gloo/allreduce.h>' >there.cc
"$cxx" -shared -fPIC -o there.so there.cc -lgloo 2>/dev/null || { echo "gloo is not installed (libgloo-dev)"; exit 77; }
"$cxx" -Wall -Wextra -Werror -shared -fPIC -I "$headers" -o gloo.so "$headers/example/gloo.cc" -lgloo || fail 'it is not compiled'

# rightly ALGORITHM TREE
rightly() {
    GLOO_ALLREDUCE=$1 "$ddprove" coll check ./gloo.so --worlds 2-5 --limit 100 >out 2>err </dev/null
    code=$?
    [ "$code" -eq 0 ] || fail "$1: exit $code: $(cat out err)"
    grep -qF "$2" out || fail "$1 adds in another tree: $(cat out)"
    # Nobody asked for it, and it is told: gloo ends the process.
    grep -qE 'rank . ended its process, though rank . asked for one element more' out || fail "$1: $(cat out)"
}
rightly ring 'elements 6 to 11: ((((0 4) 3) 2) 1)'
rightly bcube 'elements 10 to 14: ((((0 2) 1) 3) 4)'
echo "$failures failures"
test "$failures" -eq 0
