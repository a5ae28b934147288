#!/bin/bash
# A program whose ranks somebody else starts, by `--launcher NAME`: all is well, and a rank that is killed, one that is
# stopped and one that posts another call are found. Exit 77: the launcher is not here.
# Usage: launcher.sh DDPROVE TRAINER own|torchrun|mpirun|srun|env [MPI_TRAINER]
set -u
ddprove=$1 trainer=$2 launcher=$3 mpi_trainer=${4:-}
failures=0
folder=$(mktemp -d)
pids=()
end() {
    ((${#pids[@]} > 0)) && kill "${pids[@]}" 2>/dev/null
    wait
    rm -rf "$folder"
}
trap end EXIT
# Ranks of Open MPI that are killed leave their shared memory where it lies.
export OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder"

skip() { # WHY
    echo "SKIP: $1"
    exit 77
}

port=$((10000 + $$ % 8000)) adapter= # below those that ddprove gives to jobs
case $launcher in
own) command=("$trainer" 30) ;;
env) # the command is a launcher of its own
    cat >"$folder/ranks.sh" <<SH
for rank in 0 1 2; do
    RANK=\$rank WORLD_SIZE=3 MASTER_PORT=$port "$trainer" 30 &
done
wait
SH
    command=(sh "$folder/ranks.sh")
    ;;
torchrun)
    command -v torchrun >/dev/null || skip "torchrun is not installed"
    # torchrun keeps MASTER_PORT for its own store
    command=(sh -c "MASTER_PORT=$port exec $trainer 30")
    ;;
srun)
    command -v srun >/dev/null || skip "srun is not installed"
    # shellcheck source=ci/slurm.sh
    . "$(dirname "$0")/../../ci/slurm.sh"
    chmod 711 "$folder"
    start_slurm "$folder/slurm" $((port + 1)) >"$folder/said" || skip "$(cat "$folder/said")"
    command=(sh -c "RANK=\$SLURM_PROCID WORLD_SIZE=\$SLURM_NTASKS MASTER_PORT=$port exec $trainer 30")
    ;;
mpirun)
    command -v mpirun >/dev/null && [ -n "$mpi_trainer" ] || skip "mpirun is not installed"
    command=("$mpi_trainer" 30) adapter="adapter: mpi"
    ;;
esac

expect() { # CODE WORDS COMMAND...
    local code=$1 words=$2 got
    shift 2
    "$@" >"$folder/said" 2>&1
    got=$?
    if [ "$got" -ne "$code" ] || ! grep -q -- "$words" "$folder/said"; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/said"
        failures=$((failures + 1))
    fi
}

judged() { # WORDS ACTION EXPECTED [CODE LINE]
    cat >"$folder/test.yaml" <<YAML
# A program of some launcher.
id: test.launcher
job: {guest: {$adapter}, ranks: 3, timeout_ms: 20000}
faults: [{at: {rank: 1, kind: all_reduce, hit: 12}, point: collective/pre, do: {$2}}]
expect: {$3}
YAML
    expect "${4:-0}" "^${5:-PASS }.*$1" "$ddprove" exec "$folder/test.yaml" --launcher "$launcher" --out "$folder/runs" -- "${command[@]}"
}
watched=(--launcher "$launcher" --ranks 3)
[ -z "$adapter" ] || watched+=(--adapter mpi)
expect 0 "^loss" "$ddprove" exec "${watched[@]}" -- "${command[@]}"
judged "" "none: true" "verdict: NONE"
judged "HANG.STOPPED  rank 1" "stop: forever" "verdict: HANG.STOPPED, culprit: injected"
judged "MISMATCH.COUNT  rank 1" "arg: count, value: 0" "verdict: MISMATCH.COUNT, culprit: injected"
# Which signal has ended a rank, kernels before 6.15 may not tell anybody but its launcher.
judged "CRASH.EXITED  rank 1" "exit: 3" "verdict: CRASH.EXITED, culprit: injected"
# Where its output is: a launcher's ranks have no files of their own.
log=rank1.log
[ "$launcher" = own ] || log=launcher.log
expect 0 "next: read its log, .*/$log;" "$ddprove" explain "$folder/runs/test.launcher/proc"
if [ "$launcher" = env ]; then # a launcher that leaves its ranks behind, as one does that crashes
    sed 's/^wait$//' "$folder/ranks.sh" >"$folder/left.sh"
    command=(sh "$folder/left.sh")
    judged "" "none: true" "verdict: NONE"
    judged "CRASH.EXITED  rank 1" "exit: 3" "verdict: CRASH.EXITED, culprit: injected"
    # Nobody says that rank 1 left out what it may still come to.
    judged "rank 0,1,2 had not ended by then" "delay: 15000" "verdict: NONE" 4 "    why:"
fi
echo "$failures failures"
exit "$((failures > 0))"
