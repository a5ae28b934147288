#!/bin/sh
# Each observed oracle has a broken program that it alone catches: all oracles together find it, that one by itself
# finds it, and all but that one pass the program. (What the oracle of usage finds shows in the models too, and that of
# gradients needs PyTorch.)
# Usage: alone.sh DDPROVE SCENARIOS
set -u
ddprove=$1 scenarios=$2
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# Oracle, scenario with the program, what is to be found there.
table="
reduction alone_reduction VALUE.LOST
replicas alone_replicas VALUE.DIVERGED
update alone_update VALUE.SCALED
ledger alone_ledger DATA.DUPLICATED
program alone_program MISMATCH.MISSING
liveness alone_liveness CRASH.FINISHED_EARLY
broadcast value_broadcast VALUE.DIVERGED
checkpoint keys_doubled CHECKPOINT.PREFIX
"

# judged CODE WORDS WITHOUT: the scenario, of which nothing wrong is expected, ends with this code and says a line with
# these words (a pattern), if these oracles are left out.
judged() {
    "$ddprove" run "$scenarios/$scenario.yaml" --set matrix='{job.ranks: [4]}' --set expect='{verdict: NONE}' \
        --set "job.guest.without=[$3]" --out runs -v >said 2>&1
    got=$?
    rm -rf runs
    if [ "$got" -ne "$1" ] || ! grep -q -- "$2" said; then
        echo "FAIL $scenario without [$3]: exit $got, not $1; said, instead of \"$2\":"
        cat said
        failures=$((failures + 1))
    fi
}

oracles=$(echo "$table" | cut -d' ' -f1)
while read -r oracle scenario verdict; do
    if [ -z "$oracle" ]; then
        continue
    fi
    others=$(echo "$oracles" | grep -v -x -e "$oracle" -e '' | paste -s -d, -)
    judged 1 "^FAIL .*$verdict" ""
    judged 1 "^FAIL .*$verdict" "$others"
    judged 0 "^ *not judged: $oracle, switched off" "$oracle"
done <<TABLE
$table
TABLE
# It is no way to a PASS by accident: what is left out cannot be asked for, and a job that hangs is ended all the same.
scenario=healthy
"$ddprove" run "$scenarios/healthy.yaml" --set expect='{verdict: NONE, judged: [reduction]}' \
    --set job.guest.without='[reduction]' >said 2>&1
if [ $? -ne 2 ] || ! grep -q "expect.judged asks for the oracle reduction" said; then
    echo "FAIL: what is left out was asked for:"
    cat said
    failures=$((failures + 1))
fi
echo "$failures failures"
exit "$((failures > 0))"
