#!/bin/sh
# Jobs whose all-reduces a plug-in does that moves the data itself: its sums are judged by the trees that probes show, what it
# does wrong is named with it, and faults around it are found as with any other collective.
# Usage: jobs.sh DDPROVE SCENARIOS HEADERS SOURCE OUT CC
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/../cli/checks.sh"
ddprove=$1
scenarios=$2
headers=$3
source=$4
cc=$6
rm -rf "$5"
mkdir -p "$5" && cd "$5" || exit 1
"$cc" --version >/dev/null 2>&1 || { echo "there is no compiler $cc"; exit 77; }

# job CODE WHAT ARGUMENT...: the plug-in's job ends so.
job() {
    code=$1
    what=$2
    shift 2
    "$cc" -w -DWHAT="$what" -DCALLS=18 -shared -fPIC -I "$headers" -o "$what.so" "$source" -lm
    ends "$code" run "$scenarios/equivalence/mlp_w4.yaml" --collective "./$what.so" --set job.ranks=3 --set job.steps=6 \
        --set job.phase_budget_ms.backward=1000 --set job.timeout_ms=60000 --driver proc -j 1 --out "$what" "$@"
}
found() {
    grep -qE -e "$1" out || fail "$what: \"$1\" is not said: $(cat out)"
}

# Right ones, in both styles, with and without checks of what ranks post.
job 0 RIGHT
job 0 POSTED
job 0 RIGHT --set job.semantics=pytorch
job 0 RIGHT --set job.transport=tcp

# Wrong sums, by the measured trees.
job 1 LOST
found 'VALUE.LOST +rank 2'
found 'lacks the contribution of member 2'
job 1 TWICE
found 'VALUE.DUPLICATED +rank 1'

# Its own crashes and hangs.
job 1 CRASH
# Who sees the end of another one before its own call ends does not come to crash.
found 'CRASH.SIGNALED +rank [012](,[12])* .*probe'
found 'in the code of ./CRASH.so'
job 1 LATE_CRASH
found 'CRASH.SIGNALED +rank 1 .*backward'
found 'inside all_reduce seq [0-9]+ \(bucket .*\), in the code of ./LATE_CRASH.so'
for what in SPIN LATER_HANG; do
    job 1 $what
    found 'HANG.HOST +rank 1 .*backward'
    found "inside all_reduce seq [0-9]+ \(bucket .*\), in the code of ./$what.so; ranks 0 and 2 wait"
done

# Faults around it.
for scenario in crash/sigkill_in_allreduce mismatch/redop; do
    ends 0 run "$scenarios/$scenario.yaml" --collective ./RIGHT.so --set job.ranks=3 --driver proc -j 1 --out faults
done

# Those that were found otherwise than with schedules: collectives of construction that one rank leaves out or posts too many of
# before trees are measured, other buckets, flags and maps in operations that the plug-in has not, no time limit.
around() {
    ends 0 run "$scenarios/$1.yaml" --collective ./RIGHT.so --driver proc -j 1 --out around --set "${2:-job.seed=7}"
}
around mismatch/buffers_skipped faults.0.at.rank=first
around mismatch/params_skipped faults.0.at.rank=last
around mismatch/params_not_received
around mismatch/extra_anywhere faults.0.at.seq=3
around mismatch/config_leaves_out
around mismatch/config_pytorch
around mismatch/wrapper_bypassed_by_all
around hang/buffers_not_received
around unused/flag_off_one_rank_late
around equivalence/combined job.branch=by_data
around value/barrier_left
around canary/not_survived expect.survivors.status=OK

# Drawn jobs and faults: what the model of faults says of them does not depend on who moves the data.
cat >drawn.yaml <<END
# A plug-in's collectives.
campaign: plugin
cases: 16
seed: 1
drivers: [proc]
faults: [0, 1]
ranks_max: 4
steps_max: 4
set: ["job.collective=$PWD/RIGHT.so"]
odds: {job.collective: 0, job.segment_kb: 0, job.nodes: 0, job.bucket_order: 0, job.hook: 0, job.posts: 0, job.groups: 0, job.mixed_precision: 0, job.on_loss: 0, job.drift_every: 0, job.sync_batchnorm: 0, at.run: 0}
END
ends 0 campaign drawn.yaml -j 2 --out drawn

# What it cannot do is known before ranks start.
skipped() {
    ends 77 run "$scenarios/$1.yaml" --collective ./RIGHT.so --driver proc -j 1 --out skipped
    grep -qF -e "$2" out || fail "$1: not said: $2: $(cat out)"
}
skipped crash/schedule_refused 'fault 0 is in a schedule, and ./RIGHT.so adds without schedules'
skipped hook/killed './RIGHT.so says that it cannot do this: sum of f16'
skipped several/maximum_then_exit './RIGHT.so says that it cannot do this: max of f32'
skipped mismatch/message 'it is written for sums by schedules (for_schedules), and ./RIGHT.so has none'

# What cannot be: other kinds, the simulator, buckets that change after the trees were measured.
sed 's/\.kind = DDPROVE_COLL_ALL_REDUCE/.kind = DDPROVE_COLL_BROADCAST/' "$source" >broadcast.c
"$cc" -w -shared -fPIC -I "$headers" -o broadcast.so broadcast.c -lm
ends 1 run "$scenarios/equivalence/mlp_w4.yaml" --collective ./broadcast.so --driver proc -j 1 --out broadcast
grep -qF './broadcast.so: star is no all-reduce' out || fail "the kind is not said: $(cat out)"
ends 77 run "$scenarios/equivalence/mlp_w4.yaml" --collective ./RIGHT.so --driver sim -j 1 --out sim
grep -qF 'a plug-in that moves the data itself has real processes only' out err || fail "the driver is not said: $(cat out err)"
refused 'use bucket_order reverse' run "$scenarios/equivalence/mlp_w4.yaml" --collective ./RIGHT.so --driver proc \
    --set job.bucket_order=pytorch

# MPI's, where there is one: mpirun starts the ranks.
if mpicc --version >/dev/null 2>&1 && mpirun --version >/dev/null 2>&1; then
    mpicc -Wall -Wextra -Werror -shared -fPIC -I "$headers" -o mpi.so "$headers/example/mpi.c"
    ends 77 run "$scenarios/equivalence/mlp_w4.yaml" --collective ./mpi.so --driver proc -j 1 --out mpi
    grep -qF -e '--launcher mpirun' out err || fail "mpirun is not asked for: $(cat out err)"
    ends 0 run "$scenarios/equivalence/mlp_w4.yaml" --collective ./mpi.so --launcher mpirun --set job.ranks=2 --driver proc -j 1 \
        --out mpi
fi
echo "$failures failures"
test "$failures" -eq 0
