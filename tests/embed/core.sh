#!/bin/sh
# Trainers on the installed ddpcore, four ranks each: their replicas are equal, an interrupted run goes on as the
# uninterrupted one would have, a rank that is killed is named by the others and by ddprove exec, whose faults reach the
# core's collectives. Usage: core.sh FOLDER PREFIX CC
set -eu
folder=$1 prefix=$2 cc=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() {
    echo "FAIL $*"
    exit 1
}

# ranks COMMAND...: four of them, or $world, what they said in $out/0 to $out/3; fails if one does.
world=4
ranks() {
    pids=
    for rank in $(seq 0 $((world - 1))); do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$world MASTER_ADDR=127.0.0.1 MASTER_PORT=$((18000 + $$ % 8000)) \
            "$@" >"$out/$rank" 2>&1 &
        pids="$pids $!"
    done
    code=0
    for pid in $pids; do wait "$pid" || code=1; done
    return $code
}

# same: the last lines of all ranks have this field equal; prints it.
last() { tail -n 1 "$out/$1" | awk '{ print $NF }'; }
same() {
    for rank in $(seq 1 $((world - 1))); do
        [ "$(last "$rank")" = "$(last 0)" ] || fail "rank $rank has $(last "$rank"), rank 0 $(last 0)"
    done
    last 0
}

ranks "$folder/line" || fail "line: $(cat "$out"/?)"
[ "$(same)" = -1.0000 ] || fail "line: $(cat "$out/0")"

ranks "$folder/core_trainer" 40 || fail "core_trainer: $(cat "$out"/?)"
whole=$(same)
awk '/first/ { first = $7 } /last/ { last = $7 } END { exit !(last < first / 4) }' "$out/0" || fail "loss: $(cat "$out/0")"
ranks "$folder/core_trainer" 13 "$out/kept" || fail "13 steps: $(cat "$out"/?)"
[ "$(same)" != "$whole" ] || fail "13 steps are as good as 40"
cp "$out/kept" "$out/kept2"
world=2
ranks "$folder/core_trainer" 40 "$out/kept2" || fail "continued by two: $(cat "$out"/?)"
[ "$(same)" != "$whole" ] || fail "two ranks train as four"
world=4
CORE_TRAINER_TCP=1 ranks "$folder/core_trainer" 40 || fail "over sockets: $(cat "$out"/?)"
[ "$(same)" = "$whole" ] || fail "over sockets: $(same), in shared memory: $whole"
ranks "$folder/core_trainer" 40 "$out/kept" || fail "continued: $(cat "$out"/?)"
[ "$(same)" = "$whole" ] || fail "continued from step 13: $(same), uninterrupted: $whole"
# A file that does not fit is refused, with its name and what is wrong.
head -c 600 "$out/kept" >"$out/cut"
if ranks "$folder/core_trainer" 40 "$out/cut"; then fail "a truncated checkpoint is loaded"; fi
grep -q 'CORRUPT: .*cut' "$out/0" || fail "truncated: $(cat "$out/0")"
# Without a launcher it says what is missing.
if env -u RANK -u WORLD_SIZE "$folder/core_trainer" 1 >"$out/said" 2>&1; then fail "it needs no RANK"; fi
grep -q RANK "$out/said" || fail "no RANK: $(cat "$out/said")"

# Under ddprove.
"$prefix/bin/ddprove" exec --ranks 4 --prove sums -- "$folder/core_trainer" 30 >"$out/said" 2>&1 ||
    fail "exec: $(cat "$out/said")"
grep -q 'judged' "$out/said" || fail "nothing is judged: $(cat "$out/said")"
cat >"$out/lost.yaml" <<YAML
# A contribution is lost.
id: lost
job: {guest: {}, ranks: 4, steps: 30}
faults:
  - at: {rank: 2, step: 4, bucket: 1}
    point: collective/pre
    do: {corrupt: zero}
expect: {verdict: VALUE.LOST, culprit: injected, step: 4, op: {bucket: 1, params: [weight]}}
YAML
"$prefix/bin/ddprove" exec "$out/lost.yaml" --out "$out/run" -- "$folder/core_trainer" 30 >"$out/said" 2>&1 ||
    fail "lost: $(cat "$out/said")"
# A replica that changes by itself.
cat >"$out/poked.yaml" <<YAML
# A replica is changed behind an update.
id: poked
job: {guest: {}, ranks: 4, steps: 30}
faults:
  - at: {rank: 3, step: 4, tensor: bias}
    point: optimizer/updated
    do: {corrupt: set, value: 0.5}
expect: {verdict: VALUE.DIVERGED, culprit: injected, step: 4, op: {params: [bias]}}
YAML
"$prefix/bin/ddprove" exec "$out/poked.yaml" --out "$out/run3" -- "$folder/core_trainer" 30 >"$out/said" 2>&1 ||
    fail "poked: $(cat "$out/said")"
cat >"$out/killed.yaml" <<YAML
# A rank is killed.
id: killed
job: {guest: {}, ranks: 4, steps: 300}
faults:
  - at: {rank: 1, step: 4}
    point: step/begin
    do: {kill: SIGKILL}
expect: {verdict: CRASH.SIGNALED, culprit: injected, step: 4}
YAML
"$prefix/bin/ddprove" exec "$out/killed.yaml" --out "$out/run2" -- "$folder/core_trainer" 300 >"$out/said" 2>&1 ||
    fail "killed: $(cat "$out/said")"

# With a card that is not there, words; what runs on one is compiled and linked.
if [ -x "$folder/core_trainer_cuda" ]; then
    if RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((18000 + $$ % 8000)) CUDA_VISIBLE_DEVICES= \
        "$folder/core_trainer_cuda" --cuda 5 >"$out/said" 2>&1; then
        fail "it trains on a card that nobody sees"
    fi
    grep -q 'NOT_FOUND' "$out/said" || fail "no card: $(cat "$out/said")"
fi

# By pkg-config alone.
if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ddpcore.pc)")
    export PKG_CONFIG_PATH
    examples=$(dirname "$(find "$prefix" -name core_trainer.c)")
    # shellcheck disable=SC2046 # words
    "$cc" -std=c17 -D_GNU_SOURCE -I"$examples" "$examples/core_trainer.c" "$examples/core_model.c" -o "$out/by_pc" \
        $(pkg-config --cflags --libs ddprove_ddpcore) -Wl,-rpath,"$PKG_CONFIG_PATH/.."
    ranks "$out/by_pc" 40 || fail "by pkg-config: $(cat "$out"/?)"
    [ "$(same)" = "$whole" ] || fail "by pkg-config: $(same), not $whole"
fi
echo "replicas, checkpoints, faults: as they should be"
