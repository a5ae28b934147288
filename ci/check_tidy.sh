#!/bin/sh
# clang-tidy on the C sources that changed (ci/changed.sh). None is begun after CI_TIDY_SECONDS (default 60), and what is left
# out is named. What build/compile_commands.json does not know is no source.
set -eu
seconds=${CI_TIDY_SECONDS:-60}
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed"; exit 77; }
files=$(sh ci/changed.sh tidy 'ddpcore/*.c' 'reference/*.c' 'harness/*.c')
known=$(echo "$files" | sed 1d | while read -r file; do
    if grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
done)
count=$(echo "$known" | grep -c . || true)
echo "$count sources changed $(echo "$files" | sed -n 1p)"
if [ "$count" -gt 0 ]; then
    # shellcheck disable=SC2016 # for the shell that xargs starts
    echo "$known" | xargs -n 1 -P "$(nproc)" sh -c '
        if [ "$(date +%s)" -ge "$1" ]; then
            echo "left out, the time was up: $2"
        else
            clang-tidy --quiet -p build "$2"
        fi' sh "$(($(date +%s) + seconds))"
fi
