#!/bin/sh
# The tests that ddpcore/README.md names exist, and every row either has one or says that nothing is there yet; and each bug of
# ddpcore/BUGS.md has a test that exists.
# Usage: features.sh SOURCE
set -u
cd "$1" || exit 1
page=ddpcore/README.md
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}
exists() { # NAME
    case $1 in
    unit_*\ *.*)
        case=${1#* }
        grep -rqs "CT_TEST(${case%%.*}, ${case#*.})" tests/unit
        ;;
    */*) [ -e "scenarios/$1.yaml" ] ;;
    suite.*) grep -qs "ddprove_add_suite(${1#suite.} " tests/suite/CMakeLists.txt ;;
    standin.* | package.* | guest.* | torch.*) grep -rqs "NAME $1\b" tests --include=CMakeLists.txt || { [ "$1" = package.embed ] && [ -x tests/embed/run.sh ]; } ;;
    *) false ;;
    esac
}
sed -n '/^| PyTorch | ours/,/^$/p' "$page" | sed '1,2d; /^$/d' >"${TMPDIR:-/tmp}/features.$$"
rows=$(grep -c . "${TMPDIR:-/tmp}/features.$$")
[ "$rows" -gt 25 ] || fail "only $rows rows"
while IFS= read -r row; do
    feature=$(echo "$row" | awk -F'|' '{ print $2 }')
    ours=$(echo "$row" | awk -F'|' '{ gsub(/^ +| +$/, "", $3); print $3 }')
    shown=$(echo "$row" | awk -F'|' '{ print $4 }' | grep -o '`[^`]*`' | tr -d '`')
    case $ours in
    -*) [ -z "$shown" ] || fail "$feature: not there, and shown by $shown" ;;
    *) [ -n "$shown" ] || fail "$feature: nothing shows it" ;;
    esac
    echo "$shown" >"${TMPDIR:-/tmp}/shown.$$"
    while IFS= read -r name; do
        [ -z "$name" ] || exists "$name" || fail "$feature: there is no $name"
    done <"${TMPDIR:-/tmp}/shown.$$"
done <"${TMPDIR:-/tmp}/features.$$"
rm -f "${TMPDIR:-/tmp}/features.$$" "${TMPDIR:-/tmp}/shown.$$"
bugs=$(sed -n '/^| bug | what/,$p' ddpcore/BUGS.md | sed '1,2d; /^$/d' | grep -c '^|')
[ "$bugs" -ge 50 ] || fail "only $bugs bugs"
sed -n '/^| bug | what/,$p' ddpcore/BUGS.md | sed '1,2d; /^$/d' >"${TMPDIR:-/tmp}/bugs.$$"
while IFS= read -r row; do
    bug=$(echo "$row" | awk -F'|' '{ print $2 }')
    shown=$(echo "$row" | awk -F'|' '{ print $4 }' | grep -o '`[^`]*`' | tr -d '`')
    [ -n "$shown" ] || fail "bug $bug: nothing shows it"
    echo "$shown" >"${TMPDIR:-/tmp}/shown.$$"
    while IFS= read -r name; do
        [ -z "$name" ] || exists "$name" || fail "bug $bug: there is no $name"
    done <"${TMPDIR:-/tmp}/shown.$$"
done <"${TMPDIR:-/tmp}/bugs.$$"
rm -f "${TMPDIR:-/tmp}/bugs.$$" "${TMPDIR:-/tmp}/shown.$$"
# It must be able to fail.
if exists no/such_scenario || exists 'unit_ddp clip.no_such_case' || exists package.no_such_test; then
    fail "anything exists"
fi
echo "$rows rows, $bugs bugs, $failures failures"
test "$failures" -eq 0
