#!/bin/sh
# clang-tidy on the C sources that changed since the merge base (CI_BASE, default origin/HEAD), or on the main line since
# all of them were looked at (ci/deep tidy says at which commit), what changed last first. None is begun after
# CI_TIDY_SECONDS (default 60), and what is left out is named. What build/compile_commands.json does not know is no source.
set -eu
seconds=${CI_TIDY_SECONDS:-60}
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed"; exit 77; }
sources="ddpcore/*.c reference/*.c harness/*.c"
is_commit() {
    [ -n "$1" ] && git rev-parse -q --verify "$1^{commit}" >/dev/null && git merge-base --is-ancestor "$1" HEAD
}
base=$(git merge-base HEAD "${CI_BASE:-origin/HEAD}" 2>/dev/null || true)
if ! is_commit "$base" || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(sed -n 's/^at \([0-9a-f]*\)$/\1/p' ci/results/tidy.txt 2>/dev/null || true)
    # A result that does not say it, or of a history that is not here.
    is_commit "$base" || base=$(git log -1 --format=%H -- ci/results/tidy.txt)
    is_commit "$base" || base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
fi
# shellcheck disable=SC2086 # patterns are words
files=$({
    git diff --name-only HEAD -- $sources
    is_commit "$base" && git log --format= --name-only "$base..HEAD" -- $sources
    git diff --name-only "$base" -- $sources
} | awk '!seen[$0]++')
changed=$(mktemp)
trap 'rm -f "$changed"' EXIT
# shellcheck disable=SC2086
git diff --name-only --diff-filter=d "$base" -- $sources >"$changed"
known=$(for file in $files; do
    if grep -qxF "$file" "$changed" && grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
done)
count=$(echo "$known" | grep -c . || true)
echo "$count sources changed since $base"
if [ "$count" -gt 0 ]; then
    # shellcheck disable=SC2016 # for the shell that xargs starts
    echo "$known" | xargs -n 1 -P "$(nproc)" sh -c '
        if [ "$(date +%s)" -ge "$1" ]; then
            echo "left out, the time was up: $2"
        else
            clang-tidy --quiet -p build "$2"
        fi' sh "$(($(date +%s) + seconds))"
fi
