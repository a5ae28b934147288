#!/bin/sh
# `coll check` of collectives that can only be run: each that is wrong in one way fails in one property, which names it; right
# ones fail in none. Prints the matrix. Usage: conform.sh DDPROVE HEADERS SOURCE OUT CC
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/../cli/checks.sh"
ddprove=$1
headers=$2
source=$3
cc=$5
rm -rf "$4"
mkdir -p "$4" && cd "$4" || exit 1
"$cc" --version >/dev/null 2>&1 || { echo "there is no compiler $cc"; exit 77; }

# examine WHAT PROPERTY WORDS [ARGUMENT...]: it fails in that property alone, and WORDS say how. Ends with the number of failures.
examine() {
    what=$1
    property=$2
    words=$3
    shift 3
    "$cc" -w -DWHAT="${what#*-}" $kind -shared -fPIC -I "$headers" -o "$what.so" "$from" -lm
    "$ddprove" coll check "./$what.so" --worlds 2-3 --limit 4 --json "$what.json" "$@" >"$what.out" 2>"$what.err" </dev/null
    code=$?
    failed=$(python3 -c '
import json, sys
doc = json.load(open(sys.argv[1]))
print(" ".join(p["name"] for p in doc["properties"] if p["state"] == "FAIL") or "-")' "$what.json")
    echo "$what: $failed"
    if [ "$property" = - ]; then
        [ "$code" -eq 0 ] || fail "$what: exit $code: $(cat "$what.out" "$what.err")"
    else
        [ "$code" -eq 1 ] || fail "$what: exit $code, not 1: $(cat "$what.out" "$what.err")"
        grep -qE -e "$words" "$what.out" || fail "$what: \"$words\" is not said: $(cat "$what.out")"
    fi
    [ "$failed" = "$property" ] || fail "$what fails in $failed, not in $property: $(cat "$what.out")"
    return $failures
}

# They wait most of their time: some at once.
at_once=3
names=
from=$source
kind=
caught() {
    (
        failures=0
        examine "$@" >"$1.said"
        echo $? >"$1.failures"
    ) &
    names="$names $1"
    [ $(($(echo "$names" | wc -w) % at_once)) -ne 0 ] || wait
}

caught RIGHT - ''
caught POSTED - ''
caught SOUND - ''
caught CRASH ends 'rank . was ended by signal 6'
caught LATER_CRASH ends 'rank 1 was ended by signal 6'
caught HANG ends 'rank . is still in its call after 4 s' --worlds 5
caught ERROR ends 'rank .: run returned 2'
caught LOST exact 'element 0 of rank 0 is 1, not 33: the contribution of rank 1 is missing'
caught TWICE exact 'the contribution of rank 1 is in it twice'
caught NOTHING exact 'of rank 0 is -?nan, not'
caught BEHIND in_bounds 'rank 0 writes 1 bytes behind a buffer'
caught BEFORE in_bounds 'rank 0 writes [1-4] bytes before a buffer'
caught INPUT input_kept "element 0 of rank 0's input changed"
caught CLOBBER in_place 'element 0 of rank 0'
caught ALIGNED unaligned 'element 0 of rank 0'
caught MAX_IS_SUM types 'element 0 of rank 0'
caught FLUSH special_values 'element 0 of rank 0 is 0, not 4'
caught NAN_IS_ZERO special_values 'element 3 of rank 0 is'
caught UNSIGNED special_values 'element 5 of rank 0 is 0, not -0'
caught DROPPING one_tree 'lost: element 0 lacks the contribution of member 1'
caught OTHER_BITS same_bits 'element 334: rank 0 has .*, rank 1 has'
caught TURNING same_order 'elements from 1 on are added in another order'
caught BY_COUNT same_order '4 elements are added in another order than 1'
caught ARRIVAL repeatable 'call [2-6] of the same numbers gives other bits'
caught STALE back_to_back 'element 0 of rank 0'
caught LEAK no_leak 'calls leave [0-9]+ bytes and 0 descriptors behind'
caught DESCRIPTORS no_leak 'calls leave [0-9]+ bytes and 15 descriptors behind'
caught GLOBAL two_at_once 'rank .'
caught TRUSTING tells_mismatch 'rank 0 is told that all is well, though rank 1 asked for one element more'
caught IMMORTAL tells_death 'rank . waits for ever, though rank . was killed'
caught DEAF aborts 'rank . waits for ever, though rank . was not there, and the call was aborted'
caught SOUND_POSTED - ''
caught FORGETFUL aborts 'rank 0 waits for ever, though rank . was not there, and the first call had been aborted before it began'
caught IDLE aborts 'rank 0 waits for ever, though rank . was not there, and an abort had come after the call before'
caught RESTARTING aborts 'rank 0 waits for ever, though rank . was not there, and the call was aborted as soon as it was posted'
caught FREEING aborts 'rank 0 ended its process, though rank . was not there'
caught ONCE reopens 'open returned 2'
caught PICKY - ''
caught PUT_BACK input_kept "element 4 of rank 0's input changed"
# What shows only with a type, an operation, a count, a world, a root, a kind of buffer, or behind another call.
from=$(dirname "$source")/typed.c
caught typed-RIGHT - ''
caught typed-NOT_EMPTY - ''
caught typed-MULTIPLES - ''
caught typed-EVEN - ''
caught typed-EVEN_WRONG exact 'element 63 of rank 0 is 0, not' --worlds 2
caught typed-FAR exact 'element 100002 of rank 0 is 0, not' --worlds 2
caught typed-SIX exact '6 ranks, 1 element' --worlds 6
caught typed-UNCLEARED exact 'element 0 of rank 0 is' --worlds 2
caught typed-COMPRESSED rounding 'farther from the exact sum than any order of additions' --worlds 2
caught typed-FAR_HALVES exact '2 ranks, 100003 elements' --worlds 2
caught typed-HALF_BEHIND in_bounds 'rank 0 writes 1 bytes behind a buffer of f16' --worlds 2
caught typed-PLACE_BEHIND in_bounds 'rank 0 writes 1 bytes behind a buffer, in place' --worlds 2
caught typed-SHIFT_BEHIND in_bounds 'rank 0 writes 1 bytes behind a buffer, unaligned' --worlds 2
caught typed-FAR_BEHIND in_bounds 'rank 0 writes 1025 bytes behind a buffer' --worlds 2
caught typed-MIN_INPUT input_kept "element 0 of rank 0's input changed, min" --worlds 2
caught typed-LONG_HALF types 'of f16, in place, unaligned' --worlds 2
caught typed-DEMOTED types 'of f64' --worlds 2
caught typed-FLOATING types 'of i32' --worlds 2
caught typed-DOUBLE types 'of i64' --worlds 2
caught typed-NARROW_LONG types 'of i64' --worlds 2
caught typed-ZERO_MAX types 'is 0, not -[0-9]+, max' --worlds 2
caught typed-SIGNED_BYTES types 'of u8, max' --worlds 2
caught typed-GROWING back_to_back 'of rank 0 is 0, not'
caught typed-MAPPED no_leak 'calls leave 61440 bytes and 0 descriptors behind' --worlds 2
kind=-DKIND=DDPROVE_COLL_BROADCAST
caught broadcast-RIGHT - '' --worlds 4
caught broadcast-MIDDLE_ROOT exact 'element 0 of rank 0 is' --worlds 3
kind=-DKIND=DDPROVE_COLL_REDUCE_SCATTER
caught scatter-RIGHT - '' --worlds 3
caught scatter-BLOCKS input_kept "element 0 of rank 1's input changed, in place" --worlds 2
kind=-DKIND=DDPROVE_COLL_REDUCE_TO_ROOT
caught root-RIGHT - '' --worlds 3
caught root-NO_OUTPUT in_bounds 'rank 0 writes an output, though rank 1 alone has one' --worlds 2
wait
for name in $names; do
    cat "$name.said"
    failures=$((failures + $(cat "$name.failures")))
done

# The other renderings, and the core's own algorithms.
ends 1 coll check ./LOST.so --worlds 2 --junit out.xml
grep -q '<failure' out.xml || fail "JUnit has no failure: $(cat out.xml)"
grep -q 'name="counterexample" value=".*&quot;rank&quot;:0' out.xml || fail "JUnit does not say where: $(cat out.xml)"
python3 -c '
import json
doc = json.load(open("LOST.json"))
assert doc["schema"] == "ddprove.coll.conform/1" and doc["outcome"] == "FAIL"
found = [p["counterexample"] for p in doc["properties"] if p["name"] == "exact"][0]
assert (found["world"], found["count"], found["rank"], found["element"]) == (2, 1, 0, 0), found' || fail "JSON: $(cat LOST.json)"
says 'how 3 ranks add, as probes show:' coll conform ring --worlds 2-3
says 'elements 0 to 14: ((0 1) 2)' coll conform linear --worlds 3
says 'PASS' coll conform binomial_reduce --worlds 3
says 'orders and losses of messages' coll conform ring --worlds 2 --transport tcp
grep -qE '^  any_order +PASS' out || fail "orders are not judged: $(cat out)"
grep -qE '^  no_silent_loss +PASS' out || fail "losses are not judged: $(cat out)"
# A call of more than 2^31 bytes is made where there is room for it (ci/deep lab), and left out with a word where there is none.
(ulimit -v 8000000 && "$ddprove" coll conform ./RIGHT.so --full --worlds 2 >out 2>err </dev/null) ||
    fail "without room: exit $?: $(cat out err)"
grep -qE '^not tried: large, since 17408 MiB of memory are needed, [0-9]+ are free' out || fail "nothing is said of what has no room: $(cat out)"
refused 'transport is shm or tcp' coll conform ring --transport udp
refused 'a barrier has nothing that could be tried' coll conform dissemination_barrier
refused 'worlds of up to 16 ranks can be run' coll conform ring --worlds 17
refused 'has no schedules that could be looked at' coll show ./RIGHT.so
# An MPI's algorithms, where there is one: the trees show which one ran.
if mpicc --version >/dev/null 2>&1 && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    mpicc -Wall -Wextra -Werror -shared -fPIC -I "$headers" -o mpi.so "$headers/example/mpi.c"
    # An mpirun that leaves a file behind, as one does that has to be killed, and says where.
    mkdir by && real=$(command -v mpirun)
    printf '#!/bin/sh\nfolder=$OMPI_MCA_orte_tmpdir_base\necho "$folder $OMPI_MCA_btl_vader_backing_directory" >>"%s"\n: >"$folder/left"\nexec "%s" "$@"\n' \
        "$PWD/folders" "$real" >by/mpirun
    chmod +x by/mpirun
    PATH=$PWD/by:$PATH
    export PATH OMPI_MCA_coll_tuned_use_dynamic_rules=1
    OMPI_MCA_coll_tuned_allreduce_algorithm=3 "$ddprove" coll check ./mpi.so --worlds 4 --limit 20 >out 2>err </dev/null
    grep -qF 'elements 0 to 18: ((0 1) (2 3))' out || fail "recursive doubling has another tree: $(cat out err)"
    grep -qE '^all_reduce mpi: PASS' out || fail "MPI fails: $(cat out err)"
    OMPI_MCA_coll_tuned_allreduce_algorithm=4 "$ddprove" coll check ./mpi.so --worlds 4 --limit 20 >out 2>err </dev/null
    grep -qF 'elements 5 to 9: (0 ((1 2) 3))' out || fail "the ring has another tree: $(cat out err)"
    # Ranks that hang are ended; neither their memory nor their files stay.
    [ -s folders ] || fail "mpirun is given no folder"
    while read -r folder memory; do
        [ -n "$folder" ] && [ ! -e "$folder" ] || fail "left behind: $(find "$folder" | head)"
        [ "$memory" = "$folder" ] || fail "the ranks' memory is in $memory, not in $folder"
    done <folders
fi
echo "$failures failures"
test "$failures" -eq 0
