#!/bin/sh
# `ddprove exec --prove equivalence` with PyTorch's own launcher, and without anything to prove.
# Usage: prove.sh DDPROVE PYTHON
set -u
ddprove=$1 python=$2
scripts=$(dirname "$(realpath "$0")")
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "SKIP: no PyTorch in $python; python3 -m venv DIR && DIR/bin/pip install torch==2.15.0, then" \
        "DDPROVE_TORCH_PYTHON=DIR/bin/python"
    exit 77
fi
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR="$folder" OMP_NUM_THREADS=1
cd "$scripts" || exit 1

# expect CODE WORDS OPTIONS... -- SCRIPT...: proved, it ends with this code and says a line with these words.
expect() {
    code=$1 words=$2
    shift 2
    "$ddprove" exec --prove equivalence "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    if [ "$got" -ne "$code" ] || ! grep '^ddprove: \|^  ' "$folder/err" | grep -q "$words"; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/out" "$folder/err"
        failures=$((failures + 1))
    fi
}
torchrun="$python -m torch.distributed.run --standalone --nproc-per-node 2"

expect 0 "PASS: in 3 steps 2 ranks compute what one device would" --steps 0,1,4 -- $torchrun convnet.py --steps 5
if [ -n "$(ls -d "$folder"/ddprove-proof-* 2>/dev/null)" ]; then
    echo "FAIL: a folder is left behind"
    failures=$((failures + 1))
fi
# The table: parameter, verdict, ranks, since, steps, distance.
expect 1 "^  bn1.running_mean  *VALUE.DIVERGED  *1  *1  *4  *[0-9]" --out "$folder/run" -- \
    $torchrun broken.py buffers_diverge --steps 5
if ! "$python" -c "import json, sys; sys.exit(json.load(open(sys.argv[1]))['verdict'] != 'VALUE.DIVERGED')" \
    "$folder/run/proof.json"; then
    echo "FAIL: proof.json does not say VALUE.DIVERGED"
    failures=$((failures + 1))
fi
# Ranks that ddprove starts itself.
expect 0 "PASS: in 2 steps 2 ranks" --ranks 2 -- "$python" uneven.py --steps 2
# Ranks that do not post the same calls are named while they wait: one of two, where steps before tell who is right.
expect 1 "^ddprove: MISMATCH.EXTRA, rank 0: rank 0 posted" --limit 20 -- $torchrun broken.py evaluated_on_rank_0 --steps 12
expect 1 "^ddprove: MISMATCH.OP, rank 1: rank 1 posted barrier" --limit 20 -- $torchrun broken.py step_left_out --steps 8
# Steps before a run went wrong may be proved; that is no PASS.
expect 1 "^ddprove: CRASH.FINISHED_EARLY, rank .*: rank 1 " -- $torchrun broken.py returns_early --steps 6
if grep '^ddprove: PASS' "$folder/err"; then
    echo "FAIL returns_early: it is said to have passed"
    failures=$((failures + 1))
fi
# Nothing that could be proved.
expect 4 "nothing is proved" -- true
expect 3 "nothing is proved" -- sh -c "exit 3"
expect 2 "not \"0,x\"" --steps 0,x -- true
expect 3 "is no proof" -- sh -c 'echo "{}" >"$DDPROVE_PROVE/proof.json"'
expect 3 "is no proof" -- sh -c 'echo "[" >"$DDPROVE_PROVE/proof.json"'
[ "$failures" -eq 0 ]
