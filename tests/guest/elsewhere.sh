#!/bin/sh
# An installed ddprove, moved to another folder while the tree and the build that it comes from are not there: the examples
# are built with its library, watched, and judged by its scenarios, which find their trainers. Skipped (77) where nothing
# can be hidden: that takes a mount of one's own. Usage: elsewhere.sh PREFIX CC HIDDEN...
set -u
if [ "$1" != --hidden ]; then
    hide="unshare -m"
    $hide true 2>/dev/null || hide="unshare -rm"
    $hide true 2>/dev/null || { echo "SKIP: unshare may make no mounts of its own here" && exit 77; }
    prefix=$1 cc=$2
    shift 2
    # Not where TMPDIR says, which may lie in the tree.
    folder=$(mktemp -d /tmp/ddprove-elsewhere-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    cp -a "$prefix" "$folder/prefix" && cp "$0" "$folder/elsewhere.sh" && cd "$folder" || exit 1
    TMPDIR=$folder $hide sh "$folder/elsewhere.sh" --hidden "$folder" "$cc" "$@"
    exit
fi
folder=$2 cc=$3
shift 3
for hidden in "$@"; do
    [ -d "$hidden" ] || continue # it lies in what is hidden already
    mount -t tmpfs none "$hidden" || { echo "SKIP: $hidden cannot be hidden" && exit 77; }
    [ -z "$(ls "$hidden")" ] || { echo "FAIL: $hidden is still there" && exit 1; }
done
failures=0
prefix=$folder/prefix
scenarios=$prefix/share/ddprove/scenarios/guest
examples=$(dirname "$(find "$prefix" -name star.h)")
libraries=$(dirname "$(find "$prefix" -name libddprove_guest.so.1)")
# Ranks of Open MPI that are killed leave their shared memory where it lies.
export OMPI_MCA_btl_vader_backing_directory="$folder" OMPI_MCA_btl_sm_backing_directory="$folder"

# expect WORDS COMMAND...: it ends with 0 and says a line with these words (a pattern).
expect() {
    words=$1
    shift
    if ! "$@" >"$folder/said" 2>&1 || ! grep -q -- "$words" "$folder/said"; then
        echo "FAIL $*: said, instead of \"$words\":"
        cat "$folder/said"
        failures=$((failures + 1))
    fi
}

for name in trainer model_trainer; do
    "$cc" -std=c17 -D_GNU_SOURCE -I"$prefix/include" -I"$examples" "$examples/$name.c" "$examples/star.c" \
        -o "$folder/$name" -L"$libraries" -lddprove_guest -lm -Wl,-rpath,"$libraries" ||
        failures=$((failures + 1))
done
expect '^loss' "$prefix/bin/ddprove" exec --ranks 3 -- "$folder/trainer" 20
# Each family's trainer, which is found beside ddprove, and one that was built here.
of_two="matrix={job.ranks: [2]}"
run() { # SCENARIO RANKS WORDS
    expect "^PASS .*guest.$1.*$3" "$prefix/bin/ddprove" run "$scenarios/$1.yaml" --driver proc \
        --set "matrix={job.ranks: [$2]}" --out "$folder/runs"
}
run skip_bucket 2 "MISMATCH.MISSING  rank 1"
run update_left_out 4 "VALUE.STALE  rank 1"
run core_healthy 2 ""
run against_count 4 "MISMATCH.COUNT"
if [ -x "$prefix/bin/ddprove_mpi_trainer" ] && command -v mpirun >/dev/null; then
    run mpi_count 2 "MISMATCH.COUNT  rank 1"
    run mesh_healthy 2 ""
else
    echo "not tested: MPI's trainers"
fi
expect "^PASS .*VALUE.LOST  rank 1" "$prefix/bin/ddprove" exec "$scenarios/value_lost.yaml" --set "$of_two" \
    --set faults.0.at.rank=1 --out "$folder/own" -- "$folder/trainer" 30
expect "^PASS .*guest.model_healthy" "$prefix/bin/ddprove" exec "$scenarios/model_healthy.yaml" --set "$of_two" \
    --out "$folder/own" -- "$folder/model_trainer" 12 sgd
expect "^PASS .*guest.skip_bucket" "$prefix/bin/ddprove" check "$folder/runs"
expect " 0 bad" "$prefix/bin/ddprove" lint "$scenarios"
echo "$failures failures"
exit "$((failures > 0))"
