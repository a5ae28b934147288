#!/usr/bin/env bash
# Seven shards of a campaign, killed at random and started again, give the bytes of one unsharded run. The
# shards are tasks of a real Slurm array where Slurm is installed (slurmctld, slurmd, munged: a cluster of this
# one machine, with its own folder, ports and key), else plain processes.
# Usage: shards.sh DDPROVE CAMPAIGN CASES OUT
set -u
ddprove=$(realpath "$1") campaign=$(realpath "$2") cases=$3
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

# A cluster of one node: nothing outside of $out/slurm and two loopback ports is used.
start_slurm() {
    local dir=$out/slurm cores memory
    command -v slurmctld slurmd munged sbatch >/dev/null && (($(id -u) == 0)) || return 1
    cores=$(nproc) memory=$(free -m | awk '/^Mem:/ { print int($2 * 0.9) }')
    mkdir -p "$dir/state" "$dir/spool"
    chmod 711 "$dir"
    dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 2>/dev/null
    chmod 600 "$dir/munge.key"
    munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
        --pid-file="$dir/munged.pid" --seed-file="$dir/munged.seed" >"$dir/munged.log" 2>&1 &
    pids+=($!)
    cat >"$dir/slurm.conf" <<CONF
ClusterName=shards
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$cores RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=60 State=UP OverSubscribe=FORCE:4
CONF
    export SLURM_CONF=$dir/slurm.conf
    slurmctld -D -i -c >/dev/null 2>&1 &
    pids+=($!)
    slurmd -D -N localhost >/dev/null 2>&1 &
    pids+=($!)
    for _ in {1..100}; do
        sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
        sleep 0.2
    done
    return 1
}

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
if start_slurm; then
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
