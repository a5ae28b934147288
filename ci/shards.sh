#!/usr/bin/env bash
# Seven shards of a campaign, killed at random and started again, give the bytes of one unsharded run. The
# shards are tasks of a real Slurm array where Slurm is installed (slurmctld, slurmd, munged: a cluster of this
# one machine, with its own folder, ports and key), else plain processes.
# Usage: shards.sh DDPROVE CAMPAIGN CASES OUT
set -u
ddprove=$(realpath "$1") campaign=$(realpath "$2") cases=$3
# shellcheck source=ci/slurm.sh
. "$(dirname "$0")/slurm.sh"
rm -rf "$4"
mkdir -p "$4/slurm" && cd "$4" || exit 1
out=$PWD
readonly shard_count=7
pids=()

end_daemons() {
    if ((${#pids[@]} > 0)); then
        kill "${pids[@]}" 2>/dev/null
        wait "${pids[@]}" 2>/dev/null
    fi
}
trap end_daemons EXIT

# Shards that have not ended well, one a line.
unfinished() {
    local i
    for ((i = 0; i < shard_count; i++)); do
        [[ -e $out/done.$i ]] || echo "$i"
    done
}

# Kill a few of the shards that are at it, without a word. Their workers end with them; a worker that ends
# alone is no killed shard, but a finding.
kill_some() {
    local pid victims=()
    while read -r pid; do
        if [[ $(ps -o comm= -p "$(ps -o ppid= -p "$pid" | tr -d ' ')" 2>/dev/null) != ddprove ]]; then
            victims+=("$pid")
        fi
    done < <(pgrep -f "^$ddprove campaign $campaign .*--out $out/shards" | shuf -n 6)
    victims=("${victims[@]:0:3}")
    if ((${#victims[@]} > 0)); then
        kill -KILL "${victims[@]}" 2>/dev/null && kills=$((kills + ${#victims[@]}))
    fi
}

cat >shard.sh <<SHARD
#!/bin/bash
"$ddprove" campaign "$campaign" --cases $cases --driver sim -j 1 --resume --out "$out/shards" "\$@" && touch "$out/done.\${SLURM_ARRAY_TASK_ID:-\$INDEX}"
SHARD
chmod +x shard.sh

"$ddprove" campaign "$campaign" --cases "$cases" --driver sim --out "$out/one" >one.log 2>&1 || { tail one.log; exit 1; }
kills=0 rounds=0
if command -v sbatch >/dev/null && start_slurm "$out/slurm" 16817 >"$out/slurm/why"; then
    with="a Slurm array ($(slurmctld -V))"
    while mapfile -t left < <(unfinished) && ((${#left[@]} > 0 && rounds < 30)); do
        rounds=$((rounds + 1))
        # A task of a part of the array is told the whole array's size, so its shard stays the same.
        job=$(SHARDS=$shard_count sbatch --parsable --array="$(IFS=,; echo "${left[*]}")" --output="$out/slurm/%a.log" \
            --wrap "\"$out/shard.sh\" --shard \$SLURM_ARRAY_TASK_ID/$shard_count") || exit 1
        while squeue -h -j "$job" 2>/dev/null | grep -q .; do
            if ((rounds <= 3)); then kill_some; fi
            sleep 0.7
        done
    done
else
    with="processes (Slurm is not installed, or does not start here)"
    while mapfile -t left < <(unfinished) && ((${#left[@]} > 0 && rounds < 30)); do
        rounds=$((rounds + 1))
        jobs_started=()
        for i in "${left[@]}"; do
            INDEX=$i ./shard.sh --shard "$i/$shard_count" >"$i.log" 2>&1 &
            jobs_started+=($!)
        done
        if ((rounds <= 3)); then
            sleep 0.7
            kill_some
        fi
        wait "${jobs_started[@]}"
    done
fi
[[ -z $(unfinished) ]] || { echo "shards $(unfinished | tr '\n' ' ')never ended well"; exit 1; }
"$ddprove" campaign merge "$out/shards" --out "$out/merged" >merge.log 2>&1 || { tail merge.log; exit 1; }
((kills > 0)) || { echo "no shard was killed: nothing was shown"; exit 1; }
cmp one/results.txt merged/results.txt || exit 1
echo "$cases cases in $shard_count shards by $with, $kills killed, $rounds rounds: the bytes of one run"
