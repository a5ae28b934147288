#!/bin/sh
# Length, banned words and banned calls in every source file; then the checker's own test.
set -eu
status=0
git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cc' '*.cu' '*.cuh' '*.def' |
    while read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done |
    xargs -d '\n' awk -f ci/check_style.awk || status=1

# Each of these lines must be refused.
canary=$(mktemp)
trap 'rm -f "$canary"' EXIT
for line in 'x = atoi(text);' '    usleep(5);' '/* TO''DO: later */' '// CT_CHECK(x);'; do
    printf '%s\n' "$line" >"$canary"
    if awk -f ci/check_style.awk "$canary" >/dev/null; then
        echo "ci/check_style.awk let this pass: $line" >&2
        status=1
    fi
done
exit $status
