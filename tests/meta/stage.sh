#!/usr/bin/env bash
# What ci/test shows of a stage that failed: the output of the tests that failed, and no others.
# Usage: stage.sh OUT
rm -rf "$1"
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
# shellcheck source=ci/lib.sh
. "$(dirname "$0")/../../ci/lib.sh"
logs=$out

{
    echo 'cmake_minimum_required(VERSION 3.22)'
    echo 'project(failing NONE)'
    echo 'enable_testing()'
    echo 'add_test(NAME good COMMAND ${CMAKE_COMMAND} -E echo "all is well")'
    echo 'add_test(NAME bad COMMAND ${CMAKE_COMMAND} -E cat reason.txt ${CMAKE_SOURCE_DIR}/missing)'
    for i in {1..50}; do
        echo "add_test(NAME skipped_$i COMMAND \${CMAKE_COMMAND} -E false)"
        echo "set_tests_properties(skipped_$i PROPERTIES SKIP_RETURN_CODE 1)"
    done
} >"$out/CMakeLists.txt"
printf 'line 12: expected 3, got 4\n' >"$out/reason.txt"
cmake -S "$out" -B "$out" >/dev/null || exit 1

shown=$(stage failing ctest --test-dir "$out" --output-on-failure)
failures=0
expect() {
    grep -q "$1" <<<"$shown" || { echo "FAIL: not shown: $1" && failures=$((failures + 1)); }
}
refuse() {
    ! grep -q "$1" <<<"$shown" || { echo "FAIL: shown: $1" && failures=$((failures + 1)); }
}
expect 'FAIL .* 1 passed, 1 failed'
expect 'line 12: expected 3, got 4'
expect '[0-9] - bad (Failed)'
refuse 'all is well'
refuse 'skipped_7'
((failures == 0)) || { echo "$shown" && exit 1; }
