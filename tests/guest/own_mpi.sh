#!/bin/sh
# The example over MPI's messages: its all-reduce is its own, and it shows itself by the guest library as it does over
# sockets, with no adapter between it and MPI. The same values come out, and faults are found. Skipped (77) without mpirun.
# Usage: own_mpi.sh DDPROVE TRAINER MPI_TRAINER SCENARIOS
set -u
ddprove=$1 trainer=$2 mpi_trainer=$3 scenarios=$4
failures=0
command -v mpirun >/dev/null || { echo "SKIP: mpirun is not installed" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Ranks of Open MPI that are killed leave their shared memory where it lies.
export OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

"$ddprove" exec --ranks 3 -- "$trainer" 30 >"$folder/sockets" 2>&1 || fail "over sockets: $(cat "$folder/sockets")"
"$ddprove" exec --launcher mpirun --ranks 3 --prove sums -- "$mpi_trainer" 30 >"$folder/mpi" 2>&1 ||
    fail "over MPI: $(cat "$folder/mpi")"
grep -q '^ddprove: results of 91 calls judged' "$folder/mpi" || fail "not every call is judged: $(cat "$folder/mpi")"
grep -q '^loss' "$folder/sockets" || fail "it says no loss: $(cat "$folder/sockets")"
[ "$(grep '^loss' "$folder/sockets")" = "$(grep '^loss' "$folder/mpi")" ] ||
    fail "sockets: $(cat "$folder/sockets"), MPI: $(cat "$folder/mpi")"
judged() { # SCENARIO WORDS
    "$ddprove" exec "$scenarios/$1.yaml" --set "matrix={job.ranks: [3]}" --launcher mpirun --out "$folder/runs" -- \
        "$mpi_trainer" 30 >"$folder/said" 2>&1 && grep -q "^PASS .*$2" "$folder/said" || fail "$1: $(cat "$folder/said")"
}
judged skip_bucket "MISMATCH.MISSING  rank 1"
judged value_lost "VALUE.LOST  rank 2"
judged hang "HANG.NOT_JOINED  rank 1"
echo "$failures failures"
exit "$((failures > 0))"
