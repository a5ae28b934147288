#!/bin/sh
# Each FOUND verdict of verdict.def is named in code that looks for it, and no PLANNED one is: nobody
# is promised what does not exist. The judge only relates verdicts, so it does not count.
set -eu
cd "$1"
sources=$(find harness \( -name '*.c' -o -name '*.h' \) \
    ! -path 'harness/verdict/*' ! -path 'harness/judge/*' ! -path 'harness/cli/*')
# shellcheck disable=SC2086 # the names have no spaces
grep -ohE 'HARNESS_VERDICT_[A-Z_]+' $sources | sort -u >"$2.named"
status=0
# Code within PyTorch writes them as they are shown.
find harness -name '*.py' -exec grep -ohE '"[A-Z]+\.[A-Z_]+"' {} + | tr -d '"' | sort -u >"$2.python"
sed 's/^/HARNESS_VERDICT_/; s/\./_/' "$2.python" >>"$2.named"
sed -nE 's/^X\(([A-Z]+), ([A-Z_]+), ([A-Z]+),.*/\1 \2 \3/p' harness/verdict/verdict.def >"$2.rows"
test "$(grep -c '^X(' harness/verdict/verdict.def)" -eq "$(wc -l <"$2.rows")"
test "$(wc -l <"$2.rows")" -gt 50
while read -r family name state; do
    if grep -qx "HARNESS_VERDICT_${family}_$name" "$2.named"; then
        found=FOUND
    else
        found=PLANNED
    fi
    if [ "$found" != "$state" ]; then
        echo "verdict.def: $family.$name is $state, and by the code it is $found" >&2
        status=1
    fi
done <"$2.rows"
while read -r name; do
    if ! grep -qx "${name%%.*} ${name#*.} .*" "$2.rows"; then
        echo "verdict.def has no $name, which Python code says" >&2
        status=1
    fi
done <"$2.python"
exit $status
