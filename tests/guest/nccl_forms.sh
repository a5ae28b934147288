#!/bin/sh
# What `ddprove exec` says of NCCL programs of several forms. On the stand-ins: nothing here is a GPU result.
# Usage: nccl_forms.sh DDPROVE NCCL_FORMS
set -u
ddprove=$1 forms=$2
failures=0 limit=2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# form RANKS CODE WORDS FORM [RANK]: it ends with this code, and says a line with these words (a pattern), or nothing if
# they are empty; and names nobody but in a line with these words.
form() {
    ranks=$1 code=$2 words=$3
    shift 3
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    "$ddprove" exec --ranks "$ranks" --adapter nccl --limit "$limit" -- "$forms" "$found" "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    grep '^ddprove: ' "$folder/err" >"$folder/said"
    if [ "$got" -ne "$code" ] || { [ -n "$words" ] && ! grep -q "$words" "$folder/said"; } ||
        { [ -z "$words" ] && [ -s "$folder/said" ]; } ||
        grep '^ddprove: [A-Z_.]*, rank' "$folder/said" | grep -vq "$words"; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/said"
        failures=$((failures + 1))
    fi
}
form 4 0 "" group
form 4 0 "" ring
form 4 0 "" streams
form 3 0 "" fresh
form 3 0 "" floats
form 3 0 "" ended
form 3 0 "" ended_later
# A stream that has no room keeps no other thread.
export DDP_STANDIN_QUEUE=8
form 3 0 "" full
unset DDP_STANDIN_QUEUE
# What could not be shown is said, and accuses nobody.
form 4 0 "^ddprove: 4 communicators could not be shown" crowd
form 4 0 "^ddprove: 5 communicators could not be shown" crowded
form 4 0 "^ddprove: 4 communicators could not be shown" shrink
form 3 0 "^ddprove: 1 communicators could not be shown" pairs
export DDP_NCCL_STANDIN_SCRIPT=bus_id=unique
form 2 0 "^ddprove: 2 communicators could not be shown" parts
unset DDP_NCCL_STANDIN_SCRIPT
# Whoever hangs is named, and nobody else.
form 4 1 "^ddprove: LAUNCH.MISSING_RANK, rank 2: .*before posting comm_create 1 of .*ranks 0,1,3 wait" group 2
form 4 1 "^ddprove: HANG.NOT_JOINED, rank 2: .*before posting send 1 of .*ranks 0,1,3 wait" ring 2
form 4 1 "^ddprove: HANG.NOT_JOINED, rank 2: .*before posting all_reduce 12 of .*ranks 1,3 wait" crowd 2
form 3 1 "^ddprove: HANG.NOT_JOINED, rank 1: .*before posting all_reduce 82 of .*ranks 0,2 wait" fresh 1
form 4 1 "^ddprove: HANG.NOT_JOINED, rank none: .*of 2 members .* only 1 .*ranks 1,2,3 wait" crowded 0
# What is only asked about is not compared with what others do.
form 3 0 "^ddprove: 1 communicators could not be shown" simulated
form 3 1 "^ddprove: HANG.NOT_JOINED, rank 1: .*before posting all_reduce 20 of ncclCommInitRank 2.*ranks 0,2 wait" simulated 1
# An id that serves twice is that of two communicators.
export DDP_NCCL_STANDIN_SCRIPT=id=again
form 3 0 "" again
form 3 1 "^ddprove: HANG.NOT_JOINED, rank 1: .*before posting all_reduce 12 of ncclCommInitRank 2.*ranks 0,2 wait" again 1
unset DDP_NCCL_STANDIN_SCRIPT
form 3 1 "^ddprove: MISMATCH.DTYPE, rank 1: .*f8e5m2.*f8e4m3" floats 1
# Who is held up at a communicator's end waits for somebody, and is not to blame.
export DDP_NCCL_STANDIN_SCRIPT=finalize=hang
limit=1
form 3 1 "^ddprove: HANG.HOST, rank 2: " ended 2
form 3 1 "^ddprove: HANG.HOST, rank 2: " ended_later 2
limit=2
unset DDP_NCCL_STANDIN_SCRIPT
echo "$failures failures"
exit "$((failures > 0))"
