#!/bin/sh
# A killed process that the kernel ends seconds later, as one with a GPU's context may be, has crashed and does not hang.
# Usage: late.sh DDPROVE SCENARIO TRAINER LATE_DEATH OUT
set -u
ddprove=$1 scenario=$2 trainer=$3 late_death=$4 out=$5
failures=0
rm -rf "$out"
mkdir -p "$out" && cd "$out" || exit 1

# late RANK COMMAND...: that rank ends 3 s late; what is said is in `said`.
late() {
    rank=$1
    shift
    env LD_PRELOAD="$late_death" DDPROVE_LATE_RANK="$rank" DDPROVE_LATE_MS=3000 "$@" >said 2>&1
    got=$?
}
# says CODE WORDS: it ended with this code and these words (a pattern), and nothing is said to hang.
says() {
    if [ "$got" -ne "$1" ] || ! grep -q "$2" said || grep -q HANG said; then
        echo "FAIL exit $got, not $1, or not \"$2\":"
        cat said
        failures=$((failures + 1))
    fi
}

late 1 "$ddprove" run "$scenario" --driver proc -v --set faults.0.at.rank=1 \
    --set 'job.phase_budget_ms={forward: 500, backward: 500}' --out run
says 0 "CRASH.SIGNALED  rank 1 .*named in .* ms after the first fault there)"
if ! grep -q "rank 1 ended by signal 9 (SIGKILL), [0-9]* ms after it was seen to be at its end" run/*/proc/trace.txt; then
    echo "FAIL that it was late is not said"
    failures=$((failures + 1))
fi
late 2 "$ddprove" exec --ranks 4 --limit 1 -- "$trainer" 60 kill 2 20
says 1 "^ddprove: CRASH.SIGNALED, rank 2: .*SIGKILL, step 20"
# It lives, and hangs.
late 2 "$ddprove" exec --ranks 4 --limit 1 -- "$trainer" 60 hang 3 20
if [ "$got" -ne 1 ] || ! grep -q "^ddprove: HANG.NOT_JOINED, rank 3: " said; then
    echo "FAIL a hang is not found: $(cat said)"
    failures=$((failures + 1))
fi
echo "$failures failures"
exit "$((failures > 0))"
