#!/bin/sh
# Scenarios of an NCCL program: faults are armed in the adapter, and the record is judged. On the stand-ins: nothing
# here is a GPU result.
# Usage: nccl_scenario.sh DDPROVE NCCL_PROGRAM
set -u
ddprove=$1 program=$2
failures=0 words=
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# judged CODE WORDS DDPROVE FAULT EXPECT: the scenario ends with this code and says a line with these words.
judged() {
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    cat >"$folder/test.yaml" <<YAML
# An NCCL program.
id: test.nccl
job: {guest: {adapter: nccl}, ranks: 3, timeout_ms: 2000}
faults: [$4]
expect: {$5}
YAML
    # shellcheck disable=SC2086 # words
    "$3" exec "$folder/test.yaml" --out "$folder/runs" -- "$program" "$found" $words >"$folder/out" 2>&1
    got=$?
    if [ "$got" -ne "$1" ] || ! grep -q "$2" "$folder/out"; then
        echo "FAIL $4 $5: exit $got, not $1; said, instead of \"$2\":"
        cat "$folder/out"
        failures=$((failures + 1))
    fi
}
sum="at: {rank: 1, kind: all_reduce, comm: ncclCommInitRank, seq: 23}, point: collective/pre"
judged 0 "^PASS " "$ddprove" "" "verdict: NONE"
judged 0 "^PASS .*CRASH.SIGNALED  rank 1" "$ddprove" "{$sum, do: {kill: SIGKILL}}" \
    "verdict: CRASH.SIGNALED, culprit: injected, op: {comm: ncclCommInitRank, kind: all_reduce, seq: 23}"
judged 0 "^PASS .*HANG.STOPPED  rank 1" "$ddprove" "{$sum, do: {stop: forever}}" "verdict: HANG.STOPPED, culprit: injected"
judged 0 "^PASS .*HANG.NOT_JOINED  rank 1" "$ddprove" "{$sum, do: {hang: true}}" "verdict: HANG.NOT_JOINED, culprit: injected"
judged 0 "^PASS .*HANG.CYCLE  rank 1" "$ddprove" "{$sum, do: {skip: true}}" "verdict: HANG.CYCLE, culprit: injected"
judged 0 "^PASS .*MISMATCH.COUNT  rank 1" "$ddprove" "{$sum, do: {arg: count, value: 100}}" \
    "verdict: MISMATCH.COUNT, culprit: injected, op: {comm: ncclCommInitRank, kind: all_reduce, seq: 23}"
judged 0 "^PASS .*MISMATCH.REDUCTION  rank 1" "$ddprove" "{$sum, do: {arg: redop, value: max}}" \
    "verdict: MISMATCH.REDUCTION, culprit: injected"
judged 0 "^PASS .*MISMATCH.DTYPE  rank 1" "$ddprove" "{$sum, do: {arg: dtype, value: i32}}" \
    "verdict: MISMATCH.DTYPE, culprit: injected, op: {comm: ncclCommInitRank, kind: all_reduce, seq: 23}"
# A sum of ranks 0 and 2 is launched together with a broadcast of all. Once more on one of them, that one stands behind
# it; left out, the other one does not come to the broadcast.
half="at: {rank: 0, comm: ncclCommSplit, hit: 21}, point: collective/pre"
judged 0 "^PASS .*HANG.CYCLE  rank 0" "$ddprove" "{$half, do: {dup: true}}" "verdict: HANG.CYCLE, culprit: injected"
judged 0 "^PASS .*HANG.CYCLE  rank 0" "$ddprove" "{$half, do: {skip: true}}" "verdict: HANG.CYCLE, culprit: injected"
# The next call goes first: where three calls take turns, that is told from one that is left out.
words="kinds 0 0"
for kind in "broadcast, elems: 16" "all_reduce, elems: 8"; do
    fault="at: {rank: 1, kind: $kind, comm: ncclCommInitRank, hit: 12}, point: collective/pre"
    kind=${kind%,*}
    judged 0 "^PASS .*MISMATCH.ORDER  rank 1" "$ddprove" "{$fault, do: {skip: true, later: 1}}" \
        "verdict: MISMATCH.ORDER, culprit: injected, op: {comm: ncclCommInitRank, kind: $kind}"
    judged 0 "^PASS .*MISMATCH.MISSING  rank 1" "$ddprove" "{$fault, do: {skip: true}}" \
        "verdict: MISMATCH.MISSING, culprit: injected, op: {comm: ncclCommInitRank, kind: $kind}"
done
words=
judged 0 "^PASS " "$ddprove" "{$sum, do: {stop: 20}}" "verdict: NONE"
judged 0 "^PASS .*HANG.STOPPED  rank 1" "$ddprove" "{$sum, do: {stop: 60000}}" "verdict: HANG.STOPPED, culprit: injected"
judged 0 "^PASS .*LAUNCH.MISSING_RANK  rank 2" "$ddprove" "{at: {rank: 2}, point: launch/spawn, do: {skip: true}}" \
    "verdict: LAUNCH.MISSING_RANK, culprit: injected"
# What the adapter cannot do is refused, and a fault that never fires proves nothing.
judged 2 "adapter nccl: the device writes contributions after the post" "$ddprove" "{$sum, do: {corrupt: zero}}" "verdict: NONE"
judged 4 "never fired" "$ddprove" "{at: {rank: 1, kind: scatter}, point: collective/pre, do: {kill: SIGKILL}}" \
    "verdict: CRASH.SIGNALED, culprit: injected"
# Where the adapter was not built, the scenario is left out.
mkdir "$folder/bin" && cp "$ddprove" "$folder/bin/ddprove"
judged 77 "why: adapter nccl: .*No such file" "$folder/bin/ddprove" "" "verdict: NONE"
echo "$failures failures"
exit "$((failures > 0))"
