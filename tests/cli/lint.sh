#!/bin/sh
# What can't be or can't happen is found before anything runs: one error with its place and a remedy.
# Usage: lint.sh DDPROVE OUT
set -u
ddprove=$1
failures=0
rm -rf "$2"
mkdir -p "$2" && cd "$2" || exit 1

fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

# finds TEXT MODEL 'JOB KEYS' 'FAULTS' 'EXPECT': lint says TEXT in one line. EXPECT: default verdict: NONE.
finds() {
    text=$1
    printf '# A scenario with a mistake.\nid: own.bad\njob: {ranks: 2, steps: 2, model: %s, batch_per_rank: 4, %s}\n%s\nexpect: {%s}\n' \
        "$2" "$3" "$4" "${5:-verdict: NONE}" >bad.yaml
    "$ddprove" lint bad.yaml >out 2>err
    got=$?
    test "$got" -eq 2 || fail "exit $got, not 2: $text: $(cat bad.yaml)"
    test "$(wc -l <err)" -eq 1 || fail "not one line: $(cat err)"
    grep -qF -e "$text" err || fail "\"$(cat err)\" does not say \"$text\""
}

# Models and data.
finds 'bad.yaml:3:66: widths lead from 10 to 3, but the dataset has 64 features and 10 classes' mlp 'widths: [10, 5, 3]' ''
finds 'widths lead from 64 to 9' mlp 'widths: [64, 32, 9]' ''
finds 'from 2 to 65 entries' mlp 'widths: [64]' ''
finds 'bad.yaml:3:70: ' branchy 'widths: [64, 32, 16, 10]' ''
finds 'bad.yaml:3:67: digits has 1797 samples, not 99999' mlp 'samples: 99999' ''
finds 'only synthetic and text have as many' mlp 'data: digits, features: 12' ''
# Every model and dataset that needs no file: what a model does not learn from is refused where data is said, and all else
# runs.
for model in mlp branchy exact_linear module_child module_twin convnet gpt moe; do
    for data in digits dyadic synthetic text; do
        case $model.$data in
            exact_linear.dyadic | gpt.text | moe.digits | moe.synthetic | mlp.digits | mlp.synthetic | branchy.digits | \
                branchy.synthetic | module_*.digits | module_*.synthetic | convnet.digits | convnet.synthetic)
                printf '# A pair.\nid: own.pair\njob: {ranks: 2, steps: 1, model: %s, data: %s, find_unused_parameters: true, batch_per_rank: 2}\nexpect: {verdict: NONE}\n' \
                    "$model" "$data" >pair.yaml
                "$ddprove" run pair.yaml --driver sim --out pairs >out 2>&1 || fail "$model with $data: $(cat out)"
                ;;
            exact_linear.*) finds "and these data have" "$model" "data: $data" '' ;;
            *) finds "model $model learns from" "$model" "data: $data" '' ;;
        esac
    done
done
finds 'bad.yaml:3:64: model mlp learns from labels, and these data have targets; data with labels: digits, synthetic, idx, csv' \
    mlp 'data: dyadic' ''
finds 'bad.yaml:3:34: model exact_linear learns from targets, and these data have labels; data with targets: dyadic' \
    exact_linear 'seed: 1' ''
finds 'model gpt learns from tokens, and these data have labels; data with tokens: text' gpt 'data: digits' ''
finds 'hold 4000 samples, the dataset only 1797' mlp 'shard_sizes: [2000, 2000]' ''
finds 'hold 16 samples, the dataset only 10' mlp 'samples: 10, shard_sizes: [8, 8]' ''
# Faults that never fire, and actions that do nothing where they are.
never='never fires: in this job, rank 0 does not reach'
finds "faults.0 $never bucket/launch" mlp 'seed: 1' 'faults: [{at: {rank: 0, bucket: 77}, point: bucket/launch, do: {skip: true}}]'
finds "$never backward/grad_ready" mlp 'seed: 1' 'faults: [{at: {rank: 0, param: 77}, point: backward/grad_ready, do: {fail: true}}]'
finds "$never bucket/launch" mlp 'seed: 1' 'faults: [{at: {rank: 0, phase: optimizer}, point: bucket/launch, do: {kill: SIGKILL}}]'
finds "$never checkpoint/write" mlp 'seed: 1' 'faults: [{at: {rank: 0}, point: checkpoint/write, do: {kill: SIGKILL}}]'
finds "$never forward/layer" mlp 'seed: 1' 'faults: [{at: {rank: 0, layer: 9}, point: forward/layer, do: {hang: true}}]'
finds "$never collective/enqueue" mlp 'seed: 1' 'faults: [{at: {rank: 0, seq: 4711}, point: collective/enqueue, do: {hang: true}}]'
finds "$never data/next" mlp 'seed: 1' 'faults: [{at: {rank: 0, step: 0, hit: 2}, point: data/next, do: {hang: true}}]'
finds 'leaves nothing out when it is skipped' mlp 'seed: 1' 'faults: [{at: {rank: 0}, point: forward/layer, do: {skip: true}}]'
finds 'leaves nothing out when it is skipped' mlp 'seed: 1' 'faults: [{at: {rank: 0}, point: optimizer/updated, do: {skip: true}}]'
# Expectations that can't be met.
hang='faults: [{at: {rank: 0, bucket: 0}, point: bucket/launch, do: {hang: true}}]'
finds 'the model has no parameter fc9.weight; did you mean fc0.weight' mlp 'seed: 1' "$hang" \
    'verdict: HANG.NOT_JOINED, op: {params: [fc9.weight]}'
finds 'expect: bucket 9 cannot be named: the job has 1, counted from 0' mlp 'seed: 1' "$hang" \
    'verdict: HANG.NOT_JOINED, op: {bucket: 9}'
finds 'expect: bucket 7 cannot be named' mlp 'seed: 1' "$hang" \
    'verdict: HANG.NOT_JOINED, findings: [{verdict: HANG.NOT_JOINED, culprit: [0], op: {bucket: 7}}]'
finds 'step 9 cannot be named: the job has 2 steps' mlp 'seed: 1' "$hang" 'verdict: HANG.NOT_JOINED, step: 9'
planned=$("$ddprove" list verdicts | sed -n 's/ .*(planned:.*//p' | head -n 1)
test -z "$planned" || finds "$planned is planned: no run reports it yet" mlp 'seed: 1' '' "verdict: $planned, culprit: none"

# A card's waits.
card='bucket_cap_kb: 1, bucket_order: reverse, device: cuda, collective: nccl, ranks_per_gpu: 4'
wait='faults: [{at: {rank: 1, step: 1, bucket: 0}, point: collective/wait, do: {skip: true}}]'
finds 'bad.yaml:4:9: faults.0 leaves out the wait for bucket 0, and on a card that for bucket 2 holds for it: use bucket 2, the last' \
    mlp "widths: [64, 32, 32, 10], $card" "$wait"
finds 'a later one of the pass holds for it: leave out hook' mlp "widths: [64, 10], hook: fp16, $card" "$wait"
finds 'a later one of the pass holds for it: leave out find_unused_parameters' mlp \
    "widths: [64, 10], find_unused_parameters: true, $card" "$wait"

echo "$failures failures"
test "$failures" -eq 0
