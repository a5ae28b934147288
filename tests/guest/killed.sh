#!/bin/sh
# ddprove is killed by SIGKILL at random moments of a job. It can clean up no more, and yet nothing of the job is left: no
# process, no file in shared memory, no folder of a proof. Under --on-failure leave the job lives on to its own end.
# Usage: killed.sh DDPROVE TRAINER MPI_PROGRAM|- [SEED]
set -u
ddprove=$1 trainer=$2 mpi_program=$3 seed=${4:-$$}
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "seed $seed"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# A number from 0 to $2 seconds, the $1-th of the seed's.
moment() {
    awk -v seed="$seed" -v n="$1" -v most="$2" 'BEGIN { srand(seed * 1000 + n); print rand() * most }'
}

# The living processes of the job that was started with this mark in its environment.
processes_of() {
    grep -lz "^DDPROVE_TEST_JOB=$1\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}

# wait_until LIMIT_S CONDITION...: looks every 10 ms.
wait_until() {
    looks=$(($1 * 100))
    shift
    while ! "$@"; do
        looks=$((looks - 1))
        [ "$looks" -gt 0 ] || return 1
        sleep 0.01
    done
}

is_gone() { [ -z "$(processes_of "$1")" ]; }
has_ranks() { [ "$(processes_of "$1" | wc -l)" -gt "$2" ]; } # beside ddprove

# killed MARK MOMENT_S COMMAND...: ddprove is killed so long after it was started.
killed() {
    mark=$1 moment=$2
    shift 2
    DDPROVE_TEST_JOB=$mark "$@" >"$folder/out" 2>&1 &
    pid=$!
    sleep "$moment"
    shared_by "$mark" >>"$folder/shared"
    kill -9 "$pid" 2>/dev/null || fail "$mark: the job was over after $moment s: $(cat "$folder/out")"
    wait "$pid" 2>/dev/null
    wait_until 10 is_gone "$mark" || fail "$mark: killed after $moment s, and these live on: $(processes_of "$mark")"
}

# The files in shared memory that the job's processes have mapped. The machine's other jobs have theirs there too. What
# is in the test's own folder, which may lie there, goes with it.
shared_by() {
    for process in $(processes_of "$1"); do
        awk -v own="$folder/" '$6 ~ "^/dev/shm/" && index($6, own) != 1 { print $6 }' "/proc/$process/maps" 2>/dev/null
    done
}

cat >"$folder/long.yaml" <<YAML
# A job that goes on for hours.
id: killed.long
job: {guest: {}, ranks: 3}
expect: {verdict: NONE}
YAML
round=0
while [ "$round" -lt 30 ]; do
    mark="$$-$round"
    if [ "$((round % 2))" -eq 0 ]; then
        killed "$mark" "$(moment "$round" 0.2)" "$ddprove" exec --ranks 3 -- "$trainer" 100000000
    else
        killed "$mark" "$(moment "$round" 0.2)" "$ddprove" exec "$folder/long.yaml" --out "$folder/run$round" -- \
            "$trainer" 100000000
    fi
    round=$((round + 1))
done
# A launcher that starts its ranks in sessions of their own, as torchrun does, is killed with ddprove, and they are not.
cat >"$folder/launcher" <<'SH'
#!/bin/sh
for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 setsid "$@" &
done
wait
SH
chmod +x "$folder/launcher"
for round in 50 51 52 53; do
    killed "$$-$round" "$(moment "$round" 0.3)" env MASTER_PORT=$((20000 + ($$ + round) % 12000)) \
        "$ddprove" exec -- "$folder/launcher" "$trainer" 100000000
done
if [ "$mpi_program" != - ]; then
    # A rank that never comes makes it long.
    sed 's/guest: {}/guest: {launcher: mpirun, adapter: mpi}/' "$folder/long.yaml" >"$folder/long_mpi.yaml"
    for round in 30 31 32; do
        killed "$$-$round" "$(moment "$round" 1)" "$ddprove" exec "$folder/long_mpi.yaml" --out "$folder/run$round" -- \
            "$mpi_program" hang 0 20
    done
fi
sort -u "$folder/shared" | while read -r file; do
    [ ! -e "$file" ] || echo "$file"
done >"$folder/left"
[ ! -s "$folder/left" ] || fail "left in shared memory: $(cat "$folder/left")"

# The job is left alone: it ends by itself, and well.
for round in 40 41 42; do
    mark="$$-$round"
    DDPROVE_TEST_JOB=$mark "$ddprove" exec --ranks 3 --on-failure leave -- "$trainer" 5000 >"$folder/out" 2>&1 &
    pid=$!
    wait_until 10 has_ranks "$mark" 3 || fail "$mark: its ranks did not come"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    wait_until 60 is_gone "$mark" || fail "$mark: the job that was left alone does not end"
    grep -q '^weights' "$folder/out" || fail "$mark: the job that was left alone ended so: $(cat "$folder/out")"
done

# A folder that was made for a proof goes with the job, however that ends.
mkdir "$folder/tmp"
export TMPDIR="$folder/tmp"
cat >"$folder/keeps" <<'SH'
#!/bin/sh
mkdir -p "$DDPROVE_PROVE/rank$RANK" && echo kept >"$DDPROVE_PROVE/rank$RANK/step0.kept"
exec "$@"
SH
chmod +x "$folder/keeps"
left_of() { # WHAT
    [ -z "$(ls "$TMPDIR")" ] || fail "$1: left behind: $(cd "$TMPDIR" && find . -type f)"
    rm -rf "${TMPDIR:?}"/*
}
has_kept() { ls "$TMPDIR"/ddprove-proof-*/rank2/step0.kept >/dev/null 2>&1; }
for round in 60 61 62 63 64 65; do
    killed "$$-$round" "$(moment "$round" 0.2)" "$ddprove" exec --prove equivalence --ranks 3 -- \
        "$folder/keeps" "$trainer" 100000000
    left_of "a proof whose ddprove was killed"
done
# ended MARK SIGNAL CODE OPTIONS... : it is ended once the job keeps something.
ended() {
    mark=$1 signal=$2 code=$3
    shift 3
    DDPROVE_TEST_JOB=$mark "$ddprove" exec --prove equivalence --ranks 3 "$@" >"$folder/out" 2>&1 &
    pid=$!
    wait_until 10 has_kept || fail "$mark: it keeps nothing: $(cat "$folder/out")"
    kill "-$signal" "$pid"
    wait "$pid" 2>/dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "$mark: after $signal exit $got, not $code: $(cat "$folder/out")"
}
ended "$$-70" TERM 143 -- "$folder/keeps" "$trainer" 100000000
left_of "a proof that was ended by SIGTERM"
ended "$$-71" KILL 137 --on-failure leave -- "$folder/keeps" "$trainer" 5000
wait_until 60 is_gone "$$-71" || fail "the job that was left alone does not end"
grep -q '^weights' "$folder/out" || fail "the job that was left alone ended so: $(cat "$folder/out")"
left_of "a proof whose job was left alone"
"$ddprove" exec --prove equivalence --ranks 3 -- "$folder/keeps" "$trainer" 10 >"$folder/out" 2>&1
left_of "a run without anything to prove"
"$ddprove" exec --prove equivalence --ranks 3 -- "$folder/keeps" no/such/program >"$folder/out" 2>&1
left_of "a run that came to nothing"
# What is wrong is there to be looked at, where it is said to be.
cat >"$folder/proof.json" <<'JSON'
{"schema": 1, "world": 1, "outcome": "FAIL", "verdict": "VALUE.DIVERGED", "steps": [0], "judged": {}, "not_judged": [],
 "notes": [], "lacking": [], "table": [], "findings": [{"verdict": "VALUE.DIVERGED", "text": "differs", "oracle": "replicas",
 "ranks": [0], "parameters": [], "steps": [0], "step": 0, "explained_by": null}]}
JSON
"$ddprove" exec --prove equivalence -- sh -c 'cp "$0" "$DDPROVE_PROVE"' "$folder/proof.json" >"$folder/out" 2>&1
[ "$?" -eq 1 ] && [ -e "$(sed -n 's/^ddprove: what was kept of the run: //p' "$folder/out")/proof.json" ] ||
    fail "what a failing proof is about is not there: $(cat "$folder/out")"
echo "$failures failures"
exit "$((failures > 0))"
