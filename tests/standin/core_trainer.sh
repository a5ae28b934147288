#!/bin/sh
# The trainer that embeds ddpcore on the stand-ins of CUDA, cuBLAS and NCCL: a card a rank. Its replicas are equal, its
# checkpoint goes on, and ddprove exec sees its calls, though not its data. Usage: core_trainer.sh TRAINER DDPROVE
set -eu
trainer=$1 ddprove=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() {
    echo "FAIL $*"
    exit 1
}
# ranks ARGUMENTS...: two of them.
ranks() {
    RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((27000 + $$ % 5000)) \
        "$trainer" --cuda "$@" >"$out/1" 2>&1 &
    other=$!
    code=0
    RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((27000 + $$ % 5000)) \
        "$trainer" --cuda "$@" >"$out/0" 2>&1 || code=1
    wait "$other" || code=1
    [ $code -eq 0 ] || fail "$* $(cat "$out/0" "$out/1")"
    hash=$(tail -n 1 "$out/0" | awk '{ print $NF }')
    [ "$(tail -n 1 "$out/1" | awk '{ print $NF }')" = "$hash" ] || fail "replicas differ: $(cat "$out/0" "$out/1")"
}
ranks 20
whole=$hash
awk '/first/ { first = $7 } /last/ { last = $7 } END { exit !(last < first / 2) }' "$out/0" || fail "$(cat "$out/0")"
ranks 7 "$out/kept"
[ "$hash" != "$whole" ] || fail "7 steps are as good as 20"
ranks 20 "$out/kept"
[ "$hash" = "$whole" ] || fail "continued: $hash, uninterrupted: $whole"
"$ddprove" exec --ranks 2 -- "$trainer" --cuda 20 >"$out/said" 2>&1 || fail "exec: $(cat "$out/said")"
cat >"$out/count.yaml" <<YAML
# A bucket is left out.
id: count
job: {guest: {}, ranks: 2, steps: 20}
faults:
  - at: {rank: 1, step: 4, bucket: 1}
    point: collective/pre
    do: {skip: true}
expect: {verdict: MISMATCH.MISSING, culprit: injected, step: 4, op: {bucket: 1, params: [weight]}}
YAML
"$ddprove" exec "$out/count.yaml" --out "$out/run" -- "$trainer" --cuda 20 >"$out/said" 2>&1 ||
    fail "left out: $(cat "$out/said")"
