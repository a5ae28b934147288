#!/bin/sh
# The tests that the documents name exist: a filter that matches nothing passes, and shows nothing.
# Usage: commands.sh ROOT BUILD CTEST
set -u
cd "$1" || exit 1
build=$2
ctest=$3
failures=0
tried=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

# "unit_ddp --gtest_filter='ddp_join.*'"; a placeholder in <> stands for every name.
grep -ho "unit_[a-z_<>]* --gtest_filter='[^']*'" ./*.md | sort -u >"$build/doc-filters"
while read -r unit option; do
    filter=${option#--gtest_filter=\'}
    filter=${filter%\'}
    case $unit in *'<'*) continue ;; esac
    tried=$((tried + 1))
    "$build/bin/$unit" "--gtest_filter=$(echo "$filter" | sed 's/<[^>]*>/*/')" --gtest_list_tests 2>/dev/null |
        grep -q '^  ' || fail "$unit has no test $filter"
done <"$build/doc-filters"

# "ctest --test-dir build -R 'name'" and -L.
grep -ho "ctest [^\`]* -[RL] [^ \`]*" ./*.md | sort -u >"$build/doc-ctest"
while read -r line; do
    words=${line##* -}
    pattern=$(echo "${words#* }" | tr -d "'" | sed 's/<[^>]*>/.*/')
    tried=$((tried + 1))
    case $line in *--test-dir\ build*) ;; *) fail "no --test-dir build: $line" ;; esac
    "$ctest" --test-dir "$build" -N "-${words%% *}" "$pattern" | grep -q '^Total Tests: [1-9]' ||
        fail "no test: $line"
done <"$build/doc-ctest"

test "$tried" -ge 5 || fail "only $tried commands were found"
echo "$tried commands, $failures failures"
test "$failures" -eq 0
