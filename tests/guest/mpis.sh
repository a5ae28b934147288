#!/bin/sh
# The MPI adapter with one MPI: what it declares for itself is what that MPI's mpi.h says; calls of every form pass
# through it; ranks that wait in every way are not blamed for those that they wait for. Skipped (77) without that MPI.
# Usage: mpis.sh DDPROVE MPICC MPIEXEC MPIF90
set -u
ddprove=$1 cc=$2 run=$3 fortran=$4
here=$(dirname "$0")
root=$here/../..
failures=0
for program in "$cc" "$run"; do
    command -v "$program" >/dev/null || { echo "skipped: $program is not installed" && exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Ranks of Open MPI that are killed leave their shared memory where it lies.
export OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder"
# As scenarios do: what mpirun of Open MPI refuses otherwise; another MPI does without.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

build() { # NAME: of a source beside this file
    "$cc" -std=gnu17 -O1 -pthread -I"$root" "$here/$1.c" -o "$folder/$1" 2>"$folder/err" ||
        { echo "FAIL: $1 cannot be built with $cc" && cat "$folder/err" && exit 1; }
}
for name in mpi_abi_check mpi_program mpi_forms mpi_apart mpi_groups mpi_rounds mpi_waits mpi_polls mpi_edges; do
    build "$name"
done
"$folder/mpi_abi_check" || failures=$((failures + 1))

# said CODE WORDS PROGRAM ARGUMENTS, on $ranks ranks: it ends with this code, and of all that is said about ranks one line
# has these words (a pattern), and there is no other; none, if they are empty.
said() {
    code=$1 words=$2 program=$3
    shift 3
    # shellcheck disable=SC2086 # words
    "$ddprove" exec --adapter mpi --limit "$limit" $prove -- "$run" -n "$ranks" "$folder/$program" "$@" >"$folder/out" 2>&1
    got=$?
    grep -a '^ddprove: [A-Z]*\.' "$folder/out" >"$folder/said"
    lines=$(wc -l <"$folder/said")
    if [ "$got" -ne "$code" ] || { [ -n "$words" ] && { [ "$lines" -gt "$most" ] || ! grep -q "$words" "$folder/said"; }; } ||
        { [ -z "$words" ] && [ "$lines" -ne 0 ]; }; then
        echo "FAIL $program $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/out"
        failures=$((failures + 1))
    fi
}

prove="--prove sums"
most=1 limit=2 ranks=3
said 0 "" mpi_program
grep -q "results of 304 calls judged; 1 not judged" "$folder/out" || { echo "FAIL: too few" && cat "$folder/out" && failures=$((failures + 1)); }
# A kernel before 6.15 may not tell by which signal.
said 1 "CRASH\.\(SIGNALED\|EXITED\), rank 2: .*before posting all_reduce 23 of MPI_COMM_WORLD" mpi_program kill 2 20
said 1 "HANG.STOPPED, rank 2: " mpi_program stop 2 20
said 1 "MISMATCH.COUNT, rank 2: .*all_reduce 23 of MPI_COMM_WORLD" mpi_program count 2 20
said 1 "MISMATCH.REDUCTION, rank 2: .*max.*sum" mpi_program max 2 20
said 1 "MISMATCH.ROOT, rank 2: .*of MPI_Comm_split" mpi_program root 2 20
# A circle is said when nothing has moved for six or ten times the limit, in which the ranks keep the processors busy: one
# case of it unless all are asked for, which ci/deep mpis does with each MPI.
has_all=no
[ "${DDPROVE_MPI_CASES:-}" != all ] || has_all=yes
limit=1
said 1 "HANG.CYCLE, rank 2: .*has not come to all_reduce 23 of MPI_COMM_WORLD" mpi_program skip 2 20
limit=2
# A type and an operation of the program's own.
said 0 "" mpi_forms
said 1 "MISMATCH.COUNT, rank 1: .*(64 bytes, user).*(128 bytes, user)" mpi_forms count 1
said 1 "MISMATCH.ROOT, rank 1: .*broadcast .*(128 bytes, root 1).*(128 bytes)" mpi_forms root 1
prove=
# Calls beside collectives and plain messages, and a rank that does not come to one.
said 0 "" mpi_apart
said 0 "" mpi_groups
if timeout 20 "$run" -n 3 "$folder/mpi_groups" join >/dev/null 2>&1; then
    said 0 "" mpi_groups join
else
    echo "not tested: ranks that join by a socket, $run cannot"
fi
said 0 "" mpi_rounds ways
said 0 "" mpi_rounds window_test
said 1 "HANG.NOT_JOINED, rank 2: .*ranks 0,1 wait" mpi_rounds window_test hang
if [ $has_all = yes ]; then
    limit=1
    for mode in begin window_info; do
        said 1 "HANG.\(HOST\|NOT_JOINED\), rank 2: " mpi_rounds "$mode" hang
    done
    # For whom the others wait is seen if the MPI makes the call of collectives that the adapter sees.
    said 1 "HANG.CYCLE, rank \(0,1,\)\{0,1\}2: " mpi_rounds seek skip
    # The last rank took part in as many messages as ever, in another way: it is not the one to blame by itself.
    said 1 "HANG.CYCLE, rank 0,2: " mpi_rounds ways wrong
    limit=2
fi
prove=
# Who is not there, and nobody who waits for it.
modes="persistent threads ring chain gather anybody window"
# MPICH 4.0 cannot start a persistent collective again.
"$folder/mpi_waits" --can-start-again >/dev/null 2>&1 || modes=${modes#persistent }
for mode in $modes; do
    said 0 "" mpi_waits "$mode"
    said 1 "HANG.NOT_JOINED, rank 1: .*ranks 0,2 wait" mpi_waits "$mode" hang 1 10
    [ $has_all = yes ] || [ "$mode" = ring ] || [ "$mode" = threads ] || continue
    # Of ranks that end between two looks, as their launcher ends them, and that others need, which was the first is
    # not known: of those with two threads there may be several.
    [ "$mode" != threads ] || most=3
    said 1 "CRASH\.\(SIGNALED\|EXITED\), rank 1: " mpi_waits "$mode" kill 1 10
    most=1
    said 1 "HANG.STOPPED, rank 1: .*ranks 0,2 wait" mpi_waits "$mode" stop 1 10
done
# Who asks again and again whether something has come is waiting, and not to blame.
said 0 "" mpi_polls messages
steps="6 11"
[ $has_all = no ] || steps="6 7 8 9 10 11"
for step in $steps; do
    said 1 "HANG.NOT_JOINED, rank 1: .*ranks 0,2 wait" mpi_polls messages hang 1 "$step"
done
modes="barrier parts"
"$folder/mpi_polls" --has-parts >/dev/null 2>&1 || modes=barrier
for mode in $modes; do
    said 0 "" mpi_polls "$mode"
    said 1 "HANG.NOT_JOINED, rank 1: " mpi_polls "$mode" hang 1 10
    said 1 "HANG.NOT_JOINED, rank 1: " mpi_polls "$mode" inside 1 10
done
# started KIND DO CODE WORDS: a fault in a call that is started again and again.
started() {
    cat >"$folder/started.yaml" <<YAML
# A call is started with other arguments than it was made ready with.
id: test.started
job: {guest: {adapter: mpi}, ranks: 3, timeout_ms: 20000}
faults: [{at: {rank: 1, kind: $1, hit: 15}, point: collective/pre, do: {$2}}]
expect: {verdict: $5, culprit: injected}
YAML
    "$ddprove" exec "$folder/started.yaml" --launcher env --out "$folder/started" -- "$run" -n 3 "$folder/mpi_waits" \
        persistent unchecked 0 0 >"$folder/out" 2>&1
    got=$?
    if [ "$got" -ne "$3" ] || ! grep -q "$4" "$folder/out"; then
        echo "FAIL started $2: exit $got, not $3" && cat "$folder/out"
        failures=$((failures + 1))
    fi
    # The call with the other arguments was really made: the rank did not end on the way to it.
    if grep -q "MPI_Type_size" "$folder"/started/*/proc/*.log; then
        echo "FAIL started $2: the adapter asked MPI for what is no type" && head "$folder"/started/*/proc/*.log
        failures=$((failures + 1))
    fi
}
if "$folder/mpi_waits" --can-start-again >/dev/null 2>&1; then
    started all_reduce "arg: count, value: 0" 0 "PASS .*rank 1" MISMATCH.COUNT
    started all_reduce "arg: redop, value: prod" 0 "PASS .*rank 1" MISMATCH.REDUCTION
    started all_reduce "arg: dtype, value: i32" 0 "PASS .*rank 1" MISMATCH.DTYPE
    started gather "arg: root, value: 1" 4 "on rank 1) came to its call and could do nothing to it: its arguments were settled" MISMATCH.ROOT
    grep -q "never fired" "$folder/out" && echo "FAIL: two reasons" && cat "$folder/out" && failures=$((failures + 1))
fi
# Who has left the message out is known from what it did before, if that is enough.
if [ $has_all = yes ]; then
    limit=1
    said 1 "HANG.CYCLE, rank 1: .*as rank 1 waited for messages 1 time before barrier 11 of MPI_COMM_WORLD.*2 times" mpi_waits chain skip 1 10
    said 1 "HANG.CYCLE, rank 0,1: .*rank 0 in a message with rank 1 of MPI_COMM_WORLD" mpi_waits chain skip 1 5
    limit=2
fi

# What the standard allows and few programs do.
prove="--prove sums"
for mode in threads asked ending; do
    said 0 "" mpi_edges $mode
done
# An MPI that is built without its checks ends by itself there.
if "$run" -n 3 "$folder/mpi_edges" refused >/dev/null 2>&1; then
    said 4 "" mpi_edges refused # nothing can be judged
fi
prove=
for mode in empty pairs early mixed both_ways between files neighbors; do
    said 0 "" mpi_edges $mode
done
said 1 "MISMATCH.REDUCTION, rank 1: .*minloc.*maxloc" mpi_edges pairs fault
said 1 "HANG.NOT_JOINED, rank 2: .*rank 0 waits" mpi_edges mixed fault
said 1 "HANG.NOT_JOINED, rank 2: .*rank 0 waits" mpi_edges both_ways fault
said 1 "HANG.NOT_JOINED, rank 1: .*rank 0 waits" mpi_edges neighbors fault
# An MPI may wait for all in spite of an error.
if timeout 10 "$run" -n 3 "$folder/mpi_edges" pending >/dev/null 2>&1; then
    said 0 "" mpi_edges pending
    said 1 "HANG.NOT_JOINED, rank 2: .*rank 0 waits" mpi_edges pending fault
fi
if "$folder/mpi_edges" --has-exchange; then
    said 0 "" mpi_edges exchange
    said 1 "HANG.NOT_JOINED, rank 1: .*ranks 0,2 wait" mpi_edges exchange fault
fi
if [ $has_all = yes ]; then
    limit=1
    said 1 "HANG.CYCLE, rank 1,2: .*rank 2 in a message with rank 1" mpi_edges early fault
    said 1 "HANG.HOST, rank 1: " mpi_edges between fault
    said 1 "HANG.\(HOST\|NOT_JOINED\), rank 1: " mpi_edges files fault
    limit=2
fi
ranks=5
said 0 "" mpi_edges groups
ranks=1
if "$run" -n 1 "$folder/mpi_edges" workers >/dev/null 2>&1; then
    said 0 "" mpi_edges workers
else
    echo "not tested: ranks that start others, $run cannot"
fi
ranks=3

if command -v "$fortran" >/dev/null && "$fortran" "$here/mpi_program.f90" -o "$folder/fortran" >"$folder/err" 2>&1; then
    said 0 "" fortran
    said 1 "MISMATCH.COUNT, rank 1: .*all_reduce 31 of MPI_COMM_WORLD (32 f32, sum).*(64 f32, sum)" fortran count 1 10
else
    echo "not tested: Fortran, $fortran cannot build a program"
fi
[ $has_all = yes ] || echo "not tested: most circles, deaths and stops in most kinds of waits (DDPROVE_MPI_CASES=all)"
echo "$failures failures"
exit "$((failures > 0))"
