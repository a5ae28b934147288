#!/bin/sh
# The commands campaign and shrink: what they print and write, whose shard is run, and errors of one line.
# Usage: campaign.sh DDPROVE CAMPAIGN OUT
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/checks.sh"
ddprove=$1
file=$2
rm -rf "$3"
mkdir -p "$3" && cd "$3" || exit 1

refused 'absent.yaml' campaign absent.yaml
printf '# Mine.\ncampaign: own\ncases: 10\nshape: round\n' >bad.yaml
refused 'bad.yaml:4' campaign bad.yaml
refused 'name the folders of the shards' campaign merge
refused 'nowhere' campaign merge nowhere
refused 'is not a number from 0 to 1' campaign "$file" --shard 3/2

says '6 passed, 0 failed, 0 inconclusive, 0 errors: six/results.txt' campaign "$file" --cases 6 --driver sim --out six
says '6 passed, 0 failed' campaign merge six --out merged
cmp six/results.txt merged/results.txt || fail "a merge of one shard differs"
says '6 passed, 0 failed' campaign "$file" --cases 6 --driver sim --out six --resume
says 'cases/s of one core' campaign "$file" --cases 3 --driver sim --seed 9 --budget 60 --out three

# What the campaign sets does not fit every plan that is drawn: those are left out, and none of them is wrong. If it fits
# none, nothing was shown.
printf '# Mine.\ncampaign: own\ncases: 40\nseed: 1\nset: [job.hook=bf16]\n' >hook.yaml
says ' left out: what the campaign sets does not fit them' campaign hook.yaml --driver sim --out hook
grep -qE '^[1-9][0-9]* passed, 0 failed, 0 inconclusive, 0 errors' out || fail "cases that are left out count: $(cat out)"
[ ! -d hook/failed ] || [ -z "$(ls hook/failed)" ] || fail "a case that was left out is kept: $(ls hook/failed)"
printf '# Mine.\ncampaign: own\ncases: 3\nseed: 1\nset: [job.collective=nccl]\n' >none.yaml
ends 77 campaign none.yaml --driver sim --out none

# Each case is a canary whose run passes, so each is wrong, and leaves its plan: another campaign leaves the same plan; its
# run is what the case was, and another run of it the same record, byte for byte.
printf '# Mine.\ncampaign: own\ncases: 12\nseed: 8\nfaults: [1, 3]\nset: ["canary={outcome: FAIL}"]\n' >canaries.yaml
for turn in first second; do
    mkdir -p "replay/$turn"
    ends 1 campaign canaries.yaml --driver sim --out "replay/$turn/all"
    for failed in "replay/$turn/all/failed"/*.sim; do
        case=$(basename "$failed")
        (cd "replay/$turn" && "$ddprove" run "all/failed/$case/plan.yaml" --driver sim --out "again/$case" >"$case.out" 2>&1)
        test $? -eq 1 || fail "$case does not fail again: $(cat "replay/$turn/$case.out")"
        "$ddprove" check "replay/$turn/again/$case"/*/sim >out 2>&1
        test $? -eq 1 || fail "$case is judged otherwise from its record: $(cat out)"
        was=$(sed 's/.*: canary returned/canary returned/' "$failed/signature.txt")
        grep -qF -e "$was" "replay/$turn/again/$case"/*/sim/verdict.json ||
            fail "$case was \"$was\", and is not: $(cat "replay/$turn/$case.out")"
        cmp "$failed/plan.yaml" "replay/$turn/again/$case"/*/sim/plan.yaml || fail "$case: another plan was run"
    done
done
test "$(grep -c ' FAIL ' replay/first/all/results.txt)" -eq 12 || fail "not all cases are wrong: $(cat replay/first/all/results.txt)"
test -d replay/first/all/failed/00000011.sim || fail "not all cases are kept"
# A shard lists answers as they come.
diff -r -x 'shard.*' replay/first replay/second >out || fail "the same campaign, and other bytes: $(head -5 out)"

# A shard says nothing of the others; without one of them the whole is no success.
says '2 passed, 0 failed' campaign "$file" --cases 6 --driver sim --shard 1/3 --out part
grep -q 'missing' out && fail "a shard misses what is not its own: $(cat out)"
ends 4 campaign merge part --out parts
grep -q 'shard 2/3 is missing' out || fail "the merge does not say which shard is missing: $(cat out)"

# With --fail-fast the first wrong answer ends it.
(ulimit -v 60000 && exec "$ddprove" campaign "$file" --driver sim --fail-fast -j 1 --out broken) >out 2>err
grep -q '^0 passed, 0 failed, 0 inconclusive, [12] errors' out || fail "--fail-fast goes on: $(cat out err)"
grep -q 'answers are missing; --resume goes on' out || fail "--fail-fast does not say what is left: $(cat out err)"

# Whoever starts several copies says which of them this is: two of three cases, or one.
shard() {
    text=$1
    shift
    env "$@" "$ddprove" campaign "$file" --cases 3 --driver sim -j 1 --out shards >out 2>err
    grep -qF -e "$text" shards/*/* shards/* 2>/dev/null || fail "$*: no \"$text\": $(cat out err; ls shards)"
    rm -rf shards
}
shard 'shard 1/2' SLURM_PROCID=1 SLURM_NTASKS=2
shard 'shard 0/3' OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3
shard 'shard 2/3' JOB_COMPLETION_INDEX=2 JOB_COMPLETION_COUNT=3
shard 'shard 1/3' GTEST_SHARD_INDEX=1 GTEST_TOTAL_SHARDS=3
shard 'shard 0/2' SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=4

job='job: {ranks: 4, steps: 6, model: mlp, data: digits, batch_per_rank: 4, optimizer: {kind: sgd, lr: 0.1}}'
kill='  - {at: {rank: 2, step: 3}, point: data/next, do: {kill: SIGKILL}}'
wait='  - {at: {rank: 1, step: 1}, point: data/next, do: {delay: 5}}'
printf '# A rank dies.\nid: own.dies\n%s\nfaults:\n%s\n%s\nexpect: {verdict: NONE}\n' "$job" "$kill" "$wait" >dies.yaml
printf '# Nothing happens.\nid: own.fine\n%s\nexpect: {verdict: NONE}\n' "$job" >fine.yaml
refused 'absent.yaml' shrink absent.yaml
refused 'name one run folder or plan' shrink dies.yaml fine.yaml
refused 'nothing' shrink fine.yaml
for driver in sim proc; do
    says 'CRASH.SIGNALED, 1 faults' shrink dies.yaml --driver $driver --out "scenarios/$driver"
    grep -q "^id: $driver\\." scenarios/$driver/*.yaml || fail "the family is not that of the folder: $(cat scenarios/$driver/*.yaml)"
    ls -a scenarios/$driver | grep -q '^\.shrink' && fail "shrink leaves a folder behind"
    says '1 passed, 0 failed' run scenarios/$driver --driver $driver --out again.$driver
done
ends 1 run dies.yaml --driver sim --out dies
says 'CRASH.SIGNALED' shrink dies/own.dies/sim --out from_run

test "$failures" -eq 0
