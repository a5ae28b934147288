#!/bin/sh
# What `ddprove exec` says of programs that it did not write, and how they end.
# Usage: exec.sh DDPROVE TRAINER MPI_PROGRAM|- NCCL_PROGRAM|- PROFILER_PROGRAM|- PROFILER|-
set -u
ddprove=$1 trainer=$2 mpi_program=$3 nccl_program=$4 profiler_program=$5 profiler=$6
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Ranks of Open MPI that are killed leave their shared memory where it lies.
export OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder"

# expect CODE WORDS COMMAND...: it ends with this code, and says a line with these words (a pattern), or nothing if
# they are empty.
expect() {
    code=$1 words=$2
    shift 2
    "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    grep '^ddprove: ' "$folder/err" | grep -v '^ddprove: note: ' >"$folder/said"
    if [ "$got" -ne "$code" ] || { [ -n "$words" ] && ! grep -q "$words" "$folder/said"; } ||
        { [ -z "$words" ] && [ -s "$folder/said" ]; }; then
        echo "FAIL $*: exit $got, not $code; said, instead of \"$words\":"
        cat "$folder/said"
        failures=$((failures + 1))
    fi
}

run() {
    expect "$1" "$2" "$ddprove" exec --ranks 4 --limit 2 -- "$trainer" 60 $3
}
run 0 "" ""
run 1 "^ddprove: CRASH.SIGNALED, rank 2: .*SIGKILL, step 20" "kill 2 20"
expect 1 "^ddprove: CRASH.SIGNALED, rank 1: rank 1 was ended by signal 40" \
    "$ddprove" exec --ranks 2 -- sh -c 'kill -40 $$' # it has no name
# What the ranks inherit is not cut off, however long it is.
expect 4 "no rank has shown itself" env PYTHONPATH="$(printf '%09000d' 0):/last" \
    "$ddprove" exec --ranks 1 -- sh -c 'case $PYTHONPATH in */last) ;; *) exit 3 ;; esac'
run 1 "^ddprove: CRASH.EXITED, rank 2: .*code 3" "exit 2 20"
run 1 "^ddprove: CRASH.FINISHED_EARLY, rank 0: " "finish 0 20"
run 1 "^ddprove: HANG.STOPPED, rank 1: .*ranks 0,2,3 wait" "stop 1 20"
run 1 "^ddprove: HANG.NOT_JOINED, rank 3: .*step 20, before posting all_reduce 41 of world.*ranks 0,1,2 wait" "hang 3 20"
# Where its ranks stand, the one to blame among them: from its line to the next one's.
if command -v eu-stack >/dev/null; then
    sed -n '/^ddprove: rank 3 stands at:/,/^ddprove: /p' "$folder/err" | grep -q '^    #[0-9]* .* pause' ||
        { echo "FAIL: where rank 3 stands is not said" && cat "$folder/err" && failures=$((failures + 1)); }
    grep -c '^ddprove: rank [012] stands at:' "$folder/err" | grep -qx 3 ||
        { echo "FAIL: where ranks 0 to 2 stand is not said" && cat "$folder/err" && failures=$((failures + 1)); }
else
    echo "not tested: stacks, without eu-stack"
fi
# Before that, or in its place, it is said that the rank is waited for: once.
noted() {
    [ "$(grep -c "^ddprove: note: rank 3 has not come to all_reduce 41 of world .* for [1-9]\.[0-9] s; ranks 0,1,2 wait$" \
        "$folder/err")" -eq 1 ] || { echo "FAIL: not noted once" && cat "$folder/err" && failures=$((failures + 1)); }
}
noted
expect 0 "" "$ddprove" exec --ranks 4 --limit 20 -- "$trainer" 60 slow 3 20
noted
run 1 "^ddprove: MISMATCH.REDUCTION, rank 1: .*all_reduce 41 .*max.*sum" "max 1 20"
run 1 "^ddprove: MISMATCH.COUNT, rank 1: .*31 f32.*bucket 1.*32 f32" "count 1 20"
run 1 "^ddprove: MISMATCH.MISSING, rank 2: .*step 21.*step 20" "skip 2 20"
# Results: judged on every step when asked for, and by nobody else.
prove() {
    # shellcheck disable=SC2086 # words
    expect "$1" "$2" "$ddprove" exec --ranks 4 --limit 2 --prove sums $4 -- "$trainer" 60 $3
}
sums=".*all_reduce 42 of world (32 f32, sum, bucket 1) in step 20: the result is not the sum.* where rounding explains"
kept="--steps 19-21 --out $folder/kept"
run 0 "" "flip 2 20"
run 0 "" "forget 3 20"
run 0 "" "diverge 1 20"
prove 0 "results of 120 calls judged$" "" ""
prove 0 "results of 120 calls judged, 6 bit for bit$" "" "$kept"
prove 1 "^ddprove: VALUE.LOST, rank 1: $sums.*rank 1's contribution were left out" "zero 1 20" ""
prove 1 "^ddprove: VALUE.LOST, rank 3: $sums.*rank 3's contribution were left out" "forget 3 20" ""
prove 1 "^ddprove: VALUE.LOST, rank 3: .*all_reduce 42.*all are the sum with rank 3's contribution multiplied by 0$" \
    "forget 3 20" "$kept"
prove 1 "^ddprove: VALUE.DUPLICATED, rank 2: $sums.*rank 2's contribution were counted twice" "double 2 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 0,1,2,3: $sums.*do not tell the ranks apart" "scale 1 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 0,1,2,3: $sums.*do not tell the ranks apart" "flip 2 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 2: .*all_reduce 42.*element 5 .*rank 2's contribution with bit 25 flipped$" \
    "flip 2 20" "$kept"
# A bit of what a rank puts in flips in its memory after it has reported its sum; all get the same wrong result. If it
# still lies there, the sums tell the rank; the data that were kept, the element too.
prove 1 "^ddprove: VALUE.CORRUPTED, rank 2: .*all_reduce 42.*rank 2's input changed while the call was in flight, off by .*rounding explains" \
    "memory 2 20" ""
prove 1 "^ddprove: VALUE.CORRUPTED, rank 2: .*all_reduce 42.*element 5 .*rank 2's contribution with bit 25 flipped$" \
    "memory 2 20" "$kept"
prove 1 "where rounding explains [^ ]* (a change of more than [^ ]* in one element cannot be missed)" "flip 2 20" ""
prove 1 "^ddprove: VALUE.DIVERGED, rank 1: .*all_reduce 42.*ranks 0,2,3 and of rank 1" "diverge 1 20" ""
prove 1 "^ddprove: VALUE.NONFINITE, rank 2: .*all_reduce 42.*rank 2 put in a NaN" "nan 2 20" ""
expect 2 "prove is sums" "$ddprove" exec --prove all -- true
expect 2 "steps needs" "$ddprove" exec --steps 3-5 -- true
expect 2 "number from 5 to" "$ddprove" exec --prove sums --steps 5-3 --out "$folder" -- true
expect 4 "results of 0 calls judged" "$ddprove" exec --prove sums -- true
# The program of a healthy run, and others that are not it.
learned=$folder/learned
expect 0 "" "$ddprove" exec --ranks 4 --record "$learned" -- "$trainer" 20
grep -q "^steps 0-19 calls=2$" "$learned/program.txt" || { echo "FAIL: $(cat "$learned/program.txt")" && failures=$((failures + 1)); }
expect 0 "" "$ddprove" exec --ranks 4 --against "$learned" -- "$trainer" 60
expect 0 "" "$ddprove" exec --ranks 4 --against "$learned" -- "$trainer" 5
expect 1 "^ddprove: MISMATCH.REDUCTION, rank 1: .*where the record has all_reduce 31" "$ddprove" exec --ranks 4 \
    --against "$learned" -- "$trainer" 60 max 1 15
# Behind the record's end members are compared with each other.
expect 1 "^ddprove: MISMATCH.REDUCTION, rank 1: .*where the others posted all_reduce 41" "$ddprove" exec --ranks 4 \
    --against "$learned" -- "$trainer" 60 max 1 20
sed 's/count=32 bucket=2/count=33 bucket=2/' "$learned/program.txt" >"$learned/program.new"
mv "$learned/program.new" "$learned/program.txt"
expect 1 "^ddprove: MISMATCH.COUNT, rank 0,1,2,3: .*all_reduce 2 .*where the record has all_reduce 2 of world (33 f32" \
    "$ddprove" exec --ranks 4 --against "$learned" -- "$trainer" 60
sed 's/count=33/count=*/' "$learned/program.txt" >"$learned/program.new"
mv "$learned/program.new" "$learned/program.txt"
expect 0 "" "$ddprove" exec --ranks 4 --against "$learned" -- "$trainer" 60
expect 2 "was learned of 4 ranks, and the job has 2; name one of as many" "$ddprove" exec --ranks 2 --against "$learned" -- "$trainer" 60
echo "steps 9-9 calls=0" >>"$learned/program.txt"
expect 2 "program.txt: 6:1: steps of a communicator" "$ddprove" exec --ranks 4 --against "$learned" -- "$trainer" 60
expect 2 "cannot open no/folder/program.txt: .*; name a folder that --record wrote" "$ddprove" exec --ranks 4 --against no/folder -- "$trainer" 60
# What went wrong, or showed nothing, is no program to learn.
rm "$learned/program.txt"
expect 1 "^ddprove: MISMATCH.COUNT" "$ddprove" exec --ranks 4 --record "$learned" -- "$trainer" 60 count 1 20
expect 4 "nothing was recorded" "$ddprove" exec --record "$learned" -- true
[ ! -e "$learned/program.txt" ] || { echo "FAIL: a broken job was learned" && failures=$((failures + 1)); }
# The job is left alone, and its own end is the end.
expect 1 "MISMATCH.REDUCTION, rank 1" "$ddprove" exec --ranks 2 --on-failure leave -- "$trainer" 60 max 1 20
grep -q '^weights' "$folder/out" || { echo "FAIL: a job that is left does not end by itself" && failures=$((failures + 1)); }
# Bad input.
expect 2 "no command" "$ddprove" exec --ranks 2
expect 2 "no/such.yaml: No such file" "$ddprove" exec no/such.yaml -- true
expect 2 "on-failure is" "$ddprove" exec --on-failure maybe -- true
expect 2 "launcher is" "$ddprove" exec --launcher kubectl --ranks 2 -- true
expect 2 "torchrun starts the ranks itself, and --ranks 2 would start it as often, as so many jobs; leave --ranks out" \
    "$ddprove" exec --ranks 2 -- torchrun --nproc-per-node 2 train.py
expect 2 "starts the ranks itself" "$ddprove" exec --ranks 2 -- python3 -m torch.distributed.run train.py
expect 2 "launcher torchrun needs --ranks" "$ddprove" exec --launcher torchrun -- true
expect 2 "adapter is" "$ddprove" exec --adapter jax -- true
expect 3 "no/such/program cannot be started: No such file" "$ddprove" exec --ranks 2 -- no/such/program
expect 4 "no rank has shown itself" "$ddprove" exec -- true
expect 5 "no rank has shown itself" "$ddprove" exec -- sh -c 'exit 5'
# A command that starts all ranks itself, started once for each rank.
cat >"$folder/twice" <<'SCRIPT'
export WORLD_SIZE=2 MASTER_PORT=$((10000 + $$ % 8000))
RANK=0 "$1" 6000000 & first=$!
RANK=1 "$1" 6000000 & second=$!
wait $first $second
SCRIPT
expect 1 "^ddprove: LAUNCH.ENVIRONMENT, rank [01,]*: two processes say that they are rank .*leave --ranks out" \
    "$ddprove" exec --ranks 2 -- sh "$folder/twice" "$(dirname "$ddprove")/ddprove_guest_trainer"
# What a rank starts inherits its variables, and is no rank.
cat >"$folder/helped" <<'SCRIPT'
"$1" 2000 & rank=$!
wait $rank
SCRIPT
expect 0 "" "$ddprove" exec --ranks 2 -- sh "$folder/helped" "$(dirname "$ddprove")/ddprove_guest_trainer"
# Ranks of a launcher that end well while ddprove does not come to look: it has seen the first one begin.
cat >"$folder/launch" <<'SCRIPT'
export WORLD_SIZE=2 MASTER_PORT=$((10000 + $$ % 8000))
RANK=0 "$1" 60 & first=$!
until ls -l /proc/$PPID/fd | grep -q pidfd; do kill -0 $first || exit; done
kill -STOP $PPID
RANK=1 "$1" 60 & second=$!
wait $first $second
kill -CONT $PPID
SCRIPT
expect 0 "" "$ddprove" exec -- sh "$folder/launch" "$(dirname "$ddprove")/ddprove_guest_trainer"

if [ "$mpi_program" != - ]; then
    mpi() {
        # shellcheck disable=SC2086 # words
        expect "$1" "$2" "$ddprove" exec --adapter mpi --limit "${limit:-2}" -- mpirun --oversubscribe --allow-run-as-root -n 4 \
            "$mpi_program" $3
    }
    mpi 0 "" ""
    # MPI's own files lie in the run folder, however that is named.
    printf '%s\n' "# Nothing is wrong." "id: relative.healthy" "job: {guest: {launcher: mpirun, adapter: mpi}, ranks: 2}" \
        "expect: {verdict: NONE}" >"$folder/healthy.yaml"
    mkdir "$folder/relative" && mv "$folder/healthy.yaml" "$folder/relative/"
    (cd "$folder" && "$ddprove" exec relative/healthy.yaml --out runs -- "$mpi_program" >out 2>&1)
    grep -q '^1 passed' "$folder/out" || { echo "FAIL: a relative folder" && cat "$folder/out" && failures=$((failures + 1)); }
    expect 0 "results of 30[45] calls judged; 1 not judged: their data were not shown" "$ddprove" exec --adapter mpi \
        --limit 2 --prove sums -- mpirun --oversubscribe --allow-run-as-root -n 4 "$mpi_program"
    # How another program's child ended, Linux before 6.15 does not tell.
    mpi 1 "^ddprove: CRASH.\(SIGNALED, rank 2: .*SIGKILL\|EXITED, rank 2: .*not known\).*before posting all_reduce 23 of MPI_COMM_WORLD" "kill 2 20"
    [ "$(wc -l <"$folder/said")" -eq 1 ] || { echo "FAIL: what mpirun ended is blamed" && cat "$folder/said" && failures=$((failures + 1)); }
    mpi 1 "^ddprove: HANG.STOPPED, rank 2: " "stop 2 20"
    mpi 1 "^ddprove: MISMATCH.COUNT, rank 2: .*all_reduce 23 of MPI_COMM_WORLD" "count 2 20"
    mpi 1 "^ddprove: MISMATCH.REDUCTION, rank 2: " "max 2 20"
    mpi 1 "^ddprove: MISMATCH.ROOT, rank 2: .*of MPI_Comm_split" "root 2 20"
    # Said when nothing has moved for six times the limit, in which the ranks keep the processors busy.
    limit=1
    mpi 1 "^ddprove: HANG.CYCLE, rank 1: .*has not come to barrier 24 of MPI_COMM_WORLD.*of MPI_Comm_dup" "cross 0 20"
    mpi 1 "^ddprove: HANG.CYCLE, rank 2: .*has not come to all_reduce 23 of MPI_COMM_WORLD" "skip 2 20"
    # The other one of its pair waits for it, and all the others for that one.
    mpi 1 "^ddprove: HANG.CYCLE, rank 0: .*has not come to broadcast 42 of MPI_Comm_split" "lone 0 20"
    limit=
    mpi 1 "^ddprove: HANG.NOT_JOINED, rank 1: " "hang 1 20"
fi

# On the stand-ins of NCCL and CUDA: nothing here is a GPU result.
if [ "$nccl_program" != - ]; then
    # nccl RANKS LIMIT CODE WORDS FAULT, in an environment with these variables
    with=
    nccl() {
        found=$(mktemp -d "$folder/ranks.XXXXXX")
        # shellcheck disable=SC2086 # words
        expect "$3" "$4" env $with "$ddprove" exec --ranks "$1" --adapter nccl --limit "$2" -- "$nccl_program" "$found" $5
    }
    world="of ncclCommInitRank "
    nccl 4 2 0 "" ""
    nccl 4 2 1 "^ddprove: CRASH.SIGNALED, rank 2: .*SIGKILL" "kill 2 20"
    nccl 4 2 1 "^ddprove: CRASH.FINISHED_EARLY, rank 1: .*before posting all_reduce 2[13] of " "leave 1 20"
    nccl 4 2 1 "^ddprove: HANG.STOPPED, rank 2: .*ranks 0,1,3 wait" "stop 2 20"
    nccl 4 2 1 "^ddprove: HANG.NOT_JOINED, rank 1: .*before posting all_reduce 23 $world" "hang 1 20"
    nccl 4 2 1 "^ddprove: HANG.NOT_JOINED, rank 1: " "inside 1 20"
    nccl 4 2 1 "^ddprove: LAUNCH.MISSING_RANK, rank 3: .*before posting comm_create 1 $world.*ranks 0,1,2 wait" "absent 3 0"
    nccl 4 2 1 "^ddprove: MISMATCH.COUNT, rank 2: .*all_reduce 23 $world(128 f32.*256 f32" "count 2 20"
    nccl 4 2 1 "^ddprove: MISMATCH.COUNT, rank 1: .*send 21 .*1>2 (32 bytes.*64 bytes" "short 1 20"
    nccl 4 2 1 "^ddprove: MISMATCH.REDUCTION, rank 2: .*all_reduce 23 $world.*max.*sum" "max 2 20"
    nccl 4 2 1 "^ddprove: MISMATCH.ROOT, rank 2: .*broadcast 22 of ncclCommInitRank 2 .*root 1" "root 2 20"
    nccl 4 1 1 "^ddprove: HANG.CYCLE, rank 2: .*has not come to all_reduce 23 $world" "skip 2 20"
    # A device's results are not read: nothing is proved, and that is said.
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    expect 4 "results of 0 calls judged; [0-9]* not judged: their data were not shown$" \
        "$ddprove" exec --ranks 2 --adapter nccl --prove sums -- "$nccl_program" "$found"
    # Streams that hold each other are certain, so the limit does not matter.
    nccl 4 600 1 "^ddprove: HANG.CYCLE, rank 1: .*has not come to all_reduce 24 $world.*of ncclCommInitRank 2 " "cross 0 20"
    # Nothing is put into a graph that is being captured: the program looks.
    nccl 4 2 0 "" "capture 0 0"
    # Calls that do not block, and cards that cannot write words.
    with=NCCL_PROGRAM_ASYNC=1
    nccl 4 2 0 "" ""
    nccl 4 2 1 "^ddprove: CRASH.SIGNALED, rank 2: .*SIGKILL" "kill 2 20"
    nccl 4 2 1 "^ddprove: HANG.NOT_JOINED, rank 1: " "hang 1 20"
    nccl 4 2 1 "^ddprove: LAUNCH.MISSING_RANK, rank 3: .*before posting comm_create 1 $world.*ranks 0,1,2 wait" "absent 3 0"
    # Ranks that see the error, give their communicators up and fail are not to blame.
    found=$(mktemp -d "$folder/ranks.XXXXXX")
    expect 1 "^ddprove: CRASH.SIGNALED, rank 1: " env $with "$ddprove" exec --ranks 2 --adapter nccl \
        --on-failure leave -- "$nccl_program" "$found" kill 1 20
    # Which call the dead rank owes may be added in a line of its own.
    ! grep -q 'ddprove: [A-Z_.]*, rank 0' "$folder/said" || { echo "FAIL: survivors are blamed" && cat "$folder/said" && failures=$((failures + 1)); }
    with=DDP_STANDIN_WRITE_VALUE=0
    nccl 4 2 0 "" ""
    nccl 4 2 1 "^ddprove: CRASH.SIGNALED, rank 2: " "kill 2 20"
    nccl 4 2 1 "^ddprove: MISMATCH.REDUCTION, rank 2: " "max 2 20"
    # One process that drives two ranks is not judged, and that is said.
    with=DDP_NCCL_STANDIN_SCRIPT=bus_id=unique
    nccl 1 2 0 "^ddprove: 2 communicators could not be shown" "two 0 0"
    expect 4 "no rank has shown itself" "$ddprove" exec --adapter nccl -- true
fi

# The plug-in for NCCL's profiler interface, called as NCCL does.
if [ "$profiler_program" != - ]; then
    profiled() {
        found=$(mktemp -d "$folder/ranks.XXXXXX")
        # shellcheck disable=SC2086 # words
        expect "$2" "$3" "$ddprove" exec --ranks 3 --limit 2 -- "$profiler_program" "$profiler" "$1" "$found" $4
    }
    # It takes a few milliseconds, so ranks also show themselves and end between two looks.
    for version in 4 5 6 4 5 6 4 5 6 4 5 6; do
        profiled $version 0 "" ""
    done
    profiled 6 1 "^ddprove: CRASH.SIGNALED, rank 1: .*SIGKILL" "kill 1 20"
    profiled 5 1 "^ddprove: HANG.NOT_JOINED, rank 2: .*before posting all_reduce 21 of NCCL.*ranks 0,1 wait" "hang 2 20"
    profiled 4 1 "^ddprove: MISMATCH.COUNT, rank 2: .*32 f32.*64 f32" "count 2 20"
fi
echo "$failures failures"
exit "$((failures > 0))"
