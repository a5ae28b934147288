#!/bin/sh
# `ddprove exec SCENARIO -- COMMAND` and what can be asked of its run folder afterwards.
# Usage: scenario.sh DDPROVE SCENARIOS
set -u
ddprove=$1 scenarios=$2
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# expect CODE WORDS COMMAND...: it ends with this code and says a line with these words (a pattern).
expect() {
    code=$1 words=$2
    shift 2
    "$@" >said 2>&1
    got=$?
    if [ "$got" -ne "$code" ] || ! grep -q -- "$words" said; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat said
        failures=$((failures + 1))
    fi
}

check() { # WHAT COMMAND...
    what=$1
    shift
    "$@" >/dev/null || { echo "FAIL: $what" && failures=$((failures + 1)); }
}

# A scenario for whatever program is named behind "--".
cat >count.yaml <<YAML
# A rank reduces fewer elements than the others.
id: any.count
job: {guest: {}, ranks: 3, steps: 30}
faults:
  - at: {rank: 1, step: 12, bucket: 1}
    point: collective/pre
    do: {arg: count, value: 31}
expect: {verdict: MISMATCH.COUNT, culprit: injected, step: 12, op: {comm: world, bucket: 1}}
YAML
exec_count() { # ARGUMENTS... -- COMMAND...
    "$ddprove" exec count.yaml "$@"
}
trainer="ddprove_guest_trainer 30" # found beside ddprove
# shellcheck disable=SC2086 # words
{
    expect 0 "^PASS  *proc any.count  MISMATCH.COUNT  rank 1  step 12" \
        exec_count --out one --json one.json --junit one.xml -- $trainer
    expect 0 "^1 passed, 0 failed" exec_count --out four --ranks 4 --limit 5 -- $trainer
    expect 4 "never fired" exec_count --out short -- ddprove_guest_trainer 5
    expect 1 "^FAIL  *proc any.count  MISMATCH.COUNT" \
        exec_count --out failed --set faults.0.at.rank=2 --set 'expect.culprit=[1]' -- $trainer
    expect 4 "LAUNCH.MISSING_RANK  rank 0,1,2" exec_count --out none -- true
    expect 3 "no/such/program cannot be started: No such file" exec_count --out missing -- no/such/program
    # A file's own program is replaced by the one that is named.
    expect 0 "^PASS .*guest.healthy" \
        "$ddprove" exec "$scenarios/healthy.yaml" --ranks 2 --out healthy -- sh -c "exec $trainer"
    # Words that are no plain text.
    expect 0 "^PASS" "$ddprove" exec "$scenarios/healthy.yaml" --ranks 2 --out words -- sh -c "exec $trainer
# a second line" '' 'ä' "$(printf 'a\302\205b\302\240\342\200\250\357\273\277\001')"
    expect 0 "^PASS" "$ddprove" check words/guest.healthy
}
run=one/any.count/proc
check "the report's outcome" grep -q '"outcome": "PASS"' one.json
check "the report's verdict" grep -q '"verdict": "MISMATCH.COUNT"' one.json
check "the report's case" grep -q '<testcase classname="ddprove.proc" name="any.count"' one.xml
check "the report's culprit" grep -q 'name="culprit" value="\[1\]"' one.xml
check "the plan's ranks" grep -q '^  ranks: 4$' four/any.count/proc/plan.yaml
check "the plan's limit" grep -q '^  timeout_ms: 5000$' four/any.count/proc/plan.yaml
check "the plan's command" grep -q 'command: \[ddprove_guest_trainer, "30"\]' "$run/plan.yaml"
check "what a rank said" grep -q '^loss' short/any.count/proc/rank0.log
check "the verdict's file" grep -q '"verdict": "MISMATCH.COUNT"' "$run/verdict.json"

# The folder again.
expect 0 "^PASS  *proc any.count  MISMATCH.COUNT  rank 1  step 12" "$ddprove" check "$run"
expect 1 "^FAIL" "$ddprove" check failed/any.count/proc
expect 4 "never fired" "$ddprove" check short/any.count/proc
expect 0 "finding 1: MISMATCH.COUNT by monitor (provable)  rank 1" "$ddprove" explain "$run"
# A rank is ended by a signal, unless it sees before that its connection is closed, and gives up.
ended='\(signaled by signal 15\|exited with code 1\)'
check "who was ended" grep -q "rank 0: $ended, 13 steps begun; last calls:" said
check "the last call" grep -q "^ *all_reduce 27 of world (31 f32, sum, bucket 1), step 12, not done" said
check "no call before it" sh -c '! grep -q "^ *all_reduce 26 of world" said'
expect 0 "rank 1: $ended, 13 steps begun, 1 faults fired" "$ddprove" explain --events "$run"
check "the calls before it" grep -q "^ *all_reduce 26 of world (32 f32, sum, bucket 0), step 12" said
expect 0 "^PASS" "$ddprove" run --out again "$run/plan.yaml"

# What a verdict stands on, in a file, in words and for CI; and again from the record.
"$ddprove" run "$scenarios/model_healthy.yaml" --set job.ranks=2 --set job.guest.bitwise_steps='[0, 11]' -v \
    --out model --junit model.xml >said 2>&1
check "the verdict stands on eight oracles" grep -q "judged: program 36, ledger 12, reduction 36 (36 bit for bit), update 48 (48 bit for bit), replicas 12 (12 bit for bit), liveness 2, usage 24, checkpoint 2" said
check "what was not judged" grep -q "not judged: gradient, no step is played again (job.guest.prove)" said
model=$(dirname "$(find model -name verdict.json | head -1)")
check "bit for bit" grep -q '"mode": "bitwise"' "$model/verdict.json"
check "CI is told" grep -q 'name="judged" value=".*replicas' model.xml
check "data are kept" test -e "$model/kept/rank1.update3.tensor0.gradient"
cp "$model/verdict.json" verdict.before
expect 0 "^PASS" "$ddprove" check "$model"
expect 0 "judged: program 36" "$ddprove" explain "$model"
cp -r "$scenarios/learned" learned
expect 0 "^PASS" "$ddprove" exec "$scenarios/healthy.yaml" --ranks 4 --set job.steps=12 --against learned/model_w4 \
    --out against -- ddprove_guest_model_trainer 12
expect 1 "^FAIL.*MISMATCH.MISSING" "$ddprove" exec "$scenarios/healthy.yaml" --ranks 4 --set job.steps=12 \
    --against learned/model_w4 --out against -- ddprove_guest_model_trainer 12 sgd drop -1 5
expect 2 "no/folder: No such file" "$ddprove" exec "$scenarios/healthy.yaml" --against no/folder -- true
expect 2 "learned/program.txt: .*; name a folder that --record wrote" "$ddprove" exec "$scenarios/healthy.yaml" \
    --against learned -- true
expect 2 "name no scenario" "$ddprove" exec "$scenarios/healthy.yaml" --record learned -- true

# A record that was changed, in a digit, a line, its order or its end, is not believed.
cp "$run/trace.txt" trace
for edit in 's/count=31/count=32/' 's/fired=1,/fired=0,/' '3d' '$d' '4p' 's/^\(about .*\)$/\1 /' '2{h;d};3{G}'; do
    sed "$edit" trace >"$run/trace.txt"
    check "$edit changes something" sh -c "! cmp -s trace $run/trace.txt"
    expect 4 "^INCONCLUSIVE proc any.count" "$ddprove" check "$run"
    check "why: $edit" grep -q "the evidence was damaged: .*/trace.txt: [0-9]*:[0-9]*: " said
    expect 3 "no record of the run: [0-9]*:[0-9]*: " "$ddprove" explain "$run"
done
rm "$run/trace.txt"
expect 2 "trace.txt: No such file" "$ddprove" check "$run"
cp trace "$run/trace.txt"
expect 0 "^PASS" "$ddprove" check "$run"

# Bad input.
expect 2 "own.yaml is not about a guest: it has no job.guest" sh -c '
    printf "# Own ranks.\nid: own.job\njob: {ranks: 2, steps: 3, model: mlp, batch_per_rank: 8}\nexpect: {verdict: NONE}\n" >own.yaml
    exec "$1" exec own.yaml -- true' - "$ddprove"
expect 2 "no/such.yaml: No such file" "$ddprove" exec no/such.yaml -- true
expect 2 "no command" "$ddprove" exec count.yaml
expect 2 "leave out --on-failure leave" exec_count --on-failure leave -- true
for option in "--set job.ranks=2" "--out o" "--json o" "--junit o"; do
    # shellcheck disable=SC2086 # words
    expect 2 "are of scenarios" "$ddprove" exec $option -- true
done
expect 2 'unknown key "job.no"\|unknown key "no"' exec_count --set job.no=1 -- true
expect 2 'does not take the key "model"' exec_count --set job.model=mlp -- true
expect 2 "word 2 behind .* is not UTF-8" exec_count -- sh "$(printf 'a\377')"
expect 3 "the scenario names no program" "$ddprove" run --out unnamed count.yaml
expect 77 "a guest has real processes only" exec_count --driver sim --out sim -- true
# A bit of one rank's input flips, and all get the same wrong sum: the rank, the operation and the least change that is
# sure to be seen are said beside the bound; from kept data the element too.
flipped() { # SCENARIO RANK OPERATION KEPT_STEP OTHER_STEP
    for step in "$4" "$5"; do
        said_so="$3.*: rank $2's input changed while the call was in flight, off by .*rounding explains [^ ]* (a change of more than [^ ]* in one element cannot be missed)"
        [ "$step" != "$4" ] || said_so="$3.*: element 5 is .* the sum with rank $2's contribution with bit 25 flipped"
        expect 0 "^PASS" "$ddprove" run "$scenarios/$1.yaml" --set "job.guest.bitwise_steps=[$step]" \
            --set "faults.0.at.rank=$2" --set job.ranks=4 --out "flipped$step"
        check "$1, kept step $step: $said_so" grep -rq "$said_so" "flipped$step" --include=verdict.json
        rm -r "flipped$step"
    done
}
flipped value_flipped_input 3 "all_reduce 27 of world" 12 20
if [ -x "$(dirname "$(command -v "$ddprove")")/ddprove_mpi_trainer" ] && command -v mpirun >/dev/null; then
    flipped mpi_value_flipped_input 2 "all_reduce 26 of MPI_COMM_WORLD" 0 1
fi

# Of ranks that end alike, each is said.
expect 0 "^PASS" "$ddprove" run --out two "$scenarios/two_kills.yaml"
verdict=two/guest.two_kills/proc/verdict.json
check "both ends" grep -q '"text": ".*rank 1 was ended.*rank 3 was ended\|"text": ".*rank 3 was ended.*rank 1 was ended' "$verdict"
echo "$failures failures"
exit "$((failures > 0))"
