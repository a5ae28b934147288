#!/bin/sh
# ci/changed.sh RESULT PATH...: which files of PATH... changed since the merge base (CI_BASE, default origin/HEAD), or on the
# main line since ci/deep wrote ci/results/RESULT.txt, whose last line says at which commit; what changed last first. Files
# that are gone are left out. The first line is "since COMMIT".
set -eu
result=ci/results/$1.txt
shift
is_commit() {
    [ -n "$1" ] && git rev-parse -q --verify "$1^{commit}" >/dev/null && git merge-base --is-ancestor "$1" HEAD
}
base=$(git merge-base HEAD "${CI_BASE:-origin/HEAD}" 2>/dev/null || true)
if ! is_commit "$base" || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(sed -n 's/^at \([0-9a-f]*\)$/\1/p' "$result" 2>/dev/null || true)
    # A result that does not say it, or of a history that is not here.
    is_commit "$base" || base=$(git log -1 --format=%H -- "$result")
    is_commit "$base" || base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
fi
changed=$(mktemp)
trap 'rm -f "$changed"' EXIT
git diff --name-only --diff-filter=d "$base" -- "$@" >"$changed"
echo "since $base"
{
    git diff --name-only HEAD -- "$@"
    is_commit "$base" && git log --format= --name-only "$base..HEAD" -- "$@"
    git diff --name-only "$base" -- "$@"
} | awk -v changed="$changed" 'BEGIN { while ((getline line < changed) > 0) { is_here[line] = 1 } }
    is_here[$0] && !seen[$0]++'
