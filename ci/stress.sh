#!/usr/bin/env bash
# Every scenario on real processes, with eight processes a core that want to run, in rounds: no verdict may change.
# Usage: stress.sh DDPROVE SCENARIOS OUT HASH ROUNDS SECONDS
# A round's result is kept in OUT/HASH (HASH: of what is run), so that calls add up to ROUNDS; none begins after SECONDS.
#
# What loads the machine is mostly the suite itself: so many cells at a time that their processes wait for a processor as
# they would beside others' work. How many processes wanted to run is looked at once a second; a round in which they were
# fewer than eight a core, on average, does not count, and the next one has more cells at a time; with far more than that,
# jobs whose own time-out is a third of a second run into it before they have begun, and the next one has fewer.
set -u
ddprove=$1 scenarios=$2 out=$3/$4 rounds=$5 seconds=$6
cores=$(nproc)
mkdir -p "$out"
at_once=$((4 * cores))
[[ ! -e $out/at_once ]] || at_once=$(<"$out/at_once")

# Until killed: a line a second, how many processes want to run, but for this one.
watch_load() {
    local running
    while sleep 1; do
        read -r _ _ _ running _ </proc/loadavg
        echo $((${running%/*} - 1))
    done
}

count_rounds() {
    find "$out" -maxdepth 1 -name '*.txt' | wc -l
}
while (($(count_rounds) < rounds && SECONDS < seconds)); do
    start=$SECONDS number=$(($(count_rounds) + 1))
    watch_load >"$out/load" &
    watcher=$!
    "$ddprove" run "$scenarios" --driver proc --keep failed --out "$out/runs" -j "$at_once" >"$out/log" 2>&1
    code=$?
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    load=$(awk '{ sum += $1 } END { print (NR > 0 ? int(sum / NR) : 0) }' "$out/load")
    said="$at_once cells at a time, $load processes that want to run on $cores cores, $((SECONDS - start)) s"
    ((load <= 12 * cores)) || at_once=$((at_once * 2 / 3))
    ((load >= 8 * cores)) || at_once=$((at_once * 3 / 2))
    echo "$at_once" >"$out/at_once"
    if ((code != 0 && code != 77)); then
        # Its folders are kept, for whoever looks for the reason.
        mv "$out/runs" "$out/failed.$(date +%s)"
        awk '/^[A-Z]+ +proc / { is_shown = !/^(PASS|SKIP) / } is_shown || /^ddprove: /' "$out/log"
        echo "round $number FAILED: $said; its cells are in $out"
        exit 1
    fi
    if ((load < 8 * cores)); then
        echo "not enough to do: $said"
        rm -rf "$out/runs"
        continue
    fi
    echo "round $number: $(tail -n 1 "$out/log"), $said" >"$out/$(printf '%03d' "$number").txt"
    rm -rf "$out/runs"
done
cat "$out"/*.txt
(($(count_rounds) >= rounds)) || echo "unfinished: $(count_rounds) of $rounds rounds"
echo "$(count_rounds) passed, 0 failed"
