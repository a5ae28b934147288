#!/bin/sh
# Exit codes, and errors that are one line with a remedy.
# Usage: usage.sh DDPROVE SCENARIOS OUT
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/checks.sh"
ddprove=$1
scenarios=$2
rm -rf "$3"
mkdir -p "$3" && cd "$3" || exit 1

one=$scenarios/hang/before_bucket.yaml
mkdir -p empty 'with space/deep'
job='job: {ranks: 2, steps: 2, model: mlp, data: digits, batch_per_rank: 4, optimizer: {kind: sgd, lr: 0.1}}'
kill='faults: [{at: {rank: 1, step: 1}, point: data/next, do: {kill: SIGKILL}}]'
printf '# A crash nobody expected.\nid: own.fails\n%s\n%s\nexpect: {verdict: NONE}\n' "$job" "$kill" >fails.yaml
printf '# The second visit of a place that is visited once.\nid: own.unfired\n%s\n%s\nexpect: {verdict: CRASH.SIGNALED}\n' \
    "$job" 'faults: [{at: {rank: 1, step: 1, hit: 2}, point: data/next, do: {kill: SIGKILL}}]' >unfired.yaml
printf '# Simulated only.\nid: own.simulated\ndrivers: [sim]\n%s\nexpect: {verdict: NONE}\n' "$job" >simulated.yaml
printf '# Of two ranks only.\nid: own.two\nfor_ranks: [2]\n%s\nexpect: {verdict: NONE}\n' "$job" >two.yaml
printf '# Same name as another.\nid: own.fails\n%s\nexpect: {verdict: NONE}\n' "$job" >same.yaml
cp fails.yaml 'with space/plan.yaml'

# Words that are not known.
refused 'did you mean run' rnu
refused 'see ddprove --help' qqqqqqqq
refused 'did you mean --driver' run "$one" --drivers=sim
refused 'see ddprove --help' run "$one" --zzzzzzzz
refused 'did you mean points' list point
refused 'name one of scenarios' list
refused 'known: sim, proc' run "$one" --driver real
refused 'known: own, mpirun' run "$one" --launcher srun
refused 'leave out --driver sim' run "$one" --launcher mpirun --driver sim
refused 'known: cpu, cuda' run "$one" --device tpu
# Values that are not right.
refused '--set needs a value' run "$one" --set
refused 'is not KEY=VALUE' run "$one" --set job.ranks
refused 'did you mean "ranks"' run "$one" --driver sim --set job.rank=3
refused 'job.ranks' run "$one" --driver sim --set job.ranks=many
refused 'is not a number from' run "$one" --seed x
refused 'is not a number from' run "$one" --seeds 0
refused 'is not a number from' run "$one" -j 0
refused 'did you mean "ring"' run "$one" --driver sim --collective rng
# Files that are not there, or not what they should be.
refused 'name a scenario file' run
refused 'missing.yaml: No such file' run missing.yaml
refused 'holds no *.yaml' run empty
refused 'holds no *.yaml' lint empty
refused 'name one scenario file' plan
refused 'name a scenario file' lint
refused 'holds no run' check
refused 'holds no run' explain
refused 'plan.yaml: No such file' check empty
refused 'name the folder of a run' check missing
refused 'name the folder of a run' explain empty
refused 'did you mean explain' help explian
refused 'known: cuda, mpi' run "$one" --require tpu
for id in ../../x a/b .hidden -x "$(printf '%0201d' 1)"; do
    printf '# Its folder would be elsewhere.\nid: "%s"\n%s\nexpect: {verdict: NONE}\n' "$id" "$job" >id.yaml
    refused 'must be 1 to 200 letters' run id.yaml --driver sim --out o
done
refused 'own.fails/sim; give one another id' run fails.yaml same.yaml --driver sim
refused 'takes nothing more' doctor now
mkfifo pipe.yaml
refused 'pipe.yaml is not a regular file; name a scenario file' run pipe.yaml
refused 'is not a regular file; name a scenario file' plan empty
refused 'name dumps, logs, or a folder of them' diagnose missing
refused 'fails.yaml: is no folder' explain fails.yaml
refused 'is no size: bytes, as 512' coll bench ring -b 3Q
refused 'is no size: bytes, as 512' coll bench ring -e 1.5K
# Places that cannot be written.
refused 'fails.yaml is there, but not as a folder; name a folder that can be written' \
    exec --ranks 2 --record fails.yaml -- true
refused 'name a folder that can be written' run "$one" --driver sim --out /dev/null/runs
refused 'name a file in a folder' run "$one" --driver sim --out o --json missing/report.json
refused 'name a file in a folder' run "$one" --driver sim --out o --junit missing/report.xml
refused 'name a file to write' run "$one" --driver sim --out o --json ''
refused 'name a file to write' run "$one" --driver sim --out o --junit empty

# Exit codes of outcomes; of several the worst.
ends 0 run "$one" --driver sim --out o
ends 1 run fails.yaml --driver sim --out o
grep -qF 'reproduce: ddprove run o/own.fails/sim/plan.yaml' out || fail "no way to reproduce: $(cat out)"
ends 4 run unfired.yaml --driver sim --out o
ends 77 run simulated.yaml --driver proc --out o --json skipped.json
for key in schema id cell driver seed outcome verdict reason culprit victims op step micro phase oracle mode \
    detect_ms attribute_ms fired findings capsule run_dir reproduce; do
    grep -qF "\"$key\":" skipped.json || fail "a skipped cell has no key $key"
done
ends 0 run two.yaml --driver sim --out o
ends 77 run two.yaml --driver sim --set job.ranks=3 --out o
grep -qF 'not written for 3 ranks' out || fail "why it is skipped: $(cat out)"
ends 1 run unfired.yaml fails.yaml "$one" --driver sim --out o
ends 4 run unfired.yaml simulated.yaml "$one" --driver sim --out o
ends 0 run simulated.yaml "$scenarios/control/dummy_injection.yaml" --driver proc --out o
ends 3 run "$one" --driver sim --out o --json /dev/full
test -c /dev/full || fail "a device was replaced by a report"
says '"schema": "ddprove.report/1"' run "$one" --driver sim --out o --json /dev/stdout
ends 2 lint fails.yaml "$scenarios/hang" --set job.rank=3
ends 2
ends 0 --help
ends 0 -h
says '--junit FILE' run --help
says 'usage: ddprove lint SCENARIO|DIR... [OPTIONS]' lint --help
grep -qF -e --junit out && fail "lint --help shows an option of run: $(cat out)"
says '--fast' train -h
ends 0 --version

"$ddprove" list points >/dev/full 2>err
test $? -eq 3 || fail "a full disk passes for success"
for words in --version --help help 'help run' 'run --help'; do
    # shellcheck disable=SC2086 # words
    "$ddprove" $words >/dev/full 2>err
    test $? -eq 3 || fail "$words: a full disk passes for success"
done

ends 1 run fails.yaml "$scenarios/hang" --driver sim --out o -j 1 --fail-fast --json o/first.json
grep -q 'not run: another cell had failed' o/first.json || fail "--fail-fast does not say what it left out"
grep -qE '^0 passed, 1 failed, [0-9]+ skipped$' out || fail "--fail-fast does not count the rest: $(cat out)"
ends 0 run "$one" --driver sim --out o --fail-fast

# Folders, matrices, seeds, paths.
says '5 passed, 0 failed' run "$scenarios/hang/before_bucket.yaml" "$scenarios/hang/in_data.yaml" --driver sim --out o
says '5 passed, 0 failed' run "$scenarios/hang/in_data.yaml" "$one" "$scenarios/hang/../hang/in_data.yaml" "$one" \
    --driver sim --out o
says '1 passed, 0 failed' run "$one" --driver sim --out pinned --set faults.0.at.rank=2
test -e pinned/hang.before_bucket/sim/verdict.json || fail "a pinned axis is still in the path: $(find pinned)"
says '6 passed, 0 failed' run "$one" --driver sim --out seeds --seeds 3 -j 2
test "$(find seeds -name 'sim.seed[012]' | wc -l)" -eq 6 || fail "a folder a seed: $(find seeds -name 'sim*')"
says 'own.fails' plan 'with space/plan.yaml'
ends 1 run 'with space/plan.yaml' --driver sim --out "$PWD/with space/out" --json 'with space/r.json'
grep -qF "reproduce: ddprove run '$PWD/with space/out/own.fails/sim/plan.yaml'" out || fail "not quoted: $(cat out)"
says 'ranks:' plan "$one" --set job.ranks=3
test "$(grep -c '^---$' out)" -eq 1 || fail "plan: two cells are two documents"

# Folders that cannot be read hide scenarios.
mkdir -p locked/in && cp fails.yaml locked/in/ && cp simulated.yaml locked/
if chmod 0 locked/in && ! ls locked/in >/dev/null 2>&1; then
    refused 'locked/in: cannot be read' run locked --driver sim --out o
fi
if ! ls locked/in >/dev/null 2>&1; then
    refused 'locked/in: cannot be read' diagnose locked
fi
chmod 755 locked/in

# A collective that does not fit: of a folder's scenarios those are skipped, one that was named is an error.
ends 77 run "$scenarios/control" --driver sim --collective nccl --out o
grep -q 'why: .*needs device cuda' out || fail "no reason for the skip: $(cat out)"
refused 'needs device cuda' run "$scenarios/control/no_fault.yaml" --driver sim --collective nccl --out o
refused 'did you mean "ring"' run "$scenarios/control" --driver sim --collective rng --out o

# Runs without --out: a folder each, also within one second; the latest is what check and explain take.
rm -rf runs
for i in 1 2 3; do
    ends 1 run fails.yaml --driver sim
    grep -q '^    record: runs/[0-9].*/own.fails/sim$' out || fail "the folder is not said: $(cat out)"
done
test "$(find runs -mindepth 1 -maxdepth 1 | wc -l)" -eq 3 || fail "runs share a folder: $(find runs -maxdepth 1)"
ends 0 explain
grep -q 'own.fails' out || fail "explain does not take the latest run: $(cat out)"
ends 1 check
ends 1 run "$scenarios/hang/in_data.yaml" fails.yaml simulated.yaml --driver sim --out several
ends 0 explain several
grep -q 'own.fails' out || fail "explain does not take a folder of runs: $(cat out)"
grep -qE '^[0-9]+ of [0-9]+ passed' out || fail "explain does not count the others: $(cat out)"
# What is no verdict is never explained as one.
mkdir -p damaged
for text in '{}' '[1]' '{"outcome": "PASS"}' '{"outcome": "GOOD", "verdict": "NONE"}'; do
    echo "$text" >damaged/verdict.json
    refused 'damaged/verdict.json: is no verdict; judge the run again: ddprove check damaged' explain damaged
done
echo '{' >damaged/verdict.json
refused 'judge the run again: ddprove check damaged' explain damaged
ends 1 check several
grep -q '^[0-9]* passed, 1 failed' out || fail "check does not count: $(cat out)"

# A folder that is used again holds nothing of the run before, and keeps what is not a run's.
ends 0 run simulated.yaml --set job.ranks=3 --out again
echo mine >again/own.simulated/sim/notes
ends 0 run simulated.yaml --out again
left=$(find again -name '*rank2*' -o -name '*.r2.txt')
test -z "$left" || fail "an earlier run's files are left: $left"
test -e again/own.simulated/sim/notes || fail "a file that is no run's was removed"

# Nor is a proof put together of what two runs have kept.
mkdir -p proved/rank1
refused 'proved holds what an earlier run kept for its proof' exec --prove equivalence --out proved -- true

# The collective lab.
refused 'say what to do with which algorithm' coll
refused 'say what to do with which algorithm' coll check
refused 'known: check, conform, show' coll chekc ring
refused 'did you mean "ring"?' coll check rng
refused 'is not a number from' coll check ring --worlds 0
refused 'is not a number from' coll check ring --counts 5-3
refused 'at most 64 ranks' coll show ring --worlds 65
says 'all_reduce two_shot: PASS, worlds of 1 to 5 ranks' coll check two_shot --worlds 1-5 --json c.json --junit c.xml \
    --svg c.svg
grep -qF '"schema": "ddprove.coll/1"' c.json || fail "coll --json: $(head -3 c.json)"
grep -qF 'coll.two_shot.exactly_once' c.xml || fail "coll --junit: $(head -3 c.xml)"
test ! -e c.svg || fail "coll check draws a counterexample of what is right"
says 'out[0..2] = ((0 1) 2)' coll show linear --worlds 3
says 'in[2] >' coll show ring --worlds 3
ends 0 coll show ring --svg c.svg
grep -qF '</svg>' c.svg || fail "coll show --svg: $(head -3 c.svg)"
ends 3 coll show ring --svg missing/c.svg
ends 4 coll check ring --worlds 60-64 --counts 200-300 --budget 1
grep -qF '(the time was up)' out || fail "coll check does not say that it stopped: $(head -1 out)"

# --cells covering: of each scenario every value of every axis, of a family every pair of collective and ranks.
pairs='matrix: {job.ranks: [1, 2], job.collective: [linear, ring]}'
for name in first second; do
    printf '# Four cells.\nid: pair.%s\n%s\nexpect: {verdict: NONE}\n%s\n' $name "$job" "$pairs" >$name.yaml
done
printf '# Twelve cells.\nid: own.twelve\n%s\nexpect: {verdict: NONE}\n%s\n' "$job" \
    'matrix: {job.seed: [1, 2, 3], job.batch_per_rank: [1, 2], job.steps: [1, 2]}' >twelve.yaml
says '4 passed, 0 failed' run first.yaml --driver sim --out o --cells covering
says '--cells covering: 4 cells, 4 more were left out' run first.yaml second.yaml --driver sim --out o --cells covering -v
for pair in ranks=1,job.collective=linear ranks=1,job.collective=ring ranks=2,job.collective=linear ranks=2,job.collective=ring; do
    grep -qF "$pair" out || fail "--cells covering: no cell of the family has $pair: $(cat out)"
done
# The other family has all four pairs to itself.
printf '# Four cells of another family.\nid: other.first\n%s\nexpect: {verdict: NONE}\n%s\n' "$job" "$pairs" >other.yaml
says '--cells covering: 8 cells, 4 more were left out' run first.yaml second.yaml other.yaml --driver sim --out o \
    --cells covering --seeds 1
says '--cells covering: 6 cells, 18 more were left out' run twelve.yaml --driver sim --out o --cells covering -v --seeds 2
for value in job.seed=1 job.seed=2 job.seed=3 rank=1 rank=2 steps=1 steps=2; do
    grep -qF "$value" out || fail "--cells covering: no cell has $value: $(cat out)"
done
# A cell that cannot run covers nothing, and what has no matrix is run.
printf '# Two of four cells are for this driver.\nid: own.half\nfor_ranks: [2]\n%s\nexpect: {verdict: NONE}\n%s\n' "$job" \
    'matrix: {job.ranks: [2, 3], job.seed: [1, 2]}' >half.yaml
says '3 passed, 0 failed, 2 skipped' run half.yaml two.yaml --driver sim --out o --cells covering
says '12 passed, 0 failed' run twelve.yaml --driver sim --out o --cells all
grep -q 'left out' out && fail "--cells all leaves cells out: $(cat out)"
refused 'is all or covering' run twelve.yaml --cells some

# The other commands.
for list in scenarios faults actions points models data collectives oracles verdicts keys schema tests; do
    case $list in
    scenarios | faults | tests) ends 0 list $list "$scenarios/hang" ;;
    *) ends 0 list $list ;;
    esac
    test "$(wc -l <out)" -ge 3 || fail "list $list: $(cat out)"
done
says 'drivers: sim ready' doctor
for tool in eu-stack py-spy; do
    is_there=no
    command -v $tool >/dev/null && is_there=yes
    grep -q "^$tool  *$is_there " out || fail "doctor, $tool: $(cat out)"
done
env PATH=/nowhere "$ddprove" doctor >out
grep -q '^eu-stack  *no .*install elfutils' out || fail "doctor without a PATH: $(cat out)"
says ' 0 bad' lint "$scenarios"
says 'steps/s' train "$scenarios/equivalence/mlp_w4.yaml" --driver sim
says 'steps/s' train "$scenarios/equivalence/mlp_w4.yaml" --driver proc
mlp=$scenarios/equivalence/mlp_w4.yaml
says '4 devices of one process, 20 steps' train "$mlp" --parallel dp
says 'KiB of tensors' train "$mlp" --parallel dp
says '1 device, the batches of 4 ranks, 20 steps' train "$mlp" --parallel single
says '273448 bytes: fc2.bias fc2.weight fc1.bias fc1.weight' train "$mlp" --show-buckets --driver sim
says 'of perfect  in all-reduce  only waiting  not needed by 1 rank' train "$mlp" --driver sim --scaling 1,2
refused 'is ddp, dp or single' train "$mlp" --parallel pipeline
refused 'draws what --scaling measures' train "$mlp" --svg picture.svg
refused 'not a number from 1 to' train "$mlp" --scaling 1,two
refused 'only ddp trains with' train "$mlp" --parallel dp --set job.optimizer.clip_norm=1
refused 'or mixed_precision; leave them out' train "$mlp" --parallel single --set job.mixed_precision.params=bf16
refused 'leave mixed_precision out' export "$mlp" --set job.mixed_precision.params=bf16 --out exported
refused 'only train takes it' run "$one" --fast
says '"gpus"' list resources
says 'HANG.NOT_JOINED' explain pinned/hang.before_bucket/sim

# A scenario to start from runs as it is, with what it says, and is not overwritten.
ends 0 new scenario crash.mine
says 'new/crash/mine.yaml' new scenario crash.mine --out new
says '1 scenario file, 0 bad' lint new/crash/mine.yaml
says '8 passed, 0 failed' run new/crash/mine.yaml
cmp new/crash/mine.yaml scenarios/crash/mine.yaml || fail 'new scenario writes into --out what it writes into scenarios'
refused 'is there already' new scenario crash.mine
for id in crash crash. .mine ../up.mine crash.mine.yaml 'crash.a b' -x.y; do
    refused 'is FAMILY.NAME' new scenario -- "$id"
done
refused 'say what, and its name' new scenario
refused 'say what, and its name' new plan crash.mine
refused 'is of a scenario' new guest trainer --out there
: >in_the_way
refused 'in_the_way' new scenario crash.mine --out in_the_way

echo "$failures failures"
test "$failures" -eq 0
