#!/bin/sh
# The tests that ddpcore/README.md names exist, and every row either has one or says that nothing is there yet; and each row of
# ddpcore/BUGS.md and harness/BUGS.md has a test that exists.
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
    unit_*\ *.* | cli_*\ *.*)
        case=${1#* }
        grep -rqs "CT_TEST(${case%%.*}, ${case#*.})" tests/unit tests/cli
        ;;
    ci/deep\ *) grep -qs "^ *\[${1#ci/deep }\]=\|^${1#ci/deep }() {" ci/deep ;;
    */*) [ -e "scenarios/$1.yaml" ] ;;
    mutant.*) [ -e "tests/mutants/${1#mutant.}.patch" ] ;;
    suite.*) grep -qs -e "ddprove_add_suite(${1#suite.} " -e "NAME $1 " tests/suite/CMakeLists.txt ;;
    cli.explain) grep -qs 'NAME cli.explain\.' tests/cli/CMakeLists.txt ;;
    cli.* | coll.* | doc.* | meta.* | standin.* | package.* | guest.* | torch.*) grep -rqs "NAME $1\b" tests --include=CMakeLists.txt || { [ "$1" = package.embed ] && [ -x tests/embed/run.sh ]; } ;;
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
# check_table PAGE ROWS_MIN: the tables of a page of which each row ends with the tests that hold it.
check_table() {
    sed -n '/^|/p' "$1" | grep -v -e '^|---' -e '^| [a-z]* | .* | shown by |$' -e '^| .*| held by |$' >"${TMPDIR:-/tmp}/bugs.$$"
    bugs=$(grep -c . "${TMPDIR:-/tmp}/bugs.$$")
    [ "$bugs" -ge "$2" ] || fail "$1: only $bugs rows"
    while IFS= read -r row; do
        bug=$(echo "$row" | awk -F'|' '{ print $2 ":" $3 }')
        shown=$(echo "$row" | awk -F'|' '{ print $(NF - 1) }' | grep -o '`[^`]*`' | tr -d '`')
        [ -n "$shown" ] || fail "$1:$bug: nothing shows it"
        echo "$shown" >"${TMPDIR:-/tmp}/shown.$$"
        while IFS= read -r name; do
            [ -z "$name" ] || exists "$name" || fail "$1:$bug: there is no $name"
        done <"${TMPDIR:-/tmp}/shown.$$"
    done <"${TMPDIR:-/tmp}/bugs.$$"
    rm -f "${TMPDIR:-/tmp}/bugs.$$" "${TMPDIR:-/tmp}/shown.$$"
    echo "$1: $bugs rows"
}
check_table ddpcore/BUGS.md 50
check_table harness/BUGS.md 65
# It must be able to fail.
if exists no/such_scenario || exists 'unit_ddp clip.no_such_case' || exists package.no_such_test ||
    exists mutant.no_such_patch || exists suite.no_such || exists 'ci/deep no_such_stage'; then
    fail "anything exists"
fi
echo "$page: $rows rows, $failures failures"
test "$failures" -eq 0
