#!/bin/sh
# Faults that are armed in the arena act in the NCCL adapter. On the stand-ins: nothing here is a GPU result.
# Usage: nccl_faults.sh ARMED ADAPTER NCCL_PROGRAM
set -u
armed=$1 adapter=$2 program=$3
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# fault CODE WORDS ACTION VALUE RANK KIND SEQ
fault() {
    code=$1 words=$2
    shift 2
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    timeout 30 "$armed" "$adapter" 3 "$@" "$program" "$found" >"$folder/out" 2>"$folder/err"
    got=$?
    if [ "$got" -ne "$code" ] || { [ -n "$words" ] && ! grep -q "$words" "$folder/err"; }; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/err"
        failures=$((failures + 1))
    fi
}
# Nothing is to be said of it, though a rank be off the CPU for long.
ARMED_BUDGET_S=25 fault 0 "" skip 0 1 all_reduce 1000
fault 1 "^ddprove: HANG.CYCLE, rank 1: .*has not come to " skip 0 1 all_reduce 23
fault 1 "^ddprove: HANG.CYCLE, rank 1: .*rank 1 in all_reduce 24 of ncclCommInitRank " dup 0 1 all_reduce 23
fault 1 "^ddprove: MISMATCH.COUNT, rank 1: .*100 f32.*256 f32" count 100 1 all_reduce 23
fault 1 "^ddprove: MISMATCH.REDUCTION, rank 1: .*max.*sum" redop 5 1 all_reduce 23
fault 1 "^ddprove: MISMATCH.ROOT, rank 1: .*root 2" root 2 1 broadcast 22
fault 1 "^ddprove: CRASH.SIGNALED, rank 1: .*SIGKILL" kill 9 1 all_reduce 23
fault 1 "^ddprove: CRASH.EXITED, rank 1: .*code 3" exit 3 1 send 20
fault 1 "^ddprove: HANG.NOT_JOINED, rank 1: .*before posting comm_create" hang 0 1 comm_create 1
fault 2 "refused: the device writes contributions" zero 0 1 all_reduce 23
fault 2 "refused: the library has no such operator" redop 9 1 all_reduce 23
echo "$failures failures"
exit "$((failures > 0))"
