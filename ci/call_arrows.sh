#!/bin/sh
# Which source calls (or names data of) which, by the symbols of a build's objects: lines "FROM TO SYMBOL".
# What stands in front of another library's functions (MPI_) is called by nobody here.
# Usage: ci/call_arrows.sh BUILD [ROOT]. Sources are those of ddpcore, reference and harness; tests are left out.
set -eu
build=$1
root=${2:-.}
find "$build/ddpcore" "$build/reference" "$build/harness" -type f -name '*.o' 2>/dev/null |
    sed -nE "s|^$build/((ddpcore\|reference\|harness)/.*)/CMakeFiles/[^/]+\.dir/(.*)\.o\$|& \1/\3|p" |
    while read -r object source; do
        # An object whose source was moved or deleted is left over from an earlier build.
        [ -e "$root/$source" ] || continue
        echo "= $source"
        nm "$object"
    done | awk '
        $1 == "=" { source = $2; next }
        NF == 3 && $2 ~ /^[TDBRVWC]$/ && $3 !~ /^MPI_/ { if (!($3 in home)) { home[$3] = source } next }
        NF == 2 && $1 == "U" { from[++count] = source; symbol[count] = $2 }
        END {
            for (i = 1; i <= count; i++) {
                to = home[symbol[i]]
                if (to != "" && to != from[i]) { print from[i], to, symbol[i] }
            }
        }'
