#!/bin/sh
# Every exhibit of museum.txt is caught by the property that is meant to catch it, and says so; what is right passes.
# Usage: museum.sh DDPROVE MUSEUM.C HEADERS OUT CC [NUMBER...]
set -u
ddprove=$1
source=$2
headers=$3
out=$4
cc=$5
shift 5
list=$(dirname "$source")/museum.txt
rm -rf "$out"
mkdir -p "$out" && cd "$out" || exit 1
failures=0
caught=0
passed=0

fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

"$cc" --version >/dev/null 2>&1 || { echo "there is no compiler $cc"; exit 77; }
while read -r number property words; do
    case $number in '#'*) continue ;; esac
    case " $* " in "  " | *" $number "*) ;; *) continue ;; esac
    "$cc" -std=gnu99 -Wall -Wextra -Werror -shared -fPIC -I"$headers" -I"$(dirname "$source")" -DBUG="$number" -o "$number.so" "$source" ||
        { fail "$number cannot be compiled"; continue; }
    worlds=1-6
    [ "$number" = 103 ] && worlds=9
    "$ddprove" coll check "./$number.so" --worlds "$worlds" --budget 300 >"$number.txt" 2>"$number.err"
    code=$?
    case $property in
    right)
        [ $code -eq 0 ] || fail "$number is right: exit $code: $(cat "$number.txt" "$number.err")"
        passed=$((passed + 1))
        continue
        ;;
    refused)
        [ $code -eq 2 ] && grep -qF -e "$words" "$number.err" ||
            fail "$number: exit $code, \"$(cat "$number.err")\" does not say \"$words\""
        ;;
    *)
        [ $code -eq 1 ] || fail "$number: exit $code: $(cat "$number.txt" "$number.err")"
        grep -qE "^  $property +FAIL " "$number.txt" || fail "$number: $property does not fail: $(cat "$number.txt")"
        [ "$words" = - ] || grep -A 1 "^$property, smallest" "$number.txt" | grep -qF -e "$words" ||
            fail "$number: $(grep -A 1 "^$property, smallest" "$number.txt") does not say \"$words\""
        ;;
    esac
    caught=$((caught + 1))
    printf '%s %-14s %s\n' "$number" "$property" \
        "$(grep -A 1 "^$property, smallest" "$number.txt" | sed 's/.*smallest counterexample: //' | tr '\n' ' ' | cut -c 1-150)"
done <"$list"
echo "$caught wrong ones caught, $passed right ones passed, $failures failures"
[ "$failures" -eq 0 ] && [ $((caught + passed)) -gt 0 ]
