#!/usr/bin/env bash
# One case of programs on the real NCCL that know nothing of ddprove, under `ddprove exec`. All ranks share one card;
# contexts are made one after the other, so that ranks are silent for some seconds before their first call.
# Usage: nccl_card.sh BUNDLE CASE; without a case: the names of all. Exit: 0, or 1 and what was said instead; 77: PyTorch
# is not there. NCCL_CARD_PROGRAM: in place of the bundle's program.
set -u
bundle=${1:-} name=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export NCCL_NET=Socket NCCL_SOCKET_IFNAME="=lo" NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 \
    NCCL_MAX_NCHANNELS=2 NCCL_RAS_ENABLE=0

cases="program program_kill program_stop program_skip program_count program_redop profiler profiler_kill
    profiler_count torch torch_on_nccl torch_kill torch_skip torch_stop torch_count"

# said CODE WORDS COMMAND...: it ends with this code, and says a line with these words; without words, says nothing of ddprove's.
said() {
    local code=$1 words=$2 got
    shift 2
    timeout --kill-after=5 90 "$@" >"$folder/out" 2>&1 </dev/null
    got=$?
    if [[ $got != "$code" ]] || { [[ -n $words ]] && ! grep -q "$words" "$folder/out"; } ||
        { [[ -z $words ]] && grep "^ddprove" "$folder/out" | grep -qv "^ddprove: note: "; }; then
        echo "exit $got, not $code; said, instead of \"$words\":"
        tail -n 60 "$folder/out"
        exit 1
    fi
    grep -E "^(PASS|ddprove)" "$folder/out" || true
}

# judged WORDS ADAPTER RANKS FAULT EXPECT COMMAND...: a scenario passes and says a line with these words.
judged() {
    local words=$1
    cat >"$folder/card.yaml" <<YAML
# A program on the real NCCL.
id: card.$name
job: {guest: {adapter: $2}, ranks: $3, steps: 20, timeout_ms: 15000}
faults: [{at: {rank: 1, $4]
expect: {$5}
YAML
    shift 5
    said 0 "^PASS .*$words" "$bundle/bin/ddprove" exec "$folder/card.yaml" --out "$folder/runs" -- "$@"
}

program=("${NCCL_CARD_PROGRAM:-$bundle/bin/guest_nccl_card}" "$folder/ranks")
mkdir "$folder/ranks"
sum="kind: all_reduce, comm: ncclCommInitRank, seq: 23}, point: collective/pre"
torch=(python3 "$here/torch/card.py")
torch_sum="kind: all_reduce, step: 9, bucket: 0}, point: collective/pre"
if [[ $name == torch* ]] && ! python3 -c "import torch" 2>/dev/null; then
    echo "PyTorch is not installed"
    exit 77
fi
case $name in
program) said 0 "" "$bundle/bin/ddprove" exec --ranks 3 --adapter nccl -- "${program[@]}" ;;
program_kill) judged "CRASH.SIGNALED  rank 1" nccl 3 "$sum, do: {kill: SIGKILL}}" "verdict: CRASH.SIGNALED, culprit: injected" "${program[@]}" ;;
program_stop) judged "HANG.STOPPED  rank 1" nccl 3 "$sum, do: {stop: forever}}" "verdict: HANG.STOPPED, culprit: injected" "${program[@]}" ;;
program_skip) judged "HANG.CYCLE  rank 1" nccl 3 "$sum, do: {skip: true}}" "verdict: HANG.CYCLE, culprit: injected" "${program[@]}" ;;
program_count) judged "MISMATCH.COUNT  rank 1" nccl 3 "$sum, do: {arg: count, value: 100}}" "verdict: MISMATCH.COUNT, culprit: injected" "${program[@]}" ;;
program_redop) judged "MISMATCH.REDUCTION  rank 1" nccl 3 "$sum, do: {arg: redop, value: max}}" "verdict: MISMATCH.REDUCTION, culprit: injected" "${program[@]}" ;;
profiler*)
    export NCCL_PROFILER_PLUGIN=$bundle/lib/libnccl-profiler-ddprove.so
    case $name in
    profiler) said 0 "" "$bundle/bin/ddprove" exec --ranks 3 -- "${program[@]}" ;;
    profiler_kill) said 1 "^ddprove: CRASH.SIGNALED, rank 1: .*SIGKILL" "$bundle/bin/ddprove" exec --ranks 3 -- "${program[@]}" kill 1 20 ;;
    profiler_count) said 1 "^ddprove: MISMATCH.COUNT, rank 1: .*128 f32.*256 f32" "$bundle/bin/ddprove" exec --ranks 3 -- "${program[@]}" count 1 20 ;;
    esac
    ;;
torch) said 0 "" "$bundle/bin/ddprove" exec --ranks 2 --adapter torch -- "${torch[@]}" ;;
torch_on_nccl) said 0 "" "$bundle/bin/ddprove" exec --ranks 2 --adapter nccl -- "${torch[@]}" ;;
torch_kill) judged "CRASH.SIGNALED  rank 1" torch 2 "$torch_sum, do: {kill: SIGKILL}}" "verdict: CRASH.SIGNALED, culprit: injected, step: 9" "${torch[@]}" ;;
torch_stop) judged "HANG.STOPPED  rank 1" torch 2 "$torch_sum, do: {stop: forever}}" "verdict: HANG.STOPPED, culprit: injected, step: 9" "${torch[@]}" ;;
torch_skip) judged "MISMATCH.MISSING  rank 1" torch 2 "$torch_sum, do: {skip: true}}" "verdict: MISMATCH.MISSING, culprit: injected, step: 9" "${torch[@]}" ;;
torch_count) judged "MISMATCH.COUNT  rank 1" torch 2 "$torch_sum, do: {arg: count, value: 100}}" "verdict: MISMATCH.COUNT, culprit: injected, step: 9" "${torch[@]}" ;;
"") echo $cases ;;
*) echo "no case is called \"$name\"; there are: $cases" >&2; exit 2 ;;
esac
