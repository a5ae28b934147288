#!/usr/bin/env bash
# The mutants (tests/mutants) of what changed: of a source, or a patch itself (ci/changed.sh); what changed last first, at most
# CI_MUTANTS (default 40) of them, and the others are named. That every patch applies is seen of all. ci/deep mutants runs all.
set -u
most=${CI_MUTANTS:-40}
jobs=$(nproc)
status=0
for patch in tests/mutants/*.patch; do
    patch -p1 --dry-run -s -i "$patch" >/dev/null || { echo "$patch does not apply" && status=1; }
done
((status == 0)) || exit 1
files=$(sh ci/changed.sh mutants ddpcore harness reference tests/mutants)
names=$(sed 1d <<<"$files" | while read -r file; do
    case $file in
        tests/mutants/*.patch) echo "$file" ;;
        *) grep -lFx -- "+++ b/$file" tests/mutants/*.patch ;;
    esac
done | awk '!seen[$0]++' | xargs -r -n 1 basename -s .patch)
mapfile -t chosen < <(head -n "$most" <<<"$names" | grep .)
left=$(tail -n "+$((most + 1))" <<<"$names" | grep . | tr '\n' ' ')
echo "${#chosen[@]} mutants of what changed $(head -n 1 <<<"$files")${left:+; left to ci/deep mutants: $left}"
((${#chosen[@]} > 0)) || exit 0
# What was configured without what a mutant is of has no such target.
targets=$(cmake --build build --target help | grep -o 'ddprove_mutant_[a-z0-9_]*' | sort -u)
mapfile -t chosen < <(for name in "${chosen[@]}"; do
    if grep -qx "ddprove_mutant_$name" <<<"$targets"; then echo "$name"; else echo "not built here: $name" >&2; fi
done)
((${#chosen[@]} > 0)) || exit 0
cmake --build build -j "$jobs" --target "${chosen[@]/#/ddprove_mutant_}" >build/ci-logs/mutants_build.log 2>&1 ||
    { tail -n 40 build/ci-logs/mutants_build.log && exit 1; }
ctest --test-dir build -j "$((2 * jobs))" -R "^mutant\.($(IFS='|' && echo "${chosen[*]}"))\$" -FA mutants --no-tests=error
