#!/bin/sh
# From `coll new` to a job: the template is compiled by its own line, proved, shown, broken, and run on both drivers.
# Usage: new.sh DDPROVE SCENARIO OUT CC
set -u
# shellcheck source=tests/cli/checks.sh
. "$(cd "$(dirname "$0")" && pwd)/../cli/checks.sh"
ddprove=$1
scenario=$2
cc=$4
rm -rf "$3"
mkdir -p "$3" && cd "$3" || exit 1
"$cc" --version >/dev/null 2>&1 || { echo "there is no compiler $cc"; exit 77; }

refused 'is no name for an algorithm' coll new 'Not this'
says 'next: cc -shared -fPIC -o mine/mine.so mine/mine.c && ddprove coll check ./mine/mine.so' coll new mine
refused 'mine/mine.c is there already' coll new mine
refused 'cannot open shared object file' coll check ./mine/mine.so
for standard in c99 c17; do
    "$cc" -std=$standard -Wall -Wextra -Wpedantic -Werror -shared -fPIC -o mine/mine.so mine/mine.c ||
        fail "the template is no $standard"
done
says 'all_reduce mine: PASS' coll check ./mine/mine.so --worlds 1-5
says 'out[0..2] = ((0 1) 2)' coll show ./mine/mine.so --worlds 3
printf 'int nothing;\n' >other.c
"$cc" -shared -fPIC -o other.so other.c
refused 'exports no ddprove_coll_plugin' coll check ./other.so

# The other form.
says 'next: cc -shared -fPIC -o mover/mover.so mover/mover.c && ddprove coll check ./mover/mover.so' coll new mover --opaque
for standard in c99 c17; do
    "$cc" -std=$standard -Wall -Wextra -Wpedantic -Werror -shared -fPIC -o mover/mover.so mover/mover.c ||
        fail "the template of the other form is no $standard"
done
says 'all_reduce mover: PASS, run by 1 to 4 ranks' coll check ./mover/mover.so --worlds 1-4
grep -qF 'elements 0 to 18: (((0 1) 2) 3)' out || fail "its tree is not said: $(cat out)"
says '1 passed, 0 failed' run "$scenario" --collective ./mover/mover.so --out mover

# A job: same bits as the reference; the order of its sums is read off its own schedules.
refused './none.so: No such file or directory; name a shared object' run "$scenario" --collective ./none.so
says '2 passed, 0 failed' run "$scenario" --collective ./mine/mine.so --out right
for driver in sim proc; do
    grep -rq 'algorithm=mine' right/*/$driver/schedules || fail "$driver ran another algorithm"
    ends 0 run right/*/$driver/plan.yaml --driver $driver --out again
done

# A wrong one: the sum is sent before the last rank's part is in it.
sed 's/ddprove_coll_send(sink, last_round, rank, out, last, NONE)/ddprove_coll_send(sink, last_round, rank, out, NONE, NONE)/' \
    mine/mine.c >mine/wrong.c
cmp -s mine/mine.c mine/wrong.c && fail "the template has changed: nothing is wrong with wrong.c"
"$cc" -shared -fPIC -o mine/wrong.so mine/wrong.c
ends 1 coll check ./mine/wrong.so --worlds 1-3 --svg wrong.svg --json wrong.json --junit wrong.xml
python3 - <<'END' || fail "JUnit does not say where: $(cat wrong.xml)"
import json, xml.etree.ElementTree as tree
said = [json.loads(p.get("value")) for p in tree.parse("wrong.xml").iter("property") if p.get("name") == "counterexample"]
assert [(s["world"], s["count"], s["rank"], s["step"]) for s in said][:1] == [(2, 1, 0, 2)], said
END
grep -qE '^  no_hazard +FAIL ' out || fail "no hazard is seen: $(cat out)"
grep -qF 'no_hazard, moment by moment' out || fail "it is not drawn: $(cat out)"
grep -qF '</svg>' wrong.svg || fail "no picture: $(cat out)"
ends 1 run "$scenario" --collective ./mine/wrong.so --out wrong
grep -q '^FAIL  *sim .* VALUE.CORRUPTED' out || fail "sim does not say what is wrong: $(cat out)"
grep -q '^FAIL  *proc .* VALUE.CORRUPTED' out || fail "proc does not say what is wrong: $(cat out)"

# One that crashes when it is asked takes nothing down.
sed 's/    uint64_t step = q->segment/    if (q->size > 1) { *(volatile int *)0 = 1; }\n&/' mine/mine.c >mine/crash.c
"$cc" -shared -fPIC -w -o mine/crash.so mine/crash.c
ends 1 coll check ./mine/crash.so --worlds 1-2
grep -qF 'the plug-in was ended by signal 11' out || fail "the crash is not said: $(cat out)"
ends 1 run "$scenario" --collective ./mine/crash.so --out crash
grep -qF 'the plug-in was ended by signal 11' out || fail "the crash is not said: $(cat out)"

echo "$failures failures"
test "$failures" -eq 0
