#!/bin/sh
# What `ddprove exec` says of programs that it did not write, and how they end.
# Usage: exec.sh DDPROVE TRAINER MPI_PROGRAM|-
set -u
ddprove=$1 trainer=$2 mpi_program=$3
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect CODE WORDS COMMAND...: it ends with this code, and says a line with these words (a pattern), or nothing if
# they are empty.
expect() {
    code=$1 words=$2
    shift 2
    "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    grep '^ddprove: ' "$folder/err" >"$folder/said"
    if [ "$got" -ne "$code" ] || { [ -n "$words" ] && ! grep -q "$words" "$folder/said"; } ||
        { [ -z "$words" ] && [ -s "$folder/said" ]; }; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/said"
        failures=$((failures + 1))
    fi
}

run() {
    expect "$1" "$2" "$ddprove" exec --ranks 4 --limit 2 -- "$trainer" 60 $3
}
run 0 "" ""
run 1 "^ddprove: CRASH.SIGNALED, rank 2: .*SIGKILL, step 20, before posting all_reduce 41 of world" "kill 2 20"
run 1 "^ddprove: CRASH.EXITED, rank 2: .*code 3" "exit 2 20"
run 1 "^ddprove: CRASH.FINISHED_EARLY, rank 0: " "finish 0 20"
run 1 "^ddprove: HANG.STOPPED, rank 1: .*ranks 0,2,3 wait" "stop 1 20"
run 1 "^ddprove: HANG.NOT_JOINED, rank 3: " "hang 3 20"
run 1 "^ddprove: MISMATCH.REDUCTION, rank 1: .*all_reduce 41 .*max.*sum" "max 1 20"
run 1 "^ddprove: MISMATCH.COUNT, rank 1: .*31 f32.*bucket 1.*32 f32" "count 1 20"
run 1 "^ddprove: MISMATCH.MISSING, rank 2: .*step 21.*step 20" "skip 2 20"
# Results: judged on every step when asked for, and by nobody else.
prove() {
    # shellcheck disable=SC2086 # words
    expect "$1" "$2" "$ddprove" exec --ranks 4 --limit 2 --prove sums $4 -- "$trainer" 60 $3
}
sums=".*all_reduce 42 of world (32 f32, sum, bucket 1) in step 20: the result is not the sum.* where rounding explains"
kept="--steps 19-21 --out $folder/kept"
run 0 "" "flip 2 20"
run 0 "" "forget 3 20"
run 0 "" "diverge 1 20"
prove 0 "results of 120 calls judged$" "" ""
prove 0 "results of 120 calls judged, 6 bit for bit$" "" "$kept"
prove 1 "^ddprove: VALUE.LOST, rank 1: $sums.*rank 1's contribution were left out" "zero 1 20" ""
prove 1 "^ddprove: VALUE.LOST, rank 3: $sums.*rank 3's contribution were left out" "forget 3 20" ""
prove 1 "^ddprove: VALUE.LOST, rank 3: .*all_reduce 42.*all are the sum with rank 3's contribution multiplied by 0$" \
    "forget 3 20" "$kept"
prove 1 "^ddprove: VALUE.DUPLICATED, rank 2: $sums.*rank 2's contribution were counted twice" "double 2 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 0,1,2,3: $sums.*do not tell the ranks apart" "scale 1 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 0,1,2,3: $sums.*do not tell the ranks apart" "flip 2 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 2: .*all_reduce 42.*element 5 .*rank 2's contribution with bit 25 flipped$" \
    "flip 2 20" "$kept"
prove 1 "^ddprove: VALUE.DIVERGED, rank 1: .*all_reduce 42.*ranks 0,2,3 and of rank 1" "diverge 1 20" ""
prove 1 "^ddprove: VALUE.NONFINITE, rank 2: .*all_reduce 42.*rank 2 put in a NaN" "nan 2 20" ""
expect 2 "prove is sums" "$ddprove" exec --prove all -- true
expect 2 "steps needs" "$ddprove" exec --steps 3-5 -- true
expect 2 "number from 5 to" "$ddprove" exec --prove sums --steps 5-3 --out "$folder" -- true
expect 4 "results of 0 calls judged" "$ddprove" exec --prove sums -- true
# The job is left alone, and its own end is the end.
expect 1 "MISMATCH.REDUCTION, rank 1" "$ddprove" exec --ranks 2 --on-failure leave -- "$trainer" 60 max 1 20
grep -q '^weights' "$folder/out" || { echo "FAIL: a job that is left does not end by itself" && failures=$((failures + 1)); }
# Bad input.
expect 2 "no command" "$ddprove" exec --ranks 2
expect 2 "no/such.yaml: No such file" "$ddprove" exec no/such.yaml -- true
expect 2 "on-failure is" "$ddprove" exec --on-failure maybe -- true
expect 2 "adapter is" "$ddprove" exec --adapter jax -- true
expect 3 "no/such/program cannot be started: No such file" "$ddprove" exec --ranks 2 -- no/such/program
expect 0 "no rank has shown itself" "$ddprove" exec -- true
expect 5 "no rank has shown itself" "$ddprove" exec -- sh -c 'exit 5'

if [ "$mpi_program" != - ]; then
    mpi() {
        # shellcheck disable=SC2086 # words
        expect "$1" "$2" "$ddprove" exec --adapter mpi --limit 2 -- mpirun --oversubscribe --allow-run-as-root -n 4 \
            "$mpi_program" $3
    }
    mpi 0 "" ""
    expect 0 "results of 30[45] calls judged; 1 not judged: their data were not shown" "$ddprove" exec --adapter mpi \
        --limit 2 --prove sums -- mpirun --oversubscribe --allow-run-as-root -n 4 "$mpi_program"
    mpi 1 "^ddprove: CRASH.EXITED, rank 2: .*before posting all_reduce 21 of MPI_COMM_WORLD" "kill 2 20"
    mpi 1 "^ddprove: HANG.STOPPED, rank 2: " "stop 2 20"
    mpi 1 "^ddprove: MISMATCH.COUNT, rank 2: .*all_reduce 21 of MPI_COMM_WORLD" "count 2 20"
    mpi 1 "^ddprove: MISMATCH.REDUCTION, rank 2: " "max 2 20"
    mpi 1 "^ddprove: MISMATCH.ROOT, rank 2: .*of MPI_Comm_split" "root 2 20"
    mpi 1 "^ddprove: HANG.CYCLE, rank 1: .*has not come to barrier 22 of MPI_COMM_WORLD.*of MPI_Comm_dup" "cross 0 20"
    mpi 1 "^ddprove: HANG.CYCLE, rank 2: .*has not come to all_reduce 21 of MPI_COMM_WORLD" "skip 2 20"
    mpi 1 "^ddprove: HANG.NOT_JOINED, rank 1: " "hang 1 20"
fi
echo "$failures failures"
exit "$((failures > 0))"
