#!/bin/sh
# Two ranks of the embedding trainer, told who they are as torchrun, Slurm and mpirun (where it is
# installed) do it: both end well, with the same parameters and a falling loss.
# Usage: run.sh TRAIN
set -eu
train=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# check: the outputs in 0 and 1.
check() {
    cat "$folder/0" "$folder/1"
    awk '
        !/^first [0-9.]+ last [0-9.]+ hash [0-9a-f]+$/ { print "not a result: " $0; bad = 1 }
        $4 + 0 >= $2 / 10 { print "the loss did not fall: " $0; bad = 1 }
        NR == 1 { hash = $6 }
        $6 != hash { print "the replicas differ"; bad = 1 }
        END { exit bad || NR != 2 }' "$folder/0" "$folder/1"
}

# pair COMMAND: rank 1 in the background, rank 0 in front; the command is given the rank.
pair() {
    "$1" 1 >"$folder/1" &
    other=$!
    "$1" 0 >"$folder/0"
    wait "$other"
    check
}

torchrun() {
    RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + $$ % 8000)) \
        "$train"
}

slurm() {
    SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_NTASKS=2 SLURM_JOB_ID=$$ \
        SLURM_JOB_NODELIST='localhost,node[02-07]' "$train"
}

pair torchrun
pair slurm
if command -v mpirun >/dev/null; then
    if test "$(id -u)" -eq 0; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    TMPDIR=$folder mpirun -np 2 --host localhost:2 --oversubscribe --bind-to none "$train" \
        >"$folder/both" </dev/null
    sed -n 1p "$folder/both" >"$folder/0"
    sed -n '2,$p' "$folder/both" >"$folder/1"
    check
fi
