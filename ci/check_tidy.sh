#!/bin/sh
# clang-tidy on the C sources that changed since the merge base (on the main line: since the last
# commit), at most 24 of them, with what build/compile_commands.json says about each.
set -eu
limit=24
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed"; exit 77; }
base=$(git merge-base HEAD "${CI_BASE:-origin/HEAD}" 2>/dev/null || true)
if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
fi
files=$(git diff --name-only --diff-filter=d "$base" -- 'ddpcore/*.c' 'reference/*.c' 'harness/*.c')
known=$(for file in $files; do
    if grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
done)
count=$(echo "$known" | grep -c . || true)
echo "$count sources changed since $base"
if [ "$count" -gt "$limit" ]; then
    echo "$((count - limit)) of them are left out:"
    echo "$known" | tail -n "+$((limit + 1))"
fi
if [ "$count" -gt 0 ]; then
    echo "$known" | head -n "$limit" | xargs -n 1 -P "$(nproc)" clang-tidy --quiet -p build
fi
