#!/bin/sh
# Two ranks of the embedding trainer: both end well, with the same parameters and a falling loss.
# Usage: run.sh TRAIN
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000))
RANK=1 LOCAL_RANK=1 "$1" >"$folder/1" &
other=$!
RANK=0 LOCAL_RANK=0 "$1" >"$folder/0"
wait "$other"
cat "$folder/0" "$folder/1"
awk '
    !/^first [0-9.]+ last [0-9.]+ hash [0-9a-f]+$/ { print "not a result: " $0; bad = 1 }
    $4 + 0 >= $2 / 10 { print "the loss did not fall: " $0; bad = 1 }
    NR == 1 { hash = $6 }
    $6 != hash { print "the replicas differ"; bad = 1 }
    END { exit bad || NR != 2 }' "$folder/0" "$folder/1"
