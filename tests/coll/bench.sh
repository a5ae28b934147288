#!/bin/sh
# `coll bench`: what it measures is right or is said to be wrong, and its table, JSON and picture say the same.
# Usage: bench.sh DDPROVE HEADERS SOURCE OUT CC
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
small="-b 256 -e 16K -f 8 -n 5 -w 1"

# Every kind, worlds that are no power of two, more ranks than cores.
# shellcheck disable=SC2086
for ranks in 1 3 5; do
    ends 0 coll bench ring two_shot one_shot rabenseifner double_binary_tree hierarchical zero_copy copy ring_reduce_scatter \
        bruck_all_gather binomial_broadcast binomial_reduce pairwise_all_to_all dissemination_barrier \
        --ranks $ranks $small --json $ranks.json --svg $ranks.svg
    [ "$(grep -c 'Out of bounds values : 0 OK' out)" -eq 13 ] || fail "$ranks ranks: $(cat out)"
    grep -q '</svg>' $ranks.svg || fail "$ranks ranks: no picture"
    python3 - $ranks <<'END' || fail "$ranks ranks: JSON: $(cat $ranks.json)"
import json, sys
ranks = int(sys.argv[1])
doc = json.load(open("%d.json" % ranks))
assert doc["schema"] == "ddprove.coll.bench/1" and doc["outcome"] == "PASS" and doc["ranks"] == ranks
rows = {a["name"]: a for a in doc["algorithms"]}
assert len(rows) == 14
assert rows["ring"]["checked"] == "bits" and rows["zero_copy"]["checked"] == "bound"
assert rows["dissemination_barrier"]["checked"] == "no"
for name in ("ring", "two_shot", "ring_reduce_scatter"):
    assert len(rows[name]["rows"]) == 3
    for row in rows[name]["rows"]:
        time = row["out_of_place"]
        assert time["wrong"] == 0 and 0 < time["min_us"] <= time["median_us"]
        factor = (2 if name != "ring_reduce_scatter" else 1) * (ranks - 1) / ranks
        assert abs(time["algbw_gbps"] * time["median_us"] * 1e3 - row["size"]) < 1e-6 * row["size"]
        assert abs(time["busbw_gbps"] - factor * time["algbw_gbps"]) < 1e-9 + 1e-9 * time["algbw_gbps"]
        assert row["size"] % (4 * ranks) == 0 or name != "ring_reduce_scatter"
END
done
grep -q '^# ahead, measured  : ' out || fail "nobody is ahead: $(cat out)"

# shellcheck disable=SC2086
ends 0 coll bench ring two_shot --ranks 3 $small --transport tcp --json tcp.json
grep -q '^# 3 ranks, TCP' out || fail "the transport is not said: $(cat out)"
grep -q '"transport": "tcp"' tcp.json || fail "JSON has another transport"

# Not compared: said so.
# shellcheck disable=SC2086
ends 0 coll bench ring $small -c 0 --json unchecked.json
grep -q 'N/A' out || fail "it says that it compared: $(cat out)"
grep -q '"checked": "no"' unchecked.json || fail "JSON says that it compared"

# Plug-ins of both forms.
says 'next:' coll new mine
"$cc" -shared -fPIC -o mine.so mine/mine.c
# shellcheck disable=SC2086
says 'every bit of every iteration compared' coll bench ./mine.so --ranks 3 $small
compile() {
    "$cc" -Wall -Wextra -Werror -DWHAT="$1" -shared -fPIC -I "$headers" -o "$1.so" "$source"
}
# shellcheck disable=SC2086
for what in RIGHT POSTED; do
    compile $what
    ends 0 coll bench ./$what.so --ranks 3 $small
    grep -q 'Out of bounds values : 0 OK' out || fail "$what: $(cat out)"
done
# shellcheck disable=SC2086
for what in LOST TWICE NOTHING; do
    compile $what
    ends 1 coll bench ./$what.so --ranks 3 $small --json $what.json
    grep -q 'FAILED' out || fail "$what is not noticed: $(cat out)"
    grep -q '"outcome": "FAIL"' $what.json || fail "$what: JSON does not say so"
done
grep -q '# wrong: .* rank 0 from element 0 on' out || fail "where is not said: $(cat out)"
# shellcheck disable=SC2086
for what in CRASH LATER_CRASH; do
    compile $what
    ends 3 coll bench ./$what.so ring --ranks 3 $small
    grep -q 'not measured: rank . was ended by signal 6' out || fail "$what: the crash is not said: $(cat out)"
    grep -q 'Out of bounds values : 0 OK' out || fail "$what: it took the next one down: $(cat out)"
done
# A wrong schedule is refused, since the bits that follow from it are no measure.
sed 's/DDPROVE_COLL_RECV_REDUCE, rank - 1/DDPROVE_COLL_RECV, rank - 1/' mine/mine.c >mine/lost.c
cmp -s mine/mine.c mine/lost.c && fail "the template has changed: nothing is wrong with lost.c"
"$cc" -shared -fPIC -o lost.so mine/lost.c
# shellcheck disable=SC2086
ends 3 coll bench ./lost.so --ranks 3 $small
grep -q 'not measured: it is wrong, see ddprove coll check' out || fail "a wrong schedule is measured: $(cat out)"

# What was learned. Two algorithms of 5 ranks add in different orders, so the bits tell which one ran.
refused 'collectives.txt is not there; ddprove coll tune learns it' coll bench tuned --out cache
says 'ranks 2 bytes ' coll tune --ranks 2 -b 1K -e 8K -f 8 -n 3 --out cache
# shellcheck disable=SC2086
refused 'nothing was learned for 5 ranks; ddprove coll tune --ranks 5 learns it' coll bench tuned --ranks 5 $small --out cache
for line in 'ranks 5 bytes 1024 algorithm one_shot segment 0' 'ranks 5 bytes 9000 algorithm ring segment 512'; do
    echo "$line" >>cache/collectives.txt
done
# shellcheck disable=SC2086
ends 0 coll bench tuned --ranks 5 $small --json tuned.json --out cache
python3 - <<'END' || fail "what was learned is not used: $(cat tuned.json)"
import json
rows = json.load(open("tuned.json"))["algorithms"][0]["rows"]
assert [(r["algorithm"], r["segment"]) for r in rows] == [("one_shot", 0), ("ring", 512), ("ring", 512)], rows
END
says 'ranks 2 bytes ' coll tune --ranks 5 -b 1K -e 8K -f 8 -n 3 --out cache
grep -q '^ranks 5 bytes 8192 ' cache/collectives.txt || fail "5 ranks were not learned anew: $(cat cache/collectives.txt)"
cp cache/collectives.txt kept.txt
sed -i 's/^machine /machine another /' cache/collectives.txt
refused 'was learned on "another' coll bench tuned --out cache
refused 'was learned on "another' coll tune --out cache
says 'ranks 2 bytes ' coll tune --anew -b 1K -e 8K -f 8 -n 3 --out cache
sed 's/algorithm [a-z0-9_]*/algorithm rong/' kept.txt >cache/collectives.txt
refused 'line 3: there is no all-reduce "rong"' coll bench tuned --out cache

# MPI's own, where there is one.
if mpicc --version >/dev/null 2>&1 && mpirun --version >/dev/null 2>&1; then
    mpicc -Wall -Wextra -Werror -shared -fPIC -I "$headers" -o mpi.so "$headers/example/mpi.c"
    # shellcheck disable=SC2086
    ends 0 coll bench ./mpi.so --ranks 3 $small
    grep -q 'Out of bounds values : 0 OK' out || fail "mpi: $(cat out)"
fi

refused 'did you mean "ring"' coll bench rin
refused 'must be 4 <= b <= e' coll bench ring -b 8K -e 4K
refused '"4Q" is no size: bytes, as 512, 32K, 4M or 1G' coll bench ring -b 4Q
refused 'can be measured' coll bench ring --ranks 65
# Without a home there is nothing that was learned.
# shellcheck disable=SC2086
env -u HOME -u XDG_CACHE_HOME "$ddprove" coll bench ring $small >out 2>err || fail "it needs a home: $(cat err)"
env -u HOME -u XDG_CACHE_HOME "$ddprove" coll tune >out 2>err && fail "it learns and keeps nothing"
grep -q 'says where to keep what is learned' err || fail "why not is not said: $(cat err)"
echo "$failures failures"
test "$failures" -eq 0
