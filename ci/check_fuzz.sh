#!/bin/sh
# Runs every fuzz target of build/fuzz for some seconds, from its corpus, two at a time. Usage:
# check_fuzz.sh SECONDS
# New inputs stay in build/fuzz/corpus; an input that fails is left in build/fuzz/found.
set -eu
seconds=$1
rm -rf build/fuzz/logs
mkdir -p build/fuzz/found build/fuzz/logs

fuzz() {
    name=${1##*/fuzz_}
    mkdir -p "build/fuzz/corpus/$name"
    seeds=
    if [ -d "tests/fuzz/corpus/$name" ]; then seeds=tests/fuzz/corpus/$name; fi
    # shellcheck disable=SC2086 # seeds may be nothing
    "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$name." "build/fuzz/corpus/$name" $seeds \
        >"build/fuzz/logs/$name" 2>&1 || echo "$name" >>build/fuzz/logs/.failed
}

started=0
for target in build/fuzz/bin/fuzz_*; do
    [ -x "$target" ] || continue
    fuzz "$target" &
    started=$((started + 1))
    [ $((started % 2)) -ne 0 ] || wait
done
wait
[ "$started" -gt 0 ] || { echo "no fuzz target was built"; exit 1; }
for log in build/fuzz/logs/*; do
    echo "== ${log##*/}"
    cat "$log"
done
if [ -e build/fuzz/logs/.failed ]; then
    echo "failed: $(tr '\n' ' ' <build/fuzz/logs/.failed)"
    exit 1
fi
