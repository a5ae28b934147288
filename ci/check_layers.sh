#!/bin/sh
# Layer rules on every source file, new ones included; then the checker's own test.
set -eu
status=0
git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cc' '*.cu' '*.cuh' '*.def' |
    while read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done |
    awk -f ci/check_layers.awk || status=1

# A base file that includes the harness must be refused, or the check proves nothing.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/ddpcore/base" "$folder/ci"
cp ci/layers.txt ci/check_layers.awk "$folder/ci/"
echo '#include "harness/plan/plan.h"' >"$folder/ddpcore/base/canary.c"
if (cd "$folder" && echo ddpcore/base/canary.c | awk -f ci/check_layers.awk >/dev/null); then
    echo "ci/check_layers.awk let a forbidden include pass" >&2
    status=1
fi
exit $status
