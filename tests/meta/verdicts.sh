#!/bin/sh
# Each verdict of verdict.def is named in code that looks for it: nobody is promised what does not
# exist. The judge only relates verdicts, so it does not count.
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
sed -nE 's/^X\(([A-Z]+), ([A-Z_]+), ".*/\1 \2/p' harness/verdict/verdict.def >"$2.rows"
test "$(grep -c '^X(' harness/verdict/verdict.def)" -eq "$(wc -l <"$2.rows")"
test "$(wc -l <"$2.rows")" -gt 50
while read -r family name; do
    if ! grep -qx "HARNESS_VERDICT_${family}_$name" "$2.named"; then
        echo "verdict.def: no code reports $family.$name" >&2
        status=1
    fi
done <"$2.rows"
while read -r name; do
    if ! grep -qx "${name%%.*} ${name#*.}" "$2.rows"; then
        echo "verdict.def has no $name, which Python code says" >&2
        status=1
    fi
done <"$2.python"
# And each is expected: by a scenario, a unit test, or a program that is broken on purpose. Those that
# only relate verdicts, or name them, do not count.
find scenarios tests/guest \( -name '*.yaml' -o -name '*.py' \) ! -path 'scenarios/canary/*' \
    -exec grep -ohE '[A-Z]+\.[A-Z_]+' {} + | sort -u >"$2.expected"
find tests/unit -name '*.c' ! -path 'tests/unit/verdict/*' ! -path 'tests/unit/judge/*' \
    ! -path 'tests/unit/scenario/*' -exec grep -ohE 'HARNESS_VERDICT_[A-Z_]+' {} + | sort -u >>"$2.expected"
while read -r family name; do
    if ! grep -qxE "$family\.$name|HARNESS_VERDICT_${family}_$name" "$2.expected"; then
        echo "verdict.def: nothing expects $family.$name" >&2
        status=1
    fi
done <"$2.rows"
# What an oracle was heard to say, its row of oracle.def allows.
sed -nE 's/^    ([A-Z]+)\.([A-Z_]+) \| ([a-z_]+) \|.*/\3 \1 \2/p' tests/data/said.txt | sort -u >"$2.said"
test "$(wc -l <"$2.said")" -gt 50
sed -nE 's/^X\([A-Z]+, [A-Z_]+, ([a-z_]+), "([A-Z_. ]*)".*/\1 \2 /p' harness/verdict/oracle.def >"$2.gives"
while read -r oracle family name; do
    if ! grep -qE "^$oracle .*\b$family(\.$name)? " "$2.gives"; then
        echo "oracle.def: $oracle gives $family.$name, and its row does not say so" >&2
        status=1
    fi
done <"$2.said"
exit $status
