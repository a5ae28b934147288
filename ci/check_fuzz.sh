#!/bin/sh
# Runs every fuzz target of build/fuzz for some seconds, from its corpus. Usage: check_fuzz.sh SECONDS
# New inputs stay in build/fuzz/corpus; an input that fails is left in build/fuzz/found.
set -eu
seconds=$1
mkdir -p build/fuzz/found
found=0
for target in build/fuzz/bin/fuzz_*; do
    [ -x "$target" ] || continue
    found=1
    name=${target##*/fuzz_}
    mkdir -p "build/fuzz/corpus/$name"
    seeds=
    if [ -d "tests/fuzz/corpus/$name" ]; then seeds=tests/fuzz/corpus/$name; fi
    # shellcheck disable=SC2086 # seeds may be nothing
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$name." "build/fuzz/corpus/$name" $seeds
done
[ "$found" -eq 1 ] || { echo "no fuzz target was built"; exit 1; }
