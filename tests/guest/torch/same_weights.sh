#!/bin/sh
# A PyTorch script ends with the same weights, bit for bit, watched and alone, in each variant of DDP; all is well, and
# its sums are judged. Skipped (77) without PyTorch. Usage: same_weights.sh DDPROVE STARTER [VARIANT]...
set -u
ddprove=$1 starter=$2
shift 2
[ -x "$starter" ] || {
    echo "skipped: python3 -m venv V && V/bin/pip install torch==2.15.0, then cmake -DDDPROVE_TORCH_PYTHON=V/bin/python"
    exit 77
}
[ $# -gt 0 ] || set -- plain unused static no_sync hook join
failures=0
status=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAIL $1"
    cat "$folder/said"
    failures=$((failures + 1))
}
# PyTorch 2.15 with gloo now and then aborts when it ends, also without ddprove, and says this. Such a run shows
# nothing, and is made again; one that fails in any other way is not.
run() {
    status=0
    for _ in 1 2 3 4 5; do
        "$@" >"$folder/said" 2>&1 && return 0
        status=$?
        grep -q "terminate called without an active exception" "$folder/said" || return "$status"
    done
    return "$status"
}
for variant in "$@"; do
    words="mlp --steps 6 --variant $variant --save"
    # shellcheck disable=SC2086 # words
    run "$ddprove" exec --ranks 2 --adapter torch --prove sums -- "$starter" $words "$folder/watched" ||
        fail "$variant: exit $status"
    grep -q "^ddprove: results of [0-9]* calls judged" "$folder/said" || fail "$variant: nothing was judged"
    # The same way without the adapter: a process that nobody shows (exit 4).
    # shellcheck disable=SC2086 # words
    run env TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$ddprove" exec --ranks 2 -- "$starter" $words "$folder/alone"
    [ "$status" -eq 4 ] || fail "$variant: alone, exit $status"
    grep -q "no rank has shown itself" "$folder/said" || fail "$variant: it is watched all the same"
    "$starter" same "$folder/watched" "$folder/alone" >"$folder/said" 2>&1 || fail "$variant: other weights"
done
echo "$failures failures"
exit "$((failures > 0))"
