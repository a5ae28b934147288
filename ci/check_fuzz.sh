#!/usr/bin/env bash
# Runs every fuzz target of build/fuzz, from its corpus, until it has had some seconds of a processor, two at a time.
# Usage: check_fuzz.sh SECONDS
# New inputs stay in build/fuzz/corpus; an input that fails is left in build/fuzz/found. An input may take 100 s: beside
# other work a target may have no processor for long.
set -eu
seconds=$1
TIMEFORMAT='%U %S'
rm -rf build/fuzz/logs
mkdir -p build/fuzz/found build/fuzz/logs

fuzz() {
    local name=${1##*/fuzz_} spent=0 took
    local corpus=("build/fuzz/corpus/$name")
    mkdir -p "${corpus[0]}"
    [[ ! -d tests/fuzz/corpus/$name ]] || corpus+=("tests/fuzz/corpus/$name")
    while ((spent < seconds)); do
        {
            time "$1" -max_total_time=$((seconds - spent)) -timeout=100 -rss_limit_mb=1024 -print_final_stats=1 \
                -artifact_prefix="build/fuzz/found/$name." "${corpus[@]}" >>"build/fuzz/logs/$name" 2>&1
        } 2>"build/fuzz/logs/.time.$name" || return 1
        took=$(awk '{ printf "%.0f", $1 + $2 }' "build/fuzz/logs/.time.$name") || return 1
        spent=$((spent + took))
    done
}

started=0
for target in build/fuzz/bin/fuzz_*; do
    [[ -x $target ]] || continue
    ((started < 2)) || wait -n
    { fuzz "$target" || echo "${target##*/fuzz_}" >>build/fuzz/logs/.failed; } &
    started=$((started + 1))
done
wait
((started > 0)) || { echo "no fuzz target was built" && exit 1; }
for log in build/fuzz/logs/*; do
    echo "== ${log##*/}"
    cat "$log"
done
if [[ -e build/fuzz/logs/.failed ]]; then
    echo "failed: $(tr '\n' ' ' <build/fuzz/logs/.failed)"
    exit 1
fi
