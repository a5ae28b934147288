#!/bin/sh
# Libraries with NCCL's functions by their path, under the checks of collectives that can only be run: the example plug-in with
# the stand-in for NCCL passes, and each library that is wrong in one way fails in the property that is meant to see it.
# Usage: nccl.sh DDPROVE HEADERS BROKEN OUT CC NCCL CUDART
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/../cli/checks.sh"
ddprove=$1
headers=$2
broken=$3
cc=$5
DDPROVE_CUDART=$7
NCCL_BEHIND=$6
DDP_STANDIN_CARDS=4
export DDPROVE_CUDART NCCL_BEHIND DDP_STANDIN_CARDS
rm -rf "$4"
mkdir -p "$4" && cd "$4" || exit 1
"$cc" --version >/dev/null 2>&1 || { echo "there is no compiler $cc"; exit 77; }
"$cc" -Wall -Wextra -Werror -shared -fPIC -I "$headers" -o nccl.so "$headers/example/nccl.c" || fail 'it is not compiled'

# judged WHAT CODE PROPERTIES WORLDS LIMIT: with the library in DDPROVE_NCCL it fails in those properties alone; -: in none.
judged() {
    "$ddprove" coll check ./nccl.so --worlds "$4" --limit "$5" --json "$1.json" >out 2>err </dev/null
    code=$?
    failed=$(python3 -c '
import json, sys
doc = json.load(open(sys.argv[1]))
print(" ".join(p["name"] for p in doc["properties"] if p["state"] == "FAIL") or "-")' "$1.json")
    echo "$1: $failed"
    [ "$code" -eq "$2" ] || fail "$1: exit $code, not $2: $(cat out err)"
    [ "$failed" = "$3" ] || fail "$1 fails in $failed, not in $3: $(cat out err)"
}

DDPROVE_NCCL=$6
export DDPROVE_NCCL
judged whole 0 - 2-3 30
grep -qE '^  tells_death +PASS' out || fail "a death is not told: $(cat out)"
grep -qE '^  reopens +PASS' out || fail "after an abort there is no new one: $(cat out)"
# The plug-in aborts a communicator with a dead rank, too.
while read -r what limit properties; do
    "$cc" -w -DWHAT="$what" -shared -fPIC -o "$what.so" "$broken"
    DDPROVE_NCCL=$PWD/$what.so
    judged "$what" 1 "$properties" 2 "$limit"
done <<'END'
TAIL 20 exact
MAXIMUM 20 types
DEAF 5 tells_death aborts
END

# No library is no crash.
DDPROVE_NCCL=./nothing.so
ends 1 coll check ./nccl.so --worlds 2 --limit 20
grep -q 'open returned 2' out || fail "it does not say that there is no library: $(cat out err)"
echo "$failures failures"
test "$failures" -eq 0
