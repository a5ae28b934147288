# shellcheck shell=bash
# A Slurm cluster of this one machine, for scripts that source this file.

# start_slurm DIR PORT: outside of DIR only two loopback ports from PORT on are used. Its daemons are added to the array
# `pids`, which the script ends; SLURM_CONF names the cluster. Returns 1 and says why, if there can be none.
start_slurm() {
    local dir=$1 port=$2 memory program
    (($(id -u) == 0)) || { echo "starting a Slurm of one's own needs root"; return 1; }
    for program in slurmctld slurmd munged srun; do
        command -v "$program" >/dev/null || { echo "$program is not installed"; return 1; }
    done
    memory=$(free -m | awk '/^Mem:/ { print int($2 * 0.9) }')
    mkdir -p "$dir/state" "$dir/spool"
    chmod 711 "$dir"
    head -c 1024 /dev/urandom >"$dir/munge.key"
    chmod 600 "$dir/munge.key"
    munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
        --pid-file="$dir/munged.pid" --seed-file="$dir/munged.seed" >"$dir/munged.log" 2>&1 &
    pids+=($!)
    cat >"$dir/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
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
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=60 State=UP OverSubscribe=FORCE:4
CONF
    export SLURM_CONF=$dir/slurm.conf
    slurmctld -D -i -c >/dev/null 2>&1 &
    pids+=($!)
    slurmd -D -N localhost >/dev/null 2>&1 &
    pids+=($!)
    for _ in {1..100}; do
        sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
        sleep 0.2 # between two questions: nothing says when the node is there
    done
    echo "Slurm does not start: $(tail -n 1 "$dir/slurmd.log")"
    return 1
}
