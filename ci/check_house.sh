#!/bin/sh
# The shape of the tree: layers in order, no circle of files, no arrow upward, no crowded folder, invariants as
# asserts. Usage: ci/check_house.sh [BUILD], after a build of everything.
set -eu
build=${1:-build}
files_max=20
lines_per_assert=40
asserted="ddpcore/ddp ddpcore/schedule ddpcore/collective ddpcore/transport harness/sums harness/order harness/judge"
status=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# 1. ci/layers.txt is in order: a line names only folders of lines above it.
layers_in_order() {
    awk '/^[^#]*:/ {
        name = $1; sub(/:.*/, "", name)
        for (i = 2; i <= NF; i++) {
            if ($i == "*") { continue }
            known = 0
            for (above in seen) { if (index($i, above) == 1 || index(above "/", $i) == 1) { known = 1 } }
            if (!known) { printf "ci/layers.txt:%d: %s names %s, which is not above it\n", FNR, name, $i; bad = 1 }
        }
        seen[name] = 1
    }
    END { exit bad }' "$1"
}

# 2. Lines "FROM TO ..." have no circle. tsort names the members of each.
no_circle() {
    awk '{ print $1, $2 }' "$1" | sort -u >"$folder/pairs"
    tsort "$folder/pairs" >/dev/null 2>"$folder/circles" || true
    if [ -s "$folder/circles" ]; then
        echo "a circle of files ($2):"
        grep -v 'contains a loop' "$folder/circles" | sed 's/^tsort: /    /'
        return 1
    fi
}

# 3. Includes of headers, as lines "FROM TO".
include_arrows() {
    git ls-files -- 'ddpcore/*.h' 'reference/*.h' 'harness/*.h' '*.cuh' |
        xargs awk 'match($0, /^#include "[^"]+"/) { print FILENAME, substr($0, 11, RLENGTH - 11) }'
}

# 4. Folders of more sources than one story has; a reason stands in ARCHITECTURE.md as "| `FOLDER` | reason |"
# under "Large folders".
small_folders() {
    git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cc' '*.cu' '*.cuh' '*.def' |
        while read -r file; do if [ -e "$file" ]; then dirname "$file"; fi; done | sort | uniq -c |
        while read -r count name; do
            if [ "$count" -gt "$files_max" ] &&
                ! sed -n '/^## Large folders/,/^## [^L]/p' ARCHITECTURE.md | grep -q "^| \`$name\` |"; then
                echo "$name: $count files, more than $files_max, and ARCHITECTURE.md gives no reason"
            fi
        done >"$folder/large"
    cat "$folder/large"
    [ ! -s "$folder/large" ]
}

# 5. Lines of code, without comments and blank lines, for each DDP_ASSERT of a folder.
enough_asserts() {
    enough=0
    for name in $asserted; do
        awk -v name="$name" -v most="$lines_per_assert" '
            FNR == 1 { in_comment = 0 }
            {
                line = $0
                if (in_comment) {
                    if (line !~ /\*\//) { next }
                    sub(/.*\*\//, "", line); in_comment = 0
                }
                gsub(/\/\*[^*]*\*\//, "", line)
                if (line ~ /\/\*/) { in_comment = 1; sub(/\/\*.*/, "", line) }
                if (line ~ /^[ \t]*$/) { next }
                lines++
                if (line ~ /DDP_ASSERT\(/) { asserts++ }
            }
            END {
                if (asserts * most < lines) {
                    printf "%s: %d asserts in %d lines of code, fewer than one in %d\n", name, asserts, lines, most
                    exit 1
                }
            }' "$name"/*.c || enough=1
    done
    return $enough
}

layers_in_order ci/layers.txt || status=1
sh ci/call_arrows.sh "$build" >"$folder/calls"
awk -f ci/check_arrows.awk "$folder/calls" || status=1
no_circle "$folder/calls" calls || status=1
include_arrows >"$folder/includes"
no_circle "$folder/includes" includes || status=1
small_folders || status=1
enough_asserts || status=1

# Each check must be able to fail, or it proves nothing.
must_fail() {
    if "$@" >/dev/null 2>&1; then
        echo "ci/check_house.sh: '$*' let a violation pass" >&2
        status=1
    fi
}
printf 'b: a/\na:\n' >"$folder/unordered"
must_fail layers_in_order "$folder/unordered"
printf 'a b\nb c\nc a\n' >"$folder/circle"
must_fail no_circle "$folder/circle" canary
# A source of the ground that calls one of the roof.
mkdir -p "$folder/b/ddpcore/base/CMakeFiles/x.dir" "$folder/b/harness/cli/CMakeFiles/y.dir"
touch "$folder/b/ddpcore/base/ground.c" "$folder/b/harness/cli/roof.c"
echo 'void roof(void); void ground(void); void ground(void) { roof(); }' |
    cc -c -x c -o "$folder/b/ddpcore/base/CMakeFiles/x.dir/ground.c.o" -
echo 'void roof(void); void roof(void) {}' |
    cc -c -x c -o "$folder/b/harness/cli/CMakeFiles/y.dir/roof.c.o" -
sh ci/call_arrows.sh "$folder/b" "$folder/b" >"$folder/upward"
[ -s "$folder/upward" ] || { echo "ci/call_arrows.sh does not see a call" >&2; status=1; }
must_fail awk -f ci/check_arrows.awk "$folder/upward"
exit $status
