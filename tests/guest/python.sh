#!/bin/sh
# A program in a second language, which shows itself through the C library by ctypes: watched, and with faults armed.
# Skipped (77) without Python. Usage: python.sh DDPROVE TRAINER.PY LIBRARY
set -u
ddprove=$1 trainer=$2
export DDPROVE_GUEST_LIBRARY="$3"
failures=0
command -v python3 >/dev/null || { echo "skipped: python3 is not installed" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect CODE WORDS COMMAND...: it ends with this code and says a line with these words (a pattern).
expect() {
    code=$1 words=$2
    shift 2
    "$@" >"$folder/said" 2>&1
    got=$?
    if [ "$got" -ne "$code" ] || ! grep -q -- "$words" "$folder/said"; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/said" "$ranks"
        failures=$((failures + 1))
    fi
}
# What ranks say goes elsewhere: it comes in pieces, between which ddprove may say something.
export ranks="$folder/ranks"
: >"$ranks"
# shellcheck disable=SC2086,SC2016 # words; the ranks' shells look at the rest
watched() {
    expect "$1" "$2" "$ddprove" exec --ranks 3 --limit 5 --prove sums -- sh -c 'exec "$@" 2>>"$ranks"' sh python3 "$trainer" 500 $3
}
watched 0 "^ddprove: results of 4[0-9][0-9] calls judged; [0-9]* not judged: rounding" ""
# It dies between two calls: the next one is named at once, or as soon as another rank comes to it.
watched 1 "^ddprove: .*rank 2 was ended by SIGKILL, step 7, before posting all_reduce 8 of world" "kill 2 7"
watched 1 "^ddprove: MISMATCH.COUNT, rank 1: .*(8 f32, sum) in step 5.*(16 f32, sum)" "count 1 5"
watched 1 "^ddprove: MISMATCH.MISSING, rank 2: .*step 8.*step 7" "skip 2 7"
armed() { # WORDS FAULT EXPECT
    cat >"$folder/python.yaml" <<YAML
# A fault in a Python program.
id: any.python
job: {guest: {}, ranks: 3, steps: 500}
faults: [{at: {rank: 1, step: 12}, point: $2}]
expect: {verdict: $3, culprit: injected, step: 12, op: {comm: world, kind: all_reduce}}
YAML
    expect 0 "^PASS .*$1  *rank 1  step 12" \
        "$ddprove" exec "$folder/python.yaml" --out "$folder/runs" -- python3 "$trainer" 500
}
armed MISMATCH.MISSING "collective/pre, do: {skip: true}" MISMATCH.MISSING
armed VALUE.LOST "collective/pre, do: {corrupt: zero}" VALUE.LOST
armed HANG.STOPPED "collective/pre, do: {stop: forever}" HANG.STOPPED
# py-spy's text in its place says where a Python program stands; here a program of that name.
mkdir "$folder/bin"
printf '#!/bin/sh\necho "$@: in all_reduce (trainer.py)"\n' >"$folder/bin/py-spy"
chmod +x "$folder/bin/py-spy"
PATH="$folder/bin:$PATH" "$ddprove" exec "$folder/python.yaml" --out "$folder/spied" -- python3 "$trainer" 500 >"$folder/said" 2>&1
stack=$(find "$folder/spied" -name rank1.stack)
if [ -z "$stack" ] || ! grep -q '^dump --pid [0-9]*: in all_reduce' "$stack"; then
    echo "FAIL: py-spy was not asked where rank 1 stands: $(cat "$folder/said")"
    failures=$((failures + 1))
fi
echo "$failures failures"
exit "$((failures > 0))"
