#!/bin/sh
# Seven shards of a campaign, each killed at some moment and resumed, come to the same bytes as one campaign
# that was not sharded.
# Usage: campaign_shards.sh DDPROVE CAMPAIGN OUT
set -u
ddprove=$1
file=$2
out=$3
shards=7
cases=140
rm -rf "$out"
mkdir -p "$out"
fail() {
    echo "FAIL $*"
    exit 1
}

"$ddprove" campaign "$file" --cases $cases --out "$out/whole" >"$out/whole.log" || fail "the whole campaign"
shard=0
while [ $shard -lt $shards ]; do
    # timeout sends SIGKILL after so many hundredths of a second; a shard that was done by then has nothing to resume.
    timeout -s KILL "0.$((5 + shard * 7 % 20))" "$ddprove" campaign "$file" --cases $cases --shard $shard/$shards \
        -j 1 --out "$out/parts" >>"$out/killed.log" 2>&1
    shard=$((shard + 1))
done
"$ddprove" campaign merge "$out/parts" --out "$out/early" >"$out/early.log" 2>&1
grep -q 'answers are missing\|is missing' "$out/early.log" || echo "no shard was killed in time"
shard=0
while [ $shard -lt $shards ]; do
    SLURM_ARRAY_TASK_ID=$((shard + 1)) SLURM_ARRAY_TASK_COUNT=$shards SLURM_ARRAY_TASK_MIN=1 \
        "$ddprove" campaign "$file" --cases $cases --resume -j 1 --out "$out/parts" >"$out/shard.$shard.log" 2>&1 ||
        grep -q 'are missing' "$out/shard.$shard.log" || fail "shard $shard: $(tail -1 "$out/shard.$shard.log")"
    shard=$((shard + 1))
done
"$ddprove" campaign merge "$out/parts" --out "$out/merged" || fail "merge"
cmp "$out/whole/results.txt" "$out/merged/results.txt" || fail "the shards' results differ from the whole campaign's"
"$ddprove" campaign merge "$out/parts" --out "$out/merged" >/dev/null || fail "merge again"
cmp "$out/whole/results.txt" "$out/merged/results.txt" || fail "merging twice differs"
