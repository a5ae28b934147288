#!/bin/sh
# What ddprove_add_scenarios makes of a project's scenarios: every file is a test, one that is not
# right fails the build, and cards that are missing are a skip unless they are required.
# Usage: scenario_tests.sh CONSUMER PREFIX OUT CMAKE CTEST GENERATOR CC
set -u
consumer=$1 prefix=$2 out=$3 cmake=$4 ctest=$5 generator=$6 cc=$7
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}
# No card is seen, whatever machine this is.
export CUDA_VISIBLE_DEVICES=
rm -rf "$out" && mkdir -p "$out" && cp -r "$consumer" "$out/project" && cd "$out" || exit 1

# configure FOLDER SETTING...
configure() {
    folder=$1
    shift
    "$cmake" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
        -DDDPROVE_PREFIX="$prefix" -S project -B "$folder" "$@" >"$folder.log" 2>&1
}

configure plain || fail "configure: $(cat plain.log)"
"$ctest" --test-dir plain >unbuilt 2>&1 && fail "tests pass before they are built: $(cat unbuilt)"
grep -q 'build first' unbuilt || fail "nothing says that the build is missing: $(cat unbuilt)"
"$cmake" --build plain >built 2>&1 || fail "build: $(cat built)"
"$ctest" --test-dir plain -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort >names
printf '%s\n' cards.two_cards.proc team.block_style.proc team.block_style.sim team.count team.healthy team.killed \
    team.lost.sim team.three_ranks.proc team.three_ranks.sim team_of_2.stopped >expected

cmp -s names expected || fail "tests are $(tr '\n' ' ' <names)"
"$ctest" --test-dir plain --show-only=json-v1 >shown
test "$(grep -c '".type" : "gpus"' shown)" -eq 2 || fail "not two cards are asked for: $(grep -c gpus shown)"

"$prefix/bin/ddprove" list resources >resources.json
"$ctest" --test-dir plain -L gpu --resource-spec-file "$PWD/resources.json" --no-tests=error >skipped 2>&1 ||
    fail "without cards: $(cat skipped)"
grep -q 'two_cards.proc .*Skipped' skipped || fail "without cards a test is not skipped: $(cat skipped)"

configure required -DDDPROVE_REQUIRE=cuda && "$cmake" --build required >built 2>&1 || fail "build: $(cat built)"
"$ctest" --test-dir required -L gpu --no-tests=error >red 2>&1 && fail "cards are required, and a skip is green: $(cat red)"

printf '# A key that is none.\nid: team.bad\njob: {rank: 2}\n' >project/scenarios/team/bad.yaml
"$cmake" --build plain >bad 2>&1 && fail "a file without a test passes"
grep -q 'bad.yaml:2:1:' bad || fail "the bad file is not named: $(cat bad)"

echo "$failures failures"
test "$failures" -eq 0
