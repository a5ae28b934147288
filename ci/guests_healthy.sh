#!/bin/sh
# Programs that are not ddprove's, in which nothing goes wrong: whatever is said of them is a false alarm. Twice as many
# ranks as cores, on all that can be seen of them: their calls, and what they put in and get.
# Usage: guests_healthy.sh BUILD_DIR [RUNS [BUSY [SECONDS]]]; BUSY: processes a core that do nothing but use it;
# SECONDS: no run begins later. The programs take turns, so that each has been run as often as any other by then.
set -u
bin=$1/bin runs=${2:-200} busy=${3:-0} seconds=${4:-}
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

# healthy NAME COMMAND...: a run that ends with 0, of which ddprove says nothing but what it has judged. Counted in files, as
# programs take turns.
healthy() {
    name=$1
    shift
    if [ -n "$seconds" ] && [ "$(date +%s)" -ge "$end" ]; then
        return
    fi
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    FOUND=$found "$@" >"$folder/out" 2>"$folder/err"
    code=$?
    said=$(grep '^ddprove: ' "$folder/err" | grep -v '^ddprove: results of [1-9][0-9]* calls judged\|^ddprove: note: ')
    echo run >>"$folder/runs.$name"
    if [ "$code" -ne 0 ] || [ -n "$said" ]; then
        echo alarm >>"$folder/alarms.$name"
        echo "ALARM $name, run $(wc -l <"$folder/runs.$name"): exit $code: $said"
        grep -v '^ddprove: ' "$folder/err" | head -n 5
    fi
    rm -rf "$found"
}

# shellcheck disable=SC2086 # words
each() {
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

end=$(($(date +%s) + ${seconds:-0}))
i=0
while [ "$i" -lt "$runs" ] && { [ -z "$seconds" ] || [ "$(date +%s)" -lt "$end" ]; }; do
    i=$((i + 1))
    each
done
for file in "$folder"/runs.*; do
    name=${file##*/runs.}
    alarms=0
    if [ -e "$folder/alarms.$name" ]; then
        alarms=$(wc -l <"$folder/alarms.$name")
    fi
    echo "$(wc -l <"$file") runs, $alarms alarms: $name, $ranks ranks, load $(cut -d' ' -f1 /proc/loadavg)"
    failures=$((failures + alarms))
done
exit "$((failures > 0))"
