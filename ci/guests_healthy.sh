#!/bin/sh
# Programs that are not ddprove's, in which nothing goes wrong: whatever is said of them is a false alarm. Twice as many
# ranks as cores, on all that can be seen of them: their calls, and what they put in and get.
# Usage: guests_healthy.sh BUILD_DIR [RUNS [BUSY]]; BUSY: processes a core that do nothing but use it
set -u
bin=$1/bin runs=${2:-200} busy=${3:-0}
failures=0
ranks=$((2 * $(nproc)))
folder=$(mktemp -d)
busy_pids=
trap 'kill $busy_pids 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
while [ "$busy" -gt 0 ]; do
    busy=$((busy - 1))
    for _ in $(seq "$(nproc)"); do
        (while :; do :; done) &
        busy_pids="$busy_pids $!"
    done
done
mpirun="mpirun --oversubscribe --allow-run-as-root -n $ranks"

# healthy NAME COMMAND...: RUNS runs that end with 0, of which ddprove says nothing but what it has judged.
healthy() {
    name=$1 alarms=0 i=0
    shift
    while [ "$i" -lt "$runs" ]; do
        i=$((i + 1))
        found=$(mktemp -d "$folder/ranks.XXXXXX")
        FOUND=$found "$@" >"$folder/out" 2>"$folder/err"
        code=$?
        said=$(grep '^ddprove: ' "$folder/err" | grep -v '^ddprove: results of [1-9][0-9]* calls judged')
        if [ "$code" -ne 0 ] || [ -n "$said" ]; then
            alarms=$((alarms + 1))
            echo "ALARM $name, run $i: exit $code: $said"
            grep -v '^ddprove: ' "$folder/err" | head -n 5
        fi
        rm -rf "$found"
    done
    echo "$runs runs, $alarms alarms: $name, $ranks ranks, load $(cut -d' ' -f1 /proc/loadavg)"
    failures=$((failures + alarms))
}

# shellcheck disable=SC2086 # words
{
    healthy "C trainer, sockets" "$bin/ddprove" exec --ranks "$ranks" -- "$bin/ddprove_guest_trainer" 60
    healthy "C trainer, sockets, results judged" \
        "$bin/ddprove" exec --ranks "$ranks" --prove sums -- "$bin/ddprove_guest_trainer" 60
    if [ -x "$bin/ddprove_mpi_trainer" ]; then
        healthy "MPI trainer" "$bin/ddprove" exec --adapter mpi -- $mpirun "$bin/ddprove_mpi_trainer" 60
        healthy "MPI trainer, results judged" \
            "$bin/ddprove" exec --adapter mpi --prove sums -- $mpirun "$bin/ddprove_mpi_trainer" 60
        healthy "MPI program of several communicators" \
            "$bin/ddprove" exec --adapter mpi -- $mpirun "$bin/guest_mpi_program"
    fi
    if [ -x "$bin/guest_nccl_program" ]; then
        healthy "NCCL program on stand-ins" sh -c 'exec "$0" exec --ranks "$1" --adapter nccl -- "$2" "$FOUND"' \
            "$bin/ddprove" "$ranks" "$bin/guest_nccl_program"
    fi
}
exit "$((failures > 0))"
